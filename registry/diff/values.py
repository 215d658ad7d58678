"""Which of two equally long columns' values differ, and where in a value they do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import orjson

from ...schemas.digests import RowCodec
from ...schemas.store import Schema
from .arrays import integers
from .model import MAX_TEXT, Change

if TYPE_CHECKING:
    import pyarrow as pa


def unequal(before: pa.Array, after: pa.Array) -> list[int]:
    """Places (0-based) at which two arrays of one type and length differ, in order.

    Equal stretches are compared as a whole, so that a column that hardly changed never becomes Python objects.
    """
    found, waiting = [], [(0, len(before))]
    while waiting:
        start, stop = waiting.pop()
        if before.slice(start, stop - start).equals(after.slice(start, stop - start)):
            continue
        if stop - start == 1:
            found.append(start)
            continue
        middle = (start + stop) // 2
        waiting += [(middle, stop), (start, middle)]  # the first half is looked at next
    return found


def picked(column: pa.Array, rows: pa.Array) -> pa.Array:
    """``column`` at ``rows``; without a copy when they are one stretch in order."""
    first, count = rows[0].as_py(), len(rows)
    if rows[-1].as_py() - first == count - 1 and rows.equals(integers(range(first, first + count))):
        return column.slice(first, count)
    return column.take(rows)


def holds_numbers(kind: pa.DataType) -> bool:
    """Whether a value of this type can hold floating-point numbers, which differ in more ways than their digests."""
    import pyarrow as pa

    if pa.types.is_list(kind):
        return holds_numbers(kind.value_type)
    if pa.types.is_struct(kind):
        return any(holds_numbers(field.type) for field in kind)
    return bool(pa.types.is_floating(kind))


def same(field: str, node: Schema, before: Any, after: Any) -> bool:
    """Whether two values of a field have one canonical form, as a row digest sees them."""
    codec = RowCodec({"type": "object", "properties": {field: node}, "required": [field]})
    return codec.canonical({field: before}) == codec.canonical({field: after})


def changes(where: str, before: Any, after: Any) -> Iterator[Change]:
    """The leaves at which two JSON values differ; lists of other lengths differ as a whole."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            yield from changes(f"{where}.{key}" if where else key, before.get(key), after.get(key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from changes(f"{where}[{number}]", old, new)
    elif before != after or type(before) is not type(after):
        yield Change(where, _bounded(before), _bounded(after))


def _bounded(value: Any) -> Any:
    """``value``, if it is not longer than `MAX_TEXT`; else its beginning, and how much is missing."""
    text = value if isinstance(value, str) else None
    if text is None and isinstance(value, (list, dict)):
        text = orjson.dumps(value).decode()
    if text is None or len(text) <= MAX_TEXT:
        return value
    return f"{text[:MAX_TEXT]}… ({len(text) - MAX_TEXT:,} more characters)"
