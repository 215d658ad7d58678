"""`arm lineage` of what is not what was read, and of manifests that lead a long way."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from action_reward_models.hub_sync.hub import RemoteFile
from action_reward_models.registry.provenance import walk as module
from action_reward_models.registry.provenance.lineage import Lineage, Node, title
from action_reward_models.registry.provenance.walk import of_build
from action_reward_models.schemas import manifest as manifests
from action_reward_models.schemas.ids import canonical_json, sha256_hex
from action_reward_models.schemas.manifest import manifest_of
from action_reward_models.tests.registry.lineage_world import World


def rewritten(world: World, folder: Path, change: Any) -> Lineage:
    """The lineage of gamma after ``change`` of its manifest."""
    shutil.copytree(world.built("gamma"), folder)
    manifest = manifest_of(folder)
    change(manifest["identity"])
    manifest["identity_sha256"] = sha256_hex(canonical_json(manifest["identity"]))
    (folder / "manifest.json").write_bytes(orjson.dumps(manifest))
    return of_build(folder, world.hub)


def origin(**facts: Any) -> Any:
    def change(identity: dict[str, Any]) -> None:
        identity["sources"] = [identity["sources"][0]]
        identity["sources"][0]["origin"] |= facts

    return change


def test_what_upstream_is_not_what_was_read_is_named(world: World, tmp_path: Path) -> None:
    other = rewritten(world, tmp_path / "a" / "x", origin(identity_sha256="f" * 64))
    (said,) = other.problems
    assert said == (
        f"dataset lab/beta v1.0.0: has another identity on the Hub ({world.identity('beta')}) "
        f"than what was read ({'f' * 64})"
    )
    assert other.root.inputs[0].inputs == ()  # those of another build are not those of this one
    gone = rewritten(world, tmp_path / "b" / "x", origin(revision="v7.0.0"))
    assert gone.problems == [
        "dataset lab/beta v7.0.0: is gone, or this token may not see it; and no build of it lies here"
    ]
    nowhere = rewritten(world, tmp_path / "c" / "x", origin(repo="lab/nowhere"))
    assert "is gone" in nowhere.problems[0]
    hostile = rewritten(world, tmp_path / "d" / "x", origin(repo="../../x"))
    assert "'../../x' is no repository" in hostile.problems[0]
    raw = {"repo": "lab/raw", "identity_sha256": None}
    lost = rewritten(world, tmp_path / "e" / "x", origin(**raw, commit="0" * 40))
    assert f"raw files lab/raw@v1.0.0: has no revision '{'0' * 40}'" in lost.problems[0]
    floating = rewritten(world, tmp_path / "f" / "x", origin(**raw, commit="main"))
    assert "where a commit's 40 hex digits are expected" in floating.problems[0]


def test_raw_files_that_the_commit_does_not_hold_are_named(world: World, tmp_path: Path) -> None:
    """What a manifest says that it read is held against what the Hub lists there."""
    sha256, size = _raw_sets(world)
    right = {"sha256": sha256, "bytes": size}

    def said(place: str, **facts: Any) -> list[str]:
        def change(identity: dict[str, Any]) -> None:
            origin(repo="lab/raw", identity_sha256=None, commit=world.raw, revision="v3")(identity)
            identity["sources"][0]["files"] = [{"path": "lab/raw@v3/sets.jsonl", "records": 3, **right, **facts}]

        return rewritten(world, tmp_path / place / "x", change).problems

    assert said("a") == []
    assert said("b", bytes=1) == ["raw files lab/raw@v3: lab/raw@v3/sets.jsonl is another file there"]
    assert said("c", path="lab/raw@v3/x") == ["raw files lab/raw@v3: lab/raw@v3/x is not there"]
    listed = RemoteFile("sets.jsonl", size, "0" * 40, "f" * 64)  # as of one that is stored beside git
    node = Node("raw files", "lab/raw", "v3", files=({"path": "lab/raw@v3/sets.jsonl", **right},))
    assert module._other_files(node, {"sets.jsonl": listed}) == "lab/raw@v3/sets.jsonl is another file there"
    assert module._other_files(node, {"sets.jsonl": replace(listed, sha256=sha256)}) is None


def _raw_sets(world: World) -> tuple[str, int]:
    (file,) = (
        file
        for source in manifest_of(world.built("alpha"))["identity"]["sources"]
        for file in source["files"]
        if file["path"].endswith("/sets.jsonl")
    )
    return file["sha256"], file["bytes"]


def test_depth_and_number_are_limited(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DEPTH", 1)
    found = of_build(world.built("gamma"), world.hub)
    assert found.problems[0].startswith("dataset lab/beta v1.0.0: what it rests on is not followed further: 1 steps")
    monkeypatch.setattr(module, "MAX_DEPTH", 32)
    monkeypatch.setattr(module, "MAX_NODES", 1)
    assert "not followed further" in of_build(world.built("gamma"), world.hub).problems[0]
    monkeypatch.setattr(module, "MAX_NODES", 2000)
    monkeypatch.setattr(module, "MAX_BYTES", 1000)
    assert "have more than 1,000 bytes" in of_build(world.built("gamma"), world.hub).problems[0]


def test_a_manifest_of_many_sources_is_many_questions_to_nobody(world: World, tmp_path: Path) -> None:
    def change(identity: dict[str, Any]) -> None:
        origin(repo="lab/raw", identity_sha256=None, commit=world.raw)(identity)
        (source,) = identity["sources"]
        identity["sources"] = [{**source, "origin": source["origin"] | {"repo": f"lab/r{n}"}} for n in range(2001)]

    found = rewritten(world, tmp_path / "x", change)
    assert found.root.inputs == ()
    assert "2,000 things at most" in found.problems[0]


def test_a_circle_ends(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No honest digest holds itself; should one ever seem to, the walk must not go round."""
    shutil.copytree(world.built("gamma"), tmp_path / "gamma")
    manifest = manifest_of(tmp_path / "gamma")
    for source in manifest["identity"]["sources"]:
        source["origin"] = {"repo": "lab/gamma", "revision": "v2.0.0", "commit": None, "identity_sha256": "a" * 64}
    (tmp_path / "gamma" / "manifest.json").write_bytes(orjson.dumps(manifest))
    monkeypatch.setattr(manifests, "identity_digest", lambda identity: "a" * 64)
    found = of_build(tmp_path / "gamma", world.hub)
    assert [title(node) for node in found.root] == ["dataset lab/gamma v2.0.0"] * 2
    assert found.root.inputs[0].notes == ("not published", "its inputs are shown above")
