"""Users, tokens and repositories: who may see and change what."""

from __future__ import annotations

import hashlib
import re
import secrets
import shutil
import sqlite3
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from .database import Database
from .errors import HubError, repo_not_found
from .folder import DATABASE, make_private
from .objects import Objects
from .xet.xorbs import SCHEMA, Xorbs

TYPES = ("model", "dataset", "space")
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?", re.ASCII)
_OWN_PATHS = "api cas datasets lfs models organizations search settings spaces static xet"  # not for namespaces
_STORAGE_SECONDS = 3600


@dataclass(frozen=True)
class Caller:
    """Who asks. ``user`` is None for a request without a token; ``role`` is `read` or `write`."""

    user: str | None = None
    role: str = "read"
    is_owner: bool = False
    orgs: frozenset[str] = frozenset()

    def owns(self, namespace: str) -> bool:
        return self.user is not None and (
            self.is_owner or namespace.lower() in {self.user.lower(), *(org.lower() for org in self.orgs)}
        )


@dataclass(frozen=True)
class Repo:
    """One repository. ``uid`` never changes and names its folder; ``type`` is `model`, `dataset` or `space`."""

    uid: str
    type: str
    namespace: str
    name: str
    private: bool
    gated: str
    sdk: str | None
    created: str

    @property
    def id(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def web_path(self) -> str:
        """Path of its page and of its files: models have no prefix."""
        return self.id if self.type == "model" else f"{self.type}s/{self.id}"


class Store:
    """All that the hub keeps, in one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        make_private(root)
        self.database = Database(root / DATABASE, SCHEMA)
        make_private(root / "git")
        self.objects = Objects(root)
        self.xorbs = Xorbs(root)

    def git_folder(self, repo: Repo) -> Path:
        return self.root / "git" / repo.uid

    def clear_unfinished(self) -> None:
        """Remove what a killed hub left half done. Only for the one server of this folder."""
        with self.database.read() as db:
            self.objects.clear_unfinished(db)
            self.xorbs.clear_unfinished(db)
            known = {row["id"] for row in db.execute("SELECT id FROM repos")}
        for folder in (self.root / "git").glob("*"):
            if folder.name not in known:
                shutil.rmtree(folder, ignore_errors=True)

    # Users

    def add_user(
        self, name: str, *, token: str | None = None, role: str = "write", fullname: str | None = None,
        email: str = "", owner: bool = False,
    ) -> str:  # fmt: skip
        """Create a user, or one more token of a known user, and return the token. Only its digest is kept."""
        token = token or f"hf_{secrets.token_hex(17)}"
        with self.database.write() as db:
            db.execute(
                "INSERT INTO users VALUES (?, ?, ?, 0, ?, 0)"
                " ON CONFLICT (name) DO UPDATE SET is_owner = max(is_owner, excluded.is_owner)",
                (_namespace(name), fullname or name, email, owner),
            )
            db.execute("INSERT OR REPLACE INTO tokens VALUES (?, ?, ?)", (_digest(token), name, role))
        return token

    def owner(self) -> str | None:
        """Whose hub it is."""
        with self.database.read() as db:
            row = db.execute("SELECT name FROM users WHERE is_owner").fetchone()
        return row and str(row["name"])

    def add_org(
        self, name: str, members: list[str], *, fullname: str | None = None, private_by_default: bool = False
    ) -> None:
        """Create an organisation; its members may write in its namespace."""
        with self.database.write() as db:
            db.execute(
                "INSERT OR IGNORE INTO users VALUES (?, ?, '', 1, 0, ?)",
                (_namespace(name), fullname or name, private_by_default),
            )
            db.executemany("INSERT OR IGNORE INTO members VALUES (?, ?)", [(name, member) for member in members])

    def caller(self, token: str | None) -> Caller:
        """Who has this token; nobody without one. Raises HubError 401 for a token that is not known."""
        if token is None:
            return Caller()
        with self.database.read() as db:
            row = db.execute(
                "SELECT users.name, role, is_owner FROM tokens JOIN users ON users.name = user WHERE sha256 = ?",
                (_digest(token),),
            ).fetchone()
            if row is None:
                raise HubError(401, "Invalid username or password.")
            orgs = db.execute("SELECT org FROM members WHERE user = ?", (row["name"],)).fetchall()
        return Caller(row["name"], row["role"], bool(row["is_owner"]), frozenset(org["org"] for org in orgs))

    def caller_of(self, user: str) -> Caller:
        """A known user without a token, who may read what is theirs; "" is nobody."""
        with self.database.read() as db:
            row = db.execute("SELECT name, is_owner FROM users WHERE name = ?", (user,)).fetchone()
            if row is None:
                return Caller()
            orgs = db.execute("SELECT org FROM members WHERE user = ?", (row["name"],)).fetchall()
        return Caller(row["name"], "read", bool(row["is_owner"]), frozenset(org["org"] for org in orgs))

    # Repositories

    def repo(self, kind: str, namespace: str, name: str, caller: Caller, *, write: bool = False) -> Repo:
        """The repository, if ``caller`` may see it (or, with ``write``, change it). Former names lead to it, too.

        Raises HubError: 404 RepoNotFound for what does not exist or must not be seen, 401 / 403 for a missing right.
        """
        with self.database.read() as db:
            row = (
                db.execute(
                    "SELECT * FROM repos WHERE type = ? AND namespace = ? AND name = ?", (kind, namespace, name)
                ).fetchone()
                or db.execute(
                    "SELECT repos.* FROM redirects JOIN repos ON repos.id = repo"
                    " WHERE redirects.type = ? AND redirects.namespace = ? AND redirects.name = ?",
                    (kind, namespace, name),
                ).fetchone()
            )
        if row is None:
            raise repo_not_found()
        repo = _repo(row)
        if repo.private and not caller.owns(repo.namespace):
            raise repo_not_found()
        if write:
            self._may_write(repo.namespace, caller)
        return repo

    def repos(self, kind: str | None, caller: Caller) -> list[Repo]:
        """All repositories that ``caller`` may see, of one type or of all, newest first."""
        with self.database.read() as db:
            rows = db.execute("SELECT * FROM repos ORDER BY created DESC, id").fetchall()
        found = [_repo(row) for row in rows if kind in (None, row["type"])]
        return [repo for repo in found if not repo.private or caller.owns(repo.namespace)]

    def insert_repo(
        self, db: sqlite3.Connection, kind: str, namespace: str, name: str, private: bool | None, sdk: str | None,
        caller: Caller,
    ) -> Repo:  # fmt: skip
        """Add the row of a new repository: within a write transaction. ``private`` None is the namespace's default.

        Raises HubError 409 (with the existing one in the message's place), 400 for a bad name, 401 / 403.
        """
        self._may_write(namespace, caller)
        owner = db.execute("SELECT * FROM users WHERE name = ?", (_namespace(namespace),)).fetchone()
        if owner is None:  # the owner of the hub opens namespaces by using them
            db.execute("INSERT INTO users VALUES (?, ?, '', 1, 0, 0)", (namespace, namespace))
        if private is None:
            private = bool(owner and owner["private_by_default"])
        repo = Repo(
            uuid.uuid4().hex, kind, owner["name"] if owner else namespace, _named(name), private, "", sdk, now()
        )
        try:
            db.execute(
                "INSERT INTO repos VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (repo.uid, repo.type, repo.namespace, repo.name, repo.private, repo.gated, repo.sdk, repo.created),
            )
        except sqlite3.IntegrityError as error:
            raise HubError(409, f"You already created this {kind} repo") from error
        db.execute(
            "DELETE FROM redirects WHERE type = ? AND namespace = ? AND name = ?", (kind, repo.namespace, repo.name)
        )
        return repo

    def move_repo(self, db: sqlite3.Connection, repo: Repo, namespace: str, name: str, caller: Caller) -> None:
        """Give a repository another name, to which its former one leads: within a write transaction.

        Raises HubError 400, 401, 403, 409.
        """
        self._may_write(namespace, caller)
        owner = db.execute("SELECT name FROM users WHERE name = ?", (_namespace(namespace),)).fetchone()
        if owner is None:
            raise HubError(404, f"There is no user or organization {namespace!r}")
        taken = db.execute(
            "SELECT id FROM repos WHERE type = ? AND namespace = ? AND name = ?", (repo.type, namespace, _named(name))
        ).fetchone()
        if taken and taken["id"] != repo.uid:
            raise HubError(409, f"A {repo.type} repository called {namespace}/{name} already exists")
        former = (repo.type, repo.namespace, repo.name)
        db.execute("INSERT OR REPLACE INTO redirects VALUES (?, ?, ?, ?)", (*former, repo.uid))
        db.execute("DELETE FROM redirects WHERE type = ? AND namespace = ? AND name = ?", (repo.type, namespace, name))
        db.execute("UPDATE repos SET namespace = ?, name = ? WHERE id = ?", (owner["name"], name, repo.uid))

    def delete_repo(self, repo: Repo) -> None:
        """Remove a repository with everything that nothing else uses."""
        with self.database.write() as db:
            had = [row["sha256"] for row in db.execute("SELECT sha256 FROM objects WHERE repo = ?", (repo.uid,))]
            db.execute("DELETE FROM repos WHERE id = ?", (repo.uid,))
            for table in ("redirects", "refs", "commits", "objects", "discussions", "events", "storage_tokens"):
                db.execute(f"DELETE FROM {table} WHERE repo = ?", (repo.uid,))  # noqa: S608 - names from the line above
            unheld = self.xorbs.forget(db, repo.uid)
        self.drop_unused(had, unheld)
        shutil.rmtree(self.git_folder(repo), ignore_errors=True)

    def drop_unused(self, objects: list[str], xorbs: list[bytes]) -> None:
        """Delete the files of these that no row names any more.

        After the transaction that removed the rows: a file may be missing for none that was undone.
        """
        with self.database.write() as db:
            self.objects.drop_unused(db, objects)
            self.xorbs.drop_unused(db, xorbs)

    def _may_write(self, namespace: str, caller: Caller) -> None:
        if caller.user is None:
            raise HubError(401, "Invalid username or password.")
        if not caller.owns(namespace):
            raise HubError(403, f"You don't have the rights to write in the namespace {namespace!r}")
        if caller.role != "write":
            raise HubError(403, "This token may read only: use a token with write access")

    # Storage tokens: what a client shows to the storage, so that its own token stays with the API

    def storage_token(self, repo: Repo, caller: Caller, scope: str) -> tuple[str, int]:
        """A new token for the storage of one repository, with the Unix time of its end."""
        token, expires = secrets.token_urlsafe(32), int(time.time()) + _STORAGE_SECONDS
        with self.database.write() as db:
            db.execute("DELETE FROM storage_tokens WHERE expires < ?", (int(time.time()),))
            db.execute(
                "INSERT INTO storage_tokens VALUES (?, ?, ?, ?, ?)",
                (_digest(token), repo.uid, caller.user or "", scope, expires),
            )
        return token, expires

    def storage_access(self, token: str, scope: str) -> tuple[str, str]:
        """(repository uid, user) of a storage token of this scope. Raises HubError 401."""
        with self.database.read() as db:
            row = db.execute(
                "SELECT repo, user FROM storage_tokens WHERE sha256 = ? AND scope = ? AND expires >= ?",
                (_digest(token), scope, int(time.time())),
            ).fetchone()
        if row is None:
            raise HubError(401, "the storage token is unknown, of another scope, or has expired")
        return row["repo"], row["user"]


def now() -> str:
    """The time as the Hub writes it: ISO 8601, milliseconds, Z."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _repo(row: sqlite3.Row) -> Repo:
    return Repo(
        row["id"], row["type"], row["namespace"], row["name"], bool(row["private"]), row["gated"], row["sdk"],
        row["created"],
    )  # fmt: skip


def _named(name: str) -> str:
    """A name that users and repositories can have. Raises HubError 400."""
    if not _NAME.fullmatch(name) or "--" in name or ".." in name or name.endswith((".git", ".ipynb")):
        raise HubError(400, f"Invalid name: {name!r} (letters, digits, '-', '_' and '.', at most 96)")
    return name


def _namespace(name: str) -> str:
    """The name of a user or an organisation: it begins paths. Raises HubError 400."""
    if name.lower() in _OWN_PATHS.split():
        raise HubError(400, f"Invalid name: {name!r} is the hub's own")
    return _named(name)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
