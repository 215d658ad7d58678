"""Canonical episodes become states: what is read from where, and what is never guessed."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.builders.conftest import Toy

Record = dict[str, Any]


def _sha(toy: Toy, number: int) -> str:
    return hashlib.sha256(toy.png(number)).hexdigest()


def _call(name: str, arguments: Any, **more: Any) -> Record:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def _states(toy: Toy, **changes: Any) -> list[Record]:
    return sorted(
        toy.build(tables=("states",), **changes).rows("states"), key=lambda row: (row["episode_id"], row["turn"])
    )


def _state(toy: Toy) -> Record:
    (row,) = _states(toy)
    return row


def _turn(toy: Toy, *texts: str, **record: Any) -> Record:
    """The state of an episode of one turn that ``texts`` come before."""
    said = [toy.message("user", text) for text in texts]
    toy.episode("e", *said, toy.message("assistant", toy.response("click(1, 1)")), **record)
    return _state(toy)


# -- the task --------------------------------------------------------------------------------------------------------


def test_task_is_the_intent(toy: Toy) -> None:
    row = _turn(toy, "<user_request>not this</user_request>", metadata={"intent": "  Buy\nmilk "})
    assert row["task"] == "  Buy\nmilk "  # verbatim


def test_task_is_the_last_user_request(toy: Toy) -> None:
    texts = (
        "<user_request>older</user_request>",
        "<user_request>old</user_request><user_request>\nnew\n</user_request>",
        "URL: https://a.test/",
    )
    assert _turn(toy, *texts, metadata={"intent": None})["task"] == "new"


def test_a_page_that_an_agent_quotes_does_not_name_the_task(toy: Toy) -> None:
    first = toy.message("user", "<user_request>mine</user_request>")
    said = toy.message("assistant", "<user_request>the page's</user_request>")
    toy.episode("e", first, said, toy.message("tool", "<user_request>the page's</user_request>"), said)
    assert {row["task"] for row in _states(toy)} == {"mine"}


def test_task_is_the_first_user_text_without_its_frame(toy: Toy) -> None:
    row = _turn(toy, "Task: Click ONE.\nStep 1. URL: https://a.test/x\nCurrent URL: https://a.test/x", "Task: no")
    assert row["task"] == "Click ONE."


def test_no_task_is_null_and_the_episode_is_its_own_group(toy: Toy) -> None:
    row = _turn(toy, "Step 1. URL: https://a.test/")
    assert row["task"] is None
    assert row["task_group"] == hashlib.sha256(b"episode\ne").hexdigest()


def test_spellings_of_one_task_are_one_group(toy: Toy) -> None:
    """Users grouped tasks by hand: NFKC, case and punctuation do not make a new one."""
    for name, task in (("a", "Find “ONE”"), ("b", "find  one!"), ("c", "ＦＩＮＤ ONE")):
        toy.page(name, task=task)
    assert len({row["task_group"] for row in _states(toy)}) == 1


# -- ids ---------------------------------------------------------------------------------------------------------------


def test_id_is_the_sources_own(toy: Toy) -> None:
    assert _turn(toy, "x", metadata={"task_id": "t", "rollout_idx": 3})["state_id"] == "e__t0"


@pytest.mark.parametrize("task_id", ["t7", 7])
def test_id_is_task_and_rollout_so_that_two_rollouts_differ(toy: Toy, task_id: Any) -> None:
    """Several rollouts of one task had equal ids."""
    for rollout in (0, 1):
        toy.episode(
            None, toy.message("user", "x"), toy.message("assistant", "y"),
            metadata={"task_id": task_id, "rollout_idx": rollout},
        )  # fmt: skip
    rows = _states(toy)
    assert [row["state_id"] for row in rows] == [f"{task_id}_r0__t0", f"{task_id}_r1__t0"]
    assert rows[0]["task_group"] == rows[1]["task_group"]


def test_id_is_the_content_and_not_the_place(toy: Toy) -> None:
    """An id that counted lines would move when a record before it goes."""
    for said in ("y", "z"):
        toy.episode(None, toy.message("user", "x"), toy.message("assistant", said), metadata={"task_id": "t"})
    both = {row["state_id"] for row in _states(toy)}
    del toy.episodes[0]
    (alone,) = _states(toy)
    assert alone["state_id"] in both
    assert len(both) == 2
    assert alone["state_id"].startswith("ep-")


# -- addresses ---------------------------------------------------------------------------------------------------------


def test_url_and_host_come_from_the_newest_text_that_has_one(toy: Toy) -> None:
    said = toy.message("assistant", "y")
    user = toy.message("user", "Task: x\nStep 1. URL: http://First.test:8080/a?q=1#f")
    toy.episode("e", user, said, toy.message("tool", "moved\nActive tab: https://SECOND.test/b"), said,
                toy.message("tool", "nothing new"), said)  # fmt: skip
    rows = _states(toy)
    assert [row["url"] for row in rows] == ["http://First.test:8080/a?q=1#f", *["https://SECOND.test/b"] * 2]
    assert [row["host"] for row in rows] == ["first.test", "second.test", "second.test"]


@pytest.mark.parametrize(
    ("text", "url"), [("x", None), ("URL: about:blank", "about:blank"), ("URL: https://[x", "https://[x")]
)
def test_no_address_and_no_host_are_null(toy: Toy, text: str, url: str | None) -> None:
    row = _turn(toy, text)
    assert (row["url"], row["host"]) == (url, None)


# -- actions -----------------------------------------------------------------------------------------------------------


def _openwebrl(toy: Toy, content: str | None, *calls: Record) -> Record:
    """The only history entry of an episode whose first turn is ``content`` with ``calls``."""
    toy.dialect, toy.space = "openwebrl", "norm1000"
    said = toy.message("assistant", content, tool_calls=list(calls))
    toy.episode("e", toy.message("user", "x", 1), said, toy.message("tool", "ok", tool_call_id="c1"), said)
    first, second = _states(toy)
    (entry,) = second["history"]
    return {**entry, "demo_response": first["demo_response"]}


def test_structured_calls_are_written_out_and_parsed(toy: Toy) -> None:
    entry = _openwebrl(toy, "<think>there</think>", _call("click", {"point_2d": [250, 750]}))
    written = '<think>there</think>\n<tool_call>\n{"arguments":{"point_2d":[250,750]},"name":"click"}\n</tool_call>'
    assert entry["demo_response"] == written
    assert entry["thought"] == "there"
    assert json.loads(entry["action"]) == {"name": "click", "arguments": {"point_2d": [250, 750]}}


def test_arguments_as_json_text_are_the_same_call(toy: Toy) -> None:
    entry = _openwebrl(toy, None, _call("click", '{"point_2d": [250, 750]}'))
    assert json.loads(entry["action"])["arguments"] == {"point_2d": [250, 750]}


def test_several_calls_of_a_turn_are_all_kept_in_order(toy: Toy) -> None:
    entry = _openwebrl(
        toy, "", _call("write", {"text": "a"}), _call("press_keys", {"keys": ["Enter"]}), _call("go_back", {})
    )
    assert [json.loads(line)["name"] for line in entry["action"].split("\n")] == ["write", "press_keys", "go_back"]


@pytest.mark.parametrize(
    "arguments",
    [
        "{oops",
        '{"text": NaN}',
        '{"text": "\\ud800"}',
        '{"text": 1, "text": 2}',
        '{"text": ' + "[" * 5000 + "]" * 5000 + "}",
    ],
)
def test_arguments_that_are_no_json_stay_text(toy: Toy, arguments: str) -> None:
    entry = _openwebrl(toy, "hm", _call("write", arguments))
    (line,) = [line for line in entry["demo_response"].split("\n") if line.startswith("{")]
    assert json.loads(line) == {"name": "write", "arguments": arguments}


def test_long_integers_in_arguments_keep_every_digit(toy: Toy) -> None:
    entry = _openwebrl(toy, "", _call("write", '{"text": "x", "order": 12345678901234567890}'))
    assert "12345678901234567890" in entry["demo_response"]


def test_an_unreadable_turn_is_kept_verbatim(toy: Toy) -> None:
    broken = (
        '<think>t</think>\n<tool_call>\n{"name": "done", "arguments": {"message": "C:\\q"}}\n</tool_call><|im_end|>'
    )
    entry = _openwebrl(toy, broken)
    assert entry["demo_response"] == broken
    assert '"C:\\q"' in entry["action"]


def test_a_turn_that_says_nothing_has_no_demo_response(toy: Toy) -> None:
    toy.episode("e", toy.message("user", "x", 1), toy.message("assistant", None))
    assert _state(toy)["demo_response"] is None


# -- history and observations ------------------------------------------------------------------------------------------


def test_each_history_entry_has_what_was_seen_after_it(toy: Toy) -> None:
    def said(n: int) -> Record:
        return toy.message("assistant", toy.response(f"click({n}, {n})", f"thought {n}"))

    before = [toy.message("system", "rules"), toy.message("user", "Task: x", 1)]
    after = [toy.message("tool", "a"), toy.message("user", "b", 2)]
    toy.episode("e", *before, said(0), *after, said(1), said(2))
    rows = _states(toy)
    assert [row["turn"] for row in rows] == [0, 1, 2]
    assert [row["history"] for row in rows] == [
        [],
        [{"turn": 0, "thought": "thought 0", "action": "click(0, 0)", "observation": "a\nb"}],
        [
            {"turn": 0, "thought": "thought 0", "action": "click(0, 0)", "observation": "a\nb"},
            {"turn": 1, "thought": "thought 1", "action": "click(1, 1)", "observation": ""},
        ],
    ]


def test_text_only_agents_read_the_text_since_their_last_turn(toy: Toy) -> None:
    said = toy.message("assistant", "y")
    toy.episode("e", toy.message("system", "rules"), toy.message("user", "Task: x"), said,
                toy.message("tool", "page 1"), toy.message("user", "hint"), said, said)  # fmt: skip
    rows = _states(toy)
    assert [row["observation_text"] for row in rows] == ["Task: x", "page 1\nhint", ""]
    assert all(row["screenshot"] is row["width"] is row["height"] is row["screenshot_sha256"] is None for row in rows)


def test_the_newest_screenshot_wins_and_stays_until_the_next(toy: Toy) -> None:
    said = toy.message("assistant", "y")
    toy.episode("e", toy.message("user", "x", 1), toy.message("user", "y", 2), said, toy.message("tool", "no picture"),
                said, toy.message("tool", None, 3), said)  # fmt: skip
    rows = _states(toy)
    assert [row["screenshot_sha256"] for row in rows] == [_sha(toy, 2), _sha(toy, 2), _sha(toy, 3)]
    assert [(row["width"], row["height"], row["screenshot_ops"]) for row in rows] == [(8, 8, [])] * 3
    assert all(row["observation_text"] is None for row in rows)


def test_a_turn_before_the_first_screenshot_has_neither_picture_nor_text(toy: Toy) -> None:
    said = toy.message("assistant", "y")
    toy.episode("e", toy.message("user", "x"), said, toy.message("tool", "", 1), said)
    rows = _states(toy)
    assert [row["screenshot_sha256"] for row in rows] == [None, _sha(toy, 1)]
    assert rows[0]["observation_text"] is None


def test_pictures_of_other_turns_cost_nothing_in_the_messages(toy: Toy) -> None:
    """messages_json holds what the actor was shown before the turn, pictures as hashes and never as data."""
    said = toy.message("assistant", "y", tool_calls=[_call("go_back", {})], extra=1)
    toy.episode(
        "e",
        toy.message("system", "rules"),
        toy.message("user", "x", 1),
        said,
        toy.message("tool", "z", 2, tool_call_id="c1"),
        said,
    )
    second = json.loads(_states(toy)[1]["messages_json"])
    assert [message["role"] for message in second] == ["system", "user", "assistant", "tool"]
    assert second[1]["content"][1]["image_url"]["url"] == f"sha256:{_sha(toy, 1)}"
    assert second[2] == said  # verbatim, further keys too
    assert "base64" not in json.dumps(second)


def test_screenshots_beside_the_records(toy: Toy) -> None:
    (toy.folder / "shots").mkdir()
    (toy.folder / "shots" / "1 ü.png").write_bytes(toy.png(1))
    toy.page("e", picture="shots/1 ü.png")
    assert _state(toy)["screenshot"] == f"sha256:{_sha(toy, 1)}"


# -- elements ----------------------------------------------------------------------------------------------------------


def test_elements_belong_to_their_turn_and_candidates_name_the_one_they_hit(toy: Toy) -> None:
    said = toy.message("assistant", "y")
    elements = [
        [],
        [{"tag": "div", "text": "page", "box": [0, 0, 8, 8]}, {"tag": "button", "text": "ONE", "box": [1, 1, 2.5, 2]}],
    ]
    toy.episode("e", toy.message("user", "x", 1), said, said, said, metadata={"elements": elements})
    toy.draw("e__t0", "click(2, 2)", "stop()")
    toy.draw("e__t1", "click(2, 2)", "click(7, 7)", "click(9, 9)", "stop()", "drag(2, 2, 7, 7)")
    build = toy.build()
    rows = {row["turn"]: row["elements"] for row in build.rows("states")}
    assert rows[0] == rows[2] == []
    assert rows[1][1] == {"index": 1, "tag": "button", "text": "ONE", "box": [1.0, 1.0, 2.5, 2.0]}
    hit = {row["state_id"]: [c["element_index"] for c in row["candidates"]] for row in build.rows("candidate_sets")}
    assert hit == {"e__t0": [None, None], "e__t1": [1, 0, None, None, 1]}


def test_elements_are_found_from_points_per_thousand(toy: Toy) -> None:
    toy.dialect, toy.space = "openwebrl", "norm1000"
    box = {"tag": "a", "text": "b", "box": [4, 4, 4, 4]}  # the lower right quarter of 8 x 8 pixels
    toy.episode("e", toy.message("user", "x", 1), toy.message("assistant", "y"), metadata={"elements": [[box]]})
    calls = (
        f'<tool_call>{{"name": "click", "arguments": {{"point_2d": {p}}}}}</tool_call>'
        for p in ([600, 900], [400, 900])
    )
    toy.draw("e__t0", *calls)
    (row,) = toy.build().rows("candidate_sets")
    assert [c["element_index"] for c in row["candidates"]] == [0, None]


# -- what is left ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metadata", "outcome"),
    [
        ({}, None), (None, None), ({"success": None, "reward": None}, None),
        ({"success": True, "reward": 0}, 1.0), ({"success": False, "reward": 1}, 0.0),
        ({"reward": 0.25}, 0.25), ({"reward": 1}, 1.0), ({"reward": -1}, None), ({"reward": 7}, None),
        ({"reward": {"format": 1.0, "judge": 1.0}}, None),
    ],
)  # fmt: skip
def test_outcome(toy: Toy, metadata: Record | None, outcome: float | None) -> None:
    assert _turn(toy, "x", metadata=metadata)["episode_outcome"] == outcome


def test_what_has_no_field_is_kept_verbatim(toy: Toy) -> None:
    metadata = {"intent": "t", "difficulty": "hard", "nested": {"b": [1, 2.5, None, "é"], "a": {}}, "elements": [[]]}
    row = _turn(toy, "x", metadata=metadata, run={"id": 7}, version="1.10")
    del metadata["elements"]
    assert json.loads(row["source_record_json"]) == {"metadata": metadata, "run": {"id": 7}, "version": "1.10"}


def test_nothing_left_over_is_null(toy: Toy) -> None:
    assert _turn(toy, "x")["source_record_json"] is None


def test_integers_beyond_64_bit_survive(toy: Toy) -> None:
    """A common parser turns them into floats without a word."""
    big = 123456789012345678901234567890
    row = _turn(toy, "x", metadata={"trace": big, "small": 2**53 + 1})
    assert json.loads(row["source_record_json"]) == {"metadata": {"trace": big, "small": 2**53 + 1}}


def test_line_separators_inside_text_end_no_line(toy: Toy) -> None:
    """U+2028 and U+0085 end lines for str.splitlines, not for JSONL."""
    toy.episodes.append(
        json.dumps(
            {"episode_id": "e", "messages": [toy.message("user", "a\u2028b\u0085c"), toy.message("assistant", "y")]},
            ensure_ascii=False,
        ).encode()
        + b"\r\n"
    )
    assert _state(toy)["observation_text"] == "a\u2028b\u0085c"


def test_tools_are_kept_as_json(toy: Toy) -> None:
    tools = [{"type": "function", "function": {"name": "click", "parameters": {}}}]
    assert json.loads(_turn(toy, "x", tools=tools)["tools_json"]) == tools


def test_the_source_names_file_and_record(toy: Toy) -> None:
    row = _turn(toy, "x")
    record = json.dumps(toy.episodes[0]).encode()
    assert row["source"] == {"file": "episodes.jsonl", "record_sha256": hashlib.sha256(record).hexdigest()}


def test_what_no_state_shows_is_kept(toy: Toy) -> None:
    """Messages after the last turn and further facts of elements: an export must be able to give them back."""
    element = {"tag": "a", "text": "x", "box": [0, 0, 1, 1]}
    turns = [toy.message("user", "Task: go"), toy.message("assistant", toy.response("click(1, 1)"))]
    more = [toy.message("user", "then"), toy.message("assistant", toy.response("click(2, 2)"))]
    after = toy.message("user", "and the end")
    toy.episode("e", *turns, *more, after, metadata={"elements": [[{**element, "href": "/x"}], [element]]})
    first, second = _states(toy)
    assert json.loads(first["source_record_json"]) == {"elements": [{**element, "href": "/x"}]}
    assert json.loads(second["source_record_json"]) == {"messages_after": [after]}
