"""The file: replaced only where a gallery was, and never half written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from action_reward_models.cards.gallery.page import render
from action_reward_models.cards.gallery.writing import write
from action_reward_models.schemas.errors import ArmError

PAGE = render({"title": "t"}, {})


def test_a_gallery_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "new" / "review.html"
    write(PAGE, out)
    write(PAGE + b"\n", out)
    assert out.read_bytes() == PAGE + b"\n"
    assert [path.name for path in out.parent.iterdir()] == ["review.html"]
    other = tmp_path / "notes.html"
    other.write_text("<p>mine</p>", "utf-8")
    with pytest.raises(ArmError, match="is there, and no gallery") as caught:
        write(PAGE, other)
    assert caught.value.next_command == "--out NEW.html"
    assert other.read_text("utf-8") == "<p>mine</p>"
    with pytest.raises(ArmError, match="is a folder"):
        write(PAGE, tmp_path)


def test_no_link_is_followed(tmp_path: Path) -> None:
    aim = tmp_path / "aim.html"
    write(PAGE, aim)
    link = tmp_path / "link.html"
    link.symlink_to(aim)
    with pytest.raises(ArmError, match="is there, and no gallery"):
        write(PAGE, link)
    (tmp_path / "dangling.html").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ArmError, match="is there, and no gallery"):
        write(PAGE, tmp_path / "dangling.html")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.html")
    with pytest.raises(ArmError, match="is there, and no gallery"):
        write(PAGE, tmp_path / "pipe.html")


def test_a_failed_write_leaves_the_earlier_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "review.html"
    write(PAGE, out)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write(PAGE + b"x", out)
    assert out.read_bytes() == PAGE
    assert len(list(tmp_path.iterdir())) == 1


def test_it_has_the_permissions_of_a_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    write(PAGE, tmp_path / "review.html")
    assert (tmp_path / "review.html").stat().st_mode == (tmp_path / "plain").stat().st_mode
