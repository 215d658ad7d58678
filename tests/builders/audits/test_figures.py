"""Figures of the audits against figures computed by hand."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders.audits import agreement, baselines, choices, slots
from action_reward_models.builders.audits.counts import Counts
from action_reward_models.builders.audits.distributions import bin_of
from action_reward_models.schemas.actions import View, parse

from tests.builders.audits.conftest import page

if TYPE_CHECKING:
    from tests.builders.conftest import Toy

VIEW = View("pixel", 1000, 1000, ())


def audits(toy: Toy, **changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = toy.build(**changes).identity["statistics"]["audits"]
    return found


# -- chi-square --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statistic", "df", "p"),  # from printed tables of the distribution
    [
        *((3.841, 1, 0.05), (6.635, 1, 0.01), (10.828, 1, 0.001)),
        *((5.991, 2, 0.05), (9.210, 2, 0.01), (7.815, 3, 0.05), (9.488, 4, 0.05), (13.277, 4, 0.01)),
        *((11.070, 5, 0.05), (18.307, 10, 0.05), (29.588, 10, 0.001), (25.000, 15, 0.05)),
    ],
)
def test_the_tail_of_chi_square(statistic: float, df: int, p: float) -> None:
    assert slots.survival(statistic, df) == pytest.approx(p, rel=2e-3)


def test_the_tail_at_its_ends() -> None:
    assert slots.survival(0.0, 3) == 1.0
    assert slots.survival(2.0, 2) == pytest.approx(math.exp(-1))
    assert 0 <= slots.survival(1e6, 4) < 1e-300  # no overflow where the exponent is beyond a float


def test_the_statistic_by_hand() -> None:
    """Against 20 each: 15**2/20 + 5**2/20 + 5**2/20 + 7**2/20 + 8**2/20 = 19.4."""
    statistic, df = slots.chi_square([35, 25, 15, 13, 12], [20.0] * 5)
    assert df == 4
    assert statistic == pytest.approx(19.4)


def test_cells_that_expect_little_count_together() -> None:
    """4 + 4 expected make one cell; what is left over joins the last one."""
    assert slots.chi_square([11, 2, 5, 2], [10.0, 4.0, 4.0, 2.0]) == (1 / 10 + 1 / 10, 1)
    assert slots.chi_square([1, 1], [1.0, 1.0]) == (0, 0)


def test_sets_of_other_sizes_expect_other_slots() -> None:
    """Ten picks of two candidates expect 5 and 5, six of three 2, 2 and 2."""
    counts: Counts = Counter({("slots", "shown", "2", "0"): 7, ("slots", "shown", "2", "1"): 3})
    counts.update({("slots", "shown", "3", "2"): 6})
    shown = slots.report(counts)["shown"]
    assert (shown["n"], shown["observed"], shown["expected"]) == (16, [7, 3, 6], [7.0, 7.0, 2.0])
    assert (shown["df"], shown["statistic"]) == (1, 0 + round((9 - 9) ** 2 / 9, 4))  # the third joins the second
    assert slots.report(counts)["sampled"] is None


def test_a_single_cell_has_no_p(toy: Toy) -> None:
    toy.scene("a")
    sampled = audits(toy)["slots"]["sampled"]
    assert (sampled["observed"], sampled["df"], sampled["p"]) == ([1, 0, 0], 0, None)


# -- baselines and headroom --------------------------------------------------------------------------------------------


@pytest.fixture
def five(toy: Toy) -> Toy:
    """Five sets. The most common action is picked in three of them, in one of those by a tie that the first wins."""
    ones = ("click(1, 1)", "click(7, 7)", "click(7, 7)")
    toy.scene("a", *ones, pick=1)
    toy.scene("b", *ones, pick=2)
    toy.scene("c", *ones, pick=0)
    toy.scene("d", "click(1, 1)", "click(7, 7)", pick=0)
    toy.scene("e", "click(1, 1)", "click(7, 7)", pick=1)
    return toy


def test_baselines_by_hand(five: Toy) -> None:
    found = audits(five)["baselines"]
    labels = found["labels"]
    assert labels["n"] == 5
    assert labels["first"]["exact"] == 0.4  # c and d
    assert labels["most_common"]["exact"] == 0.6  # a, b and d
    # two of three, two of three, one of three, a half, a half: 2.6667 of 5
    assert labels["uniform"]["exact"] == 0.5333
    rows = found["selection_sft"]["train"]  # a row shows each action once
    assert (rows["n"], rows["uniform"]["exact"], rows["most_common"]["exact"]) == (5, 0.5, 0.6)


def test_headroom_by_hand(five: Toy) -> None:
    assert audits(five)["headroom"] == {"sets": 5, "differs": 2, "share": 0.4, "verdict": "go"}


@pytest.mark.parametrize(
    ("differs", "of", "verdict"),
    [(0, 0, None), (9, 100, "no"), (10, 100, "unsure"), (25, 100, "unsure"), (26, 100, "go")],
)
def test_the_verdict_on_headroom(differs: int, of: int, verdict: str | None) -> None:
    counts: Counts = Counter({("baselines", "labels", "1 0 2 ssooo"): of - differs})
    counts["baselines", "labels", "1 0 2 soooo"] = differs
    assert baselines.headroom(+counts)["verdict"] == verdict


def test_words_that_a_task_has() -> None:
    """Task words: press the red button. "press red" has two of two, "the red big red box" two of five."""
    responses = (
        "<think>The red, BIG red box</think><action>stop()</action>",
        "<think>press-red</think><action>stop()</action>",
    )
    parsed = [parse("function", response) for response in responses]
    sampled, _ = baselines.outcomes("Press the red button!", parsed, "os", None, thoughts=True)
    # 3 of 4 task words with 6 words in all against 2 with 3: 3/(6+4-3) is below 2/(3+4-2)
    assert sampled == "1 0 2 oosos"
    assert baselines.words("Press the RED button!") == {b"press", b"the", b"red", b"button"}


def test_only_what_is_shown_is_read(toy: Toy) -> None:
    """With the thoughts hidden, words of the task in a thought help nobody."""
    toy.scene("a", toy.response("click(1, 1)"), toy.response("click(7, 7)", "click one"), task="Click ONE.", pick=1)
    options = {"candidate_reasoning": False}
    spec = toy.spec()
    assert spec.selection is not None
    hidden = replace(spec.selection, prompt=replace(spec.selection.prompt, options=options))
    found = audits(toy, selection=hidden)["baselines"]
    assert found["labels"]["word_overlap"]["exact"] == 1.0
    assert found["selection_sft"]["train"]["word_overlap"]["exact"] == 0.0
    assert audits(toy)["baselines"]["selection_sft"]["train"]["word_overlap"]["exact"] == 1.0


def test_an_equivalent_action_counts_apart(toy: Toy) -> None:
    toy.scene("a", "click(60, 60)", "click(60.4, 60)", "stop()", picture=page(1), pick=1)
    found = audits(toy)
    first = found["baselines"]["labels"]["first"]
    assert (first["exact"], first["equivalent"]) == (0.0, 1.0)
    assert found["baselines"]["labels"]["uniform"] == {"exact": 0.3333, "equivalent": 0.6667}
    assert found["equivalent_picks"] == {"labels": 1, "same": 0, "near": 1, "share": 1.0}


# -- agreement ---------------------------------------------------------------------------------------------------------


def test_draws_by_hand() -> None:
    """Four draws: three with a and b (picks a, a, b), one with a and c (pick a).

    Pairs whose picks both have: the three a's agree in 3 pairs; b meets a in the two sets that have both: 2 differ.
    """
    counts: Counts = Counter()
    both, other = frozenset("ab"), frozenset("ac")
    agreement.add_draws(counts, [(both, "a"), (both, "a"), (both, "b"), (other, "a")])
    assert agreement.report(counts)["draws"] == {"pairs": 5, "same": 3, "share": 0.6}


def test_repeats_by_hand() -> None:
    """Picks x, x, near x, y of one teacher: of six pairs one is exact, three are equivalent; others do not count."""
    parsed = [parse("function", a) for a in ("click(500, 500)", "click(503, 500)", "click(900, 10)")]
    asked: dict[str, Any] = {"teacher": "t", "prompt_id": "p", "prompt_sha256": "0", "status": "ok"}
    labels = [{**asked, "selected_index": picked} for picked in (0, 0, 1, 2)]
    labels += [{**asked, "prompt_sha256": "1", "selected_index": 2}, {**asked, "teacher": None, "selected_index": 2}]
    labels += [{**asked, "status": "refused", "selected_index": None}]
    counts: Counts = Counter()
    agreement.add_repeats(counts, labels, parsed, VIEW)
    assert agreement.report(counts)["repeats"] == {
        "t": {"pairs": 6, "exact": 1, "equivalent": 3, "exact_share": 0.1667, "equivalent_share": 0.5}
    }


# -- choices, lengths --------------------------------------------------------------------------------------------------


def test_near_is_no_chain() -> None:
    """Each is near the next and the ends are not near each other: there is a choice."""
    counts: Counts = Counter()
    chain = [parse("function", f"click({x}, 500)") for x in (500, 504, 508)]
    choices.add_set(counts, chain, VIEW)
    choices.add_set(counts, chain[:2], VIEW)
    choices.add_set(counts, [chain[0]] * 3, VIEW)
    choices.add_set(counts, [chain[1], chain[0], chain[2]], VIEW)  # the first is near both
    assert choices.report(counts)["no_choice"] == {"sets": 4, "one_action": 1, "near_only": 1, "share": 0.5}


def test_bins_are_four_to_a_power_of_two() -> None:
    assert [bin_of(n) for n in (0, 1, 7, 8, 9, 10, 1023, 1024, 1279, 1280, 2047)] == [
        *(0, 1, 7, 8, 8, 10, 896, 1024, 1024, 1280, 1792)
    ]
    assert len({bin_of(n) for n in range(1024, 2048)}) == 4


def test_distributions_by_hand(toy: Toy) -> None:
    toy.scene("a", "click(1, 1)", "stop()", 'type(1, 1, "x")', text="URL: https://a.test/x", task="One")
    toy.scene("b", "click(1, 1)", "stop()", text="URL: https://a.test/y", task="Two", pick=1)
    toy.scene("c", "click(1, 1)", "hmm", text="URL: https://b.test/y", task="Three")
    found = audits(toy)["distributions"]
    assert found["verbs"]["candidates"] == {"click": 3, "stop": 2, "type": 1, "unparsed": 1}
    assert found["verbs"]["picks"] == {"click": 2, "stop": 1}
    assert found["hosts"]["top"] == [{"host": "a.test", "states": 2}, {"host": "b.test", "states": 1}]
    assert found["hosts"]["others"] == {"hosts": 0, "states": 0}
    assert found["pair_types"] == {"train": {"termination_vs_continue": 2, "typing_or_keys": 1}}
    candidates = found["lengths"]["candidate"]
    sizes = sorted(
        len(response) for record in toy.sets if isinstance(record, dict) for response in record["candidates"]
    )
    assert (candidates["n"], candidates["mean"]) == (7, float(f"{sum(sizes) / 7:.4g}"))
    assert (candidates["median"], candidates["p95"]) == (bin_of(sizes[3]), bin_of(sizes[6]))
    completions = found["lengths"]["selection_sft.completion"]
    assert (completions["n"], completions["mean"]) == (3, float(len('{"selection": 1}')))


def test_hosts_are_told_in_bounds(toy: Toy) -> None:
    for number in range(25):
        for copy in range(2 if number == 24 else 1):
            toy.page(f"e{number}-{copy}", text=f"URL: https://h{number:02}.test/", task=f"t{number}")
    hosts = audits(toy, tables=("states",))["distributions"]["hosts"]
    assert (hosts["distinct"], len(hosts["top"]), hosts["others"]) == (25, 20, {"hosts": 5, "states": 5})
    assert hosts["top"][:2] == [{"host": "h24.test", "states": 2}, {"host": "h00.test", "states": 1}]
