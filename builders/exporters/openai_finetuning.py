"""JSON Lines for OpenAI's supervised fine-tuning: the selector's rows as chat messages, pictures as data URLs.

What the service takes is checked here, because it tells of it after the upload or skips the picture without a word:
formats and modes of pictures, their sizes and numbers, examples and bytes of a file. The limits are the service's as
its guides give them (November 2026); where guides differ, the lower one.
"""

from __future__ import annotations

import io
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import orjson

from ...prompts.replies import parse_selection
from ...schemas.built import BuiltTables
from ...schemas.errors import UsageError
from ...schemas.images import ImageError, data_url, measured, sniff
from ..ledger import Row
from . import training
from .types import Exported

FORMATS = ("image/jpeg", "image/png", "image/webp")
MODES = ("RGB", "RGBA")
MAX_PICTURE_BYTES = 10_000_000  # "10 MB", of the picture itself
MAX_PICTURES = 10  # of an example
MAX_EXAMPLES = 50_000  # of a file, that show pictures
MAX_FILE_BYTES = 512_000_000  # "512 MB"
MIN_EXAMPLES = 10  # of a file to train on
_MANY = 1000  # candidates a set can have
_TABLE = "selection_sft"


def export(tables: BuiltTables, out: Path, exported: Exported) -> None:
    """Write train.jsonl and validation.jsonl into ``out``. Raises UsageError for a build without the table."""
    if not tables.has(_TABLE):
        raise UsageError(f"publishes no table {_TABLE}, which is what the format holds", where=str(tables.folder))
    shown: set[str] = set()
    with ExitStack() as opened:
        files: dict[str, _File] = {}
        for row, pictures in training.rows(tables, _TABLE, out.parent, exported):
            split = row["split"]
            if split not in files:
                files[split] = _File(opened.enter_context((out / f"{split}.jsonl").open("wb")))
            reason = problem(row, pictures) or files[split].add(example(row, pictures), bool(pictures))
            if reason:
                exported.refuse(_TABLE, row["row_id"], reason)
                continue
            training.leave_out(exported, _TABLE, row, ())
            shown.update(row["images"])
    for split, file in sorted(files.items()):
        if file.examples:
            exported.files[f"{split}.jsonl"] = file.examples
        else:
            (out / f"{split}.jsonl").unlink()
    exported.pictures = len(shown)
    if exported.files and exported.files.get("train.jsonl", 0) < MIN_EXAMPLES:
        held = exported.files.get("train.jsonl", 0)
        exported.notes.append(f"train.jsonl has {held} examples, and the service asks for {MIN_EXAMPLES} or more")
    training.no_place(exported, tables, (_TABLE,))


def example(row: Row, pictures: list[bytes]) -> Row:
    """A row as the service reads one: a turn of text alone is text, any other a list of parts; the reply comes last."""
    urls = iter([data_url(picture) for picture in pictures])
    messages = []
    for message in [*row["prompt"], *row["completion"]]:
        parts: list[dict[str, Any]] = [
            {"type": "text", "text": block["text"]}
            if block["type"] == "text"
            else {"type": "image_url", "image_url": {"url": next(urls)}}
            for block in message["content"]
        ]
        alone = len(parts) == 1 and parts[0]["type"] == "text"
        messages.append({"role": message["role"], "content": parts[0]["text"] if alone else parts})
    return {"messages": messages}


def problem(row: Row, pictures: list[bytes]) -> str | None:
    """Why the service would not take a row, if it would not."""
    if len(row["completion"]) != 1 or row["completion"][0]["role"] != "assistant":
        return "its completion is not one turn of the assistant"
    reply = "".join(block.get("text") or "" for block in row["completion"][0]["content"])
    if parse_selection(reply, len(row["order"] or ()) or _MANY).status != "ok":
        return "its reply does not pick one candidate"
    for message in [*row["prompt"], *row["completion"]]:
        if message["role"] != "user" and any(block["type"] == "image" for block in message["content"]):
            return f"a turn of the {message['role']} shows a picture, and the service takes them from the user only"
    if len(pictures) > MAX_PICTURES:
        return f"it shows {len(pictures)} pictures, and the service takes {MAX_PICTURES} an example"
    for picture in pictures:
        kind = sniff(picture)
        if kind not in FORMATS:
            return f"its picture is {kind or 'of no known format'}, and the service takes {', '.join(FORMATS)}"
        try:
            measured(picture)
        except ImageError as error:  # of a build that somebody else published
            return f"its picture cannot be read: {error.message}"
        if len(picture) > MAX_PICTURE_BYTES:
            return f"its picture has {len(picture):,} bytes, and the service takes {MAX_PICTURE_BYTES:,}"
        if (mode := _mode(picture)) not in MODES:
            return f"its picture's mode is {mode}, and the service takes {' and '.join(MODES)}"
    return None


class _File:
    """One file of examples, up to what the service takes of it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._bytes, self._pictured, self.examples = file, 0, 0, 0

    def add(self, record: Row, pictured: bool) -> str | None:
        """Write an example; or return why the file cannot take it."""
        line = orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
        if pictured and self._pictured == MAX_EXAMPLES:
            return f"its file holds {MAX_EXAMPLES:,} examples with pictures already, and the service takes no more"
        if self._bytes + len(line) > MAX_FILE_BYTES:
            return f"its file would be larger than {MAX_FILE_BYTES:,} bytes, and the service takes no more"
        self._file.write(line)
        self._bytes += len(line)
        self._pictured += pictured
        self.examples += 1
        return None


def _mode(picture: bytes) -> str:
    """The picture's mode, by its header, which was read already."""
    from PIL import Image

    with Image.open(io.BytesIO(picture), formats=[kind.partition("/")[2] for kind in FORMATS]) as opened:
        return str(opened.mode)
