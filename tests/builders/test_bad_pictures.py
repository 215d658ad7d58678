"""A picture that cannot be read costs its own turn, and is named by its place; paths are data."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import pytest
from action_reward_models.schemas.errors import ArmError

if TYPE_CHECKING:
    from tests.builders.conftest import Toy

_TORN = "data:image/png;base64,iVBORw0KGgo"  # ends inside a group of four
_SVG = b'<svg xmlns="http://www.w3.org/2000/svg"/>'


def _three_turns(toy: Toy, bad: bytes | str) -> None:
    said = toy.message("assistant", "y")
    pictures = [toy.message("user", "x", 1), toy.message("tool", "x", bad), toy.message("tool", "x", 3)]
    toy.episode("e", *(message for picture in pictures for message in (picture, said)))


@pytest.mark.parametrize(
    ("bad", "reason"), [(_TORN, "bad_data_url"), (_SVG, "format_not_allowed"), ("gone.png", "image_missing")]
)
def test_a_bad_picture_costs_its_turn_only(toy: Toy, bad: bytes | str, reason: str) -> None:
    """One undecodable image killed the iteration over all."""
    _three_turns(toy, bad)
    toy.source = {"on_invalid": "exclude"}
    build = toy.build()
    assert {row["state_id"] for row in build.rows("states")} == {"e__t0", "e__t2"}
    assert build.excluded("states") == {reason: ["e__t1"]}
    assert len(build.rows("states", state_id="e__t2")[0]["history"]) == 2  # the turn itself still happened
    assert build.balanced()
    assert [(note.file, note.line) for note in build.notes] == [("episodes.jsonl", 1)]


@pytest.mark.parametrize("bad", [_TORN, _SVG, "gone.png"])
def test_a_bad_picture_is_named_by_its_place(toy: Toy, bad: bytes | str) -> None:
    _three_turns(toy, bad)
    with pytest.raises(ArmError) as caught:
        toy.build()
    (issue,) = caught.value.issues
    assert (issue.file, issue.line, issue.path) == ("episodes.jsonl", 1, "$.messages[2].content[1].image_url.url")


def test_a_turn_that_inherits_a_bad_picture_is_lost_with_it(toy: Toy) -> None:
    """What the agent saw is not there; an older screenshot would be a guess."""
    said = toy.message("assistant", "y")
    toy.episode(
        "e", toy.message("user", "x", 1), said, toy.message("tool", "x", _TORN), said, toy.message("tool", "x"), said
    )
    toy.source = {"on_invalid": "exclude"}
    assert toy.build().excluded("states") == {"bad_data_url": ["e__t1", "e__t2"]}


def test_a_half_png_with_right_checksums_is_seen(toy: Toy) -> None:
    """A PNG with half its rows, valid CRC and valid zlib passes a common image library."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0))
    half = b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 36)) + chunk(b"IEND", b"")
    _three_turns(toy, half)
    toy.source = {"on_invalid": "exclude"}
    assert toy.build().excluded("states") == {"png_data_length": ["e__t1"]}


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("https://a.test/x.png", "is a URL"), ("file:///etc/passwd", "is a URL"), ("/etc/passwd", "is refused"),
        ("../x.png", "is refused"), ("a/../../x.png", "is refused"), ("a//x.png", "is refused"),
        ("a\\x.png", "is refused"), ("C:x.png", "is refused"), ("x\0.png", "is refused"), ("x\n.png", "is refused"),
        ("x\x7f.png", "is refused"), ("NUL", "is refused"), ("a/com1.png", "is refused"), ("link.png", "leads out"),
        ("up/x.png", "leads out"), ("loop.png", "link"), ("folder", "is no file"),
        ("gone.png", "No such file"),
    ],
)  # fmt: skip
def test_paths_are_data(toy: Toy, path: str, said: str) -> None:
    """Absolute paths, `..`, backslashes, control characters, device names and links out are refused by name."""
    outside = toy.folder.parent / f"{toy.folder.name}-outside"
    outside.mkdir()
    (outside / "x.png").write_bytes(toy.png(1))
    for link, target in (("link.png", outside / "x.png"), ("up", outside), ("loop.png", "loop.png")):
        (toy.folder / link).symlink_to(target)
    (toy.folder / "folder").mkdir()
    _three_turns(toy, path)
    with pytest.raises(ArmError) as caught:
        toy.build()
    (issue,) = caught.value.issues
    assert (issue.file, issue.line, issue.path) == ("episodes.jsonl", 1, "$.messages[2].content[1].image_url.url")
    assert said in issue.message
    assert str(toy.folder) not in issue.message
