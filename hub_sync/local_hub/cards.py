"""Checks of a card's metadata, and the tags that follow from it."""

from __future__ import annotations

from typing import Any

from .card_yaml import CardYamlError, parse_card_yaml

_LICENSE_WORDS = """
    afl-3.0 agpl-3.0 apache-2.0 apple-amlr apple-ascl artistic-2.0 bigcode-openrail-m bigscience-bloom-rail-1.0
    bigscience-openrail-m bsd bsd-2-clause bsd-3-clause bsd-3-clause-clear bsl-1.0 c-uda cc cc-by-2.0 cc-by-2.5
    cc-by-3.0 cc-by-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0
    cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cc-by-nd-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc0-1.0 cdla-permissive-1.0
    cdla-permissive-2.0 cdla-sharing-1.0 creativeml-openrail-m deepfloyd-if-license ecl-2.0 epl-1.0 epl-2.0
    etalab-2.0 eupl-1.1 eupl-1.2 fair-noncommercial-research-license gemma gfdl gpl gpl-2.0 gpl-3.0 grok2-community
    h-research intel-research isc lgpl lgpl-2.1 lgpl-3.0 lgpl-lr llama2 llama3 llama3.1 llama3.2 llama3.3 llama4
    lppl-1.3c mit mpl-2.0 ms-pl ncsa odbl odc-by ofl-1.1 open-mdw openmdw-1.0 openrail openrail++ osl-3.0 other pddl
    postgresql unknown unlicense wtfpl zlib
"""
_LICENSES = frozenset(_LICENSE_WORDS.split())
_TEXT_LISTS = (
    "tags",
    "language",
    "task_categories",
    "task_ids",
    "size_categories",
    "datasets",
    "metrics",
    "base_model",
)
_PREFIXED = {
    "license": "license", "language": "language", "datasets": "dataset", "task_categories": "task_categories",
    "task_ids": "task_ids", "size_categories": "size_categories", "base_model": "base_model",
}  # fmt: skip


def check_card(content: str, kind: str) -> tuple[list[str], list[str]]:
    """(errors, warnings) about the metadata of a README."""
    try:
        data = parse_card_yaml(content)
    except CardYamlError as error:
        return [f"the YAML metadata was not read: {error}"], []
    if not data:
        return [], ["empty or missing yaml metadata in repo card"]
    errors = _license(data)
    for key in _TEXT_LISTS:
        value = data.get(key)
        if not _is_texts(value):
            errors.append(f'"{key}" must be a string or an array of strings')
    for key in ("library_name", "pipeline_tag", "pretty_name", "license_name", "license_link"):
        if not isinstance(data.get(key), str | None):
            errors.append(f'"{key}" must be a string')
    if "model-index" in data:
        errors += _model_index(data["model-index"])
    if kind == "dataset" and "configs" in data:
        errors += _configs(data["configs"])
    return errors, []


def card_tags(data: dict[str, Any]) -> list[str]:
    """What one can filter a list by."""
    tags: list[str] = []
    for key in ("library_name", "pipeline_tag"):
        tags += _texts(data.get(key))
    tags += _texts(data.get("tags"))
    for key, prefix in _PREFIXED.items():
        tags += [f"{prefix}:{text}" for text in _texts(data.get(key))]
    tags += _texts(data.get("language"))
    return list(dict.fromkeys(tags))


def _license(data: dict[str, Any]) -> list[str]:
    license_ = data.get("license")
    if license_ is None:
        return []
    given = license_ if isinstance(license_, list) else [license_]
    if not all(isinstance(item, str) and item in _LICENSES for item in given):
        return [f'"license" must be one of [{", ".join(sorted(_LICENSES))}]']
    if "other" in given and "license_name" in data and not data["license_name"]:
        return ['"license_name" must not be empty']
    return []


def _model_index(value: Any) -> list[str]:
    if not isinstance(value, list):
        return ['"model-index" must be an array']
    errors = []
    for number, model in enumerate(value):
        where = f'"model-index[{number}]'
        if not isinstance(model, dict) or not isinstance(model.get("name"), str):
            errors.append(f'{where}.name" is required')
            continue
        results = model.get("results")
        if not isinstance(results, list):
            errors.append(f'{where}.results" must be an array')
            continue
        for at, result in enumerate(results):
            here = f"{where}.results[{at}]"
            if not isinstance(result, dict):
                errors.append(f'{here}" must be an object')
                continue
            task, dataset, metrics = result.get("task"), result.get("dataset"), result.get("metrics")
            if not isinstance(task, dict) or not isinstance(task.get("type"), str):
                errors.append(f'{here}.task.type" is required')
            if dataset is not None and not (
                isinstance(dataset, dict) and all(isinstance(dataset.get(key), str) for key in ("type", "name"))
            ):
                errors.append(f'{here}.dataset" needs "type" and "name"')
            if not isinstance(metrics, list) or not all(
                isinstance(m, dict) and isinstance(m.get("type"), str) and "value" in m for m in metrics
            ):
                errors.append(f'{here}.metrics" must be an array of objects with "type" and "value"')
    return errors


def _configs(value: Any) -> list[str]:
    if not isinstance(value, list):
        return ['"configs" must be an array']
    errors, names = [], []
    for number, config in enumerate(value):
        where = f'"configs[{number}]'
        if not isinstance(config, dict) or not isinstance(config.get("config_name"), str):
            errors.append(f'{where}.config_name" is required and must be a string')
            continue
        names.append(config["config_name"])
        if not _is_data_files(config.get("data_files")):
            errors.append(f'{where}.data_files" must be a path, paths, or an array of objects with "split" and "path"')
        if not isinstance(config.get("default", False), bool):
            errors.append(f'{where}.default" must be a boolean')
    if len(set(names)) < len(names):
        errors.append('"configs" must not name a configuration twice')
    if sum(bool(config.get("default")) for config in value if isinstance(config, dict)) > 1:
        errors.append('"configs" must have one default at most')
    return errors


def _is_data_files(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_is_texts(item) for item in value.values())
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return all(
            isinstance(item, dict)
            and isinstance(item.get("split"), str)
            and item.get("path")
            and _is_texts(item["path"])
            for item in value
        )
    return _is_texts(value)


def _is_texts(value: Any) -> bool:
    return (
        value is None or isinstance(value, str) or (isinstance(value, list) and all(isinstance(v, str) for v in value))
    )


def _texts(value: Any) -> list[str]:
    return [str(item) for item in (value if isinstance(value, list) else [value]) if isinstance(item, str)]
