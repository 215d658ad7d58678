"""The bytes of Xet: hashes, xorbs (containers of chunks) and shards (how files are made of chunks). Nothing is stored.

A hash is 32 bytes; as text it is its four little-endian 64-bit numbers in hex, so not the hex of the bytes in order.
Everything that does not fit its format raises HubError 400.
"""

from __future__ import annotations

import re
import struct
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO

from blake3 import blake3

from ..errors import HubError

CHUNK_LIMIT = 128 * 2**10  # bytes of one chunk
XORB_LIMIT = 64 * 2**20 + CHUNK_LIMIT  # bytes of an xorb as sent, and unpacked; clients stop at 64 MiB
XORB_CHUNKS = 8192
_CHUNK_KEY = bytes.fromhex("6697f5775b9550de3135cbaca597181c9de421109beb2b58b4d0b04b93adf229")
_NODE_KEY = bytes.fromhex("017ec5c7a5472996fd946666b48a02e65ddd536f37c76dd2f86352e64a53713f")
_WORDS = struct.Struct("<4Q")
_HASH_TEXT = re.compile(r"[0-9a-f]{64}", re.ASCII)
_CHUNK_HEAD = struct.Struct("<BHBBHB")  # version, stored bytes (24 bits), scheme, bytes (24 bits)
_RAW, _LZ4, _GROUPED_LZ4 = range(3)
# Every record of a shard has 48 bytes: a hash and four numbers.
_RECORD = struct.Struct("<32s4I")
_SHARD_HEAD = struct.Struct("<32s2Q")  # tag, version, bytes of the footer
_SHARD_TAG = b"HFRepoMetaData\0" + bytes.fromhex("5569 6745 6a7b 8157 83a5 bdd9 5ccd d14a a9")
_SHARD_VERSION = 2
_SHARD_FOOTER = struct.Struct("<9Q32s2Q9QQ")
_END = bytes([255] * 32 + [0] * 16)
_HAS_CHECKS, _HAS_SHA256 = 1 << 31, 1 << 30


def hash_text(raw: bytes) -> str:
    return "".join(f"{word:016x}" for word in _WORDS.unpack(raw))


def hash_bytes(text: str) -> bytes:
    """The 32 bytes of a hash that came as text. Raises HubError 400 when it is none."""
    if not _HASH_TEXT.fullmatch(text):
        raise HubError(400, "a hash is 64 lower-case hex digits")
    return _WORDS.pack(*(int(text[at : at + 16], 16) for at in range(0, 64, 16)))


def chunk_hash(chunk: bytes) -> bytes:
    return blake3(chunk, key=_CHUNK_KEY).digest()


def is_asked_for(chunk: bytes) -> bool:
    """Whether clients ask where else a chunk of this hash is: one in 1024, and the first of every file."""
    return int.from_bytes(chunk[24:], "little") % 1024 == 0


def tree_hash(nodes: list[tuple[bytes, int]]) -> bytes:
    """The hash of an xorb from the (hash, bytes) of its chunks: a tree whose shape follows from the hashes."""
    while len(nodes) > 1:
        above, at = [], 0
        while at < len(nodes):
            group = nodes[at : _group_end(nodes, at)]
            text = "".join(f"{hash_text(node)} : {size}\n" for node, size in group)
            above.append((blake3(text.encode(), key=_NODE_KEY).digest(), sum(size for _, size in group)))
            at += len(group)
        nodes = above
    return nodes[0][0]


def _group_end(nodes: list[tuple[bytes, int]], start: int) -> int:
    """A group has three to nine nodes (fewer only at the end) and ends after one whose hash divides by four."""
    end = min(start + 9, len(nodes))
    for at in range(start + 2, end):
        if nodes[at][0][24] % 4 == 0:
            return at + 1
    return end


# Xorbs


@dataclass(frozen=True)
class Xorb:
    """What is known of an xorb: its hash, bytes as stored and unpacked, and its chunks.

    ``entries`` has a shard's 48 bytes per chunk: hash, where it starts in the unpacked xorb, its bytes.
    ``offsets`` says where each chunk starts in the stored xorb.
    """

    hash: bytes
    stored_bytes: int
    unpacked_bytes: int
    entries: bytes
    offsets: array[int]

    @property
    def chunks(self) -> int:
        return len(self.offsets)

    def chunk(self, index: int) -> bytes:
        """The hash of a chunk."""
        return self.entries[index * _RECORD.size :][:32]

    def span(self, first: int, stop: int) -> int:
        """Unpacked bytes of the chunks ``first`` <= i < ``stop``. Raises HubError 400 when there are no such chunks."""
        if not 0 <= first < stop <= self.chunks:
            raise HubError(400, f"xorb {hash_text(self.hash)} has {self.chunks} chunks, not {first} to {stop}")
        start = _RECORD.unpack_from(self.entries, first * _RECORD.size)[1]
        _, last, size, _, _ = _RECORD.unpack_from(self.entries, (stop - 1) * _RECORD.size)
        return int(last + size - start)


