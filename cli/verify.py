"""``arm verify``: is a published revision, or a folder, what it says?"""

from __future__ import annotations

from pathlib import Path

import click

from . import output
from .pull import split_source


@click.command(
    "verify",
    short_help="Check a published revision, or a built directory, to the last row.",
    epilog=output.examples(
        "arm verify your-name/action-reward-models-data@v1.0.0", "arm verify build/action-reward-models-data --json"
    ),
)
@click.argument("source", metavar="NS/NAME[@REVISION]|DIR")
@output.json_option
def command(source: str, as_json: bool) -> None:
    """Check NS/NAME at REVISION (a tag, branch or commit; default: main), or a built directory.

    Checks that every file has the bytes of the manifest, every row fits its schema, the digests of rows, tables and
    build are right, every number of the card agrees, and stock `datasets` loads every config and split with the rows
    that the manifest says. Exit status 1 when anything is wrong; all that is wrong is listed. That a version
    was withdrawn is a warning.
    """
    from ..hub_sync.hub import Hub
    from ..hub_sync.verify import verify_folder, verify_revision
    from ..registry import check_build

    hub = Hub(progress=output.note)
    output.quiet_client()
    with output.progress() as show:
        if Path(source).is_dir():
            found = verify_folder(Path(source), check_build, show)
        else:
            repo, revision = split_source(source)
            found = verify_revision(hub, repo, revision, check_build, show)
    rows = sum(count for splits in found.loaded.values() for count in splits.values())
    if as_json:
        output.data(
            {
                "ok": not found.issues,
                "where": found.where,
                "commit": found.commit,
                "identity_sha256": found.identity_sha256,
                "issues": [output.issue_json(issue) for issue in found.issues],
                "loaded": found.loaded,
                "warnings": found.warnings,
            }
        )
    else:
        for warning in found.warnings:
            output.note(f"warning: {warning}")
        count = len(found.issues)
        output.issues(found.issues, f"{found.where}: {count} problem{'s' if count != 1 else ''}:")
        if not found.issues:
            output.note(f"{found.where}: as its manifest says (identity {found.identity_sha256[:12]})")
            output.note(f"stock datasets loaded {rows:,} rows of {len(found.loaded)} tables")
    click.get_current_context().exit(1 if found.issues else 0)
