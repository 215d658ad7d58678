"""The routes: what they answer, whom, and what of it is counted and logged."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
from action_reward_models.inference.serve.app import Service, create_app
from action_reward_models.inference.serve.engine import Bounds, Engine
from action_reward_models.inference.serve.log import RequestLog
from starlette.types import ASGIApp

from .fakes import Fake, FakeARM, body


@dataclass
class World:
    """A server without a socket, its model, a client of it, and what it logged."""

    model: Fake
    service: Service
    app: ASGIApp
    client: httpx2.AsyncClient
    out: io.StringIO = field(default_factory=io.StringIO)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.getvalue().splitlines()]

    async def ask(self, route: str = "/select", task: str = "Buy milk", **more: Any) -> httpx2.Response:
        return await self.client.post(route, json=body(task), **more)


@asynccontextmanager
async def world(model: Fake | None = None, bounds: Bounds | None = None, **more: Any) -> AsyncIterator[World]:
    model, out = model or Fake(), io.StringIO()
    engine = Engine(model, bounds=bounds or Bounds())
    engine.start()
    service = Service(engine, "my-arm", 1_700_000_000, log=RequestLog(out), **more)
    app = create_app(service)
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost:8000") as client:
        yield World(model, service, app, client, out)
    await engine.end()


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 20))


def problem(response: httpx2.Response) -> tuple[int, str]:
    """(Status, code) of an error, which has OpenAI's form."""
    told = response.json()
    assert list(told) == ["error"]
    assert set(told["error"]) == {"message", "type", "param", "code"}
    assert told["error"]["message"]
    return response.status_code, told["error"]["code"]


def test_a_scalar_model_is_asked_in_three_ways() -> None:
    async def test() -> None:
        async with world() as here:
            picked = (await here.ask()).json()
            assert (picked["status"], picked["selected_index"], picked["model"]) == ("ok", 2, "my-arm")
            assert picked["scores"] == [0.0, 1.0, 2.0]
            scored = (await here.ask("/score")).json()
            assert scored == {
                "id": picked["id"], "status": "ok", "scores": [0.0, 1.0, 2.0], "detail": "", "model": "my-arm",
            }  # fmt: skip
            asked = {"model": "my-arm", "messages": [{"role": "user", "content": json.dumps(body())}]}
            said = (await here.client.post("/v1/chat/completions", json=asked)).json()
            assert json.loads(said["choices"][0]["message"]["content"]) == {"selection": 3}

    run(test)


def test_what_is_no_pick_is_an_answer_with_a_name() -> None:
    async def test() -> None:
        async with world() as here:
            tie = (await here.ask(task="tie")).json()
            assert (tie["status"], tie["selected_index"], tie["detail"]) == ("tie", None, "in words")
            assert (await here.ask("/score", "tie")).json()["status"] == "ok"  # scores are all that was asked for
            long = (await here.ask("/score", "too_long")).json()
            assert (long["status"], long["scores"]) == ("too_long", None)
            assert problem(await here.ask(task="error")) == (502, "error")

    run(test)


def test_a_model_that_gives_no_scores_says_so() -> None:
    async def test() -> None:
        async with world(FakeARM()) as here:
            assert problem(await here.ask("/score")) == (400, "no_scores")
            assert (await here.ask("/select")).json()["selected_index"] == 2
            assert not here.model.asked[1:]

    run(test)


def test_the_models_it_serves() -> None:
    async def test() -> None:
        async with world() as here:
            [one] = (await here.client.get("/v1/models")).json()["data"]
            assert one == (await here.client.get("/v1/models/my-arm")).json()
            assert (one["id"], one["created"]) == ("my-arm", 1_700_000_000)
            assert problem(await here.client.get("/v1/models/other")) == (404, "model_not_found")

    run(test)


def test_paths_and_methods_that_are_none() -> None:
    async def test() -> None:
        async with world() as here:
            nowhere = await here.client.get("/nowhere/at/all")
            assert problem(nowhere) == (404, "not_found")
            assert "there are POST /select, /score" in nowhere.json()["error"]["message"]
            wrong = await here.client.get("/select")
            assert problem(wrong) == (405, "method_not_allowed")
            assert wrong.headers["allow"] == "POST"
            assert [line["route"] for line in here.lines] == ["other", "/select"]  # no text of a client's

    run(test)


