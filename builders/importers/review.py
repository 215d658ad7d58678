"""`review.jsonl`: what people said of rows, one verdict a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .types import Context, ImportedRow


def verdict(record: dict[str, Any], context: Context) -> Iterator[ImportedRow]:
    """Yield the verdict as it is, with an index that says null where it is absent."""
    yield ImportedRow("reviews", {**record, "selected_index": record.get("selected_index")})
