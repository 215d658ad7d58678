"""Processes that start at once: each is forked from one that has imported what takes long.

What is imported there reads neither the environment nor arguments, so that a forked process with another environment
is what a new one would be; `huggingface_hub` and `datasets` do read it, and each process imports them for itself.
Tests whose matter is the start of a process start a real one.

As a process (``processes.py SOCKET MODULE...``) it takes one job per connection, ``{words, env, cwd, code}`` with the
three standard streams as descriptors, and answers with the new process's id and then its exit status.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, Self

_ROOT = Path(__file__).parents[1]
# What `datasets` spends most of its start on.
STOCK = (
    "asyncio", "concurrent.futures.process", "dill", "filelock", "fsspec", "multiprocess.pool", "numpy",
    "pandas", "pyarrow.csv", "pyarrow.dataset", "pyarrow.fs", "pyarrow.json", "pyarrow.parquet", "tqdm.auto", "xxhash",
    "yaml",
)  # fmt: skip
_OURS = (
    "builders.runner", "cards.dataset", "hub_sync.publish", "hub_sync.verify", "registry.apply", "schemas.validate",
    "tests.processes",
)  # fmt: skip
_VERBS = sorted(path.stem for path in (_ROOT / "cli").glob("[a-z]*.py"))
ARM = (
    *STOCK, "PIL.Image", "jinja2", "jsonschema_rs", "orjson", "rich.console", "rich.progress",
    *(f"action_reward_models.{name}" for name in (*_OURS, *(f"cli.{verb}" for verb in _VERBS))),
)  # fmt: skip
_LATE = ("datasets", "huggingface_hub.constants", "torch")  # read the environment when they are imported
# What a model is run and trained with. All of it reads the environment when it is imported: see `torch`.
TORCH = (
    "torch", "transformers", "peft", "accelerate", "PIL.Image", "transformers.models.qwen3_5.modeling_qwen3_5",
    "transformers.models.qwen2_vl.image_processing_pil_qwen2_vl", "transformers.generation.utils",
    "trl.trainer.reward_trainer", "trl.trainer.sft_trainer", "jsonschema_rs", "pyarrow.parquet", "jinja2",
)  # fmt: skip
_ARM_CODE = """
import sys
from action_reward_models.cli import main
from action_reward_models.tests.processes import know

know(sys.argv.pop())
main()
"""


class Address:
    """A running server, by the path of its socket."""

    def __init__(self, path: str) -> None:
        self.path = path

    def fork(
        self, code: str, words: Sequence[str], *, env: Mapping[str, str], cwd: Path, streams: tuple[int, int, int]
    ) -> Forked:
        """Run ``code`` with these arguments, environment, folder and standard streams."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self.path)
        job = json.dumps({"code": code, "words": list(words), "env": dict(env), "cwd": str(cwd)}).encode()
        socket.send_fds(connection, [len(job).to_bytes(4)], streams)
        connection.sendall(job)
        return Forked(connection)


class Server(Address):
    """Forks processes that know ``modules`` already; it ends with the process that started it."""

    def __init__(self, modules: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="arm-forks-")
        super().__init__(f"{self._folder.name}/socket")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
        kept = kept if env is None else dict(env)
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__, self.path, *modules], env=kept, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdout
        assert self._process.stdout.readline() == b"ready\n"

    def close(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)
        self._folder.cleanup()


class Forked:
    """A process of a server, as far as its parent sees it."""

    def __init__(self, connection: socket.socket) -> None:
        self._said = connection.makefile()
        connection.close()
        self.pid = int(self._said.readline())

    def wait(self) -> int:
        with self._said:
            return int(self._said.readline())

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


_servers: dict[tuple[str, ...], Address] = {}


def server(modules: tuple[str, ...], env: Mapping[str, str] | None = None) -> Address:
    """Started when it is first asked for. env: what its modules read when they are imported; by default nothing of
    Hugging Face's."""
    if modules not in _servers:
        _servers[modules] = Server(modules, env)
    return _servers[modules]


def close() -> None:
    """End all servers."""
    while _servers:
        ended = _servers.popitem()[1]
        assert isinstance(ended, Server)
        ended.close()


