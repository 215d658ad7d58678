"""Pictures named by records: data URLs and relative paths, which are data and never trusted."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path, PureWindowsPath

from ...schemas.errors import ArmError
from ...schemas.images import Limits, decode_data_url

_LIMITS = Limits()
_DEVICES = {"CON", "PRN", "AUX", "NUL", *(f"{kind}{n}" for kind in ("COM", "LPT") for n in range(1, 10))}


class PictureError(ArmError):
    """``reason`` is one of the ledger's for `states`."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


def read_picture(reference: str, folder: Path) -> bytes:
    """Bytes of a base64 data URL, or of a file below ``folder``.

    Raises ImageError for a broken data URL; PictureError for other URLs, for paths that are absolute, leave the folder
    or hold ``..``, a backslash, a control character or a device name, and for files that are not there.
    """
    if reference[:5].lower() == "data:":
        return decode_data_url(reference, _LIMITS)
    if "://" in reference:
        message = f"{reference[:80]!r} is a URL; pictures are data URLs or files beside the records"
        raise PictureError(message, "path_refused")
    path = inside(reference, folder)
    try:
        if path.exists() and not path.is_file():  # a folder, or a pipe that would never end
            raise PictureError(f"picture {reference[:80]!r} is no file", "image_missing")
        with path.open("rb") as file:
            return file.read(_LIMITS.max_bytes + 1)
    except OSError as error:
        raise PictureError(f"picture {reference[:80]!r}: {error.strerror}", "image_missing") from error


@lru_cache(maxsize=8)  # asked for again with every picture
def _resolved(folder: Path) -> Path:
    return folder.resolve()


def inside(reference: str, folder: Path) -> Path:
    """Where ``reference`` leads below ``folder``; nothing has to be there. Raises PictureError as `read_picture` does
    for a path that is refused."""
    parts = reference.split("/")
    bad = (
        "\\" in reference
        or any(ord(c) < 32 or ord(c) == 127 for c in reference)
        or any(part in ("", "..") or part.split(".")[0].strip().upper() in _DEVICES for part in parts)
        or PureWindowsPath(reference).drive
    )
    if bad:
        message = f"the path {reference[:80]!r} is refused: it must stay below the folder of the records"
        raise PictureError(message, "path_refused")
    path = folder.joinpath(*parts)
    try:
        real = path.resolve()
    except RuntimeError as error:
        raise PictureError(f"the path {reference[:80]!r} is a link that leads nowhere", "image_missing") from error
    if _resolved(folder) not in real.parents:  # a symbolic link that leads out
        raise PictureError(f"the path {reference[:80]!r} leads out of the folder of the records", "path_refused")
    return path
