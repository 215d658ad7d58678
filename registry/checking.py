"""What of a recipe's references is at hand, for `recipes.checks`: on this machine, and small files from the Hub."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..hub_sync.pull import download
from ..inference.processor import FILES
from ..recipes import manifest as models
from ..recipes.checks import Checked, Given, Skipped, check
from ..schemas import manifest as manifests
from ..schemas.errors import ArmError, Issue
from ..schemas.versions import parse
from ..schemas.yamlfile import YamlFile, read
from .alone import FILE, declaring
from .sources.lock import NAME as LOCK
from .sources.lock import Lock
from .sources.models import Models
from .sources.references import Reference, repo_problem, version_of

if TYPE_CHECKING:
    from ..hub_sync.hub import Hub

_COMMIT = re.compile(r"[0-9a-f]{40}", re.ASCII)
# What says what a model is, without its weights.
_PLAIN = ("config.json", "generation_config.json", "adapter_config.json", manifests.NAME, *FILES)


def check_recipe(path: Path, *, hub: Hub | None, sample: int) -> Checked:
    """Check the recipe in ``path`` with what is at hand; ``hub`` (of models) None: nothing is asked of the network.

    A dataset is looked for among the builds of the registries in the recipe's folder and above it, and where training
    left it; a base model where training left it, in the cache of huggingface_hub, and on ``hub``, whose small files are
    fetched at the pinned commit. Raises ArmError for a recipe that is not of its form, and for a Hub that fails.
    """
    file = read(path, "recipe/1")
    target, namespace = _target(path)
    beside = (target or path).parent
    at_hand = _AtHand(file, namespace, Lock.read(beside / LOCK), Models(beside / "build" / ".sources", None), hub)
    issues, skipped = [], []
    given = Given(target=target)
    for part, find in (("dataset", at_hand.dataset), ("base", at_hand.base), ("init_from", at_hand.start)):
        if part not in file.data:
            continue
        try:
            given = find(given)
        except _UnpinnedError as error:
            for name in ("start", "base") if part == "init_from" else (part,):
                given = _absent(given, name, error.message, error.then)
            if hub is None:
                skipped.append(Skipped("references", error.message, error.then))
            else:
                said = f"{error.message}; {error.then}"
                issues.append(Issue(str(path), file.line(f"$.{error.key}"), f"$.{error.key}", said))
        except ValueError as error:
            issues.append(Issue(str(path), file.line(f"$.{part}"), f"$.{part}", str(error)))
            given = _absent(given, "base" if part == "init_from" else part, f"{part} names nothing", "mend it")
    found = check(path, given, sample=sample)
    return Checked(tuple(sorted([*issues, *found.issues])), (*skipped, *found.skipped), found.counts)


def _target(path: Path) -> tuple[Path | None, str]:
    """(The registry.yaml whose models name this recipe, its namespace); without one (None, "")."""
    found = declaring(path)
    return (None, "") if found is None else (found[0], read(found[0], "registry/1").data["namespace"])


class _UnpinnedError(ArmError):
    """A reference for which arm.lock holds no commit. ``key``: place in the recipe. ``then``: what pins it."""

    def __init__(self, reference: Reference, key: str, recipe: Path) -> None:
        self.key, self.then = key, f"arm lock {recipe}"
        super().__init__(f"{reference} is not pinned: {LOCK} holds no commit of it")


@dataclass(frozen=True)
class _AtHand:
    """Finds what a recipe names. ``fetched``: what training fetched before. ``hub``: None asks nobody."""

    file: YamlFile
    namespace: str
    lock: Lock
    fetched: Models
    hub: Hub | None

    def dataset(self, given: Given) -> Given:
        """The build of a registry.yaml beside or above, or what training fetched. Raises ValueError and `_Unpinned`."""
        declared = self.file.data["dataset"]
        if isinstance(declared, dict):
            return self._folder(given, "dataset", declared["folder"], manifests.NAME)
        reference = version_of(declared, "dataset", self.namespace)
        name = reference.repo.partition("/")[2]
        for registry in self._registries():
            if _is(registry.parent / "build" / name, reference):
                return replace(given, dataset=registry.parent / "build" / name)
            declared_version = _declared(registry, reference.repo)
            if declared_version == reference.version:
                return _absent(given, "dataset", f"{reference} is not built", f"arm build {registry}")
            publishes = given.target is not None and given.target.resolve() == registry
            if publishes and declared_version and parse(reference.version) > parse(declared_version):
                raise ValueError(
                    f"names {reference}, and {declared_version} is the newest that {given.target} declares"
                )
        locked = self.lock.references.get(reference.key)
        if locked is None and self.hub is not None:
            raise _UnpinnedError(reference, "dataset", self.file.path)
        if locked is not None and (self.hub is not None or self._fetched("builds", reference.repo, locked.commit)):
            models = Models(self.fetched.folder, self.hub)  # what training will read, so that it is fetched once
            return replace(given, dataset=models.build("dataset", reference.repo, locked))
        then = f"run it without --offline; or arm pull {reference} --out build/{name}, beside a {FILE}"
        return _absent(given, "dataset", f"{reference} is not on this machine", then)

    def base(self, given: Given) -> Given:
        declared = self.file.data["base"]
        if "folder" in declared:
            return self._folder(given, "base", declared["folder"], "config.json")
        if problem := repo_problem(declared["model"]):
            raise ValueError(problem)
        reference = Reference("model", declared["model"], declared["revision"])
        return self._model(given, "base", reference.repo, self._commit(reference, "base.revision"), "config.json")

    def start(self, given: Given) -> Given:
        """The checkpoint that is trained further, and its base, which its manifest names."""
        reference = version_of(self.file.data["init_from"], "model", self.namespace)
        commit = self._commit(reference, "init_from")
        given = self._model(given, "start", reference.repo, commit, manifests.NAME)
        if given.start is None:
            return _absent(given, "base", *given.absent["start"])
        base = models.manifest_of(given.start)["checkpoint"]["base"]
        if base["repo"] is None or base["commit"] is None:
            raise ValueError(f"{reference} was trained on a base in a folder, which others cannot have")
        return self._model(given, "base", base["repo"], base["commit"], "config.json")

    def _registries(self) -> Iterator[Path]:
        """The registry.yaml files in the recipe's folder and above it, nearest first."""
        yield from (folder / FILE for folder in self.file.path.resolve().parents if (folder / FILE).is_file())

    def _commit(self, reference: Reference, key: str) -> str:
        if _COMMIT.fullmatch(reference.revision):
            return reference.revision
        locked = self.lock.references.get(reference.key)
        if locked is None:
            raise _UnpinnedError(reference, key, self.file.path)
        return locked.commit

    def _folder(self, given: Given, name: str, folder: str, needed: str) -> Given:
        found = self.file.path.parent / folder
        if not (found / needed).is_file():
            raise ValueError(f"{found} holds no {needed}")
        return _with(given, name, found)

    def _model(self, given: Given, name: str, repo: str, commit: str, needed: str) -> Given:
        """What says what a model is: as training fetched it, from the Hub, or out of the client's cache."""
        for folder in self._places(name, repo, commit):
            if folder is not None and all((folder / one).is_file() for one in (needed, "tokenizer.json")):
                return _with(given, name, folder)
        if self.hub is not None:
            raise ValueError(f"{repo} at {commit[:12]} holds no {needed}, or no tokenizer.json")
        return _absent(given, name, f"{repo} is not on this machine", "run it without --offline")

    def _places(self, name: str, repo: str, commit: str) -> Iterator[Path | None]:
        yield self._fetched("models" if name == "base" else "builds", repo, commit)
        yield self._shape(repo, commit)
        yield _cached(repo, commit)  # last: it may be a part of the files

    def _fetched(self, kind: str, repo: str, commit: str) -> Path | None:
        """The folder that training fetched; of a model the bytes are not hashed anew, since training does that."""
        folder = self.fetched.folder / kind / repo.replace("/", "--") / commit
        return folder if folder.is_dir() else None

    def _shape(self, repo: str, commit: str) -> Path | None:
        """The small files of a model, fetched once. Raises ArmError when the Hub cannot give them."""
        place = self.fetched.folder / "shapes" / repo.replace("/", "--") / commit
        done = place / ".done"
        if not done.is_file() and self.hub is not None:
            files = self.hub.files(repo, commit)
            wanted = [file for path, file in files.items() if any(fnmatch.fnmatchcase(path, one) for one in _PLAIN)]
            if wrong := download(self.hub, repo, commit, wanted, place, lambda *_: None):
                raise ArmError(
                    f"arrived with other bytes than listed: {', '.join(wrong[:5])}", where=f"{repo}@{commit}"
                )
            done.touch()
        return place if done.is_file() else None


