"""`arm adopt`: what other tools leave scores here as it did there; what could run code is not read."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.cli import _run
from action_reward_models.hub_sync.local_hub import serve
from action_reward_models.inference.base import folder_sha256
from action_reward_models.prompts.options import PromptOptions
from action_reward_models.prompts.render import load_prompt
from action_reward_models.tests import processes
from action_reward_models.tests.hub_sync.conftest import Running, start
from action_reward_models.tests.recipes import tiny
from action_reward_models.tests.tiny_vlm import cached

KEPT = ["chat_template.jinja", "manifest.json", "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json",
        "value_head.safetensors"]  # fmt: skip
ADAPTER = ["adapter_config.json", "adapter_model.safetensors"]


def found(folder: Path, *words: object, **more: str) -> Any:
    """What `adopted` found in a process with torch that writes to ``folder``."""
    folder.mkdir(exist_ok=True)
    module = "action_reward_models.tests.cli.adopted"
    if not more:
        done = processes.torch(module, *words, cwd=folder)
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(done.stdout.splitlines()[-1])
    env = {**cached.environment(), **more}
    env.pop("USE_TORCH", None)
    command = [sys.executable, "-m", module, *map(str, words)]
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def apart(one: list[float], other: list[float]) -> float:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


def test_checkpoints_of_other_tools_score_as_they_did(tmp_path: Path) -> None:
    told = found(tmp_path, "quick", cached.made())
    typed = dict(told["typed"])
    (first, whole), (_, alone) = told["typed"][:2]
    assert first.startswith("arm adopt theirs ")
    assert (whole["status"], alone["status"]) == (0, 0), (whole["err"], alone["err"])
    assert max(told["by_hand"]) - min(told["by_hand"]) > 0.1  # or equal scores would show nothing
    for name in ("adopted", "from-old"):
        assert apart(told["scores"][name], told["by_hand"]) < 1e-5, name
        assert told["kept"][name] == sorted([*ADAPTER, *KEPT])
    assert apart([score + 0.5 for score in told["scores"]["head"]], told["alone_with_bias"]) < 1e-5
    assert told["kept"]["head"] == KEPT

    assert whole["out"] == "adopted\n"
    assert "changed: The adapter was for CAUSAL_LM; a scalar is SEQ_CLS." in whole["err"]
    assert "scalar, adapter of Qwen3_5ForSequenceClassification on the model in base-model" in whole["err"]
    assert r"scores are read at '\n', the last token" in whole["err"]
    assert whole["err"].endswith("next: arm evaluate adopted --dataset BUILD --base base-model\n")
    assert "changed: The head's bias of 0.5 was dropped" in alone["err"]
    assert "value_head.bin was read as numbers only" in alone["err"]

    assert typed["biased"]["status"] == 1
    assert json.loads(typed["biased"]["out"])["next"].startswith("--drop-bias")
    data = json.loads(typed["old"]["out"])
    assert data["checkpoint"]["base"] == {"repo": None, "commit": None, "sha256": folder_sha256(cached.made())}
    assert [change.split(" ")[0] for change in data["changes"]][:2] == ["adapter_model.bin", "pytorch_model.bin"]
    assert typed["hostile"]["status"] == 1
    assert (
        "adapter_model.bin: holds something else than numbers; reading that could run code" in typed["hostile"]["err"]
    )
    assert not {"ran", "never", "biased"} & set(told["left"])
    assert not [name for name in told["left"] if name.startswith(".")]


SELECTION = load_prompt("selection/1", PromptOptions()).sha256


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ("gone", 2, "gone: is no folder here, and no NS/NAME@REVISION on the Hub; SOURCE is one of them"),
        ("their-name/adapter", 2, "SOURCE is one of them"),
        ("here --base gone", 2, "--base is one of them"),
        ("here --base here/file", 2, "is a file, and a base model is a folder"),
        ("here --template-option thinking", 2, "--template-option thinking: is not NAME=VALUE"),
        ("here --template-option a=1 --template-option a=2", 2, "--template-option a: is said twice"),
        ("here --template-option a=False", 2, "would be the text 'False'; write true, false or null"),
        ("here --prompt-option reasoning=none", 2, "next: arm adopt here --kind selection_arm --base here "),
        ("here --prompt selection/1 --prompt-sha256 abc", 1, f"has the hash {SELECTION}, and abc was asked for"),
        ("here --prompt selection/1 --prompt-option window=3", 1, "window is not a prompt option"),
        ("here --prompt selection/7", 2, "did you mean selection/1?"),
        ("here --prompt here/gone.json", 1, "here/gone.json: cannot be read"),
        (f"here --prompt selection/1 --prompt-sha256 {SELECTION}", 1, "here: holds neither an adapter nor a head"),
        ("here --prompt scalar/1", 1, "is a scalar prompt, and a selection_arm is asked with a selection prompt"),
    ],
)
def test_what_it_refuses_before_anything_is_loaded(
    words: str, status: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "file").touch()
    base = "" if "--base" in words else " --base here"
    line = words.replace("here", f"here --kind selection_arm{base}", 1)
    line = line if "--kind" in line else f"{line} --kind selection_arm --base here"
    assert _run(["adopt", *shlex.split(line), "--out", "out", "--max-tokens", "9"]) == status
    told = capsys.readouterr()
    assert said in told.err
    assert told.out == ""
    assert not (tmp_path / "out").exists()


@pytest.mark.slow  # loads nothing that the quick one does not; asks about a build
def test_an_adopted_checkpoint_is_evaluated(tmp_path: Path) -> None:
    dataset = tiny.dataset(tmp_path / "miniwob")
    told = found(tmp_path / "work", "evaluated", cached.made(), dataset)
    adopted, asked, nothing, bare, unknown = told["typed"]
    for done in (adopted, asked, bare):
        assert done["status"] == 0, done["err"]
    prompt = json.loads(adopted["out"])["checkpoint"]["prompt"]
    assert prompt["file"] == "prompts/scalar-1.json"
    (side,) = json.loads(asked["out"])["evaluations"]
    assert side["evaluation"]["items"] == 8
    assert "is not known: a build in a folder: it was adopted from another tool" in side["warnings"][0]
    assert len(told["by_hand"]) == side["evaluation"]["pairs"] == 16
    rows = {row["item_id"]: row["scores"] for row in told["predictions"]}
    for pair, scores in told["by_hand"].items():
        assert apart(rows[pair], scores) < 1e-5
    assert nothing["status"] == 1
    assert "was adopted, and what it was trained on is not known\n  next: --dataset BUILD" in nothing["err"]
    assert "prompt: not known; it can be asked only about pairs that came ready-made" in bare["err"]
    assert unknown["status"] == 1
    assert "16 pairs: other_prompt" in unknown["err"]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    hub = start(tmp_path / "hub")
    yield hub
    assert serve.stop(hub.folder)


@pytest.mark.slow  # the example of the help that needs a hub
def test_from_a_hub_no_pickle_is_fetched_where_safetensors_are(running: Running, tmp_path: Path) -> None:
    client, work = running.client(), tmp_path / "work"
    told = found(
        work, "published", cached.made(), HF_ENDPOINT=str(client.endpoint), HF_TOKEN=str(client.token),
        HF_HUB_OFFLINE="0", HF_HOME=str(work / "home"),
    )  # fmt: skip
    first, old, gone = told["typed"]
    assert first["status"] == 0, first["err"]
    contract, commits = json.loads(first["out"])["checkpoint"], told["commits"]
    assert contract["base"] == {"repo": "their-name/base", "commit": commits["base"], "sha256": None}
    assert contract["processor"]["template_options"] == {"enable_thinking": False}
    wanted = load_prompt("selection/1", PromptOptions(candidate_reasoning=False))
    assert contract["prompt"]["sha256"] == wanted.sha256
    assert told["manifest"]["adopted"]["repo"] == "their-name/adapter"
    assert told["manifest"]["adopted"]["commit"] == commits["adapter"]
    assert told["cached"] == {"adapter": ADAPTER, "old": ["adapter_config.json", "adapter_model.bin"]}
    assert not told["ran"]
    assert old["status"] == 0, old["err"]
    assert "adapter_model.bin was read as numbers only" in old["err"]
    assert old["err"].endswith("next: arm evaluate from-old --dataset BUILD\n")
    assert told["likely"][0] == told["likely"][1]
    assert gone["status"] == 1
    assert "their-name/adapter@v9: cannot be fetched" in gone["err"]
