"""A person names a better candidate of a label: exactly the rows that follow from it are others, and say so."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders.spec import ActorSpec, LabelSpec, PairSpec, PromptSpec, SelectionSpec, SplitSpec
from action_reward_models.registry import Registry
from action_reward_models.schemas.built import built_rows
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.ids import canonical_json, sha256_hex
from action_reward_models.schemas.store import ID_FIELDS, TABLES, load

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

EXAMPLE = Path(__file__).parents[2] / "examples" / "miniwob"
NAME = "action-reward-models-data"
SET = "a__t0#d0"
LABEL = f"{SET}|-|-|0"
ALL = ("states", "candidate_sets", "teacher_labels", "selection_sft", "bt_pairs", "actor_sft", "reserve")


def review(item: str, index: int | None = None, said: str = "relabel", day: int = 1, **more: Any) -> dict[str, Any]:
    time = f"2026-01-{day:02}T00:00:00Z"
    index_of = {} if index is None else {"selected_index": index}
    return {"item_id": item, "verdict": said, "note": "", "reviewer": "ann", "time": time, **index_of, **more}


def build(toy: Toy, *reviews: Any, source: dict[str, Any] | None = None, **changes: Any) -> Build:
    sources = toy.sources()
    if reviews:
        sources = (*sources, toy.lay("reviews", "review", "reviews.jsonl", list(reviews), **(source or {})))
    changes.setdefault("pairs", PairSpec(PromptSpec("scalar/1"), 0))
    changes.setdefault("actor_sft", ActorSpec(random_control=True))
    made = toy.build(sources=sources, tables=ALL, **changes)
    assert made.balanced()
    return made


def by_id(made: Build) -> dict[tuple[str, str], dict[str, Any]]:
    tables = [table for table in made.digests if table in ID_FIELDS and table != "reviews"]
    return {(table, row[ID_FIELDS[table]]): row for table in tables for row in made.rows(table)}


def differing(before: Build, after: Build) -> set[tuple[str, str]]:
    old, new = by_id(before), by_id(after)
    return {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}


@pytest.fixture
def scene(toy: Toy) -> Toy:
    """Two states with a label each; of the first, the candidates 0 and 3 are one action."""
    toy.scene("a", "click(1, 1)", "click(700, 700)", "stop()", "click(1, 1)", picture=1)
    toy.scene("b", "click(1, 1)", "click(700, 700)", "stop()", picture=2, task="Another.")
    return toy


def test_a_relabel_flips_exactly_the_rows_that_follow(scene: Toy) -> None:
    before = build(scene)
    after = build(scene, review(LABEL, 2, note="It is done."))
    assert before.rows("teacher_labels") == after.rows("teacher_labels")  # what the teacher said
    sft = "selection_sft", f"{LABEL}|selection/1"
    # 1 against the new pick; 2 was a loser, 0 is one now, and 3 repeats it
    pairs = {("bt_pairs", f"{LABEL}|{loser}|scalar/1") for loser in (0, 1, 2)}
    assert differing(before, after) == {sft, *pairs, ("actor_sft", f"{LABEL}|teacher")}
    old, new = by_id(before)[sft], by_id(after)[sft]
    assert {name for name in old if old[name] != new[name]} == {"completion"}
    slot = new["order"].index(2) + 1
    assert new["completion"][0]["content"][0]["text"] == f'{{"selection": {slot}}}'
    for row in after.rows("bt_pairs", label_id=LABEL):
        assert row["chosen_index"] == 2
        assert "stop()" in str(row["chosen"])
    assert "stop()" in str(after.row("actor_sft", row_id=f"{LABEL}|teacher")["completion"])


def test_what_was_applied_stands_in_a_table(scene: Toy) -> None:
    said = review(LABEL, 2, note="It is done.")
    after = build(scene, said, review(LABEL, 1, day=2, said="note", selected_index=None, note="Look again."))
    first, second = sorted(after.rows("reviews"), key=lambda row: row["time"])
    assert first == {
        **said,
        "review_id": sha256_hex(canonical_json(said)),
        "item_table": "teacher_labels",
        "previous_index": 0,
        "source": {"file": "reviews.jsonl", "record_sha256": sha256_hex(json.dumps(said).encode())},
    }
    assert (second["verdict"], second["selected_index"], second["note"]) == ("note", None, "Look again.")
    assert after.row("teacher_labels", label_id=first["item_id"])["selected_index"] == first["previous_index"]
    assert after.identity["tables"]["reviews"]["schema"] == "applied_review/1"
    assert (after.folder / "schemas" / "applied_review-1.json").is_file()
    assert after.identity["ledger"]["reviews"]["out"] == 2
    statistics = after.identity["statistics"]
    assert statistics["reviews"] == {"note": 1, "relabel": 1}
    assert statistics["answers"] == {"changed": 1}
    assert statistics["reviewed_items"] == {"teacher_labels": 1}
    assert statistics["reviewers"] == {"ann": 2}


def test_a_build_without_reviews_has_no_such_table(scene: Toy) -> None:
    identity = build(scene).identity
    assert "reviews" not in identity["tables"]
    assert not {"reviews", "reviewers", "answers", "reviewed_items"} & set(identity["statistics"])


@pytest.mark.parametrize("pick", [None, 7])
def test_a_person_answers_what_the_teacher_did_not(toy: Toy, pick: int | None) -> None:
    toy.scene("a", pick=pick)
    before, after = build(toy), build(toy, review(LABEL, 1))
    assert before.rows("selection_sft") == []
    (label,) = after.rows("teacher_labels")
    assert label["status"] == ("null_in_source" if pick is None else "out_of_range")
    assert after.row("selection_sft")["label_id"] == LABEL
    assert {row["chosen_index"] for row in after.rows("bt_pairs")} == {1}
    assert after.row("reviews")["previous_index"] is None
    assert after.identity["statistics"]["answers"] == {"given": 1}


def test_the_same_pick_changes_no_row(scene: Toy) -> None:
    before, after = build(scene), build(scene, review(LABEL, 0))
    assert differing(before, after) == set()
    assert after.identity["statistics"]["answers"] == {"confirmed": 1}


def test_only_the_newest_answer_counts(scene: Toy) -> None:
    once = build(scene, review(LABEL, 2, day=3))
    made = build(scene, review(LABEL, 1, day=2), review(LABEL, said="drop"), review(LABEL, 2, day=3))
    assert differing(once, made) == set()
    assert made.excluded("reviews") == {"superseded": [LABEL, LABEL]}
    dropped = build(scene, review(LABEL, 2), review(LABEL, said="drop", day=2))
    assert dropped.excluded("selection_sft") == {"review_drop": [LABEL]}
    waiting = build(scene, review(LABEL, 2), review(LABEL, day=2))
    assert waiting.excluded("selection_sft") == {"review_relabel": [LABEL]}
    assert {row["status"] for row in waiting.rows("exclusions", reason="review_relabel")} == {"quarantined"}


def test_a_note_changes_nothing_and_none_takes_the_place_of_another(scene: Toy) -> None:
    notes = [review(LABEL, said="note", day=day, note=f"{day}") for day in (1, 2, 2)]
    made = build(scene, *notes, review(LABEL, 2), review("b__t0", said="note", note="x"))
    assert differing(build(scene, review(LABEL, 2)), made) == set()
    assert sorted(row["note"] for row in made.rows("reviews", verdict="note")) == ["1", "2", "x"]
    assert made.excluded("reviews") == {"duplicate_record": [LABEL]}
    assert made.row("reviews", item_id="b__t0")["item_table"] == "states"


def test_the_teachers_reasoning_is_not_that_of_another_pick(toy: Toy) -> None:
    toy.draw(toy.page("a"), "click(1, 1)", "click(700, 700)", "click(1, 1)")
    toy.label(SET, 0, reasoning="The first is ONE.")
    selection = SelectionSpec(PromptSpec("selection/1", options={"reasoning": "before"}))
    assert "The first is ONE." in str(build(toy, selection=selection).row("selection_sft")["completion"])
    flipped = build(toy, review(LABEL, 1), selection=selection)
    assert flipped.rows("selection_sft") == []
    assert flipped.excluded("selection_sft") == {"no_reasoning": [LABEL]}
    assert len(flipped.rows("bt_pairs")) == 1
    same_action = build(toy, review(LABEL, 2), selection=selection)
    assert "The first is ONE." in str(same_action.row("selection_sft")["completion"])


def test_a_person_outranks_repeats_and_a_majority(toy: Toy) -> None:
    """The labels of one set are ``LABEL`` of each teacher; of the declared one, a person answered the second's."""
    toy.scene("a", picture=1)
    toy.labels.clear()
    teachers = ("x", "y", "z")
    files = [toy.lay("teacher_labels", "first_release", f"{t}.jsonl", [{"state_id": SET, "selection": 0}],
                     constants={"teacher": t}) for t in teachers]  # fmt: skip
    given = toy.lay("reviews", "review", "reviews.jsonl", [review(f"{SET}|z|-|0", 2)])
    sources = (*toy.sources(), *files, given)
    for rule in ("first", "majority"):
        made = toy.build(sources=sources, labels=LabelSpec(rule=rule), pairs=PairSpec(PromptSpec("scalar/1"), 0))
        assert [row["label_id"] for row in made.rows("selection_sft")] == [f"{SET}|z|-|0"]
        assert {row["chosen_index"] for row in made.rows("bt_pairs")} == {2}
        assert made.excluded("selection_sft") == {"other_repeat": [f"{SET}|x|-|0", f"{SET}|y|-|0"]}
    made = toy.build(sources=sources, labels=LabelSpec(teacher="x"))
    assert [row["label_id"] for row in made.rows("selection_sft")] == [f"{SET}|x|-|0"]
    assert made.excluded("selection_sft") == {"other_teacher": [f"{SET}|y|-|0", f"{SET}|z|-|0"]}


