"""Arrow arrays from Python values.

`pyarrow.array`, `pyarrow.scalar`, grouping and combining no chunks import pandas to ask whether it knows the values,
which takes 40 MB and a third of a second: as much as all that a comparison holds.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def integers(values: Iterable[int]) -> pa.Array:
    """``int32``."""
    import pyarrow as pa

    data = array("i", values)
    return pa.Array.from_buffers(pa.int32(), len(data), [None, pa.py_buffer(data)])


def repeated(value: int, count: int) -> pa.Array:
    """``count`` times one ``int32``."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(array("i", [value]) * count)])


def strings(values: Sequence[str]) -> pa.Array:
    import pyarrow as pa

    data = [value.encode() for value in values]
    offsets = array("i", accumulate(map(len, data), initial=0))
    return pa.Array.from_buffers(pa.string(), len(data), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(data))])


def whole(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array; copied only when it has several chunks."""
    import pyarrow as pa

    if column.num_chunks == 0:
        return pa.nulls(0, column.type)
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
