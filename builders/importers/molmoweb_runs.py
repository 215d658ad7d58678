"""Runs of a MolmoWeb agent whose steps were chosen by a vote, and the training rows that were distilled from them.

Documented by Online-Mind2Web, whose way of keeping a run this is: ``result.json`` holds ``task``, ``action_history``
and ``thoughts``, one entry a step, and beside it lies the folder ``trajectory`` with a screenshot for each step, whose
name begins with the step's number. Inferred from files in the field: ``url`` is where the run began; an entry of
``vote_log`` holds the ``candidates`` of a step (counted from 0) and ``selected_orig_idx``, the chosen one (from 0) or
null. Whatever else an entry says is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...prompts.replies import parse_selection
from ...schemas.errors import ArmError
from ...schemas.ids import canonical_json, task_group
from . import chat, record_ids
from .molmoweb import SAMPLED, Record, history, response
from .pictures import PictureError, read_picture
from .text import host_of
from .types import Context, Imported, ImportedRow, ImportedState, InvalidTurn

FOLDER = "trajectory"
_SHOT = re.compile(r"(?:[a-z]+_)?0*([0-9]{1,6})(?:_[A-Za-z0-9_]*)?\.(?:png|jpe?g|webp)", re.I)
_PLACED = ("episode_id", "task", "url", "action_history", "thoughts", "vote_log")


def result_ids(record: Record) -> dict[str, Any]:
    """The id of the run, which would otherwise be a hash of its content."""
    return {"episode_id": _run_id(record)}


def result(record: Record, context: Context) -> Iterator[Imported]:
    """Yield a state for each step, and for each vote its candidates and its pick."""
    episode, actions, thoughts = _run_id(record), record["action_history"], record["thoughts"]
    if len(thoughts) != len(actions):
        message = f"has {len(thoughts)} entries for {len(actions)} actions"
        yield InvalidTurn(episode, "invalid_record", "$.thoughts", message)
        return
    shots = _screenshots(context.folder)
    done: list[tuple[str, str]] = []
    for turn, action in enumerate(actions):
        yield _state(record, context, episode, turn, shots, done)
        done.append((thoughts[turn] or "", action))
    seen: set[int] = set()
    for position, vote in enumerate(record.get("vote_log") or ()):
        turn = vote.get("step", position)
        if turn >= len(actions) or turn in seen:
            why = "a second vote for it" if turn in seen else f"the run has {len(actions)} steps"
            message = f"is {turn}: {why}"
            where = f"$.vote_log[{position}].step"
            yield InvalidTurn(f"{episode}__t{turn}", "invalid_record", where, message, kind="candidate_sets")
            continue
        seen.add(turn)
        yield from _vote(vote, context, f"{episode}__t{turn}", f"$.vote_log[{position}]")


def _state(
    record: Record, context: Context, episode: str, turn: int, shots: dict[int, str], done: list[tuple[str, str]]
) -> ImportedState | InvalidTurn:
    state_id = f"{episode}__t{turn}"
    image = None
    if shots:
        place = f"$.action_history[{turn}]"
        try:
            if turn not in shots:
                raise PictureError(f"there is no screenshot of step {turn} in the folder {FOLDER}", "image_missing")
            image = read_picture(shots[turn], context.folder)
        except ArmError as error:
            return InvalidTurn.of(state_id, error, place)
    url = record.get("url") if turn == 0 else None
    row = {
        "state_id": state_id,
        "episode_id": episode,
        "turn": turn,
        "task": record["task"],
        "task_group": task_group(record["task"], episode),
        "url": url,
        "host": host_of(url),
        "history": history(done),
        "messages_json": None,
        "prompt_text": None,
        "tools_json": None,
        "observation_text": None,
        "elements": [],
        "demo_response": response(context.dialect, record["thoughts"][turn], record["action_history"][turn], None),
        "episode_outcome": None,
        "source_record_json": _more(record) if turn == 0 else None,
    }
    return ImportedState(row, image, f"$.action_history[{turn}]")


def _vote(vote: Record, context: Context, state_id: str, where: str) -> Iterator[ImportedRow]:
    set_id = f"{state_id}#d{SAMPLED}"
    candidates = [c if isinstance(c, dict) else {"action_str": c} for c in vote["candidates"]]
    texts = [response(context.dialect, c.get("thought"), c["action_str"], c.get("raw")) for c in candidates]
    more = [{k: v for k, v in c.items() if k not in ("thought", "action_str")} for c in candidates]
    left = {k: v for k, v in vote.items() if k not in ("step", "candidates", "selected_orig_idx")}
    left |= {"candidates": more} if any(more) else {}
    row = {
        "set_id": set_id,
        "state_id": state_id,
        "draw": SAMPLED,
        "sampling": {},
        "responses": texts,
        "source_record_json": canonical_json(left) if left else None,
    }
    yield ImportedRow("candidate_sets", row, where=f"{where}.candidates")
    label = {"set_id": set_id, "selection": vote["selected_orig_idx"], "reasoning": "", "source_record_json": None}
    yield ImportedRow("teacher_labels", label, where=f"{where}.selected_orig_idx")


def distilled(record: Record, context: Context) -> Iterator[ImportedRow | InvalidTurn]:
    """Yield the row of one step: its messages, and the completion, which must say what ``selection`` says (1-based)."""
    try:
        messages, references = [], list(record.get("images", ()))
        for number, turn in enumerate(record["messages"]):
            messages.append(_message(turn, references, f"$.messages[{number}].content"))
        pictures = chat.pictures(messages, references, context.folder)
        said = parse_selection(record["completion"], record["n_candidates"])
        if said.selected != record["selection"]:
            found = f"picks {said.selected}" if said.status == "ok" else f"is {said.status}"
            raise ArmError(f"{found}, and selection is {record['selection']}", where="$.completion")
        completion = [chat.message("assistant", record["completion"], "$.completion")]
    except ArmError as error:
        yield InvalidTurn.of(record_ids.shown("catts", record), error, kind="selection_sft")
        return
    row = {
        **dict.fromkeys(("label_id", "set_id", "state_id", "order", "prompt_id", "prompt_sha256")),
        "row_id": record_ids.shown("catts", record, pictures),
        "prompt": messages,
        "completion": completion,
    }
    yield ImportedRow("selection_sft", row, pictures, f"task {record['task_id']}")


def _message(turn: Record, references: list[str], where: str) -> chat.Message:
    """A message whose content is text with markers, or parts; the pictures of parts are added to ``references``."""
    if isinstance(turn["content"], str):
        return chat.message(turn["role"], turn["content"], where)
    pieces: list[dict[str, str]] = []
    for part in turn["content"]:
        if part["type"] == "text":
            pieces += [{"type": "text", "text": part["text"]}] if part["text"] else []
        else:
            references.append(part["image_url"]["url"])
            pieces.append({"type": "image"})
    if not pieces:
        raise ArmError("is empty", where=where)
    return {"role": turn["role"], "content": pieces}


def _run_id(record: Record) -> str:
    """Several runs of one task share its id, so that their content tells them apart."""
    return str(record.get("episode_id") or record_ids.hashed(str(record.get("task_id") or "run"), record))


def _more(record: Record) -> str | None:
    left = {k: v for k, v in record.items() if k not in _PLACED}
    return canonical_json(left) if left else None


def _screenshots(folder: Path) -> dict[int, str]:
    """Step -> path of its screenshot, below ``folder``; of several for one step the first name."""
    found: dict[int, str] = {}
    place = folder / FOLDER
    names = sorted(path.name for path in place.iterdir()) if place.is_dir() else []
    for name in names:
        if match := _SHOT.fullmatch(name):
            found.setdefault(int(match[1]), f"{FOLDER}/{name}")
    return found
