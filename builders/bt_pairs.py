"""Bradley-Terry pairs from a teacher's selections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..prompts.render import Prompt, Rendered, StateView
from ..schemas.actions import Parsed, View
from .ledger import Row
from .pair_rules import Comparison, compare
from .spec import PairSpec


def build(
    label: Row, set_row: Row, parsed: Sequence[Parsed], view: View, spec: PairSpec,
    prompt: Prompt, shown: Callable[[], tuple[StateView, Rendered, str]],
) -> Iterator[tuple[Comparison, str | None, Row | None]]:  # fmt: skip
    """Yield each comparison of one label with its reason for exclusion or its `bt_pairs` row.

    ``shown`` renders the state's prompt when the first pair needs it: (view, prompt, its rendered digest).
    """
    picked = label["selected_index"]
    chosen = None  # rendered once for all pairs of the label
    candidates = set_row["candidates"]
    for comparison in compare(label["label_id"], picked, parsed, view, spec):
        if comparison.reason:
            yield comparison, comparison.reason, None
            continue
        state_view, rendered, digest = shown()
        chosen = chosen or prompt.scalar_reply(state_view, candidates[picked])
        rejected = prompt.scalar_reply(state_view, candidates[comparison.rejected_index])
        if chosen == rejected:  # different actions that look the same as this prompt shows them
            yield comparison, "equal_as_shown", None
            continue
        yield comparison, None, {
            "pair_id": f"{label['label_id']}|{comparison.rejected_index}|{prompt.id}",
            "unit": "step",
            "label_source": "selection",
            "label_id": label["label_id"],
            "set_id": set_row["set_id"],
            "state_id": set_row["state_id"],
            "prompt": rendered.messages,
            "chosen": chosen,
            "rejected": rejected,
            "chosen_index": picked,
            "rejected_index": comparison.rejected_index,
            "margin": None,
            "relation": comparison.relation,
            "pair_type": comparison.pair_type,
            "negative_source": "sampled",
            "prompt_id": prompt.id,
            "prompt_sha256": prompt.sha256,
            "rendered_sha256": digest,
            "images": [f"sha256:{sha}" for sha in rendered.images],
            "split": label["split"],
        }  # fmt: skip
