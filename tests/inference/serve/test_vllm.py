"""vLLM's commands: exact, one for each form of a checkpoint; and the requests that a scalar model is sent."""

from __future__ import annotations

import base64
import io
import json
import re
import shlex
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from action_reward_models.inference.request import read
from action_reward_models.inference.serve import vllm
from action_reward_models.inference.serve.vllm import PINS, Place, classify, example, plan, score_of
from action_reward_models.schemas.errors import ArmError, UsageError
from action_reward_models.tests.inference import asked
from packaging.specifiers import SpecifierSet
from safetensors.numpy import save_file

COMMIT = "c" * 40
PAGE = Path(vllm.__file__).parents[2] / "docs" / "serving.md"
OPTIONS = {"enable_thinking": False}
LORA = "base_model.model.model.language_model.layers.0.mlp.down_proj.lora_A.weight"


def contract(kind: str, layout: str, **more: Any) -> dict[str, Any]:
    processor = {
        "min_pixels": 1024, "max_pixels": 9216, "max_tokens": 2048, "template_options": {}, **more.pop("processor", {}),
    }  # fmt: skip
    base = {"repo": "lab/base", "commit": COMMIT, "sha256": None}
    return {**asked.contract(kind), "layout": layout, "dtype": "bfloat16", "base": base, "processor": processor, **more}


def adapter(folder: Path, *, names: tuple[str, ...] = (LORA,), **config: Any) -> Path:
    folder.mkdir()
    said = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 32, "target_modules": ["down_proj"], **config}
    (folder / "adapter_config.json").write_text(json.dumps(said))
    save_file({name: np.zeros(1, np.float32) for name in names}, folder / "adapter_model.safetensors")
    (folder / "chat_template.jinja").write_text("x")
    return folder


def served(folder: Path, said: Mapping[str, Any], **more: Any) -> str:
    return plan(folder, said, Place("arm"), **more).steps[-1].command


SEEN = (
    "--dtype bfloat16 --max-model-len {length} --chat-template {folder}/chat_template.jinja "
    '--chat-template-content-format openai --limit-mm-per-prompt \'{{"image":1,"video":0}}\' --mm-processor-kwargs '
    '\'{{"max_pixels":9216,"min_pixels":1024}}\''
)


def test_a_whole_scalar_model(tmp_path: Path) -> None:
    folder = adapter(tmp_path / "my-arm")
    assert served(folder, contract("scalar", "merged")) == (
        f"vllm serve {folder} --served-model-name arm --host 127.0.0.1 --port 8000 "
        f"{SEEN.format(length=2048, folder=folder)} --runner pooling --convert classify"
    )


def test_an_arm_as_lora_on_its_base(tmp_path: Path) -> None:
    folder = adapter(tmp_path / "my-arm", rank_pattern={"q_proj": 48})
    assert served(folder, contract("selection_arm", "adapter")) == (
        f"vllm serve lab/base --revision {COMMIT} --tokenizer-revision {COMMIT} --served-model-name arm-base "
        "--host 127.0.0.1 --port 8000 --enable-lora --max-lora-rank 64 "
        f"--lora-modules arm={folder} {SEEN.format(length=2048 + 256, folder=folder)} --generation-config vllm"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"use_dora": True}, {"r": 600}, {"modules_to_save": ["lm_head"]}, {"bias": "all"},
        {"names": (LORA, "base_model.model.model.visual.blocks.0.mlp.linear_fc1.lora_A.weight")},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_what_vllm_takes_as_no_lora_is_merged_first(tmp_path: Path, change: dict[str, Any]) -> None:
    folder = adapter(tmp_path / "my-arm", **change)
    made = plan(folder, contract("selection_arm", "adapter"), Place("arm"), base=Path("base"))
    assert made.steps[-3].command == f"arm merge {folder} --out {folder}-merged --base base"
    assert made.steps[-1].command.startswith(f"vllm serve {folder}-merged --served-model-name arm ")
    assert f"--chat-template {folder}-merged/chat_template.jinja" in made.steps[-1].command


def test_a_published_scalar_adapter_is_pulled_merged_looked_at_and_served(tmp_path: Path) -> None:
    folder = adapter(tmp_path / "3f2a")
    made = plan(folder, contract("scalar", "adapter"), Place("rm", "0.0.0.0", 80), pulled="lab/my-rm@v1.0.0")
    assert [step.command for step in made.steps[:-1]] == [
        "python3 -m venv vllm-env",
        "vllm-env/bin/pip install vllm==0.33.0 'transformers>=5.16.1,<5.21'",
        'export PATH="$PWD/vllm-env/bin:$PATH"',
        "arm pull lab/my-rm@v1.0.0",
        "arm merge my-rm --out my-rm-merged",
        "arm serve my-rm-merged --host 0.0.0.0 --port 80 --preflight",
    ]
    words = shlex.split(made.steps[-1].command)
    assert words[:9] == ["vllm", "serve", "my-rm-merged", "--served-model-name", "rm", "--host", "0.0.0.0",
                         "--port", "80"]  # fmt: skip
    assert str(tmp_path) not in json.dumps(made.to_json(None))


