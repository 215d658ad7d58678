"""Generated data in the shape of the first public release, with its faults planted: each is found and counted."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest
from action_reward_models.builders.reader import check
from action_reward_models.registry import Registry
from action_reward_models.schemas.built import built_rows
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.store import TABLES

GENERATOR = Path(__file__).parents[2] / "benchmarks" / "make_release.py"
REGISTRY = """\
registry: 1
namespace: someone
datasets:
  - name: release
    version: "1.0.0"
    license: other
    sources:
      - {{kind: states, format: first_release, path: states_full.jsonl, dialect: openwebrl, space: norm1000}}
      - {{kind: candidate_sets, format: first_release, path: candidates_merged.jsonl,
         dialect: openwebrl, space: norm1000, sampling: {{top_p: 0.9, max_tokens: 1024}}{conflict}}}
      - {{kind: teacher_labels, format: first_release, path: labels_drawlevel.jsonl}}
    split: {{validation: 0.1, seed: 42}}
    shards: 3
    tables:
      states: {{}}
      candidate_sets: {{}}
      teacher_labels: {{}}
      selection_sft: {{prompt: selection/1, images: reference}}
      bt_pairs: {{prompt: scalar/1, images: reference}}
"""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("release")
    subprocess.run([sys.executable, str(GENERATOR), str(folder), "--scale", "0.02"], check=True, capture_output=True)
    (folder / "registry.yaml").write_text(REGISTRY.format(conflict=", on_conflict: quarantine"), "utf-8")
    Registry.load(folder).build(workers=1)
    planted: dict[str, Any] = orjson.loads((folder / "planted.json").read_bytes())
    return folder, planted


def read(folder: Path, table: str) -> list[dict[str, Any]]:
    files = sorted((folder / "build" / "release" / "data" / table).glob("*.parquet"))
    return [row for path in files for row in built_rows(path, TABLES[table])]


def test_conflicting_ids_stop_a_build_and_name_both_lines(release: tuple[Path, dict[str, Any]]) -> None:
    """A rerun appended a second `#d0`: ids that exist twice with different candidates."""
    folder, planted = release
    strict = folder / "strict.yaml"
    strict.write_text(REGISTRY.format(conflict=""), "utf-8")
    with pytest.raises(ArmError) as caught:
        Registry.load(strict).build(workers=1)
    assert len(caught.value.issues) == planted["conflicting_ids"]
    assert all(i.file == "candidates_merged.jsonl" and i.line for i in caught.value.issues)
    assert all("has other content in candidates_merged.jsonl:" in i.message for i in caught.value.issues)
    assert "on_conflict: quarantine" in str(caught.value)


def test_planted_faults_are_counted(release: tuple[Path, dict[str, Any]]) -> None:
    folder, planted = release
    manifest = orjson.loads((folder / "build" / "release" / "manifest.json").read_bytes())
    ledger = manifest["identity"]["ledger"]
    assert ledger["states"]["out"] == planted["states"]
    assert ledger["candidate_sets"]["in"] == planted["candidate_records"]
    assert ledger["candidate_sets"]["excluded"] == {"conflicting_id": 2 * planted["conflicting_ids"]}
    assert ledger["teacher_labels"]["in"] == planted["labels"]
    labels = read(folder, "teacher_labels")
    lost = ledger["teacher_labels"]["excluded"].get("no_candidate_set", 0)
    assert len(labels) == planted["labels"] - lost
    assert Counter(row["status"] for row in labels)["null_in_source"] <= planted["null_labels"]
    assert len({row["screenshot_sha256"] for row in read(folder, "states")}) == planted["images"]
    assert check(folder / "build" / "release") == []


def test_what_the_source_does_not_say_stays_null(release: tuple[Path, dict[str, Any]]) -> None:
    """No teacher, prompt, order or finish reason is invented; a declared constant is taken, a recorded field wins."""
    folder, _ = release
    for label in read(folder, "teacher_labels"):
        assert (label["teacher"], label["prompt_id"], label["order"], label["reply"]) == (None, None, None, None)
    sampling = Counter((s["sampling"]["temperature"], s["sampling"]["top_p"]) for s in read(folder, "candidate_sets"))
    assert set(sampling) == {(0.7, 0.9), (1.0, 0.9)}
    assert {c["finish_reason"] for s in read(folder, "candidate_sets") for c in s["candidates"]} == {None}


def test_no_pair_has_one_action_on_both_sides(release: tuple[Path, dict[str, Any]]) -> None:
    """A quarter of one lab's pairs had the same executable action on both sides, in other words."""
    folder, _ = release
    sets = {row["set_id"]: row["candidates"] for row in read(folder, "candidate_sets")}
    pairs = read(folder, "bt_pairs")
    assert pairs
    for pair in pairs:
        chosen, rejected = (sets[pair["set_id"]][pair[side]] for side in ("chosen_index", "rejected_index"))
        assert chosen["action_key"] != rejected["action_key"]
        assert chosen["parse_error"] is None
    losers = Counter((p["label_id"], sets[p["set_id"]][p["rejected_index"]]["action_key"]) for p in pairs)
    assert set(losers.values()) == {1}
    assert max(Counter(p["label_id"] for p in pairs).values()) == 2


