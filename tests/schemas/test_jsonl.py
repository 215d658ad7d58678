"""JSON Lines: where a line ends, what is refused, and that nothing else changes."""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.schemas import jsonl
from action_reward_models.schemas.jsonl import JsonError, Line


def write(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "x.jsonl"
    path.write_bytes(data)
    return path


# --- lines ---

LINES: list[tuple[str, bytes, list[tuple[int, int, bytes, bool]]]] = [
    ("empty file", b"", []),
    ("only blank lines", b"\n \n\t\r\n\r\n", []),
    ("one line", b"{}\n", [(1, 0, b"{}", True)]),
    ("no line end", b"{}", [(1, 0, b"{}", False)]),
    ("torn", b'{"a":1}\n{"a":', [(1, 0, b'{"a":1}', True), (2, 8, b'{"a":', False)]),
    ("carriage returns", b"1\r\n2\r\n", [(1, 0, b"1", True), (2, 3, b"2", True)]),
    ("a return within", b'"a\rb"\n', [(1, 0, b'"a\rb"', True)]),
    ("returns alone end nothing", b"1\r2\r3", [(1, 0, b"1\r2\r3", False)]),
    ("blank lines count", b"\n\n1\n\n2\n", [(3, 2, b"1", True), (5, 5, b"2", True)]),
    ("mark at the start", b"\xef\xbb\xbf1\n2\n", [(1, 3, b"1", True), (2, 5, b"2", True)]),
    ("mark later on", b"1\n\xef\xbb\xbf2\n", [(1, 0, b"1", True), (2, 2, b"\xef\xbb\xbf2", True)]),
    ("mark alone", b"\xef\xbb\xbf\n1\n", [(2, 4, b"1", True)]),
    (
        "separators of other tools",
        '"a\u2028b\u2029c\x85d\x0be\x0cf\x1cg"\n1\n'.encode(),
        [(1, 0, '"a\u2028b\u2029c\x85d\x0be\x0cf\x1cg"'.encode(), True), (2, 21, b"1", True)],
    ),
    ("not text", b"\xff\xfe\n\x00\n", [(1, 0, b"\xff\xfe", True), (2, 3, b"\x00", True)]),
]


@pytest.mark.parametrize(("data", "expected"), [case[1:] for case in LINES], ids=[case[0] for case in LINES])
def test_lines(tmp_path: Path, data: bytes, expected: list[tuple[int, int, bytes, bool]]) -> None:
    digest = hashlib.sha256()
    path = write(tmp_path, data)
    assert list(jsonl.read_lines(path, digest.update)) == [Line(*line) for line in expected]
    assert list(jsonl.read_lines(path)) == [Line(*line) for line in expected]
    assert digest.digest() == hashlib.sha256(data).digest()
    assert all(data[offset:].startswith(raw) for _, offset, raw, _ in expected)


def test_a_large_file_keeps_numbers_offsets_and_bytes(tmp_path: Path) -> None:
    rng = random.Random(1)
    records = [{"id": i, "text": "é\u2028" * rng.randrange(3000)} for i in range(400)]
    data = b"".join(
        json.dumps(r, ensure_ascii=rng.random() < 0.5).encode() + rng.choice([b"\n", b"\r\n", b"\n\n"]) for r in records
    )
    digest = hashlib.sha256()
    lines = list(jsonl.read_lines(write(tmp_path, data), digest.update))
    assert [jsonl.loads_line(line) for line in lines] == records
    assert digest.digest() == hashlib.sha256(data).digest()
    for line in lines:
        assert data[line.offset : line.offset + len(line.raw)] == line.raw
        assert data.count(b"\n", 0, line.offset) == line.number - 1


# --- values ---

# The parser says what is wrong in its own words; where, must be right (0: start or end of an escape).
NOT_JSON: list[tuple[bytes, int]] = [
    (b"", 1),
    (b"{", 2),
    (b'{"a":1,}', 7),
    (b"{'a':1}", 2),
    (b"[1] [2]", 5),
    (b"1 // one", 3),
    (b"01", 1),
    (b"+1", 1),
    (b"0x10", 2),
    (b"True", 1),
    (b"NaN", 1),
    (b'{"a": NaN}', 7),
    (b"[Infinity]", 2),
    (b"[-Infinity]", 3),
    (b"[1e999]", 2),
    (b"[-1e999]", 2),
    (b"9" * 400, 1),
    (b'"a\nb"', 3),
    (b'"a\x00b"', 3),
    (b'"\\x41"', 0),
    (b'"\\ud800"', 0),
    (b'"\\udc00 "', 0),
    (b'"\\ud800\\u0041"', 0),
    (b'"\xff"', 2),
    (b'"\xc3"', 2),
    (b'"\xed\xa0\x80"', 2),
    (b'"\xc0\xaf"', 2),
    ("\ufeff1".encode(), 1),
    ("1".encode("utf-16"), 1),
    (b"[" * 5000 + b"]" * 5000, 1026),
]

TWICE: list[tuple[bytes, str]] = [
    (b'{"a":1,"a":1}', "the key 'a' stands twice in one object"),
    (b'{"a":1,"b":2,"a":2}', "the key 'a' stands twice in one object"),
    (b'{"a":1,"\\u0061":2}', "the key 'a' stands twice in one object"),
    (b'{"\\u0061":1,"\\u0061":2}', "the key 'a' stands twice in one object"),
    (b'{"\xc3\xa9":1,"\\u00e9":2}', "the key 'é' stands twice in one object"),
    (b'{"\\/":1,"/":2}', "the key '/' stands twice in one object"),
    (b'{"\\"":1,"\\u0022":2}', "the key '\"' stands twice in one object"),
    (b'{"\\\\":1,"\\u005c":2}', "the key '\\\\' stands twice in one object"),
    (b'{"\\ud83d\\ude00":1,"\xf0\x9f\x98\x80":2}', "the key '😀' stands twice in one object"),
    (b'{"":1,"":2}', "the key '' stands twice in one object"),
    (b'[[{"x":[{"y":{"k":0,"k":""}}]}]]', "the key 'k' stands twice in one object"),
    (b'{"a":{"b":1,"b":2},"a":3}', "the key 'b' stands twice in one object"),
    (b'{"n":12345678901234567890,"n":1}', "the key 'n' stands twice in one object"),
    # What the second value holds must not make up for the quotes of the first key.
    (b'{"a":0,"a":"\\u0022\\u0022"}', "the key 'a' stands twice in one object"),
    (b'{"a":"","a":"\\"\\"","b":"\\\\"}', "the key 'a' stands twice in one object"),
    (b'{"a":1,"a":{"b":"c"}}', "the key 'a' stands twice in one object"),
]


@pytest.mark.parametrize(("raw", "column"), NOT_JSON, ids=lambda value: repr(value)[:40])
def test_not_json(raw: bytes, column: int) -> None:
    with pytest.raises(JsonError) as caught:
        jsonl.loads(raw)
    place = column or r"\d+"
    assert re.fullmatch(rf"not JSON: .{{10,100}} at column {place}", str(caught.value))


@pytest.mark.parametrize(("raw", "message"), TWICE, ids=lambda value: repr(value)[:40])
def test_a_key_twice(raw: bytes, message: str) -> None:
    with pytest.raises(JsonError) as caught:
        jsonl.loads(raw)
    assert str(caught.value) == message


def test_a_torn_last_line_is_called_so_and_a_broken_one_before_it_is_not(tmp_path: Path) -> None:
    first, second = jsonl.read_lines(write(tmp_path, b'{"a":\n{"a": "b'))
    with pytest.raises(JsonError) as caught:
        jsonl.loads_line(first)
    assert re.fullmatch("not JSON: [^;]* at column 6", str(caught.value))
    with pytest.raises(JsonError, match="at line 3, column "):
        jsonl.loads(b'{"a":\n\n  1, }')
    with pytest.raises(JsonError) as caught:
        jsonl.loads_line(second)
    assert str(caught.value).startswith("not JSON: ")
    assert str(caught.value).endswith("; the file ends inside this line, as after an interrupted write")


def test_a_whole_last_line_needs_no_line_end(tmp_path: Path) -> None:
    (line,) = jsonl.read_lines(write(tmp_path, b'{"a":1}'))
    assert jsonl.loads_line(line) == {"a": 1}


EXACT = [
    0,
    9007199254740991,
    9007199254740993,
    -9007199254740993,
    2**63 - 1,
    2**63,
    -(2**63) - 1,
    2**64,
    12345678901234567890,
    -123456789012345678901234567890,
    10**300,
]


@pytest.mark.parametrize("number", EXACT, ids=lambda number: str(number)[:24])
def test_integers_keep_every_digit(number: int) -> None:
    for template in ("%d", "[%d]", '{"a":%d}', '[1,%d,"x"]', " [ %d ] ", '[%d,"%d"]'):
        text = template.replace("%d", str(number))
        value = jsonl.loads(text.encode())
        assert value == json.loads(text)
        assert json.dumps(value, separators=(",", ":")) == "".join(text.split())


@pytest.mark.parametrize(
    "text", ["0.1", "-0.0", "1.0", "1e5", "1E+2", "5e-324", "1.7976931348623157e308", "0.30000000000000004", "1e-400",
             "12345678901234567890.0", "1.12345678901234567890123", "12345678901234567890e5", "-1e17"],
)  # fmt: skip
def test_floats_stay_floats(text: str) -> None:
    (value,) = jsonl.loads(f"[{text}]".encode())
    assert type(value) is float
    assert (value, math.copysign(1, value)) == (float(text), math.copysign(1, float(text)))


def test_long_digits_within_text_are_text() -> None:
    assert jsonl.loads(b'["12345678901234567890", "a 98765432109876543210"]') == [
        "12345678901234567890",
        "a 98765432109876543210",
    ]


def from_a_stack(frames: int, call: Callable[[], Any]) -> Any:
    return from_a_stack(frames - 1, call) if frames else call()


def outcome(raw: bytes) -> Any:
    try:
        return jsonl.loads(raw)
    except JsonError as error:
        return str(error)


@pytest.mark.parametrize("frames", [0, 300, 650])
@pytest.mark.parametrize("depth", [10, 199, 200, 201, 254, 255, 300, 500, 900, 1000, 1024, 1025, 2000, 100_000])
def test_nesting_is_limited_whatever_the_stack_of_the_caller(depth: int, frames: int) -> None:
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
        raw = opening * depth + b"1" + closing * depth
        value = from_a_stack(frames, lambda raw=raw: outcome(raw))  # type: ignore[misc]
        if depth > jsonl.DEEPEST:
            kept = depth <= 1024
            assert value == "not JSON we can hold: nested more than 200 deep" if kept else "depth limit" in value
            continue
        for _ in range(depth):
            value = value[0] if opening == b"[" else value["a"]
        assert value == 1


@pytest.mark.parametrize("frames", [0, 300, 650])
@pytest.mark.parametrize("depth", [100, 300, 990])
def test_what_is_nested_below_a_repeated_key_is_refused(depth: int, frames: int) -> None:
    raw = b'{"a":' + b"[" * depth + b"]" * depth + b',"a":1}'
    assert re.search("stands twice|nested more than", from_a_stack(frames, lambda: outcome(raw)))


def test_brackets_in_texts_and_side_by_side_nest_nothing() -> None:
    brackets = "[" * 300 + '\\"{' * 300
    value = {"a": brackets, brackets: [[], {}] * 300, "b": [[brackets]]}
    assert jsonl.loads(json.dumps(value).encode()) == value


NESTS: list[tuple[str, int, bool]] = [
    ("[[1]]", 1, True),
    ("[[1]]", 2, False),
    ('{"a":{"b":[]}}', 2, True),
    ("[] [[[[", 1, False),  # what follows the value
    ("]]] [[[[", 1, False),
    ('["[[[", "\\"[[["]', 1, False),
    ('["[[[', 1, False),
    ('["\\\\", [[', 2, True),
]


@pytest.mark.parametrize(("text", "limit", "deeper"), NESTS)
def test_nesting_is_counted_by_brackets(text: str, limit: int, deeper: bool) -> None:
    assert jsonl.nests_deeper(text, limit) is deeper
    assert jsonl.nests_deeper("[[[[[" + text, limit, 5) is deeper


ALPHABET = string.ascii_letters[:6] + '"\\/\b\f\n\r\t\x00\x7f \u00e9\u2028\ud7ff\ue000\U0001f600{}[]:,'


def random_text(rng: random.Random) -> str:
    return "".join(rng.choice(ALPHABET) for _ in range(rng.randrange(6)))


def random_value(rng: random.Random, depth: int) -> Any:
    match rng.randrange(9 if depth else 6):
        case 0:
            return rng.choice([None, True, False])
        case 1:
            return rng.randrange(-(10**6), 10**6)
        case 2:
            return rng.randrange(-(2**80), 2**80)
        case 3:
            return rng.uniform(-1, 1) * 10.0 ** rng.randrange(-300, 300)
        case 4 | 5:
            return random_text(rng)
        case 6:
            return [random_value(rng, depth - 1) for _ in range(rng.randrange(5))]
        case _:
            return {random_text(rng): random_value(rng, depth - 1) for _ in range(rng.randrange(5))}


def escape_more(rng: random.Random, text: str) -> str:
    """Spell some of the letters of a JSON text as escapes; only letters within strings stand after a quote here."""
    return "".join(f"\\u{ord(c):04x}" if c in "\u00e9\u2028\ud7ff\ue000" and rng.random() < 0.5 else c for c in text)


def test_whatever_is_dumped_is_read_back() -> None:
    rng = random.Random(20261129)
    quotes = 0
    for _ in range(500):
        value = random_value(rng, 5)
        text = json.dumps(value, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, None, 1])).replace("\n", " ")
        text = escape_more(rng, text)
        quotes += text.count('\\"')
        read = jsonl.loads(text.encode())
        assert read == value
        assert json.dumps(read) == json.dumps(value)  # 1 is not 1.0 and key order stays
    assert quotes > 100


def pieces(value: Any) -> list[dict[str, Any]]:
    found = [value] if isinstance(value, dict) and value else []
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return found + [piece for child in inner for piece in pieces(child)]


class Twice(dict[str, Any]):
    """Dumps one of its keys two times."""

    def __init__(self, value: dict[str, Any], key: str, other: Any) -> None:
        super().__init__(value)
        self.extra = (key, other)

    def items(self) -> Any:
        return [*super().items(), self.extra]


def replaced(value: Any, target: Any, by: Any) -> Any:
    if value is target:
        return by
    if isinstance(value, dict):
        return {key: replaced(child, target, by) for key, child in value.items()}
    return [replaced(child, target, by) for child in value] if isinstance(value, list) else value


def test_a_duplicate_is_found_wherever_it_stands() -> None:
    rng = random.Random(7)
    found = 0
    while found < 200:
        value = random_value(rng, 5)
        objects = pieces(value)
        if not objects:
            continue
        target = rng.choice(objects)
        key = rng.choice(list(target))
        text = json.dumps(replaced(value, target, Twice(target, key, random_value(rng, 2))))
        with pytest.raises(JsonError, match="stands twice in one object"):
            jsonl.loads(text.encode())
        found += 1
