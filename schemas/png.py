"""The PNG walk that finds every damage Pillow lets pass.

The walk *is* the full decode check: every chunk CRC, one zlib stream over all IDAT chunks with its Adler checksum, the
inflated length against IHDR, and every scanline's filter byte. Undoing the filters cannot fail after that, so it is
left out. Pillow's ``load()`` alone accepts a file that holds half its rows.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from .image_rules import PNG_SIGNATURE, ImageError, Limits

_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
_ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
_FIXED_LENGTH = {b"gAMA": 4, b"cHRM": 32, b"sRGB": 1, b"pHYs": 9, b"tIME": 7, b"IEND": 0}
_ANIMATION = (b"acTL", b"fcTL", b"fdAT")
# Chunks whose content a reader parses and can stumble over: Pillow is asked to open files that have them.
_PARSED = (b"iCCP", b"zTXt", b"iTXt", b"eXIf")
_ORIENTED_TEXT = (b"XML:com.adobe.xmp\0", b"Raw profile type")
_PIECE = 1 << 16  # bytes of deflate data per step
_INFLATED = 1 << 18  # bytes; stays in the cache, and no full raster is ever held


@dataclass(frozen=True)
class PngInfo:
    """What the walk learned. Sizes in pixels; ``depth`` in bits per sample; ``colour`` is the PNG colour type."""

    width: int
    height: int
    depth: int
    colour: int
    interlaced: bool
    has_trns: bool = False
    animated: bool = False  # any of acTL, fcTL, fdAT
    oriented: bool = False  # may carry an EXIF or XMP orientation
    parsed_chunks: bool = False  # Pillow's open() has to agree
    parsed_late: bool = False  # the same after IDAT, which only load() reads


def inspect(data: bytes, limits: Limits) -> PngInfo:
    """Walk and inflate a PNG without building its raster; raise ``ImageError`` for the first thing wrong.

    ``limits.check_size`` runs on IHDR before anything else is read.
    """
    info: PngInfo | None = None
    inflater: _Inflater | None = None
    seen: set[bytes] = set()
    previous = b""
    palette = 0  # entries
    flags = {"has_trns": False, "animated": False, "oriented": False, "parsed_chunks": False, "parsed_late": False}
    for name, body in _chunks(data):
        if info is None or inflater is None:
            info = _header(name, body)
            limits.check_size(info.width, info.height)
            inflater = _Inflater(info)
        elif name == b"IDAT":
            if info.colour == 3 and not palette:
                raise ImageError("palette image without PLTE before IDAT", reason="png_chunk")
            if b"IDAT" in seen and previous != b"IDAT":
                raise ImageError("IDAT chunks are not consecutive", reason="png_chunk")
            inflater.feed(body)
        elif name == b"PLTE":
            palette = _palette(len(body), seen)
        elif name == b"tRNS":
            _transparency(len(body), info, palette, seen)
            flags["has_trns"] = True
        elif not name[0] & 0x20 and name != b"IEND":  # a capital first letter: critical
            raise ImageError(f"critical chunk {name.decode()} is not known or repeated", reason="png_chunk")
        elif len(body) != _FIXED_LENGTH.get(name, len(body)):
            raise ImageError(f"chunk {name.decode()} of {len(body)} bytes", reason="png_chunk")
        flags["animated"] |= name in _ANIMATION
        flags["oriented"] |= name == b"eXIf" or bytes(body[:20]).startswith(_ORIENTED_TEXT)
        flags["parsed_late" if b"IDAT" in seen else "parsed_chunks"] |= name in _PARSED
        seen.add(name)
        previous = name
    assert info is not None  # a walk without error yields IHDR and IEND
    assert inflater is not None
    inflater.finish(b"IDAT" in seen)
    return PngInfo(info.width, info.height, info.depth, info.colour, info.interlaced, **flags)


def strip_animation(data: bytes) -> bytes:
    """Return a walked PNG without its APNG chunks; the image in IDAT and all else stay byte for byte."""
    kept = [PNG_SIGNATURE]
    offset = len(PNG_SIGNATURE)
    for name, body in _chunks(data):
        end = offset + 12 + len(body)
        if name not in _ANIMATION:
            kept.append(data[offset:end])
        offset = end
    return b"".join(kept)


def _chunks(data: bytes) -> Iterator[tuple[bytes, memoryview]]:
    """Yield (name, body) of each chunk, its CRC checked; IEND has to come last and end the file."""
    view = memoryview(data)
    offset, name = len(PNG_SIGNATURE), b""
    while name != b"IEND":
        if len(data) - offset < 12:
            raise ImageError(f"PNG ends at byte {len(data)} without an IEND chunk", reason="truncated")
        length = int.from_bytes(view[offset : offset + 4])
        name = data[offset + 4 : offset + 8]
        if not (name.isalpha() and name.isascii()):
            raise ImageError(f"chunk name {name!r} at byte {offset} is not four letters", reason="png_chunk")
        end = offset + 12 + length
        if end > len(data):
            message = f"chunk {name.decode()} at byte {offset} needs {end - len(data)} bytes more than the file has"
            raise ImageError(message, reason="truncated")
        if zlib.crc32(view[offset + 4 : end - 4]) != int.from_bytes(view[end - 4 : end]):
            raise ImageError(f"chunk {name.decode()} at byte {offset} has a wrong CRC", reason="png_crc")
        yield name, view[offset + 8 : end - 4]
        offset = end
    if offset != len(data):
        raise ImageError(f"{len(data) - offset} bytes after the PNG's IEND chunk", reason="trailing_bytes")


def _header(name: bytes, body: memoryview) -> PngInfo:
    if name != b"IHDR" or len(body) != 13:
        raise ImageError(f"first chunk is {name.decode()} of {len(body)} bytes, not IHDR of 13", reason="png_header")
    width, height, depth, colour, compression, filtering, interlace = struct.unpack(">IIBBBBB", body)
    if depth not in _DEPTHS.get(colour, ()):
        raise ImageError(f"colour type {colour} with {depth} bits does not exist", reason="png_header")
    if compression or filtering or interlace > 1:
        message = f"unknown compression {compression}, filter {filtering} or interlace {interlace} method"
        raise ImageError(message, reason="png_header")
    return PngInfo(width, height, depth, colour, bool(interlace))


def _palette(length: int, seen: set[bytes]) -> int:
    if b"PLTE" in seen or b"IDAT" in seen or length % 3 or not 3 <= length <= 768:
        raise ImageError(f"PLTE of {length} bytes is malformed, repeated or after IDAT", reason="png_chunk")
    return length // 3


def _transparency(length: int, info: PngInfo, palette: int, seen: set[bytes]) -> None:
    fits = {0: length == 2, 2: length == 6, 3: 0 < length <= palette}.get(info.colour, False)
    if not fits or b"tRNS" in seen or b"IDAT" in seen:
        message = f"tRNS of {length} bytes does not fit colour type {info.colour}, is repeated or after IDAT"
        raise ImageError(message, reason="png_chunk")
    if info.depth == 16:
        # Decoders compare the key after cutting both to 8 bits, which makes wrong pixels transparent.
        raise ImageError("16-bit samples with a tRNS colour key are not supported", reason="png_unsupported")


class _Inflater:
    """Inflates the IDAT bodies as one stream, a bounded piece at a time, and looks at each scanline's filter byte."""

    def __init__(self, info: PngInfo) -> None:
        bits = info.depth * _CHANNELS[info.colour]
        self._passes: list[tuple[int, int, int]] = []  # (first byte, bytes per scanline, end)
        self._expected = 0
        for x, y, dx, dy in _ADAM7 if info.interlaced else ((0, 0, 1, 1),):
            columns, rows = -(-(info.width - x) // dx), -(-(info.height - y) // dy)
            if columns > 0 and rows > 0:
                stride = 1 + (columns * bits + 7) // 8
                start, self._expected = self._expected, self._expected + stride * rows
                self._passes.append((start, stride, self._expected))
        self._height = info.height
        self._position = 0  # bytes inflated
        self._zlib = zlib.decompressobj()

    def feed(self, body: memoryview) -> None:
        """Take the next IDAT body."""
        # Small pieces of input: zlib copies what it did not consume at every step.
        for start in range(0, len(body), _PIECE):
            piece: memoryview | bytes = body[start : start + _PIECE]
            while piece:
                if self._zlib.eof:
                    raise ImageError("IDAT goes on after the end of its zlib stream", reason="png_data_length")
                self._step(piece)
                piece = self._zlib.unused_data or self._zlib.unconsumed_tail

    def finish(self, seen: bool) -> None:
        """Raise unless the stream ended where IHDR says."""
        while not self._zlib.eof and self._step(b""):
            pass
        if self._position < self._expected:
            if not seen:
                found = "there is no IDAT chunk"
            elif len(self._passes) == 1:
                found = f"IDAT holds {self._position // self._passes[0][1]} of {self._height} rows"
            else:
                found = f"IDAT holds {self._position} of {self._expected} bytes of the interlaced image"
            raise ImageError(found, reason="png_data_length")
        if not self._zlib.eof:
            raise ImageError("IDAT's zlib stream has no end", reason="png_zlib")

    def _step(self, piece: memoryview | bytes) -> int:
        try:
            # One byte more than expected is enough to know of too many.
            raw = self._zlib.decompress(piece, min(_INFLATED, self._expected - self._position + 1))
        except zlib.error as error:
            raise ImageError(f"IDAT's zlib stream is corrupt: {error}", reason="png_zlib") from error
        begin, self._position = self._position, self._position + len(raw)
        if self._position > self._expected:
            message = f"IDAT inflates to more than the {self._expected} bytes IHDR asks for"
            raise ImageError(message, reason="png_data_length")
        for start, stride, end in self._passes:
            if start < self._position and begin < end:
                first = start if begin <= start else begin + (start - begin) % stride
                wrong = raw[first - begin : end - begin : stride].translate(None, b"\0\1\2\3\4")
                if wrong:
                    raise ImageError(f"a scanline has filter type {wrong[0]}, 0 to 4 exist", reason="png_filter")
        return len(raw)