def arm(words: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the command with these arguments to its end."""
    return _to_its_end(server(ARM), _ARM_CODE, ["arm", *words, server(STOCK).path], cwd, env)


def python(code: str, *words: str, cwd: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run ``python -c CODE WORDS`` to its end."""
    return _to_its_end(server(STOCK), f"import sys; sys.path.insert(0, '')\n{code}", ["-c", *words], cwd, env)


def torch(module: str, *words: object, cwd: Path = _ROOT, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run ``python -m MODULE WORDS`` to its end, with ``given`` to read and the environment of a process that runs a
    model, as it was when the first of them started: that of another Hub needs a process of its own."""
    from action_reward_models.tests.tiny_vlm import cached

    env = {name: value for name, value in cached.environment().items() if name != "USE_TORCH"}
    code = f"import runpy; runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    return _to_its_end(server(TORCH, env), code, [module, *map(str, words)], cwd, env, given)


def _to_its_end(
    server: Address, code: str, words: Sequence[str], cwd: Path, env: Mapping[str, str], given: str = ""
) -> subprocess.CompletedProcess[str]:
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as out,
        tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as err,
        tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as read,
    ):
        read.write(given)
        read.seek(0)
        streams = (read.fileno(), out.fileno(), err.fileno())
        status = server.fork(code, words, env=env, cwd=cwd, streams=streams).wait()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(list(words), status, out.read(), err.read())


class Popen:
    """Of `subprocess`, as far as reading a publication back uses it: ``python -P -c CODE WORDS``, into two pipes."""

    def __init__(
        self, command: Sequence[str], *, env: Mapping[str, str], cwd: Path, text: bool, stdout: int, stderr: int
    ) -> None:
        assert (list(command[:3]), text) == ([sys.executable, "-P", "-c"], True)
        assert (stdout, stderr) == (subprocess.PIPE, subprocess.PIPE)
        ends = [os.pipe(), os.pipe()]
        with open(os.devnull) as nothing:  # noqa: PTH123
            streams = (nothing.fileno(), ends[0][1], ends[1][1])
            self._forked = server(STOCK).fork(command[3], ["-c", *command[4:]], env=env, cwd=cwd, streams=streams)
        for _, writing in ends:
            os.close(writing)
        self.stdout: IO[str] = os.fdopen(ends[0][0], encoding="utf-8")
        self.stderr: IO[str] = os.fdopen(ends[1][0], encoding="utf-8")
        self.returncode: int | None = None

    def kill(self) -> None:
        self._forked.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stdout.close()
        self.stderr.close()
        self.returncode = self._forked.wait()


STARTS = SimpleNamespace(Popen=Popen, PIPE=subprocess.PIPE)  # `subprocess` as reading back knows it


def know(path: str) -> None:
    """In a process of `arm`: what it publishes is read back by a fork of the server at ``path``."""
    from action_reward_models.hub_sync import readback

    _servers[STOCK] = Address(path)
    vars(readback)["subprocess"] = STARTS


def _serve(path: str, modules: Sequence[str]) -> None:
    for name in modules:
        importlib.import_module(name)
    assert "torch" in modules or not set(_LATE) & set(sys.modules), set(_LATE) & set(sys.modules)
    assert threading.active_count() == 1, "what is forked is whole"
    gc.collect()
    gc.freeze()  # or every process would copy all of it when it collects
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody here waits for them
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(16)
        os.write(1, b"ready\n")
        while 0 not in select.select([0, listening.fileno()], [], [])[0]:  # until the parent closes its end
            connection = listening.accept()[0]
            if not os.fork():
                listening.close()
                _run(connection)
            connection.close()


def _run(connection: socket.socket) -> None:
    """In a process of its own: fork the one that was asked for, and tell its id and its end."""
    size, streams, *_ = socket.recv_fds(connection, 4, 3)
    with connection.makefile("rb") as file:
        job: dict[str, Any] = json.loads(file.read(int.from_bytes(size)))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if pid := os.fork():
        for stream in streams:
            os.close(stream)
        connection.sendall(b"%d\n" % pid)
        ended = os.pidfd_open(pid)
        if ended not in select.select([ended, connection.fileno()], [], [])[0]:  # who asked is gone: it was killed
            os.kill(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with suppress(BrokenPipeError):
            connection.sendall(b"%d\n" % status)
        os._exit(0)
    connection.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    time.tzset()
    sys.argv = job["words"]
    os._exit(_executed(job["code"]))


def _executed(code: str) -> int:
    """The exit status. The interpreter is not taken apart: that would copy all that is shared with the server."""
    status: object = 0
    try:
        exec(code, {"__name__": "__main__"})
    except SystemExit as end:
        status = end.code
    except BaseException:
        traceback.print_exc()
        status = 1
    finally:
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    return status if isinstance(status, int) else int(status is not None)


if __name__ == "__main__":
    _serve(sys.argv[1], sys.argv[2:])
