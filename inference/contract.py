"""What a checkpoint is used with: read from its manifest, and compared with what lies beside it.

A model answers anything it is given, with the wrong words, the wrong pictures or the wrong tokens, too; only the
figures get worse. So whatever decides what a model sees is refused when it is not what the checkpoint was trained with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

import orjson

from ..prompts.render import Prompt
from ..schemas.errors import ArmError, Issue
from ..schemas.ids import file_sha256
from ..schemas.manifest import NAME, is_safe_path
from ..schemas.store import load
from ..schemas.validate import RowValidator, compile_schema
from .base import folder_sha256
from .processor import Limits, Processor
from .rendering import read_prompt

Kind = Literal["selection_arm", "scalar"]
Contract = Mapping[str, Any]  # `checkpoint` of a `model_manifest/1`
# The kind of prompt that each is asked with.
PROMPTS: Mapping[Kind, str] = {"selection_arm": "selection", "scalar": "scalar"}
_UNCHANGED = "use the files that were published with the checkpoint, unchanged"


def read(folder: Path, kind: Kind | None = None, *, weights: bool = True) -> Contract:
    """What the manifest in ``folder`` says the checkpoint is used with. Raises ArmError for none, or another kind.

    weights: False reads the prompts only, of a checkpoint whose weights are used elsewhere."""
    path = folder / NAME
    try:
        manifest = orjson.loads(path.read_bytes())
    except OSError as error:
        if folder.is_dir():
            raise ArmError(f"is no finished checkpoint: it holds no {NAME}", where=str(folder)) from error
        raise ArmError("there is no such folder; a repository on the Hub is named with its revision", where=str(folder),
                       next_command='revision="v1.0.0"') from error  # fmt: skip
    except ValueError as error:
        raise ArmError(f"is not JSON: {error}", where=str(path)) from error
    found = manifest.get("checkpoint") if isinstance(manifest, dict) else None
    contract = checked(found, str(path), kind)
    _refuse_other_files(folder, manifest, weights)
    return contract


def _refuse_other_files(folder: Path, manifest: Mapping[str, Any], weights: bool) -> None:
    """Weights, settings and prompts are those that the manifest names; one that is not there is missed by its reader.

    Raises ArmError. A manifest without hashes, of an adopted checkpoint, says nothing of them.
    """
    try:
        files = {name: str(entry["sha256"]) for name, entry in manifest["environment"]["files"].items()}
    except KeyError:
        return
    except (TypeError, AttributeError) as error:
        raise ArmError("does not say which files are the checkpoint's", where=str(folder / NAME)) from error
    for name, sha256 in files.items():
        path = folder / name
        used = name.startswith("prompts/") or (weights and "/" not in name)
        if used and is_safe_path(name) and path.is_file() and (found := file_sha256(path)) != sha256:
            raise ArmError(
                f"is not the file that {NAME} names: its sha256 is {found}, and should be {sha256}", where=str(path),
                next_command=f"arm verify {folder}   # says all that was changed",
            )  # fmt: skip


def checked(contract: Any, where: str, kind: Kind | None = None) -> Contract:
    """``contract``, which has the form of a manifest's ``checkpoint``. Raises ArmError with every problem."""
    if problems := _form().problems(contract):
        issues = [Issue(where, 0, f"$.checkpoint{place[1:]}", message) for place, message in problems]
        raise ArmError("does not say what the checkpoint is used with", where=where, issues=issues)
    assert isinstance(contract, Mapping)
    if kind is not None and contract["kind"] != kind:
        raise ArmError(f"is a {contract['kind']}, not a {kind}", where=f"{where} $.checkpoint.kind")
    return contract


def processor(folder: Path, contract: Contract) -> Processor:
    """The processor that lies in ``folder``.

    Raises ArmError naming both values when template, tokenizer or limits of pictures are not those of the contract, and
    for a tokenizer that pads with the token that ends a turn: a scalar model reads its score at the last token that is
    not padding, so the end of a conversation would be taken for padding.
    """
    said = contract["processor"]
    refuse_other_tokenizer(folder, contract)
    made = Processor(folder, Limits(said["max_tokens"]), said["template_options"])
    for key, value in made.contract().items():
        if value != said[key]:
            raise differs(str(folder), f"processor.{key}", said[key], value)
    refuse_padding(made)
    return made


