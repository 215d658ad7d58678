"""How files are cut into records: where each begins, and what cannot be cut."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from action_reward_models.builders.importers.containers import records
from action_reward_models.schemas import jsonl


def cut(path: Path, data: bytes) -> list[tuple[int, bytes]]:
    """(line, bytes) of each record; what stands at its offset is the record, and every byte was fed."""
    path.write_bytes(data)
    digest = hashlib.sha256()
    lines = list(records(path, digest.update))
    assert digest.hexdigest() == hashlib.sha256(data).hexdigest()
    for line in lines:
        assert data[line.offset : line.offset + len(line.raw)] == line.raw
    return [(line.number, line.raw) for line in lines]


@pytest.mark.parametrize("name", ["a.json", "a.JSON"])
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'[{"a": 1}, {"b": [2]}]', [(1, b'{"a": 1}'), (2, b'{"b": [2]}')]),
        (b'\xef\xbb\xbf[\r\n{"a": 1},\r\n\r\n{"b":\n2}\n]\n', [(2, b'{"a": 1}'), (4, b'{"b":\n2}')]),
        ('[{"é": "\u2028😀"},\n{"b": 2}]'.encode(), [(1, '{"é": "\u2028😀"}'.encode()), (2, b'{"b": 2}')]),
        (b'[1, "a,]", null]', [(1, b"1"), (2, b'"a,]"'), (3, b"null")]),
        (b'\n {"a":\n 1}\n', [(2, b'{"a":\n 1}')]),
        (b"[]", []),
        (b" \n", []),
        (b"", []),
    ],
)
def test_a_document(tmp_path: Path, name: str, data: bytes, expected: list[tuple[int, bytes]]) -> None:
    assert cut(tmp_path / name, data) == expected


def test_lines_are_lines_whatever_the_file_is_called(tmp_path: Path) -> None:
    """Published files of this kind are called .json and hold JSON Lines."""
    data = b'{"a": 1}\n\n{"b": 2}\r\n{"c": '
    expected = [(1, b'{"a": 1}'), (3, b'{"b": 2}'), (4, b'{"c": ')]
    assert cut(tmp_path / "a.json", data) == cut(tmp_path / "a.jsonl", data) == expected


@pytest.mark.parametrize(
    ("data", "whole"),
    [
        (b'[{"a": 1}, {"b"', 1),
        (b'[{"a": 1}', 1),
        (b'[{"a": 1} {"b": 2}]', 1),
        (b'[{"a": 1},]', 1),
        (b'[{"a": 1}]\n[{"b": 2}]', 1),
        (b'{"a": 1', 0),
        (b'{"a": 1} {"b": 2}', 0),
        (b'[{"a": 1}, {"b": \xff}]', 0),
    ],
)
def test_what_cannot_be_cut_is_given_to_whoever_says_what_is_wrong(tmp_path: Path, data: bytes, whole: int) -> None:
    found = cut(tmp_path / "a.json", data)
    assert len(found) == whole + 1
    for _, raw in found[:whole]:
        json.loads(raw)
    with pytest.raises(jsonl.JsonError):
        jsonl.loads(found[-1][1])
