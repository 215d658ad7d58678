"""Bad source lines of all kinds: all told at once, or all excluded by name and the rest built."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from action_reward_models.builders import gathering, runner
from action_reward_models.schemas.errors import ArmError

if TYPE_CHECKING:
    from tests.builders.conftest import Toy

_TURNS = '"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]'
_STATE = '"state_id": "s", "episode_id": "e", "prompt_text": "p"'
_SET = '{"state_id": "good__t0#d7", "base_state_id": "good__t0"'
_LABEL = '{"state_id": "good__t0#d0"'
_NO_JSON = "$ not JSON: "


def _said(content: str) -> str:
    return f'{{"messages": [{{"role": "user", "content": {content}}}, {{"role": "assistant"}}]}}'


# kind -> lines, each with what is said of it: the JSON path and how the message begins
_BAD: dict[str, list[tuple[str | bytes, str]]] = {
    "episodes": [
        (f"{{{_TURNS}}} {{{_TURNS}}}", _NO_JSON),
        (f"[{{{_TURNS}}}]", "$ is [{"),
        ('"a string"', '$ is "a string", not an object'),
        ("null", "$ is null, not an object"),
        (f'{{{_TURNS}, "episode_id": "a", "episode_id": "b"}}', "$ the key 'episode_id' stands twice"),
        (f'{{{_TURNS}, "metadata": {{"reward": NaN}}}}', _NO_JSON),
        (f'{{{_TURNS}, "metadata": {{"reward": 1e999}}}}', _NO_JSON),
        (f'{{{_TURNS}, "metadata": {{"reward": "x"}}}}', '$.metadata.reward is "x", not a number or an object or null'),
        (f'{{{_TURNS}, "metadata": []}}', "$.metadata is [], not an object or null"),
        (f'{{{_TURNS}, "episode_id": 7}}', "$.episode_id is 7, not a string"),
        (f'{{{_TURNS}, "episode_id": ""}}', "$.episode_id is empty"),
        (f'{{{_TURNS}, "episode_id": "a\\nb"}}', '$.episode_id is "a\\nb", which holds a forbidden character'),
        (f'{{{_TURNS}, "half": "\\ud800"}}', _NO_JSON),
        (f'{{{_TURNS}, "latin": "é"}}'.encode("latin-1"), _NO_JSON),
        (f'{{{_TURNS}, "nul": "\0"}}'.encode(), _NO_JSON),
        (f'{{{_TURNS}, "deep": {"[" * 2000}{"]" * 2000}}}', _NO_JSON),
        ('{"episode_id": "a"}', "$ lacks the field 'messages'"),
        ('{"messages": []}', "$.messages is an empty list"),
        ('{"messages": [{"role": "human"}, {"role": "user"}]}', '$.messages[0].role is "human", not one of system'),
        (_said("3"), "$.messages[0].content is 3, not a string or a list or null"),
        (_said('[{"type": "video"}]'), '$.messages[0].content[0].type is "video", not one of text, image_url'),
        (_said('[{"type": "text"}]'), "$.messages[0].content[0] lacks the field 'text'"),
    ],
    "states": [
        (f'{{{_STATE}, "images": [], "turn": 0, "turn": 1}}', "$ the key 'turn' stands twice"),
        (f'{{{_STATE}, "images": [], "turn": -1}}', "$.turn is -1, below the least allowed 0"),
        (f'{{{_STATE}, "images": [], "turn": 0.5}}', "$.turn is 0.5, not an integer"),
        (f'{{{_STATE}, "images": "a.png", "turn": 0}}', '$.images is "a.png", not a list'),
        (f'{{{_STATE}, "image": [], "turn": 0}}', "$.image is not a known field; did you mean 'images'?"),
        ('{"state_id": "s"}', "$ lacks the field 'episode_id'"),
    ],
    "candidate_sets": [
        (f"{_SET}}}", "$ lacks the field 'candidates'"),
        (f'{_SET}, "candidates": []}}', "$.candidates is an empty list"),
        (f'{_SET}, "candidates": "click"}}', '$.candidates is "click", not a list'),
        (f'{_SET}, "candidates": ["a", null]}}', "$.candidates[1] is null, not a string"),
        (f'{_SET}, "candidates": ["a"], "temperature": -1}}', "$.temperature is -1, below the least allowed 0"),
        (_SET.replace("#d7", "") + ', "candidates": ["a"]}', "$.state_id the id 'good__t0' is not good__t0#d<draw>"),
    ],
    "teacher_labels": [
        (f"{_LABEL}}}", "$ lacks the field 'selection'"),
        (f'{_LABEL}, "selection": 0', _NO_JSON),
        (f'{_LABEL}, "selection": "1"}}', '$.selection is "1", not an integer or null'),
        (f'{_LABEL}, "selection": 1.5}}', "$.selection is 1.5, not an integer or null"),
        (f'{_LABEL}, "selection": true}}', "$.selection is true, not an integer or null"),
        (f'{_LABEL}, "selection": 9{"9" * 30}}}', f"$.selection is 9{'9' * 30}, above the largest allowed"),
        (_LABEL.replace("#d0", "") + ', "selection": 0}', "$.state_id 'good__t0' is a state, not a draw"),
    ],
}
BAD = [(kind, line, said) for kind, cases in _BAD.items() for line, said in cases]


@pytest.fixture
def good(toy: Toy) -> Toy:
    """One good record of each kind."""
    toy.scene("good")
    toy.states.append({"state_id": "f__t0", "episode_id": "f", "turn": 0, "prompt_text": "p", "images": []})
    return toy


def _bytes(line: str | bytes) -> bytes:
    return line if isinstance(line, bytes) else line.encode()


def _add_all(toy: Toy) -> list[tuple[str, int, str]]:
    """Put every bad line before the last good one of its kind; return the places (file, line) with what is said."""
    places = []
    for kind, line, said in BAD:
        toy.lines(kind).insert(-1, _bytes(line))
        places.append((toy.files[kind], len(toy.lines(kind)) - 1, said))
    return sorted(places)


@pytest.mark.parametrize(("kind", "line", "said"), BAD, ids=[f"{kind} {said}" for kind, _, said in BAD])
def test_a_bad_line_is_told_with_its_place(good: Toy, kind: str, line: str | bytes, said: str) -> None:
    good.lines(kind).insert(0, _bytes(line))
    with pytest.raises(ArmError) as caught:
        good.build()
    told = [str(issue) for issue in caught.value.issues]
    assert any(text.startswith(f"{good.files[kind]}:1 {said}") for text in told), told
    assert max(map(len, told)) < 300  # a message, not a dump of the record


def test_all_are_listed_at_once_in_the_order_of_the_files(good: Toy) -> None:
    places = _add_all(good)
    out = good.folder / "built"
    with pytest.raises(ArmError) as caught:
        good.build(out)
    assert not out.exists()
    issues = caught.value.issues
    assert list(issues) == sorted(issues)
    assert sorted({(issue.file, issue.line) for issue in issues}) == [(file, line) for file, line, _ in places]
    told = [str(issue) for issue in issues]
    for file, line, said in places:
        assert any(text.startswith(f"{file}:{line} {said}") for text in told), said
    assert caught.value.message == f"the sources have {len(issues)} problems; nothing was built"
    assert "on_invalid: exclude" in (caught.value.next_command or "")


def test_check_tells_the_same_as_a_build(good: Toy) -> None:
    _add_all(good)
    spec = good.spec()
    with pytest.raises(ArmError) as caught:
        good.build()
    issues, account = runner.check(spec, workers=1)
    assert issues == list(caught.value.issues)
    assert account == {}


def test_excluded_lines_are_named_and_the_good_ones_built(good: Toy) -> None:
    alone = good.build()
    _add_all(good)
    good.source = {"on_invalid": "exclude"}
    build = good.build()
    assert build.balanced()
    for table in ("states", "candidate_sets", "teacher_labels", "selection_sft", "bt_pairs"):
        assert build.digests[table] == alone.digests[table], table
    for kind in good.files:
        lines = [_bytes(line) for k, line, said in BAD if k == kind and "is a state, not a draw" not in said]
        rows = build.rows("exclusions", source_table=kind, reason="invalid_record")
        assert sorted(row["source_id"] for row in rows) == sorted(hashlib.sha256(line).hexdigest() for line in lines)
        assert all(row["detail"] and row["status"] == "dropped" for row in rows)
    assert build.excluded("teacher_labels")["base_state_id"] == ["good__t0"]
    assert len({(note.file, note.line) for note in build.notes}) == len(BAD)


def test_a_torn_last_line_swallows_nothing(good: Toy) -> None:
    """An interrupted write: the line is told as what it is, and the next run's record does not hide in it."""
    good.labels.append(b'{"state_id": "good__t0#d0", "sel')
    with pytest.raises(ArmError) as caught:
        good.build()
    (issue,) = caught.value.issues
    assert (issue.file, issue.line) == ("labels.jsonl", 2)
    assert issue.message.endswith("the file ends inside this line, as after an interrupted write")
    good.labels[-1] = b'{"state_id": "good__t0#d0", "sel' + json.dumps(good.labels[0]).encode() + b"\n"
    good.source = {"on_invalid": "exclude"}
    assert len(good.build().excluded("teacher_labels")["invalid_record"]) == 1


