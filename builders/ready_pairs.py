"""Pairs that come ready-made: how their two actions relate, and which of them the pair rules let through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..schemas.actions import View, pair_type, parse, relation
from .ledger import Row


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
            left, right = parse(dialect, chosen), parse(dialect, rejected)
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


def _text(messages: list[Row]) -> str:
    return "\n".join(block["text"] for message in messages for block in message["content"] if block["type"] == "text")
