"""``arm score``: what a scalar model makes of each candidate."""

from __future__ import annotations

from pathlib import Path

import click

from . import output, picking, picking_models
from .picking_options import base_option, device_option


@click.command(
    "score",
    short_help="Score candidate actions with a scalar model: for a state, a file of states, or a split.",
    epilog=output.examples(
        "arm score build/my-scalar request.json",
        "arm score build/my-scalar requests.jsonl --out scores.parquet",
        "arm score build/my-scalar build/action-reward-models-data --split train --json",
    ),
)
@click.argument("model", metavar="MODEL")
@click.argument("where", metavar="INPUT")
@picking.split_option
@picking.out_option
@base_option
@device_option
@click.option(
    "--plain", is_flag=True, help="Read each conversation as a whole; by default what candidates share is read once."
)
@output.json_option
def command(
    model: str, where: str, split: str | None, out: Path | None, base: Path | None, device: str | None, plain: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Score every candidate of INPUT with MODEL, a scalar reward model; a higher score is better.

    MODEL is a folder that `arm train` or `arm pull` made, NS/NAME[@REVISION] on the Hub, or a checkpoint of
    ./registry.yaml by name. INPUT is a .json file with one request, a .jsonl file with one on each line, `-` for either
    on standard input, a built directory, or NS/NAME[@REVISION] of a dataset; docs/inference.md says what a request
    holds. The answer to one request is printed; those to many are written to a Parquet file, as pick/1 describes them.

    A run that was interrupted goes on where it stopped. Every line and every set has a row with a named outcome. Exit
    status 1 when one of them has no scores.
    """
    from ..inference.choosing import How
    from ..schemas.errors import UsageError

    asked = picking_models.local(model, base, device, plain=plain)
    if asked.contract["kind"] != "scalar":
        raise UsageError(
            f"{asked.name} is a {asked.contract['kind']}, which picks and gives no scores",
            next_command=f"arm select {model} {where}",
        )
    picking.Asked(asked, where, split, out, as_json, How, dict, "scores").run()
