"""What `arm select` and `arm score` share: a model, and what it is asked about: one request, or many."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from . import output, picking_report
from .picking_models import Model
from .source import built, place

if TYPE_CHECKING:
    from ..inference.bulk import Ask, Lacking, Summary
    from ..inference.choosing import How
    from ..inference.inputs import Inputs
    from ..inference.request import Request

_STDIN = "standard input"

split_option = click.option(
    "--split", type=click.Choice(["validation", "train"]), help="Of a build. [default: validation]"
)
out_option = click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Parquet file for the answers to many. [default: picks/MODEL-INPUT.parquet]",
)  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """One run. how: made of the policies of the command line, once models are loaded; about: its parts, as JSON.

    lacking: the field of an answer that is null where it is not what was asked for.
    """

    model: Model
    where: str
    split: str | None
    out: Path | None
    as_json: bool
    how: Callable[[], How]
    about: Callable[[], Mapping[str, Any]]
    lacking: Lacking

    def run(self) -> NoReturn:
        """Ask about one request and print the answer, or about many and write them; ends the command."""
        with ExitStack() as kept:
            kept.callback(self.model.closed)
            path = self._file(kept)
            one = self._one(path) if path is not None else None
            failed = self._many(path, kept) if one is None else self._answer(one)
        raise click.exceptions.Exit(1 if failed else 0)

    def _file(self, kept: ExitStack) -> Path | None:
        """The file that is meant; None for a build. What comes on standard input is kept in one for the time being."""
        from ..schemas.errors import UsageError

        path = Path(self.where)
        if self.where == "-":
            folder = Path(kept.enter_context(tempfile.TemporaryDirectory(prefix="arm-pick-")))
            path = folder / "requests.jsonl"
            with path.open("wb") as file:
                while data := sys.stdin.buffer.read(1 << 20):
                    file.write(data)
        elif path.suffix not in (".json", ".jsonl"):
            if path.is_file():
                raise UsageError("is neither .json (one request) nor .jsonl (one on each line)", where=self.where)
            return None
        elif not path.is_file():
            raise UsageError("there is no such file", where=self.where, next_command="docs/inference.md shows one")
        if self.split is not None:
            raise UsageError(
                "--split is one of a build, and requests in a file have none",
                next_command=f"leave --split out, or name a build in the place of {self.where}",
            )
        return path

    # -- one ----------------------------------------------------------------------------------------------------------

    def _one(self, path: Path) -> Request | None:
        """The request, where the file is one; None where it is lines."""
        from ..inference.inputs import one
        from ..schemas.errors import UsageError

        if self.where == "-" and not _is_one(path):
            return None
        if path.suffix == ".jsonl" and self.where != "-":
            return None
        if self.out is not None:
            raise UsageError("the answer to one request is printed, and --out is a file for many",
                             next_command="leave --out out; --json prints all of the answer")  # fmt: skip
        return one(path.read_bytes(), _STDIN if self.where == "-" else self.where, self._read)

    def _read(self, data: Any, where: str, line: int) -> Request:
        from ..inference.request import read, spoken_of

        return read(data, spoken_of(self.model.contract), where, line)

    def _answer(self, request: Request) -> bool:
        from ..inference.bulk import row_of
        from ..inference.inputs import Question

        with output.progress() as show:
            show("loading the model", 0, 2)
            chooser, how = self.model.opened(), self.how()
            show("asking", 1, 2)
            (choice,) = chooser.choose_many([request], how)
        row = row_of(Question(0, None, request.id, request), choice)
        if self.as_json:
            output.data(row)
        else:
            picking_report.one(request, row)
        return row[self.lacking] is None

    # -- many ---------------------------------------------------------------------------------------------------------

    def _many(self, path: Path | None, kept: ExitStack) -> bool:
        from ..inference.bulk import pick
        from ..registry.evaluating import refuse_built
        from ..schemas.errors import UsageError

        with output.progress() as show:
            inputs = self._lines(path) if path is not None else kept.enter_context(self._split(show))
            out = self.out or Path("picks") / f"{_plain(self.model.name)}-{self._called(inputs)}.parquet"
            refuse_built(out)
            if out.suffix != ".parquet":
                raise UsageError("the answers are a Parquet file, whatever it is called", where=str(out),
                                 next_command=f"--out {out.with_suffix('.parquet')}")  # fmt: skip
            about = {"model": self.model.about(), **self.about()}
            try:
                done = pick(
                    inputs, lambda: self._opened(show), out, about, piece=self.model.piece, progress=show
                )  # fmt: skip
            except KeyboardInterrupt:
                if (work := out.with_name(f"{out.name}.making")).is_dir():
                    output.note(f"what was answered is kept in {work.name}; the same command goes on from there")
                raise
        return self._told(done)

    def _opened(self, show: Any) -> Ask:
        show("loading the model", 0, 1)
        chooser, how = self.model.opened(), self.how()
        show("loading the model", 1, 1)
        return lambda requests, renderer: chooser.choose_many(requests, how, renderer=renderer)

    def _told(self, done: Summary) -> bool:
        if self.as_json:
            output.data(done.to_json(self.lacking))
        else:
            picking_report.many(done, self.lacking)
            click.echo(str(done.out))
        return done.lacking[self.lacking] > 0

    def _lines(self, path: Path) -> Inputs:
        from ..inference.inputs import Lines

        return Lines(path, _STDIN if self.where == "-" else self.where, self._read)

    @contextmanager
    def _split(self, show: Any) -> Iterator[Inputs]:
        from ..inference.inputs import Split
        from ..inference.request import spoken_of

        said = self.split or "validation"
        with _tables(self.where, show) as tables:
            yield Split(tables, said, self.model.prompt(), spoken_of(self.model.contract))

    def _called(self, inputs: Inputs) -> str:
        stem = "stdin" if self.where == "-" else Path(self.where.partition("@")[0]).name
        return _plain(Path(stem).stem if inputs.renderer is None else f"{stem}-{self.split or 'validation'}")


@contextmanager
def _tables(where: str, show: Any) -> Iterator[Any]:
    """The tables of a built directory, of NS/NAME[@REVISION], of which only what is read is downloaded, or of a dataset
    of ./registry.yaml."""
    from ..schemas.built import BuiltTables

    found = place(where) or built(where)
    if isinstance(found, Path):
        yield BuiltTables.of(found, show, "reading", hashed=True)
        return
    from ..registry.diff.side import Side

    hub = output.hub()
    repo, revision = found
    with Side.revision(hub, repo, hub.resolve(repo, revision), show) as side:
        yield BuiltTables(
            Path(side.name), side.manifest["identity"], show, "reading", fetch=side.path, check=side.verify
        )


def _is_one(path: Path) -> bool:
    """Whether what came on standard input is one request, on one line or over many."""
    from ..schemas.jsonl import JsonError, loads, read_lines

    def whole(data: bytes) -> bool:
        try:
            return isinstance(loads(data), dict)
        except JsonError:
            return False

    lines = read_lines(path)
    first = next(lines, None)
    if first is None or next(lines, None) is None:
        return True
    if whole(first.raw):
        return False
    return whole(path.read_bytes()) or not any(whole(line.raw) for line in read_lines(path))


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", name)
