"""The files of the first public release: states_full, candidates_merged, labels_drawlevel, state_images/*, and those
of training rows that came ready-made (`first_release_rows`). Other training rows are made of these files again by a
build, with their ids and their split; beside them they would be taken for ready-made ones.

A record comes back as it was read, whichever order the records stood in. What the format allows to be absent and the
tables hold as null is written as null (`demo_action`, `temperature`) or, for a label's reasoning, as ""; a constant
that a source declared comes back like one that was recorded. `labels.jsonl` is never written: its ids lack the draw.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from ...schemas import jsonl
from ...schemas.built import BuiltTables
from ...schemas.columns import picture_name
from ...schemas.errors import UsageError
from ..importers.pictures import PictureError, inside
from ..ledger import Row
from . import first_release_rows, training
from .types import Exported

STATES, SETS, LABELS = "states_full.jsonl", "candidates_merged.jsonl", "labels_drawlevel.jsonl"
# No picture may stand for one of them, nor in their folders.
_TAKEN = {STATES, SETS, LABELS, "labels.jsonl", "planted.json", "selection_sft", "scalar_rm"}
_FOLDER = "state_images"
# What the system says of a path that no file can have beside those that are there.
_NO_PLACE = {errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ}


def export(tables: BuiltTables, out: Path, exported: Exported) -> None:
    """Write the release's files into ``out``. Raises UsageError for a build without anything to start from."""
    if not any(map(tables.has, ("states", "selection_sft", "bt_pairs"))):
        message = "publishes no table states, which the format starts from, nor ready-made rows"
        raise UsageError(message, where=str(tables.folder))
    if tables.has("states"):
        _Export(tables, out, exported).run()
    made = first_release_rows.write_ready(tables, out, exported)
    if told := " and ".join(f"{rows:,} rows of {table}" for table, rows in made.items() if rows):
        again = "where their labels are, a build makes them again; `arm export first_release_rows` writes them"
        exported.notes.append(f"{told} are not written: {again}")
    training.no_place(exported, tables, ("selection_sft", "bt_pairs"))
    if tables.has("reviews") and (said := tables.identity["tables"]["reviews"]["rows"]):
        picked = sum(row["selected_index"] is not None for row in tables.columns("reviews", ["selected_index"]))
        again = "labels are what the teacher said; whoever builds of these files declares the reviews again"
        exported.notes.append(f"{said:,} reviews, {picked:,} of which name another pick, are not written: {again}")


