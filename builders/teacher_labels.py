"""Teacher labels: every verdict with its outcome, and which of them feed training rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence

from ..schemas.actions import Parsed
from .ledger import Row
from .spec import LabelSpec, SourceSpec

_RECORDED = (
    *("teacher_params_json", "prompt_id", "prompt_sha256", "order", "reply", "usage_json", "batch_id", "custom_id"),
    "source_record_json",
)


def build(imported: Row, declared: SourceSpec, source: Row, set_row: Row, parsed: Sequence[Parsed], split: str) -> Row:
    """Return the `teacher_labels` row. A pick outside the set is an outcome, never another candidate.

    An import that has a ``status`` is a label of another dataset: its id and all that it recorded stay.
    """
    selection = imported["selection"]
    in_range = selection is not None and 0 <= selection < len(parsed)
    status = "ok" if in_range else "null_in_source" if selection is None else "out_of_range"
    picked = selection if status == "ok" else None
    teacher = imported.get("teacher")
    teacher = declared.constants.get("teacher") if teacher is None else teacher
    known = {name: imported.get(name) for name in _RECORDED}
    if status == "out_of_range":
        known["source_record_json"] = known["source_record_json"] or f'{{"selection":{selection}}}'
    return {
        **known,
        "label_id": imported.get("label_id") or id_of(set_row["set_id"], teacher),
        "set_id": set_row["set_id"],
        "state_id": set_row["state_id"],
        "teacher": teacher,
        "repeat": imported.get("repeat", 0),
        "selected_index": picked,
        "tie_indices": _ties(picked, parsed),
        "status": imported.get("status", status) if selection is None else status,
        "reasoning": imported["reasoning"],
        "source": source,
        "split": split,
    }


def id_of(set_id: str, teacher: str | None) -> str:
    """The id of a label whose record has none."""
    return f"{set_id}|{teacher or '-'}|-|0"


def answered(label: Row, index: int, parsed: Sequence[Parsed]) -> Row:
    """The label as training rows see it when a person picked the candidate ``index`` (0-based) instead of its teacher.

    What the teacher argued for another action is no reason for this one.
    """
    before = label["selected_index"]
    same = before is not None and parsed[before].key == parsed[index].key
    pick = {"selected_index": index, "tie_indices": _ties(index, parsed), "status": "ok"}
    return {**label, **pick, "reasoning": label["reasoning"] if same else ""}


def choose(
    labels: Sequence[Row], parsed: Sequence[Parsed], spec: LabelSpec, by_people: Container[str] = ()
) -> Iterator[tuple[Row, str | None]]:
    """Yield each label of one set with None if it feeds training rows, else with the reason why not.

    Where a person answered for a label (``by_people``: ids), labels without such an answer do not count.

    ``first``: the usable label with the lowest repeat (then the lowest id). ``majority``: the first label that picked
    the action most usable labels picked; no label when two actions share the lead.
    """
    usable = []
    outranked = any(label["label_id"] in by_people and spec.teacher in (None, label["teacher"]) for label in labels)
    for label in sorted(labels, key=lambda row: (row["repeat"], row["label_id"])):
        if spec.teacher is not None and label["teacher"] != spec.teacher:
            yield label, "other_teacher"
        elif label["status"] != "ok":
            yield label, label["status"]
        elif parsed[label["selected_index"]].parse_error is not None:
            yield label, "pick_unparsed"
        elif outranked and label["label_id"] not in by_people:
            yield label, "other_repeat"
        else:
            usable.append(label)
    chosen = usable[:1]
    if spec.rule == "majority" and usable:
        votes = Counter(parsed[label["selected_index"]].key for label in usable)
        (key, lead), *others = votes.most_common()
        chosen = [] if others and others[0][1] == lead else [
            next(label for label in usable if parsed[label["selected_index"]].key == key)
        ]  # fmt: skip
    for label in usable:
        yield label, None if label in chosen else "other_repeat" if chosen else "no_majority"


def _ties(picked: int | None, parsed: Sequence[Parsed]) -> list[int]:
    """The other candidates with the picked action."""
    return [] if picked is None else [i for i, p in enumerate(parsed) if i != picked and p.key == parsed[picked].key]
