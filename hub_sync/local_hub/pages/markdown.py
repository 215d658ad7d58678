"""Cards as HTML. Cards come from anyone: three walls stand between one and the browser.

Markdown becomes tokens, and links, pictures and raw tags are judged there; the HTML is cleaned by an allow-list; the
page it stands in has a policy that loads nothing from elsewhere and runs nothing at all.
"""

from __future__ import annotations

import posixpath
import re
import time
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote, unquote

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markupsafe import Markup

from .raw_html import RawHtml

SIZE_LIMIT = 512 * 1024  # characters that are rendered; a longer text is shown as it is
PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_SECONDS = 3  # of this thread's own time, for one text
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):", re.ASCII)
_OUTSIDE = ("http", "https", "mailto")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\xa0\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\\]")
_ID_PREFIX = "card-"  # so that no heading takes an id of the page

_TAGS = {
    "a", "b", "blockquote", "br", "code", "del", "details", "div", "em", "h2", "h3", "h4", "h5", "h6", "hr", "i",
    "img", "kbd", "li", "mark", "ol", "p", "pre", "s", "small", "strong", "sub", "summary", "sup", "table", "tbody",
    "td", "th", "thead", "tr", "u", "ul",
}  # fmt: skip
_ATTRIBUTES = {
    "a": {"href", "title"},
    "img": {"src", "alt", "title", "loading"},
    "ol": {"start"},
    "details": {"open"},
    **{f"h{level}": {"id"} for level in range(2, 7)},
}
_ALIGN = {"left", "right", "center"}
_VALUES = {
    "div": {"class": {"scroll"}, "tabindex": {"0"}, "role": {"region"}, "aria-label": {"Table"}},
    **{tag: {"align": _ALIGN} for tag in ("p", "th", "td")},
}


@dataclass(frozen=True)
class Place:
    """Where a Markdown file stands, which gives its relative links and pictures a meaning.

    ``blob`` and ``resolve`` are the addresses of the files of this revision, without the last slash; ``folder`` is the
    file's folder in the repository, "" for its root.
    """

    blob: str
    resolve: str
    folder: str = ""

    def link(self, target: str) -> str | None:
        """Where a link may lead; None when it must not lead anywhere."""
        if not target or _UNPRINTABLE.search(target) or target.startswith("//"):
            return None
        scheme = _SCHEME.match(target)
        if scheme:
            return target if scheme.group(1).lower() in _OUTSIDE and " " not in target else None
        if target.startswith("#"):
            return f"#{_ID_PREFIX}{target[1:]}"
        if target.startswith("/"):
            return target.replace(" ", "%20")
        path, anchor = self._path(target)
        return path and f"{self.blob}/{quote(path)}{anchor}"

    def picture(self, source: str) -> str | None:
        """The address of a picture of this repository; None for every other."""
        if not source or _UNPRINTABLE.search(source) or _SCHEME.match(source) or source.startswith(("/", "#")):
            return None
        path, _ = self._path(source)
        return f"{self.resolve}/{quote(path)}" if path and path.lower().endswith(PICTURES) else None

    def _path(self, target: str) -> tuple[str | None, str]:
        """(path in the repository, `#` and what follows it); no path when it would leave the repository."""
        target, hash_sign, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(self.folder, unquote(target.partition("?")[0])))
        inside = path not in (".", "..") and not path.startswith(("../", "/")) and not _UNPRINTABLE.search(path)
        return (path if inside else None), (f"#{_ID_PREFIX}{quote(anchor)}" if hash_sign else "")


@lru_cache(maxsize=8)
def render(text: str, place: Place) -> Markup:
    """The text as HTML that is safe within a page. What is too long or takes too long is shown as it is."""
    if len(text) > SIZE_LIMIT:
        return _plain(text, f"Shown as plain text: it is longer than {SIZE_LIMIT // 1024} KiB.")
    try:
        html = _to_html(text, place)
    except (_TooSlowError, RecursionError):
        return _plain(text, "Shown as plain text: it takes too long to render.")
    cleaned = nh3.clean(
        html,
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        tag_attribute_values=_VALUES,
        url_schemes=set(_OUTSIDE),
        link_rel="nofollow noopener noreferrer",
    )
    return Markup(cleaned)  # noqa: S704 - the cleaner's own output


class _TooSlowError(Exception):
    pass


