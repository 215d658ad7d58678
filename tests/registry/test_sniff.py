"""`arm init --from`: what a folder holds is told from its records, never from names; what it writes builds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from action_reward_models.registry import Registry, sniff, starter
from action_reward_models.schemas.errors import ArmError

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "examples" / "miniwob" / "data"


def declared(source: Path, target: Path) -> Registry:
    target.mkdir(exist_ok=True)
    (target / "registry.yaml").write_text(starter.from_folder(sniff.sniff(source), target), "utf-8")
    return Registry.load(target)


def test_names_do_not_matter(tmp_path: Path) -> None:
    runs = tmp_path / "runs" / "a b" / "deep"
    runs.mkdir(parents=True)
    for old, new in (("episodes", "labels"), ("candidates", "x'y"), ("labels", "episodes")):
        (runs / f"{new}.jsonl").write_bytes((SAMPLE / f"{old}.jsonl").read_bytes())
    found = sniff.sniff(tmp_path / "runs")
    assert [(s.path.name, s.kind, s.records) for s in found.sources] == [
        ("labels.jsonl", "episodes", 40),
        ("x'y.jsonl", "candidate_sets", 117),
        ("episodes.jsonl", "teacher_labels", 117),
    ]
    for spoken in found.spoken.values():
        assert (spoken.dialect, spoken.share, spoken.space) == ("function", 1.0, "pixel")
    assert set(found.spoken) == {"openai_messages", "first_release"}
    assert found.tasks == 34
    spec = declared(tmp_path / "runs", tmp_path / "registry").dataset()
    assert [len(s.files) for s in spec.sources] == [1, 1, 1]


def test_release_shaped_folder(tmp_path: Path) -> None:
    """The first release's shape: the file of labels without the draw is skipped and named; the dialect is seen."""
    generator = ROOT / "benchmarks" / "make_release.py"
    runs = tmp_path / "runs"
    subprocess.run([sys.executable, str(generator), str(runs), "--scale", "0.02"], check=True, capture_output=True)
    lines = (runs / "labels_drawlevel.jsonl").read_bytes().splitlines()
    base = [{**(r := orjson.loads(line)), "state_id": r["state_id"].rsplit("#", 1)[0]} for line in lines]
    (runs / "labels.jsonl").write_bytes(b"\n".join(map(orjson.dumps, base)))
    (runs / "notes.jsonl").write_text('{"hello": 1}\n', "utf-8")
    (runs / "empty.jsonl").write_text("", "utf-8")
    found = sniff.sniff(runs)
    assert [(s.path.name, s.kind, s.format) for s in found.sources] == [
        ("states_full.jsonl", "states", "first_release"),
        ("candidates_merged.jsonl", "candidate_sets", "first_release"),
        ("labels_drawlevel.jsonl", "teacher_labels", "first_release"),
    ]
    assert {path.name: why for path, why in found.skipped} == {
        "labels.jsonl": f"only 0 of {len(base):,} labels name a candidate set; they lack the draw",
        "notes.jsonl": "1 record of no known form",
        "empty.jsonl": "holds no records",
        "planted.json": "1 record of no known form",
    }
    assert (found.spoken["first_release"].dialect, found.spoken["first_release"].space) == ("openwebrl", "norm1000")
    text = starter.from_folder(found, tmp_path)
    assert '# skipped "runs/labels.jsonl": only 0 of' in text


def test_points_beyond_a_thousand_are_pixels(tmp_path: Path) -> None:
    call = '<tool_call>\n{"name": "click", "arguments": {"point_2d": [1210, 40]}}\n</tool_call>'
    episode = {
        "episode_id": "e",
        "messages": [{"role": "user", "content": "Task: x"}, {"role": "assistant", "content": call}],
    }
    (tmp_path / "e.jsonl").write_bytes(orjson.dumps(episode))
    found = sniff.sniff(tmp_path)
    assert (found.spoken["openai_messages"].dialect, found.spoken["openai_messages"].space) == ("openwebrl", "pixel")


def test_states_alone_make_a_registry_that_builds(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "e.jsonl").write_bytes((SAMPLE / "episodes.jsonl").read_bytes())
    registry = declared(runs, tmp_path / "registry")
    assert registry.dataset().tables == ("states",)
    built, _ = registry.build(workers=1)
    assert built is not None
    assert set(built.manifest["identity"]["tables"]) == {"states", "exclusions"}


