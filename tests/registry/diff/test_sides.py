"""Ends of a comparison: folders and revisions mixed, only the needed files downloaded, and manifests that lie."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from action_reward_models.hub_sync.hub import Hub
from action_reward_models.registry.diff import Side, compare
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.ids import file_sha256, sha256_hex
from action_reward_models.schemas.manifest import manifest_of
from action_reward_models.schemas.store import TABLES

from ...hub_sync.conftest import Publisher
from . import tiny


def test_one_flipped_label(tmp_path: Path) -> None:
    """A flip with the actions it is about, the row that follows from it, and nothing else."""
    publisher = Publisher(tmp_path, picks=[0, 1, 0, 1, 1])
    before = shutil.copytree(publisher.build(), tmp_path / "before")
    publisher.picks[3], publisher.version = 0, "1.1.0"
    with Side.folder(before) as old, Side.folder(publisher.build()) as new:
        diff = compare(old, new)
    (flip,) = diff.flips.first
    assert flip.label_id == "e3__t0#d0|toy|-|0"
    assert (flip.before.selected_index, flip.before.action) == (1, "click(7, 7)")
    assert (flip.after.selected_index, flip.after.action) == (0, "click(1, 1)")
    counted = {name: table.total for name, table in diff.tables.items() if not table.same}
    assert {name: total.changed for name, total in counted.items()} == {"teacher_labels": 1, "selection_sft": 1}
    assert not any(total.added or total.removed for total in counted.values())
    follows = diff.tables["selection_sft"].follows
    assert follows is not None
    assert (follows.changed, follows.added, follows.removed) == (1, 0, 0)
    (row,) = diff.tables["selection_sft"].changed.first
    assert [change.field for change in row.changes] == ["completion[0].content[0].text"]
    assert [change.field for change in diff.facts.identity] == ["version"]
    assert [change.field for change in diff.facts.sources] == [
        "sources[teacher_labels labels.jsonl].files[labels.jsonl]"
    ]
    assert diff.card.generated.changed
    assert not diff.card.words.changed


def test_a_revision_and_a_folder(publisher: Publisher, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that both have are not downloaded, and what was downloaded is gone afterwards."""
    publisher.build()
    repo, commit = f"lab/{publisher.name}", publisher.push(hub).commit
    publisher.picks[0], publisher.version = 1, "1.1.0"
    publisher.build()
    fetched: list[tuple[str, Path]] = []
    fetch = Hub.fetch

    def watched(self: Hub, name: str, at: str, path: str, folder: Path) -> Path:
        fetched.append((path, folder))
        return fetch(self, name, at, path, folder)

    monkeypatch.setattr(Hub, "fetch", watched)
    with Side.revision(hub, repo, commit) as old, Side.folder(publisher.built) as new:
        assert fetched[0][0] == "manifest.json"
        diff = compare(old, new)
        data = {path: folder for path, folder in fetched if path.startswith("data/")}
        assert {path.split("/")[1] for path in data} == {"teacher_labels", "selection_sft"}  # candidates are read here
        assert all((folder / path).is_file() for path, folder in data.items())
    assert not any(folder.exists() for _, folder in fetched)
    (flip,) = diff.flips.first
    assert (flip.before.action, flip.after.action) == ("click(1, 1)", "click(7, 7)")
    assert diff.before is not None
    assert (diff.before.name, diff.before.commit) == (f"{repo}@{commit[:12]}", commit)
    with Side.revision(hub, repo, commit) as old, Side.revision(hub, repo, commit) as new:
        assert compare(old, new).empty


def test_a_revision_without_a_build_is_refused(publisher: Publisher, hub: Hub) -> None:
    repo = f"lab/{publisher.name}"
    hub.api.create_repo(repo, repo_type="dataset")
    with pytest.raises(ArmError, match="no build was published there"):
        Side.revision(hub, repo, hub.resolve(repo, "main"))


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    """Two versions that differ in every table."""
    draw = random.Random(1)
    before: tiny.Tables = {name: [tiny.row(name, n, draw) for n in range(12)] for name in TABLES}
    after = {name: [*rows[1:], tiny.row(name, 50, draw)] for name, rows in before.items()}
    return tiny.write(tmp_path / "before", before, draw), tiny.write(tmp_path / "after", after, draw)


def _compare(sides: tuple[Path, Path]) -> None:
    with Side.folder(sides[0]) as old, Side.folder(sides[1]) as new:
        compare(old, new)


def _first(manifest: dict[str, Any]) -> dict[str, Any]:
    """The first file of states."""
    part: dict[str, Any] = manifest["identity"]["tables"]["states"]["splits"]["train"]
    return part


def _one_row_more(manifest: dict[str, Any]) -> None:
    part = _first(manifest)
    part["rows"] += 1
    part["files"][0]["rows"] += 1
    manifest["identity"]["tables"]["states"]["rows"] += 1


def _other_total(manifest: dict[str, Any]) -> None:
    manifest["identity"]["tables"]["states"]["rows"] += 1


def _other_split_total(manifest: dict[str, Any]) -> None:
    _first(manifest)["rows"] += 1


