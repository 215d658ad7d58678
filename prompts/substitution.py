"""Plain, single-pass substitution of ``{{name}}``: what is filled in is never read again."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..schemas.errors import ArmError

_PLACEHOLDER = re.compile(r"\{\{([a-z_]+)\}\}")


class Text:
    """A text with placeholders, parsed once.

    head: the text before the first placeholder. rest: each placeholder's name with the text that follows it.
    """

    __slots__ = ("head", "rest")

    def __init__(self, source: str) -> None:
        """Raises ArmError for a ``{{`` that opens no placeholder: a typing error would be shown to a model."""
        pieces = _PLACEHOLDER.split(source)
        for literal in pieces[::2]:
            if "{{" in literal:
                snippet = literal[literal.index("{{") :][:30]
                raise ArmError(f"{snippet!r} is no placeholder; they are written {{{{name}}}}, in lower case")
        self.head = pieces[0]
        self.rest = tuple(zip(pieces[1::2], pieces[2::2], strict=True))

    @property
    def names(self) -> list[str]:
        """The placeholders in order, repeated ones repeated."""
        return [name for name, _ in self.rest]

    def fill(self, values: Mapping[str, str]) -> str:
        """Return the text with every placeholder replaced. Raises KeyError for one without a value."""
        out = self.head
        for name, literal in self.rest:
            out += values[name] + literal
        return out


def splice(source: str, fragments: Mapping[str, str]) -> str:
    """Return the template ``source`` with fragments of the same template put in place of their placeholders.

    Template text into template text: the placeholders of a fragment stay placeholders. A line that only held an
    empty fragment goes, with the blank line after it.
    """
    for name, fragment in fragments.items():
        if not fragment:
            source = re.sub(rf"^\{{\{{{name}\}}\}}(?:\n\n?|\Z)", "", source, flags=re.MULTILINE)
    return _PLACEHOLDER.sub(lambda m: fragments.get(m[1], m[0]), source)


def nested(text: str, indent: str) -> str:
    """Return ``text`` with every line after its first indented, so that it cannot pass for lines of the template.

    Every line break Unicode knows (U+2028 too) becomes a newline; a trailing one goes.
    """
    lines = text.splitlines()
    if len(lines) == 1:
        return lines[0]
    return f"\n{indent}".join(lines)
