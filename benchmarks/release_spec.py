"""How the generated releases are built, whichever benchmark asks: one declaration, so that their numbers compare."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from action_reward_models.builders.spec import BuildSpec


def release_spec(
    files: Mapping[str, tuple[str, Path]], version: str = "1.0.0", images: Literal["embed", "reference"] = "embed"
) -> BuildSpec:
    """The three tables, selection rows and pairs. ``files``: kind of source -> (name as published, path to read)."""
    from action_reward_models.builders.spec import (
        BASE_TABLES,
        BuildSpec,
        PairSpec,
        PromptSpec,
        SelectionSpec,
        SourceSpec,
        SplitSpec,
    )  # fmt: skip

    def source(kind: Any) -> SourceSpec:
        how: Any = "quarantine" if kind == "candidate_sets" else "error"  # a release repeats ids of sets
        return SourceSpec(kind, "first_release", (files[kind],), "mit", "openwebrl", "norm1000", on_conflict=how)

    return BuildSpec(
        name="release",
        namespace="benchmark",
        version=version,
        license="mit",
        sources=tuple(map(source, BASE_TABLES)),
        split=SplitSpec(validation=0.1, seed=42),
        tables=(*BASE_TABLES, "selection_sft", "bt_pairs"),
        images={"selection_sft": images, "bt_pairs": images},
        selection=SelectionSpec(PromptSpec("selection/1")),
        pairs=PairSpec(PromptSpec("scalar/1")),
    )
