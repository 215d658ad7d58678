"""Exports: what comes back, what cannot be expressed and why, and paths that are somebody's data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders.exporters import Exported, export
from action_reward_models.builders.exporters import first_release as release_files
from action_reward_models.schemas.built import BuiltTables
from action_reward_models.schemas.errors import ArmError, UsageError

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

Record = dict[str, Any]
BASE = ("states", "candidate_sets", "teacher_labels")


def state(toy: Toy, number: int = 0, **record: Any) -> Record:
    """A record of a state with a screenshot of its own."""
    path = f"shots/{number}.png"
    (toy.folder / "shots").mkdir(exist_ok=True)
    (toy.folder / path).write_bytes(toy.png(number))
    text = f"<|im_start|>user\n<user_request>\nFind {number}\n</user_request><|im_end|>\n<|im_start|>assistant\n"
    made = {
        "state_id": f"e{number}__t0", "episode_id": f"e{number}", "turn": 0, "prompt_text": text, "images": [path],
        "demo_action": "<action>click(1, 1)</action>", **record,
    }  # fmt: skip
    toy.states.append(made)
    return made


def made(toy: Toy, **changes: Any) -> Build:
    images = {"states": "embed"}
    return toy.build(tables=BASE, images=images, **changes)


def files(out: Path) -> dict[str, list[Record]]:
    return {path.name: [json.loads(line) for line in path.read_bytes().splitlines()] for path in out.glob("*.jsonl")}


@dataclass(frozen=True)
class Rows(BuiltTables):
    """Tables that hold these rows: real ones, changed by a test, as somebody else's build could hold them."""

    folder: Path
    identity: Record = field(default_factory=dict)
    held: dict[str, list[Record]] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)

    def has(self, table: str) -> bool:
        return table in self.held

    def rows(self, table: str, keep: Callable[[str, bytes], object] = lambda *_: None) -> Iterator[Record]:
        for row in self.held[table]:
            if row.get("screenshot") in self.blobs:
                keep(row["screenshot"], self.blobs[row["screenshot"]])
            yield row


@pytest.fixture
def rows(toy: Toy, tmp_path: Path) -> Rows:
    """The rows of two states with a candidate set and a label each."""
    for number in range(2):
        toy.label(toy.draw(state(toy, number)["state_id"], "click(1, 1)", "stop()"), 0)
    built = made(toy)
    held = {table: sorted(built.rows(table), key=lambda row: row["state_id"]) for table in BASE}
    blobs = {row["screenshot"]: toy.png(number) for number, row in enumerate(held["states"])}
    return Rows(tmp_path, {}, held=held, blobs=blobs)


def exported(rows: Rows, out: Path) -> Exported:
    found = Exported()
    out.mkdir()
    release_files.export(rows, out, found)
    return found


def reasons(found: Exported) -> dict[str, str]:
    assert sum(found.reasons.values()) == len(found.unexpressed)
    return {row.row_id: row.reason for row in found.unexpressed}


def test_odd_records_come_back(toy: Toy, tmp_path: Path) -> None:
    """No screenshot, several pictures, the newest in the record itself, picks outside the set, words in any script."""
    given = [
        state(toy, 0, images=[]),
        state(toy, 1, images=["shots/0.png", "shots/1.png"], demo_action="<action>type('żółw 🐢')</action>"),
        state(toy, 2, images=[toy.data_url(2)], turn=3),
        state(toy, 3, demo_action=None),
    ]
    set_id = toy.draw("e1__t0", "click(1, 1)", "stop()\u2028", temperature=0.25, images=["shots/1.png"])
    toy.draw("e2__t0", "nonsense", number=7, temperature=None)
    toy.label(set_id, 5, reasoning="beyond")
    toy.label("e2__t0#d7", None, reasoning="")
    out = tmp_path / "out"
    found = export("first_release", made(toy).folder, out)
    back = files(out)
    assert set(back) == {"states_full.jsonl", "candidates_merged.jsonl", "labels_drawlevel.jsonl"}
    assert by_id(back["states_full.jsonl"]) == by_id(given)
    assert by_id(back["candidates_merged.jsonl"]) == by_id(toy.sets)
    assert by_id(back["labels_drawlevel.jsonl"]) == by_id(toy.labels)
    assert {p.name for p in (out / "shots").iterdir()} == {"1.png", "3.png"}
    assert (out / "shots" / "1.png").read_bytes() == toy.png(1)
    assert found.notes == [
        "1 pictures that records name are not written: the build has only the newest screenshot of each state"
    ]
    assert not found.reasons


