"""What lies beside the data in a dataset: schemas of its tables, prompts of its rows, `load.py`, figures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path

import orjson

from ..prompts.render import Prompt, prompt_file
from ..schemas.store import TABLES, load


def write_schemas(folder: Path, tables: Iterable[str]) -> list[Path]:
    """Write ``schemas/<name>-<version>.json``, each self-contained, for the given tables."""
    return [
        _write(folder / "schemas" / f"{TABLES[table].replace('/', '-')}.json", load(TABLES[table])) for table in tables
    ]


def write_prompts(folder: Path, prompts: Sequence[Prompt]) -> list[Path]:
    """Write ``prompts/<id>.json``: all that the prompt's hash is taken over. Prompts with one id and other options have
    the head of their hash in the name, too: ``prompts/<id>-<12 digits>.json``."""
    ids = Counter(prompt.id for prompt in prompts)
    return [
        _write(folder / prompt_file(prompt.id, prompt.sha256 if ids[prompt.id] > 1 else None), prompt.to_json())
        for prompt in prompts
    ]


def write_figures(folder: Path, figures: Mapping[str, bytes]) -> list[Path]:
    """Write the pictures of the card, path in the build -> bytes."""
    written = []
    for name, image in sorted(figures.items()):
        written.append(folder / name)
        written[-1].parent.mkdir(parents=True, exist_ok=True)
        written[-1].write_bytes(image)
    return written


def write_loader(folder: Path, repo: str, version: str) -> Path:
    """Write ``load.py``: the module `loader` as it is, but for the repository and the revision that it loads."""
    source = (resources.files(__package__) / "loader.py").read_text("utf-8")
    for constant, value in (("REPO", repo), ("REVISION", f"v{version}")):
        source, found = re.subn(rf'^{constant} = ".*"$', f"{constant} = {_literal(value)}", source, flags=re.MULTILINE)
        assert found == 1, f"loader.py has {found} lines that set {constant}"
    path = folder / "load.py"
    path.write_text(source, "utf-8", newline="\n")
    return path


def _literal(value: str) -> str:
    """A string of letters, digits and ._-/ as Python; a name with anything else could be code."""
    if not re.fullmatch(r"[A-Za-z0-9._/-]+", value):
        raise ValueError(f"{value!r} is no name of a repository or version")
    return f'"{value}"'


def _write(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n")
    return path
