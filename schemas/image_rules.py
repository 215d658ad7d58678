"""What every image module rests on: the reasons for a refusal, the limits, and the format told by content.

The lowest of the image modules; callers import these names from ``images``.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

from .errors import ArmError

IMAGE_REASONS = (
    "empty",
    "unknown_format",
    "format_not_allowed",
    "bad_data_url",
    "too_many_bytes",
    "too_many_pixels",
    "zero_size",
    "aspect_ratio",
    "truncated",
    "trailing_bytes",
    "png_chunk",
    "png_crc",
    "png_header",
    "png_zlib",
    "png_data_length",
    "png_filter",
    "png_unsupported",
    "bad_exif",
    "decode_failed",
)

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_MAGIC = (
    (PNG_SIGNATURE, "image/png"),
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


class ImageError(ArmError):
    """An image that is refused; ``reason`` is one of ``IMAGE_REASONS``."""

    def __init__(self, message: str, *, reason: str, where: str | None = None, next_command: str | None = None) -> None:
        assert reason in IMAGE_REASONS, reason
        self.reason = reason
        super().__init__(message, where=where, next_command=next_command)

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are rebuilt from positional arguments only; workers send these between processes.
        return functools.partial(type(self), reason=self.reason), (self.message,), self.__dict__


@dataclass(frozen=True)
class Limits:
    """What is refused before anything is decoded: file size, raster size, long side / short side."""

    max_bytes: int = 32 * 2**20
    max_pixels: int = 50_000_000
    max_aspect: float = 200.0  # vision processors refuse more than 200

    def check_bytes(self, count: int, what: str = "image") -> None:
        """Raise ``ImageError`` (too_many_bytes) where ``count`` bytes are too many."""
        if count > self.max_bytes:
            raise ImageError(f"{what} of {count} bytes, at most {self.max_bytes} allowed", reason="too_many_bytes")

    def check_size(self, width: int, height: int) -> None:
        """Raise ``ImageError`` (zero_size, too_many_pixels, aspect_ratio) for a raster of ``width`` x ``height`` px."""
        if width <= 0 or height <= 0:
            raise ImageError(f"header says {width} x {height} pixels", reason="zero_size")
        if width * height > self.max_pixels:
            message = f"{width} x {height} = {width * height} pixels, at most {self.max_pixels} allowed"
            raise ImageError(message, reason="too_many_pixels")
        if max(width, height) > self.max_aspect * min(width, height):
            message = f"{width} x {height} has an aspect ratio over {self.max_aspect:g}"
            raise ImageError(message, reason="aspect_ratio")


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
