"""`review.jsonl`: what people said of rows, one verdict a line; and the table `reviews` of another build."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .types import Context, ImportedRow


def verdict(record: dict[str, Any], context: Context) -> Iterator[ImportedRow]:
    """Yield what was said as it is, with an index that says null where it is absent."""
    said = {name: value for name, value in record.items() if name != "review_id"}  # which is made of the others
    yield ImportedRow("reviews", {**said, "selected_index": said.get("selected_index")})
