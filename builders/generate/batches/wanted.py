"""What is to be asked: everything that has no answer and is in no open batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

from ....servers.requests import Request
from ..log import SHARDS, AnswerLog, Claim
from ..work import Work
from .ledger import Ledger


class Wanted:
    """Passes over a work, shard after shard. seen: requests that were come to. answered, open: those of them that have
    an answer, or may get one from an open batch. busy: shards that another process is asking; nothing of them is seen.

    keep: whether shards that were passed are still held when the next one is claimed: what is to be asked of them
    stands nowhere yet.
    """

    def __init__(self, work: Work, ledger: Ledger, keep: Callable[[], bool] = lambda: False) -> None:
        self._work, self._ledger, self._keep, self._log = work, ledger, keep, AnswerLog(work.folder)
        self._claims: list[ExitStack] = []
        self.seen = self.answered = self.open = self.busy = 0

    def requests(self, *, suspects: bool = False) -> Iterator[tuple[Request, Claim]]:
        """First those that never made a service refuse a whole batch, and in a second pass those that did."""
        for shard in range(SHARDS):
            suspected = self._ledger.suspects(shard)
            if suspects and not suspected:
                continue
            claim = self._claim(shard)
            if claim is None:
                self.busy += not suspects
                continue
            in_batches = self._ledger.open_keys(shard)
            for request in self._work.requests(shard):
                self.seen += not suspects
                if (request.key in suspected) != suspects:
                    continue
                if claim.answers.get(request.key) == "answered":
                    self.answered += 1
                elif request.key in in_batches:
                    self.open += 1
                else:
                    yield request, claim

    def let_go(self) -> None:
        for stack in self._claims:
            stack.close()
        self._claims.clear()

    def _claim(self, shard: int) -> Claim | None:
        if not self._keep():
            self.let_go()
        stack = ExitStack()
        self._claims.append(stack)
        return stack.enter_context(self._log.claim(shard))
