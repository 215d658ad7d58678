"""Declared redaction: what a record holds of secrets and addresses is replaced before anything else reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..schemas import jsonl
from ..schemas.errors import Issue
from ..schemas.integers import floats
from ..schemas.secrets import GROUPS, findings
from ..schemas.validate import for_schema, json_path
from .importers import Importer, StateImporter
from .importers.containers import records
from .redact_json import PICTURE, Text, redact
from .spec import BuildSpec

Progress = Callable[[str, int, int], None]  # (what, done, total); bytes
Problems = list[tuple[str, str]]  # (JSON path, message)


class Redaction:
    """What one dataset declares to be redacted. ``counts`` adds up what was replaced, by kind."""

    def __init__(self, declared: Iterable[str]) -> None:
        self._kinds = frozenset().union(*(GROUPS[group] for group in declared))
        self.counts: Counter[str] = Counter()

    def __call__(self, record: Any) -> Any:
        """Return the record without what is declared; the parsed JSON that is passed in may be changed."""
        box = [record]
        self.counts.update(redact(box, self._kinds))
        return box[0]

    def checked(self, record: Any, problems: Problems, importer: Importer) -> tuple[Any, Problems]:
        """The redacted record and its problems, of which ``problems`` are those that it had before.

        An id that the importer would take from the record's content is fixed first, so that it stays.
        """
        if not problems and isinstance(importer, StateImporter):
            record = {**record, **importer.ids(record)}
        record = self(record)
        after = for_schema(importer.schema).problems(record) or floats(importer.schema, record)
        why = "" if problems else "; so it is after redaction"
        return record, [(where, message + why) for where, message in after]


def of(spec: BuildSpec) -> Redaction | None:
    """The redaction that a dataset declares; None when it declares none."""
    return Redaction(spec.redact) if spec.redact else None


def sought(spec: BuildSpec, progress: Progress = lambda *_: None) -> Iterator[Issue]:
    """Yield the secrets and addresses that a dataset's redaction leaves in the records of its sources, and where.

    Lines that are no JSON are passed over; so is what only shows when names are unescaped or a string's JSON is read.
    """
    redaction = of(spec)
    total = sum(path.stat().st_size for source in spec.sources for _, path in source.files)
    done = 0
    for name, path in (file for source in spec.sources for file in source.files):
        for line in records(path):
            done += len(line.raw) + 1
            if not line.number & 255:
                progress("looking for secrets", min(done, total), total)
            if any(findings(PICTURE.sub("", line.raw.decode("utf-8", "replace")))):
                try:
                    record = jsonl.loads_line(line)
                except jsonl.JsonError:
                    continue
                text = Text([redaction(record) if redaction else record], (), 0)
                for finding, touched in text.found():
                    where = text.places[touched[0]].path if touched else ()
                    yield Issue(name, line.number, json_path(where), f"holds {finding}")
    progress("looking for secrets", total, total)
