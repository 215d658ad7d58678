"""Every case of tests/examples through both validators, with the exact messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.schemas import store, validate
from action_reward_models.schemas.validate import for_schema
from jsonschema import Draft202012Validator

EXAMPLES = Path(__file__).parents[1] / "examples"
GOOD = sorted(EXAMPLES.glob("*/good/*.json"))
BAD = sorted(EXAMPLES.glob("*/bad/*.json"))


def name_of(case: Path) -> str:
    return f"{case.parents[1].name}/1"


def label(case: Path) -> str:
    return f"{case.parents[1].name}-{case.stem}"


def second_opinion(name: str, record: Any) -> list[tuple[str, str]]:
    """What the plain Python validator finds, in the same words."""
    errors = Draft202012Validator(store.load(name)).iter_errors(record)
    return validate.collect((str(e.validator), e.schema, e.instance, list(e.absolute_path)) for e in errors)


def test_the_folders_are_the_schemas_and_none_is_empty() -> None:
    expected = {name.partition("/")[0] for name in store.names()} - {
        "registry",
        "endpoints",
        "manifest",
        "prompt_template",
        "recipe",
        "model_manifest",
        "lock",
        "plan",
        "pick_request",
    }  # whole files and requests
    assert {folder.name for folder in EXAMPLES.iterdir()} == expected
    for folder in EXAMPLES.iterdir():
        assert {kind.name for kind in folder.iterdir()} == {"good", "bad"}
        assert all(any(kind.iterdir()) for kind in folder.iterdir())
    assert len(GOOD) == 79
    assert len(BAD) == 256
    assert len(GOOD) + len(BAD) == sum(path.is_file() for path in EXAMPLES.rglob("*"))


@pytest.mark.parametrize("case", GOOD, ids=label)
def test_good(case: Path) -> None:
    record = json.loads(case.read_text("utf-8"))
    assert for_schema(name_of(case)).is_valid(record)
    assert for_schema(name_of(case)).problems(record) == second_opinion(name_of(case), record) == []


@pytest.mark.parametrize("case", BAD, ids=label)
def test_bad(case: Path) -> None:
    content = json.loads(case.read_text("utf-8"))
    assert set(content) == {"record", "issues"}
    problems = for_schema(name_of(case)).problems(content["record"])
    assert [f"{path} {message}" for path, message in problems] == content["issues"]
    assert second_opinion(name_of(case), content["record"]) == problems
    assert not for_schema(name_of(case)).is_valid(content["record"])
    assert all(len(line) < 400 for line in content["issues"])  # a screenshot in a message helps nobody
