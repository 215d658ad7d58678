"""What is kept byte for byte, and what is changed, named in ``ops``, and looks as it has to."""

from __future__ import annotations

import hashlib
import io
import struct
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from action_reward_models.schemas.images import CheckedImage, ImageChecker, sniff
from PIL import Image

if TYPE_CHECKING:
    from tests.schemas.conftest import Pictures

Build = Callable[["Pictures"], bytes]


def is_kept(data: bytes) -> CheckedImage:
    image = ImageChecker().check(data)
    assert image.data is data
    assert image.ops == ()
    assert image.sha256 == hashlib.sha256(data).hexdigest()
    with Image.open(io.BytesIO(data)) as opened:
        assert (image.width, image.height) == opened.size
        opened.load()
    return image


def pixels(data: bytes, mode: str = "RGB") -> bytes:
    with Image.open(io.BytesIO(data)) as opened:
        return opened.convert(mode).tobytes()


def is_changed(data: bytes, *ops: str) -> CheckedImage:
    image = ImageChecker().check(data)
    assert image.ops == ops
    assert image.media_type == "image/png"
    assert image.sha256 != hashlib.sha256(data).hexdigest()
    assert ImageChecker().check(data) == image, "the same bytes must come out twice"
    again = is_kept(image.data)
    assert (again.width, again.height, again.sha256) == (image.width, image.height, image.sha256)
    return image


# --- kept ---

KEPT: dict[str, Build] = {
    "rgb": lambda p: p.png(),
    "rgb in tiny idats": lambda p: p.png(pieces=10**6),
    "rgb with an empty idat": lambda p: p.png(tail=p.chunk(b"IDAT")),
    "gray": lambda p: p.png(colour=0),
    "gray 1": lambda p: p.png(33, 7, 1, 0),
    "gray 2": lambda p: p.png(33, 7, 2, 0),
    "palette": lambda p: p.png(4, 4, colour=3, raw=p.solid(4, 4, b"\2"), head=p.plte),
    "palette 2 bits": lambda p: p.png(5, 3, 2, 3, raw=(b"\0\x1b\x00") * 3, head=p.plte),
    "opaque palette trns": lambda p: p.png(
        4, 4, colour=3, raw=p.solid(4, 4, b"\2"), head=p.plte + p.chunk(b"tRNS", b"\0\xff")
    ),
    "unused rgb key": lambda p: p.png(4, 4, raw=p.solid(4, 4, b"abc"), head=p.chunk(b"tRNS", b"\0a\0b\0d")),
    "unused gray 2 key": lambda p: p.png(4, 4, 2, 0, raw=(b"\0\x55") * 4, head=p.chunk(b"tRNS", b"\0\2")),
    "opaque rgba": lambda p: p.png(4, 4, colour=6, raw=p.solid(4, 4, b"abc\xff")),
    "opaque gray alpha": lambda p: p.png(4, 4, colour=4, raw=p.solid(4, 4, b"a\xff")),
    "adam7": lambda p: p.png(9, 9, raw=p.adam7_raw(9, 9), interlace=1),
    "adam7 1 x 1": lambda p: p.png(1, 1, raw=p.adam7_raw(1, 1), interlace=1),
    "adam7 3 x 200": lambda p: p.png(3, 200, raw=p.adam7_raw(3, 200), interlace=1),
    "larger than a piece": lambda p: p.png(700, 500),
    "metadata": lambda p: p.png(
        head=p.chunk(b"gAMA", bytes(4)) + p.chunk(b"tEXt", b"k\0v"), tail=p.chunk(b"tIME", bytes(7))
    ),
    "text": lambda p: p.png(
        head=p.chunk(b"iTXt", b"k\0\0\0\0\0v"), tail=p.chunk(b"zTXt", b"k\0\0" + zlib.compress(b"v"))
    ),
    "upright exif": lambda p: p.png(head=p.chunk(b"eXIf", p.rotated_exif.replace(b"\0\6", b"\0\1"))),
    "jpeg": lambda p: p.jpeg(),
    "gray jpeg": lambda p: p.jpeg("L"),
    "progressive jpeg": lambda p: p.jpeg(progressive=True),
    "jpeg with restarts": lambda p: p.jpeg(restart_marker_rows=1),
    "jpeg comment with EOI": lambda p: p.jpeg(comment=b"\xff\xd9"),
    "gif": lambda p: p.gif(),
    "webp": lambda p: p.webp(),
    "lossy webp": lambda p: p.saved(p.picture(), "WEBP", quality=50),
    "opaque alpha webp": lambda p: p.saved(p.picture("RGBA"), "WEBP", lossless=True, exact=True),
}


