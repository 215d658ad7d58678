"""A registry whose candidates and labels a model makes, and a log that is filled without any server."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from action_reward_models.builders.generate.asking import AskWork
from action_reward_models.builders.generate.log import AnswerLog
from action_reward_models.registry import Registry
from action_reward_models.registry.endpoints import Known
from action_reward_models.registry.generated import Made
from action_reward_models.registry.generating import Generation, generation, write
from action_reward_models.registry.standing import Standing, standings
from action_reward_models.servers.answers import Answer, Choice
from action_reward_models.servers.requests import Request
from action_reward_models.tests.hub_sync.conftest import write_pages

REGISTRY = """\
registry: 1
namespace: {namespace}
datasets:
  - name: made
    version: "1.0.0"
    license: mit
    sources:
      - {{kind: episodes, format: openai_messages, path: episodes.jsonl, dialect: function, space: pixel}}
      - kind: candidate_sets
        format: sampled
        path: generated/candidates.jsonl
        dialect: function
        space: pixel
        actor: policy
        sample: {{endpoint: actor, model: stand-in, n: 2, draws: [{{temperature: 0.7, count: 2}}], max_tokens: 64}}
      - kind: teacher_labels
        format: table
        path: generated/labels.jsonl
        teacher: judge
        label: {{endpoint: teacher, model: stand-in, prompt: selection/1, max_tokens: 200}}
    split: {{validation: 0, seed: 1}}
    tables:
      states: {{}}
      candidate_sets: {{}}
      teacher_labels: {{}}
      selection_sft: {{prompt: selection/1}}
"""
SAMPLED, LABELLED = "generated/candidates.jsonl", "generated/labels.jsonl"


def action(request: Request) -> Answer | None:
    """The first candidate of a set clicks at 1, the second at 7."""
    x = 7 if request.slot.endswith("|1") else 1
    return said(request, f"<think></think>\n<action>click({x}, {x})</action>")


def verdict(request: Request) -> Answer | None:
    return said(request, '{"selection": 1}')


def said(request: Request, text: str) -> Answer:
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    return Answer(request.key, request.slot, "answered", (Choice(text, "stop"),), model="stand-in", usage=usage)


def refused(request: Request) -> Answer | None:
    return Answer(request.key, request.slot, "rejected", detail="400: no pictures here")


@dataclass(frozen=True)
class Generated:
    """The folder of the registry."""

    folder: Path

    @classmethod
    def make(cls, folder: Path, pages: int = 3, namespace: str = "someone") -> Generated:
        folder.mkdir(parents=True, exist_ok=True)
        write_pages(folder, dict.fromkeys(range(pages), 0))
        for name in ("sets.jsonl", "labels.jsonl"):
            (folder / name).unlink()
        (folder / "registry.yaml").write_text(REGISTRY.format(namespace=namespace))
        return cls(folder)

    def registry(self) -> Registry:
        return Registry.load(self.folder)

    def made(self, name: str) -> Made:
        return next(made for made in self.registry().made if made.name == name)

    def asked(self, name: str) -> Generation:
        registry = self.registry()
        return generation(registry, next(made for made in registry.made if made.name == name))

    def answer(
        self, name: str, reply: Callable[[Request], Answer | None] | None = None, *, written: bool = True
    ) -> int:
        """Let ``reply`` answer every request (None: not at all), and write the file. How many were answered."""
        asked = self.asked(name)
        reply = reply or (verdict if isinstance(asked.work, AskWork) else action)
        log, count = AnswerLog(asked.work.folder), 0
        for request in asked.work.requests():
            if (answer := reply(request)) is not None:
                log.append(request.group, answer)
                count += 1
        if written:
            write(asked)
        return count

    def standings(self) -> dict[str, Standing]:
        registry = self.registry()
        found, _ = standings(registry, registry.dataset(), Known.of(self.folder))
        return {standing.made.name: standing for standing in found}

    def forget(self, name: str) -> None:
        """Take a file and its log away."""
        (self.folder / name).unlink(missing_ok=True)
        shutil.rmtree((self.folder / name).with_suffix(".requests"), ignore_errors=True)

    def edit(self, old: str, new: str) -> None:
        path = self.folder / "registry.yaml"
        text = path.read_text("utf-8")
        assert old in text, old
        path.write_text(text.replace(old, new), "utf-8")

    def endpoints(self, text: str) -> Path:
        path = self.folder / "endpoints.yaml"
        path.write_text(f"endpoints: 1\nservers:\n{text}", "utf-8")
        return path

    def records(self, name: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in (self.folder / name).read_text("utf-8").splitlines()]
