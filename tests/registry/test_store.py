"""What sources rest on: fetched by commit, checked at every use, and there when the Hub is not."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders import runner
from action_reward_models.builders.importers import IMPORTERS
from action_reward_models.builders.spec import BASE_TABLES
from action_reward_models.hub_sync.hub import Hub
from action_reward_models.registry import Registry
from action_reward_models.registry.sources.store import Store
from action_reward_models.schemas import jsonl
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.ids import canonical_json, sha256_hex
from action_reward_models.schemas.manifest import manifest_of
from action_reward_models.schemas.validate import for_schema
from action_reward_models.tests.hub_sync.conftest import start
from action_reward_models.tests.hub_sync.steps import repo, write

if TYPE_CHECKING:
    from tests.hub_sync.conftest import Publisher

RECORDS = b'{"one": 1}\n'
MORE = b'{"two": 2}\n' * 3


def pin(*contents: bytes) -> list[tuple[str, int]]:
    return [(sha256_hex(data), len(data)) for data in contents]


class Counted:
    """A Hub that counts what it is asked for."""

    def __init__(self, hub: Hub) -> None:
        self.hub, self.asked = hub, [""]

    def __getattr__(self, name: str) -> Any:
        if callable(getattr(self.hub, name)):
            self.asked.append(name)
        return getattr(self.hub, name)


def counted(hub: Hub) -> Any:
    return Counted(hub)


def below(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "build" / ".sources")


@pytest.fixture
def files(hub: Hub, publisher: Publisher) -> tuple[str, str, dict[str, tuple[str, int]]]:
    """A repository with two raw files, its commit, and what arm.lock pins of them."""
    name = repo(publisher)
    hub.api.create_repo(name, repo_type="dataset")
    commit = write(hub, name, data__one_dot_jsonl=RECORDS, data__two_dot_jsonl=MORE)
    return name, commit, dict(zip(("data/one.jsonl", "data/two.jsonl"), pin(RECORDS, MORE), strict=True))


# -- raw files ----------------------------------------------------------------------------------------------------


def test_a_file_is_fetched_once_and_then_there(store: Store, hub: Hub, files: Any) -> None:
    name, commit, pinned = files
    seen: list[tuple[int, int]] = []
    found = store.raw(hub, name, commit, pinned, lambda _, done, total: seen.append((done, total)))
    assert [path.read_bytes() for path in found.values()] == [RECORDS, MORE]
    assert seen == [(len(RECORDS), len(RECORDS + MORE)), (len(RECORDS + MORE),) * 2]
    folder = name.replace("/", "--")
    assert below(store.folder) == [f"{folder}/{commit}/data/one.jsonl", f"{folder}/{commit}/data/two.jsonl"]
    again = counted(hub)
    assert store.raw(again, name, commit, pinned) == found == store.raw(None, name, commit, pinned)
    assert again.asked == [""]


def test_later_commits_change_nothing(store: Store, hub: Hub, files: Any) -> None:
    name, commit, pinned = files
    write(hub, name, data__one_dot_jsonl=b"{}\n", data__two_dot_jsonl=None)
    assert store.raw(hub, name, commit, pinned)["data/two.jsonl"].read_bytes() == MORE


def test_without_a_hub_every_missing_file_is_named(store: Store, files: Any) -> None:
    name, commit, pinned = files
    with pytest.raises(ArmError) as caught:
        store.raw(None, name, commit, pinned)
    assert caught.value.where == f"{name}@{commit[:12]}"
    assert [(i.file, i.message) for i in caught.value.issues] == [(path, "is not here") for path in pinned]
    assert caught.value.next_command
    assert not store.folder.exists()


@pytest.mark.parametrize("damage", [b"", b'{"one": 2}\n', RECORDS + b"\n"], ids=["empty", "changed", "longer"])
def test_a_damaged_file_is_never_used(store: Store, hub: Hub, files: Any, damage: bytes) -> None:
    name, commit, pinned = files
    place = store.raw(hub, name, commit, pinned)["data/one.jsonl"]
    place.write_bytes(damage)
    with pytest.raises(ArmError) as caught:
        store.raw(None, name, commit, pinned)
    (issue,) = caught.value.issues
    assert issue.file == "data/one.jsonl"
    assert (pinned["data/one.jsonl"][0] in issue.message) == (len(damage) == len(RECORDS))
    assert place.read_bytes() == damage  # an offline look changes nothing
    asking = counted(hub)
    assert store.raw(asking, name, commit, pinned)["data/one.jsonl"].read_bytes() == RECORDS
    assert asking.asked == ["", "fetch"]  # the other file is as it was


def test_other_bytes_than_pinned_are_refused_by_name(store: Store, hub: Hub, files: Any) -> None:
    name, commit, pinned = files
    wrong = {**pinned, "data/two.jsonl": pin(b'{"two": 3}\n' * 3)[0]}
    with pytest.raises(ArmError) as caught:
        store.raw(hub, name, commit, wrong)
    (issue,) = caught.value.issues
    assert issue.file == "data/two.jsonl"
    assert pinned["data/two.jsonl"][0] in issue.message
    assert wrong["data/two.jsonl"][0] in issue.message
    assert [path.rpartition("/")[2] for path in below(store.folder)] == ["one.jsonl"]  # what was right stays
    assert list(store.raw(None, name, commit, {"data/one.jsonl": pinned["data/one.jsonl"]}))


@pytest.mark.parametrize("path", ["../one.jsonl", "/etc/hosts", "data/../../x", "a\\b", "C:/x", ".git/config", "aux"])
def test_a_path_that_leads_out_is_refused_before_anything_is_asked(store: Store, path: str) -> None:
    silent: Any = object()
    with pytest.raises(ArmError, match="no path that every system can hold"):
        store.raw(silent, "lab/toy", "0" * 40, {"one.jsonl": pin(RECORDS)[0], path: pin(RECORDS)[0]})


@pytest.mark.parametrize("name", ["../../up", "lab", "lab/../up", "lab/a/b", "/lab/up", "lab/a--b"])
def test_what_is_no_repository_names_no_folder(store: Store, name: str) -> None:
    for ask in (
        lambda: store.raw(None, name, "0" * 40, {}),
        lambda: store.table(None, name, "1.0.0", None, "0" * 64, "states", None),
    ):
        with pytest.raises(ArmError, match="is no repository"):
            ask()


def test_commits_identities_and_tables_are_checked_too(store: Store) -> None:
    with pytest.raises(ArmError, match="40 hex digits"):
        store.raw(None, "lab/toy", "../../main", {})
    for identity, kind in (("../..", "states"), ("0" * 64, "../states"), ("0" * 64, "reserve")):
        with pytest.raises(ArmError, match="is no table of a version"):
            store.table(None, "lab/toy", "1.0.0", None, identity, kind, None)


def test_what_a_killed_fetch_left_is_used_or_replaced(store: Store, hub: Hub, files: Any) -> None:
    name, commit, pinned = files
    left = store.folder / name.replace("/", "--") / f".{commit}" / "data"
    left.mkdir(parents=True)
    (left / "one.jsonl").write_bytes(RECORDS)
    (left / "two.jsonl").write_bytes(MORE[:5])
    asking = counted(hub)
    assert store.raw(asking, name, commit, pinned)["data/two.jsonl"].read_bytes() == MORE
    assert asking.asked == ["", "fetch"]
    assert not left.parent.exists()


# -- tables -------------------------------------------------------------------------------------------------------


def identity_of(folder: Path) -> str:
    return str(manifest_of(folder)["identity_sha256"])


def lines(path: Path) -> list[dict[str, Any]]:
    return [jsonl.loads_line(line) for line in jsonl.read_lines(path)]


@pytest.mark.parametrize("kind", BASE_TABLES)
def test_a_table_is_the_same_from_a_build_from_the_hub_and_from_other_shards(
    store: Store, hub: Hub, publisher: Publisher, tmp_path: Path, kind: str
) -> None:
    publisher.picks = [0, 1, 0, 1, 1, 0, 1]
    built = publisher.build()
    identity = identity_of(built)
    here = store.table(None, repo(publisher), "1.0.0", None, identity, kind, built)
    assert here == store.folder / repo(publisher).replace("/", "--") / identity / f"{kind}.jsonl"
    assert below(here.parent) == [f"{kind}.json", f"{kind}.jsonl"]
    rows = lines(here)
    validator = for_schema(IMPORTERS[kind, "table"].schema)
    assert len(rows) == 7
    assert not [validator.problems(row) for row in rows if not validator.is_valid(row)]
    assert here.read_bytes() == b"".join(canonical_json(row).encode() + b"\n" for row in rows)
    ids = [row[{"states": "state_id", "candidate_sets": "set_id", "teacher_labels": "label_id"}[kind]] for row in rows]
    assert ids == sorted(ids)

    commit = publisher.push(hub).commit
    for where in (commit, None):  # None: the tag
        other = Store(tmp_path / str(where))
        there = other.table(hub, repo(publisher), "1.0.0", where, identity, kind, None)
        assert there.read_bytes() == here.read_bytes()
        assert [path for path in below(there.parent) if not path.startswith("published/")] == below(here.parent)
        assert below(other.folder / repo(publisher).replace("/", "--")) == [
            f"{identity}/{path}" for path in below(there.parent)
        ]
        assert not list(other.folder.rglob(".*"))

    spec = replace(Registry.load(publisher.folder).dataset(), shards=4)
    sharded = runner.build(spec, tmp_path / "sharded", card=lambda _: "", workers=2)
    assert len(sharded.manifest["identity"]["tables"][kind]["splits"]["train"]["files"]) > 1
    assert sharded.manifest["identity_sha256"] != identity
    spread = store.table(
        None, repo(publisher), "1.0.0", None, sharded.manifest["identity_sha256"], kind, sharded.folder
    )
    assert spread.read_bytes() == here.read_bytes()


def test_offline_afterwards(store: Store, publisher: Publisher, tmp_path: Path) -> None:
    """With a hub of its own, which is stopped after the first use."""
    from action_reward_models.hub_sync.local_hub import serve

    running = start(tmp_path / "own-hub")
    hub = running.client()
    built = publisher.build()
    identity, name = identity_of(built), repo(publisher)
    try:
        publisher.push(hub)
        commit = write(hub, name, raw__one_dot_jsonl=RECORDS)
        shutil.rmtree(built)

        def use(kinds: tuple[str, ...] = BASE_TABLES) -> list[bytes]:
            found = [store.table(hub, name, "1.0.0", None, identity, kind, built) for kind in kinds]
            found += store.raw(hub, name, commit, {"raw/one.jsonl": pin(RECORDS)[0]}).values()
            return [path.read_bytes() for path in found]

        first = use()
    finally:
        assert serve.stop(tmp_path / "own-hub")
    assert use() == first
    place = store.table(None, name, "1.0.0", None, identity, "states", None)
    place.write_bytes(b"")
    assert (
        store.table(None, name, "1.0.0", None, identity, "states", None).read_bytes() == first[0]
    )  # from what is kept
    place.write_bytes(b"")
    (place.parent / "published/data/states/train-00000-of-00001.parquet").write_bytes(b"")
    with pytest.raises(ArmError) as caught:
        store.table(None, name, "1.0.0", None, identity, "states", None)
    assert caught.value.where == f"{name}@v1.0.0"
    assert caught.value.next_command


def test_a_damaged_table_is_made_again(store: Store, publisher: Publisher) -> None:
    built = publisher.build()

    def table() -> Path:
        return store.table(None, repo(publisher), "1.0.0", None, identity_of(built), "states", built)

    right = table().read_bytes()
    table().write_bytes(right[:-9] + b"}" * 9)
    assert table().read_bytes() == right
    note = table().with_suffix(".json")
    for broken in (b"", b"[]", b'{"form": "table_state/0"}', json.dumps({"form": "table_state/1"}).encode()):
        note.write_bytes(broken)
        assert table().read_bytes() == right
        assert json.loads(note.read_bytes())["records"] == 3


def test_another_build_at_the_commit_is_refused(store: Store, hub: Hub, publisher: Publisher) -> None:
    built = publisher.build()
    commit, identity = publisher.push(hub).commit, identity_of(built)
    publisher.picks[0] = 1
    publisher.version = "1.1.0"
    publisher.build()
    publisher.push(hub)
    with pytest.raises(ArmError, match="was asked for") as caught:
        store.table(hub, repo(publisher), "1.1.0", None, identity, "states", built)
    assert identity[:12] in caught.value.message
    assert store.table(hub, repo(publisher), "1.0.0", commit, identity, "states", built).is_file()
    with pytest.raises(ArmError, match=r"has no revision 'v9\.0\.0'"):
        store.table(hub, repo(publisher), "9.0.0", None, "0" * 64, "states", None)


def _rows_swapped(built: Path) -> None:
    """The manifest's hash of a file is right, its row digest is not."""
    other = next((built / "data/teacher_labels").glob("*"))
    shutil.copy(next((built / "data/candidate_sets").glob("*")), other)


