"""`verify` finds what is wrong with a revision or a folder, and finds nothing in a healthy one; `pull` gets it back."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from action_reward_models.hub_sync.hub import Hub
from action_reward_models.hub_sync.pull import pull
from action_reward_models.hub_sync.verify import Verified, verify_folder, verify_revision
from action_reward_models.registry import check_build
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.ids import file_sha256


def data(folder: Path, table: str) -> Path:
    (path,) = folder.glob(f"data/{table}/*.parquet")
    return path


def flip_a_bit(folder: Path) -> None:
    path = data(folder, "states")
    changed = bytearray(path.read_bytes())
    changed[len(changed) // 2] ^= 1
    path.write_bytes(changed)


def swap_a_label(folder: Path) -> None:
    """The pick of one row is another, and the file's hash in the manifest is made to fit."""
    path = data(folder, "teacher_labels")
    table = pq.read_table(path)
    column = table.schema.get_field_index("selected_index")
    values = [1 - table["selected_index"][0].as_py(), *table["selected_index"].to_pylist()[1:]]
    pq.write_table(table.set_column(column, table.schema.field(column), pa.array(values, pa.int64())), path)
    manifest = orjson.loads((folder / "manifest.json").read_bytes())
    name = path.relative_to(folder).as_posix()
    manifest["environment"]["files"][name] = {"sha256": file_sha256(path), "bytes": path.stat().st_size}
    (folder / "manifest.json").write_bytes(orjson.dumps(manifest))


def stale_number(folder: Path) -> None:
    card = folder / "README.md"
    head, marker, body = card.read_text().partition("action-reward-models:begin")
    assert "3" in body
    card.write_text(head + marker + body.replace("3", "4", 1))


def missing_file(folder: Path) -> None:
    data(folder, "candidate_sets").unlink()


def wrong_split_size(folder: Path) -> None:
    manifest = orjson.loads((folder / "manifest.json").read_bytes())
    manifest["identity"]["tables"]["states"]["splits"]["train"]["rows"] += 1
    (folder / "manifest.json").write_bytes(orjson.dumps(manifest))


def stale_split_size_in_the_card(folder: Path) -> None:
    card = folder / "README.md"
    text = card.read_text()
    assert "num_examples: 3" in text
    card.write_text(text.replace("num_examples: 3", "num_examples: 30", 1))


def a_file_more(folder: Path) -> None:
    shutil.copy(data(folder, "states"), data(folder, "states").with_name("train-00001-of-00002.parquet"))


def another_load_py(folder: Path) -> None:
    """With a manifest whose hash of it fits."""
    (folder / "load.py").write_text("import os\nos.system('true')\n")
    manifest = orjson.loads((folder / "manifest.json").read_bytes())
    size = (folder / "load.py").stat().st_size
    manifest["environment"]["files"]["load.py"] = {"sha256": file_sha256(folder / "load.py"), "bytes": size}
    (folder / "manifest.json").write_bytes(orjson.dumps(manifest))


def a_card_that_leads_elsewhere(folder: Path) -> None:
    card = folder / "README.md"
    card.write_text(card.read_text().replace("path: data/states/train-*.parquet", "path: /etc/hosts", 1))


FAULTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "one flipped bit": (flip_a_bit, "has sha256"),
    "one swapped label": (swap_a_label, "holds other rows"),
    "one stale card number": (stale_number, "where the manifest gives"),
    "one missing file": (missing_file, "is missing"),
    "one wrong split size": (wrong_split_size, "its files have 3"),
    "a wrong size in the card": (stale_split_size_in_the_card, "dataset_info"),
    "another load.py": (another_load_py, "do not run it before you know why"),
    "a card that leads elsewhere": (a_card_that_leads_elsewhere, "its configs is not that of the manifest"),
    "a file more": (a_file_more, "is not in the manifest"),
}


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A built directory that each test copies."""
    publisher = request.getfixturevalue("new_publisher")(tmp_path_factory.mktemp("healthy"), "verified")
    built: Path = publisher.build()
    return built


def upload(hub: Hub, folder: Path, name: str) -> str:
    """Commit a folder as it is, as a person without this project would."""
    from huggingface_hub import CommitOperationAdd

    hub.api.create_repo(name, repo_type="dataset")
    operations = [
        CommitOperationAdd(p.relative_to(folder).as_posix(), p) for p in sorted(folder.rglob("*")) if p.is_file()
    ]
    return hub.api.create_commit(name, operations, commit_message="as it is", repo_type="dataset").oid


def messages(found: Verified) -> str:
    return "\n".join(map(str, found.issues))


def test_a_healthy_revision_and_folder_pass(healthy: Path, hub: Hub) -> None:
    commit = upload(hub, healthy, "lab/healthy")
    found = verify_revision(hub, "lab/healthy", "main", check_build)
    assert (messages(found), found.commit) == ("", commit)
    assert found.loaded["states"] == {"train": 3}
    assert verify_folder(healthy, check_build).issues == ()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_folder_is_found(healthy: Path, tmp_path: Path, fault: str) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(healthy, folder)
    harm, message = FAULTS[fault]
    harm(folder)
    assert message in messages(verify_folder(folder, check_build))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_revision_is_found(healthy: Path, tmp_path: Path, hub: Hub, fault: str) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(healthy, folder)
    harm, message = FAULTS[fault]
    harm(folder)
    name = f"lab/fault-{fault.replace(' ', '-')}"
    upload(hub, folder, name)
    assert message in messages(verify_revision(hub, name, "main", check_build))


def test_a_repository_without_a_build_and_a_revision_that_is_not_there(healthy: Path, hub: Hub) -> None:
    hub.api.create_repo("lab/empty", repo_type="dataset")
    with pytest.raises(ArmError, match="no build was published"):
        verify_revision(hub, "lab/empty", "main", check_build)
    with pytest.raises(ArmError, match=r"no revision 'v9\.9\.9'"):
        verify_revision(hub, "lab/empty", "v9.9.9", check_build)
    with pytest.raises(ArmError, match="lab/nothing: there is no such dataset"):
        verify_revision(hub, "lab/nothing", "main", check_build)


def test_a_tag_on_another_version_is_found(healthy: Path, hub: Hub) -> None:
    commit = upload(hub, healthy, "lab/mistagged")
    hub.api.create_tag("lab/mistagged", tag="v9.9.9", revision=commit, repo_type="dataset")
    assert "is 1.0.0, and the tag is v9.9.9" in messages(verify_revision(hub, "lab/mistagged", "v9.9.9", check_build))


def test_a_file_that_arrives_damaged_is_one_issue_among_others(
    healthy: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(hub, healthy, "lab/damaged")
    fetch = Hub.fetch

    def damaged(self: Hub, repo: str, commit: str, path: str, folder: Path) -> Path:
        got = fetch(self, repo, commit, path, folder)
        if path.startswith("data/states/"):
            got.write_bytes(got.read_bytes()[::-1])
        return got

    monkeypatch.setattr(Hub, "fetch", damaged)
    found = messages(verify_revision(hub, "lab/damaged", "main", check_build))
    assert "arrives with other bytes than the Hub lists" in found


def test_pull_brings_the_build_back(healthy: Path, tmp_path: Path, hub: Hub) -> None:
    commit = upload(hub, healthy, "lab/pulled")
    out = tmp_path / "out"
    assert pull(hub, "lab/pulled", "main", out) == commit
    here, there = (
        {p.relative_to(f).as_posix(): p.read_bytes() for p in f.rglob("*") if p.is_file()} for f in (healthy, out)
    )
    assert here == there
    assert pull(hub, "lab/pulled", commit, out) == commit, "a second pull has nothing to do"
    (out / "README.md").write_text("mine")
    with pytest.raises(ArmError, match="is not empty"):
        pull(hub, "lab/pulled", "main", out)
    assert (out / "README.md").read_text() == "mine"


def test_pull_continues_where_it_was_killed(healthy: Path, tmp_path: Path, hub: Hub) -> None:
    commit = upload(hub, healthy, "lab/continued")
    left = tmp_path / f".out.pull-{commit[:12]}"
    shutil.copytree(healthy, left)
    missing_file(left)
    flip_a_bit(left)
    pull(hub, "lab/continued", "main", tmp_path / "out")
    assert not check_build(tmp_path / "out")
    assert not left.exists()


def test_pull_refuses_what_the_manifest_does_not_name(healthy: Path, tmp_path: Path, hub: Hub) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(healthy, folder)
    flip_a_bit(folder)
    upload(hub, folder, "lab/flipped")
    with pytest.raises(ArmError, match="is not the file that the manifest names"):
        pull(hub, "lab/flipped", "main", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_lies_in_the_cache_of_a_person_is_not_what_the_hub_has(healthy: Path, tmp_path: Path, hub: Hub) -> None:
    """A damaged Hub fails although the cache is right, and a damaged cache is not the Hub's fault."""
    from huggingface_hub import hf_hub_download

    commit = upload(hub, healthy, "lab/cached")
    names = [path.relative_to(healthy).as_posix() for path in healthy.rglob("*") if path.is_file()]
    for name in names:
        cached = Path(
            hf_hub_download(
                "lab/cached", name, repo_type="dataset", revision=commit, endpoint=hub.endpoint, token=False
            )
        ).resolve()
        data = cached.read_bytes()
        cached.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    assert verify_revision(hub, "lab/cached", "main", check_build).issues == ()
    pull(hub, "lab/cached", "main", tmp_path / "out")
    assert not check_build(tmp_path / "out")
    assert hub.read("lab/cached", hub.files("lab/cached", commit)["README.md"], commit).decode().startswith("---")


def test_a_person_may_keep_other_files_below_data(healthy: Path, hub: Hub) -> None:
    from huggingface_hub import CommitOperationAdd

    upload(hub, healthy, "lab/notes")
    notes = [CommitOperationAdd("data/notes.json", b"{}")]
    hub.api.create_commit("lab/notes", notes, commit_message="mine", repo_type="dataset")
    assert verify_revision(hub, "lab/notes", "main", check_build).issues == ()
    stray = [CommitOperationAdd("data/states/train-9.parquet", b"x")]
    hub.api.create_commit("lab/notes", stray, commit_message="mine", repo_type="dataset")
    assert "and loaders read it" in messages(verify_revision(hub, "lab/notes", "main", check_build))


def test_pull_writes_to_a_new_folder_only(healthy: Path, tmp_path: Path, hub: Hub) -> None:
    upload(hub, healthy, "lab/where")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("file", "link", "dangling"):
        with pytest.raises(ArmError, match="is no folder"):
            pull(hub, "lab/where", "main", tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling", "empty", "file", "link"]
    pull(hub, "lab/where", "main", tmp_path / "empty")
    assert not check_build(tmp_path / "empty")
