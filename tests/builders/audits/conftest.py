"""Datasets without a defect, into which a test plants one, and the names of all that the audits then report."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from action_reward_models.builders.spec import SplitSpec
from action_reward_models.builders.splits import split_of
from action_reward_models.schemas.ids import task_group
from PIL import Image

if TYPE_CHECKING:
    from tests.builders.conftest import Toy

SPLIT = SplitSpec(validation=0.4, seed=1)
ACTIONS = ("click(10, 10)", "click(60, 10)", "click(110, 10)", "click(10, 60)")
_SHORTCUT = 0.9  # share right from which a baseline counts as a finding
_UNLIKELY = 0.001  # p of a slot histogram


def words(number: int, count: int = 9) -> str:
    """A task of random words: no two share more than chance."""
    draw = random.Random(f"task {number}")
    return " ".join("".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(3, 9))) for _ in range(count))


def split(task: str) -> str:
    return split_of(task_group(task, ""), SPLIT)


def crossing(change: Callable[[str], str]) -> tuple[str, str]:
    """A task of train whose changed form falls into validation."""
    for number in range(1000, 2000):
        task = words(number)
        if split(task) == "train" and split(change(task)) == "validation":
            return task, change(task)
    raise AssertionError("no such task")


def tasks_of(name: str, start: int = 3000) -> Iterator[str]:
    """Tasks that fall into a split."""
    return (task for number in range(start, start + 1000) if split(task := words(number)) == name)


@cache
def page(number: int) -> bytes:
    """The PNG of ``screen``."""
    return encoded(screen(number))


def screen(number: int) -> Image.Image:
    """A page of random blocks, 160 x 120; no two look alike."""
    draw = random.Random(f"screen {number}")
    blocks = Image.new("L", (8, 6))
    blocks.putdata([draw.randrange(256) for _ in range(48)])
    return blocks.resize((160, 120), Image.Resampling.BILINEAR).convert("RGB")


def encoded(image: Image.Image, form: str = "PNG", **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def scene(toy: Toy, number: int, *actions: str, **changes: Any) -> str:
    """A page of its own with a draw and a label; the picks go round the slots. Returns the id of the set."""
    told: dict[str, Any] = {
        "task": words(number),
        "picture": page(number),
        "text": f"URL: https://host{number}.example/",
        "pick": number % len(actions or ACTIONS),
    } | changes
    return toy.scene(f"e{number}", *(actions or ACTIONS), **told)


def clean(toy: Toy, count: int = 9) -> Toy:
    """Scenes in both splits with nothing to be found."""
    for number in range(count):
        scene(toy, number)
    return toy


def findings(audits: dict[str, Any]) -> set[str]:
    """The name of everything that an audit reports."""
    found = set()
    for table, facts in audits["overlap"].items():
        found |= {f"{table}.{fact} crosses" for fact, seen in facts.items() if seen["both"]}
        found |= {f"{table}.{fact} nearly crosses" for fact, seen in facts.items() if seen.get("near")}
    if audits["near_tasks"]["near"]:
        found.add("task nearly crosses")
    for benchmark in audits["benchmarks"]:
        found |= {f"{benchmark['name']}: {how}" for how in ("exact", "normalised", "near") if benchmark[how]}
    if audits["conflicting_picks"]["labels"]:
        found.add("picks conflict")
    if audits["agreement"]["draws"]["share"] not in (None, 1.0):
        found.add("draws disagree")
    for teacher, repeats in audits["agreement"]["repeats"].items():
        found |= {f"{teacher} disagrees ({how})" for how in ("exact", "equivalent") if repeats[f"{how}_share"] < 1}
    found |= {f"{order} slots uneven" for order, test in audits["slots"].items() if test and _uneven(test)}
    found |= {f"no choice: {how}" for how in ("one_action", "near_only") if audits["no_choice"][how]}
    found |= {f"pick equals another: {how}" for how in ("same", "near") if audits["equivalent_picks"][how]}
    for name, right in audits["baselines"]["labels"].items():
        if name != "n" and right and right["exact"] >= _SHORTCUT:
            found.add(f"shortcut: {name}")
    if audits["headroom"]["verdict"] in ("no", "unsure"):
        found.add(f"headroom: {audits['headroom']['verdict']}")
    return found


def _uneven(test: dict[str, Any]) -> bool:
    return test["p"] is not None and test["p"] < _UNLIKELY
