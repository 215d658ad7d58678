"""The shapes of the first public release: states with a rendered prompt, candidate draws, draw-level labels.

Of a state only the rendered chat template is there. It is split at the template's own markers: earlier assistant turns
give the history, tool and user turns the observations, the last ``<user_request>`` of the user's own text the task,
the newest announced address the url. What a pattern does not find is null. `prompt_text` keeps the prompt whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from ...schemas.actions import parse
from ...schemas.errors import ArmError
from ...schemas.ids import canonical_json, task_group
from . import text as texts
from .pictures import read_picture
from .types import Context, ImportedState, InvalidTurn

_TURN = re.compile(r"<\|im_start\|>(\w+)\n(.*?)(?:<\|im_end\|>|\Z)", re.S)
_DRAW = re.compile(r"0|[1-9][0-9]{0,8}")  # one way to write each: "00" would be a second draw 0
_TOOL_RESPONSE = re.compile(r"<tool_response>.*?(?:</tool_response>|\Z)", re.S)
_MARKUP = re.compile(r"<\|vision_start\|><\|image_pad\|><\|vision_end\|>|</?tool_response>")


def states(record: dict[str, Any], context: Context) -> Iterator[ImportedState | InvalidTurn]:
    """Yield the one state of a record; its screenshot is the last path of `images`."""
    turns = _TURN.findall(record["prompt_text"])
    history: list[dict[str, Any]] = []
    said: list[str] = []
    for role, body in turns[:-1] if turns and turns[-1][0] == "assistant" else turns:
        if role == "assistant":
            parsed = parse(context.dialect, body)
            entry = {"turn": len(history), "thought": parsed.thought, "action": parsed.action, "observation": ""}
            history.append(entry)
        elif role in ("user", "tool"):
            text = _MARKUP.sub("", body).strip()
            said.append(text)
            if history:
                history[-1]["observation"] = "\n".join(filter(None, (history[-1]["observation"], text)))
    place = f"$.images[{len(record['images']) - 1}]"
    try:
        image = read_picture(record["images"][-1], context.folder) if record["images"] else None
    except ArmError as error:
        yield InvalidTurn.of(record["state_id"], error, place)
        return
    # What a tool returned is page text: a page must not be able to set the task.
    asked = [_TOOL_RESPONSE.sub("", body) for role, body in turns if role == "user"]
    task = texts.requested_task("\n".join(asked))
    url = texts.newest_url(said)
    row = {
        "state_id": record["state_id"],
        "episode_id": record["episode_id"],
        "turn": record["turn"],
        "task": task,
        "task_group": task_group(task, record["episode_id"]),
        "url": url,
        "host": texts.host_of(url),
        "history": history,
        "messages_json": None,
        "prompt_text": record["prompt_text"],
        "tools_json": texts.listed_tools(record["prompt_text"]),
        "observation_text": None if record["images"] else "\n".join(said[-1:]),
        "elements": [],
        "demo_response": record.get("demo_action"),
        "episode_outcome": None,
        "source_record_json": _images(*record["images"]),
    }
    yield ImportedState(row, image, place)


def candidate_set(record: dict[str, Any], context: Context) -> dict[str, Any]:
    """One draw of candidates. Raises ArmError when its id is not ``<base_state_id>#d<k>``."""
    set_id, state_id = record["state_id"], record["base_state_id"]
    draw = set_id.removeprefix(f"{state_id}#d")
    if draw == set_id or not _DRAW.fullmatch(draw):
        raise ArmError(f"the id {set_id!r} is not {state_id}#d<draw>", where="$.state_id")
    sampling = {"temperature": record.get("temperature")}
    return {
        "set_id": set_id,
        "state_id": state_id,
        "draw": int(draw),
        "sampling": {k: v for k, v in sampling.items() if v is not None},
        "responses": record["candidates"],
        "source_record_json": _images(*record["images"]) if record.get("images") else None,
    }


def teacher_label(record: dict[str, Any], context: Context) -> dict[str, Any]:
    """One draw-level label: the set it judges, the pick (0-based) or None, and the reasoning."""
    return {"set_id": record["state_id"], "selection": record["selection"], "reasoning": record.get("reasoning") or ""}


@lru_cache(maxsize=4096)  # of some thousand states, each with many draws
def _images(*paths: str) -> str:
    return canonical_json({"images": paths})
