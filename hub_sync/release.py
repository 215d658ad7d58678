"""What a repository should hold after publishing, and the operations that lead there from what it holds now."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson

from ..schemas import manifest as manifests
from ..schemas.errors import ArmError
from ..schemas.ids import sha256_hex
from . import forms
from .forms import DATASET, Form
from .hub import Hub, RemoteFile, git_blob_id

CARD, MANIFEST = "README.md", manifests.NAME
Keep = Literal["hub", "local"]


@dataclass(frozen=True)
class Remote:
    """A revision of a repository. ``manifest`` is None when it holds none that this version reads."""

    commit: str
    files: Mapping[str, RemoteFile]
    manifest: Mapping[str, Any] | None
    manifest_bytes: bytes
    card: str | None

    @classmethod
    def read(cls, hub: Hub, repo: str, commit: str) -> Remote:
        files = hub.files(repo, commit)
        manifest, data, card = None, b"", None
        if MANIFEST in files:
            data = hub.read(repo, files[MANIFEST], commit)
            try:
                manifest = manifests.parse(data, MANIFEST, forms.of(hub).schema)
            except ArmError:
                manifest = None  # of another version, or of another tool: nothing is kept on its word
        if CARD in files:
            try:
                card = hub.read(repo, files[CARD], commit).decode("utf-8")
            except UnicodeDecodeError as error:
                raise ArmError(
                    f"the card is not UTF-8: {error.reason}",
                    where=f"{hub.url(repo)} at {commit}: {CARD}",
                    next_command="save it as UTF-8 there, then push again",
                ) from error
        return cls(commit, files, manifest, data, card)


def manifest_at(hub: Hub, repo: str, commit: str) -> tuple[dict[str, RemoteFile], dict[str, Any]]:
    """(Files, manifest) of a commit that has to hold a build. Raises ArmError without one that this version reads."""
    files = hub.files(repo, commit)
    where = f"{hub.url(repo)} at {commit}"
    if MANIFEST not in files:
        raise ArmError(f"holds no {MANIFEST}: no build was published there", where=where)
    data = hub.read(repo, files[MANIFEST], commit)
    return files, manifests.parse(data, f"{where}: {MANIFEST}", forms.of(hub).schema)


@dataclass(frozen=True)
class Content:
    """What a file will hold: ``source`` is a local file, bytes, or None for what the repository holds already."""

    sha256: str
    size: int
    source: Path | bytes | None

    def equals(self, file: RemoteFile | None) -> bool:
        """Is it what the repository holds? Without reading more than a small file."""
        if file is None or file.size != self.size:
            return False
        if file.sha256 is not None:
            return file.sha256 == self.sha256
        data = self.source.read_bytes() if isinstance(self.source, Path) else self.source
        return data is not None and git_blob_id(data) == file.blob_id


@dataclass(frozen=True)
class Operation:
    """One change of one path. ``size`` is the bytes of what is added, 0 for a deletion."""

    action: Literal["add", "replace", "delete"]
    path: str
    size: int


@dataclass(frozen=True)
class Release:
    """The files of a version as they will stand in the repository, by path."""

    name: str
    version: str
    files: Mapping[str, Content]
    manifest: Mapping[str, Any]
    form: Form = DATASET

    @property
    def tag(self) -> str:
        return f"v{self.version}"

    def operations(self, remote: Remote | None) -> tuple[Operation, ...]:
        """What leads from ``remote`` to this; nothing when it is this already.

        Deleted is what the build before wrote and this one does not, and what else a loader would take for the build's.
        A person's other files stay.
        """
        held = remote.files if remote else {}
        writes = [
            Operation("replace" if path in held else "add", path, content.size)
            for path, content in sorted(self.files.items())
            if not content.equals(held.get(path))
        ]
        before = set(remote.manifest["environment"]["files"]) if remote and remote.manifest else set()
        gone = {path for path in before if self.form.owned(path)} | set(self.form.strays(self.manifest, held))
        return (*writes, *(Operation("delete", path, 0) for path in sorted((gone & set(held)) - set(self.files))))


def strangers(hub: Hub, repo: str, remote: Remote, operations: Sequence[Operation]) -> list[str]:
    """The files that ``operations`` would replace or delete and that no build made: a person's, or changed by one."""
    made = remote.manifest["environment"]["files"] if remote.manifest else {}
    found = []
    for operation in operations:
        path = operation.path
        if operation.action == "add" or path == CARD or (path == MANIFEST and remote.manifest):
            continue
        held, entry = remote.files[path], made.get(path)
        if entry and held.size == entry["bytes"]:
            sha256 = held.sha256 or sha256_hex(hub.read(repo, held, remote.commit))
            if sha256 == entry["sha256"]:
                continue
        found.append(path)
    return found


