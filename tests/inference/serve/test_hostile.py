"""What a server must not choke on: every request here ends in a clear 4xx, and the next one is answered."""

from __future__ import annotations

import base64
import http.client
import json
import random
import socket
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from action_reward_models.inference.request import Spoken, read
from action_reward_models.inference.serve import bodies, face, run
from action_reward_models.inference.serve.bodies import Limits
from action_reward_models.inference.serve.errors import HttpError
from action_reward_models.schemas.images import data_url
from action_reward_models.tests.inference.made import png, png_header
from action_reward_models.tests.inference.serve.answering import NAME, QUESTION, STATE, Answering, Told, answering
from hypothesis import given, settings
from hypothesis import strategies as st

ROUTES = ("/select", "/score", "/v1/chat/completions")
RED = png("red")
GOOD = json.dumps(QUESTION).encode()
DEEP = b'{"state": ' + b"[" * 5000 + b"]" * 5000 + b"}"


class Scores(Told):
    kind = "scalar"  # or /score would refuse everything for that


@pytest.fixture(scope="module")
def server() -> Iterator[Answering]:
    """The limits are small where a test would have to send much."""
    limits = Limits(2**20, 0.5, image_bytes=2**18, text_characters=10_000, items=100, shown_characters=60_000)
    with answering(limits, Scores()) as found:
        yield found


@pytest.fixture(autouse=True)
def _still_answers(server: Answering) -> Iterator[None]:
    yield
    assert server.post("/select", QUESTION).body["selected_index"] == 1


def chat(question: Any) -> dict[str, Any]:
    said = question if isinstance(question, str) else json.dumps(question)
    return {"model": NAME, "messages": [{"role": "user", "content": said}]}


def asked(*candidates: Any, **state: Any) -> dict[str, Any]:
    return {"state": {**STATE, **state}, "candidates": list(candidates) or ["click(3, 4)"]}


