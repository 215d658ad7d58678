"""Plans of datasets whose data models make: what is missing is told, and nothing of it is published."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.hub_sync.hub import Hub
from action_reward_models.registry import Registry
from action_reward_models.registry.plan import Options, Step
from action_reward_models.tests.servers.stand_in import Script, StandIn

from ..hub_sync.conftest import Running
from .generated_world import LABELLED, SAMPLED, Generated, action, refused, said


@pytest.fixture(scope="module")
def client(running: Running) -> Hub:
    return running.client()


@pytest.fixture
def world(tmp_path: Path) -> Generated:
    return Generated.make(tmp_path / "registry", namespace="generated")


def step(world: Generated, hub: Hub, **options: Any) -> Step:
    (found,) = Registry.load(world.folder, hub=hub).plan(workers=1, options=Options(**options)).steps
    return found


def told(found: Step) -> list[tuple[str, str | None]]:
    return [(error.message, error.next_command) for error in found.refusals]


def test_what_is_not_made_yet(world: Generated, client: Hub) -> None:
    place = world.folder / "registry.yaml"
    found = step(world, client)
    assert found.status == "refused"
    assert told(found) == [(f"{SAMPLED} is not sampled yet", f"arm sample {place}")]
    sampled, labelled = found.generated
    assert (sampled.planned, sampled.not_asked, sampled.to_ask) == (6, 6, 12)
    assert labelled.waits == f"{SAMPLED} is not sampled yet, and it rests on that"
    world.answer(SAMPLED)
    found = step(world, client)
    assert told(found) == [(f"{LABELLED} is not labelled yet", f"arm label run {place}")]
    assert [(f.planned, f.not_asked) for f in found.generated] == [(6, 0), (6, 6)]


def test_requests_that_nobody_asked_refuse_and_failures_are_told(world: Generated, client: Hub) -> None:
    """A set that failed is in exclusions by name; one that was never asked for would just be missing."""
    world.answer(SAMPLED, lambda request: action(request) if "#d0" in request.slot else None)
    world.answer(LABELLED)
    found = step(world, client)
    assert found.status == "refused"
    assert told(found) == [
        (f"{SAMPLED}: 3 of 6 sets are not asked for yet", f"arm sample {world.folder / 'registry.yaml'}")
    ]
    world.answer(SAMPLED, lambda request: refused(request) if "#d1" in request.slot else None)
    world.answer(LABELLED, lambda request: said(request, "I cannot tell.") if "e1" in request.slot else None)
    found = step(world, client)
    assert (found.status, told(found)) == ("publish", [])
    sampled, labelled = found.generated
    assert (sampled.complete, sampled.failed, sampled.whole) == (3, {"rejected": 3}, True)
    assert (labelled.complete, labelled.whole) == (3, True)
    assert found.diff is not None
    shown = found.to_json()["generated"]
    assert [(entry["path"], entry["failed"], entry["whole"]) for entry in shown] == [
        (SAMPLED, {"rejected": 3}, True), (LABELLED, {}, True),
    ]  # fmt: skip


def test_answers_that_are_not_in_the_file_refuse(world: Generated, client: Hub) -> None:
    world.answer(SAMPLED, lambda request: action(request) if "#d0" in request.slot else None)
    world.answer(LABELLED)
    world.answer(SAMPLED, written=False)
    ((message, _),) = told(step(world, client))
    assert message == f"{SAMPLED}: 3 sets are in the log and not in the file"


def test_a_plan_calls_nobody(world: Generated, client: Hub) -> None:
    """It says what the rest would cost, at a server that hears nothing of it."""
    seen: list[object] = []
    watching = True

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event == "socket.connect":
            seen.append(arguments[1])

    sys.addaudithook(watch)
    with StandIn(Script()) as server:
        prices = "prices: {stand-in: {input: 1, output: 1, image_tokens: 500}}"
        file = world.endpoints(
            f"  actor: {{urls: ['{server.url}'], {prices}}}\n  teacher: {{urls: ['{server.url}']}}\n"
        )
        world.answer(SAMPLED, lambda request: action(request) if "#d0" in request.slot else None)
        world.answer(LABELLED)
        found = step(world, client, endpoints=file)
        assert server.counts()["models"] == server.counts()["chat"] == 0
        port = int(server.origin.rpartition(":")[2])
        assert not [place for place in seen if place == ("127.0.0.1", port)]
        socket.create_connection(("127.0.0.1", port)).close()
        assert ("127.0.0.1", port) in seen, "who looks would have seen it"
    watching = False
    sampled, labelled = found.generated
    assert sampled.at_most_usd is not None
    assert 0 < sampled.at_most_usd < 0.1
    assert (labelled.whole, labelled.at_most_usd) == (True, None)


def test_without_any_server_the_rest_is_still_counted(world: Generated, client: Hub) -> None:
    found = step(world, client)
    assert found.generated[0].to_ask == 12
    assert found.generated[0].at_most_usd is None
    assert found.notes == (f"{SAMPLED}: no cost is known: no server is called 'actor': there is no such file",)


def test_registries_without_generated_sources_plan_as_before(
    tmp_path: Path, client: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    from action_reward_models.registry import plan as plans

    from ..hub_sync.conftest import Publisher

    publisher = Publisher(tmp_path / "lab")
    publisher.build()
    monkeypatch.setattr(plans, "standings", None)
    monkeypatch.setattr(plans, "Known", None)
    (found,) = Registry.load(publisher.folder, hub=client).plan(workers=1).steps
    assert found.generated == ()
    assert found.to_json()["generated"] == []
