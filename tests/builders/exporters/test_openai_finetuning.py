"""JSON Lines for OpenAI's fine-tuning: their form by a schema of it, pictures byte for byte, limits by name."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from action_reward_models.builders.exporters import export
from action_reward_models.builders.exporters import openai_finetuning as finetuning
from action_reward_models.builders.spec import SplitSpec
from action_reward_models.schemas.errors import ArmError, UsageError
from action_reward_models.schemas.ids import sha256_hex
from action_reward_models.schemas.images import sniff
from action_reward_models.tests.builders.exporters import hostile
from PIL import Image

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

Row = dict[str, Any]
# One training example, as the service's guides and API reference describe it.
TEXT_PART = {
    "type": "object", "properties": {"type": {"const": "text"}, "text": {"type": "string"}},
    "required": ["type", "text"], "additionalProperties": False,
}  # fmt: skip
URL = {"type": "string", "pattern": "^data:image/(png|jpeg|webp);base64,[A-Za-z0-9+/]+={0,2}$"}
IMAGE_PART = {
    "type": "object",
    "properties": {
        "type": {"const": "image_url"},
        "image_url": {
            "type": "object", "properties": {"url": URL}, "required": ["url"], "additionalProperties": False,
        },
    },
    "required": ["type", "image_url"], "additionalProperties": False,
}  # fmt: skip


def turn(role: str, *parts: Row) -> Row:
    content: Row = {"type": "string", "minLength": 1}
    if parts:
        content = {"anyOf": [content, {"type": "array", "items": {"anyOf": list(parts)}, "minItems": 1}]}
    return {
        "type": "object", "properties": {"role": {"const": role}, "content": content},
        "required": ["role", "content"], "additionalProperties": False,
    }  # fmt: skip


EXAMPLE = {
    "type": "object",
    "properties": {
        "messages": {
            "type": "array",
            "prefixItems": [turn("system", TEXT_PART), turn("user", TEXT_PART, IMAGE_PART), turn("assistant")],
            "minItems": 3,
            "items": False,
        }
    },
    "required": ["messages"],
    "additionalProperties": False,
}


def lines(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def pictures(example: Row) -> list[bytes]:
    parts = [
        part for message in example["messages"] if isinstance(message["content"], list) for part in message["content"]
    ]
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    return [base64.b64decode(url.partition(",")[2], validate=True) for url in urls]


def test_every_line_has_the_form_and_is_its_row(toy: Toy, tmp_path: Path) -> None:
    hostile.fill(toy, 40)
    made = hostile.build(toy)
    found = export("openai_finetuning", made.folder, tmp_path / "out")
    assert (found.reasons, set(found.files)) == ({}, {"train.jsonl", "validation.jsonl"})
    checker = jsonschema.Draft202012Validator(EXAMPLE)
    for split in ("train", "validation"):
        given = made.rows("selection_sft", split=split)
        examples = lines(tmp_path / "out" / f"{split}.jsonl")
        assert [list(checker.iter_errors(example)) for example in examples] == [[]] * len(given)
        shown = [[f"sha256:{sha256_hex(data)}" for data in pictures(example)] for example in examples]
        assert sorted(shown) == sorted(row["images"] for row in given)
        replies = [example["messages"][-1]["content"] for example in examples]
        assert sorted(replies) == sorted(row["completion"][0]["content"][0]["text"] for row in given)
    assert found.left_out["selection_sft.order"] == 40
    pairs, actor = len(made.rows("bt_pairs")), len(made.rows("actor_sft"))
    assert found.notes == [f"the format has no place for actor_sft ({actor} rows), bt_pairs ({pairs} rows)"]


def encoded(kind: str, mode: str = "RGB", size: int = 24) -> bytes:
    made = io.BytesIO()
    Image.effect_noise((size, size), 90).convert(mode).save(made, kind)
    return made.getvalue()


def ready(toy: Toy, *rows: tuple[str, list[bytes]]) -> Build:
    """A build of ready-made rows: (id, pictures)."""
    records = [
        hostile.selection(
            name,
            hostile.message("user", f"Row {name}.", len(shown)),
            images=tuple(toy.data_url(data, str(sniff(data))) for data in shown),
        )
        for name, shown in rows
    ]
    return built(toy, records)


def built(toy: Toy, records: list[Row]) -> Build:
    """All of it in train."""
    changes = {"selection": None, "pairs": None, "actor_sft": None, "images": {"selection_sft": "embed"}}
    return hostile.build(toy, ("selection_sft", records), tables=("selection_sft",), split=SplitSpec(0.0, 1), **changes)


@pytest.mark.parametrize("damaged", [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff" + bytes(20)])
def test_a_picture_that_no_build_lets_through_is_named(damaged: bytes) -> None:
    row = hostile.selection("r", hostile.message("user", "q", 1))
    assert finetuning.problem(row, [encoded("PNG")]) is None
    assert (finetuning.problem(row, [damaged]) or "").startswith("its picture cannot be read: ")


def test_what_the_service_does_not_take_is_named(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finetuning, "MAX_PICTURE_BYTES", 20_000)
    given: list[tuple[str, list[bytes], str | None]] = [
        ("png", [encoded("PNG")], None),
        ("png with alpha", [encoded("PNG", "RGBA")], None),
        ("jpeg", [encoded("JPEG")], None),
        ("webp", [encoded("WEBP")], None),
        ("none", [], None),
        ("many", [encoded("PNG", size=8 + n) for n in range(10)], None),
        ("gif", [encoded("GIF", "L")], "its picture is image/gif, and the service takes image/jpeg, "),
        ("grey", [encoded("PNG", "L")], "its picture's mode is L, and the service takes RGB and RGBA"),
        ("palette", [encoded("PNG", "P")], "its picture's mode is P, and the service takes RGB and RGBA"),
        ("one of two", [encoded("PNG"), encoded("JPEG", "L")], "its picture's mode is L, and the service takes "),
        ("large", [encoded("PNG", size=240)], "its picture has "),
        ("too many", [encoded("PNG", size=8 + n) for n in range(11)],
         "it shows 11 pictures, and the service takes 10 an example"),
    ]  # fmt: skip
    found = export("openai_finetuning", ready(toy, *[row[:2] for row in given]).folder, tmp_path / "out")
    assert found.files == {"train.jsonl": 6}
    told = {row.row_id: row.reason for row in found.unexpressed}
    assert set(told) == {name for name, _, reason in given if reason}
    assert all(told[name].startswith(reason) for name, _, reason in given if reason)
    assert "train.jsonl has 6 examples, and the service asks for 10 or more" in found.notes
    alone = [e["messages"][0]["content"] for e in lines(tmp_path / "out" / "train.jsonl") if not pictures(e)]
    assert alone == ["Row none."]  # text alone is text


def test_a_file_holds_what_the_service_takes_of_one(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(f"{n:02}", [encoded("PNG")] if n % 2 else []) for n in range(30)]
    build = ready(toy, *rows)
    whole = export("openai_finetuning", build.folder, tmp_path / "whole")
    size = (tmp_path / "whole" / "train.jsonl").stat().st_size
    monkeypatch.setattr(finetuning, "MAX_EXAMPLES", 4)
    found = export("openai_finetuning", build.folder, tmp_path / "few")
    assert [bool(pictures(example)) for example in lines(tmp_path / "few" / "train.jsonl")].count(True) == 4
    (reason,) = found.reasons
    assert reason[1] == "its file holds 4 examples with pictures already, and the service takes no more"
    assert (whole.files, found.files, found.reasons[reason]) == ({"train.jsonl": 30}, {"train.jsonl": 19}, 11)
    monkeypatch.setattr(finetuning, "MAX_EXAMPLES", 50_000)
    monkeypatch.setattr(finetuning, "MAX_FILE_BYTES", size // 2)
    found = export("openai_finetuning", build.folder, tmp_path / "small")
    assert (tmp_path / "small" / "train.jsonl").stat().st_size <= size // 2
    assert [why for _, why in found.reasons] == [
        f"its file would be larger than {size // 2:,} bytes, and the service takes no more"
    ]


def test_replies_and_turns_of_another_kind(toy: Toy, tmp_path: Path) -> None:
    said, reply = hostile.message("user", "Go.", 1), hostile.message("assistant", '{"selection": 1}')
    shown = hostile.message("system", "Look.", 1)
    url = toy.data_url(hostile.rgb(1, 24))
    rows = [
        hostile.selection("good", said, images=(url,)),
        hostile.selection("prose", said, reply="the first one", images=(url,)),
        hostile.selection("system", shown, said, images=(url, url)),
        {**hostile.selection("two", said, images=(url,)), "completion": [reply, said, reply]},
    ]
    found = export("openai_finetuning", built(toy, rows).folder, tmp_path / "out")
    assert found.files == {"train.jsonl": 1}
    assert {row.row_id: row.reason for row in found.unexpressed} == {
        "prose": "its reply does not pick one candidate",
        "system": "a turn of the system shows a picture, and the service takes them from the user only",
        "two": "its completion is not one turn of the assistant",
    }


def test_a_build_without_the_table(toy: Toy, tmp_path: Path) -> None:
    toy.page("a")
    build = toy.build(tables=("states",), images={"states": "embed"})
    with pytest.raises(UsageError, match="publishes no table selection_sft"):
        export("openai_finetuning", build.folder, tmp_path / "out")
    with pytest.raises(ArmError, match="has no row that trl can express"):
        export("trl", build.folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()
