"""`arm log`: versions newest first, what each changed, what is withdrawn, and what holds no manifest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from action_reward_models.hub_sync.hub import Hub
from action_reward_models.hub_sync.local_hub import serve
from action_reward_models.hub_sync.yank import plan, withdraw
from action_reward_models.registry.provenance import history as module
from action_reward_models.registry.provenance.history import History, history
from action_reward_models.schemas.errors import ArmError
from action_reward_models.tests.hub_sync.conftest import Publisher, Running, start
from action_reward_models.tests.hub_sync.steps import commits, write

REPO = "lab/toy"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("hub")
    yield start(folder)
    assert serve.stop(folder)


@pytest.fixture(scope="module")
def hub(running: Running) -> Hub:
    return running.client()


@pytest.fixture(scope="module")
def published(running: Running, hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Four versions, each with another change, and all that may lie around them."""
    publisher = Publisher(tmp_path_factory.mktemp("publisher") / "registry")
    publisher.build()
    done = {"1.0.0": publisher.push(hub).commit}
    publisher.version, publisher.picks = "1.1.0", [1, 1, 0, 0, 7]  # a label flips, two pages come, one names nothing
    publisher.build()
    done["1.1.0"] = publisher.push(hub).commit
    withdraw(plan(hub, REPO, "v1.0.0", "labels of another run"), hub)
    (publisher.built / "README.md").write_text((publisher.built / "README.md").read_text("utf-8") + "\nMine.\n")
    publisher.version = "1.1.1"
    publisher.build()
    done["1.1.1"] = publisher.push(hub).commit
    publisher.version = "1.10.0"
    publisher.build()
    done["1.10.0"] = publisher.push(hub).commit
    # A version that was tagged by hand before there was a manifest.
    hub.api.create_tag(REPO, tag="v0.1.0", revision=commits(hub, REPO)[-1], repo_type="dataset")
    hub.api.create_tag(REPO, tag="latest", repo_type="dataset")
    write(hub, REPO, notes_dot_txt=b"one")
    write(hub, REPO, notes_dot_txt=b"two")
    return {"commits": done, "registry": publisher.folder}


@pytest.fixture(scope="module")
def found(hub: Hub, published: dict[str, Any]) -> History:
    return history(hub, REPO)


def test_newest_first_with_commits_and_dates(found: History, published: dict[str, Any]) -> None:
    assert [version.version for version in found.versions] == ["1.10.0", "1.1.1", "1.1.0", "1.0.0", "0.1.0"]
    for version in found.versions[:-1]:
        assert version.commit == published["commits"][version.version]
        assert version.title == f"toy {version.version}"
        assert version.identity_sha256
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", version.date) for version in found.versions)
    assert found.unreleased == 2
    assert found.other_tags == ("latest",)


def test_what_each_changed(found: History) -> None:
    number, card, rows, first, _ = found.versions
    assert first.change is None
    assert first.rows["teacher_labels"] == 3
    assert first.labels == {"ok": 3}
    change = rows.change
    assert change
    assert (change.since, change.level) == ("1.0.0", "minor")
    assert change.rows == {
        "candidate_sets": 2, "exclusions": 1, "selection_sft": 1, "states": 2, "teacher_labels": 2,
    }  # fmt: skip
    assert "the rows of states: 3 -> 5" in change.reasons
    assert change.labels == {"ok": 1, "out_of_range": 1}
    assert rows.labels == {"ok": 4, "out_of_range": 1}
    assert (change.schemas, change.prompts) == ({}, {})
    assert card.change
    assert (card.change.level, card.change.reasons) == ("patch", ("the words on the card differ",))
    assert card.change.rows == {}
    assert number.change
    assert (number.change.level, number.change.reasons) == ("none", ())


def test_withdrawn_and_without_a_manifest(found: History) -> None:
    assert {version.version: version.withdrawn for version in found.versions if version.withdrawn is not None} == {
        "1.0.0": "labels of another run"
    }
    bare = found.versions[-1]
    assert bare.problem == "holds no manifest.json"
    assert (bare.rows, bare.labels, bare.change, bare.identity_sha256) == ({}, {}, None, None)
    assert found.versions[-2].change is None, "there is nothing before it to compare with"


def test_no_data_is_downloaded(hub: Hub, published: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = Hub.fetch

    def fetch(self: Hub, repo: str, commit: str, path: str, folder: Path) -> Path:
        read.append(path)
        return real(self, repo, commit, path, folder)

    monkeypatch.setattr(Hub, "fetch", fetch)
    steps: list[tuple[int, int]] = []
    history(hub, REPO, lambda _, done, total: steps.append((done, total)))
    assert set(read) == {"manifest.json", "README.md"}
    assert read.count("README.md") == 4, "of the two versions in which no row changed, and of those before"
    assert steps == [(n, 5) for n in range(1, 6)]


def test_manifests_that_are_none_are_named(
    hub: Hub, published: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    head = commits(hub, REPO)[0]
    held = hub.read(REPO, hub.files(REPO, head)["manifest.json"], head)
    manifest = orjson.loads(held)
    manifest["identity"]["statistics"]["label_status"] = "many"
    for tag, data in {"v3.0.0": b"{}", "v3.0.1": held, "v3.0.2": b"x" * 200, "v3.1.0": orjson.dumps(manifest)}.items():
        commit = write(hub, REPO, manifest_dot_json=data)
        hub.api.create_tag(REPO, tag=tag, revision=commit, repo_type="dataset")
    try:
        found = {version.version: version for version in history(hub, REPO).versions}
        assert found["3.0.0"].problem == "its manifest.json is none that this version reads"
        assert found["3.0.1"].problem == "its manifest.json is of 1.10.0"
        assert found["3.0.1"].change
        assert found["3.0.1"].change.since == "1.10.0"
        assert found["3.1.0"].labels == {}
        monkeypatch.setattr(module, "MAX_BYTES", 100)
        assert "bytes" in str({v.version: v for v in history(hub, REPO).versions}["3.0.2"].problem)
    finally:
        for tag in ("v3.0.0", "v3.0.1", "v3.0.2", "v3.1.0"):
            hub.api.delete_tag(REPO, tag=tag, repo_type="dataset")
        write(hub, REPO, manifest_dot_json=held)


def test_an_unknown_repository(hub: Hub) -> None:
    with pytest.raises(ArmError, match="there is no such dataset"):
        history(hub, "lab/nothing")
    with pytest.raises(ArmError, match="namespace/name is expected"):
        history(hub, "../x")


def test_the_command(running: Running, published: dict[str, Any], tmp_path: Path) -> None:
    done = running.arm("log", REPO, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    at = lines.index(f"v1.0.0  first  {lines[0].split()[2]}  {published['commits']['1.0.0']}  toy 1.0.0")
    assert lines[at + 1] == "  withdrawn: labels of another run"
    assert "  labels ok 4 (+1), out_of_range 1 (+1)" in lines
    assert "  holds no manifest.json" in lines
    assert "  nothing but its number since v1.1.1" in lines
    assert "on branch main since v1.10.0, without a tag of a version" in done.stderr
    assert "tags of no version: latest" in done.stderr
    named = running.arm("log", "toy", "--json", cwd=published["registry"])
    report = orjson.loads(named.stdout)
    assert report["repo"] == REPO
    assert [version["version"] for version in report["versions"]][:2] == ["1.10.0", "1.1.1"]
    assert report["versions"][2]["change"]["rows"]["states"] == 2
    unknown = running.arm("log", "lab/nothing", cwd=tmp_path)
    assert unknown.returncode == 1
    assert "there is no such dataset" in unknown.stderr
