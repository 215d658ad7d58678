"""The storage's routes: who may do what, and what hostile bodies do."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.hub_sync.local_hub import objects
from action_reward_models.hub_sync.local_hub.xet import cas, xorbs
from action_reward_models.hub_sync.local_hub.xet.format import chunk_hash, hash_text, is_asked_for, read_xorb


def rows(storage: Any, query: str, *values: object) -> list[sqlite3.Row]:
    with storage.store.database.read() as db:
        found: list[sqlite3.Row] = db.execute(query, values).fetchall()
    return found


def send(storage: Any, access: dict[str, Any], made: Any) -> Any:
    return storage.call("POST", access, f"/v1/xorbs/default/{hash_text(made.hash)}", made.body)


def segment(made: Any, first: int = 0, stop: int | None = None) -> tuple[bytes, int, int, int]:
    stop = len(made.chunks) if stop is None else stop
    return made.hash, sum(map(len, made.chunks[first:stop])), first, stop


def sha256(*chunks: bytes) -> str:
    return hashlib.sha256(b"".join(chunks)).hexdigest()


def ask(storage: Any, access: dict[str, Any], chunk: bytes) -> Any:
    return storage.call("GET", access, f"/v1/chunks/default/{hash_text(chunk_hash(chunk))}")


def test_files_are_rebuilt_from_xorbs(storage: Any, xorb: Callable[..., Any], shard: Callable[..., bytes]) -> None:
    repo = storage.repo("data")
    access = storage.token(repo)
    one, two = xorb(b"aa" * 50, b"b" * 30, b"c" * 7), xorb(b"d" * 400, b"e" * 5, scheme=2)
    assert send(storage, access, one).json() == {"was_inserted": True}
    assert send(storage, access, two).json() == {"was_inserted": True}
    assert send(storage, access, one).json() == {"was_inserted": False}
    content = b"b" * 30 + b"c" * 7 + b"d" * 400 + b"b" * 30
    body = shard(
        (sha256(content), [segment(one, 1, 3), segment(two, 0, 1), segment(one, 1, 2)]),
        (None, [segment(two)]),
        (None, []),
    )
    for version, expected in [("v1", '{"result": 1}'), ("v2", '{"type": "result"}')]:
        answer = storage.call("POST", access, f"/{version}/shards", body)
        assert answer.status_code == 200
        assert answer.text.splitlines()[-1] == expected
    assert storage.store.objects.path(sha256(content)).read_bytes() == content
    with storage.store.database.read() as db:
        for known in (sha256(content), sha256(*two.chunks), sha256()):
            assert objects.granted(db, repo.uid, known) is not None
    assert not list((storage.store.root / "incoming").iterdir())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda made: (made.hash, made.body[:-1]), "ends within a chunk"),
        (lambda made: (made.hash, made.body + b"\0"), "ends within the head"),
        (lambda made: (made.hash, made.body + made.body), "not the announced one"),
        (lambda made: (bytes(32), made.body), "not the announced one"),
        (lambda made: (made.hash, b""), "no chunks"),
    ],
)
def test_a_wrong_xorb_leaves_nothing(
    storage: Any, xorb: Callable[..., Any], change: Callable[[Any], tuple[bytes, bytes]], message: str
) -> None:
    access = storage.token(storage.repo("data"))
    name, body = change(xorb(b"a" * 100, b"b" * 100))
    answer = storage.call("POST", access, f"/v1/xorbs/default/{hash_text(name)}", body)
    assert answer.status_code == 400
    assert message in answer.json()["error"]
    assert not [path for path in (storage.store.root / "xorbs").rglob("*") if path.is_file()]
    assert not list((storage.store.root / "incoming").iterdir())
    assert rows(storage, "SELECT * FROM xorbs") == []


def test_a_body_is_bounded(storage: Any, monkeypatch: pytest.MonkeyPatch, xorb: Callable[..., Any]) -> None:
    access = storage.token(storage.repo("data"))
    monkeypatch.setattr(cas, "_XORB_BODY_LIMIT", 100)
    monkeypatch.setattr(cas, "SHARD_LIMIT", 100)
    assert send(storage, access, xorb(b"a" * 101)).status_code == 413
    assert storage.call("POST", access, "/v1/shards", bytes(101)).status_code == 413
    assert not list((storage.store.root / "incoming").iterdir())


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_wrong_shard_gives_no_file(
    storage: Any, xorb: Callable[..., Any], shard: Callable[..., bytes], version: str
) -> None:
    repo = storage.repo("data")
    access = storage.token(repo)
    made = xorb(b"a" * 100, b"b" * 100)
    send(storage, access, made)
    good = (sha256(*made.chunks), [segment(made)])
    cases: list[tuple[list[Any], str]] = [
        ([good, ("0" * 64, [segment(made)])], "have the sha256"),
        ([good, (None, [(os.urandom(32), 10, 0, 1)])], "delete the folder 'xet' in HF_HOME"),
        ([good, (None, [(made.hash, 201, 0, 2)])], "have 200 bytes, not 201"),
        ([good, (None, [(made.hash, 200, 0, 3)])], "has 2 chunks"),
        ([good, (None, [(made.hash, 0, 1, 1)])], "has 2 chunks"),
    ]
    for files, message in cases:
        answer = storage.call("POST", access, f"/{version}/shards", shard(*files))
        assert message in answer.text
        assert answer.status_code == (400 if version == "v1" else 200)
        assert '"result"' not in answer.text
    assert storage.call("POST", access, f"/{version}/shards", b"nonsense").status_code == 400
    assert rows(storage, "SELECT * FROM objects") == []
    assert not list((storage.store.root / "incoming").iterdir())


def test_files_larger_than_the_disk_are_refused_first(
    storage: Any, xorb: Callable[..., Any], shard: Callable[..., bytes]
) -> None:
    """Ten megabytes of shard can name six terabytes."""
    access = storage.token(storage.repo("data"))
    made = xorb(*[bytes(2**17)] * 500, scheme=1)
    assert send(storage, access, made).status_code == 200
    answer = storage.call("POST", access, "/v1/shards", shard((None, [segment(made)] * 100_000)))
    assert answer.status_code == 507
    assert "has less room" in answer.json()["error"]


def test_tokens_are_for_one_repository_and_one_right(
    storage: Any, xorb: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = storage.repo("mine"), storage.repo("other")
    access = storage.token(mine)
    made = xorb(b"a" * 100)
    path = f"/v1/xorbs/default/{hash_text(made.hash)}"
    assert (
        storage.call("POST", {**access, "casUrl": storage.token(other)["casUrl"]}, path, made.body).status_code == 401
    )
    assert storage.call("POST", {**access, "accessToken": "hf_ann"}, path, made.body).status_code == 401
    assert storage.call("POST", {**access, "accessToken": ""}, path, made.body).status_code == 401
    reads = storage.token(mine, right="read")
    assert storage.call("POST", reads, path, made.body).status_code == 401
    assert storage.call("POST", reads, "/v1/shards", b"").status_code == 401
    assert ask(storage, reads, b"x").status_code == 404
    assert ask(storage, {**reads, "accessToken": "x"}, b"x").status_code == 401
    assert storage.http.post("/xet/" + mine.uid + path, content=made.body).status_code == 401
    with storage.store.database.write() as db:
        db.execute("UPDATE storage_tokens SET expires = 1")
    assert send(storage, access, made).status_code == 401
    assert rows(storage, "SELECT * FROM xorbs") == []
    assert send(storage, storage.token(mine), made).status_code == 200


@pytest.mark.parametrize(
    ("user", "right", "status"),
    [("bob", "write", 200), ("bob", "read", 200), ("eve", "write", 403), ("ann", "read", 200), (None, "write", 401)],
)
def test_who_gets_a_token(storage: Any, user: str | None, right: str, status: int) -> None:
    storage.repo("data")
    headers = {"authorization": f"Bearer hf_{user}"} if user else {}
    answer = storage.http.get(f"/api/datasets/ann/data/xet-{right}-token/main", headers=headers)
    assert answer.status_code == status
    if status == 200:
        found = answer.json()
        assert answer.headers["X-Xet-Cas-Url"] == found["casUrl"]
        assert answer.headers["X-Xet-Access-Token"] == found["accessToken"]
        assert answer.headers["X-Xet-Token-Expiration"] == str(found["exp"])


def test_a_private_repository_has_no_token_for_strangers(storage: Any) -> None:
    storage.repo("secret", private=True)
    for right in ("read", "write"):
        url = f"/api/datasets/ann/secret/xet-{right}-token/main"
        answer = storage.http.get(url, headers={"authorization": "Bearer hf_bob"})
        assert answer.status_code == 404
        assert answer.headers["X-Error-Code"] == "RepoNotFound"


def test_strangers_learn_and_take_nothing_of_private_chunks(
    storage: Any, xorb: Callable[..., Any], shard: Callable[..., bytes]
) -> None:
    secret = storage.repo("secret", private=True)
    made = xorb(b"secret" * 20, b"more")
    access = storage.token(secret)
    send(storage, access, made)
    assert storage.call("POST", access, "/v1/shards", shard((None, [segment(made)]))).status_code == 200
    assert ask(storage, storage.token(storage.repo("own")), b"secret" * 20).status_code == 200

    bobs = storage.repo("bobs", user="bob")
    access = storage.token(bobs, user="bob")
    assert ask(storage, access, b"secret" * 20).status_code == 404
    for claimed in (None, sha256(*made.chunks)):
        answer = storage.call("POST", access, "/v1/shards", shard((claimed, [segment(made)])))
        assert answer.status_code == 400
        assert "no repository that you may read" in answer.json()["error"]
    # Only who has the bytes gets them, and is not told that somebody else had them.
    assert send(storage, access, made).json() == {"was_inserted": True}
    with storage.store.database.write() as db:
        db.execute("UPDATE repos SET private = 0, gated = 'auto' WHERE id = ?", (secret.uid,))
        db.execute("DELETE FROM xorb_repos WHERE repo = ?", (bobs.uid,))
    assert ask(storage, access, b"secret" * 20).status_code == 404
    with storage.store.database.write() as db:
        db.execute("UPDATE repos SET gated = '' WHERE id = ?", (secret.uid,))
    assert ask(storage, access, b"secret" * 20).status_code == 200


def test_a_chunk_is_answered_with_the_xorbs_of_its_repositories(
    storage: Any, xorb: Callable[..., Any], shard: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = storage.repo("data")
    access = storage.token(repo)
    rare = next(chunk for chunk in map(str.encode, map(str, range(100_000))) if is_asked_for(chunk_hash(chunk)))
    made = [xorb(b"first" * 9, b"middle"), xorb(b"second" * 9, rare)]
    for one in made:
        send(storage, access, one)
    assert ask(storage, access, rare).status_code == 404  # no file is made of it yet
    storage.call("POST", access, "/v1/shards", shard((None, [segment(one) for one in made])))
    other = storage.token(storage.repo("other"))
    for chunk, status in [(b"first" * 9, 200), (rare, 200), (b"middle", 404), (b"second" * 9, 404)]:
        answer = ask(storage, other, chunk)
        assert answer.status_code == status
        assert [one.hash in answer.content for one in made] == [status == 200] * 2
    # In its own repository a client hears of all that is there: its file may begin with something new.
    answer = ask(storage, access, b"never seen")
    assert [one.hash in answer.content for one in made] == [True, True]
    assert ask(storage, access, b"also new").content == answer.content
    monkeypatch.setattr(xorbs, "ANSWER_CHUNKS", 1)
    assert [one.hash in ask(storage, access, b"never seen").content for one in made] == [False, True]
    assert [one.hash in ask(storage, access, b"first" * 9).content for one in made] == [True, False]


def test_a_readable_xorb_may_be_used_and_outlives_its_first_repository(
    storage: Any, xorb: Callable[..., Any], shard: Callable[..., bytes]
) -> None:
    first, other = storage.repo("first"), storage.repo("other")
    made, alone = xorb(b"a" * 100), xorb(b"b" * 100)
    access = storage.token(first)
    send(storage, access, made)
    send(storage, access, alone)
    storage.call("POST", access, "/v1/shards", shard((None, [segment(made), segment(alone)])))
    body = shard((None, [segment(made)]))
    assert storage.call("POST", storage.token(other), "/v1/shards", body).status_code == 200
    storage.store.delete_repo(first)
    assert storage.call("POST", access, "/v1/shards", body).status_code == 401
    assert storage.call("POST", storage.token(other), "/v1/shards", body).status_code == 200
    assert storage.store.xorbs.path(made.hash).exists()
    assert not storage.store.xorbs.path(alone.hash).exists()
    storage.store.delete_repo(other)
    assert not storage.store.xorbs.path(made.hash).exists()
    assert [len(rows(storage, f"SELECT * FROM {table}")) for table in ("xorbs", "xorb_repos", "xorb_chunks")] == [0] * 3


def test_the_same_chunks_compressed_otherwise_are_one_xorb(
    storage: Any, xorb: Callable[..., Any], shard: Callable[..., bytes]
) -> None:
    access = storage.token(storage.repo("data"))
    chunks = [b"a" * 1000, b"b" * 1000]
    small, large = xorb(*chunks, scheme=1), xorb(*chunks)
    assert small.hash == large.hash
    assert send(storage, access, small).json()["was_inserted"]
    assert not send(storage, access, large).json()["was_inserted"]
    path = storage.store.xorbs.path(small.hash)
    assert path.read_bytes() == small.body
    path.unlink()  # as after a loss: it is taken again, with its own offsets
    assert "delete the folder" in storage.call("POST", access, "/v1/shards", shard((None, [segment(small)]))).text
    send(storage, access, large)
    answer = storage.call("POST", access, "/v1/shards", shard((sha256(chunks[1]), [segment(small, 1, 2)])))
    assert answer.status_code == 200


def test_a_hub_killed_before_its_transaction_takes_the_xorb_again(
    storage: Any, xorb: Callable[..., Any], shard: Callable[..., bytes]
) -> None:
    repo = storage.repo("data")
    access = storage.token(repo)
    made, other = xorb(b"a" * 1000, scheme=1), xorb(b"a" * 1000)

    def killed() -> None:
        with storage.store.xorbs.receive() as file, storage.store.database.write() as db:
            file.write(made.body)
            file.seek(0)
            storage.store.xorbs.add(db, Path(file.name), read_xorb(file), repo.uid)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        killed()
    assert storage.store.xorbs.path(made.hash).exists()
    assert rows(storage, "SELECT * FROM xorbs") == []
    assert storage.call("POST", access, "/v1/shards", shard((None, [segment(made)]))).status_code == 400
    assert send(storage, access, other).json() == {"was_inserted": True}
    assert storage.call("POST", access, "/v1/shards", shard((None, [segment(made)]))).status_code == 200
    assert storage.store.xorbs.path(made.hash).read_bytes() == other.body


def test_a_write_to_a_repository_deleted_meanwhile_is_refused(
    storage: Any, xorb: Callable[..., Any], shard: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = storage.repo("data")
    access = storage.token(repo)
    made = xorb(b"a" * 100)
    send(storage, access, made)
    finish = objects.Incoming.finish

    def delete_first(self: objects.Incoming) -> str:
        monkeypatch.setattr(objects.Incoming, "finish", finish)
        storage.store.delete_repo(repo)
        return finish(self)

    monkeypatch.setattr(objects.Incoming, "finish", delete_first)
    answer = storage.call("POST", access, "/v1/shards", shard((None, [segment(made)])))
    assert answer.headers["X-Error-Code"] == "RepoNotFound"
    assert rows(storage, "SELECT * FROM objects") == []
    assert not storage.store.objects.path(sha256(*made.chunks)).exists()


def test_telemetry_is_forgotten_and_the_rest_unknown(storage: Any) -> None:
    before = {path for path in storage.store.root.rglob("*") if path.is_file()}
    assert storage.http.post("/v1/telemetry", content=b'{"events": []}').status_code == 200
    assert storage.http.post("/v1/telemetry", content=bytes(2**20 + 1)).status_code == 413
    assert {path for path in storage.store.root.rglob("*") if path.is_file()} == before
    access = storage.token(storage.repo("data"))
    for path in ("/v1/xorb-grants/default/" + "0" * 64, "/v1/nothing", "/../api"):
        assert storage.call("POST", access, path, b"{}").status_code in (404, 405)
    assert storage.call("GET", access, "/v1/chunks/default/..%2f").status_code in (400, 404)
