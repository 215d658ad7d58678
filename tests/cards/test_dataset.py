"""The card's text: what it says, for whole, sparse and hostile manifests."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from action_reward_models.builders.ledger import REASONS
from action_reward_models.cards.dataset import render
from action_reward_models.cards.front_matter import front_matter
from action_reward_models.cards.words import meaning
from action_reward_models.schemas.errors import ArmError
from action_reward_models.tests.cards.model.read import markup

HOSTILE = (
    "---\r\nlicense: gpl\n---\n| a | b |\n<script>alert(1)</script><!-- action-reward-models:end --> `x` ``` "
    "[l](javascript:alert(1)) ![i](http://e.vil/i.png) {{ 7*7 }} {% raw %} \u2028 \u202e www.e.vil <img src=x> "
    + "y" * 5000
)  # fmt: skip


def _sections(card: str) -> list[str]:
    return re.findall(r"^## (.+)$", card, re.MULTILINE)


def _tables(card: str) -> Iterator[list[int]]:
    """The number of cells of each line, table by table."""
    for block in re.findall(r"(?:^\|.*\n)+", card, re.MULTILINE):
        yield [len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()]


def _body(card: str) -> str:
    return card.partition("<!-- action-reward-models:begin -->")[2]


def test_a_reader_finds_the_figures(manifest: dict[str, Any]) -> None:
    card = render(manifest)
    assert _sections(card) == [
        "Load", "Tables", "Know before you use it", "What was left out", "Split", "Labels and candidates", "Pairs",
        "Screenshots", "Prompts", "Where it comes from", "Sources and licences", "Check and rebuild",
    ]  # fmt: skip
    for line in (
        'data = load_dataset("me/action-reward-models-data", revision="v1.0.0")  # selection_sft',
        "| `selection_sft` | labels | 117 | 96 | 21 | 17.9 % |",
        "| `selection_sft` | `null_in_source` | the source holds no pick, and no reason | 20 | 17.1 % |",
        "| `click` | 203 | 52.3 % | 82 | 44.8 % |",
        "| `coordinate_only` | the same action at another place | keep | 121 | 31.2 % |",
        "| screenshots | 107 | 10 | 1 |",
        "| 1 | 47 | 48.5 % | 20.0 % | 25 | 26.0 % | 28.6 % |",
        "a uniform guess is right in 28.6 % of the rows",
        "Sampling temperature: not recorded in all 117 sets.",
        "An accuracy near 50 % measured on it has a 95 % interval of ± 34.6 and ± 24.5 points",
        "**One host.**",
        "50225751a64c634861da0387065f8ba32aff38cb261ea0b45684c7484d5cb602",
    ):
        assert line in card, line
    assert "seconds" not in _body(card)
    assert manifest["environment"]["created"] not in card
    assert "None" not in _body(card)


def test_tables_are_whole_and_code_compiles(manifest: dict[str, Any]) -> None:
    card = render(manifest)
    assert len(list(_tables(card))) == 14
    assert all(len(set(cells)) == 1 for cells in _tables(card))
    snippets = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    assert len(snippets) == 3
    calls = [node for s in snippets for node in ast.walk(ast.parse(s)) if isinstance(node, ast.Call)]
    assert sum(isinstance(c.func, ast.Name) and c.func.id == "load_dataset" for c in calls) == 3


def test_the_way_through_load_py_is_shown_where_there_is_one(manifest: dict[str, Any]) -> None:
    for line in (
        "hf download me/action-reward-models-data load.py --repo-type dataset --revision v1.0.0 --local-dir .\n",
        'table = load("bt_pairs", "train")  # of v1.0.0\n',
        'table = join(table, load("states", "train"), on="state_id")\n',
    ):
        assert line in render(manifest)
    del manifest["identity"]["tables"]["states"]
    assert "join(" not in render(manifest)
    del manifest["environment"]["files"]["load.py"]
    assert "load.py" not in render(manifest)
    del manifest["environment"]
    assert "load.py" not in render(manifest)


def test_the_order_of_the_keys_does_not_matter(manifest: dict[str, Any]) -> None:
    def turned(value: Any) -> Any:
        return {k: turned(value[k]) for k in reversed(list(value))} if isinstance(value, dict) else value

    once = render(manifest)
    assert render(turned(manifest)) == once
    assert render(json.loads(json.dumps(manifest, sort_keys=True))) == once


def test_hostile_text_stays_text(manifest: dict[str, Any]) -> None:
    plain = render(manifest)
    identity = manifest["identity"]
    kept = {"manifest", "schema", "images", "path"}

    def poison(value: Any, key: str) -> Any:
        if isinstance(value, dict):
            return {k: poison(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [poison(v, key) for v in value]
        return HOSTILE if isinstance(value, str) and key not in kept else value

    names = {k: identity[k] for k in ("name", "namespace", "version")}
    licences = front_matter(manifest)
    poisoned = poison(manifest, "")
    poisoned["identity"] |= names
    for source in poisoned["identity"]["sources"]:
        source["files"][0]["path"] = HOSTILE
        source["constants"] = {HOSTILE: HOSTILE, "teacher": HOSTILE, "nested": {"a": HOSTILE}}
    poisoned["identity"]["ledger"]["states"]["excluded"] = {HOSTILE: 3}
    for name in ("label_status", "comparisons", "pairs", "relations", "temperature", "screenshot_ops"):
        poisoned["identity"]["statistics"][name] = {HOSTILE: 4, "b": 1}
    card = render(poisoned)

    body = _body(card)
    assert all(len(set(cells)) == 1 for cells in _tables(card))
    assert len(list(_tables(card))) == len(list(_tables(plain))) + 2  # conversions, and temperatures as a table
    drawn = re.compile(r"^```mermaid\n.*?^```$", re.MULTILINE | re.DOTALL)  # test_lineage_section.py reads it
    body = drawn.sub("", body)
    assert not re.search(r"<(?!code>|/code>|!-- action-reward-models:end -->\n\Z)", body)
    assert not re.search(r"\]\((?!#)|javascript:|http:|www\.|\{\{|\{%", re.sub(r"`[^`\n]*`", "", body))
    assert markup(body) == markup(_body(plain))
    assert card.count("<!--") == 2
    assert "\u2028" not in card
    assert "\u202e" not in card
    head = yaml.safe_load(card.split("\n---\n")[0])
    assert head | {"license": 0, "license_name": 0} == licences | {"license": 0, "license_name": 0}
    assert head["license"] == "other"
    assert re.fullmatch(r"[a-z0-9.-]{1,60}", head["license_name"])


def test_a_manifest_without_rows_and_statistics_renders(manifest: dict[str, Any]) -> None:
    identity = manifest["identity"]
    identity.update(statistics={}, prompts=[], sources=[], ledger={})
    identity["parameters"].update(selection_sft=None, bt_pairs=None)
    for table in identity["tables"].values():
        table.update(rows=0, splits={})
    del manifest["environment"]
    card = render(manifest)
    assert _sections(card) == ["Tables", "Know before you use it", "What was left out", "Split", "Check and rebuild"]
    assert "**No labels.**" in card
    assert "**There is no validation split.**" in card
    assert "More Information Needed" not in card


def test_only_recorded_states(manifest: dict[str, Any]) -> None:
    identity = manifest["identity"]
    identity["tables"] = {"states": identity["tables"]["states"]}
    identity["parameters"].update(selection_sft=None, bt_pairs=None, tables=["states"])
    identity["prompts"] = []
    identity["statistics"] = {"screenshots": {"without": 153}, "states": {"train": 153}}
    card = render(manifest)
    assert "**Text only.**" in card
    assert "None: what the agent saw" in card
    assert "Pairs" not in _sections(card)
    assert "Labels and candidates" not in _sections(card)


@pytest.mark.parametrize("n", [0, 1])
def test_counts_of_nothing_divide_nothing(manifest: dict[str, Any], n: int) -> None:
    def flat(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: flat(v) for k, v in value.items()}
        return n if isinstance(value, int) and not isinstance(value, bool) else value

    identity = manifest["identity"]
    identity["statistics"], identity["ledger"] = flat(identity["statistics"]), flat(identity["ledger"])
    card = render(manifest)
    assert "nan" not in _body(card)
    assert "inf " not in _body(card)


def test_what_limits_the_data_is_said(manifest: dict[str, Any]) -> None:
    identity = manifest["identity"]
    identity["sources"][2]["constants"] = {}
    identity["sources"][1] |= {"license": "cc-by-4.0", "constants": {"sampling": {"top_p": 0.9}}}
    identity["parameters"]["selection_sft"]["shuffle"] = False
    identity["parameters"]["gates"]["secrets"] = "error"
    identity["ledger"]["bt_pairs"]["status"] = {"dropped": 200, "quarantined": 5}
    identity["tables"]["states"]["images"] = "reference"
    identity["statistics"] |= {
        "leakage": {"selection_sft": 2, "bt_pairs": 0},
        "unparsed_candidates": {"all": 7},
        "screenshot_ops": {"rgb": 4},
        "temperature": {"0.7": 100, "1": 10, "not recorded": 7},
        "distinct": identity["statistics"]["distinct"] | {"host": {"train": 5, "validation": 2, "both": 2}},
    }
    card = render(manifest)
    for words in (
        "**The teacher is not declared**",
        "`selection_sft` shows the sampled order",
        "**Quarantined** until a person has looked at them, and not in the tables: `bt_pairs` (5 units).",
        "Rows of `states` hold the sha256 of each screenshot",
        "**The splits leak.**",
        "**2 prompts with the same pictures stand in both splits.**",
        "**7 candidates** cannot be read as an action",
        "| rgb | 4 | 100.0 % |",
        "| 0.7 | 100 | 85.5 % |\n| 1 | 10 | 8.5 % |\n| not recorded | 7 | 6.0 % |",
        "**New tasks, not new sites.**",
        "- **Licence:** `mit`, and of some sources `cc-by-4.0` ([by source](#sources-and-licences))\n",
        "**Licences differ.**",
        "`sampling.top_p: 0.9`",
        "**Not declared:** the policy that was sampled.",
        "is not recorded for 7 candidate sets",
    ):
        assert words in card, words
    assert "personal data or secrets in texts" not in card, "those were searched"
    assert "personal data or secrets in screenshots" in card


@pytest.mark.parametrize(
    ("redact", "replaced", "secrets", "words"),
    [
        ([], {}, "error", []),
        (None, {}, "error", []),
        (["secrets"], {}, "error", ["**Nothing was redacted.** `secrets` were declared"]),
        (
            ["secrets", "addresses"],
            {"e-mail address": 1200, "password": 1, "<b>": 2},
            "error",
            [
                "**Redacted.** 1,203 places in the records of the sources became `[redacted <kind>]`",
                "(`addresses` and `secrets`): `e-mail address` (1,200 places), <code>&#60;b&#62;</code> (2 places) and "
                "`password` (1 place).",
            ],
        ),
        ([], {}, "warn", ["**Secrets and e-mail addresses are let through.**"]),
    ],
)
def test_what_was_redacted_is_said(
    manifest: dict[str, Any], redact: Any, replaced: dict[str, int], secrets: str, words: list[str]
) -> None:
    identity = manifest["identity"]
    identity["parameters"] |= {"redact": redact}
    identity["parameters"]["gates"]["secrets"] = secrets
    if replaced:
        identity["statistics"]["redacted"] = replaced
    known = render(manifest).partition("## Know before you use it")[2].partition("## What was left out")[0]
    assert all(word in known for word in words), known
    starts = ("- **Redacted", "- **Nothing was redacted", "- **Secrets and")
    assert sum(line.startswith(starts) for line in known.splitlines()) == bool(words)


def test_a_source_on_the_hub_shows_its_licence_and_where_it_is_from(manifest: dict[str, Any]) -> None:
    commit, identity = "a" * 40, "b" * 64
    sources = manifest["identity"]["sources"]
    sources[0] |= {"license": "cc-by-4.0", "origin": None}
    sources[1] |= {"license": "cc-by-nc-4.0"}
    sources[1]["origin"] = {"repo": "lab/raw", "revision": "main", "commit": commit, "identity_sha256": None}
    sources[2]["origin"] = {"repo": "lab/up", "revision": "v1.2.0", "commit": None, "identity_sha256": identity}
    card = render(manifest)
    from_, _, licences = card.partition("## Sources and licences")
    rows = re.findall(r"^\| (\d) \|.*\| `(\S+)` \|[^|]*\|[^|]*\|$", licences, re.MULTILINE)
    assert rows[:3] == [("1", "cc-by-4.0"), ("2", "cc-by-nc-4.0"), ("3", sources[2]["license"])]
    assert f"Source 2: files at `main` of [lab/raw](/datasets/lab/raw/tree/{commit}), commit `{commit}`" in from_
    assert f"Source 3: version `v1.2.0` of [lab/up](/datasets/lab/up/tree/v1.2.0), identity `{identity}`" in from_


def test_set_sizes_that_differ(manifest: dict[str, Any]) -> None:
    statistics = manifest["identity"]["statistics"]
    statistics |= {"set_size": {"2": 50, "5": 50, "10": 1}, "picked_slot": {"0": 60, "9": 1}}
    card = render(manifest)
    assert "estimated from all sets" in card
    assert re.search(r"^\| 10 \| 1 \| 1.6 % \| 0.1 % \| 0 \| 0.0 % \| 0.0 % \|$", card, re.MULTILINE)
    assert "| 10 | 1 | 1.0 % |" in card


def test_many_source_files_are_cut(manifest: dict[str, Any]) -> None:
    source = manifest["identity"]["sources"][0]
    source["files"] = [source["files"][0] | {"path": f"data/{n}.jsonl"} for n in range(200)]
    assert "And 152 more files, listed in `manifest.json`." in render(manifest)


@pytest.mark.parametrize(("key", "value"), [("name", "a b"), ("namespace", "a\n"), ("version", "1.0"), ("name", '"')])
def test_names_that_no_repository_can_have_are_refused(manifest: dict[str, Any], key: str, value: str) -> None:
    manifest["identity"][key] = value
    with pytest.raises(ArmError, match="names that no dataset can have"):
        render(manifest)


def test_a_manifest_of_another_version_is_refused(manifest: dict[str, Any]) -> None:
    manifest["manifest"] = 2
    with pytest.raises(ArmError, match="version 1"):
        render(manifest)


def test_every_reason_has_a_meaning() -> None:
    assert [(s, r) for s, reasons in REASONS.items() for r in reasons if not meaning(s, r)] == []


def test_withdrawn_versions_are_named_newest_first_and_their_reasons_are_text(manifest: dict[str, Any]) -> None:
    plain = render(manifest)
    assert "ithdrawn" not in plain
    reasons = {"0.9.0": "labels of *another* run", "0.10.0": "<b>[x](http://y)</b> | \n- z", "2.0.0": "newer"}
    manifest["environment"]["withdrawn"] = reasons
    card = render(manifest)
    first, second, third = re.findall(r"^- `v[0-9.]+`: .*$", card, re.MULTILINE)
    assert first == "- `v2.0.0`: newer"
    assert second.startswith("- `v0.10.0`: &#60;b&#62;&#91;x&#93;(http&#58;//y)&#60;/b&#62; &#124; - z")
    assert third == "- `v0.9.0`: labels of &#42;another&#42; run"
    assert card.index("**Withdrawn versions**") < card.index("## Load")
    assert "This version is withdrawn" not in card


def test_a_withdrawn_version_says_so_first(manifest: dict[str, Any]) -> None:
    version = manifest["identity"]["version"]
    manifest["environment"]["withdrawn"] = {version: "# half of the labels"}
    _, _, body = render(manifest).partition("# me/")
    assert body.split("\n")[2] == "> **This version is withdrawn: do not use it.** &#35; half of the labels"
