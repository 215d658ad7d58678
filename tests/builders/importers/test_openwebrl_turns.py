"""OpenWebRL's per-turn rows: episodes put together again, and every way in which they do not fit."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.schemas.errors import ArmError

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

Record = dict[str, Any]
SHOT = "<|vision_start|><|image_pad|><|vision_end|>"
TOOLS = ['{"type": "function", "function": {"name": "click"}}', '{"type": "function", "function": {"name": "done"}}']
SAMPLE = Path(__file__).parents[3] / "examples" / "miniwob" / "data" / "episodes.jsonl"


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def said(turn: int, page: str = "") -> str:
    """What the user says before a turn; only the newest screenshot is in the prompt."""
    asked = (
        "<user_request>\nBuy a kettle\n</user_request>\n" if turn == 0 else "<tool_response>\nok\n</tool_response>\n"
    )
    return f"{asked}Active tab: https://shop.example/{turn}\n{page}screenshot:\n{SHOT}"


def episode(toy: Toy, turns: int, *, task: Any = "252667", rollout: int = 0, base: int = 0, **top: Any) -> list[Record]:
    """The rows of an episode, as released: a response begins inside the thinking block and ends with its token."""
    messages: list[Record] = [{"role": "system", "content": "You browse."}]
    rows: list[Record] = []
    for turn in range(turns):
        messages.append({"role": "user", "content": said(turn)})
        act = call("done", message="ok") if turn == turns - 1 else call("click", point_2d=[turn, 500])
        response = f"Think {base + turn}.\n</think>\n\n{act}"
        prompt = (
            "<tools>\n" + "\n".join(TOOLS) + "\n</tools>" + "".join(str(m["content"]) for m in messages) + "<think>\n"
        )
        messages.append({"role": "assistant", "content": f"<think>\n{response}"})
        rows.append(
            {
                **{"rollout_idx": rollout, "group_index": 2, "index": None, "prompt": prompt},
                **{"response": f"{response}<|im_end|>", "reward": 1.0, "status": "completed", **top},
                "metadata": {
                    **{"task_id": task, "turn_index": turn, "intent": "Buy a kettle.", "total_steps": turns},
                    **{"images": [toy.data_url(base + turn)], "messages": [dict(m) for m in messages]},
                    **{"num_turns_in_trajectory": turns, "reward": {"format": 1.0, "judge": 1.0}},
                },
            }
        )
    return rows


def build(toy: Toy, rows: list[Any], name: str = "turns.jsonl", **source: Any) -> Build:
    spoken = {"dialect": "openwebrl", "space": "norm1000"}
    laid = toy.lay("episodes", "openwebrl_turns", name, rows, **spoken, **source)
    return toy.build(sources=(laid,), tables=("states",), images={"states": "embed"})


def issues(toy: Toy, rows: list[Any], **source: Any) -> list[str]:
    with pytest.raises(ArmError) as caught:
        build(toy, rows, **source)
    return [f"{issue.file}:{issue.line} {issue.path} {issue.message}" for issue in caught.value.issues]


def test_an_episode_is_put_together(toy: Toy) -> None:
    built = build(toy, episode(toy, 3))
    first, second, third = sorted(built.rows("states"), key=lambda row: row["turn"])
    shas = [hashlib.sha256(toy.png(n)).hexdigest() for n in range(3)]

    assert [row["state_id"] for row in (first, second, third)] == [f"252667_r0__t{n}" for n in range(3)]
    assert [row["screenshot_sha256"] for row in (first, second, third)] == shas
    assert third["task"] == "Buy a kettle."
    assert third["url"] == "https://shop.example/2"
    assert third["host"] == "shop.example"
    assert third["episode_outcome"] == 1.0
    assert third["observation_text"] is None
    assert json.loads(third["tools_json"]) == [json.loads(tool) for tool in TOOLS]
    assert third["prompt_text"].startswith("<tools>\n")
    assert third["prompt_text"].endswith("<think>\n")
    assert second["demo_response"].endswith("</tool_call><|im_end|>")  # verbatim
    assert [entry["thought"] for entry in third["history"]] == ["Think 0.", "Think 1."]
    assert json.loads(third["history"][1]["action"]) == {"name": "click", "arguments": {"point_2d": [1, 500]}}
    messages = json.loads(third["messages_json"])
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "user", "assistant", "user"]
    pictures = [
        p["image_url"]["url"] for m in messages if m["role"] == "user" for p in m["content"] if "image_url" in p
    ]
    assert pictures == [f"sha256:{sha}" for sha in shas]
    kept = json.loads(third["source_record_json"])
    assert (kept["group_index"], kept["status"], kept["metadata"]["total_steps"]) == (2, "completed", 3)
    assert kept["metadata"]["reward"] == {"format": 1.0, "judge": 1.0}
    assert set(kept["metadata"]) == set(episode(toy, 1)[0]["metadata"]) - {"images", "messages"}
    assert built.balanced()


def test_rows_may_stand_anywhere_in_the_file(toy: Toy) -> None:
    rows = [*episode(toy, 4), *episode(toy, 3, rollout=1, base=10)]
    scattered = [rows[n] for n in (5, 2, 0, 6, 3, 1, 4)]
    assert build(toy, scattered).digests == build(toy, rows).digests
    assert build(toy, scattered, "turns.json").digests == build(toy, rows).digests


def test_an_episode_may_be_spread_over_files(toy: Toy) -> None:
    rows = [*episode(toy, 4), *episode(toy, 3, rollout=1, base=10)]
    spoken = {"dialect": "openwebrl", "space": "norm1000"}
    laid = [toy.lay("episodes", "openwebrl_turns", f"{n}.jsonl", rows[n::2], **spoken) for n in range(2)]
    source = replace(laid[0], files=(*laid[0].files, *laid[1].files))
    spread = toy.build(sources=(source,), tables=("states",), images={"states": "embed"})
    whole = build(toy, rows)
    assert spread.digests == whole.digests
    assert len(whole.rows("states")) == 7
    assert {row["source"]["file"] for row in spread.rows("states", episode_id="252667_r0")} == {"0.jsonl", "1.jsonl"}


def test_rollouts_of_one_task_do_not_share_ids(toy: Toy) -> None:
    rows = build(toy, [*episode(toy, 2), *episode(toy, 2, rollout=1, base=10)]).rows("states")
    assert sorted(row["state_id"] for row in rows) == [f"252667_r{r}__t{t}" for r in (0, 1) for t in (0, 1)]
    assert len({row["task_group"] for row in rows}) == 1


def test_two_rollouts_under_one_id_are_told_apart(toy: Toy) -> None:
    """A rollout index that counts anew for each group: equal turns conflict, others tell another conversation."""
    other = episode(toy, 3, base=10, group_index=5)
    for row in other:
        row["metadata"]["messages"][1]["content"] = said(0, "You were here before.\n")
    found = issues(toy, [*episode(toy, 2), *other[2:], other[1]])
    assert [line.split(" ", 1)[1] for line in found if "other content" not in line] == [
        "$.metadata.messages are not the beginning of the longest row's: two rollouts share task_id and rollout_idx"
    ] * 2
    rows = episode(toy, 3)
    rows[1]["metadata"]["intent"] = "Buy two kettles."
    assert issues(toy, rows) == [
        "turns.jsonl:2 $.metadata.intent is another task than that of the episode's longest row"
    ]


def test_one_turn_twice(toy: Toy) -> None:
    rows = episode(toy, 3)
    built = build(toy, [*rows, rows[1]])
    assert built.excluded("states") == {"duplicate_record": ["252667_r0__t1"]}
    assert len(built.rows("states")) == 3

    differing = json.loads(json.dumps(rows[1]))
    differing["metadata"]["images"] = [toy.data_url(99)]
    assert issues(toy, [*rows, differing]) == [
        "turns.jsonl:4 $ the id '252667_r0__t1' has other content in turns.jsonl:2"
    ]
    quarantined = build(toy, [*rows, differing], on_conflict="quarantine")
    assert quarantined.excluded("states") == {"conflicting_id": ["252667_r0__t1"] * 2}
    assert quarantined.digests == build(toy, [differing, *rows], on_conflict="quarantine").digests
    assert {row["turn"] for row in quarantined.rows("states")} == {0, 2}


def test_a_turn_without_a_row_is_named_and_the_others_stand(toy: Toy) -> None:
    rows = episode(toy, 5)
    missing = [rows[n] for n in (1, 3)]
    built = build(toy, missing, on_invalid="exclude")
    assert built.excluded("states") == {"invalid_record": [f"252667_r0__t{n}" for n in (0, 2, 4)]}
    assert [(issue.line, issue.path, issue.message) for issue in built.notes] == [
        (1, "$.metadata.turn_index", "turn 0 of the episode '252667_r0' has no row"),
        (2, "$.metadata.num_turns_in_trajectory", "turn 4 of the episode '252667_r0' has no row"),
        (2, "$.metadata.turn_index", "turn 2 of the episode '252667_r0' has no row"),
    ]
    fourth = built.row("states", turn=3)
    messages = json.loads(fourth["messages_json"])
    shown = [p["image_url"]["url"] for m in messages if m["role"] == "user" for p in m["content"] if "image_url" in p]
    assert [url == "sha256:unreadable" for url in shown] == [True, False, True, False]
    assert len(fourth["history"]) == 3  # the longest row tells what was done in between
    assert built.balanced()


def test_turns_that_count_from_one_do_not_line_up(toy: Toy) -> None:
    rows = episode(toy, 2)
    for row in rows:
        row["metadata"]["turn_index"] += 1
    assert issues(toy, rows) == [
        f"turns.jsonl:{n} $.metadata.messages has 2 screenshot placeholders and 2 assistant turns for 3 turns of the "
        "episode" for n in (1, 2)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("images", "reason", "message"),
    [
        ([], "image_missing", "$.metadata.images holds 0 pictures; a turn has one, its current screenshot"),
        (None, "image_missing", "$.metadata.images holds 0 pictures; a turn has one, its current screenshot"),
        (["a", "b"], "invalid_record", "$.metadata.images holds 2 pictures; a turn has one, its current screenshot"),
        (["https://shop.example/a.png"], "path_refused", "$.metadata.images[0] 'https://shop.example/a.png' is a URL"),
        (["shots/none.png"], "image_missing", "$.metadata.images[0] picture 'shots/none.png': No such file"),
        (["../a.png"], "path_refused", "$.metadata.images[0] the path '../a.png' is refused"),
        (["data:image/png;base64,@@@"], "bad_data_url", "$.metadata.images[0] "),
    ],
)
def test_a_turn_has_one_picture_that_can_be_read(toy: Toy, images: Any, reason: str, message: str) -> None:
    rows = episode(toy, 3)
    rows[1]["metadata"]["images"] = images
    built = build(toy, rows, on_invalid="exclude")
    (note,) = built.notes
    assert str(note).startswith(f"turns.jsonl:2 {message}")
    assert built.excluded("states") == {reason: ["252667_r0__t1"]}
    assert sorted(row["turn"] for row in built.rows("states")) == [0, 2]
    assert "sha256:unreadable" in built.row("states", turn=2)["messages_json"]
    assert built.balanced()


def test_a_picture_that_is_broken_inside(toy: Toy) -> None:
    rows = episode(toy, 2)
    rows[0]["metadata"]["images"] = [toy.data_url(toy.png(0)[:-20])]
    (found,) = issues(toy, rows)
    assert found.startswith("turns.jsonl:1 $.metadata.images[0] screenshot of 252667_r0__t0: ")


def test_pages_may_hold_what_stands_for_pictures(toy: Toy) -> None:
    """Half a placeholder, another model's, and one that the agent quotes are text."""
    rows = episode(toy, 2)
    for row in rows:
        messages = row["metadata"]["messages"]
        messages[1]["content"] = said(0, "Write <image> or <|vision_start|> <|image_pad|> here\n")
        messages[2]["content"] = messages[2]["content"].replace("Think", f"{SHOT} Think")
        row["prompt"] = row["prompt"].replace("Think", f"{SHOT} Think")
    first, second = sorted(build(toy, rows).rows("states"), key=lambda row: row["turn"])
    assert "Write <image> or <|vision_start|> <|image_pad|> here" in first["messages_json"]
    assert second["history"][0]["thought"] == f"{SHOT} Think 0."


