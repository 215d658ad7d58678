"""`arm import`: counts, what cannot be taken with its place, constants, and a registry that builds."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest
from action_reward_models.builders.importers import IMPORTERS
from action_reward_models.registry import Registry, importing
from action_reward_models.registry.importing import Said
from action_reward_models.registry.report import Report
from action_reward_models.registry.sniff import sniff
from action_reward_models.schemas.errors import ArmError, UsageError

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "examples" / "miniwob" / "data"
NAMES = ("episodes", "candidates", "labels")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Somebody's files: the sample's first episodes, with the candidate sets and labels of their states."""
    folder = tmp_path / "runs"
    folder.mkdir()
    episodes = read(SAMPLE / "episodes.jsonl")[:6]
    names = {episode["episode_id"] for episode in episodes}
    write(folder / "episodes.jsonl", episodes)
    for name in ("candidates", "labels"):
        write(folder / f"{name}.jsonl", [r for r in read(SAMPLE / f"{name}.jsonl") if episode_of(r) in names])
    return folder


def episode_of(record: dict[str, Any]) -> str:
    return str(record["state_id"].rpartition("__t")[0])


def read(path: Path) -> list[Any]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def write(path: Path, records: list[Any]) -> None:
    path.write_bytes(b"".join((r if isinstance(r, bytes) else orjson.dumps(r)) + b"\n" for r in records))


def look(runs: Path, said: Said = Said(), fmt: str | None = None) -> tuple[Report, Registry]:  # noqa: B008  (frozen)
    """The report, and the registry that is written beside ``runs``."""
    report, text = importing.look(runs, fmt, said, runs.parent, workers=1)
    (runs.parent / "registry.yaml").write_text(text, "utf-8")
    return report, Registry.load(runs.parent)


def test_what_is_there_is_counted(runs: Path) -> None:
    report, registry = look(runs)
    records = {name: len(read(runs / f"{name}.jsonl")) for name in NAMES}
    nulls = sum(label["selection"] is None for label in read(runs / "labels.jsonl"))
    assert report.counts["episodes"] == records["episodes"] == 6
    assert report.counts["candidate_records"] == report.counts["candidate_sets"] == records["candidates"]
    assert (report.counts["labels"], report.counts["null_labels"]) == (records["labels"], nulls)
    assert [(f.path, f.kind, f.format, f.records, f.broken) for f in report.files] == [
        ("runs/episodes.jsonl", "episodes", "openai_messages", 6, 0),
        ("runs/candidates.jsonl", "candidate_sets", "first_release", records["candidates"], 0),
        ("runs/labels.jsonl", "teacher_labels", "first_release", records["labels"], 0),
    ]
    assert (report.not_taken, report.conflicts, report.refused) == ((), (), ())
    issues, account = registry.check(workers=1)
    assert issues == []
    assert account["states"]["out"] == report.counts["states"]


def test_what_cannot_be_taken_has_its_place(runs: Path) -> None:
    """Broken lines, an unknown set, a repeated record; the registry declares what a build needs, where it does."""
    labels = read(runs / "labels.jsonl")
    labels[1] = {**labels[1], "selection": "two"}
    labels[2] = b'{"state_id": "x'
    labels.append({**labels[0], "state_id": "nobody__t0#d0"})
    labels.append(labels[0])
    write(runs / "labels.jsonl", labels)
    report, registry = look(runs)
    told = {(n.kind, n.reason): [(p.file, p.line) for p in n.places] for n in report.not_taken}
    name, last = "runs/labels.jsonl", len(labels)
    assert told == {
        (name, "$ not JSON: unexpected end of data at column …"): [(name, 3)],
        (name, "$.selection is …, not an integer or null"): [(name, 2)],
        ("teacher_labels", "no_candidate_set"): [(name, last - 1)],
        ("teacher_labels", "duplicate_record"): [(name, last)],
    }
    assert report.files[2].broken == 2
    assert {s.kind: (s.on_invalid, s.on_conflict) for s in registry.dataset().sources} == {
        "episodes": ("error", "error"),
        "candidate_sets": ("error", "error"),
        "teacher_labels": ("exclude", "error"),
    }
    issues, account = registry.check(workers=1)
    assert issues == []
    assert account["teacher_labels"]["excluded"]["invalid_record"] == 2


