"""Conversations of agents that read text: ShareGPT turns (``conversations``) or chat turns (``messages``).

Each assistant turn is a state; what the user and the tools said since the turn before it stands in for the screenshot
(`observation_text`). A turn that is not trained on (``loss: false``, ``weight: 0``) is a state like any other, and what
its record says of it is kept.

The episode's id is ``id``, ``item_id`` or ``task_id``, the first that is text, with ``_r<rollout_idx>`` where there is
one; an integer counts the records of a file and is no identity. Without one it is a hash of the record.

The task is the field ``instruction``, ``intent`` or ``goal``. Else it stands in the user's first text, or, where the
first assistant turn only agrees to instructions, in the second before the first: the last ``<user_request>``; else what
follows the last label of a task ("Your task is to:", "Instruction:", "Task:", "Goal:"); else all of that text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ...schemas.actions import parse
from ...schemas.ids import canonical_json, task_group
from . import openai_messages, record_ids
from . import text as texts
from .types import Context, ImportedState, InvalidTurn

Record = dict[str, Any]

_ROLES = {
    "human": "user",
    "gpt": "assistant",
    "function_call": "assistant",
    "observation": "tool",
    "function_response": "tool",
}
_IDS = ("id", "item_id", "task_id")
_TASKS = ("instruction", "intent", "goal")
_READ_KEYS = {"conversations", "messages", "system"}
_TURN_KEYS = {"from", "value", "role", "content"}
# Longer labels first: "Task:" also ends "Your task:". A separator of WebShop's pages may follow.
_LABEL = re.compile(
    r"(?:\byour\s+task\s+is(?:\s+to)?\s*:|\bperform\s+actions\s+to\s+accomplish\s+the\s+goal\s*:|"
    r"\byour\s+task\s+is\s+to\b|^[^\S\n]*(?:task(?:\s+description)?|instruction|goal)\s*:|\binstruction\s*:\s*\[SEP\])"
    r"\s*(?:\[SEP\]\s*)?",
    re.I | re.M,
)
_TASK_END = re.compile(r"\[SEP\]|\n\s*\n|\n(?=\s*(?:observation|thought|action)\s*:)|\Z", re.I)


def states(record: Record, context: Context) -> Iterator[ImportedState | InvalidTurn]:
    """Yield one state per assistant turn; a turn before which nothing new was said is invalid."""
    episode_id = _episode_id(record)
    name = "conversations" if "conversations" in record else "messages"
    turns = record[name]
    if {"conversations", "messages"} <= set(record):
        yield InvalidTurn(episode_id, "invalid_record", "$", "has both conversations and messages; one is the episode")
        return
    acted = [n for n, turn in enumerate(turns) if role_of(turn) == "assistant"]
    if not acted:
        yield InvalidTurn(episode_id, "invalid_record", f"$.{name}", "has no assistant turn")
        return
    task = task_of(record, turns)
    messages = [{"role": role_of(turn), "content": said_of(turn), **_extra(turn)} for turn in turns]
    if record.get("system"):
        messages = [{"role": "system", "content": record["system"]}, *messages]
    episode = {
        "episode_id": episode_id,
        "messages": messages,
        "metadata": {"intent": task, "reward": record.get("reward")},
    }
    group = task_group(task, episode_id)
    for position, state in zip(acted, openai_messages.states(episode, context), strict=True):
        assert isinstance(state, ImportedState)  # without pictures nothing is unreadable
        where = f"$.{name}[{position}]"
        if not state.row["observation_text"]:
            before = "the assistant turn before it" if position else "the conversation began"
            message = f"answers nothing: nobody spoke since {before}"
            yield InvalidTurn(state.row["state_id"], "invalid_record", where, message)
            continue
        leftover = _leftover(record, turns, position, turns[position + 1 :] if position == acted[-1] else [])
        row = {**state.row, "task": task, "task_group": group, "source_record_json": leftover}
        yield replace(state, row=row, where=where)


def ids(record: Record) -> Record:
    """The episode's id if it is a hash of the whole record."""
    return {} if record_ids.own(record, _IDS) else {"id": record_ids.hashed("ep", record)}


def _episode_id(record: Record) -> str:
    return record_ids.of_rollout(record_ids.own(record, _IDS) or record_ids.hashed("ep", record), record)


def role_of(turn: Record) -> str:
    """Who speaks, in the words of chats: system, user, assistant or tool."""
    own: str = turn.get("from") or turn["role"]
    return _ROLES.get(own, own)


def said_of(turn: Record) -> str:
    """The text of a turn."""
    text: str = turn["value"] if "value" in turn else turn["content"]
    return text


def _extra(turn: Record) -> Record:
    """What a turn says besides who and what; a function call keeps its own role."""
    extra = {name: value for name, value in turn.items() if name not in _TURN_KEYS}
    own = turn.get("from") or turn["role"]
    return {**extra, "from": own} if own in ("function_call", "function_response") else extra


def task_of(record: Record, turns: list[Record]) -> str | None:
    """The task of a conversation, verbatim; see above."""
    if named := next((record[name] for name in _TASKS if record.get(name)), None):
        return str(named)
    said = [turn for turn in turns if role_of(turn) != "system"]
    asked = [said_of(turn) for turn in said if role_of(turn) == "user"]
    # Only what came before the agent acted: a page must not be able to set the task.
    agreed = len(said) > 2 and [role_of(turn) for turn in said[:3]] == ["user", "assistant", "user"]
    agreed = agreed and parse("react", said_of(said[1])).parse_error is not None
    candidates = asked[1::-1] if agreed else asked[:1]
    for text in candidates:
        if found := texts.requested_task(text):
            return found
    for text in candidates:
        if labels := list(_LABEL.finditer(text)):
            begin = labels[-1].end()
            end = _TASK_END.search(text, begin)
            assert end is not None
            if found := text[begin : end.start()].strip():
                return found
    return texts.framed_task(candidates[0]) if candidates else None


def _leftover(record: Record, turns: list[Record], position: int, after: list[Record]) -> str | None:
    """What no field of the row holds; of the turns only what is said of this one, and what follows the last."""
    rest = {name: value for name, value in record.items() if name not in _READ_KEYS}
    if extra := _extra(turns[position]):
        rest["assistant_turn"] = extra
    if after:
        rest["messages_after"] = after
    return canonical_json(rest) if rest else None
