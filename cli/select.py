"""``arm select``: which candidate a checkpoint picks, and what is done where it picks none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from . import output, picking
from .picking_options import Asking, Said, asking_options


@click.command(
    "select",
    short_help="Pick an action: what a checkpoint chooses for a state, a file of states, or a split.",
    epilog=output.examples(
        "arm select build/my-arm request.json",
        "arm select build/my-arm requests.jsonl --orders 3 --otherwise first --out picks.parquet",
        "arm select build/my-arm build/action-reward-models-data --split train --json",
        "arm select build/my-arm request.json --server local --served my-arm",
    ),
)
@click.argument("words", nargs=-1, required=True, metavar="MODEL INPUT")
@picking.split_option
@picking.out_option
@asking_options
@output.json_option
def command(words: tuple[str, ...], split: str | None, out: Path | None, as_json: bool, **given: Any) -> None:
    """Pick one of the candidates of INPUT with MODEL, a selection ARM or a scalar reward model.

    MODEL is a folder that `arm train` or `arm pull` made, NS/NAME[@REVISION] on the Hub, or a checkpoint of
    ./registry.yaml by name. INPUT is a .json file with one request, a .jsonl file with one on each line, `-` for either
    on standard input, a built directory, or NS/NAME[@REVISION] of a dataset; docs/inference.md says what a request
    holds. The answer to one request is printed; those to many are written to a Parquet file, as pick/1 describes them.

    Whatever the model does has a name, and without --otherwise nothing is chosen in its place: no reply becomes the
    first candidate. A run that was interrupted goes on where it stopped, and asks a server again for what it gave no
    answer to. Exit status 1 when nothing was chosen for a request.
    """
    said = Said(**given)
    named, where = _model_and_input(words, said)
    asking = Asking.of(named, said)
    picking.Asked(asking.model, where, split, out, as_json, asking.how, asking.about, "selected_index").run()


def _model_and_input(words: tuple[str, ...], said: Said) -> tuple[str | None, str]:
    if len(words) == 2:
        return words[0], words[1]
    if len(words) > 2:
        raise output.usage(f"one MODEL and one INPUT are asked about, and these are {len(words)}")
    if said.server is None or said.prompt is None:
        raise output.usage("a MODEL and an INPUT are needed; MODEL may be left out only with --server and --prompt")
    return None, words[0]
