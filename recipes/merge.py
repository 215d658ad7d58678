"""An adapter and its base as one model, in one folder that transformers, vLLM and this project load.

transformers chooses the class by the model's family and by the Auto class it is asked of, never by ``architectures``.
vLLM chooses by ``architectures``, and one folder serves both. It knows no ``Qwen3_5ForSequenceClassification``: it
would take the text-only class of that family. So a scalar model that sees names ``Qwen3_5ForConditionalGeneration``
there. One that only reads keeps its own name, whose ending vLLM replaces: it refuses ``Qwen3ForConditionalGeneration``.
``problem_type: regression`` makes vLLM give the score itself instead of its sigmoid, and one label gives one score.
"""

from __future__ import annotations

import hashlib
import io
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from ..inference.fetch import base_of
from ..inference.processor import Encoded, Processor
from ..schemas.errors import ArmError, UsageError
from . import manifest as manifests
from . import scoring

PARENT = "merged_from.json"  # the manifest of the checkpoint that was merged
SHARD = "4GB"
# What processors of transformers want to read although nobody shows a video.
_OF_BASE = ("video_preprocessor_config.json",)
_ROUNDED = 10  # times what loading again may differ by: each changed weight is rounded once more
_SAID = ("Click the red button.", "Open the second result.")


@dataclass(frozen=True)
class Merged:
    """What merging did. changed, same: tensors of the base. conversations: that both models were asked about, whose
    scores (or log-likelihoods of replies) differ by up to max_difference."""

    folder: Path
    architecture: str
    changed: int
    same: int
    unchanged_modules: tuple[str, ...]
    conversations: int
    max_difference: float
    shards: int
    bytes: int


def merge(checkpoint: Path, out: Path, *, base: Path | None = None) -> Merged:
    """Write the model of ``checkpoint`` with its base to the new folder ``out``; base None: fetched at its commit.

    Raises ArmError for a checkpoint that is no adapter or is not what it was trained with, for a merged model that
    equals its base, that differs from it where the adapter changes nothing, or that gives other scores when loaded
    again; nothing is left in ``out`` then.
    """
    from transformers.utils import logging

    logging.disable_progress_bar()  # progress is the caller's
    parent = manifests.manifest_of(checkpoint)
    contract = parent["checkpoint"]
    if contract["layout"] != "adapter":
        raise UsageError(f"is {contract['layout']}; only adapters are merged", where=str(checkpoint))
    if out.exists():
        raise UsageError("is there already", where=str(out), next_command="another --out")
    base = base or base_of(checkpoint, contract)
    model = scoring.opened(checkpoint, base, contract)
    rows = conversations(model.processor, contract["kind"])
    before = scoring.answers(model, rows)
    making = out.with_name(f".{out.name}-merging")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    try:
        changed, same, idle, architecture = _write(model, making)
        _beside(model.processor, checkpoint, base, contract, making)
        said = {**contract, "layout": "merged", "head": contract["head"] and {**contract["head"], "file": None}}
        del model
        after = scoring.answers(scoring.opened(making, base, said), rows)
        apart = max(abs(one - other) for one, other in zip(before, after, strict=True))
        allowed = _ROUNDED * scoring.TOLERANCE[contract["dtype"]]
        if not apart <= allowed:
            raise ArmError(
                f"the merged model gives other scores than the adapter: they differ by up to {apart:.3g}, and "
                f"{allowed:g} is allowed", where=str(checkpoint),
            )  # fmt: skip
        (making / PARENT).write_bytes(manifests.dumped(parent))
        manifests.write(making, manifests.describe(making, _identity(parent), checkpoint=said, training=None))
        making.rename(out)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    shards = sorted(out.glob("*.safetensors"))
    size = sum(path.stat().st_size for path in shards)
    return Merged(out, architecture, changed, same, idle, len(rows), apart, len(shards), size)


