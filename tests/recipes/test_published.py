"""From a version of a dataset on the embedded hub to published checkpoints, and back from there in new processes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.hub_sync.checkpoints import header
from action_reward_models.hub_sync.local_hub import serve
from action_reward_models.recipes.manifest import manifest_of
from action_reward_models.registry.builds import check_checkpoint
from action_reward_models.registry.provenance.walk import of_revision
from action_reward_models.tests.hub_sync.conftest import Running, start
from action_reward_models.tests.inference.made import png
from action_reward_models.tests.tiny_vlm import cached

from . import publishing

TOLERANCE = 1e-5
KINDS = (".json", ".jsonl", ".safetensors", ".png", ".yaml", ".md", ".jinja")
CHECKPOINTS = ("tiny-scalar", "tiny-arm", "tiny-further")
WAYS = ("ours", "peft", "merged", "AutoModelForSequenceClassification")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = start(tmp_path_factory.mktemp("hub"))
    yield running
    serve.stop(running.folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("twins") / "registry"


def environment(hub: Running, folder: Path) -> dict[str, str]:
    """Of a process with torch that uses the hub."""
    made = {**cached.environment(), **hub.env(folder.parent / "home", HF_TOKEN=hub.token)}
    for name in ("USE_TORCH", "HF_HUB_OFFLINE"):
        made.pop(name, None)
    return made | {name: cached.environment()[name] for name in ("OMP_NUM_THREADS", "TRANSFORMERS_VERBOSITY")}


@pytest.fixture(scope="module")
def told(hub: Running, folder: Path) -> dict[str, Any]:
    """What `publishing.py` prints."""
    done = subprocess.run(
        [sys.executable, "-m", publishing.__name__, str(folder), str(cached.made())],
        env=environment(hub, folder), cwd=cached.ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def pulled(told: dict[str, Any], hub: Running, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every file of every published checkpoint, as the Hub has it."""
    models, made = hub.client().of("model"), {}
    for name in CHECKPOINTS:
        repo, out = f"{publishing.NAMESPACE}/{name}", tmp_path_factory.mktemp("pulled") / name
        refs = models.refs(repo)
        assert refs is not None
        models.api.snapshot_download(repo, revision=refs.head, local_dir=out)
        made[name] = out
    return made


@pytest.mark.parametrize("kind", publishing.TWINS)
def test_the_twins_are_trained_and_nothing_is_left_behind(told: dict[str, Any], kind: str) -> None:
    found = told[f"trained {kind}"]
    assert found["why"] == ["there is no checkpoint yet"]
    assert (found["left"], found["stale"]) == ([], [])
    assert found["reload"]["max_difference"] < TOLERANCE


def test_they_are_tagged_after_they_were_loaded_from_the_hub(told: dict[str, Any]) -> None:
    assert told["published"]["statuses"] == ["publish", "publish"]
    for done in told["published"]["done"]:
        assert done["tagged"]
        assert done["scored"]["conversations"] > 2
        assert done["scored"]["max_difference"] < TOLERANCE
    assert told["again"]["statuses"] == ["nothing", "nothing"]
    assert [done["commit"] for done in told["again"]["done"]] == [one["commit"] for one in told["published"]["done"]]


def test_one_other_weight_is_noticed(told: dict[str, Any]) -> None:
    assert re.match(r"gives other scores: they differ by up to \S+, and 1e-05 is allowed", told["tampered"])


@pytest.mark.parametrize("way", WAYS)
def test_a_scalar_model_scores_the_same_however_it_is_loaded(told: dict[str, Any], way: str) -> None:
    scores = told["scalar"]["scores"]
    assert len(scores["local"]) == 2 * publishing.ROWS
    assert told["scalar"]["spread"] > 100 * TOLERANCE, "conversations that all get one score compare nothing"
    assert max(abs(one - other) for one, other in zip(scores["local"], scores[way], strict=True)) < TOLERANCE


def test_a_selection_arm_says_the_same(told: dict[str, Any]) -> None:
    scores = told["selection_arm"]["scores"]
    assert told["selection_arm"]["spread"] > 100 * TOLERANCE
    assert max(abs(one - other) for one, other in zip(scores["local"], scores["ours"], strict=True)) < TOLERANCE


@pytest.mark.parametrize("kind", publishing.TWINS)
def test_a_model_is_asked_with_the_tokens_that_it_was_trained_with(told: dict[str, Any], kind: str) -> None:
    """Of every row of the published split, id by id, and patch by patch of its picture."""
    found = told[f"served {kind}"]
    assert found["differ"] == []
    assert found["rows"] >= (100 if kind == "scalar" else 80)
    assert found["tokens"] > 500 * found["rows"]
    assert found["pictures"] == found["rows"] * (2 if kind == "scalar" else 1)


