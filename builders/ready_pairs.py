"""Pairs that come ready-made: how their two actions relate, and which of them the pair rules let through."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple

from ..schemas.actions import DIALECTS, Parsed, View, pair_type, parse, relation
from .ledger import Row

_ACTION = re.compile(r"^[^\S\n]*action[^\S\n]*:", re.IGNORECASE | re.MULTILINE)
_TRIED = 4  # places where the action may begin: a thought may say so, too


class Verdict(NamedTuple):
    """What was found out about a pair. ``reason`` None: it stays; ``status`` is that of the exclusion."""

    relation: str | None
    pair_type: str
    reason: str | None
    status: str


class ReadyPairs:
    """Judges the pairs of one bucket one by one; losers are remembered, so that they have to come in a fixed order."""

    def __init__(self, rules: Mapping[str, str]) -> None:
        self._rules = rules
        self._losers: set[tuple[str, str, str]] = set()  # prompt, chosen side, key of the rejected action

    def judge(self, row: Row, dialect: str, view: View) -> Verdict:
        """``row`` has its ``rendered_sha256``; ``view`` is that of its last picture.

        What the row says of its relation is taken; else both sides are parsed. Where the dialect reads neither, the
        sides are in words of another kind: the relation is null and no rule applies but that they differ.
        """
        chosen, rejected = _text(row["chosen"]), _text(row["rejected"])
        found, kind, loser = row["relation"], row["pair_type"], None
        if found is None and row["unit"] == "step":
            left, right = _read(dialect, chosen), _read(dialect, rejected)
            if left.parse_error is None or right.parse_error is None:
                found, kind, loser = relation(left, right, view), pair_type(left, right), right.key
        if found == "identical":
            return Verdict(found, kind, "identical", "dropped")
        if row["chosen"] == row["rejected"]:
            return Verdict(found, kind, "equal_as_shown", "dropped")
        rule = self._rules.get(found or "", "keep")
        if rule != "keep":
            return Verdict(found, kind, found, "quarantined" if rule == "quarantine" else "dropped")
        if loser is not None:
            known = (row["rendered_sha256"], chosen, loser)
            if known in self._losers:
                return Verdict(found, kind, "duplicate_loser", "dropped")
            self._losers.add(known)
        return Verdict(found, kind, None, "")


def _read(dialect: str, text: str) -> Parsed:
    """A side as a whole response, or as prompts show one: the action without its tags, perhaps after ``Action:``."""
    parsed = parse(dialect, text)
    if parsed.parse_error is None:
        return parsed
    known = DIALECTS[dialect]
    bodies = [text, *(text[found.end() :] for found in islice(_ACTION.finditer(text), _TRIED))]
    for body in bodies:
        for calls in ([body], body.split("\n")):  # several calls stand on lines of their own
            bare = parse(dialect, "".join(f"{known.opener}{call.strip()}{known.closer}" for call in calls))
            if bare.parse_error is None:
                return bare
    return parsed


def _text(messages: list[Row]) -> str:
    return "\n".join(block["text"] for message in messages for block in message["content"] if block["type"] == "text")
