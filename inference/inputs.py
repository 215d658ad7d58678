"""What a model is asked about, many at a time: lines of a file, or candidate sets of a build. A few are held in memory.

Nothing that stands there is lost: what cannot be read is a question, too, which says why.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from ..prompts.render import Prompt
from ..schemas.built import BuiltTables
from ..schemas.errors import ArmError
from ..schemas.jsonl import JsonError, Line, loads, loads_line, read_lines
from ..schemas.manifest import identity_digest
from .rendering import Renderer
from .request import Request, Row, Spoken, way

Read = Callable[[Any, str, int], Request]  # `Chooser.read`
Progress = Callable[[str, int, int], None]
NEEDED = ("states", "candidate_sets")
_SAID = 3  # problems of a request that a row repeats


@dataclass(frozen=True)
class Question:
    """One thing to pick from.

    row_index: its place (0-based). line: of its file (1-based); None of a build. id: as it is called; None where that
    could not be read. request: None where there is none that could be shown; ``problem`` then says why.
    """

    row_index: int
    line: int | None
    id: str | None
    request: Request | None
    problem: str = ""


class Inputs(Protocol):
    """identity: all that decides the questions. total: how many there are. renderer: of the build they are rows of."""

    where: str
    identity: Mapping[str, Any]
    total: int
    renderer: Renderer | None

    def questions(self, first: int, last: int) -> list[Question]:
        """Those with the places ``first`` to ``last`` (excluded)."""


def one(data: bytes, where: str, read: Read) -> Request:
    """The request that a whole file is. Raises ArmError for anything else."""
    try:
        value = loads(data)
    except JsonError as error:
        raise ArmError(str(error), where=where) from error
    if isinstance(value, list):
        raise ArmError("is a list, and a file of one request holds that one", where=where,
                       next_command="write one request on each line of a .jsonl file")  # fmt: skip
    return read(value, where, 0)


@dataclass
class Lines:
    """The requests of a JSONL file. ``where``: what to call it."""

    path: Path
    where: str
    read: Read = field(repr=False)
    renderer: Renderer | None = None

    def __post_init__(self) -> None:
        """One pass over the file. Raises ArmError when it holds no line."""
        digest = hashlib.sha256()
        self._lines = [(line.number, line.offset, line.ended) for line in read_lines(self.path, digest.update)]
        if not self._lines:
            raise ArmError("holds no request", where=self.where, next_command="write one request on each line")
        self.total = len(self._lines)
        self.identity: Mapping[str, Any] = {"kind": "lines", "sha256": digest.hexdigest()}

    def questions(self, first: int, last: int) -> list[Question]:
        found = []
        with self.path.open("rb") as file:
            for index, (number, offset, ended) in enumerate(self._lines[first:last], first):
                file.seek(offset)
                found.append(self._question(index, Line(number, offset, file.readline().rstrip(b"\r\n"), ended)))
        return found

    def _question(self, index: int, line: Line) -> Question:
        try:
            value = loads_line(line)
        except JsonError as error:
            return Question(index, line.number, None, None, str(error))
        try:
            request = self.read(value, self.where, line.number)
        except ArmError as error:
            return Question(index, line.number, _id(value), None, _told(error, self.where))
        return Question(index, line.number, request.id, request)


@dataclass
class Split:
    """The candidate sets of a split of a build, as rows that hold everything already. They come in the order of their
    states, which lie beside each other.

    prompt: that they will be shown with. spoken: how actions of the checkpoint's data were written, if that is known.
    """

    tables: BuiltTables
    split: str
    prompt: Prompt
    spoken: Sequence[Spoken] | None = None

    def __post_init__(self) -> None:
        """One pass over ids. Raises ArmError for a build without the tables, for a split without sets, and when all
        sets are written in another way than the checkpoint's data."""
        self.where = str(self.tables.folder)
        if missing := [name for name in NEEDED if not self.tables.has(name)]:
            raise ArmError(
                f"has no table {', '.join(missing)}", where=self.where,
                next_command=f"tables: {{{missing[0]}: {{}}}}   # of the dataset, in registry.yaml",
            )  # fmt: skip
        self.renderer: Renderer | None = Renderer(self.prompt, self.tables.identity)
        self._held = self.tables.of_split(self.split, "candidate_sets")
        sets = list(self._held.columns("candidate_sets", ("set_id", "state_id", "dialect", "space")))
        if not sets:
            raise ArmError(f"holds no candidate sets in {self.split}", where=self.where)
        self._refuse_other_ways(sets)
        self._states = self.tables.of_split(self.split, "states")
        place = _places(self._states)
        if any(row["state_id"] not in place for row in sets):  # else the pictures of other splits are not fetched
            self._states = self.tables
            place = _places(self.tables)
        last = len(place)
        self._sets = sorted((place.get(row["state_id"], last), row["set_id"], row["state_id"]) for row in sets)
        self.total = len(self._sets)
        self.identity: Mapping[str, Any] = {
            "kind": "split",
            "sha256": identity_digest(self.tables.identity),
            "split": self.split,
        }

    def questions(self, first: int, last: int) -> list[Question]:
        wanted = self._sets[first:last]
        pictures: dict[str, bytes] = {}

        def keep(reference: str, data: bytes) -> None:
            pictures[reference.removeprefix("sha256:")] = data

        ids = {state_id for _, _, state_id in wanted}
        quiet = replace(self._states, progress=lambda *_: None)
        states = {row["state_id"]: row for row in quiet.some("states", "state_id", ids, keep)}
        held = replace(self._held, progress=lambda *_: None)
        sets = {row["set_id"]: row for row in held.some("candidate_sets", "set_id", {name for _, name, _ in wanted})}
        return [
            self._question(index, sets[name], states.get(state_id), pictures)
            for index, (_, name, state_id) in enumerate(wanted, first)
        ]

    def _question(self, index: int, set_row: Row, state: Row | None, pictures: Mapping[str, bytes]) -> Question:
        name = set_row["set_id"]
        if state is None:
            return Question(index, None, name, None, f"the build has no state {set_row['state_id']!r}")
        picture = state["screenshot_sha256"]
        if picture is not None and picture not in pictures and self.prompt.options.observation == "screenshot":
            raise ArmError(
                f"holds of the picture {picture[:12]} its hash alone", where=self.where,
                next_command="images: embed   # of states, in registry.yaml",
            )  # fmt: skip
        shown = {picture: pictures[picture]} if picture in pictures else {}
        return Question(index, None, name, Request(name, state, set_row, shown))

    def _refuse_other_ways(self, sets: Sequence[Row]) -> None:
        """One that is written in another way has an outcome that says so; here all would have it."""
        found = {Spoken(row["dialect"], row["space"]) for row in sets}
        if self.spoken is None or found & {*self.spoken}:
            return
        known, here = (", ".join(sorted(way(*one) for one in ways)) for ways in (self.spoken, found))
        raise ArmError(
            f"the checkpoint was trained on actions in {known}, and those of {self.split} are in {here}; its answers "
            "would mean nothing", where=self.where,
        )  # fmt: skip


def _places(tables: BuiltTables) -> dict[str, int]:
    """Where each state lies among the others."""
    return {row["state_id"]: at for at, row in enumerate(tables.columns("states", ("state_id",)))}


def _id(value: Any) -> str | None:
    """How a request that cannot be read calls itself."""
    said = value.get("id") if isinstance(value, Mapping) else None
    return said if isinstance(said, str) else None


def _told(error: ArmError, where: str) -> str:
    """What is wrong with a request, for its row; the file and the line stand there already."""
    if error.issues:
        told = [f"{issue.path} {issue.message}" for issue in error.issues[:_SAID]]
        more = len(error.issues) - len(told)
        return "; ".join(told) + (f"; and {more} more" if more else "")
    place = (error.where or "").removeprefix(where).strip()
    return f"{place} {error.message}" if place.startswith("$") else error.message
