"""What `arm diff` and `arm plan` print of a comparison, and that what a dataset says cannot steer a terminal."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest
from action_reward_models.cli import arm, diff_report
from action_reward_models.registry.diff import Side, compare
from action_reward_models.registry.diff.model import Change
from action_reward_models.schemas.errors import UsageError
from action_reward_models.schemas.store import TABLES
from click.testing import CliRunner

from ..hub_sync.conftest import Publisher
from ..registry.diff import tiny

HOSTILE = "\x1b]0;owned\x07\r\x1b[2J\u202e\nnothing differs"


@pytest.fixture
def flipped(tmp_path: Path) -> tuple[Path, Path]:
    """Two builds of one registry; the second has one flipped label, one state more and a person's line on the card."""
    publisher = Publisher(tmp_path / "registry", picks=[0, 1, 0])
    before = shutil.copytree(publisher.build(), tmp_path / "before")
    publisher.picks, publisher.version = [0, 0, 0, 1], "1.1.0"
    after = publisher.build()
    (after / "README.md").write_text((after / "README.md").read_text("utf-8") + "Ask me.\n", "utf-8")
    return before, after


def test_report(flipped: tuple[Path, Path]) -> None:
    done = CliRunner().invoke(arm, ["diff", *map(str, flipped)])
    assert done.exit_code == 0, done.output
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "states train 1 0 3" in lines
    assert "teacher_labels train 1 1 2" in lines
    assert "1 label flip (candidates count from 0):" in lines
    assert "e1__t0#d0|toy|-|0: 1 click(7, 7) -> 0 click(1, 1)" in lines
    assert "rows of selection_sft that follow from them: 1 of 1 changed, 0 of 1 added" in lines
    assert 'completion[0].content[0].text: {"selection": 1} -> {"selection": 2}' in lines or (
        'completion[0].content[0].text: {"selection": 2} -> {"selection": 1}' in lines
    )
    assert "states, added: e3__t0" in lines
    assert "version: 1.0.0 -> 1.1.0" in lines
    assert lines[lines.index("the card, a person's words:") + 1] == "+Ask me."
    assert any(line.startswith("the card, generated:") for line in lines)


def test_report_of_a_first_publication(flipped: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Counts, and the words of a person: everything else is new."""
    with Side.folder(flipped[1]) as side:
        diff_report.show(compare(None, side))
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "states train 4" in lines
    assert lines[-2:] == ["the card, a person's words:", "+Ask me."]
    assert not any(line.startswith(("version", "prompts", "sources", "states schema")) for line in lines)


def test_json_and_limit(flipped: tuple[Path, Path]) -> None:
    done = CliRunner().invoke(arm, ["diff", *map(str, flipped), "--json", "--limit", "0"])
    found = orjson.loads(done.stdout)
    assert found["empty"] is False
    assert found["label_flips"] == {"total": 1, "first": [], "left_out": 1}
    assert found["tables"]["teacher_labels"]["rows"]["changed"] == 1
    assert found["tables"]["selection_sft"]["follows_flips"] == {"added": 0, "removed": 0, "changed": 1}
    same = CliRunner().invoke(arm, ["diff", str(flipped[0]), str(flipped[0])])
    assert same.stdout == "nothing differs\n"


def test_a_dataset_by_its_name(flipped: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(flipped[1].parent.parent)
    done = CliRunner().invoke(arm, ["diff", str(flipped[1]), "toy"])
    assert done.stdout == "nothing differs\n"
    shutil.rmtree("build")
    unbuilt = CliRunner().invoke(arm, ["diff", str(flipped[0]), "toy"])
    assert "toy is not built yet" in str(unbuilt.exception)
    assert "arm build --name toy" in str(unbuilt.exception)
    monkeypatch.chdir("..")
    nowhere = CliRunner().invoke(arm, ["diff", "toy", "toy"])
    assert isinstance(nowhere.exception, UsageError)


def test_hostile_text_stays_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ids, values, file names, parameters and the card of a stranger's dataset."""
    draw = random.Random(2)
    before: tiny.Tables = {name: [tiny.row(name, n, draw) for n in range(8)] for name in TABLES}
    after: tiny.Tables = {name: [dict(row) for row in rows] for name, rows in before.items()}
    texts = {"states": "task", "candidate_sets": "dialect", "teacher_labels": "reply", "exclusions": "source_table"}
    for table, field in texts.items():
        after[table][0][field] = f"{HOSTILE} {table}"
    for row, status in ((before["teacher_labels"][1], "ok"), (after["teacher_labels"][1], "error")):
        row |= {"status": status, "label_id": f"label {HOSTILE}", "split": "train"}
    after["bt_pairs"].append({**tiny.row("bt_pairs", 99, draw), "pair_id": f"pair {HOSTILE}"})
    identity = {"parameters": {HOSTILE: HOSTILE}, "license": HOSTILE}
    sides = tiny.write(tmp_path / "a", before, draw), tiny.write(tmp_path / "b", after, draw, identity=identity)
    (sides[1] / "README.md").write_text(f"{HOSTILE} card", "utf-8")
    with Side.folder(sides[0]) as old, Side.folder(sides[1]) as new:
        diff_report.show(compare(old, new))
    shown = capsys.readouterr().out
    assert not {c for c in shown if not c.isprintable()} - {"\n"}
    assert "nothing differs" not in shown.splitlines()
    for said in ("label ", "pair ", "task", "license", "parameters."):
        assert f"{said}" in shown
    assert shown.count("owned") > 6


EXCERPTS: list[tuple[Any, Any, tuple[str, str]]] = [
    ("a", "b", ("a", "b")),
    ("", "b", ('""', "b")),
    (None, 3, ("null", "3")),
    (["a\nb"], [], ('["a\\nb"]', "[]")),
    ("line\nline", "line", ("line\\nline", "line")),
    ("x" * 100 + "a", "x" * 100 + "b", ("…" + "x" * 20 + "a", "…" + "x" * 20 + "b")),
    ("x" * 100, "y", ("x" * 60 + "…", "y")),
]


@pytest.mark.parametrize(("before", "after", "expected"), EXCERPTS)
def test_excerpts(before: Any, after: Any, expected: tuple[str, str]) -> None:
    assert diff_report.excerpts(before, after) == expected


def test_many_changes_are_cut(capsys: pytest.CaptureFixture[str]) -> None:
    diff_report._changes([Change(f"f{n}", 0, 1) for n in range(9)], "", 4)
    assert capsys.readouterr().out.splitlines()[-1] == "... and 5 more; --json lists more of them"
