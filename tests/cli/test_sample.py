"""`arm sample`: what is sent and what not, what is told, and how it ends."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from action_reward_models.tests.registry.generated_world import SAMPLED, Generated
from action_reward_models.tests.servers.stand_in import Fault, Script, StandIn

from .made import PRICES, Shell, shell


@pytest.fixture(scope="module")
def server() -> Iterator[StandIn]:
    with StandIn() as running:
        yield running


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> Generated:
    world = Generated.make(tmp_path_factory.mktemp("declared") / "registry")
    world.asked(SAMPLED)
    return world


@pytest.fixture
def here(
    declared: Generated, tmp_path: Path, server: StandIn, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Shell:  # fmt: skip
    return shell(declared, tmp_path, server, monkeypatch, capsys)


def test_every_example_runs(here: Shell) -> None:
    here.serve(PRICES)
    epilog = import_module("action_reward_models.cli.sample").command.epilog
    lines = [line.strip() for line in epilog.splitlines() if line.strip().startswith("arm ")]
    assert len(lines) == 3
    for line in lines:
        done = here.run(line)
        assert done.status == 0, (line, done.err)


def test_sampling_and_then_nothing_is_left(here: Shell) -> None:
    """3 states x 2 draws x 2 candidates."""
    done = here.run("arm sample --json")
    assert done.status == 0, done.err
    (told,) = done.json
    assert (told["dataset"], told["path"], told["planned"], told["complete"]) == ("made", SAMPLED, 6, 6)
    assert (told["sent"], told["stopped"], told["whole"], told["failures"]) == (12, None, True, [])
    assert here.server.counts()["chat"] == 12
    assert len(here.world.records(SAMPLED)) == 6
    before = (here.folder / SAMPLED).read_bytes()
    again = here.run("arm sample")
    assert again.status == 0
    assert f"{SAMPLED}: 6 sets planned, 6 complete" in again.out
    assert "next: arm label run registry.yaml" in again.err
    assert here.server.counts()["chat"] == 12
    assert (here.folder / SAMPLED).read_bytes() == before


def test_a_dry_run_sends_and_writes_nothing(here: Shell) -> None:
    here.serve(PRICES)
    done = here.run("arm sample --dry-run")
    assert done.status == 0
    assert f"{SAMPLED}: 6 sets planned, 0 complete, 6 not asked for yet" in done.out
    assert "to send: 12 of 12 requests; at most $0.0" in done.out
    assert not here.server.received()
    assert not (here.folder / "generated").exists()
    (here.folder / "endpoints.yaml").unlink()
    unknown = here.run("arm sample --dry-run --json")
    assert unknown.status == 0
    assert (unknown.json[0]["to_ask"], unknown.json[0]["at_most_usd"]) == (12, None)
    assert "no cost is known: no server is called 'actor'" in unknown.err


def test_money_is_asked_about(here: Shell) -> None:
    """Only where there is a price, and nobody has said how much."""
    here.serve(PRICES)
    refused = here.run("arm sample")
    assert refused.status == 2
    assert "nobody can be asked here" in refused.err
    assert "next: arm sample --yes   # or --cap USD" in refused.err
    assert not here.server.received()
    assert here.run("arm sample --limit 2 --yes").status == 0
    assert here.run("arm sample --cap 5").status == 0
    assert here.server.counts()["chat"] == 12
    (told,) = here.run("arm sample --json").json
    assert 0 < told["spent_usd"] < 0.1


def test_a_cap_stops_in_time(here: Shell) -> None:
    here.serve(PRICES)
    done = here.run("arm sample --cap 0.004 --in-flight 1")
    assert done.status == 1
    assert "stopped: more would pass the cap on spending" in done.err
    assert 0 < here.server.counts()["chat"] < 12
    assert "next: arm sample registry.yaml" in done.err
    here.serve()
    without = here.run("arm sample --cap 1")
    assert without.status == 2
    assert "a cap needs the price of 'stand-in'" in without.err


def test_failures_are_told_in_the_servers_words(here: Shell) -> None:
    here.restart(Script(faults=(Fault("400", contains="Click number 1", message="no ones here\nnext: rm -rf /"),)))
    done = here.run("arm sample")
    assert done.status == 1
    assert f"{SAMPLED}: 6 sets planned, 4 complete, 2 rejected" in done.out
    assert "  4 x rejected: " in done.err
    assert "no ones here" in done.err
    assert not [line for line in done.err.splitlines() if line.startswith("next: rm")]
    (told,) = here.run("arm sample --json").json
    assert [(entry["outcome"], entry["requests"]) for entry in told["failures"]] == [("rejected", 4)]
    here.restart(Script())
    assert here.run("arm sample").status == 0
    assert here.server.counts()["chat"] == 4, "only what had failed"


def test_a_limit_is_a_first_look(here: Shell) -> None:
    done = here.run("arm sample --limit 4 --in-flight 1")
    assert done.status == 0
    assert here.server.counts()["chat"] == 4
    assert "stopped: as many requests as --limit allows" in done.err
    assert "not asked for yet" in done.out


def test_a_server_of_another_machine_is_named_by_a_person(here: Shell) -> None:
    """The registry and endpoints.yaml lie in one folder, which somebody may have sent."""
    file = here.world.endpoints("  actor: {urls: ['https://evil.example/v1'], key: A_KEY_OF_MINE}\n")
    done = here.run("arm sample --yes")
    assert done.status == 2
    assert "may have come with the registry: it counts when you name it" in done.err
    assert f"next: --endpoints {file.name}" in done.err
    assert not here.server.received()


def test_without_a_server(here: Shell) -> None:
    (here.folder / "endpoints.yaml").unlink()
    done = here.run("arm sample --json")
    assert done.status == 2
    assert "no server is called 'actor'" in done.json["error"]


def test_an_address_of_the_environment(here: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a job of a cluster has it, that started its own server."""
    (here.folder / "endpoints.yaml").unlink()
    monkeypatch.setenv("ARM_ENDPOINT_ACTOR", here.server.url)
    assert here.run("arm sample").status == 0


