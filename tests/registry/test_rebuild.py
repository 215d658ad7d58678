"""A published dataset is built again from its manifest and its sources, and every digest compared."""

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
from action_reward_models.builders.spec import BuildSpec, Origin, SourceSpec
from action_reward_models.hub_sync.hub import Hub
from action_reward_models.hub_sync.plan import plan
from action_reward_models.hub_sync.publish import publish
from action_reward_models.hub_sync.verify import Verified
from action_reward_models.registry import Registry, check_build, row_digest
from action_reward_models.registry.provenance.rebuild import rebuild
from action_reward_models.registry.provenance.respec import Inputs
from action_reward_models.registry.sources.lock import NAME, update, with_published
from action_reward_models.registry.sources.pinned import Pinned
from action_reward_models.registry.sources.store import Store
from action_reward_models.schemas.ids import file_sha256, sha256_hex
from action_reward_models.schemas.manifest import manifest_of
from action_reward_models.tests.hub_sync.steps import repo, write

if TYPE_CHECKING:
    from tests.hub_sync.conftest import Publisher, Running

ROOT = Path(__file__).parents[2]
Manifest = dict[str, Any]


def made(spec: BuildSpec, out: Path) -> Path:
    from action_reward_models.cards.dataset import render

    return runner.build(spec, out, card=render, workers=1).folder


def again(folder: Path, sources: Path, hub: Hub | None = None, manifest: Manifest | None = None) -> list[str]:
    """What a rebuild of a built directory finds, as text."""
    inputs = Inputs(sources, Store(sources / "build" / ".sources"), hub)
    work = folder.with_name(f"{folder.name}-again")
    shutil.rmtree(work, ignore_errors=True)
    return [str(issue) for issue in rebuild(manifest or manifest_of(folder), inputs, work, published=folder)]


@pytest.fixture
def built(publisher: Publisher) -> Path:
    return publisher.build()


# -- sources --------------------------------------------------------------------------------------------------------


def test_the_same_sources_give_the_same_digests(built: Path, publisher: Publisher, tmp_path: Path) -> None:
    assert again(built, publisher.folder) == []
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for path in publisher.folder.glob("*.jsonl"):
        shutil.copy(path, elsewhere)
    assert again(built, elsewhere) == []  # no registry.yaml is needed


def test_many_shards_and_another_number_of_processes(built: Path, publisher: Publisher) -> None:
    spec = replace(Registry.load(publisher.folder).dataset(), shards=4)
    assert again(made(spec, built), publisher.folder) == []
    assert manifest_of(built)["environment"]["workers"] == 1
    assert manifest_of(built.with_name(f"{built.name}-again") / "rebuilt")["environment"]["workers"] == 2


def test_a_changed_byte_and_a_missing_file_are_named_before_anything_is_built(
    built: Path, publisher: Publisher
) -> None:
    labels, sets = publisher.folder / "labels.jsonl", publisher.folder / "sets.jsonl"
    before = {path.name: file_sha256(path) for path in (labels, sets)}
    data = bytearray(labels.read_bytes())
    data[-3] ^= 1
    labels.write_bytes(data)
    sets.unlink()
    assert again(built, publisher.folder) == [
        f"labels.jsonl $.identity.sources[2] has sha256 {file_sha256(labels)}, and {before['labels.jsonl']} was read",
        f"sets.jsonl $.identity.sources[1] is not at {sets}: sha256 {before['sets.jsonl']} was read",
    ]
    assert not built.with_name(f"{built.name}-again").exists()


def test_a_file_elsewhere_is_taken_where_the_registry_says(built: Path, publisher: Publisher, tmp_path: Path) -> None:
    away = tmp_path / "away"
    away.mkdir()
    (publisher.folder / "labels.jsonl").rename(away / "labels.jsonl")
    inputs = Inputs(publisher.folder, Store(tmp_path / "store"), None, {"labels.jsonl": away / "labels.jsonl"})
    assert rebuild(manifest_of(built), inputs, tmp_path / "work") == []
    assert len(rebuild(manifest_of(built), replace(inputs, known={}), tmp_path / "work")) == 1


@pytest.mark.parametrize(
    "name", ["../labels.jsonl", "/etc/hosts", "a/../../labels.jsonl", "./labels.jsonl", "C:/x", ""]
)
def test_a_name_that_leads_out_is_never_read(built: Path, publisher: Publisher, name: str) -> None:
    shutil.copy(publisher.folder / "labels.jsonl", publisher.folder.parent)
    manifest = manifest_of(built)
    manifest["identity"]["sources"][2]["files"][0]["path"] = name
    assert again(built, publisher.folder, manifest=manifest) == [
        f"{name} $.identity.sources[2] is no path below a folder"
    ]


# -- what a manifest may say ----------------------------------------------------------------------------------------


