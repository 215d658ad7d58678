"""Files behind a pattern, in folders that somebody else arranged."""

from __future__ import annotations

import glob
from pathlib import Path

import pytest
from action_reward_models.registry.files import matching

PATTERNS = [
    *(
        "*.jsonl",
        "*/*.jsonl",
        "**/*.jsonl",
        "**",
        "a/**",
        "a/**/1.jsonl",
        "**/b/**",
        "?/[0-9].jsonl",
        ".h/*",
        "*/.*.jsonl",
    ),
    *(
        "a[1]/1.jsonl",
        "nope/*",
        "a/1.jsonl/*",
        "link/*.jsonl",
        "**/link/**/*",
        "./a//1.jsonl",
        "a/../b/*.jsonl",
        "*/b/*",
    ),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a", "a/b", "a/b/c", "b", ".h", "a[1]", "elsewhere"):
        (tmp_path / name).mkdir()
        for file in ("1.jsonl", ".2.jsonl", "3.txt"):
            (tmp_path / name / file).touch()
    (tmp_path / "link").symlink_to("elsewhere")
    (tmp_path / "a" / "loop").symlink_to("nowhere")
    return tmp_path.resolve()


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("absolute", [False, True])
def test_a_pattern_names_what_a_shell_says(folder: Path, pattern: str, absolute: bool) -> None:
    written = f"{glob.escape(str(folder))}/{pattern}" if absolute else pattern
    said = {Path(path) for path in glob.glob(written, root_dir=folder, recursive=True)}  # noqa: PTH207
    said |= {folder / pattern} if (folder / pattern).is_file() else set()
    found = matching(written, folder)
    assert found == sorted(found)
    real = {path.resolve() for path in (folder / path for path in said) if path.is_file()}
    assert {path.resolve() for path in found} == real
    assert len(found) <= len(said)


def test_links_that_lead_back_and_folders_in_a_row_come_to_an_end(tmp_path: Path) -> None:
    """Two links to the folder itself are 2**40 ways to go before the system says that they are too many."""
    deep = tmp_path.joinpath(*"abcdefghijklmnopqrst")
    deep.mkdir(parents=True)
    (deep / "1.jsonl").touch()
    for name in ("x", "y"):
        (tmp_path / name).symlink_to(".")
    for place in [tmp_path / "step0", *(tmp_path / f"step{n}" for n in range(1, 40))]:
        place.mkdir()
        for name in ("x", "y"):
            (place / name).symlink_to(f"../step{int(place.name[4:]) + 1}")
    assert [path.name for path in matching("**/*.jsonl", tmp_path)] == ["1.jsonl"]
    assert len(matching("**/" * 12 + "*.jsonl", tmp_path)) == 1
    assert matching("**/*/" * 12 + "*.txt", tmp_path) == []
    assert matching("*/../" * 12 + "*.txt", tmp_path) == []
