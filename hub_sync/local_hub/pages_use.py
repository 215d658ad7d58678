"""What to type to load a repository from this hub."""

from __future__ import annotations

import json

from .pages_tables import Tables
from .pages_view import MAIN, View


def usage(view: View, tables: Tables | None) -> str:
    """Lines for a shell: the hub's address, then Python. Names from cards and references are quoted as JSON strings."""
    revision = _revision(view)
    arguments = [json.dumps(view.repo.id)]
    if view.repo.type == "dataset":
        declared = [table for table in tables.tables if table.declared] if tables else []
        if len(declared) > 1 and not any(table.default for table in declared):
            arguments.append(json.dumps(declared[0].name))
        call, module = "load_dataset", "datasets"
    else:
        call, module = "snapshot_download", "huggingface_hub"
    if revision:
        arguments.append(f"revision={json.dumps(revision)}")
    if view.repo.type == "space":
        arguments.append('repo_type="space"')
    return (
        f"export HF_ENDPOINT={view.endpoint}\n"
        "python - <<'END'\n"
        f"from {module} import {call}\n\n"
        f"print({call}({', '.join(arguments)}))\n"
        "END"
    )


def _revision(view: View) -> str | None:
    """A tag of the shown commit where there is one: tags do not move."""
    if view.rev in view.tags_here():
        return view.rev
    tags = view.tags_here()
    return tags[0] if tags else None if view.rev == MAIN else view.rev
