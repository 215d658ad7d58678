"""What would cross from train into validation is taken out of validation, by name."""

from __future__ import annotations

import io
import struct
import zlib
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders import runner
from action_reward_models.builders.spec import GateSpec, PairSpec, PromptSpec, SelectionSpec
from action_reward_models.schemas.errors import ArmError

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

ACTIONS = ("click(1, 1)", "click(7, 7)", "stop()")
PLAIN = SelectionSpec(PromptSpec("selection/1"), shuffle=False)  # one order: equal candidates give equal prompts


@pytest.fixture
def nameless(toy: Toy) -> Toy:
    """Twelve episodes without a task: each is a group of its own, though all show the same page."""
    for number in range(12):
        toy.scene(f"e{number}", *ACTIONS, task="")
    return toy


def _splits(build: Build, table: str) -> dict[str, int]:
    return {name: split["rows"] for name, split in build.identity["tables"][table]["splits"].items()}


def _clean(build: Build) -> bool:
    """No prompt with its pictures stands in both splits, by our count and by looking."""
    for table in ("selection_sft", "bt_pairs"):
        shown = [{row["rendered_sha256"] for row in build.rows(table, split=s)} for s in ("train", "validation")]
        if shown[0] & shown[1]:
            return False
    return bool(build.identity["statistics"]["leakage"] == {"selection_sft": 0, "bt_pairs": 0})


@pytest.mark.parametrize("shards", [1, 4])
def test_equal_pages_of_two_splits_stay_in_train(nameless: Toy, shards: int) -> None:
    """688 of 689 validation states were also in train."""
    build = nameless.build(selection=PLAIN, validation=0.5, shards=shards)
    states = _splits(build, "states")
    assert 2 < states["validation"] < 10
    assert _splits(build, "selection_sft") == {"train": states["train"]}
    assert _splits(build, "bt_pairs") == {"train": 2 * states["train"]}
    held = sorted(row["state_id"] for row in build.rows("states", split="validation"))
    assert build.excluded("selection_sft") == {"crosses_split": [f"{state}#d0|-|-|0" for state in held]}
    assert build.excluded("bt_pairs") == {"crosses_split": [f"{s}#d0|-|-|0|{index}" for s in held for index in (1, 2)]}
    assert _clean(build)
    assert build.balanced()


def test_equal_pages_of_one_task_need_no_removal(toy: Toy) -> None:
    for number in range(6):
        toy.scene(f"e{number}", *ACTIONS)
    build = toy.build(selection=PLAIN, validation=0.5)
    assert len(_splits(build, "states")) == 1
    assert build.excluded("selection_sft") == {}


def test_text_only_pages_cross_alike(toy: Toy) -> None:
    for number in range(12):
        toy.scene(f"e{number}", *ACTIONS, picture=None, task="", text="URL: https://a.test/the/same")
    options = {"observation": "text"}
    build = toy.build(
        selection=SelectionSpec(PromptSpec("selection/1", options=options), shuffle=False),
        pairs=PairSpec(PromptSpec("scalar/1", options=options)),
        validation=0.5,
        shards=3,
    )
    assert list(_splits(build, "selection_sft")) == list(_splits(build, "bt_pairs")) == ["train"]
    assert set(build.excluded("selection_sft")) == {"crosses_split"}
    assert _clean(build)


def test_one_screenshot_under_two_tasks_crosses_only_when_asked(toy: Toy) -> None:
    for number in range(12):
        toy.scene(f"e{number}", *ACTIONS, task=f"task {number}", picture=1)
    toy.scene("alone", *ACTIONS, task="task alone", picture=2)
    usual = toy.build(validation=0.5, seed=3)
    assert usual.excluded("selection_sft") == {}
    assert set(_splits(usual, "selection_sft")) == {"train", "validation"}
    isolated = toy.build(validation=0.5, seed=3, isolate_screenshots=True)
    held = [
        row["state_id"]
        for row in usual.rows(
            "states", split="validation", screenshot=usual.row("states", state_id="e0__t0")["screenshot"]
        )
    ]
    assert isolated.excluded("selection_sft") == {"crosses_split": sorted(f"{state}#d0|-|-|0" for state in held)}
    details = {row["detail"] for row in isolated.rows("exclusions", reason="crosses_split")}
    assert details == {"same screenshot in train"}
    assert _splits(isolated, "states") == _splits(usual, "states")  # states are not training rows
    for table in ("selection_sft", "bt_pairs"):
        shown = [{p for row in isolated.rows(table, split=s) for p in row["images"]} for s in ("train", "validation")]
        assert not shown[0] & shown[1]


def test_a_screenshot_alone_in_validation_is_kept(toy: Toy) -> None:
    toy.scene("a", *ACTIONS, picture=1)
    build = toy.build(validation=1.0, isolate_screenshots=True)
    assert _splits(build, "selection_sft") == {"validation": 1}


def _grey16(low: int) -> bytes:
    """A PNG of 16 bits a sample whose low bytes are ``low``: other bytes, and one picture once it has 8 bits."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    out = io.BytesIO(b"\x89PNG\r\n\x1a\n")
    out.seek(0, io.SEEK_END)
    rows = b"".join(b"\0" + bytes((40, low)) * 8 for _ in range(8))
    for kind, data in (
        (b"IHDR", struct.pack(">IIBBBBB", 8, 8, 16, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    ):
        out.write(chunk(kind, data))
    return out.getvalue()


@pytest.fixture
def alike(toy: Toy) -> Toy:
    """Pages whose files differ and whose pictures, once normalised, do not: only the whole build can see that."""
    for number in range(12):
        toy.scene(f"e{number}", *ACTIONS, task="", picture=_grey16(number))
    return toy


def test_pictures_that_become_equal_are_seen_within_a_bucket(alike: Toy) -> None:
    build = alike.build(selection=PLAIN, validation=0.5, shards=1)
    assert list(_splits(build, "selection_sft")) == ["train"]
    assert _clean(build)


def test_what_still_leaks_fails_the_gate(alike: Toy) -> None:
    with pytest.raises(ArmError, match="prompts with their pictures stand in both splits") as caught:
        alike.build(selection=PLAIN, validation=0.5, shards=16)
    assert (caught.value.next_command or "").startswith("gates: {leakage: warn}")
    spec = alike.spec(selection=PLAIN, validation=0.5, shards=16, gates=GateSpec(leakage="warn"))
    built = runner.build(spec, alike.folder / "leaky", card=lambda manifest: "", workers=1)
    leaks: dict[str, Any] = built.manifest["identity"]["statistics"]["leakage"]
    found = [f"{t}: {n} prompts with their pictures stand in both splits" for t, n in leaks.items()]
    assert set(found) <= set(built.warnings)
