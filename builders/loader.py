"""Load this dataset at exactly the revision that is asked for, checked against its manifest, or refuse.

    from load import join, load, verify

    pairs = load("bt_pairs", "train")                   # of REVISION below: downloaded once, then also offline
    pairs = join(pairs, load("states", "train"), on="state_id")
    verify()                                            # all files of the revision

`python load.py` prints what there is and verifies it; `python load.py --help` has the options. This file stands alone:
it needs `datasets`, and nothing of the project that wrote it. (`load_dataset(..., revision=...)` without a network
gives whatever version its cache holds.) A version that its publisher withdrew since is loaded with a warning.
"""

from __future__ import annotations

import argparse
import glob
import hashlib
import json
import re
import warnings
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import datasets
import pyarrow.parquet as pq
from huggingface_hub import constants, hf_hub_download, snapshot_download

REPO = "namespace/name"
REVISION = "v0.0.0"
MANIFEST = "manifest.json"
_SAFE = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9._-]*/)*[A-Za-z0-9_][A-Za-z0-9._-]*")


class LoadError(RuntimeError):
    """Nothing was loaded; the message says why, and what to do next."""


def load(
    table: str, split: str | None = None, *, revision: str = REVISION, repo: str = REPO, offline: bool = False
) -> Any:
    """The rows of a table: a `Dataset` for one split, a `DatasetDict` of all without.

    ``revision`` is a tag, branch or full commit; ``repo`` a repository, or a folder that holds a manifest.json. The Hub
    is asked which commit the revision is; without an answer, or with ``offline``, the cache must know it. The sha256 of
    every file is compared with the manifest of that commit, each time. The commit stays in ``info.description``.
    Raises LoadError.
    """
    source = _open(repo, revision, offline)
    tables = source.manifest["identity"]["tables"]
    splits = tables.get(table, {}).get("splits", {})
    wanted = list(splits) if split is None else [split]
    if not wanted or not set(wanted) <= set(splits):
        there = "; ".join(f"{name} ({', '.join(entry['splits']) or 'no rows'})" for name, entry in tables.items())
        raise LoadError(f"There is no {table}{f'/{split}' if split else ''} in {source}. There is: {there}.")
    _get_files(source, [file["path"] for name in wanted for file in splits[name]["files"]])
    found = datasets.DatasetDict()
    for name in wanted:
        files = [glob.escape(str(source.folder / file["path"])) for file in splits[name]["files"]]
        rows = datasets.Dataset.from_parquet(files, split=datasets.NamedSplit(name))
        if rows.num_rows != splits[name]["rows"]:
            raise LoadError(f"{table}/{name} of {source} gave {rows.num_rows} rows, not {splits[name]['rows']}.")
        rows.info.description = f"{table} of {source}, identity {source.manifest['identity_sha256']}"
        found[name] = rows
    return found if split is None else found[split]


def join(rows: Any, other: Any, *, on: str) -> Any:
    """``rows`` with what ``other`` knows about them, in the same order. Raises LoadError for rows of two builds.

    ``on`` is an id that both have (``state_id``, ``set_id``, ``label_id``): the columns that only ``other`` has are
    added. ``on="images"`` puts the screenshots of the states ``other`` where ``rows`` hold only their sha256.
    """
    if isinstance(rows, datasets.DatasetDict):
        return datasets.DatasetDict({name: join(rows[name], other[name], on=on) for name in rows})
    first, second = (str(part.info.description).rpartition("identity ")[2] for part in (rows, other))
    if first != second:
        raise LoadError(f"These rows come from two builds, {first} and {second}.")
    if on == "images":
        return _with_pictures(rows, other)
    if on not in rows.column_names or on not in other.column_names:
        raise LoadError(f"Both tables need the column {on}.")
    positions = {key: number for number, key in enumerate(other[on])}
    if len(positions) != other.num_rows:
        raise LoadError(f"One {on} names several rows of the other table; swap the two.")
    new = [name for name in other.column_names if name not in rows.column_names]
    added = other.select(_places(positions, rows[on], on)).select_columns(new)
    joined = datasets.concatenate_datasets([rows, added], axis=1)
    joined.info.description = rows.info.description
    return joined


