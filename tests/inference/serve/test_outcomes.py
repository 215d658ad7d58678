"""Every row of the reply table by its name, out of the server: a model's own words, read by the one parser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from action_reward_models.inference.choosing import How
from action_reward_models.inference.selection import SelectionARM
from action_reward_models.prompts.options import PromptOptions
from action_reward_models.prompts.render import load_prompt
from action_reward_models.tests.inference.serve.answering import NAME, Answering, answering
from action_reward_models.tests.servers.loopback import CHAT, Head, Reply, loopback

ASKED = {
    "state": {"task": "Buy milk", "observation_text": "A shop."},
    "candidates": ["click(3, 4)", "scroll(0, 5)", "click(5, 6)"],
    "dialect": "function", "space": "pixel",
}  # fmt: skip
# What the model writes -> status. ``ok`` is always the third candidate shown.
TABLE: dict[str, tuple[str | None, dict[str, Any], str]] = {
    "one": ('{"selection": 3}', {}, "ok"),
    "in a fence": ('```json\n{"selection": 3, "why": 1}\n```', {}, "ok"),
    "twice the same": ('{"selection": 3} or {"selection": 3}', {}, "ok"),
    "two": ('{"selection": 1} or {"selection": 3}', {}, "ambiguous"),
    "all but the last in a thinking block": ('<think>{"selection": 1}</think>{"selection": 3}', {}, "ok"),
    "out of range": ('{"selection": 4}', {}, "out_of_range"),
    "zero": ('{"selection": 0}', {}, "out_of_range"),
    "a string": ('{"selection": "3"}', {}, "ok"),
    "a word": ('{"selection": "third"}', {}, "unparsed"),
    "true": ('{"selection": true}', {}, "unparsed"),
    "2.0": ('{"selection": 2.0}', {}, "unparsed"),
    "null": ('{"selection": null}', {}, "unparsed"),
    "2.9": ('{"selection": 2.9}', {}, "unparsed"),
    "a list": ('{"selection": [3]}', {}, "unparsed"),
    "an object": ('{"selection": {"is": 3}}', {}, "unparsed"),
    "cut before the value": ('{"selection": ', {}, "truncated"),
    "length": ("I think", {"finish_reason": "length"}, "truncated"),
    "cut after the value": ('{"selection": 3, "tho', {"finish_reason": "length"}, "ok"),
    "digits in prose": ("Candidate 3 is best.", {}, "unparsed"),
    "nothing": (None, {}, "unparsed"),
    "refusal": (None, {"refusal": "I can't."}, "refused"),
    "content filter": (None, {"finish_reason": "content_filter"}, "content_filter"),
}


@dataclass
class Model:
    """What the server behind ours writes next."""

    says: list[Reply] = field(default_factory=list)

    def reply(self, head: Head) -> Reply:
        if head.method == "GET":
            return Reply(body=json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]}).encode())
        return self.says.pop(0)

    def then(self, text: str | None, finish_reason: str = "stop", refusal: str | None = None) -> None:
        message = {"role": "assistant", "content": text, "refusal": refusal}
        choice = {"index": 0, "finish_reason": finish_reason, "message": message}
        self.says.append(Reply(body=json.dumps({**CHAT, "choices": [choice]}).encode()))


def served(how: How) -> Iterator[tuple[Model, Answering]]:
    behind = Model()
    prompt = load_prompt("selection/1", PromptOptions(observation="text"))
    with (
        loopback(behind.reply) as server,
        SelectionARM.at(server.url, model="m", prompt=prompt) as model,
        answering(model=model, how=how) as ours,
    ):
        yield behind, ours


@pytest.fixture(scope="module")
def once() -> Iterator[tuple[Model, Answering]]:
    yield from served(How())


@pytest.fixture(scope="module")
def twice() -> Iterator[tuple[Model, Answering]]:
    yield from served(How(orders=2))


def test_every_row_of_the_reply_table_by_its_name(once: tuple[Model, Answering]) -> None:
    behind, ours = once
    for name, (text, more, status) in TABLE.items():
        behind.then(text, **more)
        found = ours.post("/select", ASKED)
        assert found.status == 200, name
        assert found.body["status"] == status, name
        [vote] = found.body["votes"]
        assert vote["status"] == status
        assert vote["reply"] == (text or ""), name
        assert vote["salvaged"] is (name == "cut after the value")
        third = vote["order"][2] if status == "ok" else None
        assert found.body["selected_index"] == third, name

        behind.then(text, **more)
        body = {"model": NAME, "messages": [{"role": "user", "content": json.dumps(ASKED)}]}
        [choice] = ours.post("/v1/chat/completions", body).body["choices"]
        said = json.loads(choice["message"]["content"])
        assert said["selection"] == (None if third is None else third + 1)
        assert said.get("status", "ok") == status


def test_orders_that_disagree_have_a_name(twice: tuple[Model, Answering]) -> None:
    behind, ours = twice
    for text in ('{"selection": 1}', '{"selection": 1}'):  # the same place in two orders
        behind.then(text)
    found = ours.post("/select", ASKED).body
    assert (found["status"], found["selected_index"], found["chosen_by"]) == ("disagreed", None, None)
    assert len({vote["selected_index"] for vote in found["votes"]}) == 2


def test_nobody_is_told_where_the_models_own_server_is(twice: tuple[Model, Answering]) -> None:
    behind, ours = twice
    behind.then('{"selection": 1}')
    words = "try http://10.1.2.3:8000/v1; or https://user@inner.example, (grpc://x)"
    behind.says.append(Reply(400, json.dumps({"error": {"message": words}}).encode()))
    told = ours.post("/select", ASKED).error["message"]
    assert "try its address; or its address, (its address" in told
    assert "10.1.2.3" not in told
    assert "inner.example" not in told


def test_a_server_that_gives_no_reply_is_an_error_with_its_words(once: tuple[Model, Answering]) -> None:
    behind, ours = once
    behind.says.append(Reply(400, json.dumps({"error": {"message": "the context is too short"}}).encode()))
    found = ours.post("/select", ASKED)
    assert (found.status, found.error["code"]) == (502, "error")
    assert "the context is too short" in found.error["message"]
