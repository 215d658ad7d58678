"""A plan for a person, and as a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from . import diff_report, output

if TYPE_CHECKING:
    from ..hub_sync.publish import Published
    from ..registry.plan import Plan, Step


def show(plan: Plan) -> None:
    """Print every step: what changed and since when, what would be sent, and what refuses."""
    for step in plan.steps:
        _step(step)
    for model in plan.models:
        what = f"to be trained because {'; '.join(model.reasons)}" if model.reasons else "up to date"
        output.note(f"{model.name} {model.version}: {'refused' if model.refusals else what}")
        for error in model.refusals:
            output.error(error)
    if plan.nothing:
        output.note("nothing to do: everything is published as it is declared")


def save(plan: Plan, path: Path) -> None:
    """Write the plan for `arm apply`."""
    import orjson

    from ..registry.apply import saved

    path.write_bytes(orjson.dumps(saved(plan), option=orjson.OPT_INDENT_2) + b"\n")
    output.note(f"saved {path}")


def tell(published: Published) -> None:
    """Say what was published, and how to load it."""
    import click

    did = "committed and tagged" if published.committed else "tagged what was there"
    output.note(f"{did}: {published.tag} is {published.commit}")
    for table, splits in published.loaded.items():
        output.note(f"  loaded back {table}: " + ", ".join(f"{split} {rows:,}" for split, rows in splits.items()))
    click.echo(published.url)
    output.note(
        f'next: python -c "from datasets import load_dataset; '
        f'print(load_dataset({published.repo!r}, revision={published.tag!r}))"'
    )


def _step(step: Step) -> None:
    title = f"{step.name} {step.version}"
    if step.built:
        output.note(f"{title} was built because " + "; ".join(step.built))
    if step.push:
        for warning in step.push.warnings:
            output.note(f"warning: {warning}")
        output.issues(step.push.findings, f"{len(step.push.findings)} secrets or addresses were found:")
    if step.status == "nothing":
        assert step.push is not None
        output.note(f"{title}: published as {step.repo} {step.push.tag}, at {step.push.tagged}")
        return
    if step.diff:
        since = f"since {step.last}" if step.last else "the first version"
        output.note(f"{title}, {since}:")
        diff_report.show(step.diff)
    if step.last and step.because:
        output.note(f"a {step.level} bump, because of {'; '.join(step.because)}")
    for note in step.notes:
        output.note(f"note: {note}")
    if step.push and step.status == "publish":
        _operations(step)
    for error in step.refusals:
        output.error(error)


def _operations(step: Step) -> None:
    planned = step.push
    assert planned is not None
    title = f"{planned.repo} {planned.tag} at {planned.url}"
    if planned.base is None:
        output.note(f"creates {'private' if planned.private else 'public'} repository {planned.url}")
    rows = [[o.action, o.path, f"{o.size:,}"] for o in planned.operations[: output.MAX_SHOWN]]
    if rows:
        output.table(title, ["", "file", "bytes"], rows)
    if left := planned.operations[output.MAX_SHOWN :]:
        output.note(f"... and {len(left)} more; --json lists them")
    changed = f"{len(planned.operations)} files change ({planned.added_bytes:,} bytes)" if rows else "no file changes"
    tables = planned.release.manifest["identity"]["tables"].values()
    expanded = sum(split["expanded_bytes"] for table in tables for split in table["splits"].values())
    output.note(
        f"{changed}, {planned.unchanged} stay as they are; the tag {planned.tag} is new; "
        f"{expanded:,} bytes on disk after load_dataset of all tables"
    )
