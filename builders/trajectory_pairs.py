"""Pairs of whole episodes of one task: the one with the better outcome against the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..prompts.render import Prompt, rendered_sha256
from ..schemas.actions import parse
from ..schemas.ids import hash_order
from .ledger import Row
from .spec import TrajectorySpec


@dataclass(frozen=True)
class Episode:
    """An episode with an outcome. ``state`` is its last one, whose history holds all steps before it."""

    state: Row
    dialect: str  # of its recorded responses

    @property
    def outcome(self) -> float:
        """In [0, 1]."""
        return float(self.state["episode_outcome"])

    def steps(self) -> list[Row]:
        """All its steps; the last has no observation, since nothing came after it."""
        history: list[Row] = list(self.state["history"])
        if self.state["demo_response"] is None:
            return history
        last = parse(self.dialect, self.state["demo_response"])
        step = {"turn": self.state["turn"], "thought": last.thought, "action": last.action, "observation": ""}
        return [*history, step]


def build(
    episodes: Sequence[Episode],
    split: str,
    prompt: Prompt,
    spec: TrajectorySpec,
    fits: Callable[[Row], bool] = lambda _: True,
) -> Iterator[tuple[str, str | None, Row | None]]:
    """Yield (comparison id, reason for exclusion, row) for every two episodes of one task whose outcomes differ.

    The budget is spent in the order of a hash of both ids; a row that does not ``fit`` spends none.
    """
    found = [
        (better, worse)
        for better in episodes
        for worse in episodes
        if better.outcome > worse.outcome
    ]  # fmt: skip
    found.sort(key=lambda pair: hash_order("trajectory", *(e.state["episode_id"] for e in pair)))
    replies: dict[str, list[Row]] = {}
    kept = 0
    for better, worse in found:
        ids = [e.state["episode_id"] for e in (better, worse)]
        pair_id = f"{ids[0]}|{ids[1]}|{prompt.id}"
        margin = better.outcome - worse.outcome
        if margin < spec.min_gap:
            yield pair_id, "small_gap", None
            continue
        if 0 < spec.max_pairs_per_task <= kept:
            yield pair_id, "over_budget", None
            continue
        for episode, episode_id in zip((better, worse), ids, strict=True):
            if episode_id not in replies:
                replies[episode_id] = prompt.trajectory_reply(episode.steps())
        chosen, rejected = (replies[episode_id] for episode_id in ids)
        if chosen == rejected:
            yield pair_id, "equal_as_shown", None
            continue
        rendered = prompt.trajectory(better.state["task"])
        row = {
            "pair_id": pair_id,
            "unit": "trajectory",
            "label_source": "outcome",
            "label_id": None,
            "set_id": None,
            "state_id": better.state["state_id"],
            "prompt": rendered.messages,
            "chosen": chosen,
            "rejected": rejected,
            "chosen_index": None,
            "rejected_index": None,
            "margin": margin,
            "relation": None,
            "pair_type": "other",
            "negative_source": "sampled",
            "prompt_id": prompt.id,
            "prompt_sha256": prompt.sha256,
            "rendered_sha256": rendered_sha256(rendered.messages, ()),
            "images": [],
            "split": split,
        }  # fmt: skip
        kept += fits(row)
        yield pair_id, None, row
