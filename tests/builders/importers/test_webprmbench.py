"""WebPRMBench: five actions of a state as four questions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.schemas.errors import ArmError

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

Record = dict[str, Any]


def item(state: int, pair: int, expected: Any = 1, source: str = "mind2web", **record: Any) -> Record:
    prompt = f"{source} {state}: is action 1 or 2 of pair {pair} better? The page says <image>."
    return {
        "state_idx": state,
        "pair_idx": pair,
        "expected": expected,
        "prompt": prompt,
        "source_name": source,
        **record,
    }


def four(state: int, **record: Any) -> list[Record]:
    return [item(state, pair, pair % 2 + 1, **record) for pair in range(4)]


def build(toy: Toy, records: list[Record], **declared: Any) -> Build:
    source = toy.lay("bench_items", "webprmbench", "test.jsonl", records, **declared)
    return toy.build(sources=(source,), tables=("bench_items",), images={"bench_items": "embed"})


def test_items_are_grouped_by_state(toy: Toy) -> None:
    records = [*four(3), *four(3, source="webarena")]  # a number counts within its environment
    records[0]["prompt"] = [{"role": "system", "content": "Judge."}, {"role": "user", "content": "Which?"}]
    built = build(toy, records[::-1])
    assert built.balanced()
    assert built.notes == ()
    rows = built.rows("bench_items")
    assert len(rows) == 8
    groups: dict[str, list[int]] = {row["group_id"]: [] for row in rows}
    for row in rows:
        groups[row["group_id"]].append(row["expected_index"])
    assert {group: sorted(found) for group, found in groups.items()} == {
        "webprmbench|mind2web|3": [0, 0, 1, 1], "webprmbench|webarena|3": [0, 0, 1, 1],
    }  # fmt: skip
    assert {row["split"] for row in rows} == {"validation"}
    assert {(row["bench"], row["options"], row["images"] == []) for row in rows} == {("webprmbench", 2, True)}
    assert {len(row["prompt"]) for row in rows} == {1, 2}
    assert json.loads(rows[0]["source_record_json"]).keys() == {"state_idx", "pair_idx"}
    texts = {block["text"] for row in rows for block in row["prompt"][0]["content"]}
    assert any("<image>" in text for text in texts)  # what a page says is no picture


def test_a_state_with_more_or_fewer_pairs_is_told(toy: Toy) -> None:
    built = build(toy, [*four(1), *four(2)[:3], *four(3), item(3, 4)])
    assert [(note.line, note.path, note.message) for note in built.notes] == [
        (5, "$.state_idx", "state mind2web|2 has 3 pairs; the bench has 4 a state"),
        (8, "$.state_idx", "state mind2web|3 has 5 pairs; the bench has 4 a state"),
    ]
    assert len(built.rows("bench_items")) == 12
    assert built.balanced()


@pytest.mark.parametrize(
    ("record", "place", "message"),
    [
        (item(1, 4, 0), "$.expected", "is 0, not one of 1, 2"),
        (item(1, 4, "1"), "$.expected", 'is "1", not one of 1, 2'),
        (item(1, 4, prompt=""), "$.prompt", "is empty"),
        (item(1, 4, prompt=[{"role": "user", "content": ""}]), "$.prompt[0].content", "is empty"),
        (
            item(1, 2, prompt="Another question"),
            "$.pair_idx",
            "is 2, and another pair of state mind2web|1 is that, too",
        ),
        (item(1, 4, 1, prompt=item(1, 0)["prompt"]), "$.prompt", "is that of pair 0 of state mind2web|1"),
        (item(1, 4, 2, prompt=item(1, 0)["prompt"]), "$", "has other content in test.jsonl:1"),
        (item(2, 0, 1, prompt=item(1, 0)["prompt"]), "$", "has other content in test.jsonl:1"),
        ({**item(1, 4), "label": 1}, "$.label", "is not a known field"),
    ],
    ids=["zero", "text", "empty", "empty_message", "pair_twice", "prompt_twice", "two_answers", "two_states", "field"],
)
def test_planted_faults_are_named(toy: Toy, record: Record, place: str, message: str) -> None:
    with pytest.raises(ArmError) as caught:
        build(toy, [*four(1), record])
    (issue,) = caught.value.issues
    assert (issue.file, issue.line, issue.path) == ("test.jsonl", 5, place)
    assert message in issue.message


def test_planted_faults_are_left_out_by_declaration(toy: Toy) -> None:
    records = [*four(1), *four(2), *four(3), item(3, 3, 2)]
    records[4]["expected"] = 3  # an environment has two actions
    records.append({**records[0], "expected": 2})  # pair 0 once more, with the other answer
    records.append(item(2, 9, 2, prompt=records[5]["prompt"]))  # one question in two pairs
    records.append(item(9, 0, 2, prompt=records[8]["prompt"]))  # and in two states
    built = build(toy, records, on_invalid="exclude", on_conflict="quarantine")
    assert built.balanced()
    found = {reason: len(ids) for reason, ids in built.excluded("bench_items").items()}
    assert found == {"conflicting_id": 3, "duplicate_record": 2, "invalid_record": 1}
    assert len(built.rows("bench_items")) == len(records) - 6
