"""What a prompt shows of an action, in every dialect: its points moved to one scale, everything else as it was."""

from pathlib import Path

import pytest
import yaml
from action_reward_models.prompts.view import Space
from action_reward_models.schemas.actions import DIALECTS, convert, identity, parse

CASES = Path(__file__).parents[1] / "schemas" / "actions" / "field.yaml"
READABLE = [
    (group["dialect"], case["response"])
    for group in yaml.safe_load(CASES.read_text(encoding="utf-8"))
    for case in group["cases"]
    if "calls" in case
]


def test_the_table_is_whole() -> None:
    assert len(READABLE) > 90


@pytest.mark.parametrize("target", ["pixel", "norm1000"])
@pytest.mark.parametrize(("dialect", "response"), READABLE)
def test_candidates_and_earlier_steps_are_shown_alike(dialect: str, response: str, target: str) -> None:
    parsed = parse(dialect, response)
    source = "norm1000" if target == "pixel" else "pixel"
    space = Space(dialect, source, target, 1280, 720)
    shown = space.shown_candidate({"action": parsed.action, "parse_error": None, "action_json": parsed.json})

    assert shown == space.shown(parsed.calls)
    if "```" not in parsed.action:
        assert space.shown_step(parsed.action) == shown
    texts = DIALECTS[dialect].texts or DIALECTS[dialect]
    back = convert(texts.parse(shown).calls, target, source, 1280, 720)
    assert [call.verb for call in back] == [call.verb for call in parsed.calls]
    if not any(type(value) is tuple for call in parsed.calls for value in call.arguments.values()):
        assert identity(texts.parse(shown).calls) == identity(parsed.calls)


def test_percentages_are_shown_as_the_prompt_says_points_are_given() -> None:
    parsed = parse("molmoweb_json", '{"action": {"name": "click", "x": 45.3, "y": 20}}')
    assert parsed.action == "click(453, 200)"
    assert Space("molmoweb_json", "norm1000", "pixel", 1280, 720).shown(parsed.calls) == "click(579.8, 144)"
