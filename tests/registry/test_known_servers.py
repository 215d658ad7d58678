"""A registry that somebody sends decides neither where requests go nor whose key goes with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from action_reward_models.registry.endpoints import Known, settings
from action_reward_models.schemas.errors import ArmError, UsageError

LOCAL = "  actor: {urls: ['http://127.0.0.1:8000/v1', 'http://localhost:8001/v1']}\n"
AWAY = "  actor: {urls: ['http://127.0.0.1:8000/v1', 'https://evil.example/v1']}\n"
KEYED = "  actor: {urls: ['http://127.0.0.1:8000/v1'], key: OPENAI_API_KEY}\n"


@pytest.fixture
def sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a registry, of a person with settings of their own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("ARM_ENDPOINTS", raising=False)
    folder = tmp_path / "sent"
    folder.mkdir()
    return folder


def write(path: Path, servers: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"endpoints: 1\nservers:\n{servers}", "utf-8")
    return path


def test_servers_of_this_machine_without_a_key_are_just_used(sent: Path) -> None:
    write(sent / "endpoints.yaml", LOCAL)
    assert len(Known.of(sent).server("actor").urls) == 2


@pytest.mark.parametrize(
    ("servers", "said"),
    [
        (AWAY, "the server 'actor' sends requests to https://evil.example/v1, and"),
        (KEYED, "the server 'actor' sends the key OPENAI_API_KEY, and"),
        (AWAY.replace("}", ", key: A_KEY}"), "sends requests to https://evil.example/v1 and the key A_KEY along, and"),
    ],
)
def test_any_other_counts_when_a_person_names_its_file(
    servers: str, said: str, sent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(sent / "endpoints.yaml", servers)
    with pytest.raises(UsageError) as caught:
        Known.of(sent).server("actor")
    assert said in caught.value.message
    assert caught.value.where == str(file)
    advice = f"--endpoints {file}   # or, for all registries: mv it to {settings()}"
    assert caught.value.next_command == advice
    assert Known.of(sent, file).server("actor").urls[0] == "http://127.0.0.1:8000/v1"
    monkeypatch.setenv("ARM_ENDPOINTS", str(file))
    assert Known.of(sent).server("actor").name == "actor"


def test_a_persons_settings_come_first(sent: Path) -> None:
    """So that a file that came with a registry takes no name of theirs."""
    write(settings(), "  actor: {urls: ['https://mine.example/v1'], key: MINE}\n")
    for servers in (LOCAL, AWAY, KEYED):
        write(sent / "endpoints.yaml", servers)
        assert Known.of(sent).server("actor").urls == ("https://mine.example/v1",)


def test_an_address_of_the_environment_takes_no_key_from_a_file_that_does_not_count(
    sent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The person said where to ask, and not which of their keys to send there."""
    write(sent / "endpoints.yaml", KEYED)
    monkeypatch.setenv("ARM_ENDPOINT_ACTOR", "http://127.0.0.1:8000/v1")
    server = Known.of(sent).server("actor")
    assert (server.urls, server.key) == (("http://127.0.0.1:8000/v1",), None)


def test_the_only_file_is_the_one_that_is_named(sent: Path) -> None:
    write(settings(), LOCAL)
    named = write(sent / "mine.yaml", LOCAL.replace("actor", "other"))
    with pytest.raises(UsageError, match="no server is called 'actor'"):
        Known.of(sent, named).server("actor")
    with pytest.raises(UsageError, match="there is no such file"):
        Known.of(sent, sent / "gone.yaml")


def test_a_name_that_nobody_knows(sent: Path) -> None:
    with pytest.raises(UsageError) as caught:
        Known.of(sent).server("actor")
    assert caught.value.where == str(sent / "endpoints.yaml")
    assert "ARM_ENDPOINT_ACTOR" in str(caught.value.next_command)
    write(sent / "endpoints.yaml", "  actor: {}\n")
    with pytest.raises(ArmError, match="has 1 problem"):
        Known.of(sent).server("actor")
