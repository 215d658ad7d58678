"""A base model in a folder is known by what it is loaded from; no file is read twice as long as it stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from action_reward_models.inference import base
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.ids import file_sha256


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("config.json", "model.safetensors", "chat_template.jinja", "merges.txt"):
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "chat_template.jinja", "merges.txt", "new.json"])
def test_every_file_that_decides_counts(folder: Path, name: str) -> None:
    before = base.folder_sha256(folder)
    (folder / name).write_text("other")
    assert base.folder_sha256(folder) != before


@pytest.mark.parametrize("name", ["README.md", "manifest.json", "code.py", "below/model.safetensors"])
def test_other_files_do_not(folder: Path, name: str) -> None:
    before = base.folder_sha256(folder)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("other")
    assert base.folder_sha256(folder) == before


def test_what_did_not_change_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def hashed(path: Path) -> str:
        read.append(path.name)
        return file_sha256(path)

    monkeypatch.setattr(base, "file_sha256", hashed)
    first = base.folder_sha256(folder)
    assert sorted(read) == ["chat_template.jinja", "config.json", "merges.txt", "model.safetensors"]
    assert base.folder_sha256(folder) == first
    (folder / "link").mkdir()
    for path in folder.iterdir():
        if path.is_file():
            (folder / "link" / path.name).symlink_to(path)
    assert base.folder_sha256(folder / "link") == first  # as a cache of the Hub holds it
    assert len(read) == 4
    (folder / "config.json").write_text("longer than before")
    base.folder_sha256(folder)
    assert read[4:] == ["config.json"]


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(ArmError, match=r"is no model: it holds no config\.json"):
        base.folder_sha256(tmp_path)
