"""Predictions in a file: written as they come, taken up again after an interruption, read back by whoever counts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from ...schemas.errors import ArmError, Issue
from ...schemas.files import replace_whole
from ...schemas.validate import for_schema
from .metrics import recompute

NAME, REPORT = "predictions.jsonl", "report.json"
_RUNNING = ".running.json"  # what an evaluation that has not finished is about

Prediction = dict[str, Any]


def read(path: Path) -> list[Prediction]:
    """The predictions in a file or in the folder of an evaluation. Raises ArmError with every line that is none."""
    path = path / NAME if path.is_dir() else path
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ArmError("holds no predictions", where=str(path)) from error
    found, issues, asked = [], [], set()
    validator = for_schema("eval_prediction/1")
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            issues.append(Issue(str(path), number, "$", f"is no JSON: {error}"))
            continue
        problems = validator.problems(row) or _contradictions(row)
        issues += [Issue(str(path), number, place, message) for place, message in problems]
        if not problems:
            key = row["item_id"], row["order_index"]
            if key in asked:
                issues.append(
                    Issue(str(path), number, "$.item_id", f"{key[0]!r} was answered before, in the same order")
                )
            asked.add(key)
            found.append(row)
    if issues:
        raise ArmError.of(str(path), issues)
    return found


def report_of(folder: Path) -> dict[str, Any]:
    """``report.json`` of a finished evaluation: kind, evaluation, about. Raises ArmError when there is none, and when
    it says other figures than follow from the predictions beside it."""
    report = _json(folder / REPORT)
    if report is None or not {"kind", "evaluation"} <= report.keys():
        raise ArmError("holds no finished evaluation", where=str(folder), next_command="run the evaluation again")
    entry = report["evaluation"]
    stamp = entry["reports"][0] if entry["reports"] else {}
    found = recompute(read(folder), report["kind"], stamp)
    if differs := [key for key in found if key in entry and found[key] != entry[key]]:
        raise ArmError(
            f"says other figures than follow from its predictions: {', '.join(differs)}", where=str(folder / REPORT)
        )
    return report


def _contradictions(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Indices of candidates that the item does not have."""
    count = len(row["action_index"])
    named = {
        "$.predicted_index": [row["predicted_index"]],
        "$.reference_index": [row["reference_index"]],
        "$.order": row["order"],
        "$.near_index": row["near_index"],
        "$.action_index": row["action_index"],
        "$.picks": [pick["index"] for pick in row["picks"]],
    }
    found = [
        (place, f"names candidate {index} of {count}")
        for place, indices in named.items()
        for index in indices
        if index is not None and index >= count
    ]
    if row["scores"] and len(row["scores"]) != count:
        found.append(("$.scores", f"has {len(row['scores'])} scores of {count} candidates"))
    if row["reference_index"] is None:
        found.append(("$.reference_index", "is null: nothing can be compared with it"))
    if row["predicted_index"] is not None and row["predicted_index"] not in row["order"]:
        found.append(("$.predicted_index", "was not shown"))
    return found


class Running:
    """The predictions of an evaluation that runs. ``about``: all that decides them, so that a run is only continued
    with its own.

    Raises ArmError for a folder in which something else lies.
    """

    def __init__(self, folder: Path, about: Mapping[str, Any]) -> None:
        self._folder, self._path = folder, folder / NAME
        self.done: dict[str, list[Prediction]] = {}  # by item
        self.finished = False
        running, report = _json(folder / _RUNNING), _json(folder / REPORT)
        known = running if running is not None else (report or {}).get("about")
        if known is None and folder.exists() and any(folder.iterdir()):
            raise ArmError("is not empty and holds no evaluation", where=str(folder), next_command="--out NEW")
        if known is not None and known != dict(about):
            differs = sorted(key for key in {*known, *about} if known.get(key) != about.get(key))
            raise ArmError(
                f"holds an evaluation of something else: {', '.join(differs)} differ{'s' if len(differs) == 1 else ''}",
                where=str(folder), next_command=f"--out NEW, or delete {folder}",
            )  # fmt: skip
        self._about, self._taken = about, known is not None
        if self._taken:
            self._take_up()
            self.finished = running is None

    def _take(self) -> None:
        """From the first answer on, the folder is this evaluation's."""
        if not self._taken:
            self._folder.mkdir(parents=True, exist_ok=True)
            replace_whole(self._folder / _RUNNING, orjson.dumps(dict(self._about)))
            self._taken = True

    def _take_up(self) -> None:
        if not self._path.exists():
            return
        data = self._path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole != len(data):  # a line that was being written when the run ended
            with self._path.open("r+b") as file:
                file.truncate(whole)
        for row in read(self._path):
            self.done.setdefault(row["item_id"], []).append(row)

    def keep(self, item_ids: Iterable[str]) -> None:
        """Forget what was answered of other items, or of only a part of a question."""
        wanted = set(item_ids)
        if self.done.keys() - wanted:
            self.done = {name: rows for name, rows in self.done.items() if name in wanted}
            self.write(row for rows in self.done.values() for row in rows)

    def add(self, rows: Sequence[Prediction]) -> None:
        """Append what was answered; it is on disk when this returns."""
        validator = for_schema("eval_prediction/1")
        for row in rows:
            if problems := validator.problems(row):
                raise ArmError(f"a prediction breaks its schema, which is a defect: {problems[:3]}")
            self.done.setdefault(row["item_id"], []).append(row)
        self._take()
        with self._path.open("ab") as file:
            file.write(b"".join(orjson.dumps(row) + b"\n" for row in rows))
            file.flush()
            os.fsync(file.fileno())

    def write(self, rows: Iterable[Prediction]) -> None:
        """Put these in the place of all that is in the file."""
        self._take()
        replace_whole(self._path, b"".join(orjson.dumps(row) + b"\n" for row in rows))

    def finish(self, report: Mapping[str, Any]) -> None:
        data = orjson.dumps(dict(report), option=orjson.OPT_INDENT_2)
        replace_whole(self._folder / REPORT, data + b"\n")
        (self._folder / _RUNNING).unlink(missing_ok=True)


def _json(path: Path) -> dict[str, Any] | None:
    try:
        data = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except orjson.JSONDecodeError as error:
        raise ArmError(f"is no JSON: {error}", where=str(path), next_command=f"delete {path.parent}") from error
    return data if isinstance(data, dict) else None
