"""What a hub holds, read without our client and without Hugging Face's: plain requests, every byte hashed."""

from __future__ import annotations

import hashlib
import http.client
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from action_reward_models.cards.dataset import render
from action_reward_models.hub_sync.hub import git_blob_id

NAMING = ("README.md", "load.py", "manifest.json")


@dataclass(frozen=True)
class Held:
    """A repository. ``commits`` are those of main, newest first; ``files``: commit -> path -> sha256 of its bytes.

    ``naming``: commit -> path -> bytes of the files that name the repository.
    """

    repo: str
    commits: list[str]
    tags: dict[str, str]
    pull_requests: int
    files: dict[str, dict[str, str]]
    naming: dict[str, dict[str, bytes]]

    def complete(self, built: Path, tag: str = "v1.0.0", commits: int = 2) -> str:
        """The commit of the one tag: complete, a part of main, and the only one that anyone published."""
        assert list(self.tags) == [tag]
        commit = self.tags[tag]
        assert commit in self.commits
        assert len(self.commits) == commits
        here = {p.relative_to(built).as_posix(): p for p in built.rglob("*") if p.is_file()}
        there = {name: sha256 for name, sha256 in self.files[commit].items() if name != ".gitattributes"}
        assert set(there) == set(here)
        for name, path in here.items():
            if name not in NAMING:
                assert there[name] == hashlib.sha256(path.read_bytes()).hexdigest(), name
        self._named(built, self.naming[commit])
        return commit

    def _named(self, built: Path, files: dict[str, bytes]) -> None:
        """What names the repository is that of the build, under this repository's name."""
        manifest, ours = json.loads(files["manifest.json"]), json.loads((built / "manifest.json").read_bytes())
        before = f"{ours['identity']['namespace']}/{ours['identity']['name']}".encode()
        ours["identity"]["namespace"], ours["identity"]["name"] = self.repo.split("/")
        assert manifest["identity"] == ours["identity"]
        loader = (built / "load.py").read_bytes().replace(b'"%s"' % before, b'"%s"' % self.repo.encode())
        assert files["load.py"] == loader
        assert manifest["environment"]["files"]["load.py"]["sha256"] == hashlib.sha256(loader).hexdigest()
        assert files["README.md"].decode() == render(manifest)


def read(url: str, token: str, repo: str) -> Held:
    """Everything of a repository: each commit that a branch, a tag or a pull request leads to, and its files.

    Whatever is not as listed is an AssertionError.
    """
    reader = _Reader(url, token)
    try:
        return reader.repository(repo)
    finally:
        reader.connection.close()


class _Reader:
    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        self.connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
        self._headers = {"Authorization": f"Bearer {token}"}

    def repository(self, repo: str) -> Held:
        refs = self._json(f"/api/datasets/{repo}/refs?include_prs=1")
        heads = {ref["name"]: ref["targetCommit"] for ref in refs["branches"]}
        tags = {ref["name"]: ref["targetCommit"] for ref in refs["tags"]}
        others = {ref["targetCommit"] for ref in refs["pullRequests"]}
        main = self._log(repo, heads["main"])
        every = {sha for start in {*heads.values(), *tags.values(), *others} for sha in self._log(repo, start)}
        files, naming = {}, {}
        for sha in every:
            files[sha], naming[sha] = self._files(repo, sha)
        return Held(repo, main, tags, len(refs["pullRequests"]), files, naming)

    def _log(self, repo: str, commit: str) -> list[str]:
        return [entry["id"] for entry in self._json(f"/api/datasets/{repo}/commits/{commit}")]

    def _files(self, repo: str, commit: str) -> tuple[dict[str, str], dict[str, bytes]]:
        found, naming = {}, {}
        for entry in self._json(f"/api/datasets/{repo}/tree/{commit}?recursive=true"):
            if entry["type"] != "file":
                continue
            data = self._get(f"/datasets/{repo}/resolve/{commit}/{quote(entry['path'])}")
            assert len(data) == entry["size"]
            sha256 = hashlib.sha256(data).hexdigest()
            if "lfs" in entry:
                assert sha256 == entry["lfs"]["oid"]
            else:
                assert git_blob_id(data) == entry["oid"]
            found[entry["path"]] = sha256
            if entry["path"] in NAMING:
                naming[entry["path"]] = data
        return found, naming

    def _json(self, path: str) -> Any:
        return json.loads(self._get(path))

    def _get(self, path: str) -> bytes:
        self.connection.request("GET", path, headers=self._headers)
        answer = self.connection.getresponse()
        data = answer.read()
        assert answer.status == 200, f"{answer.status} for {path}"
        assert answer.getheader("Link") is None, "a page only"
        return data
