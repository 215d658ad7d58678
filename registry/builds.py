"""A built directory as a whole: rows or weights against the manifest, and the card against both."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from .. import __version__
from ..builders import reader
from ..builders.gathering import Progress
from ..builders.manifest import code_sha256
from ..builders.published import write_loader, write_schemas
from ..cards.dataset import problems
from ..hub_sync import checkpoints
from ..hub_sync.forms import CHECKPOINT, DATASET, Form
from ..inference import adapter, contract
from ..recipes.evaluation import predictions
from ..schemas.errors import ArmError, Issue
from ..schemas.ids import file_sha256
from ..schemas.manifest import NAME, identity_digest, manifest_of

_LOG = "training/log.jsonl"


def check_build(folder: Path, progress: Progress = lambda *_: None) -> list[Issue]:
    """Every issue of a built directory: files, rows, digests, and a card that would load something else.

    Raises ArmError when there is no manifest, or when it is not one.
    """
    issues = reader.check(folder, progress)
    manifest = manifest_of(folder)
    ours = manifest["environment"]["code_sha256"] == code_sha256()  # else its words may be other ones, and right
    if ours:
        issues += _described(folder, manifest)
    card = folder / "README.md"
    if card.is_file():
        found = problems(card.read_text("utf-8", errors="replace"), manifest, same_code=ours)
        issues += [Issue("README.md", 0, "$", problem) for problem in found]
    return sorted(issues)


def form_of(folder: Path) -> Form:
    """What a built directory is: a dataset, unless its manifest says that it is a checkpoint."""
    try:
        with (folder / NAME).open("rb") as file:
            return CHECKPOINT if b'"model_manifest"' in file.read() else DATASET
    except OSError:
        return DATASET


def check_checkpoint(folder: Path, progress: Progress = lambda *_: None) -> list[Issue]:
    """Every issue of a built checkpoint: files, what they hold, and what the manifest says that it is used with.

    Nothing is loaded. Raises ArmError when there is no manifest, or when it is not one.
    """
    manifest = manifest_of(folder, CHECKPOINT.schema)
    files, issues = manifest["environment"]["files"], []
    for done, (name, entry) in enumerate(files.items()):
        progress("checking files", done, len(files))
        if not (folder / name).is_file():
            issues.append(Issue(name, 0, "$", "is missing"))
        elif file_sha256(folder / name) != entry["sha256"]:
            issues.append(Issue(name, 0, "$", "is not the file that the manifest names"))
    progress("checking files", len(files), len(files))
    if (digest := identity_digest(manifest["identity"])) != manifest["identity_sha256"]:
        issues.append(Issue(NAME, 0, "$.identity_sha256", f"is {manifest['identity_sha256']}, and would be {digest}"))
    if not issues:
        issues += [Issue(NAME, 0, "$.checkpoint", said) for said in _used_otherwise(folder, manifest)]
        issues += _measured_otherwise(folder, manifest)
    issues += checkpoints.file_problems(folder, [name for name in files if (folder / name).is_file()])
    if (card := folder / "README.md").is_file():
        text = card.read_text("utf-8", errors="replace")
        issues += [Issue("README.md", 0, "$", said) for said in CHECKPOINT.problems(text, manifest)]
    return sorted(set(issues))


def _used_otherwise(folder: Path, manifest: Mapping[str, Any]) -> Iterator[str]:
    """What beside the weights is not what the manifest says that the checkpoint is used with."""
    said, made = manifest["checkpoint"], manifest["identity"]
    for key in ("repo", "commit", "sha256") if made["base"] is not None else ():
        if said["base"][key] != made["base"][key]:
            yield f"base.{key} is {said['base'][key]}, and it was trained from {made['base'][key]}"
    if said["kind"] != made["recipe"].get("kind", said["kind"]):
        yield f"kind is {said['kind']}, and its recipe trains a {made['recipe']['kind']}"
    if (trained := manifest["training"]) is not None:
        if trained["curve"] != (curve := _curve(folder / _LOG)):
            yield f"training.curve is not what {_LOG} says"
        elif curve and [trained["loss_first"], trained["loss_last"]] != [curve[0]["loss"], curve[-1]["loss"]]:
            yield "training.loss_first and loss_last are not the ends of training.curve"
        if trained["used"] + sum(trained["unusable"].values()) != trained["rows"]:
            yield "training.used and training.unusable are not all of training.rows"
    try:
        contract.refuse_other_prompt(folder, said)
    except ArmError as error:
        yield error.message
    tokenizer = folder / "tokenizer.json"
    if not tokenizer.is_file() or file_sha256(tokenizer) != said["processor"]["tokenizer_sha256"]:
        yield "processor.tokenizer_sha256 is not that of tokenizer.json"
    weights = "adapter_model.safetensors" if said["layout"] == "adapter" else "model*.safetensors"
    if not any(folder.glob(weights)):
        yield f"layout is {said['layout']}, and there is no {weights}"
    if said["layout"] == "adapter":
        try:
            config = adapter.read_config(folder)
        except ArmError as error:
            yield error.message
            return
        for key in ("r", "lora_alpha", "use_rslora"):
            declared = (made["recipe"].get("lora") or {}).get(key)
            if declared is not None and config.get(key, declared) != declared:
                yield f"lora.{key} of its recipe is {declared}, and adapter_config.json has {config[key]}"
        for key, name in (("repo", "base_model_name_or_path"), ("commit", "revision")):
            if said["base"]["repo"] is not None and config.get(name) != said["base"][key]:
                yield f"base.{key} is {said['base'][key]}, and adapter_config.json has {name} {config.get(name)!r}"


def _curve(log: Path) -> list[dict[str, Any]]:
    """The losses that a training noted."""
    try:
        entries = [orjson.loads(line) for line in log.read_bytes().split(b"\n") if line]
        return [{"step": entry["step"], "loss": entry["loss"]} for entry in entries if "loss" in entry]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _measured_otherwise(folder: Path, manifest: Mapping[str, Any]) -> Iterator[Issue]:
    """Evaluations whose figures do not follow from the predictions that are published with them."""
    from ..recipes.evaluation.metrics import recompute

    learned = manifest["identity"]["dataset"]
    for number, entry in enumerate(manifest["evaluations"]):
        asked = entry["dataset"]
        same = asked["repo"] is not None and all(asked[key] == learned[key] for key in ("repo", "revision"))
        if same and asked["identity_sha256"] != learned["identity_sha256"]:
            yield Issue(NAME, 0, f"$.evaluations[{number}].dataset", "is another build than that of $.identity.dataset")
        where, path = f"$.evaluations[{number}]", f"evaluation/{entry['name']}/{predictions.NAME}"
        if path not in manifest["environment"]["files"]:
            yield Issue(NAME, 0, where, f"nobody can count again what it says: there is no {path}")
            continue
        try:
            rows = predictions.read(folder / path)
        except ArmError as error:
            yield from (Issue(path, issue.line, issue.path, issue.message) for issue in error.issues)
            continue
        stamp = entry["reports"][0] if entry["reports"] else {}
        found = recompute(rows, manifest["checkpoint"]["kind"], stamp)
        ours = manifest["environment"]["action_reward_models"] == __version__
        said = [{key: value for key, value in _counted(one, ours).items() if key in found} for one in (found, entry)]
        for key in sorted(key for key in said[0].keys() & said[1].keys() if said[0][key] != said[1][key]):
            yield Issue(NAME, 0, f"{where}.{key}", f"is not what follows from {path}")


def _counted(entry: Mapping[str, Any], ours: bool) -> dict[str, Any]:
    """What is counted anew of an evaluation: of one that another version made, only the values of its metrics, for
    that version may tell other things beside them."""
    if ours:
        return dict(entry)
    values = {report["metric"]: report["value"] for report in entry["reports"]}
    return {"items": entry["items"], "outcomes": entry["outcomes"], "reports": values}


def _described(folder: Path, manifest: dict[str, Any]) -> Iterator[Issue]:
    """What lies beside the data and is not what this version writes there: people run `load.py`."""
    identity = manifest["identity"]
    with tempfile.TemporaryDirectory(prefix="arm-described-") as work:
        written = write_schemas(Path(work), identity["tables"])
        written.append(write_loader(Path(work), f"{identity['namespace']}/{identity['name']}", identity["version"]))
        for path in written:
            name = path.relative_to(work).as_posix()
            if (folder / name).is_file() and (folder / name).read_bytes() != path.read_bytes():
                yield Issue(name, 0, "$", "is not what a build writes: do not run it before you know why")
