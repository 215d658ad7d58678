"""Files that are deleted for good take their chunks with them, and clients may send them again."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from action_reward_models.hub_sync.local_hub.git import Git
from action_reward_models.hub_sync.local_hub.xet.format import hash_text


def forever(storage: Any, repo: Any, *files: str) -> None:
    Git.create(storage.store.git_folder(repo))
    url, asked = f"/api/datasets/{repo.id}/lfs-files/batch", {"deletions": {"sha": list(files)}}
    answer = storage.http.post(url, json=asked, headers={"authorization": "Bearer hf_ann"})
    assert answer.status_code == 200, answer.text


def made_file(storage: Any, repo: Any, shard: Callable[..., bytes], *xorbs: Any) -> str:
    """A file of all chunks of these xorbs: its sha256."""
    access, content = storage.token(repo), b"".join(b"".join(made.chunks) for made in xorbs)
    for made in xorbs:
        assert storage.call("POST", access, f"/v1/xorbs/default/{hash_text(made.hash)}", made.body).status_code == 200
    segments = [(made.hash, sum(map(len, made.chunks)), 0, len(made.chunks)) for made in xorbs]
    assert storage.call("POST", access, "/v1/shards", shard((None, segments))).status_code == 200
    return hashlib.sha256(content).hexdigest()


def test_an_xorb_goes_with_the_last_file_of_it(
    storage: Any, xorb: Callable[..., Any], shard: Callable[..., bytes]
) -> None:
    repo, other = storage.repo("data"), storage.repo("other")
    only, shared, elsewhere, waiting = (xorb(name * 100) for name in (b"a", b"b", b"c", b"d"))
    first = made_file(storage, repo, shard, only, shared, elsewhere)
    second = made_file(storage, repo, shard, shared)
    made_file(storage, other, shard, elsewhere)
    path = f"/v1/xorbs/default/{hash_text(waiting.hash)}"
    old = storage.token(repo)
    assert storage.call("POST", old, path, waiting.body).status_code == 200  # its shard comes later

    def there() -> list[bool]:
        return [storage.store.xorbs.path(made.hash).exists() for made in (only, shared, elsewhere, waiting)]

    forever(storage, repo, first)
    assert there() == [False, True, True, True]
    assert not storage.store.objects.path(first).exists()
    assert storage.store.objects.path(second).exists()
    with storage.store.database.read() as db:
        assert storage.store.xorbs.held(db, elsewhere.hash, {repo.uid}) is None
        assert storage.store.xorbs.held(db, only.hash, {repo.uid, other.uid}) is None
    assert storage.token(repo)["casUrl"] == old["casUrl"] + "-1"
    assert storage.token(other)["casUrl"].endswith(other.uid)
    forever(storage, repo, second)
    assert there() == [False, False, True, True]
    assert made_file(storage, repo, shard, only, shared, elsewhere) == first
    storage.store.delete_repo(repo)
    storage.store.delete_repo(other)
    with storage.store.database.read() as db:
        for table in ("xorbs", "xorb_repos", "xorb_files", "xorb_losses", "xorb_chunks"):
            assert db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] == 0, table


def test_a_client_that_remembers_a_deleted_file_sends_it_again(
    served: Any, upload: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "data.bin"
    file.write_bytes(random.Random(3).randbytes(2_000_000))
    repo, sha256 = served.repo("data"), hashlib.sha256(file.read_bytes()).hexdigest()
    assert upload("home", repo, file).returncode == 0
    forever(served, repo, sha256)
    folder = served.store.root
    assert [path for name in ("objects", "xorbs") for path in (folder / name).rglob("*") if path.is_file()] == []
    done = upload("home", repo, file)
    assert done.returncode == 0, done.stderr
    assert served.store.objects.path(sha256).read_bytes() == file.read_bytes()
