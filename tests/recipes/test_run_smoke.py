"""Recipes that are not those of the quick tests, trained for two steps and loaded again in another process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from action_reward_models.tests.recipes import tiny
from action_reward_models.tests.tiny_vlm import cached

pytestmark = pytest.mark.slow

CODE = """
import shutil
import sys
from pathlib import Path
import orjson
from action_reward_models.recipes import run
from action_reward_models.tests.inference import families
from action_reward_models.tests.recipes import tiny
from action_reward_models.tests.tiny_vlm import cached

built, work, kind, changes = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], orjson.loads(sys.argv[4])
base = families.base(work / "base", changes.pop("family", "hybrid"), cached.made(), cached.made())
given = tiny.inputs(built, kind, base=base, split="validation", **changes)
made = run.make(given, work / "work", work / "out", smoke=2)
shutil.rmtree(work / "base", ignore_errors=True)
print(orjson.dumps(made).decode())
"""

EPOCHS = {"num_train_epochs": 0.2, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "scalar in bfloat16": ("scalar", {"dtype": "bfloat16", "head_std": 1.0}),
    "selection in bfloat16": ("selection_arm", {"dtype": "bfloat16", "template_options": {"enable_thinking": False}}),
    "vision and lists": ("scalar", {"objective": {"loss": "listwise"}, "vision": "trained", "trainer": EPOCHS}),
    "workers and no checkpointing": (
        "selection_arm", {"trainer": {**EPOCHS, "dataloader_num_workers": 2, "gradient_checkpointing": False}}
    ),
    "a family whose class is ours": ("scalar", {"family": "qwen3_vl"}),
    "dora": ("scalar", {"lora": {"r": 2, "target_modules": ["q_proj", "v_proj"], "use_dora": True}}),
}  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cached.made()
    return tiny.dataset(tmp_path_factory.mktemp("registry"), scored=True)


@pytest.mark.parametrize("case", CASES)
def test_it_trains_and_gives_the_same_scores_again(built: Path, tmp_path: Path, case: str) -> None:
    kind, changes = CASES[case]
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(built), str(tmp_path), kind, orjson.dumps(changes).decode()],
        env={**cached.environment(), "TOKENIZERS_PARALLELISM": "false"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    made = orjson.loads(done.stdout.splitlines()[-1])
    training, dtype = made["training"], made["checkpoint"]["dtype"]
    assert training["steps"] == 2
    assert training["batch"] == (4 if changes.get("trainer") else 2)
    assert training["reload"]["conversations"] >= 8
    assert training["reload"]["max_difference"] < (1e-5 if dtype == "float32" else 2e-2)
    assert list(tmp_path.iterdir()) == []
