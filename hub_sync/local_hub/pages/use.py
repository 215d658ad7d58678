"""What to type to load a repository from this hub."""

from __future__ import annotations

import json
from dataclasses import dataclass

from .tables import Tables
from .view import MAIN, View


@dataclass(frozen=True)
class Usage:
    """Lines to copy, for a shell and for Python."""

    shell: str
    python: str


def usage(view: View, tables: Tables | None) -> Usage:
    """The hub's address and the call; names from cards and references are quoted as JSON strings."""
    revision = _revision(view)
    arguments = [json.dumps(view.repo.id)]
    if view.repo.type == "dataset":
        declared = [table for table in tables.tables if table.declared] if tables else []
        if len(declared) > 1 and not any(table.default for table in declared):
            arguments.append(json.dumps(declared[0].name))
        name, call, module = "data", "load_dataset", "datasets"
    else:
        name, call, module = "folder", "snapshot_download", "huggingface_hub"
    if revision:
        arguments.append(f"revision={json.dumps(revision)}")
    if view.repo.type == "space":
        arguments.append('repo_type="space"')
    lines = ",\n    ".join(arguments)
    python = f"from {module} import {call}\n\n{name} = {call}(\n    {lines},\n)"
    return Usage(f"export HF_ENDPOINT={view.endpoint}", python)


def _revision(view: View) -> str | None:
    """A tag of the shown commit where there is one: tags do not move."""
    if view.rev in view.tags_here():
        return view.rev
    tags = view.tags_here()
    return tags[0] if tags else None if view.rev == MAIN else view.rev