@pytest.mark.parametrize("build", KEPT.values(), ids=KEPT.keys())
def test_bytes_are_kept(pictures: Pictures, build: Build) -> None:
    data = build(pictures)
    assert is_kept(data).media_type == sniff(data)


def test_a_jpeg_scan_that_stops_early_is_not_seen(pictures: Pictures) -> None:
    """The documented limit: libjpeg fills up with grey, and nothing Pillow shows tells the two apart."""
    whole = pictures.saved(Image.effect_noise((200, 200), 60), "JPEG")
    is_kept(whole[: len(whole) // 2] + b"\xff\xd9")


# --- changed ---


def test_transparent_pixels_become_white(pictures: Pictures) -> None:
    raw = b"\0" + b"\x10\x20\x30\xff" + b"\x10\x20\x30\x00" + b"\x00\x00\x00\x80"
    image = is_changed(pictures.png(3, 1, colour=6, raw=raw), "flatten_white")
    assert pixels(image.data) == b"\x10\x20\x30" + b"\xff\xff\xff" + b"\x7f\x7f\x7f"


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda p: p.png(2, 1, colour=4, raw=b"\0\x50\xff\x50\x00"), b"\x50\x50\x50\xff\xff\xff"),
        (
            lambda p: p.png(2, 1, colour=3, raw=b"\0\0\1", head=p.plte + p.chunk(b"tRNS", b"\xff\0")),
            b"\xff\0\0\xff\xff\xff",
        ),
        (
            lambda p: p.png(2, 1, colour=3, raw=b"\0\0\1", head=p.plte + p.chunk(b"tRNS", b"\x80")),
            b"\xff\x7f\x7f\0\xff\0",
        ),
        (lambda p: p.png(2, 1, colour=2, raw=b"\0abcdef", head=p.chunk(b"tRNS", b"\0a\0b\0c")), b"\xff\xff\xffdef"),
        (lambda p: p.png(2, 1, colour=0, raw=b"\0ab", head=p.chunk(b"tRNS", b"\0a")), b"\xff\xff\xffbbb"),
        (lambda p: p.png(2, 1, 2, 0, raw=b"\0\x60", head=p.chunk(b"tRNS", b"\0\1")), b"\xff\xff\xff\xaa\xaa\xaa"),
        (lambda p: p.png(2, 1, 1, 0, raw=b"\0\x40", head=p.chunk(b"tRNS", b"\0\0")), b"\xff\xff\xff\xff\xff\xff"),
    ],
    ids=["gray alpha", "palette", "half palette", "rgb key", "gray key", "gray 2 key", "gray 1 key"],
)
def test_every_kind_of_transparency_is_flattened(pictures: Pictures, build: Build, expected: bytes) -> None:
    assert pixels(is_changed(build(pictures), "flatten_white").data) == expected


