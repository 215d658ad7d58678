"""What a comparison found, as plain data. Printing is somebody else's job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any, Generic, TypeVar

T = TypeVar("T")

MAX_LISTED = 100  # rows of one kind that are shown with what they hold; the counts are always complete
MAX_TEXT = 20_000  # characters of one value


@dataclass
class Listed(Generic[T]):
    """How many there are, and the first of them."""

    limit: int = MAX_LISTED
    total: int = 0
    first: list[T] = field(default_factory=list)

    @property
    def room(self) -> int:
        return self.limit - len(self.first)

    def add(self, found: Iterable[T], count: int) -> None:
        """Note ``count`` more; of ``found`` as many are kept as there is room for."""
        self.total += count
        self.first += islice(found, self.room)

    def to_json(self) -> dict[str, Any]:
        shown = [asdict(item) if hasattr(item, "__dataclass_fields__") else item for item in self.first]  # type: ignore[call-overload]
        return {"total": self.total, "first": shown, "left_out": self.total - len(self.first)}


@dataclass(frozen=True)
class Change:
    """One value that differs: where it stands (``candidates[2].action``), before and after; null where it is not."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True)
class ChangedRow:
    """A row with one id in both, and what differs in it."""

    id: str
    split: str
    changes: list[Change]


@dataclass(frozen=True)
class Move:
    """A row that stands in another split; ``fields`` are those that differ besides."""

    id: str
    before: str
    after: str
    fields: list[str]


@dataclass(frozen=True)
class Verdict:
    """What a label says: index of the picked candidate (0-based, null unless ok), and that candidate's action."""

    status: str
    selected_index: int | None
    action: str | None  # null where no candidate is picked, or no table holds its candidates


@dataclass(frozen=True)
class Flip:
    """One label with another verdict."""

    label_id: str
    set_id: str
    before: Verdict
    after: Verdict


@dataclass(frozen=True)
class Answer:
    """One label of which a review changed the pick that training rows follow; candidates count from 0, null is none."""

    label_id: str
    before: int | None
    after: int | None


@dataclass
class Counts:
    """Rows of one split. ``moved_in`` and ``moved_out`` are in both versions, in different splits."""

    added: int = 0
    removed: int = 0
    changed: int = 0
    unchanged: int = 0
    moved_in: int = 0
    moved_out: int = 0


@dataclass
class Follows:
    """Rows of a training table whose label flipped, or whose pick a review replaced, of those that are added, removed
    or changed (or moved)."""

    added: int = 0
    removed: int = 0
    changed: int = 0


@dataclass
class TableDiff:
    """One table.

    ``schema`` and ``images`` are (before, after), null where there is no such table. Without ``compared`` the rows of
    the two sides have no common form (or one side has none): all are removed, all are added, and nobody read them.
    ``fields``: how many changed rows differ in each field.
    """

    name: str
    schema: tuple[str | None, str | None]
    images: tuple[str | None, str | None]
    compared: bool
    splits: dict[str, Counts]
    files_equal: int  # neither opened nor downloaded
    files_read: int  # of both sides
    fields: dict[str, int]
    added: Listed[str]
    removed: Listed[str]
    changed: Listed[ChangedRow]
    moved: Listed[Move]
    follows: Follows | None  # null for a table whose rows have no label

    @property
    def total(self) -> Counts:
        """The sum over the splits."""
        names = Counts.__dataclass_fields__
        return Counts(**{name: sum(getattr(counts, name) for counts in self.splits.values()) for name in names})

    @property
    def same(self) -> bool:
        total = self.total
        differing = total.added + total.removed + total.changed + total.moved_in
        return not differing and self.schema[0] == self.schema[1] and self.images[0] == self.images[1]

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": list(self.schema),
            "images": list(self.images),
            "compared": self.compared,
            "splits": {name: asdict(counts) for name, counts in sorted(self.splits.items())},
            "rows": asdict(self.total),
            "files": {"equal": self.files_equal, "read": self.files_read},
            "fields": dict(sorted(self.fields.items())),
            **{name: getattr(self, name).to_json() for name in ("added", "removed", "changed", "moved")},
            "follows_flips": self.follows and asdict(self.follows),
        }


@dataclass(frozen=True)
class Lines:
    """A part of a card, as lines of a unified diff; ``left_out`` more lines are not here."""

    lines: list[str]
    left_out: int = 0

    @property
    def changed(self) -> bool:
        return bool(self.lines or self.left_out)


@dataclass(frozen=True)
class CardDiff:
    """What people read on the card: ``words`` a person wrote, and what is ``generated`` from the manifest."""

    words: Lines
    generated: Lines
    note: str = ""  # why it was compared as one text

    @property
    def changed(self) -> bool:
        return self.words.changed or self.generated.changed


@dataclass(frozen=True)
class Facts:
    """What the manifests alone tell. ``sources`` are the declared ones, with their files."""

    identity: list[Change]  # name, namespace, version, license, description
    prompts: list[Change]
    parameters: list[Change]
    sources: list[Change]
    withdrawn: list[Change]

    @property
    def changed(self) -> bool:
        return any((self.identity, self.prompts, self.parameters, self.sources, self.withdrawn))


@dataclass(frozen=True)
class End:
    """What was compared."""

    name: str
    version: str
    identity_sha256: str
    commit: str | None


@dataclass(frozen=True)
class Diff:
    """All that differs between two versions; ``before`` is None for a first publication."""

    before: End | None
    after: End
    tables: Mapping[str, TableDiff]
    flips: Listed[Flip]
    answers: Listed[Answer]
    facts: Facts
    card: CardDiff

    @property
    def empty(self) -> bool:
        """Whether nothing that this compares differs; never so for a first publication."""
        same = all(table.same for table in self.tables.values())
        return same and not self.facts.changed and not self.card.changed

    def to_json(self) -> dict[str, Any]:
        """The same as data; equal sides give equal data."""
        return {
            "diff": 1,
            "before": self.before and asdict(self.before),
            "after": asdict(self.after),
            "empty": self.empty,
            "tables": {name: table.to_json() for name, table in self.tables.items()},
            "label_flips": self.flips.to_json(),
            "picks_replaced": self.answers.to_json(),
            **asdict(self.facts),
            "card": asdict(self.card),
        }
