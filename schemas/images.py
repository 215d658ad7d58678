"""Screenshots as bytes: what is allowed, what is refused and why, and the few reasons to change an image.

Formats are told by content (PNG, JPEG, WebP, GIF), limits apply to the header, and every image is decoded in full
once per distinct content. Original bytes are kept unless a trainer would see something else than the browser showed:
rotation, transparency, 16 bits, CMYK, animation. Those are re-encoded as PNG and the change is named in ``ops``.

All four formats have to end where the file ends: bytes after a JPEG's EOI (a second image, a multi-picture file) are
refused as they are after a PNG's IEND. One damage stays unseen: a JPEG whose scan data stops early but which still
ends in EOI; libjpeg fills the rest with grey and Pillow does not say so.
"""

from __future__ import annotations

import binascii
import hashlib
import io
import re
import struct
import threading
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import png
from .png import IMAGE_REASONS, ImageError, Limits

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["IMAGE_REASONS", "CheckedImage", "ImageChecker", "ImageError", "Limits", "decode_data_url", "sniff"]

PILLOW_FORMATS = {"image/png": "PNG", "image/jpeg": "JPEG", "image/webp": "WEBP", "image/gif": "GIF"}
_MAGIC = (
    (png.SIGNATURE, "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"\0\0\1\0", "image/x-icon"),
    (b"%PDF-", "application/pdf"),
)
_SVG = re.compile(rb"\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*(<!doctype\s+svg[^>]*>\s*)?<svg\b", re.DOTALL | re.IGNORECASE)
_HTML = re.compile(rb"\s*(<!--.*?-->\s*)*<(!doctype\s+html|html|head|body)\b", re.DOTALL | re.IGNORECASE)
# A marker inside scan data: 00 is a stuffed FF and D0..D7 are restarts, neither ends the scan.
_JPEG_MARKER = re.compile(rb"\xff+([^\x00\xff\xd0-\xd7])", re.DOTALL)
_DATA_URL = re.compile(r"data:image/[a-z0-9.+-]+(;[a-z0-9-]+=[^;,\s]*)*;base64,", re.IGNORECASE)

# Everything Pillow's plugins raise on damaged input; MemoryError and KeyboardInterrupt are not among them.
_PILLOW_ERRORS = (
    *(OSError, SyntaxError, ValueError, LookupError, TypeError, ArithmeticError, AttributeError, EOFError),
    *(struct.error, zlib.error),
)
_PILLOW_LOCK = threading.Lock()


@dataclass(frozen=True)
class CheckedImage:
    """An image that passed. ``width`` and ``height`` in pixels describe ``data``, after any change in ``ops``."""

    data: bytes
    sha256: str  # of data, hex
    source_sha256: str  # of the bytes that were given, hex
    media_type: str
    width: int
    height: int
    ops: tuple[str, ...]  # first_frame, depth_8, rgb, exif_transpose, flatten_white; empty: data is what was given


@dataclass(frozen=True)
class _Known:
    """What a checker remembers of one content: no bytes, except where they had to change."""

    sha256: str
    media_type: str
    width: int
    height: int
    ops: tuple[str, ...]
    changed: bytes | None


class ImageChecker:
    """Checks images within ``limits``; remembers each distinct content, passed or refused, by its sha256."""

    def __init__(self, limits: Limits = Limits()) -> None:  # noqa: B008  (frozen)
        self.limits = limits
        self._known: dict[str, _Known | tuple[str, str]] = {}

    def check(self, data: bytes) -> CheckedImage:
        """Return the image, its bytes unchanged where nothing had to change; raise ``ImageError``."""
        if not data:
            raise ImageError("image of 0 bytes", reason="empty")
        self.limits.check_bytes(len(data))
        source = hashlib.sha256(data).hexdigest()
        known = self._known.get(source)
        if known is None:
            try:
                known = self._first_check(data, source)
            except ImageError as error:
                self._known[source] = (error.message, error.reason)
                raise
            self._known[source] = known
        if isinstance(known, tuple):
            raise ImageError(known[0], reason=known[1])
        kept = data if known.changed is None else known.changed
        return CheckedImage(kept, known.sha256, source, known.media_type, known.width, known.height, known.ops)

    def _first_check(self, data: bytes, source: str) -> _Known:
        media_type = sniff(data)
        if media_type is None:
            raise ImageError(f"no known image format starts with {data[:12]!r}", reason="unknown_format")
        if media_type not in PILLOW_FORMATS:
            message = f"content is {media_type}; allowed are {', '.join(PILLOW_FORMATS)}"
            raise ImageError(message, reason="format_not_allowed")
        if media_type == "image/png":
            size, ops, changed = _check_png(data, self.limits)
        else:
            animated = _WALKS[media_type](data, self.limits)
            size, ops, changed = _by_pillow(data, media_type, self.limits, ("first_frame",) if animated else ())
        if changed is None:
            return _Known(source, media_type, *size, ops, None)
        self.limits.check_bytes(len(changed), "re-encoded image")
        return _Known(hashlib.sha256(changed).hexdigest(), "image/png", *size, ops, changed)


def sniff(data: bytes) -> str | None:
    """Return the media type the content says, whatever it was called or declared as; None where unknown."""
    for magic, media_type in _MAGIC:
        if data.startswith(magic):
            return media_type
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if data[4:8] == b"ftyp":
        return "image/avif" if data[8:12] in (b"avif", b"avis") else "image/heic"
    head = data[:1024].removeprefix(b"\xef\xbb\xbf")
    if _SVG.match(head):
        return "image/svg+xml"
    return "text/html" if _HTML.match(head) else None


def decode_data_url(url: str, limits: Limits = Limits()) -> bytes:  # noqa: B008  (frozen)
    """Return the bytes of a base64 ``data:image/...`` URL; nothing is said about what they contain.

    Raises ``ImageError``: bad_data_url (another scheme or encoding; white space, foreign characters or wrong padding
    in the base64), too_many_bytes (told by the length, before decoding).
    """
    head = _DATA_URL.match(url)
    if not head:
        raise ImageError(f"not a base64 data URL of an image: {url[:40]!r}", reason="bad_data_url")
    payload = url[head.end() :]
    size = len(payload) // 4 * 3 - payload[-2:].count("=")
    limits.check_bytes(size, "data URL")
    try:
        data = binascii.a2b_base64(payload, strict_mode=True)
    except ValueError as error:  # binascii.Error, or a character outside ASCII
        raise ImageError(f"base64 of the data URL is damaged: {error}", reason="bad_data_url") from error
    if len(data) != size:  # strict mode lets "AAAA=" pass
        raise ImageError("base64 of the data URL is damaged: excess padding", reason="bad_data_url")
    return data


_Outcome = tuple[tuple[int, int], tuple[str, ...], bytes | None]  # (width, height), ops, new bytes or None


def _check_png(data: bytes, limits: Limits) -> _Outcome:
    info = png.inspect(data, limits)
    ops: tuple[str, ...] = ()
    changed = None
    if info.animated:
        # IDAT is the still image of an APNG; dropping the other chunks keeps it without re-encoding.
        data = changed = png.strip_animation(data)
        ops = ("first_frame",)
    if info.depth == 16 or info.colour in (4, 6) or info.has_trns or info.oriented or info.parsed_late:
        size, ops, encoded = _by_pillow(data, "image/png", limits, ops, info)
        return size, ops, encoded or changed
    if info.parsed_chunks:
        with _pillow():
            _open(data, "image/png")
    return (info.width, info.height), ops, changed


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


_WALKS = {"image/jpeg": _walk_jpeg, "image/webp": _walk_webp, "image/gif": _walk_gif}


def _ends_at(end: int, data: bytes, what: str) -> bool:
    if end < len(data):
        raise ImageError(f"{len(data) - end} bytes after the {what}", reason="trailing_bytes")
    return False


@contextmanager
def _pillow() -> Iterator[None]:
    """Turn whatever Pillow raises into ``ImageError``; its warnings (our limits are stricter) say nothing."""
    from PIL import Image

    with _PILLOW_LOCK, warnings.catch_warnings():  # the warning filters are the process's, hence the lock
        warnings.simplefilter("ignore")
        try:
            yield
        except Image.DecompressionBombError as error:
            raise ImageError(f"Pillow refuses the size: {error}", reason="too_many_pixels") from error
        except _PILLOW_ERRORS as error:
            raise ImageError(f"Pillow cannot decode it: {error}", reason="decode_failed") from error


def _open(data: bytes, media_type: str) -> Image.Image:
    from PIL import Image, WebPImagePlugin  # noqa: F401  (a format Pillow does not load by itself)

    return Image.open(io.BytesIO(data), formats=[PILLOW_FORMATS[media_type]])


def _by_pillow(
    data: bytes, media_type: str, limits: Limits, ops: tuple[str, ...], info: png.PngInfo | None = None
) -> _Outcome:
    """Decode in full, apply what has to change, re-encode as PNG where anything did."""
    with _pillow():
        opened = _open(data, media_type)
        limits.check_size(*opened.size)
        opened.load()
        image, changes = _changed(opened, info)
        # An APNG is already stripped to its first frame: without further changes those bytes stay.
        if not changes and (not ops or info):
            return image.size, ops, None
        if image.mode not in ("1", "L", "RGB"):
            image = image.convert("L" if image.mode == "LA" else "RGB")
        image.info = {}  # no profile, text or transparency of the original is written
        encoded = io.BytesIO()
        image.save(encoded, "PNG", compress_level=6)
        return image.size, (*ops, *changes), encoded.getvalue()


def _changed(image: Image.Image, info: png.PngInfo | None) -> tuple[Image.Image, tuple[str, ...]]:
    """Return the decoded image as a trainer has to see it, and the names of the changes."""
    from PIL import Image

    ops = []
    try:
        orientation = image.getexif().get(0x0112, 1)
    except _PILLOW_ERRORS as error:
        raise ImageError(f"EXIF block cannot be read: {error}", reason="bad_exif") from error
    if info and info.depth == 16:
        ops.append("depth_8")
        if image.mode == "I;16":  # convert() would clip at 255; colour is cut to the high byte by the decoder
            image = Image.frombytes("L", image.size, image.tobytes()[1::2])
    if info and info.has_trns and info.colour == 0 and 1 < info.depth < 8:
        top = 2**info.depth - 1  # Pillow widens the samples to 8 bits, but not the colour key
        image.info["transparency"] = (image.info["transparency"] & top) * 255 // top
    if image.mode == "CMYK":
        ops.append("rgb")
        image = image.convert("RGB")
    turns = Image.Transpose
    turn = {
        2: turns.FLIP_LEFT_RIGHT,
        3: turns.ROTATE_180,
        4: turns.FLIP_TOP_BOTTOM,
        5: turns.TRANSPOSE,
        6: turns.ROTATE_270,
        7: turns.TRANSVERSE,
        8: turns.ROTATE_90,
    }.get(orientation)
    if turn is not None:  # the first of them is 0
        ops.append("exif_transpose")
        image = image.transpose(turn)
    if image.has_transparency_data:
        rgba = image if image.mode == "RGBA" else image.convert("RGBA")
        if rgba.getchannel("A").getextrema() != (255, 255):
            ops.append("flatten_white")
            white = Image.new("RGBA", rgba.size, "white")
            white.alpha_composite(rgba)
            image = white.convert("RGB")
    return image, tuple(ops)
