"""One row as one record of LLaMA-Factory's `sharegpt` form, or the reason why there is none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from ....prompts.escape import escape_tokens
from ...ledger import Row

IMAGE = "<image>"  # stands for one picture
# The loader writes the number of the turn over the first of these, after the page's words have been put in.
_SLOT = "{{idx}}"
# JSON Lines are read without a schema: a column of nothing but such texts comes back as times, and is another text.
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T][\d:.+Z-]*)?")
_THOUGHT = ("<think>", "</think>")

Turn = dict[str, str]


class _Unsayable(Exception):  # noqa: N818 - no error: a reason
    """Why a row cannot be said."""


def record_of(table: str, row: Row, images: Sequence[str]) -> tuple[Row, bool] | str:
    """Return the record and whether a text had to be escaped for it, or why there is none.

    ``images`` are the paths of the row's pictures, in the order of its image blocks. A pair has both sides beside its
    prompt; elsewhere the reply is the last message.
    """
    sides = ("chosen", "rejected") if "chosen" in row else ("completion",)
    try:
        prompt, changed = _turns(row["prompt"])
        _check(prompt, len(images))
        replies: dict[str, Turn] = {}
        for side in sides:
            turns, escaped = _turns(row[side])
            replies[side], changed = _reply(side, turns), changed or escaped
    except _Unsayable as reason:
        return str(reason)
    if len(sides) == 2 and replies["chosen"] == replies["rejected"]:
        return "its two sides are equal once their placeholders are escaped"
    said: Row = {"messages": prompt, **replies} if len(sides) == 2 else {"messages": [*prompt, replies["completion"]]}
    for column in said.values():
        turns = column if isinstance(column, list) else [column]
        if all(_TIME.fullmatch(turn["content"]) for turn in turns):
            return "a side or all of it is nothing but a date, which the loader takes for a time"
    number = row["pair_id" if len(sides) == 2 else "row_id"]
    return {"row": f"{table}:{number}", **said, "images": list(images)}, changed  # with its table it is never a time


def thinks(record: Row) -> bool:
    """Whether an assistant turn of the record holds a thought between its tags."""
    turns = [*record["messages"], *(record[side] for side in ("chosen", "rejected") if side in record)]
    return any(mark in turn["content"] for turn in turns if turn["role"] == "assistant" for mark in _THOUGHT)


def _turns(messages: Sequence[Row]) -> tuple[list[Turn], bool]:
    """The messages as text, and whether that is another than theirs. Blocks follow each other without anything
    between them, as in chat templates."""
    turns, changed = [], False
    for message in messages:
        parts = []
        for kind, blocks in groupby(message["content"], key=lambda block: block["type"]):
            if kind == "image":
                parts.append(IMAGE * len(list(blocks)))
                continue
            text = "".join(block["text"] for block in blocks)  # first joined: a placeholder may lie across blocks
            parts.append(escape_tokens(text).replace(_SLOT, "&#123;{idx}}"))
            changed = changed or parts[-1] != text
        turns.append({"role": message["role"], "content": "".join(parts)})
    return turns, changed


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
