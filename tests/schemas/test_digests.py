"""The canonical form of a row, fixed: what changes a digest and what does not."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.builders.importers import IMPORTERS
from action_reward_models.schemas import digests, store
from action_reward_models.schemas.digests import combine
from action_reward_models.schemas.validate import for_schema

EXAMPLES = Path(__file__).parents[1] / "examples"
# Digests of rows in tests/examples. They may only change together with a schema's version.
GOLDEN = {
    "state/screenshot": "c6d63f8a25e55a0c3dfe3c2a3e4e62985cc951d548380f6f708d911e7fa9fe48",
    "candidate_set/all_recorded": "6b08e9c5f7deb0024d889dca657300695a3ccb734921d3e973f7eb34d02fe73a",
    "teacher_label/ok": "d7e3d686cbbfde59b077442fd79aa5b5ffdc3621000be7a891b43d266aebe684",
    "selection_sft/with_picture": "f4fbf2383d1156d0449a011372afa8b9e381fb934e0dd3cc61b346a4f1a76aad",
    "bt_pair/scores": "56f60a6b50d5b75b3c83a29f0f9f182e1e525f373efad61257394f0a3aedb7ca",
    "pointwise_score/candidate": "63a2dd29e64ca7dbeb3acd75fcc4904c835c9ce00b6ecfc2aecdd99b2a998db6",
    "actor_sft/teacher": "fbc5d89d762d60a0dc4a95c005b021f0224949b9908fa58d6fec019c07739459",
    "reserve/no_loser": "f1698e8cdff5e03754110c6ad30b821b346435470c64b6cff10857664e725fe3",
    "bench_item/two_options": "4fb48a61978fd6a06f7de1e6dfed15176d1ca03f6aee539d900edc5edfcb419e",
    "applied_review/relabel": "7de2c97c64b54a0ecb53e9112434e20b537940fea84c98728fc40d251b35c6aa",
    "exclusion/dropped": "7a3b41648cf09daaba19549d0f6fb2768cd435ae52f9dc2da8dd21d9de492b2a",
    "eval_prediction/scores": "cde60c6133d5b6911d9f305cd837e3f1f669eb96b10dac454028d48b25f0185b",
    "eval_report/whole": "c47ef10c7740cc3d5cd9965aeda5d2c4213832b90599d0cb8a3eccfa35c21f74",
    "pick/selection": "1c72c4fb7101f7401dd2e32778d30bf025de23a9683ba273149a400e6ae802df",
}
PROVENANCE = {
    "state/1": ["source"],
    "candidate_set/1": ["source"],
    "teacher_label/1": ["source"],
    "applied_review/1": ["source"],
    "exclusion/1": ["detail"],
}


def row_of(case: str) -> Any:
    schema, name = case.split("/")
    return json.loads((EXAMPLES / schema / "good" / f"{name}.json").read_text("utf-8"))


def schema_of(case: str) -> str:
    return case.partition("/")[0] + "/1"


def digest(case: str, row: Any) -> str:
    return digests.for_schema(schema_of(case)).digest(row).hex()


def leaves(
    value: Any, schema: Any, place: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], Any, Any]]:
    """Every value that holds no others, with its schema node."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, schema["properties"][name], (*place, name))
    elif isinstance(value, list) and value:
        for i, inner in enumerate(value):
            yield from leaves(inner, schema["items"], (*place, i))
    else:
        yield place, value, schema


def changed(row: Any, place: tuple[str | int, ...], value: Any) -> Any:
    row = copy.deepcopy(row)
    node = row
    for step in place[:-1]:
        node = node[step]
    node[place[-1]] = value
    return row


def reordered(value: Any, rng: random.Random) -> Any:
    if isinstance(value, dict):
        names = list(value)
        rng.shuffle(names)
        return {name: reordered(value[name], rng) for name in names}
    return [reordered(inner, rng) for inner in value] if isinstance(value, list) else value


