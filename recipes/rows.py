"""The rows that a recipe learns from: read from a built directory once, held against the model, and kept on disk.

What training keeps in memory is where each row stands in one file: rows and pictures are read when a batch needs them.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from PIL import UnidentifiedImageError

from ..inference.contract import prompt_sha256
from ..inference.processor import Encoded, Message, Processor
from ..prompts.render import prompt_file
from ..schemas.built import BuiltTables
from ..schemas.errors import ArmError
from ..schemas.ids import canonical_json, sha256_hex
from ..schemas.store import ID_FIELDS
from .inputs import Inputs
from .recipe import Recipe

Progress = Callable[[str, int, int], None]
_ROWS, _PICTURES, _DONE = "rows.jsonl", "pictures", "prepared.json"


@dataclass(frozen=True)
class Row:
    """What one row teaches. ``replies``: of a selection ARM its one reply; of pairs the chosen one, then the rejected
    ones; of pointwise scores the scored one. ``target``: margin of a pair, or score; None without one."""

    id: str
    prompt: list[Message]
    images: list[bytes]
    replies: list[list[Message]]
    target: float | None


@dataclass(frozen=True)
class Facts:
    """What was found when the rows were prepared.

    rows: in the split. used: of them. unusable: the others, by reason. places: byte offsets in rows.jsonl of each unit
    of learning: one row, or with the loss listwise all pairs of one chosen candidate. prompt: as the manifest of the
    checkpoint has it. scored: id of the token at which a scalar model is read; None for a selection ARM.
    longest: tokens of the longest conversation that is used.
    """

    rows: int
    used: int
    unusable: Mapping[str, int]
    places: Sequence[Sequence[int]]
    prompt: Mapping[str, str | None]
    scored: int | None
    longest: int


class Rows:
    """The prepared rows in ``folder``; ``rows[i]`` is the i-th unit. Raises ArmError when they were not finished."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            self.facts = Facts(**orjson.loads((folder / _DONE).read_bytes()))
        except FileNotFoundError as error:
            raise ArmError("holds no prepared rows", where=str(folder)) from error

    def __len__(self) -> int:
        return len(self.facts.places)

    def __getitem__(self, index: int) -> Row:
        lines = []
        with (self.folder / _ROWS).open("rb") as file:
            for place in self.facts.places[index]:
                file.seek(place)
                lines.append(orjson.loads(file.readline()))
        first = lines[0]
        pictures = [(self.folder / _PICTURES / name).read_bytes() for name in first["images"]]
        replies = [*first["replies"]]
        for other in lines[1:]:
            replies += [reply for reply in other["replies"][1:] if reply not in replies]
        return Row(first["id"], first["prompt"], pictures, replies, first["target"])


def encode(processor: Processor, row: Row, kind: str) -> list[Encoded]:
    """Each reply of ``row`` as the model takes it, after the prompt."""
    if kind == "selection_arm":
        return [processor.selection(row.prompt, row.images, said(reply)) for reply in row.replies]
    return [processor.scalar(row.prompt, row.images, reply) for reply in row.replies]


def lacking(replies: Sequence[Sequence[Message]], target: float | None, recipe: Recipe) -> str | None:
    """Why a row cannot be used, as far as it shows without the model."""
    if not all(said(reply).strip() for reply in replies):
        return "no_reply"
    return "no_margin" if recipe.loss == "soft_bt" and target is None else None


def unlearnable(encoded: Sequence[Encoded], recipe: Recipe) -> str | None:
    """Why a row, whose conversations are ``encoded``, cannot be used with this model and these limits."""
    if max(len(one.input_ids) for one in encoded) > recipe.limits.max_tokens:
        return "too_long"
    return "equal_when_processed" if len({one.same for one in encoded}) < len(encoded) else None


def taught(row: Mapping[str, Any], recipe: Recipe) -> tuple[list[list[Message]], float | None]:
    """(Replies, target) of a row of the recipe's table, as `Row` has them."""
    replies = [row["chosen"], row["rejected"]] if recipe.table == "bt_pairs" else [row["completion"]]
    scored = recipe.table == "pointwise_scores"
    return replies, row["score"] if scored else row.get("margin") if recipe.loss == "soft_bt" else None