def _no_hash(manifest: dict[str, Any]) -> None:
    del manifest["environment"]["files"][_first(manifest)["files"][0]["path"]]


def _gone(manifest: dict[str, Any]) -> None:
    path = _first(manifest)["files"][0]["path"]
    _first(manifest)["files"][0]["path"] = "data/states/train-9.parquet"
    manifest["environment"]["files"]["data/states/train-9.parquet"] = manifest["environment"]["files"].pop(path)


@pytest.mark.parametrize(
    ("lie", "message"),
    [
        (_one_row_more, "rows, the manifest says"),
        (_other_total, "counts the rows of states in two ways"),
        (_other_split_total, "counts the rows of states train in two ways"),
        (_no_hash, "has no hash in the manifest"),
        (_gone, "is missing"),
    ],
)
def test_a_manifest_that_lies(sides: tuple[Path, Path], lie: Callable[[Any], None], message: str) -> None:
    tiny.edit(sides[1], lie)
    with pytest.raises(ArmError, match=message) as caught:
        _compare(sides)
    assert f"arm verify {sides[1]}" in (caught.value.next_command or "")


def _rewrite(folder: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Let ``change`` alter the first file of states, and the manifest agree with its bytes."""

    def agree(manifest: dict[str, Any]) -> None:
        entry = _first(manifest)["files"][0]
        path = folder / entry["path"]
        table = change(pq.read_table(path))
        pq.write_table(table, path)
        manifest["environment"]["files"][entry["path"]] = {"sha256": file_sha256(path), "bytes": path.stat().st_size}

    tiny.edit(folder, agree)


def _same_ids(table: pa.Table) -> pa.Table:
    ids = table.column("state_id").to_pylist()
    return table.set_column(0, "state_id", pa.array([ids[0], ids[0], *ids[2:]]))


def _null_id(table: pa.Table) -> pa.Table:
    return table.set_column(0, "state_id", pa.array([None, *table.column("state_id").to_pylist()[1:]], pa.string()))


def _other_type(table: pa.Table) -> pa.Table:
    return table.set_column(table.schema.get_field_index("turn"), "turn", pa.array([b"x"] * len(table)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_same_ids, "stands for no row or for several"),
        (_null_id, "stands for no row or for several"),
        (_other_type, "cannot be read"),
        (lambda table: table.drop_columns(["turn"]), "cannot be read"),
    ],
)
def test_a_file_that_is_no_table_of_its_schema(
    sides: tuple[Path, Path], change: Callable[[pa.Table], pa.Table], message: str
) -> None:
    _rewrite(sides[1], change)
    with pytest.raises(ArmError, match=message) as caught:
        _compare(sides)
    assert "arm verify" in (caught.value.next_command or "")


def test_a_file_that_is_damaged(sides: tuple[Path, Path]) -> None:
    path = next((sides[0] / "data" / "states").glob("train-*"))
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ArmError, match="is not the file that the manifest names"):
        _compare(sides)


def test_digests_that_contradict_the_rows(sides: tuple[Path, Path], tmp_path: Path) -> None:
    """Equal rows under other digests, and other rows under equal ones."""
    copy = shutil.copytree(sides[0], tmp_path / "copy")

    def others(manifest: dict[str, Any]) -> None:
        table = _states(manifest)
        table["row_digest"] = "0" * 64
        for split in table["splits"].values():
            split["files"][0]["row_digest"] = "0" * 64

    tiny.edit(copy, others)
    with pytest.raises(ArmError, match="the row digests of states differ, and its rows do not"):
        _compare((sides[0], copy))
    digest: list[str] = []
    tiny.edit(sides[0], lambda m: digest.append(_states(m)["row_digest"]))

    tiny.edit(sides[1], lambda m: _states(m).update(row_digest=digest[0]))
    with pytest.raises(ArmError, match="are equal, and its rows are not"):
        _compare(sides)


def _claims(name: str) -> tuple[str, str]:
    return f"data/{name}/train-00000-of-00001.parquet", f"data/{name}/train-00000-of-00002.parquet"


@pytest.mark.parametrize("resharded", [False, True])
def test_rows_of_other_bytes_are_read_whatever_digests_are_claimed(tmp_path: Path, resharded: bool) -> None:
    """Another label in every row, below the digests of the version before, with hashes of the files that are right."""
    publisher = Publisher(tmp_path, picks=[0, 1, 0, 1, 1])
    before = shutil.copytree(publisher.build(), tmp_path / "before")
    publisher.picks = [1, 0, 1, 0, 0]
    after = publisher.build()
    honest = manifest_of(before)["identity"]["tables"]
    old, new = _claims("teacher_labels")

    def lie(manifest: dict[str, Any]) -> None:
        for name in ("teacher_labels", "selection_sft"):
            manifest["identity"]["tables"][name] = honest[name]
        if resharded:
            listed = manifest["environment"]["files"]
            listed[new] = listed.pop(old)
            manifest["identity"]["tables"]["teacher_labels"]["splits"]["train"]["files"][0]["path"] = new
            (after / old).rename(after / new)

    tiny.edit(after, lie)
    with pytest.raises(ArmError, match="the row digests of teacher_labels are equal, and its rows are not"):
        _compare((before, after))
    with Side.folder(before) as one, Side.folder(after) as other:  # whoever saw that they are equal is believed
        seen = {file for name in honest for file in _claims(name)}
        if not resharded:
            assert not compare(one, other, same=seen).flips.total


def test_what_the_hub_lists_is_held_against_the_manifest_without_a_download(publisher: Publisher, hub: Hub) -> None:
    publisher.build()
    commit, name = publisher.push(hub).commit, f"lab/{publisher.name}"
    data = _claims("teacher_labels")[0]
    other = pq.read_table(publisher.built / data).slice(1)
    pq.write_table(other, publisher.folder / "other.parquet")
    swapped = hub.api.upload_file(
        path_or_fileobj=publisher.folder / "other.parquet", path_in_repo=data, repo_id=name, repo_type="dataset"
    ).oid
    gone = hub.api.delete_file(data, name, repo_type="dataset").oid
    for at, message in ((swapped, "is not the file that the manifest names"), (gone, "is missing")):
        named = pytest.raises(ArmError, match=f"{data} {message}")
        with named, Side.revision(hub, name, commit) as old, Side.revision(hub, name, at) as new:
            compare(old, new)


def _states(manifest: dict[str, Any]) -> dict[str, Any]:
    table: dict[str, Any] = manifest["identity"]["tables"]["states"]
    return table


def test_tables_that_come_go_or_have_another_schema(tmp_path: Path) -> None:
    draw = random.Random(3)
    rows = {name: [tiny.row(name, n, draw) for n in range(5)] for name in TABLES}
    before = tiny.write(tmp_path / "before", {k: v for k, v in rows.items() if k != "bt_pairs"}, draw)
    after = tiny.write(tmp_path / "after", {k: v for k, v in rows.items() if k != "states"}, draw)
    tiny.edit(after, lambda m: m["identity"]["tables"]["candidate_sets"].update(schema="candidate_set/2"))
    with Side.folder(before) as old, Side.folder(after) as new:
        diff = compare(old, new)
    counted = {name: (t.total.added, t.total.removed, t.compared) for name, t in diff.tables.items() if not t.same}
    assert counted == {"states": (0, 5, False), "bt_pairs": (5, 0, False), "candidate_sets": (5, 5, False)}
    assert diff.tables["candidate_sets"].schema == ("candidate_set/1", "candidate_set/2")
    assert diff.tables["states"].schema == ("state/1", None)


def _picture(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Let ``change`` alter the first screenshot of states as it is stored, and the manifest agree with the file."""

    def altered(table: pa.Table) -> pa.Table:
        rows = table.column("screenshot").to_pylist()
        change(next(picture for picture in rows if picture))
        index = table.schema.get_field_index("screenshot")
        return table.set_column(index, table.schema.field(index), pa.array(rows, table.schema.field(index).type))

    _rewrite(folder, altered)


@pytest.fixture
def pictured(tmp_path: Path) -> tuple[Path, Path]:
    draw = random.Random(4)
    rows = [{**tiny.row("states", n, draw), "split": "train"} for n in range(6)]
    rows[0]["screenshot"] = sorted(tiny.BLOBS)[0]
    before = tiny.write(tmp_path / "before", {"states": rows}, draw)
    after = tiny.write(tmp_path / "after", {"states": rows}, draw)

    def other_digests(manifest: dict[str, Any]) -> None:
        _states(manifest)["row_digest"] = "0" * 64
        _first(manifest)["files"][0]["row_digest"] = "0" * 64

    tiny.edit(after, other_digests)
    return before, after


def test_pictures_count_by_their_bytes(pictured: tuple[Path, Path]) -> None:
    """The name beside a picture is nobody's proof: other bytes under one name are another picture."""
    _picture(pictured[1], lambda picture: picture.update(bytes=b"other"))
    with Side.folder(pictured[0]) as old, Side.folder(pictured[1]) as new:
        diff = compare(old, new)
    (row,) = diff.tables["states"].changed.first
    (change,) = row.changes
    assert (row.id, change.field) == ("states-0", "screenshot")
    assert change.after == f"sha256:{sha256_hex(b'other')}"


def test_the_names_of_pictures_do_not_count(pictured: tuple[Path, Path]) -> None:
    _picture(pictured[1], lambda picture: picture.update(path="renamed.png"))
    with pytest.raises(ArmError, match="digests of states differ, and its rows do not"):
        _compare(pictured)


def test_a_comparison_imports_neither_pandas_nor_the_client_of_the_hub(pictured: tuple[Path, Path]) -> None:
    """They would take as much memory as the comparison."""
    _picture(pictured[1], lambda picture: picture.update(bytes=b"other"))
    code = (
        "import sys; from action_reward_models.cli import arm\n"
        f"try: arm(['diff', {str(pictured[0])!r}, {str(pictured[1])!r}])\n"
        "except SystemExit: pass\n"
        "print({'pandas', 'datasets', 'huggingface_hub'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "screenshot: sha256:" in done.stdout
    assert done.stdout.endswith("set()\n")
