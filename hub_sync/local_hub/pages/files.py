"""Pages of files: a folder, one file, what a commit changed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from ..content import File
from ..errors import HubError, entry_not_found
from ..git import Commit, Entry
from . import parquet_facts
from .card import facts, split_card, words
from .markdown import PICTURES, render
from .render import POLICY, respond
from .view import View

_TEXT_LIMIT = 256 * 1024  # bytes of a text that are shown
_PATCH_LIMIT = 100_000  # characters
_MOST_CHANGES = 500
_MOST_ROWS = 2000  # entries of a folder
_HISTORY = 300  # commits up to which last changes are looked up
_MARKDOWN = (".md", ".markdown")


@dataclass(frozen=True)
class Row:
    """An entry of a folder; ``file`` is None for a folder, ``last`` the commit that changed it last."""

    name: str
    path: str
    file: File | None
    last: Commit | None


def listing(view: View, folder: Entry) -> list[Row]:
    """Folders first, then files, each by name."""
    entries = list(view.git.entries(folder))[:_MOST_ROWS]
    count = view.db.execute("SELECT count(*) FROM commits WHERE repo = ?", (view.repo.uid,)).fetchone()[0]
    last = view.git.last_commits(view.commit, [entry.path for entry in entries]) if count <= _HISTORY else {}
    rows = [
        Row(
            entry.path.rpartition("/")[2],
            entry.path,
            None if entry.is_folder else view.describe(entry),
            last.get(entry.path),
        )
        for entry in entries
    ]
    return sorted(rows, key=lambda row: (row.file is not None, row.name))


def card_values(view: View) -> dict[str, Any]:
    """What the templates show of the card at the root."""
    card = view.card
    head = card.head if card else {}
    return {
        "card": render(card.body, view.place("README.md")) if card and card.body.strip() else None,
        "facts": facts(head),
        "pretty_name": next(iter(words(head.get("pretty_name"))), ""),
        "tags": words(head.get("tags")),
        "total_size": sum(file.size for file in view.files.values()),
    }


def show(view: View, entry: Entry) -> Response:
    """One file: rendered, as a picture, as its first rows, as text, or as what there is to download."""
    file = view.describe(entry)
    name = file.path.lower()
    values: dict[str, Any] = {"view": view, "file": file, "text": None, "rendered": None, "table": None, "cut": False}
    if name.endswith(PICTURES):
        return respond(view.request, "blob", kind="picture", **values)
    if name.endswith(".parquet"):
        values["table"] = parquet_facts.preview(file.digest, view.source(file))
        count = parquet_facts.row_counts({file.digest: view.source(file)})[file.digest]
        return respond(view.request, "blob", kind="parquet", row_count=count, **values)
    data = view.beginning(file, _TEXT_LIMIT if not name.endswith(_MARKDOWN) else 4 * _TEXT_LIMIT)
    text = _decoded(data, cut=len(data) < file.size)
    if text is None:
        return respond(view.request, "blob", kind="binary", **values)
    values["cut"] = len(data) < file.size
    if name.endswith(_MARKDOWN):
        values["rendered"] = _markdown(view, file, text)
        return respond(view.request, "blob", kind="markdown", **values)
    values["text"] = _readable(text) if name.endswith(".json") and not values["cut"] else text
    return respond(view.request, "blob", kind="text", **values)


def _markdown(view: View, file: File, text: str) -> Markup:
    return render(split_card(text).body, view.place(file.path))


def _decoded(data: bytes, cut: bool) -> str | None:
    """The bytes as text, None when they are none. A character that was cut in the middle is left out."""
    for missing in range(4 if cut else 1):
        try:
            text = data[: len(data) - missing].decode("utf-8")
        except UnicodeDecodeError:
            continue
        return None if "\0" in text else text
    return None


def _readable(text: str) -> str:
    """JSON on one line is indented; everything else stays as it is."""
    if text.count("\n") > 1:
        return text
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return text


def preview_picture(view: View, asked: str) -> Response:
    entry = view.entry()
    file = view.describe(entry)
    if entry.is_folder or not file.path.lower().endswith(".parquet") or not asked.isascii() or not asked.isdigit():
        raise entry_not_found("no such picture", view.commit)
    found = parquet_facts.picture(file.digest, view.source(file), int(asked[:6]))
    if found is None:
        raise HubError(404, "no such picture")
    data, kind = found
    headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-store"}
    return Response(data, 200, headers, kind)


@dataclass(frozen=True)
class Change:
    """``what`` is `added`, `changed` or `removed`; ``file`` is what there is afterwards, or was before."""

    path: str
    what: str
    file: File
    was: File | None


def changes(view: View) -> Response:
    """What the commit changed against its first parent."""
    commit = view.head
    parent = commit.parents[0] if commit.parents else None
    after = {entry.path: entry for entry in view.git.files(view.commit)}
    before = {entry.path: entry for entry in view.git.files(parent)} if parent else {}
    paths = sorted(path for path in after.keys() | before.keys() if _oid(after, path) != _oid(before, path))
    found = [_change(view, path, before.get(path), after.get(path)) for path in paths[:_MOST_CHANGES]]
    patch = view.git.patch(parent, view.commit) if parent else None
    return respond(
        view.request,
        "commit",
        view=view,
        commit=commit,
        changes=found,
        total=len(paths),
        patch=patch[:_PATCH_LIMIT] if patch else None,
        patch_cut=bool(patch and len(patch) > _PATCH_LIMIT),
    )


def _oid(files: dict[str, Entry], path: str) -> str | None:
    return files[path].oid if path in files else None


def _change(view: View, path: str, before: Entry | None, after: Entry | None) -> Change:
    was = view.describe(before) if before else None
    if after is None:
        assert was is not None
        return Change(path, "removed", was, was)
    return Change(path, "changed" if was else "added", view.describe(after), was)
