"""The model card: README.md of a checkpoint, rendered from its manifest and nothing else."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..schemas.errors import ArmError
from ..schemas.ids import sha256_hex
from . import blocks, model_facts, model_figures, model_rows, rows, text
from .front_matter import dump
from .model_code import Ways
from .model_facts import Manifest
from .model_limits import limits
from .model_lineage import in_words, picture
from .model_metadata import KEYS, TAGS, eval_results, front_matter, metadata_problems, ours
from .model_recipe import recipe
from .model_words import KINDS, LOSSES, plain

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["eval_results", "merge", "metadata_problems", "problems", "render", "words"]

TEMPLATE = "model.md.j2"


def render(manifest: Manifest) -> str:
    """Return the text of README.md. The same manifest gives the same text, whatever the order of its keys.

    Raises ArmError for a manifest of another version, or with a name that no repository can have.
    """
    model_facts.check(manifest)
    return blocks.compose(dump(front_matter(manifest)), _block(manifest))


def merge(existing: str, manifest: Manifest) -> str:
    """Return ``existing`` with the generated part renewed.

    Text outside the two markers and YAML keys that are not ours stay as they are, and so do tags and results of other
    tasks that a person added. Raises ArmError when the markers are broken or the YAML at the head cannot be read; see
    `render` for the others.
    """
    model_facts.check(manifest)
    made, head = front_matter(manifest), blocks.read_head(existing)
    made["tags"] += _tags(head)
    if others := _results(head):
        own = made.pop("model-index", [{"name": manifest["identity"]["name"], "results": []}])
        own[0]["results"] += others
        made["model-index"] = own
    return blocks.merge(existing, dump(made), _block(manifest), KEYS)


@lru_cache(maxsize=32)  # asked again and again of the same few cards
def words(text: str) -> tuple[str, ...]:
    """All that a person added to a card, in a form that can be compared; only empty strings when nothing was.

    Raises ArmError when the markers are broken or the YAML at the head cannot be read.
    """
    head = blocks.read_head(text)
    results = dump(others) if (others := _results(head)) else ""
    return (*blocks.persons(text, KEYS), "\n".join(_tags(head)), results)


def problems(text: str, manifest: Manifest, *, same_code: bool = True) -> list[str]:
    """What a card says that its manifest does not, every generated number, and what the Hub would not take.

    The text is compared only when this version of the project rendered it; another one may word it otherwise. With
    ``same_code`` false it did not, although it calls itself by the same number.
    """
    try:
        head = blocks.read_head(text)
        blocks.generated(text)
        expected = blocks.read_head(blocks.compose(dump(front_matter(manifest)), ""))
        model_facts.check(manifest)
    except ArmError as error:
        return [error.message]
    same = same_code and manifest["environment"]["action_reward_models"] == __version__
    found = metadata_problems(text)
    for key in KEYS if same else ("base_model", "library_name"):
        said = _own(key, head.get(key))
        if key != "tags" and said != _own(key, expected.get(key)):
            found.append(f"its {key} is {said!r}, the manifest gives {expected.get(key)!r}")
    if not same:
        return sorted(found)
    if stale := blocks.stale(text, _block(manifest)):
        found.append(stale)
    files = manifest["environment"]["files"]
    for path, data in eval_results(manifest).items():
        if path in files and files[path]["sha256"] != sha256_hex(data.encode()):
            found.append(f"{path} is not what the manifest's evaluations give")
    return sorted(found)


def _tags(head: dict[str, Any]) -> list[str]:
    tags = head.get("tags")
    added = [str(tag) for tag in tags if tag not in TAGS] if isinstance(tags, list) else []
    return list(dict.fromkeys(added))


def _results(head: dict[str, Any]) -> list[Any]:
    """Results that a person added to the model-index: those of another task than ours."""
    index = head.get("model-index")
    models = [model for model in index if isinstance(model, dict)] if isinstance(index, list) else []
    found = [model.get("results") for model in models]
    return [result for results in found if isinstance(results, list) for result in results if not ours(result)]


def _own(key: str, value: Any) -> Any:
    """``value`` without what a person added to it."""
    if key != "model-index" or not isinstance(value, list):
        return value
    kept = [
        {**model, "results": [result for result in model.get("results") or [] if ours(result)]}
        for model in value
        if isinstance(model, dict)
    ]
    return [model for model in kept if model["results"]] or None


@cache
def _template() -> Template:
    source = (resources.files(__package__) / TEMPLATE).read_text("utf-8")
    environment = text.environment({TEMPLATE: source})
    environment.filters["plain"] = plain
    environment.globals["table_of"] = text.table
    return environment.get_template(TEMPLATE)


def _block(manifest: Manifest) -> str:
    rendered = _template().render(_context(manifest))
    return re.sub(r"\n{3,}", "\n\n", rendered).strip("\n") + "\n"


def _context(manifest: Manifest) -> dict[str, Any]:
    identity, checkpoint = manifest["identity"], manifest["checkpoint"]
    loss = identity["recipe"].get("objective", {}).get("loss", "bt")
    return {
        "repo": text.Markdown(model_facts.repo(manifest)),  # checked: plain in code and in text
        "revision": text.Markdown(f"v{identity['version']}"),
        "description": identity["description"],
        "withdrawn": rows.withdrawn_rows(manifest),
        "withdrawn_here": (manifest["environment"].get("withdrawn") or {}).get(identity["version"]),
        "license": identity["license"],
        "dataset": identity["dataset"],
        "dataset_commit": model_facts.dataset_commit(manifest),
        "parent": identity["init_from"],
        "base": checkpoint["base"],
        "kind": text.Markdown(checkpoint["kind"]),
        "layout": checkpoint["layout"],
        "does": text.Markdown(KINDS[checkpoint["kind"]]),
        "loss": text.Markdown(LOSSES[loss]) if checkpoint["kind"] == "scalar" else None,
        "declared": model_facts.declared(manifest),
        "public": model_facts.public(manifest),
        "sees": model_facts.sees(manifest),
        "ways": Ways(manifest),
        "table": model_facts.table(manifest),
        "contract": model_rows.contract(manifest),
        "prompt_file": checkpoint["prompt"]["file"],
        "limits": limits(manifest),
        "figures": model_figures.shown(manifest),
        "evaluations": [_evaluation(manifest, one) for one in manifest["evaluations"]],
        "training": manifest["training"],
        "training_rows": model_rows.training(manifest) if manifest["training"] else [],
        "unusable": _unusable(manifest),
        "packages": model_rows.packages(manifest) if manifest["training"] else [],
        "recipe": recipe(identity["recipe"]),
        "picture": picture(manifest),
        "in_words": in_words(manifest),
        "files": model_rows.files(manifest),
        "identity_sha256": manifest["identity_sha256"],
        "version": manifest["environment"]["action_reward_models"],
    }


def _unusable(manifest: Manifest) -> list[Any]:
    training = manifest["training"]
    return model_rows.unusable(training["unusable"], training["rows"]) if training else []


def _best(report: model_facts.Report | None) -> tuple[text.Markdown, float] | None:
    """The best rule in a reader's words, and its value."""
    best = model_facts.best(report) if report else None
    return (model_rows.rule(best[0]), best[1]) if best else None


