"""HTML that stands in Markdown: a few tags of formatting pass, balanced within their block; everything else is dropped.

Each tag is read alone, by the strict form that CommonMark gives it, and written anew. Because all of it is balanced and
bounded here, the cleaner behind never has to repair a tree: repairing can cost the square of a text's length.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable

from markdown_it.common.html_re import HTML_TAG_RE
from markupsafe import escape

_PASS = {
    "b", "blockquote", "br", "code", "del", "details", "em", "h2", "h3", "h4", "h5", "h6", "hr", "i", "kbd", "li",
    "mark", "ol", "p", "pre", "s", "small", "strong", "sub", "summary", "sup", "table", "tbody", "td", "th", "thead",
    "tr", "u", "ul",
}  # fmt: skip
_VOID = {"br", "hr", "img"}
_RENAMED = {"h1": "h2"}  # the page has its own first heading
# What stands inside is no text for readers.
_HIDDEN = {"iframe", "math", "noscript", "object", "script", "select", "style", "svg", "template", "textarea", "title"}
_DEPTH = 16
_LIMIT = 5000  # tags of one text; further ones are dropped
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]*)", re.ASCII)
_ATTRIBUTE = re.compile(
    r"""\s([A-Za-z_:][A-Za-z0-9:._-]*)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^"'=<>`\s]+)))?""", re.ASCII
)


class RawHtml:
    """The tags of one text, in order. ``link`` and ``picture`` judge addresses and return None for refused ones."""

    def __init__(self, link: Callable[[str], str | None], picture: Callable[[str], str | None]) -> None:
        self._link = link
        self._picture = picture
        self._open: list[str] = []
        self.hidden: str | None = None
        self._seen = 0

    def block(self, content: str) -> str:
        """A block of HTML: its allowed tags and its text."""
        written, position = [], 0
        while position < len(content):
            start = content.find("<", position)
            if start < 0:
                start = len(content)
            written.append(self.text(content[position:start]))
            if start == len(content):
                break
            end = self._end(content, start)
            if end is None:
                written.append(self.text("<"))
                position = start + 1
            else:
                written.append(self.inline(content[start:end]))
                position = end
        return "".join(written) + self.end() + "\n"

    def _end(self, content: str, start: int) -> int | None:
        """Behind the tag, comment or instruction at ``start``; None when none is there."""
        for opening, closing in (("<!--", "-->"), ("<?", "?>"), ("<![CDATA[", "]]>"), ("<!", ">")):
            if content.startswith(opening, start):
                found = content.find(closing, start + len(opening))
                return len(content) if found < 0 else found + len(closing)
        matched = HTML_TAG_RE.match(content[start : start + 4096])
        return start + matched.end() if matched else None

    def text(self, words: str) -> str:
        return "" if self.hidden else str(escape(html.unescape(words)))

    def inline(self, tag: str) -> str:
        """One tag as it is allowed, "" otherwise."""
        found = _TAG.match(tag)
        self._seen += 1
        if found is None or self._seen > _LIMIT:
            return ""
        name = found.group(2).lower()
        name = _RENAMED.get(name, name)
        if found.group(1):
            return self._close(name)
        if self.hidden is None and name in _HIDDEN and not tag.endswith("/>"):
            self.hidden = name
        if self.hidden or len(self._open) >= _DEPTH:
            return ""
        return self._start(name, tag[found.end() :])

    def _start(self, name: str, rest: str) -> str:
        given = {key.lower(): html.unescape(a or b or c or "") for key, a, b, c in _ATTRIBUTE.findall(rest)}
        if name == "img":
            return self.picture(given.get("src", "").strip(), given.get("alt", ""))
        if name == "a":
            href = self._link(given.get("href", "").strip())
            if href is None or "a" in self._open:
                return ""
            self._open.append("a")
            return f'<a href="{escape(href)}">'
        if name not in _PASS:
            return ""
        if name not in _VOID:
            self._open.append(name)
        side = given.get("align", "").lower()
        kept = f' align="{side}"' if name in ("p", "td", "th") and side in ("left", "right", "center") else ""
        return f"<{name}{kept}>"

    def picture(self, source: str, alt: str, inside_link: bool = False) -> str:
        """A picture of this repository; of another one, which is not loaded, a link to it or its words alone."""
        shown = self._picture(source)
        if shown is not None:
            return f'<img src="{escape(shown)}" alt="{escape(alt)}" loading="lazy">'
        words = escape(alt or "picture")
        link = None if inside_link or "a" in self._open else self._link(source)
        return f'<a href="{escape(link)}">{words}</a>' if link else str(words)

    def _close(self, name: str) -> str:
        if self.hidden:
            if name == self.hidden:
                self.hidden = None
            return ""
        if name not in self._open:
            return ""
        closed = ""
        while not closed.endswith(f"</{name}>"):
            closed += f"</{self._open.pop()}>"
        return closed

    def end(self) -> str:
        """What closes everything that is still open: at the end of a block or a paragraph."""
        self.hidden = None
        closed = "".join(f"</{name}>" for name in reversed(self._open))
        self._open.clear()
        return closed
