"""The engine: what is asked together, what is refused, what is dropped, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from action_reward_models.inference.serve.engine import Answered, Bounds, Engine, FailedError, UnservedError

from .fakes import Fake, request


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 20))


async def ask(engine: Engine, task: str = "Buy milk") -> Answered:
    with engine.place():
        return await engine.submit(request(task))


def asking(engine: Engine, *tasks: str) -> list[asyncio.Task[Answered]]:
    return [asyncio.create_task(ask(engine, task)) for task in tasks]


async def until(done: Callable[[], object]) -> None:
    while not done():
        await asyncio.sleep(0.001)


def started(model: Fake, **bounds: Any) -> Engine:
    engine = Engine(model, bounds=Bounds(**bounds))
    engine.start()
    return engine


def held_back(**bounds: Any) -> tuple[Fake, Engine]:
    """A model that answers nothing before ``model.go`` is set, and its engine."""
    model = Fake()
    model.go.clear()
    return model, started(model, **bounds)


def test_what_waits_is_asked_together_in_the_order_it_came_and_by_one_thread() -> None:
    async def test() -> None:
        model, engine = held_back(batch=3)
        first = asking(engine, "a")
        await until(lambda: model.asked)
        rest = asking(engine, *"bcdef")
        await until(lambda: engine.waiting == 5)
        model.go.set()
        answers = await asyncio.gather(*first, *rest)
        assert model.asked == [["a"], ["b", "c", "d"], ["e", "f"]]
        assert [one.batch for one in answers] == [1, 3, 3, 3, 2, 2]
        assert all(one.choice.selected_index == 2 for one in answers)
        assert len(model.threads) == 1
        assert engine.metrics.batches.counts[:3] == [1, 1, 1]  # of 1, of 2, of 3 or 4
        assert await engine.end()

    run(test)


def test_more_than_may_wait_are_refused_and_told_when_to_come_again() -> None:
    async def test() -> None:
        model, engine = held_back(batch=2, queue=3)
        tasks = asking(engine, *"abcde")
        await until(lambda: engine.inside == 5)
        with pytest.raises(UnservedError, match="5 requests are waiting") as refused:
            await ask(engine)
        assert (refused.value.status, refused.value.code) == (503, "queue_full")
        assert refused.value.headers == {"Retry-After": "1"}  # nothing is measured yet
        model.go.set()
        await asyncio.gather(*tasks)
        assert engine.inside == 0
        assert (await ask(engine)).choice.status == "ok"  # there is room again
        assert await engine.end()

    run(test)


def test_when_to_come_again_follows_the_rate() -> None:
    engine = Engine(Fake())
    engine.inside = 20
    engine._measure(4, 8.0)
    assert engine.retry_after_s() == 40  # 20 requests of 2 s
    for _ in range(40):
        engine._measure(4, 0.4)
    assert engine.retry_after_s() in (2, 3)  # 20 of 0.1 s; the first batch is as good as forgotten
    engine._measure(1, 10_000.0)
    assert engine.retry_after_s() == 120


def test_whoever_left_costs_nothing() -> None:
    async def test() -> None:
        model, engine = held_back(batch=4)
        first = asking(engine, "a")
        await until(lambda: model.asked)
        rest = asking(engine, *"bcd")
        await until(lambda: engine.waiting == 3)
        rest[1].cancel()
        await until(lambda: engine.waiting == 2)  # its picture is not kept either
        assert engine.inside == 3
        first[0].cancel()  # it is being asked; nobody hears the answer
        model.go.set()
        await asyncio.gather(rest[0], rest[2])
        assert model.asked == [["a"], ["b", "d"]]
        assert await engine.end()

    run(test)


def test_a_request_that_breaks_the_model_breaks_no_other() -> None:
    async def test() -> None:
        model, engine = held_back(batch=4)
        first = asking(engine, "a")
        await until(lambda: model.asked)
        rest = asking(engine, "b", "fail", "c")
        await until(lambda: engine.waiting == 3)
        model.go.set()
        b, failed, c = await asyncio.gather(*rest, return_exceptions=True)
        assert isinstance(b, Answered)
        assert isinstance(c, Answered)
        assert isinstance(failed, FailedError)
        assert "secret" not in str(failed)
        assert isinstance(failed.__cause__, RuntimeError)
        await first[0]
        failing = [engine.failing]
        for task in ("fail", "fail", "fail"):
            with pytest.raises(FailedError):
                await ask(engine, task)
            failing.append(engine.failing)
        await ask(engine)
        assert [*failing, engine.failing] == [False, False, False, True, False]  # by the third it is not the requests
        assert await engine.end()

    run(test)


def test_a_model_that_answers_too_little_is_an_error_and_not_a_silence() -> None:
    async def test() -> None:
        model = Fake()
        model.choose_many = lambda requests, how: []  # type: ignore[method-assign,assignment,misc]
        engine = started(model)
        with pytest.raises(FailedError):
            await ask(engine)
        assert await engine.end()

    run(test)


def test_draining_finishes_what_is_inside_and_takes_no_more() -> None:
    async def test() -> None:
        model, engine = held_back(batch=2)
        tasks = asking(engine, *"abcde")
        await until(lambda: engine.inside == 5 and model.asked)
        ending: Awaitable[bool] = asyncio.create_task(engine.end())
        await until(lambda: engine.draining)
        with pytest.raises(UnservedError, match="about to end") as refused:
            await ask(engine)
        assert refused.value.code == "draining"
        model.go.set()
        assert await ending
        assert [one.result().choice.status for one in tasks] == ["ok"] * 5

    run(test)


def test_it_ends_although_the_model_is_still_at_work_for_somebody_who_left() -> None:
    async def test() -> None:
        model, engine = held_back()
        task = asking(engine, "a")[0]
        await until(lambda: model.asked)
        task.cancel()
        assert not await engine.end()
        model.go.set()

    run(test)
