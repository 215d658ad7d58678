"""What the Hub reads of a checkpoint: the YAML at the head of its card, and the files below ``.eval_results``.

Metrics are written twice, as ``model-index`` and as ``.eval_results``: the Hub reads both, and calls the first one
legacy. Both are made and read back by the classes of `huggingface_hub`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..schemas.errors import ArmError
from . import blocks
from . import model_facts as facts
from .front_matter import dump, pretty_name
from .licences import HUB, hub_licences
from .model_facts import Evaluation, Manifest, Report
from .model_words import plain
from .text import number

if TYPE_CHECKING:
    from huggingface_hub import EvalResult, EvalResultEntry

# Keys that this module writes; every other key of a card belongs to a person.
KEYS = (
    "license", "license_name", "base_model", "base_model_relation", "datasets", "library_name", "pipeline_tag", "tags",
    "model-index",
)  # fmt: skip
TAGS = (
    "action-reward-models", "reward-model", "selection", "bradley-terry", "web-agents", "gui-agents", "best-of-n",
    "lora",
)  # fmt: skip
RELATIONS = ("adapter", "finetune", "merge", "quantized")
# Which results of a model-index are ours: those of any other task are a person's.
TASK = "Choosing among candidate actions of a web agent"
FOLDER = ".eval_results"


def front_matter(manifest: Manifest) -> dict[str, Any]:
    """The card's metadata as plain data, in the order in which it is written."""
    identity, checkpoint = manifest["identity"], manifest["checkpoint"]
    model, relation = base_model(manifest)
    data = [identity["dataset"]["repo"], *(one["dataset"]["repo"] for one in manifest["evaluations"])]
    made: dict[str, Any] = {
        **(hub_licences(identity["license"], ()) if identity["license"] else {}),
        **({"base_model": model, "base_model_relation": relation} if model else {}),
        "datasets": list(dict.fromkeys(name for name in data if name)),
        "library_name": "peft" if checkpoint["layout"] == "adapter" else "transformers",
        "pipeline_tag": _pipeline(manifest),
        "tags": _tags(manifest),
        "model-index": model_index(manifest),
    }
    return {key: value for key, value in made.items() if value}


def base_model(manifest: Manifest) -> tuple[str | None, str]:
    """What it was made from, and how, as the Hub draws its model tree.

    An adapter is an ``adapter`` of its base; what was trained further is a ``finetune`` of the checkpoint that it
    started from, and a whole model one of its base. What the Hub calls a merge is made of several models.
    """
    parent, base = manifest["identity"]["init_from"], manifest["checkpoint"]["base"]
    if parent and parent["repo"]:
        return parent["repo"], "finetune"
    return base["repo"], "adapter" if manifest["checkpoint"]["layout"] == "adapter" else "finetune"


def model_index(manifest: Manifest) -> list[dict[str, Any]]:
    """Metrics as ``model-index``; empty without one that was measured on a dataset with a name."""
    from huggingface_hub import ModelCardData

    if not (found := results(manifest)):
        return []
    data: Any = ModelCardData(model_name=manifest["identity"]["name"], eval_results=found)
    written: list[dict[str, Any]] = data.to_dict()["model-index"]
    return written


def results(manifest: Manifest) -> list[EvalResult]:
    """Every measured metric, with the commit of the data; the tag for data that was not published when it was used."""
    from huggingface_hub import EvalResult

    return [
        EvalResult(
            task_type=_pipeline(manifest),
            task_name=TASK,
            dataset_type=one["dataset"]["repo"],
            dataset_name=f"{pretty_name(one['dataset']['repo'].rpartition('/')[2])}, {one['name']}",
            dataset_config=_config(one, report),
            dataset_split=one["split"],
            dataset_revision=_revision(one),
            metric_type=report["metric"],
            metric_name=plain(report["metric"]),
            metric_value=report["value"],
            metric_args=_counted(report),
        )
        for one in manifest["evaluations"]
        if one["dataset"]["repo"]
        for report in one["reports"]
        if report["value"] is not None
    ]


def entries(evaluation: Evaluation) -> list[EvalResultEntry]:
    """One evaluation in the form of ``.eval_results``: a task for each metric, so that each value stands alone."""
    from huggingface_hub import EvalResultEntry

    return [
        EvalResultEntry(
            dataset_id=evaluation["dataset"]["repo"],
            task_id=f"{evaluation['split']}-{report['metric']}",
            value=report["value"],
            dataset_revision=_revision(evaluation),
            notes=_notes(evaluation, report),
        )
        for report in evaluation["reports"]
        if report["value"] is not None
    ]


