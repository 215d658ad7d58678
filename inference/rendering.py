"""Candidate sets of a built directory as training showed them: the one renderer, with what the manifest says of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from ..prompts.render import Message, Prompt, Rendered, StateView, prompt_of_json, rendered_sha256
from ..prompts.view import Unrenderable
from ..schemas.errors import ArmError
from ..schemas.ids import hash_order

Row = Mapping[str, Any]
_NO_BUILD: Row = {"sources": []}
_KEPT = 64  # states; sets of one state are asked for after each other


class Shown(NamedTuple):
    """Which candidates a selection prompt shows, as `registry.yaml` declared it (``tables.selection_sft``)."""

    merge: bool = True  # each action once, as its first candidate
    shuffle: bool = True  # by hash; else as sampled

    @classmethod
    def to(cls, contract: Row) -> Shown:
        """As the checkpoint of ``contract`` was trained; the defaults where that is not known."""
        said = contract.get("candidates")
        return cls(said["merge"], said["shuffle"]) if said else cls()

    @classmethod
    def of(cls, identity: Row) -> Shown:
        """As a build declared it; the defaults for one that has no such table."""
        said = identity["parameters"].get("selection_sft") or {}
        return cls(said.get("duplicates", "merge") == "merge", said.get("shuffle", True))

    def order(self, set_row: Row) -> list[int]:
        """Candidates of a set (0-based), first shown first: the order of the rows that a build makes of it."""
        seen: Counter[str] = Counter()
        occurrences = []  # (candidate, its action, how many before it have that)
        for candidate in set_row["candidates"]:
            key = candidate["action_key"]
            if not (self.merge and seen[key]):
                occurrences.append((candidate["index"], key, seen[key]))
            seen[key] += 1
        if self.shuffle:
            occurrences.sort(key=lambda found: hash_order("order", set_row["set_id"], found[1], found[2]))
        return [index for index, *_ in occurrences]


def shown_in(identity: Row) -> dict[str, Any]:
    """How a build shows candidates, as a checkpoint's contract keeps it (``checkpoint.candidates``).

    Of its sources those of candidate sets say how their actions are written; else all that say it.
    """
    shown = Shown.of(identity)
    speaking = [source for source in identity["sources"] if source["dialect"] is not None]
    sets = [source for source in speaking if source["kind"] == "candidate_sets"] or speaking
    spoken = dict.fromkeys((source["dialect"], source["space"]) for source in sets)
    return {
        "spoken": [{"dialect": dialect, "space": space} for dialect, space in spoken],
        "merge": shown.merge,
        "shuffle": shown.shuffle,
    }


class Renderer:
    """Shows the sets of one build with one prompt. ``identity``: of the build's manifest, which names for each source
    the dialect and the coordinate space of what it recorded; without it, of requests that are rows of no build."""

    def __init__(self, prompt: Prompt, identity: Row = _NO_BUILD) -> None:
        self.prompt = prompt
        self._spoken: dict[str, set[tuple[str, str | None]]] = {}  # file -> how its states speak
        for source in identity["sources"]:
            for file in source["files"]:
                self._spoken.setdefault(file["path"], set()).add((source["dialect"] or "", source["space"]))
        self._views: dict[tuple[str, str, str], StateView | Unrenderable] = {}

    def of(self, prompt: Prompt) -> Renderer:
        """The same build, shown with another prompt."""
        made = Renderer(prompt)
        made._spoken = self._spoken
        return made

    def selection(self, state: Row, set_row: Row, order: Sequence[int]) -> Rendered:
        """The prompt over the candidates ``order`` (0-based) of a set. Raises Unrenderable like the renderer."""
        return self.prompt.selection(self._view(state, set_row), set_row["candidates"], order)

    def scalar(self, state: Row, set_row: Row) -> Rendered:
        """The prompt that all candidates of a set share. Raises Unrenderable."""
        return self.prompt.scalar(self._view(state, set_row))

    def replies(self, state: Row, set_row: Row) -> list[list[Message]]:
        """The candidates of a set as the turns to be scored, in sampled order. Raises Unrenderable."""
        view = self._view(state, set_row)
        return [self.prompt.scalar_reply(view, candidate) for candidate in set_row["candidates"]]

    def refuse_other(self, rendered: Rendered, row: Row, row_id: str) -> None:
        """Raises ArmError when ``row``, which a build made with this very prompt, shows something else."""
        if row["prompt_sha256"] != self.prompt.sha256:
            return
        found = rendered_sha256(rendered.messages, rendered.images)
        if found != row["rendered_sha256"]:
            raise ArmError(
                f"{row_id} shows {row['rendered_sha256'][:12]} in the data and {found[:12]} as it is rendered here, "
                f"with the same prompt {self.prompt.sha256[:12]}: a model would be asked what it was not trained on",
                next_command="arm validate FOLDER, of the build, finds damaged rows",
            )

    def _view(self, state: Row, set_row: Row) -> StateView:
        spoken = set_row["dialect"], set_row["space"]
        key = state["state_id"], *spoken
        if key not in self._views:
            if len(self._views) >= _KEPT:
                self._views.clear()
            try:
                self._views[key] = self.prompt.state(state, *spoken, self._recorded(state, spoken))
            except Unrenderable as error:
                self._views[key] = error
        view = self._views[key]
        if isinstance(view, Unrenderable):
            raise view
        return view

    def _recorded(self, state: Row, spoken: tuple[str, str]) -> tuple[str, str | None]:
        """How the earlier steps of a state speak: as its source, or where that is not told, as its candidates."""
        known = self._spoken.get(state["source"]["file"], set())
        return next(iter(known)) if len(known) == 1 else spoken


def read_prompt(path: Path) -> Prompt:
    """The prompt in ``prompts/<id>.json`` of a build or checkpoint. Raises ArmError for one whose hash is not its own,
    and for one of another renderer."""
    try:
        data = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise ArmError(f"cannot be read: {error}", where=str(path)) from error
    return prompt_of_json(data, str(path))


def prompts_in(folder: Path) -> Iterator[Prompt]:
    """The prompts that lie in a build or checkpoint."""
    for path in sorted((folder / "prompts").glob("*.json")):
        yield read_prompt(path)