def test_an_unreadable_answer_feeds_nothing_and_neither_do_the_others(toy: Toy) -> None:
    toy.draw(toy.page("a"), "click(1, 1)", "stop()", "<think>x</think>nothing")
    toy.labels.clear()
    files = [toy.lay("teacher_labels", "first_release", f"{t}.jsonl", [{"state_id": SET, "selection": 0}],
                     constants={"teacher": t}) for t in "xy"]  # fmt: skip
    given = toy.lay("reviews", "review", "reviews.jsonl", [review(f"{SET}|y|-|0", 2)])
    made = toy.build(sources=(*toy.sources(), *files, given))
    assert made.excluded("selection_sft") == {"other_repeat": [f"{SET}|x|-|0"], "pick_unparsed": [f"{SET}|y|-|0"]}


def test_a_pick_with_no_loser_left_goes_into_the_reserve(toy: Toy) -> None:
    toy.scene("a", "click(1, 1)", 'stop("1")', 'stop("2")', "<think>x</think>nothing", pick=0)
    rules = {"done_vs_done": "drop", "unparsed": "drop", "coordinate_only": "keep"}
    pairs = PairSpec(PromptSpec("scalar/1"), 0, rules=rules)
    assert build(toy, pairs=pairs).rows("reserve") == []
    toy.sets.clear()
    toy.draw("a__t0", 'stop("0")', 'stop("1")', 'stop("2")', "<think>x</think>nothing")
    before, after = build(toy, pairs=pairs), build(toy, review(LABEL, 1), pairs=pairs)
    assert before.row("reserve")["row_id"] == after.row("reserve")["row_id"] == f"{LABEL}|reserve"
    texts = [str(made.row("reserve")["completion"]) for made in (before, after)]
    assert ['stop("0")' in texts[0], 'stop("1")' in texts[1]] == [True, True]