def test_a_whole_placeholder_on_a_page_cannot_be_told_from_ours(toy: Toy) -> None:
    rows = [*episode(toy, 2), *episode(toy, 1, task="other", base=10)]
    for row in rows[:2]:
        row["metadata"]["messages"][1]["content"] = said(0, f"Paste {SHOT} here\n")
    message = "has 2 screenshot placeholders before assistant turn 0; 1 are expected"
    assert issues(toy, rows) == [f"turns.jsonl:{n} $.metadata.messages {message}" for n in (1, 2)]
    built = build(toy, rows, on_invalid="exclude")
    assert built.excluded("states") == {"invalid_record": ["252667_r0__t0", "252667_r0__t1"]}
    assert [row["state_id"] for row in built.rows("states")] == ["other_r0__t0"]


def test_only_the_longest_row_has_to_have_messages(toy: Toy) -> None:
    rows = episode(toy, 3)
    for row in rows[:2]:
        row["metadata"]["messages"] = None
    rows[2]["metadata"]["messages"].pop()  # the last turn's own response is in its row
    states = {row["turn"]: row for row in build(toy, rows).rows("states")}
    whole = {row["turn"]: row for row in build(toy, episode(toy, 3)).rows("states")}
    for turn, row in states.items():
        assert [row[name] for name in ("history", "messages_json", "task", "url")] == [
            whole[turn][name] for name in ("history", "messages_json", "task", "url")
        ]
    for row in rows:
        row["metadata"]["messages"] = []
    assert len(issues(toy, rows)) == 3


