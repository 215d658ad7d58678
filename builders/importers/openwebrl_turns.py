"""OpenWebRL's released trajectories: one row a turn, each with its rendered prompt, its response and one screenshot.

An episode is the rows with one ``task_id`` and ``rollout_idx``, ordered by ``turn_index`` (0-based), wherever in the
file they stand. The row with the most messages has the episode's conversation; the n-th placeholder of its user and
tool messages stands for the screenshot of turn n. The task is ``metadata.intent``, else the last ``<user_request>``,
else the first user text without its frame. `prompt_text` keeps the rendered prompt whole; the tools stand in its
``<tools>`` block. A ``reward`` that is a number in [0, 1] is the outcome: the row's own, else its metadata's. The
response is kept as it was written, with its calls and its end-of-turn token. All else goes into `source_record_json`.

Two rows of one turn are a repeat or a conflict. A turn without a row, and one that has not exactly one picture, is
invalid; later turns show its picture as ``sha256:unreadable``. An episode whose placeholders do not line up with its
turns is invalid as a whole, and so is a row that tells another conversation than the longest one: two rollouts share
an id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ...schemas.errors import ArmError
from ...schemas.ids import canonical_json, task_group
from . import openai_messages
from . import text as texts
from .pictures import read_picture
from .types import Context, ImportedState, InvalidTurn, reason_of

Record = dict[str, Any]

PLACEHOLDER = "<|vision_start|><|image_pad|><|vision_end|>"
_SHOWN = re.compile(rf"(?:screenshot:\s*)?{re.escape(PLACEHOLDER)}")  # older ones may be gone, with their label
_NO_PICTURE = "data:,"  # stands where a turn has no picture that could be read
_READ_KEYS = {"prompt", "response", "metadata"}
_READ_METADATA = {"images", "messages"}


def key(record: Record) -> str:
    """Rows with equal keys are one episode."""
    return f"{record['metadata']['task_id']}_r{record['rollout_idx']}"


def states(records: list[Record], context: Context) -> Iterator[ImportedState | InvalidTurn]:
    """Yield one state per row, and what is invalid."""
    episode_id = key(records[0])
    rows = _by_turn(records)
    longest = _longest(records)
    first = [records[rows[turn][0]] if turn in rows else None for turn in range(max(rows) + 1)]
    messages = _conversation(longest, first)
    if isinstance(messages, str):
        for position, record in enumerate(records):
            state_id = f"{episode_id}__t{record['metadata']['turn_index']}"
            yield InvalidTurn(state_id, "invalid_record", "$.metadata.messages", messages, record=position)
        return
    metadata = {"intent": longest["metadata"].get("intent")}
    episode = {"episode_id": episode_id, "messages": messages, "metadata": metadata}
    for turn, walked in enumerate(openai_messages.states(episode, context)):
        for position in rows.get(turn, ()):
            yield _of_row(records, position, position == rows[turn][0], walked, longest, context)
        if turn not in rows:
            yield _missing(episode_id, turn, rows)
    for turn in range(len(first), longest["metadata"].get("num_turns_in_trajectory") or 0):
        yield _missing(episode_id, turn, rows)


def _longest(records: Sequence[Record]) -> Record:
    """The row with the most messages; of several the latest turn, then the greatest as text."""

    def length(record: Record) -> tuple[int, int]:
        return len(_said(record)), record["metadata"]["turn_index"]

    most = max(map(length, records))
    found = [record for record in records if length(record) == most]
    return found[0] if len(found) == 1 else max(found, key=canonical_json)


def _by_turn(records: Sequence[Record]) -> dict[int, list[int]]:
    """Turn -> positions of its rows; later turns show the picture of the first, whatever the order in the file."""
    rows: dict[int, list[int]] = {}
    for position, record in enumerate(records):
        rows.setdefault(record["metadata"]["turn_index"], []).append(position)
    for turn, positions in rows.items():
        if len(positions) > 1:
            rows[turn] = sorted(positions, key=lambda p: (_problem(records[p]) is not None, canonical_json(records[p])))
    return dict(sorted(rows.items()))


def _missing(episode_id: str, turn: int, rows: dict[int, list[int]]) -> InvalidTurn:
    """A turn that no row tells of, at the row after it (else the last)."""
    later = next((found for found in rows if found > turn), max(rows))
    message = f"turn {turn} of the episode {episode_id!r} has no row"
    place = "$.metadata.turn_index" if later > turn else "$.metadata.num_turns_in_trajectory"
    return InvalidTurn(f"{episode_id}__t{turn}", "invalid_record", place, message, record=rows[later][0])


def _conversation(longest: Record, first: Sequence[Record | None]) -> list[Record] | str:
    """The messages of the episode with its pictures, or why they do not line up with its turns."""
    turns, shown, acted = len(first), 0, 0
    messages: list[Record] = []
    for said in _said(longest):
        message, content = said, said.get("content") or ""
        if message["role"] == "assistant":
            acted += 1
            if shown != acted:
                return f"has {shown} screenshot placeholders before assistant turn {acted - 1}; {acted} are expected"
        elif message["role"] != "system" and PLACEHOLDER in content:
            parts: list[Record] = []
            for number, piece in enumerate(content.split(PLACEHOLDER)):
                if number:
                    parts.append({"type": "image_url", "image_url": {"url": _url(first, shown)}})
                    shown += 1
                if piece:
                    parts.append({"type": "text", "text": piece})
            message = {**message, "content": parts}
        messages.append(message)
    if shown != turns or acted not in (turns - 1, turns):
        return f"has {shown} screenshot placeholders and {acted} assistant turns for {turns} turns of the episode"
    if acted < turns:
        messages.append({"role": "assistant", "content": (first[-1] or longest)["response"]})
    return messages


def _url(first: Sequence[Record | None], turn: int) -> str:
    record = first[turn] if turn < len(first) else None
    return _NO_PICTURE if record is None or _problem(record) else str(record["metadata"]["images"][0])


def _said(record: Record) -> list[Record]:
    return record["metadata"].get("messages") or []


def _problem(record: Record) -> tuple[str, str, str] | None:
    """(reason, JSON path, message) of a row that has not exactly one picture."""
    images = record["metadata"].get("images") or []
    if len(images) == 1:
        return None
    reason = "invalid_record" if images else "image_missing"
    return reason, "$.metadata.images", f"holds {len(images)} pictures; a turn has one, its current screenshot"


def _of_row(
    records: Sequence[Record], position: int, is_first: bool, walked: ImportedState | InvalidTurn, longest: Record,
    context: Context,
) -> ImportedState | InvalidTurn:  # fmt: skip
    """The state of one row; ``walked`` is what the episode's conversation gives for its turn, with the picture of the
    first of its rows."""
    record, place, image = records[position], "$.metadata.images[0]", None
    row = walked.row if isinstance(walked, ImportedState) else {"state_id": walked.state_id}
    problem = _problem(record) or _other_conversation(record, longest)
    if problem is None:
        if isinstance(walked, InvalidTurn):
            problem = walked.reason, place, walked.message
        elif is_first:
            image = walked.image
        else:
            try:
                image = read_picture(record["metadata"]["images"][0], context.folder)
            except ArmError as error:
                problem = reason_of(error), place, error.message
    if problem:
        return InvalidTurn(row["state_id"], *problem, record=position)
    task = row["task"] or texts.requested_task(record["prompt"])
    row = {
        **row,
        "task": task,
        "task_group": task_group(task, row["episode_id"]),
        "prompt_text": record["prompt"],
        "tools_json": texts.listed_tools(record["prompt"]),
        "demo_response": record["response"] or None,
        "episode_outcome": _outcome(record),
        "source_record_json": _leftover(record, longest),
    }
    return ImportedState(row, image, place, position)


def _other_conversation(record: Record, longest: Record) -> tuple[str, str, str] | None:
    """What shows that a row is of another rollout than the longest: another task, or other observations."""
    if record["metadata"].get("intent") != longest["metadata"].get("intent"):
        return "invalid_record", "$.metadata.intent", "is another task than that of the episode's longest row"
    turn = record["metadata"]["turn_index"]
    own, whole = _before(_said(record), turn), _before(_said(longest), turn)
    if own and _observed(own) != _observed(whole):
        message = "are not the beginning of the longest row's: two rollouts share task_id and rollout_idx"
        return "invalid_record", "$.metadata.messages", message
    return None


def _before(messages: Sequence[Record], turn: int) -> Sequence[Record]:
    """The messages before assistant turn ``turn``."""
    acted = [n for n, message in enumerate(messages) if message["role"] == "assistant"]
    return messages[: acted[turn]] if turn < len(acted) else messages


def _observed(messages: Sequence[Record]) -> list[str]:
    """What the agent was shown, without pictures and their labels. Earlier thoughts may be shortened in later rows."""
    return [_SHOWN.sub("", m.get("content") or "").strip() for m in messages if m["role"] in ("user", "tool")]


def _outcome(record: Record) -> float | None:
    """A reward within [0, 1]; the parts of a reward (format, judge, ...) are no outcome."""
    for reward in (record.get("reward"), record["metadata"].get("reward")):
        if isinstance(reward, int | float):
            return float(reward) if 0 <= reward <= 1 else None
    return None


def _leftover(record: Record, longest: Record) -> str | None:
    """What no field of the row holds. Messages are kept where they are not the beginning of the longest row's."""
    rest = {name: value for name, value in record.items() if name not in _READ_KEYS}
    if kept := {name: value for name, value in record["metadata"].items() if name not in _READ_METADATA}:
        rest["metadata"] = kept
    own, turn = _said(record), record["metadata"]["turn_index"]
    before = _before(own, turn)
    if before != _before(_said(longest), turn):
        rest["messages"] = own
    elif after := own[len(before) :]:
        rest["messages_after"] = after
    return canonical_json(rest) if rest else None
