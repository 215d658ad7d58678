"""`.gitignore` and `.gitattributes` mean what they mean to git, and no pattern takes long."""

from __future__ import annotations

import random
import subprocess
import threading
import time
from pathlib import Path

import pytest
from action_reward_models.hub_sync.local_hub.path_rules import IgnoreRules, parse_pattern
from action_reward_models.hub_sync.local_hub.upload_modes import default_attributes, is_ignored, is_stored

from .conftest import Site

PATTERNS = [
    "*.tmp", "build/", "/top", "a/b", "a/**", "**/b", "a/**/c", "!keep.tmp", "!a/keep", "# no", r"\#yes", r"\!no", "b ",
    r"b\ ", "[ab].txt", "[!a].txt", "[^a].txt", "?", "*", "!*/", "**", "**/", "a*b*c", "/**/x", "/*", "!/a", "a/*/c",
    "/", "", "x/", "a.?xt", "*a*", "[a-c]*", "c", "a/b/", "**/a/b", "a/", "!a/b/c", "x/**/y/", r"a\*", "***", "**c",
]  # fmt: skip
NAMES = [
    "a",
    "b",
    "c",
    "x",
    "y",
    "top",
    "build",
    "keep",
    "a.txt",
    "b.txt",
    "keep.tmp",
    "x.tmp",
    "abc",
    "#yes",
    "!no",
    "a*",
]
EVIL = [
    "*a" * 9 + "*b", "**/" + "a/**/" * 60 + "b", "*" * 1000 + "b", "a?" * 300 + "*b", "[a-z]*" * 150 + "0",
    ("*" + "a" * 200) * 5 + "b", "/".join(["*a*"] * 200), "(a+)+$", "[[[[[[" * 100, "[[a][a[b][z-a][!]&&||--x]",
]  # fmt: skip


@pytest.fixture
def work(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


def asked(work: Path, command: list[str], paths: list[str]) -> list[str]:
    """What git answers for paths that need not exist."""
    given = "\0".join(paths) + "\0"
    words = ["git", "-c", "core.excludesFile=", "-c", "core.attributesFile=", *command, "-z", "--stdin"]
    done = subprocess.run(words, cwd=work, input=given, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.split("\0")[:-1]


def test_ignored_as_by_git(work: Path) -> None:
    rng, left_out = random.Random(4), 0
    for _ in range(120):
        rules = rng.choices(PATTERNS, k=rng.randint(1, 5))
        paths = {"/".join(rng.choices(NAMES, k=rng.randint(1, 4))) for _ in range(40)}
        (work / ".gitignore").write_text("\n".join(rules) + "\n")
        expected = set(asked(work, ["check-ignore", "--no-index"], sorted(paths)))
        found = {path for path in paths if is_ignored(path, "\n".join(rules).encode())}
        assert found == expected, rules
        left_out += len(found)
    assert 500 < left_out < 4000


def test_stored_as_by_git(work: Path) -> None:
    rng, stored = random.Random(5), 0
    usable = [pattern for pattern in PATTERNS if pattern and pattern[0] not in "#!\\" and " " not in pattern]
    for _ in range(120):
        lines = [f"{pattern} {rng.choice(['filter=lfs', '-filter', 'text'])}" for pattern in rng.choices(usable, k=4)]
        paths = sorted({"/".join(rng.choices(NAMES, k=rng.randint(1, 4))) for _ in range(40)})
        (work / ".gitattributes").write_text("\n".join(lines) + "\n")
        answers = asked(work, ["check-attr", "filter"], paths)
        expected = {path for path, value in zip(answers[::3], answers[2::3], strict=True) if value == "lfs"}
        found = {path for path in paths if is_stored(path, 1, b"x", "\n".join(lines).encode())}
        assert found == expected, lines
        stored += len(found)
    assert 200 < stored < 4000


def test_a_new_dataset_stores_what_the_hub_stores() -> None:
    rules = default_attributes("dataset")
    for path in ("data/x.parquet", "a/b.tar.gz", "saved_model/a/b", "run/events.out.tfevents.1", "x.lfs.y", "shot.png"):
        assert is_stored(path, 1, b"x", rules), path
    for path in ("README.md", "data/x.jsonl", "saved_models/a/b", "parquet"):
        assert not is_stored(path, 1, b"x", rules), path


@pytest.mark.parametrize("pattern", EVIL)
@pytest.mark.parametrize("path", ["a" * 250, "/".join("a" * 500), "/".join(["a" * 200] * 5), "a/" * 511 + "b"])
def test_no_pattern_takes_long(pattern: str, path: str) -> None:
    begin = time.thread_time()
    for text in (pattern, f"/{pattern}", f"{pattern}/"):
        IgnoreRules([text]).leave_out(path)
        found = parse_pattern(text)
        assert found is None or found.fits(path) in (True, False)
    assert time.thread_time() - begin < 0.5


def test_a_hub_answers_while_it_looks_at_patterns(site: Site, repo: str) -> None:
    files = [{"path": "a" * 60, "size": 1, "sample": "eA=="}]
    body = {"gitIgnore": "\n".join(EVIL), "files": files}
    statuses: list[int] = []
    path = f"/api/datasets/{repo}/preupload/main"
    looking = threading.Thread(target=lambda: statuses.append(site.call("POST", path, user="bob", body=body).status))
    begin = time.monotonic()
    looking.start()
    assert site.call("GET", "/api/models").status == 200
    looking.join(20)
    assert statuses == [200]
    assert time.monotonic() - begin < 10
