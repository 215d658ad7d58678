"""LFS pointers: the small text that stands in a tree for a stored file."""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST = 200  # bytes
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\noid sha256:([0-9a-f]{64})\nsize (0|[1-9][0-9]{0,17})\n"
)


@dataclass(frozen=True)
class Pointer:
    """What a pointer says. It is only a claim: whether the repository received that file is for the database to say."""

    sha256: str
    size: int

    @property
    def text(self) -> bytes:
        return f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {self.size}\n".encode()


def parse_pointer(data: bytes) -> Pointer | None:
    """The pointer that ``data`` is, written exactly as we write it; None for anything else."""
    found = _POINTER.fullmatch(data)
    return Pointer(found[1].decode(), int(found[2])) if found else None
