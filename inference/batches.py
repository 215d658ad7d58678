"""Conversations in batches that fit into memory: long ones few at a time, and of similar length, for little padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..schemas.errors import ArmError
from .processor import Encoded, Processor

TOKENS = 16_384  # of a batch, padding and pictures included


def batches(rows: Sequence[Encoded], tokens: int = TOKENS, *, added: int = 0) -> Iterator[list[int]]:
    """Yield the places of the rows of each batch, the longest first: a batch that is too large fails at once.

    added: tokens that will come to each row. No batch holds more than ``tokens`` with its padding and those, unless it
    is one row alone.
    """
    batch: list[int] = []
    for place in sorted(range(len(rows)), key=lambda at: (-len(rows[at].input_ids), at)):
        longest = len(rows[batch[0]].input_ids) if batch else 0
        if batch and (longest + added) * (len(batch) + 1) > tokens:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def refuse_long(rows: Sequence[Encoded], limit: int, of: str = "") -> None:
    """Raise ArmError for a conversation of more than ``limit`` tokens; nothing is ever cut. of: what ``rows`` are of,
    as " of set 3"."""
    for place, row in enumerate(rows):
        if len(row.input_ids) > limit:
            raise ArmError(
                f"conversation {place}{of} has {len(row.input_ids):,} tokens, and this checkpoint takes {limit:,}"
            )


def arrays(processor: Processor, rows: Sequence[Encoded], model: Any, *, left: bool = False) -> dict[str, Any]:
    """`Processor.batch` of ``rows`` where ``model`` lies."""
    return {key: value.to(model.device) for key, value in processor.batch(rows, left=left).items()}
