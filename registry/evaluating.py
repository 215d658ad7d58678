"""What an evaluation names, as folders: a checkpoint, the data it is asked about, and the tasks it was trained on."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..hub_sync.hub import Hub
from ..hub_sync.pull import pull
from ..hub_sync.release import manifest_at
from ..inference import adopt
from ..recipes import manifest as checkpoints
from ..recipes.evaluation.items import groups_of, trained_groups
from ..recipes.scoring import opened
from ..schemas.built import BuiltTables
from ..schemas.errors import ArmError
from ..schemas.manifest import NAME as MANIFEST
from ..schemas.manifest import manifest_of
from .diff.side import Side

Progress = Callable[[str, int, int], None]
_LONGEST = 32  # checkpoints that were each trained further from the one before


@dataclass(frozen=True)
class Checkpoint:
    """name: what to call it. commit: on the Hub; None for a folder."""

    folder: Path
    manifest: Mapping[str, Any]
    name: str
    commit: str | None = None

    @classmethod
    def here(cls, folder: Path) -> Checkpoint:
        """Raises ArmError for a folder that holds no checkpoint."""
        if _identity(folder) is not None:
            raise ArmError("is a dataset, and a checkpoint is measured", where=str(folder),
                           next_command=f"arm evaluate CHECKPOINT --dataset {folder}")  # fmt: skip
        if adopted := adopt.manifest_of(folder):
            return cls(folder, adopted, folder.resolve().name)
        manifest = checkpoints.manifest_of(folder)
        return cls(folder, manifest, str(manifest["identity"]["name"]))

    @classmethod
    def published(cls, hub: Hub, repo: str, revision: str) -> Checkpoint:
        """Fetched from the Hub at the commit that ``revision`` is now."""
        from ..inference.fetch import checkpoint

        commit = hub.of("model").resolve(repo, revision)
        folder = checkpoint(repo, commit)
        return cls(folder, checkpoints.manifest_of(folder), repo.partition("/")[2], commit)

    def open(self, base: Path | None, device: str | None = None) -> Any:
        """The model, with everything compared that its manifest says."""
        return opened(self.folder, base, self.manifest["checkpoint"], device)

    def dataset(self) -> Path | tuple[str, str]:
        """The data that it was trained on: the build that lies beside it, or (repository, revision).

        Raises ArmError when it lay in a folder, and lies in none beside the checkpoint.
        """
        if adopt.ADOPTED in self.manifest:
            raise ArmError("was adopted, and what it was trained on is not known", where=str(self.folder),
                           next_command="--dataset BUILD")  # fmt: skip
        said = self.manifest["identity"]["dataset"]
        beside = sorted(self.folder.resolve().parent.glob(f"*/{MANIFEST}")) if self.commit is None else ()
        for path in beside:
            if _identity(path.parent) == said["identity_sha256"]:
                return self.folder.parent / path.parent.name
        if said["repo"] is None or said["revision"] is None:
            raise ArmError("was trained on a build in a folder, which has no name", where=str(self.folder),
                           next_command="--dataset FOLDER")  # fmt: skip
        return said["repo"], said["revision"]


@contextmanager
def dataset(
    hub: Hub, where: Path | tuple[str, str], progress: Progress
) -> Iterator[tuple[Path, dict[str, str | None]]]:
    """(A built directory, what a manifest says of it) of a folder, or of (repository, revision), which is downloaded
    for the time being."""
    if isinstance(where, Path):
        yield where, {"repo": None, "revision": None, "commit": None}
        return
    repo, revision = where
    with tempfile.TemporaryDirectory(prefix="arm-evaluate-") as work:
        folder = Path(work) / "dataset"
        commit = pull(hub, repo, revision, folder, progress)
        yield folder, {"repo": repo, "revision": revision, "commit": commit}


@dataclass
class Trained:
    """What a checkpoint and those before it were trained on.

    groups: task groups of those splits. datasets: each with repo, revision, identity_sha256, split, and ``unknown``:
    why its tasks could not be read, or None.
    """

    groups: set[str] = field(default_factory=set)
    datasets: list[dict[str, Any]] = field(default_factory=list)

    @property
    def unknown(self) -> list[str]:
        """What could not be read: whether its tasks are asked about nobody knows."""
        return [f"{d['repo'] or 'a build in a folder'}: {d['unknown']}" for d in self.datasets if d["unknown"]]


def trained_on(hub: Hub, manifest: Mapping[str, Any], asked: Path) -> Trained:
    """The tasks that a checkpoint has seen, and those that the checkpoint it was trained from has. ``asked``: a build
    that lies here."""
    found = Trained()
    empty = {"repo": None, "revision": None, "identity_sha256": None}
    if adopt.ADOPTED in manifest:
        found.datasets.append({**empty, "split": "train", "unknown": "it was adopted from another tool"})
        return found
    for _ in range(_LONGEST):
        identity = manifest["identity"]
        said, split = identity["dataset"], identity["recipe"].get("split", "train")
        unknown = None
        try:
            found.groups |= _groups(hub, said, split, asked)
        except ArmError as error:
            unknown = error.message
        found.datasets.append({**said, "split": split, "unknown": unknown})
        start = identity["init_from"]
        if start is None:
            return found
        if start["repo"] is None or start["commit"] is None:
            unknown = "the checkpoint that training started from lay in a folder"
        else:
            try:
                manifest = manifest_at(hub.of("model"), start["repo"], start["commit"])[1]
                continue
            except ArmError as error:
                unknown = error.message
        found.datasets.append({**empty, "repo": start["repo"], "split": "train", "unknown": unknown})
        return found
    unknown = f"it stands before {_LONGEST} others, and was not looked at"
    found.datasets.append({**empty, "repo": start["repo"], "split": "train", "unknown": unknown})
    return found


def _groups(hub: Hub, said: Mapping[str, Any], split: str, asked: Path) -> set[str]:
    if manifest_of(asked)["identity_sha256"] == said["identity_sha256"]:
        return trained_groups(asked, split)
    if said["repo"] is None or said["revision"] is None:
        raise ArmError("it has no name by which it could be found")
    with Side.revision(hub, said["repo"], hub.resolve(said["repo"], said["revision"])) as side:
        if side.manifest["identity_sha256"] != said["identity_sha256"]:
            raise ArmError("what is published there now is another build")
        return groups_of(BuiltTables(Path(side.name), side.manifest["identity"], fetch=side.path), split)


def _identity(folder: Path) -> str | None:
    """That of the dataset in ``folder``; None when there is none."""
    try:
        return str(manifest_of(folder)["identity_sha256"])
    except ArmError:
        return None


def refuse_built(out: Path) -> None:
    """Raise ArmError for a place in a built directory: its manifest names every file that belongs there."""
    for folder in out.resolve().parents:
        if (folder / MANIFEST).is_file():
            raise ArmError(f"lies in the built directory {folder.name}, which is complete", where=str(out),
                           next_command="--out NEW")  # fmt: skip
