"""``arm export``: a build in the files of another format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from . import output
from .source import built

_SHOWN = 5  # ids of rows that are not expressed, for one reason


@click.command(
    "export",
    short_help="Write a build in the files of another format.",
    epilog=output.examples(
        "arm export first_release action-reward-models-data exported",
        "arm export first_release build/action-reward-models-data exported-too --json",
        "arm export llamafactory action-reward-models-data for-llamafactory",
        "arm export trl action-reward-models-data for-trl",
    ),
)
@click.argument("fmt", metavar="FORMAT")
@click.argument("build")
@click.argument("out", type=click.Path(path_type=Path))
@output.json_option
def command(fmt: str, build: str, out: Path, as_json: bool) -> None:
    """Write BUILD (a built directory, or a dataset of ./registry.yaml by its name) as FORMAT into the folder OUT.

    \b
    first_release       states, candidates, labels and screenshots of the first release; training rows that came
                        ready-made. What a build kept comes back equal, field by field, in another order.
    first_release_rows  its files of training rows: ShareGPT messages of selections, pairs for the scalar model.
    llamafactory        a folder that LLaMA-Factory trains from: train and validation of stages sft and rm, recipes.
    trl                 datasets that TRL's SFTTrainer and RewardTrainer take as they are, one for each table.
    openai_finetuning   JSON Lines of the selector for OpenAI's fine-tuning, within the limits of the service.

    docs/exports.md says of each which tables it holds, what has no place in it, and how training is started. Rows that
    the format cannot express are named with the reason, facts that it has no field for are counted; exclusions stay
    behind. OUT must not be there, or be empty. Exit status 0 also where rows could not be expressed; --json has
    `complete`.
    """
    from ..builders.exporters import export

    folder = Path(build) if Path(build).is_dir() else built(build)
    with output.progress() as show:
        exported = export(fmt, folder, out, show)
    if as_json:
        output.data({"build": str(folder), "out": str(out), **exported.to_json()})
        return
    _show(exported, out)


def _show(exported: Any, out: Path) -> None:
    output.table(str(out), ["file", "records"], [[name, f"{n:,}"] for name, n in exported.files.items()])
    if exported.pictures:
        output.note(f"{exported.pictures:,} pictures")
    for (table, reason), n in sorted(exported.reasons.items()):
        output.note(output.one_line(f"not expressed: {n:,} of {table}: {reason}"))
        shown = [row.row_id for row in exported.unexpressed if (row.table, row.reason) == (table, reason)][:_SHOWN]
        output.note(output.one_line(f"  {', '.join(shown)}{', ...; --json lists them' if n > len(shown) else ''}"))
    if exported.left_out:
        facts = ", ".join(f"{name} ({n:,})" for name, n in sorted(exported.left_out.items()))
        output.note(output.one_line(f"no field for: {facts}"))
    for note in exported.notes:
        output.note(output.one_line(f"note: {note}"))
    output.note(f"wrote {out}")
