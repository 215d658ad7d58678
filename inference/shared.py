"""Scores of conversations that begin alike: a model reads what they share once, and goes on from there with each.

What a model keeps of the tokens that it has read, its cache, is copied for every conversation that goes on. Two things
can go wrong without any error, and change scores: a cache that is not the one of the beginning, as after a first
conversation went on from it, and positions that do not count on from it. So the first time that conversations of a
kind are scored in this way, some go on from their beginning a second time, some are read whole, and all are compared:
their states, and the positions that attention goes by, which no rounding hides.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from ..schemas.errors import ArmError
from .batches import arrays, batches
from .checkpoint import below
from .prefixes import Family, families, pieces, together
from .processor import Encoded, Processor

if TYPE_CHECKING:
    import torch

CHECKED = 8  # conversations are read whole, too
# How far the last state may be from that of the whole conversation, by its length. Measured on trained weights, 30
# layers: rounding moves it by 1e-6 in float32 and up to 0.05 in bfloat16, positions that are one too far by up to 0.13.
APART = {"float32": 1e-3, "bfloat16": 0.1}
_PLAIN = "shared=False   # reads every conversation whole: slower, and as in training"
AGAIN = 1e-3  # from the state of the very same run a second time, whatever the type


class Read(NamedTuple):
    """What a model keeps of the first ``common`` tokens of so many ``beginnings``."""

    cache: Any
    common: int
    beginnings: int


class Shared:
    """A scalar model that reads beginnings once. tokens: that a run may hold; see `prefixes.together`.

    check: compare with whole conversations at first use: once for those with pictures and those without, in a run of
    one family and of several.
    """

    def __init__(self, model: Any, processor: Processor, tokens: int, *, check: bool = True) -> None:
        self.model, self.processor, self.tokens = model, processor, tokens
        whole = below(model)
        self.body, self.head = getattr(whole, whole.base_model_prefix), whole.score
        self._checks = check
        self._checked: set[tuple[bool, bool]] = set()

    def score(self, rows: Sequence[Encoded], sets: Sequence[Sequence[int]]) -> tuple[dict[int, float], list[int]]:
        """The score of each conversation that shares its beginning with another, by its place, and the places of those
        that share too little. sets: places of ``rows`` that belong together.

        Raises ArmError where a check finds another state than that of the whole conversation.
        """
        import torch

        found, alone = families(rows, sets, self.processor.image_token_id)
        scores: dict[int, float] = {}
        with torch.inference_mode():
            for batch, common in together(found, self.tokens):
                scores |= self._score(rows, batch, common)
        return scores, alone

    def _score(self, rows: Sequence[Encoded], batch: Sequence[Family], common: int) -> dict[int, float]:
        import torch

        read = self._read([rows[family.rows[0]] for family in batch], common)
        beginning = {place: number for number, family in enumerate(batch) for place in family.rows}
        cut = list(pieces(rows, list(beginning), read.beginnings * common, self.tokens))
        states: dict[int, torch.Tensor] = {}
        for piece in cut:
            states |= self._go_on(rows, piece, beginning, read)
        kind = any(rows[family.rows[0]].pictures for family in batch), len(batch) > 1
        if self._checks and kind not in self._checked:
            with watched(self.body) as positions:
                again = self._go_on(rows, cut[0], beginning, read)
            self._check(rows, states, again, {place: _of(positions, at) for at, place in enumerate(cut[0])}, common)
            self._checked.add(kind)
        scores = self.head(torch.stack(list(states.values())))[:, 0]  # (conversations, hidden) -> (conversations,)
        return dict(zip(states, scores.float().tolist(), strict=True))

    def _go_on(
        self, rows: Sequence[Encoded], piece: Sequence[int], beginning: Mapping[int, int], read: Read
    ) -> dict[int, torch.Tensor]:
        """The last state, (hidden,), of each conversation of ``piece``. beginning: of each place, which of those that
        were ``read`` it goes on from."""
        import torch

        common = read.common
        ends = [rows[place].input_ids[common:] for place in piece]
        longest = max(map(len, ends))
        ids = [(*end, *[self.processor.pad_token_id] * (longest - len(end))) for end in ends]
        hidden = self.body(
            input_ids=torch.tensor(ids, device=self.model.device),
            position_ids=self._positions([rows[place] for place in piece], common, common + longest),
            past_key_values=fork(read.cache, [beginning[place] for place in piece], self.model.device),
            use_cache=True,
        ).last_hidden_state  # (B, longest, hidden); what pads a row stands after it, and reaches nothing before
        last = [len(end) - 1 for end in ends]
        return dict(zip(piece, hidden[range(len(piece)), last].unbind(), strict=True))

    def _read(self, rows: Sequence[Encoded], common: int) -> Read:
        """The first ``common`` tokens of each of ``rows``, pictures included."""
        import torch
        from transformers import DynamicCache

        given: dict[str, Any] = {"input_ids": torch.tensor([row.input_ids[:common] for row in rows])}
        if seen := [picture for row in rows for picture in row.pictures]:
            given |= {key: torch.cat([picture[key] for picture in seen]) for key in ("pixel_values", "image_grid_thw")}
        given = {key: value.to(self.model.device) for key, value in given.items()}
        cache = DynamicCache(config=self.model.config.get_text_config())
        self.body(**given, position_ids=self._positions(rows, 0, common), past_key_values=cache, use_cache=True)
        return Read(cache, common, len(rows))

    def _positions(self, rows: Sequence[Encoded], start: int, end: int) -> torch.Tensor:
        """Positions of the tokens from ``start`` up to ``end``, counted over the whole of each conversation: (rows,
        tokens), or (3, rows, tokens) for a model that sees. A row that is shorter stays at its last one."""
        import torch

        found = []
        for row in rows:
            positions = positions_of(self.body, row, self.processor.image_token_id)[:, start:end]  # (axes, tokens)
            missing = end - start - positions.shape[1]
            found.append(torch.cat([positions, positions[:, -1:].expand(-1, missing)], dim=1))
        stacked = torch.stack(found, dim=1).to(self.model.device)
        return stacked if stacked.shape[0] > 1 else stacked[0]

    def _check(
        self,
        rows: Sequence[Encoded],
        states: Mapping[int, torch.Tensor],
        again: Mapping[int, torch.Tensor],
        positions: Mapping[int, torch.Tensor | None],
        common: int,
    ) -> None:
        """Raise ArmError where going on after ``common`` tokens again, at ``positions``, gives other states than
        ``states``, and where some of those states or positions are not those of whole conversations."""
        most = APART[str(self.body.dtype).removeprefix("torch.")]
        some = list(again)[:: -(-len(again) // CHECKED)]
        whole, counted = self._whole({place: rows[place] for place in some})
        pairs = [(states[place], found, AGAIN, "going on from it a second time") for place, found in again.items()]
        pairs += [(states[place], whole[place], most, "reading a whole conversation") for place in some]
        for found, expected, allowed, way in pairs:
            if not expected.isfinite().all():
                continue  # weights are damaged, which is told of its score
            apart = float((found.float() - expected.float()).norm() / expected.float().norm())
            if not apart <= allowed:  # also where it is not a number
                raise ArmError(
                    f"reading what candidates share only once gives another state at the scored token than {way}: "
                    f"{apart:.2g} of its length apart, where rounding explains {allowed:g}",
                    where=type(below(self.model)).__name__,
                    next_command=_PLAIN,
                )
        for place in some:
            mine, theirs = positions[place], counted[place]
            if mine is None or theirs is None:
                continue
            end = len(rows[place].input_ids)
            mine, theirs = mine[:, : end - common], theirs[:, common:end]  # without what pads them
            if not bool((mine == theirs).all()):
                raise ArmError(
                    "reading what candidates share only once puts what follows it at other positions than reading a "
                    f"whole conversation: from {mine[:, 0].tolist()} on, where it is from {theirs[:, 0].tolist()} on",
                    where=type(below(self.model)).__name__,
                    next_command=_PLAIN,
                )

    def _whole(self, rows: Mapping[int, Encoded]) -> tuple[dict[int, torch.Tensor], dict[int, torch.Tensor | None]]:
        """(Last states, positions) of conversations, each read from its beginning, as the model itself counts."""
        found: dict[int, torch.Tensor] = {}
        counted: dict[int, torch.Tensor | None] = {}
        named = list(rows)
        for batch in batches(list(rows.values()), self.tokens):
            some = [rows[named[at]] for at in batch]
            with watched(self.body) as positions:
                hidden = self.body(**arrays(self.processor, some, self.model), use_cache=False).last_hidden_state
            for at, row in enumerate(some):
                found[named[batch[at]]] = hidden[at, len(row.input_ids) - 1].clone()
                counted[named[batch[at]]] = _of(positions, at)
        return found, counted


@contextmanager
def watched(body: Any) -> Iterator[list[torch.Tensor]]:
    """The positions that attention goes by in each run of ``body``: (axes, conversations or 1, tokens)."""
    seen: list[torch.Tensor] = []

    def note(_: Any, given: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        positions = named.get("position_ids", given[1] if len(given) > 1 else None)
        if hasattr(positions, "shape") and len(positions.shape) > 1:  # else of a family that counts in another way
            seen.append(positions.reshape(-1, *positions.shape[-2:]))

    turns = [module for name, module in body.named_modules() if name.rpartition(".")[2] == "rotary_emb"]
    handles = [module.register_forward_pre_hook(note, with_kwargs=True) for module in turns[:1]]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _of(positions: Sequence[torch.Tensor], at: int) -> torch.Tensor | None:
    """Those of one conversation in the only run, (axes, tokens); None of a model that does not tell."""
    return positions[0][:, at % positions[0].shape[1]] if positions else None


def fork(cache: Any, rows: Sequence[int], device: Any) -> Any:
    """A cache that goes on from those ``rows`` of ``cache``, which itself stays as it is."""
    import torch

    forked = copy.deepcopy(cache)  # some layers write into the tensors that they hold
    forked.reorder_cache(torch.tensor(rows, device=device))
    return forked


def positions_of(body: Any, row: Encoded, picture: int) -> torch.Tensor:
    """Positions of a whole conversation: (3, tokens) of a model that sees, as it counts itself; else (1, tokens)."""
    import torch

    ids = torch.tensor([row.input_ids])
    if not hasattr(body, "get_rope_index"):
        return torch.arange(ids.shape[1])[None]
    grids = torch.cat([one["image_grid_thw"] for one in row.pictures]) if row.pictures else None
    positions: torch.Tensor = body.get_rope_index(ids, (ids == picture).int(), image_grid_thw=grids)[0][:, 0]
    return positions
