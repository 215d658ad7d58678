"""Hashes, xorbs and shards as bytes."""

from __future__ import annotations

import hashlib
import io
import os
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from action_reward_models.hub_sync.local_hub.errors import HubError
from action_reward_models.hub_sync.local_hub.xet import format as xet_format
from action_reward_models.hub_sync.local_hub.xet.format import (
    CHUNK_LIMIT,
    ChunkReader,
    Segment,
    hash_bytes,
    hash_text,
    read_shard,
    read_xorb,
    write_shard,
)


def test_a_hash_is_written_as_four_little_endian_numbers() -> None:
    text = "07060504030201000f0e0d0c0b0a090817161514131211101f1e1d1c1b1a1918"
    assert hash_text(bytes(range(32))) == text
    assert hash_bytes(text) == bytes(range(32))


@pytest.mark.parametrize("text", ["", "0" * 63, "A" * 64, "0" * 65, "٠" * 64, "../" + "0" * 61])
def test_what_is_no_hash_is_refused(text: str) -> None:
    with pytest.raises(HubError, match="64 lower-case hex digits"):
        hash_bytes(text)


@pytest.mark.parametrize("scheme", [0, 1, 2])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 1000, 1003, CHUNK_LIMIT])
def test_every_scheme_gives_the_chunk_back(xorb: Callable[..., Any], scheme: int, size: int) -> None:
    chunk = bytes(index * index % 251 for index in range(size))
    made = xorb(chunk, b"second", scheme=scheme)
    reader = ChunkReader(io.BytesIO(made.body))
    assert [reader.chunk(), reader.chunk(), reader.chunk()] == [chunk, b"second", None]


def test_an_xorb_is_described_by_its_chunks(xorb: Callable[..., Any]) -> None:
    chunks = [os.urandom(10 + index) for index in range(40)]
    made = xorb(*chunks)
    found = read_xorb(io.BytesIO(made.body))
    assert found.hash == made.hash
    assert found.chunks == 40
    assert found.unpacked_bytes == sum(map(len, chunks))
    assert found.stored_bytes == len(made.body)
    assert found.span(0, 40) == found.unpacked_bytes
    assert found.span(3, 5) == 13 + 14
    assert found.chunk(7) == xet_format.chunk_hash(chunks[7])
    for first, stop in [(0, 41), (5, 5), (6, 5), (-1, 2)]:
        with pytest.raises(HubError, match="has 40 chunks"):
            found.span(first, stop)


def _head(stored: int, scheme: int, size: int, version: int = 0) -> bytes:
    return bytes([version]) + struct.pack("<I", stored)[:3] + bytes([scheme]) + struct.pack("<I", size)[:3]


BOMB = pa.Codec("lz4").compress(bytes(2**24), asbytes=True)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "has no chunks"),
        (b"\0\1\0", "within the head"),
        (_head(10, 0, 10) + b"short", "ends within a chunk"),
        (_head(10, 0, 11) + bytes(10), "another length than announced"),
        (_head(10, 3, 10) + bytes(10), "scheme 3"),
        (_head(10, 0, 10, version=1) + bytes(10), "version 1"),
        (_head(0, 0, 0), "1 to 131072 bytes"),
        (_head(4, 1, CHUNK_LIMIT + 1) + bytes(4), "1 to 131072 bytes"),
        (_head(CHUNK_LIMIT + 1, 0, CHUNK_LIMIT + 1), "1 to 131072 bytes"),
        (_head(4, 1, 100) + b"what", "does not decompress"),
        (_head(len(BOMB), 1, CHUNK_LIMIT) + BOMB, "does not decompress"),
        (_head(len(BOMB), 2, 100) + BOMB, "does not decompress"),
    ],
)
def test_a_hostile_xorb_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(HubError, match=message) as caught:
        read_xorb(io.BytesIO(body))
    assert caught.value.status == 400


def test_an_xorb_is_bounded(xorb: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    made = xorb(*[b"ab"] * 5)
    monkeypatch.setattr(xet_format, "XORB_CHUNKS", 4)
    with pytest.raises(HubError, match="at most 4 chunks"):
        read_xorb(io.BytesIO(made.body))
    monkeypatch.setattr(xet_format, "XORB_CHUNKS", 5)
    monkeypatch.setattr(xet_format, "XORB_LIMIT", 9)
    with pytest.raises(HubError, match="and 9 bytes"):
        read_xorb(io.BytesIO(made.body))


def test_a_shard_names_files_and_their_segments(shard: Callable[..., bytes]) -> None:
    one, other = os.urandom(32), os.urandom(32)
    sha256 = hashlib.sha256(b"x").hexdigest()
    files = read_shard(shard((sha256, [(one, 10, 0, 2), (other, 5, 7, 8)]), (None, [(one, 3, 1, 2)]), (None, [])))
    assert [file.sha256 for file in files] == [sha256, None, None]
    assert list(files[0].segments()) == [Segment(one, 10, 0, 2), Segment(other, 5, 7, 8)]
    assert list(files[1].segments()) == [Segment(one, 3, 1, 2)]
    assert list(files[2].segments()) == []


def test_a_damaged_shard_is_refused(shard: Callable[..., bytes]) -> None:
    whole = shard(("0" * 64, [(bytes(32), 10, 0, 2)]))
    assert len(read_shard(whole)) == 1
    for length in range(len(whole) - 48):  # all but what the hub does not read: the end of its second part
        with pytest.raises(HubError):
            read_shard(whole[:length])
    with pytest.raises(HubError, match="no shard of version 2"):
        read_shard(b"X" + whole[1:])
    huge = whole[:48] + bytes(32) + struct.pack("<IIII", 0, 2**32 - 1, 0, 0)
    with pytest.raises(HubError, match="ends within its files"):
        read_shard(huge)


def test_an_answer_is_a_shard_without_files(xorb: Callable[..., Any]) -> None:
    xorbs = [read_xorb(io.BytesIO(xorb(b"a" * 10, b"b" * 20).body)), read_xorb(io.BytesIO(xorb(b"c").body))]
    data = write_shard(xorbs, 100, 200)
    assert read_shard(data) == []
    assert len(data) == 48 + 48 + 48 * (1 + 2) + 48 * (1 + 1) + 48 + 200
    (footer_offset,) = struct.unpack("<Q", data[-8:])
    assert footer_offset == len(data) - 200
    assert data[96:128] == xorbs[0].hash
    assert struct.unpack("<4I", data[128:144]) == (0, 2, 30, len(xorb(b"a" * 10, b"b" * 20).body))
