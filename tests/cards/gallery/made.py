"""Data of a page made by hand: as much of everything as a test needs, in the shape that the page is given."""

from __future__ import annotations

import hashlib
import io
from typing import Any

from PIL import Image

Record = dict[str, Any]


def message(role: str, text: str, pictures: int = 0) -> Record:
    images = [{"type": "image"} for _ in range(pictures)]
    return {"role": role, "content": [*images, {"type": "text", "text": text}]}


def candidate(index: int, action: str, *points: tuple[float, float], thought: str = "", **more: Any) -> Record:
    """``points`` in pixels of the screenshot; two of them are the ends of a drag."""
    names = ("start_point", "end_point") if len(points) == 2 else ["point"] * len(points)
    return {
        "index": index,
        "thought": thought,
        "action": action,
        "response": f"<think>{thought}</think><action>{action}</action>",
        "parse_error": None,
        "verbs": [action.partition("(")[0]],
        "same_as": None,
        "element_index": None,
        "points": [{"name": name, "x": x, "y": y} for name, (x, y) in zip(names, points, strict=True)],
        "finish_reason": "stop",
        **more,
    }


class Made:
    """Pages of candidates on pictures, one item or more on each."""

    def __init__(self, digest: str = "ab" * 32) -> None:
        self.pictures: dict[str, bytes] = {}
        self.data: Record = {
            "gallery": 1,
            "title": "someone/toy v1.0.0",
            "subtitle": "build/toy",
            "dataset": "someone/toy",
            "version": "1.0.0",
            "identity_sha256": digest,
            "strata": [],
            **{name: {} for name in ("states", "sets", "labels", "pictures", "left_out")},
            "items": [],
        }

    @property
    def items(self) -> list[Record]:
        return list(self.data["items"])

    def picture(self, image: Image.Image | bytes) -> str:
        """Keep a picture; returns the hex sha256 by which it is named."""
        if isinstance(image, Image.Image):
            buffer = io.BytesIO()
            image.save(buffer, "PNG")
            image = buffer.getvalue()
        sha256 = hashlib.sha256(image).hexdigest()
        with Image.open(io.BytesIO(image)) as opened:
            facts = {"type": "image/png", "bytes": len(image), "width": opened.width, "height": opened.height}
        self.data["pictures"][sha256], self.pictures[sha256] = facts, image
        return sha256

    def state(self, name: str, picture: str | None = None, **more: Any) -> str:
        size = self.data["pictures"].get(picture, {})
        self.data["states"][name] = {
            "task": f"Task of {name}.",
            "url": f"https://shop.example/{name}",
            "host": "shop.example",
            "turn": 0,
            "episode_id": name,
            "episode_outcome": None,
            "history": [],
            "screenshot": picture,
            "width": size.get("width"),
            "height": size.get("height"),
            "observation_text": None,
            "elements": [],
            **more,
        }
        return name

    def draw(self, state_id: str, *candidates: Record) -> str:
        set_id = f"{state_id}#d0"
        self.data["sets"][set_id] = {"draw": 0, "actor": "actor", "temperature": 1.0, "candidates": list(candidates)}
        return set_id

    def label(self, set_id: str, pick: int | None, **more: Any) -> str:
        """``pick``: the teacher's candidate (0-based); None: it picked nothing."""
        label_id = f"{set_id}|teacher|-|0"
        self.data["labels"][label_id] = {
            "teacher": "teacher",
            "status": "none_fit" if pick is None else "ok",
            "selected_index": pick,
            "tie_indices": [],
            "reasoning": f"Reasoning of {label_id}.",
            "order": None,
            "repeat": 0,
            "prompt_id": "selection/1",
            "reply": "reply",
            **more,
        }
        return label_id

    def item(
        self, item_id: str, table: str, state: str | None, set_: str | None, label: str | None, **more: Any
    ) -> str:
        """An item of a state, set and label, in the split train; ``facets`` add to those that follow from these."""
        told = self.data["labels"].get(label)
        candidates = self.data["sets"].get(set_, {"candidates": []})["candidates"]
        facets = {
            "table": table,
            "split": more.get("split", "train"),
            "pair_type": None,
            "reason": (more.get("excluded") or {}).get("reason"),
            "host": self.data["states"][state]["host"] if state else None,
            "verbs": sorted({verb for one in candidates for verb in one["verbs"]}),
            "status": told and told["status"],
            "tie": None if not told or told["selected_index"] is None else "tie" if told["tie_indices"] else "no tie",
        }
        self.data["items"].append({
            "id": item_id,
            "table": table,
            "excluded": None,
            "split": "train",
            "state_id": state,
            "set_id": set_,
            "label_id": label,
            "chosen_index": told and told["selected_index"],
            "rejected_index": None,
            "order": None,
            "facts": [],
            "prompt": None,
            "replies": [],
            "prompt_id": None,
            "prompt_sha256": None,
            "rendered_sha256": None,
            "images": [],
            "earlier": [],
            **more,
            "facets": {**facets, **more.get("facets", {})},
        })  # fmt: skip
        return item_id

    def scene(self, name: str, *candidates: Record, pick: int | None = 0, picture: str | None = None) -> str:
        """A state with a set, a label and one selection row, whose id is returned."""
        state = self.state(name, picture)
        set_id = self.draw(state, *candidates)
        return self.item(f"row of {name}", "selection_sft", state, set_id, self.label(set_id, pick))
