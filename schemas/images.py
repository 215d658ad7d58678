"""Screenshots as bytes: what is allowed, what is refused and why, and the few reasons to change an image.

Formats are told by content (PNG, JPEG, WebP, GIF), limits apply to the header, and every image is decoded in full
once per distinct content. Original bytes are kept unless a trainer would see something else than the browser showed:
rotation, transparency, 16 bits, CMYK, animation. Those are re-encoded as PNG and the change is named in ``ops``.

All four formats have to end where the file ends: bytes after a JPEG's EOI (a second image, a multi-picture file) are
refused as they are after a PNG's IEND. One damage stays unseen: a JPEG whose scan data stops early but which still
ends in EOI; libjpeg fills the rest with grey and Pillow does not say so.
"""

from __future__ import annotations

import base64
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
from .image_rules import IMAGE_REASONS, ImageError, Limits, sniff
from .image_walks import WALKS

if TYPE_CHECKING:
    from PIL import Image

__all__ = [
    "IMAGE_REASONS",
    "QWEN",
    "QWEN_PICTURE",
    "CheckedImage",
    "ImageChecker",
    "ImageError",
    "Limits",
    "data_url",
    "decode_data_url",
    "grey",
    "measured",
    "sniff",
]

# Classes of transformers that resize by one rule: those of Qwen2-VL, which Qwen2.5-VL, Qwen3-VL and Qwen3.5 use, too;
# and the word that stands for a picture in their templates, where a tokenizer names none.
QWEN = ("Qwen2VLImageProcessor", "Qwen2VLImageProcessorFast", "Qwen2VLImageProcessorPil")
QWEN_PICTURE = "<|image_pad|>"
PILLOW_FORMATS = {"image/png": "PNG", "image/jpeg": "JPEG", "image/webp": "WEBP", "image/gif": "GIF"}
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
        return CheckedImage(kept, known.sha256, known.media_type, known.width, known.height, known.ops)

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
            animated = WALKS[media_type](data, self.limits)
            size, ops, changed = _by_pillow(data, media_type, self.limits, ("first_frame",) if animated else ())
        if changed is None:
            return _Known(source, media_type, *size, ops, None)
        self.limits.check_bytes(len(changed), "re-encoded image")
        return _Known(hashlib.sha256(changed).hexdigest(), "image/png", *size, ops, changed)


def data_url(data: bytes) -> str:
    """The picture as a base64 ``data:image/...`` URL, as `decode_data_url` reads it."""
    return f"data:{sniff(data) or 'image/unknown'};base64,{base64.b64encode(data).decode()}"


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


def measured(data: bytes) -> tuple[str, int, int]:
    """(media type, width, height in pixels) by content and header alone; nothing is decoded or changed.

    Raises ``ImageError`` for what is none of the allowed formats, has no header that Pillow reads, or has a size that
    no build lets through: whoever shows it would decode it.
    """
    media_type = sniff(data)
    if media_type not in PILLOW_FORMATS:
        raise ImageError(f"content is {media_type or 'no image'}", reason="format_not_allowed")
    with _pillow():
        size = _open(data, media_type).size
    Limits().check_size(*size)
    return media_type, *size


def grey(data: bytes, media_type: str, side: int) -> bytes:
    """A checked image as a square of ``side`` x ``side`` grey pixels, row by row, whatever its own proportions.

    Raises ``ImageError`` where Pillow refuses what the walk over its bytes let pass.
    """
    from PIL import Image

    with _pillow():
        image = _open(data, media_type)
        image.draft("L", (side, side))  # a JPEG is decoded no larger than it has to be
        image = image if image.mode in ("L", "RGB") else image.convert("RGB")
        return image.resize((side, side), Image.Resampling.BOX, reducing_gap=1.0).convert("L").tobytes()


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
