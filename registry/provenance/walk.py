"""From a build, a version on the Hub or a checkpoint down to files: manifest after manifest, each held to its pin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import orjson

from ...hub_sync.hub import Hub, RemoteFile, checked_repo_id, checked_sha, status_of, transient
from ...schemas import manifest as manifests
from ...schemas.errors import ArmError
from .lineage import Lineage, Node, inputs, key

T = TypeVar("T")
MAX_DEPTH = 32  # steps from the start
MAX_NODES = 2000
_SHOWN = 3  # files that are not what was read
MAX_BYTES = 1 << 28  # of all manifests of one walk: any of them can name many files, and that is kept


def of_build(folder: Path, hub: Hub | None) -> Lineage:
    """The lineage of a built directory, dataset or checkpoint. ``hub`` None: it is not asked.

    What is not published is looked for in the folders beside ``folder``. Raises ArmError when there is no build.
    """
    return _Walk(hub, folder.resolve().parent).from_folder(folder)


def of_revision(hub: Hub, repo: str, revision: str) -> Lineage:
    """The lineage of a dataset or checkpoint on the Hub at a tag, branch or commit. Raises ArmError without it."""
    return _Walk(hub, None).from_hub(checked_repo_id(repo), revision)


class _AwayError(Exception):
    """The Hub cannot be asked."""


class _Walk:
    """One walk from a start down: what was met, and whether the Hub answers."""

    def __init__(self, hub: Hub | None, beside: Path | None) -> None:
        self._hubs = {"dataset": hub, "model": hub.of("model") if hub else None}
        self._beside = beside  # folder of builds that may not be published
        self._met: dict[tuple[Any, ...], Node] = {}  # as far as they are known
        self._there: dict[tuple[str, str, str], Mapping[str, RemoteFile]] = {}  # files of commits that the Hub has
        self._room = MAX_NODES  # nodes that may still be met
        self._bytes = MAX_BYTES
        self._away = None if hub else "no Hub was asked"

    def from_folder(self, folder: Path) -> Lineage:
        manifest = _local(folder)
        node = _described(manifest)
        try:
            there, head = self._published(node.kind, node.name, node.revision or "")
        except _AwayError:
            node = replace(node, notes=("whether it is published is not known",))
        except ArmError as error:
            node = replace(node, notes=(f"what is published cannot be read: {error.message}",))
        else:
            node = replace(node, withdrawn=_withdrawn(head, node) or node.withdrawn)
            if there is None:
                node = replace(node, notes=("not published",))
            elif there[1]["identity_sha256"] != node.identity_sha256:
                other = f"not published; the Hub has another build there: {there[1]['identity_sha256']}"
                node = replace(node, withdrawn=None, notes=(other,))
            else:
                node = replace(node, commit=there[0])
        return Lineage(self._with_inputs(node, manifest, 0), self._away)

    def from_hub(self, repo: str, revision: str) -> Lineage:
        kind: Literal["dataset", "model"]
        for kind in ("dataset", "model"):
            hub = self._hubs[kind]
            assert hub is not None
            if (refs := hub.refs(repo)) is not None:
                break
        else:
            hub = self._hubs["dataset"]
            assert hub is not None
            hub.resolve(repo, revision)  # raises: there is none, or this token may not see it
            raise AssertionError
        commit = hub.resolve(repo, revision)
        manifest = self._read(hub, repo, commit)
        if manifest is None:
            note = "it holds no manifest: nothing says where it comes from"
            return Lineage(Node("repository", repo, revision, commit, notes=(note,)))
        node = replace(_described(manifest), name=repo, commit=commit)
        wrong = _wrong(manifest, hub, repo, commit)
        node = replace(node, withdrawn=_withdrawn(self._read(hub, repo, refs.head), node), problem=wrong)
        if revision not in (node.revision, commit):
            node = replace(node, notes=(f"at {revision}",))
        return Lineage(self._with_inputs(node, manifest, 0), self._away)

    def _with_inputs(self, node: Node, manifest: Mapping[str, Any], depth: int) -> Node:
        self._met[key(node)] = node
        found = inputs(manifest)
        if depth >= MAX_DEPTH or len(found) > self._room:
            return replace(node, problem=f"what it rests on is not followed further: {MAX_DEPTH} steps, "
                           f"{MAX_NODES:,} things at most")  # fmt: skip
        self._room -= len(found)
        return replace(node, inputs=tuple(self._settled(below, depth + 1) for below in found))

    def _settled(self, node: Node, depth: int) -> Node:
        """``node`` as the Hub, or a build beside the start, has it; with its inputs."""
        if node.kind == "own files":
            return node
        if node.kind in ("dataset", "model") and (first := self._met.get(key(node))):
            again = (*first.notes, "its inputs are shown above")
            return replace(first, feeds=node.feeds, inputs=(), notes=again)
        self._met[key(node)] = node
        try:
            checked_repo_id(node.name)
            found = self._version(node, depth) if node.kind == "dataset" else self._pinned(node, depth)
        except _AwayError:
            found = replace(node, notes=("the Hub was not asked about it",))
        except ArmError as error:
            found = replace(node, problem=error.message)
        self._met[key(node)] = found
        return found

    def _version(self, node: Node, depth: int) -> Node:
        """A version of a dataset, pinned by its identity."""
        mine = self._build(node)
        try:
            there, head = self._published("dataset", node.name, node.revision or "")
        except _AwayError:
            found = self._known(node, mine, depth)
            return replace(found, notes=("the Hub was not asked about it",))
        if there is None:
            gone = None if mine else "is gone, or this token may not see it; and no build of it lies here"
            return replace(self._known(node, mine, depth), notes=("not published",) if mine else (), problem=gone)
        commit, manifest = there
        actual = manifests.identity_digest(manifest["identity"])
        if actual != node.identity_sha256:
            wrong = f"has another identity on the Hub ({actual}) than what was read ({node.identity_sha256})"
            return replace(self._known(node, mine, depth), problem=wrong)
        return self._known(replace(node, commit=commit, withdrawn=_withdrawn(head, node)), manifest, depth)

    def _known(self, node: Node, manifest: Mapping[str, Any] | None, depth: int) -> Node:
        """``node`` with what its manifest says, as far as there is one."""
        if manifest is None:
            return node
        said = _described(manifest)
        node = replace(node, license=said.license, rows=said.rows, withdrawn=node.withdrawn or said.withdrawn)
        return self._with_inputs(node, manifest, depth)

    def _pinned(self, node: Node, depth: int) -> Node:
        """Files, a base model or a checkpoint, pinned by its commit."""
        hub = self._hubs["dataset" if node.kind == "raw files" else "model"]
        commit = checked_sha(node.commit)
        place = (node.kind, node.name, commit)
        if place not in self._there:
            if self._ask(lambda: _hub(hub).resolve(node.name, commit)) != commit:
                raise ArmError(f"the Hub answers with another commit than {commit}")
            self._there[place] = self._ask(lambda: _hub(hub).files(node.name, commit)) if node.files else {}
        if node.kind != "model":
            return replace(node, problem=_other_files(node, self._there[place]))
        manifest = self._ask(lambda: self._read(_hub(hub), node.name, commit))
        if manifest is None or "model_manifest" not in manifest:
            return replace(node, problem="holds no manifest of a checkpoint")
        node = replace(node, identity_sha256=_described(manifest).identity_sha256)
        return self._known(replace(node, problem=_wrong(manifest, _hub(hub), node.name, commit)), manifest, depth)

    def _published(
        self, kind: str, repo: str, tag: str
    ) -> tuple[tuple[str, dict[str, Any]] | None, dict[str, Any] | None]:
        """(commit and manifest of a tag or None, manifest of main or None)."""
        hub = self._hubs[kind]
        refs = self._ask(lambda: _hub(hub).refs(checked_repo_id(repo)))
        if refs is None or (commit := refs.tags.get(tag)) is None:
            return None, None
        manifest = self._ask(lambda: self._read(_hub(hub), repo, commit))
        if manifest is None:
            raise ArmError(f"holds no manifest at {tag}")
        try:
            head = self._ask(lambda: self._read(_hub(hub), repo, refs.head)) if refs.head != commit else manifest
        except ArmError:
            head = None  # what main holds now is of another tool or version, and says nothing of withdrawals
        return (commit, manifest), head

    def _read(self, hub: Hub, repo: str, commit: str) -> dict[str, Any] | None:
        """The manifest at a commit; None without one. Raises ArmError for one that cannot be read."""
        file = hub.files(repo, commit).get(manifests.NAME)
        if file is None:
            return None
        self._bytes -= file.size
        if self._bytes < 0:
            raise ArmError(f"the manifests of all that it rests on have more than {MAX_BYTES:,} bytes")
        return _parsed(hub.read(repo, file, commit), f"{hub.url(repo)} at {commit}")

    def _build(self, node: Node) -> dict[str, Any] | None:
        """The manifest of a build beside the start that is this very version."""
        if self._beside is None:
            return None
        try:
            manifest = _local(self._beside / node.name.rpartition("/")[2])
        except ArmError:
            return None
        return manifest if _described(manifest).identity_sha256 == node.identity_sha256 else None

    def _ask(self, question: Callable[[], T]) -> T:
        """Once the Hub does not answer, it is not asked again: every question would wait for its tries."""
        if self._away:
            raise _AwayError
        try:
            return question()
        except ArmError as error:
            if not _unreachable(error):
                raise
            self._away = str(error)
            raise _AwayError from error


def _hub(hub: Hub | None) -> Hub:
    assert hub is not None  # without one nothing is asked
    return hub


def _unreachable(error: ArmError) -> bool:
    cause = error.__cause__
    while isinstance(cause, ArmError):
        cause = cause.__cause__
    return isinstance(cause, Exception) and (status_of(cause) is None or transient(cause) is not None)


def _local(folder: Path) -> dict[str, Any]:
    try:
        data = (folder / manifests.NAME).read_bytes()
    except OSError as error:
        raise ArmError(f"is no finished build: it holds no {manifests.NAME}", where=str(folder)) from error
    return _parsed(data, str(folder / manifests.NAME))


def _parsed(data: bytes, where: str) -> dict[str, Any]:
    try:
        is_model = "model_manifest" in orjson.loads(data)
    except (ValueError, TypeError):
        is_model = False
    return manifests.parse(data, where, "model_manifest/1" if is_model else "manifest/1")


def _described(manifest: Mapping[str, Any]) -> Node:
    identity = manifest["identity"]
    is_model = "model_manifest" in manifest
    node = Node(
        "model" if is_model else "dataset",
        f"{identity['namespace']}/{identity['name']}",
        f"v{identity['version']}",
        identity_sha256=manifests.identity_digest(identity),
        license=identity.get("license"),
        rows={} if is_model else {name: table["rows"] for name, table in identity["tables"].items()},
    )
    return replace(node, withdrawn=_withdrawn(manifest, node))


def _withdrawn(manifest: Mapping[str, Any] | None, node: Node) -> str | None:
    """The reason why the version of ``node`` is withdrawn, as ``manifest``, which may be a later one, says."""
    found = (manifest or {"environment": {}})["environment"].get("withdrawn", {})
    reason = found.get((node.revision or "").removeprefix("v"))
    return None if reason is None else str(reason)


def _other_files(node: Node, there: Mapping[str, RemoteFile]) -> str | None:
    """What the commit of raw files does not hold as it was read: sizes, and digests as far as a listing has them."""
    found = []
    for file in node.files:
        held = there.get(str(file["path"]).removeprefix(f"{node.name}@{node.revision}/"))
        if held is None:
            found.append(f"{file['path']} is not there")
        elif held.size != file["bytes"] or held.sha256 not in (None, file["sha256"]):
            found.append(f"{file['path']} is another file there")
    more = f" and {len(found) - _SHOWN} more" if found[_SHOWN:] else ""
    return ", ".join(found[:_SHOWN]) + more if found else None


def _wrong(manifest: Mapping[str, Any], hub: Hub, repo: str, commit: str) -> str | None:
    if manifests.identity_digest(manifest["identity"]) != manifest["identity_sha256"]:
        return f"its manifest states another identity than it has ({hub.url(repo)} at {commit})"
    return None
