"""Where something comes from, as a tree: the nodes, and what a manifest says that it rests on. `walk` follows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ...cards.mermaid import flowchart
from ...cards.origins import SHORT, fed
from ...cards.text import plural

Kind = Literal["dataset", "model", "raw files", "own files", "repository"]


@dataclass(frozen=True)
class Node:
    """One thing that others rest on, with all that it rests on itself.

    ``feeds`` are the tables of the node above that its records come into. ``notes`` say what is worth knowing,
    ``problem`` what is wrong.
    """

    kind: Kind
    name: str  # namespace/name; of own files what they hold
    revision: str | None = None  # a tag or what was declared; v1.0.0 of a version, published or not
    commit: str | None = None  # on the Hub; None for what is not there
    identity_sha256: str | None = None
    license: str | None = None
    withdrawn: str | None = None  # the reason
    rows: Mapping[str, int] = field(default_factory=dict)  # by table, of a dataset
    holds: str | None = None  # of files: what their records are, and in which format
    files: tuple[Mapping[str, Any], ...] = ()  # path, sha256, bytes, records
    feeds: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    problem: str | None = None
    inputs: tuple[Node, ...] = ()

    def to_json(self) -> dict[str, Any]:
        own = {name: value for name, value in vars(self).items() if name != "inputs"}
        listed = {name: list(own[name]) for name in ("files", "feeds", "notes")}
        return own | listed | {"rows": dict(self.rows), "inputs": [node.to_json() for node in self.inputs]}

    def __iter__(self) -> Iterator[Node]:
        """This node and all below it, from the top."""
        yield self
        for node in self.inputs:
            yield from node


@dataclass(frozen=True)
class Lineage:
    """``unasked`` says why the Hub could not be asked; what only it knows is missing then."""

    root: Node
    unasked: str | None = None

    @property
    def problems(self) -> list[str]:
        """All that is wrong, each with the name of what it is wrong with."""
        found = [f"{title(node)}: {node.problem}" for node in self.root if node.problem]
        return list(dict.fromkeys(found))  # of what is met twice

    def to_json(self) -> dict[str, Any]:
        return {"problems": self.problems, "unasked": self.unasked, "lineage": self.root.to_json()}

    def to_mermaid(self) -> str:
        """A Mermaid flowchart: what comes from files at the left, the start at the right."""
        ids: dict[tuple[Any, ...], str] = {}
        nodes: dict[str, list[str]] = {}
        edges: list[tuple[str, str]] = []

        def visit(node: Node, above: str | None) -> None:
            # What is met twice is one box; own files of two sources are two.
            box = (id(node),) if node.kind == "own files" else key(node)
            here = ids.setdefault(box, f"n{len(ids) + 1}")
            nodes.setdefault(here, _label(node))
            if above is not None:
                edges.append((here, above))
            for below in node.inputs:
                visit(below, here)

        visit(self.root, None)
        return flowchart(nodes, edges)


def title(node: Node) -> str:
    """``dataset lab/toy v1.0.0``."""
    if node.kind == "own files":
        return f"own files: {node.name}"
    joined = "@" if node.kind in ("raw files", "repository") else " "
    return f"{node.kind} {node.name}" + (f"{joined}{node.revision}" if node.revision else "")


def inputs(manifest: Mapping[str, Any]) -> list[Node]:
    """What the manifest of a dataset or of a checkpoint says that it rests on, as nodes that nobody looked into yet.

    Sources that read the same version of a dataset are one.
    """
    identity = manifest["identity"]
    if "model_manifest" in manifest:
        return list(_of_checkpoint(identity))
    nodes: dict[tuple[Any, ...], Node] = {}
    for number, source in enumerate(identity["sources"]):
        node = replace(_source(source), feeds=tuple(fed(manifest, source["kind"])))
        place = key(node) if node.kind == "dataset" else (number,)
        if place in nodes:
            feeds = dict.fromkeys((*nodes[place].feeds, *node.feeds))
            node = replace(nodes[place], feeds=tuple(feeds))
        nodes[place] = node
    return list(nodes.values())


def _of_checkpoint(identity: Mapping[str, Any]) -> Iterator[Node]:
    data, base, start = identity["dataset"], identity["base"], identity["init_from"]
    if data["repo"] is None:
        yield Node("own files", "a built dataset in a folder", identity_sha256=data["identity_sha256"])
    else:
        yield Node("dataset", data["repo"], data["revision"], identity_sha256=data["identity_sha256"])
    if base and base["repo"] is None:
        yield Node("own files", "a base model in a folder", identity_sha256=base["sha256"])
    elif base:
        yield Node("repository", base["repo"], base["revision"], base["commit"], notes=("the base model",))
    if start:
        parent = ("the checkpoint that training went on from",)
        yield Node("model", start["repo"], start["revision"], start["commit"], notes=parent)


def _source(source: Mapping[str, Any]) -> Node:
    holds = f"{source['kind']} as {source['format']}"
    origin = source.get("origin")
    if origin and origin["identity_sha256"]:
        return Node("dataset", origin["repo"], origin["revision"], identity_sha256=origin["identity_sha256"])
    facts = {"license": source["license"], "holds": holds, "files": tuple(source["files"])}
    if origin:
        return Node("raw files", origin["repo"], origin["revision"], origin["commit"], **facts)
    return Node("own files", holds, **facts)


def key(node: Node) -> tuple[Any, ...]:
    """The same for two nodes that are the same thing."""
    return (node.kind, node.name, node.revision, node.identity_sha256 or node.commit, node.holds)


def _label(node: Node) -> list[str]:
    lines = [title(node)]
    if node.identity_sha256:
        lines.append(f"identity {node.identity_sha256[:SHORT]}")
    if node.commit:
        lines.append(f"commit {node.commit[:SHORT]}")
    if node.files:
        records = sum(file["records"] for file in node.files)
        lines.append(f"{plural(records, 'record')} in {plural(len(node.files), 'file')}")
    if node.withdrawn is not None:
        lines.append("withdrawn")
    return [*lines, *(["problem"] if node.problem else [])]
