"""`arm serve` as it is typed: where it listens, what it says, how it ends. Its model has no weights."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.cli import _run
from action_reward_models.cli.picking_options import Asking, Said
from action_reward_models.inference.served import ServedARM
from action_reward_models.prompts.options import PromptOptions
from action_reward_models.prompts.render import load_prompt
from action_reward_models.schemas.ids import file_sha256
from action_reward_models.schemas.images import data_url
from action_reward_models.tests.cli import served_by_a_fake
from action_reward_models.tests.inference.made import png
from action_reward_models.tests.inference.serve.fakes import body
from action_reward_models.tests.inference.serve.load import ask, post
from action_reward_models.tests.servers.stand_in import Fault, Script, StandIn

ROOT = Path(__file__).parents[2]
FAKE = ("-m", served_by_a_fake.__name__, "serve", "fake")
ARM = ("-c", "from action_reward_models.cli import main; main()", "serve")


@contextmanager
def serving(
    words: str = "", hold: Path | None = None, program: tuple[str, ...] = FAKE, **env: str
) -> Iterator[tuple[subprocess.Popen[str], Any]]:
    """The process, once it answers, and what it said of itself."""
    more = {"HOLD": str(hold)} if hold else {}
    process = subprocess.Popen(
        [sys.executable, *program, "--port", "0", "--json", *words.split()],
        env={**os.environ, **more, **env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    try:
        assert process.stdout
        said = ""
        while not said.endswith("}\n"):
            line = process.stdout.readline()
            assert line, process.communicate()
            said += line
        yield process, json.loads(said)
    finally:
        process.kill()
        process.communicate()


async def asked(url: str, request: bytes) -> tuple[int, Any]:
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        answer = await ask(reader, writer, request)
    finally:
        writer.close()
        await writer.wait_closed()
    return answer.status, json.loads(answer.body)


GET = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
SELECT = post("/select", json.dumps(body()).encode())


def test_it_answers_says_what_it_does_and_drains(tmp_path: Path) -> None:
    """SIGTERM while three requests wait: they are answered, others are not, whoever watches is told, and it ends."""
    hold = tmp_path / "hold"
    hold.touch()

    async def clients(process: subprocess.Popen[str], url: str) -> None:
        three = [asyncio.create_task(asked(url, SELECT)) for _ in range(3)]
        while (await asked(url, GET))[1]["inside"] < 3:
            await asyncio.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        while (watched := await asked(url, GET))[1]["status"] == "ok":
            await asyncio.sleep(0.01)
        assert (watched[0], watched[1]["status"]) == (503, "draining")
        status, refused = await asked(url, SELECT)
        assert (status, refused["error"]["code"]) == (503, "draining")
        assert not any(one.done() for one in three)
        hold.unlink()
        assert [(status, told["selected_index"]) for status, told in await asyncio.gather(*three)] == [(200, 2)] * 3

    with serving("--batch 2", hold) as (process, said):
        assert (said["pid"], said["model"], said["kind"]) == (process.pid, "fake", "scalar")
        assert said["url"].startswith("http://127.0.0.1:")
        asyncio.run(asyncio.wait_for(clients(process, said["url"]), 30))
        _, err = process.communicate(timeout=20)
        assert process.returncode == 0
    lines = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    batches = [line["batch"] for line in lines if line["outcome"] == "ok" and line["route"] == "/select"]
    assert sorted(batches) == [1, 2, 2]
    assert err.splitlines()[-1] == "all requests are answered; ended"


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    hold = tmp_path / "hold"
    hold.touch()

    async def client(process: subprocess.Popen[str], url: str) -> None:
        waits = asyncio.create_task(asked(url, SELECT))
        while (await asked(url, GET))[1]["inside"] < 1:
            await asyncio.sleep(0.01)
        process.send_signal(signal.SIGINT)
        while (await asked(url, GET))[1]["status"] == "ok":
            await asyncio.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        with pytest.raises((EOFError, OSError)):
            await waits

    with serving("", hold) as (process, said):
        asyncio.run(asyncio.wait_for(client(process, said["url"]), 30))
        assert process.wait(10) == 128 + signal.SIGTERM


def test_it_ends_when_the_model_is_stuck_with_a_request_that_timed_out(tmp_path: Path) -> None:
    hold = tmp_path / "hold"
    hold.touch()
    with serving("--timeout 0.2 --name other", hold, ARM_SERVE_TOKEN="k3y") as (process, said):
        assert said["model"] == "other"
        assert asyncio.run(asked(said["url"], SELECT))[0] == 401
        with_key = SELECT.replace(b"\r\n\r\n", b"\r\nauthorization: Bearer k3y\r\n\r\n", 1)
        status, late = asyncio.run(asked(said["url"], with_key))
        assert (status, late["error"]["code"]) == (504, "timeout")
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)
        assert process.returncode == 0
        assert time.monotonic() - began < 10
        assert "k3y" not in err


@pytest.mark.parametrize(
    ("words", "env", "status", "told"),
    [
        ("", {"ARM_SERVE_TOKEN": ""}, 2, "ARM_SERVE_TOKEN is set, and its value can be no key"),
        ("", {"ARM_SERVE_TOKEN": "two\nlines"}, 2, "not printable ASCII"),
        ("--batch 0", {}, 2, "0 is not in the range"),
        ("--timeout 0", {}, 2, "0.0 is not in the range"),
        ("--orders 3", {}, 2, "a scalar model, which sees one candidate at a time"),
        ("--agree all", {}, 2, "--agree says nothing without --orders"),
        ("--served it", {}, 2, "--served needs --server"),
        ("--host 192.0.2.1", {}, 1, "192.0.2.1:8000: cannot be listened on"),
        ("--host 192.0.2.1", {}, 1, "next: --host 127.0.0.1"),
    ],
)
def test_what_is_refused_before_a_model_is_loaded(
    words: str, env: dict[str, str], status: int, told: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr("action_reward_models.cli.picking_models.local", _not_loaded)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert _run(["serve", "folder", *words.split()]) == status
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("words", ["", "--print-vllm", "--preflight", "--server x --served y"])
def test_without_a_model(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = typed(capsys, *words.split())
    assert status == 2
    assert "MODEL" in err
    assert "next: arm serve --help" in err


def test_a_port_that_is_taken_is_told_before_the_model_is_loaded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("action_reward_models.cli.picking_models.local", _not_loaded)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert _run(["serve", "folder", "--port", str(port)]) == 1
    err = capsys.readouterr().err
    assert f"127.0.0.1:{port}: cannot be listened on" in err
    assert "next: --port 0" in err


def _not_loaded(*_: Any, **__: Any) -> Any:
    from action_reward_models.cli.picking_models import Model

    def opened() -> Any:
        raise AssertionError("it was loaded")

    return Model("fake", {"kind": "scalar"}, dict, opened, opened, 1)


@pytest.mark.slow
def test_an_arm_behind_another_server_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the checkpoint there are no weights here; what goes wrong there is said in words."""
    folder = checkpoint(tmp_path / "my-arm", "selection_arm")
    state = {"task": "Buy milk", "screenshot": data_url(png("red"))}
    request = post("/select", json.dumps({**body(), "state": state}).encode())
    words = f"{folder} --server mine --served stand-in --orders 2"
    with (
        StandIn(Script()) as server,
        serving(words, program=ARM, ARM_ENDPOINT_MINE=server.url) as (process, said),
    ):
        monkeypatch.setenv("ARM_ENDPOINT_MINE", server.url)
        assert _run(["serve", str(folder), "--server", "mine", "--served", "other", "--port", "0"]) == 2
        assert "has no model 'other'; it has stand-in" in capsys.readouterr().err
        assert (said["model"], said["kind"]) == ("stand-in", "selection_arm")
        status, told = asyncio.run(asked(said["url"], request))
        assert (status, len(told["votes"])) == (200, 2)
        assert {vote["status"] for vote in told["votes"]} == {"ok"}
        server.change(Script(faults=(Fault("400", rate=1.0),)))
        status, told = asyncio.run(asked(said["url"], request))
        assert (status, told["error"]["code"]) == (502, "error")
        assert "400" in told["error"]["message"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def checkpoint(folder: Path, kind: str) -> Path:
    """As much of a merged one as vLLM's commands are made of."""
    prompt = load_prompt("scalar/1" if kind == "scalar" else "selection/1", PromptOptions()).to_json()
    digest, hexes = prompt["sha256"], "0" * 64
    contract = {
        "kind": kind, "layout": "merged", "architecture": "Qwen3_5ForSequenceClassification", "dtype": "float32",
        "base": {"repo": "owner/base", "commit": "0" * 40, "sha256": None},
        "prompt": {"id": prompt["id"], "sha256": digest, "file": "prompts/own.json"},
        "candidates": {"spoken": [{"dialect": "function", "space": "pixel"}], "merge": True, "shuffle": True},
        "processor": {"tokenizer_sha256": hexes, "chat_template_sha256": hexes, "template_options": {},
                      "max_tokens": 2048, "min_pixels": 1024, "max_pixels": 9216},
        "head": {"file": None, "scored_token_id": 1, "scored_token": "x"} if kind == "scalar" else None,
    }  # fmt: skip
    (folder / "prompts").mkdir(parents=True)
    (folder / "prompts" / "own.json").write_text(json.dumps(prompt), "utf-8")
    (folder / "manifest.json").write_text(json.dumps({"checkpoint": contract}), "utf-8")
    (folder / "config.json").write_text(json.dumps({"vision_config": {}}), "utf-8")
    (folder / "chat_template.jinja").write_text("", "utf-8")
    return folder


def typed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    status = _run(["serve", *words])
    said = capsys.readouterr()
    return status, said.out, said.err


@pytest.mark.parametrize("kind", ["scalar", "selection_arm"])
def test_vllm_is_told_what_to_run(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    folder = str(checkpoint(tmp_path / "my-arm", kind))
    status, out, err = typed(capsys, folder, "--print-vllm", "--json", "--name", "other", "--port", "8123")
    assert status == 0, err
    plan = json.loads(out)
    assert (plan["kind"], plan["model"], plan["url"]) == (kind, "other", "http://127.0.0.1:8123")
    assert (plan["request"]["body"] is None) is (kind == "selection_arm")
    status, out, err = typed(capsys, folder, "--print-vllm", "--name", "other", "--port", "8123")
    assert status == 0, err
    lines = out.splitlines()
    assert all(step["command"] in lines for step in plan["steps"])
    last = "curl http://127.0.0.1:8123/classify" if kind == "scalar" else "arm select"
    assert lines[-1].startswith(last)
    assert ("--server local --served other" in lines[-1]) is (kind == "selection_arm")


def test_what_vllm_lacks_is_a_table_and_a_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    folder = str(checkpoint(tmp_path / "my-arm", "scalar"))
    status, out, _ = typed(capsys, folder, "--preflight", "--json")
    told = json.loads(out)
    assert (status, told["ok"]) == (1, False)
    missing = next(check for check in told["checks"] if check["name"] == "vllm")
    assert missing["status"] == "missing"
    status, out, err = typed(capsys, folder, "--preflight")
    assert status == 1
    assert all(check["name"] in out for check in told["checks"])
    assert f"vllm: {missing['do']}" in err


def test_another_server_is_waited_for_as_long_as_a_client_waits(tmp_path: Path) -> None:
    """A reply that nobody waits for any more would keep the one worker from all other requests."""
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("{{task}}\n{{observation}}\n{{history}}\n{{count}}\n{{points}}\n{{candidates}}\n{{answer}}\n")
    declared = tmp_path / "endpoints.yaml"
    declared.write_text("endpoints: 1\nservers: {there: {urls: ['http://127.0.0.1:9/v1']}}\n")
    said = Said(
        None, None, 1, "majority", 256, "none", None, None, "there", "arm", declared, None, None,
        prompt, file_sha256(prompt), (),
    )  # fmt: skip
    chooser = Asking.of(None, said, patience_s=1.5).model.opened()
    assert isinstance(chooser, ServedARM)
    assert chooser.sending.patience_s == 1.5
