"""A card that no longer says what its manifest says, and what of a card is a person's."""

from __future__ import annotations

import re
from typing import Any

import pytest
from action_reward_models import __version__
from action_reward_models.cards.dataset import merge, problems, render, words


@pytest.fixture
def card(manifest: dict[str, Any]) -> str:
    manifest["environment"]["action_reward_models"] = __version__
    return render(manifest)


def test_a_fresh_card_has_no_problems(card: str, manifest: dict[str, Any]) -> None:
    assert problems(card, manifest) == []
    assert problems(card.replace("\n", "\r\n"), manifest) == []
    assert problems(merge(f"Mine.\n\n{card}", manifest), manifest) == []


def test_one_stale_number_is_found(card: str, manifest: dict[str, Any]) -> None:
    head, marker, body = card.partition("<!-- action-reward-models:begin -->")
    numbers = list(re.finditer(r"\b\d[\d,]*\b", body))
    assert len(numbers) > 50
    for number in numbers[:: len(numbers) // 20]:
        stale = f"{body[: number.start()]}7{number.group()}{body[number.end() :]}"
        (problem,) = problems(head + marker + stale, manifest)
        assert "where the manifest gives" in problem
        assert "arm build --force" in problem


@pytest.mark.parametrize("key", ["num_examples", "num_bytes", "download_size", "dataset_size"])
def test_a_stale_size_in_the_yaml_is_found(card: str, manifest: dict[str, Any], key: str) -> None:
    stale = re.sub(rf"({key}: )\d+", r"\g<1>123456", card, count=1)
    assert stale != card
    assert any("dataset_info" in problem for problem in problems(stale, manifest))


def test_another_license_or_category_is_found(card: str, manifest: dict[str, Any]) -> None:
    stale = re.sub(r"^license: .*$", "license: gpl-3.0", card, count=1, flags=re.MULTILINE)
    assert any("license is 'gpl-3.0'" in problem for problem in problems(stale, manifest))


def test_a_card_without_its_generated_part_is_found(card: str, manifest: dict[str, Any]) -> None:
    head = card.partition("<!-- action-reward-models:begin -->")[0]
    assert any("generated part is missing" in problem for problem in problems(head, manifest))


def test_the_text_of_another_version_is_not_compared(card: str, manifest: dict[str, Any]) -> None:
    manifest["environment"]["action_reward_models"] = "99.0.0"
    assert problems(card, manifest) == []
    broken = card.replace("config_name: states", "config_name: state")
    assert any("configs" in problem for problem in problems(broken, manifest))


def test_words_of_a_person(card: str, manifest: dict[str, Any]) -> None:
    assert not any(words(card))
    assert not any(words("---\nlicense: mit\n---\n"))
    assert not any(words(""))
    mine = card.replace("---\n", "---\nfunding: none\n", 1).replace("tags:\n", "tags:\n- mine\n", 1)
    text = merge(f"{mine}\n\nBelow.\n", manifest)
    assert words(text) == ("funding: none", "", "Below.", "mine")
    assert words(text.replace("\n", "\r\n")) == words(text)
    assert words("Only text.\n") == ("", "Only text.", "", "")
