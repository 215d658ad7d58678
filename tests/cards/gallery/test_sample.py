"""Which items are shown: some of each kind, always the same, and more of them when more are asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.cards.gallery.sample import Sample
from action_reward_models.cards.gallery.units import Unit
from action_reward_models.schemas.errors import ArmError

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy
    from tests.cards.gallery.conftest import Page

Shown = Callable[..., "Page"]


def ids(page: Page) -> list[tuple[str, str]]:
    return [(item["table"], item["id"]) for item in page[0]["items"]]


def test_more_items_only_add(many: Callable[..., Build], shown: Shown) -> None:
    build = many()
    pages = [set(ids(shown(build, items=n))) for n in (1, 7, 30, 31, 120)]
    assert [len(page) for page in pages] == [1, 7, 30, 31, 120]
    for smaller, larger in pairwise(pages):
        assert smaller < larger


def test_a_build_gives_one_page_whatever_its_files(many: Callable[..., Build], shown: Shown) -> None:
    """Rows stand in other files and another order; what is looked at does not depend on it."""
    one, other = many(), many(shards=7)
    assert one.digests == other.digests
    first, second = shown(one, items=25), shown(other, items=25)
    assert first[0] == second[0] | {"identity_sha256": first[0]["identity_sha256"]}
    assert first[1] == second[1]


def test_every_stratum_has_its_share(many: Callable[..., Build], shown: Shown) -> None:
    data, _ = shown(many(), items=40)
    counted: Counter[Any] = Counter()
    for item in data["items"]:
        excluded = item["excluded"]
        kind = excluded["reason"] if excluded else item["facets"]["pair_type"] or dict(item["facts"]).get("selected by")
        kind = kind or dict(item["facts"]).get("score source", "")
        kind = dict(item["facts"])["reason"] if item["table"] == "reserve" else kind
        counted[item["table"], item["split"], kind] += 1
    strata = {(one["table"], one["split"], one["kind"]): one for one in data["strata"]}
    assert counted == {key: one["shown"] for key, one in strata.items() if one["shown"]}
    assert len(strata) > 15
    least = min(one["shown"] for one in strata.values() if one["shown"] < one["of"])
    most = max(one["shown"] for one in strata.values())
    assert most - least <= 1  # but where a stratum has no more
    assert {split for _, split, _ in strata} == {"train", "validation"}


def test_strata_count_the_whole_build(many: Callable[..., Build], shown: Shown) -> None:
    build = many()
    data, _ = shown(build, items=3)
    for table in ("selection_sft", "bt_pairs", "pointwise_scores", "actor_sft", "reserve"):
        ledger = build.identity["ledger"].get(table, {"excluded": {}})
        for split in ("train", "validation"):
            of = sum(
                one["of"] for one in data["strata"]
                if (one["table"], one["split"]) == (table, split) and one["kind"] not in ledger["excluded"]
            )  # fmt: skip
            assert of == len(build.rows(table, split=split))
        excluded = Counter[str]()
        for one in data["strata"]:
            if one["table"] == table and one["kind"] in ledger["excluded"]:
                excluded[one["kind"]] += one["of"]
        assert excluded == ledger["excluded"]


def test_exclusions_have_the_split_of_their_state(many: Callable[..., Build], shown: Shown) -> None:
    build = many()
    splits = {row["state_id"]: row["split"] for row in build.rows("states")}
    data, _ = shown(build, items=2000)
    excluded = [item for item in data["items"] if item["excluded"]]
    assert {item["split"] for item in excluded} == {"train", "validation"}
    assert all(item["split"] == splits[item["state_id"]] for item in excluded)
    of = {(o["table"], o["split"], o["kind"]): (o["shown"], o["of"]) for o in data["strata"]}
    assert all(shown_ == of_ for shown_, of_ in of.values())


@pytest.mark.parametrize(
    ("choice", "passes"),
    [
        ({"tables": ("bt_pairs",)}, lambda item: item["table"] == "bt_pairs"),
        ({"tables": ("bt_pairs", "reserve")}, lambda item: item["table"] in ("bt_pairs", "reserve")),
        ({"split": "validation"}, lambda item: item["split"] == "validation"),
        ({"reasons": ("over_budget",)}, lambda item: (item["excluded"] or {}).get("reason") == "over_budget"),
        ({"split": "train", "tables": ("actor_sft",)}, lambda i: (i["split"], i["table"]) == ("train", "actor_sft")),
        ({"ids": ("e7__t0",)}, lambda item: item["state_id"] == "e7__t0"),
        ({"ids": ("e7__t0#d0", "e8__t0")}, lambda item: item["state_id"] in ("e7__t0", "e8__t0")),
        ({"ids": ("e7__t0#d0|-|-|0",)}, lambda item: item["label_id"] == "e7__t0#d0|-|-|0"),
        ({"ids": ("e7__t0#d0|-|-|0|2",)}, lambda item: item["id"].startswith("e7__t0#d0|-|-|0|2")),
        ({"ids": ("e8__t0#d0|2|prm|scalar/1",)}, lambda item: item["id"] == "e8__t0#d0|2|prm|scalar/1"),
    ],
    ids=range(10),  # of a function the name would be its address, another in each worker
)
def test_filters_leave_exactly_what_passes(
    many: Callable[..., Build], shown: Shown, choice: dict[str, Any], passes: Callable[[Any], bool]
) -> None:
    build = many()
    everything = shown(build, items=5000)[0]["items"]
    expected = {(item["table"], item["id"]) for item in everything if passes(item)}
    assert 0 < len(expected) < len(everything)
    assert set(ids(shown(build, items=5000, **choice))) == expected


def test_an_unknown_id_is_told_with_the_nearest(many: Callable[..., Build], shown: Shown) -> None:
    with pytest.raises(ArmError, match=r"no item has the id 'e7_t0#d0', 'zzz'|did you mean") as caught:
        shown(many(), ids=("e7_t0#d0", "e3__t0", "zzz"))
    assert caught.value.message == "no item has the id 'e7_t0#d0' (did you mean 'e7__t0#d0'?), 'zzz'"


def test_nothing_to_look_at_says_what_there_is(many: Callable[..., Build], shown: Shown) -> None:
    with pytest.raises(ArmError, match="nothing to look at with table bench_items, reason nope") as caught:
        shown(many(), tables=("bench_items",), reasons=("nope",))
    assert "tables: selection_sft, bt_pairs, pointwise_scores" in caught.value.message
    assert "over_budget" in caught.value.message


def test_an_id_that_nothing_is_held_of_is_said(toy: Toy, shown: Shown) -> None:
    """The comparison of two episodes is excluded by name, and its sides are in no table."""
    from action_reward_models.builders.spec import PairSpec, PromptSpec, TrajectorySpec

    for name, reward in (("good", 1), ("bad", 0.9)):
        said = toy.message("user", "Task: Buy.", reward == 1), toy.message("assistant", toy.response("stop()"))
        toy.episode(name, *said, metadata={"reward": reward})
    pairs = PairSpec(
        PromptSpec("scalar/1"), trajectories=TrajectorySpec(PromptSpec("trajectory/1", options={"history_window": 9}))
    )
    build = toy.build(pairs=pairs, tables=("states", "bt_pairs"), images={"states": "embed"})
    (unit,) = build.excluded("bt_pairs")["small_gap"]
    with pytest.raises(ArmError, match="nothing can be shown: 1 not in the build"):
        shown(build, ids=(unit,))
    data, _ = shown(build)  # with other items, it is counted
    assert data["left_out"] == {"not in the build": 1}
    assert {item["table"] for item in data["items"]} == {"coverage"}


def test_memory_does_not_depend_on_the_number_of_units() -> None:
    units = (Unit("bt_pairs", "train", "click", f"p{n}") for n in range(5000))
    sample = Sample(units, 10)
    assert sample.counts == {("bt_pairs", False, "click", "train"): 5000}
    assert sum(map(len, sample._kept.values())) == 10
    whole = Sample((Unit("bt_pairs", "train", "click", f"p{n}") for n in range(5000)), 5000).sequence()
    assert sample.sequence() == whole[:10]
    backwards = Sample((Unit("bt_pairs", "train", "click", f"p{n}") for n in reversed(range(5000))), 10)
    assert backwards.sequence() == whole[:10]
