"""Everything that is checked before a directory is published, without the network: what fails, fails at no cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..schemas import gates
from ..schemas.errors import ArmError, Issue
from ..schemas.manifest import manifest_of
from . import checkpoints, limits
from .forms import DATASET, Form
from .scan import scan

CARD = "README.md"
MAX_TOLD = 50  # findings that are told one by one where they stop nothing
# Keys of a card's YAML that hold text, or a list of it: YAML reads `no` as false and `1.10` as a number.
_TEXTS = (
    "license", "license_name", "license_link", "pretty_name", "language", "tags", "task_categories", "task_ids",
    "size_categories", "source_datasets", "annotations_creators", "language_creators", "multilinguality",
)  # fmt: skip


@dataclass(frozen=True)
class Preflight:
    """``issues`` and ``violations`` of gates forbid publishing; ``findings`` (secrets, addresses) do so without a word
    of the publisher.

    ``warnings`` forbid nothing; findings are among them where the dataset's gate says so. Issues and findings are
    sorted by file.
    """

    issues: tuple[Issue, ...]
    warnings: tuple[str, ...]
    findings: tuple[Issue, ...]
    violations: tuple[gates.Violation, ...] = ()


def preflight(
    folder: Path, check: Callable[[Path], list[Issue]], progress: Callable[[str, int, int], None] = lambda *_: None,
    form: Form = DATASET,
) -> Preflight:  # fmt: skip
    """Check the built directory ``folder``: its content with ``check``, its card, the Hub's limits, secrets.

    Everything is looked at, so that all problems come at once. Raises ArmError when there is no manifest, or none that
    this version reads.
    """
    manifest = manifest_of(folder, form.schema)
    files, issues = limits.regular_files(folder, manifest)
    # What Python leaves where load.py was imported is not published, and no reason not to publish.
    issues += [issue for issue in check(folder) if not issue.file.startswith("__pycache__/")]
    issues += limits.problems(folder, files)
    issues += limits.figures(folder, files)
    issues += _sizes(folder, files, manifest)
    if CARD in files:
        issues += [Issue(CARD, 0, "$", message) for message in _card((folder / CARD).read_bytes(), manifest, form)]
    if form is not DATASET:
        issues += checkpoints.file_problems(folder, files)
    damaged = {issue.file for issue in issues}
    found, unread = scan(folder, files, progress)
    issues += [issue for issue in unread if issue.file not in damaged]
    warnings, findings = list(limits.warnings(files)), sorted(found)
    violated: tuple[gates.Violation, ...] = ()
    if form is DATASET:  # of a checkpoint nobody declares gates
        if not gates.secrets_stop(manifest["identity"]):
            warnings, findings = [*warnings, *_told(findings)], []
        violated = tuple(gates.violations(manifest["identity"]))
    return Preflight(tuple(sorted(set(issues))), tuple(warnings), tuple(findings), violated)


def _told(findings: list[Issue]) -> Iterator[str]:
    yield from (f"{finding}, and gates.secrets is warn" for finding in findings[:MAX_TOLD])
    if (left := len(findings) - MAX_TOLD) > 0:
        yield f"{left:,} more secrets or addresses were found, and gates.secrets is warn"


def _sizes(folder: Path, files: list[str], manifest: Mapping[str, Any]) -> Iterator[Issue]:
    """The card adds up the sizes of the manifest."""
    for name, entry in manifest["environment"]["files"].items():
        if name in files and (size := (folder / name).stat().st_size) != entry["bytes"]:
            yield Issue(name, 0, "$", f"has {size:,} bytes, the manifest says {entry['bytes']:,}")


def _card(data: bytes, manifest: dict[str, Any], form: Form) -> Iterator[str]:
    """What is wrong with the card, and with the one that publishing makes of it."""
    from huggingface_hub import DatasetCard, ModelCard

    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        yield f"is not UTF-8: {error}"
        return
    yield from form.problems(text, manifest)
    try:
        head = (DatasetCard if form is DATASET else ModelCard)(form.merge(text, manifest)).data
    except ArmError as error:
        yield error.message
        return
    except (ValueError, TypeError) as error:  # of huggingface_hub, about YAML that it cannot take
        yield f"its YAML is not accepted: {error}"
        return
    for key in _TEXTS:
        values = head.get(key)
        for value in values if isinstance(values, list) else [values]:
            if value is not None and not isinstance(value, str):
                yield f"its {key} holds {value!r}, where the Hub takes text only: put it between quotes"