def test_conflicts_name_all_places_and_are_put_aside(runs: Path) -> None:
    sets, episodes = read(runs / "candidates.jsonl"), read(runs / "episodes.jsonl")
    write(runs / "candidates.jsonl", [*sets, {**sets[0], "candidates": ["<action>click(1, 1)</action>"]}])
    # A rerun in another file: the second episode under the id of the first.
    write(runs / "rerun.jsonl", [{**episodes[1], "episode_id": episodes[0]["episode_id"]}])
    report, registry = look(runs)
    found = {(c.kind, c.id): (c.state_id, c.places) for c in report.conflicts}
    first = f"{episodes[0]['episode_id']}__t0"
    assert found["states", first] == (first, ("runs/episodes.jsonl:1", "runs/rerun.jsonl:1"))
    in_conflict = [row_id for kind, row_id in found if kind == "candidate_sets"]
    assert in_conflict == ([] if episode_of(sets[0]) == episodes[0]["episode_id"] else [sets[0]["state_id"]])
    quarantined = {s.files[0][0] for s in registry.dataset().sources if s.on_conflict == "quarantine"}
    assert quarantined >= {"runs/episodes.jsonl", "runs/rerun.jsonl"}
    assert registry.check(workers=1)[0] == []


def test_a_person_may_want_the_errors(runs: Path) -> None:
    sets = read(runs / "candidates.jsonl")
    write(runs / "candidates.jsonl", [*sets, {**sets[0], "candidates": ["<action>click(1, 1)</action>"]}])
    report, registry = look(runs, Said(on_conflict="error"))
    (conflict,) = report.conflicts
    assert conflict.places == ("runs/candidates.jsonl:1", f"runs/candidates.jsonl:{len(sets) + 1}")
    assert conflict.state_id == sets[0]["base_state_id"]
    assert len(registry.check(workers=1)[0]) == 1


def test_constants_go_where_they_mean_something(runs: Path) -> None:
    given = {
        "actor": "a-4b",
        "teacher": "t: 5",
        "sampling": {"temperature": 0.7, "max_tokens": 512},
        "score_source": None,
    }
    report, registry = look(runs, Said(license="cc-by-4.0", constants=given))
    assert report.actors == (("a-4b", report.counts["candidate_sets"]),)
    assert report.temperatures == ((0.7, report.counts["candidate_sets"]),)
    assert report.teachers == (("t: 5", report.counts["labels"]),)
    dataset = registry.dataset()
    assert dataset.license == "cc-by-4.0"
    assert {s.kind: dict(s.constants) for s in dataset.sources} == {
        "episodes": {},
        "candidate_sets": {"actor": "a-4b", "sampling": {"temperature": 0.7, "max_tokens": 512}},
        "teacher_labels": {"actor": "a-4b", "teacher": "t: 5"},
    }
    built, _ = registry.build(workers=1)
    assert built is not None


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (Said(constants={"score_source": "prm"}), "score_source means nothing here: no file holds candidate_scores"),
        (Said(dialect="functoin"), "no dialect 'functoin'; did you mean 'function'?"),
        (Said(space="inches"), "no space 'inches'; known: pixel, norm1000"),
    ],
)
def test_declarations_that_nothing_reads_are_refused(runs: Path, said: Said, message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("?", r"\?")):
        look(runs, said)


def test_a_dialect_can_be_declared_and_its_share_is_told(runs: Path) -> None:
    report, registry = look(runs, Said(dialect="openwebrl", space="norm1000"))
    assert {(s.dialect, s.space) for s in registry.dataset().sources if s.dialect} == {("openwebrl", "norm1000")}
    assert all(speech.read == 0 < speech.responses for speech in report.speech)


def test_a_format_takes_only_its_own_files(runs: Path) -> None:
    report, _ = look(runs, fmt="openai_messages")
    assert [file.kind for file in report.files] == ["episodes"]
    n = len(read(runs / "labels.jsonl"))
    assert {Path(path).name: why for path, why in report.refused}["labels.jsonl"] == f"{n} records of another form"
    with pytest.raises(UsageError, match=r"no format 'openai'; .*there are auto, openai_messages, "):
        look(runs, fmt="openai")
    with pytest.raises(UsageError, match=r"no format 'frist_release'; did you mean first_release[?] there are auto, "):
        look(runs, fmt="frist_release")
    with pytest.raises(ArmError, match="holds no trajectories in a known form as webprmbench") as caught:
        look(runs, fmt="webprmbench")
    assert caught.value.next_command == "arm import auto PATH   # recognises every format"


def test_a_file_that_nearly_has_a_form_is_told_what_it_lacks(runs: Path) -> None:
    write(runs / "labels.jsonl", [{**label, "confidence": 1} for label in read(runs / "labels.jsonl")])
    report, _ = look(runs)
    (refused,) = report.refused
    assert refused[1].endswith(
        "of no known form; nearest is teacher_labels as first_release, and the first record $.confidence is not a "
        "known field"
    )


def test_one_file(runs: Path) -> None:
    report, registry = look(runs / "episodes.jsonl")
    assert [file.path for file in report.files] == ["episodes.jsonl"]
    assert [source.kind for source in registry.dataset().sources] == ["episodes"]
    for name, why in (
        ("labels", "only 0 of [0-9]+ labels name a candidate set that is here"),
        ("candidates", "[0-9]+ candidate_sets, and nothing that they are about"),
    ):
        with pytest.raises(ArmError, match="holds no trajectories in a known form: no states, no episodes") as caught:
            sniff(runs / f"{name}.jsonl")
        assert re.fullmatch(rf"{name}.jsonl \$ {why}", str(caught.value.issues[0]))
    (runs / "notes.txt").write_text("x", "utf-8")
    with pytest.raises(ArmError, match=r"only .*jsonl, .*json and .*parquet are read"):
        sniff(runs / "notes.txt")


