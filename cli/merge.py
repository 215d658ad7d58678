"""``arm merge``: an adapter and its base as one model."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from . import output


@click.command(
    "merge",
    short_help="Merge a trained adapter into its base: one model that serves alone.",
    epilog=output.examples("arm merge build/my-arm --out build/my-arm-merged"),
)
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="New folder.")
@click.option(
    "--base", type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the base model. [default: fetched at the commit that the checkpoint names]",
)  # fmt: skip
@output.json_option
def command(checkpoint: Path, out: Path, base: Path | None, as_json: bool) -> None:
    """Write the model of CHECKPOINT, a folder that `arm train` or `arm pull` made, with its base to a new folder.

    It is refused when it equals its base, when it differs where the adapter changes nothing, and when it gives other
    scores than the adapter once it is loaded again. One folder serves transformers, vLLM and this project;
    `arm serve FOLDER --print-vllm` says how vLLM serves it.
    """
    from ..recipes.merge import merge
    from ..schemas.errors import UsageError

    if not checkpoint.is_dir():
        built, on_hub = Path("build") / checkpoint, len(checkpoint.parts) == 2 and not checkpoint.parent.is_dir()
        then = f"arm merge {built} --out {out}" if built.is_dir() else f"arm pull {checkpoint}" if on_hub else None
        raise UsageError("there is no such folder", where=str(checkpoint), next_command=then)
    with output.progress() as show:
        show("merging", 0, 1)
        made = merge(checkpoint, out, base=base)
        show("merging", 1, 1)
    if as_json:
        output.data({**asdict(made), "folder": str(made.folder)})
        return
    output.note(
        f"{made.architecture}: {made.changed:,} of {made.changed + made.same:,} tensors differ from the base; "
        f"{made.conversations} conversations give the adapter's scores to within {made.max_difference:.2g}"
    )
    if made.unchanged_modules:
        output.note(
            f"{len(made.unchanged_modules):,} modules that LoRA names did not change: {made.unchanged_modules[0]}, ..."
        )
    output.note(f"{made.shards} file{'s' if made.shards != 1 else ''} of weights, {made.bytes / 1e9:,.2f} GB")
    click.echo(str(made.folder))