def by_id(records: Sequence[Any]) -> list[Any]:
    """In another order, which an export does not keep."""
    return sorted(records, key=lambda record: str(record["state_id"]))


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("../evil.png", "is refused: it must stay below the folder of the records"),
        ("/etc/evil.png", "is refused"),
        ("a/../../evil.png", "is refused"),
        ("a\\..\\evil.png", "is refused"),
        ("C:/evil.png", "is refused"),
        ("shots/nul.png", "is refused"),
        ("labels.jsonl", "is that of a file of records"),
        ("./candidates_merged.jsonl", "is that of a file of records"),
        ("STATES_FULL.jsonl/x", "is that of a file of records"),
        ("Selection_SFT/owrl_selection_train.json", "is that of a file of records"),
        ("shots/1.png/inner.png", "cannot be written"),
        ("shots", "cannot be written"),
        ("x" * 300 + ".png", "cannot be written: File name too long"),
        ("shots/1.png", "holds another state's picture"),
    ],
)
def test_paths_are_data(path: str, why: str, rows: Rows, tmp_path: Path) -> None:
    """A dataset of somebody else's may name any path: nothing is written but new files below the folder."""
    first, second = rows.held["states"]
    rows.held["states"] = [second, {**first, "source_record_json": json.dumps({"images": [path]})}]
    out = tmp_path / "box" / "out"
    out.parent.mkdir()
    found = exported(rows, out)
    assert list(reasons(found)) == ["e0__t0"]
    assert why in reasons(found)["e0__t0"]
    assert found.files == {"states_full.jsonl": 1, "candidates_merged.jsonl": 2, "labels_drawlevel.jsonl": 2}
    assert [p.name for p in out.parent.iterdir()] == ["out"]
    assert {p.relative_to(out).as_posix() for p in out.rglob("*")} == {*found.files, "shots", "shots/1.png"}
    assert found.notes == ["1 candidate sets name a state that states_full.jsonl does not hold"]


@pytest.mark.parametrize(
    ("table", "change", "why"),
    [
        ("states", {"prompt_text": None}, "has no prompt_text"),
        ("states", {"source_record_json": '{"images":[]}'}, "its record names no picture and the row has one"),
        ("states", {"screenshot": None}, "its record names pictures and the row has none"),
        ("states", {"screenshot": "sha256:0"}, "its screenshot is referred to and not embedded"),
        ("candidate_sets", {"set_id": "e0__t0#actor#d0"}, "its id is not <state_id>#d<draw>"),
        ("candidate_sets", {"draw": 1}, "its id is not <state_id>#d<draw>"),
        ("teacher_labels", {"status": "none_fit"}, "its status is none_fit, and the format knows a pick or null"),
        ("teacher_labels", {"status": "out_of_range"}, "its status is out_of_range, and the format knows a pick or"),
        ("teacher_labels", {"set_id": "e0__t0#actor#d0"}, "the id of its set is not <state_id>#d<draw>"),
    ],
)  # fmt: skip
def test_what_cannot_be_expressed_is_named(table: str, change: Record, why: str, rows: Rows, tmp_path: Path) -> None:
    rows.held[table][0] = {**rows.held[table][0], **change}
    found = exported(rows, tmp_path / "out")
    (unexpressed,) = found.unexpressed
    assert unexpressed.table == table
    assert unexpressed.reason.startswith(why)
    name = {"states": "states_full", "candidate_sets": "candidates_merged", "teacher_labels": "labels_drawlevel"}[table]
    assert found.files[f"{name}.jsonl"] == 1


def test_one_label_a_set(rows: Rows, tmp_path: Path) -> None:
    """Two teachers, or a repeat: the format has one line for a set, and the first of them stands."""
    first = rows.held["teacher_labels"][0]
    rows.held["teacher_labels"].append({**first, "label_id": f"{first['set_id']}|other|-|0", "teacher": "other"})
    found = exported(rows, tmp_path / "out")
    assert reasons(found) == {
        f"{first['set_id']}|other|-|0": "its set has another label already, and the format knows one"
    }