def _at(path: str, value: Any) -> Callable[[Manifest], None]:
    """Set one value of the identity; ``...`` deletes it."""

    def change(manifest: Manifest) -> None:
        *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        node = manifest["identity"]
        for step in steps:
            node = node[step]
        if value is ...:
            del node[last]
        else:
            node[last] = value

    return change


HOSTILE = {
    "another split rule": ("parameters.split.rule", "by hand"),
    "a share of two": ("parameters.split.validation", 2),
    "no split": ("parameters.split", ...),
    "no parameters": ("parameters", {}),
    "tables are a number": ("parameters.tables", 7),
    "a table that leads out": ("parameters.tables", ["states", "../../up"]),
    "a table without its options": ("parameters.selection_sft", None),
    "options without their table": ("parameters.tables", ["states"]),
    "shards as text": ("parameters.shards", "many"),
    "a million shards": ("parameters.shards", 1_000_000),
    "a prompt that leads out": ("parameters.selection_sft.prompt.id", "../../up"),
    "a prompt of another kind": ("parameters.selection_sft.prompt.id", 7),
    "a prompt file with no digest": ("parameters.selection_sft.prompt.id", "sha256:abc"),
    "an unknown option": ("parameters.selection_sft.prompt.options", {"words": "all"}),
    "an unknown gate": ("parameters.gates", {"leakage": "perhaps"}),
    "labels of an unknown rule": ("parameters.labels", {"rule": "best"}),
    "a format of nobody": ("sources.0.format", "pickle"),
    "a kind of nobody": ("sources.0.kind", "weights"),
    "a dialect of nobody": ("sources.1.dialect", "python"),
    "a constant that is a path": ("sources.1.constants", {"path": "/etc/hosts"}),
    "a constant of the wrong form": ("sources.2.constants", {"teacher": 7}),
    "a name that leads out": ("name", "../../up"),
    "a version of nobody": ("version", "1.0"),
    "what to redact": ("parameters.redact", ["everything"]),
    "an origin of nowhere": (
        "sources.0.origin",
        {"repo": "../up", "revision": "v1.0.0", "commit": None, "identity_sha256": "0" * 64},
    ),
    "a commit that is a path": (
        "sources.0.origin",
        {"repo": "lab/up", "revision": "main", "commit": "../..", "identity_sha256": None},
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_no_registry_could_declare_is_refused(built: Path, publisher: Publisher, case: str) -> None:
    manifest = manifest_of(built)
    _at(*HOSTILE[case])(manifest)
    found = again(built, publisher.folder, manifest=manifest)
    assert found
    assert not built.with_name(f"{built.name}-again").exists()
    assert not (publisher.folder / "build" / ".sources").exists()


# -- differences ----------------------------------------------------------------------------------------------------


def test_rows_that_the_sources_do_not_give_are_named(built: Path, publisher: Publisher, tmp_path: Path) -> None:
    """A dataset that says it was built from these files, and was not: one pick differs, one page is too many."""
    honest = manifest_of(built)
    publisher.picks = [0, 0, 0, 1]
    lying = shutil.copytree(publisher.build(), tmp_path / "lying")
    forged = manifest_of(lying)
    publisher.picks = [0, 1, 0]
    publisher.build()
    forged["identity"]["sources"] = honest["identity"]["sources"]
    found = again(lying, publisher.folder, manifest=forged)
    label = next(issue for issue in found if "tables.teacher_labels" in issue)
    assert "; 1 missing (e3__t0#d0|toy|-|0); 1 other (e1__t0#d0|toy|-|0)" in label
    assert forged["identity"]["tables"]["teacher_labels"]["row_digest"] in label
    assert honest["identity"]["tables"]["teacher_labels"]["row_digest"] in label
    states = next(issue for issue in found if "tables.states" in issue)
    assert "; 1 missing (e3__t0)" in states
    assert "other" not in states
    assert any(issue.startswith("data/states/train-00000-of-00001.parquet $ row_digest") for issue in found)
    assert any("$.identity.statistics" in issue and "4 -> 3" in issue for issue in found)
    assert not any("code_sha256" in issue for issue in found)

    (lying / "data/states/train-00000-of-00001.parquet").write_bytes(b"PAR1")
    damaged = again(lying, publisher.folder, manifest=forged)
    assert "the published rows cannot be read" in next(issue for issue in damaged if "tables.states" in issue)


def test_a_number_that_the_sources_do_not_give_is_named(built: Path, publisher: Publisher) -> None:
    manifest = manifest_of(built)
    manifest["identity"]["ledger"]["states"]["in"] += 1
    assert again(built, publisher.folder, manifest=manifest) == [
        "manifest.json $.identity.ledger published -> rebuilt: ledger.states.in: 4 -> 3"
    ]


def test_other_code_is_told_only_where_something_differs(built: Path, publisher: Publisher) -> None:
    manifest = manifest_of(built)
    manifest["environment"]["code_sha256"] = "0" * 64
    assert again(built, publisher.folder, manifest=manifest) == []
    manifest["identity"]["description"] = "Other words."
    assert [issue.split()[1] for issue in again(built, publisher.folder, manifest=manifest)] == []  # what is declared
    manifest["identity"]["ledger"]["states"]["out"] += 1
    found = again(built, publisher.folder, manifest=manifest)
    assert "the code that built it is another (000000000000… of version" in found[0]
    assert len(found) == 2


# -- prompts and origins --------------------------------------------------------------------------------------------

PROMPT = "Task: {{task}}\n{{observation}}\n{{candidates}}\nName the best one.\n"


def test_an_external_prompt_is_the_one_that_the_registry_declares(publisher: Publisher) -> None:
    publisher.build()
    file, registry = publisher.folder / "words.txt", publisher.folder / "registry.yaml"
    file.write_text(PROMPT, "utf-8")
    declared = f"{{file: words.txt, sha256: {file_sha256(file)}}}"
    registry.write_text(registry.read_text("utf-8").replace("selection/1", declared), "utf-8")
    Registry.load(registry).build(workers=1)
    assert manifest_of(publisher.built)["identity"]["prompts"][0]["id"].startswith("file:")
    assert again(publisher.built, publisher.folder) == []
    file.write_text(PROMPT + "\n", "utf-8")
    (found,) = again(publisher.built, publisher.folder)
    assert found.startswith("manifest.json $.identity.parameters.selection_sft.prompt no prompt file of")
    assert sha256_hex(PROMPT) in found


def test_sources_of_the_hub_come_by_commit_and_identity_and_then_from_the_store(
    hub: Hub, publisher: Publisher, tmp_path: Path
) -> None:
    """Labels are raw files of a repository, states and sets tables of a version."""
    upstream = publisher.build()
    published = publisher.push(hub)
    raw = f"{repo(publisher)}-raw"
    hub.api.create_repo(raw, repo_type="dataset")
    labels = (publisher.folder / "labels.jsonl").read_bytes()
    commit = write(hub, raw, labels_dot_jsonl=labels)
    identity = manifest_of(upstream)["identity_sha256"]
    folder = tmp_path / "derived"
    store = Store(folder / "build" / ".sources")
    sources = [
        SourceSpec(
            kind, "table", ((f"{repo(publisher)}@v1.0.0/{kind}", path),), "mit", "function", "pixel",
            origin=Origin(repo(publisher), "v1.0.0", identity_sha256=identity),
        )
        for kind in ("states", "candidate_sets")
        if (path := store.table(hub, repo(publisher), "1.0.0", published.commit, identity, kind, None))
    ]  # fmt: skip
    path = store.raw(hub, raw, commit, {"labels.jsonl": (sha256_hex(labels), len(labels))})["labels.jsonl"]
    origin = Origin(raw, "main", commit=commit)
    sources.append(
        SourceSpec("teacher_labels", "first_release", ((f"{raw}@main/labels.jsonl", path),), "mit", origin=origin)
    )
    spec = replace(Registry.load(publisher.folder).dataset(), name="derived", sources=tuple(sources))
    derived = made(spec, folder / "build" / "derived")
    write(hub, raw, labels_dot_jsonl=b"{}\n")  # the branch moves on, the commit stays

    assert again(derived, folder) == []  # without a hub: all is in the store
    shutil.rmtree(store.folder)
    missing = again(derived, folder)
    assert len(missing) == 3
    assert any("labels.jsonl" in issue for issue in missing)
    assert sum("candidate_sets is not here" in issue or "states is not here" in issue for issue in missing) == 2
    assert again(derived, folder, hub) == []
    assert again(derived, folder) == []


# -- the command ----------------------------------------------------------------------------------------------------


def pinned(publisher: Publisher, hub: Hub) -> str:
    """Publish what is built, as arm.lock then says; returns the commit."""
    planned = plan(publisher.built, hub, check=check_build, row_digest=row_digest)
    done = publish(planned, hub)
    identity = manifest_of(publisher.built)["identity_sha256"]
    update(
        publisher.folder / NAME,
        lambda lock: with_published(lock, publisher.name, publisher.version, done.repo, done.commit, identity),
    )
    return done.commit


ELSEWHERE = {"PYTHONHASHSEED": "7", "TZ": "Asia/Kathmandu", "LC_ALL": "C", "OMP_NUM_THREADS": "1"}


def test_a_published_version_is_confirmed_from_the_lock(hub: Hub, running: Running, publisher: Publisher) -> None:
    publisher.picks = [0, 1, 0, 1, 1]
    publisher.build()
    made(replace(Registry.load(publisher.folder).dataset(), shards=4), publisher.built)
    commit = pinned(publisher, hub)
    shutil.rmtree(publisher.built)
    done = running.arm(
        "verify", publisher.name, "--rebuild", "--workers", "3", "--json", cwd=publisher.folder, **ELSEWHERE
    )
    assert done.returncode == 0, done.stderr + done.stdout
    said = json.loads(done.stdout)
    assert (said["ok"], said["rebuilt"], said["commit"], said["issues"]) == (True, True, commit, [])

    labels = publisher.folder / "labels.jsonl"
    labels.write_bytes(labels.read_bytes().replace(b'"selection": 1', b'"selection": 0', 1))
    done = running.arm("verify", publisher.name, "--rebuild", cwd=publisher.folder)
    assert done.returncode == 1
    assert f"labels.jsonl $.identity.sources[2] has sha256 {file_sha256(labels)}, and" in done.stderr
    assert "1 problem:" in done.stderr


def test_the_lock_decides_which_commit_and_identity_are_right(hub: Hub, publisher: Publisher) -> None:
    publisher.build()
    first = pinned(publisher, hub)
    publisher.version, publisher.picks = "1.10.0", [1, 1, 0]
    second = pinned(publisher, hub) if publisher.build() else ""
    identity = manifest_of(publisher.built)["identity_sha256"]
    found = Verified("there", second, identity, (), {})
    known = Pinned.last(publisher.folder, publisher.name)
    assert known == Pinned(publisher.name, "1.10.0", repo(publisher), second, identity)
    assert known.issues(hub, found) == []
    where = f"arm.lock $.published['{publisher.name}']['1.10.0']"
    assert [str(issue) for issue in replace(known, commit=first).issues(hub, replace(found, identity_sha256="0"))] == [
        f"{where}.commit is {first}, and the tag v1.10.0 is at {second}",
        f"{where}.identity_sha256 is {identity}, and the manifest there has 0",
    ]
    hub.api.delete_tag(repo(publisher), tag="v1.10.0", repo_type="dataset")
    (issue,) = known.issues(hub, found)
    assert issue.message == f"is {second}, and there is no tag v1.10.0"


@pytest.mark.parametrize("words", [["--sources", "."], ["--workers", "2"]])
def test_options_of_a_rebuild_mean_nothing_without_one(running: Running, tmp_path: Path, words: list[str]) -> None:
    done = running.arm("verify", "lab/toy", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert "next: --rebuild" in done.stderr


def test_a_name_that_was_never_published(running: Running, publisher: Publisher) -> None:
    publisher.build()
    done = running.arm("verify", publisher.name, "--rebuild", cwd=publisher.folder)
    assert done.returncode == 2
    assert "nothing was published from here" in done.stderr


def test_a_built_folder_is_rebuilt_where_its_sources_are(running: Running, publisher: Publisher) -> None:
    publisher.build()
    done = running.arm(
        "verify", str(publisher.built), "--rebuild", "--sources", str(publisher.folder), cwd=publisher.folder.parent
    )
    assert done.returncode == 0, done.stderr
    assert "built again from its sources: every digest is the same" in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(900)  # it installs all dependencies
def test_a_fresh_environment_confirms_it(hub: Hub, running: Running, publisher: Publisher, tmp_path: Path) -> None:
    """A venv of its own, other processes, hash seed, time zone and locale; only the lock and the sources."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-c", str(ROOT / "constraints.txt"), str(ROOT)], check=True, cwd=tmp_path)
    publisher.picks = [page % 2 for page in range(12)]
    publisher.build()
    made(replace(Registry.load(publisher.folder).dataset(), shards=8), publisher.built)
    pinned(publisher, hub)
    there = tmp_path / "there"
    there.mkdir()
    for path in (*publisher.folder.glob("*.jsonl"), publisher.folder / NAME):
        shutil.copy(path, there)
    env = {k: v for k, v in running.env(there / "home").items() if not k.startswith(("PYTHON", "VIRTUAL_ENV", "LC_"))}
    command = [str(venv / "bin" / "arm"), "verify", publisher.name, "--rebuild", "--workers", "3", "--json"]

    def verify() -> tuple[int, Any]:
        done = subprocess.run(command, cwd=there, env=env | ELSEWHERE, capture_output=True, text=True, check=False)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    status, said = verify()
    assert (status, said["issues"], said["rebuilt"]) == (0, [], True)
    changed = there / "episodes.jsonl"
    changed.write_bytes(changed.read_bytes().replace(b"Click number 7", b"Click number 8"))
    status, said = verify()
    assert status == 1
    assert [(issue["file"], file_sha256(changed) in issue["message"]) for issue in said["issues"]] == [
        ("episodes.jsonl", True)
    ]
