"""A plan for a person, and as a file. What would be done goes to stdout; what was done or is wrong, to stderr."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..schemas.errors import ArmError, UsageError, plain
from . import diff_report, generate_report, output

if TYPE_CHECKING:
    from ..hub_sync.publish import Published
    from ..registry.plan import Plan, Step


def show(plan: Plan) -> None:
    """Print every step: what changed and since when, what would be sent, and what refuses."""
    for step in plan.steps:
        _step(step, named=len(plan.steps) > 1)
    if plan.nothing:
        _say("nothing to do: everything is published as it is declared")


def apply_command(
    saved: Path | None, registry: str, names: Sequence[str], private: bool, keep: str | None
) -> str:  # fmt: skip
    """The `arm apply` that does what a plan with these options showed."""
    words = ["arm", "apply", *([str(saved)] if saved else [])]
    words += ["--registry", registry] if registry != "registry.yaml" else []
    if not saved:  # which says so itself
        words += [word for name in names for word in ("--name", name)]
        words += ["--private"] if private else []
    words += ["--card", keep] if keep else []
    return shlex.join(words)


def refuse_overwriting(path: Path) -> None:
    """Raise UsageError for a file that is no plan: nobody means to lose their registry.yaml or arm.lock."""
    from ..registry.apply import SavedPlan

    if not path.parent.is_dir():
        raise UsageError("there is no such folder", where=str(path.parent), next_command="arm plan --out plan.json")
    if path.is_file() and path.stat().st_size:
        try:
            SavedPlan.read(path)
        except ArmError as error:
            raise UsageError(
                "is there and is no plan: it would be lost", where=str(path), next_command="arm plan --out plan.json"
            ) from error


def save(plan: Plan, path: Path) -> None:
    """Write the plan for `arm apply`."""
    import orjson

    from ..registry.apply import saved

    path.write_bytes(orjson.dumps(saved(plan), option=orjson.OPT_INDENT_2) + b"\n")
    output.note(f"saved {path}")


def tell(published: Published) -> None:
    """Say what was published, and how to load it."""
    did = "committed and tagged" if published.committed else "tagged what was there"
    output.note(f"{did}: {published.tag} is {published.commit}")
    if scored := published.scored:
        output.note(
            f"  loaded back in a process of its own: {scored['conversations']} conversations, scores differ from those "
            f"before by {scored['max_difference']:.2g} at most"
        )
    for table, splits in published.loaded.items():
        output.note(f"  loaded back {table}: " + ", ".join(f"{split} {rows:,}" for split, rows in splits.items()))
    click.echo(published.url)
    if published.scored:
        output.note(f"next: arm lineage models/{published.repo}@{published.tag}")
        return
    output.note(
        f'next: python -c "from datasets import load_dataset; '
        f'print(load_dataset({published.repo!r}, revision={published.tag!r}))"'
    )


def _step(step: Step, *, named: bool) -> None:
    title = f"{step.name} {step.version}"
    is_dataset = step.form.kind == "dataset"
    if step.built:
        output.note(f"{title} {'was built because ' if is_dataset else 'says anew: '}" + "; ".join(step.built))
    for made in step.generated:
        generate_report.say(made)
    if step.push:
        for warning in step.push.warnings:
            output.note(output.one_line(f"warning: {warning}"))
        output.issues(step.push.findings, f"{len(step.push.findings)} secrets or addresses were found:")
    if step.status == "nothing":
        assert step.push is not None
        _say(f"{title}: published as {step.repo} {step.push.tag}, at {step.push.tagged}")
        return
    since = f"since {step.last}" if step.last else "the first version"
    if step.diff:
        _say(f"{title}, {since}:")
        diff_report.show(step.diff)
    elif step.push and not is_dataset:
        _say(f"{title}, {since}:")
        _checkpoint(step.push.release.manifest)
    elif step.refusals and named:
        _say(f"{title}: refused")
    if step.last and step.because:
        _say(f"a {step.level} bump, because of {'; '.join(step.because)}")
    for note in step.notes:
        _say(f"note: {note}")
    if step.push and step.status == "publish":
        _operations(step)
    for error in step.refusals:
        output.error(error)


def _operations(step: Step) -> None:
    planned = step.push
    assert planned is not None
    title = f"{planned.repo} {planned.tag} at {planned.url}"
    if planned.base is None:
        _say(f"creates {'private' if planned.private else 'public'} repository {planned.url}")
    rows = [[o.action, o.path, f"{o.size:,}"] for o in planned.operations[: output.MAX_SHOWN]]
    if rows:
        output.table(title, ["", "file", "bytes"], rows)
    if left := planned.operations[output.MAX_SHOWN :]:
        _say(f"... and {len(left)} more; --json lists them")
    changed = f"{len(planned.operations)} files change ({planned.added_bytes:,} bytes)" if rows else "no file changes"
    _say(f"{changed}, {planned.unchanged} stay as they are; the tag {planned.tag} is new{_on_disk(step)}")


def _on_disk(step: Step) -> str:
    if step.form.kind != "dataset" or step.push is None:
        return ""
    tables = step.push.release.manifest["identity"]["tables"].values()
    expanded = sum(split["expanded_bytes"] for table in tables for split in table["splits"].values())
    return f"; {expanded:,} bytes on disk after load_dataset of all tables"


def _checkpoint(manifest: Mapping[str, Any]) -> None:
    """What a checkpoint is and how it was found to do."""
    identity, said = manifest["identity"], manifest["checkpoint"]
    start = identity["init_from"] or said["base"]
    data = identity["dataset"]
    _say(f"{said['kind']}, {said['layout']} of {start['repo']} at {str(start['commit'])[:12]}")
    _say(f"learned from {data['repo']}@{data['revision']} (identity {data['identity_sha256'][:12]})")
    for one in manifest["evaluations"]:
        found = [
            f"{report['metric']} {report['value']:.4g}" for report in one["reports"][:4] if report["value"] is not None
        ]
        _say(f"{one['name']}, {one['items']:,} items: {', '.join(found)}")


def _say(text: str) -> None:
    click.echo(plain(text))
