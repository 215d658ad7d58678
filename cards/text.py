"""Markdown from data: nothing that comes out of a manifest can break a table, make a link or carry HTML.

`environment` escapes every value that a template prints unless it is `Markdown` already, so that forgetting is safe.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jinja2

CELL_LIMIT = 300  # characters of one value in a table
# Written as entities: what opens HTML, code, emphasis, tables, templates, mathematics, mentions, headings; an
# underscore that is not inside a word; and what makes a link (http://x, javascript:x, www.x).
_SPECIAL = re.compile(
    r"""[&<>"'`|\\{}\[\]*~$@#]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?=\S)|(?<=\bwww)\.""", re.IGNORECASE
)
_OPENING = re.compile(r"[-+=]|[0-9]+([.)])(?: |\Z)")  # at the start of a line: a list, a rule, a heading
_PLAIN_CODE = re.compile(r"[A-Za-z0-9._/#:+,()=@%^*?\[\]\"'-]+(?: [A-Za-z0-9._/#:+,()=@%^*?\[\]\"'-]+)*")


class Markdown(str):
    """Text that is Markdown already and is not escaped again."""

    __slots__ = ()


class Figure(Markdown):
    """A formatted number: its column is set to the right."""

    __slots__ = ()


def text(value: str, limit: int | None = None) -> Markdown:
    """``value`` on one line, so that a reader sees its characters and Markdown sees none of them."""
    line = _one_line(value)
    if limit is not None and len(line) > limit:
        line = line[: limit - 1].rstrip() + "…"
    head = _OPENING.match(line)
    at = max(head.start(1), 0) if head else -1
    if at >= 0:
        return Markdown(_escape(line[:at]) + _entity(line[at]) + _escape(line[at + 1 :]))
    return Markdown(_escape(line))


def code(value: str, limit: int | None = CELL_LIMIT) -> Markdown:
    """``value`` as a code span, safe in a table cell too."""
    if _PLAIN_CODE.fullmatch(value) and "{{" not in value and (limit is None or len(value) <= limit):
        return Markdown(f"`{value}`")
    return Markdown(f"<code>{text(value, limit)}</code>")


def count(n: int) -> Figure:
    return Figure(f"{n:,}")


def number(value: float | None) -> Figure:
    """Any measured number, so that a reader can compare it with the manifest: to three decimals, small ones to two
    digits, whole numbers as they are; a dash for none."""
    if value is None:
        return Figure("–")
    if isinstance(value, int):
        return count(value)
    return Figure(f"{value:.1e}" if 0 < abs(value) < 0.0005 else f"{value + 0.0:,.3f}")


def share(part: float, whole: float) -> Figure:
    """``part`` of ``whole`` in per cent; a dash when there is no whole."""
    return Figure(f"{100 * part / whole:.1f} %") if whole else Figure("–")


def size(n: int) -> Figure:
    """Bytes in decimal units, as the Hub shows them."""
    if n < 1000:
        return Figure(f"{n} B")
    value = float(n)
    for unit in ("kB", "MB", "GB", "TB"):
        value /= 1000
        if value < 999.95 or unit == "TB":
            return Figure(f"{value:,.1f} {unit}")
    raise AssertionError


def plural(n: int, one: str, many: str | None = None) -> Markdown:
    """``3 rows``; the words are ours and are not escaped."""
    return Markdown(f"{n:,} {one if n == 1 else many or one + 's'}")


def listed(items: Sequence[str]) -> Markdown:
    """``a, b and c``; each item is escaped unless it is Markdown."""
    shown = [markdown(item) for item in items]
    return Markdown(shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}" if shown else "")


def table(header: Sequence[str], rows: Sequence[Sequence[str | int]]) -> Markdown:
    """A pipe table; cells are escaped unless they are Markdown, columns of numbers stand to the right."""
    numbers = [bool(rows) and all(isinstance(row[i], int | Figure) for row in rows) for i in range(len(header))]
    lines = [header, ["---:" if n else "---" for n in numbers], *rows]
    cells = [
        [Markdown(c) if position == 1 else markdown(c, CELL_LIMIT) for c in line] for position, line in enumerate(lines)
    ]
    assert all(len(line) == len(header) for line in cells)
    return Markdown("\n".join(f"| {' | '.join(line)} |" for line in cells))


def markdown(value: object, limit: int | None = None) -> Markdown:
    """What a template or a table prints for ``value``: Markdown as it is, whole numbers grouped, text escaped."""
    if isinstance(value, Markdown):
        return value
    if isinstance(value, str):
        return text(value, limit)
    if isinstance(value, int) and not isinstance(value, bool):
        return count(value)
    raise TypeError(f"a card prints text and whole numbers, not {type(value).__name__} {str(value)!r}")


def environment(templates: Mapping[str, str]) -> jinja2.Environment:
    """A Jinja environment over our templates; a missing name is an error, and every value is escaped for Markdown."""
    import jinja2

    def finalize(value: Any) -> str:
        return str(markdown(value))

    env = jinja2.Environment(
        loader=jinja2.DictLoader(dict(templates)),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 - this is Markdown; `finalize` escapes
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    env.filters |= {"code": code, "number": number, "share": share, "size": size, "plural": plural, "listed": listed}
    env.globals["table"] = table
    return env


def _one_line(value: str) -> str:
    """White space of every kind becomes one space; what is invisible or turns the direction of reading goes."""
    kept = []
    for char in value:
        match unicodedata.category(char):
            case "Cc" | "Zs" | "Zl" | "Zp":
                kept.append(" ")
            case "Cs":  # half a character: UTF-8 cannot hold it
                kept.append("\ufffd")
            case "Cf":
                pass
            case _:
                kept.append(char)
    return " ".join("".join(kept).split())


def _escape(line: str) -> str:
    return _SPECIAL.sub(lambda match: _entity(match.group()), line)


def _entity(char: str) -> str:
    return f"&#{ord(char)};"
