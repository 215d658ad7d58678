"""YAML that people write: what is read, what is refused, and in which line."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.yamlfile import YamlFile, parse, read

CASES = yaml.safe_load((Path(__file__).parent / "yaml_cases.yaml").read_text("utf-8"))
REVIEW = b"item_id: i\nverdict: keep\nnote: ''\nreviewer: r\ntime: 2026-11-29T08:05:00Z\n"


def write(tmp_path: Path, data: bytes | str) -> Path:
    path = tmp_path / "file.yaml"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def refusal(path: Path, schema: str = "review/1") -> ArmError:
    with pytest.raises(ArmError) as caught:
        read(path, schema)
    return caught.value


def test_the_cases_are_whole() -> None:
    assert len(CASES["good"]) == CASES["good_count"] >= 10
    assert len(CASES["bad"]) == CASES["bad_count"] >= 60
    names = [case["name"] for kind in ("good", "bad") for case in CASES[kind]]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("case", CASES["good"], ids=lambda case: case["name"])
def test_good(case: dict[str, Any], tmp_path: Path) -> None:
    file = read(write(tmp_path, case["text"]), case["schema"])
    assert file.data == case["data"]
    for name, value in case["data"].items():
        assert repr(file.data[name]) == repr(value)  # 1 is not 1.0 and not "1"


@pytest.mark.parametrize("case", CASES["bad"], ids=lambda case: case["name"])
def test_bad(case: dict[str, Any], tmp_path: Path) -> None:
    text = CASES["bases"].get(case.get("base"), "") + case["text"]
    path = write(tmp_path, text)
    error = refusal(path, case.get("schema", "review/1"))
    assert [f"{issue.line} {issue.path} {issue.message}" for issue in error.issues] == case["issues"]
    assert {issue.file for issue in error.issues} == {str(path)}
    count = len(case["issues"])
    assert str(error).splitlines()[0] == f"{path}: has {count} problem{'s' if count > 1 else ''}"


@pytest.mark.parametrize(
    ("data", "line", "message"),
    [
        (REVIEW.replace(b"keep\n", b"caf\xe9\n", 1), 2, "is not UTF-8: invalid continuation byte at byte 23"),
        (REVIEW.decode().encode("utf-16"), 1, "is not UTF-8: invalid start byte at byte 0"),
        (b"item_id: \xed\xa0\x80\n", 1, "is not UTF-8: invalid continuation byte at byte 9"),
        (b"\n\r\n\xc3", 3, "is not UTF-8: unexpected end of data at byte 3"),
        (b"#" * (1 << 20) + b"\n", 1, "is larger than 1,048,576 bytes; this is a file that a person writes"),
    ],
    ids=["latin 1", "utf 16", "surrogate", "cut", "too big"],
)
def test_no_text(data: bytes, line: int, message: str, tmp_path: Path) -> None:
    path = write(tmp_path, data)
    assert str(refusal(path)) == f"{path}: has 1 problem\n  {path}:{line} $ {message}"


def test_no_file(tmp_path: Path) -> None:
    path = tmp_path / "absent.yaml"
    assert str(refusal(path)) == f"{path}: cannot be read: No such file or directory"
    assert str(refusal(tmp_path)) == f"{tmp_path}: cannot be read: Is a directory"
    below = write(tmp_path, REVIEW) / "x"
    assert str(refusal(below)) == f"{below}: cannot be read: Not a directory"


@pytest.mark.parametrize("character", ["\x00", "\x07", "\x1b", "\x7f", "\x80", "\x9b", "\ufffe", "\uffff"])
def test_characters_that_yaml_forbids_are_named_with_their_line(character: str, tmp_path: Path) -> None:
    error = refusal(write(tmp_path, f"item_id: é\u2028\r\n# x\nnote: '{character}'\n"))
    (issue,) = error.issues
    assert (issue.line, issue.path) == (3, "$")
    assert issue.message == f"is not YAML: holds the forbidden character U+{ord(character):04X}"


def test_lines_are_those_of_an_editor(tmp_path: Path) -> None:
    """YAML ends lines at characters that no editor shows as a line end."""
    start = 'item_id: "a\x85b\u2028c\u2029d"\r\n\r# e\n'
    error = refusal(write(tmp_path, f"{start}note: *x\nverdict: [}}"))
    assert [(issue.line, issue.path) for issue in error.issues] == [(5, "$")]
    error = refusal(write(tmp_path, f"{start}note: *x\n"))
    assert (4, "$.note") in [(issue.line, issue.path) for issue in error.issues]


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? ", "[{a: ", "!!x ["])
def test_nesting_without_end_is_cheap_to_refuse(opening: str, tmp_path: Path) -> None:
    start = time.process_time()
    error = refusal(write(tmp_path, "item_id: i\nnote:\n  " + opening * 20_000))
    assert time.process_time() - start < 5
    assert [(issue.line, issue.path) for issue in error.issues] == [(3, "$")]
    assert error.issues[0].message == "is not YAML: nested more than 64 deep"


@pytest.mark.parametrize("escape", ["U00110000", "U7FFFFFFF", "U80000000", "UFFFFFFFF"])
def test_an_escape_that_is_no_character_is_named_with_its_line(escape: str) -> None:
    for text, line in (
        (f'item_id: "\\{escape}"', 1),
        (f'item_id: "a\n  b\n  \\{escape}\n  "\nnote: b', 3),
        (f'"\\{escape}": 1', 1),
    ):
        with pytest.raises(ArmError) as caught:
            parse(text, Path("file.yaml"), "review/1")
        issue = caught.value.issues[0]
        assert (issue.line, issue.message) == (line, "is not YAML: holds an escape that is no character")


def test_a_version_of_many_digits_and_a_hostile_tag_are_cut() -> None:
    with pytest.raises(ArmError, match="1 \\$ is not YAML: names a YAML version that does not exist"):
        parse(f"%YAML 1.{'9' * 5_000}\n---\na: b\n", Path("file.yaml"), "review/1")
    with pytest.raises(ArmError) as caught:
        parse(f"note: !%1B[31m{'x' * 500} a", Path("file.yaml"), "review/1")
    shown = next(issue.message for issue in caught.value.issues if issue.path == "$.note")
    assert shown == f"has the tag !\\u001b[31m{'x' * 73}…; only plain values are read"


def test_lines_of_values_and_of_places_that_are_not_there(tmp_path: Path) -> None:
    nulls = ["interval_low", "interval_high", "interval_method", "judge", "protocol_sha256", "prompt_sha256"]
    text = "# card\nmetric: m\nbaselines:\n\n- name: a\n  value: 1\n-\n  name: b\n  value: 2\n" + "".join(
        f"{name}:\n" for name in [*nulls, "value", "task_set_sha256", "dataset_commit", "model_commit"]
    )
    file = read(write(tmp_path, text + "n: 1\nn_valid: 1\ndifferences: []"), "eval_report/1")
    lines = {
        path: file.line(path) for path in ("$", "$.metric", "$.baselines", "$.baselines[0]", "$.baselines[1].value")
    }
    assert lines == {"$": 2, "$.metric": 2, "$.baselines": 3, "$.baselines[0]": 5, "$.baselines[1].value": 9}
    assert file.line("$.baselines[0].nothing") == 5
    assert file.line("$.baselines[7].name") == 3
    assert file.line("$.nothing[3]['a.b']") == 2
    assert file.line("$['a.b']['c[']") == 2
    assert file.line("") == file.line("elsewhere") == file.line("a.b[1]") == 1
    assert YamlFile(Path("x"), {}, {}).line("$.a") == 1


def test_what_is_read_needs_no_yaml_types(tmp_path: Path) -> None:
    data = read(write(tmp_path, REVIEW), "review/1").data
    assert data == {"item_id": "i", "verdict": "keep", "note": "", "reviewer": "r", "time": "2026-11-29T08:05:00Z"}
    assert {type(value) for value in data.values()} == {str}
