"""A search tree as records hold it: nested or as a list, read without recursion, so that no depth is too deep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Record = dict[str, Any]

NONE_CORRECT = 1024  # min_steps_to_correct of a node that leads to no correct answer
PLACED = {"pcd", "y", "V", "children", "parent", "id"}  # fields of a node that say where it belongs and what it says


class FaultyTree(ValueError):  # noqa: N818 - an outcome with a name
    """Why a record is no tree. ``where`` is a JSON path."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__(message)
        self.where = where


@dataclass(slots=True, eq=False)
class Node:
    """One node. ``text`` is its step; ``place`` where it stands: an index below its parent, or a whole JSON path.

    ``entry`` and ``key`` are the reader's: what a history says of the step, and a hash of the steps up to here.
    """

    record: Record
    text: str
    place: str | int
    parent: Node | None
    children: list[Node] = field(default_factory=list)
    entry: Record = field(default_factory=dict)
    key: str = ""

    @property
    def path(self) -> list[Node]:
        """The nodes from below the root to this one."""
        found = []
        node = self
        while node.parent is not None:
            found.append(node)
            node = node.parent
        return found[::-1]

    @property
    def where(self) -> str:
        """JSON path; children are counted in their order, whether by name or in a list."""
        places: list[str] = []
        node: Node | None = self
        while node is not None:
            if isinstance(node.place, str):
                places.append(node.place)
                break
            places.append(f".children[{node.place}]")
            node = node.parent
        return "".join(reversed(places))

    @property
    def so_far(self) -> str | None:
        """The text so far as recorded; None without one."""
        return self.record.get("y") or None

    def walk(self) -> Iterator[Node]:
        """This node and all below it, parents first, children in their order."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += reversed(node.children)


Faults = list[tuple[str, str]]  # (JSON path, message)


def tree_of(record: Record) -> tuple[Node, Faults]:
    """The root, and what was left out of the tree and why. Raises FaultyTree when there is no tree at all."""
    ways = [name for name in ("root", "tree", "nodes", "children") if name in record]
    if len(ways) != 1:
        raise FaultyTree("$", f"holds a tree in several ways: {', '.join(ways)}")
    if ways == ["nodes"]:
        return _listed(record["nodes"])
    return _nested(record, "$") if ways == ["children"] else _nested(record[ways[0]], f"$.{ways[0]}")


def in_lists(raw: Record) -> Record:
    """A copy of a nested tree whose children all stand in lists: a step that is a key could not be changed. One that
    stands under another step than its own loses its text, and so stays no node."""
    top = dict(raw)
    waiting = [top]
    while waiting:
        node = waiting.pop()
        children = node.get("children")
        if isinstance(children, dict):
            named: list[tuple[str | None, Any]] = [*children.items()]
        elif isinstance(children, list):
            named = [(None, child) for child in children]
        else:
            continue
        node["children"] = made = [
            {**child, **_step(child, key)} if isinstance(child, dict) else child for key, child in named
        ]
        waiting += [child for child in made if isinstance(child, dict)]
    return top


def _step(child: Record, key: str | None) -> Record:
    """The step of a child by its key, where it needs one."""
    if key is None:
        return {}
    text = child.get("pcd", key)
    return {"pcd": "" if isinstance(text, str) and _misplaced(key, text) else text}


def _misplaced(key: str, text: str) -> bool:
    return key != text and not key.isdecimal()


def _nested(raw: Record, where: str) -> tuple[Node, Faults]:
    faults: Faults = []
    root = _root(raw, where)
    waiting = [root]
    while waiting:
        node = waiting.pop()
        children = node.record.get("children") or {}
        named = isinstance(children, dict)
        if not named and not isinstance(children, list):
            faults.append((f"{node.where}.children", f"is {type(children).__name__}, neither an object nor a list"))
            continue
        for index, (key, child) in enumerate(children.items() if named else [(None, child) for child in children]):
            place = f"{node.where}.children[{index}]"
            if not isinstance(child, dict):
                faults.append((place, f"is a {type(child).__name__}, not a node"))
                continue
            text = child.get("pcd", key)
            if problem := _wrong(child, text, key, node):
                faults.append((place, problem))
                continue
            made = Node(child, text, index, node)
            node.children.append(made)
            waiting.append(made)
    return root, faults


def _root(raw: Record, where: str) -> Node:
    """The root without its children. Raises FaultyTree for one whose text is none."""
    for name in ("pcd", "y"):
        if not isinstance(raw.get(name), str | None):
            raise FaultyTree(f"{where}.{name}", f"is {type(raw[name]).__name__}, not a text")
    return Node(raw, raw.get("pcd") or raw.get("y") or "", where, None)


def _wrong(child: Record, text: Any, key: str | None, parent: Node) -> str | None:
    """What is wrong with a child of ``parent``; what is below it is left out with it."""
    if not isinstance(text, str) or not text.strip():
        return "has no step (pcd)"
    if key is not None and _misplaced(key, text):
        return f"stands under another step ({key[:60]!r}) than its own ({text[:60]!r})"
    so_far, before = child.get("y"), parent.so_far
    if not so_far:  # not recorded
        return None
    if not isinstance(so_far, str):
        return "has a text so far (y) that is no text"
    if not so_far.rstrip().endswith(text.strip()):
        return "has a text so far (y) that does not end with its step (pcd)"
    if before and not so_far.startswith(before.rstrip()):
        return "has a text so far (y) that does not begin with its parent's"
    return None


def _listed(nodes: list[Record]) -> tuple[Node, Faults]:
    """The tree of nodes that name their parents, in any order."""
    faults: Faults = []
    by_id: dict[str | int, Node] = {}
    for index, raw in enumerate(nodes):
        where, name = f"$.nodes[{index}]", raw.get("id")
        if not isinstance(name, str | int) or isinstance(name, bool):
            faults.append((where, "has no id (a text or an integer), so that nothing can name it"))
        elif name in by_id:
            faults.append((where, f"has the id {name!r} of {by_id[name].place}"))
        else:
            by_id[name] = Node(raw, raw["pcd"] if isinstance(raw.get("pcd"), str) else "", where, None)
    roots = [node for node in by_id.values() if node.record.get("parent") is None]
    if len(roots) != 1:
        places = ", ".join(str(node.place) for node in roots[:5])
        raise FaultyTree(
            "$.nodes", f"has {len(roots)} nodes without a parent, not one root" + (f": {places}" if places else "")
        )
    root = roots[0]
    root.text = _root(root.record, str(root.place)).text
    below: dict[str | int, list[Node]] = {}
    for node in by_id.values():
        parent = node.record.get("parent")
        if node is root:
            continue
        if type(parent) not in (str, int) or parent not in by_id:
            faults.append((str(node.place), f"names a parent that is no node: {str(parent)[:60]!r}"))
        else:
            below.setdefault(parent, []).append(node)
    reached = {id(root)}
    waiting = [root]
    while waiting:
        node = waiting.pop()
        for child in below.get(node.record["id"], ()):
            reached.add(id(child))
            if problem := _wrong(child.record, child.text, None, node):
                faults.append((str(child.place), problem))
                continue
            child.parent = node
            node.children.append(child)
            waiting.append(child)
    return root, faults + _circles(by_id, reached)


def _circles(by_id: dict[str | int, Node], reached: set[int]) -> Faults:
    """Nodes that no way from the root leads to, because their parents lead in a circle."""
    ends: dict[int, bool] = dict.fromkeys(reached, False)  # node -> whether its parents lead in a circle
    faults: Faults = []
    for node in by_id.values():
        way: list[Node] = []
        at: Node | None = node
        while at is not None and id(at) not in ends:
            ends[id(at)] = True  # met again before its end is known: a circle
            way.append(at)
            parent = at.record.get("parent")
            at = by_id.get(parent) if isinstance(parent, str | int) else None
        circle = at is not None and ends[id(at)]
        for passed in way:
            ends[id(passed)] = circle
        if circle:
            faults.append((str(node.place), "is not below the root: its parents lead in a circle"))
    return faults
