"""What people said, as the card tells it: how much, by whom, and whose the picks are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import pytest
from action_reward_models.cards.dataset import problems, render
from action_reward_models.tests.builders.conftest import Build, Toy

HOSTILE = "<b>@x|*[l](http://a)*{{x}}`"
SHOWN = "&#60;b&#62;&#64;x&#124;&#42;&#91;l&#93;(http&#58;//a)&#42;&#123;&#123;x&#125;&#125;&#96;"


def said(item: str, verdict: str, who: str = "ann", **more: Any) -> dict[str, Any]:
    time = "2026-01-01T00:00:00Z"
    return {"item_id": item, "verdict": verdict, "note": "n", "reviewer": who, "time": time, **more}


def label(name: str) -> str:
    return f"{name}__t0#d0|-|-|0"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Build:
    toy = Toy(tmp_path_factory.mktemp("people"))
    for n, name in enumerate("abcd"):
        toy.scene(name, picture=n + 1, task=f"Do {n}.", pick=None if name == "c" else 0)
    given = [
        said(label("a"), "relabel", selected_index=1), said(label("b"), "relabel", selected_index=0),
        said(label("c"), "relabel", HOSTILE, selected_index=2), said(label("d"), "relabel"),
        said(f"{label('a')}|2", "drop"), said("a__t0", "note"), said("a__t0", "note", note="m"),
    ]  # fmt: skip
    return toy.build(sources=(*toy.sources(), toy.lay("reviews", "review", "r.jsonl", given)))


def test_the_card_says_what_people_said(made: Build) -> None:
    card = render(made.manifest)
    assert problems(card, made.manifest) == []
    for line in (
        "## What people said\n\nPeople looked at 6 items: 1 of `states`, 4 of `teacher_labels` and 1 of `bt_pairs`.",
        "| `drop` | was left out, unless its label was kept later | 1 |\n",
        "| `relabel` | has a wrong pick: another one was named, or it waits in quarantine | 4 |\n",
        "| `note` | has a note, and nothing was done | 2 |\n",
        "Of the labels, 1 pick of the teacher was replaced by another, 1 label without a pick got one and "
        "1 pick was named again.",
        "`teacher_labels` keeps every label in the teacher's own words.",
        "| ann | 6 |\n",
        f"| {SHOWN} | 1 |\n",
        "**Reviewed in part.** People looked at 6 items and at nothing else here. Where rows follow a label, "
        "2 picks are theirs and not the teacher's: `reviews` says which.",
        "| `review_id` | `item_id`, which is an id of the table that `item_table` names |",
    ):
        assert line in card, line
    assert HOSTILE not in card


def test_stock_datasets_loads_what_was_said(made: Build, tmp_path: Path) -> None:
    (made.folder / "README.md").write_text(render(made.manifest), "utf-8")
    reviews = datasets.load_dataset(str(made.folder), "reviews", split="train", cache_dir=str(tmp_path))
    labels = datasets.load_dataset(str(made.folder), "teacher_labels", split="train", cache_dir=str(tmp_path))
    picks = dict(zip(labels["label_id"], labels["selected_index"], strict=True))
    answered = reviews.filter(lambda row: row["selected_index"] is not None)
    assert dict(zip(answered["item_id"], answered["selected_index"], strict=True)) == {
        label("a"): 1, label("b"): 0, label("c"): 2,
    }  # fmt: skip
    for row in answered:
        assert picks[row["item_id"]] == row["previous_index"]


def test_nothing_where_nobody_said_anything(made: Build) -> None:
    identity = {**made.identity, "ledger": {**made.identity["ledger"]}, "statistics": {**made.identity["statistics"]}}
    for name in ("reviews", "reviewers", "reviewed_items", "answers"):
        identity["statistics"].pop(name)
    identity["ledger"].pop("reviews")
    card = render({**made.manifest, "identity": identity})
    assert "What people said" not in card
    assert "Reviewed in part" not in card
    assert "a person's review of labels, prompts and screenshots" in card


def test_a_crowd_is_cut(made: Build) -> None:
    crowd = {f"r{n:02}": 1 for n in range(25)}
    identity = {**made.identity, "statistics": {**made.identity["statistics"], "reviewers": crowd}}
    card = render({**made.manifest, "identity": identity})
    assert "| r19 | 1 |\n\nAnd 5 more reviewers.\n" in card
    assert "| r20 |" not in card
