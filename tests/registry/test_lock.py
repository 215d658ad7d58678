"""arm.lock: what a reference stands for is asked once; and references that stand for nothing."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.hub_sync.hub import Hub
from action_reward_models.registry import Registry
from action_reward_models.registry.sources.lock import Lock, Locked, update, with_published
from action_reward_models.registry.sources.references import Reference, glob_problem, matching, version_of
from action_reward_models.schemas.errors import ArmError, UsageError

from ..hub_sync.conftest import Running
from .world import World

REGISTRY = """\
registry: 1
namespace: locked
datasets:
  - name: mine
    version: "1.0.0"
    license: mit
    sources:
      - {{kind: episodes, format: openai_messages, repo: {repo}, revision: {revision}, file: "{file}",
         dialect: function, space: pixel, license: cc-by-4.0}}
    split: {{validation: 0.0, seed: 1}}
    tables: {{states: {{}}}}
"""
NOWHERE = Hub("http://127.0.0.1:9", "hf_none")


@pytest.fixture(scope="module")
def raw(running: Running, tmp_path_factory: pytest.TempPathFactory) -> World:
    """A repository with raw files: two of episodes at v1, three on main."""
    world = World(tmp_path_factory.mktemp("raw"), running.client(), "raw")
    world.records(pages=2, suffix="-a")
    world.records(first=2, pages=1, suffix="-b")
    api = world.hub.api
    api.create_repo("raw/runs", repo_type="dataset")
    for part in ("a", "b"):
        api.upload_file(
            path_or_fileobj=world.folder / f"episodes-{part}.jsonl", path_in_repo=f"runs/{part}.jsonl",
            repo_id="raw/runs", repo_type="dataset",
        )  # fmt: skip
    api.create_tag("raw/runs", tag="v1", repo_type="dataset")
    api.create_branch("raw/runs", branch="moving", repo_type="dataset")
    return world


def registry(
    folder: Path, hub: Hub, repo: str = "raw/runs", revision: str = "v1", file: str = "runs/*.jsonl"
) -> Registry:
    folder.mkdir(exist_ok=True)
    (folder / "registry.yaml").write_text(REGISTRY.format(repo=repo, revision=revision, file=file))
    return Registry.load(folder, hub=hub)


def states(built: Registry) -> int:
    manifest = json.loads((built.folder(built.dataset()) / "manifest.json").read_text())
    found: int = manifest["identity"]["tables"]["states"]["rows"]
    return found


def test_raw_files_are_pinned_by_commit_and_digest_and_then_there_without_a_network(raw: World, tmp_path: Path) -> None:
    folder = tmp_path / "r"
    mine = registry(folder, raw.hub)
    with pytest.raises(ArmError, match=r"raw/runs@v1: runs/\*.jsonl is not in arm.lock") as caught:
        mine.build(workers=1)
    assert str(caught.value.next_command) == f"arm lock {folder / 'registry.yaml'}"
    assert mine.lock_problems()[0] == "raw/runs@v1: runs/*.jsonl is not locked"
    refs = raw.hub.refs("raw/runs")
    assert refs is not None
    assert mine.lock()[0] == f"raw/runs@v1: runs/*.jsonl is {refs.tags['v1']}"
    assert mine.lock_problems() == []
    assert mine.lock() == []
    (entry,) = json.loads((folder / "arm.lock").read_text())["references"]
    assert set(entry["files"]) == {"runs/a.jsonl", "runs/b.jsonl"}
    mine.build(workers=1)
    assert states(mine) == 3
    offline = registry(folder, NOWHERE)
    built, why = offline.build(workers=1)
    assert (built, why) == (None, [])
    offline.build(workers=1, force=True)
    manifest = json.loads((folder / "build" / "mine" / "manifest.json").read_text())
    (source,) = manifest["identity"]["sources"]
    assert source["origin"] == {
        "repo": "raw/runs", "revision": "v1", "commit": refs.tags["v1"], "identity_sha256": None,
    }  # fmt: skip
    assert [file["path"] for file in source["files"]] == ["raw/runs@v1/runs/a.jsonl", "raw/runs@v1/runs/b.jsonl"]
    card = (folder / "build" / "mine" / "README.md").read_text()
    assert "cc-by-4.0" in card
    assert "raw/runs" in card


def test_a_branch_stays_where_it_was_locked_until_it_is_asked_again(raw: World, tmp_path: Path) -> None:
    mine = registry(tmp_path / "r", raw.hub, revision="moving", file="runs/[ab].jsonl")
    mine.lock()
    mine.build(workers=1)
    before = Lock.read(tmp_path / "r" / "arm.lock")
    raw.hub.api.upload_file(
        path_or_fileobj=b"", path_in_repo="runs/b.jsonl", repo_id="raw/runs", repo_type="dataset", revision="moving"
    )
    assert mine.reasons() == []
    assert mine.lock() == []
    with pytest.raises(UsageError, match="there is no dataset or model 'other'; there are mine"):
        mine.lock(update=True, names=("other",))
    (change,) = mine.lock(update=True, names=("mine",))
    (old,) = before.references.values()
    assert change.startswith(f"raw/runs@moving: runs/[ab].jsonl: {old.commit} -> ")
    assert any("origin.commit" in reason for reason in mine.reasons())
    mine.build(workers=1)
    assert states(mine) == 2


def test_another_revision_or_file_than_the_locked_one_is_refused(raw: World, tmp_path: Path) -> None:
    registry(tmp_path / "r", raw.hub).lock()
    for other in (
        registry(tmp_path / "r", raw.hub, revision="main"),
        registry(tmp_path / "r", raw.hub, file="runs/a.jsonl"),
    ):
        with pytest.raises(ArmError, match=r"is not in arm.lock; it holds raw/runs@v1: what it stands for"):
            other.build(workers=1)


def test_a_lock_that_says_what_a_reference_cannot_stand_for_is_refused(raw: World, tmp_path: Path) -> None:
    """Of raw files: others than it names, and none. Of a version: no identity to hold its rows against."""
    declared = registry(tmp_path / "r", raw.hub)
    declared.lock()
    (entry,) = written = json.loads(declared.lock_path.read_text())["references"]
    files = entry["files"]
    pinned = next(iter(files.values()))
    for change, message in (
        ({"files": {}}, r"says of raw/runs@v1: runs/\*\.jsonl no file"),
        ({"files": {**files, "README.md": pinned}}, r"that it holds 'README.md', which it does not name"),
        ({"files": {"runs/deep/a.jsonl": pinned, **files}}, r"'runs/deep/a\.jsonl', which it does not name"),
    ):
        lock = json.loads(declared.lock_path.read_text())
        declared.lock_path.write_text(json.dumps({**lock, "references": [{**written[0], **change}]}))
        for verb in (declared.build, declared.reasons, declared.check):
            with pytest.raises(ArmError, match=message):
                verb()
    version = Reference("dataset", "lab/base", "v1.0.0", is_version=True)
    edited = Lock({version.key: Locked("0" * 40)})
    with pytest.raises(ArmError, match=r"says of lab/base@v1\.0\.0 no identity"):
        edited.of(version, tmp_path)
    with pytest.raises(ArmError, match="which it does not name"):
        Lock({version.key: Locked("0" * 40, "0" * 64, {"x": ("0" * 64, 1)})}).of(version, tmp_path)


def test_what_the_hub_does_not_have_names_what_it_has(raw: World, tmp_path: Path) -> None:
    with pytest.raises(ArmError, match=r"has no revision 'v2'; its tags: v1"):
        registry(tmp_path / "r", raw.hub, revision="v2").lock()
    with pytest.raises(ArmError, match=r"holds no file data/\*; it holds .*runs/a.jsonl, runs/b.jsonl"):
        registry(tmp_path / "r", raw.hub, file="data/*").lock()
    with pytest.raises(ArmError, match="there is no such dataset"):
        registry(tmp_path / "r", raw.hub, repo="raw/none").lock()
    assert not (tmp_path / "r" / "arm.lock").exists()


def test_bytes_that_are_not_the_pinned_ones_are_named(raw: World, tmp_path: Path) -> None:
    mine = registry(tmp_path / "r", raw.hub)
    mine.lock()
    lock = tmp_path / "r" / "arm.lock"
    data = json.loads(lock.read_text())
    data["references"][0]["files"]["runs/a.jsonl"]["sha256"] = "f" * 64
    lock.write_text(json.dumps(data))
    with pytest.raises(ArmError) as caught:
        mine.build(workers=1)
    assert [issue.file for issue in caught.value.issues] == ["runs/a.jsonl"]


def test_a_file_that_two_sources_name_is_read_once(raw: World, tmp_path: Path) -> None:
    mine = registry(tmp_path / "r", raw.hub)
    text = mine.path.read_text()
    first = text[text.index("      - {kind") : text.index("    split")]
    mine.path.write_text(text.replace(first, first + first.replace("runs/*.jsonl", "runs/a.jsonl")))
    mine = Registry.load(mine.path, hub=raw.hub)
    mine.lock()
    with pytest.raises(ArmError, match=r"raw/runs@v1/runs/a.jsonl is read by sources\[0\] and by sources\[1\] of mine"):
        mine.build(workers=1)


# -- references within a registry -------------------------------------------------------------------------------------

VERSIONS = """\
registry: 1
namespace: locked
datasets:
  - {{name: a, version: "1.0.0", license: mit, split: {{validation: 0.0, seed: 1}}, tables: {{states: {{}}}},
     sources: [{{kind: states, format: table, dataset: {a}, dialect: function, space: pixel}}]}}
  - {{name: b, version: "2.0.0", license: mit, split: {{validation: 0.0, seed: 1}}, tables: {{states: {{}}}},
     sources: [{{kind: states, format: table, dataset: {b}, dialect: function, space: pixel}}]}}
