"""A recipe with all that it refers to, small enough to be trained in a second: MiniWoB++ pages and a tiny base."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from action_reward_models.inference.base import folder_sha256
from action_reward_models.recipes import manifest as manifests
from action_reward_models.recipes.inputs import Inputs
from action_reward_models.recipes.recipe import Recipe
from action_reward_models.schemas.manifest import manifest_of
from action_reward_models.schemas.validate import for_schema
from action_reward_models.tests.tiny_vlm import cached

EXAMPLE = Path(__file__).parents[2] / "examples" / "miniwob"
TRAINER = {"max_steps": 3, "per_device_train_batch_size": 2, "learning_rate": 1e-3, "logging_steps": 1}


def dataset(folder: Path, *, scored: bool = False) -> Path:
    """The build of the bundled example, made in ``folder`` unless it is there.

    scored: every candidate has a score, so that pairs have margins, and there is a table of scores.
    """
    built = folder / "build" / "action-reward-models-data"
    if not built.exists():
        from action_reward_models.registry import Registry

        shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("build"), dirs_exist_ok=True)
        if scored:
            _add_scores(folder)
        Registry.load(folder / "registry.yaml").build("action-reward-models-data", out=built, workers=1)
    return built


def _add_scores(folder: Path) -> None:
    lines = []
    for line in (folder / "data" / "candidates.jsonl").read_bytes().splitlines():
        row = orjson.loads(line)
        scores = [round(at / len(row["candidates"]), 3) for at in range(len(row["candidates"]))]
        lines.append(orjson.dumps({"set_id": row["state_id"], "scores": scores, "score_source": "toy"}))
    (folder / "data" / "scores.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    text = (folder / "registry.yaml").read_text("utf-8")
    source = "      - {kind: candidate_scores, format: scores, path: data/scores.jsonl}\n    split:"
    tables = "origins: [scores], max_pairs_per_set: 4}\n"
    tables += "      pointwise_scores: {prompt: scalar/1, options: {candidate_reasoning: false}}\n"
    text = text.replace("    split:", source, 1).replace("max_pairs_per_set: 2}\n", tables, 1)
    (folder / "registry.yaml").write_text(text, "utf-8")


def data(kind: str, **changes: Any) -> dict[str, Any]:
    """A recipe as it is read; ``changes`` replace its parts, and None takes one away."""
    made: dict[str, Any] = {
        "recipe": 1, "kind": kind, "dataset": {"folder": "data"}, "evaluation": "none", "base": {"folder": "base"},
        "dtype": "float32", "vision": "frozen", "limits": {"max_tokens": 2048},
        "lora": {"r": 4, "target_modules": "all-linear"}, "trainer": dict(TRAINER), "seed": 3,
    }  # fmt: skip
    made = {key: value for key, value in {**made, **changes}.items() if value is not None}
    assert not for_schema("recipe/1").problems(made)
    return made


def inputs(built: Path, kind: str, *, start: Path | None = None, base: Path | None = None, **changes: Any) -> Inputs:
    """What `data` of these resolves to: the build, the cached base, and a checkpoint to go on from."""
    if start is not None:
        changes |= {"base": None, "lora": None, "init_from": "tiny@1.0.0"}
    recipe = Recipe.of(Path("recipe.yaml"), data(kind, **changes))
    base = base or cached.made()
    source: dict[str, Any] = {**manifests.FOLDER, "sha256": folder_sha256(base)}
    identity = manifests.identity(
        recipe.data, name="tiny", namespace="somebody", version="1.0.0",
        dataset={"repo": None, "revision": None, "identity_sha256": manifest_of(built)["identity_sha256"]},
        base=source if start is None else None, init_from=None if start is None else manifests.FOLDER,
    )  # fmt: skip
    return Inputs(recipe, identity, built, None, base, source, start)


def entries(checkpoint: Path) -> list[Mapping[str, Any]]:
    """The log of its training."""
    return [orjson.loads(line) for line in (checkpoint / "training" / "log.jsonl").read_bytes().splitlines()]