def test_thoughts_may_be_shortened_in_later_rows(toy: Toy) -> None:
    rows = episode(toy, 3)
    rows[1]["metadata"]["messages"][2]["content"] = call("click", point_2d=[0, 500])
    kept = json.loads(build(toy, rows).row("states", turn=1)["source_record_json"])
    assert kept["messages"] == rows[1]["metadata"]["messages"]


def test_calls_that_cannot_be_read_stay_in_the_text(toy: Toy) -> None:
    rows = episode(toy, 2)
    broken = 'x</think>\n<tool_call>\n{"name": "done", "arguments": {"message": "5\\$"}}\n</tool_call>'
    rows[0]["response"] = broken
    for row in rows:
        row["metadata"]["messages"][2]["content"] = broken
    first, second = sorted(build(toy, rows).rows("states"), key=lambda row: row["turn"])
    assert first["demo_response"] == broken
    assert "5\\$" in second["history"][0]["action"]


@pytest.mark.parametrize(
    ("reward", "parts", "outcome"),
    [(0.5, None, 0.5), (None, 0.25, 0.25), (1.5, None, None), (None, {"judge": 1.0}, None), (0, 1.0, 0.0)],
)
def test_only_a_reward_from_0_to_1_is_an_outcome(toy: Toy, reward: Any, parts: Any, outcome: float | None) -> None:
    rows = episode(toy, 1, reward=reward)
    rows[0]["metadata"]["reward"] = parts
    assert build(toy, rows).row("states")["episode_outcome"] == outcome


