"""Tokens at serving beside those of training, and the README's lines. For a process with torch, after `publishing`."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from action_reward_models.inference.processor import Encoded
from action_reward_models.inference.scalar import ScalarRewardModel
from action_reward_models.inference.selection import SelectionARM, Written
from action_reward_models.recipes.inputs import Inputs
from action_reward_models.recipes.rows import Rows, prepare
from action_reward_models.recipes.trainers.batches import Replies, Scored
from action_reward_models.schemas.built import BuiltTables

README = Path(__file__).parents[2] / "README.md"
Seen = tuple[tuple[int, ...], tuple[str, ...]]  # token ids, hashes of the pictures


def compared(model: Any, inputs: Inputs, work: Path) -> dict[str, Any]:
    """Every row of the recipe's split, as training fed it and as the model is fed when it is asked the same again.

    Asked is a JSON text with what the published tables say of state and candidates; the words of the prompt in the
    training table are not looked at.
    """
    scalar = inputs.recipe.kind == "scalar"
    rows = prepare(inputs, model.processor, work)
    tables = BuiltTables.of(inputs.dataset, lambda *_: None, "reading")
    table = {row["pair_id" if scalar else "row_id"]: row for row in tables.rows(inputs.recipe.table)}
    wanted = {table[rows[unit].id]["set_id"] for unit in range(len(rows))}
    served = serve(model, tables, wanted)
    told: dict[str, Any] = {"rows": len(rows), "tokens": 0, "pictures": 0, "differ": []}
    for unit in range(len(rows)):
        row = table[rows[unit].id]
        trained = as_trained(rows, unit, model.processor, scalar=scalar)
        asked = served[row["set_id"]]
        found = [asked[row["chosen_index"]], asked[row["rejected_index"]]] if scalar else asked
        told["tokens"] += sum(len(ids) for ids, _ in trained)
        told["pictures"] += sum(len(pictures) for _, pictures in trained)
        if found != trained:
            told["differ"].append(rows[unit].id)
    return told


def as_trained(rows: Rows, unit: int, processor: Any, *, scalar: bool) -> list[Seen]:
    """What the trainer's own collator makes of one row: both sides of a pair, or the prompt of a selection row."""
    batch: Mapping[str, Any] = (Scored(rows, processor, "bt") if scalar else Replies(rows, processor))([{"unit": unit}])
    learned = batch.get("labels", batch["input_ids"].new_full(batch["input_ids"].shape, -100))
    shown = batch["attention_mask"].bool() & (learned == -100)
    ids = [tuple(line[there].tolist()) for line, there in zip(batch["input_ids"], shown, strict=True)]
    values = batch["pixel_values"]  # (patches of all conversations, values)
    assert len(values) % len(ids) == 0, "both sides of a pair show the same pictures"
    return [(one, (digest(part),)) for one, part in zip(ids, values.chunk(len(ids)), strict=True)]


def serve(model: Any, tables: BuiltTables, wanted: set[str]) -> dict[str, list[Seen]]:
    """Candidate set -> what the model is fed, in the order of its candidates; one prompt of a selection ARM."""
    pictures: dict[str, bytes] = {}
    sets = [row for row in tables.rows("candidate_sets") if row["set_id"] in wanted]
    states = {row["state_id"]: row for row in tables.rows("states", pictures.__setitem__)}
    fed: list[Encoded] = []
    if isinstance(model, ScalarRewardModel):

        def score_sets(given: Sequence[Sequence[Encoded]]) -> list[list[float]]:
            fed.extend(row for rows in given for row in rows)
            return [[float(place) for place in range(len(rows))] for rows in given]

        vars(model)["score_sets"] = score_sets
    else:
        assert isinstance(model, SelectionARM)

        def write(given: Sequence[Encoded], **_: Any) -> list[Written]:
            fed.extend(given)
            return [Written('{"selection": 1}', "stop") for _ in given]

        vars(model)["write"] = write
    made = {}
    for set_row in sets:
        text = json.dumps(asked(states[set_row["state_id"]], set_row, pictures))
        fed.clear()
        (choice,) = model.choose_many([model.read(json.loads(text))])
        assert choice.status == "ok", choice
        made[set_row["set_id"]] = [
            (row.input_ids, tuple(digest(one["pixel_values"]) for one in row.pictures)) for row in fed
        ]
    return made


def asked(state: Mapping[str, Any], set_row: Mapping[str, Any], pictures: Mapping[str, bytes]) -> dict[str, Any]:
    """The question as a person or an agent would write it. Its id is that of the set, which decides the order."""
    names = ("action", "thought", "observation")
    return {
        "id": set_row["set_id"],
        "state": {
            **{name: state[name] for name in ("task", "url", "turn", "observation_text", "elements")},
            "history": [{name: turn[name] for name in names} for turn in state["history"]],
            "screenshot": "data:image/png;base64," + base64.b64encode(pictures[state["screenshot"]]).decode(),
        },
        "candidates": [candidate["response"] for candidate in set_row["candidates"]],
    }


def digest(values: Any) -> str:
    """Of the patches of a picture, as the model gets them."""
    return hashlib.sha256(values.contiguous().numpy().tobytes()).hexdigest()


def readme(screenshot: bytes) -> dict[str, Any]:
    """What the README's lines come to that pick an action; ``screenshot`` is what they show."""
    (lines,) = [block for block in re.findall(r"^```python\n(.*?)^```", README.read_text("utf-8"), re.S | re.M)
                if "choose(" in block]  # fmt: skip
    known: dict[str, Any] = {"screenshot": screenshot}
    exec(compile(lines, "README.md", "exec"), known)
    choice = known["choice"].to_json()
    return {"lines": len([line for line in lines.splitlines() if line.strip()]), "choice": choice}
