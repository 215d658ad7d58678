"""Checkpoints that open score and answer as their model does, in every batch; whatever is not theirs is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.prompts.options import PromptOptions
from action_reward_models.prompts.render import load_prompt
from action_reward_models.tests.inference import process

MODELS = ("sees", "blind")
ROUNDING = 1e-5  # of float32 over sums in another order; scores are 0.009 apart and more
HASH = r"[0-9a-f]{64}"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What one process found out; see `opened`."""
    return process.run("opened", tmp_path_factory.mktemp("opened"), process.base(), process.base(sees=False))


def apart(one: list[float], other: list[float]) -> float:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("model", MODELS)
def test_a_score_is_the_head_on_the_last_state_whatever_else_is_in_the_batch(found: Any, model: str) -> None:
    scores = found[model]["by_hand"]
    assert len(scores) == {"sees": 15, "blind": 9}[model]
    assert max(scores) - min(scores) > 0.1
    for way in ("together", "few", "alone"):
        assert apart(found[model][way], scores) < ROUNDING, way
    assert apart(found[model]["asked"], scores[3:6]) < ROUNDING


@pytest.mark.parametrize("model", MODELS)
def test_a_reply_is_as_likely_and_the_same_whatever_else_is_in_the_batch(found: Any, model: str) -> None:
    of = found[model]
    assert len(set(of["written_by_hand"])) > 1
    assert of["written_together"] == of["written_alone"] == of["written_by_hand"]
    for way in ("likely_together", "likely_alone"):
        assert of[way] == pytest.approx(of["likely_by_hand"], rel=1e-6)


def test_a_selector_that_learnt_to_reply_selects(found: Any) -> None:
    status, selected = found["knows"]["first"]
    assert status == "ok"
    assert selected in range(1, 6)
    allowed = ["ok"] if selected == 1 else ["out_of_range"]
    assert found["knows"]["many"] == ["ok", *allowed, "ok"]
    assert found["knows"]["cut"] == "truncated"


def test_layouts_of_one_model_score_alike(found: Any) -> None:
    of = found["layouts"]
    assert apart(of["adapter"], of["merged"]) < 1e-5
    assert apart(of["adapter"], of["unpadded"]) < 1e-5  # on a base that does not say what it pads with
    assert apart(of["value_head"], of["without_lora"]) < 1e-5
    assert apart(of["adapter"], of["without_lora"]) > 0.01


def test_in_bfloat16_the_head_and_the_scores_stay_exact(found: Any) -> None:
    of = found["halves"]
    assert of["head_kept"]
    assert of["dtype"] == "torch.bfloat16"
    assert of["scores"] != of["rounded"]


def test_the_scored_token_is_the_line_break_after_the_end_of_the_turn(found: Any) -> None:
    assert len(found["templates"]) == 6
    for case in found["templates"]:
        thinks = case["options"].get("enable_thinking", case["template"] == "think")
        assert case["last"] == ["<|im_end|>", "\n"], case
        assert case["ends"].endswith("<think>\n\n</think>\n\nstop<|im_end|>\n"), case
        assert case["prompt"] == "<|im_start|>assistant\n<think>\n" + ("" if thinks else "\n</think>\n\n"), case
        assert case["reply"] == "stop<|im_end|>", case


def both(key: str) -> str:
    return rf"trained with {re.escape(key)} '{HASH}', and here is '{HASH}'"


