"""What TRL's trainers learn of our rows: losses by hand, the scored token, ways to the same weights.

All of it is found in one process (`tiny_training`), because torch and the trainers take seconds to import.
"""

from __future__ import annotations

import re
from typing import Any

import orjson
import pytest
from action_reward_models.tests import processes
from action_reward_models.tests.recipes import tiny
from action_reward_models.tests.tiny_vlm import cached

Facts = dict[str, Any]
SCRIPT = "action_reward_models.tests.recipes.tiny_training"


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    built = tiny.dataset(tmp_path_factory.mktemp("registry"), scored=True)
    folder = tmp_path_factory.mktemp("training")
    cached.made()
    done = processes.torch(SCRIPT, built, folder)
    assert done.returncode == 0, done.stderr[-3000:]
    found: Facts = orjson.loads((folder / "facts.json").read_bytes())
    return found


def test_bradley_terry_is_the_loss_of_the_rows_of_the_table(facts: Facts) -> None:
    """Of five batches; the scores are those of each conversation alone, and the formula is in floats."""
    assert len({round(loss, 3) for loss, _ in facts["bt"]["pairs"]}) == 5
    for loss, by_hand in facts["bt"]["pairs"]:
        assert loss == pytest.approx(by_hand, abs=1e-5)


@pytest.mark.parametrize("loss", ["soft_bt", "listwise", "pointwise"])
def test_other_losses_are_what_the_recipe_says(facts: Facts, loss: str) -> None:
    mine, by_hand = facts["losses"][loss]["pair"]
    assert mine == pytest.approx(by_hand, abs=1e-5)


def test_a_list_holds_all_rejected_candidates_of_a_chosen_one(facts: Facts) -> None:
    found = facts["losses"]["listwise"]
    assert found["units"] < found["used"] == facts["losses"]["soft_bt"]["units"]
    assert sum(size - 1 for size in found["sizes"]) == found["used"]
    assert max(found["sizes"]) > 2


def test_a_list_of_one_has_no_loss(facts: Facts) -> None:
    mine, by_hand = facts["listwise"]
    assert mine == pytest.approx(by_hand, abs=1e-6)


def test_the_score_is_read_at_the_last_token_whatever_is_padded(facts: Facts) -> None:
    assert facts["bt"]["scored"] < 1e-4  # of scores around 8


@pytest.mark.parametrize(
    ("template", "before_reply"),
    [
        ("think", "<|im_start|>assistant\n<think>\n"),
        ("think_off", "<|im_start|>assistant\n<think>\n\n</think>\n\n"),
        ("nothink", "<|im_start|>assistant\n<think>\n\n</think>\n\n"),
    ],
)
def test_what_is_scored_and_learned_under_a_template(facts: Facts, template: str, before_reply: str) -> None:
    found = facts["templates"][template]
    assert found["scored"] == "<|im_end|>\n"  # the line break is the scored token
    assert before_reply.endswith(found["prompt"][-40:]) or found["prompt"].endswith(before_reply)
    assert found["learned"] == [f"{reply}<|im_end|>" for reply in found["said"]]
    assert all(reply.startswith('{"selection": ') for reply in found["said"])


def test_gradient_checkpointing_computes_again_and_changes_nothing(facts: Facts) -> None:
    found = facts["ways"]["checkpointing"]
    kept, spared = found["forwards"]
    assert spared == 2 * kept > 0
    assert found["losses"][0] == pytest.approx(found["losses"][1], rel=1e-6)
    assert found["norms"][0] == pytest.approx(found["norms"][1], rel=1e-5)
    assert len(found["norms"][0]) == 2
    assert found["apart"] < 1e-6


def test_a_stopped_training_goes_on_to_the_same_weights(facts: Facts) -> None:
    found = facts["ways"]["resumed"]
    assert found["told"] == "training stopped after 1 of 4 steps; the same command goes on from there"
    assert found["steps"] == [1, 2, 3, 4]  # none when it was stopped after the last one
    assert found["apart"] == [0, 0]


def test_a_checkpoint_is_trained_further_as_if_training_had_not_ended(facts: Facts) -> None:
    found = facts["ways"]["further"]
    assert found["moved"] > 1e-4
    assert found["apart"] == 0


def test_vision_is_frozen_or_trained_as_declared(facts: Facts) -> None:
    found = facts["vision"]
    assert found["frozen"] == []
    assert any(".merger." in name for name in found["trained"])
    assert any(".blocks." in name for name in found["trained"])


def test_a_checkpoint_holds_what_is_needed_and_nothing_of_this_machine(facts: Facts) -> None:
    found = facts["ways"]
    assert found["files"] == [
        "adapter_config.json", "adapter_model.safetensors", "chat_template.jinja", "manifest.json",
        "preprocessor_config.json", "prompts/scalar-1.json", "tokenizer.json", "tokenizer_config.json",
        "training/log.jsonl", "value_head.safetensors",
    ]  # fmt: skip
    assert found["adapter"]["base_model_name_or_path"] is None
    assert found["adapter"]["task_type"] == "SEQ_CLS"
    assert "base_model.model.score.weight" in found["parts"]
    assert not [name for name in found["parts"] if "visual" in name]


def test_rows_of_a_small_split_are_all_used(facts: Facts) -> None:
    found = facts["selection"]
    assert (found["rows"], found["used"], found["unusable"]) == (8, 8, {})
    assert found["prompt"]["file"] == "prompts/selection-1.json"


def test_the_recipe_decides_the_precision_not_the_launcher(facts: Facts) -> None:
    assert facts["precision"] == ["no", "bf16"]


REFUSED: dict[str, str] = {
    "diverged": "training diverged: after 3 steps weights or losses are no numbers",
    "owned": r"\$\.trainer\.output_dir cannot be given: the work folder of training decides it",
    "unknown": r"recipe\.yaml:1 \$\.trainer\.learning_speed is no argument of trl\.RewardConfig",
    "lora owned": r"\$\.lora\.modules_to_save cannot be given",
    "lora unknown": r"\$\.lora\.rank is no argument of peft\.LoraConfig",
    "other base": r"\$\.lora\.init_lora_weights 'pissa' changes the weights of the base",
    "no target": "lora: No modules were targeted",
    "no vision": "vision is to be trained, and LoRA reaches nothing of it",
    "centred list": "center_rewards_coefficient is for the losses bt and soft_bt",
    "own split": r"\$\.evaluation\.split is validation, which is trained on",
    "other start": "was trained with processor.template_options {'enable_thinking': False}, and this recipe has {}",
}


@pytest.mark.parametrize("case", REFUSED)
def test_training_says_no(facts: Facts, case: str) -> None:
    assert re.search(REFUSED[case].replace("{", r"\{"), facts["refused"][case])
    assert facts["refused"].keys() == REFUSED.keys()
