"""``arm validate``: a registry with its sources, a recipe, a built directory, or a file of records."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import click

from . import output

_MAX_FINDINGS = 1000  # of one dataset: whoever has more does not read them one by one
_MENDED = "publishing stops for them unless the dataset says `redact: [secrets, addresses]` or `gates: {secrets: warn}`"


@click.command(
    "validate",
    short_help="Check a registry and its sources, a recipe, a built directory, or a file of records.",
    epilog=output.examples(
        "arm validate registry.yaml",
        "arm validate build/action-reward-models-data",
        "arm validate recipe.yaml --offline",
        "arm validate data/labels.jsonl --as first_release_label/1",
    ),
)
@click.argument("path", default="registry.yaml", type=click.Path(path_type=Path), metavar="[PATH]")
@click.option("--as", "schema", metavar="SCHEMA", help="Schema of a JSONL file's records, such as episode/1.")
@click.option("--offline", is_flag=True, help="Of a recipe: ask nothing of the Hub; what needs it is listed.")
@click.option("--sample", type=click.IntRange(min=1), help="Of a recipe: rows whose tokens are counted. [default: 200]")
@output.workers_option
@output.json_option
def command(
    path: Path, schema: str | None, offline: bool, sample: int | None, workers: int | None, as_json: bool
) -> None:
    """Check PATH (default: registry.yaml) and print every problem as `file:line $.path message`.

    A registry is checked with all records and screenshots of its sources, as a build would read them; secrets and
    e-mail addresses in them, which would stop publishing, are told and are no problem yet. A built directory is read
    back: file hashes, every row's schema, the digests of rows, tables and build. A *.jsonl file needs --as.

    A recipe is checked as far as what it names is at hand: arguments against the installed libraries, the model's shape
    without its weights, rows, splits, and tokens with the real processor. Checks that could not run are listed.
    """
    from ..registry.alone import is_recipe
    from ..schemas.errors import ArmError, UsageError

    if not path.exists():
        raise UsageError("there is no such file or folder", where=str(path), next_command="arm init")
    if schema and path.suffix != ".jsonl":
        raise UsageError("--as goes with a *.jsonl file", where=str(path))
    recipe = is_recipe(path)
    if (offline or sample) and not recipe:
        raise UsageError("--offline and --sample go with a recipe", where=str(path))
    if workers and (recipe or path.suffix == ".jsonl" or (path / "manifest.json").is_file()):
        raise UsageError("--workers goes with a registry", where=str(path))
    built = path.parent if path.name == "manifest.json" else path
    findings: list[Any] = []
    skipped: list[Any] = []
    try:
        if path.is_file() and path.suffix == ".jsonl":
            issues, what = _records(path, schema)
        elif recipe:
            issues, skipped, what = _recipe(path, offline, sample)
        elif (built / "manifest.json").is_file():
            issues, what = _build(built)
        else:
            issues, findings, what = _registry(path, workers)
    except ArmError as error:
        if not error.issues:
            raise
        issues, what = (
            list(error.issues),
            f"{path} until there {'was 1 problem' if len(error.issues) == 1 else f'were {len(error.issues)} problems'}",
        )
    if as_json:
        told = {"issues": [i.to_json() for i in issues], "findings": [f.to_json() for f in findings]}
        if recipe:
            told["skipped"] = [one.to_json() for one in skipped]
        output.data({"ok": not issues, "checked": what, **told})
    else:
        output.issues(findings, f"{len(findings)} secrets or addresses in the sources; {_MENDED}:")
        output.issues(issues, f"{len(issues)} problem{'s' if len(issues) != 1 else ''}:")
        if skipped:
            output.note(f"{len(skipped)} check{'s' if len(skipped) != 1 else ''} did not run:")
            for one in skipped:
                output.note(output.one_line(f"  {one}"))
        output.note(f"checked {what}" + ("" if issues else "\nno problems"))
    click.get_current_context().exit(1 if issues else 0)


def _registry(path: Path, workers: int | None) -> tuple[list[Any], list[Any], str]:
    """(Problems, secrets and addresses in the records, what was checked)."""
    from ..builders.redact import sought
    from ..registry import Registry

    registry = Registry.load(path)
    issues: list[Any] = []
    findings: list[Any] = []
    counted = []
    for spec in registry.datasets:
        with output.progress() as show:
            found, account = registry.check(spec.name, workers=workers, progress=show)
            findings += islice(sought(registry.resolved(spec.name, show), show), _MAX_FINDINGS)
        issues += found
        stages = []
        for stage, entry in account.items():
            reasons = ", ".join(f"{reason} {n:,}" for reason, n in entry["excluded"].items())
            stages.append(f"{stage} {entry['out']:,} of {entry['in']:,}" + (f" ({reasons})" if reasons else ""))
        if stages:
            counted.append(f"{spec.name}: {'; '.join(stages)}")
    return issues, sorted(set(findings)), "\n  ".join([str(registry.path), *counted])


def _recipe(path: Path, offline: bool, sample: int | None) -> tuple[list[Any], list[Any], str]:
    """(Problems, checks that did not run, what was checked)."""
    from ..hub_sync.hub import Hub
    from ..recipes.checks import SAMPLE
    from ..registry.checking import check_recipe

    hub = None if offline else Hub(repo_type="model", progress=output.note)
    found = check_recipe(path, hub=hub, sample=sample or SAMPLE)
    lines = [str(path)]
    for name, counts in found.counts.items():
        said = ", ".join(f"{key.replace('_', ' ')} {_shown(value)}" for key, value in counts.items() if value != {})
        lines.append(f"{name}: {said}")
    return list(found.issues), list(found.skipped), "\n  ".join(lines)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "(" + ", ".join(f"{key} {n:,}" for key, n in value.items()) + ")"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _build(path: Path) -> tuple[list[Any], str]:
    from ..registry import check_build
    from ..schemas.manifest import manifest_of

    with output.progress() as show:
        issues = check_build(path, show)
    tables = manifest_of(path)["identity"]["tables"]
    return issues, f"{path} ({sum(t['rows'] for t in tables.values()):,} rows in {len(tables)} tables)"


def _records(path: Path, schema: str | None) -> tuple[list[Any], str]:
    from ..schemas import jsonl, store
    from ..schemas.errors import Issue, UsageError
    from ..schemas.validate import for_schema

    if not schema:
        raise UsageError(
            "which records are these?", where=str(path), next_command=f"--as one of {', '.join(store.names())}"
        )
    validator = for_schema(schema)
    issues, count = [], 0
    for line in jsonl.read_lines(path):
        count += 1
        try:
            problems = validator.problems(jsonl.loads_line(line))
        except jsonl.JsonError as error:
            problems = [("$", str(error))]
        issues += [Issue(str(path), line.number, where, message) for where, message in problems]
    return issues, f"{path} ({count:,} records as {schema})"
