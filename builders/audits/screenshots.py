"""Screenshots that look alike although their bytes differ: rescaled, recompressed, or changed in a few pixels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...schemas.images import CheckedImage, ImageError, grey

SIDE = 72  # pixels of the thumbnail; 9 x 8 and 8 x 9 cells are whole numbers of them
TOLERANCE = 5  # bits of 128 in which two pictures that look alike may differ
_LEAST = 4  # bits that have to be set: blank pages resemble everything that is nearly blank
_STEP = 2.0  # of 255, by which a cell has to be brighter than its neighbour; less is noise of compression
_CHUNK = 256  # pictures compared at once


def look(image: CheckedImage) -> str | None:
    """A difference hash of 128 bits as hexadecimal: where brightness rises to the right (64) and downwards (64).

    None for a picture without structure, or one that Pillow refuses although the walk over its bytes did not.
    """
    import numpy as np

    try:
        cells = np.frombuffer(grey(image.data, image.media_type, SIDE), np.uint8).reshape(SIDE, SIDE)
    except ImageError:
        return None
    wide: Any = cells.reshape(8, 9, 9, 8).mean(axis=(1, 3))  # (8 rows, 9 columns)
    tall: Any = cells.reshape(9, 8, 8, 9).mean(axis=(1, 3))  # (9 rows, 8 columns)
    bits = np.concatenate([(np.diff(wide, axis=1) > _STEP).ravel(), (np.diff(tall, axis=0) > _STEP).ravel()])
    return np.packbits(bits).tobytes().hex() if bits.sum() >= _LEAST else None


def alike(queries: Sequence[str], looks: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Yield (query, look, bits that differ) for each query that some look resembles: the first of the most similar."""
    import numpy as np

    if not queries or not looks:
        return

    def halves(hashes: Sequence[str]) -> Any:  # (hashes, 2)
        return np.frombuffer(bytes.fromhex("".join(hashes)), ">u8").astype(np.uint64).reshape(-1, 2)

    known = halves(looks)
    for start in range(0, len(queries), _CHUNK):
        asked = halves(queries[start : start + _CHUNK])
        differ = np.bitwise_count(asked[:, None, 0] ^ known[None, :, 0])  # (chunk, looks), in bits
        differ += np.bitwise_count(asked[:, None, 1] ^ known[None, :, 1])
        nearest = differ.argmin(axis=1)
        for place, other in enumerate(nearest):
            if (bits := int(differ[place, other])) <= TOLERANCE:
                yield start + place, int(other), bits