def is_kind(node: Any, kind: str) -> bool:
    return kind in ([node["type"]] if isinstance(node["type"], str) else node["type"])


@pytest.mark.parametrize("case", GOLDEN)
def test_golden(case: str) -> None:
    assert digest(case, row_of(case)) == GOLDEN[case]


def test_every_row_schema_has_a_golden_digest() -> None:
    records = {importer.schema for importer in IMPORTERS.values()} - {*store.TABLES.values()}
    assert {schema_of(case) for case in GOLDEN} == {f"{folder.name}/1" for folder in EXAMPLES.iterdir()} - records
    assert set(store.TABLES.values()) <= {schema_of(case) for case in GOLDEN}
    assert len(set(GOLDEN.values())) == len(GOLDEN)


def test_the_canonical_form_as_text() -> None:
    codec = digests.for_schema("exclusion/1")
    row = {"status": "dropped", "stage": "states", "source_table": "t", "source_id": 'é\u2028"\\\x7f', "reason": "r"}
    text = '{"reason":"r","source_id":"é\u2028\\"\\\\\x7f","source_table":"t","stage":"states","status":"dropped"}'
    assert codec.canonical(row | {"detail": "whatever"}) == text.encode()
    assert codec.digest(row | {"detail": ""}) == hashlib.sha256(text.encode()).digest()
    codec = digests.for_schema("eval_prediction/1")
    numbers: dict[str, Any] = {"scores": [1, 0.1, -0.0, 0.00001, 1e-7, None, 5e-324], "order": [0.0, 2**53 - 1]}
    numbers |= {"item_id": "i", "predicted_index": 1.0, "reference_index": None, "status": "ok"}
    numbers |= {"exact": True, "equivalent": None, "unit": "set", "state_id": None, "host": None, "verb": "click"}
    numbers |= {"turn": 2.0, "order_index": 0, "action_index": [0], "near_index": [], "picks": []}
    assert codec.canonical(numbers | {"repeats": {"pairs": 3, "exact": 2.0, "equivalent": 3}}) == (
        b'{"action_index":[0],"equivalent":null,"exact":true,"host":null,"item_id":"i","near_index":[],'
        b'"order":[0,9007199254740991],"order_index":0,"picks":[],"predicted_index":1,"reference_index":null,'
        b'"repeats":{"equivalent":3,"exact":2,"pairs":3},"scores":[1.0,0.1,0.0,0.00001,1e-7,null,5e-324],'
        b'"state_id":null,"status":"ok","turn":2,"unit":"set","verb":"click"}'
    )


@pytest.mark.parametrize("value", [1e16, 1e22, 10**30, -1.5e17, 123456789012345680.0, 1.7976931348623157e308])
def test_large_numbers_have_one_text(value: float) -> None:
    """From 1e16 on, releases of orjson differ (1e16, 1e+16); a digest must not."""
    row = row_of("eval_report/whole") | {"value": value}
    assert f'"value":{float(value)!r}}}'.encode() in digests.for_schema("eval_report/1").canonical(row)


@pytest.mark.parametrize("case", GOLDEN)
def test_key_order_is_nothing(case: str) -> None:
    rng = random.Random(3)
    for _ in range(10):
        assert digest(case, reordered(row_of(case), rng)) == GOLDEN[case]


@pytest.mark.parametrize("case", GOLDEN)
def test_the_row_is_left_as_it_was(case: str) -> None:
    row = row_of(case)
    digest(case, row)
    assert row == row_of(case)
    assert json.dumps(row) == json.dumps(row_of(case))


