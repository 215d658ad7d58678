"""Declared redaction: secrets and addresses in a source record become ``[redacted <kind>]`` before anything reads it.

They are looked for in every string as it is, in JSON that a string holds, and in the record's canonical JSON text,
where a name and its value stand side by side. What comes out has the structure that went in: a number becomes a string,
text inside JSON stays inside its quotes. Keys, ids that records are joined by, and pictures stay: a secret in one of
them is for the gate before publishing to name.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

from ..schemas import jsonl
from ..schemas.errors import Issue
from ..schemas.ids import canonical_json
from ..schemas.secrets import GROUPS, Finding, findings
from ..schemas.store import ID_FIELDS
from ..schemas.validate import for_schema, json_path
from .importers import RowImporter, StateImporter
from .spec import BuildSpec

IDS = frozenset({*ID_FIELDS.values(), "episode_id", "base_state_id", "task_id"})
_PICTURE = re.compile(r"data:image/[\w.+-]{1,40};base64,[A-Za-z0-9+/]*+={0,2}")
_PASSES = 8  # until nothing is found; what stands where a secret stood may make another one visible
_LEVELS = 4  # of JSON inside strings of JSON
_DEEPEST = 50  # lists and objects in each other, of JSON inside a string
_SHORTEST = 6  # a@b.cd; a password needs its name before it
_LONG = 128  # the shortest limit of a rule: a secret may go on where such a finding ends
_REST = re.compile(r"[^\s\"'<>\\,;()\[\]{}|&`@]*+")
_ESCAPE = re.compile(r"u[0-9A-Fa-f]{4}|[bfnrt/]")
_NAMED = re.compile(r"(?P<quote>\\{0,8}[\"'])\s{0,3}(?::|=>)\s{0,3}\Z")  # a name between quotes, before a bare value
_BREAKS_URL = re.compile(r"[\s\"'<>\\]")
_encoded = json.JSONEncoder(ensure_ascii=False).encode
Path = tuple[str | int, ...]
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
        self.counts.update(_redact(box, self._kinds, 0))
        return box[0]

    def checked(self, record: Any, problems: Problems, importer: StateImporter | RowImporter) -> tuple[Any, Problems]:
        """The redacted record and its problems, of which ``problems`` are those that it had before.

        An id that the importer would take from the record's content is fixed first, so that it stays.
        """
        if not problems and isinstance(importer, StateImporter):
            record = {**record, **importer.ids(record)}
        record = self(record)
        after = for_schema(importer.schema).problems(record)
        why = "" if problems else "; so it is after redaction"
        return record, [(where, message + why) for where, message in after]


def sought(spec: BuildSpec, progress: Progress = lambda *_: None) -> Iterator[Issue]:
    """Yield the secrets and addresses that a dataset's redaction leaves in the records of its sources, and where.

    Lines that are no JSON are passed over; so is what only shows when names are unescaped or a string's JSON is read.
    """
    redaction = of(spec)
    total = sum(path.stat().st_size for source in spec.sources for _, path in source.files)
    done = 0
    for name, path in (file for source in spec.sources for file in source.files):
        for line in jsonl.read_lines(path):
            done += len(line.raw) + 1
            if not line.number & 255:
                progress("looking for secrets", min(done, total), total)
            if any(findings(_PICTURE.sub("", line.raw.decode("utf-8", "replace")))):
                try:
                    record = jsonl.loads_line(line)
                except jsonl.JsonError:
                    continue
                text = _Text([redaction(record) if redaction else record], (), 0)
                for finding, touched in text.found():
                    where = text.places[touched[0]].path if touched else ()
                    yield Issue(name, line.number, json_path(where), f"holds {finding}")
    progress("looking for secrets", total, total)


def of(spec: BuildSpec) -> Redaction | None:
    """The redaction that a dataset declares; None when it declares none."""
    return Redaction(spec.redact) if spec.redact else None


def _redact(box: list[Any], kinds: Collection[str], level: int) -> list[str]:
    """Redact the value in ``box``, at ``level`` of JSON inside strings; return the kinds of what was replaced."""
    text = _Text(box, kinds, level)
    replaced = text.replaced
    for _ in range(_PASSES):
        if not (more := list(_between(text, kinds))):
            break
        replaced += more
        text = _Text(box, kinds, level)
        replaced += text.replaced
    return replaced


# -- a text ------------------------------------------------------------------------------------------------------------


def _clean(text: str, kinds: Collection[str], level: int) -> tuple[str, list[str]]:
    """A text without what is found in it, also when it is JSON and in the JSON it is; and the kinds of that."""
    replaced: list[str] = []
    if len(text) < _SHORTEST:
        return text, replaced
    before = text
    for _ in range(_PASSES):
        if not (found := [finding for finding in findings(text) if finding.kind in kinds]):
            break
        replaced += [finding.kind for finding in found]
        text = _without(text, found)
    if level < _LEVELS and (inner := _json(before)) is not None:
        if text is not before and (after := _json(text)) is not None:
            inner = after
        elif text is not before:  # not JSON any more: it is made from its values
            text, replaced = before, []
        box = [inner]
        if more := _redact(box, kinds, level + 1):
            text, replaced = canonical_json(box[0]), replaced + more
    return text, replaced


def _json(text: str) -> Any:
    """The list or object that ``text`` is; None when it is something else."""
    if text[:100].lstrip()[:1] not in ("[", "{") or jsonl.nests_deeper(text, _DEEPEST):
        return None
    try:
        return jsonl.loads(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return None


def _without(text: str, found: Iterable[Finding]) -> str:
    """``text`` with each finding replaced, so that escapes and quotes around it stay whole."""
    parts, end = [], 0
    for finding in found:
        start, stop = _exact(text, finding)
        if start >= end:
            parts += [text[end:start], _placeholder(text, start, finding.kind)]
            end = max(stop, start)
    return "".join([*parts, text[end:]])


def _exact(text: str, finding: Finding) -> tuple[int, int]:
    """Where the secret stands: to its end, where the rule's limit cut it, and without half of an escape."""
    start, end = finding.start, finding.end
    if end - start >= _LONG and finding.kind != "private key" and (rest := _REST.match(text, end)):
        end = rest.end()
    if text[start - 1 : start] == "\\" and (escape := _ESCAPE.match(text, start)):
        start = escape.end()
    while end > start and text[end - 1] == "\\":
        end -= 1
    return start, end


