"""The processes that train together: one alone, or as many as ``accelerate launch`` started."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from accelerate import PartialState

_PATIENCE = timedelta(days=1)  # the others wait while the first one prepares the rows


@dataclass(frozen=True)
class Team:
    """count: of processes. first: whether this is the one that writes."""

    state: Any

    @property
    def count(self) -> int:
        return int(self.state.num_processes)

    @property
    def first(self) -> bool:
        return bool(self.state.is_main_process)

    def wait(self) -> None:
        """Until all processes are here."""
        self.state.wait_for_everyone()

    def any(self, here: bool) -> bool:
        """Whether it is so in any process; all of them ask at the same time."""
        if self.count == 1:
            return here
        flag = torch.tensor(int(here), device=self.state.device)
        torch.distributed.all_reduce(flag, torch.distributed.ReduceOp.MAX)
        return bool(flag.item())

    def part(self) -> None:
        """The processes no longer need each other."""
        if self.count > 1:
            self.state.destroy_process_group()


def team() -> Team:
    return Team(PartialState(cpu=not torch.accelerator.is_available(), timeout=_PATIENCE))
