"""Bradley-Terry pairs of single steps: from selections, from scores, and against actions that nobody sampled.

The comparisons of a state are collected until all its sets have been seen, because a budget may be the state's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ..prompts.render import Prompt, StateView
from ..prompts.view import Unrenderable
from ..schemas.actions import Parsed, element_index, pair_type, relation
from ..schemas.errors import ArmError
from ..schemas.ids import hash_order
from . import negatives, reserve
from .ledger import Ledger, Row
from .pair_rules import Comparison, scored, selected, spend
from .pool import Pool
from .reviews import Host
from .scene import Scene
from .spec import BuildSpec
from .views import Views


class _Made(NamedTuple):
    """A comparison with its row if it is a pair; ``label_id`` is that of its label, "" without one."""

    comparison: Comparison
    row: Row | None
    label_id: str


class Pairs:
    """Collects comparisons set by set; ``settle`` writes those that are pairs and accounts for the others."""

    def __init__(
        self, spec: BuildSpec, prompt: Prompt, views: Views, pool: Pool, ledger: Ledger,
        statistics: Counter[tuple[str, ...]],
    ) -> None:  # fmt: skip
        assert spec.pairs is not None
        self._spec, self._prompt, self._views, self._pool = spec.pairs, prompt, views, pool
        self._ledger, self._count = ledger, statistics
        self._reserve = "reserve" in spec.tables
        self._made: dict[str, list[_Made]] = {}  # by state
        self._usable: dict[str, list[tuple[Row, Scene]]] = {}  # labels that may end in the reserve, by state

    def add(self, host: Host, scene: Scene, labels: Sequence[tuple[Row, str | None]], taken_out: str | None) -> None:
        """Compare the candidates of one set. ``labels`` are the usable ones, each with the reason why a person took it
        out; ``taken_out`` is that of the set as a whole."""
        made: list[_Made] = []
        selections = 0
        for label, reason in labels:
            if "selection" in self._spec.origins or self._spec.scores.budget == "selection":
                found = self._selected(host, scene, label, reason)
                selections += sum(m.row is not None for m in found)
                made += found if "selection" in self._spec.origins else ()
            made += self._negatives(host, scene, label, reason)
            if reason is None and self._reserve:
                self._usable.setdefault(scene.state["state_id"], []).append((label, scene))
        if "scores" in self._spec.origins and scene.scores:
            limit = selections if self._spec.scores.budget == "selection" else None
            made += self._scored(host, scene, limit, taken_out)
        self._made.setdefault(scene.state["state_id"], []).extend(made)

    def settle(self, host: Host) -> None:
        """All sets of the states that were added have been seen."""
        for state_id, made in self._made.items():
            settled = self._limited(made)
            reasons: dict[str, set[str | None]] = {}  # by label
            for comparison, row, label_id in settled:
                self._account(host, comparison, row)
                reasons.setdefault(label_id, set()).add(comparison.reason)
            for label, scene in self._usable.get(state_id, ()):
                reserve.add(host, self._ledger, label, scene, reasons.get(label["label_id"], set()))
        self._made.clear()
        self._usable.clear()

    # -- comparisons ------------------------------------------------------------------------------------------------

    def _selected(self, host: Host, scene: Scene, label: Row, reason: str | None) -> list[_Made]:
        """The label's pick against every other candidate."""
        picked, label_id = label["selected_index"], label["label_id"]
        verdict = self._verdict(host, reason, label_id)
        found = selected(label_id, picked, scene.parsed, scene.view, self._spec.rules, verdict)
        return self._rows(host, scene, found, self._spec.max_pairs_per_set or None, label)

    def _scored(self, host: Host, scene: Scene, limit: int | None, reason: str | None) -> list[_Made]:
        """Every two candidates of a set, by their scores."""
        set_id = scene.set_row["set_id"]
        if len(scene.scores) > 1:
            raise ArmError(
                f"the set {set_id} has scores of {', '.join(sorted(scene.scores))}, and pairs are made of one of them",
                next_command="put the others into a dataset of their own",
            )
        ((source, scores),) = scene.scores.items()
        found = scored(f"{set_id}|{source}", scores, scene.parsed, scene.view, self._spec, self._verdict(host, reason))
        most = self._spec.max_pairs_per_set or None
        limit = most if limit is None else min(limit, most or limit)
        return self._rows(host, scene, found, limit, None)

    def _negatives(self, host: Host, scene: Scene, label: Row, reason: str | None) -> list[_Made]:
        """The label's pick against actions that nobody sampled here."""
        wanted = self._spec.negatives
        if not (wanted.corrupted or wanted.cross_task):
            return []
        chosen = scene.parsed[label["selected_index"]]
        label_id, dialect = label["label_id"], scene.dialect
        taken = {parsed.key for parsed in scene.parsed}
        units: list[tuple[str, int, Parsed | None]] = []
        for number in range(wanted.corrupted):
            made = negatives.corrupted(chosen, dialect, scene.view, taken, label_id, number)
            taken |= {made.key} if made else set()
            units.append(("corrupted", number, made))
        if wanted.cross_task:
            drawn = self._pool.drawn(label, scene, taken, self._spec.rules, wanted.cross_task)
            units += [("cross_task", n, drawn[n] if n < len(drawn) else None) for n in range(wanted.cross_task)]
        verdict = self._verdict(host, reason, label_id)
        found: list[Comparison] = []
        others: dict[str, tuple[str, Row]] = {}
        for kind, number, made in units:
            unit = f"{label_id}|{kind}|{number}"
            said = verdict(unit)
            why = None if made else "not_corruptible" if kind == "corrupted" else "no_other_task"
            why = f"review_{said}" if said in ("drop", "relabel") else why
            status = "quarantined" if said == "relabel" else "dropped"
            names = (relation(chosen, made, scene.view), pair_type(chosen, made)) if made else ("", "")
            found.append(Comparison(unit, label["selected_index"], None, *names, why, status, (number,)))
            if made:
                others[unit] = kind, _candidate(made, scene)
        return self._rows(host, scene, found, None, label, others)

    def _rows(
        self, host: Host, scene: Scene, comparisons: list[Comparison], budget: int | None, label: Row | None,
        others: Mapping[str, tuple[str, Row]] = {},
    ) -> list[_Made]:  # fmt: skip
        """Render what the rules let through. ``others`` are the rejected sides that the set does not hold, by the id of
        their comparison, each with where it comes from."""
        prompt, candidates = self._prompt, scene.set_row["candidates"]
        rows: dict[str, Row] = {}
        replies: dict[int, list[Row]] = {}

        def reply(state: StateView, index: int) -> list[Row]:
            if index not in replies:
                replies[index] = prompt.scalar_reply(state, candidates[index])
            return replies[index]

        def stands(comparison: Comparison) -> tuple[str, str] | None:
            state, rendered, digest = self._views.scalar(prompt, scene)
            chosen, index = reply(state, comparison.chosen_index), comparison.rejected_index
            source, other = others.get(comparison.id, ("sampled", {}))
            rejected = prompt.scalar_reply(state, other) if index is None else reply(state, index)
            if chosen == rejected:  # different actions that look the same as this prompt shows them
                return "equal_as_shown", ""
            rows[comparison.id] = {
                "pair_id": f"{comparison.id}|{prompt.id}",
                "unit": "step",
                "label_source": "selection" if label else "scores",
                "label_id": label["label_id"] if label else None,
                "set_id": scene.set_row["set_id"],
                "state_id": scene.set_row["state_id"],
                "prompt": rendered.messages,
                "chosen": chosen,
                "rejected": rejected,
                "chosen_index": comparison.chosen_index,
                "rejected_index": index,
                "margin": comparison.margin,
                "relation": comparison.relation,
                "pair_type": comparison.pair_type,
                "negative_source": source,
                "prompt_id": prompt.id,
                "prompt_sha256": prompt.sha256,
                "rendered_sha256": digest,
                "images": [f"sha256:{sha}" for sha in rendered.images],
                "split": (label or scene.set_row)["split"],
            }
            return host.outside("bt_pairs", rows[comparison.id])  # before the budget is spent on it

        try:
            settled = spend(comparisons, budget, stands)
        except Unrenderable as error:  # the state cannot be shown: all that the rules let through falls out with it
            settled = [
                c if c.reason else c._replace(reason=error.reason, status="dropped", detail=error.message)
                for c in comparisons
            ]
        label_id = label["label_id"] if label else ""
        return [_Made(c, None if c.reason else rows[c.id], label_id) for c in settled]

    def _verdict(self, host: Host, reason: str | None, label_id: str | None = None) -> Callable[[str], str | None]:
        """What was said of a comparison, under its own id or its pair's, or of what it belongs to."""
        said = reason.removeprefix("review_") if reason else None

        def verdict(unit: str) -> str | None:
            own = host.reviews.verdict("bt_pairs", unit, f"{unit}|{self._prompt.id}", label_id=label_id)
            return said or own

        return verdict

    # -- settling ---------------------------------------------------------------------------------------------------

    def _limited(self, made: list[_Made]) -> list[_Made]:
        """At most ``max_pairs_per_state`` pairs, whichever label or score they come from."""
        most = self._spec.max_pairs_per_state
        pairs = [m for m in made if m.row is not None]
        if not 0 < most < len(pairs):
            return made
        pairs.sort(key=lambda m: hash_order("state", m.comparison.id))
        over = {m.comparison.id for m in pairs[most:]}
        return [
            m._replace(row=None, comparison=m.comparison._replace(reason="over_budget", status="dropped"))
            if m.comparison.id in over
            else m
            for m in made
        ]

    def _account(self, host: Host, comparison: Comparison, row: Row | None) -> None:
        self._ledger.units_in["bt_pairs"] += 1
        if comparison.relation:
            self._count["comparisons", comparison.pair_type] += 1
            self._count["relations", comparison.relation] += 1
        if row is not None:
            host.keep("bt_pairs", row)
            return
        assert comparison.reason is not None
        unit, detail = comparison.id, comparison.detail
        self._ledger.exclude("bt_pairs", "comparisons", unit, comparison.reason, detail, comparison.status)


def _candidate(parsed: Parsed, scene: Scene) -> Row:
    """An action as a prompt shows candidates."""
    return {
        "index": None,
        "thought": parsed.thought,
        "action": parsed.action,
        "action_json": parsed.json,
        "parse_error": None,
        "element_index": element_index(parsed.calls, scene.view) if scene.view.elements else None,
    }
