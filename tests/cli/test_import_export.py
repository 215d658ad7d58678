"""`arm import` and `arm export` as they are typed: words for a person, JSON for machines, nothing overwritten."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import orjson
import pytest
from action_reward_models.builders.exporters import EXPORTERS
from action_reward_models.builders.importers import IMPORTERS
from action_reward_models.cli import arm
from click.testing import CliRunner, Result

EXAMPLE = Path(__file__).parents[2] / "examples" / "miniwob"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with somebody's runs, and nothing else."""
    shutil.copytree(EXAMPLE / "data", tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(arm, words)


def test_what_a_person_reads(folder: Path) -> None:
    labels = folder / "runs" / "labels.jsonl"
    lines = labels.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b'"selection"', b'"selectoin"')
    labels.write_bytes(b"".join([*lines, lines[0]]))
    sets = (folder / "runs" / "candidates.jsonl").read_bytes().splitlines(keepends=True)
    again = orjson.loads(sets[4]) | {"candidates": ["<action>stop()</action>"], "temperature": 1}
    (folder / "runs" / "candidates.jsonl").write_bytes(b"".join([*sets, orjson.dumps(again), b"\n"]))
    (folder / "runs" / "notes.json").write_text("[1, 2]", "utf-8")
    done = run("import", "auto", "runs", "--out", "mine", "--teacher", "me", "--workers", "1")
    assert done.exit_code == 0, done.output
    shown = " ".join(done.output.split())
    for words in (
        "candidates.jsonl candidate_sets first_release 118 118 candidate_sets 0",
        "labels.jsonl teacher_labels first_release 118 117 teacher_labels 1",
        "distinct tasks 34",
        "distinct candidate sets 117",
        "refused runs/notes.json: 2 records of no known form",
        "first_release: dialect function, which reads 250 of 250 sampled responses; points are pixel",
        "of the 580 candidates that are taken, 580 (100.0%) are read",
        "temperature 1.0: 1 (0.8%), not recorded: 117 (99.2%)",
        "teacher me: 117 (100.0%)",
        "1 id of candidate_sets in conflict over 1 state, all of their records put aside:",
        f"{again['state_id']}: candidates.jsonl:5, candidates.jsonl:118",
        "not taken: labels.jsonl:4 $ lacks the field 'selection'",
        "not taken: labels.jsonl:4 $.selectoin is not a known field; did you mean 'selection'?",
        f"not taken: labels.jsonl:118 $ {orjson.loads(lines[0])['state_id']}|me|-|0: repeats labels.jsonl:1",
        "wrote mine/registry.yaml next: arm build mine/registry.yaml",
    ):
        assert words in shown, words
    built = run("build", "mine/registry.yaml", "--workers", "1")
    assert built.exit_code == 0, built.output


def test_what_a_machine_reads(folder: Path) -> None:
    done = run("import", "first_release", "runs/candidates.jsonl", "--json")
    assert done.exit_code == 1  # candidate sets alone are about nothing
    done = run(
        "import", "auto", "runs", "--json", "--actor", "a", "--top-p", "0.9", "--license", "mit", "--workers", "1"
    )
    report = orjson.loads(done.stdout)
    assert report["registry"] == "runs/registry.yaml"
    assert report["counts"]["candidate_sets"] == 117
    assert report["actors"] == [{"actor": "a", "records": 117, "share": 1.0}]
    assert (report["conflicts"], report["not_taken"], report["refused"]) == ([], [], [])
    text = (folder / "runs" / "registry.yaml").read_text("utf-8")
    assert "license: mit" in text
    assert "actor: a, sampling: {top_p: 0.9}" in text


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ("import auto runs --out taken", 1, "is there already and is not overwritten"),
        ("import nothing runs --out new", 1, "no format 'nothing'; there are auto, "),
        ("import auto none --out new", 2, "does not exist"),
        ("import auto runs --out new --score-source prm", 1, "score_source means nothing here"),
        ("import auto runs --out built", 1, "is a built directory, which holds nothing else"),
        ("import auto runs --out new --temperature hot", 2, "'hot' is not a valid float"),
        ("import auto runs --out new --on-conflict ask", 2, "is not one of 'error', 'quarantine'"),
        ("export nothing taken out", 1, "no format 'nothing'; there are first_release"),
        ("export first_release taken out", 1, "is no finished build"),
        ("export first_release nobody out", 1, "there is no registry.yaml here that could name it"),
    ],
)
def test_wrong_usage_writes_nothing(words: str, status: int, said: str, folder: Path) -> None:
    (folder / "taken").mkdir()
    (folder / "taken" / "registry.yaml").write_text("mine", "utf-8")
    (folder / "built").mkdir()
    (folder / "built" / "manifest.json").write_text("{}", "utf-8")
    done = run(*words.split())
    assert done.exit_code == status
    assert said in (done.output or str(done.exception)) + str(done.exception)
    assert not (folder / "new").exists()
    assert not (folder / "out").exists()
    assert (folder / "taken" / "registry.yaml").read_text("utf-8") == "mine"


