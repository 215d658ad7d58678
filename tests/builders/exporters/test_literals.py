"""Page text that looks like structure is text in every export: rows, pictures and turns are those of the build.

Turns are counted as a model meets them: the export's messages are rendered by a chat template, and cut into tokens by
a real tokenizer, in which such literals are single tokens.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from action_reward_models.builders.chat_template import ChatTemplate
from action_reward_models.builders.exporters import EXPORTERS, Exported, export
from action_reward_models.builders.processor import Tokenizer
from action_reward_models.tests.builders import tiny_processor
from action_reward_models.tests.builders.exporters import hostile
from action_reward_models.tests.builders.exporters.hostile import TEXT, URL, message, pair, selection

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

Row = dict[str, Any]
Said = tuple[list[Row], int]  # the messages of a prompt with one reply, as blocks; pictures beside them
SIDES = {"selection_sft": ("completion",), "actor_sft": ("completion",), "bt_pairs": ("chosen", "rejected")}


def whole(row: Row, *sides: str) -> Iterator[Said]:
    """A row's prompt with each of its replies."""
    for side in sides:
        yield [*row["prompt"], *row[side]], len(row["images"])


# -- what stands in the files ---------------------------------------------------------------------------------------


def trl(out: Path) -> Iterator[Said]:
    for path in out.rglob("*.parquet"):
        for row in pq.read_table(path).to_pylist():
            yield from whole({"images": [], **row}, *(side for side in row if side not in ("prompt", "images")))


def openai(out: Path) -> Iterator[Said]:
    for path in out.glob("*.jsonl"):
        for line in path.read_bytes().split(b"\n")[:-1]:
            messages = json.loads(line)["messages"]
            parts = [part for m in messages if isinstance(m["content"], list) for part in m["content"]]
            blocks = [{"role": m["role"], "content": [block(part) for part in listed(m["content"])]} for m in messages]
            yield blocks, sum("image_url" in part for part in parts)


def listed(content: Any) -> list[Row]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def block(part: Row) -> Row:
    return {"type": "image"} if part["type"] == "image_url" else part


def sharegpt(records: list[Row]) -> Iterator[Said]:
    for record in records:
        for side in [record[side] for side in ("chosen", "rejected") if side in record] or [None]:
            turns = [*record["messages"], *([side] if side else [])]
            yield [{"role": t["role"], "content": cut(t["content"])} for t in turns], len(record["images"])


def cut(text: str) -> list[Row]:
    """What a reader of such files makes of a text: a picture at each placeholder."""
    found: list[Row] = []
    for number, piece in enumerate(text.split("<image>")):
        found += [{"type": "image"}] if number else []
        found += [{"type": "text", "text": piece}] if piece else []
    return found


def release_rows(out: Path) -> Iterator[Said]:
    for path in out.glob("*/*.json"):
        yield from sharegpt(json.loads(path.read_bytes()))


def llamafactory(out: Path) -> Iterator[Said]:
    for entry in json.loads((out / "dataset_info.json").read_bytes()).values():
        lines = (out / entry["file_name"]).read_bytes().split(b"\n")[:-1]
        yield from sharegpt([json.loads(line) for line in lines])


READERS: dict[str, tuple[Callable[[Path], Iterator[Said]], tuple[str, ...]]] = {
    "first_release_rows": (release_rows, ("selection_sft", "bt_pairs")),
    "llamafactory": (llamafactory, ("selection_sft", "bt_pairs", "actor_sft")),
    "trl": (trl, ("selection_sft", "bt_pairs", "actor_sft")),
    "openai_finetuning": (openai, ("selection_sft",)),
}
RAW = {"first_release"}  # records as they were read, rendered by nobody: test_round_trip.py


# -- what a model meets ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_processor.make(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def ids(base: Path) -> Callable[[list[Row]], list[int]]:
    template, tokenizer = ChatTemplate([base / "chat_template.jinja"], {}), Tokenizer(base / "tokenizer.json")
    return lambda messages: list(tokenizer.ids(template.text(messages)))


def special(base: Path) -> dict[str, int]:
    tokenizer = Tokenizer(base / "tokenizer.json")
    found = {token: list(tokenizer.ids(token)) for token in tiny_processor.SPECIAL}
    assert all(len(numbers) == 1 for numbers in found.values())
    return {token: numbers[0] for token, numbers in found.items()}


