"""What a model card says, worked out from the manifest of a checkpoint (`model_manifest/1`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..schemas.errors import ArmError
from .model_words import CEILING

Manifest = Mapping[str, Any]
Evaluation = Mapping[str, Any]
Report = Mapping[str, Any]

ALONE = ("nobody", "0.0.0")  # namespace and version of a checkpoint that no registry declares
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_REPO = rf"{_NAME}(?:/{_NAME})?"
_REVISION = r"[A-Za-z0-9][A-Za-z0-9._/-]*"
_METRIC = r"[A-Za-z0-9][A-Za-z0-9 ._@/+-]*"
_PATH = r"(?:[A-Za-z0-9_][A-Za-z0-9._-]*/)*[A-Za-z0-9_][A-Za-z0-9._-]*"


def check(manifest: Manifest) -> None:
    """Raises ArmError for a manifest of another version, and for names that none can have: they stand in code that a
    reader runs, and in the YAML that the Hub reads."""
    if manifest.get("model_manifest") != 1:
        raise ArmError(
            "a model card is made from a model manifest of version 1, and this is "
            f"{manifest.get('model_manifest')!r}"
        )  # fmt: skip
    identity, checkpoint = manifest["identity"], manifest["checkpoint"]
    places: list[tuple[str, Any, str]] = [
        ("namespace", identity["namespace"], _NAME),
        ("name", identity["name"], _NAME),
        ("version", identity["version"], r"[0-9]+\.[0-9]+\.[0-9]+"),
        ("architecture", checkpoint["architecture"], r"[A-Za-z0-9_]+"),
        ("prompt file", checkpoint["prompt"]["file"], _PATH),
    ]
    origins = {"dataset": identity["dataset"], "base": checkpoint["base"], "init_from": identity["init_from"]}
    origins |= {f"evaluation {one['name']}": one["dataset"] for one in manifest["evaluations"]}
    for place, origin in origins.items():
        for key, form in (("repo", _REPO), ("commit", _REVISION)):
            places.append((f"{place} {key}", (origin or {}).get(key), form))
    places += [("evaluation", one["name"], _NAME) for one in manifest["evaluations"]]
    places += [("split", one["split"], _NAME) for one in manifest["evaluations"]]
    places += [("metric", r["metric"], _METRIC) for one in manifest["evaluations"] for r in one["reports"]]
    places += [("table", table(manifest), _NAME), ("type", checkpoint["dtype"], _NAME)]
    for place, origin in origins.items():  # a base may be declared at any branch; a dataset is read by its tag
        if place not in ("base",):
            places.append((f"{place} revision", (origin or {}).get("revision"), _REVISION))
    wrong = [f"{place} {value!r}" for place, value, form in places if value is not None and not _is(value, form)]
    if wrong:
        raise ArmError(f"the manifest has names that no checkpoint can have: {', '.join(wrong)}", where="manifest.json")


def _is(value: Any, form: str) -> bool:
    return isinstance(value, str) and re.fullmatch(form, value) is not None


def declared(manifest: Manifest) -> bool:
    """Whether a registry declares it, so that it has a name and a version that others can ask for."""
    return (manifest["identity"]["namespace"], manifest["identity"]["version"]) != ALONE


def repo(manifest: Manifest) -> str:
    """``namespace/name``; the name alone for a checkpoint that no registry declares."""
    identity = manifest["identity"]
    return f"{identity['namespace']}/{identity['name']}" if declared(manifest) else str(identity["name"])


def public(manifest: Manifest) -> bool:
    """Whether it, and everything that it rests on, has a name that others can fetch."""
    origins = (manifest["identity"]["dataset"]["repo"], manifest["checkpoint"]["base"]["repo"])
    return declared(manifest) and None not in origins


def sees(manifest: Manifest) -> bool:
    """Whether the model is shown pictures."""
    processor = manifest["checkpoint"]["processor"]
    return (processor["min_pixels"], processor["max_pixels"]) != (None, None)


def table(manifest: Manifest) -> str:
    """The table whose rows it learned from, or would have."""
    if manifest["training"]:
        return str(manifest["training"]["table"])
    if manifest["checkpoint"]["kind"] == "selection_arm":
        return "selection_sft"
    loss = manifest["identity"]["recipe"].get("objective", {}).get("loss", "bt")
    return "pointwise_scores" if loss == "pointwise" else "bt_pairs"


def dataset_commit(manifest: Manifest) -> str | None:
    """Commit of the training data, where an evaluation on the same build knows it."""
    identity = manifest["identity"]["dataset"]["identity_sha256"]
    found = [one["dataset"]["commit"] for one in manifest["evaluations"]
             if one["dataset"]["identity_sha256"] == identity and one["dataset"]["commit"]]  # fmt: skip
    return found[0] if found else None


def leading(evaluation: Evaluation) -> Report | None:
    """The metric that a reader looks at first, which is the first that was measured; None when none was."""
    reports: list[Report] = evaluation["reports"]
    return next((report for report in reports if report["value"] is not None), None)


def rules(report: Report) -> dict[str, float]:
    """The values of baselines that learned nothing."""
    return {one["name"]: one["value"] for one in report["baselines"] if one["name"] != CEILING}


def ceiling(report: Report) -> float | None:
    """How often the reference agrees with itself."""
    return next((one["value"] for one in report["baselines"] if one["name"] == CEILING), None)


def best(report: Report) -> tuple[str, float] | None:
    """The best of the baselines that learned nothing."""
    found = rules(report)
    return max(found.items(), key=lambda item: (item[1], item[0])) if found else None


def difference(report: Report, baseline: str) -> Mapping[str, Any]:
    """How the metric differs from one baseline: n, value, low, high; without numbers where that was not computed."""
    unknown: dict[str, Any] = {"n": None, "value": None, "low": None, "high": None}
    return next((one for one in report["differences"] if one["baseline"] == baseline), unknown)


def again(manifest: Manifest, evaluation: Evaluation) -> str:
    """The command that asks the checkpoint again."""
    how = manifest["identity"]["recipe"].get("evaluation")
    said = [f"arm evaluate {repo(manifest)}@v{manifest['identity']['version']} --split {evaluation['split']}"]
    if evaluation["orders"] > 1:
        said.append(f"--orders {evaluation['orders']}")
    if isinstance(how, Mapping) and how.get("max_items") and how["split"] == evaluation["name"]:
        said.append(f"--max-items {how['max_items']}")
    return " ".join(said)


def predictions(evaluation: Evaluation) -> str:
    return f"evaluation/{evaluation['name']}/predictions.jsonl"
