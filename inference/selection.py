"""A selection ARM in this process: it sees all candidates and says which one is best.

model = SelectionARM.from_pretrained("owner/name", revision="v1.0.0")
choice = model.choose({"task": "Buy milk", "screenshot": png}, ["click(3, 4)", "click(90, 8)"])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..prompts.replies import Reply, parse_selection
from ..schemas.errors import ArmError
from . import contract as contracts
from .batches import TOKENS, arrays, batches, refuse_long
from .choice import Choice, Vote
from .choosing import NEW_TOKENS, How, Local
from .contract import Contract
from .fetch import checkpoint
from .processor import Encoded, Message, Processor
from .rendering import Renderer
from .request import Request
from .scalar import loaded
from .votes import Asked, asked, choices

if TYPE_CHECKING:
    from ..prompts.render import Prompt
    from ..servers.endpoints import Server
    from .served import ServedARM


@dataclass(frozen=True)
class Question:
    """A prompt that shows ``n`` candidates, and the bytes of its pictures in the order in which they are shown."""

    prompt: Sequence[Message]
    images: Sequence[bytes]
    n: int


@dataclass(frozen=True)
class Written:
    """What the model wrote, without the end of its turn; ``length``: it was stopped before it ended it."""

    text: str
    finish_reason: Literal["stop", "length"]


class SelectionARM(Local):
    """A loaded model with its processor and its contract, the manifest's ``checkpoint``. It always writes the likeliest
    next token, so that it answers the same each time."""

    kind = "selection_arm"

    def __init__(self, model: Any, processor: Processor, contract: Contract, *, tokens: int = TOKENS) -> None:
        from transformers import GenerationConfig

        self.model, self.processor, self.contract, self.tokens = model.eval(), processor, contract, tokens
        # In the place of the base model's, which may say how to sample or punish what repeats.
        model.generation_config = GenerationConfig(
            do_sample=False, pad_token_id=processor.pad_token_id, eos_token_id=processor.tokenizer.eos_token_id
        )

    @classmethod
    def open(
        cls, folder: Path | str, *, base: Path | str | None = None, contract: Contract | None = None,
        device: str | None = None,
    ) -> SelectionARM:  # fmt: skip
        """The checkpoint in ``folder``; as `ScalarRewardModel.open`."""
        kind: contracts.Kind = "selection_arm"
        folder = Path(folder)
        said = contracts.read(folder, kind) if contract is None else contracts.checked(contract, str(folder), kind)
        return cls(*loaded(folder, base, said, device), said)

    @classmethod
    def from_pretrained(cls, repo: str, *, revision: str, device: str | None = None) -> SelectionARM:
        """The published checkpoint ``repo`` at a tag, branch or commit, and its base model at the commit it names."""
        return cls.open(checkpoint(repo, revision), device=device)

    @staticmethod
    def at(
        server: Server | str, *, model: str, checkpoint: Path | str | None = None, revision: str | None = None,
        prompt: Prompt | None = None, **sending: Any,
    ) -> ServedARM:  # fmt: skip
        """The same behind a server; see `ServedARM.at`. sending: fields of `served.Sending`."""
        from .served import Sending, ServedARM

        return ServedARM.at(
            server, model=model, checkpoint=checkpoint, revision=revision, prompt=prompt, sending=Sending(**sending)
        )

    def ask(
        self, prompt: Sequence[Message], images: Sequence[bytes], n: int, *, max_new_tokens: int = NEW_TOKENS
    ) -> Reply:
        """What the model replies to a prompt that shows ``n`` candidates."""
        return self.ask_many([Question(prompt, images, n)], max_new_tokens=max_new_tokens)[0]

    def ask_many(self, questions: Sequence[Question], *, max_new_tokens: int = NEW_TOKENS) -> list[Reply]:
        """One reply to each question, in their order. A reply that says nothing is an outcome with a name, too."""
        rows = [self.processor.selection(question.prompt, question.images) for question in questions]
        written = self.write(rows, max_new_tokens=max_new_tokens)
        return [
            parse_selection(one.text, question.n, one.finish_reason)
            for one, question in zip(written, questions, strict=True)
        ]

    def _pick(self, requests: Sequence[Request], how: How, renderer: Renderer) -> list[Choice]:
        prompts, settled = asked(requests, how, self.contract, renderer)
        shown = [self._shown(one) for one in prompts]
        rows = [row for row in shown if isinstance(row, Encoded)]
        written = iter(self.write(rows, max_new_tokens=how.max_new_tokens) if rows else ())
        votes = [
            row if isinstance(row, Vote) else _vote(one, next(written)) for one, row in zip(prompts, shown, strict=True)
        ]
        return choices(requests, prompts, votes, settled, how)

    def _shown(self, one: Asked) -> Encoded | Vote:
        """The prompt as the model takes it; a vote where it does not. There has to be room for a reply."""
        try:
            row = self.processor.selection(one.rendered.messages, one.images)
        except ArmError as error:
            return one.failed("unrenderable", error.message)
        most = self.processor.limits.max_tokens
        if len(row.input_ids) >= most:
            told = f"it has {len(row.input_ids):,} tokens, and with a reply this checkpoint takes {most:,}"
            return one.failed("too_long", told)
        return row

    def write(self, rows: Sequence[Encoded], *, max_new_tokens: int = NEW_TOKENS) -> list[Written]:
        """What the model writes after each prompt. Raises ArmError for a prompt that is longer than the contract
        allows."""
        import torch

        refuse_long(rows, self.processor.limits.max_tokens)
        made: dict[int, Written] = {}
        for batch in batches(rows, self.tokens, added=max_new_tokens):
            given = arrays(self.processor, [rows[place] for place in batch], self.model, left=True)
            with self._turn, torch.inference_mode():
                ids = self.model.generate(**given, max_new_tokens=max_new_tokens)[:, given["input_ids"].shape[1] :]
            made |= zip(batch, map(self._written, ids.tolist()), strict=True)
        return [made[place] for place in range(len(rows))]

    def log_likelihood(self, rows: Sequence[Encoded]) -> list[float]:
        """Natural logarithm of the probability of each reply with the end of its turn, after its prompt."""
        import torch

        refuse_long(rows, self.processor.limits.max_tokens)
        found: dict[int, float] = {}
        for batch in batches(rows, self.tokens):
            picked = [rows[place] for place in batch]
            given = arrays(self.processor, picked, self.model)
            # Of a large vocabulary only the positions that are looked at fit into memory: those from the shortest
            # prompt on. Position p says what comes at p + 1.
            start = min(row.prompt for row in picked) - 1
            keep = given["input_ids"].shape[1] - start
            with torch.inference_mode():
                logits = self.model(**given, use_cache=False, logits_to_keep=keep).logits  # (B, keep, vocabulary)
                for at, (place, row) in enumerate(zip(batch, picked, strict=True)):
                    reply = torch.tensor(row.input_ids[row.prompt :], device=logits.device)
                    here = logits[at, row.prompt - 1 - start : len(row.input_ids) - 1 - start].float()
                    chances = torch.log_softmax(here, -1).gather(1, reply[:, None])
                    found[place] = float(chances.double().sum())
        return [found[place] for place in range(len(rows))]

    def _written(self, ids: list[int]) -> Written:
        end = self.processor.tokenizer.eos_token_id
        ended = end in ids
        kept = ids[: ids.index(end)] if ended else ids
        return Written(self.processor.tokenizer.decode(kept, skip_special_tokens=True), "stop" if ended else "length")


def _vote(one: Asked, written: Written) -> Vote:
    return one.vote(parse_selection(written.text, len(one.order), written.finish_reason), written.text)
