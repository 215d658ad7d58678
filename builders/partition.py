"""The one pass over the sources, laid out so that each bucket can be built alone on any machine that sees the files."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ..schemas.errors import ArmError, Issue
from . import collector
from .bucket import Job
from .dealing import deal
from .gathering import Gathering, Progress, SourceFile
from .importers import IMPORTERS, RowImporter
from .ledger import Ledger
from .spec import BuildSpec
from .tally import Tally

BUCKET_BYTES = 32 << 20  # of input: what a worker holds at once is a small multiple of it


@dataclass
class Partition:
    """Where everything lies: files in the order of BuildSpec, and one index per bucket in ``folder``."""

    folder: Path
    buckets: int
    files: list[SourceFile]
    ledger: Ledger
    notes: list[Issue]  # records excluded by declaration, to be shown
    issues: list[Issue]  # records that stop a build
    redacted: Counter[str]  # kind of secret -> how many were replaced
    tally: Tally
    records: list[int]  # per bucket: how many states, sets, labels and other records are in its index

    def jobs(self, spec: BuildSpec, out: Path | None) -> list[Job]:
        """One for each bucket."""
        files = tuple((f.name, f.copy or f.path, f.source) for f in self.files)
        return [Job(spec, self.folder, files, bucket, self.buckets, out) for bucket in range(self.buckets)]

    def refuse_changed(self) -> None:
        """Raise ArmError for a file that is not as it was read: buckets find records in it by offset."""
        for file in self.files:
            stat = file.path.stat() if file.path.exists() else None
            if stat is None or (stat.st_size, stat.st_mtime_ns) != file.stamp:
                raise ArmError("the file changed while it was read; nothing was built", where=file.name)


def partition(spec: BuildSpec, folder: Path, progress: Progress) -> Partition:
    """Read all sources once and lay the buckets out in ``folder``; problems are collected in the result.

    Raises ArmError only when there are MAX_ISSUES of them.
    """
    total = sum(path.stat().st_size for source in spec.sources for _, path in source.files)
    read = Gathering(spec, folder, progress, total)
    with collector.paused():
        read.read_whole()
        in_place = [s for s in spec.sources if isinstance(IMPORTERS[s.kind, s.format], RowImporter)]
        joined = sum(path.stat().st_size for source in in_place for _, path in source.files)
        buckets = spec.shards or bucket_count(read.size + joined)
        indexed = deal(read, buckets)
    redacted = read.redaction.counts if read.redaction else Counter()
    return Partition(folder, buckets, read.files, read.ledger, read.notes, read.issues, redacted, read.tally, indexed)


def bucket_count(size: int) -> int:
    """Number of buckets for ``size`` bytes of input: a power of two, so that growth splits files and moves no row
    between the halves."""
    return 1 << max(0, (max(1, size) - 1) // BUCKET_BYTES).bit_length()
