"""What the stand-in answers when nothing goes wrong, seen through the client of OpenAI."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from action_reward_models.prompts.replies import REPLY_STATUSES, parse_selection
from action_reward_models.schemas.actions import DIALECTS
from action_reward_models.schemas.images import data_url
from action_reward_models.tests.servers.stand_in import Fault, Script, StandIn
from PIL import Image

QUESTION = 'Reply with {"selection": N}, where N is the number of the best candidate, from 1 to 4.'


@pytest.fixture
def client(server: StandIn) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server.url, api_key="secret", max_retries=0) as made:
        yield made


def ask(client: openai.OpenAI, text: str = "What next?", **more: Any) -> Any:
    content = [{"type": "text", "text": text}, *more.pop("blocks", [])]
    messages: Any = [{"role": "user", "content": content if len(content) > 1 else text}]
    return client.chat.completions.create(**{"model": "stand-in", "messages": messages, "temperature": 0.7, **more})


def texts(completion: Any) -> list[Any]:
    return [choice.message.content for choice in completion.choices]


def picture(kind: str = "PNG", colour: str = "red") -> dict[str, Any]:
    out = io.BytesIO()
    Image.new("RGB", (320, 420), colour).save(out, kind)
    return {"type": "image_url", "image_url": {"url": data_url(out.getvalue())}}


def test_replies_are_a_function_of_the_request(client: openai.OpenAI, server: StandIn) -> None:
    first, again = ask(client, n=5, seed=1), ask(client, n=5, seed=1)
    assert texts(first) == texts(again)
    assert first.id != again.id
    others = [ask(client, n=5, seed=2), ask(client, n=5, seed=1, blocks=[picture()]), ask(client, "Else?", n=5, seed=1)]
    assert len({str(texts(one)) for one in [first, *others]}) == 4
    greedy = {texts(ask(client, seed=seed, temperature=0))[0] for seed in range(4)}
    assert len(greedy) == 1
    assert server.counts()["chat"] == 9
    assert server.counts()["distinct:chat"] == 8
    assert server.counts()["most_in_flight"] == 1


def test_actions_are_of_the_dialect_and_some_of_them_equal(client: openai.OpenAI) -> None:
    said = texts(ask(client, n=40, blocks=[picture()]))
    actions = [DIALECTS["function"].scan(text.partition("</think>")[2]).calls for text in said]
    assert 3 <= len(set(map(str, actions))) <= 5
    assert any("“" in text for text in said)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF"])
def test_pictures_are_looked_at(client: openai.OpenAI, kind: str) -> None:
    usage = ask(client, blocks=[picture(kind), picture(kind)]).usage
    assert 1000 < usage.prompt_tokens < 1020
    broken = picture(kind)
    broken["image_url"]["url"] = broken["image_url"]["url"].replace(f"image/{kind.lower()}", "image/bmp")
    with pytest.raises(openai.BadRequestError, match="image_url says"):
        ask(client, blocks=[broken])


@pytest.mark.parametrize(
    "url", ["http://example.org/a.png", "data:image/png;base64,!!!!", "data:image/png;base64,aGk="]
)
def test_what_is_no_picture_is_refused(client: openai.OpenAI, url: str) -> None:
    with pytest.raises(openai.BadRequestError, match="image"):
        ask(client, blocks=[{"type": "image_url", "image_url": {"url": url}}])


def test_servers_refuse_what_they_do_not_take(client: openai.OpenAI, server: StandIn) -> None:
    with pytest.raises(openai.BadRequestError, match="greedy"):
        ask(client, n=2, temperature=0)
    with pytest.raises(openai.NotFoundError, match=r"`other` does not exist"):
        ask(client, model="other")
    assert len(texts(ask(client, extra_body={"top_k": 5}))) == 1
    server.change(Script(owned_by="openai", refuses=("max_tokens",), key="secret", context=100))
    with pytest.raises(openai.BadRequestError, match="Unrecognized request argument supplied: top_k"):
        ask(client, extra_body={"top_k": 5})
    with pytest.raises(openai.BadRequestError, match="'max_tokens' is not supported"):
        ask(client, max_tokens=5)
    with pytest.raises(openai.BadRequestError, match="maximum context length"):
        ask(client, max_completion_tokens=99)
    assert len(texts(ask(client, n=2, temperature=0))) == 2
    with pytest.raises(openai.AuthenticationError):
        ask(client.with_options(api_key="another"))


def test_limits_schemas_and_log_probabilities(client: openai.OpenAI, server: StandIn) -> None:
    cut = ask(client, max_tokens=2, logprobs=True).choices[0]
    assert (cut.finish_reason, len(cut.message.content), len(cut.logprobs.content)) == ("length", 8, 2)
    schema = {
        "type": "object",
        "properties": {"reasoning": {"type": "string"}, "selection": {"type": "integer", "minimum": 1, "maximum": 3}},
    }
    wanted: Any = {"type": "json_schema", "json_schema": {"name": "verdict", "schema": schema}}
    (text,) = texts(ask(client, "Which one?", response_format=wanted))
    assert json.loads(text)["selection"] in {1, 2, 3}
    assert json.loads(text).keys() == {"reasoning", "selection"}
    (text,) = texts(ask(client, response_format={"type": "json_object"}))
    assert json.loads(text)["action"]
    server.change(Script(reasoning="reasoning_content"))
    message = ask(client).choices[0].message
    assert message.content.startswith("<action>")
    assert message.reasoning_content


def test_selections_have_every_status(client: openai.OpenAI, server: StandIn) -> None:
    picks = [parse_selection(text, 4).selected for text in texts(ask(client, QUESTION, n=40))]
    assert set(picks) == {1, 2, 3, 4}
    expected = {
        "string": "ok", "think": "ok", "think_draft": "ok", "fenced": "ok", "prose": "ok", "salvaged": "ok",
        "ambiguous": "ambiguous", "out_of_range": "out_of_range", "unparsed": "unparsed", "word": "unparsed",
        "truncated": "truncated", "length": "truncated", "empty": "unparsed", "null": "unparsed", "refusal": "refused",
        "content_filter": "content_filter",
    }  # fmt: skip
    assert set(expected.values()) == set(REPLY_STATUSES)
    for kind, status in expected.items():
        server.change(Script(replies={kind: 1.0}))
        (choice,) = ask(client, QUESTION).choices
        reply = parse_selection(choice.message.content, 4, choice.finish_reason, choice.message.refusal)
        assert (kind, reply.status, reply.salvaged) == (kind, status, kind == "salvaged")
    server.change(Script(replies={"word": 0.2, "refusal": 0.1}))
    said = Counter(choice.message.refusal is None for choice in ask(client, QUESTION, n=400).choices)
    assert 20 < said[False] < 60


def test_what_came_is_told(client: openai.OpenAI, server: StandIn) -> None:
    assert [model.id for model in client.models.list()] == ["stand-in"]
    ask(client, "Grüße")
    models, chat = server.received()
    assert (models.path, models.body, chat.path) == ("/v1/models", None, "/v1/chat/completions")
    assert chat.headers["authorization"] == "Bearer secret"
    assert chat.body["messages"] == [{"role": "user", "content": "Grüße"}]
    assert [one.path for one in server.received("models")] == ["/v1/models"]
    with pytest.raises(ValueError, match="no route"):
        Fault("500", on="char")


def test_it_ends_with_its_parent() -> None:
    """Also when another child of the parent holds the pipe between them, as forked workers do."""
    code = f"""
import os, select
from {StandIn.__module__} import StandIn
server = StandIn()
if not os.fork():
    os.closerange(0, 3)
    select.select([os.pidfd_open(server.pid)], [], [], 60)
os._exit(9)
"""
    # It holds the stderr that is read here, so that the time runs out if it stays.
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=30)
    assert (ended.returncode, ended.stderr) == (9, "")
