"""Write synthetic data in the shape of the first public release, with its faults planted, and say what was planted.

    python benchmarks/make_release.py OUT [--scale 1.0] [--seed 0] [--image-kb 10]

At scale 1.0: 3,085 states of 412 episodes with 397 distinct tasks, 49,536 candidate records of five responses (176 of
them repeat an id with other candidates), 39,997 labels, 60 of them null. OUT gets states_full.jsonl,
candidates_merged.jsonl, labels_drawlevel.jsonl, labels.jsonl (without the draw: unusable), state_images/*.png and
planted.json, the counts that an import must find.
"""

from __future__ import annotations

import argparse
import json
import random
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WIDTH, HEIGHT = 640, 400  # px, of every screenshot
PER_SET = 5  # candidates
WORDS = ["".join(random.Random(i).choices("abcdefghijklmnopqrstuvwxyz", k=3 + i % 7)) for i in range(4000)]
PARAMETERS = {
    "click": {"point_2d": "array"},
    "write": {"point_2d": "array", "text": "string"},
    "scroll": {"direction": "string", "amount": "number"},
    "press_keys": {"keys": "array"},
    "goto_url": {"url": "string"},
    "wait": {"seconds": "number"},
    "done": {"message": "string"},
}
VERB_WEIGHTS = [45, 15, 18, 7, 5, 4, 6]
PICK_WEIGHTS = [35, 25, 15, 13, 12]  # the teacher's slot habit
SCREEN = "screenshot:\n<|vision_start|><|image_pad|><|vision_end|>\n"


@dataclass(frozen=True)
class Sizes:
    """How many there are of everything."""

    states: int
    episodes: int
    tasks: int
    sets: int
    conflicts: int
    labels: int
    null_labels: int
    labelled_states: int

    @classmethod
    def at(cls, scale: float) -> Sizes:
        full = (3085, 412, 397, 49_360, 176, 39_997, 60, 2999)
        return cls(*(max(1, round(n * scale)) for n in full))