FAULTS = [
    (LABEL, 4, "is 4, and the set of the label has the candidates 0 to 3; name one of them, or none"),
    (SET, 1, "is 1, and the item is no label but of candidate_sets; let item_id be the label_id of the label"),
    ("a__t0", 1, "is 1, and the item is no label but of states; let item_id be the label_id of the label"),
    (f"{LABEL}|1|scalar/1", 1, "is 1, and the item is no label but of bt_pairs; "
     "let item_id be the label_id of the label"),
    (f"{LABEL}|selection/1", 1, "is 1, and the item is no label but of selection_sft; "
     "let item_id be the label_id of the label"),
]  # fmt: skip


@pytest.mark.parametrize(("item", "index", "message"), FAULTS)
def test_a_pick_that_cannot_be_is_named_or_left_out(scene: Toy, item: str, index: int, message: str) -> None:
    keep = review("b__t0", said="keep")
    with pytest.raises(ArmError) as caught:
        build(scene, keep, review(item, index))
    assert [str(issue) for issue in caught.value.issues] == [f"reviews.jsonl:2 $.selected_index {message}"]
    made = build(scene, keep, review(item, index), source={"on_invalid": "exclude"})
    assert differing(build(scene), made) == set()
    assert made.excluded("reviews") == {"invalid_record": [item]}
    assert [note.message for note in made.notes] == [message]
    assert [row["item_id"] for row in made.rows("reviews")] == ["b__t0"]


