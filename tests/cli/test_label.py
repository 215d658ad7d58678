"""`arm label`: live, as a batch and through files, each to the same labels; what is told, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest
from action_reward_models.builders.generate.batches import service
from action_reward_models.schemas.built import BuiltTables
from action_reward_models.tests.registry.generated_world import LABELLED, SAMPLED, Generated
from action_reward_models.tests.servers.stand_in import BatchScript, Fault, Script, StandIn, run_batch

from .made import PRICES, Shell, shell


@pytest.fixture(scope="module")
def server() -> Iterator[StandIn]:
    with StandIn() as running:
        yield running


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Generated:
    """Candidates are there: two different ones in each of six sets, in pairs of equal sets."""
    world = Generated.make(tmp_path_factory.mktemp("sampled") / "registry")
    world.answer(SAMPLED)
    world.asked(LABELLED)
    return world


@pytest.fixture
def here(
    sampled: Generated, tmp_path: Path, server: StandIn, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Shell:  # fmt: skip
    return shell(sampled, tmp_path, server, monkeypatch, capsys)


def picks(shell: Shell) -> dict[Any, tuple[Any, Any]]:
    return {label["set_id"]: (label["status"], label["selected_index"]) for label in shell.world.records(LABELLED)}


def test_three_ways_to_the_same_labels(here: Shell) -> None:
    """Nothing in a label says which way it came but its batch."""
    assert here.run("arm label run").status == 0
    live = picks(here)
    assert len(live) == 6
    assert {status for status, _ in live.values()} == {"ok"}
    assert here.server.counts()["chat"] == 3, "equal sets are asked about once"

    here.world.forget(LABELLED)
    submitted = here.run("arm label submit")
    assert submitted.status == 0, submitted.err
    assert "3 requests in 1 batch\n" in submitted.err
    assert not (here.folder / LABELLED).exists()
    assert here.run("arm label status").status == 0
    collected = here.run("arm label collect")
    assert collected.status == 0, collected.err
    assert "collected: 3 answered" in collected.err
    assert picks(here) == live
    assert {label["batch_id"] is None for label in here.world.records(LABELLED)} == {False}

    here.world.forget(LABELLED)
    written = here.run("arm label files registry.yaml questions")
    assert written.status == 0, written.err
    (requests,) = sorted((here.folder / "questions").iterdir())
    assert (
        f"vllm run-batch -i questions/{requests.name} -o questions/replies-00001.jsonl --served-model-name stand-in"
        in written.err
    )
    assert "then: arm label collect registry.yaml questions/replies-*.jsonl" in written.err
    run_batch(requests, here.folder / "questions" / "replies-00001.jsonl")
    taken = here.run("arm label collect registry.yaml questions/replies-00001.jsonl")
    assert taken.status == 0, taken.err
    assert picks(here) == live


def test_every_example_runs(here: Shell) -> None:
    here.serve(PRICES)
    group: click.Group = import_module("action_reward_models.cli.label").command
    lines = [
        line.strip()
        for name in ("submit", "status", "cancel", "collect", "files", "run")
        for line in str(group.commands[name].epilog).splitlines()
        if line.strip().startswith("arm ")
    ]
    assert len(lines) == 14
    here.restart(Script(batch=BatchScript(polls=(0, 9, 0))))
    for line in lines:
        if line.startswith("arm label cancel --batch"):  # those before it stopped all of them
            here.world.forget(LABELLED)
            assert here.run("arm label submit --yes").status == 0
        if line.startswith("arm label collect"):
            here.restart(Script(batch=BatchScript(polls=(0, 0, 0))))
        if "replies" in line:
            here.world.forget(LABELLED)
            assert here.run("arm label files registry.yaml asked").status == 0
            run_batch(here.folder / "asked" / "requests-00001.jsonl", here.folder / "replies-00001.jsonl")
        done = here.run(line)
        wanted = 1 if line == "arm label collect" else 0  # what was cancelled has no answer
        assert done.status == wanted, (line, done.err)


def test_live_questions_wait_for_a_batch(here: Shell) -> None:
    """They would be paid twice."""
    here.restart(Script(batch=BatchScript(polls=(0, 1, 0))))
    assert here.run("arm label submit").status == 0
    refused = here.run("arm label run")
    assert refused.status == 1
    assert "6 labels are in a batch, and would be paid twice" in refused.err
    assert "next: arm label collect registry.yaml   # or cancel" in refused.err
    assert here.server.counts()["chat"] == 0
    early = here.run("arm label collect --json")
    assert early.status == 1
    assert (early.json[0]["collected"]["open"], early.json[0]["in_batch"]) == (1, 6)
    late = here.run("arm label collect --json")
    assert late.status == 0, late.err
    assert (late.json[0]["complete"], late.json[0]["collected"]["outcomes"]) == (6, {"answered": 3})


def test_every_request_of_a_batch_ends_in_a_named_outcome(here: Shell) -> None:
    here.restart(Script(batch=BatchScript(polls=(0, 0, 0), ends=("expired",), done=0.0)))
    assert here.run("arm label submit").status == 0
    done = here.run("arm label collect")
    assert done.status == 1
    assert f"{LABELLED}: 6 labels planned, 0 complete, 6 expired" in done.out
    assert {label["status"] for label in here.world.records(LABELLED)} == {"expired"}
    here.restart(Script(batch=BatchScript(polls=(0, 0, 0))))
    again = here.run("arm label submit --json")
    assert (again.status, again.json[0]["asked"]) == (0, 3)
    assert here.run("arm label collect").status == 0
    assert {status for status, _ in picks(here).values()} == {"ok"}


def test_odd_lines_of_an_output_are_named(here: Shell) -> None:
    assert here.run("arm label files registry.yaml questions").status == 0
    replies = here.folder / "replies.jsonl"
    run_batch(here.folder / "questions" / "requests-00001.jsonl", replies)
    lines = replies.read_text("utf-8").splitlines()
    stranger = json.dumps({**json.loads(lines[0]), "custom_id": "f" * 64})
    replies.write_text("\n".join([*lines[1:], stranger, "no JSON"]) + "\n", "utf-8")
    done = here.run("arm label collect registry.yaml replies.jsonl --json")
    assert done.status == 1
    (told,) = done.json
    assert (told["complete"], told["failed"]) == (4, {"missing": 2})
    assert told["collected"]["odd"]["unknown"] == ["f" * 64]
    assert len(told["collected"]["odd"]["unreadable"]) == 1
    words = here.run("arm label collect registry.yaml replies.jsonl")
    assert f"1 ids are unknown: {'f' * 64}" in words.err


def test_a_submission_says_what_it_costs_as_a_batch(here: Shell) -> None:
    here.serve(PRICES)
    (whole,) = here.run("arm label run --dry-run --json").json
    (half,) = here.run("arm label submit --dry-run --json").json
    assert half["at_most_usd"] == pytest.approx(whole["at_most_usd"] / 2, rel=0.01)
    refused = here.run("arm label submit")
    assert refused.status == 2
    assert "nobody can be asked here" in refused.err
    assert not here.server.received()


def test_labels_need_candidates_first(here: Shell) -> None:
    (here.folder / SAMPLED).unlink()
    done = here.run("arm label run")
    assert done.status == 1
    assert f"{SAMPLED} is not sampled yet" in done.err
    assert "next: arm sample registry.yaml" in done.err


def test_candidates_that_are_not_whole_are_said_first(here: Shell) -> None:
    here.world.edit("count: 2", "count: 3")
    done = here.run("arm label run")
    assert f"{SAMPLED}: 3 of 9 sets are not asked for yet, and {LABELLED} rests on it" in done.err
    assert done.status == 0, "those that are there are asked about"


def test_one_batch_command_is_about_one_source(here: Shell) -> None:
    second = """\
      - kind: teacher_labels
        format: table
        path: generated/other.jsonl
        teacher: other
        label: {endpoint: teacher, model: stand-in, prompt: selection/1, max_tokens: 200}
