"""What a version is: three numbers such as 1.2.3, as registry.yaml takes it; its tag is the same behind a ``v``."""

from __future__ import annotations

import re

from .errors import ArmError

_VERSION = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)", re.ASCII)
_LONGEST = 32


def is_version(text: str) -> bool:
    return len(text) <= _LONGEST and _VERSION.fullmatch(text) is not None


def parse(version: str) -> tuple[int, int, int]:
    """``1.2.3`` as numbers. Raises ArmError for anything else."""
    if not is_version(version):
        raise ArmError(f"{version!r} is no version: three numbers such as 1.2.3 are expected")
    major, minor, patch = map(int, version.split("."))
    return major, minor, patch


def of_tag(tag: str) -> str | None:
    """The version that a tag names: ``v1.2.3`` -> ``1.2.3``; None for any other tag."""
    version = tag[1:]
    return version if tag.startswith("v") and is_version(version) else None
