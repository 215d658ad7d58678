"""What is kept byte for byte, what is changed and named, and what is refused with which reason."""

from __future__ import annotations

import base64
import io
import pickle
import random
import struct
import warnings
import zlib
from collections.abc import Callable

import pytest
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.images import (
    IMAGE_REASONS,
    CheckedImage,
    ImageChecker,
    ImageError,
    Limits,
    decode_data_url,
    sniff,
)
from PIL import Image

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}


# --- PNGs by hand: Pillow would write back the very bytes it wrote, which proves nothing ---


def chunk(name: bytes, body: bytes = b"", crc: int | None = None) -> bytes:
    crc = zlib.crc32(name + body) if crc is None else crc
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", crc)


def raw_rows(width: int, height: int, depth: int = 8, colour: int = 2, seed: int = 0) -> bytes:
    rng = random.Random(seed)
    stride = (width * depth * CHANNELS[colour] + 7) // 8
    return b"".join(bytes([row % 5]) + rng.randbytes(stride) for row in range(height))


def solid(width: int, height: int, pixel: bytes) -> bytes:
    return (b"\0" + pixel * width) * height


def png(
    width: int = 30,
    height: int = 42,
    depth: int = 8,
    colour: int = 2,
    *,
    raw: bytes | None = None,
    stream: bytes | None = None,
    head: bytes = b"",
    tail: bytes = b"",
    interlace: int = 0,
    pieces: int = 3,
) -> bytes:
    if stream is None:
        stream = zlib.compress(raw_rows(width, height, depth, colour) if raw is None else raw, 1)
    step = max(1, -(-len(stream) // pieces))
    idat = b"".join(chunk(b"IDAT", stream[at : at + step]) for at in range(0, len(stream), step))
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlace))
    return SIGNATURE + header + head + idat + tail + chunk(b"IEND")


def adam7_raw(width: int, height: int) -> bytes:
    """Zeroed RGB scanlines of the seven passes."""
    passes = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
    raw = b""
    for x, y, dx, dy in passes:
        columns, rows = len(range(x, width, dx)), len(range(y, height, dy))
        raw += (b"\0" + b"\0\0\0" * columns) * rows if columns else b""
    return raw


PLTE = chunk(b"PLTE", bytes([255, 0, 0, 0, 255, 0, 0, 0, 255]))
ANIMATION = chunk(b"acTL", struct.pack(">II", 2, 0)) + chunk(
    b"fcTL", struct.pack(">IIIIIHHBB", 0, 30, 42, 0, 0, 1, 10, 0, 0)
)
LATER_FRAME = chunk(b"fcTL", struct.pack(">IIIIIHHBB", 1, 30, 42, 0, 0, 1, 10, 0, 0)) + chunk(
    b"fdAT", struct.pack(">I", 2) + zlib.compress(raw_rows(30, 42, seed=1))
)
RAW = raw_rows(30, 42)
STRIDE = 91
ROTATED_EXIF = b"MM\0*\0\0\0\x08\0\1\x01\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0"  # orientation 6


def picture(mode: str = "RGB", size: tuple[int, int] = (40, 24)) -> Image.Image:
    gradient = Image.linear_gradient("L").resize(size)
    return Image.merge("RGB", (gradient, gradient.rotate(180), gradient)).convert(mode)


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def jpeg(mode: str = "RGB", **options: object) -> bytes:
    return saved(picture(mode), "JPEG", **options)


def gif(frames: int = 1, **options: object) -> bytes:
    more = [picture().rotate(90 * turn).convert("P") for turn in range(1, frames)]
    return saved(picture("P"), "GIF", save_all=frames > 1, append_images=more, **options)


def webp(frames: int = 1, mode: str = "RGB") -> bytes:
    more = [picture(mode).rotate(90 * turn) for turn in range(1, frames)]
    return saved(picture(mode), "WEBP", lossless=True, save_all=frames > 1, append_images=more)


