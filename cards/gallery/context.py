"""States, candidate sets and labels as the page shows them."""

from __future__ import annotations

from typing import Any

from . import markers

Row = dict[str, Any]


def state(row: Row) -> Row:
    """A row of `states`, its screenshot by the hex sha256 of its bytes."""
    names = ("task", "url", "host", "turn", "episode_id", "episode_outcome", "history", "width", "height")
    screenshot = row["screenshot"]
    return {
        **{name: row[name] for name in names},
        "screenshot": screenshot.removeprefix("sha256:") if screenshot else None,
        "observation_text": row["observation_text"],
        "elements": row["elements"],
    }


def candidate_set(row: Row, of: Row | None) -> Row:
    """A row of `candidate_sets`; ``of`` is its state, whose screenshot says how large the screen is."""
    width, height = (of["width"], of["height"]) if of else (None, None)
    first: dict[str, int] = {}  # action -> first candidate that has it
    shown = []
    for candidate in row["candidates"]:
        calls, index = markers.parsed(candidate).calls, candidate["index"]
        earlier = first.setdefault(candidate["action_key"], index)
        names = ("index", "thought", "action", "response", "parse_error", "element_index", "finish_reason")
        shown.append(
            {name: candidate[name] for name in names}
            | {
                "verbs": markers.verbs(calls),
                "same_as": None if earlier == index else earlier,
                "points": markers.points(calls, row["space"], width, height),
            }
        )
    about = {"draw": row["draw"], "actor": row["actor"], "temperature": row["sampling"]["temperature"]}
    return {**about, "candidates": shown}


def label(row: Row) -> Row:
    """A row of `teacher_labels`: what the teacher said, whatever was made of it."""
    names = (
        "teacher", "status", "selected_index", "tie_indices", "reasoning", "order", "repeat", "prompt_id", "reply",
    )  # fmt: skip
    return {name: row[name] for name in names}
