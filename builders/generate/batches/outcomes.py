"""Outcomes written down, so that a process may be killed at any point: first the log, then the money, then the ledger.

What is only in the log, or settled and not in the ledger, is done again by the next call, which changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from ..log import AnswerLog
from ..spend import Purse
from .joining import Decided
from .ledger import Asked, Ledger, State

_MOST_BYTES = 32 << 20  # of replies that are held before they are written


def write_down(
    ledger: Ledger,
    log: AnswerLog,
    purse: Purse | None,
    requests: Mapping[str, Asked],
    decided: Iterable[Decided],
) -> Counter[str]:
    """Outcome -> number of requests. A shard of the log that another process holds is waited for."""
    counts: Counter[str] = Counter()
    held: list[Decided] = []
    size = 0
    for one in decided:
        counts[one.answer.outcome] += 1
        held.append(one)
        size += 500 + sum(len(choice.text) + len(choice.reasoning or "") for choice in one.answer.choices)
        if size >= _MOST_BYTES:
            _write(ledger, log, purse, requests, held)
            held, size = [], 0
    if held:
        _write(ledger, log, purse, requests, held)
    return counts


def _write(
    ledger: Ledger,
    log: AnswerLog,
    purse: Purse | None,
    requests: Mapping[str, Asked],
    decided: list[Decided],
) -> None:
    shards: dict[int, list[Decided]] = {}
    for one in decided:
        shards.setdefault(requests[one.answer.key].shard, []).append(one)
    for shard, ones in sorted(shards.items()):
        with log.claim(shard, wait=True) as claim:
            assert claim is not None
            for one in ones:
                if claim.answers.get(one.answer.key) != "answered":
                    claim.append(one.answer)
    states: dict[int, dict[str, tuple[State, str]]] = {}
    for one in decided:
        answer = one.answer
        asked = requests[answer.key]
        if purse and asked.reservation is not None:
            if one.billed:
                purse.settle(asked.reservation, answer.usage)
            else:
                purse.release(asked.reservation)
        states.setdefault(asked.batch, {})[answer.key] = (answer.outcome, answer.detail)
    for number, outcomes in states.items():
        ledger.decide(number, outcomes)
