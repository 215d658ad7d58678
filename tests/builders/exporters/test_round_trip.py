"""Out in the first release's shape, and in again: equal rows, to the last digest, whatever their texts hold.

The files of a whole release, with its planted faults, make this trip in tests/registry/test_there_and_back.py; here
they hold what a reader could take for structure, and training rows that come ready-made.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders.exporters import export
from action_reward_models.registry import Registry
from action_reward_models.registry.importing import Said, look
from action_reward_models.tests.builders.exporters import hostile
from action_reward_models.tests.builders.exporters.hostile import LINE, TEXT

if TYPE_CHECKING:
    from tests.builders.conftest import Toy

Record = dict[str, Any]
# Without placeholders and ends of turns, which mean something in a record's own texts.
PLAIN = "<video> [INST] <tool_call>{}</tool_call> </think> {{ jinja }} {{idx}} \u2028 a\rb \x85 ü &lt;image>"
ASKED = "<|im_start|>user\n<user_request>\nDo {0}. {1}\n</user_request>\nURL: https://example.org/{0}/[INST]"


def response(thought: str, call: str) -> str:
    """As the release has them, with the token that ended the turn."""
    return f"<think>{thought}</think>\n<action>{call}</action><|im_end|>"


def release(folder: Path, states: int = 10) -> None:
    """The three files of a release, and its training rows; every text is hostile."""
    for below in ("shots", "selection_sft/shots", "scalar_rm/shots"):
        (folder / below).mkdir(parents=True)
    rows: dict[str, list[Record]] = {"states": [], "sets": [], "labels": [], "sft": [], "pairs": []}
    for number in range(states):
        path = f"shots/{number}.png"
        for below in (".", "selection_sft", "scalar_rm"):
            (folder / below / path).write_bytes(hostile.rgb(number, 24))
        # The first quotes a whole turn: it is parsed as one, there and back.
        prompt = ASKED.format(number, TEXT if number == 0 else PLAIN + " <image>")
        prompt += f"<|vision_start|><|image_pad|><|vision_end|><|im_end|>\n<|im_start|>assistant\n{LINE}"
        prompt += f"<|im_end|>\n<|im_start|>user\n<tool_response>\n{PLAIN}\n</tool_response><|im_end|>\n"
        state_id, episode_id = f"e{number}__t1", f"e{number}"
        rows["states"].append(
            {
                "state_id": state_id, "episode_id": episode_id, "turn": 1, "images": [path],
                "prompt_text": f"{prompt}<|im_start|>assistant\n", "demo_action": f"<think>{TEXT}</think>",
            }
        )  # fmt: skip
        calls = (f'stop("{LINE}")', "click(1, 1)", f"click({number}, 9)", f'type(3, 3, "{LINE}")')
        said = [response(TEXT, call) for call in calls]
        set_id = f"{state_id}#d{number % 2}"
        rows["sets"].append(
            {"state_id": set_id, "base_state_id": state_id, "temperature": 0.7, "images": [path], "candidates": said}
        )
        rows["labels"].append({"state_id": set_id, "selection": number % 4, "reasoning": TEXT})
        system = {"role": "system", "content": f"You judge. {PLAIN}"}
        asked = {
            "role": "user",
            "content": f"Task {number}: {PLAIN} <|im_end|>\n<image>\n1. {response(PLAIN, calls[1])}",
        }
        reply = {"role": "assistant", "content": json.dumps({"selection": number % 4 + 1})}
        rows["sft"].append({"messages": [system, asked, reply], "images": [path]})
        sides = {
            side: {"role": "assistant", "content": response(PLAIN, call)}
            for side, call in (("chosen", "click(1, 1)"), ("rejected", f'type(3, 3, "{number}")'))
        }
        rows["pairs"].append({"messages": [asked], "images": [path], **sides})
    files = {
        "states": "states_full.jsonl", "sets": "candidates_merged.jsonl", "labels": "labels_drawlevel.jsonl",
        "sft": "selection_sft/owrl_selection_train.json", "pairs": "scalar_rm/owrl_scalar_train.json",
    }  # fmt: skip
    for kind, name in files.items():
        lines = [json.dumps(record, ensure_ascii=False) for record in rows[kind]]
        text = "\n".join(lines) + "\n" if name.endswith(".jsonl") else f"[{', '.join(lines)}]"
        (folder / name).write_bytes(text.encode())


def built(folder: Path, place: Path, reviews: Path | None = None) -> tuple[Path, Record]:
    """Import ``place`` as the command does, and build it: (built directory, its tables)."""
    report, text = look(place, "first_release", Said(dialect="function", space="pixel"), folder, workers=1)
    assert (report.conflicts, report.not_taken, report.refused) == ((), (), ())
    folder.mkdir()
    if reviews:
        source = f"    sources:\n      - {{kind: reviews, format: review, path: {reviews}}}\n"
        text = text.replace("    sources:\n", source)
    (folder / "registry.yaml").write_text(text, "utf-8")
    done, _ = Registry.load(folder).build(workers=1)
    assert done is not None
    return done.folder, done.manifest["identity"]["tables"]


def digests(tables: Record) -> dict[str, tuple[int, str]]:
    return {name: (table["rows"], table["row_digest"]) for name, table in tables.items()}


def test_hostile_records_come_back_and_are_built_into_the_same_rows(tmp_path: Path) -> None:
    """States, candidates and labels; and the training rows that a build makes of them."""
    given = tmp_path / "given"
    release(given)
    for name in ("selection_sft", "scalar_rm"):
        (given / name).rename(tmp_path / name)
    build, tables = built(tmp_path / "one", given)
    found = export("first_release", build, tmp_path / "out")
    assert (found.reasons, dict(found.left_out)) == ({}, {})
    for name in ("states_full.jsonl", "candidates_merged.jsonl", "labels_drawlevel.jsonl"):
        assert records(tmp_path / "out" / name) == records(given / name)
    _, again = built(tmp_path / "two", tmp_path / "out")
    assert digests(again) == digests(tables)
    assert {name: table["rows"] for name, table in tables.items()} == {
        "states": 10, "candidate_sets": 10, "teacher_labels": 10, "selection_sft": 10,
        "bt_pairs": tables["bt_pairs"]["rows"], "exclusions": tables["exclusions"]["rows"],
    }  # fmt: skip
    assert tables["bt_pairs"]["rows"] >= 10


def test_what_people_said_stays_behind_and_comes_back_when_it_is_declared(tmp_path: Path) -> None:
    given, said = tmp_path / "given", tmp_path / "review.jsonl"
    release(given)
    for name in ("selection_sft", "scalar_rm"):
        (given / name).rename(tmp_path / name)
    review = {"item_id": "e1__t1#d1|-|-|0", "verdict": "relabel", "selected_index": 0, "reviewer": "ann", "note": ""}
    said.write_text(json.dumps(review | {"time": "2026-01-01T00:00:00Z"}) + "\n", "utf-8")
    build, tables = built(tmp_path / "one", given, said)
    found = export("first_release", build, tmp_path / "out")
    (note,) = [note for note in found.notes if "reviews" in note]
    assert note.startswith("1 reviews, 1 of which name another pick, are not written")
    assert records(tmp_path / "out" / "labels_drawlevel.jsonl") == records(given / "labels_drawlevel.jsonl")
    _, without = built(tmp_path / "two", tmp_path / "out")
    changed = {name for name in without if digests(without)[name] != digests(tables)[name]}
    assert changed >= {"selection_sft", "bt_pairs"}
    _, again = built(tmp_path / "three", tmp_path / "out", said)
    assert digests(again) == digests(tables)


def records(path: Path) -> list[Record]:
    data = path.read_bytes()
    found = json.loads(data) if path.suffix == ".json" else [json.loads(line) for line in data.split(b"\n")[:-1]]
    return sorted(found, key=lambda record: str(record.get("state_id") or record["messages"]))


def test_ready_made_rows_come_back_beside_what_is_there(tmp_path: Path) -> None:
    """To the letter, ends of turns included: they are the release's own texts."""
    given = tmp_path / "given"
    release(given)
    build, tables = built(tmp_path / "one", given)
    assert (tables["selection_sft"]["rows"], tables["bt_pairs"]["rows"]) == (10, 10)
    found = export("first_release", build, tmp_path / "out")
    assert (found.reasons, dict(found.left_out), found.notes) == ({}, {}, [])
    _, again = built(tmp_path / "two", tmp_path / "out")
    assert digests(again) == digests(tables)
    for folder, name in (("selection_sft", "owrl_selection"), ("scalar_rm", "owrl_scalar")):
        before = records(given / folder / f"{name}_train.json")
        back = [r for path in (tmp_path / "out" / folder).glob("*.json") for r in records(path)]
        for record in back:  # pictures are called by their digest
            (image,) = record["images"]
            (tmp_path / "out" / folder / image).stat()
        texts = [{**record, "images": None} for record in before]
        assert by_text([{**record, "images": None} for record in back]) == by_text(texts)