class _Export:
    def __init__(self, tables: BuiltTables, out: Path, exported: Exported) -> None:
        self.tables, self.out, self.exported = tables, out, exported
        self.gone: set[str] = set()  # ids of states that are not exported
        self.judged: set[str] = set()  # ids of sets whose label is
        self.written: dict[Path, str] = {}  # path of a picture -> reference of its bytes
        self.named: set[str] = set()  # all pictures that records name
        self.dangling = 0  # sets whose state is gone

    def run(self) -> None:
        shown: dict[str, bytes] = {}

        def keep(reference: str, data: bytes) -> None:
            shown.clear()  # of one row only
            shown[reference] = data

        self._write(STATES, "states", lambda row: self._state(row, shown), keep)
        self._write(SETS, "candidate_sets", self._set)
        self._write(LABELS, "teacher_labels", self._label)
        self.exported.pictures += len(self.written)
        places = {path.relative_to(self.out).as_posix() for path in self.written}
        if missing := sum(Path(name).as_posix() not in places for name in self.named):
            message = "the build has only the newest screenshot of each state"
            self.exported.notes.append(f"{missing:,} pictures that records name are not written: {message}")
        if self.dangling:
            self.exported.notes.append(f"{self.dangling:,} candidate sets name a state that {STATES} does not hold")

    def _write(
        self, name: str, table: str, record_of: Callable[[Row], Row | str],
        keep: Callable[[str, bytes], object] = lambda *_: None,
    ) -> None:  # fmt: skip
        """Write the records of one table; ``record_of`` gives one, or the reason why there is none."""
        if not self.tables.has(table):
            return
        count = 0
        with (self.out / name).open("wb") as file:
            for row in self.tables.rows(table, keep):
                record = record_of(row)
                if isinstance(record, str):
                    self.exported.refuse(table, row[_ID[table]], record)
                    continue
                file.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
                count += 1
        if count:
            self.exported.files[name] = count
        else:
            (self.out / name).unlink()

    # -- records ------------------------------------------------------------------------------------------------

    def _state(self, row: Row, shown: dict[str, bytes]) -> Row | str:
        images = self._pictures(row, shown) if row["prompt_text"] is not None else "has no prompt_text"
        if isinstance(images, str):
            self.gone.add(row["state_id"])
            return images
        self._leave_out("states", row, {"elements": row["elements"], "episode_outcome": row["episode_outcome"]})
        if row["screenshot_ops"]:
            self.exported.left_out["states.screenshot as it was before screenshot_ops"] += 1
        return {
            "state_id": row["state_id"],
            "episode_id": row["episode_id"],
            "turn": row["turn"],
            "prompt_text": row["prompt_text"],
            "images": images,
            "demo_action": row["demo_response"],
        }

    def _pictures(self, row: Row, shown: dict[str, bytes]) -> list[str] | str:
        """The paths of a state's pictures, the newest of which is written; or why that cannot be."""
        images = _images(row)
        reference = row["screenshot"]
        if reference is None:
            return "its record names pictures and the row has none" if images else []
        if reference not in shown:
            return "its screenshot is referred to and not embedded"
        if images is None:
            images = [f"{_FOLDER}/{picture_name(reference, shown[reference])}"]
        if not images:
            return "its record names no picture and the row has one"
        if images[-1][:5].lower() != "data:" and (problem := self._put(images[-1], reference, shown[reference])):
            return problem
        self._name(images)
        return images

    def _put(self, name: str, reference: str, data: bytes) -> str | None:
        """Write a picture where its record says; the reason why not, if so. The path is data."""
        try:
            path = inside(name, self.out)
            if path.relative_to(self.out).parts[0].lower() in _TAKEN:
                return f"its picture's path {name[:80]!r} is that of a file of records"
            if path in self.written:
                same = self.written[path] == reference
                return None if same else f"its picture's path {name[:80]!r} holds another state's picture"
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                file.write(data)
        except PictureError as error:
            return f"its picture cannot be written: {error.message}"
        except OSError as error:
            if error.errno not in _NO_PLACE:
                raise
            return f"its picture's path {name[:80]!r} cannot be written: {error.strerror}"
        self.written[path] = reference
        return None

    def _set(self, row: Row) -> Row | str:
        if row["set_id"] != f"{row['state_id']}#d{row['draw']}":
            return "its id is not <state_id>#d<draw>"
        self.dangling += row["state_id"] in self.gone
        sampling = {f"sampling.{name}": value for name, value in row["sampling"].items() if name != "temperature"}
        told = {name for c in row["candidates"] for name in _CANDIDATE if c[name] is not None}
        facts = {"actor": row["actor"], "actor_revision": row["actor_revision"], **sampling}
        self._leave_out("candidate_sets", row, facts | dict.fromkeys((f"candidates.{name}" for name in told), True))
        record: dict[str, Any] = {
            "state_id": row["set_id"],
            "base_state_id": row["state_id"],
            "temperature": row["sampling"]["temperature"],
            "images": _images(row),
            "candidates": [candidate["response"] for candidate in row["candidates"]],
        }
        if record["images"] is None:
            del record["images"]
        else:
            self._name(record["images"])
        return record

    def _label(self, row: Row) -> Row | str:
        selection = row["selected_index"]
        if row["status"] == "out_of_range":
            selection = _recorded(row).get("selection")
        if row["status"] != "null_in_source" and (row["status"] not in _PICKED or type(selection) is not int):
            return f"its status is {row['status']}, and the format knows a pick or null"
        if row["set_id"] != _drawn(row):
            return "the id of its set is not <state_id>#d<draw>"
        if row["set_id"] in self.judged:
            return "its set has another label already, and the format knows one"
        self.judged.add(row["set_id"])
        self._leave_out("teacher_labels", row, {name: row[name] for name in _LABEL})
        return {"state_id": row["set_id"], "selection": selection, "reasoning": row["reasoning"]}

    def _leave_out(self, table: str, row: Row, facts: dict[str, Any]) -> None:
        beyond = {name: True for name in _recorded(row) if name not in ("images", "selection")}
        self.exported.leave_out(table, facts | {f"source_record_json.{name}": True for name in beyond})

    def _name(self, images: list[str]) -> None:
        self.named.update(name for name in images if name[:5].lower() != "data:")


_ID = {"states": "state_id", "candidate_sets": "set_id", "teacher_labels": "label_id"}
_PICKED = ("ok", "out_of_range")  # outcomes that have a number
_CANDIDATE = ("finish_reason", "tokens", "logprob")
_LABEL = (
    *("teacher", "teacher_params_json", "prompt_id", "prompt_sha256", "order", "reply", "usage_json", "batch_id"),
    "custom_id",
)


def _recorded(row: Row) -> dict[str, Any]:
    """What the record held besides its fields; nothing for text that is no JSON object."""
    text = row["source_record_json"]
    return _parsed(text) if text else {}


@lru_cache(maxsize=4096)  # of some thousand states, each with many draws
def _parsed(text: str) -> dict[str, Any]:
    try:
        value = jsonl.loads(text.encode())
    except jsonl.JsonError:
        return {}
    return value if isinstance(value, dict) else {}


def _images(row: Row) -> list[str] | None:
    """The paths that the record named; None when it did not say."""
    images = _recorded(row).get("images")
    return images if isinstance(images, list) and all(isinstance(i, str) and i for i in images) else None


def _drawn(row: Row) -> str | None:
    """The id of the row's set, if it is a draw of the row's state."""
    draw = row["set_id"].removeprefix(f"{row['state_id']}#d")
    return row["set_id"] if draw != row["set_id"] and draw.isdecimal() and draw.isascii() else None
