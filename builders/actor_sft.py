"""Chosen responses as targets of the actor: what was picked, if it is good enough, and a control beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..prompts.render import rendered_sha256
from ..schemas.ids import hash_order
from .actor_messages import actor_prompt, completion
from .ledger import Row
from .scene import Scene
from .spec import ActorSpec


def build(label: Row | None, scene: Scene, spec: ActorSpec) -> Iterator[tuple[str, str | None, Row | None]]:
    """Yield (choice id, reason for exclusion, row) of one choice and of its control.

    With a ``label`` its pick is the target; without one, the candidate with the highest score, the first of equal ones.
    Raises Unrenderable like `actor_prompt`.
    """
    set_row, quality = scene.set_row, scene.quality or [None] * len(scene.parsed)
    if label is not None:
        chosen, choice = label["selected_index"], f"{label['label_id']}|teacher"
    else:
        scored = [(score, -index) for index, score in enumerate(quality) if score is not None]
        chosen, choice = -max(scored)[1] if scored else None, f"{set_row['set_id']}|prm_argmax"
    if chosen is None or (spec.quality_floor is not None and quality[chosen] is None):
        yield choice, "unscored", None
        return
    if spec.quality_floor is not None and (quality[chosen] or 0.0) < spec.quality_floor:
        yield choice, "below_quality_floor", None
        return
    how = "teacher" if label is not None else "prm_argmax"
    yield choice, None, row_of(choice, label, scene, chosen, how)
    if spec.random_control:
        control = f"{choice}|random_control"
        drawn = min(range(len(scene.parsed)), key=lambda i: hash_order("control", set_row["set_id"], i))
        yield control, None, row_of(control, label, scene, drawn, "random_control")


def row_of(row_id: str, label: Row | None, scene: Scene, index: int, selected_by: str) -> Row:
    """The response of candidate ``index`` (0-based) as a target. Raises Unrenderable like `actor_prompt`."""
    messages, images = actor_prompt(scene.state)
    quality = scene.quality
    score = quality[index] if quality else None
    split: Mapping[str, str] = label or scene.set_row
    return {
        "row_id": row_id,
        "state_id": scene.set_row["state_id"],
        "set_id": scene.set_row["set_id"],
        "label_id": label["label_id"] if label is not None else None,
        "prompt": messages,
        "completion": completion(scene.set_row["candidates"][index]["response"]),
        "selected_by": selected_by,
        "quality": score if score is not None and 0 <= score <= 1 else None,
        "rendered_sha256": rendered_sha256(messages, images),
        "images": [f"sha256:{sha}" for sha in images],
        "split": split["split"],
    }
