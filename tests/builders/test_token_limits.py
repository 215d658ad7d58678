"""Rows too long for the base model, and pairs whose sides are the same tokens: each named, none counted by halves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import pytest
from action_reward_models.builders import processor
from action_reward_models.builders.spec import (
    ActorSpec,
    PairSpec,
    PointwiseSpec,
    PromptSpec,
    SplitSpec,
    TokenSpec,
    TrajectorySpec,
)
from action_reward_models.builders.token_limits import LIMITED
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.ids import hash_order
from action_reward_models.schemas.store import ID_FIELDS
from action_reward_models.tests.builders import tiny_processor
from tokenizers import Tokenizer

if TYPE_CHECKING:
    from .conftest import Build, Toy

Row = dict[str, Any]
TABLES = ("states", "candidate_sets", "teacher_labels", *LIMITED)
HUGE = 10_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_processor.make(tmp_path_factory.mktemp("processor") / "tiny")


def spec(folder: Path, most: int) -> TokenSpec:
    sha256 = processor.digest(folder)
    assert sha256
    return TokenSpec("lab/tiny@main", folder, sha256, most)


def build(toy: Toy, tokens: TokenSpec | None, **changes: Any) -> Build:
    pairs = PairSpec(PromptSpec("scalar/1"), max_pairs_per_set=0)
    made = toy.build(
        **{
            "tables": TABLES, "images": dict.fromkeys(("states", *LIMITED), "embed"), "pairs": pairs,
            "pointwise": PointwiseSpec(PromptSpec("scalar/1")), "actor_sft": ActorSpec(random_control=True),
            "tokens": tokens, "split": SplitSpec(0.4, 3), **changes,
        }
    )  # fmt: skip
    assert made.balanced()
    return made


@pytest.fixture
def full(toy: Toy) -> Toy:
    """Pages with pictures of several sizes, labelled and scored sets of candidates of several lengths, a pick alone."""
    for number in range(6):
        said = ["click(1, 1)", f"type('{'word ' * number}')", "stop('ä € 語')", toy.response("scroll(1)", "so " * 9)]
        toy.scene(f"p{number}", *said, pick=number % 4, picture=toy.png(number, 8 + 20 * number), task=f"Do {number}.")
    toy.scene("alone", "click(1, 1)", picture=toy.png(9))
    return toy


def scored(toy: Toy) -> dict[str, Any]:
    """The sources of ``toy``, with two more states that come with scored candidates."""
    for number in range(2):
        said = f"<|im_start|>user\nTask: Rate {number}.<|im_end|>\n<|im_start|>assistant\n"
        record = {"state_id": f"{number}", "episode_id": f"r{number}", "turn": 0, "prompt_text": said}
        toy.states.append({**record, "images": [toy.data_url(toy.png(30 + number, 48))]})
    cands = [{"action_str": f"click({n}, {n})", "score": n / 9} for n in range(1, 9)]
    cands += [{"action_str": f"type('{'long ' * n}')", "score": n / 9} for n in range(1, 9)]
    records = [{"state_id": number, "cands": cands} for number in range(2)]
    given = toy.lay("candidate_scores", "molmoweb", "scores.jsonl", records, dialect="function", space="pixel")
    return {"sources": (*toy.sources(), given)}


# -- a plain count --------------------------------------------------------------------------------------------------


def sides(row: Row) -> Iterator[tuple[str, list[Row]]]:
    for name in ("chosen", "rejected", "completion"):
        if name in row:
            yield name, [*row["prompt"], *row[name]]


def picture_tokens(made: Build, image: str) -> int:
    """By hand: squares of 8 px (patches of 4, merged by two) in a picture of at least 16 x 16 and at most 64 x 64."""
    state = next(row for row in made.rows("states") if row["screenshot"] == image)
    size = state["width"]
    assert size == state["height"]
    return {8: 4, 28: 16, 48: 36, 68: 64, 88: 64, 108: 64}[size]  # 28 / 8 = 3.5 goes to 4 squares; 68 shrinks to 64


class Plain:
    """Every row rendered and cut whole."""

    def __init__(self, folder: Path) -> None:
        loader = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, autoescape=False)
        self._template = loader.from_string((folder / "chat_template.jinja").read_text("utf-8"))
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def ids(self, messages: list[Row]) -> list[int]:
        text = self._template.render(messages=messages, add_generation_prompt=False)
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def longest(self, made: Build, row: Row) -> int:
        pictures = sum(picture_tokens(made, image) - 1 for image in row["images"])
        return max(len(self.ids(messages)) for _, messages in sides(row)) + pictures


def units(table: str, row: Row) -> str:
    """What the account of the table calls the row."""
    if table == "selection_sft":
        return str(row["label_id"])
    unit: str = row[ID_FIELDS[table]]
    return unit.removesuffix("|scalar/1") if table == "bt_pairs" else unit


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_exactly_the_rows_that_are_longer_are_excluded_by_name(full: Toy, folder: Path, share: float) -> None:
    sources = scored(full)
    free, plain = build(full, None, **sources), Plain(folder)
    lengths = {
        table: {units(table, row): plain.longest(free, row) for row in free.rows(table)} for table in LIMITED
    }  # fmt: skip
    assert all(lengths.values()), "rows of every table"
    assert {row["split"] for row in free.rows("selection_sft")} == {"train", "validation"}
    ordered = sorted(n for found in lengths.values() for n in found.values())
    most = ordered[int(share * len(ordered))]
    made = build(full, spec(folder, most), **sources)
    for table, found in lengths.items():
        fits = {unit for unit, n in found.items() if n <= most}
        # A pick whose pairs are all too long is left over, as one without a loser.
        rows = {units(table, row): row for row in made.rows(table)}
        added = {unit for unit in rows if table == "reserve" and "too_long" in rows[unit]["reason"]}
        assert set(rows) - added == fits
        excluded = set(made.excluded(table).get("too_long", ()))
        assert excluded >= set(found) - fits
        assert table == "reserve" or excluded <= set(found)
        for unit, row in rows.items():
            assert plain.longest(made, row) <= most, unit
    details = {(r["stage"], r["source_id"]): r["detail"] for r in made.rows("exclusions", reason="too_long")}
    for (table, unit), detail in details.items():
        if unit not in lengths[table]:
            assert table == "reserve"
            continue
        told = re.fullmatch(rf"(?:(chosen|rejected): )?([\d,]+) tokens, more than {most:,}", detail)
        assert told
        assert (told[1] is None) == (table != "bt_pairs")
        assert int(told[2].replace(",", "")) <= lengths[table][unit]
        assert table == "bt_pairs" or int(told[2].replace(",", "")) == lengths[table][unit]


def test_a_limit_that_nothing_reaches_changes_no_row(full: Toy, folder: Path) -> None:
    free, made = build(full, None), build(full, spec(folder, HUGE))
    assert free.digests == made.digests
    assert "tokens" not in free.identity["parameters"]
    assert made.identity["parameters"]["tokens"] == {
        "name": "lab/tiny@main", "sha256": processor.digest(folder), "max_tokens": HUGE,
    }  # fmt: skip
    assert set(made.manifest["environment"]["packages"]) - set(free.manifest["environment"]["packages"]) == {
        "tokenizers", "jinja2",
    }  # fmt: skip


@pytest.mark.slow
def test_transformers_counts_the_same(full: Toy, folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    made, plain, ours = build(full, None, **scored(full)), Plain(folder), processor.load(spec(folder, HUGE))
    count = 0
    for table in LIMITED:
        for row in made.rows(table):
            for _, messages in sides(row):
                ids = list(theirs.apply_chat_template(messages, tokenize=True, return_dict=False))
                text = ours.template.text(messages)
                assert ids == plain.ids(messages) == list(ours.tokenizer.ids(text))
                assert ours.tokenizer.length(text, 0) == len(ids)
                count += 1
    assert count > 50


# -- pairs ----------------------------------------------------------------------------------------------------------


def test_sides_that_are_the_same_tokens_are_no_pair(toy: Toy, folder: Path) -> None:
    """The tokenizer composes what was typed: one action key each, and one row of tokens for both."""
    toy.scene("a", "type('caf\u00e9')", "type('cafe\u0301')", "stop()")
    kept = toy.build()
    assert len(kept.rows("bt_pairs")) == 2
    made = toy.build(tokens=spec(folder, HUGE))
    assert made.excluded("bt_pairs") == {"equal_when_cut": ["a__t0#d0|-|-|0|1"]}
    (detail,) = [row["detail"] for row in made.rows("exclusions", reason="equal_when_cut")]
    assert re.fullmatch(r"both sides are the same \d+ tokens", detail)
    assert made.row("bt_pairs")["rejected_index"] == 2
    assert made.balanced()


def test_sides_that_a_template_makes_equal(toy: Toy, tmp_path: Path) -> None:
    """Many templates trim what the assistant says."""
    cut = tiny_processor.TEMPLATE.replace("part.text }}", "part.text[:300] }}")
    made = tiny_processor.make(tmp_path / "cutting", template=cut)
    toy.scene("a", f"type('{'x' * 400}a')", f"type('{'x' * 400}b')")
    assert toy.build(tokens=spec(made, HUGE)).excluded("bt_pairs") == {"equal_when_cut": ["a__t0#d0|-|-|0|1"]}


def test_a_pair_that_is_too_long_spends_no_budget(toy: Toy, folder: Path) -> None:
    """Whichever of the two losers comes first by hash is made the long one."""
    toy.scene("a", "click(1, 1)", "stop('1')", "stop('2')")
    one = PairSpec(PromptSpec("scalar/1"), max_pairs_per_set=1)
    first = toy.build(pairs=one).row("bt_pairs")
    (drawn,) = toy.sets
    assert isinstance(drawn, dict)
    drawn["candidates"][first["rejected_index"]] = toy.response(
        f"stop('{first['rejected_index']}')", "far too much " * 40
    )
    shown = replace(one, prompt=PromptSpec("scalar/1", options={"candidate_reasoning": True}))
    free = toy.build(pairs=shown)
    assert free.row("bt_pairs")["rejected_index"] == first["rejected_index"]
    limit = Plain(folder).longest(free, free.row("bt_pairs")) - 1
    made = toy.build(pairs=shown, tokens=spec(folder, limit))
    assert made.row("bt_pairs")["rejected_index"] == 3 - first["rejected_index"]
    assert made.excluded("bt_pairs") == {"too_long": [f"a__t0#d0|-|-|0|{first['rejected_index']}"]}
    (detail,) = [row["detail"] for row in made.rows("exclusions", reason="too_long", stage="bt_pairs")]
    assert detail.startswith("rejected: ")


def test_an_episode_that_is_too_long_spends_no_budget(toy: Toy, folder: Path) -> None:
    names = ["a", "b"]
    names.sort(key=lambda name: hash_order("trajectory", "good", name))
    for name, reward, turns in (("good", 1, 1), (names[0], 0, 60), (names[1], 0, 2)):
        messages = []
        for turn in range(turns):
            text = "Task: Buy." if turn == 0 else f"page {turn}"
            messages += [toy.message("user", text, turn), toy.message("assistant", toy.response("click(1, 1)", "so"))]
        toy.episode(name, *messages, metadata={"reward": reward})
    prompt = PromptSpec("trajectory/1", options={"history_window": 1000})
    pairs = PairSpec(PromptSpec("scalar/1"), trajectories=TrajectorySpec(prompt, 0.5, 1))
    how: dict[str, Any] = {"pairs": pairs, "tables": ("states", "bt_pairs"), "images": {"states": "embed"}}
    assert toy.build(**how).row("bt_pairs")["pair_id"] == f"good|{names[0]}|trajectory/1"
    made = toy.build(**how, tokens=spec(folder, 900))
    assert made.row("bt_pairs")["pair_id"] == f"good|{names[1]}|trajectory/1"
    assert made.excluded("bt_pairs") == {"too_long": [f"good|{names[0]}|trajectory/1"]}


# -- the whole ------------------------------------------------------------------------------------------------------


def test_what_is_wrong_with_the_processor_names_row_and_file(toy: Toy, tmp_path: Path) -> None:
    toy.scene("a")
    text = tiny_processor.make(tmp_path / "text", pictures=None)
    with pytest.raises(ArmError, match=r"a__t0#d0.*: has no picture settings, and rows show pictures") as caught:
        toy.build(tokens=spec(text, HUGE))
    assert caught.value.where == str(text)
    refusing = tiny_processor.TEMPLATE + "{{ raise_exception('odd turns') }}"
    made = tiny_processor.make(tmp_path / "refusing", template=refusing)
    with pytest.raises(
        ArmError, match=r"selection_sft a__t0#d0\|-\|-\|0\|selection/1: the chat template refuses a row"
    ):
        toy.build(tokens=spec(made, HUGE))
    blind = tiny_processor.TEMPLATE.replace("<|image_pad|>", "")
    made = tiny_processor.make(tmp_path / "blind", template=blind)
    with pytest.raises(ArmError, match=r"leaves 0 places for its 1 pictures"):
        toy.build(tokens=spec(made, HUGE))


def test_a_processor_that_cannot_be_read_is_told_before_anything_is_read(toy: Toy, tmp_path: Path) -> None:
    toy.scene("a")
    broken = tiny_processor.make(tmp_path / "broken", template="{% for %}")
    toy.sets.append(b"this is no record")
    with pytest.raises(ArmError, match="is no template: line 1"):
        toy.build(tokens=spec(broken, HUGE))


def test_tokens_of_pictures_are_of_the_picture_as_it_is_published(toy: Toy, folder: Path) -> None:
    """A picture that is turned upright, for instance, has its sides exchanged."""
    from PIL import Image

    picture, out = Image.new("RGB", (40, 16)), BytesIO()
    exif = picture.getexif()
    exif[0x0112] = 6
    picture.save(out, "JPEG", exif=exif)
    toy.scene("a", picture=toy.data_url(out.getvalue(), "image/jpeg"))
    made = toy.build(tokens=spec(folder, 1))
    state = made.row("states")
    assert (state["width"], state["height"]) == (16, 40)
    details = [row["detail"] for row in made.rows("exclusions", stage="selection_sft")]
    free = toy.build()
    row = free.row("selection_sft")
    (messages,) = [messages for _, messages in sides(row)]
    assert details == [f"{len(Plain(folder).ids(messages)) - 1 + 10:,} tokens, more than 1"]
