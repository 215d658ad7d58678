"""Cards come from anyone: what is left of a hostile one, and how long a pathological one takes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from action_reward_models.hub_sync.local_hub.pages import markdown
from action_reward_models.hub_sync.local_hub.pages.markdown import SIZE_LIMIT, Place, render

if TYPE_CHECKING:
    from tests.hub_sync.local_hub.pages.conftest import Make

PLACE = Place("/datasets/lab/toy/blob/main", "/datasets/lab/toy/resolve/main")
SECRET = "evil"  # the word that no address may lead to

HOSTILE = [
    "<script>alert('evil')</script>",
    "<ScRiPt src=https://evil.test/x.js></sCrIpT>",
    "<script\n>alert('evil')</script\n>",
    "<script>alert('evil')",
    "text <script>alert('evil')</script> text",
    "<<script>alert('evil')//<</script>",
    "<scr<script>ipt>alert('evil')</scr</script>ipt>",
    "<img src=x onerror=alert('evil')>",
    "<img src='a.png' onload='evil()' style='background:url(https://evil.test)'>",
    "<img src=\"a.png\"onerror=\"evil()\">",
    "<img/src=a.png/onerror=evil()>",
    "<img src=`a.png` onerror=evil()>",
    '<img src="data:image/svg+xml,<svg onload=evil()>">',
    "<b onmouseover=evil()>bold</b>",
    "<b style='position:fixed;inset:0' class=skip id=content>bold</b>",
    "<a href=javascript:evil()>x</a>",
    "<a href='JaVaScRiPt:evil()'>x</a>",
    "<a href='java\tscript:evil()'>x</a>",
    "<a href=' javascript:evil()'>x</a>",
    "<a href='&#106;avascript&colon;evil()'>x</a>",
    "<a href='&#x6A&#x61vascript:evil()'>x</a>",
    "<a href='\x01javascript:evil()'>x</a>",
    "<a href='java&#10;script:evil()'>x</a>",
    "<a href='vbscript:evil()'>x</a>",
    "<a href='data:text/html,evil'>x</a>",
    "<a href='file:///etc/evil'>x</a>",
    "<a href='//evil.test'>x</a>",
    "<a href='/\\evil.test'>x</a>",
    "<a href='\\\\evil.test'>x</a>",
    "<a href='blob:evil' target=_blank onclick=evil()>x</a>",
    "[x](javascript:evil())",
    "[x](JAVASCRIPT:evil)",
    "[x](javascript&#58;evil)",
    "[x](&#x6a;avascript:evil)",
    "[x](<java\tscript:evil>)",
    "[x](\x0bjavascript:evil)",
    "[x](data:text/html;base64,evil)",
    "[x](vbscript:evil)",
    "[x](//evil.test/)",
    "[x](\\\\evil.test)",
    "[x]: javascript:evil\n\n[x]",
    "<javascript:evil>",
    "![x](javascript:evil)",
    "![x](data:image/svg+xml;base64,evil)",
    '![x"onerror="evil()](a.png)',
    '![x](a.png "t\\"onerror=\\"evil()")',
    "![x](../../../../evil.png)",
    "![x](//evil.test/a.png)",
    "[x](../../../evil)",
    "[x](%2e%2e/%2e%2e/evil)",
    "<svg onload=evil()><a xlink:href=javascript:evil()><text>x</text></a></svg>",
    "<math><mtext><style><img src=x onerror=evil()></style></mtext></math>",
    "<math><annotation-xml encoding=text/html><script>evil()</script></annotation-xml></math>",
    "<style>@import 'https://evil.test'; body{display:none}</style>",
    "<link rel=stylesheet href=https://evil.test>",
    "<base href=https://evil.test>",
    "<meta http-equiv=refresh content='0;url=https://evil.test'>",
    "<iframe srcdoc='<script>evil()</script>'></iframe>",
    "<iframe src=https://evil.test>",
    "<object data=https://evil.test></object><embed src=https://evil.test>",
    "<form action=https://evil.test><input name=a><button formaction=javascript:evil()>x</button></form>",
    "<template><script>evil()</script></template>",
    "<noscript><p title='</noscript><img src=x onerror=evil()>'></noscript>",
    "<textarea></textarea><script>evil()</script>",
    "<title></title><script>evil()</script>",
    "</title></head></main></article></html><script>evil()</script>",
    "<plaintext><script>evil()",
    "<xmp><script>evil()</script></xmp>",
    "<video src=https://evil.test onerror=evil()><source src=x onerror=evil()></video>",
    "<audio autoplay onplay=evil()>",
    "<details ontoggle=evil() open><summary>x</summary></details>",
    "<marquee onstart=evil()>x</marquee>",
    "<isindex type=image src=1 onerror=evil()>",
    "<keygen autofocus onfocus=evil()>",
    "<portal src=https://evil.test></portal>",
    "<!-- --!><script>evil()</script> -->",
    "<!--><script>evil()</script>",
    "<!--[if IE]><script>evil()</script><![endif]-->",
    "<![CDATA[<script>evil()</script>]]>",
    "<?xml-stylesheet href='javascript:evil()'?>",
    "<!DOCTYPE html [<!ENTITY x 'evil'>]><script>evil()</script>",
    "| a | b |\n| - | - |\n| <script>evil()</script> | <img src=x onerror=evil()> |",
    "| a \\| <svg/onload=evil()> | b |\n| - | - |\n| x | y |",
    "`<script>evil()</script>`",
    "```html\n<script>evil()</script>\n```",
    "``` \"onload=evil() x\ntext\n```",
    "    <script>evil()</script>",
    "# <script>evil()</script>",
    "# \"><script>evil()</script>",
    "&lt;script&gt;evil()&lt;/script&gt;",
    "<b>unclosed <i>tags <table><td>everywhere",
    "</b></p></div></article>",
    "<p><b></p></b><a href=x><a href=y>",
    "a\x00<script>evil()</script>\x00",
    "<scr\x00ipt>evil()</scr\x00ipt>",
    "\u202ehtml\u202c <a href='https://\u202eevil.test'>x</a>",
    "<a href='java\u200bscript:evil()'>x</a>",
    "＜script＞evil()＜/script＞",
    "<details><summary><script>evil()</script></summary></details>",
    "<a href=\"#\" style=evil>x</a><div style=evil class=top id=rows>x</div>",
    "<p align='center\" onclick=\"evil()'>x</p>",
    "<table background=https://evil.test><td background=https://evil.test>x</table>",
    "<ol start='1\" onclick=\"evil()'><li>x</ol>",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_of_a_hostile_card_only_words_are_left(text: str, make: type[Make]) -> None:
    html = render(text, PLACE)
    seen = make.Seen(html)
    assert seen.wrong(make.card_tags) == []
    for tag, given in seen.tags:
        for name, value in given.items():
            assert name == "alt" or tag.startswith("h") or SECRET not in value, (tag, name, value)
    assert not {"class", "style"} & {name for tag, given in seen.tags if tag != "div" for name in given}


def test_there_are_enough_hostile_cards() -> None:
    assert len(HOSTILE) > 90
    assert len(set(HOSTILE)) == len(HOSTILE)


def test_what_people_write_is_kept(make: type[Make]) -> None:
    text = (
        "# Title\n\n## A part, *of it*\n\nWords with **weight**, `code`, ~~gone~~, H<sub>2</sub>O"
        "<br>and <kbd>Ctrl</kbd>.\n\n| a | b |\n| :-: | --: |\n| 1 | `x\\|y` |\n\n<details>\n"
        "<summary>More</summary>\n<p align=center>Inside</p>\n</details>\n\n1. one\n2. two\n\n"
        "> said\n\n```python\nprint('<b>')\n```\n"
    )
    html = render(text, PLACE)
    seen = make.Seen(html)
    assert seen.wrong(make.card_tags) == []
    assert '<h2 id="card-title">Title</h2>' in html
    assert '<h3 id="card-a-part-of-it">' in html
    assert "H<sub>2</sub>O<br>and <kbd>Ctrl</kbd>" in html
    assert '<th align="center">a</th>' in html
    assert '<td align="right"><code>x|y</code></td>' in html
    assert '<details>\n<summary>More</summary>\n<p align="center">Inside</p>\n</details>' in html
    assert "print('&lt;b&gt;')" in html
    assert "gone</s>" in html or "gone</del>" in html


def test_comments_are_not_shown() -> None:
    html = render("before\n\n<!-- marker:begin -->\n# Part <!-- inline --> one\n<!--\n\nlong\n\n-->\nafter", PLACE)
    assert "marker" not in html
    assert "inline" not in html
    assert "long" not in html
    assert "Part  one" in html
    assert "after" in html


@pytest.mark.parametrize(
    ("target", "address"),
    [
        ("docs/a b.md", "/datasets/lab/toy/blob/main/docs/a%20b.md"),
        ("./data/x.parquet?download=1", "/datasets/lab/toy/blob/main/data/x.parquet"),
        ("docs/../README.md#load", "/datasets/lab/toy/blob/main/README.md#card-load"),
        ("#load", "#card-load"),
        ("/datasets/lab/other", "/datasets/lab/other"),
        ("https://example.test/x?a=1&b=2", "https://example.test/x?a=1&amp;b=2"),
        ("mailto:someone@example.test", "mailto:someone@example.test"),
        ("häuser.md", "/datasets/lab/toy/blob/main/h%C3%A4user.md"),
        ("a%23b.md", "/datasets/lab/toy/blob/main/a%23b.md"),
    ],
)
def test_links_lead_where_they_mean(target: str, address: str) -> None:
    link = f'<a href="{address}" rel="nofollow noopener noreferrer">x</a>'
    assert link in render(f"[x](<{target}>)", PLACE)
    assert link in render(f'<a href="{target}">x</a>', PLACE)


def test_links_of_a_file_in_a_folder_start_there() -> None:
    place = Place(PLACE.blob, PLACE.resolve, "docs/more")
    html = render("[a](x.md) [b](../y.md) [c](../../../z.md) ![d](p.png)", place)
    assert 'href="/datasets/lab/toy/blob/main/docs/more/x.md"' in html
    assert 'href="/datasets/lab/toy/blob/main/docs/y.md"' in html
    assert "z.md" not in html
    assert 'src="/datasets/lab/toy/resolve/main/docs/more/p.png"' in html


def test_only_pictures_of_the_repository_are_loaded(make: type[Make]) -> None:
    html = render('![ours](a/b.png)\n![theirs](https://example.test/t.png)\n<img src="c.svg" alt="drawing">', PLACE)
    assert make.Seen(html).values("img", "src") == ["/datasets/lab/toy/resolve/main/a/b.png"]
    assert '<a href="https://example.test/t.png" rel="nofollow noopener noreferrer">theirs</a>' in html
    assert '<a href="/datasets/lab/toy/blob/main/c.svg" rel="nofollow noopener noreferrer">drawing</a>' in html


def test_equal_headings_get_ids_of_their_own(make: type[Make]) -> None:
    seen = make.Seen(render("## Rows\n\n## Rows\n\n## Rows", PLACE))
    assert seen.values("h3", "id") == ["card-rows", "card-rows-1", "card-rows-2"]


PATHOLOGICAL = {
    "quotes": ">",
    "spaced quotes": "> ",
    "brackets": "[",
    "pictures": "![",
    "links": "[a](",
    "pictures in links": "[![a](b)",
    "references": "[a][",
    "stars": "*a ",
    "mixed emphasis": "*a **b _c ",
    "struck": "~~a",
    "angles": "<",
    "open tags": "<a ",
    "open attributes": "<a b='",
    "addresses": "<http://a",
    "comments": "a <!-- ",
    "sections": "a <![CDATA[",
    "instructions": "a<?",
    "bold": "<b>",
    "paragraphs in paragraphs": "<p>x</p>",
    "lists": "- ",
    "entities": "&",
    "headings": "# a\n",
    "cells": "|a",
    "nothing": "\0",
}


def special(length: int) -> dict[str, str]:
    """Texts that no repeated piece makes."""
    columns = length // 130
    return {
        "lazy quotes": "> " * 50 + "a\n" + "b\n" * (length // 4),
        "known references": "[a]: x\n" + "[a][" * (length // 4),
        "closed emphasis": "*a **b " * (length // 14) + "c** d*" * (length // 14),
        "backticks": "".join("`" * count + " " for count in range(int((2 * length) ** 0.5))),
        "repairs": "<p><b><i><u><s><em><small><strong><code>" + "<p>x</p>" * (length // 8),
        "attributes that differ": "".join(f"<b id={n}>" for n in range(length // 20)) + "<p>x" * (length // 8),
        "wide table": "|".join("a" * columns) + "\n" + "|".join("-" * columns) + "\n" + "x\n" * (length // 4),
    }


@pytest.mark.parametrize("length", [10_000, pytest.param(400_000, marks=pytest.mark.slow)])
def test_pathological_cards_end_in_time(length: int, make: type[Make]) -> None:
    """In this thread's own time: a bounded time of parsing, then writing and cleaning, which are linear."""
    texts = {name: piece * (length // len(piece)) for name, piece in PATHOLOGICAL.items()} | special(length)
    assert len(texts) > 30
    for name, text in texts.items():
        begin = time.thread_time()
        html = render(text, PLACE)
        assert time.thread_time() - begin < 12, name
        assert len(html) < 2**20 + 30 * length, name  # padded cells of a table: at most 65,536
        assert make.Seen(html[:100_000]).wrong(make.card_tags) == [], name


def test_what_takes_too_long_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markdown, "_SECONDS", -1)
    html = render("# Title <script>", PLACE)
    assert "takes too long" in html
    assert "<pre># Title &lt;script&gt;</pre>" in html
    render.cache_clear()


def test_a_long_card_is_rendered_and_a_longer_one_is_shown(make: type[Make]) -> None:
    paragraph = "Words about `things` and [more](x.md).\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n"
    long = "# Title\n\n" + paragraph * (400_000 // len(paragraph))
    assert "<table>" in render(long, PLACE)
    longer = "<script>evil()</script>" + long + "x" * SIZE_LIMIT
    html = render(longer, PLACE)
    assert "longer than 512 KiB" in html
    assert make.Seen(html).wrong({"p", "pre"}) == []
    assert "&lt;script&gt;" in html
