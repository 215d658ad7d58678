"""Floor 5: registry.yaml, sources, staleness; ties the rooms below together."""

from __future__ import annotations

from ..builders.reader import row_digest
from .builds import check_build
from .declaration import Registry
from .staleness import read_manifest, reasons

__all__ = ["Registry", "check_build", "read_manifest", "reasons", "row_digest"]
