"""One row as one record of LLaMA-Factory's `sharegpt` form, or the reason why there is none."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ....prompts.escape import escape_tokens
from ...ledger import Row

IMAGE = "<image>"  # stands for one picture
# JSON Lines are read without a schema: a column of nothing but such texts comes back as times, and is another text.
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T][\d:.+Z-]*)?")
_THOUGHT = ("<think>", "</think>")

Turn = dict[str, str]


class _Unsayable(Exception):  # noqa: N818 - no error: a reason
    """Why a row cannot be said."""


def escape(text: str) -> str:
    """Like `escape_tokens`; the loader also writes the number of the turn over ``{{idx}}`` in a user's words."""
    return escape_tokens(text).replace("{{idx}}", "&#123;{idx}}")


def record_of(name: str, row: Row) -> Row | str:
    """Return the record of a row whose texts are escaped, but for its ``images``; or why there is none.

    ``name`` tells the row, and its table so that it never reads as a time. A pair has both sides beside its prompt;
    elsewhere the reply is the last message.
    """
    sides = ("chosen", "rejected") if "chosen" in row else ("completion",)
    try:
        prompt = [_turn(message) for message in row["prompt"]]
        _check(prompt, len(row["images"]))
        replies = {side: _reply(side, [_turn(message) for message in row[side]]) for side in sides}
    except _Unsayable as reason:
        return str(reason)
    if len(sides) == 2 and replies["chosen"] == replies["rejected"]:
        return "its two sides are equal once their placeholders are escaped"
    said: Row = {"messages": prompt, **replies} if len(sides) == 2 else {"messages": [*prompt, replies["completion"]]}
    for column in said.values():
        turns = column if isinstance(column, list) else [column]
        if all(_TIME.fullmatch(turn["content"]) for turn in turns):
            return "a side or all of it is nothing but a date, which the loader takes for a time"
    return {"row": name, **said}


def thinks(record: Row) -> bool:
    """Whether an assistant turn of the record holds a thought between its tags."""
    turns = [*record["messages"], *(record[side] for side in ("chosen", "rejected") if side in record)]
    return any(mark in turn["content"] for turn in turns if turn["role"] == "assistant" for mark in _THOUGHT)


def _turn(message: Row) -> Turn:
    """A message as text. Blocks follow each other without anything between them, as in chat templates."""
    parts = [IMAGE if block["type"] == "image" else block["text"] for block in message["content"]]
    return {"role": message["role"], "content": "".join(parts)}


def _reply(side: str, turns: Sequence[Turn]) -> Turn:
    if len(turns) != 1:
        raise _Unsayable(f"its {side} is {len(turns)} messages, and the format knows one")
    if turns[0]["role"] != "assistant":
        raise _Unsayable(f"its {side} is a turn of the {turns[0]['role']}")
    if IMAGE in turns[0]["content"]:
        raise _Unsayable(f"its {side} shows a picture")
    return turns[0]


def _check(prompt: Sequence[Turn], pictures: int) -> None:
    """What the loader asks of the turns before a reply: it drops a row that is not so, or stops."""
    turns = list(prompt)
    if turns and turns[0]["role"] == "system" and IMAGE in turns.pop(0)["content"]:
        raise _Unsayable("its system turn shows a picture, and the loader looks for none there")
    for number, turn in enumerate(turns):
        if turn["role"] == "system":
            raise _Unsayable("has a system turn after the first turn")
        if turn["role"] != ("user", "assistant")[number % 2]:
            what = f"has two turns of the {turn['role']} in a row" if number else "begins with a turn of the assistant"
            raise _Unsayable(f"{what}, and the format knows user and assistant in turns")
    if len(turns) % 2 == 0:
        raise _Unsayable("its prompt does not end with a turn of the user")
    if (places := sum(turn["content"].count(IMAGE) for turn in turns)) != pictures:
        raise _Unsayable(f"its prompt has {places} places for its {pictures} pictures")
