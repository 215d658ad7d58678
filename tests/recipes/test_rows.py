"""Rows of a build: which of them are used, and why the others are not. The processor is a stand-in that counts words;
the real one is in test_trainers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from action_reward_models.inference.processor import Encoded
from action_reward_models.recipes import rows as module
from action_reward_models.recipes.inputs import Inputs
from action_reward_models.recipes.recipe import Recipe
from action_reward_models.recipes.rows import Rows, prepare, said
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.ids import sha256_hex
from action_reward_models.tests.recipes import tiny

END = 7
PNG = b"no picture at all"
PICTURE = f"sha256:{sha256_hex(PNG)}"


class Words:
    """A token for each letter of prompt and reply, in lower case; the last one is END."""

    tokenizer = SimpleNamespace(decode=lambda ids: f"<{ids[0]}>")

    def scalar(self, prompt: Sequence[Any], images: Sequence[bytes], reply: Sequence[Any]) -> Encoded:
        text = f"{said(prompt)}{said(reply)}".lower()
        end = END + 1 if "other end" in text else END
        if "torn" in text:
            raise OSError("image file is truncated")
        ids = (*map(ord, text), end)
        return Encoded(ids, len(ids), (), tuple(sha256_hex(image) for image in images))

    def selection(self, prompt: Sequence[Any], images: Sequence[bytes], reply: str) -> Encoded:
        return Encoded((*map(ord, said(prompt)), *map(ord, reply), END), len(said(prompt)))


def message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}]}


def pair(number: int, chosen: str = "click 1", rejected: str = "click 2", **changes: Any) -> dict[str, Any]:
    return {
        "pair_id": f"p{number}", "prompt": [message("user", "page")], "chosen": [message("assistant", chosen)],
        "rejected": [message("assistant", rejected)], "margin": None, "prompt_id": None, "prompt_sha256": None,
        "rendered_sha256": "a" * 64, "images": [PICTURE], **changes,
    }  # fmt: skip


def inputs(loss: str = "bt", **changes: Any) -> Inputs:
    words = {"objective": {"loss": loss}, "limits": {"max_tokens": 16}, **changes}
    recipe = Recipe.of(Path("recipe.yaml"), tiny.data("scalar", **words))
    return Inputs(recipe, {}, Path("data"), None, Path("base"), {})


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """``given(rows, loss=..., changes of the recipe)``: the rows, prepared."""

    def prepared(found: list[dict[str, Any]], loss: str = "bt", *, into: str = "rows", **changes: Any) -> Rows:
        def read(_: Inputs, pictures: Path, __: Any) -> Iterator[dict[str, Any]]:
            path = pictures / PICTURE[7:9] / PICTURE[7:]
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(PNG)
            yield from found

        monkeypatch.setattr(module, "_read", read)
        processor: Any = Words()
        return prepare(inputs(loss, **changes), processor, tmp_path / into)

    return prepared


UNUSABLE: list[tuple[str, dict[str, Any], dict[str, int]]] = [
    ("too long", {"chosen": [message("assistant", "x" * 20)]}, {"too_long": 1}),
    ("too long on the other side", {"rejected": [message("assistant", "x" * 20)]}, {"too_long": 1}),
    ("equal for the model", {"rejected": [message("assistant", "CLICK 1")]}, {"equal_when_processed": 1}),
    ("nothing said", {"chosen": [message("assistant", " \n")]}, {"no_reply": 1}),
    ("no message", {"rejected": []}, {"no_reply": 1}),
    ("picture missing", {"images": [f"sha256:{'0' * 64}"]}, {"missing_picture": 1}),
    ("picture damaged", {"chosen": [message("assistant", "torn")]}, {"unreadable_picture": 1}),
]


@pytest.mark.parametrize(("changes", "counted"), [case[1:] for case in UNUSABLE], ids=[name for name, *_ in UNUSABLE])
def test_a_row_that_cannot_be_used_is_counted(given: Any, changes: dict[str, Any], counted: dict[str, int]) -> None:
    rows = given([pair(0), {**pair(1), **changes}, pair(2)], max_unusable=0.4)
    assert (rows.facts.rows, rows.facts.used, rows.facts.unusable) == (3, 2, counted)
    assert [rows[unit].id for unit in range(len(rows))] == ["p0", "p2"]
    assert rows.facts.longest == len("pageclick 1") + 1


def test_the_longest_that_is_allowed_is_used(given: Any) -> None:
    assert given([pair(0, chosen="x" * 11)], max_unusable=0).facts.longest == 16
    with pytest.raises(ArmError, match="the longest has 17 tokens"):
        given([pair(0, chosen="x" * 12)], into="other")


def test_a_row_is_what_the_table_says(given: Any) -> None:
    row = given([pair(0)])[0]
    assert row.prompt == [message("user", "page")]
    assert row.replies == [[message("assistant", "click 1")], [message("assistant", "click 2")]]
    assert row.images == [PNG]
    assert row.target is None


@pytest.mark.parametrize(("allowed", "fine"), [(0.25, True), (0.24, False)])
def test_too_many_that_cannot_be_used_are_refused(given: Any, allowed: float, fine: bool) -> None:
    found = [pair(0), pair(1), pair(2), pair(3, chosen="x" * 30)]
    if fine:
        assert given(found, max_unusable=allowed).facts.used == 3
        return
    with pytest.raises(ArmError) as told:
        given(found, max_unusable=allowed)
    assert told.value.message == (
        "1 of 4 rows of bt_pairs cannot be used: 1 too_long; the longest has 35 tokens, and limits.max_tokens is 16; "
        "max_unusable is 0.24"
    )
    assert told.value.next_command == "max_unusable: 0.2500 in the recipe allows it"


def test_rows_of_which_none_can_be_used_are_refused_whatever_is_allowed(given: Any) -> None:
    with pytest.raises(ArmError, match="1 of 1 rows of bt_pairs cannot be used"):
        given([pair(0, chosen="")], max_unusable=1)


def test_rows_of_several_prompts_are_refused(given: Any) -> None:
    found = [pair(0), pair(1, prompt_id="scalar/1", prompt_sha256="b" * 64)]
    with pytest.raises(ArmError, match=r"several prompts.*: 1 by scalar/1 \(bbbbbbbbbbbb\), 1 ready-made"):
        given(found)


def test_conversations_that_end_in_different_tokens_are_refused(given: Any) -> None:
    assert given([pair(0)]).facts.scored == END
    with pytest.raises(ArmError, match=r"end in different tokens.*'<7>' \(p0\), '<8>' \(p1\)"):
        given([pair(0), pair(1, chosen="other end")], into="other")


def test_soft_pairs_need_a_margin(given: Any) -> None:
    rows = given([pair(0, margin=0.5), pair(1)], "soft_bt", max_unusable=0.5)
    assert rows.facts.unusable == {"no_margin": 1}
    assert rows[0].target == 0.5


def test_a_list_is_all_pairs_of_one_chosen_candidate(given: Any) -> None:
    found = [
        pair(0, rejected="click 2"), pair(1, chosen="wait", rejected="click 2"), pair(2, rejected="click 3"),
        pair(3, rejected="click 2"), pair(4, rejected="click 4", rendered_sha256="b" * 64),
    ]  # fmt: skip
    rows = given(found, "listwise")
    said_by = [[said(reply) for reply in rows[unit].replies] for unit in range(len(rows))]
    assert said_by == [["click 1", "click 2", "click 3"], ["wait", "click 2"], ["click 1", "click 4"]]
    assert rows.facts.used == 5


def test_prepared_rows_are_taken_as_they_are(given: Any, tmp_path: Path) -> None:
    before = given([pair(0)]).facts
    assert given([pair(0), pair(1)]).facts == before
    (tmp_path / "rows" / "prepared.json").unlink()  # as if it had been interrupted
    assert given([pair(0), pair(1)]).facts.used == 2


def test_rows_of_a_build_with_its_prompt_and_pictures(tmp_path: Path) -> None:
    built = tiny.dataset(tmp_path / "registry")
    processor: Any = Words()
    given = Inputs(
        Recipe.of(Path("r.yaml"), tiny.data("selection_arm", split="validation", limits={"max_tokens": 100_000})),
        {}, built, None, Path("base"), {},
    )  # fmt: skip
    rows = prepare(given, processor, tmp_path / "rows")
    assert (rows.facts.rows, len(rows), rows.facts.unusable, rows.facts.scored) == (8, 8, {}, None)
    assert rows.facts.prompt["id"] == "selection/1"
    assert (built / str(rows.facts.prompt["file"])).is_file()
    assert said(rows[3].replies[0]).startswith('{"selection": ')
    assert all(image.startswith(b"\x89PNG") for unit in range(8) for image in rows[unit].images)
    prompt = built / str(rows.facts.prompt["file"])
    words = prompt.read_bytes()
    prompt.write_bytes(words.replace(b"candidate", b"proposal"))
    with pytest.raises(ArmError, match=r"and the rows were made with [0-9a-f]{12} of the same name"):
        prepare(given, processor, tmp_path / "other prompt")
    apart = prompt.with_name(f"selection-1-{str(rows.facts.prompt['sha256'])[:12]}.json")
    apart.write_bytes(words)  # as a build with several prompts of that name has it
    found = prepare(given, processor, tmp_path / "apart").facts.prompt
    assert found == {**rows.facts.prompt, "file": f"prompts/{apart.name}"}
    apart.unlink()
    prompt.write_bytes(words)
    shard = next((built / "data" / "selection_sft").glob("validation-*"))
    shard.write_bytes(shard.read_bytes()[:-1] + b"x")
    with pytest.raises(ArmError, match="is not the file that the manifest names"):
        prepare(given, processor, tmp_path / "again")
    other = Recipe.of(Path("r.yaml"), tiny.data("scalar", objective={"loss": "pointwise"}))
    with pytest.raises(ArmError, match="has no train rows of pointwise_scores"):
        prepare(Inputs(other, {}, built, None, Path("base"), {}), processor, tmp_path / "other")