def test_requests_of_other_hosts_and_without_the_token_cost_nothing() -> None:
    async def test() -> None:
        hosts = frozenset({"localhost", "arm.example", "[::1]"})
        async with world(token="s3cret", hosts=hosts) as here:
            key = {"Authorization": "Bearer s3cret"}
            for host in (
                "evil.example",
                "localhost.evil.example",
                "localhost@evil.example",
                "evil.example@localhost",
                "",
                "localhost:x",
            ):
                refused = await here.ask(headers={**key, "Host": host})
                assert problem(refused) == (421, "wrong_host"), host
            for host in ("localhost", "LocalHost:80", "arm.example:8000", "[::1]:8000"):
                assert (await here.ask(headers={**key, "Host": host})).status_code == 200, host
            for said in (None, "Bearer s3cre", "Basic s3cret", "Bearer ", "Bearer ü"):
                wrong = {} if said is None else {b"Authorization": said.encode()}
                for path in ("/metrics", "/v1/models", "/nowhere"):
                    refused = await here.client.get(path, headers=wrong)
                    assert problem(refused) == (401, "invalid_api_key"), (wrong, path)
                assert problem(await here.ask(headers=wrong)) == (401, "invalid_api_key")
            assert refused.headers["www-authenticate"] == "Bearer"
            assert (await here.client.get("/health")).status_code == 200
            assert len(here.model.asked) == 4
            assert not any("access-control" in name for name in refused.headers)
            assert "s3cre" not in here.out.getvalue()

    run(test)


def test_headers_are_bounded() -> None:
    async def test() -> None:
        async with world() as here:
            assert problem(await here.ask(headers={"X-More": "x" * 20_000})) == (431, "headers_too_large")
            assert not here.model.asked

    run(test)


def test_too_many_are_told_when_to_come_again() -> None:
    async def test() -> None:
        async with world(bounds=Bounds(batch=1, queue=1)) as here:
            here.model.go.clear()
            two = [asyncio.create_task(here.ask()) for _ in range(2)]
            while here.service.engine.inside < 2:
                await asyncio.sleep(0.001)
            full = await here.ask()
            assert problem(full) == (503, "queue_full")
            assert full.headers["retry-after"] == "1"
            here.model.go.set()
            assert [one.status_code for one in await asyncio.gather(*two)] == [200, 200]

    run(test)


def test_an_answer_that_comes_too_late() -> None:
    async def test() -> None:
        async with world(bounds=Bounds(timeout_s=0.05)) as here:
            here.model.go.clear()
            late = await asyncio.gather(here.ask(), here.ask())
            assert [problem(one) for one in late] == [(504, "timeout")] * 2
            assert here.service.engine.inside == here.service.engine.waiting == 0
            here.model.go.set()
            while here.service.engine._busy:
                await asyncio.sleep(0.001)
            assert (await here.ask()).status_code == 200
            assert len(here.model.asked) == 2  # the second of the late ones was never asked

    run(test)


@pytest.mark.parametrize("asked_already", [False, True])
def test_a_client_that_leaves_is_dropped(asked_already: bool) -> None:
    async def test() -> None:
        async with world(bounds=Bounds(batch=1)) as here:
            here.model.go.clear()
            before = asyncio.create_task(here.ask()) if not asked_already else None
            while before and not here.model.asked:
                await asyncio.sleep(0.001)
            leaves = asyncio.Event()
            leaving = asyncio.create_task(_raw(here.app, body("leaves"), leaves))
            while here.service.engine.waiting != (not asked_already) or not here.model.asked:
                await asyncio.sleep(0.001)
            leaves.set()
            await leaving
            assert here.lines[-1]["outcome"] == "client_gone"
            assert here.lines[-1]["status"] == 499
            here.model.go.set()
            if before:
                await before
            assert ["leaves"] in here.model.asked if asked_already else here.model.asked == [["Buy milk"]]
            assert (await here.ask()).status_code == 200

    run(test)


