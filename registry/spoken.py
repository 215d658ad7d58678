"""How the responses of a format write actions: its dialect and the space of its points, told from a sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..builders.importers import (
    IMPORTERS,
    Context,
    GroupImporter,
    ImportedRow,
    ImportedState,
    RowImporter,
    StateImporter,
)
from ..schemas.actions import DIALECTS, SPACES, Parsed, parse
from ..schemas.errors import ArmError
from ..schemas.images import ImageChecker, ImageError

_NORMALISED = ("openwebrl", "qwen_xml", "molmoweb_json")  # their own actors write points as 0..1000; others, pixels
# Formats that record actions and not always the response: it is put together in the declared dialect, so that only
# the one that the actions are written in can be heard. Responses of other formats are read as they stand.
_WRITTEN_IN = {"molmoweb": "molmoweb", "molmoweb_result": "molmoweb"}
Size = tuple[int, int]  # width, height, px


@dataclass(frozen=True)
class Spoken:
    """What was found. Of the ``responses`` in the sample, ``read`` are actions in that dialect.

    ``read_as`` says how many each dialect reads.
    """

    dialect: str
    space: str
    responses: int = 0
    read: int = 0
    read_as: Mapping[str, int] = field(default_factory=dict)

    @property
    def share(self) -> float:
        return self.read / self.responses if self.responses else 0.0


class Sample:
    """Collects what records of several files say."""

    def __init__(self) -> None:
        self.tasks: set[str] = set()
        self.pictured = False
        self._responses: dict[str, list[str]] = {}  # format -> responses
        self._sizes: dict[str, list[Size]] = {}
        self._said: dict[str, Counter[tuple[str, str]]] = {}  # format -> (dialect, space) that its records name

    @property
    def text_only(self) -> bool:
        return bool(self.tasks) and not self.pictured

    def take(self, path: Path, key: tuple[str, str], records: list[dict[str, Any]]) -> None:
        """Read the valid ``records`` of a file as its importer does."""
        importer, fmt = IMPORTERS[key], key[1]
        context = Context(_WRITTEN_IN.get(fmt, "function"), path.parent)
        for record in records:
            if "dialect" in record and "space" in record:  # rows of our own tables
                self._said.setdefault(fmt, Counter())[record["dialect"], record["space"]] += 1
                continue
            try:
                if isinstance(importer, RowImporter):
                    self._row(fmt, key[0], importer.read(record, context))
                    continue
                for item in importer.read(_alone(importer, record), context):
                    if isinstance(item, ImportedState):
                        self._state(fmt, item)
                    elif isinstance(item, ImportedRow):
                        self._row(fmt, item.kind, item.row)
            except ArmError:  # a record that the import will name
                continue

    def spoken(self, formats: Collection[str]) -> dict[str, Spoken]:
        """What each format speaks; one without responses speaks what most of the others do."""
        found = {}
        for fmt in sorted(formats):
            if said := self._said.get(fmt):
                (dialect, space), _ = said.most_common(1)[0]
                found[fmt] = Spoken(dialect, space, said.total(), said[dialect, space])
            elif self._responses.get(fmt):
                found[fmt] = _spoken(self._responses[fmt], self._sizes.get(fmt, []))
        usual = max(found.values(), key=lambda spoken: spoken.responses, default=Spoken("function", "pixel"))
        return {fmt: found.get(fmt, Spoken(usual.dialect, usual.space)) for fmt in sorted(formats)}

    def _state(self, fmt: str, state: ImportedState) -> None:
        self.tasks.add(state.row["task_group"])
        if state.row["demo_response"]:
            self._responses.setdefault(fmt, []).append(state.row["demo_response"])
        if state.image is not None:
            self.pictured = True
            self._sizes.setdefault(fmt, []).extend(_size(state.image))

    def _row(self, fmt: str, kind: str, row: dict[str, Any]) -> None:
        found = self._responses.setdefault(fmt, [])
        if kind == "candidate_sets":
            found += row["responses"]
        elif kind == "bt_pairs":
            found += [text for side in ("chosen", "rejected") for text in _texts(row[side])]


def _alone(importer: StateImporter | GroupImporter, record: dict[str, Any]) -> Any:
    """What an importer reads; a record may say less without the others of its group."""
    return [record] if isinstance(importer, GroupImporter) else record


def _texts(messages: Any) -> Iterator[str]:
    for message in messages:
        content = message["content"]
        parts = [content] if isinstance(content, str) else [part.get("text") or "" for part in content]
        yield "".join(parts)


def _spoken(responses: list[str], sizes: list[Size]) -> Spoken:
    read = {name: [p for r in responses if (p := parse(name, r)).parse_error is None] for name in DIALECTS}
    # Plain text is what is left: it would read replies that another dialect has good reasons to refuse.
    dialect = max((name for name in read if name != "text"), key=lambda name: (_known(read[name]), len(read[name])))
    dialect = dialect if read[dialect] else "text"
    counted = {name: len(found) for name, found in read.items()}
    space = _space(dialect, _points(read[dialect]), sizes)
    return Spoken(dialect, space, len(responses), counted[dialect], counted)


def _known(parsed: list[Parsed]) -> int:
    """Responses whose calls the dialect knows.

    That decides first, because ``name(1, 2)`` is a call in several dialects; then how many it can read at all; then
    the order of ``DIALECTS``.
    """
    return sum(all(call.verb != "other" for call in response.calls) for response in parsed)


def _space(dialect: str, points: list[tuple[float, float]], sizes: list[Size]) -> str:
    """The space that holds all sampled points; where both do, the one the dialect's actors use."""
    width, height = max((w for w, _ in sizes), default=0), max((h for _, h in sizes), default=0)
    outside = Counter(
        {
            "norm1000": sum(x > 1000 or y > 1000 for x, y in points),
            "pixel": sum(x > width or y > height for x, y in points) if sizes else 0,
        }
    )
    usual = "norm1000" if dialect in _NORMALISED else "pixel"
    return min(SPACES, key=lambda space: (outside[space], space != usual))


def _points(parsed: list[Parsed]) -> list[tuple[float, float]]:
    return [v for p in parsed for call in p.calls for v in call.arguments.values() if isinstance(v, tuple)]


def _size(data: bytes) -> list[Size]:
    try:
        image = ImageChecker().check(data)
    except ImageError:
        return []
    return [(image.width, image.height)]