def make_release(
    folder: Path, repo: str, remote: Remote | None, base: Remote | None, keep: Keep | None,
    is_kept: Callable[[RemoteFile], bool], form: Form = DATASET,
) -> Release:  # fmt: skip
    """The release of a built directory on top of ``remote``; ``base`` is the revision published last, if any.

    A published file whose rows are equal is kept, whatever bytes a newer writer made of them, if ``is_kept`` agrees;
    and so is a manifest that differs only in where and when it was made. The versions that ``remote`` calls withdrawn
    stay so, and no others: the Hub knows, a local build does not. A person's words survive: those on the Hub, or those
    of the local card when only they changed since ``base``; when both did, ``keep`` decides, and without it ArmError is
    raised.
    """
    local, renamed = _for_repo(manifests.manifest_of(folder, form.schema), folder, repo, form)
    kept = {
        path for path in (_kept(local, remote) if form is DATASET else ()) if remote and is_kept(remote.files[path])
    }
    environment = local["environment"]
    files = {
        path: Content(entry["sha256"], entry["bytes"], renamed.get(path, folder / path))
        for path, entry in environment["files"].items()
    }
    if remote and remote.manifest:
        published = remote.manifest["environment"]["files"]
        files |= {path: Content(published[path]["sha256"], published[path]["bytes"], None) for path in kept}
    hashes = {path: {"sha256": content.sha256, "bytes": content.size} for path, content in sorted(files.items())}
    manifest: Mapping[str, Any] = {**local, "environment": {**environment, "files": hashes}}
    if remote and remote.manifest:
        manifest = with_withdrawn(manifest, withdrawn_in(remote.manifest))
    same = remote and remote.manifest and _same(remote.manifest, manifest)
    if same and remote and remote.manifest:
        manifest, data = remote.manifest, remote.manifest_bytes
    else:
        data = dumped(manifest)
    written = _card((folder / CARD).read_bytes().decode("utf-8"), manifest, remote, base, keep, form).encode("utf-8")
    files[MANIFEST] = Content(sha256_hex(data), len(data), data)
    files[CARD] = Content(sha256_hex(written), len(written), written)
    identity = manifest["identity"]
    return Release(identity["name"], identity["version"], files, manifest, form)


def dumped(manifest: Mapping[str, Any]) -> bytes:
    """The bytes of manifest.json; of a manifest that was read from such bytes, the same."""
    return orjson.dumps(manifest, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"


def withdrawn_in(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The withdrawn versions that a manifest names, with their reasons."""
    return dict(manifest["environment"].get("withdrawn") or {})


def with_withdrawn(manifest: Mapping[str, Any], withdrawn: Mapping[str, str]) -> dict[str, Any]:
    """``manifest`` with these withdrawn versions and no others; its identity stays what it is."""
    environment = {key: value for key, value in manifest["environment"].items() if key != "withdrawn"}
    return {**manifest, "environment": environment | ({"withdrawn": dict(withdrawn)} if withdrawn else {})}


def _for_repo(manifest: dict[str, Any], folder: Path, repo: str, form: Form) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest of a build as ``repo``, and the files that name the repository: only load.py does."""
    namespace, name = repo.split("/")
    identity = {**manifest["identity"], "namespace": namespace, "name": name}
    if identity == manifest["identity"]:
        return manifest, {}
    files, changed = dict(manifest["environment"]["files"]), {}
    if "load.py" in files:
        text = (folder / "load.py").read_bytes()
        changed["load.py"] = re.sub(
            rb'^REPO = ".*"$', b'REPO = "%s"' % repo.encode(), text, count=1, flags=re.MULTILINE
        )
        files["load.py"] = {"sha256": sha256_hex(changed["load.py"]), "bytes": len(changed["load.py"])}
    renamed = {
        **manifest,
        "identity": identity,
        "identity_sha256": manifests.identity_digest(identity),
        "environment": {**manifest["environment"], "files": files},
    }
    return manifests.parse(orjson.dumps(renamed), repo, form.schema), changed  # not every name is one


def _kept(local: Mapping[str, Any], remote: Remote | None) -> set[str]:
    """Data files whose rows the repository holds already in other bytes, if its manifest is right about its files."""
    if not remote or not remote.manifest:
        return set()
    published = _data_files(remote.manifest)
    hashes = remote.manifest["environment"]["files"]
    ours = local["environment"]["files"]
    kept = set()
    for path, facts in _data_files(local).items():
        entry, held = hashes.get(path), remote.files.get(path)
        same = entry and held and held.sha256 == entry["sha256"] != ours[path]["sha256"]
        if same and published.get(path) == facts:
            kept.add(path)
    return kept


def _data_files(manifest: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Path -> what decides whether two files have the same rows in the same form."""
    return {
        file["path"]: (table["schema"], table["images"], file["rows"], file["row_digest"])
        for table in manifest["identity"]["tables"].values()
        for split in table["splits"].values()
        for file in split["files"]
    }


def _same(published: Mapping[str, Any], manifest: Mapping[str, Any]) -> bool:
    """Equal in all that says what it is, and what is withdrawn; not where and when it was made."""
    said, now = ({key: part for key, part in one.items() if key != "environment"} for one in (published, manifest))
    return bool(
        said == now
        and published["environment"]["files"] == manifest["environment"]["files"]
        and withdrawn_in(published) == withdrawn_in(manifest)
    )


def _card(
    local: str, manifest: Mapping[str, Any], remote: Remote | None, base: Remote | None, keep: Keep | None,
    form: Form,
) -> str:  # fmt: skip
    """The card with the words of a person: theirs on the Hub, or the local ones when only those changed."""
    if remote is None or remote.card is None:
        return form.merge(local, dict(manifest))
    nothing = form.words(form.render(dict(manifest)))
    here, there = form.words(local), form.words(remote.card)
    if keep is None:
        before = form.words(base.card) if base and base.card else None
        if here in (there, nothing, before):
            keep = "hub"
        elif there in (nothing, before):
            keep = "local"
        else:
            raise ArmError(
                "the card on the Hub and the local one both have words of a person, and they differ",
                where=CARD,
                next_command="--card hub or --card local says which to keep; the Hub's history has both afterwards",
            )
    return form.merge(remote.card if keep == "hub" else local, dict(manifest))
