"""``arm build``: the declared datasets, each into a directory that stock ``datasets`` loads."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from . import output


@click.command(
    "build",
    short_help="Build the declared datasets.",
    epilog=output.examples(
        "arm build", "arm build registry.yaml --workers 2 --json", "arm build --cluster tcp://127.0.0.1:8786"
    ),
)
@output.registry_argument
@click.option("--name", "names", multiple=True, help="Build only this dataset; may be given several times.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder of the build (one dataset only).")
@output.workers_option
@click.option("--cluster", metavar="ADDRESS", help="Build on the workers of this Dask scheduler instead of here.")
@click.option("--force", is_flag=True, help="Build even if nothing changed since the last build.")
@output.json_option
def command(
    registry: str, names: tuple[str, ...], out: Path | None, workers: int | None, cluster: str | None, force: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Build the datasets that REGISTRY declares (default: registry.yaml).

    Each goes to build/NAME beside the registry: Parquet files per table and split, schemas, prompts, manifest.json and
    a README.md that makes `load_dataset(DIR, TABLE)` work. Nothing is built when nothing changed; the reasons for a
    rebuild are printed. A failed build leaves the last one as it was. One that was killed or interrupted goes on where
    it was when the same command is run again.
    """
    from ..builders.cluster import connect
    from ..builders.workspace import folder_of
    from ..registry import Registry
    from ..schemas.errors import ArmError, UsageError

    declared = Registry.load(registry)
    wanted = {declared.dataset(name).name for name in names}
    specs = [spec for spec in declared.order() if not names or spec.name in wanted]
    if out and len(specs) > 1:
        raise UsageError("--out takes one dataset", next_command=f"--name {specs[0].name} --out {out}")
    if cluster and workers:
        raise UsageError("--workers are processes of this machine, and --cluster has its own", next_command="--cluster")
    results = []
    with connect(cluster) if cluster else nullcontext() as executor:
        for spec in specs:
            folder = out or declared.folder(spec)
            try:
                with output.progress() as show:
                    built, why = declared.build(
                        spec.name, out=folder, workers=workers, executor=executor, force=force, progress=show
                    )
                results.append(_report(spec, folder, built, why, as_json))
                _warn_of_incomplete(declared, spec)
            except (ArmError, OSError, UnicodeError) as error:  # the other datasets are still built
                problem = output.as_error(error)
                output.error(problem)
                results.append({"name": spec.name, "version": spec.version, "built": False, **problem.to_json()})
            except (KeyboardInterrupt, SystemExit):
                if (kept := folder_of(folder)).exists():
                    output.note(f"finished buckets are kept in {kept}; the same command goes on with them")
                raise
    if as_json:
        output.data(results)
    click.get_current_context().exit(1 if any("error" in result for result in results) else 0)


def _report(spec: Any, folder: Path, built: Any, why: list[str], as_json: bool) -> dict[str, Any]:
    from ..schemas.manifest import manifest_of
    from ..schemas.store import UNSPLIT

    manifest = built.manifest if built else manifest_of(folder)
    identity = manifest["identity"]
    notes = built.notes if built else ()
    result = {
        "name": spec.name,
        "version": spec.version,
        "folder": str(folder),
        "built": bool(built),
        "resumed": built.resumed if built else 0,
        "reasons": why,
        "identity_sha256": manifest["identity_sha256"],
        "rows": {t: {s: p["rows"] for s, p in v["splits"].items()} for t, v in identity["tables"].items()},
        "excluded": {stage: entry["excluded"] for stage, entry in identity["ledger"].items()},
        "notes": [note.to_json() for note in notes],
        "warnings": list(built.warnings) if built else [],
    }
    if as_json:
        return result
    if not built:
        output.note(f"{spec.name} {spec.version} is up to date: {folder}")
        return result
    output.issues(notes, f"problems of records that went to exclusions, as declared ({len(notes)}):")
    for warning in built.warnings:
        output.note(output.one_line(f"warning: {warning}"))
    if built.resumed:
        output.note(f"resumed: {built.resumed} of {built.buckets} buckets were finished")
    output.note("built because " + "; ".join(why))
    output.table(f"{spec.name} {spec.version}", ["table", "train", "validation", "excluded"], _rows(identity))
    for split in ("train", "validation"):
        empty = [t for t, v in identity["tables"].items() if split not in v["splits"] and t not in UNSPLIT]
        if empty and (split == "train" or spec.split.validation):
            output.note(f"no {split} rows in {', '.join(empty)}: that split is not written")
    output.note(f"{folder}  (identity {manifest['identity_sha256'][:12]})")
    output.note(f'next: python -c "from datasets import load_dataset; print(load_dataset({str(folder)!r}))"')
    return result


def _warn_of_incomplete(registry: Any, spec: Any) -> None:
    """One line on each file that a model makes and that is not whole: what is not there is no exclusion."""
    if not any(made.dataset == spec.name for made in registry.made):
        return
    from ..registry.endpoints import Known
    from ..registry.standing import advised, standings
    from ..schemas.errors import ArmError

    try:
        with output.progress() as show:
            found, _ = standings(registry, spec, Known(registry.path.parent), show)
    except ArmError as error:  # the build stands
        where = f"{error.where}: " if error.where else ""
        output.note(output.one_line(f"warning: how far its files are cannot be told: {where}{error.message}"))
        return
    for standing in found:
        if not standing.whole:
            said = f"warning: {standing.made.name}: {standing.lacks}; next: {advised(registry, standing)}"
            output.note(output.one_line(said))


def _rows(identity: dict[str, Any]) -> list[list[str]]:
    rows = []
    for name, table in identity["tables"].items():
        counts = [f"{table['splits'].get(split, {}).get('rows', 0):,}" for split in ("train", "validation")]
        reasons = identity["ledger"].get(name, {}).get("excluded", {})
        rows.append([name, *counts, ", ".join(f"{reason} {n:,}" for reason, n in reasons.items()) or "-"])
    return rows
