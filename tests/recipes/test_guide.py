"""docs/training.md from top to bottom, with a tiny base in the place of the real one, and the job files."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from action_reward_models.tests import test_docs as docs
from action_reward_models.tests.tiny_vlm import cached

RECIPES = docs.ROOT / "recipes"
# What stands in the guide, and what it is replaced by so that it runs on a CPU in a minute.
SMALLER = [
    ("{model: Qwen/Qwen3.5-4B, revision: main}", "{model: your-name/tiny-base, revision: main}"),
    ("dtype: bfloat16", "dtype: float32"),
    ("template_options: {enable_thinking: false}\n", ""),
    ("max_pixels: 262144", "max_pixels: 16384"),
    ("num_train_epochs: 2", "max_steps: 2"),
    ("gradient_accumulation_steps: 8", "gradient_accumulation_steps: 1"),
]
BASE = """
python - <<'END'
from huggingface_hub import HfApi
HfApi().create_repo("your-name/tiny-base")
HfApi().upload_folder(repo_id="your-name/tiny-base", folder_path={folder!r})
END
"""


@pytest.mark.slow  # each of its steps runs in the tests of that step, too
@pytest.mark.timeout(900)
def test_the_training_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in cached.environment().items():
        if name not in ("HF_HUB_OFFLINE", "PYTHONWARNINGS"):  # it is online, and typed as anybody would
            monkeypatch.setenv(name, value)
    monkeypatch.delenv("USE_TORCH", raising=False)
    shutil.copytree(docs.ROOT / "examples" / "miniwob" / "data", tmp_path / "runs")
    text = (docs.ROOT / "docs" / "training.md").read_text("utf-8")
    for old, new in SMALLER:
        assert old in text
        text = text.replace(old, new)
    steps = re.findall(r"^```(sh|python)\n(.*?)^```", text, re.S | re.M)
    assert " ".join(language for language, _ in steps) == "sh sh sh sh sh sh python sh sh"
    exported = f"cd {tmp_path}\nif [ -f my-hub/hub.json ]; then export HF_ENDPOINT=$(arm hub status --dir my-hub)"
    exported += " HF_TOKEN=$(cat my-hub/token); fi\n"
    try:
        for language, step in steps:
            if step.startswith("cd my-registry\narm build"):
                docs.run(exported + BASE.format(folder=str(cached.made())), tmp_path)
            docs.run(exported + (step if language == "sh" else f"python - <<'END'\n{step}END"), tmp_path)
    finally:
        docs.run("arm hub stop --dir my-hub", tmp_path)
    built = tmp_path / "my-registry" / "build"
    assert {path.name for path in built.iterdir() if not path.name.startswith(".")} == {
        "my-data", "my-arm", "my-arm-2", "my-arm-merged",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["train.slurm", "train.sge", "torchrun.sh"])
def test_a_job_file_is_bash_that_starts_arm_train(name: str) -> None:
    path = RECIPES / "launch" / name
    subprocess.run(["bash", "-n", str(path)], check=True)
    text = path.read_text("utf-8")
    assert '"$(command -v arm)" train "$recipe"' in text
    assert (RECIPES / re.findall(r"recipes/([\w/]+\.yaml)", text)[0]).is_file()


@pytest.mark.slow  # accelerate takes its time to be imported
def test_accelerate_knows_every_key_of_its_file() -> None:
    from accelerate.commands.config.config_args import ClusterConfig

    said = yaml.safe_load((RECIPES / "launch" / "accelerate.yaml").read_text())
    assert set(said) <= set(ClusterConfig.__dataclass_fields__)
    assert {path.name for path in (RECIPES / "launch").iterdir()} == {
        "accelerate.yaml", "torchrun.sh", "train.sge", "train.slurm",
    }  # fmt: skip
    guide = (RECIPES / "README.md").read_text("utf-8")
    assert all(f"launch/{path.name}" in guide for path in (RECIPES / "launch").iterdir())
