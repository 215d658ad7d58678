"""The tiny model is the same one each time, and its server answers as real ones do."""

from __future__ import annotations

import base64
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
import tokenizers
from action_reward_models.builders.processor import Processor
from action_reward_models.tests.tiny_vlm import cached, examples
from action_reward_models.tests.tiny_vlm.serving import TinyServer

NUMBERED = {"type": "object", "required": ["selection"], "additionalProperties": False}
ACTION = r"<think>[^<]*</think>\n<action>\w+\(.*\)</action>"


def picture(url: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]


def form(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "s", "schema": {**NUMBERED, "properties": properties}}}


@pytest.fixture(scope="module")
def server() -> Iterator[TinyServer]:
    with TinyServer() as running:
        yield running


@pytest.fixture
def ask(server: TinyServer) -> Iterator[Callable[..., Any]]:
    turn = examples.turns()[0]
    shot = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{base64.b64encode(turn.png).decode()}"}}
    shown = [
        {**message, "content": [shot if block["type"] == "image" else block for block in message["content"]]}
        for message in turn.messages
    ]
    with openai.OpenAI(base_url=server.url, api_key="none", max_retries=0) as client:

        def asked(messages: Any = shown, model: str = server.name, **body: Any) -> Any:
            sent = {"model": model, "messages": messages, "max_tokens": 64, "extra_body": body}
            return client.chat.completions.create(**sent)

        yield asked


def texts(completion: Any) -> list[str]:
    return [choice.message.content for choice in completion.choices]


def test_it_writes_actions_and_a_seed_gives_them_again(ask: Callable[..., Any]) -> None:
    first, again, other = (texts(ask(n=5, seed=seed, temperature=0.7)) for seed in (1, 1, 2))
    assert first == again != other
    assert len(set(first)) > 1
    assert sum(bool(re.fullmatch(ACTION, text)) for text in first + other) >= 6
    assert texts(ask(n=1, temperature=0)) == texts(ask(n=1, temperature=0, seed=9))
    assert texts(ask(n=1, top_k=1)) == texts(ask(n=1, min_p=1)) == texts(ask(n=1, temperature=0))


def test_tokens_are_counted_and_a_limit_ends_a_reply(ask: Callable[..., Any], server: TinyServer) -> None:
    counted, turn = Processor(server.folder), examples.turns()[0]
    text = f"{counted.template.text(turn.messages)}<|im_start|>assistant\n"
    picture = counted.picture_tokens(*turn.screenshot.size)
    whole, cut = ask(n=1, seed=4), ask(n=2, seed=4, max_tokens=7)
    assert whole.usage.prompt_tokens == len(counted.tokenizer.ids(text)) + picture - 1
    assert [choice.finish_reason for choice in [*whole.choices, *cut.choices]] == ["stop", "length", "length"]
    assert cut.usage.completion_tokens == 14
    made = server.received()[-2]["replies"][0]
    assert whole.usage.completion_tokens == len(made)
    assert tokenizers.Tokenizer.from_file(f"{server.folder}/tokenizer.json").decode(made) == texts(whole)[0]


def test_a_form_leaves_the_choice_to_the_model(ask: Callable[..., Any]) -> None:
    allowed = {"selection": {"type": "integer", "enum": [1, 2, 3]}}
    best, drawn, cold = (
        ask(n=n, seed=1, temperature=temperature, response_format=form(allowed))
        for n, temperature in ((1, 0), (40, 1), (40, 1e-4))
    )
    (likeliest,) = texts(best)
    assert len(set(texts(drawn))) > 1
    assert set(texts(drawn)) <= {f'{{"selection": {number}}}' for number in (1, 2, 3)}
    assert set(texts(cold)) == {likeliest}
    turned = {"selection": {"type": "integer", "enum": [3, 2, 1]}}
    assert texts(ask(temperature=0, response_format=form(turned))) == [likeliest]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"model": "other"}, "The model `other` does not exist"),
    ({"n": 2, "temperature": 0}, "n must be 1 when using greedy sampling"),
    ({"max_tokens": 4096}, r"maximum context length is 4096 tokens.*\d+ in the messages, 4096 in the completion"),
    ({"guided_json": {}}, "guided_json: Extra inputs are not permitted"),
    ({"temperature": "warm"}, "temperature: Input should be a valid number"),
    ({"top_k": 1.5}, "top_k: Input should be a valid integer"),
    ({"top_p": 0}, r"top_p must be in .* got 0"),
    ({"stop": ["\n"]}, "stop: only"),
    ({"response_format": {"type": "json_object"}}, "response_format: this server"),
    ({"response_format": form({"selection": {"type": "integer"}})}, "response_format: this server"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "a message has a role"),
    ({"messages": picture("http://a/b")}, "data URLs"),
    ({"messages": picture("data:image/png;base64,AAAA")}, "the picture cannot be read"),
]


@pytest.mark.parametrize(("body", "words"), REFUSED)
def test_what_is_not_answered(ask: Callable[..., Any], body: dict[str, Any], words: str) -> None:
    with pytest.raises(openai.NotFoundError if "model" in body else openai.BadRequestError, match=words):
        ask(**body)


@pytest.mark.slow
def test_made_again_it_is_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cached, "CACHE", tmp_path)
    folder = cached.made(steps=4)
    first = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert len(first) == 7
    shutil.rmtree(folder)
    assert {path.name: path.read_bytes() for path in cached.made(steps=4).iterdir()} == first
    assert cached.made(steps=4, seed=1) != folder
