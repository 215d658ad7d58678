"""A scalar model from a hub scores in a new process as it did where it was made, whoever loads it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.hub_sync.local_hub import serve
from action_reward_models.inference import fetch
from action_reward_models.tests.inference import process
from huggingface_hub import HfApi

NOT_FETCHED = ("pytorch_model.bin", "adapter_model.bin", "training_args.bin", "own.py", "README.md")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(scores where it was made, what another process found, commit of the base model)."""
    work = tmp_path_factory.mktemp("ways")
    hub = work / "hub"
    hub.mkdir()
    running = serve.start(hub)
    token = (hub / "token").read_text("utf-8").strip()
    api = HfApi(running["url"], token)

    def publish(name: str, folder: Path) -> str:
        api.create_repo(name, private=True)
        for stray in NOT_FETCHED:
            (folder / stray).write_bytes(b"---\nlicense: mit\n---\n")
        (folder / "other").mkdir(exist_ok=True)
        (folder / "other" / "model.safetensors").write_bytes(b"never read")
        return str(api.upload_folder(repo_id=name, folder_path=folder).oid)

    try:
        base = shutil.copytree(process.base(), work / "base")
        commit = publish("local/base", base)
        api.upload_file(path_or_fileobj=b"moved on", path_in_repo="tokenizer.json", repo_id="local/base")
        scores = process.run("ways", "make", work, process.base(), "local/base", commit)
        for name, changed in {
            "": {},
            "-other": {"commit": "1" * 40},
            "-folder": {"repo": None, "commit": None},
        }.items():
            copy = shutil.copytree(work / "adapter", work / f"copy{name}")
            manifest = json.loads((copy / "manifest.json").read_bytes())
            manifest["checkpoint"]["base"] |= changed
            (copy / "manifest.json").write_text(json.dumps(manifest))
            publish(f"local/scalar{name}", copy)
        api.create_tag("local/scalar", tag="v1.0.0")
        client = {
            "HF_ENDPOINT": running["url"],
            "HF_TOKEN": token,
            "HF_HOME": str(work / "home"),
            "HF_HUB_OFFLINE": "0",
        }
        given = ("local/scalar", work / "merged", "local/base", commit)
        yield scores, process.run("ways", "load", *given, **client), commit
    finally:
        assert serve.stop(hub)


@pytest.mark.parametrize("way", ["ours", "peft", "auto", "merged"])
def test_every_way_gives_the_same_scores(world: Any, way: str) -> None:
    scores, found, _ = world
    assert len({round(score, 3) for score in scores}) == 3
    assert found[way] == pytest.approx(scores, abs=1e-5)


def test_nothing_that_could_run_is_fetched(world: Any) -> None:
    fetched = set(world[1]["fetched"])
    assert {"adapter_model.safetensors", "model.safetensors", "value_head.safetensors", "manifest.json"} <= fetched
    assert not fetched & set(NOT_FETCHED)
    assert world[1]["fetched"].count("model.safetensors") == 1


def test_what_cannot_be_had_is_said(world: Any) -> None:
    _, found, commit = world
    assert f"'{'1' * 40}', and here is '{commit}'" in found["other_base"]
    assert "trained on a base model in a folder; say where that is" in found["no_base"]
    hub = r": cannot be fetched: 127\.0\.0\.1:\d+ has no "
    assert re.match(rf"local/scalar@v2\.0\.0{hub}revision 'v2\.0\.0' of it", found["no_revision"])
    assert re.match(rf"local/scalar-none@v1\.0\.0{hub}checkpoint or model of this name", found["no_repo"])


@pytest.mark.parametrize(
    ("given", "token"),
    [
        ({}, None),  # the saved login
        ({"HF_ENDPOINT": "https://huggingface.co/"}, None),
        ({"HF_ENDPOINT": "https://hub.example"}, False),  # nothing at all
        ({"HF_ENDPOINT": "https://hub.example", "HF_TOKEN": "hf_given"}, "hf_given"),
    ],
)
def test_a_saved_login_is_sent_to_the_official_hub_only(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], token: str | bool | None
) -> None:
    for name in ("HF_ENDPOINT", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    sent: list[Any] = []

    def download(_: str, **how: Any) -> str:
        sent.append(how["token"])
        return "here"

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    assert fetch.checkpoint("owner/name", "main") == Path("here")
    assert sent == [token]
