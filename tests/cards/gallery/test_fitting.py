"""The size of the page: never above the budget, whatever the texts and pictures, and what did not fit is counted."""

from __future__ import annotations

import base64
import random
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.cards.gallery.choice import Choice
from action_reward_models.cards.gallery.data import gallery
from action_reward_models.cards.gallery.found import read_again
from action_reward_models.schemas.built import BuiltTables
from action_reward_models.schemas.errors import ArmError

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy
    from tests.cards.gallery.conftest import Page

Shown = Callable[..., "Page"]


def page(build: Build, **choice: Any) -> tuple[bytes, dict[str, Any]]:
    return gallery(BuiltTables.of(build.folder, lambda *_: None, "looking"), Choice(**choice), "here")


@pytest.fixture
def pictured(toy: Toy) -> Build:
    """Thirty states with pictures of about 4 KB, one of 40 KB, and texts full of what has to be escaped."""
    for number in range(30):
        size = 220 if number == 7 else 70
        toy.scene(f"e{number}", f'type(1, 1, "{"<" * 200}")', "stop()", picture=_noisy(number, size))
    return toy.build()


def _noisy(seed: int, size: int) -> bytes:
    """A picture that does not compress."""
    drawn = random.Random(seed)
    rows = b"".join(b"\0" + drawn.randbytes(size) for _ in range(size))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", size, size, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def test_the_page_is_never_larger_than_its_budget(pictured: Build) -> None:
    whole, everything = page(pictured, items=200)
    empty = 80_000
    assert everything["left_out"] == {}
    counts = []
    for budget in range(empty, len(whole), (len(whole) - empty) // 12):
        made, data = page(pictured, items=200, budget=budget)
        assert len(made) <= budget
        assert len(data["items"]) + data["left_out"]["over the size budget"] == len(everything["items"])
        assert sum(one["shown"] for one in data["strata"]) == len(data["items"])
        counts.append(len(data["items"]))
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]
    made, data = page(pictured, items=200, budget=len(whole))
    assert len(data["items"]) >= len(everything["items"]) - 2  # the count is a little too careful, never too bold


def test_a_large_item_leaves_room_for_smaller_ones(pictured: Build) -> None:
    """What the page itself leaves of the budget is less than the one large screenshot takes."""
    _, data = page(pictured, items=90, budget=130_000)
    shown = {item["state_id"] for item in data["items"]}
    assert "e7__t0" not in shown
    assert len(shown) > 3


def test_pictures_are_the_builds_own_bytes_once_each(pictured: Build, shown: Shown) -> None:
    data, pictures = shown(pictured, items=200)
    assert set(pictures) == set(data["pictures"]) == {row["screenshot_sha256"] for row in pictured.rows("states")}
    made, _ = page(pictured, items=200)
    for blob in pictures.values():
        assert made.count(base64.b64encode(blob)) == 1


def test_pictures_that_memory_had_no_room_for_are_read_again(pictured: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """More is looked at than fits: the bytes of the first ones met are let go of, those shown come back."""
    again: list[set[str]] = []

    def spy(tables: BuiltTables, found: Any, missing: set[str]) -> None:
        again.append(missing)
        read_again(tables, found, missing)

    monkeypatch.setattr("action_reward_models.cards.gallery.data.read_again", spy)
    made, data = page(pictured, items=40, budget=130_000)
    assert len(again) == 1
    assert 0 < len(again[0]) < len(data["pictures"])
    assert data["left_out"]["over the size budget"] > 0
    for sha256 in data["pictures"]:
        assert f'id="p-{sha256}"'.encode() in made


def test_nothing_fits(pictured: Build) -> None:
    with pytest.raises(ArmError, match=r"nothing can be shown: \d+ over the size budget") as caught:
        page(pictured, budget=1000)
    assert caught.value.next_command == "--budget 1   # megabytes"


@pytest.mark.parametrize("embedded", ["states", "selection_sft", None])
def test_pictures_that_are_only_referred_to(toy: Toy, shown: Shown, embedded: str | None) -> None:
    """They are found where the build has them, or are missing on the page."""
    toy.scene("a", picture=4)
    images = {name: "embed" if name == embedded else "reference" for name in ("states", "selection_sft", "bt_pairs")}
    build = toy.build(images=images)
    data, pictures = shown(build)
    sha256 = build.row("states")["screenshot_sha256"]
    assert all(item["images"] == [sha256] for item in data["items"] if item["excluded"] is None)
    assert data["states"]["a__t0"]["screenshot"] == sha256
    assert pictures == ({sha256: toy.png(4)} if embedded else {})
    assert set(data["pictures"]) == set(pictures)
    assert len(page(build)[0]) > 0


def test_a_damaged_build_is_an_error_that_names_the_file(toy: Toy, shown: Shown) -> None:
    toy.scene("a")
    build = toy.build()
    path: Path = build.files("states")[0]
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ArmError, match="cannot be read") as caught:
        shown(build)
    assert caught.value.where == str(path)
    path.unlink()
    with pytest.raises(ArmError, match="cannot be read"):
        shown(build)
