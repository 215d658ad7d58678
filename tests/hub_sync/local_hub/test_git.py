"""The git storage alone: edits, history, merges."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from action_reward_models.hub_sync.local_hub.errors import HubError
from action_reward_models.hub_sync.local_hub.git import Git
from action_reward_models.hub_sync.local_hub.pointers import Pointer, parse_pointer


@pytest.fixture
def git(tmp_path: Path) -> Git:
    return Git.create(tmp_path / "git")


def commit(git: Git, parent: str | None, files: dict[str, bytes | None]) -> str:
    """A commit that writes the files, and deletes those that are None."""
    edit = git.edit(parent)
    for path, data in files.items():
        if data is None:
            assert edit.delete(path)
        else:
            edit.put(path, git.write_blob(data))
    return git.write_commit(str(edit.write()), [parent] if parent else [], "ann", f"change {' '.join(files)}\n\nmore")


def paths(git: Git, sha: str) -> list[str]:
    return [entry.path for entry in git.files(sha)]


def test_git_itself_agrees(git: Git, tmp_path: Path) -> None:
    """What is written is a sound repository for git, when git is at hand."""
    sha = commit(git, commit(git, None, {"b/c": b"1", "b.txt": b"2", "b-": b"3"}), {"ü/d": b"4"})
    assert paths(git, sha) == ["b-", "b.txt", "b/c", "ü/d"]
    checked = subprocess.run(
        ["git", "fsck", "--strict", sha], cwd=tmp_path / "git", capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr


def test_edits(git: Git) -> None:
    first = commit(git, None, {"a": b"1", "d/e/f": b"2", "d/g": b"3"})
    assert paths(git, commit(git, first, {"d/e/f": None})) == ["a", "d/g"]
    assert paths(git, commit(git, first, {"d": None, "d/new": b"4"})) == ["a", "d/new"]
    assert paths(git, commit(git, first, {"d/e/f": None, "d/g": None, "d": b"a file"})) == ["a", "d"]
    assert paths(git, commit(git, first, {"a": None, "a/b": b"5"})) == ["a/b", "d/e/f", "d/g"]
    edit = git.edit(first)
    assert not edit.delete("none")
    assert not edit.delete("a/b")
    for path in ("a/b", "d", "d/e"):
        with pytest.raises(HubError) as refused:
            edit.put(path, git.write_blob(b"x"))
        assert refused.value.status == 422
    assert str(git.edit(first).write()) == git.tree(first)


def test_last_commits(git: Git) -> None:
    first = commit(git, None, {"a": b"1", "d/e/f": b"2", "d/g": b"3"})
    second = commit(git, first, {"d/e/f": b"4"})
    third = commit(git, second, {"d/g": None, "h": b"5"})
    found = git.last_commits(third, ["a", "d", "d/e", "d/e/f", "h", "missing"])
    assert {path: found[path].sha for path in ("a", "d", "d/e", "d/e/f", "h")} == {
        "a": first, "d": third, "d/e": second, "d/e/f": second, "h": third,
    }  # fmt: skip
    assert [c.sha for c in git.log(third)] == [third, second, first]
    assert (git.commit(first).title, git.commit(first).body, git.commit(first).author) == (
        "change a d/e/f d/g",
        "more",
        "ann",
    )


def test_merge(git: Git) -> None:
    base = commit(git, None, {"a": b"1\n", "b": b"1\n"})
    ours, theirs = commit(git, base, {"a": b"2\n"}), commit(git, base, {"b": b"2\n", "c": b"3\n"})
    tree, conflicts = git.merge(ours, theirs)
    assert tree is not None
    merged = git.write_commit(tree, [ours], "ann", "merged")
    assert (git.read(merged, "a"), git.read(merged, "b"), git.read(merged, "c")) == (b"2\n", b"2\n", b"3\n")
    assert git.merge(ours, commit(git, base, {"a": b"3\n"})) == (None, ["a"])
    assert git.merge(ours, commit(git, None, {"z": b"1"})) == (None, [])
    assert conflicts == []


def test_pointers() -> None:
    pointer = Pointer("ab" * 32, 10**12)
    assert parse_pointer(pointer.text) == pointer
    for text in (
        pointer.text[:-1],
        pointer.text + b"\n",
        pointer.text.replace(b"sha256", b"sha512"),
        pointer.text.replace(b"\n", b"\r\n"),
        pointer.text.replace(b"ab", b"AB"),
        pointer.text.replace(b"size 1", b"size 01"),
        pointer.text.replace(b"size 1", "size ١".encode()),
    ):
        assert parse_pointer(text) is None
