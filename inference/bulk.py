"""Picks of many requests in one Parquet file (`pick/1`), from a run that may be killed and run again.

Answers lie in a folder beside the file until it is whole: ``picks.parquet.making`` holds ``about.json``, all that
decides them, and one file for each piece. A piece is asked as a whole, so that a run that was killed and one that was
not give the same bytes.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import orjson

from ..schemas.arrow import arrow_schema
from ..schemas.columns import arrow_table
from ..schemas.errors import ArmError
from ..schemas.files import replace_whole, take
from ..schemas.ids import canonical_json
from ..schemas.validate import for_schema
from .choice import Choice
from .inputs import Inputs, Progress, Question
from .rendering import Renderer
from .request import Request

if TYPE_CHECKING:
    import pyarrow.parquet as pq

SCHEMA = "pick/1"
UNREADABLE = "unreadable"  # of a row that is no request; the other statuses are those of a choice
AGAIN = "error"  # of a row that is asked again: the server, not the model, gave no answer
PIECE = 32  # requests that are asked together; a run that is killed loses as many
_GROUP = 1024  # rows of a row group
_KEY = b"action_reward_models.pick"  # of the file's metadata: what decides its rows
_SILENCE = 16  # requests in a row without an answer, and the rest is not tried
_NAMED = 5  # rows without a pick that are told of by name

Lacking = Literal["selected_index", "scores"]
Row = dict[str, Any]
Ask = Callable[[Sequence[Request], Renderer | None], list[Choice]]


@dataclass
class Summary:
    """Of a finished file. statuses, chosen_by: rows of each. lacking: rows that have nothing in these fields; first:
    some of them. asked: rows that this run asked about."""

    out: Path
    rows: int = 0
    asked: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    chosen_by: Counter[str] = field(default_factory=Counter)
    lacking: Counter[Lacking] = field(default_factory=Counter)
    first: dict[Lacking, list[Row]] = field(default_factory=lambda: {"selected_index": [], "scores": []})

    def count(self, row: Row) -> None:
        self.rows += 1
        self.statuses[row["status"]] += 1
        self.chosen_by[row["chosen_by"] or "nobody"] += 1
        for name, some in self.first.items():
            if row[name] is None:
                self.lacking[name] += 1
                if len(some) < _NAMED:
                    some.append({key: row[key] for key in ("row_index", "line", "id", "status", "detail", "chosen_by")})

    def to_json(self, wanted: Lacking) -> dict[str, Any]:
        """As data; ``wanted``: the field that was asked for, so that rows without it are told of."""
        return {
            "out": str(self.out), "rows": self.rows, "asked": self.asked, "statuses": dict(self.statuses),
            "chosen_by": dict(self.chosen_by), "lacking": self.lacking[wanted], "first_lacking": self.first[wanted],
        }  # fmt: skip


def pick(
    inputs: Inputs, opened: Callable[[], Ask], out: Path, about: Mapping[str, Any], *, piece: int = PIECE,
    progress: Progress = lambda *_: None,
) -> Summary:  # fmt: skip
    """Ask about all of ``inputs`` and write the file ``out``; what an earlier run of the same left is not asked again,
    but for what a server gave no answer to.

    opened: loads the model, once there is something to ask. about: all that decides the answers besides the inputs.
    Raises ArmError when the file or the folder beside it is of something else, while another process writes it, and
    when a server answers nothing any more; what was answered is kept.
    """
    run = _Run(inputs, out, {**about, "inputs": dict(inputs.identity), "piece": piece}, piece, progress)
    out.parent.mkdir(parents=True, exist_ok=True)
    run.refuse_other()
    if (found := run.finished()) is not None and not found.statuses[AGAIN]:
        shutil.rmtree(run.work, ignore_errors=True)  # of a run that ended before it could clear up
        return found
    with run.taken():
        if found is not None:
            run.take_apart()
        asked = run.ask(opened)
        run.write()
        shutil.rmtree(run.work)
    done = run.finished()
    assert done is not None
    done.asked = asked
    return done


@dataclass
class _Run:
    inputs: Inputs
    out: Path
    about: Mapping[str, Any]
    piece: int
    progress: Progress
    silent: int = 0  # requests in a row that a server gave no answer to

    def __post_init__(self) -> None:
        self.work = self.out.with_name(f"{self.out.name}.making")
        self._said = canonical_json(dict(self.about)).encode()
        self._firsts = range(0, self.inputs.total, self.piece)

    def refuse_other(self) -> None:
        """Raise ArmError when the file or the folder holds answers to something else, and for a folder that another
        program made, such as one that somebody sent along: a link in it would have another file written."""
        inside = self.work.iterdir() if self.work.is_dir() else ()
        strange = self.work.exists() and not self.work.is_dir()
        if strange or any(path.is_symlink() for path in (self.work, *inside)):
            raise ArmError(
                "is no folder of a run: it is a file, or holds links", where=str(self.work),
                next_command=f"delete {self.work}",
            )  # fmt: skip
        places = {self.work: self.work / "about.json"} if self.work.exists() else {}
        for place, path in {self.out: self.out, **places}.items():
            known = self._known(path)
            if known is not None and known != orjson.loads(self._said):
                differs = sorted(_differing(known, self.about))
                raise ArmError(
                    f"holds picks of something else: {', '.join(differs)} differ{'s' if len(differs) == 1 else ''}",
                    where=str(place), next_command=f"--out NEW, or delete {place}",
                )  # fmt: skip

    def _known(self, path: Path) -> dict[str, Any] | None:
        """What decided the answers in a file or folder; None where there is none. Raises ArmError for another file."""
        if not path.exists():
            return None
        try:
            data = path.read_bytes() if path != self.out else _metadata(path)
            found = orjson.loads(data)
            if not isinstance(found, dict):
                raise ValueError("no object")
        except (OSError, ValueError, KeyError) as error:
            raise ArmError("is there already, and holds no picks", where=str(path), next_command="--out NEW") from error
        return found

    def finished(self) -> Summary | None:
        """Of the file, when it is there."""
        if not self.out.exists():
            return None
        found = Summary(self.out)
        for row in _rows(self.out):
            found.count(row)
        return found

    @contextmanager
    def taken(self) -> Iterator[None]:
        """The folder is this run's alone."""
        self.work.mkdir(exist_ok=True)
        with (self.work / "lock").open("w") as lock:
            if not take(lock):
                raise ArmError("another process is writing it", where=str(self.out))
            replace_whole(self.work / "about.json", self._said)
            yield

    def take_apart(self) -> None:
        """The finished file as pieces, of which some are asked again."""
        rows = list(_rows(self.out))
        for first in self._firsts:
            self._keep(first, rows[first : first + self.piece])

    def ask(self, opened: Callable[[], Ask]) -> int:
        """Ask what has no answer; returns how many rows that are."""
        asked, ask = 0, None
        for first in self._firsts:
            last = min(first + self.piece, self.inputs.total)
            kept = self._kept(first, last)
            if kept is None or any(row["status"] == AGAIN for row in kept):
                ask = ask or opened()
                questions = self.inputs.questions(first, last)
                asked += self._ask(ask, first, questions, kept)
            self.progress("picking", last, self.inputs.total)
        return asked

    def _ask(self, ask: Ask, first: int, questions: Sequence[Question], kept: Sequence[Row] | None) -> int:
        again = [at for at in range(len(questions)) if kept is None or kept[at]["status"] == AGAIN]
        open_ = [(at, questions[at].request) for at in again]
        requests = [(at, request) for at, request in open_ if request is not None]
        choices = ask([request for _, request in requests], self.inputs.renderer) if requests else []
        found = {at: choice for (at, _), choice in zip(requests, choices, strict=True)}
        rows = list(kept or [{}] * len(questions))
        for at in again:
            rows[at] = row_of(questions[at], found.get(at))
        self._keep(first, rows)
        for choice in choices:
            self.silent = self.silent + 1 if choice.status == AGAIN else 0
        if self.silent >= _SILENCE:
            raise ArmError(
                f"{self.silent:,} requests in a row got no answer: {choices[-1].detail or AGAIN}",
                where=self.inputs.where,
                next_command="the same command, which goes on from here, once the server answers",
            )
        return len(again)

    def _kept(self, first: int, last: int) -> list[Row] | None:
        """The rows of a piece that was asked; None for one that was not, or is damaged: it is asked again."""
        try:
            lines = (self.work / f"{first:08}.jsonl").read_bytes().split(b"\n")[:-1]
            rows = list(map(orjson.loads, lines))
        except (FileNotFoundError, orjson.JSONDecodeError):
            return None
        if any(for_schema(SCHEMA).problems(row) for row in rows):
            return None
        return rows if [row["row_index"] for row in rows] == list(range(first, last)) else None

    def _keep(self, first: int, rows: Sequence[Row]) -> None:
        if problems := [problem for row in rows for problem in for_schema(SCHEMA).problems(row)]:
            raise ArmError(f"a pick breaks its schema, which is a defect: {problems[:3]}")
        replace_whole(self.work / f"{first:08}.jsonl", b"".join(orjson.dumps(row) + b"\n" for row in rows))

    def write(self) -> None:
        """Write the file whole, and put it in its place."""
        import pyarrow.parquet as pq

        making = self.work / "whole.parquet"
        schema = arrow_schema(SCHEMA, "reference")
        schema = schema.with_metadata({**(schema.metadata or {}), _KEY: self._said})
        with pq.ParquetWriter(making, schema, compression="zstd") as file:
            for rows in _batches(self._all(), _GROUP):
                file.write_table(arrow_table(SCHEMA, rows).replace_schema_metadata(schema.metadata))
        with making.open("rb") as written:
            os.fsync(written.fileno())
        making.replace(self.out)

    def _all(self) -> Iterator[Row]:
        for first in self._firsts:
            kept = self._kept(first, min(first + self.piece, self.inputs.total))
            assert kept is not None
            yield from kept


