"""Stored files over LFS: what is announced is what must arrive."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from .conftest import Site

CODE = """
import sys
import time
from huggingface_hub import HfApi, snapshot_download
api = HfApi(token="hf_ann")
api.upload_folder(repo_id=sys.argv[1], folder_path=sys.argv[2], repo_type="dataset")
print(snapshot_download(sys.argv[1], repo_type="dataset", local_dir=sys.argv[3]))
"""


def test_the_client_without_xet(site: Site, repo: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "big.bin").write_bytes(os.urandom(3_000_000))
    (source / "text.txt").write_text("text")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HF_")}
    environment |= {"HF_ENDPOINT": site.url, "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-c", CODE, repo, str(source), str(tmp_path / "target")]
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=120)
    for name in ("deep/big.bin", "text.txt"):
        assert (tmp_path / "target" / name).read_bytes() == (source / name).read_bytes()
    assert len(site.api().list_repo_commits(repo, repo_type="dataset")) == 2


def test_present_files_are_not_sent_again(site: Site, repo: str) -> None:
    oid = site.store(repo, b"some bytes")
    assert "actions" not in site.batch(repo, oid, 10).json["objects"][0]
    assert site.batch(repo, oid, 11).json["objects"][0]["error"]["code"] == 422
    # Another repository must show that it has the bytes, even though the hub has them.
    assert "upload" in site.batch(site.new(), oid, 10).json["objects"][0]["actions"]


def test_download_batch(site: Site, repo: str) -> None:
    oid = site.store(repo, b"some bytes")
    action = site.batch(repo, oid, 10, user=None, operation="download").json["objects"][0]["actions"]["download"]
    answer = site.call("GET", action["href"].removeprefix(site.url))
    assert answer.body == b"some bytes"
    missing = site.batch(repo, "0" * 64, 10, user=None, operation="download").json["objects"][0]
    assert missing["error"]["code"] == 404


def test_only_the_announced_bytes_are_kept(site: Site, repo: str) -> None:
    data = b"x" * 100
    oid = hashlib.sha256(data).hexdigest()
    actions = site.batch(repo, oid, 100).json["objects"][0]["actions"]
    path = actions["upload"]["href"].removeprefix(site.url)
    assert site.call("PUT", path, body=data + b"y").status == 413
    assert site.call("PUT", path, body=data[:-1]).status == 400
    assert site.call("PUT", path, body=b"y" * 100).status == 400
    verify = actions["verify"]["href"].removeprefix(site.url)
    assert site.call("POST", verify, body={"oid": oid, "size": 100}).status == 404
    assert not list(site.folder.glob(f"objects/*/*/{oid}"))
    assert not list((site.folder / "incoming").iterdir())
    assert site.call("PUT", path, body=data).status == 200
    assert site.call("PUT", path, body=data).status == 200, "a client may repeat what it does not know to have arrived"
    assert site.call("POST", verify, body={"oid": oid, "size": 100}).status == 200
    assert [file.read_bytes() for file in site.folder.glob(f"objects/*/*/{oid}")] == [data]


def test_odd_batches(site: Site, repo: str) -> None:
    for oid, size in (
        ("0" * 63, 1),
        ("A" * 64, 1),
        ("../" * 22, 1),
        (None, 1),
        ("0" * 64, -1),
        ("0" * 64, True),
        ("0" * 64, "1"),
    ):
        assert site.batch(repo, oid, size).status == 422, (oid, size)
    assert site.batch(repo, "0" * 64, 1, user=None).status == 401
    assert site.batch(repo, "0" * 64, 1, user="reader").status == 403
    path = f"/datasets/{repo}.git/info/lfs/objects/batch"
    assert site.call("POST", path, user="ann", body={"operation": "upload", "objects": [{}] * 1001}).status == 422
    assert site.call("POST", path, user="ann", body={"operation": "erase", "objects": []}).status == 422


def test_upload_that_breaks_off_leaves_nothing(site: Site, repo: str) -> None:
    def wait_for(files: int) -> None:
        end = time.monotonic() + 20
        while len(list((site.folder / "incoming").iterdir())) != files:
            assert time.monotonic() < end
            time.sleep(0.01)

    data = b"half of this " * 20
    oid = hashlib.sha256(data).hexdigest()
    path = site.batch(repo, oid, len(data)).json["objects"][0]["actions"]["upload"]["href"].removeprefix(site.url)
    head = f"PUT {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(data)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", int(site.url.rsplit(":", 1)[1]))) as connection:
        connection.sendall(head.encode() + data[:50])
        wait_for(1)
    wait_for(0)
    assert not list(site.folder.glob(f"objects/*/*/{oid}"))