MALFORMED: dict[str, tuple[bytes, str | None, str]] = {  # body, param, a part of the message
    "empty": (b"", "$", "is not JSON"),
    "half": (GOOD[:-5], "$", "is not JSON"),
    "two": (GOOD + GOOD, "$", "unexpected content"),
    "form": (b"state=1&candidates=2", "$", "is not JSON"),
    "NaN": (b'{"state": {"task": "x", "turn": NaN}, "candidates": ["a"]}', "$.state.turn", "NaN is no number"),
    "infinity": (b'{"candidates": ["a", {"action": -Infinity}]}', "$.candidates[1].action", "-Infinity is no number"),
    "too large a number": (b'{"state": {"turn": 1e999}}', "$", "infinity"),
    "many digits": (b'{"state": {"turn": ' + b"1" * 5000 + b"}}", "$", "is not JSON"),
    "equal keys": (b'{"state": {"task": "x", "task": "y"}}', "$.state", "'task' stands twice"),
    "equal keys, escaped": (b'{"candidates": ["a"], "candid\\u0061tes": ["b"]}', "$", "'candidates' stands twice"),
    "deep": (DEEP, "$", "depth"),
    "values": (b"[" + b"0," * 300_000 + b"0]", "$", "more than 250000 values"),
    "no UTF-8": (b'{"state": "\xff"}', "$", "not UTF-8"),
    "UTF-16": (GOOD.decode().encode("utf-16"), "$", "not UTF-8"),
    "byte order mark": (b"\xef\xbb\xbf" + GOOD, "$", "byte order mark"),
    "half a pair": (b'{"state": {"task": "\\ud800"}}', "$", "surrogate"),
    "raw line break": (b'{"state": {"task": "a\nb"}}', "$", "control character"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_json_is_refused_on_every_route(server: Answering, name: str) -> None:
    raw, param, part = MALFORMED[name]
    for route in ROUTES:
        said = server.post(route, raw)
        assert (said.status, said.error["param"]) == (400, param), said.error
        assert part in said.error["message"]


SHAPES: dict[str, tuple[Any, str, str]] = {  # question, param, a part of the message
    "nothing": ({}, "$", "lacks the field"),
    "no candidates": ({"state": STATE}, "$", "lacks the field 'candidates'"),
    "0 candidates": ({"state": STATE, "candidates": []}, "$.candidates", "is an empty list"),
    "candidates are a text": ({"state": STATE, "candidates": "ab"}, "$.candidates", "not a list"),
    "a number": (asked("a", 3), "$.candidates[1]", "is 3"),
    "null": (asked("a", None), "$.candidates[1]", "is null"),
    "a list": (asked([["a"]]), "$.candidates[0]", "is [["),
    "both": (asked({"response": "a", "action": "b"}), "$.candidates[0]", "holds either"),
    "a field more": (asked({"response": "a", "rank": 1}), "$.candidates[0].rank", "not a known field"),
    "10,000 candidates": (asked(*["a"] * 10_000), "$.candidates", "10000 candidates, at most 256"),
    "long candidate": (asked("a", "b" * 10_001), "$.candidates[1]", "a text of 10001 characters"),
    "long thought": (asked({"action": "a", "thought": "b" * 10_001}), "$.candidates[0].thought", "10001 characters"),
    "long page": (asked(observation_text="b" * 10_001), "$.state.observation_text", "10001 characters"),
    "long id": ({**QUESTION, "id": "b" * 5000}, "$.id", "longer than 4096"),
    "obeyed id": ({**QUESTION, "id": "a\nb"}, "$.id", "forbidden character"),
    "much in all": (asked(*["a"] * 200, observation_text="b" * 9_000), "$", "at most 60000 are taken"),
    "history": (asked(history=[{"action": "a"}] * 101), "$.state.history", "a list of 101 items"),
    "wrong turn": (asked(history=[{"action": "a"}] * 3, turn=2), "$.state.turn", "3 are given"),
    "turn 2.5": (asked(turn=2.5), "$.state.turn", "is 2.5"),
    "turn -1": (asked(turn=-1), "$.state.turn", "below the least"),
    "turn 1e300": (asked(turn=1e300), "$.state.turn", "above the largest"),
    "space": ({**QUESTION, "space": "inches"}, "$.space", "not one of pixel, norm1000"),
    "dialect": ({**QUESTION, "dialect": "functoin"}, "$.dialect", "did you mean 'function'?"),
    "address": (asked(screenshot="http://127.0.0.1:1/a.png"), "$.state.screenshot", "data URL"),
    "file": (asked(screenshot="/etc/passwd"), "$.state.screenshot", "data URL"),
    "screenshot is a number": (asked(screenshot=5), "$.state.screenshot", "data URL"),
    "screenshot is a list": (asked(screenshot=[[1], [2, 3]]), "$.state.screenshot", "data URL"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_question_that_is_none_is_refused_with_its_place(server: Answering, name: str) -> None:
    question, param, part = SHAPES[name]
    for route in ROUTES:
        said = server.post(route, chat(question) if "chat" in route else question)
        if "chat" in route and "state" not in question:
            assert said.error["param"] == "$.messages[0].content"
            continue
        assert (said.status, said.error["param"]) == (400, param), said.error
        assert part in said.error["message"], said.error


def _noise(size: int) -> bytes:
    return random.Random(7).randbytes(size)  # cannot be compressed


def _large_png(size: int) -> bytes:
    """A good PNG of more than ``size`` bytes."""
    width = 4096
    rows = size // (3 * width) + 1
    body = zlib.compress(b"".join(b"\0" + _noise(3 * width) for _ in range(rows)), 0)

    def chunk(name: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4) + name + data + zlib.crc32(name + data).to_bytes(4)

    header = chunk(b"IHDR", width.to_bytes(4) + rows.to_bytes(4) + b"\x08\x02\0\0\0")
    return RED[:8] + header + chunk(b"IDAT", body) + chunk(b"IEND", b"")


PICTURES: dict[str, tuple[Callable[[], str], int, str]] = {  # data URL, status, code
    "400 kB": (lambda: data_url(_large_png(400_000)), 413, "image_too_many_bytes"),
    "small and 30 megapixels": (lambda: data_url(png_header(6_000, 5_000)), 413, "image_too_many_pixels"),
    "a line": (lambda: data_url(png_header(10_000, 2)), 400, "image_aspect_ratio"),
    "no width": (lambda: data_url(png_header(0, 5)), 400, ""),
    "no JPEG": (lambda: data_url(b"\xff\xd8\xff" + b"x" * 50), 400, "image_decode_failed"),
    "cut": (lambda: data_url(RED[:-20]), 400, ""),
    "nothing": (lambda: "data:image/png;base64,", 400, ""),
    "bytes after it": (lambda: data_url(RED + b"x"), 400, "image_trailing_bytes"),
    "SVG": (
        lambda: "data:image/svg+xml;base64," + base64.b64encode(b"<svg onload='alert(1)'/>").decode(),
        400, "image_format_not_allowed",
    ),
    "HTML that says it is PNG": (
        lambda: "data:image/png;base64," + base64.b64encode(b"<html>").decode(), 400, "image_format_not_allowed",
    ),
    "no base64": (lambda: "data:image/png;base64,@@@@", 400, "image_bad_data_url"),
    "not encoded": (lambda: "data:image/png,abc", 400, "image_bad_data_url"),
}  # fmt: skip


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_that_is_none_or_too_large_is_refused(server: Answering, name: str) -> None:
    make, status, code = PICTURES[name]
    url = make()
    parts = [{"type": "text", "text": json.dumps(QUESTION)}, {"type": "image_url", "image_url": {"url": url}}]
    in_chat = {"model": NAME, "messages": [{"role": "user", "content": parts}]}
    for route, body in (("/select", asked(screenshot=url)), ("/score", asked(screenshot=url)), (ROUTES[2], in_chat)):
        said = server.post(route, body)
        assert (said.status, said.error["param"]) == (status, "$.state.screenshot"), said.error
        assert said.error["code"] == code if code else said.error["code"].startswith("image_")


def test_pictures_of_10_and_20_megabytes_are_refused_by_the_limits_as_they_are() -> None:
    large = json.dumps(asked(screenshot=data_url(_large_png(10_000_000)))).encode()
    body = json.dumps(asked(screenshot=data_url(_large_png(20_000_000)))).encode()
    chunks = iter([body[at : at + 2**20] for at in range(0, len(body), 2**20)])
    with answering() as server:
        said = server.post("/select", large)
        assert (said.status, said.error["code"], said.error["param"]) == (
            413, "image_too_many_bytes", "$.state.screenshot",
        )  # fmt: skip
        for sent in (body, chunks):  # with a length, and without
            said = server.post("/select", sent)
            assert (said.status, said.error["code"]) == (413, "body_too_large")
        assert server.post("/select", QUESTION).status == 200


def test_whoever_sends_without_end_is_cut_off(server: Answering) -> None:
    with pytest.raises(ConnectionError):
        server.post("/select", iter([b" " * 2**20] * 64))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "text/plain"}, 415),  # what a page from elsewhere may send without being asked
        ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
        ({"Content-Type": "application/jsonp"}, 415),
        ({"Content-Type": "application/json; charset=utf-16"}, 415),
        ({"Content-Type": ""}, 415),
        ({"Content-Encoding": "gzip"}, 415),
        ({"Content-Type": 'application/json; charset="UTF-8"'}, 200),
        ({"Content-Encoding": "identity"}, 200),
    ],
)
def test_only_json_as_it_is_is_read(server: Answering, headers: dict[str, str], status: int) -> None:
    said = server.post("/select", GOOD, headers)
    assert said.status == status
    assert status == 200 or said.error["code"].startswith("unsupported_content")


