"""The patterns of `.gitignore` and `.gitattributes`, matched as git does, in time that no pattern can blow up.

A path is matched name by name, and a name against `*` never goes back: the first place where what follows a star fits
is as good as any later one.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass

MOST = 1000  # patterns that are looked at; each of at most as many characters as a path has
_LONGEST = 1024
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_TRAILING_SPACES = re.compile(r"(?<!\\) +\Z")


@dataclass(frozen=True)
class Pattern:
    """``parts`` are a path's names, None for any number of them (`**`); ``folder`` for a pattern that ends in `/`."""

    parts: tuple[re.Pattern[str] | None, ...]
    folder: bool

    def depths(self, names: list[str]) -> set[int]:
        """With how many of the first ``names`` it matches: the whole path, or folders on the way to it."""
        reached = {0}
        for part in self.parts:
            if part is None:
                reached = set(range(min(reached), len(names) + 1))
            else:
                reached = {count + 1 for count in reached if count < len(names) and part.fullmatch(names[count])}
            if not reached:
                break
        return reached - {len(names)} if self.folder else reached

    def fits(self, path: str) -> bool:
        """Whether it matches the file itself."""
        names = path.split("/")
        return len(names) in self.depths(names)


def parse_pattern(text: str) -> Pattern | None:
    """A pattern, None for one that matches nothing or is beyond reason."""
    if len(text) > _LONGEST or not text.strip("/"):
        return None
    names = text.removesuffix("/").split("/")
    if names[0] == "":
        del names[0]
    elif len(names) == 1:
        names.insert(0, "**")
    if names[-1] == "**" and len(names) > 1:
        names.append("*")  # what is inside, not the folder
    parts = [None if name == "**" else _name(name) for name in names]
    once = [part for at, part in enumerate(parts) if part is not None or at == 0 or parts[at - 1] is not None]
    return Pattern(tuple(once), text.endswith("/"))


class IgnoreRules:
    """The lines of a `.gitignore`."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._rules: list[tuple[bool, Pattern]] = []  # whether it leaves out or takes back
        for line in lines:
            text = _TRAILING_SPACES.sub("", line.removesuffix("\r"))
            if text.startswith("#"):
                continue
            pattern = parse_pattern(text.removeprefix("!"))
            if pattern is not None and len(self._rules) < MOST:
                self._rules.append((not text.startswith("!"), pattern))

    def leave_out(self, path: str) -> bool:
        """The last pattern decides; what is in a folder that is left out cannot be taken back."""
        names = path.split("/")
        said: dict[int, bool] = {}
        for leaves_out, pattern in self._rules:
            said.update(dict.fromkeys(pattern.depths(names), leaves_out))
        return any(said.values())


def _name(glob: str) -> re.Pattern[str]:
    """One name of a pattern. Python's own translation, told what git writes otherwise: `\\x` and `[^...]`."""
    literal = _ESCAPED.sub(lambda found: f"[{found[1]}]" if found[1] in "*?[" else found[1], glob)
    return re.compile(fnmatch.translate(literal.replace("[^", "[!")))
