"""What a card says before somebody trusts a number, for audits with findings, without any, and with hostile words."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.builders import ledger, spec
from action_reward_models.builders.importers import IMPORTERS, yields
from action_reward_models.cards import facts, origins
from action_reward_models.cards.audits import MAX_NAMED, MAX_VERBS
from action_reward_models.cards.dataset import render
from action_reward_models.cards.figures import figures
from action_reward_models.schemas.store import TABLES
from action_reward_models.tests.cards.model.read import markup
from action_reward_models.tests.cards.test_dataset import HOSTILE, _body, _tables


def _pickers(**shares: Any) -> dict[str, Any]:
    names = ("uniform", "first", "most_common", "word_overlap", "longest", "shortest")
    return {name: {"exact": 0.25, "equivalent": 0.25} for name in names} | shares


AUDITS: dict[str, Any] = {
    "overlap": {
        "states": {
            "content": {"validation": 12, "both": 0}, "episode": {"validation": 4, "both": 0},
            "task": {"validation": 3, "both": 0}, "screenshot": {"validation": 10, "both": 1, "near": 3},
            "host": {"validation": 1, "both": 1},
        },
        "selection_sft": {
            "state": {"validation": 689, "both": 688}, "episode": {"validation": 7, "both": 7},
            "task": {"validation": 3, "both": 0}, "prompt": {"validation": 8, "both": 0},
            "screenshot": {"validation": 7, "both": 0, "near": 2},
        },
    },
    "screenshots": [{"validation": f"v{n}", "train": f"t{n}", "bits": n} for n in range(20)],
    "near_tasks": {
        "validation": 3, "near": 1,
        "named": [{"validation": "Buy tea", "train": "Buy teas", "similarity": 0.812, "states": ["s1", "s2"]}],
    },
    "benchmarks": [
        {
            "name": "om2w", "tasks": 300, "exact": 1, "normalised": 0, "near": 1,
            "states": {"train": 9, "validation": 2},
            "named": [
                {"ours": "Buy tea", "theirs": "Buy tea", "how": "exact", "similarity": 1.0, "state": "s1"},
                {"ours": "Buy teas", "theirs": "Buy tea", "how": "near", "similarity": 0.85, "state": "s2"},
            ],
        }
    ],
    "conflicting_picks": {
        "handling": "quarantine", "groups": 2, "labels": 5, "named": [{"label": "l1", "contradicts": "l2"}],
    },
    "agreement": {
        "draws": {"pairs": 103, "same": 93, "share": 0.9029},
        "repeats": {
            "judge": {"pairs": 40, "exact": 30, "equivalent": 36, "exact_share": 0.75, "equivalent_share": 0.9}
        },
    },
    "slots": {
        "sampled": {"n": 97, "observed": [47, 50], "expected": [48.5, 48.5], "statistic": 68.52, "df": 1, "p": 1e-14},
        "shown": {"n": 96, "observed": [48, 48], "expected": [48.0, 48.0], "statistic": 0.0, "df": 1, "p": 0.6812},
    },
    "no_choice": {"sets": 117, "one_action": 1, "near_only": 2, "share": 0.02564},
    "equivalent_picks": {"labels": 97, "same": 66, "near": 3, "share": 0.6804},
    "baselines": {
        "labels": {"n": 97, **_pickers(most_common={"exact": 0.732, "equivalent": 0.74})},
        "selection_sft": {
            "train": {"n": 88, **_pickers()},
            "validation": {"n": 8, **_pickers(word_overlap={"exact": 0.75, "equivalent": 0.75})},
        },
    },
    "headroom": {"sets": 97, "differs": 26, "share": 0.268, "verdict": "go"},
    "distributions": {
        "lengths": {"candidate": {"n": 585, "mean": 81.24, "median": 64, "p95": 96, "bins": {"64": 585}}},
        "verbs": {"candidates": {f"verb{n:02}": 50 - n for n in range(20)}, "picks": {"verb00": 97}},
        "pair_types": {"train": {"click": 76}},
        "hosts": {
            "distinct": 30, "top": [{"host": f"h{n}.test", "states": 9} for n in range(20)],
            "others": {"hosts": 10, "states": 10},
        },
    },
}  # fmt: skip


@pytest.fixture
def audited(manifest: dict[str, Any]) -> dict[str, Any]:
    manifest["identity"]["statistics"]["audits"] = copy.deepcopy(AUDITS)
    files = {f"assets/{name}.png": {"sha256": "0" * 64, "bytes": 9} for name in ("slots", "lengths", "other")}
    manifest["environment"]["files"] |= files
    return manifest


def test_each_finding_is_said(audited: dict[str, Any]) -> None:
    card = render(audited)
    for line in (
        "| Pick | labels (97), exact | labels (97), equivalent | train rows (88) | validation rows (8) |",
        "| most common action | 73.2 % | 74.0 % | 25.0 % | 25.0 % |",
        "On validation rows (8), a model has to beat 75.0 % (most words of the task).",
        "**Headroom.** In 26 of 97 judged sets (26.8 %) the pick is not the action that most candidates have. "
        "That is over 25 %",
        "**No real choice** in 3 of 117 candidate sets (2.6 %, 2 of them clicks on practically one place)",
        "**Equivalent picks.** In 68.0 % of 97 usable labels another candidate does the same as the picked one "
        "(66 the very same action and 3 a nearly equal one)",
        "as sampled χ² 68.52 with 1 degree of freedom, p below 0.001; "
        "as `selection_sft` shows them χ² 0 with 1 degree of freedom, p = 0.681.",
        "Asked twice about one set, `judge` picks the same action in 75.0 % of 40 pairs of replies",
        "the two picks are the same in 90.3 % of 103 pairs of draws",
        "**Contradicting picks.** 5 labels in 2 groups pick different actions for equal states and equal alternatives, "
        "and are in quarantine: `l1` and `l2`.",
        "| Table | States | Episodes | Tasks | Prompts | Screenshots | Alike | Hosts |",
        "| `states` | 0 of 12 | 0 of 4 | 0 of 3 | – | **1 of 10** | 3 | 1 of 1 |",
        "| `selection_sft` | **688 of 689** | **7 of 7** | 0 of 3 | 0 of 8 | 0 of 7 | 2 | – |",
        "| `v0` | `t0` | 0 |",
        "1 of 3 tasks of validation is nearly a task of train, such as:",
        "| Buy tea | Buy teas | 0.81 |",
        "| om2w | 300 | 1 | 0 | 1 | 9 | 2 |",
        "| om2w | Buy teas | Buy tea | nearly the same | 0.85 | `s2` |",
        "Hosts: `h0.test` (9 states), `h1.test` (9 states), `h2.test` (9 states), `h3.test` (9 states) and `h4.test` "
        "(9 states) and 25 more.",
        "| `candidate` | 585 | 81 | 64 | 96 |",
        "| `verb00` | 50 | 6.2 % | 97 | 100.0 % |",
        f"| {20 - MAX_VERBS} others |",
        "![Share of the picks by position, first to last: sampled 48.5 %, 51.5 %; shown 50.0 %, 50.0 %]"
        "(assets/slots.png)",
        "![Lengths in characters, medians: candidate 64](assets/lengths.png)",
    ):  # fmt: skip
        assert line in card, line
    assert "assets/other" not in card, "nobody knows what it shows"
    assert f"`v{MAX_NAMED - 1}`" in card
    assert f"`v{MAX_NAMED}`" not in card


def test_without_findings_it_says_what_is_not_known(audited: dict[str, Any]) -> None:
    audits = audited["identity"]["statistics"]["audits"]
    audits |= {
        "benchmarks": [], "screenshots": [],
        "agreement": {"draws": {"pairs": 0, "same": 0, "share": None}, "repeats": {}},
        "conflicting_picks": {"handling": "keep", "groups": 0, "labels": 0, "named": []},
        "near_tasks": {"validation": 3, "near": 0, "named": []},
        "slots": {"sampled": None, "shown": None},
        "equivalent_picks": {"labels": 97, "same": 0, "near": 0, "share": 0.0},
    }  # fmt: skip
    card = render(audited)
    for words in (
        "No list of a benchmark's tasks was given",
        "**The teacher's own noise is not known**",
        "0 of 3 tasks of validation are nearly a task of train.",
        "**No equivalent picks.**",
    ):
        assert words in card, words
    assert "Contradicting" not in card
    assert "χ²" not in card


@pytest.mark.parametrize("name", sorted(AUDITS))
def test_an_audit_may_be_missing(audited: dict[str, Any], name: str) -> None:
    del audited["identity"]["statistics"]["audits"][name]
    assert "## Before you trust a number" in render(audited)


def test_nothing_was_judged(audited: dict[str, Any]) -> None:
    nothing = {"n": 0, **dict.fromkeys(_pickers())}
    audited["identity"]["statistics"]["audits"] |= {
        "baselines": {"labels": nothing, "selection_sft": {}},
        "headroom": {"sets": 0, "differs": 0, "share": None, "verdict": None},
        "no_choice": {"sets": 0, "one_action": 0, "near_only": 0, "share": None},
        "equivalent_picks": {"labels": 0, "same": 0, "near": 0, "share": None},
        "overlap": {},
    }
    section = render(audited).partition("## Before you trust")[2].partition("\n## ")[0]
    assert "Baselines" not in section
    assert "Headroom" not in section
    assert "Is validation new?" not in section
    assert "None" not in section


def test_what_was_built_before_has_no_such_section(manifest: dict[str, Any]) -> None:
    card = render(manifest)
    assert "Before you trust" not in card
    assert "![" not in card


def test_a_leaking_rule_says_so_with_what_it_leaks(audited: dict[str, Any]) -> None:
    audited["identity"]["parameters"]["split"]["rule"] = "legacy_draws"
    split = render(audited).partition("## Split\n")[2].partition("\n## ")[0]
    assert split.strip().startswith("**This split leaks.**")
    assert (
        "- `selection_sft`: 688 of the 689 states and 7 of the 7 episodes of validation are also in train.\n" in split
    )
    assert "Tasks are split, not rows" not in split


def test_hostile_words_stay_words(audited: dict[str, Any]) -> None:
    plain = render(audited)
    audits = audited["identity"]["statistics"]["audits"]
    audits["near_tasks"]["named"][0] |= {"validation": HOSTILE, "train": HOSTILE}
    audits["screenshots"] = [{"validation": HOSTILE, "train": HOSTILE, "bits": n} for n in range(20)]
    audits["benchmarks"][0]["name"] = HOSTILE
    for named in audits["benchmarks"][0]["named"]:
        named |= {"ours": HOSTILE, "theirs": HOSTILE, "state": HOSTILE, "how": HOSTILE}
    audits["conflicting_picks"]["named"] = [{"label": HOSTILE, "contradicts": HOSTILE}] * 9
    audits["agreement"]["repeats"] = {HOSTILE: audits["agreement"]["repeats"]["judge"]}
    audits["distributions"]["verbs"]["candidates"] = {HOSTILE: 60} | {f"v{n}": n for n in range(19)}
    audits["distributions"]["hosts"]["top"][0]["host"] = HOSTILE
    audits["distributions"]["lengths"][HOSTILE] = audits["distributions"]["lengths"]["candidate"]
    audited["environment"]["files"][f"assets/{HOSTILE}.png"] = {"sha256": "0" * 64, "bytes": 9}
    audits["overlap"][HOSTILE] = audits["overlap"]["selection_sft"]
    card = render(audited)
    body = _body(card)
    assert all(len(set(cells)) == 1 for cells in _tables(card))
    assert markup(re.sub(r"```mermaid.*?```", "", body, flags=re.DOTALL)) == markup(
        re.sub(r"```mermaid.*?```", "", _body(plain), flags=re.DOTALL)
    )
    assert not re.search(r"<(?!code>|/code>|!-- action|br/>)", body)
    assert "y" * 400 not in body
    assert len(card) < len(plain) + 80_000


def test_names_that_the_card_keeps_beside_the_builders() -> None:
    """Cards know the manifest only, and are told nothing by the builders: what both list has to be the same."""
    assert tuple(ledger.UNITS) == facts.STAGES
    assert facts.READY == spec.READY
    more = {(kind, fmt): yields(kind, fmt) for kind, fmt in IMPORTERS}
    usual = {
        key: found for key, found in more.items() if found == (key[0],) or (key[0], found) == ("episodes", ("states",))
    }
    assert {key: found for key, found in more.items() if key not in usual} == origins.YIELDS
    assert set(facts.LEARNED) < set(TABLES)


def test_a_caption_is_known_for_every_figure(audited: dict[str, Any]) -> None:
    drawn = figures(audited["identity"])
    assert {Path(name).stem for name in drawn} == {"slots", "pair_types", "lengths", "exclusions"}
    audited["environment"]["files"] |= {name: {"sha256": "0" * 64, "bytes": 9} for name in drawn}
    card = render(audited)
    assert all(card.count(f"]({name})") == 1 for name in drawn)
    assert all(data.startswith(b"\x89PNG\r\n\x1a\n") for data in drawn.values())
