"""Pairs of scored candidates: the higher score wins, and the gap has to mean something."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders.bt_pairs import Pairs
from action_reward_models.builders.ledger import Ledger
from action_reward_models.builders.pair_rules import Comparison, scored, spend
from action_reward_models.builders.pool import Pool
from action_reward_models.builders.scene import Scene
from action_reward_models.builders.spec import PairSpec, PromptSpec, ScorePairSpec
from action_reward_models.builders.views import Views, load
from action_reward_models.schemas.actions import View, parse
from action_reward_models.schemas.errors import ArmError

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

VIEW = View("pixel", 8, 8)
Actions = tuple[tuple[str, float | None], ...]
THREE: Actions = (("click(1, 1)", 0.2), ("click(7, 7)", 0.9), ("stop()", 0.5))


def _spec(*origins: Any, most: int = 0, **scores: Any) -> PairSpec:
    return PairSpec(PromptSpec("scalar/1"), most, origins=origins or ("scores",), scores=ScorePairSpec(**scores))


def _compared(actions: Actions, budget: int | None = None, **scores: Any) -> list[Comparison]:
    parsed = [parse("function", action) for action, _ in actions]
    found = scored("s|prm", [score for _, score in actions], parsed, VIEW, _spec(**scores))
    return spend(found, budget, lambda _: None)


def _kept(actions: Actions, budget: int | None = None, **scores: Any) -> set[tuple[str, str]]:
    """(better action, worse action) of the pairs."""
    made = [c for c in _compared(actions, budget, **scores) if c.reason is None]
    return {(actions[c.chosen_index][0], actions[c.rejected_index or 0][0]) for c in made}


def _page(toy: Toy, number: int) -> int:
    """A state whose id is a number, as in the records of scores that are read here."""
    said = f"<|im_start|>user\nTask: Do {number}.<|im_end|>\n<|im_start|>assistant\n"
    record = {"state_id": f"{number}", "episode_id": f"e{number}", "turn": 0, "prompt_text": said}
    toy.states.append({**record, "images": [toy.data_url(number)]})
    return number


def _build(toy: Toy, sets: dict[int, Actions], spec: PairSpec, **changes: Any) -> Build:
    """``sets``: state id -> its scored candidates, which become the draw 1."""
    records = [
        {"state_id": state_id, "cands": [{"action_str": a} | ({} if s is None else {"score": s}) for a, s in actions]}
        for state_id, actions in sets.items()
    ]
    given = toy.lay("candidate_scores", "molmoweb", "scores.jsonl", records, dialect="function", space="pixel")
    return toy.build(sources=(*toy.sources(), given), pairs=spec, **changes)


# -- who wins ----------------------------------------------------------------------------------------------------------


def test_the_higher_score_wins(toy: Toy) -> None:
    """Whichever of the two was sampled first."""
    build = _build(toy, {_page(toy, 1): THREE}, _spec())
    rows = {row["pair_id"]: row for row in build.rows("bt_pairs")}
    assert sorted(rows) == [f"1#d1|prm|{pair}|scalar/1" for pair in ("1|0", "1|2", "2|0")]
    row = rows["1#d1|prm|1|0|scalar/1"]
    assert (row["chosen_index"], row["rejected_index"], row["margin"]) == (1, 0, 0.7)
    assert (row["label_source"], row["label_id"], row["negative_source"]) == ("scores", None, "sampled")
    assert "click(7, 7)" in row["chosen"][0]["content"][0]["text"]
    statistics = build.identity["statistics"]
    assert statistics["label_source"] == {"scores": 3}
    assert statistics["margins"] == {"0.3": 1, "0.4": 1, "0.7": 1}
    assert statistics["relations"] == {"coordinate_only": 1, "different": 2}
    assert build.balanced()


def test_the_gap_must_be_larger() -> None:
    """In binary fractions 0.55 - 0.5 is more than 0.05; on paper it is not."""
    actions = (("click(1, 1)", 0.5), ("click(7, 7)", 0.55), ("stop()", 0.56))
    assert _kept(actions, min_gap=0.05) == {("stop()", "click(1, 1)")}
    assert _kept(actions, min_gap=0.0) == {
        ("stop()", "click(1, 1)"), ("click(7, 7)", "click(1, 1)"), ("stop()", "click(7, 7)"),
    }  # fmt: skip
    assert _kept((("click(1, 1)", 0.5), ("stop()", 0.5)), min_gap=0.0) == set()


def test_a_gap_too_large_for_a_number_is_no_margin(toy: Toy) -> None:
    """Each score is a number, their difference is none; the largest that is one is kept and counted."""
    sets: dict[int, Actions] = {_page(toy, 1): (("click(1, 1)", 1e308), ("stop()", -1e308)),
            _page(toy, 2): (("click(1, 1)", 1e308), ("stop()", 0.0))}  # fmt: skip
    build = _build(toy, sets, _spec())
    assert build.excluded("bt_pairs") == {"score_out_of_range": ["1#d1|prm|0|1"]}
    assert [row["margin"] for row in build.rows("bt_pairs")] == [1e308]
    assert build.identity["statistics"]["margins"] == {"0.9": 1}


def test_every_comparison_has_its_reason(toy: Toy) -> None:
    actions: Actions = (
        ("click(1, 1)", 0.9), ("click(1, 1)", 0.1), ("stop()", None), ("click(7, 7)", 0.88), ("wait(1)", 0.5),
        ("wait(2)", 0.1),
    )  # fmt: skip
    build = _build(toy, {_page(toy, 1): actions}, _spec())
    named = {reason: [i.removeprefix("1#d1|prm|") for i in ids] for reason, ids in build.excluded("bt_pairs").items()}
    assert named == {
        "identical": ["0|1"],
        "unscored": ["0|2", "1|2", "2|3", "2|4", "2|5"],
        "small_gap": ["0|3", "1|5"],
        "wait_duration": ["4|5"],
        "duplicate_loser": ["4|1"],  # a click against waiting stands already, the other way round
    }
    assert build.identity["ledger"]["bt_pairs"]["in"] == 15
    assert build.balanced()


def test_two_actions_are_one_pair_whatever_their_copies_scored() -> None:
    """Two samples of one action with different scores would teach both directions."""
    actions = (("click(1, 1)", 0.9), ("stop()", 0.5), ("click(1, 1)", 0.1))
    assert len(_kept(actions)) == 1
    for choose in ("all", "extreme"):
        assert {frozenset(_kept(order, choose=choose)) for order in itertools.permutations(actions)} == {
            frozenset(_kept(actions, choose=choose))
        }


# -- how many ----------------------------------------------------------------------------------------------------------


def _many(number: int = 0) -> Actions:
    return tuple((f"click({n}, {number % 7})", n / 8) for n in range(8))


def test_the_budget_bounds_the_pairs_of_a_set(toy: Toy) -> None:
    build = _build(toy, {_page(toy, 1): _many()}, _spec(most=3))
    assert len(build.rows("bt_pairs")) == 3
    assert len(build.excluded("bt_pairs")["over_budget"]) == 28 - 3
    assert build.balanced()


def test_extreme_takes_the_best_against_the_worst() -> None:
    assert _kept(_many(), 1, choose="extreme") == {("click(7, 0)", "click(0, 0)")}


@pytest.mark.parametrize("choose", ["all", "random"])
def test_a_hash_chooses_every_pair_alike(choose: str) -> None:
    actions = tuple((a, s) for (a, _), s in zip(_many(), (0.0, 0.5, 1.0, *[None] * 5), strict=True))
    parsed = [parse("function", action) for action, _ in actions]
    kept = Counter(
        c.id.partition("|prm|")[2]
        for n in range(300)
        for c in spend(
            scored(f"{n}|prm", [s for _, s in actions], parsed, VIEW, _spec(choose=choose)), 1, lambda _: None
        )
        if c.reason is None
    )
    assert sum((n - 100) ** 2 / 100 for n in kept.values()) < 13.9  # chi square, 0.1 % point
    assert len(kept) == 3


def test_all_goes_by_actions_and_random_by_places() -> None:
    """The same candidates in another order keep their pairs with ``all``; ``random`` looks at no action."""
    renamed = tuple((action.replace("click", "hover"), score) for action, score in _many())
    shuffled = _many()[::-1]
    assert _kept(shuffled, 2, choose="all") == _kept(_many(), 2, choose="all")

    def places(actions: Actions) -> set[str]:
        return {c.id for c in _compared(actions, 2, choose="random") if c.reason is None}

    assert places(renamed) == places(_many())


def test_as_many_pairs_as_the_selection_gives(toy: Toy) -> None:
    """A comparison of the two kinds of pairs needs as many of both, set by set."""
    labelled, bare = _page(toy, 1), _page(toy, 2)
    toy.label(f"{labelled}#d1", 1)
    sets = {labelled: (*THREE, ("<action>click(7, 7)</action>", 0.8)), bare: THREE}
    parity = _spec(budget="selection")
    alone = _build(toy, sets, parity)
    assert Counter(row["set_id"] for row in alone.rows("bt_pairs")) == {"1#d1": 2}
    assert {i.split("#")[0] for i in alone.excluded("bt_pairs")["over_budget"]} == {"1", "2"}
    both = _build(toy, sets, _spec("selection", "scores", budget="selection"))
    assert Counter(row["label_source"] for row in both.rows("bt_pairs")) == {"selection": 2, "scores": 2}
    assert alone.balanced()
    assert both.balanced()


def test_scores_of_two_things_are_refused(toy: Toy) -> None:
    parsed = [parse("function", action) for action, _ in THREE]
    scene = Scene({"set_id": "s", "state_id": "t"}, parsed, VIEW, {"state_id": "t"}, "function", ("function", "pixel"),
                  {"prm": [0.1, 0.2, 0.3], "mcts_value": [0.1, 0.2, 0.3]})  # fmt: skip
    spec = toy.spec(sources=(), pairs=_spec())
    made = Pairs(spec, load(_spec().prompt), Views(), Pool(spec, toy.folder), Ledger(lambda _: None), Counter())
    with pytest.raises(ArmError, match="s has scores of mcts_value, prm"):
        made.add(None, scene, [], None)  # type: ignore[arg-type]


# -- what pairs rest on ------------------------------------------------------------------------------------------------


def test_the_limit_of_a_state_holds_over_all_its_sets(toy: Toy) -> None:
    """Eight draws of one page are not eight pages."""
    state_id = _page(toy, 1)
    for number in (0, 2):
        toy.label(toy.draw(f"{state_id}", "click(1, 1)", "stop()", "wait(1)", number=number), 0)
    other = _page(toy, 2)
    build = _build(toy, {state_id: THREE, other: THREE}, _spec("selection", "scores"), max_pairs_per_state=1)
    assert Counter(row["state_id"] for row in build.rows("bt_pairs")) == {f"{state_id}": 1, f"{other}": 1}
    assert len(build.excluded("bt_pairs")["over_budget"]) == 4 + 3 + 3 - 2
    assert build.balanced()


def test_no_pair_depends_on_buckets_or_later_rows(toy: Toy) -> None:
    pages = [_page(toy, n) for n in range(12)]
    for page in pages:
        toy.label(f"{page}#d1", 3)
    spec = PairSpec(
        PromptSpec("scalar/1"), 2, origins=("selection", "scores"), max_pairs_per_state=3,
        scores=ScorePairSpec(choose="random"),
    )  # fmt: skip
    sets = {page: _many(n) for n, page in enumerate(pages)}
    first = _build(toy, dict(list(sets.items())[:11]), spec, shards=1)
    later = _build(toy, dict(reversed(sets.items())), spec, shards=4)
    ids = {row["pair_id"]: row for row in first.rows("bt_pairs")}
    assert len(ids) == 33
    again = {row["pair_id"]: row for row in later.rows("bt_pairs")}
    assert {pair_id: again.get(pair_id) for pair_id in ids} == ids
    assert len(again) == 36
