"""What the real client (hf_xet) sends to the storage, from a process and a cache of its own."""

from __future__ import annotations

import hashlib
import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from action_reward_models.hub_sync.local_hub import store


def stored(served: Any, file: Path) -> bool:
    """Whether the storage has the file, byte for byte."""
    content = file.read_bytes()
    path = served.store.objects.path(hashlib.sha256(content).hexdigest())
    return bool(path.exists() and path.read_bytes() == content)


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_files_of_every_kind_arrive(served: Any, upload: Callable[..., Any], tmp_path: Path) -> None:
    rng = random.Random(5)
    floats = struct.pack("<500000f", *[rng.gauss(0, 0.02) for _ in range(500_000)])
    files = [
        written(tmp_path / "random.bin", rng.randbytes(12_000_000)),
        written(tmp_path / "text.jsonl", b"".join(b'{"step": %d, "action": "click"}\n' % i for i in range(60_000))),
        written(tmp_path / "weights.safetensors", floats),
        written(tmp_path / "one_byte.bin", b"x"),
        written(tmp_path / "zeros.bin", bytes(3_000_000)),
    ]
    done = upload("home", served.repo("data"), *files)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    assert all(stored(served, file) for file in files)
    schemes = {
        scheme for path in (served.store.root / "xorbs").rglob("*") if path.is_file() for scheme in _schemes(path)
    }
    assert schemes == {0, 1, 2}
    assert {status for _, path, status, _ in served.seen if "/chunks/" not in path and "grants" not in path} == {200}


def _schemes(path: Path) -> set[int]:
    data, at, found = path.read_bytes(), 0, set()
    while at < len(data):
        found.add(data[at + 4])
        at += 8 + int.from_bytes(data[at + 1 : at + 4], "little")
    return found


def test_a_file_of_several_xorbs(served: Any, upload: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path / "large.bin", random.Random(1).randbytes(150_000_000))
    done = upload("home", served.repo("data"), file)
    assert done.returncode == 0, done.stderr
    assert stored(served, file)
    assert len([path for path in (served.store.root / "xorbs").rglob("*") if path.is_file()]) == 3


def _table(rows: list[tuple[str, bytes]], path: Path) -> Path:
    """As builders write states: pictures uncompressed, each once per row group, pages cut where the content says."""
    schema = pa.schema(
        [("id", pa.string()), ("screenshot", pa.struct([("bytes", pa.binary()), ("path", pa.string())]))]
    )
    options: dict[str, Any] = {
        "compression": {"id": "zstd", "screenshot.bytes": "none", "screenshot.path": "zstd"},
        "use_dictionary": ["screenshot.bytes"],
        "dictionary_pagesize_limit": 40_000_000,
        "use_content_defined_chunking": True,
    }
    with pq.ParquetWriter(path, schema, **options) as writer:
        for at in range(0, len(rows), 200):
            group = rows[at : at + 200]
            pictures = [{"bytes": data, "path": None} for _, data in group]
            table = pa.table({"id": [name for name, _ in group], "screenshot": pictures}, schema=schema)
            writer.write_table(table, row_group_size=len(group))
    return path


@pytest.mark.parametrize("home", ["warm", "fresh"])
def test_a_new_version_sends_what_is_new(served: Any, upload: Callable[..., Any], tmp_path: Path, home: str) -> None:
    rng = random.Random(7)
    rows = [(f"state-{number:05d}", rng.randbytes(100_000)) for number in range(400)]
    first = _table(rows, tmp_path / "first.parquet")
    for at in (380, 190, 116, 2):  # 1 %, also where the file begins: no chunk that a fresh client asks for is known
        rows.insert(at, (f"new-{at}", rng.randbytes(100_000)))
    second = _table(rows, tmp_path / "second.parquet")
    repo = served.repo("data")
    assert upload("warm", repo, first).returncode == 0
    assert served.received("/xorbs/") > first.stat().st_size
    done = upload(home, repo, second)
    assert done.returncode == 0, done.stderr
    assert stored(served, second)
    assert 0.01 < served.received("/xorbs/") / second.stat().st_size < 0.06


def test_another_repository_need_not_receive_the_same_file(
    served: Any, upload: Callable[..., Any], tmp_path: Path
) -> None:
    file = written(tmp_path / "data.bin", random.Random(3).randbytes(2_000_000))
    assert upload("home", served.repo("first"), file).returncode == 0
    assert served.received("/xorbs/") > 2_000_000
    assert upload("fresh", served.repo("second"), file).returncode == 0
    assert served.received("/xorbs/") == 0
    assert upload("bobs", served.repo("secret", user="bob", private=True), file, user="bob").returncode == 0
    assert served.received("/xorbs/") == 0


def test_a_repository_of_the_same_name_is_another(served: Any, upload: Callable[..., Any], tmp_path: Path) -> None:
    """A client that remembers xorbs of a deleted repository sends them again."""
    file = written(tmp_path / "data.bin", random.Random(3).randbytes(2_000_000))
    repo = served.repo("data")
    assert upload("home", repo, file).returncode == 0
    served.store.delete_repo(repo)
    assert not stored(served, file)
    done = upload("home", served.repo("data"), file)
    assert done.returncode == 0, done.stderr
    assert stored(served, file)


def test_a_stale_cache_is_named_as_the_cause(served: Any, upload: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path / "data.bin", random.Random(3).randbytes(2_000_000))
    repo = served.repo("data")
    assert upload("home", repo, file).returncode == 0
    with served.store.database.write() as db:
        lost = served.store.xorbs.forget(db, repo.uid)
    served.store.drop_unused([], lost)
    done = upload("home", repo, file)
    assert done.returncode != 0
    assert "delete the folder 'xet' in HF_HOME and upload again" in done.stderr
    assert upload("other", repo, file).returncode == 0


def test_who_may_not_write_is_told_so(served: Any, upload: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path / "data.bin", random.Random(3).randbytes(200_000))
    done = upload("home", served.repo("data"), file, user="eve")
    assert done.returncode != 0
    assert not stored(served, file)


def test_a_token_is_renewed_before_it_expires(
    served: Any, upload: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients go by the time that came with the token, and want a few seconds to spare."""
    monkeypatch.setattr(store, "_STORAGE_SECONDS", 20)
    file = written(tmp_path / "data.bin", random.Random(3).randbytes(2_000_000))
    done = upload("home", served.repo("data"), file)
    assert done.returncode == 0, done.stderr
    assert stored(served, file)
    assert sum("xet-write-token" in path for _, path, _, _ in served.seen) > 2
