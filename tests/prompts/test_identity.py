"""Hashes: they change with everything a model sees, and with nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest
from action_reward_models.prompts import render
from action_reward_models.prompts.options import PromptOptions
from action_reward_models.prompts.render import load_prompt, rendered_sha256
from action_reward_models.prompts.template import Template, builtin
from action_reward_models.schemas.errors import ArmError

Row = dict[str, Any]


def test_every_option_changes_the_hash() -> None:
    variants: list[Row] = [
        {}, {"history_window": 7}, {"candidate_reasoning": False}, {"element_labels": True},
        {"coordinate_space": "pixel"}, {"coordinate_space": "norm1000"}, {"reasoning": "before"},
        {"observation": "text"},
    ]  # fmt: skip
    assert {key for variant in variants for key in variant} == set(PromptOptions().to_json())
    assert len({load_prompt("selection/1", PromptOptions(**v)).sha256 for v in variants}) == len(variants)


def test_template_and_renderer_change_the_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    template, options = builtin("selection/1"), PromptOptions()
    hashes = {load_prompt("selection/1", options).sha256, load_prompt("scalar/1", options).sha256}
    others = [replace(template, system="s"), replace(template, user=template.user + "\n")]
    others += [replace(template, fragments={**template.fragments, k: v + " "}) for k, v in template.fragments.items()]
    hashes |= {render._prompt("x", other, options).sha256 for other in others}
    monkeypatch.setattr(render, "RENDERER_VERSION", 2)
    hashes.add(load_prompt("selection/1", options).sha256)
    assert len(hashes) == 2 + len(others) + 1


def test_the_hash_does_not_depend_on_key_order_or_name() -> None:
    template = builtin("selection/1")
    turned = Template("selection", template.system, template.user, dict(reversed(list(template.fragments.items()))))
    assert render._prompt("other", turned, PromptOptions()).sha256 == load_prompt("selection/1", PromptOptions()).sha256


def test_the_hashes_of_the_builtin_prompts_are_pinned() -> None:
    """Published data and checkpoints carry these: a change to a template is a new file, ``selection-2.yaml``."""
    pinned = {
        "selection/1": "20aec18d236f36ebd43b372d1d1f719d9fa15283393cf0b8e62a34f418744c79",
        "scalar/1": "8c9adb32335bda51878752a92febc34de1bcbc5d0e6c9c14b9f0fb1e0976639d",
        "trajectory/1": "2082335f4736f0f0f5042b0578e62122e1562fafc78d8c0e2234e40bd6240287",
    }
    assert {name: load_prompt(name, PromptOptions()).sha256 for name in pinned} == pinned


def test_a_prompt_as_json_holds_what_is_hashed() -> None:
    data = load_prompt("selection/1", PromptOptions()).to_json()
    assert sorted(data) == ["id", "options", "renderer", "sha256", "template"]
    assert orjson.loads(orjson.dumps(data)) == data


def test_rendered_identity(state: Row, candidates: list[Row]) -> None:
    prompt = load_prompt("selection/1", PromptOptions())
    view = prompt.state(state, "function", "pixel")
    messages, images = prompt.selection(view, candidates, [0, 1])
    same = [dict(reversed(message.items())) for message in messages]
    assert rendered_sha256(same, images) == rendered_sha256(messages, images)
    assert rendered_sha256(messages, ["0" * 64]) != rendered_sha256(messages, images)
    turned = prompt.selection(view, candidates, [1, 0])
    assert rendered_sha256(*turned) != rendered_sha256(messages, images)
    with pytest.raises(ArmError, match="1 image blocks and 0 pictures"):
        rendered_sha256(messages, [])
    messages[0]["content"][0]["text"] += "\ud800"
    with pytest.raises(ArmError, match="cannot be hashed"):
        rendered_sha256(messages, images)
