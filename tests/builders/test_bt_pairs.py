"""Pairs: which comparisons of a label become one, and what happens to the others."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders.pair_rules import Comparison, selected, spend
from action_reward_models.builders.spec import DEFAULT_RULES, PairSpec, PromptSpec
from action_reward_models.schemas.actions import View, parse
from action_reward_models.schemas.ids import canonical_json

if TYPE_CHECKING:
    from tests.builders.conftest import Toy

PROMPT = PromptSpec("scalar/1")
# A loser beside the picked action, the relation of the two, and what happens to the comparison by default.
RULES = [
    ("click(1, 1)", "<think>other words</think>click(1,1)", "identical", "drop"),
    ("click(1, 1)", "click(1.03, 1)", "near_coordinates", "drop"),  # 0.04 of 8 pixels are five thousandths
    ("click(1, 1)", "click(7, 7)", "coordinate_only", "keep"),
    ("scroll(0, 3)", "scroll(0, 6)", "scroll_amount", "quarantine"),
    ("wait(1)", "wait(2)", "wait_duration", "quarantine"),
    ('stop("a")', 'stop("b")', "done_vs_done", "quarantine"),
    ("click(1, 1)", "no action at all", "unparsed", "drop"),
    ("click(1, 1)", 'press("Tab")', "different", "keep"),
    ("scroll(0, 3)", "scroll(0, -3)", "different", "keep"),
]


def _pairs(rules: dict[str, str] | None = None, budget: int = 0, options: dict[str, Any] | None = None) -> PairSpec:
    spec = PromptSpec("scalar/1", options=options or {})
    return PairSpec(spec, max_pairs_per_set=budget, rules={**DEFAULT_RULES, **(rules or {})})


def _compared(label_id: str, picked: int, actions: tuple[str, ...], budget: int) -> list[Comparison]:
    """The comparisons of one label on a screen of 8 pixels, the budget spent."""
    parsed = [parse("function", action) for action in actions]
    return spend(selected(label_id, picked, parsed, View("pixel", 8, 8), DEFAULT_RULES), budget, lambda _: None)


# -- rules -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("picked", "loser", "relation", "rule"), RULES)
def test_each_relation_has_its_rule(toy: Toy, picked: str, loser: str, relation: str, rule: str) -> None:
    """26 % of the pairs one lab built had the same executable action on both sides; pairs that differ only in a place,
    an amount or an answer were put aside by hand."""
    label_id = f"{toy.scene('a', picked, loser)}|-|-|0"
    build = toy.build(pairs=_pairs())
    rows = build.rows("exclusions", stage="bt_pairs")
    if rule == "keep":
        assert build.row("bt_pairs")["relation"] == relation
        assert rows == []
    else:
        assert build.rows("bt_pairs") == []
        status = {"drop": "dropped", "quarantine": "quarantined"}[rule]
        assert [(row["reason"], row["status"], row["source_id"]) for row in rows] == [
            (relation, status, f"{label_id}|1")
        ]
    assert build.identity["statistics"]["relations"] == {relation: 1}
    assert build.balanced()


@pytest.mark.parametrize(
    ("picked", "loser", "relation"), [rule[:3] for rule in RULES if rule[2] not in ("identical", "different")]
)
@pytest.mark.parametrize("rule", ["keep", "drop", "quarantine"])
def test_each_rule_can_be_declared(toy: Toy, picked: str, loser: str, relation: str, rule: str) -> None:
    toy.scene("a", picked, loser)
    build = toy.build(pairs=_pairs({relation: rule}))
    assert len(build.rows("bt_pairs", relation=relation)) == (rule == "keep")
    statuses = [row["status"] for row in build.rows("exclusions", stage="bt_pairs")]
    assert statuses == {"keep": [], "drop": ["dropped"], "quarantine": ["quarantined"]}[rule]


def test_no_rule_makes_a_pair_of_one_action(toy: Toy) -> None:
    toy.scene("a", "click(1, 1)", "<think>x</think>click(1, 1)", "stop()")
    build = toy.build(pairs=_pairs({"identical": "keep", "near_coordinates": "keep"}))
    assert [row["rejected_index"] for row in build.rows("bt_pairs")] == [2]


def test_both_done_with_the_same_answer_is_one_action(toy: Toy) -> None:
    toy.scene("a", 'stop("42")', '<think>sure</think>stop("42")')
    assert list(toy.build().excluded("bt_pairs")) == ["identical"]


def test_two_places_in_one_recorded_element_are_near(toy: Toy) -> None:
    box = {"tag": "button", "text": "ONE", "box": [0, 0, 8, 4]}
    said = toy.message("assistant", toy.response("click(1, 1)"))
    toy.episode("e", toy.message("user", "Task: x", 1), said, metadata={"elements": [[box]]})
    toy.label(toy.draw("e__t0", "click(1, 1)", "click(7, 3)", "click(7, 7)"), 0)
    build = toy.build()
    assert build.excluded("bt_pairs") == {"near_coordinates": ["e__t0#d0|-|-|0|1"]}
    assert [row["rejected_index"] for row in build.rows("bt_pairs")] == [2]


# -- losers and the budget ---------------------------------------------------------------------------------------------


def test_losers_are_distinct_from_each_other(toy: Toy) -> None:
    """Losers were distinct from the winner, but not from each other."""
    label_id = f"{toy.scene('a', 'click(1, 1)', 'stop()', 'wait(1)', '<think>x</think>stop()', 'stop()')}|-|-|0"
    build = toy.build(pairs=_pairs())
    assert sorted(row["rejected_index"] for row in build.rows("bt_pairs")) == [1, 2]
    assert build.excluded("bt_pairs") == {"duplicate_loser": [f"{label_id}|3", f"{label_id}|4"]}


@pytest.mark.parametrize(("budget", "pairs"), [(0, 4), (1, 1), (2, 2), (5, 4)])
def test_the_budget_bounds_the_pairs_of_a_set(toy: Toy, budget: int, pairs: int) -> None:
    """A budget of 0 is no limit."""
    toy.scene("a", "click(1, 1)", "stop()", "wait(1)", "scroll(0, 1)", "back()")
    build = toy.build(pairs=_pairs(budget=budget))
    assert len(build.rows("bt_pairs")) == pairs
    assert len(build.excluded("bt_pairs").get("over_budget", [])) == 4 - pairs
    assert build.identity["ledger"]["bt_pairs"]["in"] == 4
    assert build.balanced()


def test_excluded_comparisons_use_up_no_budget(toy: Toy) -> None:
    toy.scene("a", "scroll(0, 3)", "scroll(0, 6)", "scroll(0, 9)", "<think>x</think>scroll(0, 3)", "stop()", "wait(1)")
    build = toy.build(pairs=_pairs(budget=2))
    assert sorted(row["rejected_index"] for row in build.rows("bt_pairs")) == [4, 5]


@pytest.mark.parametrize("budget", [1, 2])
def test_the_budget_is_spent_on_actions_and_not_on_slots(budget: int) -> None:
    """Permuted candidates keep the same losers."""
    actions = ("click(1, 1)", "stop()", "wait(1)", "scroll(0, 1)", "back()", "stop()")
    found = set()
    for order in itertools.permutations(actions):
        made = _compared("l", order.index("click(1, 1)"), order, budget)
        found.add(frozenset(order[c.rejected_index or 0] for c in made if c.reason is None))
        assert len(made) == 5
    assert len(found) == 1
    assert len(found.pop()) == budget


def test_the_budget_falls_on_every_loser_alike() -> None:
    """The first loser of the list is no better than the last."""
    actions = ("click(1, 1)", "stop()", "wait(1)", "scroll(0, 1)", "back()")
    kept = Counter(c.rejected_index for n in range(400) for c in _compared(f"l{n}", 0, actions, 1) if c.reason is None)
    assert sum((kept[index] - 100) ** 2 / 100 for index in (1, 2, 3, 4)) < 16.3  # chi square, 0.1 % point


def test_losers_that_look_like_the_winner_are_no_pair(toy: Toy) -> None:
    """A pair can become equal on its way into the prompt: here the points round to one text."""
    toy.scene("a", "click(1, 1)", "click(1.0001, 1)", "stop()")
    options = {"coordinate_space": "norm1000", "candidate_reasoning": False}
    build = toy.build(pairs=_pairs({"near_coordinates": "keep"}, options=options))
    assert list(build.excluded("bt_pairs")) == ["equal_as_shown"]
    assert [row["rejected_index"] for row in build.rows("bt_pairs")] == [2]
    assert build.balanced()


@pytest.mark.parametrize("budget", [1, 2])
def test_losers_that_look_like_the_winner_use_up_no_budget(toy: Toy, budget: int) -> None:
    """However the hash ranks them: the budget goes to pairs that stand."""
    near = [f"click(1.000{n}, 1)" for n in range(1, 6)]
    for n in range(6):
        toy.scene(f"p{n}", "click(1, 1)", *near, "stop()", "wait(1)", picture=n)
    options = {"coordinate_space": "norm1000", "candidate_reasoning": False}
    build = toy.build(pairs=_pairs({"near_coordinates": "keep"}, budget, options))
    assert Counter(row["state_id"] for row in build.rows("bt_pairs")) == {f"p{n}__t0": budget for n in range(6)}
    assert build.excluded("bt_pairs")["equal_as_shown"]
    assert build.balanced()


@pytest.mark.parametrize(("most", "pairs"), [(0, 6), (1, 1), (4, 4), (9, 6)])
def test_the_limit_of_a_state(toy: Toy, most: int, pairs: int) -> None:
    state_id = toy.page("a")
    for number in range(3):
        toy.label(toy.draw(state_id, "click(1, 1)", "stop()", "wait(1)", number=number), 0)
    build = toy.build(max_pairs_per_state=most)
    assert len(build.rows("bt_pairs")) == pairs
    assert len(build.excluded("bt_pairs").get("over_budget", [])) == 6 - pairs
    assert build.balanced()


def test_the_limit_of_a_state_falls_on_all_its_sets_alike(toy: Toy) -> None:
    pages = [toy.page(f"p{n}", picture=n) for n in range(60)]
    for page in pages:
        for number in range(3):
            toy.label(toy.draw(page, "click(1, 1)", "stop()", number=number), 0)
    kept = Counter(row["set_id"][-1] for row in toy.build(max_pairs_per_state=1).rows("bt_pairs"))
    assert sum(kept.values()) == 60
    assert sum((kept[number] - 20) ** 2 / 20 for number in "012") < 13.9  # chi square, 0.1 % point


# -- what a pair says --------------------------------------------------------------------------------------------------


def test_a_pair_says_which_side_won(toy: Toy) -> None:
    """Winner-first as a positional convention is how labels get flipped."""
    set_id = toy.scene("a", "click(1, 1)", 'press("Tab")', "<think>done</think><action>stop()</action>", pick=2)
    rows = {row["rejected_index"]: row for row in toy.build().rows("bt_pairs")}
    assert set(rows) == {0, 1}
    row = rows[1]
    assert row["pair_id"] == f"{set_id}|-|-|0|1|scalar/1"
    assert (row["chosen_index"], row["label_source"], row["unit"], row["margin"]) == (2, "selection", "step", None)
    assert row["negative_source"] == "sampled"
    assert row["chosen"] == [
        {"role": "assistant", "content": [{"type": "text", "text": "Thought: done\nAction: stop()"}]}
    ]
    assert 'press("Tab")' in row["rejected"][0]["content"][0]["text"]
    assert {r["pair_type"] for r in rows.values()} == {"termination_vs_continue"}


def test_all_pairs_of_a_state_share_one_prompt(toy: Toy) -> None:
    """What a scorer can share must be the same bytes."""
    state_id = toy.page("a")
    for number in range(2):
        toy.label(toy.draw(state_id, "click(1, 1)", "stop()", "wait(1)", number=number), number)
    rows = toy.build().rows("bt_pairs")
    assert len(rows) == 4
    assert len({(canonical_json(row["prompt"]), row["rendered_sha256"], *row["images"]) for row in rows}) == 1


def test_pair_types_are_counted(toy: Toy) -> None:
    toy.scene(
        "a", "click(1, 1)", "click(7, 7)", "stop()", 'type("x")', "scroll(0, 1)", 'goto("https://a.test")', "wait(1)"
    )
    statistics = toy.build(pairs=_pairs()).identity["statistics"]
    assert statistics["pairs"] == {
        "click": 1, "termination_vs_continue": 1, "typing_or_keys": 1, "scroll": 1, "navigation": 1, "wait": 1,
    }  # fmt: skip


# -- the account -------------------------------------------------------------------------------------------------------


def test_every_comparison_of_a_usable_label_is_accounted_for(toy: Toy) -> None:
    toy.scene("a", *(loser for _, loser, _, _ in RULES), pick=2)
    toy.scene("b", "click(1, 1)", "stop()", pick=None)  # no label, no comparison
    build = toy.build(pairs=_pairs(budget=1))
    account = build.identity["ledger"]["bt_pairs"]
    assert (account["in"], account["out"]) == (len(RULES) - 1, 1)
    named = [row["source_id"] for row in build.rows("exclusions", stage="bt_pairs")]
    kept = [f"{row['label_id']}|{row['rejected_index']}" for row in build.rows("bt_pairs")]
    assert sorted(named + kept) == sorted(f"a__t0#d0|-|-|0|{index}" for index in range(len(RULES)) if index != 2)
    assert build.balanced()


def test_a_state_that_cannot_be_shown_takes_its_comparisons_along(toy: Toy) -> None:
    toy.scene("a", "click(1, 1)", "<think>x</think>click(1, 1)", "stop()", "wait(1)", picture=None)
    build = toy.build()
    assert build.excluded("bt_pairs") == {
        "identical": ["a__t0#d0|-|-|0|1"],
        "no_screenshot": ["a__t0#d0|-|-|0|2", "a__t0#d0|-|-|0|3"],
    }
    assert build.balanced()


def test_a_set_of_one_candidate_compares_nothing(toy: Toy) -> None:
    toy.scene("a", "click(1, 1)")
    build = toy.build()
    assert build.identity["ledger"]["bt_pairs"]["in"] == 0
    assert build.balanced()
