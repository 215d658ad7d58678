"""The page as a file: whole or not at all, and never in the place of somebody's other file."""

from __future__ import annotations

import os
from pathlib import Path

from ...schemas.errors import ArmError
from .page import GENERATOR

_HEAD = 4096  # bytes in which a gallery says what made it


def refuse(out: Path, build: Path | None = None) -> None:
    """Raise ArmError where no gallery can be written: a folder, a file that is none, or a place in ``build``."""
    if build is not None and out.resolve().is_relative_to(build.resolve()):
        message = "is in the build, which holds what its manifest names and nothing else"
        raise ArmError(message, where=str(out), next_command=f"--out {out.name}")
    if out.is_dir():
        raise ArmError("is a folder", where=str(out), next_command="--out FILE.html")
    if out.is_symlink() or (out.exists() and not (out.is_file() and is_gallery(out))):
        raise ArmError("is there, and no gallery that could be replaced", where=str(out), next_command="--out NEW.html")


def is_gallery(path: Path) -> bool:
    with path.open("rb") as file:
        return f'<meta name="generator" content="{GENERATOR}">'.encode() in file.read(_HEAD)


def write(page: bytes, out: Path) -> None:
    """Write the page, in the place of an earlier gallery if there is one. Raises ArmError like `refuse`, OSError."""
    refuse(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    work = out.with_name(f".{out.name}-{os.getpid()}")
    with work.open("xb") as file:
        try:
            file.write(page)
            file.flush()
            os.fsync(file.fileno())
            work.replace(out)
        except BaseException:
            work.unlink(missing_ok=True)
            raise
