"""Tables of a published dataset as source records: one canonical JSON object a line, and back into what builders take.

A record holds what upstream recorded. What follows from it is left out and made again: facts of the screenshot, parsed
actions, ties, provenance, the split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...schemas import jsonl
from ...schemas.errors import ArmError
from ...schemas.images import data_url
from .chat import without_nulls
from .pictures import read_picture
from .types import Context, ImportedState, InvalidTurn

Row = dict[str, Any]

_STATE = (
    *("state_id", "episode_id", "turn", "task", "task_group", "url", "host", "history", "messages_json"),
    *("prompt_text", "tools_json", "observation_text", "elements", "demo_response", "episode_outcome"),
    *("source_record_json",),
)
_SET = ("set_id", "state_id", "draw", "actor", "actor_revision", "sampling", "space", "dialect", "source_record_json")
_CANDIDATE = ("response", "finish_reason", "tokens", "logprob")
_LABEL = (
    *("label_id", "set_id", "teacher", "teacher_params_json", "repeat", "prompt_id", "prompt_sha256", "order"),
    *("selected_index", "status", "reasoning", "reply", "usage_json", "batch_id", "custom_id", "source_record_json"),
)

_REVIEW = ("review_id", "item_id", "verdict", "selected_index", "note", "reviewer", "time")


# -- rows of tables -> records -----------------------------------------------------------------------------------------


def _state_record(row: Row, picture: Callable[[str], bytes]) -> Row:
    shown = row["screenshot"]
    return {
        **{name: row[name] for name in (*_STATE, "screenshot_ops")},
        "screenshot": None if shown is None else data_url(picture(shown)),
    }


def _set_record(row: Row, _: Callable[[str], bytes]) -> Row:
    candidates = [{name: candidate[name] for name in _CANDIDATE} for candidate in row["candidates"]]
    return {**{name: row[name] for name in _SET}, "candidates": candidates}


def _label_record(row: Row, _: Callable[[str], bytes]) -> Row:
    return {name: row[name] for name in _LABEL}


def _ready_record(row: Row, picture: Callable[[str], bytes]) -> Row:
    """A training row; its messages, which Parquet fills with nulls, hold only the keys they need."""
    messages: Row = {k: without_nulls(row[k]) for k in ("prompt", "completion", "chosen", "rejected") if k in row}
    left = {name: value for name, value in row.items() if name not in ("rendered_sha256", "split")}
    return {**left, **messages, "images": [data_url(picture(reference)) for reference in row["images"]]}


def _review_record(row: Row, _: Callable[[str], bytes]) -> Row:
    """What was said; what it led to follows from the labels, and is found again."""
    return {name: row[name] for name in _REVIEW}


# Table -> function from (row, bytes of a picture by its reference) to the record.
RECORDS: Mapping[str, Callable[[Row, Callable[[str], bytes]], Row]] = {
    "states": _state_record,
    "candidate_sets": _set_record,
    "teacher_labels": _label_record,
    "selection_sft": _ready_record,
    "bt_pairs": _ready_record,
    "pointwise_scores": _ready_record,
    "reviews": _review_record,
}


# -- records -> what builders take -------------------------------------------------------------------------------------


def states(record: Row, context: Context) -> Iterator[ImportedState | InvalidTurn]:
    """Yield the one state of a record."""
    shown = record["screenshot"]
    try:
        _check_json(record)
        _check_elements(record["elements"])
        image = None if shown is None else read_picture(shown, context.folder)
    except ArmError as error:
        yield InvalidTurn.of(record["state_id"], error, "$.screenshot")
        return
    row = {name: record[name] for name in _STATE}
    row["elements"] = [{**element, "box": [float(v) for v in element["box"]]} for element in record["elements"]]
    if record["screenshot_ops"]:  # a state whose picture is as it was is the one that its raw record gives
        row["screenshot_ops"] = record["screenshot_ops"]
    yield ImportedState(row, image, "$.screenshot")


def candidate_set(record: Row, context: Context) -> Row:
    """One draw. Raises ArmError when it is not written as its source declares: its points would be misread."""
    _check_json(record)
    for name, declared in (("dialect", context.dialect), ("space", context.space)):
        if record[name] != declared:
            raise ArmError(f"is {record[name]!r}, and the source declares {declared!r}", where=f"$.{name}")
    return {
        **{name: record[name] for name in ("set_id", "state_id", "draw", "actor", "actor_revision")},
        "sampling": {name: value for name, value in record["sampling"].items() if value is not None},
        "responses": [candidate["response"] for candidate in record["candidates"]],
        "recorded": [{name: c[name] for name in _CANDIDATE if name != "response"} for c in record["candidates"]],
        "source_record_json": record["source_record_json"],
    }


def teacher_label(record: Row, context: Context) -> Row:
    """One label with all that was recorded of it; ``selection`` is the pick (0-based) or None. Raises ArmError."""
    _check_json(record)
    return {**{name: record[name] for name in _LABEL}, "selection": record["selected_index"]}


def _check_json(record: Row) -> None:
    """What is called JSON is read by others as such. Raises ArmError for a field that is none."""
    for name, text in record.items():
        if name.endswith("_json") and text is not None:
            try:
                jsonl.loads(text.encode())
            except jsonl.JsonError as error:
                raise ArmError(str(error), where=f"$.{name}") from error


def _check_elements(elements: list[Row]) -> None:
    """Candidates name the element that they hit by its index. Raises ArmError."""
    for position, element in enumerate(elements):
        if element["index"] != position:
            where = f"$.elements[{position}].index"
            raise ArmError(f"is {element['index']}, and the element stands at {position}", where=where)