def eval_results(manifest: Manifest) -> dict[str, str]:
    """Path in the checkpoint -> text of the file; one for each evaluation on a dataset with a name.

    The same manifest gives the same bytes: no date, which the Hub takes from the commit.
    """
    from huggingface_hub import eval_result_entries_to_yaml

    facts.check(manifest)
    found = {one["name"]: entries(one) for one in manifest["evaluations"] if one["dataset"]["repo"]}
    return {f"{FOLDER}/{name}.yaml": dump(eval_result_entries_to_yaml(some)) for name, some in found.items() if some}


def metadata_problems(text: str) -> list[str]:
    """What the Hub would refuse or misread in the YAML of a model card, found without asking it."""
    from huggingface_hub import ModelCard

    try:
        blocks.read_head(text)  # bounded, which the other reader is not
        data: Any = ModelCard(text).data
        data.to_dict()
    except ArmError as error:
        return [error.message]
    except (ValueError, TypeError, KeyError, AttributeError) as error:  # of huggingface_hub, about the YAML
        return [f"its YAML is not accepted: {error}"]
    found = []
    for key in ("license", "license_name", "license_link", "base_model", "datasets", "language", "metrics", "tags",
                "library_name", "pipeline_tag", "base_model_relation", "thumbnail", "inference"):  # fmt: skip
        values = data.get(key)
        for value in values if isinstance(values, list) else [values]:
            if value is not None and not isinstance(value, str | bool if key == "inference" else str):
                found.append(f"its {key} holds {value!r}, where the Hub takes text only: put it between quotes")
    licences = data.get("license")
    for licence in licences if isinstance(licences, list) else [licences]:
        if isinstance(licence, str) and licence not in HUB:
            found.append(f"its license {licence!r} is none that the Hub knows: write other, and license_name beside it")
    if (relation := data.get("base_model_relation")) is not None and relation not in RELATIONS:
        found.append(f"its base_model_relation is {relation!r}; the Hub knows {', '.join(RELATIONS)}")
    return found


def ours(result: Any) -> bool:
    """Whether a result of a model-index is one that this module wrote, for this or another version."""
    return (
        isinstance(result, Mapping) and isinstance(result.get("task"), Mapping) and result["task"].get("name") == TASK
    )


def _pipeline(manifest: Manifest) -> str:
    """The Hub's word: what writes text is found by what it reads, and a model with one output classifies."""
    if manifest["checkpoint"]["kind"] == "scalar":
        return "text-classification"
    return "image-text-to-text" if facts.sees(manifest) else "text-generation"


def _tags(manifest: Manifest) -> list[str]:
    checkpoint = manifest["checkpoint"]
    unfit = {"bradley-terry"} if checkpoint["kind"] == "selection_arm" else {"selection"}
    if manifest["identity"]["recipe"].get("objective", {}).get("loss", "bt") not in ("bt", "soft_bt"):
        unfit.add("bradley-terry")
    if checkpoint["layout"] != "adapter":
        unfit.add("lora")
    return [tag for tag in TAGS if tag not in unfit]


def _revision(evaluation: Evaluation) -> str | None:
    data: Mapping[str, str | None] = evaluation["dataset"]
    return data["commit"] or data["revision"]


def _config(evaluation: Evaluation, report: Report) -> str:
    """The table that the items of a metric are rows of."""
    of_pairs = ("pair_accuracy", "margin", "calibration_error") if evaluation.get("pairs") else ()
    return "bt_pairs" if report["metric"] in of_pairs else "candidate_sets"


def _counted(report: Report) -> dict[str, Any]:
    keys = ("n", "n_valid", "interval_low", "interval_high")
    return {key: report[key] for key in keys if report[key] is not None}


def _notes(evaluation: Evaluation, report: Report) -> str:
    said = [f"{report['n_valid']} valid of {report['n']} items"]
    if report["interval_low"] is not None and report["interval_high"] is not None:
        said.append(f"95 % interval {number(report['interval_low'])} to {number(report['interval_high'])}")
    if best := facts.best(report):
        said.append(f"best baseline {plain(best[0])} {number(best[1])}")
    if (ceiling := facts.ceiling(report)) is not None:
        said.append(f"teacher's agreement with itself {number(ceiling)}")
    return f"{'; '.join(said)}; every prediction in {facts.predictions(evaluation)}"