"""


OTHER = "other/x@1.0.0"  # of another registry
WRONG: dict[tuple[str, str], list[str]] = {
    ("b@2.0.0", "a@1.0.0"): ["[0].sources rests on itself: a -> b -> a", "[1].sources rests on itself: b -> a -> b"],
    ("a@1.0.0", OTHER): ["[0].sources rests on itself: a -> a"],
    ("b@3.0.0", OTHER): ["names locked/b@v3.0.0, and version 2.0.0 is the newest that is declared"],
    ("b", OTHER): ["is floating: it names no version; write b@1.0.0"],
    ("b@main", OTHER): ["names 'main', which is no version like 1.0.0"],
    ("b@v2.0.0", OTHER): ["names 'v2.0.0', which is no version like 1.0.0; write b@2.0.0"],
    ("../b@1.0.0", OTHER): ["'../b' is no repository: namespace/name is expected"],
}


@pytest.mark.parametrize(("a", "b"), WRONG)
def test_references_that_stand_for_nothing(a: str, b: str, tmp_path: Path) -> None:
    (tmp_path / "registry.yaml").write_text(VERSIONS.format(a=a, b=b))
    with pytest.raises(ArmError) as caught:
        Registry.load(tmp_path)
    found = [f"{issue.path} {issue.message}" for issue in caught.value.issues]
    assert len(found) == len(WRONG[a, b])
    assert all(problem.endswith(said) for problem, said in zip(found, WRONG[a, b], strict=True)), found
    assert all(issue.path.startswith("$.datasets[") and issue.line >= 4 for issue in caught.value.issues)


SOURCES = {
    "": "says not where its records are; write one of path, repo",
    "path: x.jsonl, repo: a/b, revision: v1, file: x": "says it in 2 ways (path, repo)",
    "repo: a/b, file: x": "is floating: add revision",
    "repo: a/b, revision: v1": "says not which file",
    "repo: a, revision: v1, file: x": "'a' is no repository",
    "repo: a/b, revision: v1, file: ../x": "'../x' is no path or glob within a repository",
    "repo: a/b, revision: v1, file: /etc/passwd": "is no path or glob within a repository",
    "path: x.jsonl, revision: v1": "means something beside repo only",
    "dataset: a@1.0.0": "is not how a dataset is read; write format: table",
}


@pytest.mark.parametrize("source", SOURCES)
def test_a_source_says_in_one_way_where_it_is(source: str, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("{}\n")
    (tmp_path / "registry.yaml").write_text(
        "registry: 1\nnamespace: n\ndatasets:\n  - {name: a, version: 1.0.0, license: mit, tables: {states: {}}, "
        "split: {validation: 0, seed: 1}, sources: [{kind: episodes, format: openai_messages, dialect: function, "
        f"space: pixel{', ' + source if source else ''}}}]}}\n"
    )
    with pytest.raises(ArmError) as caught:
        Registry.load(tmp_path)
    assert any(SOURCES[source] in issue.message for issue in caught.value.issues), caught.value


def test_a_version_must_be_what_its_tag_says(running: Running, tmp_path: Path) -> None:
    world = World.make(tmp_path / "registry", running.client(), "tagged")
    refs = world.hub.refs("tagged/base")
    assert refs is not None
    world.hub.api.create_tag("tagged/base", tag="v0.5.0", revision=refs.tags["v1.0.0"], repo_type="dataset")
    world.edit(("base@1.0.0", "base@0.5.0"), count=3)
    with pytest.raises(ArmError, match=r"holds version 1\.0\.0, and not 0\.5\.0"):
        world.registry().lock()
    world.edit(("base@0.5.0", "tagged/tiny@0.5.0"), count=3)
    with pytest.raises(ArmError, match="there is no such dataset"):
        world.registry().lock()


# -- the file itself --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"lock": 2}', "{", '{"lock": 1, "references": 1}'])
def test_a_damaged_lock_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "arm.lock"
    path.write_text(text)
    with pytest.raises(ArmError) as caught:
        Lock.read(path)
    assert caught.value.where == str(path)
    assert "arm lock" in str(caught.value.next_command)


def test_a_lock_reads_back_as_it_was_written_and_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "arm.lock"
    assert Lock.read(path) == Lock()
    update(path, lambda lock: with_published(lock, "d", "1.0.0", "n/d", "a" * 40, "b" * 64))
    stamp = path.stat().st_mtime_ns
    again = update(path, lambda lock: lock)
    assert again == Lock.read(path)
    assert again.published["d"]["1.0.0"]["commit"] == "a" * 40
    assert path.stat().st_mtime_ns == stamp
    assert [p.name for p in tmp_path.iterdir()] == ["arm.lock"]


def _publish(path: Path, number: int) -> None:
    update(path, lambda lock: with_published(lock, "d", f"1.0.{number}", "n/d", "a" * 40, "b" * 64))


def test_processes_that_note_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "arm.lock"
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        pool.starmap(_publish, [(path, number) for number in range(24)])
    assert len(Lock.read(path).published["d"]) == 24


def test_a_local_file_that_changed_is_a_problem_of_the_lock_and_not_of_a_build(tmp_path: Path, raw: World) -> None:
    world = World(tmp_path / "w", raw.hub, "raw")
    world.folder.mkdir()
    world.records()
    (world.folder / "registry.yaml").write_text((Path(__file__).parent / "sharded.yaml").read_text())
    mine = world.registry()
    mine.lock()
    assert mine.lock_problems() == []
    world.flip()
    (problem,) = mine.lock_problems()
    assert problem.startswith("base: sources: labels.jsonl ")
    mine.build(workers=1)
    assert mine.lock_problems() == []


# -- names ------------------------------------------------------------------------------------------------------------


def test_globs_stay_within_a_folder_unless_they_say_otherwise() -> None:
    paths = ["a.jsonl", "d/a.jsonl", "d/e/a.jsonl", "d/b.txt", "../x.jsonl", "/x.jsonl"]
    assert matching("*.jsonl", paths) == ["a.jsonl"]
    assert matching("d/*", paths) == ["d/a.jsonl", "d/b.txt"]
    assert matching("**/*.jsonl", paths) == ["a.jsonl", "d/a.jsonl", "d/e/a.jsonl"]
    assert matching("d/[ab].*", paths) == ["d/a.jsonl", "d/b.txt"]
    assert matching("d/**", paths) == [path for path in sorted(paths) if path.startswith("d/")]
    assert matching("**/**/*.txt", paths) == ["d/b.txt"]
    assert matching("**/" * 300 + "x", ["a/" * 40 + "y"]) == []  # the ways to share 40 folders out would never end
    assert glob_problem("d/**/[ab]?.jsonl") is None
    for bad in ("../x", "/x", "a\\b", "a//b", "con", "a\n"):
        assert glob_problem(bad), bad


def test_a_version_of_another_namespace_keeps_it() -> None:
    found: Any = version_of("other/x@1.2.3", "dataset", "mine")
    assert (found.repo, found.revision, found.version) == ("other/x", "v1.2.3", "1.2.3")
    assert version_of("x@0.0.1", "model", "mine").repo == "mine/x"
