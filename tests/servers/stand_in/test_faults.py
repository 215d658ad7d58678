"""What goes wrong by script, as the client of OpenAI meets it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from typing import Any

import openai
import pytest
from action_reward_models.tests.servers.stand_in import Fault, Script, StandIn


@pytest.fixture(scope="module")
def server() -> Iterator[StandIn]:
    with StandIn() as made:
        yield made


@pytest.fixture
def client(server: StandIn) -> Iterator[openai.OpenAI]:
    server.reset()
    with openai.OpenAI(base_url=server.url, api_key="none", max_retries=0, timeout=30) as made:
        yield made


def ask(client: openai.OpenAI, text: str = "What next?", **more: Any) -> Any:
    return client.chat.completions.create(model="stand-in", messages=[{"role": "user", "content": text}], **more)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, openai.BadRequestError), (401, openai.AuthenticationError), (403, openai.PermissionDeniedError),
        (404, openai.NotFoundError), (408, openai.APIStatusError), (409, openai.ConflictError),
        (422, openai.UnprocessableEntityError), (429, openai.RateLimitError), (500, openai.InternalServerError),
        (503, openai.InternalServerError),
    ],
)  # fmt: skip
def test_statuses(client: openai.OpenAI, server: StandIn, status: int, error: type[openai.APIStatusError]) -> None:
    server.change(Script(faults=(Fault(str(status), numbers=(1,), message="no room", code="full"),)))
    with pytest.raises(error, match="no room") as failed:
        ask(client)
    assert (failed.value.status_code, failed.value.code) == (status, "full")
    assert ask(client).choices
    assert server.counts()[f"fault:{status}"] == server.counts()[f"status:{status}"] == 1


def test_retry_after_in_both_forms(client: openai.OpenAI, server: StandIn) -> None:
    server.change(Script(faults=(Fault("429", retry_after=7),)))
    with pytest.raises(openai.RateLimitError) as failed:
        ask(client)
    assert failed.value.response.headers["retry-after"] == "7"
    server.change(Script(faults=(Fault("503", retry_after=60, retry_date=True),)))
    with pytest.raises(openai.InternalServerError) as late:
        ask(client)
    wait = parsedate_to_datetime(late.value.response.headers["retry-after"]).timestamp() - time.time()
    assert 50 < wait <= 60


@pytest.mark.parametrize("kind", ["drop", "truncate"])
def test_connections_that_end(client: openai.OpenAI, server: StandIn, kind: str) -> None:
    server.change(Script(faults=(Fault(kind, attempts=1),)))
    with pytest.raises(openai.APIConnectionError):
        ask(client)
    assert ask(client).choices
    with pytest.raises(openai.APIConnectionError):
        ask(client, "another body has a first attempt too")


def test_servers_that_say_nothing(client: openai.OpenAI, server: StandIn) -> None:
    server.change(Script(faults=(Fault("hang", contains="forever"), Fault("slow", contains="late", seconds=0.05))))
    with pytest.raises(openai.APITimeoutError):
        ask(client, "forever", timeout=0.05)
    assert ask(client, "late").choices
    assert ask(client).choices
    while server.counts()["in_flight"]:  # the connection's end reaches it when the client has gone on
        pass


def test_answers_that_are_none(client: openai.OpenAI, server: StandIn) -> None:
    with StandIn() as other:
        server.change(Script(faults=(Fault("redirect", location=f"{other.url}/chat/completions"),)))
        assert ask(client).choices  # this client follows
        assert other.counts()["chat"] == 1
    server.change(Script(faults=(Fault("cut"),)))
    with pytest.raises(json.JSONDecodeError):  # no error of the client's own
        ask(client)
    server.change(Script(faults=(Fault("html"),)))
    assert "Sign in" in ask(client)  # a str, where a completion is promised
    for kind, choices in (("no_choices", 0), ("wrong_n", 4), ("no_usage", 3), ("other_model", 3)):
        server.change(Script(faults=(Fault(kind),)))
        said = ask(client, n=3)
        assert (kind, len(said.choices)) == (kind, choices)
        assert (said.usage is None, said.model != "stand-in") == (kind == "no_usage", kind == "other_model")


def test_rates_are_of_bodies_and_attempts(client: openai.OpenAI, server: StandIn) -> None:
    server.change(Script(faults=(Fault("500", rate=0.3), Fault("429", rate=0.3))))

    def outcomes() -> list[str]:
        found = []
        for number in range(60):
            try:
                ask(client, str(number))
                found.append("ok")
            except openai.APIStatusError as error:
                found.append(str(error.status_code))
        return found

    first = outcomes()
    assert 8 < first.count("500") < 30
    assert 4 < first.count("429") < 25
    assert outcomes() != first  # the second attempts
    server.reset()
    assert outcomes() == first


def test_many_at_once(client: openai.OpenAI, server: StandIn) -> None:
    server.change(Script(latency_s=0.1, jitter_s=0.02))
    begun = time.perf_counter()
    with ThreadPoolExecutor(20) as pool:
        assert len(list(pool.map(lambda number: ask(client, str(number)), range(20)))) == 20
    assert server.counts()["most_in_flight"] > 2
    assert time.perf_counter() - begun < 20 * 0.1
    server.change(Script(faults=(Fault("drop", on="models"), Fault("404", on="version"))))
    with pytest.raises(openai.APIConnectionError):
        client.models.list()