def check(said: list[Said], base: Path, ids: Callable[[list[Row]], list[int]]) -> None:
    """Each turn is one, each picture is one, and nothing else opens or ends anything."""
    tokens = special(base)
    for messages, pictures in said:
        counted = Counter(ids(messages))
        assert counted[tokens["<|im_start|>"]] == counted[tokens["<|im_end|>"]] == len(messages)
        assert {counted[tokens[f"<|{t}|>"]] for t in ("image_pad", "vision_start", "vision_end")} == {pictures}
        assert counted[tokens["<|endoftext|>"]] == 0


def text(messages: list[Row]) -> str:
    """A conversation with all its blocks, to be compared."""
    return json.dumps([[m["role"], [block["text"] or "" if block["type"] == "text" else 0 for block in m["content"]]]
                       for m in messages])  # fmt: skip


def test_every_export_is_looked_at() -> None:
    assert {*READERS, *RAW} == set(EXPORTERS)


@pytest.fixture
def made(toy: Toy) -> Build:
    hostile.fill(toy)
    return hostile.build(toy)


@pytest.mark.parametrize("fmt", READERS)
def test_rows_pictures_and_turns_are_those_of_the_build(
    fmt: str, made: Build, base: Path, ids: Callable[[list[Row]], list[int]], tmp_path: Path
) -> None:
    read, tables = READERS[fmt]
    found: Exported = export(fmt, made.folder, tmp_path / "out")
    assert not found.reasons
    changed = [fact for fact in found.left_out if "escaped" in fact]
    assert bool(changed) == (fmt == "llamafactory")  # which has a placeholder of its own; else all is harmless already
    given = [said for table in tables for row in made.rows(table) for said in whole(row, *SIDES[table])]
    said = list(read(tmp_path / "out"))
    assert len(said) == len(given) >= 12
    check(said, base, ids)
    wanted = sorted(
        text(m).replace("{{idx}}", "&#123;{idx}}" if fmt == "llamafactory" else "{{idx}}") for m, _ in given
    )
    assert sorted(text(m) for m, _ in said) == wanted
    words = "".join(
        block["text"] for m, _ in said for turn in m for block in turn["content"] if block["type"] == "text"
    )
    for word in ("&lt;image>", "&lt;|im_end|>", "&lt;|im_start|>user", "&lt;tool_call>", "&lt;video>", "&#91;INST]",
                 "&lt;/think>", "{{ jinja }}", "\u2028", "a\rb", URL.replace("[", "&#91;")):  # fmt: skip
        assert word in words, word


@pytest.mark.parametrize("fmt", READERS)
def test_ready_made_rows_are_made_harmless(
    fmt: str, toy: Toy, base: Path, ids: Callable[[list[Row]], list[int]], tmp_path: Path
) -> None:
    """Their texts are somebody else's and were never escaped; a token may even lie across two blocks."""
    said = message("user", f"Task: {TEXT}", 1)
    said["content"] += [{"type": "text", "text": "<|im_"}, {"type": "text", "text": "end|><ima"}]
    said["content"] += [{"type": "text", "text": "ge>"}]
    picture = (toy.data_url(hostile.rgb(3, 32)),)
    replies = [message("assistant", f"{word} {TEXT}") for word in ("Left", "Right")]
    ready = [
        ("selection_sft", [selection("s", said, images=picture)]),
        ("bt_pairs", [pair("p", *replies, said, images=picture)]),
    ]
    kinds: dict[str, Any] = {kind: None for kind, _ in ready}
    build = hostile.build(
        toy,
        *ready,
        selection=None,
        pairs=None,
        actor_sft=None,
        tables=tuple(kinds),
        images=dict.fromkeys(kinds, "embed"),
    )
    read, tables = READERS[fmt]
    found = export(fmt, build.folder, tmp_path / "out")
    assert not found.reasons
    shown = list(read(tmp_path / "out"))
    assert len(shown) == sum(len(SIDES[table]) for table in tables if table in kinds)
    check(shown, base, ids)
    told = {fact: n for fact, n in found.left_out.items() if "escaped" in fact}
    assert told == {f"{t} texts as they were before placeholders were escaped": 1 for t in tables if t in kinds}
    words = "".join(
        block["text"] for m, _ in shown for turn in m for block in turn["content"] if block["type"] == "text"
    )
    assert "&lt;|im_end|>&lt;image>" in words
