"""A build as a whole: the old one stays until the new one is complete, and nothing else decides the rows."""

from __future__ import annotations

import hashlib
import json
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders import reader, runner
from action_reward_models.builders.bucket import build_bucket
from action_reward_models.builders.spec import BuildSpec, GateSpec
from action_reward_models.schemas.built import built_rows
from action_reward_models.schemas.errors import ArmError

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy


@pytest.fixture
def some(toy: Toy) -> Toy:
    for number in range(6):
        toy.scene(f"e{number}", picture=number, task=f"task {number}")
    return toy


@pytest.fixture
def old(some: Toy) -> Build:
    return some.build(some.folder / "out")


def _tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def _visible(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.suffix != ".jsonl"}


def _build(spec: BuildSpec, out: Path, **more: Any) -> runner.Built:
    return runner.build(spec, out, **{"card": lambda manifest: "", "workers": 1, **more})


# -- failing -----------------------------------------------------------------------------------------------------------


def test_bad_sources_leave_the_old_build(some: Toy, old: Build) -> None:
    before = _tree(old.folder)
    some.labels.append(b"{}\n")
    with pytest.raises(ArmError, match="nothing was built"):
        some.build(old.folder)
    assert _tree(old.folder) == before
    assert _visible(some.folder) == {"out"}  # no temporary folder is left


def test_a_bad_picture_leaves_the_old_build(some: Toy, old: Build) -> None:
    """Found late, when other rows of the bucket are made already."""
    before = _tree(old.folder)
    some.page("bad", picture=some.png(1)[:-20])
    with pytest.raises(ArmError, match="nothing was built"):
        some.build(old.folder)
    assert _tree(old.folder) == before
    assert _visible(some.folder) == {"out"}


@pytest.mark.parametrize("error", [KeyError("card"), KeyboardInterrupt()])
def test_a_failing_card_leaves_the_old_build(some: Toy, old: Build, error: BaseException) -> None:
    def card(manifest: dict[str, Any]) -> str:
        raise error

    before = _tree(old.folder)
    some.scene("new", picture=9)
    with pytest.raises(type(error)):
        _build(some.spec(), old.folder, card=card)
    assert _tree(old.folder) == before
    kept = {".out-work"} if isinstance(error, KeyboardInterrupt) else set()  # finished buckets, for the next build
    assert _visible(some.folder) == {"out"} | kept


