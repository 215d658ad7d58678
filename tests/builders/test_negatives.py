"""Rejected actions that nobody sampled: what is spoilt is surely wrong, can be read, and comes from a hash."""

from __future__ import annotations

import json
from collections import Counter
from math import hypot
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from action_reward_models.builders.negatives import FAR, corrupted
from action_reward_models.builders.spec import NegativeSpec, PairSpec, PromptSpec
from action_reward_models.builders.spoilt_text import other_key, other_text, other_url
from action_reward_models.schemas.actions import DIALECTS, Parsed, View, element_index, parse
from action_reward_models.schemas.actions.model import is_point
from action_reward_models.schemas.ids import hash_order, task_words

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

TABLES = Path(__file__).parents[1] / "schemas" / "actions"
READABLE = [
    (group["dialect"], case["response"])
    for name in ("parses.yaml", "field.yaml")
    for group in yaml.safe_load((TABLES / name).read_text("utf-8"))
    for case in group["cases"]
    if "calls" in case
]
SCREEN = View("pixel", 1280, 720)


def _spoilt(dialect: str, response: str, view: View = SCREEN, seed: object = "s") -> Parsed | None:
    chosen = parse(dialect, response)
    assert chosen.parse_error is None
    return corrupted(chosen, dialect, view, {chosen.key}, seed)


def _texts(response: str, dialect: str = "function", seeds: int = 40) -> set[str]:
    """All that a response is spoilt to."""
    made = [_spoilt(dialect, response, seed=seed) for seed in range(seeds)]
    return {m.action for m in made if m is not None}


# -- spoilt actions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dialect", "response"), READABLE)
def test_in_every_dialect_one_thing_is_wrong(dialect: str, response: str) -> None:
    """A pair whose rejected side no actor could have written teaches the form, not the action."""
    chosen = parse(dialect, response)
    for seed in range(6):
        made = corrupted(chosen, dialect, SCREEN, {chosen.key}, seed)
        if made is None:
            continue
        assert made.key != chosen.key
        assert made.thought == chosen.thought
        again = parse(dialect, DIALECTS[dialect].render(made.calls))
        assert [(c.verb, c.arguments) for c in again.calls] == [(c.verb, c.arguments) for c in made.calls]
        differing = [(a, b) for a, b in zip(chosen.calls, made.calls, strict=True) if a.arguments != b.arguments]
        if chosen.calls[0].verb == "stop" and made.calls[0].verb in ("back", "wait"):
            continue
        ((before, after),) = differing
        assert (before.verb, before.arguments.keys()) == (after.verb, after.arguments.keys())
        changed = [key for key in before.arguments if before.arguments[key] != after.arguments[key]]
        assert len(changed) == 1 or before.verb == "scroll"
        for key in changed:
            if is_point(key, before.arguments[key]):
                (x, y), (px, py) = after.arguments[key], before.arguments[key]
                assert 0 <= x < 1280
                assert 0 <= y < 720
                assert hypot((x - px) / 1.28, (y - py) / 0.72) >= FAR


def test_every_dialect_of_tools_can_be_spoilt() -> None:
    spoilt = Counter(dialect for dialect, response in READABLE if _spoilt(dialect, response))
    assert set(spoilt) == set(DIALECTS) - {"text"}
    assert min(spoilt.values()) >= 3


@pytest.mark.parametrize(
    ("dialect", "response"),
    [
        ("function", "wait(3)"),
        ("function", "back()"),
        ("function", 'goto("https://a.test/")'),
        ("function", 'type("")'),
        ("function", "scroll(0, 0)"),
        ("openwebrl", '<tool_call>{"name": "switch_tab", "arguments": {"tab_id": 1}}</tool_call>'),
        ("react", "Action: go to desk 1"),
        ("text", "First, add 2 and 3."),
    ],
)
def test_what_has_no_opposite_is_not_spoilt(dialect: str, response: str) -> None:
    assert _spoilt(dialect, response) is None


def test_without_a_size_no_point_is_moved() -> None:
    assert _spoilt("function", "click(1, 1)", View("pixel", None, None)) is None
    assert _spoilt("function", "click(1, 1)", View("norm1000", None, None)) is not None