class Release:
    """Draws everything from one generator: equal seed and sizes give equal files."""

    def __init__(self, sizes: Sizes, seed: int, image_kb: int) -> None:
        self.sizes, self.seed, self.image_kb = sizes, seed, image_kb
        self.random = random.Random(seed)
        self.images = max(1, round(sizes.states * 0.83))  # some screenshots repeat
        self.ids: list[str] = []
        self.draws = [0] * sizes.states

    # -- states -------------------------------------------------------------------------------------------------

    def states(self) -> Iterator[dict[str, Any]]:
        tasks = [self.words(14).capitalize() for _ in range(self.sizes.tasks)]
        turns = [0] * self.sizes.episodes
        for number in range(self.sizes.states):
            episode = number % self.sizes.episodes
            turn = turns[episode]
            turns[episode] += 1
            state_id = f"task{episode:05d}_r0__t{turn}"
            self.ids.append(state_id)
            history = [(self.words(20), self.written(*self.call())) for _ in range(turn)]
            url = f"https://{WORDS[episode % len(WORDS)]}.example/{turn}"
            yield {
                "state_id": state_id,
                "episode_id": f"task{episode:05d}_r0",
                "turn": turn,
                "prompt_text": self.prompt(tasks[episode % len(tasks)], url, history),
                "images": [self.image(number)],
                "demo_action": self.response(*self.call()),
            }

    def prompt(self, task: str, url: str, history: list[tuple[str, str]]) -> str:
        """The actor's rendered chat template; the screenshot stands in its newest turn."""
        tools = "\n".join(
            json.dumps({"name": name, "parameters": {key: {"type": kind} for key, kind in parameters.items()}})
            for name, parameters in PARAMETERS.items()
        )
        system = f"You operate a web browser.\n\n# Tools\n\n<tools>\n{tools}\n</tools>"
        first = f"<user_request>\n{task}\n</user_request>\nActive tab: {url}\n{'' if history else SCREEN}"
        turns = [("system", system), ("user", first)]
        for number, (thought, call) in enumerate(history, 1):
            screen = SCREEN if number == len(history) else ""
            turns.append(("assistant", f"<think>\n{thought}\n</think>\n\n<tool_call>\n{call}\n</tool_call>"))
            turns.append(("user", f"<tool_response>\nDone. Active tab: {url}\n{screen}</tool_response>"))
        text = "".join(f"<|im_start|>{role}\n{body}<|im_end|>\n" for role, body in turns)
        return f"{text}<|im_start|>assistant\n<think>\n"

    def image(self, state: int) -> str:
        return f"state_images/{state % self.images:016x}.png"

    def write_images(self, folder: Path) -> None:
        (folder / "state_images").mkdir(exist_ok=True)
        for number in range(self.images):
            (folder / self.image(number)).write_bytes(png(self.seed * 1_000_003 + number, self.image_kb))

    # -- candidate sets and labels --------------------------------------------------------------------------------

    def candidate_sets(self) -> Iterator[dict[str, Any]]:
        """All draws, then the conflicts: a rerun that used the ids of the first draws again."""
        for number in range(self.sizes.sets):
            state = number % self.sizes.states
            yield self.candidate_set(state, self.draws[state])
            self.draws[state] += 1
        for state, draw in self.conflicts():
            yield self.candidate_set(state, draw)

    def conflicts(self) -> list[tuple[int, int]]:
        """(state, draw) of the repeated ids, over few states: 11, or as many as have that many draws."""
        found = []
        states = max(11, -(-self.sizes.conflicts // 16))
        for number in range(self.sizes.conflicts):
            state, draw = number % states, number // states
            assert draw < self.draws[state], "more conflicts than draws"
            found.append((state, draw))
        return found

    def candidate_set(self, state: int, draw: int) -> dict[str, Any]:
        actions = [self.call() for _ in range(PER_SET)]
        if self.random.random() < 0.35:  # one action twice, in other words
            actions[self.random.randrange(PER_SET)] = actions[0]
        if self.random.random() < 0.10 and actions[0][0] == "click":  # and one a hair beside it
            actions[4] = ("click", {"point_2d": [min(1000, axis + 2) for axis in actions[0][1]["point_2d"]]})
        responses = [self.response(*action) for action in actions]
        if self.random.random() < 0.01:
            responses[self.random.randrange(PER_SET)] = self.words(40)  # no call at all
        return {
            "state_id": f"{self.ids[state]}#d{draw}",
            "base_state_id": self.ids[state],
            "temperature": 1.0 if draw % 4 == 3 else 0.7,
            "images": [self.image(state)],
            "candidates": responses,
        }

    def labels(self) -> Iterator[dict[str, Any]]:
        judged = self.judged()
        nulls = self.random.sample(range(len(judged)), min(self.sizes.null_labels, len(judged)))
        for number, (state, draw) in enumerate(judged):
            null = number in nulls
            yield {
                "state_id": f"{self.ids[state]}#d{draw}",
                "selection": None if null else self.random.choices(range(PER_SET), PICK_WEIGHTS)[0],  # 0-based
                "reasoning": "" if null else self.words(60),
            }

    def judged(self) -> list[tuple[int, int]]:
        """(state, draw) of the labelled sets: the first draws of the first states."""
        order = ((n % self.sizes.states, n // self.sizes.states) for n in range(self.sizes.sets))
        return [(state, draw) for state, draw in order if state < self.sizes.labelled_states][: self.sizes.labels]

    # -- text ---------------------------------------------------------------------------------------------------

    def words(self, count: int) -> str:
        return " ".join(self.random.choices(WORDS, k=count))

    def call(self) -> tuple[str, dict[str, Any]]:
        pick = self.random.choice
        verb = self.random.choices(list(PARAMETERS), weights=VERB_WEIGHTS)[0]
        point = [self.random.randrange(1001), self.random.randrange(1001)]
        choices: dict[str, dict[str, Any]] = {
            "click": {"point_2d": point},
            "write": {"point_2d": point, "text": self.words(3)},
            "scroll": {"direction": pick(["up", "down"]), "amount": pick([0.3, 0.5, 0.8])},
            "press_keys": {"keys": [pick(["Enter", "Tab", "Escape"])]},
            "goto_url": {"url": f"https://{pick(WORDS)}.example/{pick(WORDS)}"},
            "wait": {"seconds": pick([1, 2, 5])},
            "done": {"message": self.words(6)},
        }
        return verb, choices[verb]

    @staticmethod
    def written(verb: str, arguments: dict[str, Any]) -> str:
        return json.dumps({"name": verb, "arguments": arguments})

    def response(self, verb: str, arguments: dict[str, Any]) -> str:
        thought = self.words(self.random.randrange(25, 60))
        text = f"{thought}\n</think>\n\n<tool_call>\n{self.written(verb, arguments)}\n</tool_call>"
        return text + ("<|im_end|>" if self.random.random() < 0.5 else "")


def png(seed: int, kilobytes: int) -> bytes:
    """A valid screenshot of about the asked size: a flat page with a band of noise."""
    noise = random.Random(seed)
    noisy = range(5, 5 + min(HEIGHT - 10, max(1, kilobytes * 1024 // (WIDTH * 3))))
    flat = bytes([245, 245, 250]) * WIDTH
    rows = b"".join(b"\0" + (noise.randbytes(WIDTH * 3) if y in noisy else flat) for y in range(HEIGHT))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")


def write(out: Path, scale: float = 1.0, seed: int = 0, image_kb: int = 10) -> dict[str, int]:
    """Write the release into ``out`` and return what was planted."""
    out.mkdir(parents=True, exist_ok=True)
    sizes = Sizes.at(scale)
    release = Release(sizes, seed, image_kb)
    _write_lines(out / "states_full.jsonl", release.states())
    release.write_images(out)
    _write_lines(out / "candidates_merged.jsonl", release.candidate_sets())
    labels = list(release.labels())
    _write_lines(out / "labels_drawlevel.jsonl", labels)
    _write_lines(out / "labels.jsonl", ({**r, "state_id": r["state_id"].rpartition("#")[0]} for r in labels))
    conflicts, judged = set(release.conflicts()), release.judged()
    warm = sum(draw % 4 == 3 for draws in release.draws for draw in range(draws))
    warm += sum(draw % 4 == 3 for _, draw in release.conflicts())
    episodes = min(sizes.episodes, sizes.states)
    planted = {
        "states": sizes.states,
        "episodes": episodes,
        "distinct_tasks": min(sizes.tasks, episodes),
        "images": release.images,
        "candidate_records": sizes.sets + sizes.conflicts,
        "distinct_set_ids": sizes.sets,
        "conflicting_ids": len(conflicts),
        "conflicting_states": len({state for state, _ in conflicts}),
        "labels": len(judged),
        "null_labels": min(sizes.null_labels, len(judged)),
        "labelled_states": len({state for state, _ in judged}),
        "temperature_0.7": sizes.sets + sizes.conflicts - warm,
        "temperature_1.0": warm,
    }
    (out / "planted.json").write_text(json.dumps(planted, indent=1))
    return planted


def write_sources(folder: Path, states: int, sets: int, image_kb: int, *, ending: str = ".jsonl") -> Release:
    """Write ``<kind><ending>`` of a release without conflicts, a label for each set and a screenshot for each state."""
    episodes = max(3, states // 8)
    release = Release(Sizes(states, episodes, episodes, sets, 0, sets, sets // 600, states), 0, image_kb)
    release.images = states
    folder.mkdir(parents=True, exist_ok=True)
    _write_lines(folder / f"states{ending}", release.states())
    release.write_images(folder)
    _write_lines(folder / f"candidate_sets{ending}", release.candidate_sets())
    _write_lines(folder / f"teacher_labels{ending}", release.labels())
    return release


def _write_lines(path: Path, records: Iterable[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--image-kb", type=int, default=10)
    given = parser.parse_args()
    print(json.dumps(write(given.out, given.scale, given.seed, given.image_kb)))
