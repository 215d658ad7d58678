"""The first release, whole: imported with every planted figure found, built, and exported again field by field."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from action_reward_models.builders.exporters import Exported, export
from action_reward_models.registry import Registry
from action_reward_models.registry.importing import Said, look
from action_reward_models.registry.report import Report

GENERATOR = Path(__file__).parents[2] / "benchmarks" / "make_release.py"
FILES = ("states_full.jsonl", "candidates_merged.jsonl", "labels_drawlevel.jsonl")
# Figure of planted.json -> figure of the report.
FIGURES = {
    "states": "states",
    "episodes": "episodes",
    "distinct_tasks": "tasks",
    "images": "screenshots",
    "candidate_records": "candidate_records",
    "distinct_set_ids": "candidate_sets",
    "conflicting_ids": "conflicting_ids",
    "conflicting_states": "conflicting_states",
    "labels": "labels",
    "null_labels": "null_labels",
    "labelled_states": "labelled_states",
}


@dataclass
class Trip:
    release: Path
    planted: dict[str, Any]
    report: Report
    build: Path
    exported: Exported
    out: Path


def registry_of(release: Path, folder: Path) -> tuple[Report, Registry]:
    """Import ``release``, and the registry that was written of it, with several files a table."""
    report, text = look(release, "first_release", Said(), folder, workers=1)
    folder.mkdir()
    (folder / "registry.yaml").write_text(text.replace("    split:", "    shards: 2\n    split:"), "utf-8")
    return report, Registry.load(folder)


@pytest.fixture(
    scope="module", params=[0.01, pytest.param(1.0, marks=[pytest.mark.slow, pytest.mark.timeout(600)])], ids=str
)
def trip(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trip:
    folder = tmp_path_factory.mktemp("trip")
    release = folder / "release"
    command = [sys.executable, str(GENERATOR), str(release), "--scale", str(request.param)]
    subprocess.run(command, check=True, capture_output=True)
    planted = orjson.loads((release / "planted.json").read_bytes())
    report, registry = registry_of(release, folder / "registry")
    built, _ = registry.build(workers=1)
    assert built is not None
    out = folder / "exported"
    return Trip(release, planted, report, built.folder, export("first_release", built.folder, out), out)


def records(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def test_every_planted_figure_is_reported(trip: Trip) -> None:
    temperatures = {f"temperature_{value}": n for value, n in trip.report.temperatures}
    found = {name: trip.report.counts[counted] for name, counted in FIGURES.items()} | temperatures
    assert found == trip.planted


def test_conflicts_name_both_places(trip: Trip) -> None:
    lines: dict[str, list[int]] = {}
    for number, record in enumerate(records(trip.release / FILES[1]), 1):
        lines.setdefault(record["state_id"], []).append(number)
    name = "candidates_merged.jsonl"  # files elsewhere than below the registry are called by their own name
    expected = {i: tuple(f"{name}:{n}" for n in found) for i, found in lines.items() if len(found) > 1}
    assert len(expected) == trip.planted["conflicting_ids"]
    assert {conflict.id: conflict.places for conflict in trip.report.conflicts} == expected
    assert {c.state_id for c in trip.report.conflicts} == {i.rpartition("#d")[0] for i in expected}


def test_labels_without_the_draw_are_refused(trip: Trip) -> None:
    n = trip.planted["labels"]
    refused = {Path(path).name: why for path, why in trip.report.refused}
    assert refused == {
        "labels.jsonl": f"only 0 of {n:,} labels name a candidate set; they lack the draw",
        "planted.json": "1 record of another form",
    }
    assert [Path(file.path).name for file in trip.report.files] == list(FILES)


def test_responses_are_read_in_the_dialect_that_was_found(trip: Trip) -> None:
    (speech,) = trip.report.speech
    assert (speech.dialect, speech.space) == ("openwebrl", "norm1000")
    assert 0.95 < speech.read / speech.responses <= 1  # one set in a hundred holds a response without a call
    contested = {conflict.id for conflict in trip.report.conflicts}
    responses = [
        response
        for record in records(trip.release / FILES[1])
        if record["state_id"] not in contested
        for response in record["candidates"]
    ]
    assert trip.report.counts["taken_candidates"] == len(responses)
    assert trip.report.counts["unread_candidates"] == sum("<tool_call>" not in response for response in responses) > 0


def test_labels_of_quarantined_sets_are_told_with_their_lines(trip: Trip) -> None:
    contested = {conflict.id for conflict in trip.report.conflicts}
    lines = [n for n, r in enumerate(records(trip.release / FILES[2]), 1) if r["state_id"] in contested]
    (lost,) = trip.report.not_taken
    assert (lost.kind, lost.reason) == ("teacher_labels", "no_candidate_set")
    assert [issue.line for issue in lost.places] == lines
    assert lines


def test_what_was_kept_comes_back_field_by_field(trip: Trip) -> None:
    contested = {conflict.id for conflict in trip.report.conflicts}
    for name in FILES:
        given = [r for r in records(trip.release / name) if r["state_id"] not in contested]
        back = {record["state_id"]: record for record in records(trip.out / name)}
        assert len(given) == len(back) == trip.exported.files[name]
        assert {record["state_id"]: record for record in given} == back
    temperatures = Counter(record["temperature"] for record in records(trip.out / FILES[1]))
    assert set(temperatures) == {0.7, 1.0}
    nulls = [r for r in records(trip.out / FILES[2]) if r["selection"] is None]
    assert all(record["reasoning"] == "" for record in nulls)


def test_screenshots_come_back_byte_for_byte(trip: Trip) -> None:
    given = {p.relative_to(trip.release): p.read_bytes() for p in (trip.release / "state_images").iterdir()}
    back = {p.relative_to(trip.out): p.read_bytes() for p in (trip.out / "state_images").iterdir()}
    assert given == back
    assert trip.exported.pictures == trip.planted["images"]


def test_nothing_else_is_written(trip: Trip) -> None:
    assert {path.name for path in trip.out.iterdir()} == {*FILES, "state_images"}
    told = trip.exported.to_json()
    assert (told["complete"], told["left_out"]) == (True, {})
    (note,) = told["notes"]  # of rows that an import makes again
    assert "rows of selection_sft and" in note
    assert "rows of bt_pairs are not written: where their labels are, a build makes them again" in note


def test_the_way_back_gives_the_same_rows(trip: Trip, tmp_path: Path) -> None:
    """An import of what was exported has the same rows, to the last digest, and nothing that cannot be taken."""
    report, registry = registry_of(trip.out, tmp_path / "registry")
    assert (report.conflicts, report.not_taken, report.refused) == ((), (), ())
    built, _ = registry.build(workers=1)
    assert built is not None
    manifest = orjson.loads((trip.build / "manifest.json").read_bytes())
    before, after = manifest["identity"]["tables"], built.manifest["identity"]["tables"]
    assert len(before) == 6
    for table in before:
        if table != "exclusions":  # what was put aside is not there any more
            assert before[table]["row_digest"] == after[table]["row_digest"], table
