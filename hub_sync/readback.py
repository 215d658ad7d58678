"""Load a revision as anyone would: a dataset with stock ``datasets`` in a process of its own, a checkpoint from files
that were downloaded anew; both with an empty cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..schemas.errors import ArmError
from ..schemas.ids import file_sha256
from .hub import Hub, without_urls
from .pull import download

if TYPE_CHECKING:
    from .plan import Plan

# Knows nothing of this project. Streaming reads the card's YAML, its globs and its features, and one shard's bytes.
_SCRIPT = """
import json, sys
import datasets
from datasets import get_dataset_config_names, load_dataset

# A Hub that stopped is told in a minute; by itself this library would ask it for a quarter of an hour.
datasets.config.STREAMING_READ_MAX_RETRIES = datasets.config.STREAMING_OPEN_MAX_RETRIES = 2
repo, revision, full = sys.argv[1], sys.argv[2] or None, sys.argv[3] == "full"
for config in get_dataset_config_names(repo, revision=revision):
    for split, rows in load_dataset(repo, config, revision=revision, streaming=True).items():
        next(iter(rows))  # decodes the pictures of one row
        plain = rows.decode(False)
        part = plain if full else plain.shard(num_shards=plain.num_shards, index=0)
        count = sum(1 for _ in part)
        print(json.dumps([config, split, count, 1 if full else rows.num_shards]), flush=True)
"""


class LoadError(ArmError):
    """Stock ``datasets`` gave up: over what it found, or over a connection, since it hardly tries again."""


def load(
    hub: Hub, source: str, commit: str | None, manifest: Mapping[str, Any], *, full: bool,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> dict[str, dict[str, int]]:  # fmt: skip
    """Load every config and split of ``source`` (a repository at ``commit``, or a folder without one).

    One shard of each is read to its end, all with ``full``. Returns the rows read per table and split. Raises LoadError
    when something cannot be loaded, ArmError when a table of the manifest is missing or has other rows.
    """
    expected = _expected(manifest)
    read: dict[str, dict[str, int]] = {}
    shards: dict[tuple[str, str], int] = {}
    with tempfile.TemporaryDirectory(prefix="arm-load-") as home:
        for number, line in enumerate(_run(hub, source, commit, full, Path(home)), 1):
            table, split, rows, parts = json.loads(line)
            read.setdefault(table, {})[split] = rows
            shards[table, split] = parts
            progress("loading as anyone would", number, len(expected))
    where = f"{hub.url(source)} at {commit}" if commit else source
    if set(shards) != set(expected):
        missing = ", ".join("/".join(key) for key in sorted(set(expected) ^ set(shards)))
        raise ArmError(f"the card's tables are not those of the manifest: {missing}", where=where)
    for (table, split), sizes in expected.items():
        wanted = sum(sizes) if full else sizes[0]
        if not full and shards[table, split] != len(sizes):
            message = f"{table}/{split} was loaded from {shards[table, split]} files, the manifest has {len(sizes)}"
            raise ArmError(message, where=where)
        if read[table][split] != wanted:
            message = f"{table}/{split}: {read[table][split]} rows were loaded, the manifest says {wanted}"
            raise ArmError(message, where=where)
    return read


def reload(
    hub: Hub, planned: Plan, commit: str, score: Callable[[Path], Mapping[str, Any]],
    progress: Callable[[str, int, int], None],
) -> dict[str, Any]:  # fmt: skip
    """Download every file of a published checkpoint into an empty folder, compare digests, and let ``score`` load it.

    Raises ArmError, which says that no tag was set.
    """
    files, again = hub.files(planned.repo, commit), f"arm push {planned.folder}   # reads back again"
    where = f"{hub.url(planned.repo)} at {commit}"
    with tempfile.TemporaryDirectory(prefix="arm-load-") as name:
        folder = Path(name) / planned.release.name
        listed = [files[path] for path in sorted(planned.release.files)]
        wrong = download(hub, planned.repo, commit, listed, folder, progress)
        wrong += [
            path
            for path, content in planned.release.files.items()
            if path not in wrong and file_sha256(folder / path) != content.sha256
        ]
        if wrong:
            raise ArmError(
                f"arrived with other bytes: {', '.join(wrong[:5])}; no tag was set", where=where, next_command=again
            )
        progress("loading as anyone would", 0, 1)
        try:
            found = dict(score(folder))
        except ArmError as error:
            message = f"{error.message.replace(str(folder), 'the checkpoint')}; no tag was set"
            raise ArmError(message, where=where, next_command=again) from error
        progress("loading as anyone would", 1, 1)
    return found


def _expected(manifest: Mapping[str, Any]) -> dict[tuple[str, str], list[int]]:
    """(table, split) -> rows of its shards, in the order of their names."""
    return {
        (name, split): [file["rows"] for file in sorted(part["files"], key=lambda f: str(f["path"]))]
        for name, table in manifest["identity"]["tables"].items()
        for split, part in table["splits"].items()
    }


def stock_env(endpoint: str, home: Path, token: str | None = None) -> dict[str, str]:
    """The environment of a stock client that knows one Hub, keeps all it has in ``home``, and asks nobody else."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGING"))}
    if xet := os.environ.get("HF_HUB_DISABLE_XET"):
        kept["HF_HUB_DISABLE_XET"] = xet
    return {
        **kept,
        **({"HF_TOKEN": token} if token else {}),
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_UPDATE_DOWNLOAD_COUNTS": "0",
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    }


def _run(hub: Hub, source: str, commit: str | None, full: bool, home: Path) -> Iterator[str]:
    env = stock_env(hub.endpoint, home, hub.token if commit else None)
    if commit is None:
        env["HF_HUB_OFFLINE"] = "1"
    command = [sys.executable, "-P", "-c", _SCRIPT, source, commit or "", "full" if full else "sample"]
    with subprocess.Popen(  # noqa: S603 - our own code
        command, env=env, cwd=home, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        out, err = process.stdout, process.stderr
        assert out is not None
        assert err is not None
        errors: list[str] = []
        reader = threading.Thread(target=lambda: errors.extend(err))
        reader.start()
        try:
            yield from out
        except BaseException:  # an interrupt, or a caller that wants no more
            process.kill()
            raise
        finally:
            reader.join()
    if process.returncode:
        said = "".join(errors).strip().splitlines()
        raise LoadError(
            f"stock datasets cannot load it: {without_urls(said[-1]) if said else 'no message'}",
            where=f"{hub.url(source)} at {commit}" if commit else source,
        )
