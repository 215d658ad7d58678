"""Regression samples of reward models for text: what was said, and a value in [0, 1] (``label``).

A conversation (``messages``, ``conversations``) is scored at its last turn, which is the completion. A text with a
``response`` or ``completion`` is split there. A text alone (``prompt``, ``content``, ``prompt_answer``) does not say
where the scored action begins: it is the prompt, and the completion is empty.

The id is a hash of what was said, so that one text with two values is a conflict. The task, which decides the split, is
``instruction`` or ``question``, else as for `agent_chat`, else what stands before the first line that begins a solution
("Solution:", "Step 1:", "Action:", ...).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ...schemas.ids import canonical_json, sha256_hex
from . import agent_chat, record_ids
from .types import Context, ImportedRow, InvalidTurn

Record = dict[str, Any]

_TASKS = ("instruction", "question")
_TEXTS = ("prompt", "content", "prompt_answer")
_ANSWERS = ("response", "completion")
_BEGINS = re.compile(r"^[^\S\n]*(?:solution|existing steps|answer|thought|action|step\s*\d+)\s*:", re.I | re.M)
_ROLES = {"system": "system", "assistant": "assistant"}  # a row's messages know no others but the user


def rows(record: Record, context: Context) -> Iterator[ImportedRow | InvalidTurn]:
    """Yield the one row of a record."""
    name = next((name for name in ("messages", "conversations", *_TEXTS) if record.get(name)), None)
    if name is None:
        yield InvalidTurn(sha256_hex(canonical_json(record)), "invalid_record", "$", "is about an empty text",
                          kind="pointwise_scores")  # fmt: skip
        return
    if name in _TEXTS:
        answer = next((record[field] for field in _ANSWERS if record.get(field)), "")
        turns, path = [{"role": "user", "content": record[name]}, {"role": "assistant", "content": answer}], f"$.{name}"
        parts = _BEGINS.split(record[name], maxsplit=1)
        task = parts[0].strip() or record[name]
    else:
        turns = [{"role": agent_chat.role_of(turn), "content": agent_chat.said_of(turn)} for turn in record[name]]
        path = f"$.{name}[{len(turns) - 1}]"
        task = agent_chat.task_of(record, record[name])
    messages = [_message(turn) for turn in turns]
    row_id = record_ids.hashed("score", messages)
    if len(messages) < 2 or messages[-1]["role"] != "assistant":
        said = "has one turn" if len(messages) < 2 else "is not the assistant's"
        message = f"{said}; the scored turn is the last, an assistant's, and something stands before it"
        yield InvalidTurn(row_id, "invalid_record", path, message, kind="pointwise_scores")
        return
    row = {
        "score_id": row_id,
        "unit": "step",
        "state_id": None,
        "set_id": None,
        "candidate_index": None,
        "score": float(record["label"]),
        "score_source": context.constants.get("score_source", "mcts_value"),
        "prompt": messages[:-1],
        "completion": messages[-1:],
        "prompt_id": None,
        "prompt_sha256": None,
    }
    named = next((record[field] for field in _TASKS if record.get(field)), None)
    yield ImportedRow("pointwise_scores", row, task=named or task, where=path)


def _message(turn: Record) -> Record:
    return {"role": _ROLES.get(turn["role"], "user"), "content": [{"type": "text", "text": turn["content"]}]}