class ChunkReader:
    """Reads chunks from a stored xorb, from where the file stands."""

    def __init__(self, file: IO[bytes]) -> None:
        import pyarrow as pa  # takes long to import

        self._file = file
        self._codec = pa.Codec("lz4")

    def chunk(self) -> bytes | None:
        """The next chunk, unpacked; None at the end. Never takes more memory than a chunk may have."""
        head = self._file.read(_CHUNK_HEAD.size)
        if not head:
            return None
        if len(head) < _CHUNK_HEAD.size:
            raise HubError(400, "the xorb ends within the head of a chunk")
        version, low, high, scheme, size_low, size_high = _CHUNK_HEAD.unpack(head)
        stored, size = low + (high << 16), size_low + (size_high << 16)
        if version != 0 or scheme > _GROUPED_LZ4:
            raise HubError(400, f"a chunk of version {version}, scheme {scheme} is not known")
        if not 0 < size <= CHUNK_LIMIT or not 0 < stored <= CHUNK_LIMIT:
            raise HubError(400, f"a chunk has 1 to {CHUNK_LIMIT} bytes, stored and unpacked: {stored}, {size}")
        payload = self._file.read(stored)
        if len(payload) < stored:
            raise HubError(400, "the xorb ends within a chunk")
        return self._unpacked(payload, scheme, size)

    def _unpacked(self, payload: bytes, scheme: int, size: int) -> bytes:
        if scheme == _RAW:
            if len(payload) != size:
                raise HubError(400, "a chunk that is not compressed has another length than announced")
            return payload
        try:
            data: bytes = self._codec.decompress(payload, decompressed_size=size, asbytes=True)
        except (OSError, ValueError) as error:
            raise HubError(400, f"a chunk does not decompress to the announced {size} bytes") from error
        return _ungrouped(data) if scheme == _GROUPED_LZ4 else data


def _ungrouped(data: bytes) -> bytes:
    """Bytes that stood sorted by their place within groups of four, back in order."""
    found = bytearray(len(data))
    start = 0
    for place in range(4):
        count = len(found[place::4])
        found[place::4] = data[start : start + count]
        start += count
    return bytes(found)


def read_xorb(file: IO[bytes]) -> Xorb:
    """All of a stored xorb, checked: every chunk unpacks; the hash is that of what was read."""
    reader = ChunkReader(file)
    nodes: list[tuple[bytes, int]] = []
    entries, offsets, unpacked = bytearray(), array("I"), 0
    start = file.tell()
    while (chunk := reader.chunk()) is not None:
        digest = chunk_hash(chunk)
        nodes.append((digest, len(chunk)))
        entries += _RECORD.pack(digest, unpacked, len(chunk), 0, 0)
        offsets.append(start)
        unpacked += len(chunk)
        start = file.tell()
        if unpacked > XORB_LIMIT or len(nodes) > XORB_CHUNKS:
            raise HubError(400, f"an xorb has at most {XORB_CHUNKS} chunks and {XORB_LIMIT} bytes")
    if not nodes:
        raise HubError(400, "the xorb has no chunks")
    return Xorb(tree_hash(nodes), start, unpacked, bytes(entries), offsets)


# Shards


@dataclass(frozen=True)
class Segment:
    """Chunks ``first`` <= i < ``stop`` of an xorb, which have ``size`` bytes together."""

    xorb: bytes
    size: int
    first: int
    stop: int


@dataclass(frozen=True)
class ShardFile:
    """One file of a shard. ``sha256`` is None when the client did not compute it."""

    sha256: str | None
    records: memoryview

    def segments(self) -> Iterator[Segment]:
        """In the order in which they make the file."""
        for xorb, _, size, first, stop in _RECORD.iter_unpack(self.records):
            yield Segment(xorb, size, first, stop)


def read_shard(data: bytes) -> list[ShardFile]:
    """The files of a shard. What it says of xorbs is left out: the hub believes what it saw itself."""
    view = memoryview(data)
    if len(data) < _SHARD_HEAD.size or _SHARD_HEAD.unpack_from(data)[:2] != (_SHARD_TAG, _SHARD_VERSION):
        raise HubError(400, f"this is no shard of version {_SHARD_VERSION}")
    files: list[ShardFile] = []
    at = _SHARD_HEAD.size
    while True:
        head = _records(view, at, 1)
        if head == _END:
            return files
        _, flags, count, _, _ = _RECORD.unpack(head)
        at += _RECORD.size
        segments = _records(view, at, count)
        at += len(segments) * (2 if flags & _HAS_CHECKS else 1)
        sha256 = None
        if flags & _HAS_SHA256:
            sha256 = hash_text(bytes(_records(view, at, 1)[:32]))
            at += _RECORD.size
        files.append(ShardFile(sha256, segments))


def _records(view: memoryview, at: int, count: int) -> memoryview:
    found = view[at : at + count * _RECORD.size]
    if len(found) < count * _RECORD.size:
        raise HubError(400, "the shard ends within its files")
    return found


def write_shard(xorbs: Iterable[Xorb], created: int, expires: int) -> bytes:
    """A shard that tells a client the chunks of xorbs. Times are Unix times; the client forgets it at ``expires``."""
    shard = bytearray(_SHARD_HEAD.pack(_SHARD_TAG, _SHARD_VERSION, _SHARD_FOOTER.size) + _END)
    stored = unpacked = 0
    for xorb in xorbs:
        shard += _RECORD.pack(xorb.hash, 0, xorb.chunks, xorb.unpacked_bytes, xorb.stored_bytes) + xorb.entries
        stored += xorb.stored_bytes
        unpacked += xorb.unpacked_bytes
    shard += _END
    end = len(shard)
    shard += _SHARD_FOOTER.pack(
        1, _SHARD_HEAD.size, _SHARD_HEAD.size + _RECORD.size,
        end, 0, end, 0, end, 0,  # three lookup tables that may be empty
        bytes(32),  # hashes are not keyed: only who may read the xorbs sees them
        created, expires,
        0, 0, 0, 0, 0, 0, stored, 0, unpacked, end,
    )  # fmt: skip
    return bytes(shard)
