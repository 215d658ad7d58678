"""Validation of candidate sets against plain `jsonschema`, on the same rows with the same schema, in CPU seconds.

python benchmarks/validate.py [--json]
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable
from typing import Any

import jsonschema
from action_reward_models.builders import candidate_sets
from action_reward_models.builders.spec import SourceSpec
from action_reward_models.schemas.actions import View
from action_reward_models.schemas.store import load
from action_reward_models.schemas.validate import for_schema

AT_LEAST = 50.0  # times as fast
SCHEMA = "candidate_set/1"


def rows(count: int) -> list[dict[str, Any]]:
    """Candidate sets as the builder makes them: five candidates, thoughts of 40 words."""
    draw = random.Random(0)
    source = SourceSpec("candidate_sets", "first_release", (), "mit", "openwebrl", "norm1000")
    view = View("norm1000", 1280, 720, ())

    def response() -> str:
        thought = " ".join("".join(draw.choices("etaoinshr", k=6)) for _ in range(40))
        call = {"name": "click", "arguments": {"point_2d": [draw.randrange(1001), draw.randrange(1001)]}}
        return f"{thought}\n</think>\n\n<tool_call>\n{json.dumps(call)}\n</tool_call>"

    made = []
    for number in range(count):
        imported = {
            "set_id": f"task{number}__t0#d0",
            "state_id": f"task{number}__t0",
            "draw": 0,
            "sampling": {"temperature": 0.7},
            "responses": [response() for _ in range(5)],
            "source_record_json": None,
        }
        provenance = {"file": "candidates.jsonl", "record_sha256": f"{number:064x}"}
        made.append(candidate_sets.build(imported, source, provenance, "train", view)[0])
    return made


def seconds_per_row(check: Callable[[Any], bool], made: list[dict[str, Any]], seconds: float) -> float:
    """CPU seconds, averaged over whole passes that together last at least ``seconds``."""
    started, passes = time.process_time(), 0
    while (spent := time.process_time() - started) < seconds:
        assert all(map(check, made))
        passes += 1
    return spent / passes / len(made)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    made = rows(2000)
    ours, plain = for_schema(SCHEMA), jsonschema.Draft202012Validator(load(SCHEMA))
    broken = {**made[0], "candidates": [{**made[0]["candidates"][0], "index": "0"}]}
    assert not ours.is_valid(broken)
    assert not plain.is_valid(broken)
    slow = seconds_per_row(plain.is_valid, made[:100], 2.0)
    fast = seconds_per_row(lambda row: not ours.problems(row), made, 2.0)
    note = f"{1 / fast:,.0f} rows/s against {1 / slow:,.0f}"
    lines = [{"name": "validate: jsonschema / ours, CPU", "value": slow / fast, "at_least": AT_LEAST, "note": note}]
    if parser.parse_args().json:
        print(json.dumps(lines))
        return
    for line in lines:
        print(f"{line['name']:45} {line['value']:10.2f}  {line['note']}")


if __name__ == "__main__":
    main()