def test_whoever_sends_nothing_does_not_wait_for_ever(server: Answering) -> None:
    head = (
        b"POST /select HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as gone:
        gone.sendall(head)
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as slow:
        slow.sendall(head)
        answer = slow.makefile("rb").read()  # to its end: the server closes
    assert b" 408 " in answer.split(b"\r\n", 1)[0]
    assert b"body_too_slow" in answer


def test_a_request_within_the_body_of_another_is_not_read(server: Answering) -> None:
    head = b"POST /select HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    within = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    both = b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" % (len(within) + 5)
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as held:
        held.sendall(head + both + within)
        answer = held.makefile("rb").read()  # to its end: the server closes
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b" 400 " in answer.split(b"\r\n", 1)[0]
    assert b"a body has one length" in answer


@pytest.mark.parametrize("sent", ["nothing", "half a head, a byte at a time", "a body after its answer"])
def test_whoever_holds_a_connection_without_a_request_loses_it(monkeypatch: pytest.MonkeyPatch, sent: str) -> None:
    """uvicorn takes a number of connections, and answers nobody else."""
    monkeypatch.setattr(run, "_HEAD_S", 0.4)
    head = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    begin = {
        "nothing": b"",
        "half a head, a byte at a time": b"G",
        "a body after its answer": head + b"Content-Length: 9999\r\n\r\n",
    }
    with answering() as server, socket.create_connection(("127.0.0.1", server.port), timeout=0.05) as held:
        began = time.monotonic()
        held.sendall(begin[sent])
        with pytest.raises(ConnectionError):
            _hold(held, b"E" if begin[sent] else b"")
        assert 0.3 < time.monotonic() - began < 4
        kept = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
        for _ in range(3):  # longer than that together, over one connection
            kept.request("GET", "/health")
            assert kept.getresponse().read()
            assert kept.sock
            time.sleep(0.2)
        kept.close()


def _hold(held: socket.socket, more: bytes) -> None:
    """Raises ConnectionError when the other end is gone."""
    for _ in range(100):
        try:
            if not held.recv(1000):
                raise ConnectionResetError
        except TimeoutError:
            held.sendall(more)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just(data_url(RED)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(
        ["model", "messages", "role", "content", "type", "text", "image_url", "url", "state", "task", "candidates",
         "response", "action", "thought", "screenshot", "history", "turn", "elements", "box", "id", "n", "stream"]
    ), inner, max_size=5),
    max_leaves=20,
)  # fmt: skip