def patched(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def huge_jpeg(side: int) -> bytes:
    data = jpeg()
    return patched(data, data.index(b"\xff\xc0") + 5, struct.pack(">HH", side, side))


def big_webp_canvas() -> bytes:
    data = webp(2)
    assert data[12:16] == b"VP8X"
    return patched(data, 24, b"\xff" * 6)


def flipped(data: bytes) -> bytes:
    at = data.index(b"IDAT") + 40
    return patched(data, at, bytes([data[at] ^ 4]))


def broken_stream() -> bytes:
    return png(stream=patched(zlib.compress(RAW), 2, b"\xff"))  # a deflate block type that does not exist


def first_rows(rows: int) -> bytes:
    return zlib.compress(RAW[: rows * STRIDE])


def is_kept(data: bytes) -> CheckedImage:
    image = ImageChecker().check(data)
    assert image.data is data
    assert image.ops == ()
    assert image.sha256 == image.source_sha256
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
    assert image.sha256 != image.source_sha256
    assert ImageChecker().check(data) == image, "the same bytes must come out twice"
    again = is_kept(image.data)
    assert (again.width, again.height, again.sha256) == (image.width, image.height, image.sha256)
    return image


# --- refused ---

Build = Callable[[], bytes]
BAD: list[tuple[str, Build, str, str]] = [
    ("empty", lambda: b"", "empty", "0 bytes"),
    ("junk", lambda: b"\1\2\3\4" * 9, "unknown_format", r"b'\x01"),
    ("one byte", lambda: b"\x89", "unknown_format", ""),
    ("broken signature", lambda: png().replace(b"\r\n", b"\n", 1), "unknown_format", "PNG"),
    ("html", lambda: b"<!DOCTYPE html><html><body>502</body></html>", "format_not_allowed", "text/html"),
    ("html without doctype", lambda: b"\n <html>", "format_not_allowed", "text/html"),
    ("svg", lambda: b'<svg xmlns="http://www.w3.org/2000/svg"/>', "format_not_allowed", "image/svg+xml"),
    ("svg after xml", lambda: b'\xef\xbb\xbf<?xml version="1.0"?>\n<!-- a -->\n<svg/>', "format_not_allowed", "svg"),
    ("tiff", lambda: saved(picture(), "TIFF"), "format_not_allowed", "image/tiff"),
    ("bmp", lambda: saved(picture(), "BMP"), "format_not_allowed", "image/bmp"),
    ("ico", lambda: saved(picture(), "ICO"), "format_not_allowed", "image/x-icon"),
    ("pdf", lambda: b"%PDF-1.7\n", "format_not_allowed", "application/pdf"),
    ("avif", lambda: b"\0\0\0\x20ftypavif" + bytes(20), "format_not_allowed", "image/avif"),
    ("last byte cut", lambda: png()[:-1], "truncated", "IEND"),
    ("iend cut off", lambda: png()[:-12], "truncated", "without an IEND"),
    ("half left", lambda: png()[: len(png()) // 2], "truncated", "more than the file has"),
    ("100 bytes left", lambda: png()[:100], "truncated", "IDAT at byte 33"),
    ("idat bit flipped", lambda: flipped(png()), "png_crc", "IDAT at byte 33"),
    ("trailing junk", lambda: png() + b"\n", "trailing_bytes", "1 bytes after"),
    ("two images", lambda: png() + png(), "trailing_bytes", "IEND"),
    ("half its rows", lambda: png(stream=first_rows(21)), "png_data_length", "IDAT holds 21 of 42 rows"),
    ("one byte short", lambda: png(raw=RAW[:-1]), "png_data_length", "41 of 42 rows"),
    ("one byte long", lambda: png(raw=RAW + b"\0"), "png_data_length", "more than the 3822 bytes"),
    ("deflate bomb", lambda: png(raw=bytes(10**7)), "png_data_length", "more than the 3822 bytes"),
    ("no idat", lambda: png(stream=b""), "png_data_length", "no IDAT"),
    ("two streams", lambda: png(stream=zlib.compress(RAW) * 2), "png_data_length", "after the end of its zlib"),
    ("bytes after stream", lambda: png(stream=zlib.compress(RAW) + b"x", pieces=1), "png_data_length", "goes on"),
    ("corrupt zlib, valid crc", broken_stream, "png_zlib", "corrupt"),
    ("wrong adler", lambda: png(stream=zlib.compress(RAW)[:-1] + b"\0"), "png_zlib", "incorrect data check"),
    ("no adler", lambda: png(stream=zlib.compress(RAW)[:-4]), "png_zlib", "no end"),
    ("not zlib", lambda: png(stream=RAW), "png_zlib", "header"),
    ("filter 5", lambda: png(raw=patched(RAW, STRIDE * 41, b"\5")), "png_filter", "filter type 5"),
    ("first filter", lambda: png(raw=b"\xff" + RAW[1:]), "png_filter", "filter type 255"),
    ("adam7 short", lambda: png(9, 9, raw=adam7_raw(9, 9)[:-1], interlace=1), "png_data_length", "interlaced"),
    ("adam7 filter", lambda: png(9, 9, raw=patched(adam7_raw(9, 9), 7, b"\7"), interlace=1), "png_filter", "type 7"),
    ("adam7 as plain", lambda: png(raw=solid(30, 42, b"\0\0\0"), interlace=1), "png_data_length", "interlaced"),
    ("no ihdr", lambda: SIGNATURE + chunk(b"IEND"), "png_header", "first chunk is IEND"),
    ("short ihdr", lambda: SIGNATURE + chunk(b"IHDR", b"\0" * 12), "png_header", "12 bytes"),
    ("rgb of 4 bits", lambda: png(depth=4), "png_header", "colour type 2 with 4 bits"),
    ("colour type 5", lambda: png(colour=5, raw=b""), "png_header", "colour type 5"),
    ("interlace 2", lambda: png(interlace=2), "png_header", "interlace 2"),
    ("second ihdr", lambda: png(head=png()[8:33]), "png_chunk", "IHDR"),
    ("unknown critical", lambda: png(head=chunk(b"ABCD")), "png_chunk", "ABCD is not known"),
    ("digits as name", lambda: png(head=chunk(b"12\n4")), "png_chunk", "not four letters"),
    ("split idat", lambda: png(tail=chunk(b"tEXt", b"a\0b") + chunk(b"IDAT")), "png_chunk", "not consecutive"),
    ("no palette", lambda: png(colour=3), "png_chunk", "without PLTE"),
    ("palette of 4 bytes", lambda: png(colour=3, head=chunk(b"PLTE", b"abcd")), "png_chunk", "PLTE of 4"),
    ("late palette", lambda: png(tail=PLTE), "png_chunk", "after IDAT"),
    ("long trns", lambda: png(colour=3, head=PLTE + chunk(b"tRNS", b"abcd")), "png_chunk", "tRNS of 4"),
    ("trns with alpha", lambda: png(colour=6, head=chunk(b"tRNS", b"abcdef")), "png_chunk", "colour type 6"),
    ("short phys", lambda: png(tail=chunk(b"pHYs", b"abc")), "png_chunk", "pHYs of 3"),
    ("iend with body", lambda: png()[:-12] + chunk(b"IEND", b"x"), "png_chunk", "IEND of 1"),
    ("16-bit key", lambda: png(depth=16, head=chunk(b"tRNS", b"abcdef")), "png_unsupported", "tRNS"),
    ("bad profile", lambda: png(head=chunk(b"iCCP", b"name\0\1abc")), "decode_failed", "Pillow"),
    ("late bad text", lambda: png(tail=chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(10**7)))), "decode_failed", ""),
    ("png exif", lambda: png(head=chunk(b"eXIf", b"XX\0*....")), "bad_exif", "EXIF"),
    ("88 megapixels", lambda: png(9400, 9400, 1, 0, raw=bytes(1176 * 9400)), "too_many_pixels", "88360000 pixels"),
    ("size before data", lambda: png(9400, 9400, stream=b"not zlib"), "too_many_pixels", "50000000"),
    ("beyond pillow's limit", lambda: png(60000, 60000, stream=b"not zlib"), "too_many_pixels", "60000 x 60000"),
    ("1 x 500", lambda: png(1, 500, 8, 0), "aspect_ratio", "1 x 500"),
    ("zero width", lambda: png(0, 5), "zero_size", "0 x 5"),
    ("jpeg cut", lambda: jpeg()[:-1], "truncated", "EOI"),
    ("jpeg half", lambda: jpeg()[: len(jpeg()) // 2], "truncated", "EOI"),
    ("jpeg of 3 bytes", lambda: b"\xff\xd8\xff", "truncated", "3 bytes"),
    ("jpeg junk", lambda: jpeg() + b"\0", "trailing_bytes", "1 bytes after the JPEG's EOI"),
    ("two jpegs", lambda: jpeg() + jpeg(), "trailing_bytes", "EOI"),
    ("jpeg without scan", lambda: b"\xff\xd8\xff\xd9", "decode_failed", "Pillow"),
    ("jpeg exif", lambda: jpeg(dpi=(72, 72), exif=b"Exif\0\0XX\0*...."), "bad_exif", "EXIF"),
    ("jpeg size", lambda: huge_jpeg(65000), "too_many_pixels", "4225000000"),
    ("jpeg size Pillow warns of", lambda: huge_jpeg(10000), "too_many_pixels", "10000 x 10000"),
    ("webp cut", lambda: webp()[:-1], "truncated", "RIFF"),
    ("webp head", lambda: webp()[:20], "truncated", "20 bytes"),
    ("webp junk", lambda: webp() + b"ab", "trailing_bytes", "2 bytes after the WebP"),
    ("webp canvas", big_webp_canvas, "too_many_pixels", "16777216"),
    ("webp damaged", lambda: patched(webp(), 25, b"\xa5" * 20), "decode_failed", "Pillow"),
    ("gif cut", lambda: gif()[:-1], "truncated", "inside a block"),
    ("gif half", lambda: gif()[: len(gif()) // 2], "truncated", "inside a block"),
    ("gif junk", lambda: gif() + b";", "trailing_bytes", "1 bytes after the GIF"),
    ("gif screen", lambda: patched(gif(), 6, b"\x60\xea\x60\xea"), "too_many_pixels", "60000"),
    ("gif block", lambda: patched(gif(), len(gif()) - 1, b"\x7f"), "decode_failed", "0x7f"),
    ("gif without frames", lambda: b"GIF89a\1\0\1\0\0\0\0;", "decode_failed", "Pillow"),
]


@pytest.mark.parametrize(("build", "reason", "part"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_images_are_refused_by_name(build: Build, reason: str, part: str) -> None:
    checker = ImageChecker()
    data = build()
    with pytest.raises(ImageError) as first:
        checker.check(data)
    assert first.value.reason == reason
    assert part in first.value.message
    with pytest.raises(ImageError) as second:
        checker.check(data)
    assert (second.value.message, second.value.reason) == (first.value.message, reason)


def test_the_cases_cover_every_reason() -> None:
    assert {reason for _, _, reason, _ in BAD} | {"too_many_bytes", "bad_data_url"} == set(IMAGE_REASONS)
    assert len({name for name, *_ in BAD}) == len(BAD)


def test_pillow_alone_accepts_half_the_rows() -> None:
    with Image.open(io.BytesIO(png(stream=first_rows(21), pieces=1))) as opened:
        opened.load()  # the reason the walk exists


def test_too_many_bytes_come_before_the_format() -> None:
    with pytest.raises(ImageError, match="image of 2000 bytes, at most 1999") as caught:
        ImageChecker(Limits(max_bytes=1999)).check(b"x" * 2000)
    assert caught.value.reason == "too_many_bytes"


def test_a_re_encoded_image_keeps_the_byte_limit() -> None:
    noise = png(60, 60, 16, 2)  # 8-bit noise, but no smaller than the limit once written anew
    data = png(60, 60, 16, 2, raw=b"".join(b"\0" + random.Random(1).randbytes(180) * 2 for _ in range(60)))
    assert len(data) < 4000 < len(ImageChecker().check(noise).data)
    limited = ImageChecker(Limits(max_bytes=len(noise) // 4))
    with pytest.raises(ImageError) as caught:
        limited.check(noise)
    assert caught.value.reason == "too_many_bytes"


def test_limits_are_inclusive() -> None:
    strict = ImageChecker(Limits(max_bytes=len(png()), max_pixels=30 * 42, max_aspect=1.4))
    assert strict.check(png()).ops == ()
    assert ImageChecker().check(png(1, 200, 8, 0)).height == 200


def test_image_errors_cross_processes() -> None:
    error = pickle.loads(pickle.dumps(ImageError("cut", reason="truncated", where="a.jsonl:3")))
    assert (str(error), error.reason) == ("a.jsonl:3: cut", "truncated")
    assert isinstance(error, ArmError)


# --- kept ---

KEPT: dict[str, Build] = {
    "rgb": png,
    "rgb in tiny idats": lambda: png(pieces=10**6),
    "rgb with an empty idat": lambda: png(tail=chunk(b"IDAT")),
    "gray": lambda: png(colour=0),
    "gray 1": lambda: png(33, 7, 1, 0),
    "gray 2": lambda: png(33, 7, 2, 0),
    "palette": lambda: png(4, 4, colour=3, raw=solid(4, 4, b"\2"), head=PLTE),
    "palette 2 bits": lambda: png(5, 3, 2, 3, raw=(b"\0\x1b\x00") * 3, head=PLTE),
    "opaque palette trns": lambda: png(4, 4, colour=3, raw=solid(4, 4, b"\2"), head=PLTE + chunk(b"tRNS", b"\0\xff")),
    "unused rgb key": lambda: png(4, 4, raw=solid(4, 4, b"abc"), head=chunk(b"tRNS", b"\0a\0b\0d")),
    "unused gray 2 key": lambda: png(4, 4, 2, 0, raw=(b"\0\x55") * 4, head=chunk(b"tRNS", b"\0\2")),
    "opaque rgba": lambda: png(4, 4, colour=6, raw=solid(4, 4, b"abc\xff")),
    "opaque gray alpha": lambda: png(4, 4, colour=4, raw=solid(4, 4, b"a\xff")),
    "adam7": lambda: png(9, 9, raw=adam7_raw(9, 9), interlace=1),
    "adam7 1 x 1": lambda: png(1, 1, raw=adam7_raw(1, 1), interlace=1),
    "adam7 3 x 200": lambda: png(3, 200, raw=adam7_raw(3, 200), interlace=1),
    "larger than a piece": lambda: png(700, 500),
    "metadata": lambda: png(head=chunk(b"gAMA", bytes(4)) + chunk(b"tEXt", b"k\0v"), tail=chunk(b"tIME", bytes(7))),
    "text": lambda: png(head=chunk(b"iTXt", b"k\0\0\0\0\0v"), tail=chunk(b"zTXt", b"k\0\0" + zlib.compress(b"v"))),
    "upright exif": lambda: png(head=chunk(b"eXIf", ROTATED_EXIF.replace(b"\0\6", b"\0\1"))),
    "jpeg": jpeg,
    "gray jpeg": lambda: jpeg("L"),
    "progressive jpeg": lambda: jpeg(progressive=True),
    "jpeg with restarts": lambda: jpeg(restart_marker_rows=1),
    "jpeg comment with EOI": lambda: jpeg(comment=b"\xff\xd9"),
    "gif": gif,
    "webp": webp,
    "lossy webp": lambda: saved(picture(), "WEBP", quality=50),
    "opaque alpha webp": lambda: saved(picture("RGBA"), "WEBP", lossless=True, exact=True),
}


@pytest.mark.parametrize("build", KEPT.values(), ids=KEPT.keys())
def test_bytes_are_kept(build: Build) -> None:
    data = build()
    assert is_kept(data).media_type == sniff(data)


def test_a_jpeg_scan_that_stops_early_is_not_seen() -> None:
    """The documented limit: libjpeg fills up with grey, and nothing Pillow shows tells the two apart."""
    whole = saved(Image.effect_noise((200, 200), 60), "JPEG")
    is_kept(whole[: len(whole) // 2] + b"\xff\xd9")


# --- changed ---


def test_transparent_pixels_become_white() -> None:
    raw = b"\0" + b"\x10\x20\x30\xff" + b"\x10\x20\x30\x00" + b"\x00\x00\x00\x80"
    image = is_changed(png(3, 1, colour=6, raw=raw), "flatten_white")
    assert pixels(image.data) == b"\x10\x20\x30" + b"\xff\xff\xff" + b"\x7f\x7f\x7f"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (png(2, 1, colour=4, raw=b"\0\x50\xff\x50\x00"), b"\x50\x50\x50\xff\xff\xff"),
        (png(2, 1, colour=3, raw=b"\0\0\1", head=PLTE + chunk(b"tRNS", b"\xff\0")), b"\xff\0\0\xff\xff\xff"),
        (png(2, 1, colour=3, raw=b"\0\0\1", head=PLTE + chunk(b"tRNS", b"\x80")), b"\xff\x7f\x7f\0\xff\0"),
        (png(2, 1, colour=2, raw=b"\0abcdef", head=chunk(b"tRNS", b"\0a\0b\0c")), b"\xff\xff\xffdef"),
        (png(2, 1, colour=0, raw=b"\0ab", head=chunk(b"tRNS", b"\0a")), b"\xff\xff\xffbbb"),
        (png(2, 1, 2, 0, raw=b"\0\x60", head=chunk(b"tRNS", b"\0\1")), b"\xff\xff\xff\xaa\xaa\xaa"),
        (png(2, 1, 1, 0, raw=b"\0\x40", head=chunk(b"tRNS", b"\0\0")), b"\xff\xff\xff\xff\xff\xff"),
    ],
    ids=["gray alpha", "palette", "half palette", "rgb key", "gray key", "gray 2 key", "gray 1 key"],
)
def test_every_kind_of_transparency_is_flattened(data: bytes, expected: bytes) -> None:
    assert pixels(is_changed(data, "flatten_white").data) == expected


@pytest.mark.parametrize(
    ("colour", "samples", "expected"),
    [
        (0, (0x1234, 0xFF80), b"\x12\x12\x12\xff\xff\xff"),
        (2, (0x01FF, 0x0200, 0xABCD, 0xFFFF, 0x0100, 0x00FF), b"\x01\x02\xab\xff\x01\x00"),
        (4, (0x12FF, 0xFFFF, 0x8000, 0xFFFF), b"\x12\x12\x12\x80\x80\x80"),
        (6, (0x01FF, 0x0200, 0xABCD, 0xFFFF, 0x0100, 0x00FF, 0x8080, 0xFF01), b"\x01\x02\xab\x01\x00\x80"),
    ],
)
def test_16_bits_are_cut_to_the_high_byte(colour: int, samples: tuple[int, ...], expected: bytes) -> None:
    raw = b"\0" + struct.pack(f">{len(samples)}H", *samples)
    image = is_changed(png(2, 1, 16, colour, raw=raw), "depth_8")
    assert pixels(image.data) == expected


@pytest.mark.parametrize("orientation", range(2, 9))
def test_exif_orientation_is_applied(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = is_changed(jpeg(exif=exif), "exif_transpose")
    assert (image.width, image.height) == ((24, 40) if orientation >= 5 else (40, 24))
    assert sniff(image.data) == "image/png"


@pytest.mark.parametrize("orientation", [0, 1, 9])
def test_other_orientations_keep_the_bytes(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    is_kept(jpeg(exif=exif))


def test_orientation_of_a_png_counts_wherever_it_stands() -> None:
    xmp = chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + b'<x tiff:Orientation="6"/>')
    upright = png(2, 1, raw=b"\0abcdef")
    for data in (
        png(2, 1, raw=b"\0abcdef", head=chunk(b"eXIf", ROTATED_EXIF)),
        png(2, 1, raw=b"\0abcdef", tail=chunk(b"eXIf", ROTATED_EXIF)),
        png(2, 1, raw=b"\0abcdef", head=xmp),
    ):
        image = is_changed(data, "exif_transpose")
        assert (image.width, image.height) == (1, 2)
        assert pixels(image.data) == pixels(upright)


def test_cmyk_jpeg_becomes_rgb() -> None:
    image = is_changed(jpeg("CMYK"), "rgb")
    difference = zip(pixels(image.data), picture().tobytes(), strict=True)
    assert max(abs(one - other) for one, other in difference) < 40


def test_apng_keeps_the_still_image_byte_for_byte() -> None:
    still = png(head=chunk(b"tEXt", b"k\0v"))
    image = is_changed(png(head=chunk(b"tEXt", b"k\0v") + ANIMATION, tail=LATER_FRAME), "first_frame")
    assert image.data == still  # no re-encoding: the animation's chunks are dropped


def test_apng_with_transparency_is_stripped_and_flattened() -> None:
    raw = solid(30, 42, b"abc\0")
    image = is_changed(png(colour=6, raw=raw, head=ANIMATION, tail=LATER_FRAME), "first_frame", "flatten_white")
    assert set(pixels(image.data)) == {255}


@pytest.mark.parametrize("data", [gif(3), webp(3)], ids=["gif", "webp"])
def test_animations_are_cut_to_the_first_frame(data: bytes) -> None:
    image = is_changed(data, "first_frame")
    assert pixels(image.data) == pixels(data)
    assert (image.width, image.height) == (40, 24)


def test_transparent_gif_is_flattened() -> None:
    frame = Image.new("P", (2, 1))
    frame.putpalette([0, 0, 0, 9, 9, 9])
    frame.putpixel((1, 0), 1)
    image = is_changed(saved(frame, "GIF", transparency=0), "flatten_white")
    assert pixels(image.data) == b"\xff\xff\xff\x09\x09\x09"


def test_transparent_webp_is_flattened() -> None:
    data = saved(Image.new("RGBA", (3, 3), (1, 2, 3, 0)), "WEBP", lossless=True)
    assert set(pixels(is_changed(data, "flatten_white").data)) == {255}


# --- memory of the checker ---


def test_a_repeated_image_is_not_decoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    checker = ImageChecker()
    plain, clear, broken = png(), png(2, 2, colour=6, raw=solid(2, 2, b"abc\0")), broken_stream()
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


def test_no_bytes_are_remembered_for_unchanged_images() -> None:
    checker = ImageChecker()
    data = png(700, 500)
    checker.check(data)
    assert len(pickle.dumps(checker._known)) < 1000 < len(data)


# --- content and data URLs ---


@pytest.mark.parametrize(
    ("build", "media_type"),
    [(png, "image/png"), (jpeg, "image/jpeg"), (webp, "image/webp"), (gif, "image/gif"), (lambda: b"RIFF", None)],
)
def test_sniff_reads_content(build: Build, media_type: str | None) -> None:
    assert sniff(build()) == media_type


def data_url(data: bytes, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def test_a_wrong_declared_type_does_not_matter() -> None:
    image = ImageChecker().check(decode_data_url(data_url(jpeg(), "image/png")))
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
    "png": (lambda: png(12, 9), bytes),
    "png with valid crcs": (lambda: png(12, 9), with_valid_crcs),
    "png with metadata": (
        lambda: png(
            *(12, 9, 8, 3),
            raw=solid(12, 9, b"\1"),
            head=PLTE + chunk(b"tRNS", b"\0") + chunk(b"eXIf", ROTATED_EXIF) + chunk(b"gAMA", bytes(4)),
            tail=chunk(b"zTXt", b"k\0\0" + zlib.compress(b"v")),
        ),
        with_valid_crcs,
    ),
    "apng": (lambda: png(30, 42, head=ANIMATION, tail=LATER_FRAME), with_valid_crcs),
    "jpeg": (lambda: jpeg(exif=b"Exif\0\0" + ROTATED_EXIF), bytes),
    "gif": (lambda: gif(2), bytes),
    "webp": (webp, bytes),
    "animated webp": (lambda: webp(2), bytes),
}


@pytest.mark.parametrize(("build", "repair"), SEEDS.values(), ids=SEEDS.keys())
def test_random_damage_is_refused_or_decodes(build: Build, repair: Callable[[bytes], bytes]) -> None:
    rng = random.Random(7)
    good, checker, accepted = build(), ImageChecker(), 0
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
