"""Scored candidates as rows: what a model learns a number from, one candidate at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..prompts.render import Prompt, Rendered, StateView
from .ledger import Row
from .scene import Scene


def build(
    scene: Scene, prompt: Prompt, shown: Callable[[], tuple[StateView, Rendered, str]]
) -> Iterator[tuple[str, str | None, Row | None]]:
    """Yield (score id, reason for exclusion, row) of each candidate of a set and each thing that scored it.

    ``shown`` renders the state's prompt when the first row needs it: (view, prompt, its rendered digest).
    """
    set_row = scene.set_row
    for source, scores in sorted(scene.scores.items()):
        for candidate, score in zip(set_row["candidates"], scores, strict=True):
            score_id = f"{set_row['set_id']}|{candidate['index']}|{source}|{prompt.id}"
            if score is None:
                yield score_id, "unscored", None
                continue
            if not 0 <= score <= 1:
                yield score_id, "score_out_of_range", None
                continue
            view, rendered, digest = shown()
            yield score_id, None, {
                "score_id": score_id,
                "unit": "step",
                "state_id": set_row["state_id"],
                "set_id": set_row["set_id"],
                "candidate_index": candidate["index"],
                "score": float(score),
                "score_source": source,
                "prompt": rendered.messages,
                "completion": prompt.scalar_reply(view, candidate),
                "prompt_id": prompt.id,
                "prompt_sha256": prompt.sha256,
                "rendered_sha256": digest,
                "images": [f"sha256:{sha}" for sha in rendered.images],
                "split": set_row["split"],
            }  # fmt: skip
