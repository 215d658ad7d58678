"""How far generated files are, as a person reads it; and what an interrupt, workers and a full plan say of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from action_reward_models.builders.generate.log import SHARDS, AnswerLog
from action_reward_models.cli import generate_report, plan_report
from action_reward_models.registry.generated import Made
from action_reward_models.registry.plan import Plan, Step
from action_reward_models.registry.standing import Standing
from action_reward_models.schemas.errors import ArmError
from action_reward_models.tests.registry.generated_world import SAMPLED, Generated
from action_reward_models.tests.servers.stand_in import Script, StandIn

from .made import Shell, shell

ARM = Path(sys.executable).parent / "arm"
MADE = Made("made", 1, "sample", "generated/c.jsonl", Path("generated/c.jsonl"))
NEW = Standing(MADE, planned=1830, not_asked=1830, skipped={"no_prompt": 2}, requests=9150, to_ask=9150)
HALF = Standing(
    MADE, 1830, 1700, {"failed": 20, "rejected": 10}, 60, 40, requests=9150, to_ask=350, at_most_usd=3.2,
    about_usd=0.8, spent_usd=12.5,
)  # fmt: skip


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        (Standing(MADE, waits="x is not sampled yet"), ["generated/c.jsonl: x is not sampled yet"]),
        (NEW, [
            "generated/c.jsonl: 1,830 sets planned, 0 complete, 1,830 not asked for yet",
            "  not asked for, as they are: no_prompt 2",
            "  to send: 9,150 of 9,150 requests",
        ]),
        (HALF, [
            "generated/c.jsonl: 1,830 sets planned, 1,700 complete, 20 failed, 10 rejected, 60 in a batch, "
            "40 not asked for yet",
            "  to send: 350 of 9,150 requests; at most $3.2000, about $0.8000",
            "  spent until now: $12.5000",
        ]),
        (replace(HALF, complete=1830, failed={}, in_batch=0, not_asked=0, to_ask=0, unwritten=3, spent_usd=None), [
            "generated/c.jsonl: 1,830 sets planned, 1,830 complete",
            "  3 sets are in the log and not in the file",
        ]),
    ],
)  # fmt: skip
def test_how_far_a_file_is(found: Standing, shown: list[str]) -> None:
    assert list(generate_report.lines(found)) == shown


def test_a_plan_tells_of_every_generated_file(capsys: pytest.CaptureFixture[str]) -> None:
    error = ArmError(
        "generated/c.jsonl: 40 of 1,830 sets are not asked for yet", where="made", next_command="arm sample"
    )
    step = Step("made", "1.0.0", "lab/made", "refused", generated=(HALF,), refusals=(error,))
    plan_report.show(Plan("http://hub", (step,)))
    said = capsys.readouterr()
    assert "generated/c.jsonl: 1,830 sets planned, 1,700 complete, 20 failed, 10 rejected" in said.out
    assert "at most $3.2000" in said.out
    assert "arm: made: generated/c.jsonl: 40 of 1,830 sets are not asked for yet\n  next: arm sample" in said.err


@pytest.fixture(scope="module")
def server() -> Iterator[StandIn]:
    with StandIn() as running:
        yield running


@pytest.fixture
def here(tmp_path: Path, server: StandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return shell(Generated.make(tmp_path / "declared"), tmp_path, server, monkeypatch, capsys)


def test_an_interrupt_says_what_is_kept(here: Shell) -> None:
    """What was answered is in the log, and the next run asks for the rest only."""
    here.restart(Script(latency_s=0.3))
    words = [str(ARM), "sample", "--in-flight", "1"]
    process = subprocess.Popen(words, cwd=here.folder, env={**os.environ}, stderr=subprocess.PIPE, text=True)
    while here.server.counts()["chat"] < 2 and process.poll() is None:
        pass
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    log = AnswerLog((here.folder / SAMPLED).with_suffix(".requests"))
    assert "stopped by an interrupt; every answer is kept, and the same command goes on from there" in said
    kept = sum(len(log.shard(shard)) for shard in range(SHARDS))
    assert 0 < kept < 12
    here.restart(Script())
    assert here.run("arm sample").status == 0
    assert here.server.counts()["chat"] == 12 - kept


@pytest.mark.slow  # two processes that import everything
def test_workers_share_the_work(here: Shell) -> None:
    done = here.run("arm sample --workers 2 --json")
    assert done.status == 0, done.err
    assert (done.json[0]["complete"], here.server.counts()["chat"]) == (6, 12)
    refused = here.run("arm sample --workers 2 --cluster tcp://127.0.0.1:1")
    assert refused.status == 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Dask's own, at start and shutdown
def test_a_cluster_asks_what_one_process_does(here: Shell) -> None:
    """Its workers stand in other folders than who typed the command."""
    distributed = pytest.importorskip("distributed", reason="needs the extra [scale]: make test-all installs it")
    assert here.run("arm sample").status == 0
    alone = (here.folder / SAMPLED).read_bytes()
    here.world.forget(SAMPLED)
    here.server.reset()
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    with distributed.LocalCluster(**options) as local:
        words = [str(ARM), "sample", "--cluster", local.scheduler_address]
        done = subprocess.run(words, cwd=here.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert here.server.counts()["chat"] == 12
    assert (here.folder / SAMPLED).read_bytes() == alone
