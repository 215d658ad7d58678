"""``arm lineage``: where something comes from, down to files with their digests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..schemas.errors import plain
from . import output
from .source import built, place

if TYPE_CHECKING:
    from ..hub_sync.hub import Hub
    from ..registry.provenance.lineage import Lineage, Node


@click.command(
    "lineage",
    short_help="Show where a dataset or checkpoint comes from, down to files.",
    epilog=output.examples(
        "arm lineage action-reward-models-data",
        "arm lineage build/action-reward-models-data --mermaid",
        "arm lineage your-name/action-reward-models-data@v1.0.0 --json",
    ),
)
@click.argument("start", metavar="NAME|DIR|NS/NAME[@REVISION]")
@click.option("--mermaid", is_flag=True, help="Print a Mermaid flowchart instead, as GitHub and the Hub draw it.")
@output.json_option
def command(start: str, mermaid: bool, as_json: bool) -> None:
    """Show what a dataset or checkpoint rests on: NAME of ./registry.yaml, a built directory, or NS/NAME at REVISION (a
    tag, branch or commit; default: main) on the Hub.

    Every version of a dataset that it was made from is looked up on the Hub, its identity compared with the one that
    was read, and followed further; files are named with their commit and sha256 (--json lists every file). Without a
    Hub what lies here is shown. Exit status 1 when something upstream is gone or is not what was read.
    """
    from ..schemas.errors import UsageError

    if mermaid and as_json:
        raise UsageError("either --json or --mermaid")
    hub = output.hub()
    found = _lineage(start, hub)
    if as_json:
        output.data({"hub": hub.endpoint, **found.to_json()})
    elif mermaid:
        click.echo(found.to_mermaid())
    else:
        for line in tree(found.root):
            click.echo(plain(line).replace("\n", "\\n"))  # one line each, or a name could draw a node
    if not as_json:
        if found.unasked:
            output.note(f"the Hub could not be asked: {found.unasked}")
        for problem in found.problems:
            output.note(f"problem: {problem}")
    click.get_current_context().exit(1 if found.problems else 0)


def _lineage(start: str, hub: Hub) -> Lineage:
    from ..registry.provenance.walk import of_build, of_revision

    where = place(start) or built(start)
    return of_build(where, hub) if isinstance(where, Path) else of_revision(hub, *where)


def tree(node: Node, first: str = "", rest: str = "") -> Iterator[str]:
    """The lines of a node and all below it, drawn as `tree` draws folders."""
    from ..registry.provenance.lineage import title

    yield f"{first}{title(node)}"
    stem = f"{rest}│   " if node.inputs else f"{rest}    "
    yield from (f"{stem}{line}" for line in _facts(node))
    for number, below in enumerate(node.inputs, 1):
        last = number == len(node.inputs)
        yield from tree(below, f"{rest}{'└── ' if last else '├── '}", f"{rest}{'    ' if last else '│   '}")


def _facts(node: Node) -> Iterator[str]:
    if node.problem:
        yield f"PROBLEM: {node.problem}"
    if node.withdrawn is not None:
        yield f"WITHDRAWN: {node.withdrawn}"
    if node.commit:
        yield f"commit {node.commit}"
    if node.identity_sha256:
        yield f"identity {node.identity_sha256}"
    if node.rows:
        yield "rows: " + ", ".join(f"{table} {rows:,}" for table, rows in node.rows.items())
    if node.files:
        records, size = (sum(file[what] for file in node.files) for what in ("records", "bytes"))
        what = f"{node.holds}: " if node.kind == "raw files" else ""
        count = f"{len(node.files):,} file{'s' if len(node.files) > 1 else ''}"
        yield f"{what}{records:,} records in {count}, {size:,} bytes"
    if node.license:
        yield f"licence {node.license}"
    if node.feeds:
        yield f"comes into {', '.join(node.feeds)}"
    yield from node.notes
