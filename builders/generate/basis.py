"""The build that requests are made from: states and candidate sets, shard by shard, without their pictures.

The key of a request depends on the digests of its pictures only, so that their bytes are read when a request is sent:
counting requests, finding what is missing and writing answers down reads none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path

from ...schemas.built import BuiltTables, Row
from ...schemas.errors import ArmError
from ...schemas.manifest import manifest_of
from ..actor_messages import newest_picture
from ..importers import yields
from .log import shard_of

_CHUNK = 64  # states


@dataclass(frozen=True)
class _Shard:
    """The groups of a shard, as a container. ``number`` None: all groups."""

    number: int | None

    def __contains__(self, group: object) -> bool:
        return self.number is None or shard_of(str(group)) == self.number


class Basis:
    """A built directory with the tables states and, for questions, candidate_sets. Raises ArmError for a folder that is
    no build."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        manifest = manifest_of(folder)
        self.digest = str(manifest["identity_sha256"])
        self._sources = manifest["identity"]["sources"]
        self.tables = BuiltTables(folder, manifest["identity"])

    def states(self, shard: int | None, columns: Collection[str]) -> Iterator[tuple[Row, ...]]:
        """The states of a shard (None: of all), a few at a time, always in the same order."""
        rows = self.tables.columns("states", columns, among=("state_id", _Shard(shard)))
        while states := tuple(islice(rows, _CHUNK)):
            yield states

    def sets(self, states: Iterable[Row], columns: Collection[str]) -> dict[str, list[Row]]:
        """State id -> its candidate sets by draw."""
        found: dict[str, list[Row]] = {row["state_id"]: [] for row in states}
        for row in self.tables.columns("candidate_sets", columns, among=("state_id", found)):
            found[row["state_id"]].append(row)
        for rows in found.values():
            rows.sort(key=lambda row: (row["draw"], row["set_id"]))
        return found

    def spoken(self) -> dict[str, tuple[str, str | None]]:
        """File of a source of states -> dialect and space of what its records say."""
        return {
            file["path"]: (source["dialect"] or "", source["space"])
            for source in reversed(self._sources)
            if "states" in yields(source["kind"], source["format"])
            for file in source["files"]
        }

    def stored(self, recorded: str) -> str | None:
        """The digest by which the picture is kept that messages name by the digest ``recorded``."""
        return _stored(self.folder, self.digest).get(recorded)


@lru_cache(maxsize=1)
def _stored(folder: Path, digest: str) -> dict[str, str]:
    """Digest of a screenshot as it was recorded -> as it is kept, which differs where its bytes had to change."""
    found: dict[str, str] = {}
    columns = ("messages_json", "prompt_text", "tools_json", "screenshot_sha256", "screenshot_ops")
    for row in Basis(folder).tables.columns("states", columns):
        if (kept := row["screenshot_sha256"]) is not None:
            recorded = newest_picture(row) if row["screenshot_ops"] else kept
            found.setdefault(recorded or kept, kept)
    return found


@dataclass
class Shelf:
    """Pictures of a few states, read together when the first of them is asked for."""

    basis: Basis
    digests: frozenset[str]
    _bytes: dict[str, bytes] = field(default_factory=dict)

    def picture(self, digest: str) -> bytes:
        """Raises ArmError when the basis lacks a picture that its states name."""
        if not self._bytes:
            self._read()
        return self._bytes[digest]

    def _read(self) -> None:
        found: dict[str, bytes] = {}

        def keep(reference: str, data: bytes) -> None:
            digest = reference.removeprefix("sha256:")
            if digest in self.digests:
                found[digest] = data

        for _ in self.basis.tables.some("states", "screenshot_sha256", self.digests, keep):
            if len(found) == len(self.digests):
                break
        if missing := self.digests - set(found):
            message = f"{len(missing)} pictures of its states are not in it, {min(missing)} for one"
            raise ArmError(message, where=str(self.basis.folder), next_command=f"arm validate {self.basis.folder}")
        self._bytes = found


@dataclass(frozen=True)
class Pictures(Mapping[str, bytes]):
    """The pictures of one state by digest, from the shelf of its neighbours."""

    digests: tuple[str, ...]
    shelf: Shelf = field(repr=False)

    def __getitem__(self, digest: str) -> bytes:
        if digest not in self.digests:
            raise KeyError(digest)
        return self.shelf.picture(digest)

    def __iter__(self) -> Iterator[str]:
        return iter(self.digests)

    def __len__(self) -> int:
        return len(self.digests)