def _evaluation(manifest: Manifest, one: model_facts.Evaluation) -> dict[str, Any]:
    report, pairs, pairs_left_out = model_facts.leading(one), one.get("pairs"), one.get("pairs_left_out") or {}
    return {
        **{key: one[key] for key in ("name", "dataset", "split", "items", "states", "orders", "teacher")},
        "leading": report,
        "best": _best(report),
        "itself": model_facts.ceiling(report) if report else None,
        "ceiling": any(model_facts.ceiling(report) is not None for report in one["reports"]),
        "metrics": model_rows.metrics(one),
        "baselines": model_rows.baselines(one),
        "methods": sorted({r["interval_method"] for r in one["reports"] if r["interval_method"]}),
        "judges": sorted({r["judge"] for r in one["reports"] if r["judge"]}),
        "outcomes": model_rows.outcomes(one, manifest["checkpoint"]["kind"]),
        "picked": sum(one["slots"]),
        "slots": model_rows.slots(one),
        "calibration": model_rows.calibration(one),
        "breakdowns": model_rows.breakdowns(one),
        "sets": one["items"] + sum(one["left_out"].values()),
        "left_out": model_rows.unusable(one["left_out"], one["items"] + sum(one["left_out"].values())),
        "pairs": pairs,
        "all_pairs": (pairs or 0) + sum(pairs_left_out.values()),
        "pairs_left_out": model_rows.unusable(pairs_left_out, (pairs or 0) + sum(pairs_left_out.values())),
        "predictions": model_facts.predictions(one),
        "path": text.Markdown(model_facts.predictions(one)),  # checked: plain in code
        "again": model_facts.again(manifest, one),
        "report": f"evaluation/{one['name']}/report.json",
    }
