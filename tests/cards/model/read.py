"""A card as a reader has it: its tables, sections, code and markup."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from markdown_it import MarkdownIt


def body(card: str) -> str:
    return card.partition("<!-- action-reward-models:begin -->")[2].partition("<!-- action-reward-models:end -->")[0]


def sections(card: str) -> list[str]:
    return re.findall(r"^## (.+)$", card, re.MULTILINE)


def tables(card: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Header and rows of each table, cells as text."""
    for block in re.findall(r"(?:^\|.*\n)+", card, re.MULTILINE):
        lines = [[_cell(cell) for cell in re.split(r"(?<!\\) \| ", line.strip("| "))] for line in block.splitlines()]
        yield lines[0], lines[2:]


def table(card: str, *header: str) -> list[list[str]]:
    """The rows of the one table whose header begins so."""
    (found,) = [rows for head, rows in tables(card) if head[: len(header)] == list(header)]
    return found


def measured(cell: str) -> float | None:
    """The number in a cell; None for a dash."""
    return None if cell == "–" else float(cell.replace(",", ""))


def near(cell: str, value: float | None) -> bool:
    """Whether a cell says ``value``, as far as three decimals, or two digits of a small number, can say it."""
    found = measured(cell)
    if found is None or value is None:
        return found is None and value is None
    return abs(found - value) <= (0.05 * abs(value) if 0 < abs(value) < 0.0005 else 0.0005 + 1e-9)


def snippets(card: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", card, re.DOTALL | re.MULTILINE)


def markup(text: str) -> tuple[list[str], set[str], set[str]]:
    """What a Markdown parser sees: headings, links, and HTML other than code spans."""
    headings, links, found = [], set(), set()
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    for position, token in enumerate(tokens):
        if token.type == "heading_open":
            headings.append(f"{token.tag} {tokens[position + 1].content}")
        if token.type == "html_block":
            found.add(token.content.strip())
        for child in token.children or []:
            if child.type in ("link_open", "image"):
                links.add(str(child.attrs))
            if child.type == "html_inline":
                found.add(child.content)
    return headings, links, found - {"<code>", "</code>"}


def _cell(cell: str) -> str:
    plain = re.sub(r"</?code>|`|\*\*", "", cell.strip())
    return html.unescape(plain)