def by_text(found: list[Record]) -> list[Record]:
    return sorted(found, key=json.dumps)


def test_rows_alone_are_a_release_of_rows(toy: Toy, tmp_path: Path) -> None:
    """Rows that were made here, in the release's training files: read again, a model sees the same."""
    hostile.fill(toy)
    made = hostile.build(toy)
    found = export("first_release_rows", made.folder, tmp_path / "out")
    assert not found.reasons
    assert {Path(name).parent.name for name in found.files} == {"selection_sft", "scalar_rm"}
    assert {Path(name).stem.rpartition("_")[2] for name in found.files} == {"train", "val"}
    build, tables = built(tmp_path / "again", tmp_path / "out")
    assert sorted(tables) == ["bt_pairs", "exclusions", "selection_sft"]
    back = replace(made, folder=build, manifest=json.loads((build / "manifest.json").read_bytes()))
    for table in ("selection_sft", "bt_pairs"):
        before, after = made.rows(table), back.rows(table)
        assert sorted(row["rendered_sha256"] for row in before) == sorted(row["rendered_sha256"] for row in after)
        assert all(row["prompt_id"] is None for row in after)
    assert found.left_out["selection_sft.row_id"] == len(made.rows("selection_sft"))
    assert "bt_pairs.relation" not in found.left_out  # found again
    assert found.notes == [f"the format has no place for actor_sft ({len(made.rows('actor_sft')):,} rows)"]


