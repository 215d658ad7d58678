"""A comparison for a person."""

from __future__ import annotations

from typing import Any

from . import output


def show(diff: Any) -> None:
    """Print what differs."""
    output.note(str(diff.to_json())[:2000])
