"""What lies beside the data in a dataset: the schemas of its tables and the prompts its rows were made with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import orjson

from ..prompts.render import Prompt
from ..schemas.store import TABLES, load


def write_schemas(folder: Path, tables: Iterable[str]) -> list[Path]:
    """Write ``schemas/<name>-<version>.json``, each self-contained, for the given tables."""
    return [
        _write(folder / "schemas" / f"{TABLES[table].replace('/', '-')}.json", load(TABLES[table])) for table in tables
    ]


def write_prompts(folder: Path, prompts: Sequence[Prompt]) -> list[Path]:
    """Write ``prompts/<id>.json``: all that the prompt's hash is taken over."""
    return [
        _write(folder / "prompts" / f"{prompt.id.replace('/', '-').replace(':', '-')}.json", prompt.to_json())
        for prompt in prompts
    ]


def _write(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n")
    return path
