"""``arm log``: the published versions of a dataset or checkpoint, and what each changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from ..schemas.errors import plain
from . import output
from .source import declared, located

if TYPE_CHECKING:
    from ..registry.provenance.history import Change, History, Version


@click.command(
    "log",
    short_help="List the published versions of a dataset or checkpoint, and what each changed.",
    epilog=output.examples("arm log your-name/action-reward-models-data", "arm log action-reward-models-data --json"),
)
@click.argument("source", metavar="NS/NAME|NAME")
@output.json_option
def command(source: str, as_json: bool) -> None:
    """List every tag v1.2.3 of NS/NAME (models/NS/NAME for a checkpoint that is called like a dataset), or of
    the dataset or checkpoint NAME of ./registry.yaml, the newest first.

    Of each: when it was published, its commit, the bump that its change asked for and why, rows and labels more or
    fewer than in the version before, other schemas and prompts, and whether it is withdrawn. Only manifests are read,
    and cards where no row changed.
    """
    from ..registry.provenance.history import history

    hub, repo, _ = located(source if "/" in source else _repo(source), output.hub())
    with output.progress() as show:
        found = history(hub, repo, show)
    if as_json:
        output.data(found.to_json())
    else:
        _show(found)


def _repo(name: str) -> str:
    from ..registry.models import ModelSpec

    _, spec = declared(name)
    return f"{'models' if isinstance(spec, ModelSpec) else 'datasets'}/{spec.namespace}/{spec.name}"


def _show(found: History) -> None:
    output.note(f"{found.url}: {_count(len(found.versions), 'version')}")
    if found.unreleased:
        since = f" since v{found.versions[0].version}" if found.versions else ""
        output.note(f"{_count(found.unreleased, 'commit')} on branch main{since}, without a tag of a version")
    for version in found.versions:
        for line in _lines(version):
            click.echo(plain(line))
    if found.other_tags:
        output.note(f"tags of no version: {', '.join(found.other_tags)}")


def _lines(version: Version) -> list[str]:
    change = version.change
    what = change.level if change else "first" if version.identity_sha256 else "unknown"
    lines = [f"v{version.version}  {what}  {version.date[:10]}  {version.commit}  {version.title}"]
    if version.withdrawn is not None:
        lines.append(f"  withdrawn: {version.withdrawn}")
    if version.problem:
        lines.append(f"  {version.problem}")
    lines += _changes(change) if change else []
    if version.rows:
        lines.append(f"  holds {_listed(version.rows, change.rows if change else {})}")
    if version.labels:
        lines.append(f"  labels {_listed(version.labels, change.labels if change else {})}")
    return lines


def _changes(change: Change) -> list[str]:
    lines = [f"  {reason}" for reason in change.reasons]
    lines += [f"  prompt {kind}: {old or 'none'} -> {new or 'none'}" for kind, (old, new) in change.prompts.items()]
    return lines or [f"  nothing but its number since v{change.since}"]


def _listed(counts: Mapping[str, int], net: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {n:,}{f' ({net[name]:+,})' if net.get(name) else ''}" for name, n in counts.items())


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"
