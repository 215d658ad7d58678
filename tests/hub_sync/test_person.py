"""What a person wrote into a card survives a rebuild and a push, whatever state the card was in."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pytest
from action_reward_models.cards.dataset import words
from action_reward_models.hub_sync.hub import Hub
from action_reward_models.schemas.errors import ArmError
from action_reward_models.tests.hub_sync.steps import repo

if TYPE_CHECKING:
    from tests.hub_sync.conftest import Publisher

BEGIN = "<!-- action-reward-models:begin -->"


def card_of(hub: Hub, name: str) -> str:
    refs = hub.refs(name)
    assert refs
    return hub.read(name, hub.files(name, refs.head)["README.md"], refs.head).decode()


def commit_card(hub: Hub, name: str, text: str) -> None:
    from huggingface_hub import CommitOperationAdd

    hub.api.create_repo(name, repo_type="dataset", exist_ok=True)
    with warnings.catch_warnings():  # the Hub says that a card without YAML has none
        warnings.filterwarnings("ignore", message="(?s)Warnings while validating metadata")
        hub.api.create_commit(
            name, [CommitOperationAdd("README.md", text.encode())], commit_message="card", repo_type="dataset"
        )


SECTION = "# My words\n\nWritten by hand: 100 % mine | <b>really</b>.\n"
CARDS = {
    "only a license": ("---\nlicense: apache-2.0\n---\n", ("", "", "", "")),
    "a section and foreign keys": (
        f"---\nlicense: mit\nlanguage:\n- en\nannotations_creators: [found]  # by us\n---\n{SECTION}",
        ("language:\n- en\nannotations_creators: [found]  # by us", SECTION.strip(), "", ""),
    ),
    "windows line ends": (
        f"---\nlicense: mit\nlanguage: en\n---\n{SECTION}".replace("\n", "\r\n"),
        ("language: en", SECTION.strip(), "", ""),
    ),
    "no front matter": (SECTION, ("", SECTION.strip(), "", "")),
    "400 KB": (
        "---\nlicense: mit\n---\n" + "A line of a long card, 40 characters.\n" * 10_500,
        ("", ("A line of a long card, 40 characters.\n" * 10_500).strip(), "", ""),
    ),
}


@pytest.mark.parametrize("case", CARDS)
def test_a_card_on_the_hub_survives_two_publications(publisher: Publisher, hub: Hub, case: str) -> None:
    text, wanted = CARDS[case]
    commit_card(hub, repo(publisher), text)
    publisher.build()
    publisher.push(hub)
    first = card_of(hub, repo(publisher))
    assert words(first) == wanted
    assert first.count(BEGIN) == 1
    publisher.version, publisher.picks = "1.1.0", [1, 0]
    publisher.build()
    publisher.push(hub)
    second = card_of(hub, repo(publisher))
    assert words(second) == wanted
    assert second.count(BEGIN) == 1
    assert second != first


def test_words_added_on_the_hub_between_two_versions_stay(publisher: Publisher, hub: Hub) -> None:
    publisher.build()
    publisher.push(hub)
    commit_card(hub, repo(publisher), card_of(hub, repo(publisher)) + "\nBelow, by hand.\n")
    publisher.version = "1.1.0"
    publisher.build()
    publisher.push(hub)
    assert words(card_of(hub, repo(publisher)))[2] == "Below, by hand."


def test_words_added_to_the_local_card_are_published(publisher: Publisher, hub: Hub) -> None:
    publisher.build()
    publisher.push(hub)
    card = publisher.built / "README.md"
    card.write_text(card.read_text() + "\nFrom my editor.\n")
    publisher.version = "1.1.0"
    publisher.build()
    publisher.push(hub)
    assert words(card_of(hub, repo(publisher)))[2] == "From my editor."


def test_words_on_both_sides_need_a_decision(publisher: Publisher, hub: Hub) -> None:
    publisher.build()
    publisher.push(hub)
    commit_card(hub, repo(publisher), card_of(hub, repo(publisher)) + "\nOn the Hub.\n")
    card = publisher.built / "README.md"
    card.write_text(card.read_text() + "\nFrom my editor.\n")
    publisher.version = "1.1.0"
    publisher.build()
    with pytest.raises(ArmError, match="both have words") as error:
        publisher.plan(hub)
    assert "--card" in str(error.value.next_command)
    publisher.push(hub, keep="hub")
    assert words(card_of(hub, repo(publisher)))[2] == "On the Hub."


def test_the_local_words_can_be_chosen(publisher: Publisher, hub: Hub) -> None:
    commit_card(hub, repo(publisher), "---\nlicense: mit\n---\nOn the Hub.\n")
    built = publisher.build()
    (built / "README.md").write_text((built / "README.md").read_text() + "\nFrom my editor.\n")
    with pytest.raises(ArmError, match="both have words"):
        publisher.plan(hub)
    publisher.push(hub, keep="local")
    assert words(card_of(hub, repo(publisher)))[1:3] == ("", "From my editor.")


def test_broken_markers_on_the_hub_are_refused_before_anything_is_sent(publisher: Publisher, hub: Hub) -> None:
    commit_card(hub, repo(publisher), f"---\nlicense: mit\n---\n{BEGIN}\n{BEGIN}\n")
    publisher.build()
    with pytest.raises(ArmError, match="markers are broken"):
        publisher.plan(hub)