def test_nothing_known_says_what_was_seen(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"hello": 1}\nnot json\n', "utf-8")
    with pytest.raises(ArmError, match="holds no trajectories in a known form") as caught:
        sniff.sniff(tmp_path)
    assert [str(issue) for issue in caught.value.issues] == ["a.jsonl $ 2 records of no known form"]
    (tmp_path / "a.jsonl").write_text("not json\n" * 2, "utf-8")
    (tmp_path / "b.jsonl").write_bytes('{"hello": "é"}\n'.encode("latin-1"))
    (tmp_path / "c.jsonl").write_bytes('{"hello": 1}\n'.encode("utf-16"))
    with pytest.raises(ArmError, match="holds no trajectories in a known form as first_release: no states") as caught:
        sniff.sniff(tmp_path, "first_release")
    assert [issue.message for issue in caught.value.issues] == [
        "2 records of another form; not JSON: invalid literal, expected 'null' at column 1, in line 1",
        "1 record of another form; not JSON: not UTF-8: the byte 0xe9 at column 12, in line 1",
        "2 records of another form; not JSON: not UTF-8: the byte 0xff (UTF-16?) at column 1, in line 1",
    ]


def test_a_registry_from_scratch_is_valid_once_its_files_are_there(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name in ("episodes", "candidates", "labels"):
        (tmp_path / "data" / f"{name}.jsonl").write_bytes((SAMPLE / f"{name}.jsonl").read_bytes())
    (tmp_path / "registry.yaml").write_text(starter.from_scratch(), "utf-8")
    issues, account = Registry.load(tmp_path).check(workers=1)
    assert issues == []
    assert account["bt_pairs"]["in"] == 388


def test_a_file_name_cannot_edit_the_registry(tmp_path: Path) -> None:
    runs = tmp_path / "runs [v1]"
    runs.mkdir()
    for name in ("episodes", "candidates", "labels"):
        (runs / f"{name}.jsonl").write_bytes((SAMPLE / f"{name}.jsonl").read_bytes())
    (runs / "x\n    gates: {leakage: warn}\n    #.jsonl").write_text('{"hello": 1}\n', "utf-8")
    registry = declared(runs, tmp_path / "registry")
    assert registry.dataset().gates.leakage == "error"
    assert len(registry.dataset().sources) == 3


def test_broken_records_are_counted_and_declared(tmp_path: Path) -> None:
    """What init writes builds, also from a file with a torn line."""
    runs = tmp_path / "runs"
    runs.mkdir()
    for name in ("episodes", "candidates", "labels"):
        (runs / f"{name}.jsonl").write_bytes((SAMPLE / f"{name}.jsonl").read_bytes())
    with (runs / "labels.jsonl").open("ab") as file:
        file.write(b'{"state_id": "x')
    found = sniff.sniff(runs)
    assert [(s.records, s.valid) for s in found.sources] == [(40, 40), (117, 117), (118, 117)]
    registry = declared(runs, tmp_path / "registry")
    built, _ = registry.build(workers=1)
    assert built is not None
    assert built.manifest["identity"]["ledger"]["teacher_labels"]["excluded"] == {"invalid_record": 1}


def test_text_only_agents_are_shown_as_text(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    episodes = [
        {
            "episode_id": f"e{n}",
            "messages": [
                {"role": "user", "content": f"Task: find {n}\nThe page says {n}."},
                {"role": "assistant", "content": "<think>a</think><action>click(1, 1)</action>"},
            ],
        }
        for n in range(4)
    ]
    sets = [
        {
            "state_id": f"e{n}__t0#d0",
            "base_state_id": f"e{n}__t0",
            "candidates": [f"<action>click({i}, {i})</action>" for i in range(5)],
        }
        for n in range(4)
    ]
    labels = [{"state_id": f"e{n}__t0#d0", "selection": n} for n in range(4)]
    for name, records in (("e", episodes), ("c", sets), ("l", labels)):
        (runs / f"{name}.jsonl").write_bytes(b"".join(orjson.dumps(r) + b"\n" for r in records))
    registry = declared(runs, tmp_path / "registry")
    built, _ = registry.build(workers=1)
    assert built is not None
    tables = built.manifest["identity"]["tables"]
    assert tables["selection_sft"]["rows"] == 4
    assert tables["bt_pairs"]["rows"] == 8
    assert built.warnings == ()


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    import os

    runs = tmp_path / "runs"
    runs.mkdir()
    os.mkfifo(runs / "pipe.jsonl")
    (runs / "e.jsonl").write_bytes((SAMPLE / "episodes.jsonl").read_bytes())
    assert [source.path.name for source in sniff.sniff(runs).sources] == ["e.jsonl"]


def test_a_link_to_a_file_is_the_same_file(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "episodes.jsonl").write_bytes((SAMPLE / "episodes.jsonl").read_bytes())
    (runs / "latest.jsonl").symlink_to("episodes.jsonl")
    found = sniff.sniff(runs)
    assert [(path.name, why) for path, why in found.skipped] == [("latest.jsonl", "is the same file as episodes.jsonl")]
    assert len(declared(runs, tmp_path / "registry").dataset().sources) == 1


def test_labels_of_which_some_lack_the_draw(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    for name in ("episodes", "candidates", "labels"):
        (runs / f"{name}.jsonl").write_bytes((SAMPLE / f"{name}.jsonl").read_bytes())
    labels = [orjson.loads(line) for line in (SAMPLE / "labels.jsonl").read_bytes().splitlines()]
    cut = [{**r, "state_id": r["state_id"].rsplit("#", 1)[0]} if n % 3 == 0 else r for n, r in enumerate(labels)]
    (runs / "labels.jsonl").write_bytes(b"".join(orjson.dumps(r) + b"\n" for r in cut))
    built, _ = declared(runs, tmp_path / "registry").build(workers=1)
    assert built is not None
    assert built.manifest["identity"]["ledger"]["teacher_labels"]["excluded"] == {"base_state_id": 39}


def test_hidden_folders_are_nobodys_business(tmp_path: Path) -> None:
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "x.json").write_text("{}", "utf-8")
    (tmp_path / "e.jsonl").write_bytes((SAMPLE / "episodes.jsonl").read_bytes())
    assert sniff.sniff(tmp_path).skipped == []


def _episode(*responses: str) -> dict[str, object]:
    turns = [[{"role": "user", "content": "Task: x"}, {"role": "assistant", "content": r}] for r in responses]
    return {"episode_id": "e", "messages": [message for turn in turns for message in turn]}


CLICK = "mouse_click(x=640.0, y=360.0, button='left')"
XML = "<tool_call>\n<function=click>\n<parameter=point_2d>\n[640, 360]\n</parameter>\n</function>\n</tool_call>"
REPLY = '{"thought": "t", "action": {"name": "click", "x": 45.3, "y": 20}}'


@pytest.mark.parametrize(
    ("responses", "chosen", "share"),
    [
        (["click(1, 2)", 'goto("https://a.example")'], ("function", "pixel"), 1.0),  # also molmoweb: the first wins
        ([CLICK, CLICK, "keyboard_type(text='a"], ("molmoweb", "pixel"), 2 / 3),  # function reads but knows no call
        ([REPLY, REPLY], ("molmoweb_json", "norm1000"), 1.0),
        ([XML, "<think>cut off"], ("qwen_xml", "norm1000"), 0.5),
        (["```python\npyautogui.click(640, 360)\n```", "```DONE```"], ("desktop", "pixel"), 1.0),
        (["pyautogui.click(640, 360)", "DONE"], ("desktop", "pixel"), 1.0),
        ([CLICK, "```DONE```", "```WAIT```"], ("desktop", "pixel"), 2 / 3),
        (['click("a46")', "go_back()"], ("molmoweb", "pixel"), 1.0),
    ],
)
def test_the_dialect_is_the_one_that_knows_most_of_the_calls(
    tmp_path: Path, responses: list[str], chosen: tuple[str, str], share: float
) -> None:
    (tmp_path / "e.jsonl").write_bytes(orjson.dumps(_episode(*responses)))
    spoken = sniff.sniff(tmp_path).spoken["openai_messages"]
    assert (spoken.dialect, spoken.space) == chosen
    assert spoken.share == pytest.approx(share)


def test_records_of_actions_are_heard_in_the_dialect_of_their_era(tmp_path: Path) -> None:
    """Where no response was recorded, one is put together, and it must not be heard in what it was put together in."""
    state = {
        "state_id": 1,
        "sample_id": 1,
        "task": "x",
        "step_idx": 0,
        "url": None,
        "screenshot": "1.png",
        "history": [],
    }
    actions = [CLICK, "scroll(0, 300)", "click(10, 20)", "noop()"]
    drawn = [{"cand_idx": n, "raw": None, "action_str": a, "thought": "t"} for n, a in enumerate(actions, 1)]
    (tmp_path / "states.jsonl").write_bytes(orjson.dumps(state))
    (tmp_path / "sets.jsonl").write_bytes(orjson.dumps({"state_id": 1, "candidates": drawn}))
    spoken = sniff.sniff(tmp_path).spoken["molmoweb"]
    assert (spoken.dialect, spoken.space, spoken.read, spoken.responses) == ("molmoweb", "pixel", 4, 4)