def test_an_impossible_pick_supersedes_nothing(scene: Toy) -> None:
    given = [review(LABEL, 2), review(LABEL, 9, day=2)]
    made = build(scene, *given, source={"on_invalid": "exclude"})
    assert differing(build(scene, given[0]), made) == set()
    assert made.excluded("reviews") == {"invalid_record": [LABEL]}


def test_nobody_is_no_item(scene: Toy) -> None:
    made = build(scene, review("nobody|-|-|0", 99), review("nobody", said="note", note="x"))
    assert made.excluded("reviews") == {"no_item": ["nobody", "nobody|-|-|0"]}
    assert made.rows("reviews") == []


@pytest.mark.parametrize("item", [f"{LABEL}|3", f"{LABEL}|teacher|random_control", "b__t0#d0"])
def test_what_fell_out_can_have_a_note(scene: Toy, item: str) -> None:
    made = build(scene, review(item, said="note", note="why?"), actor_sft=ActorSpec(quality_floor=0.5))
    met = {f"{LABEL}|3": "bt_pairs", "b__t0#d0": "candidate_sets"}
    assert [row["item_table"] for row in made.rows("reviews")] == ([met[item]] if item in met else [])


def test_any_number_of_buckets_gives_the_same(toy: Toy) -> None:
    """One label has an id that does not begin with its set's."""
    for n in range(12):
        toy.scene(f"p{n}", picture=n + 1, task=f"Do {n}.")
    toy.labels.clear()
    plain = [{"state_id": f"p{n}__t0#d0", "selection": 0} for n in range(12) if n]
    labels = toy.lay("teacher_labels", "first_release", "labels.jsonl", plain)
    base = toy.build(sources=(*toy.sources(), labels))
    row = base.row("teacher_labels", set_id="p1__t0#d0")
    own = {name: row[name] for name in load("table_label/1")["properties"] if name in row}
    own |= {"label_id": "opus-1", "set_id": "p0__t0#d0"}
    copied = toy.lay("teacher_labels", "table", "own.jsonl", [own])
    said = [review(f"p{n}__t0#d0|-|-|0", n % 3, reviewer=f"r{n % 2}") for n in range(1, 8)]
    said += [review("opus-1", 1), review("opus-1|1|scalar/1", said="note", note="n"), review("opus-1|2", said="drop")]
    said += [review(f"p{n}__t0", said="note", note="n") for n in range(12)]
    given = toy.lay("reviews", "review", "reviews.jsonl", said)
    sources = (*toy.sources(), labels, copied, given)
    pairs = PairSpec(PromptSpec("scalar/1"), 0)
    split = SplitSpec(validation=0.4, seed=3)
    one, *others = [toy.build(sources=sources, shards=n, pairs=pairs, split=split) for n in (1, 2, 7)]
    assert len(one.rows("reviews")) == 21  # the comparison opus-1|1 is no more
    assert one.excluded("reviews") == {"no_item": ["opus-1|1|scalar/1"]}
    assert one.row("reviews", item_id="opus-1")["previous_index"] == 0
    assert [made.digests for made in others] == [one.digests] * 2
    assert [made.identity["ledger"] for made in others] == [one.identity["ledger"]] * 2
    for made in others:
        for part in ("reviews", "reviewers", "answers", "reviewed_items", "audits"):
            assert made.identity["statistics"][part] == one.identity["statistics"][part]


