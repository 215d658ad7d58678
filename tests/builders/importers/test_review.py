"""`review.jsonl`: verdicts of people take rows out of a build, and each of them is accounted for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.schemas.errors import ArmError

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

Record = dict[str, Any]


def verdict(item: str, said: str = "drop", time: str = "2026-05-01T10:00:00Z", **record: Any) -> Record:
    return {"item_id": item, "verdict": said, "note": "", "reviewer": "ann", "time": time, **record}


def build(toy: Toy, *verdicts: Any, **source: Any) -> Build:
    for name in ("a", "b", "c"):
        toy.scene(name, picture=ord(name), task=f"Task {name}")
    plain = toy.spec()
    reviews = toy.lay("reviews", "review", "review.jsonl", verdicts, **source)
    return toy.build(sources=(*plain.sources, reviews))


def test_what_a_person_drops_is_left_out_by_name(toy: Toy) -> None:
    built = build(
        toy,
        verdict("a__t0", "keep", time="2026-04-30T10:00:00Z"),
        verdict("a__t0"),
        verdict("b__t0#d0", "relabel"),
        verdict("c__t0", "keep"),
        verdict("nothing"),
    )
    assert [row["state_id"] for row in built.rows("selection_sft")] == ["c__t0"]
    assert built.excluded("selection_sft") == {"review_drop": ["a__t0#d0|-|-|0"], "review_relabel": ["b__t0#d0|-|-|0"]}
    assert built.excluded("reviews") == {"no_item": ["nothing"], "superseded": ["a__t0"]}
    account = built.identity["ledger"]["reviews"]
    assert (account["in"], account["out"]) == (5, 3)
    assert built.balanced()


def test_verdicts_that_are_none_are_named(toy: Toy) -> None:
    broken: list[Any] = [
        verdict("a__t0", "maybe"),
        verdict("a__t0", time="2026-05-01"),
        verdict("a__t0", reviewer=""),
        verdict("a__t0", stars=5),
        b'{"item_id": "a__t0", "verd',
    ]
    with pytest.raises(ArmError) as caught:
        build(toy, verdict("a__t0"), *broken)
    said = [str(issue) for issue in caught.value.issues]
    assert said[:-1] == [
        "review.jsonl:2 $.verdict is \"maybe\", not one of keep, drop, relabel, note",
        'review.jsonl:3 $.time is "2026-05-01", does not match '
        "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$",
        "review.jsonl:4 $.reviewer is empty",
        "review.jsonl:5 $.stars is not a known field",
    ]  # fmt: skip
    assert said[-1].startswith("review.jsonl:6 $ not JSON")
    for lines in (toy.episodes, toy.sets, toy.labels):
        lines.clear()
    built = build(toy, verdict("a__t0"), *broken, on_invalid="exclude")
    assert built.identity["ledger"]["reviews"]["excluded"] == {"invalid_record": 5}
    assert built.balanced()


def test_the_order_of_verdicts_does_not_matter(toy: Toy) -> None:
    verdicts = [verdict("a__t0"), verdict("a__t0", "keep", time="2026-05-02T10:00:00Z"), verdict("b__t0")]
    built = build(toy, *verdicts)
    reviews = toy.lay("reviews", "review", "other.jsonl", verdicts[::-1])
    turned = toy.build(
        sources=(*built.spec.sources[:-1], replace(reviews, files=(("review.jsonl", reviews.files[0][1]),)))
    )
    assert turned.digests == built.digests
    assert sorted(row["state_id"] for row in built.rows("selection_sft")) == ["a__t0", "c__t0"]