def _with(given: Given, name: str, folder: Path) -> Given:
    changes: dict[str, Any] = {name: folder}
    return replace(given, **changes)


def _is(folder: Path, reference: Reference) -> bool:
    """Whether the build in ``folder`` is this version of this dataset."""
    try:
        identity = manifests.manifest_of(folder)["identity"]
    except ArmError:
        return False
    return (f"{identity['namespace']}/{identity['name']}", identity["version"]) == (reference.repo, reference.version)


def _declared(registry: Path, repo: str) -> str | None:
    """The version of the dataset ``repo`` that is the registry's own. One that cannot be read declares nothing here."""
    try:
        data = read(registry, "registry/1").data
    except ArmError:
        return None
    versions = {f"{data['namespace']}/{one['name']}": str(one["version"]) for one in data["datasets"]}
    return versions.get(repo)


def _cached(repo: str, commit: str) -> Path | None:
    """The snapshot of a repository in the cache of huggingface_hub, which may be a part of it."""
    from huggingface_hub.constants import HF_HUB_CACHE

    return Path(HF_HUB_CACHE) / f"models--{repo.replace('/', '--')}" / "snapshots" / commit


def _absent(given: Given, name: str, why: str, then: str) -> Given:
    return replace(given, absent={**given.absent, name: (why, then)})
