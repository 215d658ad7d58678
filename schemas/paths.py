"""Paths that come from elsewhere: the Hub, a plan, a manifest. They are data until this says that they name a file."""

from __future__ import annotations

import re

# Names that Windows gives to devices, with or without an extension.
_DEVICE = re.compile(r"(?i:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?")
_LONGEST = 1024  # bytes of a path
_LONGEST_NAME = 255  # bytes of one name in it


def unsafe(path: str) -> str | None:
    """Why ``path`` must not be written below a folder, as the end of a sentence; None when it may."""
    if not path:
        return "is empty"
    if path.startswith("/") or re.match(r"[A-Za-z]:", path):
        return "is absolute"
    if "\\" in path:
        return "holds a backslash"
    if any(ord(c) < 32 or ord(c) == 127 for c in path):
        return "holds a control character"
    try:
        encoded = path.encode("utf-8")
    except UnicodeEncodeError:
        return "is no text"
    if len(encoded) > _LONGEST:
        return f"is longer than {_LONGEST} bytes"
    for name in path.split("/"):
        if name in ("", ".", ".."):
            return f"holds the segment {name!r}"
        if len(name.encode("utf-8")) > _LONGEST_NAME:
            return f"holds a name longer than {_LONGEST_NAME} bytes"
        if name.lower() == ".git":
            return "leads into .git"
        if name.endswith((".", " ")) or _DEVICE.fullmatch(name):
            return f"holds {name!r}, which some systems cannot write"
    return None
