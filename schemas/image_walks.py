"""The structure of JPEG, WebP and GIF files: where each ends, whether it is animated, and the size of WebP and GIF.

Decoders stop at the first image they find and some make up what is missing, so the end of the file is looked for here,
before any of them runs. A walk trusts nothing but lengths and markers; whether the pixels decode is left to Pillow.
"""

from __future__ import annotations

import re
import struct

from .image_rules import ImageError, Limits

# A marker inside scan data: 00 is a stuffed FF and D0..D7 are restarts, neither ends the scan.
_JPEG_MARKER = re.compile(rb"\xff+([^\x00\xff\xd0-\xd7])", re.DOTALL)


def _walk_jpeg(data: bytes, limits: Limits) -> bool:
    """Find the EOI marker behind all segments and scans, thumbnails skipped."""
    position = 2
    while marker := _JPEG_MARKER.search(data, position):
        position = marker.end()
        if marker[1] == b"\xd9":
            return _ends_at(position, data, "JPEG's EOI marker")
        if marker[1] not in b"\x01\xd8":  # these two stand alone, all others have a length
            position += int.from_bytes(data[position : position + 2])
    raise ImageError(f"JPEG of {len(data)} bytes has no EOI marker", reason="truncated")


def _walk_webp(data: bytes, limits: Limits) -> bool:
    """Check the RIFF length and the size in the first chunk; say whether it is animated."""
    if len(data) < 30 or len(data) < (length := 8 + int.from_bytes(data[4:8], "little")):
        raise ImageError(f"WebP of {len(data)} bytes is shorter than its RIFF header says", reason="truncated")
    _ends_at(length, data, "WebP's RIFF container")
    kind, animated = data[12:16], False
    if kind == b"VP8X":  # the decoder allocates this canvas when it opens the file
        width, height = 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
        animated = bool(data[20] & 2)
    elif kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        width, height = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    else:
        width, height = (number & 0x3FFF for number in struct.unpack("<HH", data[26:30]))
    limits.check_size(width, height)
    return animated


def _walk_gif(data: bytes, limits: Limits) -> bool:
    """Walk all blocks to the trailer; say whether there is more than one frame."""

    def colour_table(flags: int) -> int:
        return 3 * 2 ** (1 + (flags & 7)) if flags & 0x80 else 0

    frames = 0
    try:
        width, height, flags = struct.unpack_from("<HHB", data, 6)
        position = 13 + colour_table(flags)
        while (block := data[position]) != 0x3B:
            if block == 0x2C:
                left, top, columns, rows, flags = struct.unpack_from("<HHHHB", data, position + 1)
                if not frames:  # a frame may be larger than the screen: Pillow then enlarges the screen
                    limits.check_size(max(width, left + columns), max(height, top + rows))
                frames += 1
                position += 11 + colour_table(flags)
            elif block == 0x21:
                position += 2
            else:
                raise ImageError(f"GIF has an unknown block {block:#04x} at byte {position}", reason="decode_failed")
            while data[position]:  # sub-blocks, each with its length in front
                position += 1 + data[position]
            position += 1
    except (IndexError, struct.error) as error:
        raise ImageError(f"GIF of {len(data)} bytes ends inside a block", reason="truncated") from error
    _ends_at(position + 1, data, "GIF's trailer")
    return frames > 1


# Media type -> walk: raises ``ImageError`` for a broken structure, says whether the image is animated.
WALKS = {"image/jpeg": _walk_jpeg, "image/webp": _walk_webp, "image/gif": _walk_gif}


def _ends_at(end: int, data: bytes, what: str) -> bool:
    if end < len(data):
        raise ImageError(f"{len(data) - end} bytes after the {what}", reason="trailing_bytes")
    return False