@pytest.mark.parametrize("table", ["selection_sft", "bt_pairs"])
def test_what_an_import_would_refuse_is_not_written(table: str, toy: Toy, tmp_path: Path) -> None:
    said = hostile.message("user", "Go.", 1)
    picture = (toy.data_url(1),)
    replies = [hostile.message("assistant", word) for word in ("Left", "Right")]
    rows = {
        "selection_sft": [
            hostile.selection("good", said, images=picture),
            hostile.selection("turns", said, replies[0], said, images=picture * 2),
            hostile.selection("picks nothing", said, reply="the first", images=picture),
        ],
        "bt_pairs": [
            hostile.pair("good", *replies, said, images=picture),
            hostile.pair("turns", *replies, replies[0], said, images=picture),
            hostile.pair("role", replies[0], hostile.message("user", "Right"), said, images=picture),
            {**hostile.pair("several", *replies, said, images=picture), "rejected": [*replies]},
        ],
    }[table]
    build = hostile.build(
        toy, (table, rows), selection=None, pairs=None, actor_sft=None, tables=(table,), images={table: "embed"}
    )
    found = export("first_release_rows", build.folder, tmp_path / "out")
    assert list(found.files.values()) == [1]
    assert sorted(row.row_id for row in found.unexpressed) == sorted(
        row["row_id" if "row_id" in row else "pair_id"] for row in rows[1:]
    )
    assert all(row.reason.startswith("the format does not take it: $.") for row in found.unexpressed)
    assert found.pictures == len(list((tmp_path / "out").rglob("*.png"))) == 1
