"""Which paths a repository may hold, and which names its references may have."""

from __future__ import annotations

import re

from .errors import HubError

_LONGEST_NAME, _LONGEST_PATH = 255, 1024  # bytes: what file systems take
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_HFS_UNSEEN = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
_SHA = re.compile("[0-9a-fA-F]{40}")
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
        if _is_git_folder(name):
            raise HubError(422, f"Invalid path {shown}: '.git' is git's own")
        if len(name.encode()) > _LONGEST_NAME:
            raise HubError(422, f"Invalid path {shown}: a part is longer than {_LONGEST_NAME} bytes")
        if len(name) == 2 and name[0].isalpha() and name[1] == ":":
            raise HubError(422, f"Invalid path {shown}: it names a drive")
    return path


def _is_git_folder(name: str) -> bool:
    """Whether some file system takes ``name`` for `.git`, as git itself checks it.

    HFS+ is blind for some characters, NTFS for a stream, trailing dots and spaces, and knows a short name; both are
    for case.
    """
    return _HFS_UNSEEN.sub("", name).partition(":")[0].rstrip(". ").lower() in (".git", "git~1")


def is_ref_name(name: object) -> bool:
    """Whether git would take ``name`` as the name of a branch or a tag, and nothing takes it for a commit."""
    if not isinstance(name, str) or not 0 < len(name) <= 200 or not name.isprintable():
        return False
    if (
        _SHA.fullmatch(name)
        or _REF_REFUSED.search(name)
        or name == "@"
        or name.startswith(("-", "/"))
        or name.endswith(("/", "."))
    ):
        return False
    return not any(part.startswith(".") or part.endswith(".lock") for part in name.split("/"))
