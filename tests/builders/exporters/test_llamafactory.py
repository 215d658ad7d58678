"""The folder for LLaMA-Factory: what it registers, that rows stay what they are, and what is refused by name."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from action_reward_models.builders import processor
from action_reward_models.builders.exporters import Exported, export
from action_reward_models.builders.spec import SplitSpec, TokenSpec
from action_reward_models.prompts.escape import escape_tokens
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.ids import sha256_hex
from action_reward_models.schemas.store import ID_FIELDS
from action_reward_models.tests.builders import tiny_processor
from action_reward_models.tests.builders.exporters import hostile
from action_reward_models.tests.builders.exporters.hostile import TEXT, message, pair, selection

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

Row = dict[str, Any]
TRAINING = ("selection_sft", "bt_pairs", "actor_sft")


def kind_of(table: str, row: Row) -> str:
    control = table == "actor_sft" and row["selected_by"] == "random_control"
    return "actor_control" if control else {"selection_sft": "selection", "bt_pairs": "scalar"}.get(table, "actor")


def records(out: Path) -> dict[str, list[Row]]:
    """Name of a registered dataset -> its records."""
    info = json.loads((out / "dataset_info.json").read_text("ascii"))
    files = {name: (out / entry["file_name"]).read_bytes().split(b"\n") for name, entry in info.items()}
    assert all(lines.pop() == b"" for lines in files.values())
    return {name: [json.loads(line) for line in lines] for name, lines in files.items()}


def turns(record: Row) -> list[Row]:
    return [*record["messages"], *(record[side] for side in ("chosen", "rejected") if side in record)]


@pytest.fixture
def made(toy: Toy) -> Build:
    hostile.fill(toy)
    return hostile.build(toy)


@pytest.fixture
def out(made: Build, tmp_path: Path) -> Path:
    exported = export("llamafactory", made.folder, tmp_path / "out")
    assert not exported.reasons
    return tmp_path / "out"


# -- rows in = rows out ---------------------------------------------------------------------------------------------


def test_every_table_and_split_is_registered_with_all_its_rows(made: Build, out: Path) -> None:
    wanted: dict[str, list[str]] = {}
    for table in TRAINING:
        for row in made.rows(table):
            name = f"toy_{kind_of(table, row)}_{row['split']}"
            wanted.setdefault(name, []).append(f"{table}:{row[ID_FIELDS[table]]}")
    found = {name: [record["row"] for record in rows] for name, rows in records(out).items()}
    assert {name: sorted(rows) for name, rows in found.items()} == {n: sorted(rows) for n, rows in wanted.items()}
    kinds = ("selection", "scalar", "actor", "actor_control")
    assert set(found) == {f"toy_{kind}_{split}" for kind in kinds for split in ("train", "validation")}
    assert all(len(rows) > 2 for rows in found.values())


def test_the_loader_is_told_the_columns_and_roles(out: Path) -> None:
    info = json.loads((out / "dataset_info.json").read_text("ascii"))
    tags = {
        "role_tag": "role", "content_tag": "content",
        "user_tag": "user", "assistant_tag": "assistant", "system_tag": "system",
    }  # fmt: skip
    assert info["toy_selection_train"] == {
        "file_name": "toy_selection_train.jsonl", "formatting": "sharegpt",
        "columns": {"messages": "messages", "images": "images"}, "tags": tags,
    }  # fmt: skip
    assert info["toy_scalar_validation"] == {
        "file_name": "toy_scalar_validation.jsonl", "formatting": "sharegpt", "ranking": True,
        "columns": {"messages": "messages", "images": "images", "chosen": "chosen", "rejected": "rejected"},
        "tags": tags,
    }  # fmt: skip


def test_pictures_are_the_builds_bytes_each_once(made: Build, out: Path) -> None:
    shown = {image for table in TRAINING for row in made.rows(table) for image in row["images"]}
    files = {path.name: path.read_bytes() for path in (out / "images").iterdir()}
    assert {f"sha256:{sha256_hex(data)}" for data in files.values()} == shown
    assert all(name == f"{sha256_hex(data)}.png" for name, data in files.items())
    named = {image for rows in records(out).values() for record in rows for image in record["images"]}
    assert named == {f"images/{name}" for name in files}


def test_texts_and_turns_are_the_rows(made: Build, out: Path) -> None:
    """All made here: escaped already, so that a record says what the row says, and pictures stand where they stood."""
    rows = {f"{table}:{row[ID_FIELDS[table]]}": row for table in TRAINING for row in made.rows(table)}
    count: Counter[str] = Counter()
    for record in (record for found in records(out).values() for record in found):
        row = rows[record["row"]]
        said = [
            *row["prompt"],
            *(message for side in ("completion", "chosen", "rejected") for message in row.get(side, [])),
        ]
        for turn, was in zip(turns(record), said, strict=True):
            text = "".join("<image>" if block["type"] == "image" else block["text"] for block in was["content"])
            assert turn == {"role": was["role"], "content": text.replace("{{idx}}", "&#123;{idx}}")}
            count += Counter(slots="{{idx}}" in text)
        assert record["images"] == [f"images/{image.removeprefix('sha256:')}.png" for image in row["images"]]
    assert count["slots"] > 20


def test_no_text_adds_a_picture_or_a_turn(out: Path) -> None:
    for name, rows in records(out).items():
        for record in rows:
            texts = [turn["content"] for turn in turns(record)]
            assert sum(text.count("<image>") for text in texts) == len(record["images"]) == 1, name
            assert not any(mark in text for text in texts for mark in ("<video>", "<audio>", "<|", "{{idx}}", "[INST]"))
            roles = [turn["role"] for turn in record["messages"]]
            assert roles == ["system", *("user", "assistant") * 2][: len(roles)]
            assert len(roles) == {"selection": 3, "scalar": 2, "actor": 5}[name.split("_")[1]]


# -- what is not made here ------------------------------------------------------------------------------------------


def ready(toy: Toy, tmp_path: Path, *rows: Row, **changes: Any) -> tuple[Exported, list[Row]]:
    """Export ready-made rows, selection rows and pairs, and nothing else."""
    kinds = {"selection_sft": [r for r in rows if "completion" in r], "bt_pairs": [r for r in rows if "chosen" in r]}
    tables = tuple(kind for kind, held in kinds.items() if held)
    given: dict[str, Any] = {"tables": tables, "images": dict.fromkeys(tables, "embed"), "actor_sft": None}
    built = hostile.build(
        toy, *[(k, v) for k, v in kinds.items() if v], **{**given, "split": SplitSpec(0.0, 1), **changes}
    )
    exported = export("llamafactory", built.folder, tmp_path / "out")
    return exported, [record for found in records(tmp_path / "out").values() for record in found]


FINE = selection("fine", message("user", "a"))
SAY = message("assistant", "click(1, 1)")
ACROSS = {"role": "user", "content": [{"type": "text", "text": "<ima"}, {"type": "text", "text": "ge>"}]}


def test_raw_literals_of_others_are_escaped_and_counted(toy: Toy, tmp_path: Path) -> None:
    raw = selection("raw", message("system", TEXT), message("user", TEXT, pictures=1), images=(toy.data_url(1),))
    both = pair("both", message("assistant", f"stop('{TEXT}')"), SAY, message("user", TEXT), images=())
    exported, found = ready(toy, tmp_path, FINE, raw, both, selection("across", ACROSS))
    assert not exported.reasons
    by_id = {record["row"]: record for record in found}
    safe = escape_tokens(TEXT)
    assert [turn["content"] for turn in by_id["selection_sft:raw"]["messages"][:2]] == [
        safe.replace("{{idx}}", "&#123;{idx}}"), "<image>" + safe.replace("{{idx}}", "&#123;{idx}}"),
    ]  # fmt: skip
    assert "<tool_call>" in by_id["bt_pairs:both"]["chosen"]["content"]  # how an actor writes
    assert by_id["selection_sft:across"]["messages"][0]["content"] == "&lt;image>"
    assert exported.left_out["selection_sft texts as they were before placeholders were escaped"] == 2
    assert exported.left_out["bt_pairs texts as they were before placeholders were escaped"] == 1


def test_rows_without_a_picture_come_last(toy: Toy, tmp_path: Path) -> None:
    """A file that began with many of them would be read as if no row had one, and fail at the first that has."""
    shown = selection("shown", message("user", "a", pictures=1), images=(toy.data_url(1),))
    bare = [selection(f"bare-{n}", message("user", f"a {n}")) for n in range(5)]
    _, found = ready(toy, tmp_path, *bare, shown)
    assert [bool(record["images"]) for record in found] == [True, *[False] * 5]


TWO = [message("assistant", "a"), message("assistant", "b")]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (selection("x", message("user", "a"), message("user", "b")), "has two turns of the user in a row"),
        (selection("x", message("user", "a"), message("assistant", "b")), "does not end with a turn of the user"),
        (selection("x", message("assistant", "a"), message("user", "b")), "begins with a turn of the assistant"),
        (selection("x", message("user", "a"), message("system", "b"), message("user", "c")), "system turn after the"),
        (selection("x", message("system", "a")), "does not end with a turn of the user"),
        (selection("x", message("user", "a")) | {"completion": TWO}, "its completion is 2 messages"),
        (selection("x", message("user", "a")) | {"completion": [message("user", "b")]}, "is a turn of the user"),
        (selection("x", message("user", "2024-01-01"), reply="2024-01-01 10:00"), "nothing but a date"),
        (pair("x", SAY, SAY, message("user", "a")) | {"chosen": TWO}, "its chosen is 2 messages"),
        (pair("x", message("assistant", "2024-01-01"), SAY, message("user", "a")), "nothing but a date"),
        (pair("x", message("assistant", "<s>"), message("assistant", "&lt;s>"), message("user", "a")), "equal once"),
    ],
)  # fmt: skip
def test_what_the_loader_would_drop_or_change_is_refused_by_name(
    row: Row, reason: str, toy: Toy, tmp_path: Path
) -> None:
    exported, found = ready(toy, tmp_path, FINE, row)
    (unexpressed,) = exported.unexpressed
    assert reason in unexpressed.reason
    assert (unexpressed.row_id, [record["row"] for record in found]) == ("x", ["selection_sft:fine"])
    assert f"1 rows of {unexpressed.table}: {unexpressed.reason}" in (tmp_path / "out" / "README.md").read_text("utf-8")


def test_a_picture_where_the_loader_looks_for_none_is_refused(toy: Toy, tmp_path: Path) -> None:
    shown = message("system", "a", pictures=1), message("user", "b")
    exported, _ = ready(toy, tmp_path, FINE, selection("x", *shown, images=(toy.data_url(1),)))
    assert "its system turn shows a picture" in exported.unexpressed[0].reason
    assert (exported.pictures, list((tmp_path / "out").glob("images/*"))) == (0, [])


def test_a_build_without_training_rows_is_said(toy: Toy, tmp_path: Path) -> None:
    toy.page("a")
    built = toy.build(tables=("states",), images={"states": "embed"})
    with pytest.raises(ArmError, match="has no row that llamafactory can express"):
        export("llamafactory", built.folder, tmp_path / "out")


def test_pictures_come_from_the_table_that_embeds_them(toy: Toy, tmp_path: Path) -> None:
    toy.scene("a", picture=1)
    built = toy.build(images={"states": "embed", "selection_sft": "reference", "bt_pairs": "reference"})
    exported = export("llamafactory", built.folder, tmp_path / "out")
    (picture,) = (tmp_path / "out" / "images").iterdir()
    assert (picture.read_bytes(), exported.pictures, exported.reasons) == (toy.png(1), 1, Counter())


def test_a_picture_that_nobody_embeds_is_missed_by_name(toy: Toy, tmp_path: Path) -> None:
    toy.scene("a", picture=1)
    built = toy.build(images=dict.fromkeys(("states", "selection_sft", "bt_pairs"), "reference"))
    with pytest.raises(ArmError, match="referred to, and no table embeds it"):
        export("llamafactory", built.folder, tmp_path / "out")


# -- recipes --------------------------------------------------------------------------------------------------------


def recipe(out: Path, name: str) -> Row:
    read = yaml.safe_load((out / name).read_text("utf-8"))
    assert isinstance(read, dict)
    return read


def test_recipes_name_what_is_registered_and_say_how_they_are_run(out: Path) -> None:
    info = json.loads((out / "dataset_info.json").read_text("ascii"))
    kinds = ("selection", "scalar", "actor", "actor_control")
    found = sorted(path.name for path in out.glob("*.yaml"))
    assert found == sorted(f"{step}_{kind}.yaml" for step in ("train", "eval", "merge") for kind in kinds)
    for name in found:
        verb = "export" if name.startswith("merge") else "train"
        text = (out / name).read_text("utf-8")
        assert text.splitlines()[0] == f"# llamafactory-cli {verb} {name}"
        assert "$" not in text
        read = recipe(out, name)
        datasets = {read[key] for key in ("dataset", "eval_dataset") if key in read}
        assert datasets <= set(info)
        assert "val_size" not in read
        ranked = {info[name].get("ranking", False) for name in datasets}
        assert ranked <= {read["stage"] == "rm"}
    for kind in kinds:
        train, check, merge = (recipe(out, f"{step}_{kind}.yaml") for step in ("train", "eval", "merge"))
        assert (train["dataset"], train["eval_dataset"]) == (f"toy_{kind}_train", f"toy_{kind}_validation")
        assert check["eval_dataset"] == train["eval_dataset"]
        assert train["output_dir"] == check["adapter_name_or_path"] == merge["adapter_name_or_path"]
        same = ("model_name_or_path", "template", "stage", "finetuning_type")
        assert [train[key] for key in same] == [check[key] for key in same] == [merge[key] for key in same]


def test_recipes_have_the_settings_of_the_released_checkpoints(out: Path) -> None:
    names = ("stage", "lora_rank", "lora_alpha", "num_train_epochs", "learning_rate", "per_device_train_batch_size")
    settings = {kind: recipe(out, f"train_{kind}.yaml") for kind in ("selection", "scalar", "actor")}
    assert {kind: tuple(read[name] for name in names) for kind, read in settings.items()} == {
        "selection": ("sft", 32, 64, 2.0, 1e-4, 2),
        "scalar": ("rm", 32, 64, 1.0, 5e-5, 2),
        "actor": ("sft", 16, 32, 1.0, 1e-4, 1),
    }
    shared = {
        "lora_target": "all", "lora_dropout": 0.05, "freeze_vision_tower": True, "freeze_multi_modal_projector": True,
        "image_max_pixels": 262144, "cutoff_len": 8192, "lr_scheduler_type": "cosine", "warmup_ratio": 0.05,
        "gradient_accumulation_steps": 8, "bf16": True,
    }  # fmt: skip
    assert all(shared.items() <= read.items() for read in settings.values())


def test_thoughts_are_kept_where_there_are_any(out: Path) -> None:
    """LLaMA-Factory takes thoughts out of replies that are not declared to think."""
    thinks = {kind: recipe(out, f"train_{kind}.yaml")["enable_thinking"] for kind in ("selection", "scalar", "actor")}
    assert thinks == {"selection": False, "scalar": False, "actor": True}


def test_the_longest_declared_row_is_not_cut(toy: Toy, tmp_path: Path) -> None:
    base = tiny_processor.make(tmp_path / "base")
    sha256 = processor.digest(base)
    assert sha256
    toy.scene("a")
    for most, limit in ((5_000, 8_192), (9_000, 9_000)):
        built = toy.build(tokens=TokenSpec("base", base, sha256, most))
        export("llamafactory", built.folder, tmp_path / str(most))
        assert recipe(tmp_path / str(most), "train_selection.yaml")["cutoff_len"] == limit


def test_without_validation_rows_nothing_is_evaluated_and_that_is_said(toy: Toy, tmp_path: Path) -> None:
    toy.scene("a")
    exported = export("llamafactory", toy.build().folder, tmp_path / "out")
    assert "eval_dataset" not in recipe(tmp_path / "out", "train_selection.yaml")
    assert not list((tmp_path / "out").glob("eval_*"))
    assert [note for note in exported.notes if "no validation rows" in note and note.startswith("selection")]


def test_the_readme_says_what_this_is(made: Build, out: Path) -> None:
    text = (out / "README.md").read_text("utf-8")
    assert made.manifest["identity_sha256"] in text
    assert "someone/toy v1.0.0" in text
    assert all(prompt["sha256"] in text for prompt in made.identity["prompts"])
    assert "no column for bt_pairs.pair_type" in text


def test_what_no_stage_trains_on_is_said(toy: Toy, tmp_path: Path) -> None:
    prompt, nothing = [message("user", "a")], dict.fromkeys(("state_id", "set_id", "candidate_index", "prompt_id"))
    scored = {"score_id": "s", "unit": "step", "score": 0.5, "score_source": "x", "prompt_sha256": None, "images": []}
    score = {**scored, **nothing, "prompt": prompt, "completion": [SAY]}
    tables = ("selection_sft", "pointwise_scores")
    rows: Any = (("selection_sft", [FINE]), ("pointwise_scores", [score]))
    built = hostile.build(toy, *rows, tables=tables, images=dict.fromkeys(tables, "embed"), actor_sft=None)
    exported = export("llamafactory", built.folder, tmp_path / "out")
    assert "the format has no place for pointwise_scores (1 rows)" in exported.notes
