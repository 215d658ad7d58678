"""What servers say beside answers: their own words, for messages and logs, and how long they ask to wait."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from ..schemas.errors import plain
from .answers import parsed

_LONGEST = 500  # characters that are kept


def shortened(text: str) -> str:
    """A text of a server, in one line that a terminal may show."""
    text = plain(" ".join(text.split()))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def words(content: bytes) -> str:
    """The message in a reply that is no answer, shortened; of one that has none, how it begins."""
    try:
        data: Any = parsed(content)
    except ValueError:
        data = None
    for name in ("error", "message", "detail"):
        if isinstance(data, dict) and isinstance(data.get(name), dict | str):
            data = data[name]
    return shortened(data if isinstance(data, str) else content[: 4 * _LONGEST].decode("utf-8", "replace"))


def retry_after(value: str | None) -> float | None:
    """Seconds to wait, from seconds or a date; None for anything else."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            until = parsedate_to_datetime(value)
        except (ValueError, OverflowError):
            return None
        until = until if until.tzinfo else until.replace(tzinfo=UTC)
        seconds = (until - datetime.now(UTC)).total_seconds()
    return max(0.0, seconds) if seconds - seconds == 0 else None
