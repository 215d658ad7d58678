"""The audits are the same however many buckets there are and in whatever order the records come."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from action_reward_models.builders.spec import GateSpec, SplitSpec

from tests.builders.audits.conftest import ACTIONS, SPLIT, encoded, page, scene, screen, words

if TYPE_CHECKING:
    from tests.builders.conftest import Toy

LENIENT = GateSpec(*["warn"] * 6)  # type: ignore[arg-type]


@pytest.fixture
def flawed(toy: Toy) -> Toy:
    """Something for every audit: more findings than are named, in several buckets."""
    for number in range(24):
        scene(toy, number, text=f"URL: https://host{number % 22}.example/")
        again = f"{words(number)} again"
        scene(
            toy, 100 + number, task=again, picture=encoded(screen(number), "JPEG"), text="URL: https://host1.example/"
        )
        toy.label(toy.draw(f"e{number}__t0", *ACTIONS, number=1), (number + 1) % 4)
        toy.label(toy.draw(f"e{number}__t0", ACTIONS[0], ACTIONS[0], "stop()", number=2), 2)
    return toy


def audits(toy: Toy, **changes: Any) -> Any:
    return toy.build(gates=LENIENT, **changes).identity["statistics"]["audits"]


@pytest.mark.parametrize("split", [SPLIT, SplitSpec(0.3, 1, isolate_screenshots=True)])
def test_buckets_and_order_decide_nothing(split: SplitSpec, flawed: Toy) -> None:
    one = audits(flawed, split=split, shards=1)
    assert len(one["screenshots"]) > 5
    assert one["near_tasks"]["near"] > 5
    assert len(one["conflicting_picks"]["named"]) == 20 < one["conflicting_picks"]["groups"]
    assert audits(flawed, split=split, shards=3) == one
    for records in (flawed.episodes, flawed.sets, flawed.labels):
        random.Random(7).shuffle(records)
    assert audits(flawed, split=split, shards=7) == one


def test_they_are_plain_json(flawed: Toy) -> None:
    found = audits(flawed, split=SPLIT)
    assert orjson.loads(orjson.dumps(found)) == found


def test_new_rows_add_to_them_and_change_no_old_row(flawed: Toy) -> None:
    before = flawed.build(gates=LENIENT, split=SPLIT)
    for number in range(200, 206):
        scene(flawed, number, picture=page(number))
    after = flawed.build(gates=LENIENT, split=SPLIT)
    for table in ("states", "selection_sft", "bt_pairs"):
        old = [orjson.dumps(row, option=orjson.OPT_SORT_KEYS) for row in before.rows(table)]
        new = {orjson.dumps(row, option=orjson.OPT_SORT_KEYS) for row in after.rows(table)}
        assert set(old) <= new
        assert len(new) > len(old)
