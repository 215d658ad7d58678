"""Search trees with values, in the shape that ReST-MCTS searches have: states, their candidates, and the candidates'
scores.

A node has its step (``pcd``), the text so far (``y`` = that of its parent and its step), a value ``V``, ``children`` by
their step or in a list, and what the search noted (``numVisits``, ``min_steps_to_correct``: 1024 is none, ...). A
record holds the root (``root``, ``tree`` or the record itself) or ``nodes`` that name each other by ``id`` and
``parent``; the problem is its ``content``, ``question`` or ``problem``, else the root's text. It is the task, so that a
problem is in one split.

Each node with children is a state without screenshot, whose `observation_text` is the problem and the text so far; each
stands for the episode that leads to it. Its children are one candidate set, those that lead nowhere and those with
equal texts among them, and their values are its scores (``mcts_value``). All else is kept in `source_record_json`.

Where a search was labelled afterwards (``min_steps_to_correct`` of the root is below 1024), or a node has its own
``r``, V = max(0, (1 - V of the parent) * r / m + V of the parent), with m = ``min_steps_to_correct`` and r = 1 where
``he`` is not 0, else -1; a node whose value is another one is remarked on. Paths count children by their position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, TypeGuard

from ...schemas.actions import parse
from ...schemas.ids import canonical_json, sha256_hex, task_group
from . import record_ids
from .search_tree import NONE_CORRECT, PLACED, FaultyTree, Node, in_lists, tree_of
from .types import Context, Imported, ImportedRow, ImportedState, InvalidTurn, Remark

Record = dict[str, Any]

_IDS = ("id", "task_id")
_PROBLEM = ("content", "question", "problem")
_READ_KEYS = {"root", "tree", "nodes", *_PROBLEM}
_TOLERANCE = 1e-6  # of a value that was computed in floats
_LARGEST = 1e9  # of numbers that are computed with


def items(record: Record, context: Context) -> Iterator[Imported]:
    """Yield what a tree holds, and what is wrong with it."""
    tree_id = record_ids.of_rollout(record_ids.own(record, _IDS) or record_ids.hashed("tree", record), record)
    try:
        root, faults = tree_of(record)
    except FaultyTree as error:
        yield InvalidTurn(tree_id, "invalid_record", error.where, str(error))
        return
    for where, message in faults:
        yield InvalidTurn(f"{tree_id}|{where}", "invalid_record", where, message, kind="candidate_sets")
    if not root.children:
        yield InvalidTurn(tree_id, "invalid_record", root.where, "has no children: nothing was searched")
        return
    named = next((record[name] for name in _PROBLEM if record.get(name)), None)
    problem = named or root.text
    if root.text.strip() == problem.strip():
        root.text = ""  # what the policy wrote begins below it
    read = _READ_KEYS | PLACED if root.record is record else _READ_KEYS
    extra = {name: value for name, value in record.items() if name not in read - {"V"}}
    shared: Record = {
        "task": problem or None,
        "task_group": task_group(problem, tree_id),  # each state is an episode, and a tree must not fall apart
        **dict.fromkeys(("url", "host", "prompt_text", "tools_json", "demo_response", "episode_outcome")),
        "elements": [],
    }
    for node in root.walk():
        if node.children:
            kept = {} if node.record is record else _rest(node)
            leftover = {**kept, "tree": extra} if node is root and extra else kept
            state = _state(node, tree_id, problem)
            row = {**shared, **state, "source_record_json": canonical_json(leftover) if leftover else None}
            yield ImportedState(row, None, node.where)
            yield from _candidates(node, state["state_id"], context)
            _step_down(node, context)
    yield from _other_values(root)


def _step_down(node: Node, context: Context) -> None:
    """Give each child its entry of a history, and the key of the steps that lead to it."""
    twins: Counter[str] = Counter()  # equal steps are told apart by how many such stand before them
    for child in node.children:
        parsed = parse(context.dialect, child.text)
        turn = node.entry.get("turn", -1) + 1
        child.entry = {"turn": turn, "thought": parsed.thought, "action": parsed.action, "observation": ""}
        child.key = sha256_hex(canonical_json([node.key, child.text, twins[child.text]]))
        twins[child.text] += 1


def _state(node: Node, tree_id: str, problem: str) -> Record:
    """What the policy had before it when ``node`` was expanded."""
    path = node.path
    so_far = _text(node, path, problem)
    asked = [{"role": "user", "content": problem}] if problem else []
    answered = [{"role": "assistant", "content": so_far}] if so_far else []
    episode_id = f"{tree_id}-{(node.key or sha256_hex(''))[:12]}"
    return {
        "state_id": f"{episode_id}__t{len(path)}",
        "episode_id": episode_id,
        "turn": len(path),
        "history": [step.entry for step in path],
        "messages_json": canonical_json([*asked, *answered]),
        "observation_text": "\n".join(filter(None, (problem, so_far))),
    }


def _text(node: Node, path: list[Node], problem: str) -> str:
    """The solution so far: as recorded, without the problem if it begins with it."""
    if node.so_far:
        return node.so_far.removeprefix(problem).strip()
    root = path[0].parent if path else node
    assert root is not None
    return "".join([root.text, *(step.text for step in path)]).strip()


def _candidates(node: Node, state_id: str, context: Context) -> Iterator[Imported]:
    """The children of a node as one draw, and their values."""
    set_id = f"{state_id}#d0"
    children = [_rest(child) for child in node.children]
    yield ImportedRow(
        "candidate_sets",
        {
            "set_id": set_id,
            "state_id": state_id,
            "draw": 0,
            "sampling": {},
            "responses": [child.text for child in node.children],
            "source_record_json": canonical_json({"children": children}) if any(children) else None,
        },
        where=f"{node.where}.children",
    )
    for text, number in Counter(child.text for child in node.children).items():
        if number > 1:
            yield Remark(f"{node.where}.children", f"{number} children have one text, and all are kept: {text[:60]!r}")
    scores: list[float | None] = []
    for index, child in enumerate(node.children):
        value = child.record.get("V")
        scores.append(float(value) if _is_number(value) and 0 <= value <= 1 else None)
        if scores[-1] is None and value is not None:
            message = f"is {canonical_json(value)[:60]}, not a number from 0 to 1"
            score_id = f"{set_id}|{index}"
            yield InvalidTurn(score_id, "invalid_record", f"{child.where}.V", message, kind="candidate_scores")
    if any(score is not None for score in scores):
        row = {
            "set_id": set_id,
            "scores": scores,
            "score_source": context.constants.get("score_source", "mcts_value"),
            "source_record_json": None,
        }
        yield ImportedRow("candidate_scores", row, where=f"{node.where}.children")


def _rest(node: Node) -> Record:
    """What a search noted of a node besides its place, its text and its value."""
    rest = {name: value for name, value in node.record.items() if name not in PLACED}
    before = "" if node.parent is None else node.parent.so_far or node.parent.text
    if node.so_far and node.so_far != before + node.text:
        rest["y"] = node.so_far
    return rest


def _other_values(root: Node) -> Iterator[Remark]:
    """Nodes whose value is not what the formula makes of their parent's."""
    labelled = _number(root.record.get("min_steps_to_correct"), NONE_CORRECT) < NONE_CORRECT
    for node in root.walk():
        own, before = node.record.get("V"), node.parent.record.get("V") if node.parent else None
        steps = _number(node.record.get("min_steps_to_correct", node.record.get("m")), NONE_CORRECT)
        if not _is_number(own) or not _is_number(before) or not 1 <= steps < NONE_CORRECT:
            continue
        if _is_number(node.record.get("r")):
            sign = node.record["r"]
        elif labelled and _is_number(node.record.get("he")):
            sign = 1 if node.record["he"] else -1
        else:
            continue
        expected = max(0.0, (1 - before) * sign / steps + before)
        if abs(own - expected) > _TOLERANCE:
            yield Remark(f"{node.where}.V", f"is {own:g}; its parent's value, r and m make it {expected:g}")


def _number(value: Any, otherwise: float) -> float:
    return value if _is_number(value) else otherwise


def _is_number(value: Any) -> TypeGuard[int | float]:
    return type(value) in (int, float) and abs(value) < _LARGEST


def ids(record: Record) -> Record:
    """The id of the tree if it is a hash of the whole record; and the tree without steps as keys, which stay."""
    own = {} if record_ids.own(record, _IDS) else {"id": record_ids.hashed("tree", record)}
    nested = {name: in_lists(record[name]) for name in ("root", "tree") if isinstance(record.get(name), dict)}
    return own | nested | ({"children": in_lists(record)["children"]} if "children" in record else {})