def test_many_files_of_one_kind_are_one_source(runs: Path) -> None:
    """A folder of a run each, one JSON document in it; and beside them something else of that ending."""
    for number, episode in enumerate(read(runs / "episodes.jsonl")):
        (runs / f"run-{number}").mkdir()
        (runs / f"run-{number}" / "episode.json").write_bytes(orjson.dumps(episode, option=orjson.OPT_INDENT_2))
    (runs / "episodes.jsonl").unlink()
    (runs / "other.json").write_text("{}", "utf-8")
    report, registry = look(runs)
    assert report.counts["episodes"] == 6
    source = registry.dataset().sources[0]
    assert len(source.files) == 6
    assert 'path: "runs/*/episode.json"' in (runs.parent / "registry.yaml").read_text("utf-8")
    assert registry.check(workers=1)[0] == []
    _, text = importing.look(runs, None, Said(), runs.parent / "new" / "er", workers=1)  # no such folder yet
    assert 'path: "../../runs/*/episode.json"' in text
    assert "# 6 files\n" in text


def test_names_of_files_are_anybodys(runs: Path) -> None:
    """A name that looks like a place, and one that is no text."""
    labels = read(runs / "labels.jsonl")
    (runs / "labels.jsonl").unlink()
    odd = runs / "a:1 b.jsonl"
    write(odd, [*labels, {**labels[0], "selection": None}, labels[1]])
    write(Path(os.fsdecode(os.fsencode(runs) + b"/\xff.jsonl")), labels)
    report, registry = look(runs)
    (conflict,) = report.conflicts
    assert conflict.places == ("runs/a:1 b.jsonl:1", f"runs/a:1 b.jsonl:{len(labels) + 1}")
    assert [(n.reason, [(p.file, p.line) for p in n.places]) for n in report.not_taken] == [
        ("duplicate_record", [("runs/a:1 b.jsonl", len(labels) + 2)])
    ]
    ((path, why),) = report.refused
    assert path.endswith("\\udcff.jsonl")
    assert why == "its name cannot be written into a registry; rename it"
    assert orjson.dumps(report.to_json())
    assert registry.check(workers=1)[0] == []


def test_a_built_directory_is_its_tables(runs: Path) -> None:
    """Named itself it is read, rows that come ready-made are not made again; met in a folder it is passed over."""
    _, registry = look(runs)
    built, _ = registry.build(workers=1)
    assert built is not None
    shutil.copytree(built.folder, runs / "build")
    assert [why for path, why in sniff(runs).skipped if path.name == "build"] == [
        "is a built directory; name it itself to import its tables"
    ]
    place = runs.parent / "theirs"
    place.mkdir()
    shutil.move(runs / "build", place / "build")
    report, again = look(place / "build")
    assert {file.format for file in report.files} == {"table"}
    assert {Path(path).parent.name for path, _ in report.refused} == {"exclusions"}
    second, _ = again.build(workers=1)
    assert second is not None
    before, after = built.manifest["identity"]["tables"], second.manifest["identity"]["tables"]
    assert {t: after[t]["rows"] for t in after if t != "exclusions"} == {
        t: before[t]["rows"] for t in before if t != "exclusions"
    }
    for table in ("states", "candidate_sets", "teacher_labels"):
        assert after[table]["row_digest"] == before[table]["row_digest"]


@pytest.mark.parametrize("key", IMPORTERS, ids="-".join)
def test_every_format_is_told_by_what_its_records_hold(key: tuple[str, str], tmp_path: Path) -> None:
    """Each good example of each record schema, alone in a file, is what it is and nothing else."""
    examples = sorted((ROOT / "tests" / "examples" / IMPORTERS[key].schema.partition("/")[0] / "good").glob("*.json"))
    assert examples
    turns = [{"role": "user", "content": "Task: x"}, {"role": "assistant", "content": "click(1, 1)"}]
    write(tmp_path / "episodes.jsonl", [{"episode_id": "e", "messages": turns}])
    for number, example in enumerate(examples):
        write(tmp_path / f"{number}.jsonl", [orjson.loads(example.read_bytes())])
    found = sniff(tmp_path)
    told = {source.path.stem: (source.kind, source.format) for source in found.sources}
    told |= {path.stem: key for path, why in found.skipped if "name a candidate set" in why}  # known, and alone here
    assert told == {"episodes": ("episodes", "openai_messages")} | {str(n): key for n in range(len(examples))}