class _Parser(MarkdownIt):
    def validateLink(self, url: str) -> bool:  # noqa: N802 - the name is the library's
        """Every link is parsed as one, so that a refused one leaves its words and not its address."""
        return True


def _plain(text: str, why: str) -> Markup:
    shown = text.encode("utf-8", "replace").decode()[:SIZE_LIMIT]
    cut = " Only its beginning is shown." if len(text) > SIZE_LIMIT else ""
    return Markup('<p class="note">{}{}</p><pre>{}</pre>').format(why, cut, shown)


def _to_html(text: str, place: Place) -> str:
    parser = _Parser("commonmark", {"html": True, "maxNesting": 50}).enable(["table", "strikethrough"])
    parser.inline.ruler.before("text", "time", _watch_inline)
    parser.block.ruler.before("table", "time", _watch_block)
    tokens = parser.parse(text, {"until": time.thread_time() + _SECONDS})
    raw = RawHtml(place.link, place.picture)
    ids: dict[str, int] = {}
    for position, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", _unique(_ID_PREFIX + _slug(tokens[position + 1]), ids))
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + 1, 6)}"  # the page has its own first heading
        if token.type in ("th_open", "td_open"):
            _align(token)
        if token.type == "html_block":
            token.content = raw.block(token.content)
        if token.children is not None:
            token.children = _inline(token.children, place, raw)
    renderer = parser.renderer
    assert isinstance(renderer, RendererHTML)
    renderer.rules["table_open"] = _table_open  # type: ignore[assignment]
    renderer.rules["table_close"] = _table_close  # type: ignore[assignment]
    html = renderer.render(tokens, parser.options, {})
    return html.replace("\x00", "\N{REPLACEMENT CHARACTER}")


def _inline(children: list[Token], place: Place, raw: RawHtml) -> list[Token]:
    """The words of one paragraph: links that lead nowhere lose their tag, pictures from elsewhere become links."""
    kept: list[Token] = []
    leads: list[bool] = []
    for token in children:
        if token.type == "link_open":
            href = place.link(str(token.attrGet("href") or ""))
            leads.append(href is not None)
            if href is not None:
                token.attrSet("href", href)
                kept.append(token)
        elif token.type == "link_close":
            if leads.pop():
                kept.append(token)
        elif token.type == "image":
            kept.append(_picture(token, raw, inside_link=any(leads)))
        elif token.type == "html_inline":
            kept.append(_html(raw.inline(token.content)))
        elif raw.hidden and not token.nesting:
            continue
        else:
            kept.append(token)
    kept.append(_html(raw.end()))
    return kept


def _picture(token: Token, raw: RawHtml, inside_link: bool) -> Token:
    source, title = str(token.attrGet("src") or ""), str(token.attrGet("title") or "")
    alt = "".join(child.content for child in token.children or [])
    return _html("" if raw.hidden else raw.picture(source, alt or title, inside_link))


def _html(content: str) -> Token:
    return Token("html_inline", "", 0, content=content)


def _align(token: Token) -> None:
    """The policy of the page allows no `style`."""
    side = str(token.attrs.pop("style", "")).removeprefix("text-align:")
    if side in _ALIGN:
        token.attrSet("align", side)


def _table_open(*_: object) -> str:
    return '<div class="scroll" tabindex="0" role="region" aria-label="Table"><table>\n'


def _table_close(*_: object) -> str:
    return "</table></div>\n"


def _slug(heading: Token) -> str:
    """The id that links of cards expect: lower case, no punctuation, spaces as hyphens."""
    words = "".join(child.content for child in heading.children or [] if child.type in ("text", "code_inline"))
    kept = re.sub(r"[^\w\- ]", "", words.strip().lower())
    return kept.replace(" ", "-")[:200]


def _unique(name: str, taken: dict[str, int]) -> str:
    count = taken.get(name, 0)
    taken[name] = count + 1
    return f"{name}-{count}" if count else name


def _watch_inline(state: StateInline, silent: bool) -> bool:
    return _watch(state.env["until"])


def _watch_block(state: StateBlock, first_line: int, last_line: int, silent: bool) -> bool:
    return _watch(state.env["until"])


def _watch(until: float) -> bool:
    """A rule that never applies: it is asked at every position, and ends what takes too long."""
    if time.thread_time() > until:
        raise _TooSlowError
    return False
