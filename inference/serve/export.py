"""A whole model as other engines read it: which files, which words of its config, which names of its weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from ...schemas.errors import ArmError

CONFIG, SCORE = "config.json", "score.weight"
_INDEX = "model.safetensors.index.json"
_PICTURES = ("preprocessor_config.json", "processor_config.json")


def lacking(folder: Path) -> list[str]:
    """Files that a whole model needs and that are not in ``folder``. Raises ArmError for JSON that says no model."""
    gone = [name for name in (CONFIG, "tokenizer.json", "tokenizer_config.json") if not (folder / name).is_file()]
    if CONFIG not in gone and sees(_config(folder)) and not any((folder / name).is_file() for name in _PICTURES):
        gone.append(_PICTURES[0])
    if (folder / _INDEX).is_file():
        named = _json(folder / _INDEX).get("weight_map")
        if not isinstance(named, dict):
            raise ArmError("names no weights", where=str(folder / _INDEX))
        gone += sorted({str(name) for name in named.values() if not (folder / str(name)).is_file()})
    elif not any(folder.glob("*.safetensors")):
        gone.append("*.safetensors")
    return gone


def problems(folder: Path) -> list[str]:
    """What vLLM would not understand of the whole scalar model in ``folder``; none for what `arm merge` writes.

    vLLM chooses its class by ``architectures``, the number of scores by ``id2label``, and whether a score or its
    sigmoid is given by ``problem_type``; weights are placed by their names. Raises ArmError for a config that is none.
    """
    from safetensors import safe_open

    config = _config(folder)
    pictures = sees(config)
    names: set[str] = set()
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "numpy") as file:
            names |= set(file.keys())
    ending = "ForConditionalGeneration" if pictures else "ForSequenceClassification"
    kinds = config.get("architectures")
    told = []
    if not (isinstance(kinds, list) and len(kinds) == 1 and str(kinds[0]).endswith(ending)):
        told.append(f"{CONFIG}: architectures is {kinds}, and one that ends in {ending} is meant")
    for place, said in {"": config, **({"text_config.": config.get("text_config")} if pictures else {})}.items():
        told += [f"{CONFIG}: {place}{one}" for one in _of_labels(said if isinstance(said, dict) else {})]
    begins = ("model.visual.", "model.language_model.") if pictures else ("model.",)
    strange = sorted(name for name in names if name != SCORE and not name.startswith(begins))
    told += [f"the weights have no {SCORE}"] if SCORE not in names else []
    told += [f"the weights have none that begins with {one}" for one in begins
             if not any(name.startswith(one) for name in names)]  # fmt: skip
    told += [f"the weights have {strange[0]} (of {len(strange)}), for which vLLM has no place"] if strange else []
    return told


def sees(config: Mapping[str, Any]) -> bool:
    """Whether the model with this config takes pictures."""
    return "vision_config" in config


def _of_labels(config: Mapping[str, Any]) -> list[str]:
    labels, kind = config.get("id2label") or {}, config.get("problem_type")
    told = [] if len(labels) == 1 else [f"id2label names {len(labels)} scores, and one is meant"]
    return told + (
        [] if kind == "regression" else [f"problem_type is {kind!r}: a sigmoid would be given, not the score"]
    )


def _config(folder: Path) -> dict[str, Any]:
    return _json(folder / CONFIG)


def _json(path: Path) -> dict[str, Any]:
    try:
        found = orjson.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ArmError(f"cannot be read: {error}", where=str(path)) from error
    if not isinstance(found, dict):
        raise ArmError("is no JSON object", where=str(path))
    return found
