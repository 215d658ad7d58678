"""``arm pull``: a published revision as a built directory."""

from __future__ import annotations

from pathlib import Path

import click

from . import output
from .source import located


@click.command(
    "pull",
    short_help="Download a published revision as a built directory, checked.",
    epilog=output.examples("arm pull your-name/action-reward-models-data@v1.0.0 --out pulled"),
)
@click.argument("source", metavar="NS/NAME[@REVISION]")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="New folder. [default: the name of the repository]"
)
@output.json_option
def command(source: str, out: Path | None, as_json: bool) -> None:
    """Download what a build made of NS/NAME at REVISION (a tag, branch or commit; default: main) into a new folder.

    NS/NAME is a dataset, or else a checkpoint (models/NS/NAME where both have the name). Every file is checked against
    the Hub's listing and the manifest. The folder is a built directory: `arm validate`, `load_dataset` and `arm push`
    take it, too, and so do the classes that load checkpoints. A pull that was killed continues where it stopped. A
    version that was withdrawn comes with a warning.
    """
    from ..hub_sync import forms
    from ..hub_sync.pull import pull
    from ..hub_sync.yank import warning
    from ..schemas.manifest import manifest_of

    hub, repo, revision = located(source, output.hub())
    folder = out or Path(repo.partition("/")[2])
    with output.progress() as show:
        commit = pull(hub, repo, revision, folder, show)
    said = warning(hub, repo, manifest_of(folder, forms.of(hub).schema)["identity"]["version"])
    if as_json:
        found = {"repo": repo, "revision": revision, "commit": commit, "folder": str(folder)}
        output.data({**found, "warnings": [said] if said else []})
        return
    if said:
        output.note(output.one_line(f"warning: {said}"))
    output.note(f"{repo} at {commit}")
    click.echo(str(folder))
    check = "validate" if hub.repo_type == "dataset" else "verify"
    output.note(f"next: arm {check} {folder}   # {'reads every row' if check == 'validate' else 'loads it'}")
