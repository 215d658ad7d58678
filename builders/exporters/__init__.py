"""Built tables back in the shapes that others read: one module per format, one entry per format."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from ...schemas.built import BuiltTables
from ...schemas.errors import ArmError, UsageError
from . import first_release, first_release_rows, llamafactory, openai_finetuning, trl
from .types import Exported, Exporter

__all__ = ["EXPORTERS", "Exported", "Exporter", "export"]

EXPORTERS: Mapping[str, Exporter] = {
    "first_release": first_release.export,
    "first_release_rows": first_release_rows.export,
    "llamafactory": llamafactory.export,
    "trl": trl.export,
    "openai_finetuning": openai_finetuning.export,
}


def export(fmt: str, build: Path, out: Path, progress: Callable[[str, int, int], None] = lambda *_: None) -> Exported:
    """Write the build in the folder ``build`` as ``fmt`` into ``out``, which is made, or is empty.

    Everything is written beside ``out`` and moved there when it is complete. Raises UsageError for an unknown format
    or an ``out`` that holds something; ArmError for a folder that is no build, is damaged, or has nothing that the
    format can say.
    """
    if fmt not in EXPORTERS:
        raise UsageError(f"no format {fmt!r}; there are {', '.join(EXPORTERS)}")
    out = out.resolve()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        message = "is not empty, and an export replaces nothing"
        raise UsageError(message, where=str(out), next_command="name a folder that is not there")
    tables = BuiltTables.of(build, progress, "exporting", hashed=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    exported = Exported()
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as work:
        made = Path(work, "made")
        made.mkdir()
        EXPORTERS[fmt](tables, made, exported)
        if not exported.files:
            reasons = "".join(f"\n  {table}: {why} ({n:,})" for (table, why), n in sorted(exported.reasons.items()))
            raise ArmError(f"has no row that {fmt} can express{reasons}", where=str(build))
        if redacted := tables.identity["parameters"].get("redact"):
            exported.notes.append(f"the build replaced {', '.join(redacted)}: texts may differ from its sources")
        if out.exists():
            out.rmdir()
        made.replace(out)
    return exported