def test_a_failed_move_puts_the_old_build_back(some: Toy, old: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def refusing(self: Path, target: Path) -> Path:
        if self.name == "made":
            raise OSError("no")
        return rename(self, target)

    before = _tree(old.folder)
    monkeypatch.setattr(Path, "rename", refusing)
    with pytest.raises(OSError, match="no"):
        some.build(old.folder)
    assert _tree(old.folder) == before
    assert _visible(some.folder) == {"out"}


def test_a_new_build_replaces_the_old_one_whole(some: Toy, old: Build) -> None:
    assert len({path.name for path in (old.folder / "data").iterdir()}) > 1
    new = some.build(old.folder, tables=("states",))
    assert {path.name for path in (new.folder / "data").iterdir()} == {"states"}
    assert reader.check(new.folder) == []


# -- killed ------------------------------------------------------------------------------------------------------------

_KILLED = """
import os, pickle, signal, sys
from pathlib import Path
from action_reward_models.builders import runner
spec, out, place = pickle.loads(Path(sys.argv[1]).read_bytes()), Path(sys.argv[2]), sys.argv[3]
die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
rename = Path.rename
Path.rename = lambda self, to: die() if place == self.name else rename(self, to)
runner.build(spec, out, card=die if place == "card" else lambda manifest: "", workers=1,
             progress=die if place == "bucket" else lambda *_: None)
"""


def _kill(toy: Toy, out: Path, place: str) -> None:
    spec = toy.folder / "spec.pickle"
    spec.write_bytes(pickle.dumps(toy.spec()))
    ended = subprocess.run([sys.executable, "-c", _KILLED, str(spec), str(out), place], check=False)
    assert ended.returncode == -9
    spec.unlink()


@pytest.mark.parametrize("place", ["bucket", "card"])
def test_a_killed_build_leaves_the_old_one(some: Toy, old: Build, place: str) -> None:
    before = _tree(old.folder)
    some.scene("new", picture=9)
    _kill(some, old.folder, place)
    assert _tree(old.folder) == before
    assert len(some.build(old.folder).rows("states")) == 7
    assert _visible(some.folder) == {"out"}  # what the killed one left is gone too


def test_a_first_build_that_is_killed_leaves_no_half_folder(some: Toy) -> None:
    out = some.folder / "out"
    _kill(some, out, "card")
    assert not out.exists()


def test_a_build_killed_between_its_two_moves_loses_nothing(some: Toy, old: Build) -> None:
    before = _tree(old.folder)
    some.scene("new", picture=9)
    _kill(some, old.folder, "made")
    some.labels.append(b"{}\n")
    with pytest.raises(ArmError, match="nothing was built"):  # the next build, even a failing one, puts it back
        some.build(old.folder)
    assert _tree(old.folder) == before


# -- folders -----------------------------------------------------------------------------------------------------------


def test_a_folder_that_no_build_made_is_never_replaced(some: Toy) -> None:
    out = some.folder / "mine"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    with pytest.raises(ArmError, match="is not a build") as caught:
        some.build(out)
    assert caught.value.where == str(out)
    assert (out / "thesis.txt").read_text() == "years of work"
    with pytest.raises(ArmError, match="is not a build"):
        some.build(out / "thesis.txt")


@pytest.mark.parametrize("name", ["notes.txt", "data/notes.txt", "prompts/mine/keep.json"])
def test_a_file_that_no_build_made_is_never_deleted(name: str, some: Toy, old: Build) -> None:
    (old.folder / name).parent.mkdir(parents=True, exist_ok=True)
    (old.folder / name).write_text("mine")
    with pytest.raises(ArmError, match=f"holds files that no build made and that would be lost: {name}"):
        some.build(old.folder)
    assert (old.folder / name).read_text() == "mine"


@pytest.mark.parametrize("manifest", ["{", '{"identity": {}}', '{"name": "app", "manifest_version": 3}'])
def test_another_kind_of_manifest_is_no_build(manifest: str, some: Toy) -> None:
    """Browser extensions and web applications have a manifest.json, too."""
    out = some.folder / "app"
    (out / "data").mkdir(parents=True)
    (out / "manifest.json").write_text(manifest)
    (out / "data" / "keep.csv").write_text("1,2")
    with pytest.raises(ArmError, match="is not a build"):
        some.build(out)
    assert (out / "data" / "keep.csv").read_text() == "1,2"


def test_an_empty_folder_may_be_filled(some: Toy) -> None:
    (some.folder / "deep" / "out").mkdir(parents=True)
    assert reader.check(some.build(some.folder / "deep" / "out").folder) == []
    assert reader.check(some.build(some.folder / "deeper" / "still" / "out").folder) == []


# -- sources that change -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["append", "remove", "cut"])
def test_a_source_that_changes_during_the_build_is_noticed(
    some: Toy, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """The digest of a source belongs to the bytes the rows were made from."""
    spec, path = some.spec(), some.folder / "labels.jsonl"

    def changing(job: Any) -> Any:
        if change == "cut":
            path.write_bytes(path.read_bytes()[:-40])
            return build_bucket(job)
        result = build_bucket(job)
        if change == "remove":
            path.unlink()
        else:
            path.write_bytes(path.read_bytes() + b"{}\n")
        return result

    monkeypatch.setattr(runner, "build_bucket", changing)
    with pytest.raises(ArmError, match="the file changed while it was read; nothing was built") as caught:
        _build(spec, some.folder / "out")
    assert caught.value.where == "labels.jsonl"
    assert not (some.folder / "out").exists()


# -- gates -------------------------------------------------------------------------------------------------------------


def test_too_many_exclusions_are_refused_with_the_line_that_allows_them(toy: Toy) -> None:
    for number in range(3):
        toy.scene(f"e{number}", picture=number, pick=None if number else 0)
    gates = GateSpec(max_excluded={"selection_sft": 0.25})
    with pytest.raises(ArmError) as caught:
        toy.build(gates=gates)
    assert caught.value.message == ("selection_sft: 66.7% of 3 labels are excluded, more than 25.0% (null_in_source 2)")
    assert (caught.value.next_command or "").startswith("gates: {max_excluded: {selection_sft: 0.67}}")
    toy.build(gates=GateSpec(max_excluded={"selection_sft": 0.67, "bt_pairs": 0.0}))


def test_a_gate_over_nothing_holds(toy: Toy) -> None:
    toy.page("a")
    toy.build(gates=GateSpec(max_excluded={"selection_sft": 0.0, "bt_pairs": 0.0}))


# -- executors and shards ----------------------------------------------------------------------------------------------


def test_the_executor_decides_nothing(some: Toy) -> None:
    alone = some.build(shards=4, validation=0.5)
    with ThreadPoolExecutor(3) as threads:
        build = some.build(shards=4, validation=0.5, executor=threads)
    assert build.manifest["identity_sha256"] == alone.manifest["identity_sha256"]
    assert {path: data for path, data in _tree(build.folder).items() if path.startswith("data/")} == {
        path: data for path, data in _tree(alone.folder).items() if path.startswith("data/")
    }


def test_shards_cut_files_and_change_no_row(some: Toy) -> None:
    one, many = some.build(shards=1), some.build(shards=8)
    assert one.digests == many.digests
    assert len(one.files("states")) == 1
    assert 1 < len(many.files("states")) <= 6  # a shard without rows is no file
    assert all(path.name.endswith("-of-00008.parquet") for path in many.files("states"))
    assert many.identity["parameters"]["shards"] == 8


def test_equal_screenshots_lie_in_one_file(toy: Toy) -> None:
    for number in range(24):
        toy.scene(f"e{number}", picture=number % 6, task=f"task {number}")
    build = toy.build(shards=8)
    for table, column in (("states", "screenshot"), ("selection_sft", "images"), ("bt_pairs", "images")):
        where: dict[str, set[str]] = {}
        for path in build.files(table):
            for row in built_rows(path, build.identity["tables"][table]["schema"]):
                shown = row[column] if isinstance(row[column], str) else row[column][0]
                where.setdefault(shown, set()).add(path.name)
        assert len(where) == 6
        assert all(len(files) == 1 for files in where.values())


# -- little to build ---------------------------------------------------------------------------------------------------


def test_states_alone(toy: Toy) -> None:
    toy.page("a")
    build = toy.build()
    tables = {name: (table["rows"], list(table["splits"])) for name, table in build.identity["tables"].items()}
    assert tables == {
        "states": (1, ["train"]), "candidate_sets": (0, []), "teacher_labels": (0, []),
        "selection_sft": (0, []), "bt_pairs": (0, []), "exclusions": (1, ["train"]),
    }  # fmt: skip
    assert build.excluded("coverage") == {"no_candidate_set": ["a__t0"]}
    assert reader.check(build.folder) == []


def test_sets_without_labels(toy: Toy) -> None:
    toy.draw(toy.page("a"), "click(1, 1)", "stop()")
    assert toy.build().excluded("coverage") == {"no_label": ["a__t0#d0"]}


def test_an_empty_file_is_a_source_of_nothing(some: Toy) -> None:
    spec = some.spec()
    (some.folder / "labels.jsonl").write_bytes(b"")
    built = _build(spec, some.folder / "out")
    assert built.manifest["identity"]["sources"][-1]["files"][0]["records"] == 0
    assert reader.check(built.folder) == []


def test_everything_excluded_is_a_build(some: Toy) -> None:
    some.episodes = [b"x\n"]
    some.source = {"on_invalid": "exclude"}
    build = some.build()
    assert {table["rows"] for name, table in build.identity["tables"].items() if name != "exclusions"} == {0}
    assert reader.check(build.folder) == []
    assert build.balanced()


@pytest.mark.parametrize(("share", "split"), [(0.0, "train"), (1.0, "validation")])
def test_an_empty_split_is_not_written(some: Toy, share: float, split: str) -> None:
    build = some.build(validation=share)
    for name in ("states", "candidate_sets", "teacher_labels", "selection_sft", "bt_pairs"):
        assert list(build.identity["tables"][name]["splits"]) == [split]
        assert {path.name.partition("-")[0] for path in build.files(name)} == {split}


def test_only_declared_tables_are_written(some: Toy) -> None:
    build = some.build(tables=("selection_sft",), pairs=None, images={"selection_sft": "embed"})
    assert {path.name for path in (build.folder / "data").iterdir()} == {"selection_sft"}
    assert {path.name for path in (build.folder / "schemas").iterdir()} == {"selection_sft-1.json", "exclusion-1.json"}
    assert [prompt["kind"] for prompt in build.identity["prompts"]] == ["selection"]


# -- the manifest ------------------------------------------------------------------------------------------------------


def test_the_manifest_names_sources_by_digest_and_no_path_of_this_machine(some: Toy) -> None:
    build = some.build()
    sources = {file["path"]: file for source in build.identity["sources"] for file in source["files"]}
    assert set(sources) == {"episodes.jsonl", "candidates.jsonl", "labels.jsonl"}
    for name, file in sources.items():
        data = (some.folder / name).read_bytes()
        assert file == {"path": name, "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data), "records": 6}
    text = (build.folder / "manifest.json").read_text("utf-8")
    assert str(some.folder) not in text
    assert json.loads(text) == build.manifest


def test_the_environment_decides_nothing(some: Toy) -> None:
    one, two = some.build(), some.build()
    assert one.manifest["identity_sha256"] == two.manifest["identity_sha256"]
    assert one.identity == two.identity


def test_the_readers_of_a_build_may_read_it(some: Toy) -> None:
    assert some.build().folder.stat().st_mode & 0o777 == 0o755