@pytest.mark.parametrize(
    ("colour", "samples", "expected"),
    [
        (0, (0x1234, 0xFF80), b"\x12\x12\x12\xff\xff\xff"),
        (2, (0x01FF, 0x0200, 0xABCD, 0xFFFF, 0x0100, 0x00FF), b"\x01\x02\xab\xff\x01\x00"),
        (4, (0x12FF, 0xFFFF, 0x8000, 0xFFFF), b"\x12\x12\x12\x80\x80\x80"),
        (6, (0x01FF, 0x0200, 0xABCD, 0xFFFF, 0x0100, 0x00FF, 0x8080, 0xFF01), b"\x01\x02\xab\x01\x00\x80"),
    ],
)
def test_16_bits_are_cut_to_the_high_byte(
    pictures: Pictures, colour: int, samples: tuple[int, ...], expected: bytes
) -> None:
    raw = b"\0" + struct.pack(f">{len(samples)}H", *samples)
    image = is_changed(pictures.png(2, 1, 16, colour, raw=raw), "depth_8")
    assert pixels(image.data) == expected


@pytest.mark.parametrize("orientation", range(2, 9))
def test_exif_orientation_is_applied(pictures: Pictures, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = is_changed(pictures.jpeg(exif=exif), "exif_transpose")
    assert (image.width, image.height) == ((24, 40) if orientation >= 5 else (40, 24))
    assert sniff(image.data) == "image/png"


@pytest.mark.parametrize("orientation", [0, 1, 9])
def test_other_orientations_keep_the_bytes(pictures: Pictures, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    is_kept(pictures.jpeg(exif=exif))


def test_orientation_of_a_png_counts_wherever_it_stands(pictures: Pictures) -> None:
    xmp = pictures.chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + b'<x tiff:Orientation="6"/>')
    upright = pictures.png(2, 1, raw=b"\0abcdef")
    exif = pictures.chunk(b"eXIf", pictures.rotated_exif)
    for data in (
        pictures.png(2, 1, raw=b"\0abcdef", head=exif),
        pictures.png(2, 1, raw=b"\0abcdef", tail=exif),
        pictures.png(2, 1, raw=b"\0abcdef", head=xmp),
    ):
        image = is_changed(data, "exif_transpose")
        assert (image.width, image.height) == (1, 2)
        assert pixels(image.data) == pixels(upright)


def test_cmyk_jpeg_becomes_rgb(pictures: Pictures) -> None:
    image = is_changed(pictures.jpeg("CMYK"), "rgb")
    difference = zip(pixels(image.data), pictures.picture().tobytes(), strict=True)
    assert max(abs(one - other) for one, other in difference) < 40


def test_apng_keeps_the_still_image_byte_for_byte(pictures: Pictures) -> None:
    text = pictures.chunk(b"tEXt", b"k\0v")
    still = pictures.png(head=text)
    image = is_changed(pictures.png(head=text + pictures.animation, tail=pictures.later_frame), "first_frame")
    assert image.data == still  # no re-encoding: the animation's chunks are dropped


def test_apng_with_transparency_is_stripped_and_flattened(pictures: Pictures) -> None:
    raw = pictures.solid(30, 42, b"abc\0")
    data = pictures.png(colour=6, raw=raw, head=pictures.animation, tail=pictures.later_frame)
    image = is_changed(data, "first_frame", "flatten_white")
    assert set(pixels(image.data)) == {255}


@pytest.mark.parametrize("build", [lambda p: p.gif(3), lambda p: p.webp(3)], ids=["gif", "webp"])
def test_animations_are_cut_to_the_first_frame(pictures: Pictures, build: Build) -> None:
    data = build(pictures)
    image = is_changed(data, "first_frame")
    assert pixels(image.data) == pixels(data)
    assert (image.width, image.height) == (40, 24)


def test_transparent_gif_is_flattened(pictures: Pictures) -> None:
    frame = Image.new("P", (2, 1))
    frame.putpalette([0, 0, 0, 9, 9, 9])
    frame.putpixel((1, 0), 1)
    image = is_changed(pictures.saved(frame, "GIF", transparency=0), "flatten_white")
    assert pixels(image.data) == b"\xff\xff\xff\x09\x09\x09"


def test_transparent_webp_is_flattened(pictures: Pictures) -> None:
    data = pictures.saved(Image.new("RGBA", (3, 3), (1, 2, 3, 0)), "WEBP", lossless=True)
    assert set(pixels(is_changed(data, "flatten_white").data)) == {255}
