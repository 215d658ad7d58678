"""Paths from elsewhere name a file below a folder, or are refused with a reason."""

from __future__ import annotations

import pytest

from action_reward_models.schemas.paths import unsafe


@pytest.mark.parametrize(
    "path", ["README.md", "data/bt_pairs/train-00000-of-00001.parquet", ".gitattributes", "a b/ü.txt", "..a", "console"]
)
def test_a_path_below_the_folder_is_safe(path: str) -> None:
    assert unsafe(path) is None


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "empty"),
        ("/etc/passwd", "absolute"),
        ("C:/x", "absolute"),
        ("..", "segment '..'"),
        ("a/../../b", "segment '..'"),
        ("./a", "segment '.'"),
        ("a//b", "segment ''"),
        ("a/", "segment ''"),
        ("a\\b", "backslash"),
        ("a\nb", "control character"),
        ("a\x00b", "control character"),
        ("a\x7fb", "control character"),
        ("a\udc80", "no text"),
        ("con", "'con'"),
        ("data/NUL.txt", "'NUL.txt'"),
        ("Com1", "'Com1'"),
        ("a.", "'a.'"),
        ("a /b", "'a '"),
        (".git/config", ".git"),
        ("x/.GIT/hooks", ".git"),
        ("n" * 256, "255 bytes"),
        ("n/" * 600 + "n", "1024 bytes"),
    ],
)
def test_a_path_that_leads_elsewhere_is_refused_with_the_reason(path: str, why: str) -> None:
    assert why in str(unsafe(path))
