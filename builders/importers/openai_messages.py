"""Canonical episodes: one JSON object a line, messages in OpenAI chat form, screenshots in the messages.

The task is ``metadata.intent``, else the last ``<user_request>`` of the user texts, else the first user text without
its step and address lines. The episode id is ``episode_id``, else ``<task_id>_r<rollout_idx>``, else a hash of the
record. The screenshot of a turn is the newest picture before it; an episode without any picture is text-only, and the
text since the last turn stands in (`observation_text`). `metadata.elements` holds one list per assistant turn. All
other metadata and unknown keys are kept in `source_record_json`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...schemas.actions import parse
from ...schemas.errors import ArmError
from ...schemas.ids import canonical_json, sha256_hex, task_group
from . import record_ids
from . import text as texts
from .pictures import read_picture
from .types import Context, ImportedState, InvalidTurn, reason_of

_READ_KEYS = {"episode_id", "messages", "tools", "metadata"}
_ELEMENT_KEYS = {"tag", "text", "box"}


def states(record: dict[str, Any], context: Context) -> Iterator[ImportedState | InvalidTurn]:
    """Yield one state per assistant turn. A turn whose screenshot cannot be read is invalid; the others still come."""
    metadata = record.get("metadata") or {}
    messages = record["messages"]
    episode_id = _episode_id(record, metadata)
    task = metadata.get("intent") or _task(messages)
    pictures = _Pictures(context)
    text_only = not any(_is_picture(part) for message in messages for part in _parts(message))
    shared = {
        "episode_id": episode_id,
        "task": task,
        "task_group": task_group(task, episode_id),
        "prompt_text": None,
        "tools_json": canonical_json(record["tools"]) if record.get("tools") else None,
        "episode_outcome": _outcome(metadata),
    }
    last = max((n for n, message in enumerate(messages) if message["role"] == "assistant"), default=-1)
    after = _after(messages, last, context)
    history: list[dict[str, Any]] = []
    seen: list[dict[str, Any]] = []  # messages before the turn, pictures replaced by their hash
    said: list[str] = []  # user and tool texts before the turn
    since: list[str] = []  # ... and those after the last turn
    turn = 0
    for number, message in enumerate(messages):
        if message["role"] == "assistant":
            if history:
                history[-1]["observation"] = "\n".join(since)
            response = texts.written_calls(_text(message), message.get("tool_calls"))
            state_id = f"{episode_id}__t{turn}"
            if problem := pictures.problem:
                yield InvalidTurn(state_id, *problem)
            else:
                url = texts.newest_url(said)
                row = {
                    **shared,
                    "state_id": state_id,
                    "turn": turn,
                    "url": url,
                    "host": texts.host_of(url),
                    "history": [dict(entry) for entry in history],
                    "messages_json": canonical_json(seen),
                    "observation_text": "\n".join(since) if text_only else None,
                    "elements": _elements(metadata, turn),
                    "demo_response": response or None,
                    "source_record_json": _leftover(record, metadata, turn, after if number == last else []),
                }
                yield ImportedState(row, pictures.newest, pictures.where)
            parsed = parse(context.dialect, response)
            history.append({"turn": turn, "thought": parsed.thought, "action": parsed.action, "observation": ""})
            since, turn = [], turn + 1
        else:
            text = _text(message)
            if message["role"] != "system" and text:
                since.append(text)
                said.append(text)
        seen.append(pictures.replace(message, f"$.messages[{number}]"))


class _Pictures:
    """The newest screenshot while walking through an episode, and why it could not be read, if so."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.newest: bytes | None = None
        self.where = "$"  # JSON path of the newest
        self.problem: tuple[str, str, str] | None = None  # (reason, JSON path, message)

    def replace(self, message: dict[str, Any], where: str) -> dict[str, Any]:
        """The message with its pictures replaced by ``sha256:<hex>``, the last of them remembered as the newest."""
        if not isinstance(message.get("content"), list):
            return message
        parts = []
        for number, part in enumerate(message["content"]):
            if not _is_picture(part):
                parts.append(part)
                continue
            self.where = f"{where}.content[{number}].image_url.url"
            try:
                self.newest, self.problem = read_picture(part["image_url"]["url"], self._context.folder), None
                parts.append({**part, "image_url": {**part["image_url"], "url": f"sha256:{sha256_hex(self.newest)}"}})
            except ArmError as error:
                self.newest, self.problem = None, (reason_of(error), self.where, error.message)
                parts.append({**part, "image_url": {**part["image_url"], "url": "sha256:unreadable"}})
        return {**message, "content": parts}


def _parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if content else []


def _is_picture(part: dict[str, Any]) -> bool:
    return bool(part["type"] == "image_url")


def _text(message: dict[str, Any]) -> str:
    return "\n".join(part["text"] for part in _parts(message) if part["type"] == "text")


def ids(record: dict[str, Any]) -> dict[str, Any]:
    """The episode's id if it is a hash of the whole record."""
    episode_id = _episode_id(record, record.get("metadata") or {})
    return {"episode_id": episode_id} if episode_id == record_ids.hashed("ep", record) else {}


def _episode_id(record: dict[str, Any], metadata: dict[str, Any]) -> str:
    if record.get("episode_id"):
        return str(record["episode_id"])
    if metadata.get("task_id") is not None and metadata.get("rollout_idx") is not None:
        return f"{metadata['task_id']}_r{metadata['rollout_idx']}"
    return record_ids.hashed("ep", record)


def _task(messages: list[dict[str, Any]]) -> str | None:
    user = [_text(m) for m in messages if m["role"] == "user"]
    for text in reversed(user):
        if found := texts.requested_task(text):
            return found
    return texts.framed_task(user[0]) if user else None


def _outcome(metadata: dict[str, Any]) -> float | None:
    """``success`` as 1 or 0, else a ``reward`` within [0, 1]; its parts (format, judge, ...) are no outcome."""
    if metadata.get("success") is not None:
        return float(metadata["success"])
    reward = metadata.get("reward")
    return float(reward) if isinstance(reward, int | float) and 0 <= reward <= 1 else None


def _elements(metadata: dict[str, Any], turn: int) -> list[dict[str, Any]]:
    return [
        {"index": i, "tag": e["tag"], "text": e["text"], "box": [float(v) for v in e["box"]]}
        for i, e in enumerate(_recorded(metadata, turn))
    ]


def _recorded(metadata: dict[str, Any], turn: int) -> list[dict[str, Any]]:
    per_turn = metadata.get("elements") or []
    return per_turn[turn] if turn < len(per_turn) else []


def _after(messages: list[dict[str, Any]], last: int, context: Context) -> list[dict[str, Any]]:
    """The messages after the last assistant turn, which no state shows, pictures replaced by their hash."""
    pictures = _Pictures(context)
    return [pictures.replace(message, "$") for message in messages[last + 1 :]]


def _leftover(record: dict[str, Any], metadata: dict[str, Any], turn: int, after: list[dict[str, Any]]) -> str | None:
    """What no field of the row holds: other keys, metadata, what follows the last turn, other facts of elements."""
    rest = {k: v for k, v in record.items() if k not in _READ_KEYS}
    if kept := {k: v for k, v in metadata.items() if k != "elements"}:
        rest["metadata"] = kept
    if after:
        rest["messages_after"] = after
    if any(set(element) - _ELEMENT_KEYS for element in _recorded(metadata, turn)):
        rest["elements"] = _recorded(metadata, turn)
    return canonical_json(rest) if rest else None
