"""An input file in the making. It has its final name when the ledger knows it."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from ....schemas.errors import ArmError
from ....servers.requests import Request
from ..log import shard_of
from ..spend import Purse
from .ledger import Asked, Kind, Ledger
from .places import new_file
from .split import Part


class Draft:
    """A file at ``path``, and what stands in it so far."""

    def __init__(self, path: Path, part: Part) -> None:
        self.path, self.part, self.sha256 = path, part, ""
        self._asked: list[Asked] = []
        self._file, self._digest = new_file(path), hashlib.sha256()

    def add(self, request: Request, line: bytes, tokens: int, reservation: int | None = None) -> None:
        """Of the purse, which ``drop`` gives back. Raises ArmError when there is no room on the disk."""
        shard, n = shard_of(request.group), int(request.body.get("n") or 1)
        self._asked.append(Asked(request.key, request.slot, shard, n, reservation, len(self._asked) + 1))
        self.part.add(len(line), tokens)
        self._digest.update(line)
        try:
            self._file.write(line)
        except OSError as error:
            raise self._unwritable(error) from error

    def plan(self, ledger: Ledger, kind: Kind, server: str, model: str) -> int:
        """Bring it to the disk and then into the ledger; the number of the batch."""
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        except OSError as error:
            raise self._unwritable(error) from error
        self.sha256 = self._digest.hexdigest()
        return ledger.plan(kind, server, model, self.sha256, self.part.bytes, self.part.tokens, self._asked)

    def drop(self, purse: Purse | None = None) -> None:
        """Nothing of it was sent."""
        with suppress(OSError):  # of a full disk, about what is not wanted any more
            self._file.close()
        self.path.unlink(missing_ok=True)
        for asked in self._asked:
            if purse and asked.reservation is not None:
                purse.release(asked.reservation)

    def _unwritable(self, error: OSError) -> ArmError:
        return ArmError(f"cannot be written: {error.strerror}", where=str(self.path))
