"""WebPRMBench: which of two actions is better in a state of the web, asked as one whole judge's prompt.

Documented by the bench: 1,150 states of four environments, each with one good action against four others, so 4,600
pairs; an item counts as won alone (pairwise accuracy), a state only with all four (best of n). Inferred from its file:
``expected`` is 1 or 2, ``state_idx`` counts within one ``source_name``, and ``prompt`` is the user's turn, or all
messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...schemas.errors import ArmError
from ...schemas.ids import canonical_json, sha256_hex
from . import chat
from .types import Context, ImportedRow, InvalidTurn, Remark

Record = dict[str, Any]
BENCH = "webprmbench"
PAIRS = 4  # of a state


def state_of(record: Record) -> str:
    """The state that a record asks about."""
    return f"{record['source_name']}|{record['state_idx']}"


def items(records: list[Record], context: Context) -> Iterator[ImportedRow | InvalidTurn | Remark]:
    """Yield the items of one state. Ids are hashes of prompts, so that one prompt with two answers is a conflict."""
    group = state_of(records[0])
    asked: dict[int, Record] = {}  # pair -> its record
    prompts: dict[str, Record] = {}
    for number, record in enumerate(records):
        item_id = f"{BENCH}-{sha256_hex(canonical_json(record['prompt']))[:32]}"
        first = asked.setdefault(record["pair_idx"], record)
        if first != record:
            message = f"is {record['pair_idx']}, and another pair of state {group} is that, too"
            yield InvalidTurn(item_id, "conflicting_id", "$.pair_idx", message, "bench_items", number)
            continue
        same = prompts.setdefault(item_id, record)
        if same["pair_idx"] != record["pair_idx"] and same["expected"] == record["expected"]:
            message = f"is that of pair {same['pair_idx']} of state {group}"
            yield InvalidTurn(item_id, "duplicate_record", "$.prompt", message, "bench_items", number)
            continue
        try:
            prompt = _prompt(record["prompt"])
        except ArmError as error:
            yield InvalidTurn.of(item_id, error, kind="bench_items", record=number)
            continue
        left = {k: v for k, v in record.items() if k not in ("expected", "prompt", "source_name")}
        row = {
            "item_id": item_id,
            "bench": BENCH,
            "group_id": f"{BENCH}|{group}",
            "origin": record["source_name"],
            "prompt": prompt,
            "options": 2,
            "expected_index": record["expected"] - 1,
            "source_record_json": canonical_json(left),
        }
        yield ImportedRow("bench_items", row, record=number)
    if len(asked) != PAIRS:
        yield Remark("$.state_idx", f"state {group} has {len(asked)} pairs; the bench has {PAIRS} a state")


def _prompt(said: str | list[Record]) -> list[chat.Message]:
    """Text as it stands: a judge's prompt has no pictures, and a page may well say <image>."""
    turns = [{"role": "user", "content": said}] if isinstance(said, str) else said
    for number, turn in enumerate(turns):
        if not turn["content"]:
            raise ArmError("is empty", where="$.prompt" if isinstance(said, str) else f"$.prompt[{number}].content")
    return [{"role": t["role"], "content": [{"type": "text", "text": t["content"]}]} for t in turns]
