"""A hub without a network: requests go straight into the application; and what may stand in its pages."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.hub_sync.local_hub.app import create_app
from action_reward_models.hub_sync.local_hub.store import Store

PAGE_TAGS = {
    "a", "article", "aside", "b", "bdi", "blockquote", "body", "br", "caption", "code", "dd", "del", "details",
    "div", "dl", "dt", "em", "h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hr", "html", "i", "img", "kbd",
    "li", "link", "main", "mark", "meta", "nav", "ol", "p", "pre", "s", "section", "small", "span", "strong", "sub",
    "summary", "sup", "table", "tbody", "td", "th", "thead", "title", "tr", "u", "ul",
}  # fmt: skip
CARD_TAGS = {
    "a", "b", "blockquote", "br", "code", "del", "details", "div", "em", "h2", "h3", "h4", "h5", "h6", "hr", "i",
    "img", "kbd", "li", "mark", "ol", "p", "pre", "s", "small", "strong", "sub", "summary", "sup", "table", "tbody",
    "td", "th", "thead", "tr", "u", "ul",
}  # fmt: skip
ATTRIBUTES = {
    "align", "alt", "aria-current", "aria-hidden", "aria-label", "aria-labelledby", "charset", "class", "colspan",
    "content", "download", "height", "href", "id", "lang", "loading", "name", "open", "rel", "role", "scope", "src",
    "start", "tabindex", "title", "width",
}  # fmt: skip


class Seen(HTMLParser):
    """Every tag with its attributes, and the text, of a page or a part of one."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_comment(self, data: str) -> None:
        self.tags.append(("!--", {}))

    def handle_decl(self, decl: str) -> None:
        if decl.lower() != "doctype html":
            self.tags.append((f"!{decl}", {}))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def values(self, tag: str, attribute: str) -> list[str]:
        return [given[attribute] for name, given in self.tags if name == tag and attribute in given]

    def wrong(self, tags: set[str], hosts: tuple[str, ...] = ()) -> list[str]:
        """Tags, attributes and addresses that must not be there. Links to ``hosts`` are fine when they are https."""
        found = []
        for tag, given in self.tags:
            if tag not in tags:
                found.append(f"<{tag}>")
            for name, value in given.items():
                if name not in ATTRIBUTES or name.startswith("on") or name == "style":
                    found.append(f"{tag} {name}")
                if name in ("href", "src") and not self._fine(tag, value, hosts):
                    found.append(f"{tag} {name}={value!r}")
        return found

    def _fine(self, tag: str, value: str, hosts: tuple[str, ...]) -> bool:
        if not value.isprintable() or "\\" in value or value != value.strip():
            return False
        if value.startswith(("/", "#", "?")):
            return not value.startswith("//")
        return tag == "a" and (
            value.startswith("mailto:") or any(value.startswith(f"https://{host}") for host in hosts)
        )


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8")

    @property
    def seen(self) -> Seen:
        return Seen(self.text)


class InProcessHub:
    """The application of one folder; ``token`` is its owner's."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder)
        self.token = self.store.add_user("lab", token="hf_of_the_lab", owner=True)
        self.app = create_app(self.store)

    def get(self, path: str, token: str | None = None, method: str = "GET") -> Answer:
        return self.send(method, path, token=token)

    def send(self, method: str, path: str, body: bytes = b"", token: str | None = None) -> Answer:
        raw, _, query = path.partition("?")
        headers = [(b"host", b"127.0.0.1:8000"), (b"content-type", b"application/json")]
        if token:
            headers.append((b"authorization", f"Bearer {token}".encode()))
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": raw, "raw_path": raw.encode(), "query_string": query.encode(), "root_path": "", "headers": headers,
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8000),
        }  # fmt: skip
        sent: list[Any] = []
        bodies = [body]

        async def receive() -> dict[str, Any]:
            if not bodies:
                await asyncio.Event().wait()  # this client stays until it has its answer
            return {"type": "http.request", "body": bodies.pop(), "more_body": False}

        async def collect(message: Any) -> None:
            sent.append(message)

        async def ask() -> None:
            await self.app(scope, receive, collect)

        asyncio.run(ask())
        given = {name.decode().lower(): value.decode("latin-1") for name, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], given, b"".join(message.get("body", b"") for message in sent[1:]))

    def api(self, method: str, path: str, data: Any) -> Any:
        body = data if isinstance(data, bytes) else json.dumps(data).encode()
        answer = self.send(method, path, body, self.token)
        assert answer.status < 300, answer.body
        return json.loads(answer.body) if answer.body else None

    def create(self, name: str, kind: str = "dataset", private: bool = False) -> None:
        asked = {"name": name, "organization": "lab", "type": kind, "visibility": "private" if private else "public"}
        self.api("POST", "/api/repos/create", asked)

    def commit(
        self, name: str, files: Mapping[str, bytes | None], kind: str = "dataset", title: str = "change",
        rev: str = "main", pull_request: bool = False, description: str = "",
    ) -> str:  # fmt: skip
        """Commit files (None deletes one; Parquet is stored beside git) and return the commit's sha."""
        lines: list[Any] = [{"key": "header", "value": {"summary": title, "description": description}}]
        for path, data in files.items():
            if data is None:
                lines.append({"key": "deletedFile", "value": {"path": path}})
            elif path.endswith(".parquet"):
                value = {"path": path, "algo": "sha256", "oid": self._stored(name, kind, data), "size": len(data)}
                lines.append({"key": "lfsFile", "value": value})
            else:
                content = base64.b64encode(data).decode()
                lines.append({"key": "file", "value": {"path": path, "content": content, "encoding": "base64"}})
        body = "\n".join(json.dumps(line) for line in lines).encode()
        query = "?create_pr=1" if pull_request else ""
        return str(self.api("POST", f"/api/{kind}s/lab/{name}/commit/{rev}{query}", body)["commitOid"])

    def _stored(self, name: str, kind: str, data: bytes) -> str:
        repo = self.store.repo(kind, "lab", name, self.store.caller(self.token))
        digest = hashlib.sha256(data).hexdigest()
        with self.store.objects.receive() as incoming, self.store.database.write() as db:
            incoming.write(data)
            self.store.objects.place(db, incoming, digest, repo.uid)
        return digest


@pytest.fixture
def hub(tmp_path: Path) -> InProcessHub:
    return InProcessHub(tmp_path / "hub")


def parquet(columns: Mapping[str, list[Any]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(pa.table(dict(columns)), out)
    return out.getvalue()


def png(size: tuple[int, int] = (8, 6)) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.new("L", size).save(out, "PNG")
    return out.getvalue()


@pytest.fixture
def make() -> type[Make]:
    return Make


class Make:
    """What tests build their repositories from."""

    parquet = staticmethod(parquet)
    png = staticmethod(png)
    Seen = Seen
    card_tags = CARD_TAGS
    page_tags = PAGE_TAGS
