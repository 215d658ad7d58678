"""Floor 5: the declaration, its lock, plan and apply, differences, history, lineage; ties the rooms below together.

The names below are the Python API; docs/registry.md shows it at work.
"""

from __future__ import annotations

from ..schemas.built import row_digest
from .apply import SavedPlan, apply
from .builds import check_build
from .declaration import Registry
from .diff import Diff, Side, compare
from .nodes import Make, ModelNode
from .plan import Options, Plan, Step, plan_folder
from .provenance.history import history
from .provenance.rebuild import check_rebuilt
from .provenance.walk import of_build as lineage_of_build
from .provenance.walk import of_revision as lineage_of_revision
from .staleness import read_manifest, reasons

__all__ = [
    "Diff", "Make", "ModelNode", "Options", "Plan", "Registry", "SavedPlan", "Side", "Step",
    "apply", "check_build", "check_rebuilt", "compare", "history", "lineage_of_build", "lineage_of_revision",
    "plan_folder", "read_manifest", "reasons", "row_digest",
]  # fmt: skip