def _differing(known: Mapping[str, Any], about: Mapping[str, Any]) -> Iterator[str]:
    """What is another one; of how models are asked, which part of it."""
    for key in {*known, *about}:
        one, other = known.get(key), about.get(key)
        if key == "how" and isinstance(one, dict) and isinstance(other, dict):
            yield from (f"how.{name}" for name in {*one, *other} if one.get(name) != other.get(name))
        elif one != other:
            yield key


def row_of(question: Question, choice: Choice | None) -> Row:
    """One row of `pick/1`. choice: None of a question that could not be read."""
    request = question.request
    assert (request is None) is (choice is None)
    row: Row = {
        "row_index": question.row_index, "line": question.line, "id": _text(question.id),
        "candidates": request and request.n, "status": UNREADABLE, "detail": _text(question.problem),
        "selected_index": None, "chosen_by": None, "action": None, "scores": None, "votes": [],
    }  # fmt: skip
    if choice is None or request is None:
        return row
    said = choice.to_json()
    index = choice.selected_index
    return row | {
        **{key: said[key] for key in ("status", "selected_index", "chosen_by")},
        "detail": _text(choice.detail),
        "action": None if index is None else request.set_row["candidates"][index]["action"],
        "scores": None if choice.scores is None else list(choice.scores),
        "votes": [
            {**vote, "order": list(vote["order"]), "reply": _text(vote["reply"]), "detail": _text(vote["detail"])}
            for vote in said["votes"]
        ],
    }  # fmt: skip


def _metadata(path: Path) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        found: bytes = pq.read_schema(path).metadata[_KEY]
    except (pa.ArrowException, TypeError) as error:
        raise ValueError(str(error)) from error
    return found


def _rows(path: Path) -> Iterator[Row]:
    import pyarrow.parquet as pq

    file: pq.ParquetFile
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(_GROUP, use_threads=False):
            yield from batch.to_pylist()


def _batches(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    batch: list[Row] = []
    for row in rows:
        batch.append(row)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _text(value: str | None) -> Any:
    """Half of a surrogate pair, as a reply may hold, is no text that a file can."""
    return value and value.encode("utf-8", "backslashreplace").decode()
