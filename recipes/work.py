"""The work folder of a training: what is finished is kept in it, so that nothing is done twice or lost.

::

    identity.json     what is trained, and in how many processes; another training is refused
    rows/             the rows, prepared
    trainer/          the trainer's own checkpoints, to go on from; never published
    made/             what becomes the checkpoint
    weights.json, reloaded.json, evaluated.json    what each finished stage found
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from ..inference.adapter import WEIGHTS
from ..schemas.errors import ArmError
from ..schemas.files import replace_whole, take
from ..schemas.ids import canonical_json, sha256_hex
from .inputs import Inputs
from .manifest import weights_from

_IDENTITY, _LOCK = "identity.json", "lock"


@dataclass(frozen=True)
class Work:
    """One work folder, which this process has."""

    folder: Path

    @property
    def rows(self) -> Path:
        return self.folder / "rows"

    @property
    def trainer(self) -> Path:
        return self.folder / "trainer"

    @property
    def made(self) -> Path:
        return self.folder / "made"

    def read(self, stage: str) -> Any:
        """What the finished stage found, or None."""
        with contextlib.suppress(FileNotFoundError):
            return orjson.loads((self.folder / f"{stage}.json").read_bytes())
        return None

    def trained(self) -> Any:
        """What training found, while its weights are there; else None."""
        return self.read("weights") if (self.made / WEIGHTS).is_file() else None

    def finish(self, stage: str, found: Any) -> Any:
        """Keep what a stage found: it is finished."""
        _write(self.folder / f"{stage}.json", found)
        return found

    def forget(self, *stages: str) -> None:
        """What these stages found no longer holds."""
        for stage in stages:
            (self.folder / f"{stage}.json").unlink(missing_ok=True)


@contextmanager
def opened(folder: Path, inputs: Inputs, processes: int, *, restart: bool) -> Iterator[Work]:
    """The work folder of this training, made when there is none; with ``restart`` what it held is gone.

    Raises ArmError while another process has it, for a folder of another training, and for one that somebody else
    owns: checkpoints of a trainer are loaded from it.
    """
    wanted = _wanted(inputs, processes)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if hasattr(os, "getuid") and folder.stat().st_uid != os.getuid():
        raise ArmError("belongs to another user, and training loads what lies in it", where=str(folder))
    with (folder / _LOCK).open("a") as lock:
        if not take(lock):
            raise ArmError("another process trains here", where=str(folder))
        if restart or _moved(folder):
            clear(folder)
        _refuse_other(folder, wanted, f"arm train {shlex.quote(str(inputs.recipe.path))} --restart")
        _write(folder / _IDENTITY, wanted)
        yield Work(folder)


def _moved(folder: Path) -> bool:
    """Whether the checkpoint was finished and moved, and this folder left behind by a process that ended then."""
    return (folder / "weights.json").exists() and not (folder / "made").exists()


def clear(folder: Path) -> None:
    """Remove what lies in the work folder, but for its lock."""
    for path in folder.iterdir():
        if path.name != _LOCK:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def remove(folder: Path) -> None:
    """Remove the work folder."""
    shutil.rmtree(folder, ignore_errors=True)


def _wanted(inputs: Inputs, processes: int) -> dict[str, Any]:
    """What decides the weights; how many processes share a batch does, too."""
    wanted = {"trained_from": weights_from(inputs.identity), "processes": processes}
    return {**wanted, "sha256": sha256_hex(canonical_json(wanted))}


def _refuse_other(folder: Path, wanted: Mapping[str, Any], again: str) -> None:
    path = folder / _IDENTITY
    if not path.exists():
        if any(other.name != _LOCK for other in folder.iterdir()):
            raise ArmError("is in the way: training works in a folder of this name, and made no such one",
                           where=str(folder))  # fmt: skip
        return
    try:
        found = orjson.loads(path.read_bytes())
        if found["sha256"] == wanted["sha256"]:
            return
        if not (folder / "weights.json").exists() and not any((folder / "trainer").glob("checkpoint-*")):
            clear(folder)  # it failed before anything was trained: nothing to lose, and nothing to go on from
            return
        changed = list(_changes("", found, wanted))
    except (ValueError, KeyError, TypeError):
        changed = ["it cannot be read"]
    raise ArmError(
        f"holds an unfinished training of something else: {'; '.join(changed[:5])}", where=str(folder),
        next_command=f"{again}   # deletes it and starts anew",
    )  # fmt: skip


def _changes(path: str, old: Any, new: Any) -> Iterator[str]:
    """Each value that is not the same, by its place."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new} - {"sha256"} if not path else {*old, *new}):
            yield from _changes(f"{path}.{key}" if path else key, old.get(key), new.get(key))
    elif old != new:
        yield f"{path} was {_short(old)} and is {_short(new)}"


def _short(value: Any) -> str:
    text = canonical_json(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _write(path: Path, value: Any) -> None:
    replace_whole(path, orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n")
