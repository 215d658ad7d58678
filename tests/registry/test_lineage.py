"""`arm lineage`: raw files, three datasets on one another, two checkpoints; and what can be wrong upstream."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest
from action_reward_models.cards.mermaid import flowchart
from action_reward_models.hub_sync.hub import Hub
from action_reward_models.hub_sync.yank import plan, withdraw
from action_reward_models.registry.provenance.lineage import Node, inputs, title
from action_reward_models.registry.provenance.walk import of_build, of_revision
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.ids import canonical_json, file_sha256, sha256_hex
from action_reward_models.schemas.manifest import manifest_of
from action_reward_models.tests.registry.lineage_world import World
from action_reward_models.tests.registry.test_lineage_upstream import origin, rewritten


def only(nodes: tuple[Node, ...], **wanted: Any) -> Node:
    (found,) = [node for node in nodes if all(getattr(node, key) == value for key, value in wanted.items())]
    return found


def test_three_levels_with_commits_and_digests(world: World) -> None:
    found = of_build(world.built("gamma"), world.hub)
    assert (found.problems, found.unasked) == ([], None)
    gamma = found.root
    assert (gamma.kind, gamma.name, gamma.revision, gamma.commit) == ("dataset", "lab/gamma", "v2.0.0", None)
    assert gamma.notes == ("not published",)
    assert gamma.identity_sha256 == world.identity("gamma")
    assert gamma.rows == {"selection_sft": 3, "exclusions": 0}
    assert [title(node) for node in gamma.inputs] == ["dataset lab/beta v1.0.0", "dataset lab/alpha v1.0.0"]
    beta, again = gamma.inputs
    assert (beta.commit, beta.identity_sha256) == (world.commits["beta"], world.identity("beta"))
    assert beta.feeds == ("selection_sft",)
    assert beta.license == "mit"
    (alpha,) = beta.inputs  # three tables of one version are one input
    assert (alpha.commit, alpha.identity_sha256) == (world.commits["alpha"], world.identity("alpha"))
    assert alpha.feeds == ("states", "candidate_sets", "teacher_labels")
    assert alpha.license == "cc-by-4.0"
    assert alpha.rows == {"states": 3, "candidate_sets": 3, "teacher_labels": 3, "exclusions": 0}
    episodes, sets, labels = alpha.inputs
    assert (title(episodes), episodes.commit) == ("raw files lab/raw@main", world.raw)
    assert (episodes.holds, episodes.license) == ("episodes as openai_messages", "cc0-1.0")
    assert sets.license == "cc-by-4.0"
    (file,) = episodes.files
    fetched = list(world.folder.rglob("runs/a.jsonl"))
    assert file["sha256"] == file_sha256(fetched[0])
    assert (file["path"], file["records"]) == ("lab/raw@main/runs/a.jsonl", 3)
    assert labels.kind == "own files"
    assert labels.files[0]["sha256"] == file_sha256(world.folder / "labels.jsonl")
    assert labels.feeds == ("teacher_labels",)
    assert (again.inputs, again.notes) == ((), ("its inputs are shown above",))
    assert (again.commit, again.feeds) == (alpha.commit, ("selection_sft",))


def test_the_same_from_the_hub_without_any_folder(world: World) -> None:
    local, remote = of_build(world.built("beta"), world.hub), of_revision(world.hub, "lab/beta", "v1.0.0")
    assert remote == local
    assert local.root.commit == world.commits["beta"]
    at_main = of_revision(world.hub, "lab/beta", "main")
    assert at_main.root.notes == ("at main",)
    assert of_revision(world.hub, "lab/beta", world.commits["beta"]).root == local.root


def test_checkpoints_lead_to_datasets_and_bases(world: World) -> None:
    found = of_build(world.built("judge-more"), world.hub)
    assert found.problems == []
    more = found.root
    assert (title(more), more.commit, more.notes) == ("model lab/judge-more v1.0.0", None, ("not published",))
    beta = only(more.inputs, kind="dataset")
    assert (beta.commit, [title(node) for node in beta.inputs]) == (world.commits["beta"], ["dataset lab/alpha v1.0.0"])
    judge = only(more.inputs, kind="model")
    assert (title(judge), judge.commit) == ("model lab/judge v1.0.0", world.commits["judge"])
    assert judge.identity_sha256 == world.identity("judge")
    base = only(judge.inputs, kind="repository")
    assert (title(base), base.commit) == ("repository lab/tiny@main", world.commits["tiny"])
    assert only(judge.inputs, kind="dataset").notes == ("its inputs are shown above",)
    published = of_revision(world.hub, "lab/judge", "v1.0.0").root
    assert (published.kind, published.commit) == ("model", world.commits["judge"])
    assert [node.kind for node in published.inputs] == ["dataset", "repository"]


def test_both_kinds_of_manifest_give_inputs_through_one_function(world: World) -> None:
    dataset = manifest_of(world.built("gamma"))
    model = orjson.loads((world.built("judge") / "manifest.json").read_bytes())
    assert [title(node) for node in inputs(dataset)] == ["dataset lab/beta v1.0.0", "dataset lab/alpha v1.0.0"]
    assert [title(node) for node in inputs(model)] == ["dataset lab/beta v1.0.0", "repository lab/tiny@main"]
    older = copy.deepcopy(dataset)
    for source in older["identity"]["sources"]:
        del source["origin"]  # as manifests were before
    assert {node.kind for node in inputs(older)} == {"own files"}


def test_a_repository_without_a_manifest(world: World) -> None:
    for name, commit in (("lab/raw", None), ("lab/tiny", world.commits["tiny"])):
        node = of_revision(world.hub, name, "main").root
        assert node.kind == "repository"
        assert commit in (None, node.commit)
        assert node.notes == ("it holds no manifest: nothing says where it comes from",)
    with pytest.raises(ArmError, match="there is no such dataset"):
        of_revision(world.hub, "lab/absent", "main")
    with pytest.raises(ArmError, match=r"has no revision 'v9.9.9'; its tags: v1.0.0"):
        of_revision(world.hub, "lab/beta", "v9.9.9")
    with pytest.raises(ArmError, match="is no finished build"):
        of_build(world.folder, world.hub)


def test_a_version_that_only_lies_beside_the_start(world: World, tmp_path: Path) -> None:
    """Neither is published: both builds are followed, and their identities still have to agree."""
    for name in ("alpha", "beta"):
        shutil.copytree(world.built(name), tmp_path / name)

    def unpublished(folder: Path, change: Any) -> str:
        manifest = manifest_of(folder)
        change(manifest["identity"])
        manifest["identity_sha256"] = sha256_hex(canonical_json(manifest["identity"]))
        (folder / "manifest.json").write_bytes(orjson.dumps(manifest))
        return str(manifest["identity_sha256"])

    identity = unpublished(tmp_path / "alpha", lambda found: found.update(version="1.1.0"))

    def rests(found: dict[str, Any]) -> None:
        found["version"] = "1.1.0"
        for source in found["sources"]:
            source["origin"] |= {"revision": "v1.1.0", "identity_sha256": identity}

    unpublished(tmp_path / "beta", rests)
    found = of_build(tmp_path / "beta", world.hub)
    assert found.problems == []
    (alpha,) = found.root.inputs
    assert (alpha.commit, alpha.identity_sha256, alpha.notes) == (None, identity, ("not published",))
    assert [node.kind for node in alpha.inputs] == ["raw files", "raw files", "own files"]
    unpublished(tmp_path / "alpha", lambda found: found.update(description="changed since"))
    (said,) = of_build(tmp_path / "beta", world.hub).problems
    assert "is gone" in said


def test_a_build_that_is_not_the_published_one(world: World, tmp_path: Path) -> None:
    found = rewritten(world, tmp_path / "x", lambda identity: identity.update(name="beta", version="1.0.0"))
    assert found.problems == []
    assert found.root.commit is None
    assert found.root.notes == (f"not published; the Hub has another build there: {world.identity('beta')}",)


def test_without_a_hub_what_lies_here_is_shown(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(*args: Any, **kwargs: Any) -> Any:
        asked.append(args)
        raise ConnectionError("nobody listens")

    away = Hub(world.hub.endpoint, world.hub.token)
    monkeypatch.setattr(away.api, "list_repo_refs", refuse)
    found = of_build(world.built("gamma"), away)
    assert found.problems == []
    assert "nobody listens" in (found.unasked or "")
    assert len(asked) == 1  # every other question would wait as long
    assert found.root.notes == ("whether it is published is not known",)
    beta = found.root.inputs[0]
    assert (beta.commit, beta.notes) == (None, ("the Hub was not asked about it",))
    (alpha,) = beta.inputs
    assert alpha.rows["states"] == 3
    assert [node.notes for node in alpha.inputs] == [("the Hub was not asked about it",)] * 2 + [()]
    assert of_build(world.built("gamma"), None).unasked == "no Hub was asked"
    with pytest.raises(ArmError, match="nobody listens"):
        of_revision(away, "lab/beta", "v1.0.0")


def test_the_flowchart(world: World) -> None:
    text = of_build(world.built("judge-more"), world.hub).to_mermaid()
    lines = text.splitlines()
    boxes = [line for line in lines if '["' in line]
    assert lines[0] == "flowchart LR"
    # judge-more, beta, alpha, raw files twice, own labels, judge, tiny: a dataset met twice is one box
    assert len(boxes) == 8
    assert sum("lab/alpha" in box for box in boxes) == sum("lab/beta" in box for box in boxes) == 1
    assert f'commit {world.raw[:12]}<br/>3 records in 1 file"]' in text
    assert len([line for line in lines if "-->" in line]) == 8
    assert flowchart({}, []) == "flowchart LR"


def test_the_command(world: World, tmp_path: Path) -> None:
    shutil.copy(world.folder / "registry.yaml", tmp_path)
    for name in ("labels.jsonl", "judge.yaml", "more.yaml"):
        shutil.copy(world.folder / name, tmp_path)
    shutil.copytree(world.folder / "build", tmp_path / "build")
    done = world.running.arm("lineage", "gamma", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "dataset lab/gamma v2.0.0"
    assert "├── dataset lab/beta v1.0.0" in lines
    assert "│   └── dataset lab/alpha v1.0.0" in lines
    assert "│       ├── raw files lab/raw@main" in lines
    assert f"│       │       commit {world.raw}" in lines
    assert "│       └── own files: teacher_labels as first_release" in lines
    assert "└── dataset lab/alpha v1.0.0" in lines
    assert f"│   │   identity {world.identity('beta')}" in lines
    report = orjson.loads(world.running.arm("lineage", "lab/beta@v1.0.0", "--json", cwd=tmp_path).stdout)
    assert report["problems"] == []
    assert report["lineage"]["commit"] == world.commits["beta"]
    assert report["lineage"]["inputs"][0]["inputs"][0]["files"][0]["records"] == 3
    chart = world.running.arm("lineage", "build/judge", "--mermaid", cwd=tmp_path)
    assert chart.stdout.startswith("flowchart LR\n  n1[")
    both = world.running.arm("lineage", "gamma", "--mermaid", "--json", cwd=tmp_path)
    assert both.returncode == 2
    unknown = world.running.arm("lineage", "delta", cwd=tmp_path)
    assert (unknown.returncode, "there is no dataset or checkpoint 'delta'" in unknown.stderr) == (2, True)
    shutil.rmtree(tmp_path / "build" / "gamma")
    missing = world.running.arm("lineage", "gamma", cwd=tmp_path)
    assert missing.returncode == 1
    assert "next: arm build --name gamma" in missing.stderr
    absent = world.running.arm("lineage", "somewhere", cwd=tmp_path / "build")
    assert absent.returncode == 2
    offline = world.running.arm("lineage", "build/beta", cwd=tmp_path, HF_HUB_OFFLINE="1")
    assert offline.returncode == 0
    assert "the Hub could not be asked" in offline.stderr
    assert "HF_HUB_OFFLINE is set" in offline.stderr


def test_the_command_names_problems_and_shows_hostile_text_as_text(world: World, tmp_path: Path) -> None:
    def change(identity: dict[str, Any]) -> None:
        origin(revision="v7.0.0\x1b[2J")(identity)
        identity["license"] = "mit\n└── forged\x1b[31m"

    rewritten(world, tmp_path / "x", change)
    done = world.running.arm("lineage", "x", cwd=tmp_path)
    assert done.returncode == 1
    assert "\x1b" not in done.stdout + done.stderr
    assert "\n└── forged" not in done.stdout
    assert "PROBLEM: is gone" in done.stdout
    assert "problem: dataset lab/beta v7.0.0\\u001b[2J: is gone" in done.stderr
    chart = world.running.arm("lineage", "x", "--mermaid", cwd=tmp_path)
    assert (chart.returncode, "\x1b" in chart.stdout) == (1, False)


def test_withdrawn_versions_are_marked(world: World) -> None:
    """Last: it changes the head of a repository that the other tests look at."""
    withdraw(plan(world.hub, "lab/alpha", "v1.0.0", "labels of another run"), world.hub)
    found = of_build(world.built("gamma"), world.hub)
    assert found.problems == []
    assert {node.withdrawn for node in found.root if node.name == "lab/alpha"} == {"labels of another run"}
    assert {node.withdrawn for node in found.root if node.name != "lab/alpha"} == {None}
    at_tag = of_revision(world.hub, "lab/alpha", "v1.0.0").root
    assert (at_tag.withdrawn, at_tag.commit) == ("labels of another run", world.commits["alpha"])
    assert "withdrawn" in found.to_mermaid()
