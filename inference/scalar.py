"""A scalar reward model: one score for each reply to a prompt, the higher the better.

model = ScalarRewardModel.from_pretrained("owner/name", revision="v1.0.0")
scores = model.score(prompt, [screenshot], replies)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..schemas.errors import ArmError
from . import contract as contracts
from .batches import TOKENS, arrays, batches, refuse_long
from .best import ByScore
from .checkpoint import architecture, load_model
from .contract import Contract
from .fetch import base_of, checkpoint
from .processor import Encoded, Message, Processor
from .shared import Shared


class ScalarRewardModel(ByScore):
    """A loaded model with its processor and its contract, the manifest's ``checkpoint``.

    A score is read at the last token of the whole conversation, as the chat template renders it. Under the templates
    of the Qwen families that is the line break after ``<|im_end|>``; the contract names it, and a conversation that
    ends in any other is refused. A score has no unit and no zero: only differences between replies to one prompt mean
    anything.
    """

    kind = "scalar"

    def __init__(
        self,
        model: Any,
        processor: Processor,
        contract: Contract,
        *,
        tokens: int = TOKENS,
        shared: bool = True,
        check: bool = True,
    ) -> None:
        self.model, self.processor, self.contract, self.tokens = model.eval(), processor, contract, tokens
        # transformers reads a score at the last token that is not this one.
        model.config.get_text_config().pad_token_id = processor.pad_token_id
        self.shared = Shared(model, processor, tokens, check=check) if shared else None

    @classmethod
    def open(
        cls,
        folder: Path | str,
        *,
        base: Path | str | None = None,
        contract: Contract | None = None,
        device: str | None = None,
        shared: bool = True,
        check: bool = True,
    ) -> ScalarRewardModel:
        """The checkpoint in ``folder``.

        base: folder of its base model; without one it is fetched from the Hub at its commit, if it is needed.
        contract: what it is used with; its manifest says it, once there is one.
        shared: read what conversations begin with once; see `Shared`. check: compare that with the plain way at first
        use.
        Raises ArmError for anything that is not what it was trained with; see `load_model` for the weights.
        """
        folder = Path(folder)
        said = (
            contracts.read(folder, "scalar") if contract is None else contracts.checked(contract, str(folder), "scalar")
        )
        return cls(*loaded(folder, base, said, device), said, shared=shared, check=check)

    @classmethod
    def from_pretrained(
        cls, repo: str, *, revision: str, device: str | None = None, shared: bool = True, check: bool = True
    ) -> ScalarRewardModel:
        """The published checkpoint ``repo`` at a tag, branch or commit, and its base model at the commit it names; the
        rest as in `open`."""
        return cls.open(checkpoint(repo, revision), device=device, shared=shared, check=check)

    def score(
        self, prompt: Sequence[Message], images: Sequence[bytes], replies: Sequence[Sequence[Message]]
    ) -> list[float]:
        """One score for each reply to ``prompt``; each reply is the messages that follow.

        images: bytes of the pictures of prompt and reply, in the order in which they are shown.
        """
        return self.score_sets([[self.processor.scalar(prompt, images, reply) for reply in replies]])[0]

    def score_sets(self, sets: Sequence[Sequence[Encoded]]) -> list[list[float]]:
        """One score for each conversation of each set, in their order. Those of a set begin alike, in tokens and
        pictures, and the longer their beginning is, the less it costs; that of several sets counts, too.

        Conversations that the model cannot tell apart have one score. Raises ArmError like `score_encoded`, and at
        first use where scores of shared beginnings are not those of whole conversations.
        """
        places: dict[Any, int] = {}
        rows: list[Encoded] = []
        groups: list[list[int]] = []
        for number, of_set in enumerate(sets):
            self._refuse(of_set, _of(number, len(sets)))
            new = []
            for row in of_set:
                if row.same not in places:
                    places[row.same] = len(rows)
                    new.append(len(rows))
                    rows.append(row)
            groups.append(new)
        found: dict[int, float] = {}
        alone = list(range(len(rows)))
        if self.shared is not None:
            found, alone = self.shared.score(rows, groups)
        found |= self._score([rows[place] for place in alone], alone)
        scores = [[found[places[row.same]] for row in of_set] for of_set in sets]
        for number, values in enumerate(scores):
            _refuse_damaged(values, _of(number, len(sets)))
        return scores

    def score_encoded(self, rows: Sequence[Encoded]) -> list[float]:
        """One score for each conversation, in their order, whatever batches they are scored in, each read whole: what
        `score_sets` is compared with.

        Raises ArmError for a conversation that is longer than the contract allows or ends in another token than the
        one that is scored, and for a score that is not finite.
        """
        self._refuse(rows)
        found = self._score(rows, range(len(rows)))
        scores = [found[place] for place in range(len(rows))]
        _refuse_damaged(scores)
        return scores

    def _refuse(self, rows: Sequence[Encoded], of: str = "") -> None:
        refuse_long(rows, self.processor.limits.max_tokens, of)
        head = self.contract["head"]
        for place, row in enumerate(rows):
            if row.input_ids[-1] != head["scored_token_id"]:
                ends = self.processor.tokenizer.decode(row.input_ids[-1:])
                raise ArmError(
                    f"conversation {place}{of} ends in {ends!r}, and the score is read at {head['scored_token']!r}"
                )

    def _score(self, rows: Sequence[Encoded], names: Sequence[int]) -> dict[int, float]:
        """The score of each of ``rows``, read whole, by its name."""
        import torch

        scores: dict[int, float] = {}
        for batch in batches(rows, self.tokens):
            given = arrays(self.processor, [rows[place] for place in batch], self.model)
            with torch.inference_mode():
                found = self.model(**given, use_cache=False).logits[:, 0].float().tolist()  # (B, 1) -> (B,)
            for place, score in zip(batch, found, strict=True):
                scores[names[place]] = score
        return scores


def _of(number: int, sets: int) -> str:
    return f" of set {number}" if sets > 1 else ""


def _refuse_damaged(scores: Sequence[float], of: str = "") -> None:
    for place, score in enumerate(scores):
        if not math.isfinite(score):
            raise ArmError(f"the score of conversation {place}{of} is {score}; the weights are damaged")


def loaded(folder: Path, base: Path | str | None, contract: Contract, device: str | None) -> tuple[Any, Processor]:
    """Model and processor of a checkpoint, after everything that ``contract`` says was compared."""
    base = None if base is None else Path(base)
    processor = contracts.processor(folder, contract)
    contracts.refuse_other_prompt(folder, contract)
    if base is None and contract["layout"] != "merged":
        base = base_of(folder, contract)
    if base is not None:
        contracts.refuse_other_tokenizer(base, contract)  # in a moment; the hash of all weights takes longer
        if contract["layout"] != "merged":  # which needs no base
            contracts.refuse_other_base(base, contract)
    model = load_model(
        folder, kind=contract["kind"], layout=contract["layout"], base=base, dtype=contract["dtype"], device=device
    )
    if (found := architecture(model)) != contract["architecture"]:
        raise contracts.differs(str(base or folder), "architecture", contract["architecture"], found)
    return model, processor
