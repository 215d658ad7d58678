"""The unmodified client behind the proxy: all it asks for passes through, whichever way its files take."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from action_reward_models.hub_sync.local_hub import serve
from action_reward_models.tests.faults.proxy import FaultProxy
from action_reward_models.tests.faults.script import Fault, Rule

_CLIENT = """
from huggingface_hub import CommitOperationAdd, HfApi, hf_hub_download
api = HfApi()
repo = f"{api.whoami()['name']}/r"
api.create_repo(repo, repo_type="dataset")
add = CommitOperationAdd("data.bin", bytes(range(256)) * 8192)
api.create_commit(repo, [add], commit_message="add", repo_type="dataset")
path = hf_hub_download(repo, "data.bin", repo_type="dataset")
print(open(path, "rb").read() == bytes(range(256)) * 8192)
"""
_UPLOADS = {"off": ("/info/lfs/objects/batch", "/lfs/"), "on": ("/xet-write-token/", "/shards")}


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """(address, token of its owner)."""
    folder = tmp_path / "hub"
    yield serve.start(folder)["url"], (folder / "token").read_text("utf-8")
    serve.stop(folder)


@pytest.mark.parametrize("xet", ["off", "on"])
def test_every_request_passes_and_a_dropped_one_is_tried_again(hub: tuple[str, str], xet: str, tmp_path: Path) -> None:
    url, token = hub
    rules = [Rule(Fault("drop"), method="GET", path="/resolve/"), Rule(Fault("delay", seconds=0.05), path="/commit/")]
    with FaultProxy(url, rules) as proxy:
        env = {name: value for name, value in os.environ.items() if name != "HF_HUB_DISABLE_XET"}
        env |= {"HF_ENDPOINT": proxy.url, "HF_TOKEN": token, "HF_HOME": str(tmp_path / "home")}
        if xet == "off":
            env["HF_HUB_DISABLE_XET"] = "1"
        done = subprocess.run([sys.executable, "-c", _CLIENT], env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr[-2000:]
    paths = [(request.method, request.path) for request in proxy.requests if request.fault != "drop"]
    assert ("POST", "/api/repos/create") in paths
    assert any(path.endswith("/commit/main") for _, path in paths)
    assert any(method == "GET" and "/resolve/" in path for method, path in paths)
    for part in _UPLOADS[xet]:
        assert any(part in path for _, path in paths)
    if xet == "off":
        assert any(method == "PUT" for method, _ in paths)
    assert sum(request.sent for request in proxy.requests) > (1 << 21 if xet == "off" else 0)  # Xet compresses
    assert {request.fault for request in proxy.requests} == {None, "drop", "delay"}
    assert token not in repr(proxy.requests)
