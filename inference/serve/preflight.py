"""What vLLM needs to run a checkpoint here, looked at before it is started: a job that waited for a GPU is lost by what
a minute could have found. Nothing is imported of vLLM, torch or CUDA; their versions are read where they lie.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...schemas.errors import ArmError
from ..contract import read as read_contract
from .export import lacking, problems
from .vllm import CUDA, ENVIRONMENT, PINS

Status = Literal["ok", "missing", "wrong"]
DRIVER = 580  # the oldest of the NVIDIA drivers for CUDA 13
_WAIT_S = 60
_INSTALL = f'python3 -m venv {ENVIRONMENT} && {ENVIRONMENT}/bin/pip install "vllm{PINS["vllm"]}"'
_PATH = f'export PATH="$PWD/{ENVIRONMENT}/bin:$PATH"'
# Run by the python beside `vllm`; packaging is one of its requirements.
_ASKED = """
import importlib.metadata as metadata, json, sys
from packaging.specifiers import SpecifierSet
found = {}
for name, pin in json.loads(sys.argv[1]).items():
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        found[name] = None
    else:
        found[name] = [version, SpecifierSet(pin).contains(version.partition("+")[0], prereleases=True)]
print(json.dumps(found))
"""
_WRITTEN = re.compile(r"release (\d+)\.(\d+)")


@dataclass(frozen=True)
class Check:
    """found: what there is. do: what makes it right; empty where it is."""

    name: str
    status: Status
    found: str
    do: str = ""

    def to_json(self) -> dict[str, str]:
        return {"name": self.name, "status": self.status, "found": self.found, "do": self.do}


@dataclass(frozen=True)
class Machine:
    """What is looked at: ``environment`` variables, and how programs are run. run(words) -> what a program prints;
    raises OSError for none, and for one that fails."""

    environment: Mapping[str, str]
    run: Callable[[Sequence[str]], str]

    @classmethod
    def here(cls) -> Machine:
        return cls(dict(os.environ), _run)

    @property
    def path(self) -> str:
        return self.environment.get("PATH", "")

    def which(self, name: str) -> Path | None:
        found = shutil.which(name, path=self.path)
        return Path(found) if found else None


def preflight(
    folder: Path, host: str, port: int, *, base: Path | None = None, machine: Machine | None = None
) -> list[Check]:
    """Every check, in an order in which to repair. folder: of a checkpoint; base: of its base model, where vLLM loads
    that."""
    machine = machine or Machine.here()
    program = machine.which("vllm")
    return [
        *_programs(machine, program), *_cuda(machine), *_gpus(machine, base or folder),
        *_model(folder, base is not None), *([] if base is None else [_whole("base model", base)]), _port(host, port),
    ]  # fmt: skip


def _programs(machine: Machine, program: Path | None) -> Iterator[Check]:
    """vLLM with what it pins, and the ninja that compiles its kernels."""
    if program is None:
        yield Check("vllm", "missing", "no vllm on PATH", f"{_INSTALL}; {_PATH}")
    else:
        python = program.parent / "python"
        yield from _versions(machine, python)
    ninja = machine.which("ninja")
    if ninja is None:
        yield Check("ninja", "missing", "no ninja on PATH", f"{_PATH}   # vLLM brings one")
    elif program is not None and ninja.parent != program.parent:
        yield Check("ninja", "wrong", f"{ninja} comes first on PATH, not the one beside vllm", _PATH)
    else:
        yield from _ran("ninja", machine, [str(ninja), "--version"], str(ninja), "install vLLM's environment again")


def _versions(machine: Machine, python: Path) -> Iterator[Check]:
    try:
        told = json.loads(machine.run([str(python), "-c", _ASKED, json.dumps(dict(PINS))]))
    except (OSError, ValueError) as error:
        yield Check("vllm", "wrong", f"{python} does not say its versions: {error}", f"{_INSTALL}; {_PATH}")
        return
    for name, pin in PINS.items():
        if told[name] is None:
            yield Check(name, "missing", f"not in {python.parent.parent}", _INSTALL)
        else:
            version, fits = told[name]
            do = "" if fits else f'{python} -m pip install "{name}{pin}"'
            yield Check(name, "ok" if fits else "wrong", f"{version}, and {name}{pin} is meant", do)


def _cuda(machine: Machine) -> Iterator[Check]:
    """The compiler of the same CUDA as torch's, and no foreign libraries before torch's own."""
    home = machine.environment.get("CUDA_HOME")
    advice = f"export CUDA_HOME=/usr/local/cuda-{CUDA}.0   # or where CUDA {CUDA} is"
    if not home:
        yield Check("CUDA_HOME", "missing", "not set", advice)
    elif not (Path(home) / "bin" / "nvcc").is_file():
        yield Check("CUDA_HOME", "wrong", f"{home} has no bin/nvcc", advice)
    else:
        yield Check("CUDA_HOME", "ok", home)
    compiler = (
        Path(home) / "bin" / "nvcc" if home and (Path(home) / "bin" / "nvcc").is_file() else machine.which("nvcc")
    )
    if compiler is None:
        yield Check("nvcc", "missing", "not in CUDA_HOME, not on PATH", f"install the toolkit of CUDA {CUDA}")
    else:
        yield _nvcc(machine, compiler)
    yield _libraries(machine, home)


def _nvcc(machine: Machine, compiler: Path) -> Check:
    try:
        told = _WRITTEN.search(machine.run([str(compiler), "--version"]))
    except OSError as error:
        return Check("nvcc", "wrong", f"{compiler} does not run: {error}", f"install the toolkit of CUDA {CUDA}")
    if told is None or int(told[1]) != CUDA:
        found = f"{told[1]}.{told[2]}" if told else "another program"
        return Check("nvcc", "wrong", f"{compiler} is {found}, and torch {PINS['torch']} is built for CUDA {CUDA}",
                     f"export CUDA_HOME=/usr/local/cuda-{CUDA}.0")  # fmt: skip
    return Check("nvcc", "ok", f"{compiler}, CUDA {told[1]}.{told[2]}")


def _libraries(machine: Machine, home: str | None) -> Check:
    """Folders in LD_LIBRARY_PATH come before those that torch was linked with."""
    name = "LD_LIBRARY_PATH"
    folders = [Path(one) for one in machine.environment.get(name, "").split(":") if one]
    if gone := [str(one) for one in folders if not one.is_dir()]:
        return Check(name, "wrong", f"names {gone[0]}, which is no folder", f"unset {name}")
    own = Path(home).resolve() if home else None
    for folder in folders:
        held = sorted(
            one.name for kind in ("libcudart.so*", "libnccl.so*", "libcudnn.so*") for one in folder.glob(kind)
        )
        mine = own is not None and own in (folder.resolve(), *folder.resolve().parents)
        if held and not mine:
            return Check(
                name, "wrong", f"{folder} has {held[0]}, which would be taken instead of torch's", f"unset {name}"
            )
    return Check(name, "ok", ":".join(map(str, folders)) or "not set: torch uses its own libraries")


def _gpus(machine: Machine, weights: Path) -> Iterator[Check]:
    """The driver, and a GPU with room for the weights."""
    query = ["nvidia-smi", "--query-gpu=driver_version,name,memory.free", "--format=csv,noheader,nounits"]
    try:
        rows = [[part.strip() for part in line.split(",")] for line in machine.run(query).splitlines() if line.strip()]
        driver = rows[0][0]
        major = int(driver.partition(".")[0])
        best = max(rows, key=lambda row: int(row[2]))
        free = int(best[2]) * 2**20
    except (OSError, ValueError, IndexError) as error:
        yield Check("driver", "missing", f"nvidia-smi says nothing of use: {getattr(error, 'strerror', None) or error}",
                    f"run it on a machine with an NVIDIA GPU and driver {DRIVER} or newer")  # fmt: skip
        return
    new = major >= DRIVER
    yield Check("driver", "ok" if new else "wrong", f"{driver}, and {DRIVER} or newer is meant",
                "" if new else f"install NVIDIA driver {DRIVER} or newer")  # fmt: skip
    needed = sum(path.stat().st_size for path in weights.glob("*.safetensors"))
    room = free > needed
    yield Check(
        "GPU", "ok" if room else "wrong",
        f"{best[1]}: {free / 2**30:,.1f} GiB free, and the weights are {needed / 2**30:,.1f} GiB",
        "" if room else "nvidia-smi   # says who uses it; or use a larger GPU",
    )  # fmt: skip


def _model(folder: Path, based: bool) -> Iterator[Check]:
    """The checkpoint: its manifest, that its files are those it names, and for a scalar model what vLLM reads."""
    try:
        contract = read_contract(folder)
    except ArmError as error:
        yield Check("checkpoint", "wrong" if folder.is_dir() else "missing", str(error).splitlines()[0],
                    error.next_command or f"arm verify {folder}")  # fmt: skip
        return
    if contract["layout"] != "merged":
        scalar = contract["kind"] == "scalar"
        if not scalar and not based and contract["base"]["repo"] is None:
            yield Check("base model", "missing", "it was a folder", "--base FOLDER")
        yield Check("checkpoint", "wrong" if scalar else "ok", f"{contract['layout']} on a base model",
                    f"arm merge {folder} --out {folder}-merged" if scalar else "")  # fmt: skip
        return
    whole = _whole("checkpoint", folder)
    yield whole
    if contract["kind"] == "scalar" and whole.status == "ok":
        found = problems(folder)
        yield Check("export", "wrong" if found else "ok", found[0] if found else "vLLM gives its scores",
                    "arm merge CHECKPOINT --out FOLDER   # writes it anew" if found else "")  # fmt: skip


def _whole(name: str, folder: Path) -> Check:
    try:
        gone = lacking(folder)
    except ArmError as error:
        return Check(name, "wrong", str(error), "write or fetch it again")
    if gone:
        return Check(name, "missing", f"{folder} has no {', '.join(gone)}", "write or fetch it again")
    return Check(name, "ok", str(folder))


def _port(host: str, port: int) -> Check:
    name = f"port {port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(address)
            tried.listen(1)
    except OSError as error:
        return Check(name, "wrong", f"{host}:{port}: {error.strerror}", "--port PORT   # another one")
    return Check(name, "ok", f"{host}:{port} is free")


def _ran(name: str, machine: Machine, words: Sequence[str], found: str, do: str) -> Iterator[Check]:
    try:
        yield Check(name, "ok", f"{found}, {machine.run(words).strip()}")
    except OSError as error:
        yield Check(name, "wrong", f"{found} does not run: {error}", do)


def _run(words: Sequence[str]) -> str:
    """What a program prints. Raises OSError for one that is not there, fails, or does not end."""
    try:
        done = subprocess.run(  # noqa: S603 - programs of this machine's own PATH
            words, capture_output=True, text=True, timeout=_WAIT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"it did not end within {_WAIT_S} s") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise OSError(said[-1] if said else f"it ended with {done.returncode}")
    return done.stdout
