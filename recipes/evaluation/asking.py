"""Items and a model to predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...inference.rendering import Renderer
from .items import Item, Items, Pair, Pictures
from .metrics import state_of

if TYPE_CHECKING:
    from ...inference.processor import Encoded
    from ...inference.scalar import ScalarRewardModel
    from ...inference.selection import SelectionARM

Prediction = dict[str, Any]
QUESTIONS = 16  # of a selection ARM at a time; the model makes batches of them


def chunks(items: Items, kind: str) -> list[list[Item | Pair]]:
    """What is asked together, whatever was answered before: a few sets, or all of one state for a scalar model, so that
    what sets and pairs share is scored once."""
    if kind == "selection_arm":
        sets: list[Item | Pair] = [*items.sets]
        return [sets[start : start + QUESTIONS] for start in range(0, len(sets), QUESTIONS)]
    by_state: dict[str, list[Item | Pair]] = {}
    units: list[Item | Pair] = [*items.sets, *items.pairs]
    for unit in units:
        by_state.setdefault(state_of(unit.facts), []).append(unit)
    return [by_state[state] for state in sorted(by_state)]


def ask(model: SelectionARM, chunk: Sequence[Item | Pair], renderer: Renderer, pictures: Pictures) -> list[Prediction]:
    """Predictions of each set in each of its orders."""
    from ...inference.selection import Question

    most = model.processor.limits.max_tokens
    asked = [(item, number, order) for item in chunk if isinstance(item, Item)
             for number, order in enumerate(item.orders)]  # fmt: skip
    questions, places = [], []
    for place, (item, _, order) in enumerate(asked):
        rendered = renderer.selection(item.state, item.set_row, order)
        question = Question(rendered.messages, pictures.get(rendered.images), len(order))
        if len(model.processor.selection(question.prompt, question.images).input_ids) < most:
            questions.append(question)
            places.append(place)
    replies = dict(zip(places, model.ask_many(questions), strict=True)) if questions else {}
    return [
        _selected(item, number, order, replies[place].status, replies[place].selected)
        if place in replies
        else _selected(item, number, order, "too_long", None)
        for place, (item, number, order) in enumerate(asked)
    ]


def score(
    model: ScalarRewardModel, chunk: Sequence[Item | Pair], renderer: Renderer | None, pictures: Pictures
) -> list[Prediction]:
    """Predictions of sets and pairs. Conversations that the model cannot tell apart have one score."""
    encoded = [_conversations(model, unit, renderer, pictures) for unit in chunk]
    scores = model.score_sets([[row for row in rows if row is not None] for rows in encoded])
    found = [iter(of_unit) for of_unit in scores]
    return [
        _scored(unit.facts, [next(of_unit) if row is not None else None for row in rows])
        for unit, rows, of_unit in zip(chunk, encoded, found, strict=True)
    ]


def _conversations(
    model: ScalarRewardModel, unit: Item | Pair, renderer: Renderer | None, pictures: Pictures
) -> list[Encoded | None]:
    """Each candidate, or side of a pair, as the model takes it; None for one that it does not take."""
    if isinstance(unit, Item):
        assert renderer is not None
        rendered = renderer.scalar(unit.state, unit.set_row)
        prompt, images = rendered.messages, rendered.images
        replies = renderer.replies(unit.state, unit.set_row)
    else:
        prompt, images = unit.row["prompt"], unit.row["images"]
        replies = [unit.row["chosen"], unit.row["rejected"]]
    shown = pictures.get(images)
    rows = [model.processor.scalar(prompt, shown, reply) for reply in replies]
    return [row if len(row.input_ids) <= model.processor.limits.max_tokens else None for row in rows]


def _selected(item: Item, number: int, order: Sequence[int], status: str, selected: int | None) -> Prediction:
    picked = order[selected - 1] if status == "ok" and selected is not None else None
    return _prediction(item.facts, number, list(order), status, picked, [])


def _scored(facts: Mapping[str, Any], scores: list[float | None]) -> Prediction:
    """The candidate with the highest score; where several actions share it, there is none: the first is no answer."""
    order = list(range(len(scores)))
    known = [value for value in scores if value is not None]
    if len(known) < len(scores):
        return _prediction(facts, 0, order, "too_long", None, scores)
    best = max(known)
    top = [index for index, value in enumerate(scores) if value == best]
    tied = len({facts["action_index"][index] for index in top}) > 1
    return _prediction(facts, 0, order, "tie" if tied else "ok", None if tied else top[0], scores)


def _prediction(
    facts: Mapping[str, Any], number: int, order: list[int], status: str, picked: int | None,
    scores: list[float | None],
) -> Prediction:  # fmt: skip
    actions, reference = facts["action_index"], facts["reference_index"]
    exact = None if picked is None else actions[picked] == actions[reference]
    return {
        **facts,
        "order_index": number,
        "order": order,
        "status": status,
        "predicted_index": picked,
        "scores": scores,
        "exact": exact,
        "equivalent": None if picked is None else bool(exact) or picked in facts["near_index"],
    }
