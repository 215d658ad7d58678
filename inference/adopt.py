"""Checkpoints of other tools, written down in the layout of this project: LoRA adapters, and value heads.

TRL's AutoModelForCausalLMWithValueHead and LLaMA-Factory keep a head as ``v_head.summary.weight`` and ``.bias``, others
as ``weight`` and ``bias``; in safetensors, or in a file of torch, which is read as numbers only: one that would run
code is refused.

Not everything can be seen in such files. Who adopts a checkpoint says what it stands on and how long its conversations
may be; which prompt it was trained with only when that is known. That a score is read at the last token of the
conversation, as the chat template of the base renders it, is taken for granted.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import orjson

from ..prompts.render import Prompt, prompt_file
from ..schemas.errors import ArmError
from ..schemas.manifest import NAME as MANIFEST
from . import adapter, contract, fetch, head
from .base import folder_sha256
from .checkpoint import DTypeName, Layout, architecture, load_model
from .contract import Kind
from .processor import Limits, Processor

if TYPE_CHECKING:
    import torch

TENSORS = (".safetensors", ".bin", ".pt", ".pth")
HEADS = tuple(f"{stem}{suffix}" for stem in ("value_head", "v_head") for suffix in TENSORS)
ADAPTERS = (adapter.WEIGHTS, "adapter_model.bin")
BESIDE = "pytorch_model.bin"  # where TRL keeps the head of a model with an adapter; without one it is a whole model
# (weight, bias) as tools name them. A file holds one of these pairs and nothing else.
NAMES = (
    (head.WEIGHT, head.BIAS),
    ("summary.weight", "summary.bias"),
    ("score.weight", "score.bias"),
    ("weight", "bias"),
)
_REPO = re.compile(r"[\w-][\w.-]*/[\w.-]+")
ADOPTED = "adopted"  # part of a manifest that no other checkpoint has
_TORCH = {"format": "pt"}  # transformers refuses files that do not say so
_SCORED: list[dict[str, Any]] = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]


@dataclass(frozen=True)
class Origin:
    """What an adopted checkpoint stands on.

    folder: of the base model. repo, commit: where it is on the Hub; None for a model that is nowhere.
    """

    folder: Path
    repo: str | None = None
    commit: str | None = None

    def said(self) -> dict[str, str | None]:
        """`base` of a contract. A model that is nowhere is told from others by its files."""
        sha256 = folder_sha256(self.folder) if self.repo is None else None
        return {"repo": self.repo, "commit": self.commit, "sha256": sha256}


@dataclass(frozen=True)
class Adopted:
    """contract: what it is to be used with. told: what was changed on the way, one sentence each."""

    contract: contract.Contract
    told: tuple[str, ...]


def adopt(
    source: Path, out: Path, *, kind: Kind, base: Origin, limits: Limits, dtype: DTypeName = "float32",
    options: Mapping[str, Any] | None = None, prompt: Prompt | None = None, bias: Literal["refuse", "drop"] = "refuse",
    found: tuple[str, str] | None = None,
) -> Adopted:  # fmt: skip
    """Write the checkpoint of another tool in ``source`` into the new folder ``out``, as this project keeps them.

    source: a folder with an adapter of peft, a head, or both; or a file with a head. options: for the chat template.
    prompt: what it was trained with, if that is known. bias: a head may have one, which moves every score by the same
    number; heads here have none, so it is dropped only when that is said. found: (repository, commit) of ``source``.

    ``manifest.json`` then says what the checkpoint is used with, and under ``adopted`` where it is from and what was
    changed; nothing of its training, which is not known: it can be opened and evaluated, and not be published. It is
    written last, after the model was loaded once.

    Raises ArmError for files that hold anything but numbers, for two heads, for one of another width, and for weights
    that do not fit the base model; for a prompt of the other kind.
    """
    if out.exists():
        raise ArmError("is there already", where=str(out), next_command="choose a folder that is not there")
    if prompt is not None and prompt.kind != contract.PROMPTS[kind]:
        raise ArmError(
            f"{prompt.id} is a {prompt.kind} prompt, and a {kind} is asked with a {contract.PROMPTS[kind]} prompt"
        )
    told: list[str] = []
    lora = _adapter(source, kind, told)
    weight = _head(source, lora, _width(base.folder), bias, told) if kind == "scalar" else None
    if lora is None and weight is None:
        raise ArmError(f"holds neither an adapter nor a head ({', '.join((*ADAPTERS, *HEADS))})", where=str(source))
    processor = Processor(base.folder, limits, options)
    contract.refuse_padding(processor)
    layout: Layout = "value_head" if lora is None else "adapter"
    said: dict[str, Any] = {
        "kind": kind,
        "layout": layout,
        "architecture": "",
        "dtype": dtype,
        "base": base.said(),
        "prompt": {"id": None, "sha256": None, "file": None},
        "processor": processor.contract(),
        "head": None if weight is None else _scored(processor),
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as making:
        made = Path(making) / out.name
        made.mkdir()
        if weight is not None:
            head.write(made / head.FILE, weight)
        if lora is not None:
            _write_adapter(made, *lora, kind=kind, base=base, weight=weight, told=told)
        processor.save(made)
        if prompt is not None:
            said["prompt"] = _write_prompt(made, prompt)
        model = load_model(made, kind=kind, layout=layout, base=base.folder, dtype=dtype, device="cpu")
        said["architecture"] = architecture(model)
        contract.checked(said, str(out / MANIFEST), kind)
        repo, commit = found or (None, None)
        origin = {"repo": repo, "commit": commit, "changes": told}
        (made / MANIFEST).write_bytes(_json({ADOPTED: origin, "checkpoint": said}))
        made.rename(out)
    return Adopted(said, tuple(told))


def fetched(repo: str, revision: str) -> tuple[Path, str]:
    """(Folder, commit) of what ``repo`` holds of an adapter and a head at ``revision``.

    A file of torch is fetched only in the place of safetensors that are not there. Raises ArmError when nothing can be
    had.
    """
    safe = [name for name in (adapter.CONFIG, *ADAPTERS, *HEADS) if name.endswith((".json", ".safetensors"))]
    folder = fetch.snapshot(repo, revision, safe)
    commit = folder.name
    if not re.fullmatch(r"[0-9a-f]{40}", commit):
        raise ArmError(f"is at {commit!r}, which is no commit", where=f"{repo}@{revision}")
    others: list[str] = []
    if (folder / adapter.CONFIG).is_file() and not (folder / adapter.WEIGHTS).is_file():
        others += [name for name in ADAPTERS if name not in safe]
    if not any((folder / name).is_file() for name in HEADS):
        others += [name for name in HEADS if name not in safe]
        others += [BESIDE] if (folder / adapter.CONFIG).is_file() else []
    return fetch.snapshot(repo, commit, [*safe, *others]) if others else folder, commit


def manifest_of(folder: Path) -> dict[str, Any] | None:
    """What `adopt` wrote down in ``folder``: `checkpoint`, and `adopted`. None for any other folder.

    Raises ArmError when it does not say what the checkpoint is used with.
    """
    try:
        found = orjson.loads((folder / MANIFEST).read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or ADOPTED not in found:
        return None
    return {ADOPTED: found[ADOPTED], "checkpoint": contract.read(folder)}


def numbers(path: Path) -> dict[str, torch.Tensor]:
    """The tensors in a file, by name. Raises ArmError for a file that holds anything else; nothing of it is run."""
    if path.suffix == ".safetensors":
        return head.tensors(path)
    import pickle
    import warnings

    import torch

    try:
        with warnings.catch_warnings(action="ignore"):  # about old forms of the same
            found = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ArmError(
            "holds something else than numbers; reading that could run code, so it is not read", where=str(path)
        ) from error
    except (OSError, RuntimeError, EOFError, ValueError, KeyError) as error:
        raise ArmError(f"cannot be read: {error}", where=str(path)) from error
    if not isinstance(found, dict) or not all(_plain(value) for value in found.values()):
        raise ArmError("is no table of tensors of numbers", where=str(path))
    return {str(name): value for name, value in found.items()}


def _plain(value: object) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.layout == torch.strided


def _adapter(source: Path, kind: Kind, told: list[str]) -> tuple[dict[str, Any], dict[str, torch.Tensor]] | None:
    """(settings, weights) of the adapter in ``source``; None when there is none."""
    if not (source / adapter.CONFIG).is_file():
        return None
    there = [source / name for name in ADAPTERS if (source / name).is_file()]
    if not there:
        raise ArmError(f"holds {adapter.CONFIG} and no weights ({' or '.join(ADAPTERS)})", where=str(source))
    config = adapter.read_config(source)
    if config.get("task_type") == adapter.TASKS["scalar"] and kind != "scalar":
        raise ArmError(
            f"is for {config['task_type']}: that is a scalar", where=f"{source / adapter.CONFIG} $.task_type"
        )
    return config, _taken(there[0], told)


def _taken(path: Path, told: list[str]) -> dict[str, torch.Tensor]:
    if path.suffix != ".safetensors":
        told.append(f"{path.name} was read as numbers only and is kept as safetensors.")
    return numbers(path)


def _head(
    source: Path, lora: tuple[dict[str, Any], dict[str, torch.Tensor]] | None, width: int, bias: str, told: list[str]
) -> torch.Tensor:
    """The one head that there is, in a file or in the adapter; (1, width)."""
    import torch

    names = HEADS if lora is None or not (source / BESIDE).is_file() else (*HEADS, BESIDE)
    files = [source] if source.is_file() else [source / name for name in names if (source / name).is_file()]
    heads = {path.name: _read_head(path, width, bias, told) for path in files}
    if lora is not None and head.IN_ADAPTER in lora[1]:
        heads[head.IN_ADAPTER] = head.fitting(lora[1][head.IN_ADAPTER], width, f"{source} {head.IN_ADAPTER}")
    if not heads:
        raise ArmError(f"holds no head ({', '.join(HEADS)})", where=str(source))
    first, *others = heads.values()
    if not all(torch.equal(first, other) for other in others):
        raise ArmError(
            f"holds heads that differ: {', '.join(heads)}", where=str(source), next_command="leave the right one there"
        )
    return first


def _read_head(path: Path, width: int, bias: str, told: list[str]) -> torch.Tensor:
    found = _taken(path, told)
    names = next((pair for pair in NAMES if pair[0] in found), None)
    if names is None or set(found) - set(names):
        raise ArmError(f"is no head: it holds {', '.join(sorted(found)[:4])}", where=str(path))
    weight = found[names[0]]
    added = float(found[names[1]].float().sum()) if names[1] in found else 0.0
    if added and bias == "refuse":
        raise ArmError(
            f"is {added:g}: every score would be lower by that, which changes no comparison; heads here have none",
            where=f"{path} {names[1]}", next_command='--drop-bias   # bias="drop" in Python',
        )  # fmt: skip
    if added:
        told.append(f"The head's bias of {added:g} was dropped: every score is lower by that.")
    return head.fitting(weight.reshape(1, -1) if weight.dim() == 1 else weight, width, f"{path} {names[0]}")


def _write_adapter(
    out: Path, config: dict[str, Any], weights: dict[str, torch.Tensor], *, kind: Kind, base: Origin,
    weight: torch.Tensor | None, told: list[str],
) -> None:  # fmt: skip
    from safetensors.torch import save_file

    named, task = config.get("base_model_name_or_path"), config.get("task_type")
    if named and named != base.repo:
        theirs = named if _REPO.fullmatch(str(named)) else "a folder"  # of a machine, which no file of ours names
        told.append(f"The adapter names {theirs} as its base; it is used with {base.repo or 'a model in a folder'}.")
    if task != adapter.TASKS[kind]:
        told.append(f"The adapter was for {task}; a {kind} is {adapter.TASKS[kind]}.")
    if weight is not None and head.IN_ADAPTER not in weights:
        told.append("The head is in the adapter, too, where peft and transformers look for it.")
    config |= {"base_model_name_or_path": base.repo, "revision": base.commit, "task_type": adapter.TASKS[kind]}
    config |= {"auto_mapping": None, "inference_mode": True}
    if weight is not None:
        config["modules_to_save"] = sorted({*(config.get("modules_to_save") or ()), "score"})
        weights[head.IN_ADAPTER] = weight
    save_file({name: value.clone().contiguous() for name, value in weights.items()}, out / adapter.WEIGHTS, _TORCH)
    (out / adapter.CONFIG).write_bytes(_json(config))


def _write_prompt(out: Path, prompt: Prompt) -> dict[str, str]:
    name = prompt_file(prompt.id)
    (out / "prompts").mkdir()
    (out / name).write_bytes(_json(prompt.to_json()))
    return {"id": prompt.id, "sha256": prompt.sha256, "file": name}


def _scored(processor: Processor) -> dict[str, Any]:
    """The token that every conversation ends in."""
    last = processor.scalar(_SCORED[:1], [], _SCORED[1:]).input_ids[-1]
    return {"file": head.FILE, "scored_token_id": last, "scored_token": processor.tokenizer.decode([last])}


def _json(data: Mapping[str, Any]) -> bytes:
    return orjson.dumps(data, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"


def _width(base: Path) -> int:
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(base, trust_remote_code=False, local_files_only=True)
    except (ValueError, OSError, KeyError) as error:
        raise ArmError(f"is no model: {error}", where=str(base)) from error
    return int(config.get_text_config().hidden_size)
