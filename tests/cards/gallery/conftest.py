"""Small builds to make a page of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders.spec import ActorSpec, PairSpec, PointwiseSpec, PromptSpec, SplitSpec
from action_reward_models.cards.gallery.choice import Choice
from action_reward_models.cards.gallery.data import gallery_data
from action_reward_models.schemas.built import BuiltTables
from action_reward_models.tests.builders.conftest import Build, Toy
from action_reward_models.tests.cards.gallery.browser import Context, launched

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Page = tuple[dict[str, Any], dict[str, bytes]]
EVERY = (
    "states", "candidate_sets", "teacher_labels", "selection_sft", "bt_pairs", "pointwise_scores", "actor_sft",
    "reserve",
)  # fmt: skip


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    return Toy(tmp_path)


@pytest.fixture
def shown() -> Callable[..., Page]:
    """(data, pictures) of a page of a build; keywords are fields of Choice."""

    def show(build: Build, **choice: Any) -> Page:
        return gallery_data(BuiltTables.of(build.folder, lambda *_: None, "looking"), Choice(**choice), "here")

    return show


@pytest.fixture
def many(toy: Toy) -> Callable[..., Build]:
    """Forty scenes of forty tasks with every table that is made here; every fifth label is null, one has one action.

    Positional arguments are further sources, keywords are fields of BuildSpec or of its nested specs.
    """
    for number in range(40):
        far = f"click({number % 8}, 7)"
        pick = None if number % 5 == 4 else number % 3
        actions = ["click(1, 1)", "stop()", far, f'type(2, 2, "word {number}")'][: 1 if number == 3 else 4]
        toy.scene(f"e{number}", *actions, pick=min(pick, len(actions) - 1) if pick is not None else None,
                  picture=number, task=f"Do thing {number}.")  # fmt: skip
    scores = [
        {"set_id": f"e{n}__t0#d0", "scores": [0.1, 0.9, None, 1.5][: 1 if n == 3 else 4]} for n in range(0, 40, 2)
    ]

    def build(*more: Any, **changes: Any) -> Build:
        scored = toy.lay("candidate_scores", "scores", "scores.jsonl", scores)
        given: dict[str, Any] = {
            "tables": EVERY,
            "images": dict.fromkeys(EVERY[:1] + EVERY[3:], "embed"),
            "pairs": PairSpec(PromptSpec("scalar/1"), 2),
            "pointwise": PointwiseSpec(PromptSpec("scalar/1")),
            "actor_sft": ActorSpec(random_control=True, quality_floor=0.5),
            "split": SplitSpec(0.3, 1),
        }
        made = toy.build(sources=(*toy.sources(), scored, *more), **{**given, **changes})
        assert made.balanced()
        return made

    return build


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture
def person(chromium: Browser, tmp_path: Path) -> Iterator[Callable[..., Context]]:
    """Makes a `Context`; in the end its pages must have done nothing that they should not."""
    made: list[Context] = []

    def person(**options: Any) -> Context:
        made.append(Context(chromium, tmp_path, **options))
        return made[-1]

    yield person
    for one in made:
        one.context.close()
    assert [one.problems for one in made] == [[] for _ in made]