def test_no_point_falls_into_the_same_element() -> None:
    """Two places in one button are the same action."""
    box = {"index": 4, "tag": "div", "text": "", "box": [0, 0, 1280, 600]}
    view = View("pixel", 1280, 720, [box])
    for seed in range(50):
        made = _spoilt("function", "click(30, 30)", view, seed)
        assert made is not None
        assert element_index(made.calls, view) is None
    everywhere = View("pixel", 1280, 720, [{**box, "box": [0, 0, 1280, 720]}])
    assert _spoilt("function", "click(30, 30)", everywhere) is None


def test_the_form_stays_the_actors_own() -> None:
    """Spaces, quotes, order and decimals must not tell which side was made up."""
    (turned,) = _texts('<tool_call>{"arguments":{"direction":"Down"},"name":"scroll"}</tool_call>', "openwebrl")
    assert turned == '{"arguments":{"direction":"Up"},"name":"scroll"}'
    assert _texts("scroll( 0,-120 )") == {"scroll( 0,120 )"}
    assert all(t.startswith("click( ") for t in _texts("click( 206,   162)"))
    for text in _texts("mouse_click(x=640.0, y=360.0, button='left')", "molmoweb"):
        assert text.count(".0") == 2
    for text in _texts("click(0.25, 7.5)"):
        assert all(len(number.partition(".")[2]) <= 2 for number in text[6:-1].split(", "))
    assert any("." in text for text in _texts("click(0.25, 7.5)"))
    assert all(t.startswith("pyautogui.write('") and t.endswith(", interval=0.1)")
               for t in _texts("```python\npyautogui.write('abc', interval=0.1)\n```", "desktop"))  # fmt: skip


def test_an_end_goes_on_or_answers_otherwise() -> None:
    texts = _texts('stop("42 boxes")')
    assert {"back()", "wait(1)"} < texts
    assert any(text.startswith('stop("') for text in texts)
    assert _texts("```FAIL```", "desktop") == {"time.sleep(1)", "WAIT"}
    assert all(text.startswith("Finish[") for text in _texts("Action: Finish[42]", "react"))


def test_one_call_of_several_is_spoilt() -> None:
    texts = _texts('click(10, 20)\ntype("abc")')
    assert {text.startswith("click(10, 20)") for text in texts} == {True, False}
    assert all(len(text.split("\n")) == 2 for text in texts)


# -- texts, keys, addresses --------------------------------------------------------------------------------------------


def _drawn(change: Any, text: str) -> set[str | None]:
    found = set()
    for seed in range(60):
        state = [0]

        def below(limit: int, seed: int = seed, state: list[int] = state) -> int:
            state[0] += 1
            return int.from_bytes(hash_order(seed, state[0])[:8], "big") % limit

        found.add(change(text, below))
    return found


@pytest.mark.parametrize(
    "text", ["red shoes", "42", "a", "Ä ö", "日本語", "x@y.test", "the the", " a  b\n", "№ 7", "1.50"]
)
def test_another_text_has_other_words(text: str) -> None:
    for changed in _drawn(other_text, text):
        assert changed is not None
        assert task_words(changed) not in ("", task_words(text))


def test_yes_becomes_no() -> None:
    assert _drawn(other_text, "Yes") == {"No"}
    assert _drawn(other_text, " false ") == {" true "}
    assert _drawn(other_text, "") == {None}
    assert _drawn(other_text, "!?") == {"!", "?"}


@pytest.mark.parametrize(
    ("key", "same"),
    [
        ("Enter", "return"),
        ("esc", "escape"),
        ("ENTER", "return"),
        ("ArrowDown", "down"),
        ("del", "delete"),
        ("F5", "f5"),
    ],
)
def test_another_key_is_written_alike(key: str, same: str) -> None:
    for changed in _drawn(other_key, key):
        assert changed is not None
        assert changed.lower().removeprefix("arrow") not in (same, key.lower())
        assert changed.isupper() == key.isupper() or key == "F5"
        assert changed.islower() == key.islower()


