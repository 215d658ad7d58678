"""``arm diff``: what differs between two versions of a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..schemas.errors import UsageError
from . import diff_report, output
from .source import built, located, place

if TYPE_CHECKING:
    from ..registry.diff import Side
    from ..registry.diff.side import Progress


@click.command(
    "diff",
    short_help="Show what differs between two versions of a dataset, row by row.",
    epilog=output.examples(
        "arm diff your-name/action-reward-models-data@v1.0.0 action-reward-models-data",
        "arm diff build/action-reward-models-data your-name/action-reward-models-data@v1.0.0 --json --limit 1000",
    ),
)
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@click.option(
    "--limit", type=click.IntRange(min=0), default=None,
    help="Rows to list of each table and kind of difference; counts are always complete. [default: 100]",
)  # fmt: skip
@output.json_option
def command(before: str, after: str, limit: int | None, as_json: bool) -> None:
    """Compare A with B. Each is a built directory, NS/NAME[@REVISION] on the Hub, or a dataset of ./registry.yaml by
    its name: what was built of it last.

    Rows are matched by their id, and are equal when their digests are: where a record came from does not count, and a
    picture counts by the sha256 of its bytes. Files of which both manifests say the same are neither read nor
    downloaded. Exit status 0 whether or not anything differs; --json has `empty`.
    """
    from ..registry.diff import compare
    from ..registry.diff.model import MAX_LISTED

    with output.progress() as progress, _side(before, progress) as old, _side(after, progress) as new:
        diff = compare(old, new, progress, limit=MAX_LISTED if limit is None else limit)
    if as_json:
        output.data(diff.to_json())
        return
    ends = [f"{end.name} ({end.version})" for end in (diff.before, diff.after) if end]
    output.note(" -> ".join(ends))
    diff_report.show(diff)


def _side(source: str, progress: Progress) -> Side:
    from ..hub_sync.forms import CHECKPOINT
    from ..registry.builds import form_of
    from ..registry.diff import Side

    where = place(source) or built(source)
    if isinstance(where, Path):
        if form_of(where) is CHECKPOINT:
            raise _of_checkpoints(str(where))
        return Side.folder(where)
    hub, repo, revision = located(source, output.hub())
    if hub.repo_type == "model":
        raise _of_checkpoints(source)
    return Side.revision(hub, repo, hub.resolve(repo, revision), progress)


def _of_checkpoints(where: str) -> UsageError:
    return UsageError(
        "is a checkpoint, and rows of datasets are compared here", where=where,
        next_command="arm log NS/NAME   # what each version changed; see arm evaluate for two on the same items",
    )  # fmt: skip