def _placeholder(text: str, start: int, kind: str) -> str:
    """What stands for a secret at ``start``: a URL goes on after it, a bare value beside a quoted name is quoted."""
    run = text[max(0, start - 4096) : start]
    scheme = run.rfind("://")
    if scheme >= 0 and not _BREAKS_URL.search(run, scheme):
        return f"redacted-{kind.lower().replace(' ', '-')}"
    named = _NAMED.search(text, max(0, start - 20), start)
    quote = named["quote"] if named else ""
    return f"{quote}[redacted {kind}]{quote}"


# -- a record ----------------------------------------------------------------------------------------------------------


class _Place(NamedTuple):
    """A string or number of a record: where it is held, its path, whether it stays, and its span in the text."""

    holder: Any
    key: Any
    path: Path
    stays: bool
    start: int  # at the opening quote
    end: int


class _Text:
    """The canonical JSON text of a value and the places in it that may change. Writing it cleans every string."""

    def __init__(self, box: list[Any], kinds: Collection[str], level: int) -> None:
        self._kinds, self._level, self._size = kinds, level, 0
        self._parts: list[str] = []
        self.places: list[_Place] = []  # in the order of the text
        self.replaced: list[str] = []
        self._value(box, 0, ())  # the path of a record begins below the box
        self.text = "".join(self._parts)

    def found(self) -> Iterator[tuple[Finding, list[int]]]:
        """What is found in the text, with the positions of the places that it touches; none of them for a key."""
        starts = [place.start for place in self.places]
        for finding in findings(self.text):
            first = max(0, bisect_right(starts, finding.start) - 1)
            last = bisect_left(starts, finding.end)
            yield finding, [index for index in range(first, last) if self.places[index].end > finding.start]

    def _write(self, part: str) -> None:
        self._parts.append(part)
        self._size += len(part)

    def _value(self, holder: Any, key: Any, path: Path) -> None:
        value = holder[key]
        if isinstance(value, dict):
            for number, name in enumerate(sorted(value)):
                self._write(f"{',' if number else '{'}{_encoded(name)}:")
                self._value(value, name, (*path, name))
            self._write("}" if value else "{}")
        elif isinstance(value, list):
            for number in range(len(value)):
                self._write("," if number else "[")
                self._value(value, number, (*path, number))
            self._write("]" if value else "[]")
        elif isinstance(value, str) and self._is_picture(path, value):
            self._write('""')
        elif value is None or isinstance(value, bool):
            self._write(_encoded(value))
        else:
            stays = not self._level and _is_id(path)
            if isinstance(value, str) and not stays:
                holder[key], kinds = _clean(value, self._kinds, self._level)
                self.replaced += kinds
            start = self._size
            self._write(_encoded(holder[key]))
            self.places.append(_Place(holder, key, path, stays, start, self._size))

    def _is_picture(self, path: Path, value: str) -> bool:
        """A data URL anywhere, and where records name pictures a path; what is no path there leads nowhere anyway."""
        named = not self._level and (path[-2:] == ("image_url", "url") or (len(path) == 2 and path[0] == "images"))
        return bool(_PICTURE.fullmatch(value)) or (named and "://" not in value)


def _is_id(path: Path) -> bool:
    return bool(path) and path[-1] in IDS and path[:-1] in ((), ("metadata",))


def _between(text: _Text, kinds: Collection[str]) -> Iterator[str]:
    """Replace what is found in the text of the whole; yield the kinds. A finding outside of all places stays."""
    changes: dict[int, list[Finding]] = {}
    for finding, touched in text.found():
        if finding.kind in kinds:
            for index in touched:
                if not text.places[index].stays:
                    changes.setdefault(index, []).append(finding)
                    yield finding.kind
    for index, found in changes.items():
        holder, key, _, _, start, end = text.places[index]
        inside = all(start < finding.start and finding.end < end for finding in found)
        if isinstance(holder[key], str) and inside:
            written = text.text[start:end]
            moved = [Finding(f.kind, f.start - start, f.end - start, f.shown) for f in found]
            holder[key] = json.loads(_without(written, moved))
        else:
            holder[key] = f"[redacted {found[0].kind}]"