REFUSED = {
    "template": both("processor.chat_template_sha256"),
    "tokenizer": r"changed/tokenizer/tokenizer\.json: .*" + both("processor.tokenizer_sha256"),
    "base_tokenizer": r"bases/base_tokenizer/tokenizer\.json: .*" + both("processor.tokenizer_sha256"),
    "prompt": r"prompts/own\.json: .*" + both("prompt.sha256"),
    "prompt_gone": "prompt that it was trained with is missing",
    "prompt_elsewhere": "prompt that it was trained with is missing",
    "pixels": r"trained with processor\.max_pixels 9216, and here is 4096",
    "padding": r"pads with '<\|im_end\|>', too",
    "manifest": r"\$\.checkpoint\.dtype is \"int4\"",
    "unfinished": r"no finished checkpoint: it holds no manifest\.json",
    "kind": "is a scalar, not a selection_arm",
    "architecture": "'LlamaForSequenceClassification', and here is 'Qwen3_5ForSequenceClassification'",
    "head_file_gone": r"value_head\.safetensors: is missing",
    "head_not_in_adapter": r"adapter_model\.safetensors base_model\.model\.score\.weight: the head is missing",
    "head_name": r"v_head\.summary\.weight: the head is missing",
    "head_width": r"has the shape \(1, 64\), and the model needs \(1, 128\)",
    "head_nan": r"v_head\.summary\.weight: holds numbers that are not finite",
    "heads_differ": r"adapter_model\.safetensors .*differs by up to 0\.25 from .*value_head\.safetensors",
    "head_bias": r"v_head\.summary\.bias: is 0\.5",
    "lora_nan": r"gate_proj\.lora_A\.weight: holds numbers that are not finite",
    "lora_lacks": r"lacks .*gate_proj\.lora_A\.weight \(of 1\)",
    "lora_over": r"holds other \(of 1\), for which there is no place",
    "lora_shape": "does not fit the base model: .*size mismatch",
    "no_safetensors": r"adapter_model\.safetensors: is no safetensors file",
    "only_pickle": r"adapter_model\.safetensors: is missing",
    "settings": "does not fit the base model: ",
    "module": r"\$\.megatron_config: asks for a module to be imported",
    "no_lora": r"\$\.peft_type: describes 'PROMPT_TUNING'",
    "task": r"\$\.task_type: is for CAUSAL_LM, and a scalar is SEQ_CLS",
    "blind_base": "does not fit the base model: it lacks .* and holds ",
    "other_base": both("base.sha256") + ".*next: name the folder that it was trained on",
    "base_pickle": "holds no weights in safetensors",
    "base_lacks": r"lacks weights of Qwen3_5ForSequenceClassification: model\.language_model\.norm\.weight",
    "code": r"\$\.model_type: is 'own'.* never run",
    "code_tokenizer": "no tokenizer that can be read: it needs code that comes with it, which is never run",
    "ran": r"\AFalse\Z",
    "no_picture": "has 1 places for pictures, and 0 pictures",
    "two_pictures": "has 1 places for pictures, and 2 pictures",
    "bomb": "60000 x 60000 = 3600000000 pixels, at most",
    "long": r"conversation 0 has 3,\d\d\d tokens, and this checkpoint takes 2,048",
    "other_end": r"conversation 1 ends in '<\|im_end\|>', and the score is read at '\\n'",
    "score_nan": "the score of conversation 0 is nan",
    "sees_nothing": "shows pictures, and the model takes none",
    "merged_without_head": r"lacks weights of .*: score\.weight",
}


def test_every_change_is_tried(found: Any) -> None:
    assert set(found["refused"]) == set(REFUSED)


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_the_checkpoints_own_is_refused(found: Any, case: str) -> None:
    told = found["refused"][case]
    assert re.search(REFUSED[case], told, re.DOTALL), told
    if hashes := re.findall(HASH, told):
        assert len(set(hashes)) == 2, told


ADOPTED = ("trl", "trl_torch", "dropped", "whole")
LEFT = {
    "biased": r"v_head\.pt bias: is 0\.5: .*next: --drop-bias",
    "wide": r"v_head\.pt weight: has the shape \(1, 64\)",
    "other": "is no head: it holds bias, scale, weight",
    "list": "is no table of tensors",
    "none": "holds no head",
    "pickle": "could run code, so it is not read",
    "old_pickle": "could run code, so it is not read",
    "two": r"holds heads that differ: value_head\.safetensors, v_head\.pt",
}


def test_checkpoints_of_other_tools_score_as_they_did(found: Any) -> None:
    for name in ADOPTED:
        case = found["adopted"][name]
        assert apart(case["scores"], found["layouts"]["adapter"]) < 1e-5, name
        assert not case["paths"], name
        assert {"manifest.json", "value_head.safetensors", "adapter_model.safetensors"} <= set(case["kept"]), name
        assert not [kept for kept in case["kept"] if Path(kept).suffix in (".bin", ".pt", ".py")], name
        assert any("bias of 0.5" in told for told in case["told"]) == (name == "dropped")
    assert apart(found["adopted"]["alone"]["scores"], found["layouts"]["value_head"]) < 1e-5
    assert "is there already" in found["adopted"]["again"]
    assert "a scalar is asked with a scalar prompt" in found["adopted"]["other_prompt"]["refused"]


def test_a_selector_is_adopted_with_the_prompt_that_is_known(found: Any) -> None:
    case, prompt = found["adopted"]["selects"], load_prompt("selection/1", PromptOptions())
    assert case["prompt"] == {"id": "selection/1", "sha256": prompt.sha256, "file": "prompts/selection-1.json"}
    assert case["likely"][0] == case["likely"][1]


@pytest.mark.parametrize("case", LEFT)
def test_what_is_not_adopted_leaves_nothing(found: Any, case: str) -> None:
    told = found["adopted"][case]
    assert re.search(LEFT[case], told["refused"], re.DOTALL), told
    assert not told["left"]
    assert not found["adopted"]["ran"]


def test_every_checkpoint_of_others_is_tried(found: Any) -> None:
    assert set(found["adopted"]) == {*ADOPTED, *LEFT, "halved", "selects", "alone", "again", "other_prompt", "ran"}
