"""What `compare` says about random tables is what a plain script over dictionaries says."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.registry.diff import Diff, Side, compare
from action_reward_models.registry.diff.model import TableDiff
from action_reward_models.schemas import digests
from action_reward_models.schemas.store import ID_FIELDS, TABLES, load

from . import tiny
from .tiny import Row, Tables

SPLITS = ("train", "validation")


def expected(table: str, before: list[Row], after: list[Row]) -> dict[str, Any]:
    """The same by brute force: {split: counts}, fields, ids of changed and moved rows."""
    codec = digests.for_schema(TABLES[table])
    key = ID_FIELDS[table]
    old, new = ({row[key]: row for row in rows} for rows in (before, after))
    counts: dict[str, Counter[str]] = {split: Counter() for split in SPLITS}
    fields: Counter[str] = Counter()
    changed, moved = {}, {}
    for row_id in old.keys() - new.keys():
        counts[_split(old[row_id])]["removed"] += 1
    for row_id in new.keys() - old.keys():
        counts[_split(new[row_id])]["added"] += 1
    for row_id in old.keys() & new.keys():
        a, b = old[row_id], new[row_id]
        differing = sorted(
            name
            for name, node in load(TABLES[table])["properties"].items()
            if name not in codec.provenance and _canonical(name, node, a) != _canonical(name, node, b)
        )
        assert bool(differing) == (codec.digest(a) != codec.digest(b))
        if _split(a) != _split(b):
            counts[_split(a)]["moved_out"] += 1
            counts[_split(b)]["moved_in"] += 1
            moved[row_id] = (_split(a), _split(b), [name for name in differing if name != "split"])
        elif differing:
            counts[_split(a)]["changed"] += 1
            fields.update(differing)
            changed[row_id] = differing
        else:
            counts[_split(a)]["unchanged"] += 1
    return {"counts": counts, "fields": fields, "changed": changed, "moved": moved}


def _split(row: Row) -> str:
    return str(row.get("split", "train"))


def _canonical(name: str, node: Any, row: Row) -> bytes:
    codec = digests.RowCodec({"type": "object", "properties": {name: node}, "required": [name]})
    return codec.canonical({name: row[name]})


def said(table: TableDiff) -> dict[str, Any]:
    heads = {row.id: {re.split(r"[.\[]", change.field)[0] for change in row.changes} for row in table.changed.first}
    return {
        "counts": {split: Counter(_counts(table, split)) for split in SPLITS},
        "fields": Counter(table.fields),
        "changed": {row_id: sorted(fields) for row_id, fields in heads.items()},
        "moved": {move.id: (move.before, move.after, move.fields) for move in table.moved.first},
    }


def _counts(table: TableDiff, split: str) -> dict[str, int]:
    return {name: n for name, n in vars(table.splits[split]).items() if n} if split in table.splits else {}


def compared(before: Path, after: Path, limit: int = 1000) -> Diff:
    with Side.folder(before) as old, Side.folder(after) as new:
        return compare(old, new, limit=limit)


def answered(before: Tables, after: Tables) -> dict[str, tuple[int | None, int | None]]:
    """Label -> the pick that rows followed, and the one they follow now, where a review made it another."""
    sides = [
        {row["item_id"]: row for row in side["reviews"] if row["selected_index"] is not None}
        for side in (before, after)
    ]
    found = {}
    for label_id in {*sides[0], *sides[1]}:
        known = next(side[label_id] for side in sides if label_id in side)
        was, now = (side[label_id]["selected_index"] if label_id in side else known["previous_index"] for side in sides)
        if was != now:
            found[label_id] = (was, now)
    return found


@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(n, marks=pytest.mark.slow) for n in range(5, 40))])
def test_random_tables(seed: int, tmp_path: Path) -> None:
    """Any cut into shards and row groups, any order, pictures embedded or referenced."""
    draw = random.Random(seed)
    before: Tables = {table: [tiny.row(table, n, draw) for n in range(draw.randrange(25))] for table in ID_FIELDS}
    after = {table: tiny.revised(table, rows, draw) for table, rows in before.items()}
    for label in after["teacher_labels"]:  # those that the training rows come from flip more often
        if label["label_id"].removeprefix("teacher_labels-") in "0246":
            label["status"] = draw.choice(["ok", "error"])
    after["reviews"] = list({review["item_id"]: review for review in after["reviews"]}.values())

    def write(name: str, tables: Tables) -> Path:
        shards, group = draw.choice([1, 3, 3, 5]), draw.choice([2, 7, 100])
        images = draw.choice(["embed", "embed", "reference"])
        return tiny.write(tmp_path / name, tables, draw, shards=shards, group=group, images=images)

    diff = compared(write("before", before), write("after", after))
    for table in ID_FIELDS:
        assert said(diff.tables[table]) == expected(table, before[table], after[table]), table
    labels = [{row["label_id"]: row for row in tables["teacher_labels"]} for tables in (before, after)]
    flipped = {
        label
        for label in labels[0].keys() & labels[1].keys()
        if any(labels[0][label][name] != labels[1][label][name] for name in ("status", "selected_index"))
    }
    assert {flip.label_id for flip in diff.flips.first} == flipped
    assert diff.flips.total == len(flipped)
    assert {answer.label_id: (answer.before, answer.after) for answer in diff.answers.first} == answered(before, after)
    follow = flipped | set(answered(before, after))
    for table in ("selection_sft", "bt_pairs"):
        known = expected(table, before[table], after[table])
        old, new = ({row[ID_FIELDS[table]]: row["label_id"] for row in t[table]} for t in (before, after))
        differing = {*known["changed"], *(row for row, (_, _, fields) in known["moved"].items() if fields)}
        follows = diff.tables[table].follows
        if follows is None:  # nothing was read
            assert old == new
            assert not differing
            continue
        assert follows.changed == sum(new[row] in follow for row in differing)
        assert follows.added == sum(new[row] in follow for row in new.keys() - old.keys())
        assert follows.removed == sum(old[row] in follow for row in old.keys() - new.keys())


@pytest.mark.parametrize("seed", range(4))
def test_random_exclusions(seed: int, tmp_path: Path) -> None:
    """Rows without an id, some of them several times."""
    draw = random.Random(100 + seed)
    before = [tiny.row("exclusions", n, draw) for n in range(30)] * 2
    after = tiny.revised("exclusions", before, draw)
    sides = [
        tiny.write(tmp_path / name, {"exclusions": rows}, draw, shards=draw.choice([1, 3]), group=4)
        for name, rows in (("before", before), ("after", after))
    ]
    table = compared(sides[0], sides[1]).tables["exclusions"]
    codec = digests.for_schema("exclusion/1")
    old, new = (Counter(map(codec.digest, rows)) for rows in (before, after))
    total = table.total
    assert total.added + total.changed == (new - old).total()
    assert total.removed + total.changed == (old - new).total()
    assert total.unchanged == (old & new).total()
    assert total.changed == table.changed.total


def test_a_version_beside_itself_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(5)
    tables = {table: [tiny.row(table, n, draw) for n in range(9)] for table in TABLES}
    before = tiny.write(tmp_path / "before", tables, draw, shards=2)
    after = tiny.write(tmp_path / "after", tables, draw, shards=3, images="reference")
    diff = compared(before, after)  # the same rows in other shards and another form
    assert not diff.empty
    assert all(table.total.unchanged == 9 for table in diff.tables.values())
    assert diff.tables["states"].images == ("embed", "reference")
    monkeypatch.setattr(Side, "path", lambda *_: pytest.fail("a file was opened"))
    assert compared(before, before).empty
    with Side.folder(after) as side:
        first = compare(None, side)
    assert {name: table.total.added for name, table in first.tables.items()} == dict.fromkeys(TABLES, 9)
    assert not first.empty


def test_equal_sides_give_equal_json(tmp_path: Path) -> None:
    draw = random.Random(6)
    tables = {table: [tiny.row(table, n, draw) for n in range(20)] for table in TABLES}
    old, new = [
        tiny.write(tmp_path / name, {t: tiny.revised(t, rows, draw) for t, rows in tables.items()}, draw, shards=2)
        for name in ("before", "after")
    ]
    assert compared(old, new).to_json() == compared(old, new).to_json()
    few = compared(old, new, limit=2).to_json()["tables"]["states"]
    every = compared(old, new).to_json()["tables"]["states"]
    assert few["rows"] == every["rows"]
    assert few["fields"] == every["fields"]
    assert few["changed"]["first"] == every["changed"]["first"][:2]
    assert few["changed"]["left_out"] == every["changed"]["total"] - 2 > 0