def test_the_three_lines_of_the_readme_pick_an_action(told: dict[str, Any]) -> None:
    assert told["readme"]["lines"] == 3
    choice = told["readme"]["choice"]
    assert choice["status"] == "ok"
    assert len(choice["scores"]) == 2
    assert choice["selected_index"] == choice["scores"].index(max(choice["scores"]))


@pytest.mark.slow
def test_the_inference_guide_runs(told: dict[str, Any], hub: Running, folder: Path, tmp_path: Path) -> None:
    """Its Python in one process, and then its commands, one after the other."""
    assert told["published"]
    steps = re.findall(r"^```(sh|python)\n(.*?)^```", (cached.ROOT / "docs" / "inference.md").read_text(), re.S | re.M)
    assert [language for language, _ in steps] == ["python", "python", "sh"]
    (tmp_path / "page.png").write_bytes(png("white"))
    env = environment(hub, folder)
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    python = "".join(step for language, step in steps if language == "python")
    commands = [[sys.executable, "-c", python]]
    commands += [["bash", "-euo", "pipefail", "-c", step] for language, step in steps if language == "sh"]
    for command in commands:
        done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert (tmp_path / "picks.parquet").is_file()
    assert (tmp_path / "split.parquet").is_file()


def test_a_published_checkpoint_is_trained_further_and_names_its_parent(
    told: dict[str, Any], pulled: dict[str, Path], hub: Running
) -> None:
    assert told["further"]["statuses"] == ["publish"]
    parent = told["published"]["done"][0]["commit"]
    said = manifest_of(pulled["tiny-further"])
    assert said["identity"]["init_from"] == {
        "repo": f"{publishing.NAMESPACE}/tiny-scalar", "revision": "v1.0.0", "commit": parent
    }  # fmt: skip
    assert said["checkpoint"]["base"]["commit"] == told["prepared"]["base"]
    card = (pulled["tiny-further"] / "README.md").read_text("utf-8")
    assert f"{publishing.NAMESPACE}/tiny-scalar" in card
    assert parent in card
    root = of_revision(hub.client(), f"{publishing.NAMESPACE}/tiny-further", "v1.0.0").root
    (node,) = [node for node in root.inputs if node.kind == "model"]
    assert (node.name, node.commit, node.problem) == (f"{publishing.NAMESPACE}/tiny-scalar", parent, None)
    assert [below.commit for below in node.inputs if below.kind == "repository"] == [told["prepared"]["base"]]


def test_stock_peft_goes_on_with_it(told: dict[str, Any]) -> None:
    assert told["resumed"]["head"]
    assert told["resumed"]["lora"] == told["resumed"]["trained"] > 2


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_nothing_published_holds_a_pickle_a_state_or_a_path(
    pulled: dict[str, Path], folder: Path, name: str
) -> None:  # fmt: skip
    """Every file of the repository is opened; what is looked for is written down here anew."""
    opened = 0
    for path in sorted(path for path in pulled[name].rglob("*") if path.is_file() and ".cache" not in path.parts):
        data, opened = path.read_bytes(), opened + 1
        assert path.suffix in KINDS or path.name in (".gitattributes", "merges.txt"), path
        assert not data.startswith((b"\x80", b"PK\x03\x04")), f"{path} is a pickle, or an archive that may hold one"
        if path.suffix == ".safetensors":
            tensors = header(path)
            assert not [key for key in tensors if "exp_avg" in key or "optim" in key]
            assert set(tensors.get("__metadata__", {})) <= {"format"}
        elif path.suffix != ".png":
            text = data.decode("utf-8")
            for place in (str(folder), str(folder.parent), str(cached.ROOT), str(Path.home() / "")):
                assert len(place) < 7 or place not in text, f"{path} names {place}"
            if path.name != "tokenizer.json":
                assert not re.search(r'"(/[\w.-]+){2,}/?"|file:/', text), path
    assert opened > 12
    assert check_checkpoint(pulled[name]) == []


def test_numbers_of_the_card_are_those_of_the_published_predictions(pulled: dict[str, Path]) -> None:
    for name in ("tiny-scalar", "tiny-arm"):
        (one,) = manifest_of(pulled[name])["evaluations"]
        lines = (pulled[name] / "evaluation" / one["name"] / "predictions.jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        first = [row for row in rows if row["unit"] == "set" and row["order_index"] == 0]
        assert len(first) == one["items"] == 3
        exact = next(report for report in one["reports"] if report["metric"] == "exact_agreement")
        assert exact["value"] == pytest.approx(sum(bool(row["exact"]) for row in first) / len(first))
