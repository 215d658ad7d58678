"""``arm diff``: what differs between two versions of a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from . import diff_report, output
from .pull import split_source

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
    """A built directory, a repository's revision, or the build of a dataset of ./registry.yaml."""
    from ..hub_sync.hub import Hub
    from ..registry import Registry
    from ..registry.diff import Side
    from ..schemas.errors import ArmError, UsageError

    if Path(source).is_dir():
        return Side.folder(Path(source))
    if "/" in source:
        repo, revision = split_source(source)
        hub = Hub(progress=output.note)
        output.quiet_client()
        return Side.revision(hub, repo, hub.resolve(repo, revision), progress)
    if not Path("registry.yaml").is_file():
        raise UsageError(
            "is neither a folder nor a repository, and there is no registry.yaml here that could name it",
            where=source, next_command="arm diff DIR NS/NAME@REVISION",
        )  # fmt: skip
    registry = Registry.load()
    folder = registry.folder(registry.dataset(source))
    try:
        return Side.folder(folder)
    except ArmError as error:
        raise ArmError(error.message, where=error.where, next_command=f"arm build --name {source}") from error
