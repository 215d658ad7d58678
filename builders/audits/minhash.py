"""Which texts are nearly equal: MinHash over character shingles finds candidates, exact Jaccard decides.

numpy does it in some lines; datasketch would bring scipy (143 MB on disk, half a second to import), and the pairs that
are found stand in the identity of a build, so that no other release of a library may change them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Hashes = NDArray[np.uint64]

SHINGLE = 5  # characters
PERMUTATIONS = 128
BANDS, ROWS = 32, 4  # a pair of Jaccard 0.65 meets in some band in 99.8 of 100 cases, one of 0.3 in 23
_ESTIMATED = 256  # candidates of one text, those that meet in most bands, whose signatures are compared
_VERIFIED = 16  # candidates of one text, the most similar by signature, whose exact similarity is computed
_SPREAD = tuple(int.from_bytes(hashlib.sha256(b"shingle %d" % i).digest()[:8]) | 1 for i in range(SHINGLE))


def shingles(text: str) -> Hashes:
    """The sorted distinct hashes of all runs of ``SHINGLE`` characters; a shorter text is one run."""
    import numpy as np

    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4").astype(np.uint64)
    if len(codes) < SHINGLE:
        codes = np.concatenate([codes, np.zeros(SHINGLE - len(codes), np.uint64)])
    size = len(codes) - SHINGLE + 1
    hashes = np.zeros(size, np.uint64)
    for place, factor in enumerate(_SPREAD):
        hashes += codes[place : place + size] * np.uint64(factor)  # modulo 2**64
    hashes ^= hashes >> np.uint64(31)
    return np.unique(hashes * np.uint64(_SPREAD[0]))


def jaccard(left: Hashes, right: Hashes) -> float:
    """Shared runs of all runs, in [0, 1]."""
    import numpy as np

    both = len(np.intersect1d(left, right, assume_unique=True))
    return both / (len(left) + len(right) - both)


def signature(hashes: Hashes) -> NDArray[np.uint32]:
    """The MinHash of a set of runs, (PERMUTATIONS,): equal places of two signatures estimate their Jaccard."""
    import numpy as np

    factors, offsets = _permutations()
    smallest: Any = (hashes[:, None] * factors + offsets).min(axis=0)  # (runs, PERMUTATIONS), modulo 2**64
    made: NDArray[np.uint32] = (smallest >> np.uint64(32)).astype(np.uint32)
    return made


def near(queries: Sequence[str], texts: Sequence[str], threshold: float) -> Iterator[tuple[int, int, float]]:
    """Yield (query, text, Jaccard) for each query that some text equals to ``threshold`` or more: its nearest text.

    Of several as near, the first one. Costs memory for one signature a text and no more.
    """
    import numpy as np

    if not queries or not texts:
        return
    asked = np.stack([signature(shingles(q)) for q in queries])  # (queries, PERMUTATIONS)
    known = np.stack([signature(shingles(t)) for t in texts])  # (texts, PERMUTATIONS)
    bands = []  # per band: texts in the order of their key, and where each query's key begins and ends in it
    for a, k in zip(_keys(asked), _keys(known), strict=True):
        order = np.argsort(k, kind="stable")
        ordered = k[order]
        bands.append((order, np.searchsorted(ordered, a, "left"), np.searchsorted(ordered, a, "right")))
    for number, query in enumerate(queries):
        met = [order[lo[number] : hi[number]] for order, lo, hi in bands if lo[number] < hi[number]]
        if not met:
            continue
        bands_met = np.bincount(np.concatenate(met))
        found = np.flatnonzero(bands_met)
        if len(found) > _ESTIMATED:  # of tasks made from one template nearly all meet
            found = found[np.argsort(-bands_met[found], kind="stable")[:_ESTIMATED]]
            found.sort()
        estimates = (known[found] == asked[number]).sum(axis=1)
        best = found[np.argsort(-estimates, kind="stable")][:_VERIFIED]
        own = shingles(query)
        exact = [(jaccard(own, shingles(texts[t])), -int(t)) for t in best]
        similarity, text = max(exact)
        if similarity >= threshold:
            yield number, -text, similarity


def _keys(signatures: NDArray[np.uint32]) -> Iterator[Hashes]:
    """Band by band, the key of each signature, (signatures,)."""
    import numpy as np

    for band in range(BANDS):
        rows = signatures[:, band * ROWS : (band + 1) * ROWS].astype(np.uint64)
        yield (rows * np.array(_SPREAD[:ROWS], np.uint64)).sum(axis=1, dtype=np.uint64)


@cache
def _permutations() -> tuple[Hashes, Hashes]:
    """Odd factors and offsets of the hash functions, fixed for good."""
    import numpy as np

    digests = [hashlib.sha256(b"minhash %d" % i).digest() for i in range(PERMUTATIONS)]
    factors = [int.from_bytes(d[:8]) | 1 for d in digests]
    offsets = [int.from_bytes(d[8:16]) for d in digests]
    return np.array(factors, np.uint64), np.array(offsets, np.uint64)
