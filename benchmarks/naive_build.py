"""What a build costs when nothing is checked: the straightforward script that `build.py` runs beside ours.

    python benchmarks/naive_build.py RELEASE OUT

Reads everything into memory, joins by id (the last record of an id wins), renders prompts with f-strings, splits by a
stateful generator, and writes selection_sft, bt_pairs and states with pyarrow, screenshots once.
"""

from __future__ import annotations

import json
import random
import re
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

REQUEST = re.compile(r"<user_request>(.*?)</user_request>", re.S)


def read(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def split(response: str) -> tuple[str, str]:
    thought, closed, action = response.partition("</think>")
    if not closed:
        return "", response
    return thought.strip(), action.replace("<|im_end|>", "").strip()


def main(release: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    states = {row["state_id"]: row for row in read(release / "states_full.jsonl")}
    sets = {row["state_id"]: row for row in read(release / "candidates_merged.jsonl")}
    rng = random.Random(42)
    sft, pairs = [], []
    for label in read(release / "labels_drawlevel.jsonl"):
        set_id, pick = label["state_id"], label["selection"]
        state = states.get(set_id.partition("#")[0])
        if pick is None or state is None or set_id not in sets:
            continue
        options = [split(response) for response in sets[set_id]["candidates"]]
        request = REQUEST.search(state["prompt_text"])
        task = request[1].strip() if request else ""
        listed = "\n".join(f"{n}. {action}\n   {thought}" for n, (thought, action) in enumerate(options, 1))
        shared = {"split": "validation" if rng.random() < 0.02 else "train", "image": state["images"][-1]}
        sft.append({
            "id": set_id, **shared,
            "prompt": f"Task: {task}\n<image>\nCandidates:\n{listed}\nReply with the number of the best one.",
            "completion": json.dumps({"selection": pick + 1}),
        })  # fmt: skip
        losers = [option for option in options if option[1] != options[pick][1]]
        rng.shuffle(losers)
        for number, (thought, action) in enumerate(losers[:2]):
            pairs.append({
                "id": f"{set_id}-{number}", **shared,
                "prompt": f"Task: {task}\n<image>\nJudge the action.",
                "chosen": f"{options[pick][1]}\n{options[pick][0]}",
                "rejected": f"{action}\n{thought}",
            })  # fmt: skip
    for name, rows in (("selection_sft", sft), ("bt_pairs", pairs)):
        rows.sort(key=lambda row: str(row["id"]))
        pq.write_table(pa.Table.from_pylist(rows), out / f"{name}.parquet", compression="zstd")
    ids = sorted(states)
    images = [(release / states[state_id]["images"][-1]).read_bytes() for state_id in ids]
    pq.write_table(pa.table({"state_id": ids, "image": images}), out / "states.parquet")
    print(json.dumps({"states": len(ids), "selection_sft": len(sft), "bt_pairs": len(pairs)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
