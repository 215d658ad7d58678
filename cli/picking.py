"""What `arm select` and `arm score` share: a model, and what it is asked about: one request, or many."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ..schemas.ids import canonical_json, file_sha256, sha256_hex
from . import output, picking_report
from .source import built, place

if TYPE_CHECKING:
    from ..inference.bulk import Ask, Lacking, Summary
    from ..inference.choosing import Chooser, How
    from ..inference.inputs import Inputs
    from ..inference.request import Request
    from ..prompts.render import Prompt
    from ..servers.endpoints import Server

LOCAL_PIECE, SERVED_PIECE = 32, 256  # requests that are asked together, and lost when the command is killed
_STDIN = "standard input"

split_option = click.option(
    "--split", type=click.Choice(["validation", "train"]), help="Of a build. [default: validation]"
)
out_option = click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Parquet file for the answers to many. [default: picks/MODEL-INPUT.parquet]",
)  # fmt: skip
base_option = click.option(
    "--base", type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the base model. [default: fetched at the commit that the checkpoint names]",
)  # fmt: skip
device_option = click.option("--device", help="Such as cpu or cuda:0. [default: the first GPU, else the CPU]")


@dataclass(frozen=True)
class Model:
    """What is asked. name: what to call it. contract: what the checkpoint is used with. about: all that tells it from
    other models. opened: loads it. prompt: what it is asked with. closed: ends its connections."""

    name: str
    contract: Mapping[str, Any]
    about: Callable[[], Mapping[str, Any]] = field(repr=False)
    opened: Callable[[], Chooser] = field(repr=False)
    prompt: Callable[[], Prompt] = field(repr=False)
    piece: int
    closed: Callable[[], None] = lambda: None


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

        with output.progress() as show:
            inputs = self._lines(path) if path is not None else kept.enter_context(self._split(show))
            out = self.out or Path("picks") / f"{_plain(self.model.name)}-{self._called(inputs)}.parquet"
            refuse_built(out)
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
            output.data(done.to_json())
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


# -- models -----------------------------------------------------------------------------------------------------------


def local(
    named: str, base: Path | None, device: str | None, prompt: Prompt | None = None, *, plain: bool = False
) -> Model:
    """A checkpoint that runs here: a folder, NS/NAME[@REVISION], or a name in ./registry.yaml. plain: a scalar model
    reads each conversation as a whole."""
    from ..inference import contract as contracts
    from ..recipes.scoring import class_of

    folder, name = _checkpoint(named)
    contract = _contract(folder)

    def opened() -> Chooser:
        output.quiet_models()
        how = {"shared": False} if plain else {}
        made: Chooser = class_of(contract).open(folder, base=base, device=device, **how)
        return made.asked_with(prompt) if prompt is not None else made

    def about() -> Mapping[str, Any]:
        files = [[path.name, file_sha256(path)] for path in sorted(folder.glob("*.safetensors"))]
        return _about(contract, prompt, files=files, plain=plain)

    def asked_with() -> Prompt:
        return prompt or contracts.own_prompt(folder, contract)

    return Model(name, contract, about, opened, asked_with, LOCAL_PIECE)


def _checkpoint(named: str) -> tuple[Path, str]:
    """(Folder, name) of what is ``named``, fetched at the commit that its revision is now."""
    from ..inference.fetch import checkpoint

    found = place(named) or built(named)
    if isinstance(found, Path):
        return found, found.resolve().name
    output.hub()  # whose client draws no bars
    with output.progress() as show:
        show("fetching the checkpoint", 0, 1)
        return checkpoint(*found), found[0].partition("/")[2]


def _contract(folder: Path) -> Mapping[str, Any]:
    """Raises UsageError for a dataset, which has a manifest, too."""
    from ..inference import contract as contracts
    from ..schemas.errors import ArmError, UsageError
    from ..schemas.manifest import manifest_of

    try:
        return contracts.read(folder, weights=False)  # they are hashed when they are loaded
    except ArmError as error:
        try:
            manifest_of(folder)
        except ArmError:
            raise error from None
        raise UsageError("is a dataset, and MODEL is a checkpoint", where=str(folder)) from None


def served(named: str | None, server: Server, model: str, prompt: Prompt | None, sending: Mapping[str, Any]) -> Model:
    """An ARM that ``server`` calls ``model``: of the checkpoint only manifest and prompt are read. Nothing is sent
    yet."""
    from ..inference.selection import SelectionARM

    where: dict[str, Any] = {}
    if named is not None:
        found = place(named) or built(named)
        if isinstance(found, Path):
            where = {"checkpoint": found}
        else:
            output.hub()  # whose client draws no bars
            where = {"checkpoint": found[0], "revision": found[1]}
    arm = SelectionARM.at(server, model=model, prompt=prompt, **where, **sending)

    def about() -> Mapping[str, Any]:
        return _about(arm.contract, prompt, server=server.name, served=model, sending=dict(sending))

    return Model(model, arm.contract, about, lambda: arm, lambda: arm.prompt, SERVED_PIECE, arm.close)


def policy(how: Mapping[str, Any], scalar: Model | None = None) -> Mapping[str, Any]:
    """What of a command decides the answers besides its model and its input."""
    return {"how": dict(how), "scalar": scalar and scalar.about()}


def _about(contract: Mapping[str, Any], prompt: Prompt | None, **more: Any) -> Mapping[str, Any]:
    return {"sha256": sha256_hex(canonical_json([dict(contract), prompt and prompt.sha256, more]))}