def test_the_teachers_slot_habit_is_not_in_the_prompts(release: tuple[Path, dict[str, Any]]) -> None:
    """Unshuffled candidates teach the habit: the planted teacher picks the first two slots in 60 % of the sets."""
    folder, _ = release
    labels = [row["selected_index"] for row in read(folder, "teacher_labels") if row["status"] == "ok"]
    assert sum(i < 2 for i in labels) / len(labels) > 0.5
    sft = [row for row in read(folder, "selection_sft") if len(row["order"]) == 5]
    shown = [int(row["completion"][0]["content"][0]["text"].split(": ")[1][:-1]) for row in sft]
    assert 0.3 < sum(n <= 2 for n in shown) / len(shown) < 0.5


def test_prompts_hold_no_turn_boundary(release: tuple[Path, dict[str, Any]]) -> None:
    """Raw responses end in `<|im_end|>`, which inside a user message is a real turn boundary."""
    folder, _ = release
    raw = [c["response"] for s in read(folder, "candidate_sets") for c in s["candidates"]]
    assert any(r.endswith("<|im_end|>") for r in raw)  # verbatim in the candidates
    for row in [*read(folder, "selection_sft"), *read(folder, "bt_pairs")]:
        text = str([row["prompt"], row.get("completion"), row.get("chosen"), row.get("rejected")])
        assert "<|" not in text


def test_labels_without_the_draw_are_refused(release: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    """`labels.jsonl` drops the draw, so that its labels could be joined to the wrong candidates."""
    folder, _ = release
    text = REGISTRY.format(conflict=", on_conflict: quarantine").replace("path: ", f"path: {folder}/")
    lines = (folder / "labels_drawlevel.jsonl").read_bytes().splitlines()
    base = [{**(r := orjson.loads(line)), "state_id": r["state_id"].rsplit("#", 1)[0]} for line in lines]
    (tmp_path / "base.jsonl").write_bytes(b"\n".join(map(orjson.dumps, base)))
    registry = tmp_path / "registry.yaml"
    registry.write_text(text.replace(f"{folder}/labels_drawlevel.jsonl", "base.jsonl"), "utf-8")
    with pytest.raises(ArmError) as caught:
        Registry.load(registry).build(workers=1)
    assert len(caught.value.issues) == len(base)
    assert "is a state, not a draw" in caught.value.issues[0].message


@pytest.mark.slow
def test_workers_change_nothing_at_a_tenth_of_the_release(tmp_path: Path) -> None:
    """Several buckets by size, not by declaration; one, two and three processes; the same bytes."""
    subprocess.run([sys.executable, str(GENERATOR), str(tmp_path), "--scale", "0.3"], check=True, capture_output=True)
    text = REGISTRY.format(conflict=", on_conflict: quarantine").replace("    shards: 3\n", "")
    (tmp_path / "registry.yaml").write_text(text, "utf-8")
    registry = Registry.load(tmp_path)
    made = []
    for workers in (1, 2, 3):
        built, _ = registry.build(out=tmp_path / f"out{workers}", workers=workers)
        assert built is not None
        made.append((built.manifest["identity"], built.manifest["environment"]["files"]))
    assert made[0][0]["parameters"]["shards"] > 1
    assert made[0] == made[1] == made[2]
    assert check(tmp_path / "out3") == []
