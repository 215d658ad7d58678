"""One request against everything a server can do."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from action_reward_models.builders.generate.spend import Purse
from action_reward_models.schemas.errors import ArmError, UsageError
from action_reward_models.servers.caller import LONGEST_WAIT_S, TRIES, Caller, Said
from action_reward_models.servers.endpoints import Price, Server
from action_reward_models.servers.probe import probe
from action_reward_models.servers.requests import Request, encoded
from action_reward_models.servers.words import retry_after, words
from action_reward_models.tests.builders.generate.toy import FastClock, ToyWork, served
from action_reward_models.tests.servers.loopback import Reply, key, keyed, loopback
from action_reward_models.tests.servers.stand_in import Script, StandIn
from action_reward_models.tests.servers.stand_in.script import Fault

assert key  # a fixture
PRICE = Price(1.0, 2.0)


class Asked:
    """A caller asked once: what it said, how it waited, what it cost."""

    def __init__(
        self, folder: Path, server: Server, *, work: ToyWork | None = None, times: int = 1, cap: float | None = None
    ) -> None:
        self.clock, self.said = FastClock(), list[Said]()
        self.request = next((work or ToyWork(folder)).requests())
        with Purse(folder, PRICE, cap) as purse:
            asyncio.run(self._ask(server, purse, times))
            self.spent = purse.report()

    async def _ask(self, server: Server, purse: Purse, times: int) -> None:
        async with Caller(server, "stand-in", purse, 4, self.clock) as caller:
            for _ in range(times):
                self.said.append(await caller.ask(self.request))

    @property
    def outcome(self) -> str | None:
        answer = self.said[0].answer
        return answer.outcome if answer else None

    @property
    def detail(self) -> str:
        assert self.said[0].answer
        return self.said[0].answer.detail


def test_a_reply_is_kept_as_it_came(server: StandIn, tmp_path: Path) -> None:
    asked = Asked(tmp_path, served(server.url, engine="vllm", engine_version="1"), work=ToyWork(tmp_path, n=2))
    (said,) = asked.said
    assert said.answer
    assert (said.sent, said.answer.outcome, said.answer.key) == (1, "answered", asked.request.key)
    assert len(said.answer.choices) == 2
    assert all(choice.text for choice in said.answer.choices)
    assert (said.answer.model, said.answer.engine, said.answer.engine_version) == ("stand-in", "vllm", "1")
    (received,) = server.received("/chat/completions")
    assert received.body == asked.request.wire()
    assert (asked.spent.answered, asked.spent.reserved_usd) == (1, 0)
    assert not asked.clock.waited


@pytest.mark.parametrize(
    "kind", ["429", "408", "409", "500", "502", "503", "504", "529", "drop", "truncate", "cut", "html"]
)
def test_what_passes_is_tried_again(kind: str, server: StandIn, tmp_path: Path) -> None:
    server.change(Script(faults=(Fault(kind, attempts=2),)))
    asked = Asked(tmp_path, served(server.url))
    assert asked.outcome == "answered"
    assert asked.said[0].sent == server.counts()["chat"] == 3
    assert [1.0 <= asked.clock.waited[0] <= 1.25, 2.0 <= asked.clock.waited[1] <= 2.5] == [True, True]
    assert asked.spent.reserved_usd == 0
    # what may have been worked on is counted as billed, what was refused is not
    assert asked.spent.unsaid == (0 if kind in ("429", "409", "500", "503", "529") else 2)


@pytest.mark.parametrize("kind", ["429", "500", "drop", "cut", "html"])
def test_tries_are_bounded(kind: str, server: StandIn, tmp_path: Path) -> None:
    server.change(Script(faults=(Fault(kind),)))
    asked = Asked(tmp_path, served(server.url))
    assert asked.outcome == "failed"
    assert asked.said[0].sent == server.counts()["chat"] == TRIES
    assert f"{TRIES} tries" in asked.detail
    assert not asked.said[0].hopeless
    assert sum(asked.clock.waited) < 60
    assert asked.spent.reserved_usd == 0


@pytest.mark.parametrize("as_date", [False, True])
def test_retry_after_is_honoured(as_date: bool, server: StandIn, tmp_path: Path) -> None:
    server.change(Script(faults=(Fault("429", attempts=1, retry_after=100, retry_date=as_date),)))
    asked = Asked(tmp_path, served(server.url))
    assert asked.outcome == "answered"
    assert 97 <= asked.clock.waited[0] <= 125


def test_a_wait_of_hours_is_not_waited(server: StandIn, tmp_path: Path) -> None:
    server.change(Script(faults=(Fault("429", retry_after=LONGEST_WAIT_S + 1, message="come back tomorrow"),)))
    asked = Asked(tmp_path, served(server.url))
    assert (asked.outcome, asked.said[0].sent, asked.clock.waited) == ("failed", 1, [])
    assert "come back tomorrow" in asked.detail


def test_retry_after_in_all_forms() -> None:
    assert retry_after("7") == 7
    assert retry_after("0.5") == 0.5
    assert retry_after("-3") == 0
    later = retry_after(format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True))
    assert later is not None
    assert 88 < later <= 90
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert retry_after("Wed, 21 Oct 2015 07:28:00 -0000") == 0
    for odd in (None, "", "soon", "nan", "inf", "Wed, 99 Oct 2015 07:28:00 GMT", "1e999"):
        assert retry_after(odd) is None


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_a_refusal_is_kept_in_the_servers_words(status: int, server: StandIn, tmp_path: Path) -> None:
    said = "no such\nthing \x1b[31m" + "x" * 2000
    server.change(Script(faults=(Fault(str(status), message=said),)))
    asked = Asked(tmp_path, served(server.url))
    assert (asked.outcome, asked.said[0].sent) == ("rejected", 1)
    assert asked.detail.startswith(f"{status}: no such thing \\u001b[31mxxx")
    assert len(asked.detail) < 600
    assert asked.said[0].hopeless == (status in (401, 403, 404))
    assert asked.spent.spent_usd == asked.spent.reserved_usd == 0


def test_an_empty_account_is_not_waited_for(server: StandIn, tmp_path: Path) -> None:
    server.change(Script(faults=(Fault("429", code="insufficient_quota"),)))
    asked = Asked(tmp_path, served(server.url))
    assert (asked.outcome, asked.said[0].hopeless, asked.said[0].sent) == ("rejected", True, 1)


def test_a_redirect_is_not_followed(server: StandIn, tmp_path: Path) -> None:
    server.change(Script(faults=(Fault("redirect", location="http://127.0.0.1:9/v1"),)))
    asked = Asked(tmp_path, served(server.url))
    assert (asked.outcome, asked.said[0].hopeless) == ("rejected", True)
    assert "redirect" in asked.detail


@pytest.mark.parametrize(
    ("kind", "why"), [("no_choices", "0 choices, not 1"), ("wrong_n", "2 choices, not 1"), ("no_usage", None)]
)
def test_a_reply_that_is_none_is_a_failure_with_a_reason(
    kind: str, why: str | None, server: StandIn, tmp_path: Path
) -> None:
    server.change(Script(faults=(Fault(kind),)))
    asked = Asked(tmp_path, served(server.url))
    assert (asked.outcome, asked.said[0].sent) == ("failed" if why else "answered", 1)
    assert (why or "") in asked.detail
    assert (asked.spent.answered, asked.spent.unsaid) == ((1, 0) if why else (0, 1)), "it was billed all the same"


@pytest.mark.parametrize("kind", ["hang", "slow"])
def test_a_hang_ends_with_the_servers_time(kind: str, server: StandIn, tmp_path: Path) -> None:
    """Also where a byte comes now and then."""
    server.change(Script(faults=(Fault(kind, attempts=1, seconds=3.0),)))
    asked = Asked(tmp_path, served(server.url, timeout_s=0.3))
    assert (asked.outcome, asked.said[0].sent) == ("answered", 2)
    assert asked.spent.unsaid == 1


def test_what_a_server_says_holds_no_key(key: str, tmp_path: Path) -> None:
    with loopback(lambda head: Reply(400, b'{"error": {"message": "bad key %s"}}' % key.encode())) as there:
        asked = Asked(tmp_path, keyed(there.url))
    assert asked.detail == "400: bad key <key>"


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"", ""), (b"<html>\n<b>no</b>", "<html> <b>no</b>"), (b'{"error": "flat"}', "flat"),
        (b'{"detail": "Not Found"}', "Not Found"), (b'{"object": "error", "message": "m"}', "m"),
        (b'{"error": {"error": 3}}', '{"error": {"error": 3}}'), (b"\xff\xfe", "\ufffd\ufffd"), (b"[1]", "[1]"),
        (b'{"message": "\\ud800"}', "\\ud800"),
    ],
)  # fmt: skip
def test_words_of_all_shapes(content: bytes, shown: str) -> None:
    assert words(content) == shown


# -- the purse ---------------------------------------------------------------------------------------------------------


def test_no_try_passes_the_cap(server: StandIn, tmp_path: Path) -> None:
    """The second try has no room beside the first, which may have been billed."""
    server.change(Script(faults=(Fault("cut"),)))
    request = next(ToyWork(tmp_path).requests())
    with Purse(tmp_path / "measure", PRICE) as purse:
        purse.reserve(request)
        bound = purse.reserved_usd
    asked = Asked(tmp_path, served(server.url), times=2, cap=bound * 1.5)
    first, second = asked.said
    assert (asked.outcome, first.sent, first.capped) == ("failed", 1, True)
    assert "no JSON" in asked.detail
    assert second == Said(None, 0, capped=True)
    assert server.counts()["chat"] == 1
    assert asked.spent.spent_usd <= bound * 1.5


# -- several URLs ------------------------------------------------------------------------------------------------------


@contextmanager
def nobody() -> Iterator[str]:
    """An address where nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{one.getsockname()[1]}/v1"


