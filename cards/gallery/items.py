"""One item of the page: a row, or what was excluded, with what a review of it has to name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ...schemas.actions import pair_type
from ...schemas.actions.dialect import without_end_of_turn
from ..words import meaning
from . import markers
from .found import Found
from .units import Unit

Row = dict[str, Any]
_FACTS: Mapping[str, tuple[str, ...]] = {
    "bt_pairs": ("unit", "label_source", "margin", "relation", "negative_source"),
    "pointwise_scores": ("unit", "score", "score_source"),
    "actor_sft": ("selected_by", "quality"),
    "reserve": ("reason", "selected_by", "quality"),
    "bench_items": ("bench", "group_id", "origin", "options", "expected_index"),
}
_NOTHING: Row = {
    "order": None, "prompt": None, "replies": [], "images": [],
    "prompt_id": None, "prompt_sha256": None, "rendered_sha256": None,
}  # fmt: skip
_INDEX = re.compile(r"[0-9]{1,9}")
_SELECTION = re.compile(r'\{"selection": ([0-9]{1,9})\}\s*\Z')  # 1-based: how a completion ends


def item(unit: Unit, found: Found) -> Row | None:
    """The item, or None where the build holds nothing of the unit."""
    if unit.excluded is not None:
        return _excluded(unit, unit.excluded, found)
    row = found.rows.get((unit.table, unit.id))
    if row is None:
        return None
    ids = {name: row.get(name) for name in ("state_id", "set_id", "label_id")}
    chosen, rejected = _sides(unit.table, row, found)
    order = row.get("order") if unit.table == "selection_sft" else None
    titles = [name for name in ("completion", "chosen", "rejected") if name in row]
    facts = [name for name in _FACTS.get(unit.table, ()) if row[name] is not None]
    return _whole(
        unit, found, ids, chosen, rejected,
        split=row["split"],
        order=order,
        facts=[[name.replace("_", " "), str(row[name])] for name in facts],
        prompt=row.get("prompt"),
        replies=[[name, row[name]] for name in titles],
        **{name: row.get(name) for name in ("prompt_id", "prompt_sha256", "rendered_sha256")},
        images=[reference.removeprefix("sha256:") for reference in row.get("images") or ()],
        kind=row.get("pair_type"),
    )  # fmt: skip


def _excluded(unit: Unit, row: Row, found: Found) -> Row | None:
    label_id, set_id, state_id = found.label_id(unit.id), found.set_id(unit.id), found.state_id(unit.id)
    owner = label_id or set_id or state_id
    if owner is None:
        return None
    if label_id is not None:
        set_id = found.labels[label_id]["set_id"]
    if set_id in found.sets:
        state_id = found.sets[set_id]["state_id"]
    ids = {"state_id": state_id, "set_id": set_id, "label_id": label_id}
    chosen, rejected, facts = _compared(unit, unit.id[len(owner) + 1 :], ids, found)
    split = (found.labels.get(label_id or "") or found.sets.get(set_id or "") or found.states[state_id or ""])["split"]
    candidates = _candidates(ids, found)
    kind = None
    if unit.table == "bt_pairs" and chosen in candidates and rejected in candidates:
        kind = pair_type(markers.parsed(candidates[chosen]), markers.parsed(candidates[rejected]))
    return _whole(unit, found, ids, chosen, rejected, split=split, facts=facts, kind=kind)


def _whole(
    unit: Unit, found: Found, ids: Row, chosen: int | None, rejected: int | None, *,
    split: str, kind: str | None, facts: list[list[str]], **shown: Any,
) -> Row:  # fmt: skip
    """``kind`` is its pair type; ``shown`` has what a row of a table shows, and an excluded unit does not."""
    label = found.labels.get(ids["label_id"] or "")
    state = found.states.get(ids["state_id"] or "")
    reason = unit.excluded and unit.excluded["reason"]
    facets = {
        "table": unit.table,
        "split": split,
        "pair_type": kind,
        "reason": reason,
        "host": state["host"] if state else None,
        "verbs": _verbs(ids, (chosen, rejected), found),
        "status": label["status"] if label else None,
        "tie": None if not label or label["selected_index"] is None else "tie" if label["tie_indices"] else "no tie",
    }
    return {
        "id": unit.id,
        "table": unit.table,
        "excluded": unit.excluded and _left_out(unit.table, unit.excluded),
        "split": split,
        **ids,
        "chosen_index": chosen,
        "rejected_index": rejected,
        "facts": facts,
        **_NOTHING,
        **shown,
        "facets": facets,
        "earlier": _earlier([unit.id, *ids.values()], unit, found),
    }


def _left_out(stage: str, row: Row) -> Row:
    return {name: row[name] for name in ("reason", "detail", "status")} | {"meaning": meaning(stage, row["reason"])}


def _sides(table: str, row: Row, found: Found) -> tuple[int | None, int | None]:
    """(chosen, rejected) of a row, as candidates of its set (0-based)."""
    if table == "bt_pairs":
        return row["chosen_index"], row["rejected_index"]
    if table == "pointwise_scores":
        return row["candidate_index"], None
    if table == "selection_sft" and row["order"] is not None:
        said = _SELECTION.search(_text(row["completion"]))
        shown = int(said[1]) if said else 0
        return (row["order"][shown - 1] if 0 < shown <= len(row["order"]) else None), None
    if table in ("actor_sft", "reserve"):
        return _response(_text(row["completion"]), row, found), None
    if table == "teacher_labels":
        return found.pick(row["label_id"]), None
    return None, None


def _response(text: str, row: Row, found: Found) -> int | None:
    """The candidate whose response a row teaches; the label's pick where several have it, or tokens were escaped."""
    candidates = _candidates(row, found)
    same = [index for index, one in candidates.items() if without_end_of_turn(one["response"]) == text]
    picked = found.pick(row["label_id"]) if row["label_id"] in found.labels else None
    if row["selected_by"] == "teacher" and (not same or picked in same):
        return picked
    return same[0] if same else None