NAMES = st.sampled_from(sorted({*face.TAKEN, *face.REFUSED} - {"messages"}))


@settings(max_examples=300, deadline=None)
@given(
    ANYTHING,
    st.sampled_from(["body", "content", "text", "state", "candidates", "history", "parts", "more", "form"]),
    NAMES,
)
def test_anything_ends_in_a_request_or_a_refusal(anything: Any, place: str, name: str) -> None:
    question = {
        "state": {**QUESTION, "state": anything}, "candidates": asked(anything), "history": asked(history=anything),
    }.get(place, QUESTION)  # fmt: skip
    body: Any = chat(json.dumps(anything) if place == "text" else question)
    if place == "content":
        body["messages"][0]["content"] = anything
    if place == "parts":
        body["messages"][0]["content"] = [{"type": "text", "text": json.dumps(QUESTION)}, anything]
    if place == "more":
        body[name] = anything
    if place == "form":
        schema = {"properties": {"selection": {}}, "required": anything}
        body["response_format"] = {"type": "json_schema", "json_schema": {"schema": schema}}
    data: Any = None
    try:
        data = face.question(anything if place == "body" else body)
        made = bodies.pick_request(data, lambda data, where="": read(data, [Spoken("function", "pixel")], where))
        told = json.dumps(made.n)
    except HttpError as error:
        told, made = json.dumps(error.to_json(), allow_nan=False), None
    assert made.n == len(data["candidates"]) if made else "request_error" in told
