"""``arm yank``: withdraw a published version, with a reason that everybody sees."""

from __future__ import annotations

import click

from . import output
from .source import located


@click.command(
    "yank",
    short_help="Withdraw a published version: the card says so, loaders warn, the tag stays.",
    epilog=output.examples(
        'arm yank your-name/action-reward-models-data@v1.0.0 --reason "labels of another run" --yes',
        "arm yank your-name/action-reward-models-data@v1.0.0 --undo --yes --json",
    ),
)
@click.argument("source", metavar="NS/NAME@TAG")
@click.option("--reason", help="What is wrong with it: one line, at most 500 characters, on the card for all to read.")
@click.option("--undo", is_flag=True, help="Take a withdrawal back.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.json_option
def command(source: str, reason: str | None, undo: bool, yes: bool, as_json: bool) -> None:
    """Withdraw the version that TAG (v1.0.0) of NS/NAME, a dataset or a checkpoint, names.

    One commit on branch main writes version and reason into manifest.json and onto the card; both stay there with
    every later version. `arm pull`, `arm verify` and `load.py` warn whoever uses the version. Nothing is deleted and no
    tag moves: what rests on it can still be rebuilt. HF_ENDPOINT and HF_TOKEN say where and as whom.
    """
    from ..hub_sync.yank import plan, withdraw
    from ..schemas.errors import UsageError

    if undo == (reason is not None):
        raise UsageError(
            "either a reason or --undo is needed", next_command=f'arm yank {source} --reason "what is wrong with it"'
        )
    hub, repo, tag = located(source, output.hub())
    planned = plan(hub, repo, tag, reason)
    if planned.files and not as_json:
        what = "takes back the withdrawal of" if undo else "withdraws"
        why = planned.before if undo else planned.reason
        output.note(f"{what} {planned.tag} of {planned.url}: {why}")
    if planned.files and not yes:
        output.confirm("go on?", as_json)
    commit = withdraw(planned, hub)
    if as_json:
        output.data({"withdrawal": planned.to_json(), "commit": commit, "committed": commit != planned.base})
    elif planned.files:
        output.note(f"committed: branch main is {commit}")
    else:
        state = "is not withdrawn" if undo else "is withdrawn already, for this reason"
        output.note(f"{planned.tag} {state}: nothing to do")