def test_facts_without_a_field_are_counted(rows: Rows, tmp_path: Path) -> None:
    sets, labels, states = (rows.held[table] for table in ("candidate_sets", "teacher_labels", "states"))
    sets[0] |= {"actor": "a", "sampling": {**sets[0]["sampling"], "top_p": 0.9}}
    sets[1]["candidates"][0]["finish_reason"] = "stop"
    labels[0] |= {"teacher": "t", "order": [1, 0]}
    states[0] |= {"source_record_json": '{"images":["shots/0.png"],"seen":1}', "screenshot_ops": ["rgb"]}
    found = exported(rows, tmp_path / "out")
    assert found.to_json()["left_out"] == {
        "candidate_sets.actor": 1,
        "candidate_sets.candidates.finish_reason": 1,
        "candidate_sets.sampling.top_p": 1,
        "states.screenshot as it was before screenshot_ops": 1,
        "states.source_record_json.seen": 1,
        "teacher_labels.order": 1,
        "teacher_labels.teacher": 1,
    }
    assert not found.reasons


def test_a_state_whose_record_named_no_path_gets_one(rows: Rows, tmp_path: Path) -> None:
    """States of other formats that kept the rendered prompt: the picture is called by its hash."""
    for row in rows.held["states"]:
        row["source_record_json"] = None
    exported(rows, tmp_path / "out")
    for record, row in zip(files(tmp_path / "out")["states_full.jsonl"], rows.held["states"], strict=True):
        assert record["images"] == [f"state_images/{row['screenshot_sha256']}.png"]
        assert (tmp_path / "out" / record["images"][0]).read_bytes() == rows.blobs[row["screenshot"]]


def test_an_export_replaces_nothing(toy: Toy, tmp_path: Path) -> None:
    state(toy)
    build, out = made(toy).folder, tmp_path / "there" / "out"
    out.mkdir(parents=True)
    (out / "mine").write_text("mine")
    with pytest.raises(UsageError, match="is not empty"):
        export("first_release", build, out)
    with pytest.raises(UsageError, match="is not empty"):
        export("first_release", build, out / "mine")
    assert [p.name for p in out.parent.rglob("*")] == ["out", "mine"]
    (out / "mine").unlink()
    assert export("first_release", build, out).files == {"states_full.jsonl": 1}
    with pytest.raises(UsageError, match="no format 'last_release'; there are first_release"):
        export("last_release", build, tmp_path / "other")
    with pytest.raises(ArmError, match=r"is no finished build: it holds no manifest.json"):
        export("first_release", tmp_path, tmp_path / "other")


def test_a_build_without_anything_to_say(toy: Toy, tmp_path: Path) -> None:
    toy.page("a")
    with pytest.raises(ArmError, match="has no row that first_release can express") as caught:
        export("first_release", made(toy).folder, tmp_path / "out")
    assert "states: has no prompt_text (1)" in caught.value.message
    assert not (tmp_path / "out").exists()
    without = toy.build(tables=("candidate_sets",), images={})
    with pytest.raises(UsageError, match="publishes no table states"):
        export("first_release", without.folder, tmp_path / "out")


def test_damage_is_told_and_leaves_nothing(toy: Toy, tmp_path: Path) -> None:
    state(toy)
    build = made(toy)
    (path,) = build.files("states")
    data = path.read_bytes()
    picture = data.index(b"\x89PNG")
    for damaged in (data[:-20], data[:picture] + bytes(8) + data[picture + 8 :]):  # the latter is a file like any other
        path.write_bytes(damaged)
        with pytest.raises(ArmError, match="is not the file that the manifest names") as caught:
            export("first_release", build.folder, tmp_path / "box" / "out")
        assert caught.value.where == str(path)
        assert caught.value.next_command == f"arm validate {build.folder}"
    path.unlink()
    path.symlink_to("/etc/hostname")
    with pytest.raises(ArmError, match="does not lie in the build"):
        export("first_release", build.folder, tmp_path / "box" / "out")
    assert list((tmp_path / "box").iterdir()) == []
