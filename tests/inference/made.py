"""Checkpoints of tiny models with weights drawn by chance, as training would leave them. For a process with torch."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson
from action_reward_models.inference import adapter, head
from action_reward_models.inference.base import folder_sha256
from action_reward_models.inference.checkpoint import DTypeName, load_base
from action_reward_models.inference.processor import Limits, Processor
from action_reward_models.prompts.options import PromptOptions
from action_reward_models.prompts.render import load_prompt
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.ids import sha256_hex
from PIL import Image

LIMITS = Limits(2048, 32 * 32, 96 * 96)
PROMPT = {"template": {"text": "x"}, "options": {}, "renderer": 1}


def conversation(pictures: int, shown: str = "Click the red button.") -> list[dict[str, Any]]:
    """A prompt of one turn, with so many pictures after its text."""
    return [{"role": "user", "content": [{"type": "text", "text": shown}, *[{"type": "image"}] * pictures]}]


def reply(text: str) -> list[dict[str, Any]]:
    return [{"role": "assistant", "content": [{"type": "text", "text": text}]}]


def told(action: Callable[[], object]) -> str:
    """What ``action`` is refused with."""
    try:
        action()
    except ArmError as error:
        return str(error)
    return "not refused"


def main(folder: str, base: str, kind: str) -> None:
    """Write an adapter checkpoint that can be asked, with the prompt of its kind, as `process.run` does."""
    own = load_prompt("scalar/1" if kind == "scalar" else "selection/1", PromptOptions())
    make(Path(folder), Path(base), kind, prompt=own.to_json(), spoken=("function", "pixel"))


def make(
    folder: Path,
    base: Path,
    kind: Any,
    *,
    dtype: DTypeName = "float32",
    options: dict[str, Any] | None = None,
    repo: str | None = None,
    commit: str | None = None,
    std: float = 0.05,
    prompt: Mapping[str, Any] = PROMPT,
    spoken: tuple[str, str | None] | None = None,
) -> dict[str, Any]:
    """An adapter checkpoint on ``base`` in ``folder``, manifest included; returns the contract.

    std: of the weights of LoRA and head. prompt: `Prompt.to_json` of a real one, by which the model can be asked to
    pick. spoken: dialect and space of its data."""
    import torch
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(7)
    folder.mkdir(parents=True)
    model = load_base(base, kind=kind, dtype=dtype)
    kept = {"modules_to_save": ["score"]} if kind == "scalar" else {}
    config = LoraConfig(
        r=4,
        lora_alpha=8,
        target_modules="all-linear",
        exclude_modules=r".*\.visual\..*" if hasattr(model.config, "vision_config") else None,
        task_type=adapter.TASKS[kind],
        **kept,
    )
    made = get_peft_model(model, config)
    with torch.no_grad():
        for name, weight in made.named_parameters():
            if "lora_" in name or "score.modules_to_save" in name:
                weight.normal_(std=std)
    made.save_pretrained(str(folder), save_embedding_layers=False)
    (folder / "README.md").unlink(missing_ok=True)
    if kind == "scalar":
        head.write(folder / head.FILE, made.base_model.model.score.modules_to_save.default.weight)
    settings = json.loads((folder / adapter.CONFIG).read_bytes())
    settings |= {"base_model_name_or_path": repo, "revision": commit}
    (folder / adapter.CONFIG).write_bytes(orjson.dumps(settings))
    processor = Processor(base, LIMITS, options)
    processor.save(folder)
    (folder / "prompts").mkdir()
    parts = {key: prompt[key] for key in PROMPT}
    digest = sha256_hex(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS))
    name = prompt.get("id", "own/1")
    (folder / "prompts" / "own.json").write_bytes(orjson.dumps({**parts, "id": name, "sha256": digest}))
    scored = None
    if kind == "scalar":
        ids = processor.scalar(conversation(0), [], reply("x")).input_ids
        scored = {
            "file": head.FILE,
            "scored_token_id": ids[-1],
            "scored_token": processor.tokenizer.decode(ids[-1:]),
        }
    contract = {
        "kind": kind,
        "layout": "adapter",
        "architecture": type(model).__name__,
        "dtype": dtype,
        "base": {"repo": repo, "commit": commit, "sha256": None if repo else folder_sha256(base)},
        "prompt": {"id": name, "sha256": digest, "file": "prompts/own.json"},
        **({"candidates": shown} if (shown := _shown(spoken)) else {}),
        "processor": processor.contract(),
        "head": scored,
    }
    (folder / "manifest.json").write_bytes(orjson.dumps({"checkpoint": contract}))
    return contract


def _shown(spoken: tuple[str, str | None] | None) -> dict[str, Any] | None:
    if spoken is None:
        return None
    return {"spoken": [{"dialect": spoken[0], "space": spoken[1]}], "merge": True, "shuffle": True}


def png(colour: str, width: int = 160) -> bytes:
    made = io.BytesIO()
    Image.new("RGB", (width, 120), colour).save(made, "PNG")
    return made.getvalue()


def png_header(width: int, height: int) -> bytes:
    """A PNG that says how large it is, and holds nothing."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return png("red")[:8] + struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))


def rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """The safetensors file in ``path``, changed."""
    from safetensors.torch import save_file

    held = {name: value.clone() for name, value in head.tensors(path).items()}
    change(held)
    save_file(held, path, {"format": "pt"})


def settings(path: Path, **more: Any) -> None:
    """The JSON file in ``path`` with other values."""
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **more}))


class Runs:
    """Leaves a file where it is told when something unpickles it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def hostile(path: Path, mark: Path, *, zipped: bool = True) -> None:
    """A file of torch that leaves ``mark`` when it is read as any pickle is."""
    import torch

    torch.save({"weight": Runs(mark)}, path, _use_new_zipfile_serialization=zipped)


def with_code(base: Path, mark: Path, *, tokenizer: bool) -> None:
    """A base model that brings a module of its own, which leaves ``mark`` when it is imported."""
    code = f"from pathlib import Path\nPath({str(mark)!r}).touch()\nclass Own: pass\n"
    (base / "own.py").write_text(code)
    if tokenizer:
        settings(base / "tokenizer_config.json", auto_map={"AutoTokenizer": ["own.Own", None]}, tokenizer_class="Own")
    else:
        found = dict.fromkeys(("AutoConfig", "AutoModelForSequenceClassification"), "own.Own")
        settings(base / "config.json", auto_map=found, model_type="own")
