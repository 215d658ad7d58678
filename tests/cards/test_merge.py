"""What a person wrote in the card survives."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from action_reward_models.cards.blocks import BEGIN, END
from action_reward_models.cards.dataset import merge, render
from action_reward_models.schemas.errors import ArmError
from huggingface_hub import DatasetCard


def _head(card: str) -> str:
    return card.split("---\n")[1]


def test_merging_into_nothing_or_into_itself_is_rendering(manifest: dict[str, Any]) -> None:
    card = render(manifest)
    assert merge("", manifest) == card
    assert merge(card, manifest) == card
    assert merge("---\nlicense: apache-2.0\n---\n", manifest) == card


def test_text_and_keys_of_a_person_stay_as_they_are(manifest: dict[str, Any]) -> None:
    old = (
        "---\n# a note\nversion: 1.10\nlicense: gpl\nconfigs:\n- config_name: old\n# about the code\ncode: 0123\n"
        "extra_gated_prompt: |\n  line one\n\n  line two\nlanguage: [en, 'no']  # kept\ntags:\n- mine\n"
        "- preference\n---\n"
        f"My title  \r\n\n{BEGIN}\nold figures\n{END}\n\n## Mine\n\n<b>kept</b>"
    )
    new = merge(old, manifest)
    assert "old figures" not in new
    assert f"---\nMy title  \r\n\n{BEGIN}\n# me/" in new
    assert new.endswith(f"{END}\n\n## Mine\n\n<b>kept</b>")
    for line in (
        "# a note\n",
        "version: 1.10\n",
        "# about the code\n",
        "code: 0123\n",
        "language: [en, 'no']  # kept\n",
    ):
        assert line in _head(new)
    data: dict[str, Any] = vars(DatasetCard(new).data)
    assert data["license"] == "mit"
    assert data["extra_gated_prompt"] == "line one\n\nline two\n"
    assert data["tags"].count("mine") == data["tags"].count("preference") == 1
    assert "old" not in [config["config_name"] for config in data["configs"]]
    assert merge(new, manifest) == new


def test_a_tag_of_ours_that_no_longer_fits_goes(manifest: dict[str, Any]) -> None:
    card = render(manifest)
    del manifest["identity"]["tables"]["bt_pairs"]
    assert "preference" not in yaml.safe_load(_head(merge(card, manifest)))["tags"]


def test_without_markers_the_block_goes_below(manifest: dict[str, Any]) -> None:
    new = merge("\ufeff# Mine\n\ntext\n\n\n", manifest)
    assert f"---\n# Mine\n\ntext\n\n{BEGIN}\n" in new
    assert merge(new, manifest) == new


def test_windows_line_ends_at_the_head(manifest: dict[str, Any]) -> None:
    new = merge(f"---\r\nlanguage: en\r\nlicense: mit\r\n---\r\n\r\n{BEGIN}\r\nx\r\n{END}\r\nmine\r\n", manifest)
    assert yaml.safe_load(_head(new))["language"] == "en"
    assert new.endswith(f"{END}\r\nmine\r\n")
    assert merge(new, manifest) == new


@pytest.mark.parametrize(
    "body", [BEGIN, END, f"{END}\n{BEGIN}", f"{BEGIN}\n{BEGIN}\n{END}", f"{BEGIN}\n{END}\n{END}", f"{BEGIN}{END}" * 2]
)
def test_broken_markers_are_refused(manifest: dict[str, Any], body: str) -> None:
    with pytest.raises(ArmError, match="markers are broken") as caught:
        merge(f"mine\n{body}\n", manifest)
    assert caught.value.next_command


@pytest.mark.parametrize(
    "head",
    ["a: [", "- a", "text", "a: !!python/object:os.system x", "{a: 1}", "license: &x mit\nmine: *x", "a: \x01",
     "? [a]\n: b", "[" * 5000],
)  # fmt: skip
def test_yaml_that_cannot_be_kept_is_refused(manifest: dict[str, Any], head: str) -> None:
    with pytest.raises(ArmError, match="cannot be kept"):
        merge(f"---\n{head}\n---\n", manifest)


BOMB = "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))])


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("head", "why"),
    [
        (BOMB, r"an alias, \*a0"),
        ("one: &x [1]\ntwo: *x", r"an alias, \*x"),
        ("mine: 1\nmine: 2", "the key 'mine' stands there twice"),
        ("mine: {a: 1, b: [{c: 1, c: 2}]}", "the key 'c' stands there twice"),
    ],
)
def test_aliases_and_keys_that_stand_twice_are_refused(manifest: dict[str, Any], head: str, why: str) -> None:
    """A few hundred bytes of aliases stand for more than any machine holds."""
    with pytest.raises(ArmError, match=why):
        merge(f"---\n{head}\n---\n", manifest)


def test_anchors_and_equal_keys_of_different_mappings_are_kept(manifest: dict[str, Any]) -> None:
    new = merge("---\none: &x {a: 1, b: {a: 1}}\ntwo: [{a: 1}, {a: 2}]\n---\n", manifest)
    assert yaml.safe_load(_head(new))["two"] == [{"a": 1}, {"a": 2}]


def test_a_head_of_comments_is_kept(manifest: dict[str, Any]) -> None:
    assert "# see the guide\n---\n" in merge("---\n# see the guide\n---\n", manifest)
    assert merge("---\n---\nmine\n", manifest).startswith("---\nlicense: mit\n")