def _torn(built: Path) -> None:
    other = next((built / "data/teacher_labels").glob("*"))
    other.write_bytes(other.read_bytes()[:-50])


def _row_lost(built: Path) -> None:
    import pyarrow.parquet as pq

    path = next((built / "data/teacher_labels").glob("*"))
    pq.write_table(pq.read_table(path).slice(1), path)


def _row_of_another_kind(built: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = next((built / "data/teacher_labels").glob("*"))
    table = pq.read_table(path)
    column = table.schema.get_field_index("status")
    pq.write_table(table.set_column(column, "status", pa.array(["maybe"] * table.num_rows)), path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_rows_swapped, "cannot be read|holds a row that is none"),
        (_torn, "cannot be read"),
        (_row_lost, "holds other rows than the manifest says"),
        (_row_of_another_kind, "holds a row that is none of teacher_labels: .*maybe"),
    ],
)
def test_rows_are_held_against_the_identity(
    store: Store, publisher: Publisher, damage: Callable[[Path], None], message: str
) -> None:
    publisher.name = "damaged"
    built = publisher.build()
    damage(built)
    with pytest.raises(ArmError, match=message) as caught:
        store.table(None, repo(publisher), "1.0.0", None, identity_of(built), "teacher_labels", built)
    assert "data/teacher_labels/train-00000-of-00001.parquet" in caught.value.message
    assert not below(store.folder)


