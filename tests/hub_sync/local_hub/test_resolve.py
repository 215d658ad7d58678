"""Downloads: headers, ranges, and that nothing in a repository is a page of the hub's site."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from huggingface_hub import hf_hub_url, snapshot_download
from huggingface_hub.errors import EntryNotFoundError, RevisionNotFoundError
from huggingface_hub.file_download import get_hf_file_metadata

from .conftest import Site, text_file

DATA = bytes(range(256)) * 3000  # more than one chunk of the server's reading


@pytest.fixture(scope="module")
def files(site: Site) -> str:
    """A repository with a stored file, a regular and an empty one."""
    repo = site.new()
    oid = site.store(repo, DATA)
    line = ("lfsFile", {"path": "big.bin", "algo": "sha256", "oid": oid, "size": len(DATA)})
    answer = site.commit(
        repo,
        line,
        text_file("page.html", b"<script>1</script>"),
        text_file("empty", b""),
        text_file("a b/ü#?.txt", b"u"),
    )
    assert answer.status == 200
    return f"/datasets/{repo}/resolve/main"


def test_headers(site: Site, files: str) -> None:
    sha256 = hashlib.sha256(DATA).hexdigest()
    for method in ("HEAD", "GET"):
        answer = site.call(method, f"{files}/big.bin")
        assert answer.status == 200
        assert answer.body == (DATA if method == "GET" else b"")
        assert len(answer.headers["X-Repo-Commit"]) == 40
        assert answer.headers["ETag"] == answer.headers["X-Linked-Etag"] == f'"{sha256}"'
        assert answer.headers["X-Linked-Size"] == answer.headers["Content-Length"] == str(len(DATA))
        assert answer.headers["Accept-Ranges"] == "bytes"
        assert answer.headers["X-Xet-Hash"] is None
        assert answer.headers["X-Request-Id"]
    blob = hashlib.sha1(b"blob 18\0<script>1</script>").hexdigest()
    answer = site.call("HEAD", f"{files}/page.html")
    assert (answer.headers["ETag"], answer.headers["X-Linked-Etag"]) == (f'"{blob}"', None)
    assert site.call("GET", f"{files}/page.html", If_None_Match=f'"{blob}"').status == 304
    assert site.call("GET", f"{files}/empty").body == b""


def test_hostile_page_is_inert(site: Site, files: str) -> None:
    for name in ("page.html", "big.bin"):
        headers = site.call("GET", f"{files}/{name}").headers
        assert headers["Content-Type"] in ("text/plain; charset=utf-8", "application/octet-stream")
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "sandbox" in headers["Content-Security-Policy"]
        assert headers["Access-Control-Allow-Origin"] is None


@pytest.mark.parametrize("name", ["big.bin", "page.html"])
@pytest.mark.parametrize(
    ("asked", "start", "stop"),
    [("0-0", 0, 1), ("5-9", 5, 10), ("7-", 7, None), ("-4", -4, None), ("3-99999999", 3, None), ("-99999999", 0, None)],
)
def test_ranges(site: Site, files: str, name: str, asked: str, start: int, stop: int | None) -> None:
    whole = DATA if name == "big.bin" else b"<script>1</script>"
    answer = site.call("GET", f"{files}/{name}", Range=f"bytes={asked}")
    assert answer.status == 206
    assert answer.body == whole[start:stop]
    first = start % len(whole)
    assert answer.headers["Content-Range"] == f"bytes {first}-{first + len(answer.body) - 1}/{len(whole)}"
    assert answer.headers["Content-Length"] == str(len(answer.body))


def test_ranges_that_are_none(site: Site, files: str) -> None:
    for asked in ("bytes=99999999-", "bytes=-0"):
        answer = site.call("GET", f"{files}/big.bin", Range=asked)
        assert (answer.status, answer.headers["Content-Range"]) == (416, f"bytes */{len(DATA)}")
    for asked in ("bytes=1-2,4-5", "lines=1-2", "bytes=a-b", "bytes=-", "bytes=9-3", "bytes=" + "9" * 30 + "-"):
        answer = site.call("GET", f"{files}/big.bin", Range=asked)
        assert (answer.status, len(answer.body)) == (200, len(DATA)), asked
    assert site.call("GET", f"{files}/big.bin", Range="bytes=0-1", If_Range='"other"').status == 200


def test_missing(site: Site, files: str) -> None:
    answer = site.call("GET", f"{files}/none")
    assert (answer.status, answer.headers["X-Error-Code"]) == (404, "EntryNotFound")
    assert len(answer.headers["X-Repo-Commit"]) == 40, "a client remembers what is not there by it"
    for path in ("a%20b", "big.bin/x", ""):
        assert site.call("GET", f"{files}/{path}").status == 404
    answer = site.call("GET", f"{files}x/big.bin".replace("/mainx", "/none"))
    assert (answer.status, answer.headers["X-Error-Code"]) == (404, "RevisionNotFound")
    assert site.call("GET", f"{files}/%ff").status == 400


def test_the_client_downloads(site: Site, files: str, tmp_path: Path) -> None:
    repo = files.removeprefix("/datasets/").removesuffix("/resolve/main")
    found = snapshot_download(repo, repo_type="dataset", endpoint=site.url, local_dir=tmp_path / "a", token=False)
    assert (Path(found) / "big.bin").read_bytes() == DATA
    assert (Path(found) / "a b" / "ü#?.txt").read_bytes() == b"u"
    url = hf_hub_url(repo, "big.bin", repo_type="dataset", endpoint=site.url)
    assert get_hf_file_metadata(url, token=False).size == len(DATA)
    with pytest.raises(EntryNotFoundError):
        site.api().hf_hub_download(repo, "none", repo_type="dataset", cache_dir=tmp_path / "b")
    with pytest.raises(RevisionNotFoundError):
        site.api().hf_hub_download(repo, "empty", repo_type="dataset", revision="none", cache_dir=tmp_path / "b")
