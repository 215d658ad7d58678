"""Tokens of a sample of rows, counted by the very processor that training uses."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from PIL import UnidentifiedImageError

from ...inference.contract import refuse_padding
from ...inference.processor import Encoded, Processor
from ...schemas.built import BuiltTables
from ...schemas.errors import ArmError
from ...schemas.ids import sha256_hex
from ...schemas.store import ID_FIELDS
from ...schemas.validate import nearest
from ..recipe import Recipe
from ..rows import Row, encode, lacking, taught, unlearnable
from .findings import Findings


def processor_of(recipe: Recipe, base: Path, found: Findings) -> Processor | None:
    """The base's processor with the recipe's limits and options; None when it cannot be made, which is then said."""
    place = "$.base" if "base" in recipe.data else "$.init_from"
    try:
        made = Processor(base, recipe.limits, recipe.template_options)
    except (ArmError, OSError, ValueError) as error:
        said_so = error.message if isinstance(error, ArmError) else " ".join(str(error).split())[:300]
        found.refuse(place, f"its processor cannot be used: {said_so}")
        return None
    try:
        refuse_padding(made)
    except ArmError as error:
        found.refuse(place, f"its tokenizer {error.message}")
    known = set(re.findall(r"\b[A-Za-z_]\w*\b", made.tokenizer.chat_template))
    for name in recipe.template_options:
        if name not in known:
            close = nearest(name, known)
            hint = f"; did you mean {close!r}?" if close else ""
            found.refuse(f"$.template_options.{name}", f"is nothing that the base's chat template reads{hint}")
    return made


def check(recipe: Recipe, dataset: Path, processor: Processor, sample: int, found: Findings) -> None:
    """Count the tokens of ``sample`` rows of the split, drawn by a hash of their ids: rows that would be left out as
    too long, pairs that are equal for the model, pictures beyond the limit alone, and where a score is read."""
    unusable: Counter[str] = Counter()
    read, lengths, of_pictures, ends = 0, [], [], {}
    rows, total = _sample(recipe, dataset, sample)
    for row in rows:
        read += 1
        if reason := lacking(row.replies, row.target, recipe):
            unusable[reason] += 1
            continue
        try:
            encoded = encode(processor, row, recipe.kind)
        except (UnidentifiedImageError, OSError):
            unusable["unreadable_picture"] += 1
            continue
        except ArmError as error:
            found.refuse("$.dataset", f"row {row.id!r} of {recipe.table}: {error.message}")
            return
        lengths.append(max(len(one.input_ids) for one in encoded))
        of_pictures.append(_of_pictures(encoded[0], processor))
        if reason := unlearnable(encoded, recipe):
            unusable[reason] += 1
        else:
            ends.update({one.input_ids[-1]: row.id for one in encoded})
    found.counts["tokens"] = {
        "rows": read, "of": total, "median": int(statistics.median(lengths)) if lengths else 0,
        "longest": max(lengths, default=0), "pictures_most": max(of_pictures, default=0),
        "unusable": dict(sorted(unusable.items())),
    }  # fmt: skip
    _judge(recipe, found, ends, processor)


def _judge(recipe: Recipe, found: Findings, ends: Mapping[int, str], processor: Processor) -> None:
    counts, limit = found.counts["tokens"], recipe.limits.max_tokens
    # Margins are counted in all rows, where the table is checked.
    left_out = sum(n for reason, n in counts["unusable"].items() if reason != "no_margin")
    if counts["pictures_most"] > limit:
        found.refuse(
            "$.limits.max_tokens", f"is {limit:,}, and the pictures of a row alone are {counts['pictures_most']:,} "
            "tokens, which would be cut; lower max_pixels or allow more",
        )  # fmt: skip
    if left_out > recipe.max_unusable * counts["rows"]:
        reasons = ", ".join(f"{n:,} {reason}" for reason, n in counts["unusable"].items())
        place = "$.limits.max_tokens" if "too_long" in counts["unusable"] else "$.dataset"
        found.refuse(
            place, f"{left_out:,} of {counts['rows']:,} rows of {recipe.table} cannot be used ({reasons}; the longest "
            f"has {counts['longest']:,} tokens), more than max_unusable {recipe.max_unusable:g} allows",
        )  # fmt: skip
    if recipe.kind == "scalar" and len(ends) > 1:
        named = ", ".join(f"{processor.tokenizer.decode([token])!r} ({row})" for token, row in ends.items())
        found.refuse("$.dataset", f"conversations end in different tokens, and a score is read at one: {named}")


def _of_pictures(encoded: Encoded, processor: Processor) -> int:
    return sum(1 for token in encoded.input_ids if token == processor.image_token_id)


def _sample(recipe: Recipe, dataset: Path, sample: int) -> tuple[Iterator[Row], int]:
    """(Rows, how many the split has): the ``sample`` ones whose ids have the least hashes, so that it is the same ones
    whenever it is asked."""
    tables = BuiltTables.of(dataset, lambda *_: None, "checking")
    key = ID_FIELDS[recipe.table]
    ids = [row[key] for row in tables.columns(recipe.table, [key, "split"]) if row["split"] == recipe.split]
    chosen = set(sorted(ids, key=lambda one: sha256_hex(one.encode()))[:sample])
    return _rows(tables, recipe, key, chosen), len(ids)


def _rows(tables: BuiltTables, recipe: Recipe, key: str, chosen: set[str]) -> Iterator[Row]:
    pictures: dict[str, bytes] = {}
    if tables.identity["parameters"].get("images", {}).get(recipe.table) == "reference" and tables.has("states"):
        wanted = {
            image for row in tables.columns(recipe.table, [key, "images"], (key, chosen)) for image in row["images"]
        }
        pictures = _pictures(tables, wanted)
    for row in tables.some(recipe.table, key, chosen, pictures.__setitem__):
        images = [pictures[reference] for reference in row["images"] if reference in pictures]
        yield Row(row[key], row["prompt"], images, *taught(row, recipe))


def _pictures(tables: BuiltTables, wanted: set[str]) -> dict[str, bytes]:
    """The bytes of ``wanted`` screenshots."""
    kept: dict[str, bytes] = {}

    def keep(reference: str, data: bytes) -> None:
        if reference in wanted:
            kept[reference] = data

    hashes = {reference.removeprefix("sha256:") for reference in wanted}
    for _ in tables.some("states", "screenshot_sha256", hashes, keep):
        pass
    return kept