def test_without_intent_the_last_request_is_the_task(toy: Toy) -> None:
    rows = episode(toy, 2)
    for row in rows:
        row["metadata"]["intent"] = None
    assert {row["task"] for row in build(toy, rows).rows("states")} == {"Buy a kettle"}


def test_records_that_are_none(toy: Toy) -> None:
    rows: list[Any] = [*episode(toy, 1), b'{"prompt": "cut o', {"prompt": "", "response": "", "metadata": {}}]
    found = issues(toy, rows)
    assert found[0].startswith("turns.jsonl:2 $ not JSON")
    assert [line.split(" ", 1)[1] for line in found[1:]] == [
        "$ lacks the field 'rollout_idx'",
        "$.metadata lacks the field 'task_id'",
        "$.metadata lacks the field 'turn_index'",
    ]


def test_every_planted_fault_is_named_in_one_build(toy: Toy) -> None:
    rows = [row for n in range(6) for row in episode(toy, 3, task=f"task-{n}", base=10 * n)]
    del rows[16]  # turn 1 of task-5
    rows[0]["metadata"]["images"] = []
    rows[4]["metadata"]["images"] *= 2
    rows[7]["metadata"]["images"] = ["https://shop.example/a.png"]
    rows[11]["metadata"]["messages"][1]["content"] = f"{SHOT}{SHOT}"
    rows.append(rows[12])
    built = build(toy, rows, on_invalid="exclude")
    assert built.excluded("states") == {
        "duplicate_record": ["task-4_r0__t0"],
        "image_missing": ["task-0_r0__t0"],
        "invalid_record": ["task-1_r0__t1", *(f"task-3_r0__t{n}" for n in range(3)), "task-5_r0__t1"],
        "path_refused": ["task-2_r0__t1"],
    }
    assert built.balanced()
    assert built.identity["ledger"]["states"]["in"] == 19
    assert built.identity["ledger"]["states"]["out"] == 11


