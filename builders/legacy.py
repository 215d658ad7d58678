"""The hold-out rule of the first release, kept to reproduce published numbers; it leaks, and the card says how much."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from .ledger import Row
from .spec import SplitSpec


class LegacyDraws:
    """One draw of Python's ``random.Random(seed)`` per label that names a candidate, in the order of the files.

    A label is held out when its draw is below the share. One label more or less moves every later one, and states whose
    labels are mostly train are judged by those that are not: that is what makes it a leak.
    """

    def __init__(self, spec: SplitSpec) -> None:
        self._share = spec.validation if spec.rule == "legacy_draws" else None
        self._random = random.Random(spec.seed)  # noqa: S311 - nothing is kept secret by it

    def holds_out(self, label: Row) -> bool:
        """Whether this label, the next one of the file, is validation. Labels without a pick draw nothing."""
        if self._share is None or label["selection"] is None:
            return False
        return self._random.random() < self._share


def splits(states_of: Mapping[str, str], picked: Mapping[str, Sequence[bool]]) -> tuple[dict[str, str], dict[str, str]]:
    """(state id -> split, set id -> split): validation where every label that names a candidate is held out.

    ``states_of`` is the state of each set, ``picked`` says of each label of a set whether it is held out. The rule
    splits labels; a state or set with labels on both sides stands in train.
    """
    by_set = {s: "validation" if (held := picked.get(s)) and all(held) else "train" for s in states_of}
    by_state: dict[str, list[bool]] = {}
    for set_id, state_id in states_of.items():
        by_state.setdefault(state_id, []).extend(picked.get(set_id, ()))
    return {state: "validation" if held and all(held) else "train" for state, held in by_state.items()}, by_set