def test_a_last_line_without_its_end_is_a_record(good: Toy) -> None:
    good.labels.append(json.dumps(good.labels.pop()).encode())
    assert len(good.build().rows("teacher_labels")) == 1


def test_blank_lines_and_a_byte_order_mark_are_nothing(good: Toy) -> None:
    good.labels = [b"\xef\xbb\xbf" + json.dumps(good.labels[0]).encode() + b"\r", b"", b"  \t", b"\n"]
    build = good.build()
    assert len(build.rows("teacher_labels")) == 1
    assert build.row("selection_sft")["label_id"] == "good__t0#d0|-|-|0"


def test_several_faults_of_one_record_are_all_told(good: Toy) -> None:
    good.sets.insert(0, {"state_id": "", "candidates": [1, "a", 2], "temprature": 0.7})
    with pytest.raises(ArmError) as caught:
        good.build()
    assert [issue.path for issue in caught.value.issues] == [
        "$", "$.candidates[0]", "$.candidates[2]", "$.state_id", "$.temprature",
    ]  # fmt: skip


def test_equal_bad_lines_are_each_counted(good: Toy) -> None:
    good.labels += [b'{"oops', b'{"oops', b""]
    good.source = {"on_invalid": "exclude"}
    build = good.build()
    assert len(build.excluded("teacher_labels")["invalid_record"]) == 2
    assert build.balanced()


