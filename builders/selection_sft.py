"""Selection SFT rows: one per usable label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..prompts.render import Prompt, StateView, rendered_sha256
from ..schemas.actions import Parsed
from ..schemas.ids import hash_order
from .ledger import Row
from .spec import SelectionSpec


def shown_order(set_id: str, parsed: Sequence[Parsed], spec: SelectionSpec) -> list[int]:
    """The candidates to show, as indices (0-based) in shown order.

    ``merge`` shows each distinct action once, as its first candidate, so that the target is unique. ``shuffle`` orders
    by a hash of set and action, never by the sampled order: a teacher's slot habit cannot be learned, and a rebuild
    gives the same order.
    """
    seen: Counter[str] = Counter()
    occurrences = []  # (candidate, how many before it have its action)
    for index, p in enumerate(parsed):
        if spec.duplicates == "keep" or not seen[p.key]:
            occurrences.append((index, seen[p.key]))
        seen[p.key] += 1
    if spec.shuffle:
        occurrences.sort(key=lambda o: hash_order("order", set_id, parsed[o[0]].key, o[1]))
    return [index for index, _ in occurrences]


def build(
    label: Row, set_row: Row, parsed: Sequence[Parsed], prompt: Prompt, view: StateView, spec: SelectionSpec
) -> Row | str:
    """Return the `selection_sft` row, or the reason why there is none. Raises Unrenderable like the renderer."""
    if set_row["distinct_actions"] < 2:
        return "single_distinct_action"
    order = shown_order(set_row["set_id"], parsed, spec)
    if prompt.options.reasoning == "before":
        order = _as_asked(label["order"], order, parsed)
    picked = label["selected_index"]
    if spec.duplicates == "merge":
        picked = next(index for index in order if parsed[index].key == parsed[picked].key)
    rendered = prompt.selection(view, set_row["candidates"], order)
    return {
        "row_id": f"{label['label_id']}|{prompt.id}",
        "label_id": label["label_id"],
        "set_id": set_row["set_id"],
        "state_id": set_row["state_id"],
        "order": order,
        "prompt_id": prompt.id,
        "prompt_sha256": prompt.sha256,
        "rendered_sha256": rendered_sha256(rendered.messages, rendered.images),
        "prompt": rendered.messages,
        "completion": prompt.completion(order, picked, label["reasoning"]),
        "images": [f"sha256:{sha}" for sha in rendered.images],
        "split": label["split"],
    }


def _as_asked(asked: Sequence[int] | None, order: list[int], parsed: Sequence[Parsed]) -> list[int]:
    """What ``order`` shows, beginning as the teacher was asked, where that is recorded and ``order`` shows all of it:
    its reasoning may say "candidate 2", which is another one in another order. What it was not shown comes last."""
    if asked is None or not all(index < len(parsed) for index in asked) or len(set(asked)) != len(asked):
        return order
    left = Counter(parsed[index].key for index in order)
    left.subtract(parsed[index].key for index in asked)
    if min(left.values()) < 0:
        return order
    more = []
    for index in order:
        if index not in asked and left[parsed[index].key]:
            left[parsed[index].key] -= 1
            more.append(index)
    return [*asked, *more]


def shown_slot(row: Row) -> int:
    """The number that the reply of a row picks, as it is shown (from 1): ``{"selection": 2}`` gives 2."""
    reply = row["completion"][-1]["content"][-1]["text"]
    return int(reply[reply.rindex(":") + 1 : -1])