def test_words_that_stand_for_the_contract_only_where_there_is_something_to_say(tmp_path: Path) -> None:
    folder = adapter(tmp_path / "my-arm")
    blind = {"min_pixels": None, "max_pixels": None, "template_options": OPTIONS}
    said = served(folder, contract("selection_arm", "merged", processor=blind))
    assert "content-format" not in said  # a template such as Qwen3's shows nothing of a list
    assert "--default-chat-template-kwargs '{\"enable_thinking\":false}'" in said
    # There it would change what /tokenize says, and not what /classify scores.
    assert "enable_thinking" not in served(folder, contract("scalar", "merged", processor=blind))
    assert "--limit-mm" not in said
    assert "--mm-" not in said
    (folder / "chat_template.jinja").unlink()
    assert "--chat-template " not in served(folder, contract("scalar", "merged"))


def test_what_cannot_be_served_is_refused(tmp_path: Path) -> None:
    folder = adapter(tmp_path / "my-arm")
    with pytest.raises(ArmError, match="is a value_head, and vLLM takes a whole model"):
        plan(folder, contract("scalar", "value_head"), Place("arm"))
    nowhere = contract("selection_arm", "adapter", base={"repo": None, "commit": None, "sha256": "0" * 64})
    with pytest.raises(UsageError, match="its base model was a folder") as caught:
        plan(folder, nowhere, Place("arm"))
    assert caught.value.next_command == f"arm serve {folder} --base FOLDER --print-vllm"
    assert served(folder, nowhere, base=Path("b")).startswith("vllm serve b --served-model-name arm-base ")


def test_a_checkpoint_is_served_by_what_it_was_trained_with() -> None:
    assert SpecifierSet(PINS["transformers"]).contains(metadata.version("transformers"))
    constraints = (Path(vllm.__file__).parents[2] / "constraints.txt").read_text("utf-8")
    (pinned,) = re.findall(r"^transformers==(\S+)$", constraints, re.MULTILINE)
    assert SpecifierSet(PINS["transformers"]).contains(pinned)


def test_each_candidate_is_the_last_turn_and_nothing_follows() -> None:
    said = contract("scalar", "merged", processor={"template_options": OPTIONS})
    request = read(asked.asked(dialect="function", space="pixel"))
    prompt = asked.prompt("scalar")
    bodies = vllm.asked(request, prompt, said, "arm")
    assert len(bodies) == 4
    for body, candidate in zip(bodies, request.set_row["candidates"], strict=True):
        assert body["messages"][-1]["role"] == "assistant"
        assert candidate["action"] in body["messages"][-1]["content"]
        assert {key: body[key] for key in body if key != "messages"} == {
            "model": "arm", "add_generation_prompt": False, "chat_template_kwargs": OPTIONS, "use_activation": False,
        }  # fmt: skip
        assert body["messages"][:-1] == bodies[0]["messages"][:-1]
    (picture,) = [block for turn in bodies[0]["messages"] for block in turn["content"] if isinstance(block, dict)
                  and block["type"] == "image_url"]  # fmt: skip
    assert base64.b64decode(picture["image_url"]["url"].partition(",")[2]) == asked.png()


def test_an_example_needs_nothing_of_the_reader() -> None:
    for prompt in (asked.prompt("scalar"), asked.prompt("scalar", observation="text")):
        body = example(prompt, contract("scalar", "merged"), "arm")
        assert body["messages"][-1]["content"].endswith("click(20, 20)")
        assert json.loads(json.dumps(body)) == body


def test_the_score_is_the_one_number_of_an_answer() -> None:
    assert score_of({"data": [{"probs": [-3.5], "num_classes": 1}]}) == -3.5
    answers: list[Any] = [{}, {"data": []}, {"data": [{"probs": [0.1, 0.9]}]}, {"data": [{"probs": ["x"]}]}, []]
    for answer in answers:
        with pytest.raises(ArmError, match="was answered without one score"):
            score_of(answer)


def test_pictures_stand_where_the_conversation_has_their_places() -> None:
    turn = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "x"}, {"type": "image"}]}
    (made,) = classify([turn], [asked.png(shade=1), asked.png(shade=2)], contract("scalar", "merged"), "m")["messages"]
    assert [block["type"] for block in made["content"]] == ["image_url", "text", "image_url"]
    assert made["content"][0] != made["content"][2]


def test_the_page_asks_for_every_candidate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "my-rm-merged"
    prompt = asked.prompt("scalar").to_json()
    hexes = dict.fromkeys(("tokenizer_sha256", "chat_template_sha256"), "0" * 64)
    said = contract("scalar", "merged", processor={**hexes, "template_options": {}}, architecture="x",
                    head={"file": None, "scored_token_id": 1, "scored_token": "x"})  # fmt: skip
    (folder / "prompts").mkdir(parents=True)
    (folder / "prompts" / "own.json").write_text(json.dumps(prompt))
    (folder / "manifest.json").write_text(json.dumps({"checkpoint": said}))
    (tmp_path / "page.png").write_bytes(asked.png())
    calls: list[Any] = []

    def answer(call: Any) -> io.BytesIO:
        calls.append(call)
        return io.BytesIO(json.dumps({"data": [{"probs": [len(calls) / 2]}]}).encode())

    (snippet,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.S | re.M)
    printed: list[Any] = []
    monkeypatch.setattr("urllib.request.urlopen", answer)
    monkeypatch.chdir(tmp_path)
    exec(compile(snippet, str(PAGE), "exec"), {"print": printed.append})
    assert printed == [[0.5, 1.0]]
    assert {call.full_url for call in calls} == {f"http://127.0.0.1:8000{vllm.CLASSIFY}"}
    assert [json.loads(call.data)["messages"][-1]["role"] for call in calls] == ["assistant"] * 2