def test_a_hopeless_file_stops_early(good: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of the wrong kind does not print a million lines."""
    monkeypatch.setattr(gathering, "MAX_ISSUES", 5)
    good.labels = [b"x"] * 100
    with pytest.raises(ArmError, match="at least 5 problems") as caught:
        good.build()
    assert len(caught.value.issues) == 5


def test_only_declared_sources_may_exclude(good: Toy) -> None:
    _add_all(good)
    sources = good.sources()
    tolerant = tuple(replace(s, on_invalid="exclude") if s.kind != "teacher_labels" else s for s in sources)
    with pytest.raises(ArmError) as caught:
        good.build(sources=tolerant)
    assert {issue.file for issue in caught.value.issues} == {"labels.jsonl"}


@pytest.mark.parametrize("redact", [(), ("secrets",)])
def test_an_integer_that_is_written_as_a_float_is_named(redact: tuple[str, ...], toy: Toy) -> None:
    """As tools write a column of integers that has empty places; Python would index by it and fail."""
    toy.scene("a")
    toy.labels[0]["selection"] = 1.0  # type: ignore[index]
    with pytest.raises(ArmError) as caught:
        toy.build(redact=redact)
    (issue,) = caught.value.issues
    assert str(issue).startswith("labels.jsonl:1 $.selection is 1.0, not an integer: write 1")
    toy.source = {"on_invalid": "exclude"}
    build = toy.build(redact=redact)
    assert list(build.excluded("teacher_labels")) == ["invalid_record"]
    assert build.balanced()
