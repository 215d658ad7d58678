"""What a hostile client, page or repository must not be able to do."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing

import pytest

from .conftest import Site, text_file

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize {}\n"
PATHS = [
    "", "/etc/passwd", "../x", "a/../../x", "a//b", "a/", "./a", "a/.", "..", ".git/config", "a/.GIT/hooks/x",
    ".git./x",
    ".git /x", "git~1/x", ".git::$INDEX_ALLOCATION/x", "a\\b", "..\\x", "a\nb", "a\0b", "a\x7fb", "C:/x", "\ud800",
    "a\u2028b", "x" * 256, "/".join(["d" * 100] * 12), None, 3, ["a"],
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS, ids=lambda path: ascii(path)[:30])
def test_paths(site: Site, repo: str, path: object) -> None:
    head = site.api().dataset_info(repo).sha
    content = {"path": path, "content": "eA==", "encoding": "base64"}
    assert site.commit(repo, ("file", content)).status == 422
    oid = site.store(repo, b"x")
    assert site.commit(repo, ("lfsFile", {"path": path, "oid": oid, "size": 1})).status == 422
    body = {"files": [{"path": path, "size": 1, "sample": "eA=="}]}
    assert site.call("POST", f"/api/datasets/{repo}/preupload/main", user="ann", body=body).status == 422
    assert site.api().dataset_info(repo).sha == head


def test_paths_in_addresses_stay_inside(site: Site, repo: str) -> None:
    for path in (
        "../../token",
        "..%2F..%2Ftoken",
        "%2e%2e/%2e%2e/hub.sqlite",
        "/etc/passwd",
        "%2Fetc%2Fpasswd",
        ".git/HEAD",
    ):
        assert site.call("GET", f"/datasets/{repo}/resolve/main/{path}").status == 404, path
        assert site.call("GET", f"/api/datasets/{repo}/tree/main/{path}").status == 404, path


def test_host_header(site: Site) -> None:
    port = site.url.rsplit(":", 1)[1]
    for host in (
        "evil.example",
        f"evil.example:{port}",
        "127.0.0.1.evil.example",
        "",
        "127.0.0.1@evil.example",
        "[::2]",
    ):
        assert site.call("GET", "/api/models", Host=host).status == 421, host
    for host in (f"127.0.0.1:{port}", "localhost", f"LOCALHOST:{port}", "[::1]:80"):
        assert site.call("GET", "/api/models", Host=host).status == 200, host


def test_no_cors(site: Site) -> None:
    asked = {"Origin": "http://evil.example", "Access_Control_Request_Method": "POST"}
    answer = site.call("OPTIONS", "/api/repos/create", **asked)
    assert answer.status == 405
    for name in answer.headers:
        assert not name.lower().startswith("access-control")


def test_foreign_file_cannot_be_committed(site: Site, repo: str) -> None:
    secret = site.new("ann", private=True)
    oid = site.store(secret, b"very secret bytes")
    mine = repo
    line = ("lfsFile", {"path": "f", "algo": "sha256", "oid": oid, "size": 17})
    assert site.commit(mine, line).status == 422
    # A pointer as a regular file is a text file, whatever it names.
    text = POINTER.format(oid, 17).encode()
    assert site.commit(mine, text_file("pointer", text)).status == 200
    assert site.call("GET", f"/datasets/{mine}/resolve/main/pointer").body == text
    entry = next(e for e in site.call("GET", f"/api/datasets/{mine}/tree/main").json if e["path"] == "pointer")
    assert "lfs" not in entry
    assert site.batch(mine, oid, 17, operation="download").json["objects"][0]["error"]["code"] == 404
    # Nor can it be taken over from a repository one cannot read.
    body = {"target": {"type": "dataset", "name": mine}, "files": [{"sha256": oid}]}
    assert site.call("POST", f"/api/datasets/{secret}/lfs-files/duplicate", user="bob", body=body).status == 404
    answer = site.call("POST", f"/api/datasets/{mine}/lfs-files/duplicate", user="ann", body=body)
    assert answer.json["failed"][0]["sha256"] == oid
    answer = site.call("POST", f"/api/datasets/{secret}/lfs-files/duplicate", user="ann", body=body)
    assert answer.json["failed"] == []
    assert site.commit(mine, line).status == 200


def test_wrong_size_cannot_be_committed(site: Site, repo: str) -> None:
    oid = site.store(repo, b"four")
    assert site.commit(repo, ("lfsFile", {"path": "f", "oid": oid, "size": 5})).status == 422
    assert site.commit(repo, ("lfsFile", {"path": "f", "oid": oid, "size": True})).status == 422
    for bad in ("0" * 63, "Z" * 64, "../../../token", None):
        assert site.commit(repo, ("lfsFile", {"path": "f", "oid": bad, "size": 4})).status == 422
    text = POINTER.format(oid, 5).encode()
    site.commit(repo, text_file("f", text))
    assert site.call("GET", f"/datasets/{repo}/resolve/main/f").body == text


def test_storage_tokens_are_for_one_repository_and_one_use(site: Site, repo: str) -> None:
    data = b"bytes of one repository"
    oid = hashlib.sha256(data).hexdigest()
    href = site.batch(repo, oid, len(data)).json["objects"][0]["actions"]["upload"]["href"]
    token = href.split("/")[4]
    path = href.removeprefix(site.url)
    assert site.call("PUT", path.replace(token, "x" * 43), body=data).status == 401
    assert site.call("GET", path).status == 401, "a token for uploads reads nothing"
    assert site.call("GET", "/api/whoami-v2", Authorization=f"Bearer {token}").status == 401
    assert site.call("PUT", path, body=data).status == 200
    other = site.new()
    assert site.commit(other, ("lfsFile", {"path": "f", "oid": oid, "size": len(data)})).status == 422
    download = site.batch(repo, oid, len(data), operation="download").json["objects"][0]["actions"]["download"]["href"]
    assert site.call("PUT", download.removeprefix(site.url), body=data).status == 401
    with closing(sqlite3.connect(site.folder / "hub.sqlite")) as db, db:
        assert token not in str(db.execute("SELECT * FROM storage_tokens").fetchall()), "only digests are kept"
        db.execute("UPDATE storage_tokens SET expires = 1")
    assert site.call("PUT", path, body=data).status == 401
    assert site.call("GET", download.removeprefix(site.url)).status == 401


def test_sha_of_another_repository(site: Site, repo: str) -> None:
    secret = site.new(private=True)
    sha = site.commit(secret, text_file("s", b"secret")).json["commitOid"]
    for rev in (sha, sha[:7]):
        answer = site.call("GET", f"/datasets/{repo}/resolve/{rev}/s", user="ann")
        assert (answer.status, answer.headers["X-Error-Code"]) == (404, "RevisionNotFound")
        assert site.call("POST", f"/api/datasets/{repo}/tag/{rev}", user="ann", body={"tag": "t"}).status == 404
        body = {"startingPoint": rev}
        assert site.call("POST", f"/api/datasets/{repo}/branch/b", user="ann", body=body).status == 404


def test_large_bodies_are_refused(site: Site, repo: str) -> None:
    assert site.call("POST", "/api/repos/create", user="ann", body=b"[" * (17 * 2**20)).status == 413
    assert site.call("POST", "/api/validate-yaml", body=b"[" * 1_000_000).status == 400, "nested beyond reason"
    path = f"/api/datasets/{repo}/commit/main"
    assert site.call("POST", path, user="ann", body=b"x" * (15 * 2**20)).status == 413
    line = json.dumps({"key": "file", "value": {"path": "f", "content": "A" * 14_100_000, "encoding": "base64"}})
    assert site.call("POST", path, user="ann", body=line.encode() + b"\n").status in (413, 422)
    assert site.commit(repo, text_file("f", b"x" * (10 * 2**20))).status == 200
    form = b"&".join([b"paths=x"] * 20_000)
    answer = site.call(
        "POST", f"/api/datasets/{repo}/paths-info/main", body=form, Content_Type="application/x-www-form-urlencoded"
    )
    assert answer.status == 400


def test_cards_that_blow_up(site: Site, repo: str) -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9)
    )
    for head in (
        bomb,
        "a: " + "[" * 5000,
        "a: 0x" + "f" * 9000,
        "? {a: 1}\n: b",
        "a: .nan\nb: 2026-01-01",
        "!!python/name:os.system {}",
    ):
        assert site.commit(repo, text_file("README.md", f"---\n{head}\n---\n".encode())).status == 200
        assert site.call("GET", f"/api/datasets/{repo}").status == 200, head[:40]
        assert site.call("POST", "/api/validate-yaml", body={"content": f"---\n{head}\n---\n"}).status in (200, 400)


def test_strangers_change_nothing(site: Site, repo: str) -> None:
    for user, status in (("bob", 403), (None, 401)):
        for method, path, body in (
            ("PUT", f"/api/datasets/{repo}/settings", {"private": True}),
            ("POST", f"/api/datasets/{repo}/tag/main", {"tag": "t"}),
            ("POST", f"/api/datasets/{repo}/branch/b", {}),
            ("DELETE", f"/api/datasets/{repo}/branch/b", {}),
            ("DELETE", f"/api/datasets/{repo}/tag/t", {}),
            ("POST", f"/api/datasets/{repo}/super-squash/main", {}),
            ("GET", f"/api/datasets/{repo}/lfs-files", None),
            ("POST", f"/api/datasets/{repo}/lfs-files/batch", {"deletions": {"sha": []}}),
            ("POST", "/api/repos/move", {"fromRepo": repo, "toRepo": "bob/x", "type": "dataset"}),
            ("DELETE", "/api/repos/delete", {"name": repo, "type": "dataset"}),
            ("GET", f"/api/datasets/{repo}/auth-check/write", None),
        ):
            assert site.call(method, path, user=user, body=body).status == status, (user, path)
    assert site.commit(repo, text_file("f", b"x"), user="bob").status == 403
    assert site.api().dataset_info(repo).private is False


def test_unknown_token_is_refused_even_where_none_is_needed(site: Site, repo: str) -> None:
    assert site.call("GET", f"/api/datasets/{repo}", user="stranger").status == 401


def test_folder_is_its_owners(site: Site) -> None:
    assert site.folder.stat().st_mode & 0o077 == 0
    assert (site.folder / "token").stat().st_mode & 0o077 == 0
    with closing(sqlite3.connect(site.folder / "hub.sqlite")) as db:
        kept = str(db.execute("SELECT * FROM tokens").fetchall())
    assert "hf_ann" not in kept
    assert (site.folder / "token").read_text() not in kept