@pytest.mark.parametrize("label_id", [f"{SET}9", "b__t0|first", "b__t0#d0|x|-|0"])
def test_a_review_finds_its_label_whatever_its_id_begins_with(scene: Toy, label_id: str) -> None:
    """Ids that somebody else gave may begin like those of another set, or with its own set's and no bar."""
    row = build(scene).row("teacher_labels", label_id=LABEL)
    own = {name: row[name] for name in load("table_label/1")["properties"]} | {"label_id": label_id}
    sources = [source for source in scene.sources() if source.kind != "teacher_labels"]
    labels = scene.lay("teacher_labels", "table", "own.jsonl", [own])
    said = [review(label_id, 2), review(f"{label_id}|1|scalar/1", said="note", note="n")]
    given = scene.lay("reviews", "review", "reviews.jsonl", said)
    for shards in (1, 2, 7, 16):
        made = scene.build(sources=(*sources, labels, given), shards=shards, pairs=PairSpec(PromptSpec("scalar/1"), 0))
        assert made.row("reviews", item_id=label_id)["previous_index"] == 0
        assert {row["chosen_index"] for row in made.rows("bt_pairs", label_id=label_id)} == {2}
        assert len(made.rows("reviews")) == 2


def test_one_id_for_labels_of_two_sets_is_refused(scene: Toy) -> None:
    """Which of them a review is about would depend on the files that they fall in."""
    row = build(scene).row("teacher_labels", label_id=LABEL)
    own = {name: row[name] for name in load("table_label/1")["properties"]} | {"label_id": "r0"}
    sources = [source for source in scene.sources() if source.kind != "teacher_labels"]
    records = [own, own | {"set_id": "b__t0#d0"}]
    for how in ("error", "exclude"):
        labels = scene.lay("teacher_labels", "table", "own.jsonl", records, on_invalid=how)
        with pytest.raises(ArmError) as caught:
            scene.build(sources=(*sources, labels))
        (issue,) = caught.value.issues
        assert str(issue) == f"own.jsonl:2 $.label_id the id 'r0' is that of a label of the set {SET!r}, too"


# -- real records ---------------------------------------------------------------------------------------------------


def _example(folder: Path, *reviews: dict[str, Any]) -> Path:
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("build"))
    lines = (EXAMPLE / "data" / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "data" / "episodes.jsonl").write_bytes(b"".join(lines[:16]))
    registry = folder / "registry.yaml"
    text = registry.read_text("utf-8").replace(", max_excluded: {selection_sft: 0.25}", "")
    more = "      actor_sft: {random_control: true}\n      reserve: {}\n"
    text = text.replace("      bt_pairs:", f"{more}      bt_pairs:")
    if reviews:
        (folder / "data" / "review.jsonl").write_text("".join(json.dumps(r) + "\n" for r in reviews), "utf-8")
        source = "      - {kind: reviews, format: review, path: data/review.jsonl}\n"
        text = text.replace("    split:", f"{source}    split:")
    registry.write_text(text, "utf-8")
    Registry.load(folder).build(workers=1)
    return folder / "build" / NAME


def _rows(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    found = {}
    for table in set(TABLES) - {"exclusions", "reviews"}:
        for path in sorted((folder / "data" / table).glob("*.parquet")):
            for row in built_rows(path, TABLES[table]):
                found[table, row[ID_FIELDS[table]]] = row
    return found


def test_on_real_records_all_other_rows_stay(tmp_path: Path) -> None:
    before = _rows(_example(tmp_path / "before"))
    pairs = [row for (table, _), row in before.items() if table == "bt_pairs"]
    pair = min(pairs, key=lambda row: row["pair_id"])
    label_id, index = pair["label_id"], pair["rejected_index"]
    after = _rows(_example(tmp_path / "after", review(label_id, index)))
    differ = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    of_label = {
        key for rows in (before, after) for key, row in rows.items()
        if row.get("label_id") == label_id and key[0] != "teacher_labels" and not key[1].endswith("random_control")
    }  # fmt: skip
    assert differ == of_label
    assert {table for table, _ in differ} == {"selection_sft", "bt_pairs", "actor_sft"}
    assert len(before) > 200
    chosen = {
        row["chosen_index"]
        for (_, _), row in after.items()
        if row.get("label_id") == label_id and "chosen_index" in row
    }
    assert chosen == {index}
