"""The start page: each repository in a line or two."""

from __future__ import annotations

from dataclasses import dataclass

from ..card_yaml import README_LIMIT
from ..content import describe
from ..git import Git
from ..store import Caller, Repo, Store
from ..web import may_read
from .card import split_card, words

_MOST_TAGS = 6
_MOST_FILES = 20_000
_summaries: dict[tuple[str, str], Summary] = {}  # by repository and commit, so that nothing gets stale
_MOST_SUMMARIES = 1000


@dataclass(frozen=True)
class Summary:
    """What the head of `main` says; ``size`` in bytes."""

    title: str
    about: str
    tags: list[str]
    size: int
    files: int
    changed: str


@dataclass(frozen=True)
class Listed:
    """``summary`` is None for a repository without `main`; ``newest_tag`` is "" without tags."""

    repo: Repo
    summary: Summary | None
    newest_tag: str


def listed(hub: Store, caller: Caller) -> list[Listed]:
    """Every repository that ``caller`` may see and whose files it may read, the last changed first."""
    found = []
    for repo in hub.repos(None, caller):
        if not may_read(repo, caller):
            continue
        with hub.database.read() as db:
            rows = db.execute("SELECT name, sha FROM refs WHERE repo = ? ORDER BY rowid", (repo.uid,)).fetchall()
            refs = {row["name"]: row["sha"] for row in rows}
            tags = [name.removeprefix("refs/tags/") for name in refs if name.startswith("refs/tags/")]
            head = refs.get("refs/heads/main")
            key = (repo.uid, head or "")
            if head and key not in _summaries:
                if len(_summaries) >= _MOST_SUMMARIES:
                    _summaries.clear()
                git = Git(hub.git_folder(repo))
                files = 0
                size = 0
                for entry in git.files(head):
                    size += describe(db, git, repo.uid, entry).size
                    files += 1
                    if files >= _MOST_FILES:
                        break
                _summaries[key] = _summary(git, head, size, files)
        found.append(Listed(repo, _summaries.get(key), tags[-1] if tags else ""))
    return sorted(found, key=lambda item: item.summary.changed if item.summary else item.repo.created, reverse=True)


def _summary(git: Git, head: str, size: int, files: int) -> Summary:
    text = (git.read(head, "README.md") or b"")[:README_LIMIT].decode("utf-8", "replace")
    card = split_card(text)
    title = next(iter(words(card.head.get("pretty_name"))), "")
    tags = words(card.head.get("tags"))[:_MOST_TAGS]
    return Summary(title, _about(card.body), tags, size, files, git.commit(head).date)


def _about(body: str) -> str:
    """The first paragraph of plain words, cut."""
    inside_code = False
    for paragraph in body[:20_000].replace("\r\n", "\n").split("\n\n"):
        text = paragraph.strip()
        inside_code ^= text.count("```") % 2 == 1
        if text and not inside_code and text[0].isalnum():
            words = " ".join(text.replace("*", "").replace("`", "").split())
            return words if len(words) <= 220 else words[:219].rstrip() + "…"
    return ""