def said(reply: Sequence[Message]) -> str:
    """The text of a reply; empty when it has none."""
    blocks = (message["content"] for message in reply)
    return "".join(
        content if isinstance(content, str) else "".join(block.get("text") or "" for block in content)
        for content in blocks
    )


def prepare(inputs: Inputs, processor: Processor, folder: Path, progress: Progress = lambda *_: None) -> Rows:
    """Read the rows of the recipe's split into ``folder``, those that cannot be used left out and counted by reason.

    A folder that holds finished ones is taken as it is. Raises ArmError when too many cannot be used, when rows were
    made with several prompts, when conversations end in different tokens, and for a build that cannot be read.
    """
    if (folder / _DONE).exists():
        return Rows(folder)
    shutil.rmtree(folder, ignore_errors=True)
    (folder / _PICTURES).mkdir(parents=True)
    found = _Preparing(inputs, processor, folder)
    with (folder / _ROWS).open("wb") as file:
        for row in _read(inputs, folder / _PICTURES, progress):
            found.add(row, file)
    facts = found.facts()
    making = folder / f"{_DONE}.making"
    making.write_bytes(orjson.dumps(dataclasses.asdict(facts)))
    making.rename(folder / _DONE)
    return Rows(folder)


class _Preparing:
    def __init__(self, inputs: Inputs, processor: Processor, folder: Path) -> None:
        self.inputs, self.processor, self.pictures = inputs, processor, folder / _PICTURES
        self.rows, self.longest, self.too_long = 0, 0, 0
        self.unusable: Counter[str] = Counter()
        self.prompts: Counter[tuple[str | None, str | None]] = Counter()
        self.ends: dict[int, str] = {}  # last token -> first row that ends in it
        self.units: dict[str, list[int]] = {}

    def add(self, row: Mapping[str, Any], file: Any) -> None:
        recipe = self.inputs.recipe
        self.rows += 1
        self.prompts[row["prompt_id"], row["prompt_sha256"]] += 1
        line = _line(row, recipe)
        if reason := self._reason(line):
            self.unusable[reason] += 1
            return
        key = sha256_hex(canonical_json([row["rendered_sha256"], line["replies"][0]]))
        self.units.setdefault(key if recipe.loss == "listwise" else line["id"], []).append(file.tell())
        file.write(orjson.dumps(line) + b"\n")

    def _reason(self, line: Mapping[str, Any]) -> str | None:
        """Why this row cannot be used."""
        recipe = self.inputs.recipe
        if reason := lacking(line["replies"], line["target"], recipe):
            return reason
        paths = [self.pictures / name for name in line["images"]]
        if not all(path.is_file() for path in paths):
            return "missing_picture"
        row = Row(line["id"], line["prompt"], [path.read_bytes() for path in paths], line["replies"], line["target"])
        try:
            encoded = encode(self.processor, row, recipe.kind)
        except (UnidentifiedImageError, OSError):
            return "unreadable_picture"
        except ArmError as error:
            raise ArmError(f"row {row.id!r}: {error.message}", where=str(self.inputs.dataset)) from error
        longest = max(len(one.input_ids) for one in encoded)
        if reason := unlearnable(encoded, recipe):
            self.too_long = max(self.too_long, longest if reason == "too_long" else 0)
            return reason
        self.longest = max(self.longest, longest)
        if recipe.kind == "scalar":
            for one in encoded:
                self.ends.setdefault(one.input_ids[-1], row.id)
        return None

    def facts(self) -> Facts:
        recipe, used = self.inputs.recipe, self.rows - self.unusable.total()
        where = str(recipe.path)
        if not self.rows:
            raise ArmError(f"{recipe.table} has no rows in {recipe.split}", where=str(self.inputs.dataset))
        if len(self.prompts) > 1:
            named = ", ".join(
                f"{count} by {name} ({str(sha256)[:12]})" if name else f"{count} ready-made"
                for (name, sha256), count in sorted(self.prompts.items(), key=str)
            )
            raise ArmError(
                f"the rows of {recipe.table} were made with several prompts, and a checkpoint has one: {named}",
                where=str(self.inputs.dataset), next_command="build that table with one prompt",
            )  # fmt: skip
        if not used or self.unusable.total() > recipe.max_unusable * self.rows:
            raise self._too_many(used)
        if len(self.ends) > 1:
            named = ", ".join(
                f"{self.processor.tokenizer.decode([token])!r} ({row})" for token, row in self.ends.items()
            )
            raise ArmError(f"conversations end in different tokens, and a score is read at one: {named}", where=where)
        scored = next(iter(self.ends), None)
        ((prompt_id, sha256),) = self.prompts
        return Facts(
            self.rows, used, dict(sorted(self.unusable.items())), list(self.units.values()),
            _prompt(self.inputs.dataset, prompt_id, sha256), scored, self.longest,
        )  # fmt: skip

    def _too_many(self, used: int) -> ArmError:
        recipe = self.inputs.recipe
        named = ", ".join(f"{count} {reason}" for reason, count in sorted(self.unusable.items()))
        share = self.unusable.total() / self.rows
        told = f"{self.rows - used} of {self.rows} rows of {recipe.table} cannot be used: {named}"
        if self.too_long:
            told += f"; the longest has {self.too_long} tokens, and limits.max_tokens is {recipe.limits.max_tokens}"
        allow = f"max_unusable: {share:.4f} in the recipe allows it" if used else None
        return ArmError(f"{told}; max_unusable is {recipe.max_unusable}", where=str(recipe.path), next_command=allow)


