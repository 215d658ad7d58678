"""Scores of a scalar model behind vLLM beside our own. For a server that somebody runs:

    python -m action_reward_models.tests.inference.pooled build/pooled text
    arm serve build/pooled/merged --print-vllm      # the commands; without a GPU see docs/serving.md
    ARM_TEST_POOLING_URL=http://127.0.0.1:8000 python -m pytest -rP tests/inference/test_pooling_server.py

Any scalar model that `arm merge` wrote will do: the server says which folder it serves.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from action_reward_models.tests.inference import process

URL = os.environ.get("ARM_TEST_POOLING_URL", "").rstrip("/").removesuffix("/v1")
EXACT = 1e-5  # of weights in float32
NOISE = 3.0  # times what our own scores change by in bfloat16
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not URL, reason="ARM_TEST_POOLING_URL names no vLLM with a scalar model; `arm serve --print-vllm` starts one"
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    with urlopen(f"{URL}/v1/models", timeout=60) as response:
        (served,) = json.loads(response.read())["data"]
    assert Path(served["root"]).is_dir(), f"{served['root']} is not on this machine"
    told: dict[str, Any] = process.run("pooled", served["root"], URL, served["id"])
    return told


def apart(found: dict[str, Any], name: str) -> float:
    return max(abs(float(one) - float(other)) for one, other in zip(found["ours"], found[name], strict=True))


def test_the_server_sees_the_tokens_of_training(found: dict[str, Any]) -> None:
    assert len(found["ids"]) == 12
    assert all(found["ids"])


def test_its_scores_are_ours_within_the_noise_of_its_numbers(found: dict[str, Any]) -> None:
    spread = max(found["ours"]) - min(found["ours"])
    theirs, rough = apart(found, "theirs"), apart(found, "rough")
    print(f"vLLM {theirs:.2g}, ours in bfloat16 {rough:.2g}, spread of the scores {spread:.2g}")
    assert spread > 10 * rough, "scores that are all alike compare nothing"
    assert theirs <= max(EXACT, NOISE * rough)


def test_scores_are_raw_whether_or_not_the_request_says_so(found: dict[str, Any]) -> None:
    assert apart(found, "plain") == apart(found, "theirs")
    assert min(found["plain"]) < 0 or max(found["plain"]) > 1, "a sigmoid would lie between"


def test_an_open_turn_after_the_candidate_is_scored_elsewhere(found: dict[str, Any]) -> None:
    assert apart(found, "open") > 3 * apart(found, "theirs")
