"""Pictures of every kind, whole or prepared to be damaged, made in memory."""

from __future__ import annotations

import io
import random
import struct
import zlib

import pytest
from PIL import Image

CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}


class Pictures:
    """The builders, which test cases take as ``p``.

    PNGs are made by hand: Pillow would write back the very bytes it wrote, which proves nothing.
    """

    signature = b"\x89PNG\r\n\x1a\n"
    rotated_exif = b"MM\0*\0\0\0\x08\0\1\x01\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0"  # orientation 6

    def __init__(self) -> None:
        self.rows = self.raw_rows(30, 42)  # what png() holds when nothing else is asked for
        self.stride = 91  # bytes of each of them
        self.plte = self.chunk(b"PLTE", bytes([255, 0, 0, 0, 255, 0, 0, 0, 255]))
        # The chunks that make png() an APNG of two frames: the first is the still image, so that its control stands
        # before IDAT, and the second follows.
        self.animation = self.chunk(b"acTL", struct.pack(">II", 2, 0)) + self._frame_control(0)
        later = self.chunk(b"fdAT", struct.pack(">I", 2) + zlib.compress(self.raw_rows(30, 42, seed=1)))
        self.later_frame = self._frame_control(1) + later

    def _frame_control(self, number: int) -> bytes:
        return self.chunk(b"fcTL", struct.pack(">IIIIIHHBB", number, 30, 42, 0, 0, 1, 10, 0, 0))

    def chunk(self, name: bytes, body: bytes = b"") -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    def raw_rows(self, width: int, height: int, depth: int = 8, colour: int = 2, seed: int = 0) -> bytes:
        """Noise, with every filter type."""
        rng = random.Random(seed)
        stride = (width * depth * CHANNELS[colour] + 7) // 8
        return b"".join(bytes([row % 5]) + rng.randbytes(stride) for row in range(height))

    def solid(self, width: int, height: int, pixel: bytes) -> bytes:
        return (b"\0" + pixel * width) * height

    def adam7_raw(self, width: int, height: int) -> bytes:
        """Zeroed RGB scanlines of the seven passes."""
        passes = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
        raw = b""
        for x, y, dx, dy in passes:
            columns, rows = len(range(x, width, dx)), len(range(y, height, dy))
            raw += (b"\0" + b"\0\0\0" * columns) * rows if columns else b""
        return raw

    def png(
        self,
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
        """A PNG of ``raw`` scanlines or a ready zlib ``stream``; ``head`` and ``tail`` are chunks around IDAT."""
        if stream is None:
            stream = zlib.compress(self.raw_rows(width, height, depth, colour) if raw is None else raw, 1)
        step = max(1, -(-len(stream) // pieces))
        idat = b"".join(self.chunk(b"IDAT", stream[at : at + step]) for at in range(0, len(stream), step))
        header = self.chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlace))
        return self.signature + header + head + idat + tail + self.chunk(b"IEND")

    def first_rows(self, count: int) -> bytes:
        return zlib.compress(self.rows[: count * self.stride])

    def broken_stream(self) -> bytes:
        """A valid zlib header, then a deflate block type that does not exist."""
        return self.png(stream=self.patched(zlib.compress(self.rows), 2, b"\xff"))

    def picture(self, mode: str = "RGB", size: tuple[int, int] = (40, 24)) -> Image.Image:
        gradient = Image.linear_gradient("L").resize(size)
        return Image.merge("RGB", (gradient, gradient.rotate(180), gradient)).convert(mode)

    def saved(self, image: Image.Image, kind: str, **options: object) -> bytes:
        out = io.BytesIO()
        image.save(out, kind, **options)
        return out.getvalue()

    def jpeg(self, mode: str = "RGB", **options: object) -> bytes:
        return self.saved(self.picture(mode), "JPEG", **options)

    def gif(self, frames: int = 1, **options: object) -> bytes:
        more = [self.picture().rotate(90 * turn).convert("P") for turn in range(1, frames)]
        return self.saved(self.picture("P"), "GIF", save_all=frames > 1, append_images=more, **options)

    def webp(self, frames: int = 1, mode: str = "RGB") -> bytes:
        more = [self.picture(mode).rotate(90 * turn) for turn in range(1, frames)]
        return self.saved(self.picture(mode), "WEBP", lossless=True, save_all=frames > 1, append_images=more)

    def patched(self, data: bytes, at: int, new: bytes) -> bytes:
        return data[:at] + new + data[at + len(new) :]


@pytest.fixture(scope="session")
def pictures() -> Pictures:
    return Pictures()