def _read(inputs: Inputs, pictures: Path, progress: Progress) -> Iterator[Mapping[str, Any]]:
    """The rows of the split; the pictures of each lie in ``pictures``, by hash, before it comes."""

    def keep(reference: str, data: bytes) -> None:
        path = pictures / _name(reference)
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)

    recipe = inputs.recipe
    tables = BuiltTables.of(inputs.dataset, progress, "preparing rows", hashed=True)
    entry = tables.identity["tables"].get(recipe.table)
    if entry is None or recipe.split not in entry["splits"]:
        raise ArmError(f"has no {recipe.split} rows of {recipe.table}", where=str(inputs.dataset))
    if tables.identity["parameters"].get("images", {}).get(recipe.table) == "reference" and tables.has("states"):
        for _ in tables.rows("states", keep):
            pass
    yield from tables.of_split(recipe.split, recipe.table).rows(recipe.table, keep)


def _name(reference: str) -> str:
    """Of the file of a picture, in one of 256 folders."""
    sha256 = reference.removeprefix("sha256:")
    return f"{sha256[:2]}/{sha256}"


def _line(row: Mapping[str, Any], recipe: Recipe) -> dict[str, Any]:
    """What is kept of a row."""
    replies, target = taught(row, recipe)
    images = [_name(reference) for reference in row["images"]]
    return {
        "id": row[ID_FIELDS[recipe.table]],
        "prompt": row["prompt"],
        "images": images,
        "replies": replies,
        "target": target,
    }


def _prompt(dataset: Path, prompt_id: str | None, sha256: str | None) -> dict[str, str | None]:
    """The prompt of the rows, whose file stands in the build under the same name as in the checkpoint."""
    if prompt_id is None:
        return {"id": None, "sha256": None, "file": None}
    files = [prompt_file(prompt_id), prompt_file(prompt_id, sha256)]
    found = {file: prompt_sha256(dataset / file) for file in files if (dataset / file).is_file()}
    if not found:
        raise ArmError(f"holds no {files[0]}, the prompt of its rows", where=str(dataset))
    for file in files:
        if found.get(file) == sha256:
            return {"id": prompt_id, "sha256": sha256, "file": file}
    file, other = next(iter(found.items()))
    raise ArmError(
        f"is the prompt {other[:12]}, and the rows were made with {str(sha256)[:12]} of the same name",
        where=str(dataset / file), next_command="arm build   # this version keeps each prompt in a file of its own",
    )  # fmt: skip