def verify(*, revision: str = REVISION, repo: str = REPO, offline: bool = False) -> dict[str, dict[str, int]]:
    """Get all files of a revision, compare each with the manifest, and count the rows of the tables.

    Returns table -> split -> rows. Raises LoadError with what is wrong.
    """
    source = _open(repo, revision, offline)
    tables = source.manifest["identity"]["tables"]
    splits = [(table, split, tables[table]["splits"][split]) for table in tables for split in tables[table]["splits"]]
    data = {file["path"] for _, _, part in splits for file in part["files"]}
    _get_files(source, sorted(data))  # first: what is wrong with the rows matters most
    _get_files(source, sorted(set(source.manifest["environment"]["files"]) - data))
    counted: dict[str, dict[str, int]] = {table: {} for table in tables}
    for table, split, part in splits:
        found = sum(pq.read_metadata(source.folder / file["path"]).num_rows for file in part["files"])
        if found != part["rows"]:
            raise LoadError(f"{table}/{split} of {source} has {found} rows, not {part['rows']}.")
        counted[table][split] = found
    return counted


class _Source(NamedTuple):
    """One commit (None for a local folder): its manifest, and the folder that its files and no others lie in."""

    repo: str
    revision: str
    commit: str | None
    offline: bool
    folder: Path
    manifest: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.repo} at {self.revision}" + (f", commit {self.commit}" if self.commit else "")