@pytest.mark.parametrize("case", GOLDEN)
def test_every_field_counts_but_provenance(case: str) -> None:
    schema = store.load(schema_of(case))
    row, seen = row_of(case), {GOLDEN[case]}
    outside = PROVENANCE.get(schema_of(case), [])
    assert digests.for_schema(schema_of(case)).provenance == outside
    for place, value, node in leaves(row, schema):
        if isinstance(value, bool):
            other: Any = not value
        elif isinstance(value, int | float):
            other = value + 1
        elif isinstance(value, str):
            other = value + "\u00a0"
        else:  # null or an empty list
            other = 1 if is_kind(node, "integer") or is_kind(node, "number") else [] if value is None else ["x"]
        got = digest(case, changed(row, place, other))
        if place[0] in outside:
            assert got == GOLDEN[case], place
        else:
            assert got not in seen, place
            seen.add(got)
    lists = [name for name, value in row.items() if isinstance(value, list) and len(value) > 1]
    for name in lists:
        assert digest(case, row | {name: row[name][::-1]}) not in seen
        assert digest(case, row | {name: row[name][:-1]}) not in seen


@pytest.mark.parametrize("case", GOLDEN)
def test_one_number_has_one_form(case: str) -> None:
    schema = store.load(schema_of(case))
    row, numbers = row_of(case), 0
    for place, value, node in leaves(row, schema):
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        numbers += 1
        if value == int(value):
            for same in (int(value), float(value)):
                again = changed(row, place, same)
                assert for_schema(schema_of(case)).problems(again) == []
                assert digest(case, again) == GOLDEN[case], (place, same)
        zeros = {digest(case, changed(row, place, zero)) for zero in (0, 0.0, -0.0)}
        assert len(zeros) == 1, place
        if is_kind(node, "number"):
            assert digest(case, changed(row, place, 0.1 + 0.2)) != digest(case, changed(row, place, 0.3))
    assert numbers or schema_of(case) in {"applied_review/1", "exclusion/1", "actor_sft/1", "reserve/1"}


def test_a_whole_number_in_text_is_another_value() -> None:
    row = row_of("candidate_set/all_recorded")
    assert (
        len({digest("candidate_set/x", row | {"actor": actor}) for actor in ("1", "1.0", "01", None, "", "null")}) == 6
    )


def test_absent_and_null_are_one_where_a_field_may_be_absent() -> None:
    row = row_of("selection_sft/with_picture")
    block = next(block for block in row["prompt"][1]["content"] if block["type"] == "image")
    assert "text" not in block
    block["text"] = None
    assert for_schema("selection_sft/1").problems(row) == []
    assert digest("selection_sft/x", row) == GOLDEN["selection_sft/with_picture"]


def test_null_and_empty_are_two() -> None:
    row = row_of("teacher_label/null_in_source")
    assert digest("teacher_label/x", row | {"order": []}) != digest("teacher_label/x", row | {"order": None})
    assert digest("teacher_label/x", row | {"reply": ""}) != digest("teacher_label/x", row | {"reply": None})


def test_text_is_digested_as_it_is() -> None:
    row = row_of("applied_review/relabel")
    notes = ["é", "e\u0301", "É", " é", "é ", "é\n", "é\r\n", "\ufeffé", "é\x00"]
    assert len({digest("applied_review/x", row | {"note": note}) for note in notes}) == len(notes)


def test_what_json_cannot_hold_is_refused() -> None:
    row = row_of("applied_review/relabel")
    for value in ("\ud800", b"x", {1}, 2**64):
        with pytest.raises(TypeError):
            digest("applied_review/x", row | {"note": value})


def test_provenance_fields() -> None:
    assert digests.for_schema("state/1").provenance == ["source"]
    assert digests.for_schema("exclusion/1").provenance == ["detail"]
    assert digests.for_schema("applied_review/1").provenance == ["source"]


def test_combine_forgets_the_order_but_counts() -> None:
    a, b, c = (hashlib.sha256(text).digest() for text in (b"a", b"b", b"c"))
    assert combine([a, b, c]) == combine([c, a, b]) == combine(iter([b, c, a]))
    assert len({combine(rows) for rows in ([], [a], [b], [a, b], [a, a], [a, a, b], [a, b, b])}) == 7
    assert combine([]) == hashlib.sha256(b"").hexdigest()
    assert combine([b, a]) == hashlib.sha256(min(a, b) + max(a, b)).hexdigest()
