"""Which paths a repository may hold, and which names its references may have."""

from __future__ import annotations

import re

from .errors import HubError

_LONGEST_NAME, _LONGEST_PATH = 255, 1024  # bytes: what file systems take
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_REF_REFUSED = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")


def checked_path(path: object) -> str:
    """``path`` when it can be written safely wherever the repository is downloaded. Raises HubError 422 otherwise."""
    if not isinstance(path, str) or not path:
        raise HubError(422, "a path is a string that is not empty")
    shown = ascii(path[:200])
    try:
        length = len(path.encode())
    except UnicodeEncodeError as error:
        raise HubError(422, f"Invalid path {shown}: not Unicode text") from error
    if "\\" in path or _CONTROL.search(path):
        raise HubError(422, f"Invalid path {shown}: it holds a backslash or a control character")
    if length > _LONGEST_PATH:
        raise HubError(422, f"Invalid path {shown}: longer than {_LONGEST_PATH} bytes")
    for name in path.split("/"):
        if name in ("", ".", ".."):
            raise HubError(422, f"Invalid path {shown}: a part is empty, '.' or '..'")
        # A client with a case-blind file system, or one that drops trailing dots, would write into a git folder.
        if name.rstrip(". ").lower() in (".git", "git~1") or name.lower().startswith(".git:"):
            raise HubError(422, f"Invalid path {shown}: '.git' is git's own")
        if len(name.encode()) > _LONGEST_NAME:
            raise HubError(422, f"Invalid path {shown}: a part is longer than {_LONGEST_NAME} bytes")
        if len(name) == 2 and name[0].isalpha() and name[1] == ":":
            raise HubError(422, f"Invalid path {shown}: it names a drive")
    return path


def is_ref_name(name: object) -> bool:
    """Whether git would take ``name`` as the name of a branch or a tag."""
    if not isinstance(name, str) or not 0 < len(name) <= 200 or not name.isprintable():
        return False
    if _REF_REFUSED.search(name) or name == "@" or name.startswith(("-", "/")) or name.endswith(("/", ".")):
        return False
    return not any(part.startswith(".") or part.endswith(".lock") for part in name.split("/"))