async def _all(server: Server, purse: Purse, requests: list[Request], clock: FastClock) -> list[Said]:
    async with Caller(server, "stand-in", purse, 4, clock) as caller:
        said = await asyncio.gather(*map(caller.ask, requests))
        assert all(place.busy == 0 for place in caller.places)
        return said


def test_the_least_busy_url_is_asked_and_none_too_much(server: StandIn, tmp_path: Path) -> None:
    server.change(Script(latency_s=0.05))
    requests = list(ToyWork(tmp_path, 10, 4).requests())
    with StandIn(Script(latency_s=0.05)) as other, Purse(tmp_path, None) as purse:
        said = asyncio.run(_all(served(server.url, other.url), purse, requests, FastClock()))
        counts = server.counts(), other.counts()
    assert [one.answer and one.answer.outcome for one in said] == ["answered"] * 40
    assert [count["chat"] > 10 for count in counts] == [True, True]
    assert [count["most_in_flight"] for count in counts] == [4, 4]


def test_a_url_that_is_down_is_left_alone(server: StandIn, tmp_path: Path) -> None:
    requests, clock = list(ToyWork(tmp_path, 10, 2).requests()), FastClock()
    with nobody() as down, Purse(tmp_path, PRICE) as purse:
        said = asyncio.run(_all(served(down, server.url), purse, requests, clock))
        assert purse.report().unsaid == 0, "what never left costs nothing"
    assert [one.answer and one.answer.outcome for one in said] == ["answered"] * 20
    assert not clock.waited, "the others do its work meanwhile"
    assert sum(one.sent for one in said) <= 20 + 4