def _compared(unit: Unit, rest: str, ids: Row, found: Found) -> tuple[int | None, int | None, list[list[str]]]:
    """(chosen, rejected, facts) of what was excluded; ``rest`` is its id after that of its label, set or state."""
    picked = found.pick(ids["label_id"]) if ids["label_id"] else None
    words = rest.split("|") if rest else []
    if unit.table == "bt_pairs" and ids["label_id"]:
        if len(words) == 1 and _INDEX.fullmatch(rest):
            return picked, int(words[0]), []
        return picked, None, [["rejected", " ".join(words).replace("_", " ")]] if words else []
    if unit.table == "bt_pairs" and len(words) >= 3 and all(map(_INDEX.fullmatch, words[-2:])):
        return int(words[-2]), int(words[-1]), [["score source", "|".join(words[:-2])]]
    if unit.table == "pointwise_scores" and len(words) >= 2 and _INDEX.fullmatch(words[0]):
        return int(words[0]), None, [["score source", words[1]]]
    if unit.table == "actor_sft" and rest:
        drawn = words[-1] == "random_control"  # nothing says which candidate it was
        return None if drawn else picked, None, [["choice", ", ".join(words).replace("_", " ")]]
    return picked, None, []


def _candidates(ids: Row, found: Found) -> dict[int | None, Row]:
    of = found.sets.get(ids["set_id"] or "")
    return {candidate["index"]: candidate for candidate in of["candidates"]} if of else {}


def _verbs(ids: Row, sides: Iterable[int | None], found: Found) -> list[str]:
    """Those of what the row prefers and rejects; where it does neither, of all candidates."""
    candidates = _candidates(ids, found)
    about = [candidates[index] for index in sides if index in candidates] or list(candidates.values())
    return sorted({verb for candidate in about for verb in markers.verbs(markers.parsed(candidate).calls)})


def _earlier(ids: Iterable[str | None], unit: Unit, found: Found) -> list[Row]:
    """What was said of the item or of what it is made of, the newest last."""
    names = ("verdict", "selected_index", "note", "reviewer", "time")
    every = dict.fromkeys([one for one in ids if one] + list(unit.names(found.prompts)))
    said = [review for one in every for review in found.reviews.get(one, ())]
    return [{name: review[name] for name in names} for review in sorted(said, key=lambda review: review["time"])]


def _text(messages: Iterable[Row]) -> str:
    return "".join(block.get("text") or "" for message in messages for block in message["content"])
