"""What is refused, under which of the reasons, and that every reason has a case."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from action_reward_models.schemas.images import IMAGE_REASONS, ImageChecker, ImageError
from PIL import Image

if TYPE_CHECKING:
    from tests.schemas.conftest import Pictures

Build = Callable[["Pictures"], bytes]


def huge_jpeg(p: Pictures, side: int) -> bytes:
    data = p.jpeg()
    return p.patched(data, data.index(b"\xff\xc0") + 5, struct.pack(">HH", side, side))


def big_webp_canvas(p: Pictures) -> bytes:
    data = p.webp(2)
    assert data[12:16] == b"VP8X"
    return p.patched(data, 24, b"\xff" * 6)


def flipped(p: Pictures) -> bytes:
    data = p.png()
    at = data.index(b"IDAT") + 40
    return p.patched(data, at, bytes([data[at] ^ 4]))


BAD: list[tuple[str, Build, str, str]] = [
    ("empty", lambda p: b"", "empty", "0 bytes"),
    ("junk", lambda p: b"\1\2\3\4" * 9, "unknown_format", r"b'\x01"),
    ("one byte", lambda p: b"\x89", "unknown_format", ""),
    ("broken signature", lambda p: p.png().replace(b"\r\n", b"\n", 1), "unknown_format", "PNG"),
    ("html", lambda p: b"<!DOCTYPE html><html><body>502</body></html>", "format_not_allowed", "text/html"),
    ("html without doctype", lambda p: b"\n <html>", "format_not_allowed", "text/html"),
    ("svg", lambda p: b'<svg xmlns="http://www.w3.org/2000/svg"/>', "format_not_allowed", "image/svg+xml"),
    ("svg after xml", lambda p: b'\xef\xbb\xbf<?xml version="1.0"?>\n<!-- a -->\n<svg/>', "format_not_allowed", "svg"),
    ("tiff", lambda p: p.saved(p.picture(), "TIFF"), "format_not_allowed", "image/tiff"),
    ("bmp", lambda p: p.saved(p.picture(), "BMP"), "format_not_allowed", "image/bmp"),
    ("ico", lambda p: p.saved(p.picture(), "ICO"), "format_not_allowed", "image/x-icon"),
    ("pdf", lambda p: b"%PDF-1.7\n", "format_not_allowed", "application/pdf"),
    ("avif", lambda p: b"\0\0\0\x20ftypavif" + bytes(20), "format_not_allowed", "image/avif"),
    ("last byte cut", lambda p: p.png()[:-1], "truncated", "IEND"),
    ("iend cut off", lambda p: p.png()[:-12], "truncated", "without an IEND"),
    ("half left", lambda p: p.png()[: len(p.png()) // 2], "truncated", "more than the file has"),
    ("100 bytes left", lambda p: p.png()[:100], "truncated", "IDAT at byte 33"),
    ("idat bit flipped", flipped, "png_crc", "IDAT at byte 33"),
    ("trailing junk", lambda p: p.png() + b"\n", "trailing_bytes", "1 bytes after"),
    ("two images", lambda p: p.png() + p.png(), "trailing_bytes", "IEND"),
    ("half its rows", lambda p: p.png(stream=p.first_rows(21)), "png_data_length", "IDAT holds 21 of 42 rows"),
    ("one byte short", lambda p: p.png(raw=p.rows[:-1]), "png_data_length", "41 of 42 rows"),
    ("one byte long", lambda p: p.png(raw=p.rows + b"\0"), "png_data_length", "more than the 3822 bytes"),
    ("deflate bomb", lambda p: p.png(raw=bytes(10**7)), "png_data_length", "more than the 3822 bytes"),
    ("no idat", lambda p: p.png(stream=b""), "png_data_length", "no IDAT"),
    ("two streams", lambda p: p.png(stream=zlib.compress(p.rows) * 2), "png_data_length", "after the end of its zlib"),
    (
        "bytes after stream",
        lambda p: p.png(stream=zlib.compress(p.rows) + b"x", pieces=1),
        "png_data_length",
        "goes on",
    ),
    ("corrupt zlib, valid crc", lambda p: p.broken_stream(), "png_zlib", "corrupt"),
    ("wrong adler", lambda p: p.png(stream=zlib.compress(p.rows)[:-1] + b"\0"), "png_zlib", "incorrect data check"),
    ("no adler", lambda p: p.png(stream=zlib.compress(p.rows)[:-4]), "png_zlib", "no end"),
    ("not zlib", lambda p: p.png(stream=p.rows), "png_zlib", "header"),
    ("filter 5", lambda p: p.png(raw=p.patched(p.rows, p.stride * 41, b"\5")), "png_filter", "filter type 5"),
    ("first filter", lambda p: p.png(raw=b"\xff" + p.rows[1:]), "png_filter", "filter type 255"),
    ("adam7 short", lambda p: p.png(9, 9, raw=p.adam7_raw(9, 9)[:-1], interlace=1), "png_data_length", "interlaced"),
    (
        "adam7 filter",
        lambda p: p.png(9, 9, raw=p.patched(p.adam7_raw(9, 9), 7, b"\7"), interlace=1),
        "png_filter",
        "type 7",
    ),
    ("adam7 as plain", lambda p: p.png(raw=p.solid(30, 42, b"\0\0\0"), interlace=1), "png_data_length", "interlaced"),
    ("no ihdr", lambda p: p.signature + p.chunk(b"IEND"), "png_header", "first chunk is IEND"),
    ("short ihdr", lambda p: p.signature + p.chunk(b"IHDR", b"\0" * 12), "png_header", "12 bytes"),
    ("rgb of 4 bits", lambda p: p.png(depth=4), "png_header", "colour type 2 with 4 bits"),
    ("colour type 5", lambda p: p.png(colour=5, raw=b""), "png_header", "colour type 5"),
    ("interlace 2", lambda p: p.png(interlace=2), "png_header", "interlace 2"),
    ("second ihdr", lambda p: p.png(head=p.png()[8:33]), "png_chunk", "IHDR"),
    ("unknown critical", lambda p: p.png(head=p.chunk(b"ABCD")), "png_chunk", "ABCD is not known"),
    ("digits as name", lambda p: p.png(head=p.chunk(b"12\n4")), "png_chunk", "not four letters"),
    ("split idat", lambda p: p.png(tail=p.chunk(b"tEXt", b"a\0b") + p.chunk(b"IDAT")), "png_chunk", "not consecutive"),
    ("no palette", lambda p: p.png(colour=3), "png_chunk", "without PLTE"),
    ("palette of 4 bytes", lambda p: p.png(colour=3, head=p.chunk(b"PLTE", b"abcd")), "png_chunk", "PLTE of 4"),
    ("late palette", lambda p: p.png(tail=p.plte), "png_chunk", "after IDAT"),
    ("long trns", lambda p: p.png(colour=3, head=p.plte + p.chunk(b"tRNS", b"abcd")), "png_chunk", "tRNS of 4"),
    ("trns with alpha", lambda p: p.png(colour=6, head=p.chunk(b"tRNS", b"abcdef")), "png_chunk", "colour type 6"),
    ("short phys", lambda p: p.png(tail=p.chunk(b"pHYs", b"abc")), "png_chunk", "pHYs of 3"),
    ("iend with body", lambda p: p.png()[:-12] + p.chunk(b"IEND", b"x"), "png_chunk", "IEND of 1"),
    ("16-bit key", lambda p: p.png(depth=16, head=p.chunk(b"tRNS", b"abcdef")), "png_unsupported", "tRNS"),
    ("bad profile", lambda p: p.png(head=p.chunk(b"iCCP", b"name\0\1abc")), "decode_failed", "Pillow"),
    (
        "late bad text",
        lambda p: p.png(tail=p.chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(10**7)))),
        "decode_failed",
        "",
    ),
    ("png exif", lambda p: p.png(head=p.chunk(b"eXIf", b"XX\0*....")), "bad_exif", "EXIF"),
    ("88 megapixels", lambda p: p.png(9400, 9400, 1, 0, raw=bytes(1176 * 9400)), "too_many_pixels", "88360000 pixels"),
    ("size before data", lambda p: p.png(9400, 9400, stream=b"not zlib"), "too_many_pixels", "50000000"),
    ("beyond pillow's limit", lambda p: p.png(60000, 60000, stream=b"not zlib"), "too_many_pixels", "60000 x 60000"),
    ("1 x 500", lambda p: p.png(1, 500, 8, 0), "aspect_ratio", "1 x 500"),
    ("zero width", lambda p: p.png(0, 5), "zero_size", "0 x 5"),
    ("jpeg cut", lambda p: p.jpeg()[:-1], "truncated", "EOI"),
    ("jpeg half", lambda p: p.jpeg()[: len(p.jpeg()) // 2], "truncated", "EOI"),
    ("jpeg of 3 bytes", lambda p: b"\xff\xd8\xff", "truncated", "3 bytes"),
    ("jpeg junk", lambda p: p.jpeg() + b"\0", "trailing_bytes", "1 bytes after the JPEG's EOI"),
    ("two jpegs", lambda p: p.jpeg() + p.jpeg(), "trailing_bytes", "EOI"),
    ("jpeg without scan", lambda p: b"\xff\xd8\xff\xd9", "decode_failed", "Pillow"),
    ("jpeg exif", lambda p: p.jpeg(dpi=(72, 72), exif=b"Exif\0\0XX\0*...."), "bad_exif", "EXIF"),
    ("jpeg size", lambda p: huge_jpeg(p, 65000), "too_many_pixels", "4225000000"),
    ("jpeg size Pillow warns of", lambda p: huge_jpeg(p, 10000), "too_many_pixels", "10000 x 10000"),
    ("webp cut", lambda p: p.webp()[:-1], "truncated", "RIFF"),
    ("webp head", lambda p: p.webp()[:20], "truncated", "20 bytes"),
    ("webp junk", lambda p: p.webp() + b"ab", "trailing_bytes", "2 bytes after the WebP"),
    ("webp canvas", big_webp_canvas, "too_many_pixels", "16777216"),
    ("webp damaged", lambda p: p.patched(p.webp(), 25, b"\xa5" * 20), "decode_failed", "Pillow"),
    ("gif cut", lambda p: p.gif()[:-1], "truncated", "inside a block"),
    ("gif half", lambda p: p.gif()[: len(p.gif()) // 2], "truncated", "inside a block"),
    ("gif junk", lambda p: p.gif() + b";", "trailing_bytes", "1 bytes after the GIF"),
    ("gif screen", lambda p: p.patched(p.gif(), 6, b"\x60\xea\x60\xea"), "too_many_pixels", "60000"),
    ("gif block", lambda p: p.patched(p.gif(), len(p.gif()) - 1, b"\x7f"), "decode_failed", "0x7f"),
    ("gif without frames", lambda p: b"GIF89a\1\0\1\0\0\0\0;", "decode_failed", "Pillow"),
]


@pytest.mark.parametrize(("build", "reason", "part"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_images_are_refused_by_name(pictures: Pictures, build: Build, reason: str, part: str) -> None:
    checker = ImageChecker()
    data = build(pictures)
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


def test_pillow_alone_accepts_half_the_rows(pictures: Pictures) -> None:
    with Image.open(io.BytesIO(pictures.png(stream=pictures.first_rows(21), pieces=1))) as opened:
        opened.load()  # the reason the walk exists
