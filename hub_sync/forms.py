"""What a built directory is, as far as moving it is concerned: a dataset, or a checkpoint.

Each form names the type of its repositories, how its manifest and card are read and made, and which paths are its own.
A `Hub` has repositories of one type, and so of one form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from . import checkpoints, datasets

if TYPE_CHECKING:
    from .hub import Hub

Manifest = Mapping[str, Any]


@dataclass(frozen=True)
class Form:
    """``render``, ``merge``, ``words``, ``problems``: of its cards, as in `cards.dataset`.

    owned: whether builds write at a path. strays: those of some paths that a loader would take for the build's, given
    its manifest. written: whether a file is made from the others, with the words and drawings of the version that made
    it; other bytes of such files alone are no other content. make, remake: the commands that make it, and make it anew.
    """

    kind: Literal["dataset", "checkpoint"]
    repo_type: str
    schema: str
    render: Callable[[dict[str, Any]], str]
    merge: Callable[[str, dict[str, Any]], str]
    words: Callable[[str], Sequence[str]]
    problems: Callable[[str, dict[str, Any]], list[str]]
    owned: Callable[[str], bool]
    strays: Callable[[Manifest, Iterable[str]], list[str]]
    written: Callable[[str], bool]
    make: str
    remake: str


DATASET = Form(
    "dataset", "dataset", "manifest/1", datasets.render, datasets.merge, datasets.words, datasets.problems,
    datasets.owned, datasets.read_as_rows, datasets.written, "arm build", "arm build --force",
)  # fmt: skip
CHECKPOINT = Form(
    "checkpoint", "model", checkpoints.SCHEMA, checkpoints.render, checkpoints.merge, checkpoints.words,
    checkpoints.card_problems, checkpoints.owned, checkpoints.loadable, checkpoints.written, "arm train", "arm train",
)  # fmt: skip


def of(hub: Hub) -> Form:
    """The form of what the repositories of ``hub`` hold."""
    return CHECKPOINT if hub.repo_type == "model" else DATASET