def refuse_padding(processor: Processor) -> None:
    """Raise ArmError when padding cannot be told from the end of a turn, or when there is no token to pad with."""
    pad, end = processor.pad_token_id, processor.tokenizer.eos_token_id
    if pad is None or pad == end:
        told = "has no token to pad with" if pad is None else f"pads with {processor.tokenizer.eos_token!r}, too"
        raise ArmError(
            f"{told}: the end of a turn cannot be told from padding", where=str(processor.folder),
            next_command='"pad_token": "<|endoftext|>"   # in tokenizer_config.json, or another that ends no turn',
        )  # fmt: skip


def refuse_other_prompt(folder: Path, contract: Contract) -> None:
    """Raise ArmError when the prompt in ``folder`` is not that of the contract. None is fine: rows came ready-made."""
    said = contract["prompt"]
    if said["file"] is None:
        return
    path = folder / said["file"]
    if not is_safe_path(said["file"]) or not path.is_file():
        raise ArmError("the prompt that it was trained with is missing", where=str(path))
    if (found := prompt_sha256(path)) != said["sha256"]:
        raise differs(str(path), "prompt.sha256", said["sha256"], found)


def own_prompt(folder: Path | None, contract: Contract) -> Prompt:
    """The prompt that the checkpoint in ``folder`` was trained with. Raises ArmError when it brings none or another."""
    said = contract["prompt"]["file"]
    if folder is None or said is None:
        raise ArmError(
            "brings no prompt: say what it is to be asked with", where=str(folder or "the model"),
            next_command="prompt=load_prompt_file(FILE, SHA256, PromptOptions()), in the command line --prompt FILE "
            "--prompt-sha256 SHA256",
        )  # fmt: skip
    refuse_other_prompt(folder, contract)
    prompt = read_prompt(folder / said)
    refuse_other_words(prompt, contract, str(folder))
    return prompt


def refuse_other_words(prompt: Prompt, contract: Contract, where: str) -> None:
    """Raise ArmError for a prompt of another kind than the model's, and for any but its own where that is known."""
    kind = contract["kind"]
    if prompt.kind != PROMPTS[kind]:
        raise ArmError(
            f"{prompt.id} is a {prompt.kind} prompt, and a {kind} is asked with a {PROMPTS[kind]} prompt", where=where
        )
    said = contract["prompt"]["sha256"]
    if said is not None and prompt.sha256 != said:
        raise differs(where, "prompt.sha256", said, prompt.sha256, next_command="leave prompt out: it brings its own")


def prompt_sha256(path: Path) -> str:
    """The hash over what the prompt in the file is, not the one that it states. Raises ArmError for no prompt."""
    try:
        prompt = orjson.loads(path.read_bytes())
        parts = {key: prompt[key] for key in ("options", "renderer", "template")}
    except (ValueError, KeyError, TypeError) as error:
        raise ArmError(f"is no prompt of a build: {error}", where=str(path)) from error
    return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()


def refuse_other_tokenizer(folder: Path, contract: Contract) -> None:
    """Raise ArmError when the tokenizer in ``folder``, if there is one, is not the one of the contract: the
    weights of a base model belong to its tokens."""
    path = folder / "tokenizer.json"
    if path.is_file() and (found := file_sha256(path)) != contract["processor"]["tokenizer_sha256"]:
        raise differs(str(path), "processor.tokenizer_sha256", contract["processor"]["tokenizer_sha256"], found)


def refuse_other_base(base: Path, contract: Contract) -> None:
    """Raise ArmError when ``base``, a folder, is not the one of the contract, as far as that is known: of a base in a
    folder it says the hash; one from the Hub has a commit, by which it is fetched, and no hash. Reads all weights."""
    said = contract["base"]["sha256"]
    if said is not None and (found := folder_sha256(base)) != said:
        raise differs(
            str(base), "base.sha256", said, found, next_command="name the folder that it was trained on, unchanged"
        )


def differs(where: str, key: str, said: Any, found: Any, *, next_command: str = _UNCHANGED) -> ArmError:
    """The error of a checkpoint that was trained with ``said`` and is beside ``found``."""
    return ArmError(
        f"the checkpoint was trained with {key} {said!r}, and here is {found!r}; its answers would mean nothing",
        where=where, next_command=next_command,
    )  # fmt: skip


@cache
def _form() -> RowValidator:
    return compile_schema(load("model_manifest/1")["properties"]["checkpoint"])
