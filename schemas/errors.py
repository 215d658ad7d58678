"""One base error, and the located issue that validation collects."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True)
class Issue:
    """One thing wrong with one place of one file.

    ``line`` is 1-based; 0 means the whole file. ``path`` is a JSON path (``$.candidates[3].index``).
    Issues sort by file, line, path, so a report reads in the order of the file.
    """

    file: str
    line: int
    path: str
    message: str

    def __lt__(self, other: Issue) -> bool:
        return self._order < other._order

    @property
    def _order(self) -> tuple[str, int, list[str | tuple[int, str]], str]:
        # Digits as numbers, so that [2] comes before [10]; splitting puts them at the odd places. (Not `int`, which
        # refuses thousands of digits, and a path holds keys of whoever wrote the file.)
        path = [(len(part), part) if i % 2 else part for i, part in enumerate(_DIGITS.split(self.path))]
        return self.file, self.line, path, self.message

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place} {self.path} {self.message}"

    def to_json(self) -> dict[str, Any]:
        return {"file": _text(self.file), "line": self.line, "path": _text(self.path), "message": _text(self.message)}


class ArmError(Exception):
    """Base of every error this project raises on purpose.

    Attributes
    ----------
    message: what happened and why, in one or two sentences.
    where: ``file:line $.path``, a URL, or None where there is no place.
    next_command: the command or the line to write that gets the user further, or None.
    issues: the located issues behind the error, sorted; empty for single errors.
    """

    def __init__(
        self, message: str, *, where: str | None = None, next_command: str | None = None, issues: Iterable[Issue] = ()
    ) -> None:
        self.message = message
        self.where = where
        self.next_command = next_command
        self.issues = tuple(sorted(issues))
        super().__init__(message)

    def __str__(self) -> str:
        lines = [f"{self.where}: {self.message}" if self.where else self.message]
        lines += [f"  {issue}" for issue in self.issues]
        if self.next_command:
            lines.append(f"  next: {self.next_command}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        return {
            "error": _text(self.message),
            "where": self.where and _text(self.where),
            "next": self.next_command and _text(self.next_command),
            "issues": [issue.to_json() for issue in self.issues],
        }

    @classmethod
    def of(cls, where: str, issues: Iterable[Issue], next_command: str | None = None) -> Self:
        """The error of one file with these issues."""
        found = list(issues)
        count = f"{len(found)} problem{'s' if len(found) != 1 else ''}"
        return cls(f"has {count}", where=where, issues=found, next_command=next_command)


class UsageError(ArmError):
    """The user asked for something that does not exist or cannot be combined (exit code 2)."""


def _text(value: str) -> str:
    """A file name may be no text, and JSON holds nothing else."""
    return value.encode("utf-8", "backslashreplace").decode()


def plain(text: str) -> str:
    """Text that a terminal shows and never obeys: control and other unprintable characters as ``\\uXXXX``."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else f"\\u{ord(c):04x}" for c in text)
