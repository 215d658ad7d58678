"""Pages to be judged, and what was said of their items, as the tests of keys and of notes look at it."""

from __future__ import annotations

import json
import re
from typing import Any

from action_reward_models.schemas.jsonl import JsonError, loads
from action_reward_models.schemas.validate import for_schema
from action_reward_models.tests.cards.gallery.browser import Gallery
from action_reward_models.tests.cards.gallery.made import Made, candidate

Note = dict[str, Any]

TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ")
ACTIONS = ("click(1, 1)", "click(9, 9)", "click(1, 1)", "stop()")  # the first and the third are the same


def scenes(count: int, **more: Any) -> Made:
    """Selection rows that show their candidates in the order 2, 0, 1, 3; the teacher picked 1, shown third."""
    made = Made(**more)
    for number in range(count):
        candidates = [candidate(n, action, same_as=0 if n == 2 else None) for n, action in enumerate(ACTIONS)]
        made.scene(f"s{number:02}", *candidates, pick=1)
        made.data["items"][-1]["order"] = [2, 0, 1, 3]
    return made


def row(number: int) -> str:
    return f"row of s{number:02}"


def label(number: int) -> str:
    return f"s{number:02}#d0|teacher|-|0"


def said(page: Gallery) -> dict[str, tuple[str, int | None, str]]:
    return {id_: (note["verdict"], note["selected_index"], note["note"]) for id_, note in page.notes.items()}


def records(exported: bytes) -> list[Note]:
    """The lines of a file, each of which is a review."""
    assert exported.endswith(b"\n")
    found = [json.loads(line) for line in exported.splitlines()]
    for one in found:
        assert for_schema("review/1").problems(one) == []
        assert TIME.fullmatch(one["time"])
    return found


def is_refused(line: bytes) -> bool:
    """Whether a build would take exception to a line."""
    try:
        return for_schema("review/1").problems(loads(line)) != []
    except JsonError:
        return True


def judged(page: Gallery) -> float:
    return float(page.page.locator("#progress progress").evaluate("(bar) => bar.value"))
