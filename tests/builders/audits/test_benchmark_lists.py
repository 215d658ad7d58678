"""Lists of benchmark tasks: what is read, and what is refused by name."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from action_reward_models.builders import runner
from action_reward_models.builders.audits import benchmarks
from action_reward_models.builders.audits.tasks import Task
from action_reward_models.builders.spec import BenchmarkSpec
from action_reward_models.schemas.errors import ArmError

if TYPE_CHECKING:
    from tests.builders.conftest import Toy


def listed(folder: Path, name: str, data: bytes, near: float = 0.8) -> BenchmarkSpec:
    path = folder / name
    path.write_bytes(data)
    return BenchmarkSpec("bench", path, hashlib.sha256(data).hexdigest(), near)


@pytest.mark.parametrize(
    ("name", "data", "tasks"),
    [
        ("a.txt", b"\xef\xbb\xbfOne\r\n\n  two \nthree\xe2\x80\xa8four", ["One", "two", "three\u2028four"]),
        ("a.txt", b"[shop] buy\n{weird} task\n", ["[shop] buy", "{weird} task"]),
        ("a.json", b'["One", {"task": "two"}, {"intent": "three", "id": 1}]', ["One", "two", "three"]),
        ("a.json", b'[{"question": "q", "task": "t"}]', ["t"]),  # the first field that it has
        ("a.jsonl", b'{"confirmed_task": "One"}\n\n"two"\n', ["One", "two"]),
        ("A.JSONL", b'{"instruction": "One"}', ["One"]),
    ],
)
def test_what_is_read(name: str, data: bytes, tasks: list[str], tmp_path: Path) -> None:
    assert benchmarks.read(listed(tmp_path, name, data)) == tasks


@pytest.mark.parametrize(
    ("name", "data", "where", "message"),
    [
        ("a.txt", b"", "a.txt", "the file holds none"),
        ("a.txt", b"\xff\xfe", "a.txt", "are not UTF-8"),
        ("a.json", b'{"tasks": []}', "a.json", "are no array"),
        ("a.json", b"[1,", "a.json", "are not JSON"),
        ("a.json", b'["x", {"name": "y"}]', "a.json[1]", "task, intent, confirmed_task, question, instruction"),
        ("a.jsonl", b'"x"\n{"task": 3}', "a.jsonl:2", "a task is a text"),
        ("a.jsonl", b'"x"\nplain words', "a.jsonl:2", "are not JSON"),
    ],
)
def test_what_is_refused(name: str, data: bytes, where: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ArmError, match=message) as caught:
        benchmarks.read(listed(tmp_path, name, data))
    assert caught.value.where == str(tmp_path / where)


def test_a_list_that_changed_is_refused_before_anything_is_read(toy: Toy) -> None:
    toy.scene("a")
    bench = listed(toy.folder, "list.txt", b"one\n")
    bench.path.write_bytes(b"two\n")
    toy.sets.append(b"this is no JSON")  # not looked at
    with pytest.raises(ArmError, match="the tasks of bench changed"):
        runner.build(toy.spec(benchmarks=(bench,)), toy.folder / "out", card=lambda manifest: "", workers=1)
    bench.path.unlink()
    with pytest.raises(ArmError, match="cannot be read"):
        benchmarks.read(bench)


def test_similarity_by_hand(tmp_path: Path) -> None:
    """Six words have four triples; with the last one changed three are shared, of five: 0.6."""
    task = Task("a b c d e f", "g", {"train": 3, "validation": 1}, {"train": "x", "validation": "y"})
    (tmp_path / "far").mkdir()
    near = benchmarks.match([task], listed(tmp_path, "a.txt", b"", 0.6), ["A b, c d e g!"])
    assert near["near"] == 1
    assert near["states"] == {"train": 3, "validation": 1}
    assert near["named"] == [
        {"ours": "a b c d e f", "theirs": "A b, c d e g!", "how": "near", "similarity": 0.6, "state": "x"}
    ]
    assert benchmarks.match([task], listed(tmp_path, "a.txt", b"", 0.61), ["A b, c d e g!"])["near"] == 0


def test_all_are_counted_and_some_are_named(tmp_path: Path) -> None:
    ours = [Task(f"task number {n}", f"{n}", {"train": 1}, {"train": f"s{n:02}"}) for n in range(50)]
    found = benchmarks.match(ours, listed(tmp_path, "a.txt", b""), [f"Task number {n}" for n in range(40)])
    assert (found["tasks"], found["normalised"], found["states"]["train"]) == (40, 40, 40)
    assert len(found["named"]) == 20