def test_a_chord_keeps_what_is_held() -> None:
    for changed in _drawn(other_key, "Control+a"):
        assert changed is not None
        assert changed[:8] == "Control+"
        assert changed[8:] in set("bcdefghijklmnopqrstuvwxyz")
    assert _drawn(other_key, "+") != {"+"}
    assert _drawn(other_key, " ") == {None}


def test_an_address_keeps_its_host() -> None:
    url = "https://shop.test:8080/a%2Fb/c?q=1#x"
    for changed in _drawn(other_url, url):
        assert changed is not None
        assert changed.startswith("https://shop.test:8080/")
        assert changed != url
        assert "%2F" in changed
    assert _drawn(other_url, "https://shop.test") == {None}
    assert _drawn(other_url, "https://[shop.test/a") == {None}


# -- in a build --------------------------------------------------------------------------------------------------------


def _pairs(corrupted: int = 0, cross_task: int = 0, **more: Any) -> PairSpec:
    return PairSpec(PromptSpec("scalar/1"), negatives=NegativeSpec(corrupted, cross_task), **more)


def _said(row: dict[str, Any], side: str) -> str:
    text: str = row[side][0]["content"][0]["text"]
    return text


def test_a_label_gets_as_many_spoilt_losers_as_declared(toy: Toy) -> None:
    label_id = f"{toy.scene('a', '<think>so</think><action>click(1, 1)</action>', 'stop()')}|-|-|0"
    build = toy.build(pairs=_pairs(2))
    rows = build.rows("bt_pairs", negative_source="corrupted")
    assert sorted(row["pair_id"] for row in rows) == [f"{label_id}|corrupted|{n}|scalar/1" for n in range(2)]
    for row in rows:
        assert (row["chosen_index"], row["rejected_index"], row["label_id"]) == (0, None, label_id)
        assert (row["relation"], row["pair_type"], row["margin"]) == ("coordinate_only", "click", None)
        assert _said(row, "rejected").startswith("Thought: so\nAction: click(")
    assert len({_said(row, "rejected") for row in rows}) == 2
    assert build.identity["statistics"]["negative_source"] == {"corrupted": 2, "sampled": 1}
    assert build.identity["ledger"]["bt_pairs"]["in"] == 3
    assert build.balanced()


def test_a_spoilt_loser_is_none_of_the_candidates(toy: Toy) -> None:
    """The opposite scroll was sampled, too: perhaps it is right."""
    label_id = f"{toy.scene('a', 'scroll(0, 3)', 'scroll(0, -3)')}|-|-|0"
    build = toy.build(pairs=_pairs(1))
    assert build.excluded("bt_pairs") == {"not_corruptible": [f"{label_id}|corrupted|0"]}
    assert build.balanced()


def test_points_are_shown_in_the_prompts_space(toy: Toy) -> None:
    toy.scene("a", "click(1, 1)", "stop()")
    prompt = PromptSpec("scalar/1", options={"coordinate_space": "norm1000"})
    row = toy.build(pairs=PairSpec(prompt, negatives=NegativeSpec(1))).row("bt_pairs", negative_source="corrupted")
    shown = _said(row, "rejected")
    x, y = (float(n) for n in shown[shown.index("(") + 1 : -1].split(","))
    assert hypot(x - 125, y - 125) >= FAR
    assert "click(125, 125)" in _said(row, "chosen")


def test_a_state_that_cannot_be_shown_takes_its_negatives_along(toy: Toy) -> None:
    toy.scene("a", "click(1, 1)", "stop()", picture=None)
    toy.scene("b", 'type("x")', "stop()", task="Other", picture=None)
    build = toy.build(pairs=_pairs(1, 1))
    assert list(build.excluded("bt_pairs")) == ["no_screenshot", "not_corruptible"]  # a point without a screen
    assert build.balanced()


def _tasks(toy: Toy, numbers: range) -> None:
    for n in numbers:
        toy.scene(f"e{n}", f"click({n % 8}, {n // 8})", 'press("Tab")', task=f"Task {n}", picture=n + 1)


