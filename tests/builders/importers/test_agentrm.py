"""Scored texts of reward models: ready-made rows, their ids, their tasks, their faults."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders.spec import SplitSpec
from action_reward_models.schemas.errors import ArmError

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

Record = dict[str, Any]
RULES = "You are an agent in a shop."


def chat(label: Any, *texts: str, **record: Any) -> Record:
    """A conversation in which user and assistant take turns."""
    turns = [{"role": "user" if n % 2 == 0 else "assistant", "content": text} for n, text in enumerate(texts)]
    return {"messages": turns, "label": label, **record}


def build(toy: Toy, *records: Any, name: str = "samples.json", **fields: Any) -> Build:
    changes = {key: fields.pop(key) for key in ("split",) if key in fields}
    laid = toy.lay("pointwise_scores", "agentrm", name, records, **fields)
    return toy.build(
        sources=(laid,), tables=("pointwise_scores",), images={"pointwise_scores": "embed"}, selection=None, pairs=None,
        **changes,
    )  # fmt: skip


def texts(messages: list[Record]) -> list[tuple[str, str]]:
    return [(m["role"], m["content"][0]["text"]) for m in messages]


def issues(toy: Toy, *records: Any, **fields: Any) -> list[str]:
    with pytest.raises(ArmError) as caught:
        build(toy, *records, **fields)
    return [str(issue) for issue in caught.value.issues]


def test_a_conversation_is_scored_at_its_last_turn(toy: Toy) -> None:
    system = {"role": "system", "content": RULES}
    record = chat(0.25, "Buy a mug.", "Action: search[mug]", "[mug 1]", "Action: click[mug 1]")
    record["messages"].insert(0, system)
    row = build(toy, record).row("pointwise_scores")
    assert texts(row["prompt"]) == [
        ("system", RULES), ("user", "Buy a mug."), ("assistant", "Action: search[mug]"), ("user", "[mug 1]"),
    ]  # fmt: skip
    assert texts(row["completion"]) == [("assistant", "Action: click[mug 1]")]
    assert (row["score"], row["score_source"], row["unit"]) == (0.25, "mcts_value", "step")
    for field in ("state_id", "set_id", "candidate_index", "prompt_id"):
        assert row[field] is None


def test_both_forms_of_a_conversation_are_one_row(toy: Toy) -> None:
    messages = chat(0.5, "Buy a mug.", "Action: search[mug]")
    names = {"user": "human", "assistant": "gpt"}
    turns = [{"from": names[m["role"]], "value": m["content"]} for m in messages["messages"]]
    sharegpt: Record = {"conversations": turns, "label": 0.5}
    one, two = build(toy, messages), build(toy, sharegpt, name="samples.jsonl")
    assert one.digests == two.digests


@pytest.mark.parametrize(
    ("record", "prompt", "completion"),
    [
        ({"prompt": "Buy.", "response": "search[mug]"}, "Buy.", "search[mug]"),
        ({"prompt": "Buy.", "completion": "search[mug]"}, "Buy.", "search[mug]"),
        ({"prompt_answer": "Problem: 1 + 1\nSolution: 2"}, "Problem: 1 + 1\nSolution: 2", ""),
        ({"content": "Task: buy\nAction: look"}, "Task: buy\nAction: look", ""),
    ],
)
def test_a_text_is_split_only_where_the_record_says_so(toy: Toy, record: Record, prompt: str, completion: str) -> None:
    found = build(toy, {**record, "label": 1}).row("pointwise_scores")
    assert (texts(found["prompt"]), texts(found["completion"])) == ([("user", prompt)], [("assistant", completion)])


def test_a_declared_source_of_scores_is_taken(toy: Toy) -> None:
    built = build(toy, {"prompt": "Buy.", "label": 0.5}, constants={"score_source": "vm"})
    assert built.row("pointwise_scores")["score_source"] == "vm"


def test_all_steps_of_a_task_are_in_one_split(toy: Toy) -> None:
    records = [
        record
        for n in range(12)
        for record in (
            chat(0.5, RULES, "OK", f"Your task is to: find mug {n}.", "Action: look"),
            chat(1, RULES, "OK", f"Your task is to: find mug {n}.", "Action: look", "[mug]", "Action: take mug"),
            {"prompt_answer": f"Find mug {n}.\nStep 1: Look.\nStep 2: Take it.", "label": 0.75},
            {"prompt": f"{n} Steps.", "question": f"find mug {n}", "label": 0.125},
        )
    ]
    rows = build(toy, *records, split=SplitSpec(0.5, 3)).rows("pointwise_scores")
    assert len(rows) == 48
    splits: dict[str, set[str]] = {}
    for row in rows:
        said = " ".join(text for _, text in texts(row["prompt"] + row["completion"]))
        number = re.search(r"mug (\d+)\.|(\d+) Steps\.", said)
        assert number is not None
        splits.setdefault(number[1] or number[2], set()).add(row["split"])
    assert len(splits) == 12
    assert all(len(found) == 1 for found in splits.values())
    assert {split for found in splits.values() for split in found} == {"train", "validation"}


def test_every_planted_fault_is_named_in_one_build(toy: Toy) -> None:
    good = chat(0.5, "Buy a mug.", "Action: search[mug]")
    records: list[Any] = [
        good,
        {**good, "id": 7},
        chat(1.5, "Buy.", "Action: look"),
        chat(None, "Buy.", "Action: look"),
        chat(0.5, "Buy."),
        chat(0.5, "Buy.", "Action: look", "[mug]"),
        {"label": 0.5},
        {"prompt": "", "label": 0.5},
        b'{"prompt": "Buy.", "label": 0.5, "label": 1}',
        b"[]\n",
    ]
    said = "; the scored turn is the last, an assistant's, and something stands before it"
    named = [
        "samples.jsonl:3 $.label is 1.5, above the largest allowed 1",
        "samples.jsonl:4 $.label is null, not a number",
        f"samples.jsonl:5 $.messages[0] has one turn{said}",
        f"samples.jsonl:6 $.messages[2] is not the assistant's{said}",
        "samples.jsonl:7 $ has none of the fields messages, conversations, prompt, content, prompt_answer",
        "samples.jsonl:8 $ is about an empty text",
        "samples.jsonl:9 $ the key 'label' stands twice in one object",
        "samples.jsonl:10 $ is [], not an object",
    ]
    assert issues(toy, *records, name="samples.jsonl") == named
    built = build(toy, *records, name="samples.jsonl", on_invalid="exclude")
    account = built.identity["ledger"]["pointwise_scores"]
    assert (account["in"], account["out"]) == (10, 1)
    assert account["excluded"] == {"duplicate_record": 1, "invalid_record": 8}
    assert built.balanced()


def test_one_text_with_two_values_is_a_conflict(toy: Toy) -> None:
    one, two = (chat(label, "Buy a mug.", "Action: search[mug]") for label in (0.25, 0.75))
    (issue,) = issues(toy, one, two, name="samples.jsonl")
    assert issue.startswith("samples.jsonl:2 $ the id 'score-")
    assert issue.endswith("has other content in samples.jsonl:1")
    built = build(toy, one, two, chat(1, "Buy.", "Action: look"), on_conflict="quarantine")
    assert {reason: len(ids) for reason, ids in built.excluded("pointwise_scores").items()} == {"conflicting_id": 2}
    assert len(built.rows("pointwise_scores")) == 1