def test_all_urls_down_is_an_error_that_names_them(tmp_path: Path) -> None:
    with nobody() as one, nobody() as two, pytest.raises(ArmError, match="no URL of the server 'actor'") as caught:
        Asked(tmp_path, served(one, two))
    assert f"{one}: no connection" in caught.value.message
    assert f"{two}: no connection" in caught.value.message
    assert "what was answered is kept" in str(caught.value.next_command)


# -- the look before ---------------------------------------------------------------------------------------------------


def probed(server: Server, tmp_path: Path, model: str = "stand-in") -> tuple[str | None, str | None]:
    async def look() -> tuple[str | None, str | None]:
        with Purse(tmp_path, None) as purse:
            async with Caller(server, model, purse, 1, FastClock()) as caller:
                await probe(caller)
                return caller.engine, caller.engine_version

    return asyncio.run(look())


def test_the_engine_is_what_the_server_says_unless_declared(server: StandIn, tmp_path: Path) -> None:
    assert probed(served(server.url), tmp_path) == ("vllm", "0.32.0")
    assert probed(served(server.url, engine="mine", engine_version="7"), tmp_path) == ("mine", "7")
    server.change(Script(version=None, owned_by="openai"))
    assert probed(served(server.url), tmp_path) == ("openai", None)


def test_a_model_that_is_not_there_is_told_with_those_that_are(server: StandIn, tmp_path: Path) -> None:
    server.change(Script(models=tuple(f"model-{n}" for n in range(12))))
    with pytest.raises(UsageError, match=r"has no model 'modell-3'.*and 2 more; did you mean 'model-3'"):
        probed(served(server.url), tmp_path, "modell-3")


def test_a_refused_key_is_told_before_anything_is_sent(key: str, tmp_path: Path) -> None:
    with loopback(lambda head: Reply(401, b'{"error": "wrong key %s"}' % key.encode())) as there:
        with pytest.raises(ArmError, match="refuses the key: 401: wrong key <key>"):
            probed(keyed(there.url), tmp_path)
        assert [head.path for head in there.received] == ["/v1/models"]


def test_a_server_without_a_list_is_asked_all_the_same(tmp_path: Path) -> None:
    for reply in (Reply(404, b"no"), Reply(200, b"<html>"), Reply(200, b'{"data": [3]}'), Reply(500, b"")):
        with loopback(lambda head, reply=reply: reply) as there:  # type: ignore[misc]
            assert probed(served(there.url), tmp_path) == (None, None)


def test_urls_that_serve_different_things_are_refused(server: StandIn, tmp_path: Path) -> None:
    with StandIn(Script(version="0.33.0")) as other:
        with pytest.raises(ArmError, match=r"different things: .*vllm 0\.32\.0; .*vllm 0\.33\.0"):
            probed(served(server.url, other.url), tmp_path)
        with nobody() as down:
            assert probed(served(down, other.url), tmp_path) == ("vllm", "0.33.0")
    with nobody() as down, pytest.raises(ArmError, match="no URL of the server"):
        probed(served(down), tmp_path)


def test_text_that_is_no_text_can_be_asked_about(server: StandIn, tmp_path: Path) -> None:
    request = next(ToyWork(tmp_path).requests())
    odd = replace(request, body={**request.body, "seed": 2**70, "messages": [{"role": "user", "content": "\ud800"}]})
    assert b"\\ud800" in encoded(odd.wire())
