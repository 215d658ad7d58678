"""``arm init``: a first registry.yaml."""

from __future__ import annotations

from pathlib import Path

import click

from . import output


@click.command(
    "init",
    short_help="Write a registry.yaml, from scratch or from a folder of trajectories.",
    epilog=output.examples("arm init my-registry", "arm init their-registry --from runs"),
)
@click.argument("folder", default=".", type=click.Path(file_okay=False, path_type=Path), metavar="[FOLDER]")
@click.option(
    "--from",
    "source",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Look into this folder, count what is there, and write a registry that builds it.",
)
@output.json_option
def command(folder: Path, source: Path | None, as_json: bool) -> None:
    """Write FOLDER/registry.yaml (default: the current folder); an existing one is never overwritten.

    With --from, every *.jsonl, *.json and *.parquet below that folder is recognised by what its records hold; dialect
    and coordinate space are chosen by what the responses hold. Check both: they decide what an action is. `arm import`
    does the same and reads everything as a build would.
    """
    from ..registry import sniff, starter
    from ..schemas.errors import ArmError

    path = folder / "registry.yaml"
    if path.exists():
        raise ArmError(
            "is there already and is not overwritten", where=str(path), next_command="arm init ANOTHER-FOLDER"
        )
    found = sniff.sniff(source) if source else None
    text = (starter.from_folder(found, folder) if found else starter.from_scratch()).encode()
    folder.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        file.write(text)
    if as_json:
        output.data(_json(path, found))
        return
    if found:
        rows = [[str(s.path), s.kind, s.format, f"{s.records:,}", f"{s.valid:,}"] for s in found.sources]
        output.table("found", ["file", "kind", "format", "records", "valid"], rows)
        for skipped, why in found.skipped:
            output.note(f"skipped {skipped}: {why}")
        for fmt, spoken in found.spoken.items():
            share = f" reads {spoken.share:.0%} of the sampled responses" if spoken.responses else ""
            output.note(f"{fmt}: dialect {spoken.dialect}{share}; points are {spoken.space}")
        output.note(f"{found.tasks} tasks in a sample")
    output.note(f"wrote {path}")
    output.note(f"next: arm validate {path}" if found else f"next: edit {path}, then: arm validate {path}")


def _json(path: Path, found: object) -> dict[str, object]:
    from ..registry.files import as_text
    from ..registry.sniff import Folder

    if not isinstance(found, Folder):
        return {"registry": str(path), "sources": [], "skipped": []}
    return {
        "registry": str(path),
        "sources": [
            {"path": as_text(s.path), "kind": s.kind, "format": s.format, "records": s.records, "valid": s.valid}
            for s in found.sources
        ],
        "skipped": [{"path": as_text(p), "reason": why} for p, why in found.skipped],
        "speech": {
            fmt: {"dialect": spoken.dialect, "space": spoken.space, "share": spoken.share}
            for fmt, spoken in found.spoken.items()
        },
        "sampled_tasks": found.tasks,
    }