def conversations(processor: Processor, kind: str) -> list[Encoded]:
    """What adapter and merged model are both asked about: with and without a picture where the model sees."""
    made = []
    for text in _SAID:
        for pictures in ([], [_picture(text)]) if processor.pictures is not None else ([],):
            blocks = [*({"type": "image"} for _ in pictures), {"type": "text", "text": text}]
            prompt = [{"role": "user", "content": blocks}]
            if kind == "scalar":
                reply = [{"role": "assistant", "content": [{"type": "text", "text": "Action: click(12, 34)"}]}]
                made.append(processor.scalar(prompt, pictures, reply))
            else:
                made.append(processor.selection(prompt, pictures, '{"selection": 2}'))
    return made


def _write(model: Any, folder: Path) -> tuple[int, int, tuple[str, ...], str]:
    """Merge ``model`` and write it: (tensors that differ from the base, those that do not, modules that LoRA names and
    does not change, class of the whole model)."""
    wrapped = model.model
    before = _digests(wrapped.get_base_model())
    names = [name for name, _ in wrapped.get_base_model().named_modules()]
    targets = {name.removesuffix(".base_layer") for name in names if name.endswith(".base_layer")}
    merged = wrapped.merge_and_unload(safe_merge=True)
    after = _digests(merged)
    if lost := sorted(before.keys() - after.keys()):
        raise ArmError(f"merging loses {lost[0]} (of {len(lost)} tensors)")
    changed = {name for name, digest in before.items() if after[name] != digest}
    if strange := sorted(name for name in changed if name.rpartition(".")[0] not in targets):
        raise ArmError(f"merging changes {strange[0]} (of {len(strange)} tensors), which the adapter does not name")
    if not changed:
        raise ArmError("the merged model equals its base: the adapter changes nothing")
    idle = tuple(sorted(name for name in targets if f"{name}.weight" not in changed))
    architecture = type(merged).__name__
    merged.save_pretrained(folder, max_shard_size=SHARD)
    if model.kind == "scalar":
        _served(folder / "config.json", merged)
    return len(changed), len(before) - len(changed), idle, architecture


def _digests(model: Any) -> dict[str, str]:
    """Hash of each tensor of the base in ``model``, by the name it has there. LoRA and the head are none of them."""
    import torch

    found = {}
    for name, tensor in model.state_dict().items():
        parts = name.split(".")
        if "score" in parts or any(part.startswith("lora_") for part in parts):
            continue
        data = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
        found[name.replace(".base_layer.", ".")] = hashlib.sha256(data).hexdigest()
    return found


def _served(path: Path, merged: Any) -> None:
    """What vLLM reads of a scalar model; see above."""
    config = orjson.loads(path.read_bytes())
    kind, sees = type(merged).__name__, "vision_config" in config
    config["architectures"] = [kind.replace("ForSequenceClassification", "ForConditionalGeneration") if sees else kind]
    # vLLM reads the number of labels from the text model in some releases.
    for said in (config, config["text_config"]) if sees else (config,):
        said |= {"problem_type": "regression", "id2label": {"0": "score"}, "label2id": {"score": 0}}
    path.write_bytes(orjson.dumps(config, option=orjson.OPT_INDENT_2) + b"\n")


def _beside(processor: Processor, checkpoint: Path, base: Path, contract: Mapping[str, Any], folder: Path) -> None:
    """Processor, prompt, and what others want to read of the base."""
    processor.save(folder)
    if (prompt := contract["prompt"]["file"]) is not None:
        (folder / prompt).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(checkpoint / prompt, folder / prompt)
    for name in _OF_BASE:
        if (base / name).is_file() and not (folder / name).exists():
            shutil.copyfile(base / name, folder / name)


def _identity(parent: Mapping[str, Any]) -> dict[str, Any]:
    """The parent's, which says how the weights came about; its description says that they were merged since."""
    made = dict(parent["identity"])
    whole = f"{made['namespace']}/{made['name']} {made['version']} (identity {parent['identity_sha256'][:12]})"
    made["description"] = f"{made['description']} Merged from {whole}.".strip()
    return made


def _picture(text: str) -> bytes:
    """A picture of 96 x 64 pixels that ``text`` decides."""
    from PIL import Image

    shade = hashlib.sha256(text.encode()).digest()
    made = Image.new("RGB", (96, 64), tuple(shade[:3]))
    made.paste(tuple(shade[3:6]), (16, 16, 48, 40))
    kept = io.BytesIO()
    made.save(kept, "PNG")
    return kept.getvalue()
