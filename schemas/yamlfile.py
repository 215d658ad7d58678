"""YAML files that people write: strict, and every value knows its line.

Strings stay strings: a plain scalar becomes a number, boolean or null only where the schema asks for one, so that
``version: 1.10``, an all-digit sha and ``no`` keep their text. Duplicate keys, aliases, tags and unknown keys are
refused with line and path.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from .errors import ArmError, Issue, plain
from .store import Schema, load
from .validate import HALF, for_schema, has_surrogate, json_path

_INTEGER = re.compile(r"[-+]?(0|[1-9]\d{0,99})\Z", re.A)  # 010 is eight to some and ten to others
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\Z", re.A)
_BREAK = re.compile(r"\r\n|\r|\n")  # what editors call a line end; PyYAML counts U+0085, U+2028 and U+2029, too
_MAX_BYTES = 1 << 20
_MAX_DEPTH = 64
_LONGEST_TAG = 80  # in a message
_ALIAS = "is an alias; write the value out, so that the file can be read from top to bottom"
_ALIAS_TAG = "*"  # no file can spell this tag


@dataclass(frozen=True)
class YamlFile:
    """A parsed file: plain data, and the 1-based line of every JSON path in it."""

    path: Path
    data: dict[str, Any]
    lines: dict[str, int]

    def line(self, path: str) -> int:
        """Line of ``path``, or of the nearest enclosing place that stands in the file."""
        while path and path not in self.lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.lines.get(path, 1)


def read(path: Path, schema_name: str) -> YamlFile:
    """Read and check the file ``path``: see ``parse``. Raises ArmError, also for a file that is large or no text."""
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ArmError(f"cannot be read: {error.strerror}", where=str(path)) from error
    if len(raw) > _MAX_BYTES:
        message = f"is larger than {_MAX_BYTES:,} bytes; this is a file that a person writes"
        raise _refused(path, _line_at(raw, _MAX_BYTES), message)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"is not UTF-8: {error.reason} at byte {error.start}"
        raise _refused(path, _line_at(raw, error.start), message) from error
    return parse(text, path, schema_name)


def parse(text: str, path: Path, schema_name: str) -> YamlFile:
    """Check ``text``, which stands in ``path``, against the schema ``schema_name``.

    Raises ArmError with every issue (``file:line $.path message``).
    """
    starts = [found.end() for found in _BREAK.finditer(text)]
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = plain(", ".join(filter(None, (error.context, error.problem))))
        line = bisect_right(starts, mark.index) + 1 if mark else 1
        raise _refused(path, line, f"is not YAML: {said}") from error
    except yaml.reader.ReaderError as error:
        said = f"is not YAML: holds the forbidden character U+{ord(text[error.position]):04X}"
        raise _refused(path, bisect_right(starts, error.position) + 1, said) from error
    if node is None or (isinstance(node, yaml.ScalarNode) and not node.value):
        raise _refused(path, 1, "is empty")
    reader = _Reader(str(path), starts)
    data = reader.build(node, load(schema_name), [])
    result = YamlFile(path, data, reader.lines)
    issues = reader.issues + [
        Issue(str(path), result.line(where), where, message)
        for where, message in for_schema(schema_name).problems(data)
        if where not in reader.refused
    ]
    if issues:
        raise ArmError.of(str(path), issues)
    return result


def _line_at(raw: bytes, position: int) -> int:
    return len(_BREAK.findall(raw[:position].decode("latin-1"))) + 1


def _refused(path: Path, line: int, message: str) -> ArmError:
    return ArmError.of(str(path), [Issue(str(path), line, "$", message)])


class _Loader(yaml.BaseLoader):
    """Composes nodes whose tag is empty unless the file spells one out, no deeper than ``_MAX_DEPTH``; an alias stays
    a node of its own, in its own line."""

    _depth = 0

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> Any:
        return ""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.get_event()  # type: ignore[no-untyped-call]
            return yaml.ScalarNode(_ALIAS_TAG, event.anchor, event.start_mark, event.end_mark)
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            mark = parent.start_mark if parent else None
            raise yaml.composer.ComposerError(None, None, f"nested more than {_MAX_DEPTH} deep", mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def scan_flow_scalar_non_spaces(self, double: bool, start_mark: yaml.Mark) -> Any:
        try:
            return super().scan_flow_scalar_non_spaces(double, start_mark)
        except (ValueError, OverflowError) as error:  # PyYAML gives chr() whatever "\U........" spells
            raise _unscannable(self, "holds an escape that is no character") from error

    def scan_yaml_directive_number(self, start_mark: yaml.Mark) -> Any:
        try:
            return super().scan_yaml_directive_number(start_mark)
        except ValueError as error:  # thousands of digits
            raise _unscannable(self, "names a YAML version that does not exist") from error


def _unscannable(loader: _Loader, said: str) -> yaml.MarkedYAMLError:
    return yaml.scanner.ScannerError(None, None, said, loader.get_mark())


class _Reader:
    """Turns composed nodes into data, guided by the schema where a scalar could be read in two ways."""

    def __init__(self, file: str, starts: list[int]) -> None:
        self.file = file
        self.starts = starts  # characters before each line but the first
        self.lines: dict[str, int] = {}
        self.issues: list[Issue] = []
        self.refused: set[str] = set()  # paths whose value was not read, so that nothing more is to be said of it

    def build(self, node: yaml.Node, schema: Schema, path: list[str | int]) -> Any:
        where = json_path(path)
        self.lines.setdefault(where, self._line(node))
        if node.tag:
            return self._refuse(node, where, _ALIAS if node.tag == _ALIAS_TAG else _tagged(node))
        if isinstance(node, yaml.MappingNode):
            return dict(self._pairs(node, schema, path))
        if isinstance(node, yaml.SequenceNode):
            items = schema.get("items", {})
            return [self.build(item, items, [*path, i]) for i, item in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)
        if has_surrogate(str(node.value)):  # "\\ud83d" spells one
            return self._refuse(node, where, HALF)
        return _scalar(node, schema)

    def _pairs(self, node: yaml.MappingNode, schema: Schema, path: list[str | int]) -> Iterator[tuple[str, Any]]:
        properties, others = schema.get("properties", {}), schema.get("additionalProperties")
        first: dict[str, int] = {}
        for key_node, value in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag == _ALIAS_TAG:
                self._issue(key_node, json_path(path), "has a key that is not a word")
                continue
            key, line = str(key_node.value), self._line(key_node)
            if has_surrogate(key):
                self._issue(key_node, json_path(path), f"has a key that {HALF}")
                continue
            where = json_path([*path, key])
            if key_node.tag:
                self._issue(key_node, where, _tagged(key_node))
            if key in first:
                self._issue(key_node, where, f"stands twice; first in line {first[key]}")
                continue
            first[key] = self.lines[where] = line
            yield key, self.build(value, properties.get(key, others if isinstance(others, dict) else {}), [*path, key])

    def _line(self, node: yaml.Node) -> int:
        return bisect_right(self.starts, node.start_mark.index) + 1

    def _refuse(self, node: yaml.Node, where: str, message: str) -> None:
        self.refused.add(where)
        self._issue(node, where, message)

    def _issue(self, node: yaml.Node, where: str, message: str) -> None:
        self.issues.append(Issue(self.file, self._line(node), where, message))


def _tagged(node: yaml.Node) -> str:
    tag = str(node.tag).replace("tag:yaml.org,2002:", "!!", 1)
    tag = plain(tag if len(tag) <= _LONGEST_TAG else tag[: _LONGEST_TAG - 1] + "…")
    return f"has the tag {tag}; only plain values are read"


def _scalar(node: yaml.ScalarNode, schema: Schema) -> Any:
    text = str(node.value)
    types = schema.get("type", "string")
    kinds = {types} if isinstance(types, str) else set(types)
    if node.style is not None:  # quoted or block: a person said that it is text
        return text
    if "null" in kinds and text in ("", "~", "null"):
        return None
    if "boolean" in kinds and text in ("true", "false"):
        return text == "true"
    if kinds & {"integer", "number"}:
        if _INTEGER.match(text):
            return int(text)
        if "number" in kinds and _NUMBER.match(text):
            number = float(text)
            return number if math.isfinite(number) else text
    return text
