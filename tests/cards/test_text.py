"""Escaping and figures."""

from __future__ import annotations

import jinja2
import pytest
from action_reward_models.cards.text import Markdown, code, environment, listed, plural, share, size, table, text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain words, a_b (c) 1.5 é 世界", "plain words, a_b (c) 1.5 é 世界"),
        ("a|b", "a&#124;b"),
        ("<script>&amp;", "&#60;script&#62;&#38;amp;"),
        ("[x](javascript:alert(1))", "&#91;x&#93;(javascript&#58;alert(1))"),
        ("see http://a.b www.c.d", "see http&#58;//a.b www&#46;c.d"),
        ("Note: fine", "Note: fine"),
        ("{{ 7*7 }} {% x %}", "&#123;&#123; 7&#42;7 &#125;&#125; &#123;% x %&#125;"),
        ("a\r\n---\n# b\u2028c\u0085d\te\x00f", "a --- &#35; b c d e f"),
        ("--- x", "&#45;-- x"),
        ("1. x", "1&#46; x"),
        ("0.7", "0.7"),
        ("12) x", "12&#41; x"),
        ("= x", "&#61; x"),
        ("\u202eevil\u200b", "evil"),
        ("\ud800", "\ufffd"),
        ("_em_ in_side", "&#95;em&#95; in_side"),
    ],
)
def test_text(value: str, expected: str) -> None:
    assert text(value) == expected


def test_code_is_a_span_or_an_element() -> None:
    assert code("data/a b_c.jsonl") == "`data/a b_c.jsonl`"
    assert code("a`b|c") == "<code>a&#96;b&#124;c</code>"
    assert code("{{ x }}") == "<code>&#123;&#123; x &#125;&#125;</code>"
    assert code(" a ") == "<code>a</code>"
    assert len(code("x" * 10_000)) < 400


@pytest.mark.parametrize(
    ("n", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_949, "999.9 kB"), (999_950, "1.0 MB"), (10**9, "1.0 GB"),
     (2 * 10**15, "2,000.0 TB")],
)  # fmt: skip
def test_sizes(n: int, shown: str) -> None:
    assert size(n) == shown


def test_figures_and_lists() -> None:
    assert share(1, 0) == "–"
    assert share(1, 3) == "33.3 %"
    assert plural(1, "row") == "1 row"
    assert plural(1200, "row") == "1,200 rows"
    assert listed([]) == ""
    assert listed(["a"]) == "a"
    assert listed(["a", "b|", Markdown("`c`")]) == "a, b&#124; and `c`"


def test_a_table_escapes_its_cells_and_sets_numbers_right() -> None:
    assert table(["a", "n"], [["x|y", 1200], [Markdown("`z`"), 3]]).split("\n") == [
        "| a | n |",
        "| --- | ---: |",
        "| x&#124;y | 1,200 |",
        "| `z` | 3 |",
    ]


def test_a_template_escapes_by_default_and_misses_nothing() -> None:
    env = environment({"a": "{{ x }} {{ x | code }} {{ 1200 }}", "b": "{{ nothing }}", "c": "{{ none }}"})
    assert env.get_template("a").render(x="<b>") == "&#60;b&#62; <code>&#60;b&#62;</code> 1,200"
    with pytest.raises(jinja2.UndefinedError):
        env.get_template("b").render()
    with pytest.raises(TypeError, match="prints text and whole numbers"):
        env.get_template("c").render(none=None)