def test_a_constant_that_no_registry_can_hold(folder: Path) -> None:
    done = run("import", "auto", "runs", "--out", ".", "--teacher", "me\nyou", "--workers", "1")
    assert done.exit_code == 1
    assert not (folder / "registry.yaml").exists()


def test_what_stops_a_build_is_checked_next(folder: Path) -> None:
    with (folder / "runs" / "labels.jsonl").open("ab") as file:
        file.write(b'{"state_id": "x')
    done = run("import", "auto", "runs", "--out", ".", "--on-invalid", "error", "--workers", "1")
    assert "next: arm validate registry.yaml" in done.output
    assert "a build stops at the broken records of 1 file" in done.output
    assert "not taken: runs/labels.jsonl:118 $ not JSON: " in done.output
    sets = (folder / "runs" / "candidates.jsonl").read_bytes().splitlines()
    again = orjson.loads(sets[0]) | {"candidates": ["<action>stop()</action>"]}
    (folder / "runs" / "candidates.jsonl").write_bytes(b"\n".join([*sets, orjson.dumps(again), b""]))
    done = run("import", "auto", "runs", "--out", "both", "--on-conflict", "error", "--workers", "1")
    assert "1 id of candidate_sets in conflict over 1 state, a build stops at them:" in done.output
    assert "put aside" not in done.output
    assert "next: arm validate both/registry.yaml" in done.output


def test_the_help_names_every_format() -> None:
    told = run("import", "--help").output
    for _, name in IMPORTERS:
        assert re.search(rf"\b{name}\b", told), name


def test_the_help_and_the_guide_name_every_export() -> None:
    told = run("export", "--help").output
    guide = (Path(__file__).parents[2] / "docs" / "exports.md").read_text("utf-8")
    for name in EXPORTERS:
        assert re.search(rf"^  {name} ", told, re.M), name
        assert f"| [`{name}`](#" in guide, name
        assert f"arm export {name} " in guide, name


def test_an_export_says_what_it_could_not_express(folder: Path) -> None:
    run("import", "auto", "runs", "--out", ".", "--workers", "1")
    assert run("build", "--workers", "1").exit_code == 0
    done = run("export", "first_release", "action-reward-models-data", "out")
    assert done.exit_code == 0, done.output
    assert "not expressed: 153 of states: has no prompt_text" in done.output
    assert "; --json lists them" in done.output
    assert "note: 117 candidate sets name a state that states_full.jsonl does not hold" in done.output
    assert run("export", "first_release", "build/action-reward-models-data", "out").exit_code == 1
    told = orjson.loads(run("export", "first_release", "action-reward-models-data", "again", "--json").stdout)
    assert told["files"] == {"candidates_merged.jsonl": 117, "labels_drawlevel.jsonl": 117}
    assert (told["complete"], len(told["rows"])) == (False, 153)
    assert told["unexpressed"] == [{"table": "states", "reason": "has no prompt_text", "rows": 153}]
