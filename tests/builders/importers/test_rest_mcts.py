"""Search trees with values: states, candidates and scores, and trees that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders.importers import (
    IMPORTERS,
    Context,
    ImportedRow,
    ImportedState,
    InvalidTurn,
    Remark,
    StateImporter,
)
from action_reward_models.builders.spec import PointwiseSpec, PromptSpec
from action_reward_models.schemas.errors import ArmError

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

Record = dict[str, Any]
PROBLEM = "What is (1 + 1) * 3?"


def node(step: str, value: Any = 0.0, *children: Record, **fields: Any) -> Record:
    """A node as a search writes it; ``y`` is filled in by ``tree``."""
    return {
        **{"pcd": step, "y": "", "V": value, "numVisits": 1, "isFullyExpanded": bool(children), "isTerminal": False},
        **{"on_final_route": False, "min_steps_to_correct": 1024, "summary": "", "reflection": "", **fields},
        "children": {child["pcd"]: child for child in children},
    }


def tree(name: Any = "t", *children: Record, **record: Any) -> Record:
    root = node("", 0.0, *(children or default_children()))
    waiting = [(root, "", 0)]
    while waiting:
        at, so_far, depth = waiting.pop()
        at["y"], at["depth"] = so_far + at["pcd"], depth
        waiting += [(child, at["y"], depth + 1) for child in at["children"].values()]
    return {"id": name, "content": PROBLEM, "root": root, **record}


def default_children() -> tuple[Record, ...]:
    good = node("Step 1: 1 + 1 = 2.\n", 0.5, node("Step 2: 2 * 3 = 6.\n", 1.0), node("Step 2: 2 + 3 = 5.\n", 0.0))
    return good, node("Step 1: 1 * 3 = 3.\n", 0.125), node("Step 1: It is 4.\n", 0.0)


def read(record: Record, **constants: Any) -> list[Any]:
    importer = IMPORTERS["episodes", "rest_mcts"]
    assert isinstance(importer, StateImporter)
    return list(importer.read(record, Context("text", Path(), "pixel", constants)))


def of(kind: type, items: list[Any]) -> list[Any]:
    return [item for item in items if isinstance(item, kind)]


def named(items: list[Any]) -> list[str]:
    return [f"{item.path} {item.message}" for item in items if isinstance(item, InvalidTurn)]


def build(toy: Toy, *records: Any, name: str = "trees.json", **source: Any) -> Build:
    laid = toy.lay("episodes", "rest_mcts", name, records, dialect="text", space="pixel", **source)
    tables = ("states", "candidate_sets", "pointwise_scores")
    prompt = PromptSpec("scalar/1", options={"observation": "text"})
    return toy.build(
        sources=(laid,), tables=tables, selection=None, pairs=None, pointwise=PointwiseSpec(prompt),
        images=dict.fromkeys(tables, "embed"),
    )  # fmt: skip


def test_a_tree_gives_states_candidates_and_scores(toy: Toy) -> None:
    built = build(toy, tree(note="kept", answer="6"))
    first, second = sorted(built.rows("states"), key=lambda row: row["turn"])

    assert first["observation_text"] == PROBLEM
    assert second["observation_text"] == f"{PROBLEM}\nStep 1: 1 + 1 = 2."
    assert {first["task"], second["task"]} == {PROBLEM}
    assert first["task_group"] == second["task_group"]
    assert first["episode_id"] != second["episode_id"]
    assert [row["state_id"] for row in (first, second)] == [
        f"{row['episode_id']}__t{row['turn']}" for row in (first, second)
    ]
    assert all(row["state_id"].startswith("t-") for row in (first, second))
    assert second["history"] == [{"turn": 0, "thought": "", "action": "Step 1: 1 + 1 = 2.", "observation": ""}]
    assert json.loads(second["messages_json"]) == [
        {"role": "user", "content": PROBLEM}, {"role": "assistant", "content": "Step 1: 1 + 1 = 2."}
    ]  # fmt: skip
    for field in ("screenshot", "url", "demo_response", "episode_outcome", "prompt_text"):
        assert second[field] is None
    kept = json.loads(first["source_record_json"])
    assert kept["tree"] == {"id": "t", "note": "kept", "answer": "6"}
    assert kept["min_steps_to_correct"] == 1024

    sets = {row["state_id"]: row for row in built.rows("candidate_sets")}
    at_first = sets[first["state_id"]]
    assert at_first["set_id"] == f"{first['state_id']}#d0"
    assert [c["response"] for c in at_first["candidates"]] == [child["pcd"] for child in default_children()]
    assert (at_first["n"], at_first["distinct_actions"]) == (3, 3)
    assert all(c["parse_error"] is None for c in at_first["candidates"])
    assert json.loads(at_first["source_record_json"])["children"][2]["numVisits"] == 1

    scores = built.rows("pointwise_scores")
    assert sorted(row["score"] for row in rows_of(scores, at_first)) == [0.0, 0.125, 0.5]  # hopeless ones are kept
    assert {row["score_source"] for row in scores} == {"mcts_value"}
    assert built.balanced()


def rows_of(scores: list[Record], of_set: Record) -> list[Record]:
    return [row for row in scores if row["set_id"] == of_set["set_id"]]


def test_all_ways_to_write_a_tree_are_one(toy: Toy) -> None:
    def listed(root: Record) -> list[Record]:
        nodes: list[Record] = []
        waiting: list[tuple[Record, int | None]] = [(root, None)]
        while waiting:
            at, parent = waiting.pop(0)
            nodes.append({**{k: v for k, v in at.items() if k != "children"}, "id": len(nodes), "parent": parent})
            waiting += [(child, len(nodes) - 1) for child in at["children"].values()]
        return nodes

    whole = tree()
    by_list = json.loads(json.dumps(whole))
    waiting = [by_list["root"]]
    while waiting:
        at = waiting.pop()
        at["children"] = list(at["children"].values())
        at.pop("y")
        waiting += at["children"]
    ways = [
        whole,
        {"id": "t", "question": PROBLEM, "tree": by_list["root"]},
        {"id": "t", "problem": PROBLEM, "nodes": listed(whole["root"])},
        {"id": "t", **whole["root"], "content": PROBLEM},
    ]
    read_ways = [read(way) for way in ways]
    for items in read_ways:
        assert named(items) == []
        assert [(s.row["state_id"], s.row["observation_text"]) for s in of(ImportedState, items)] == [
            (s.row["state_id"], s.row["observation_text"]) for s in of(ImportedState, read_ways[0])
        ]
        assert [r.row.get("responses") or r.row["scores"] for r in of(ImportedRow, items)] == [
            r.row.get("responses") or r.row["scores"] for r in of(ImportedRow, read_ways[0])
        ]
    assert [s.where for s in of(ImportedState, read_ways[0])] == ["$.root", "$.root.children[0]"]
    assert [s.where for s in of(ImportedState, read_ways[2])] == ["$.nodes[0]", "$.nodes[1]"]


def test_a_problem_may_stand_in_the_root() -> None:
    root = node(PROBLEM, 0.0, node(" So 6.", 1.0, node(" Done.", 1.0)))
    root["y"], root["children"][" So 6."]["y"] = PROBLEM, f"{PROBLEM} So 6."
    first, second = of(ImportedState, read({"id": "t", **root}))
    assert first.row["task"] == PROBLEM
    assert first.row["observation_text"] == PROBLEM
    assert json.loads(first.row["messages_json"]) == [{"role": "user", "content": PROBLEM}]
    assert second.row["observation_text"] == f"{PROBLEM}\nSo 6."


def test_children_with_equal_texts_are_kept_and_told() -> None:
    twin = node("Step 1: 2.\n", 0.5, node("Step 2: a.\n", 1.0))
    other = node("Step 1: 2.\n", 0.25, node("Step 2: b.\n", 0.0))
    record = {"id": "t", "content": PROBLEM, "root": {"pcd": "", "children": [twin, other]}}
    items = read(record)
    drawn, scored, *_ = of(ImportedRow, items)
    assert drawn.row["responses"] == ["Step 1: 2.\n"] * 2
    assert scored.row["scores"] == [0.5, 0.25]
    assert len({s.row["state_id"] for s in of(ImportedState, items)}) == 3  # what follows each twin is its own state
    (remark,) = of(Remark, items)
    assert remark.path == "$.root.children"
    assert "2 children have one text" in remark.message


def test_a_key_that_stands_twice_is_refused(toy: Toy) -> None:
    """A JSON reader that keeps the last of two equal keys collapses two children silently."""
    line = b'{"id": "t", "content": "p", "root": {"pcd": "", "children": {"a": {"pcd": "a"}, "a": {"pcd": "a"}}}}\n'
    with pytest.raises(ArmError) as caught:
        build(toy, line, name="trees.jsonl")
    assert [issue.message for issue in caught.value.issues] == ["the key 'a' stands twice in one object"]


def test_two_searches_of_one_problem_do_not_share_ids() -> None:
    one, two = tree("p", rollout_idx=0), tree("p", rollout_idx=1)
    ids = [{s.row["state_id"] for s in of(ImportedState, read(record))} for record in (one, two)]
    assert ids[0].isdisjoint(ids[1])
    nameless = [tree(0), tree(0, seed=2)]  # an integer counts the records of a file
    ids = [{s.row["state_id"] for s in of(ImportedState, read(record))} for record in nameless]
    assert ids[0].isdisjoint(ids[1])
    groups = {s.row["task_group"] for record in (one, *nameless) for s in of(ImportedState, read(record))}
    assert len(groups) == 1


def test_a_tree_without_its_problem_stays_in_one_split() -> None:
    record = tree("t")
    del record["content"]
    states = of(ImportedState, read(record))
    assert {s.row["task"] for s in states} == {None}
    assert len({s.row["task_group"] for s in states}) == 1
    assert states[1].row["observation_text"] == "Step 1: 1 + 1 = 2."


@pytest.mark.parametrize("depth", [2_000])
def test_a_deep_tree_needs_no_stack(depth: int) -> None:
    nodes: list[Record] = [{"id": 0, "parent": None, "pcd": ""}]
    nodes += [{"id": n, "parent": n - 1, "pcd": f"{n}\n", "V": 0.5} for n in range(1, depth + 1)]
    items = read({"id": "t", "content": "p", "nodes": nodes})
    turns = [item.row["turn"] for item in items if isinstance(item, ImportedState)]
    assert turns == list(range(depth))


def test_a_nested_tree_that_is_too_deep_is_named(toy: Toy) -> None:
    child = node("x", 0.0)
    for _ in range(120):
        child = node("x", 0.0, child)
    with pytest.raises(ArmError) as caught:
        build(toy, {"id": "t", "content": "p", "root": child}, name="trees.jsonl")
    assert "nested more than 200 deep" in caught.value.issues[0].message


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([{"id": 1, "parent": 0, "pcd": "a"}], "$.nodes has 0 nodes without a parent, not one root"),
        ([{"id": 0}, {"id": 1}], "$.nodes has 2 nodes without a parent, not one root: $.nodes[0], $.nodes[1]"),
        ([{"id": 0}], "$.nodes[0] has no children: nothing was searched"),
    ],
)
def test_what_is_no_tree(nodes: list[Record], message: str) -> None:
    assert named(read({"id": "t", "content": "p", "nodes": nodes})) == [message]
    assert len(read({"id": "t", "content": "p", "nodes": nodes})) == 1


def test_a_tree_in_two_ways_is_none() -> None:
    assert named(read({"content": "p", "root": {}, "nodes": [{}]})) == ["$ holds a tree in several ways: root, nodes"]


def test_faults_of_listed_nodes() -> None:
    nodes: list[Record] = [
        {"id": 0, "parent": None, "pcd": ""},
        {"id": 1, "parent": 0, "pcd": "a"},
        {"parent": 0, "pcd": "nameless"},
        {"id": 1, "parent": 0, "pcd": "twice"},
        {"id": 3, "parent": "none", "pcd": "orphan"},
        {"id": 4, "parent": 5, "pcd": "b"},
        {"id": 5, "parent": 4, "pcd": "c"},
        {"id": 6, "parent": 5, "pcd": "d"},
        {"id": 7, "parent": [0], "pcd": "list"},
        {"id": 8, "parent": 0},
        {"id": 9, "parent": 3, "pcd": "below the orphan"},
        {"id": True, "parent": 0, "pcd": "true"},
    ]
    items = read({"id": "t", "content": "p", "nodes": nodes})
    assert sorted(named(items)) == [
        "$.nodes[11] has no id (a text or an integer), so that nothing can name it",
        "$.nodes[2] has no id (a text or an integer), so that nothing can name it",
        "$.nodes[3] has the id 1 of $.nodes[1]",
        "$.nodes[4] names a parent that is no node: 'none'",
        "$.nodes[5] is not below the root: its parents lead in a circle",
        "$.nodes[6] is not below the root: its parents lead in a circle",
        "$.nodes[7] is not below the root: its parents lead in a circle",
        "$.nodes[8] names a parent that is no node: '[0]'",
        "$.nodes[9] has no step (pcd)",
    ]
    (found,) = [row.row["responses"] for row in of(ImportedRow, items)]
    assert found == ["a"]


def test_every_planted_fault_is_named_in_one_build(toy: Toy) -> None:
    def changed(name: str, **fields: Any) -> Record:
        """A tree whose second child differs."""
        record = tree(name)
        record["root"]["children"]["Step 1: 1 * 3 = 3.\n"] |= fields
        return record

    odd = changed("odd")
    odd["root"]["children"]["lost"] = "text"
    records = [
        tree("good"),
        changed("above", V=1.5),
        changed("text", V="0.5"),
        changed("other", pcd="Step 1: other."),
        changed("end", y="Step 1: something else."),
        odd,
        changed("children", children=3),
        changed("so far", y=["Step 1: 1 * 3 = 3."]),
        changed("huge", V=10**300),
        tree("root", root={**tree()["root"], "y": 5}),
        {"id": "bare", "content": PROBLEM, "root": node("", 0.0)},
        {"id": "numbers", "content": 5, "root": node("", 0.0)},
    ]
    second = "$.root.children[1]"
    with pytest.raises(ArmError) as caught:
        build(toy, *records, name="trees.jsonl")
    assert [str(issue) for issue in caught.value.issues] == [
        f"trees.jsonl:2 {second}.V is 1.5, not a number from 0 to 1",
        f'trees.jsonl:3 {second}.V is "0.5", not a number from 0 to 1',
        f"trees.jsonl:4 {second} stands under another step ('Step 1: 1 * 3 = 3.\\n') than its own ('Step 1: other.')",
        f"trees.jsonl:5 {second} has a text so far (y) that does not end with its step (pcd)",
        "trees.jsonl:6 $.root.children[3] is a str, not a node",
        f"trees.jsonl:7 {second}.children is int, neither an object nor a list",
        f"trees.jsonl:8 {second} has a text so far (y) that is no text",
        f"trees.jsonl:9 {second}.V is 1{'0' * 59}, not a number from 0 to 1",
        "trees.jsonl:10 $.root.y is int, not a text",
        "trees.jsonl:11 $.root has no children: nothing was searched",
        "trees.jsonl:12 $.content is 5, not a string or null",
    ]
    built = build(toy, *records, name="trees.jsonl", on_invalid="exclude")
    ledger = built.identity["ledger"]
    assert (ledger["states"]["in"], ledger["states"]["out"]) == (2 * 9 + 3, 2 * 9)
    assert ledger["candidate_sets"]["excluded"] == {"invalid_record": 5}
    assert ledger["candidate_scores"]["excluded"] == {"invalid_record": 3}
    assert built.excluded("pointwise_scores")["unscored"]
    assert built.balanced()


def test_values_that_are_not_what_the_formula_makes_are_remarked_on(toy: Toy) -> None:
    end = {"min_steps_to_correct": 1, "he": 1}
    second = node("b", 0.75, node("d", 1.0, **end), min_steps_to_correct=2, he=1)
    right = tree("right", node("a", 1.0, **end), second, node("c", 0.0, he=0, min_steps_to_correct=2))
    second["V"] = 0.5
    right["root"] |= {"min_steps_to_correct": 2, "he": 1}
    assert of(Remark, read(right)) == []

    wrong = json.loads(json.dumps(right))
    wrong["root"]["children"]["b"]["V"] = 0.4  # (1 - 0) * 1 / 2 + 0
    (remark,) = of(Remark, read(wrong))
    assert (remark.path, remark.message) == ("$.root.children[1].V", "is 0.4; its parent's value, r and m make it 0.5")
    built = build(toy, wrong)
    assert [str(note) for note in built.notes] == [f"trees.json:1 {remark.path} {remark.message}"]
    assert 0.4 in [row["score"] for row in built.rows("pointwise_scores")]  # the value stays as recorded

    searched = json.loads(json.dumps(wrong))  # never labelled: its values are the value model's
    searched["root"]["min_steps_to_correct"] = 1024
    assert of(Remark, read(searched)) == []
    own = tree("own", node("a", 0.25, r=-0.5, min_steps_to_correct=2))
    (remark,) = of(Remark, read(own))
    assert remark.message == "is 0.25; its parent's value, r and m make it 0"


def test_a_declared_source_of_scores_is_taken() -> None:
    scores = [r.row for r in of(ImportedRow, read(tree(), score_source="vm")) if r.kind == "candidate_scores"]
    assert {row["score_source"] for row in scores} == {"vm"}


@pytest.mark.parametrize("place", ["root", "tree", None])
def test_redaction_reaches_steps_that_are_keys(place: str | None, toy: Toy) -> None:
    """Else the key would still hold what the step does not, and the node would be left out with its name told."""
    mail = "john.doe@corp-mail.com"
    below = {"pcd": f"Ask {mail}", "V": 0.5, "children": {"Wait.": {"pcd": "Wait.", "V": 0.25, "children": {}}}}
    other = {"V": 0.75, "children": {}}
    misnamed = {"pcd": "Else.", "V": 0.1, "children": {}}
    root = {"pcd": "", "children": {below["pcd"]: below, f"Tell {mail}": other, f"Write {mail}": misnamed}}
    record = {"id": "t", "content": "Do.", **({place: root} if place else root)}
    given = toy.lay("episodes", "rest_mcts", "t.json", [record], dialect="text", space="pixel", on_invalid="exclude")
    tables = ("states", "candidate_sets")
    plain, clean = (
        toy.build(sources=(given,), tables=tables, images={"states": "embed"}, selection=None, pairs=None, redact=said)
        for said in ((), ("addresses",))
    )
    texts = [[c["response"] for c in row["candidates"]] for row in plain.rows("candidate_sets")]
    hidden = [[c["response"] for c in row["candidates"]] for row in clean.rows("candidate_sets")]
    assert sorted(texts) == [[f"Ask {mail}", f"Tell {mail}"], ["Wait."]]
    assert sorted(hidden) == [["Ask [redacted e-mail address]", "Tell [redacted e-mail address]"], ["Wait."]]
    assert mail not in json.dumps([clean.rows(table) for table in (*tables, "exclusions")])
    for build in (plain, clean):
        assert build.identity["ledger"]["candidate_sets"]["excluded"] == {"invalid_record": 1}
