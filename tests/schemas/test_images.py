"""What holds for pictures of every kind: limits, what a checker remembers, content against name, random damage."""

from __future__ import annotations

import base64
import io
import pickle
import random
import warnings
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.images import ImageChecker, ImageError, Limits, decode_data_url, measured, sniff
from PIL import Image

if TYPE_CHECKING:
    from tests.schemas.conftest import Pictures

Build = Callable[["Pictures"], bytes]


# --- limits and refusals ---


def test_too_many_bytes_come_before_the_format() -> None:
    with pytest.raises(ImageError, match="image of 2000 bytes, at most 1999") as caught:
        ImageChecker(Limits(max_bytes=1999)).check(b"x" * 2000)
    assert caught.value.reason == "too_many_bytes"


def test_a_re_encoded_image_keeps_the_byte_limit(pictures: Pictures) -> None:
    noise = pictures.png(60, 60, 16, 2)  # 8-bit noise, but no smaller than the limit once written anew
    data = pictures.png(60, 60, 16, 2, raw=b"".join(b"\0" + random.Random(1).randbytes(180) * 2 for _ in range(60)))
    assert len(data) < 4000 < len(ImageChecker().check(noise).data)
    limited = ImageChecker(Limits(max_bytes=len(noise) // 4))
    with pytest.raises(ImageError) as caught:
        limited.check(noise)
    assert caught.value.reason == "too_many_bytes"


def test_limits_are_inclusive(pictures: Pictures) -> None:
    strict = ImageChecker(Limits(max_bytes=len(pictures.png()), max_pixels=30 * 42, max_aspect=1.4))
    assert strict.check(pictures.png()).ops == ()
    assert ImageChecker().check(pictures.png(1, 200, 8, 0)).height == 200


def test_image_errors_cross_processes() -> None:
    error = pickle.loads(pickle.dumps(ImageError("cut", reason="truncated", where="a.jsonl:3")))
    assert (str(error), error.reason) == ("a.jsonl:3: cut", "truncated")
    assert isinstance(error, ArmError)


# --- memory of the checker ---


def test_a_repeated_image_is_not_decoded_again(pictures: Pictures, monkeypatch: pytest.MonkeyPatch) -> None:
    checker = ImageChecker()
    plain, broken = pictures.png(), pictures.broken_stream()
    clear = pictures.png(2, 2, colour=6, raw=pictures.solid(2, 2, b"abc\0"))
    first = [checker.check(plain), checker.check(clear)]
    with pytest.raises(ImageError) as refused:
        checker.check(broken)

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("decoded again")

    monkeypatch.setattr(zlib, "decompressobj", forbidden)
    monkeypatch.setattr(Image, "open", forbidden)
    again = bytes(bytearray(plain))
    assert [checker.check(again), checker.check(clear)] == first
    assert checker.check(again).data is again, "the bytes given are returned, none are stored"
    with pytest.raises(ImageError) as repeated:
        checker.check(broken)
    assert repeated.value is not refused.value


def test_no_bytes_are_remembered_for_unchanged_images(pictures: Pictures) -> None:
    checker = ImageChecker()
    data = pictures.png(700, 500)
    checker.check(data)
    assert len(pickle.dumps(checker._known)) < 1000 < len(data)


# --- content and data URLs ---


@pytest.mark.parametrize(
    ("build", "media_type"),
    [
        (lambda p: p.png(), "image/png"),
        (lambda p: p.jpeg(), "image/jpeg"),
        (lambda p: p.webp(), "image/webp"),
        (lambda p: p.gif(), "image/gif"),
        (lambda _: b"RIFF", None),
    ],
    ids=["png", "jpeg", "webp", "gif", "riff"],
)
def test_sniff_reads_content(pictures: Pictures, build: Build, media_type: str | None) -> None:
    assert sniff(build(pictures)) == media_type


@pytest.mark.parametrize(("size", "reason"), [
    ((8000, 6000), None), ((8000, 6251), "too_many_pixels"), ((30_000, 30_000), "too_many_pixels"),
    ((2000, 9), "aspect_ratio"),
])  # fmt: skip
def test_what_a_header_says_is_measured_within_the_limits(size: tuple[int, int], reason: str | None) -> None:
    """A published file may hold a picture that no build lets through: some kilobytes that fill a browser's memory."""
    data = io.BytesIO()
    Image.new("1", (1, 1)).save(data, "PNG")
    head = b"IHDR" + size[0].to_bytes(4) + size[1].to_bytes(4) + b"\x01\0\0\0\0"
    grown = data.getvalue()[:12] + head + zlib.crc32(head).to_bytes(4) + data.getvalue()[33:]
    if reason is None:
        assert measured(grown) == ("image/png", *size)
        return
    with pytest.raises(ImageError) as caught:
        measured(grown)
    assert caught.value.reason == reason


def data_url(data: bytes, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def test_a_wrong_declared_type_does_not_matter(pictures: Pictures) -> None:
    image = ImageChecker().check(decode_data_url(data_url(pictures.jpeg(), "image/png")))
    assert image.media_type == "image/jpeg"


@pytest.mark.parametrize("media_type", ["image/png", "image/JPEG", "image/svg+xml", "image/x-icon;charset=utf-8"])
def test_data_urls_of_any_image_type_are_decoded(media_type: str) -> None:
    for length in range(5):
        assert decode_data_url(data_url(b"\0\xff<>!"[:length], media_type)) == b"\0\xff<>!"[:length]


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("", "not a base64 data URL"),
        ("https://example.org/a.png", "https://example.org"),
        ("data:text/html;base64,AAAA", "text/html"),
        ("data:image/png,AAAA", "not a base64"),
        ("data:image/png;base64;AAAA", "not a base64"),
        ("data:image/png;base64,AAA", "padding"),
        ("data:image/png;base64,AAAA=", "padding"),
        ("data:image/png;base64,AAAA====", "padding"),
        ("data:image/png;base64,AA==AAAA", "damaged"),
        ("data:image/png;base64,AA\nAA", "damaged"),
        ("data:image/png;base64, AAAA", "damaged"),
        ("data:image/png;base64,AAAA\n", "damaged"),
        ("data:image/png;base64,AA-_", "damaged"),
        ("data:image/png;base64,AA%3D%3D", "damaged"),
        ("data:image/png;base64,ＡＡＡＡ", "damaged"),
    ],
)
def test_bad_data_urls(url: str, part: str) -> None:
    with pytest.raises(ImageError) as caught:
        decode_data_url(url)
    assert caught.value.reason == "bad_data_url"
    assert part in caught.value.message


def test_a_long_data_url_is_refused_by_its_length() -> None:
    limits = Limits(max_bytes=100)
    for length in (98, 99, 100):
        assert decode_data_url(data_url(bytes(length)), limits) == bytes(length)
    with pytest.raises(ImageError, match="101 bytes, at most 100") as caught:
        decode_data_url("data:image/png;base64," + "!" * 132 + "AAA=", Limits(max_bytes=100))
    assert caught.value.reason == "too_many_bytes"


# --- random damage ---


def damaged(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    kind = rng.randrange(4)
    if kind == 0:
        return bytes(out[: rng.randrange(len(out))])
    if kind == 1:
        start = rng.randrange(len(out))
        del out[start : start + rng.randint(1, 8)]
        return bytes(out)
    for _ in range(rng.randint(1, 4)):
        out[rng.randrange(len(out))] = rng.randrange(256)
    return bytes(out)


def with_valid_crcs(data: bytes) -> bytes:
    """Repair the CRCs, so that the damage gets past them."""
    out, offset = bytearray(data), 8
    while offset + 12 <= len(out):
        end = offset + 12 + int.from_bytes(out[offset : offset + 4], "big")
        if end > len(out):
            break
        out[end - 4 : end] = zlib.crc32(out[offset + 4 : end - 4]).to_bytes(4, "big")
        offset = end
    return bytes(out)


SEEDS: dict[str, tuple[Build, Callable[[bytes], bytes]]] = {
    "png": (lambda p: p.png(12, 9), bytes),
    "png with valid crcs": (lambda p: p.png(12, 9), with_valid_crcs),
    "png with metadata": (
        lambda p: p.png(
            *(12, 9, 8, 3),
            raw=p.solid(12, 9, b"\1"),
            head=p.plte + p.chunk(b"tRNS", b"\0") + p.chunk(b"eXIf", p.rotated_exif) + p.chunk(b"gAMA", bytes(4)),
            tail=p.chunk(b"zTXt", b"k\0\0" + zlib.compress(b"v")),
        ),
        with_valid_crcs,
    ),
    "apng": (lambda p: p.png(30, 42, head=p.animation, tail=p.later_frame), with_valid_crcs),
    "jpeg": (lambda p: p.jpeg(exif=b"Exif\0\0" + p.rotated_exif), bytes),
    "gif": (lambda p: p.gif(2), bytes),
    "webp": (lambda p: p.webp(), bytes),
    "animated webp": (lambda p: p.webp(2), bytes),
}


@pytest.mark.parametrize(("build", "repair"), SEEDS.values(), ids=SEEDS.keys())
def test_random_damage_is_refused_or_decodes(
    pictures: Pictures, build: Build, repair: Callable[[bytes], bytes]
) -> None:
    rng = random.Random(7)
    good, checker, accepted = build(pictures), ImageChecker(), 0
    for _ in range(300):
        data = repair(damaged(good, rng))
        try:
            image = checker.check(data)
        except ImageError:
            continue
        accepted += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow remarks on odd metadata of files it decodes
            with Image.open(io.BytesIO(image.data)) as opened:
                opened.load()
                assert opened.size == (image.width, image.height)
    assert accepted < 300
