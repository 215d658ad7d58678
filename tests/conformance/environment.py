"""The client under test: its source release, its own virtual environment, its tests in a folder."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CACHE = ROOT / "build" / "conformance"  # ignored by git, kept between runs


class UnavailableError(Exception):
    """The release or a package of the environment cannot be fetched."""


def sdist(version: str) -> Path:
    """The source release, downloaded once. Raises UnavailableError."""
    folder = CACHE / "sdists"
    file = folder / f"huggingface_hub-{version}.tar.gz"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            options = ["--no-deps", "--no-binary", ":all:", "--dest", scratch]
            _pip(sys.executable, "download", *options, f"huggingface_hub=={version}")
            Path(scratch, file.name).replace(file)
    return file


def python(version: str) -> Path:
    """The interpreter of the client's environment, made once for each set of requirements. Raises UnavailableError."""
    folder = CACHE / f"venv-{version}"
    wanted = (HERE / "requirements.txt").read_text("utf-8") + version
    stamp = folder / "complete"
    interpreter = folder / "bin" / "python"
    if not stamp.exists() or stamp.read_text("utf-8") != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as pins:
            lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines(keepends=True)
            pins.writelines(line for line in lines if not line.startswith("huggingface_hub"))
            pins.flush()
            listed = ["-r", str(HERE / "requirements.txt"), f"huggingface_hub=={version}"]
            _pip(str(interpreter), "install", "-c", pins.name, *listed)
        stamp.write_text(wanted, "utf-8")
    return interpreter


def _pip(interpreter: str, verb: str, *arguments: str) -> None:
    command = [interpreter, "-m", "pip", verb, "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnavailableError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"pip {verb} failed")


def unpack(archive: Path, folder: Path) -> None:
    """Lay the tests of a release out in ``folder``, with a conftest of ours, pointed at HF_ENDPOINT."""
    tests = folder / "tests"
    cards = tests / "fixtures" / "cards"
    cards.mkdir(parents=True)
    with tarfile.open(archive) as release:
        for member in release.getmembers():
            name = Path(member.name)
            if member.isfile() and name.parent.name == "tests" and len(name.parts) == 3 and name.suffix == ".py":
                opened = release.extractfile(member)
                assert opened is not None
                (tests / name.name).write_bytes(opened.read())
    (tests / "__init__.py").touch()
    shutil.copyfile(HERE / "client_conftest.py", tests / "conftest.py")
    (cards / "sample_simple.md").write_text(_CARD, "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n", "utf-8")
    constants = tests / "testing_constants.py"
    text = constants.read_text("utf-8")
    line = next(line for line in text.splitlines() if line.startswith("ENDPOINT_STAGING ="))
    constants.write_text(text.replace(line, 'import os\n\nENDPOINT_STAGING = os.environ["HF_ENDPOINT"]'), "utf-8")


# The one sample card that a test with a request reads. Releases lack the samples.
_CARD = """---
language:
- en
license: mit
library_name: pytorch-lightning
tags:
- pytorch
- image-classification
datasets:
- beans
metrics:
- acc
---

# my-cool-model

A card.
"""


def people(folder: Path) -> dict[str, str]:
    """The names and tokens that the tests act under: the string constants of their module of constants."""
    tree = ast.parse((folder / "tests" / "testing_constants.py").read_text("utf-8"))
    found = {}
    for node in tree.body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and isinstance(node.value, ast.Constant)
        ):
            found[node.targets[0].id] = str(node.value.value)
    return found