"""
    here.world.edit("    split:", f"{second}    labels: {{teacher: judge}}\n    split:")
    refused = here.run("arm label files registry.yaml questions")
    assert refused.status == 2
    assert f"of which source? {LABELLED} of made, generated/other.jsonl of made" in refused.err
    assert here.run(f"arm label files registry.yaml questions --source {LABELLED}").status == 0
    assert here.run("arm label run").status == 0
    assert here.server.counts()["chat"] == 6
    teachers = {label["teacher"] for name in (LABELLED, "generated/other.jsonl") for label in here.world.records(name)}
    assert teachers == {"judge", "other"}


def test_a_teacher_that_refuses_everything(here: Shell) -> None:
    here.restart(Script(faults=(Fault("401", message="no such key"),)))
    done = here.run("arm label run")
    assert done.status == 1
    assert "no such key" in done.err


def test_made_built_and_told(here: Shell) -> None:
    """A build warns of what is not whole, in one line, and says nothing where all is."""
    here.world.answer(LABELLED, lambda request: None)
    early = here.run("arm build")
    assert early.status == 0, early.err
    assert "warning: generated/labels.jsonl: 6 of 6 labels are not asked for yet; next: arm label run" in early.err
    assert here.run("arm label run").status == 0
    done = here.run("arm build --json")
    assert done.status == 0
    assert "warning: generated" not in done.err
    (built,) = done.json
    assert built["rows"]["teacher_labels"] == {"train": 6}
    tables = BuiltTables.of(Path(built["folder"]), lambda *_: None, "reading")
    sampled = {record["set_id"]: record for record in here.world.records(SAMPLED)}
    for row in tables.rows("candidate_sets"):
        record: Any = sampled.pop(row["set_id"])
        told = [(c["response"], c["finish_reason"], c["tokens"]) for c in row["candidates"]]
        assert told == [(c["response"], c["finish_reason"], c["tokens"]) for c in record["candidates"]]
        assert row["actor"] == "policy"
        assert row["sampling"]["temperature"] == 0.7
    assert not sampled
    labels = {record["label_id"]: record for record in here.world.records(LABELLED)}
    for row in tables.rows("teacher_labels"):
        label = labels.pop(row["label_id"])
        assert {name: row[name] for name in label if name in row} == label
    assert not labels
    # What is trained on is what was picked: the target names the picked candidate in the order that the row shows.
    picked = picks(here)
    rows = list(tables.rows("selection_sft"))
    assert len(rows) == 6
    for row in rows:
        said = json.loads(row["completion"][0]["content"][0]["text"])["selection"]
        assert row["order"][said - 1] == picked[row["set_id"]][1]


def test_batches_say_what_comes_next(here: Shell) -> None:
    """What a batch left is asked by the next batch, at its price; and where nothing is left, nothing is promised."""
    here.serve(PRICES)
    here.restart(Script(batch=BatchScript(polls=(0, 0, 0), ends=("expired",), done=0.0)))
    assert "no batch was submitted; next: arm label submit registry.yaml" in here.run("arm label status").err
    assert "no batch is open" in here.run("arm label cancel").err
    (before,) = here.run("arm label submit --dry-run --json").json
    assert here.run("arm label submit --yes").status == 0
    expired = here.run("arm label collect --endpoints endpoints.yaml")
    assert "next: arm label submit registry.yaml --endpoints endpoints.yaml   # asks again" in expired.err
    assert f"at most ${before['at_most_usd']:,.4f}" in expired.out
    here.restart(Script(batch=BatchScript(polls=(0, 0, 0))))
    assert here.run("arm label submit --yes").status == 0
    assert here.run("arm label collect").status == 0
    idle = here.run("arm label submit")
    assert idle.status == 0
    assert "nothing new was submitted: 3 requests are answered" in idle.err
    assert "next: arm build registry.yaml" in idle.err
    assert "collect" not in idle.err


def test_answers_that_are_always_cut_can_be_taken(here: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service.Service, "pause", lambda *_: None)
    here.restart(Script(faults=(Fault("cut", on="content"),), batch=BatchScript(polls=(0, 0, 0))))
    assert here.run("arm label submit").status == 0
    refused = here.run("arm label collect")
    assert refused.status == 1
    assert "it ends inside a line; arm label collect --accept-cut takes what is there" in refused.err
    assert "6 in a batch" in refused.out
    taken = here.run("arm label collect --accept-cut --json")
    assert taken.status == 1
    (told,) = taken.json
    assert set(told["failed"]) == {"missing"}
    assert told["complete"] + told["failed"]["missing"] == 6
    assert told["complete"] > 0


def test_a_batch_that_could_not_be_created(here: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service.Service, "pause", lambda *_: None)
    here.restart(Script(faults=(Fault("500", on="batches"),)))
    assert here.run("arm label submit").status == 1
    asked = "whether batch 1 was created is not known; the next arm label submit asks for it"
    assert asked in here.run("arm label status").err
    here.restart(Script(key="another"))
    assert "next: is it the right key?" in here.run("arm label submit").err
    here.restart(Script(faults=(Fault("429", on="files", code="rate", message="come back"),)))
    limited = here.run("arm label submit")
    assert limited.status == 1
    assert "nothing was submitted\nstopped: 429: rate come back; what is left is sent by the next" in limited.err