def _cross(build: Build) -> dict[str, str]:
    return {row["pair_id"]: json.dumps(row) for row in build.rows("bt_pairs", negative_source="cross_task")}


def test_cross_task_losers_were_chosen_in_other_tasks(toy: Toy) -> None:
    toy.scene("a", 'type("mine")', "stop()", task="Same")
    toy.scene("b", 'type("too near")', "stop()", task="SAME!", picture=2)
    toy.scene("c", '<think>there</think><action>type("theirs")</action>', "stop()", task="Other", picture=3)
    build = toy.build(pairs=_pairs(0, 1))
    rows = {row["state_id"]: row for row in build.rows("bt_pairs", negative_source="cross_task")}
    assert set(rows) == {"a__t0", "b__t0", "c__t0"}
    assert _said(rows["a__t0"], "rejected") == _said(rows["b__t0"], "rejected")
    assert _said(rows["a__t0"], "rejected") == 'Thought: there\nAction: type("theirs")'
    assert rows["a__t0"]["rejected_index"] is None
    assert build.balanced()


def test_no_other_task_is_said(toy: Toy) -> None:
    """Of one task, of another dialect, of a screen that is larger, and of what a rule drops there is no loser."""
    label_id = f"{toy.scene('a', 'click(1, 1)', 'stop()')}|-|-|0"
    toy.scene("b", "click(5, 5)", "stop()", picture=2)
    toy.scene("c", "click(1.01, 1)", "wait(1)", task="Other", picture=3)
    toy.scene("d", "click(100, 100)", "wait(1)", task="Third", picture=4)
    assert f"{label_id}|cross_task|0" in toy.build(pairs=_pairs(0, 1)).excluded("bt_pairs")["no_other_task"]


def test_train_takes_no_action_of_validation(toy: Toy) -> None:
    _tasks(toy, range(30))
    build = toy.build(pairs=_pairs(0, 2), validation=0.4)
    chosen = {_said(row, "chosen"): row["split"] for row in build.rows("bt_pairs", negative_source="sampled")}
    taken = Counter(
        (r["split"], chosen[_said(r, "rejected")]) for r in build.rows("bt_pairs", negative_source="cross_task")
    )
    assert taken["train", "validation"] == 0
    assert taken["train", "train"] > 20
    assert sum(taken.values()) == 60


def test_negatives_do_not_depend_on_buckets_or_order(toy: Toy) -> None:
    _tasks(toy, range(20))
    one = toy.build(pairs=_pairs(1, 1), shards=1)
    toy.episodes.reverse()
    toy.sets.reverse()
    toy.labels.reverse()
    toy.labels.append(toy.labels[0])  # told twice
    four = toy.build(pairs=_pairs(1, 1), shards=4)
    assert one.digests["bt_pairs"] == four.digests["bt_pairs"]


def test_new_tasks_change_about_their_share_of_the_cross_task_pairs(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of new tasks takes over about a tenth of the picks, in a small pool and in a full one."""
    for kept in (256, 16):
        monkeypatch.setattr("action_reward_models.builders.pool.KEPT", kept)
        for records in (toy.episodes, toy.sets, toy.labels):
            records.clear()
        _tasks(toy, range(40))
        before = _cross(toy.build(pairs=_pairs(0, 1)))
        others = toy.build(pairs=_pairs(1, 0)).rows("bt_pairs")
        _tasks(toy, range(40, 44))
        after = _cross(toy.build(pairs=_pairs(0, 1)))
        assert len(before) == 40
        assert sum(after[pair] != row for pair, row in before.items()) <= 8
        ids = {row["pair_id"]: row for row in toy.build(pairs=_pairs(1, 0)).rows("bt_pairs")}
        assert all(ids[row["pair_id"]] == row for row in others)  # nothing else changes


def test_negatives_cost_nothing_when_none_are_declared(toy: Toy) -> None:
    toy.scene("a", "click(1, 1)", "stop()")
    build = toy.build()
    assert {row["negative_source"] for row in build.rows("bt_pairs")} == {"sampled"}
    assert "negatives" not in build.identity["parameters"]["bt_pairs"]
