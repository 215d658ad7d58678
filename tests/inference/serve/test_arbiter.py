"""A model with weights behind `arm serve`, driven by the openai package as it is: what it answers is what the model
picks without a server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from action_reward_models.prompts.replies import parse_selection
from action_reward_models.schemas.images import data_url
from action_reward_models.tests.inference import process
from action_reward_models.tests.inference.made import png
from action_reward_models.tests.inference.serve.test_face import HOSTILE
from action_reward_models.tests.tiny_vlm import cached

PICTURE = data_url(png("red"))
STATE = {"task": "Click the red button."}
QUESTION = {"id": "q1", "state": STATE, "candidates": HOSTILE}


@contextmanager
def serving(*given: str) -> Iterator[dict[str, Any]]:
    env = cached.environment()
    env.pop("USE_TORCH", None)
    code = "import sys; from action_reward_models.tests.inference.serve import arbiter; arbiter.main(*sys.argv[1:])"
    with subprocess.Popen([sys.executable, "-c", code, *given], env=env, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield json.loads(server.stdout.readline())
        finally:
            server.terminate()
            server.wait(30)
    assert server.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["scalar", "selection_arm"])
def test_an_openai_client_gets_what_the_model_picks(tmp_path: Path, kind: str) -> None:
    own = {**QUESTION, "state": {**STATE, "screenshot": PICTURE}}
    content: Any = [
        {"type": "text", "text": json.dumps(QUESTION)},
        {"type": "image_url", "image_url": {"url": PICTURE}},
    ]
    with serving(str(tmp_path / "arm"), str(process.base()), kind, json.dumps(own)) as told:
        picked = told["choice"]
        with (
            openai.OpenAI(base_url=told["url"], api_key="another", max_retries=0) as stranger,
            pytest.raises(openai.AuthenticationError),
        ):
            stranger.models.list()
        with openai.OpenAI(base_url=told["url"], api_key="a-key", max_retries=0) as client:
            [model] = client.models.list()
            made = client.chat.completions.create(model=model.id, messages=[{"role": "user", "content": content}])
    assert made.model_extra is not None
    pick = made.model_extra["pick"]
    if kind == "scalar":  # one score for each, however its text looks
        assert len(pick["scores"]) == len(HOSTILE)
        assert pick.pop("scores") == pytest.approx(picked.pop("scores"), abs=1e-6)
    else:
        assert [sorted(vote["order"]) for vote in pick["votes"]] == [list(range(len(HOSTILE)))]
    assert pick == picked
    text, index = made.choices[0].message.content or "", picked["selected_index"]
    assert parse_selection(text, len(HOSTILE)).selected == (None if index is None else index + 1)
    assert json.loads(text).get("status", "ok") == picked["status"]
