"""What a version is, and which tag names one."""

from __future__ import annotations

import pytest
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.versions import is_version, of_tag, parse


@pytest.mark.parametrize(
    "version", ["1.2", "v1.2.3", "1.2.3-rc", "01.2.3", "1.2.3\n", "１.2.3", "", "1." + "9" * 40 + ".0"]
)
def test_what_is_no_version(version: str) -> None:
    with pytest.raises(ArmError, match="is no version"):
        parse(version)
    assert not is_version(version)
    assert of_tag(f"v{version}") is None


def test_versions_and_their_tags() -> None:
    assert parse("1.20.3") == (1, 20, 3)
    assert of_tag("v1.20.3") == "1.20.3"
    assert of_tag("1.2.3") is None
    assert of_tag("latest") is None
    assert of_tag("") is None
