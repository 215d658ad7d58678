"""Scenes to learn from: pages with five buttons, one of them lit, and five actions that name a colour.

Text alone does not tell which action is right: the task names no colour, the five colours are drawn at random, and the
right one stands at a random place among them.
"""

from __future__ import annotations

import base64
import io
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw

COLOURS = {
    "red": (220, 30, 30), "orange": (250, 150, 20), "yellow": (240, 225, 40), "green": (40, 160, 60),
    "blue": (40, 70, 220), "purple": (130, 40, 160), "pink": (250, 130, 190), "brown": (110, 70, 30),
}  # fmt: skip
GRID, CELL = 4, 32  # cells a side; px. A cell is a patch of the toy model
SIDE = GRID * CELL  # px
BUTTONS = 5
_JITTER = 12  # of 255; no two buttons of a colour are equal
_GREYS = (130, 210)
_NOUNS = (
    "acorn", "anchor", "apple", "arrow", "badge", "basket", "beach", "bell", "bird", "boat", "bottle", "branch",
    "bridge", "brush", "bucket", "cabin", "candle", "canyon", "castle", "cedar", "chair", "cliff", "cloud", "coast",
    "comet", "copper", "coral", "cotton", "crown", "desert", "drum", "eagle", "ember", "engine", "falcon",
    "feather", "fern", "field", "flute", "forest", "fossil", "garden", "glacier", "hammer", "harbor", "hazel",
    "helmet", "hill", "island", "ivory", "jacket", "kettle", "ladder", "lake", "lantern", "leaf", "lemon", "lion",
    "maple", "marble", "meadow", "melon", "mirror", "moon", "mountain", "nest", "oak", "ocean", "olive", "orbit",
    "otter", "owl", "paddle", "palace", "parrot", "pebble", "pepper", "pine", "planet", "pocket", "prairie",
    "quartz", "rabbit", "raven", "reef", "ribbon", "river", "rocket", "saddle", "salmon", "shell", "silver",
    "spider", "spring", "star", "stone", "stream", "summit", "temple", "thunder", "tiger", "tower", "tulip",
    "tunnel", "valley", "velvet", "violin", "walnut", "whale", "willow", "window", "winter", "wolf"
)  # fmt: skip
_TASKS = (
    "On the page {}, type the colour of the lit button.",
    "One button of {} is lit. Type its colour.",
    "Form {}: type which colour is lit.",
    "In {}, name the colour of the button that is on.",
)


def chance_of(seed: int) -> random.Random:
    """The same chance again for the same seed."""
    return random.Random(seed)  # noqa: S311 - nothing is kept secret by it


@dataclass(frozen=True)
class Scene:
    """A page with its task and candidates. cells: of the buttons, the lit one first."""

    name: str
    task: str
    lit: str
    cells: tuple[int, ...]
    candidates: tuple[str, ...]
    shade: int  # seed of the exact colours

    @property
    def right_index(self) -> int:
        """0-based."""
        return self.candidates.index(self.lit)


def scenes(count: int, seed: int) -> Iterator[Scene]:
    """``count`` scenes, each with a task of its own."""
    chance = chance_of(seed)
    subjects = [f"{first} {second}" for first in _NOUNS for second in _NOUNS if first != second]
    for number, subject in enumerate(chance.sample(subjects, count)):
        colours = chance.sample(sorted(COLOURS), BUTTONS)  # in random order
        yield Scene(
            f"scene-{seed}-{number}",
            chance.choice(_TASKS).format(subject),
            chance.choice(colours),
            tuple(chance.sample(range(GRID * GRID), BUTTONS)),
            tuple(colours),
            chance.randrange(2**32),
        )


def picture(scene: Scene | None) -> bytes:
    """The page as PNG, SIDE x SIDE px; white for None."""
    image = Image.new("RGB", (SIDE, SIDE), "white")
    if scene is not None:
        chance, draw = chance_of(scene.shade), ImageDraw.Draw(image)
        for cell, lit in zip(scene.cells, [True] + [False] * (BUTTONS - 1), strict=True):
            levels = COLOURS[scene.lit] if lit else (chance.randint(*_GREYS),) * 3
            jitter = [chance.randint(-_JITTER, _JITTER) if lit else 0 for _ in levels]
            r, g, b = (min(255, max(0, level + more)) for level, more in zip(levels, jitter, strict=True))
            left, top = cell % GRID * CELL + chance.randint(2, 5), cell // GRID * CELL + chance.randint(2, 5)
            draw.rectangle((left, top, left + 24, top + 24), fill=(r, g, b), outline=(60, 60, 60))
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def action(colour: str) -> str:
    """A candidate as an agent writes it, in the dialect ``function``."""
    return f'<action>type("{colour}")</action>'


def write(folder: Path, count: int, seed: int) -> None:
    """Raw records as `registry.yaml` reads them, with two controls: white pages, and labels that mean nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    made, chance = list(scenes(count, seed)), chance_of(seed + 1)
    # Of the labels that mean nothing exactly one in five is right, so that by luck none of them teaches anything.
    shifts = [number % BUTTONS for number in range(count)]
    chance.shuffle(shifts)
    wrong = [(scene.right_index + shift) % BUTTONS for scene, shift in zip(made, shifts, strict=True)]
    white = picture(None)
    _lines(folder / "episodes.jsonl", (_episode(scene, picture(scene)) for scene in made))
    _lines(folder / "episodes_blank.jsonl", (_episode(scene, white) for scene in made))
    _lines(folder / "candidates.jsonl", map(_candidates, made))
    _lines(folder / "labels.jsonl", (_label(scene, scene.right_index) for scene in made))
    _lines(folder / "labels_random.jsonl", map(_label, made, wrong))


def _lines(path: Path, records: Iterator[object]) -> None:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), "utf-8")


def _episode(scene: Scene, png: bytes) -> dict[str, object]:
    shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{base64.b64encode(png).decode()}"}}
    return {
        "episode_id": scene.name,
        "metadata": {"intent": scene.task},
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": f"Task: {scene.task}"}, shown]},
            {"role": "assistant", "content": action(scene.lit)},
        ],
    }


def _candidates(scene: Scene) -> dict[str, object]:
    return {
        "state_id": f"{scene.name}__t0#d0",
        "base_state_id": f"{scene.name}__t0",
        "temperature": None,
        "candidates": [action(colour) for colour in scene.candidates],
    }


def _label(scene: Scene, selected_index: int) -> dict[str, object]:
    return {"state_id": f"{scene.name}__t0#d0", "selection": selected_index, "reasoning": "By the script."}
