"""What is asked of a build: which sets, in which orders, beside which baselines."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.builders.audits import baselines as audits
from action_reward_models.inference.rendering import prompts_in
from action_reward_models.recipes.evaluation import baselines
from action_reward_models.recipes.evaluation.items import Items, Pictures, Reading, _facts, trained_groups
from action_reward_models.schemas.actions import View, parse
from action_reward_models.schemas.built import BuiltTables
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.manifest import manifest_of


def asked(dataset: Path, work: Path, kind: str = "selection_arm", split: str = "train", **more: Any) -> Items:
    (prompt,) = [p for p in prompts_in(dataset) if p.kind == ("selection" if kind == "selection_arm" else "scalar")]
    work.mkdir(exist_ok=True)
    given: dict[str, Any] = {"orders": 1, "max_items": None, "trained": (), **more}
    return Reading(
        dataset, split, kind, prompt, prompt.sha256, given["orders"], given["max_items"], given["trained"],
        Pictures(work),
    ).read()  # fmt: skip


def without(dataset: Path, folder: Path, *tables: str) -> Path:
    """The build as if it had been made without these tables."""
    shutil.copytree(dataset, folder)
    manifest = json.loads((folder / "manifest.json").read_bytes())
    for table in tables:
        del manifest["identity"]["tables"][table]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def test_sets_are_those_of_which_rows_were_made(dataset: Path, tmp_path: Path) -> None:
    rows = {row["set_id"]: row for row in BuiltTables.of(dataset, lambda *_: None, "").rows("selection_sft")}
    total = 0
    for split in ("train", "validation"):
        items = asked(dataset, tmp_path / split, split=split)
        held = {set_id: row for set_id, row in rows.items() if row["split"] == split}
        assert {item.set_row["set_id"]: item.orders[0] for item in items.sets} == {
            set_id: row["order"] for set_id, row in held.items()
        }
        for item in items.sets:
            row = held[item.set_row["set_id"]]
            number = int(json.loads(row["completion"][-1]["content"][-1]["text"])["selection"])
            actions = item.facts["action_index"]
            assert actions[row["order"][number - 1]] == actions[item.facts["reference_index"]]
        total += sum(items.left_out.values())
    excluded = manifest_of(dataset)["identity"]["ledger"]["selection_sft"]["excluded"]
    assert total == sum(excluded.values()) == 21


def test_without_rows_the_rule_of_the_build_decides(dataset: Path, tmp_path: Path) -> None:
    """A build with pairs alone is asked about in the same order and with the same references."""
    whole = asked(dataset, tmp_path / "a")
    bare = asked(without(dataset, tmp_path / "bare", "selection_sft"), tmp_path / "b")
    assert len(whole.sets) == 88
    assert [(item.orders, item.facts) for item in bare.sets] == [(item.orders, item.facts) for item in whole.sets]
    assert bare.left_out == whole.left_out
    assert (whole.teacher, bare.teacher) == ("scripted-solver", "scripted-solver")


def test_a_build_without_its_tables_is_refused(dataset: Path, tmp_path: Path) -> None:
    bare = without(dataset, tmp_path / "bare", "teacher_labels")
    with pytest.raises(ArmError, match="has no table teacher_labels") as error:
        asked(bare, tmp_path / "a")
    assert error.value.next_command == "tables: {teacher_labels: {}}   # of the dataset, in registry.yaml"
    scored = asked(bare, tmp_path / "b", kind="scalar")  # its pairs can be asked
    assert (len(scored.sets), len(scored.pairs)) == (0, 167)


def test_pictures_are_found_in_the_build_or_missed(dataset: Path, tmp_path: Path) -> None:
    asked(dataset, tmp_path / "a")
    found = Pictures(tmp_path / "a")
    name = next((tmp_path / "a").iterdir()).name
    assert found.get([f"sha256:{name}", name]) == [(tmp_path / "a" / name).read_bytes()] * 2
    with pytest.raises(ArmError, match="is in none of the tables"):
        found.get(["sha256:" + "0" * 64])


@pytest.mark.parametrize(("kind", "read", "held"), [("selection_arm", "columns", "selection_sft"),
                                                    ("scalar", "rows", "bt_pairs")])  # fmt: skip
def test_rows_that_show_something_else_stop_it(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, read: str, held: str
) -> None:
    """As when a build was made with another renderer of the same version."""
    rows = getattr(BuiltTables, read)

    def changed(self: BuiltTables, table: str, *args: Any) -> Any:
        for row in rows(self, table, *args):
            yield {**row, "rendered_sha256": "0" * 64} if table == held else row

    monkeypatch.setattr(BuiltTables, read, changed)
    with pytest.raises(ArmError, match=r"000000000000 in the data and [0-9a-f]{12} as it is rendered here"):
        asked(dataset, tmp_path / "a", kind=kind)


def test_at_most_so_many_sets_and_always_the_same(dataset: Path, tmp_path: Path) -> None:
    few = asked(dataset, tmp_path / "a", kind="scalar", max_items=7)
    more = asked(dataset, tmp_path / "b", kind="scalar", max_items=20)
    names = [{item.set_row["set_id"] for item in items.sets} for items in (few, more)]
    assert (len(names[0]), len(names[1])) == (7, 20)
    assert names[0] < names[1]
    assert {pair.row["set_id"] for pair in few.pairs} <= names[0]
    assert few.left_out["over_max_items"] == 88 - 7
    assert len(few.pairs) + few.pairs_left_out["over_max_items"] == 167


def test_tasks_of_the_other_split_are_known(dataset: Path, tmp_path: Path) -> None:
    train, held = (trained_groups(dataset, split) for split in ("train", "validation"))
    assert train
    assert held
    assert not train & held
    assert not asked(dataset, tmp_path / "a", trained=train).sets
    scored = asked(dataset, tmp_path / "c", kind="scalar", trained=train)
    assert (scored.pairs, scored.pairs_left_out) == ([], {"task_in_train": 167})
    assert len(asked(dataset, tmp_path / "b", trained=held).sets) == 88


def test_what_is_near_the_reference_is_said() -> None:
    texts = ("click(100, 100)", "click(103, 100)", 'type(5, 5, "a")', "click(100, 100)", "click(900, 100)", "what?")
    parsed = [parse("function", text) for text in texts]
    state = {"state_id": "s", "host": None, "turn": 3, "task": "type a"}
    facts = _facts(state, parsed, View("pixel", 1000, 1000), 0, thoughts=False)
    assert facts["action_index"] == [0, 1, 2, 0, 4, 5]
    assert facts["near_index"] == [1]
    assert (facts["verb"], facts["turn"], facts["host"]) == ("click", 3, None)
    assert facts["picks"] == [
        {"name": "first", "index": 0}, {"name": "most_common", "index": 0}, {"name": "word_overlap", "index": 2},
    ]  # fmt: skip
    several = parse("openwebrl", "".join(
        f'<tool_call>{{"name": "{name}", "arguments": {arguments}}}</tool_call>'
        for name, arguments in (("click", '{"point_2d": [1, 2]}'), ("wait", '{"seconds": 1}'))
    ))  # fmt: skip
    assert several.calls
    assert _facts(state, [several, parsed[5]], View("norm1000", 10, 10), 0, thoughts=True)["verb"] == "several"
    assert _facts(state, [several, parsed[5]], View("norm1000", 10, 10), 1, thoughts=True)["verb"] is None


def test_baselines_pick_what_the_audits_of_data_say() -> None:
    """Other code of the same meaning, on texts of few words, so that much ties."""
    dice = random.Random(4)
    words = ["open", "THE", "menu", "x", "straße", "9"]
    for _ in range(300):
        texts = [" ".join(dice.choices(words, k=dice.randrange(1, 5))) for _ in range(5)]
        thoughts = dice.random() < 0.5
        parsed = [replace(parse("text", text), thought=dice.choice(words)) for text in texts]
        keys = [candidate.key for candidate in parsed]
        task = " ".join(dice.choices(words, k=dice.randrange(4))) or None
        shown = sorted({keys.index(key) for key in keys})
        _, outcome = audits.outcomes(task, parsed, "01234", shown, thoughts=thoughts)
        picks = baselines.picks(task, parsed, [keys.index(key) for key in keys], thoughts=thoughts)
        assert "".join(map(str, picks)) == outcome.split()[3][:3], (task, texts)
