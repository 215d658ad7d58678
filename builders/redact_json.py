"""The redaction of JSON: a secret becomes ``[redacted <kind>]`` (in a URL ``redacted-<kind>``) in strings, in JSON that
strings hold, and where a name stands beside its value.

What comes out has the structure that went in: a number becomes a string, text inside JSON stays inside its quotes, and
JSON inside text stays JSON. Keys, ids that records are joined by, and pictures stay: a secret in one of them is for the
gate before publishing to name.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from ..schemas.ids import canonical_json
from ..schemas.jsonl import nests_deeper
from ..schemas.secrets import Finding, findings, possible
from ..schemas.store import ID_FIELDS

IDS = frozenset({*ID_FIELDS.values(), "episode_id", "base_state_id", "task_id"})
PICTURE = re.compile(r"data:image/[\w.+-]{1,40};base64,[A-Za-z0-9+/]*+={0,2}")
_PASSES = 8  # until nothing is found; what stands where a secret stood may make another one visible
_LEVELS = 4  # of JSON inside strings of JSON
_DEEPEST = 50  # lists and objects in each other, of JSON inside a string
_TRIES = 16  # places of a text that look like JSON and are not, before the rest is text
_SHORTEST = 6  # a@b.cd; a password needs its name before it
_LONG = 128  # the shortest limit of a rule: a secret may go on where such a finding ends
_REST = re.compile(r"[^\s\"'<>\\,;()\[\]{}|&`@]*+")
_ESCAPE = re.compile(r"u[0-9A-Fa-f]{4}|[bfnrt/]")
_ESCAPED = re.compile(r"\\[u/]")  # in JSON: what shows only when it is read
_NUMBER = re.compile(r"-?\d[\d.eE+-]*")
_NAMED = re.compile(r"(?P<quote>\\{0,8}\")\s{0,3}:\s{0,3}\Z")  # a name of JSON, before a value without quotes
_BREAKS_URL = re.compile(r"[\s\"'<>\\]")
_OPENS = re.compile(r"\{\s{0,40}\"|\[\s{0,40}[\[{\"]")  # an object, or a list of more than numbers
_encoded = json.JSONEncoder(ensure_ascii=False).encode
Path = tuple[str | int, ...]


def redact(box: list[Any], kinds: Collection[str], level: int = 0) -> list[str]:
    """Redact the one value in ``box``; return the kinds of what was replaced. ``level``: of JSON inside strings."""
    text = Text(box, kinds, level)
    replaced = text.replaced
    for _ in range(_PASSES):
        if not (more := list(_between(text, kinds))):
            break
        replaced += more
        text = Text(box, kinds, level)
        replaced += text.replaced
    return replaced


# -- a text ------------------------------------------------------------------------------------------------------------


def _clean(text: str, kinds: Collection[str], level: int) -> tuple[str, list[str]]:
    """A text without what is found in it and in the JSON that it holds or is; and the kinds of that.

    JSON keeps its layout unless something shows only when it is read.
    """
    if len(text) < _SHORTEST or not kinds or not (_ESCAPED.search(text) or possible(text)):
        return text, []
    after, replaced = _plain(text, kinds)
    if level == _LEVELS:
        return after, replaced
    if replaced and len(list(_values(after))) != len(list(_values(text))):  # JSON would break: its values come first
        text, inner = _inside(text, kinds, level)
        after, replaced = _plain(text, kinds)
        return after, inner + replaced
    after, inner = _inside(after, kinds, level)
    return after, replaced + inner


def _plain(text: str, kinds: Collection[str]) -> tuple[str, list[str]]:
    """The same for the text as it is."""
    replaced: list[str] = []
    for _ in range(_PASSES):
        if not (found := [finding for finding in findings(text) if finding.kind in kinds]):
            break
        replaced += [finding.kind for finding in found]
        text = _without(text, found)
    return text, replaced


def _inside(text: str, kinds: Collection[str], level: int) -> tuple[str, list[str]]:
    """The same for the JSON in the text alone."""
    parts: list[str] = []
    replaced: list[str] = []
    end = 0
    for start, stop, value in _values(text):
        box = [value]
        if more := redact(box, kinds, level + 1):
            parts += [text[end:start], canonical_json(box[0])]
            end, replaced = stop, replaced + more
    return "".join([*parts, text[end:]]), replaced


def _values(text: str) -> Iterator[tuple[int, int, Any]]:
    """Yield each list and object of JSON that stands in a text or is all of it: start, end, value."""
    at = tries = 0
    while tries < _TRIES and (opening := _OPENS.search(text, at)):
        start = opening.start()
        try:
            if nests_deeper(text, _DEEPEST, start):
                raise ValueError
            value, at = _STRICT.raw_decode(text, start)
        except ValueError:
            at, tries = start + 1, tries + 1
        else:
            yield start, at, value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(made := dict(pairs)) != len(pairs):
        raise ValueError("a key stands twice")
    return made


def _no_constant(name: str) -> Any:
    raise ValueError(name)


_STRICT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)


def _without(text: str, found: Iterable[Finding]) -> str:
    """``text`` with each finding replaced, so that escapes and quotes around it stay whole."""
    parts, end = [], 0
    for finding in found:
        start, stop = _exact(text, finding)
        if start >= end:
            parts += [text[end:start], _placeholder(text, start, stop, finding.kind)]
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


def _placeholder(text: str, start: int, end: int, kind: str) -> str:
    """What stands for the secret from ``start`` to ``end``: a URL goes on after it, a number of JSON gets quotes."""
    run = text[max(0, start - 4096) : start]
    scheme = run.rfind("://")
    if scheme >= 0 and not _BREAKS_URL.search(run, scheme):
        return f"redacted-{kind.lower().replace(' ', '-')}"
    number = _NUMBER.fullmatch(text, start, end) and _NAMED.search(text, max(0, start - 20), start)
    quote = number["quote"] if number else ""
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


class Text:
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
        return bool(PICTURE.fullmatch(value)) or (named and "://" not in value)


def _is_id(path: Path) -> bool:
    return bool(path) and path[-1] in IDS and path[:-1] in ((), ("metadata",))


def _between(text: Text, kinds: Collection[str]) -> Iterator[str]:
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
