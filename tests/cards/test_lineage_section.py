"""The section of a card that says where its rows come from: a Mermaid flowchart, words, and links within the Hub."""

from __future__ import annotations

import re
from typing import Any

import pytest
from action_reward_models.cards.dataset import problems, render
from action_reward_models.cards.mermaid import LINE_LIMIT, flowchart, line
from action_reward_models.cards.origins import MAX_SOURCES, fed
from markdown_it import MarkdownIt

RAW = {"repo": "org/raw", "revision": "main", "commit": "a" * 40, "identity_sha256": None}
VERSION = {"repo": "org/data", "revision": "v1.0.0", "commit": None, "identity_sha256": "b" * 64}
# A node with a quoted label, or an edge: nothing else may stand in a picture, whatever its data are.
LINE = re.compile(r'  [a-z][0-9]+\["(?:[\w .…·@/:,()-]|<br/>)+"\]|  [a-z][0-9]+ --> [a-z][0-9]+|flowchart (?:LR|TD)')
HOSTILE = [
    'x"] --> evil["y', "x\ny", "x; click s1 callback", "%%{init: {'securityLevel': 'loose'}}%%",
    "<img src=x onerror=a()>",     "#quot;#35;&quot;&#34;", "```\n# out", "`**bold**`", "end", "1. list",
    "- list", "===", "---", "", " ", "\u202egnp.exe",
    "\u2028x", "a[b](javascript:alert(1))", "{{ 7*7 }} {% x %}", "\ud83d", "\\u0022", "__init__ *x* ~~y~~ $x$", "|a|b|",
    "z" * 5000, "\0\x1b[31m",
]  # fmt: skip


def section(card: str) -> str:
    return card.partition("## Where it comes from\n")[2].partition("\n## ")[0]


def picture(card: str) -> list[str]:
    found = [t for t in MarkdownIt("commonmark").parse(section(card)) if t.type == "fence" and t.info == "mermaid"]
    assert len(found) == 1
    return found[0].content.splitlines()


def test_the_picture_leads_from_sources_to_this_version(manifest: dict[str, Any]) -> None:
    lines = picture(render(manifest))
    assert lines[:2] == [
        "flowchart LR",
        '  s1["source 1: episodes<br/>format openai_messages<br/>40 records in 1 file"]',
    ]
    assert '  t5["bt_pairs<br/>183 rows"]' in lines
    digest = manifest["identity_sha256"][:12]
    assert f'  v1["me/action-reward-models-data<br/>version 1.0.0<br/>identity {digest}"]' in lines
    edges = {tuple(edge.split(" --> ")) for edge in (text.strip() for text in lines) if " --> " in edge}
    base = {("s1", "t1"), ("s2", "t2"), ("s3", "t3")}
    made = {(f"t{n}", f"t{m}") for n in (1, 2, 3) for m in (4, 5)}
    assert edges == base | made | {(f"t{n}", "v1") for n in (1, 2, 3, 4, 5)}
    assert "In words: source 1 goes into `states`, `selection_sft` and `bt_pairs`;" in section(render(manifest))


def test_what_lies_on_the_hub_is_named_pinned_and_linked_within_it(manifest: dict[str, Any]) -> None:
    sources = manifest["identity"]["sources"]
    sources[0]["origin"], sources[1]["origin"], sources[2]["origin"] = RAW, VERSION, VERSION
    card = render(manifest)
    assert '<br/>from org/raw@main<br/>commit aaaaaaaaaaaa"]' in "\n".join(picture(card))
    assert '<br/>from org/data@v1.0.0<br/>identity bbbbbbbbbbbb"]' in "\n".join(picture(card))
    assert section(card).strip().splitlines()[-2:] == [
        f"- Source 1: files at `main` of [org/raw](/datasets/org/raw/tree/{'a' * 40}), commit `{'a' * 40}`",
        f"- Sources 2, 3: version `v1.0.0` of [org/data](/datasets/org/data/tree/v1.0.0), identity `{'b' * 64}`",
    ]
    assert problems(card, manifest) == []
    for source in sources:
        source["origin"] = None
    assert "- Source" not in section(render(manifest))


def test_a_table_that_is_not_published_is_passed_over(manifest: dict[str, Any]) -> None:
    for table in ("states", "candidate_sets", "teacher_labels", "bt_pairs"):
        del manifest["identity"]["tables"][table]
    edges = [text.strip() for text in picture(render(manifest)) if " --> " in text]
    assert edges == ["s1 --> t1", "s2 --> t1", "s3 --> t1", "t1 --> v1"]
    assert fed(manifest, "episodes") == ["selection_sft"]
    assert fed(manifest, "pictures") == []


def test_many_sources_are_drawn_as_one(manifest: dict[str, Any]) -> None:
    sources = manifest["identity"]["sources"]
    sources += [sources[0]] * 500
    lines = picture(render(manifest))
    assert sum(text.startswith("  s") and "[" in text for text in lines) == MAX_SOURCES + 1
    assert f'  s0["{503 - MAX_SOURCES} more sources<br/>{(503 - MAX_SOURCES) * 40:,} records"]' in lines
    assert "  s0 --> t1" in lines
    assert "In words: sources 1, 4 to 503 go into `states`" in section(render(manifest))
    assert len("\n".join(lines)) < 50_000  # what Mermaid draws at most


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
def test_no_name_leaves_its_label(value: str, manifest: dict[str, Any]) -> None:
    plain = picture(render(manifest))
    for source in manifest["identity"]["sources"]:
        source |= {"format": value, "kind": value}
        source["origin"] = {"repo": value, "revision": value, "commit": value, "identity_sha256": None}
    card = render(manifest)
    lines = picture(card)
    assert all(LINE.fullmatch(text) for text in lines), lines
    assert len([t for t in lines if "[" in t]) == len([t for t in plain if "[" in t])
    tokens = MarkdownIt("commonmark").parse(section(card))
    assert not {t.type for t in tokens} & {"html_block", "heading_open"}
    assert not {c.type for t in tokens for c in t.children or []} & {"link_open", "image"}  # it is no repository
    edges = [text for text in lines if " --> " in text]
    assert not [edge for edge in edges if "s1" in edge]  # of a kind that nothing knows: it feeds no table


def test_labels() -> None:
    assert line("data/é 世界_a.jsonl") == "data/é 世界_a.jsonl"
    assert line("a\t b\n\nc") == "a b c"
    assert "_" not in line("__x__")
    assert line("1. x") == "·1. x"
    assert line("10) x") == "·10) x"
    assert line("- x") == "·- x"
    assert line("") == "·"
    assert line("1,000 rows") == "1,000 rows"
    assert len(line("x" * 1000)) == LINE_LIMIT
    with pytest.raises(AssertionError):
        flowchart({"end": ["x"]}, [])
    with pytest.raises(AssertionError):
        flowchart({"a1": ["x"]}, [("a1", "a2")])
    assert flowchart({"a1": ["x"], "a2": ["y"]}, [("a1", "a2")] * 2, "TD") == (
        'flowchart TD\n  a1["x"]\n  a2["y"]\n  a1 --> a2'
    )
