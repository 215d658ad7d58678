"""Lines of both shapes are read by one function, and what no such line is is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.builders.generate.batches.lines import input_line, read_reply
from action_reward_models.servers.requests import Request
from action_reward_models.tests.builders.generate.batches.scenes import Questions

BODY = {"choices": [], "model": "m"}
NESTED = {"error": {"message": "n must be 1", "type": "BadRequestError", "param": None, "code": 400}}


def line(response: Any = None, error: Any = None, custom_id: Any = "k", id_: str = "batch_req_1") -> bytes:
    return json.dumps({"id": id_, "custom_id": custom_id, "response": response, "error": error}).encode()


def response(status: int, body: Any = None) -> dict[str, Any]:
    return {"status_code": status, "request_id": "r", "body": body}


@pytest.mark.parametrize(
    ("raw", "outcome", "shape", "detail"),
    [
        (line(response(200, BODY)), "answered", "openai", ""),
        (line(response(200, BODY), id_="vllm-1"), "answered", "vllm", ""),
        (line(response(400), NESTED), "rejected", "vllm", "400 n must be 1"),
        (line(response(400), NESTED, id_="vllm-2"), "rejected", "vllm", "400 n must be 1"),
        (line(response(400, {"error": {"code": "bad", "message": "no"}})), "rejected", "openai", "400 bad no"),
        (line(response(429, {"error": {"message": "slow"}})), "failed", "openai", "429 slow"),
        (line(response(500, {"error": {"message": "oops"}})), "failed", "openai", "500 oops"),
        (line(response(500)), "failed", "openai", "500"),
        (line(response(200)), "failed", "openai", "200, and no body"),
        (line(response(200, BODY), {"code": "late", "message": "m"}), "failed", "openai", "200 late m"),
        (line(None, {"code": "batch_expired", "message": "too late"}), "expired", "openai", "batch_expired too late"),
        (line(None, {"code": "batch_cancelled", "message": "x"}), "expired", "openai", "batch_cancelled x"),
        (line(None, {"code": "request_timeout", "message": "x"}), "failed", "openai", "request_timeout x"),
        (line(None, {"type": "invalid_request_error", "message": "x"}), "rejected", "openai",
         "invalid_request_error x"),
        (line(None, {}), "failed", "openai", "an error without words"),
    ],
)  # fmt: skip
def test_lines_of_both_shapes(raw: bytes, outcome: str, shape: str, detail: str) -> None:
    reply = read_reply(raw)
    assert (reply.custom_id, reply.outcome, reply.shape, reply.detail) == ("k", outcome, shape, detail)
    assert (reply.body == BODY) == (outcome == "answered")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b'{"custom_id": "', "not JSON"),
        (b"<html>", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "no custom_id"),
        (b"7", "no custom_id"),
        (line(response(200), custom_id=7), "no custom_id"),
        (line(None, None), "neither a response nor an error"),
        (line("200", None), "objects or null"),
        (b'{"custom_id": "\xff"}', "not JSON"),
    ],
)
def test_what_is_no_such_line(raw: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_reply(raw)


def test_what_strict_parsers_refuse_is_still_an_answer() -> None:
    raw = line(response(200, {"choices": [{"logprobs": "X", "big": "Y"}]}))
    raw = raw.replace(b'"X"', b"-Infinity").replace(b'"Y"', b"9" * 40)
    assert read_reply(raw).outcome == "answered"


def test_a_servers_words_are_short_and_obeyed_by_no_terminal() -> None:
    reply = read_reply(line(response(500, {"error": {"message": "\x1b[2J\n" + "x" * 10_000}})))
    assert len(reply.detail) == 500
    assert "\x1b" not in reply.detail
    assert "\n" not in reply.detail


def test_what_is_asked_is_one_line(tmp_path: Path) -> None:
    request = next(Questions(tmp_path, 0, texts=("a\nb\u2028c",)).requests())
    raw = input_line(request)
    assert raw.count(b"\n") == 1
    assert raw.endswith(b"\n")
    assert json.loads(raw) == {
        "custom_id": request.key, "method": "POST", "url": "/v1/chat/completions", "body": request.wire(),
    }  # fmt: skip


def test_half_a_surrogate_pair_is_sent_as_it_is() -> None:
    request = Request("s", "g", {"messages": [{"role": "user", "content": "x\ud83dy"}]})
    object.__setattr__(request, "key", "0" * 64)
    assert json.loads(input_line(request))["body"]["messages"][0]["content"] == "x\ud83dy"
