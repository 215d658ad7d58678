"""What the server does with its model: sampled replies, and the likeliest of a few that are allowed."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from action_reward_models.tests.tiny_vlm import model as models


@dataclass(frozen=True)
class Sampler:
    """As OpenAI-compatible servers name it; top_k: -1 keeps all tokens. seed None: another one each time."""

    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    max_tokens: int = 64
    seed: int | None = None


@dataclass(frozen=True)
class Reply:
    """ids: every token that was made, the end of the turn included."""

    text: str
    ids: list[int]
    finish_reason: Literal["stop", "length"]


class Generator:
    """One model, which answers one request at a time: a reply depends on its request only."""

    def __init__(self, folder: Path) -> None:
        self._model, self.processor = models.load(folder)
        self.context: int = self._model.config.text_config.max_position_embeddings
        self._one = threading.Lock()

    def sample(self, given: dict[str, Any], sampler: Sampler) -> list[Reply]:
        """``n`` replies to a conversation as `models.Processor` makes it."""
        import torch

        chosen: dict[str, Any] = {"do_sample": False}
        if sampler.temperature > 0:
            chosen = {"do_sample": True, "temperature": sampler.temperature, "top_p": sampler.top_p}
            chosen |= {"top_k": max(sampler.top_k, 0), "min_p": sampler.min_p}
        with self._one, torch.inference_mode():
            self._seed(sampler.seed)
            made = self._model.generate(
                **given, **chosen, num_return_sequences=sampler.n, max_new_tokens=sampler.max_tokens
            )
        return [self._reply(row) for row in made[:, given["input_ids"].shape[1] :].tolist()]

    def choose(self, given: dict[str, Any], allowed: list[str], sampler: Sampler) -> list[Reply]:
        """``n`` of the allowed replies, each with the probability that it has for the model among them."""
        import torch

        endings = [self._ids(f"{text}{models.END}") for text in allowed]
        with self._one, torch.inference_mode():
            scores = torch.tensor([self._score(given, ending) for ending in endings], dtype=torch.float64)
            if sampler.temperature > 0:
                self._seed(sampler.seed)
                odds = torch.softmax(scores / sampler.temperature, -1)
                picked = torch.multinomial(odds, sampler.n, replacement=True).tolist()
            else:
                picked = [int(scores.argmax())] * sampler.n
        return [Reply(allowed[i], endings[i], "stop") for i in picked]

    def _score(self, given: dict[str, Any], ending: list[int]) -> float:
        """Log-likelihood of ``ending`` after a conversation."""
        import torch

        added = torch.tensor([ending])
        longer = {**given, "input_ids": torch.cat([given["input_ids"], added], 1)}
        longer["attention_mask"] = torch.ones_like(longer["input_ids"])
        longer["mm_token_type_ids"] = torch.cat([given["mm_token_type_ids"], torch.zeros_like(added).int()], 1)
        logits = self._model(**longer, logits_to_keep=len(ending) + 1).logits[0, :-1]
        return float(torch.log_softmax(logits.float(), -1).gather(1, added.T).sum())

    def _reply(self, ids: list[int]) -> Reply:
        if (end := self.processor.end) in ids:
            ids = ids[: ids.index(end) + 1]
        text = self.processor.tokenizer.decode(ids, skip_special_tokens=True)
        return Reply(text, ids, "stop" if ids[-1] == end else "length")

    def _ids(self, text: str) -> list[int]:
        found: list[int] = self.processor.tokenizer(text, add_special_tokens=False)["input_ids"]
        return found

    @staticmethod
    def _seed(seed: int | None) -> None:
        import torch

        torch.seed() if seed is None else torch.manual_seed(seed)