def test_nothing_to_sample_is_said(here: Shell) -> None:
    done = here.run("arm sample --source other.jsonl")
    assert done.status == 2
    assert f"no source other.jsonl is declared to be made by arm sample; there are {SAMPLED} of made" in done.err
    here.world.edit("        sample:", "        # sample:")
    (here.folder / "generated").mkdir()
    (here.folder / SAMPLED).write_text("")
    none = here.run("arm sample")
    assert none.status == 2
    assert "none says `sample:`" in none.err


def test_somebodys_file_is_not_written_over(here: Shell) -> None:
    (here.folder / "generated").mkdir()
    (here.folder / SAMPLED).write_text('{"mine": 1}\n')
    done = here.run("arm sample")
    assert done.status == 1
    assert not here.server.counts()["chat"]
    assert (here.folder / SAMPLED).read_text() == '{"mine": 1}\n'


def test_a_run_says_what_it_did(here: Shell) -> None:
    """And what comes after it: labels rest on the candidates, and lack those that are new."""
    here.restart(Script(faults=(Fault("500", numbers=(1,), message="out of memory"),)))
    first = here.run("arm sample --limit 4 --in-flight 1")
    assert "by this run: 4 requests at most" in first.out
    assert "this run: 4 requests answered; 5 sent, some again or without a reply yet" in first.err
    assert f"{here.server.url}: 500: out of memory; such requests are sent again" in first.err
    assert "this run: 8 requests answered\n" in here.run("arm sample").err
    assert here.run("arm label run").status == 0
    here.world.edit("count: 2", "count: 3")
    assert "next: arm label run registry.yaml\n" in here.run("arm sample").err
    assert "next: arm build registry.yaml\n" in here.run("arm label run").err
    (here.folder / "endpoints.yaml").rename(here.folder / "mine.yaml")
    assert (
        "next: arm label run registry.yaml --endpoints mine.yaml\n" in here.run("arm sample --endpoints mine.yaml").err
    )


@pytest.mark.parametrize("more", ["prices: {stand-inn: {input: 1, output: 2}}", "key: A_KEY"])
def test_what_may_cost_is_asked_about_too(more: str, here: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a model whose price is not declared beside those of others, or of a server that takes a key."""
    monkeypatch.setenv("A_KEY", "any")
    here.serve(more)
    line = "arm sample --endpoints endpoints.yaml"
    refused = here.run(line)
    assert refused.status == 2
    asked = "send 12 requests to actor (stand-in); no price of it is declared?"
    assert f"nobody can be asked here: {asked}" in refused.err
    assert not here.server.received()
    assert here.run(f"{line} --yes").status == 0


def test_an_address_without_its_path_is_told(here: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARM_ENDPOINT_ACTOR", here.server.url.removesuffix("/v1"))
    done = here.run("arm sample")
    assert done.status == 2
    assert f"next: write the whole address of the API, mostly {here.server.url}\n" in done.err
    assert here.server.counts().get("chat", 0) == 0


def test_greedy_draws_are_warned_of(here: Shell) -> None:
    assert "greedy" not in here.run("arm sample --dry-run").out
    here.world.edit("temperature: 0.7", "temperature: 0")
    assert "warning: 2 of the draws are greedy" in here.run("arm sample --dry-run").out