def test_a_table_without_its_pictures_or_that_is_not_there_is_refused(store: Store, publisher: Publisher) -> None:
    built = publisher.build()
    spec = Registry.load(publisher.folder).dataset()
    for changes, kind, message in (
        ({"images": {"states": "reference", "selection_sft": "reference"}}, "states", "images: reference"),
        ({"tables": ("states", "candidate_sets"), "selection": None}, "teacher_labels", "has no table teacher_labels"),
    ):
        made = runner.build(replace(spec, **changes), built, card=lambda _: "", workers=1)
        with pytest.raises(ArmError, match=message):
            store.table(None, repo(publisher), "1.0.0", None, made.manifest["identity_sha256"], kind, built)


def test_two_processes_ask_at_once(store: Store, hub: Hub, publisher: Publisher, running: Any) -> None:
    """Both get the table; one of them made it."""
    identity = identity_of(publisher.build())
    publisher.push(hub)
    code = (
        "from pathlib import Path; from action_reward_models.hub_sync.hub import Hub;"
        "from action_reward_models.registry.sources.store import Store;"
        f"store, what = Store(Path({str(store.folder)!r})), ({repo(publisher)!r}, '1.0.0', None, {identity!r});"
        "print(store.table(Hub(), *what, 'states', None))"
    )
    env = running.env(store.folder.parent / "home", HF_TOKEN=running.token)
    asking = [subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True) for _ in "ab"]
    said = [process.communicate()[0].strip() for process in asking]
    assert [process.returncode for process in asking] == [0, 0]
    assert said[0] == said[1]
    assert len(lines(Path(said[0]))) == 3
    assert not list(store.folder.rglob(".*"))