# -- the sample, converted ---------------------------------------------------------------------------------------


def per_turn(record: Record) -> list[Record]:
    """The rows that a canonical episode would have been released as."""
    messages: list[Record] = []
    images: list[str] = []
    rows: list[Record] = []
    for message in record["messages"]:
        text = message["content"]
        if isinstance(text, list):
            images += [part["image_url"]["url"] for part in text if part["type"] == "image_url"]
            text = "".join(SHOT if part["type"] == "image_url" else part["text"] for part in text)
        messages.append({"role": message["role"], "content": text})
        if message["role"] == "assistant":
            prompt = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages[:-1])
            metadata = {name: value for name, value in record["metadata"].items() if name != "elements"}
            metadata |= {"turn_index": len(rows), "images": images[-1:], "messages": list(messages)}
            rollout = metadata.pop("rollout_idx")
            rows.append({"rollout_idx": rollout, "prompt": prompt, "response": text, "metadata": metadata})
    return rows


def test_the_sample_gives_the_states_that_its_canonical_form_gives(toy: Toy) -> None:
    records = [json.loads(line) for line in SAMPLE.read_text("utf-8").splitlines()]
    for record in records:
        del record["episode_id"], record["metadata"]["success"]  # per-turn rows have none
    spoken = {"dialect": "function", "space": "pixel"}
    turns = [row for record in records for row in per_turn(record)]
    one = toy.lay("episodes", "openai_messages", "episodes.jsonl", records, **spoken)
    two = toy.lay("episodes", "openwebrl_turns", "turns.jsonl", turns[::-1], **spoken)
    whole, put = (
        {row["state_id"]: row for row in toy.build(sources=(s,), tables=("states",)).rows("states")} for s in (one, two)
    )
    assert len(whole) == len(turns) > 100
    assert whole.keys() == put.keys()
    # Elements are recorded by the one form only, rendered prompts by the other.
    other = {"elements", "prompt_text", "source", "source_record_json", "tools_json"}
    for state_id, row in whole.items():
        assert {k: v for k, v in put[state_id].items() if k not in other} == {
            k: v for k, v in row.items() if k not in other
        }
