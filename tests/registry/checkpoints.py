"""What training would leave, without torch: a checkpoint of the right form whose weights follow from its inputs."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from action_reward_models.builders.gathering import Progress
from action_reward_models.cards import model as cards
from action_reward_models.hub_sync.hub import Hub
from action_reward_models.recipes import manifest as manifests
from action_reward_models.recipes.inputs import Inputs
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.ids import canonical_json, file_sha256, sha256_hex
from action_reward_models.schemas.manifest import manifest_of

RECIPE = """\
recipe: 1
kind: selection_arm
dataset: {dataset}
evaluation: none
base: {{model: {base}, revision: {revision}}}
lora: {{r: 4}}
dtype: float32
vision: frozen
limits: {{max_tokens: 64}}
trainer: {{max_steps: 1}}
seed: 1
"""
TEMPLATE = "{{ messages }}"


def make(
    inputs: Inputs, work: Path, out: Path, *, smoke: int | None = None, restart: bool = False,
    progress: Progress = lambda *_: None,
) -> dict[str, Any] | None:  # fmt: skip
    """The signature of `recipes.run.make`. A folder ``fail`` in ``work`` lets it fail as training might."""
    assert (inputs.base / "config.json").is_file()
    if restart:
        shutil.rmtree(work, ignore_errors=True)
    if (work / "fail").exists():
        raise ArmError("training fails", where=str(work))
    made = work / "made"
    made.mkdir(parents=True, exist_ok=True)
    if smoke is not None:
        return {"checkpoint": _checkpoint(inputs, made), "training": _training(inputs)}
    digest = sha256_hex(canonical_json(manifests.trained_from(inputs.identity)))
    (made / "adapter_model.safetensors").write_bytes(weights(bytes.fromhex(digest)))
    source = inputs.base_source
    config = {"peft_type": "LORA", "base_model_name_or_path": source["repo"], "revision": source["commit"]}
    (made / "adapter_config.json").write_bytes(orjson.dumps(config))
    (made / "tokenizer.json").write_text("{}")
    (made / "chat_template.jinja").write_text(TEMPLATE)
    (made / "training").mkdir(exist_ok=True)
    (made / "training" / "log.jsonl").write_text('{"step": 1, "loss": 0.5}\n')
    checkpoint = _checkpoint(inputs, made)
    manifest = manifests.describe(made, inputs.identity, checkpoint=checkpoint, training=_training(inputs))
    (made / "README.md").write_text(cards.render(manifest), "utf-8")
    manifests.write(made, manifest)
    shutil.rmtree(out, ignore_errors=True)
    made.rename(out)
    shutil.rmtree(work)
    return manifest


def compare(folders: Sequence[Path], *, base: Path | None, checkpoint: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The signature of `recipes.probe.compare`: weights with other bytes give other scores."""
    found = {file_sha256(folder / "adapter_model.safetensors") for folder in folders}
    if len(found) != 1:
        raise ArmError("gives other scores", where=where)
    return {"conversations": 1, "max_difference": 0.0}


def weights(data: bytes) -> bytes:
    """A safetensors file with one tensor of these bytes."""
    head = json.dumps({"lora": {"dtype": "U8", "shape": [len(data)], "data_offsets": [0, len(data)]}}).encode()
    return struct.pack("<Q", len(head)) + head + data


def publish_base(hub: Hub, repo: str) -> list[str]:
    """Create a base model with the tags v1 and v2; returns their commits."""
    api = hub.api
    api.create_repo(repo, repo_type="model")
    api.upload_file(path_or_fileobj=weights(b"base"), path_in_repo="model.safetensors", repo_id=repo)
    api.upload_file(path_or_fileobj=b"\x80\x04N.", path_in_repo="pytorch_model.bin", repo_id=repo)
    commits = []
    for tag in ("v1", "v2"):
        done = api.upload_file(path_or_fileobj=b'"%s"' % tag.encode(), path_in_repo="config.json", repo_id=repo)
        api.create_tag(repo, tag=tag)
        commits.append(str(done.oid))
    return commits


def _checkpoint(inputs: Inputs, folder: Path) -> dict[str, Any]:
    prompts = [one for one in manifest_of(inputs.dataset)["identity"]["prompts"] if one["kind"] == "selection"]
    prompt: dict[str, Any] = {"id": None, "sha256": None, "file": None}
    if prompts:
        name = f"prompts/{prompts[0]['id'].replace('/', '-')}.json"
        (folder / "prompts").mkdir(exist_ok=True)
        shutil.copy(inputs.dataset / name, folder / name)
        prompt = {"id": prompts[0]["id"], "sha256": prompts[0]["sha256"], "file": name}
    (folder / "tokenizer.json").write_text("{}")
    return {
        "kind": inputs.recipe.kind, "layout": "adapter", "architecture": "Qwen3_5ForConditionalGeneration",
        "dtype": inputs.recipe.dtype, "base": dict(inputs.base_source), "prompt": prompt,
        "processor": {
            "min_pixels": None, "max_pixels": None, "max_tokens": inputs.recipe.limits.max_tokens,
            "template_options": {}, "chat_template_sha256": sha256_hex(TEMPLATE),
            "tokenizer_sha256": file_sha256(folder / "tokenizer.json"),
        },
        "head": None,
    }  # fmt: skip


def _training(inputs: Inputs) -> dict[str, Any]:
    return {
        "table": inputs.recipe.table, "split": inputs.recipe.split, "rows": 10, "used": 10, "unusable": {}, "steps": 1,
        "epochs": 1.0, "batch": 10, "seconds": 0.1, "device": "cpu", "processes": 1, "parameters": 100,
        "trained_parameters": 10, "loss_first": 0.5, "loss_last": 0.5, "curve": [{"step": 1, "loss": 0.5}],
        "reload": {"conversations": 1, "max_difference": 0.0}, "packages": {"torch": "2.13.0"},
    }  # fmt: skip
