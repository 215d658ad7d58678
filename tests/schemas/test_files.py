"""Files that runs keep: whole, or as they were; a lock that one process has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from action_reward_models.schemas.files import replace_whole, take


def test_a_file_is_whole_or_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "about.json"
    replace_whole(path, b"one")

    def full(_: Any) -> None:
        assert path.read_bytes() == b"one"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace_whole(path, b"two")
    assert path.read_bytes() == b"one"
    monkeypatch.undo()
    replace_whole(path, b"three")
    assert path.read_bytes() == b"three"
    assert list(tmp_path.iterdir()) == [path]


def test_a_lock_is_one_holders_until_it_is_closed(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as one, (tmp_path / "lock").open("w") as other:
        assert take(one)
        assert not take(other)
    with (tmp_path / "lock").open("w") as again:
        assert take(again)