async def _raw(app: ASGIApp, data: Any, leaves: asyncio.Event) -> None:
    """One POST to /select, by a client that leaves when it is told to."""
    sent = False
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/select", "raw_path": b"/select", "query_string": b"",
             "headers": headers, "scheme": "http", "server": ("localhost", 80), "root_path": ""}  # fmt: skip

    async def receive() -> dict[str, Any]:
        nonlocal sent
        if not sent:
            sent = True
            return {"type": "http.request", "body": json.dumps(data).encode(), "more_body": False}
        await leaves.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        pass

    await app(scope, receive, send)


def test_a_model_that_fails_says_nothing_of_a_request() -> None:
    async def test() -> None:
        async with world() as here:
            for _ in range(3):
                assert (await here.client.get("/health")).json()["status"] == "ok"
                failed = await here.ask(task="fail")
                assert problem(failed) == (500, "model_failed")
            ill = await here.client.get("/health")
            assert (ill.status_code, ill.json()["status"]) == (503, "failing")
            last = next(line for line in here.lines if line["route"] == "/select")
            assert last["error"] == "RuntimeError"
            assert last["at"][-1].endswith("choose_many")
            assert "secret" not in failed.text + here.out.getvalue()
            damaged = await here.ask(task="damaged")
            assert problem(damaged) == (500, "model_failed")
            assert "damaged" not in damaged.text  # whoever runs the server is told, not whoever asks
            assert here.lines[-1]["told"] == "the weights are damaged"
            assert (await here.ask()).status_code == 200

    run(test)


def test_a_draining_server_says_so() -> None:
    async def test() -> None:
        async with world() as here:
            here.service.engine.draining = True
            assert (await here.client.get("/health")).json()["status"] == "draining"
            refused = await here.ask()
            assert problem(refused) == (503, "draining")
            assert refused.headers["retry-after"] == "1"

    run(test)


def test_each_request_is_logged_once_without_what_it_says() -> None:
    async def test() -> None:
        async with world() as here:
            asked = {**body("A private task"), "id": "private-name"}
            answer = await here.client.post("/select", json=asked)
            await here.client.post("/select", content=b'{"private": ', headers={"Content-Type": "application/json"})
            assert len(here.lines) == 2
            good, bad = here.lines
            assert good["request"] == answer.headers["x-request-id"]
            assert {key: good[key] for key in ("method", "route", "status", "outcome", "n", "batch")} == {
                "method": "POST", "route": "/select", "status": 200, "outcome": "ok", "n": 3, "batch": 1,
            }  # fmt: skip
            assert good["milliseconds"] > 0
            assert good["time"].endswith("Z")
            assert (bad["status"], bad["outcome"], bad["n"], bad["batch"]) == (400, "invalid_json", 0, 0)
            assert "rivate" not in here.out.getvalue()

    run(test)


def test_a_log_that_nobody_reads_stops_no_answer() -> None:
    async def test() -> None:
        async with world() as here:
            here.out.close()
            assert (await here.ask()).status_code == 200
            assert (await here.ask()).status_code == 200

    run(test)


def test_what_is_counted() -> None:
    async def test() -> None:
        async with world() as here:
            await here.ask()
            await here.ask(task="tie")
            await here.ask("/score")
            await here.client.get("/v1/models")
            await here.client.get("/some/where")
            answer = await here.client.get("/metrics")
            assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
            found = dict(line.rsplit(" ", 1) for line in answer.text.splitlines() if not line.startswith("#"))
            assert found['arm_model_info{model="my-arm",kind="scalar"}'] == "1"
            assert found['arm_requests_total{route="/select",status="200",outcome="ok"}'] == "1"
            assert found['arm_requests_total{route="/select",status="200",outcome="tie"}'] == "1"
            assert found['arm_requests_total{route="other",status="404",outcome="not_found"}'] == "1"
            assert found["arm_candidates_total"] == "9"
            assert found["arm_requests_inside"] == found["arm_requests_waiting"] == found["arm_draining"] == "0"
            assert found['arm_batch_requests_bucket{le="1"}'] == found["arm_batch_requests_count"] == "3"
            assert found['arm_request_seconds_count{route="/select"}'] == "2"
            assert found['arm_request_seconds_bucket{route="/select",le="+Inf"}'] == "2"
            assert float(found['arm_request_seconds_sum{route="/select"}']) > 0

    run(test)
