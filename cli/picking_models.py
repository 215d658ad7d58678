"""Models that `arm select`, `arm score` and `arm serve` ask: with their weights here, or behind a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..schemas.ids import canonical_json, file_sha256, sha256_hex
from . import output
from .source import built, place

if TYPE_CHECKING:
    from ..inference.choosing import Chooser
    from ..prompts.render import Prompt
    from ..servers.endpoints import Server

LOCAL_PIECE, SERVED_PIECE = 32, 256  # requests that are asked together, and lost when the command is killed


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


def local(
    named: str, base: Path | None, device: str | None, prompt: Prompt | None = None, *, plain: bool = False
) -> Model:
    """A checkpoint that runs here: a folder, NS/NAME[@REVISION], or a name in ./registry.yaml. plain: a scalar model
    reads each conversation as a whole."""
    from ..inference import contract as contracts
    from ..inference.opening import class_of

    folder, name, _ = fetched(named)
    contract = _contract(folder)

    def opened() -> Chooser:
        output.quiet_models()
        how: dict[str, Any] = {"shared": False} if plain else {}
        made: Chooser = class_of(contract).open(folder, base=base, device=device, **how)
        return made.asked_with(prompt) if prompt is not None else made

    def about() -> Mapping[str, Any]:
        files = [[path.name, file_sha256(path)] for path in sorted(folder.glob("*.safetensors"))]
        return _about(contract, prompt, files=files, plain=plain)

    def asked_with() -> Prompt:
        return prompt or contracts.own_prompt(folder, contract)

    return Model(name, contract, about, opened, asked_with, LOCAL_PIECE)


def fetched(named: str) -> tuple[Path, str, str | None]:
    """(Folder, name, NS/NAME@REVISION of one on the Hub) of the checkpoint that is ``named``. Of one on the Hub the
    folder is that of the commit that its revision is now."""
    from ..inference.fetch import checkpoint

    found = place(named) or built(named)
    if isinstance(found, Path):
        return found, found.resolve().name, None
    repo, revision = found
    output.hub()  # whose client draws no bars
    with output.progress() as show:
        show("fetching the checkpoint", 0, 1)
        return checkpoint(repo, revision), repo.partition("/")[2], f"{repo}@{revision}"


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


def _about(contract: Mapping[str, Any], prompt: Prompt | None, **more: Any) -> Mapping[str, Any]:
    return {"sha256": sha256_hex(canonical_json([dict(contract), prompt and prompt.sha256, more]))}
