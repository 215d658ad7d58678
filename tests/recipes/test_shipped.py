"""The recipes that come along say what they are, how they are run, and what every number in them counts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from action_reward_models.recipes.recipe import read

RECIPES = Path(__file__).parents[2] / "recipes"
SHIPPED = sorted([*RECIPES.glob("*.yaml"), *RECIPES.glob("tiny/*.yaml")])
NAMES = [path.relative_to(RECIPES).as_posix() for path in SHIPPED]


def test_these_are_shipped() -> None:
    assert NAMES == [
        "scalar_bt_lora.yaml", "scalar_bt_qkvo.yaml", "selection_arm_lora.yaml", "tiny/scalar_bt_further.yaml",
        "tiny/scalar_bt_lora.yaml", "tiny/selection_arm_lora.yaml",
    ]  # fmt: skip
    guide = (RECIPES / "README.md").read_text()
    assert [name for name in NAMES if name not in guide] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_says_how_it_is_run(name: str) -> None:
    text = (RECIPES / name).read_text()
    commands = re.findall(r"^#   (arm train \S+)", text, re.M)
    assert commands[0] == f"arm train recipes/{name}"


@pytest.mark.parametrize("name", NAMES)
def test_every_number_says_what_it_counts(name: str) -> None:
    """`recipe: 1` and the seed count nothing, and k and the head's bias are the loss's own words."""
    bare = [
        line for line in (RECIPES / name).read_text().splitlines()
        if re.search(r": -?[\d.]", line.partition("#")[0]) and "#" not in line
    ]  # fmt: skip
    assert [line.partition(":")[0] for line in bare] == ["recipe", "seed"]


def test_their_settings_are_those_of_the_published_models() -> None:
    arm, scalar, qkvo = (
        read(RECIPES / f"{n}.yaml") for n in ("selection_arm_lora", "scalar_bt_lora", "scalar_bt_qkvo")
    )
    for recipe, rank, rate, epochs, batch in (
        (arm, 32, 1e-4, 2, 16),
        (scalar, 32, 5e-5, 1, 16),
        (qkvo, 16, 1e-4, 2, 16),
    ):
        assert recipe.lora is not None
        assert (recipe.lora["r"], recipe.lora["lora_alpha"], recipe.lora["lora_dropout"]) == (rank, 2 * rank, 0.05)
        trainer = recipe.trainer
        assert (trainer["learning_rate"], trainer["num_train_epochs"]) == (rate, epochs)
        assert trainer["per_device_train_batch_size"] * trainer["gradient_accumulation_steps"] == batch
        assert (trainer["lr_scheduler_type"], trainer["warmup_steps"]) == ("cosine", 0.05)
        assert (recipe.limits.max_tokens, recipe.limits.max_pixels) == (8192, 262144)
        assert (recipe.dtype, recipe.vision) == ("bfloat16", "frozen")
    assert (arm.trainer["per_device_train_batch_size"], qkvo.trainer["per_device_train_batch_size"]) == (2, 1)
    assert (qkvo.loss, qkvo.k, qkvo.head_std) == ("soft_bt", 6, 0.001)
    assert qkvo.trainer["center_rewards_coefficient"] == 0.001


@pytest.mark.parametrize("name", ["selection_arm_lora", "scalar_bt_lora"])
def test_a_twin_differs_in_size_alone(name: str) -> None:
    """The same keys, but for how long and how often; so what the twin runs is what the large one runs."""
    large, small = (yaml.safe_load((RECIPES / place / f"{name}.yaml").read_text()) for place in (".", "tiny"))
    extra = {"template_options"}  # the tiny base has no thinking to switch off
    assert set(large) - extra == set(small)
    assert set(large["lora"]) == set(small["lora"])
    assert set(large["trainer"]) - set(small["trainer"]) == {"num_train_epochs", "gradient_checkpointing"}
    assert set(small["trainer"]) - set(large["trainer"]) == {"max_steps"}
    assert (large["lora"], large["kind"], large.get("objective")) == (
        small["lora"],
        small["kind"],
        small.get("objective"),
    )


def test_the_guide_links_to_what_is_there() -> None:
    links = re.findall(r"\]\(([^)#\s]+)\)", (RECIPES / "README.md").read_text())
    assert len(links) >= 12
    assert [link for link in links if not (RECIPES / link).exists()] == []