def _open(repo: str, revision: str, offline: bool) -> _Source:
    """Find out which commit the revision is, and read its manifest."""
    folder, commit = Path(repo), None
    if repo == REPO or not (folder / MANIFEST).is_file():
        how: dict[str, Any] = {"repo_type": "dataset", "revision": revision, "local_files_only": offline}
        try:
            folder = Path(hf_hub_download(repo, MANIFEST, **how)).parent
        except (OSError, ValueError) as error:
            raise LoadError(f"{revision} of {repo} cannot be had.{_next(repo, revision, error)}") from error
        commit = folder.name  # the cache has a folder for each commit
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        identity = json.dumps(manifest["identity"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        intact = hashlib.sha256(identity.encode()).hexdigest() == manifest["identity_sha256"]
        version = f"v{manifest['identity']['version']}"
    except (OSError, ValueError, KeyError, TypeError):
        intact = False
    if not intact or manifest["manifest"] != 1:
        raise LoadError(f"{folder / MANIFEST} is damaged, or not for this load.py: delete it and load again.")
    exact = re.fullmatch(r"v\d+\.\d+\.\d+|[0-9a-f]{40}", revision) or commit is None
    if exact and revision not in (version, commit):
        raise LoadError(f"{revision} of {repo} was asked for, and {folder} holds {version}: name that as revision.")
    source = _Source(repo, revision, commit, offline, folder, manifest)
    _warn_if_withdrawn(source, version)
    return source


def _warn_if_withdrawn(source: _Source, version: str) -> None:
    """Branch main knows what was withdrawn since. Whatever is wrong with it now: that is no reason to load nothing."""
    try:
        main = _main(source.repo, source.offline) if source.commit else source.manifest
        withdrawn = {f"v{name}": str(why)[:500] for name, why in main["environment"].get("withdrawn", {}).items()}
        newest = f"v{main['identity']['version']}"
    except (AttributeError, KeyError, TypeError):
        return
    if version in withdrawn:
        instead = "no newer version is better" if newest in withdrawn else f"name {newest!r} as revision instead"
        message = f"{version} of {source.repo} was withdrawn by its publisher: {withdrawn[version]!r}; {instead}."
        warnings.warn(message, UserWarning, stacklevel=4)  # at the line that loads


@cache  # one question a process
def _main(repo: str, offline: bool) -> Any:
    try:
        how: dict[str, Any] = {"repo_type": "dataset", "revision": "main", "local_files_only": offline}
        return json.loads(Path(hf_hub_download(repo, MANIFEST, **how)).read_bytes())
    except Exception:  # no network, no such file, no JSON
        return None


def _get_files(source: _Source, names: Iterable[str]) -> None:
    """Download the named files where they are missing, and compare each with the manifest."""
    names, problems, failure = list(names), [], None
    if source.commit and not all((source.folder / name).is_file() for name in names):
        how: dict[str, Any] = {"repo_type": "dataset", "revision": source.commit, "local_files_only": source.offline}
        try:
            snapshot_download(source.repo, allow_patterns=names, **how)
        except (OSError, ValueError) as error:
            failure = error
    for name in names:
        path = source.folder / name
        if not _SAFE.fullmatch(name):
            problems.append(f"{name!r} is no path that a manifest may name")
        elif not path.is_file():
            problems.append(f"{name} is not there")
        elif _sha256(path) != source.manifest["environment"]["files"].get(name, {}).get("sha256"):
            problems.append(f"{name} is damaged: delete {path.resolve()} and load again")
    if problems:
        shown = "; ".join(problems[:5]) + (f"; and {len(problems) - 5} more" if problems[5:] else "")
        raise LoadError(f"Of {source}: {shown}.{_next(source.repo, source.revision, failure) if source.commit else ''}")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _next(repo: str, revision: str, failure: Exception | None) -> str:
    """Why the Hub gave nothing, which revisions the cache knows, and the next command."""
    refs = Path(constants.HF_HUB_CACHE, "datasets--" + repo.replace("/", "--"), "refs")
    known = sorted(path.relative_to(refs).as_posix() for path in refs.rglob("*") if path.is_file())
    lines = [*str(failure or "").strip().splitlines()[-1:], f"in the cache: {', '.join(known) or 'no revision of it'}"]
    lines.append(f"next, with a network: hf download {repo} --repo-type dataset --revision {revision}")
    return "".join(f"\n  {line}" for line in lines)


def _places(positions: dict[str, int], keys: Iterable[str], what: str) -> list[int]:
    keys = list(keys)
    if missing := [key for key in keys if key not in positions]:
        raise LoadError(f"{len(missing)} of {len(keys)} have no partner: {what} {missing[0]!r}. Is it another split?")
    return [positions[key] for key in keys]


def _with_pictures(rows: Any, states: Any) -> Any:
    features = rows.features.copy()
    if features["images"] != datasets.List(datasets.Value("string")):
        raise LoadError("These rows hold their pictures already.")
    features["images"] = datasets.List(datasets.Image())
    positions = {f"sha256:{name}": number for number, name in enumerate(states["screenshot_sha256"]) if name}
    stored = states.select_columns("screenshot").cast_column("screenshot", datasets.Image(decode=False))

    def put(row: dict[str, Any]) -> dict[str, Any]:
        return {"images": [stored[place]["screenshot"] for place in _places(positions, row["images"], "screenshot")]}

    key = hashlib.sha256(f"{rows._fingerprint} {states._fingerprint}".encode()).hexdigest()[:16]
    return rows.map(put, features=features, new_fingerprint=key, writer_batch_size=100, desc="pictures")


def main() -> None:
    beside = Path(__file__).parent
    parser = argparse.ArgumentParser(description="Verify a revision of this dataset and print what it holds.")
    parser.add_argument("repo", nargs="?", default=str(beside) if (beside / MANIFEST).is_file() else REPO)
    parser.add_argument("--revision", default=REVISION)
    parser.add_argument("--offline", action="store_true", help="ask nobody; the cache must hold it")
    options = parser.parse_args()
    try:
        found = verify(**vars(options))
    except LoadError as error:
        raise SystemExit(f"error: {error}") from None
    for table, splits in found.items():
        print(f"{table:16} " + ", ".join(f"{split} {rows:,}" for split, rows in splits.items()))
    print(f"verified: every file of {options.repo} at {options.revision} is as its manifest says")


if __name__ == "__main__":
    main()
