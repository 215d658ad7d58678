"""Models that say what they are told to, so that what is made of it can be tested without weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from action_reward_models.inference.best import ByScore
from action_reward_models.inference.processor import Encoded
from action_reward_models.inference.selection import SelectionARM, Written
from action_reward_models.prompts.render import Prompt
from action_reward_models.schemas.errors import ArmError
from action_reward_models.tests.inference.asked import contract, prompt

LONGEST = 4_000  # characters, each of which is a token here
REFUSED = "<refused by the template>"


class Texts:
    """A processor whose tokens are characters."""

    def __init__(self, most: int = LONGEST) -> None:
        self.folder, self.limits = Path("checkpoint"), SimpleNamespace(max_tokens=most)

    def selection(self, messages: Sequence[Mapping[str, Any]], images: Sequence[bytes]) -> Encoded:
        return self.scalar(messages, images, [])

    def scalar(
        self, messages: Sequence[Mapping[str, Any]], images: Sequence[bytes], reply: Sequence[Mapping[str, Any]]
    ) -> Encoded:
        text = "".join(block.get("text", "#") for one in (*messages, *reply) for block in one["content"])
        if REFUSED in text:
            raise ArmError("the chat template refuses the conversation")
        return Encoded(tuple(map(ord, text)), len(text), (), tuple(str(hash(image)) for image in images))


def text_of(row: Encoded) -> str:
    return "".join(map(chr, row.input_ids))


class Selects(SelectionARM):
    """An ARM that replies ``says``(prompt), or that text."""

    def __init__(
        self, says: str | Written | Callable[[str], str], *, own: Prompt | None = None, most: int = LONGEST,
        **of_contract: Any,
    ) -> None:  # fmt: skip
        self.processor, self.contract = Texts(most), contract(**of_contract)  # type: ignore[assignment]
        self._prompt, self.says, self.asked = own or prompt(), says, list[str]()

    def write(self, rows: Sequence[Encoded], *, max_new_tokens: int = 256) -> list[Written]:
        self.asked += map(text_of, rows)
        said = [self.says(text_of(row)) if callable(self.says) else self.says for row in rows]
        return [one if isinstance(one, Written) else Written(one, "stop") for one in said]


class Scores(ByScore):
    """A scalar model whose scores are ``says``(conversation)."""

    kind = "scalar"

    def __init__(
        self, says: Callable[[str], float], *, own: Prompt | None = None, most: int = LONGEST, **of_contract: Any
    ) -> None:
        self.processor, self.contract = Texts(most), contract("scalar", **of_contract)  # type: ignore[assignment]
        self._prompt, self.says, self.calls = own or prompt("scalar"), says, 0

    def score_sets(self, sets: Sequence[Sequence[Encoded]]) -> list[list[float]]:
        self.calls += 1
        return [[self.says(text_of(row)) for row in rows] for rows in sets]
