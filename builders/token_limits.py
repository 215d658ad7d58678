"""Rows that are too long for the base model, in its tokens, and pairs whose two sides are the same tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO

import orjson

from ..schemas.errors import ArmError
from ..schemas.store import ID_FIELDS
from . import processor
from .ledger import Row
from .spec import TokenSpec

LIMITED = ("selection_sft", "bt_pairs", "pointwise_scores", "actor_sft", "reserve")
_KEPT = 256  # conversations and verdicts: those of one state are asked for again

Outside = tuple[str, str]  # why a row is none, and more of it


class TokenLimits:
    """Judges rows. ``pictures`` are the bucket's, by ``sha256:<hex>``; they may be added to later."""

    def __init__(self, spec: TokenSpec, pictures: Mapping[str, bytes]) -> None:
        self._most, self._pictures = spec.max_tokens, pictures
        self._processor = processor.load(spec)
        self._sizes: dict[str, int] = {}  # picture -> its tokens
        self._told: dict[tuple[str, bytes], tuple[str, int]] = {}  # (prompt, reply) -> text, tokens
        self._verdicts: dict[tuple[str, str], Outside | None] = {}

    def outside(self, table: str, row: Row) -> Outside | None:
        """(reason, detail) of a row that is too long or compares a text with itself; None for one that stands."""
        if table not in LIMITED:
            return None
        key = table, row[ID_FIELDS[table]]
        if key not in self._verdicts:
            if len(self._verdicts) >= _KEPT:
                self._verdicts.clear()
            try:
                self._verdicts[key] = self._judge(row)
            except ArmError as error:
                error.message = f"{table} {key[1]}: {error.message}"
                raise
        return self._verdicts[key]

    def _judge(self, row: Row) -> Outside | None:
        sides = [name for name in ("chosen", "rejected", "completion") if name in row]
        told = [self._conversation(row, row[name]) for name in sides]
        for name, (_, tokens) in zip(sides, told, strict=True):
            if tokens > self._most:
                side = f"{name}: " if len(sides) > 1 else ""
                return "too_long", f"{side}{tokens:,} tokens, more than {self._most:,}"
        if len(told) == 2 and self._processor.tokenizer.equal(told[0][0], told[1][0]):
            return (
                "equal_when_cut",
                f"both sides are the same {len(self._processor.tokenizer.ids(told[0][0])):,} tokens",
            )
        return None

    def _conversation(self, row: Row, reply: Sequence[Row]) -> tuple[str, int]:
        """The text of prompt and reply, and its tokens with those of the pictures; too many if fewer would do."""
        key = row["rendered_sha256"], orjson.dumps(reply)
        if key not in self._told:
            if len(self._told) >= _KEPT:
                self._told.clear()
            text = self._processor.template.text([*row["prompt"], *reply])
            places, shown = text.count(self._processor.image_token), row["images"]
            if places != len(shown):
                raise ArmError(f"the chat template leaves {places} places for its {len(shown)} pictures")
            pictures = sum(self._picture(image) for image in shown) - places  # a place is a token that they replace
            self._told[key] = text, pictures + self._processor.tokenizer.length(text, self._most - pictures)
        return self._told[key]

    def _picture(self, image: str) -> int:
        if image not in self._sizes:
            from PIL import Image

            with Image.open(BytesIO(self._pictures[image])) as opened:
                self._sizes[image] = self._processor.picture_tokens(*opened.size)
        return self._sizes[image]
