"""A store that somebody else wrote: it leads nowhere else, and proves nothing that its identities do not cover."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.hub_sync.hub import Hub
from action_reward_models.registry.provenance.respec import Inputs, spec_of
from action_reward_models.registry.sources.store import Store
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.ids import sha256_hex
from action_reward_models.schemas.manifest import manifest_of
from action_reward_models.tests.hub_sync.steps import repo, write

if TYPE_CHECKING:
    from tests.hub_sync.conftest import Publisher, Running

RECORDS = b'{"one": 1}\n'
RAW_LINKS = (
    "",
    "{commit}",
    ".{commit}",
    "{commit}/data",
    ".{commit}/data",
    ".{commit}/.cache",
    "{commit}/data/one.jsonl",
)
TABLE_LINKS = (
    *("", "{identity}", "{identity}/published", "{identity}/published/data", "{identity}/states.jsonl"),
    "{identity}/states.json",
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "build" / ".sources")


@pytest.fixture
def raw(hub: Hub, publisher: Publisher) -> tuple[str, str, dict[str, tuple[str, int]]]:
    """A repository with a raw file, its commit, and what arm.lock pins of it."""
    name = repo(publisher)
    hub.api.create_repo(name, repo_type="dataset")
    commit = write(hub, name, data__one_dot_jsonl=RECORDS)
    return name, commit, {"data/one.jsonl": (sha256_hex(RECORDS), len(RECORDS))}


@pytest.fixture(scope="module")
def table(
    running: Running, new_publisher: type[Publisher], tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, str]:
    """A published build, which tests only read: its repository and its identity."""
    publisher = new_publisher(tmp_path_factory.mktemp("table"), "store-hostile")
    identity = identity_of(publisher.build())
    publisher.push(running.client())
    return repo(publisher), identity


def identity_of(folder: Path) -> str:
    return str(manifest_of(folder)["identity_sha256"])


def test_a_table_that_was_swapped_with_its_note_proves_nothing(store: Store, hub: Hub, publisher: Publisher) -> None:
    """Whoever writes into the store writes the note, too; a proof rests on what the identity covers."""
    identity, name = identity_of(publisher.build()), repo(publisher)
    publisher.push(hub)
    for kept in (True, False):
        place = store.table(hub, name, "1.0.0", None, identity, "states", None)
        right = place.read_bytes()
        swapped = right.replace(b'"task":"', b'"task":"not ', 1)
        note = json.loads(place.with_suffix(".json").read_bytes())
        place.write_bytes(swapped)
        place.with_suffix(".json").write_text(
            json.dumps(note | {"sha256": sha256_hex(swapped), "bytes": len(swapped)}), "utf-8"
        )
        assert swapped != right
        assert store.table(None, name, "1.0.0", None, identity, "states", None).read_bytes() == swapped
        if not kept:
            shutil.rmtree(place.parent / "published")
            with pytest.raises(ArmError, match="is not here"):
                store.table(None, name, "1.0.0", None, identity, "states", None, proven=True)
        asked = None if kept else hub
        assert store.table(asked, name, "1.0.0", None, identity, "states", None, proven=True).read_bytes() == right


def test_what_is_kept_is_held_against_the_identity(store: Store, hub: Hub, publisher: Publisher) -> None:
    """Rows and manifest of another build, put where those of this one were kept."""
    identity, name = identity_of(publisher.build()), repo(publisher)
    publisher.push(hub)
    place = store.table(hub, name, "1.0.0", None, identity, "teacher_labels", None)
    right, data = place.read_bytes(), "data/teacher_labels/train-00000-of-00001.parquet"
    publisher.picks[0] = 1
    other = publisher.build()
    shutil.copyfile(other / data, place.parent / "published" / data)
    for _ in range(2):  # its rows alone, then with its manifest
        with pytest.raises(ArmError, match="is not here"):
            store.table(None, name, "1.0.0", None, identity, "teacher_labels", None, proven=True)
        shutil.copyfile(other / "manifest.json", place.parent / "published/manifest.json")
    assert store.table(hub, name, "1.0.0", None, identity, "teacher_labels", None, proven=True).read_bytes() == right


@pytest.mark.parametrize("link", RAW_LINKS, ids=range(len(RAW_LINKS)))
def test_links_lead_raw_files_nowhere_else(store: Store, hub: Hub, raw: Any, link: str) -> None:
    name, commit, pinned = raw
    outside = store.folder.parent.parent / "outside"
    outside.mkdir()
    place = store.folder / name.replace("/", "--") / link.format(commit=commit)
    place.parent.mkdir(parents=True)
    place.symlink_to(outside / "one.jsonl" if link.endswith("jsonl") else outside)
    with pytest.raises(ArmError, match="is a link"):
        store.raw(hub, name, commit, pinned)
    assert not list(outside.iterdir())


@pytest.mark.parametrize("link", TABLE_LINKS, ids=range(len(TABLE_LINKS)))
def test_links_lead_tables_nowhere_else(store: Store, hub: Hub, table: tuple[str, str], link: str) -> None:
    name, identity = table
    outside = store.folder.parent.parent / "outside"
    outside.mkdir()
    place = store.folder / name.replace("/", "--") / link.format(identity=identity)
    place.parent.mkdir(parents=True)
    place.symlink_to(outside / "file" if ".json" in link else outside)
    with pytest.raises(ArmError, match="is a link"):
        store.table(hub, name, "1.0.0", None, identity, "states", None)
    assert not list(outside.iterdir())


def test_the_store_itself_may_be_a_link(tmp_path: Path, hub: Hub, raw: Any) -> None:
    """To another disk, say: where it leads is a person's choice, what lies in it is not."""
    name, commit, pinned = raw
    (tmp_path / "disk").mkdir()
    (tmp_path / "here").symlink_to(tmp_path / "disk")
    assert Store(tmp_path / "here").raw(hub, name, commit, pinned)["data/one.jsonl"].read_bytes() == RECORDS


def test_another_version_at_a_commit_is_refused_though_its_identity_is_right(
    store: Store, hub: Hub, publisher: Publisher
) -> None:
    """As a lock says of which somebody changed commit and identity."""
    identity = identity_of(publisher.build())
    commit = publisher.push(hub).commit
    with pytest.raises(ArmError, match=r"is version 1\.0\.0, and 2\.0\.0 was asked for"):
        store.table(hub, repo(publisher), "2.0.0", commit, identity, "states", None)


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "x/" * 3000 + "y"], ids=["long", "null", "deep"])
def test_a_source_of_a_name_that_no_system_holds_is_missing(store: Store, publisher: Publisher, name: str) -> None:
    manifest = manifest_of(publisher.build())
    manifest["identity"]["sources"][2]["files"][0]["path"] = name
    with pytest.raises(ArmError) as caught:
        spec_of(manifest, Inputs(publisher.folder, store), lambda *_: None)
    (said,) = map(str, caught.value.issues)
    assert "is not at" in said or "is no path below a folder" in said
