"""Predictions by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def answered(
    item_id: str, picked: int | None, *, reference: int = 0, actions: Sequence[int] = (0, 1, 2),
    near: Sequence[int] = (), status: str | None = None, state: str | None = None, order: Sequence[int] | None = None,
    number: int = 0, scores: Sequence[float | None] = (), picks: dict[str, int] | None = None,
    repeats: tuple[int, int, int] = (0, 0, 0), verb: str | None = "click", host: str | None = "a.test", turn: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """A set of ``len(actions)`` candidates; ``picked`` None with the outcome ``status``."""
    exact = None if picked is None else actions[picked] == actions[reference]
    return {
        "item_id": item_id,
        "unit": "set",
        "state_id": state or f"state of {item_id}",
        "host": host,
        "turn": turn,
        "verb": verb,
        "order_index": number,
        "order": list(order if order is not None else range(len(actions))),
        "status": status or ("ok" if picked is not None else "unparsed"),
        "predicted_index": picked,
        "scores": list(scores),
        "reference_index": reference,
        "exact": exact,
        "equivalent": None if picked is None else bool(exact) or picked in near,
        "action_index": list(actions),
        "near_index": list(near),
        "picks": [{"name": name, "index": index} for name, index in (picks or {}).items()],
        "repeats": dict(zip(("pairs", "exact", "equivalent"), repeats, strict=True)),
    }


def scored(item_id: str, scores: Sequence[float], **more: Any) -> dict[str, Any]:
    """A set with scores; the best action is picked, unless two share the best score."""
    actions = more.get("actions", tuple(range(len(scores))))
    best = [index for index, value in enumerate(scores) if value == max(scores)]
    tied = len({actions[index] for index in best}) > 1
    return answered(
        item_id,
        None if tied else best[0],
        status="tie" if tied else "ok",
        scores=scores,
        **{**more, "actions": actions},
    )


def pair(item_id: str, chosen: float | None, rejected: float | None, state: str | None = "s") -> dict[str, Any]:
    if chosen is None or rejected is None:
        status, picked = "too_long", None
    else:
        status, picked = ("tie", None) if chosen == rejected else ("ok", int(chosen < rejected))
    made = answered(item_id, picked, actions=(0, 1), status=status, scores=(chosen, rejected), state=state)
    return made | {"unit": "pair", "state_id": state, "verb": None, "host": None, "turn": None}
