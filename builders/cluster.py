"""Buckets on the workers of a Dask cluster (the extra ``[scale]``), after a look at what these workers are.

A bucket is built by a worker as it would be here: it reads the sources and the partition and writes beside ``out``, so
that all machines have to see these folders, under the same names, and to run the same code.
"""

from __future__ import annotations

import asyncio
import secrets
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from ..schemas.errors import ArmError, UsageError
from .manifest import code_sha256, packages

if TYPE_CHECKING:
    from distributed import Client

CONNECT_SECONDS = 10.0  # for the scheduler to answer, and again for a first worker
T = TypeVar("T")
P = ParamSpec("P")


class Cluster(Executor):
    """An executor over a connected client. ``lost``: what its futures raise when workers or scheduler go away."""

    def __init__(self, address: str, client: Client) -> None:
        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        self.address, self._client = address, client
        self._executor = client.get_executor(pure=False)
        self.lost: tuple[type[BaseException], ...] = (KilledWorker, CommClosedError, CancelledError)

    @property
    def workers(self) -> int:
        """How many buckets are built at once."""
        return sum(self._client.nthreads().values())

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = self._executor.submit(fn, *args, **kwargs)
        return future

    def inspect(self, folder: Path, sources: Sequence[Path]) -> None:
        """Raise ArmError unless every worker runs this code and sees ``folder`` and ``sources`` as they are here."""
        token = folder / "token"
        token.write_text(secrets.token_hex(), "utf-8")
        try:
            expected = look(token, sources)
            found: Mapping[str, Any] = self._client.run(look, token, list(sources), on_error="return")
        finally:
            token.unlink()
        for worker, said in sorted(found.items()):
            if problem := _problem(said, expected, folder):
                message, advice = problem
                raise ArmError(f"the worker {worker} {message}", where=self.address, next_command=advice)


def look(token: Path, sources: Sequence[Path]) -> dict[str, Any]:
    """On a worker: what it runs and what it sees."""
    return {
        "code": code_sha256(),
        "packages": packages(),
        "token": token.read_text("utf-8") if token.is_file() else None,
        "sizes": {str(path): path.stat().st_size if path.is_file() else None for path in sources},
    }


def _problem(said: Any, expected: Mapping[str, Any], folder: Path) -> tuple[str, str] | None:
    """What is wrong with a worker, and what to do about it."""
    same = 'pip install "action-reward-models[scale]", of the same version on every machine, and start the workers anew'
    if not isinstance(said, dict):  # the exception it raised: at the import of this module, most likely
        return f"cannot run this code ({type(said).__name__}: {str(said)[:200]})", same
    if said["code"] != expected["code"]:
        return "runs another version of this code", same
    if other := [name for name, version in expected["packages"].items() if said["packages"].get(name) != version]:
        versions = ", ".join(
            f"{name} {said['packages'].get(name)}, here {expected['packages'][name]}" for name in other
        )
        return f"has other packages ({versions})", same
    if said["token"] != expected["token"]:
        shared = f"arm build --out {shlex.quote(f'/shared/{folder.parent.name}')}, a folder that all machines see"
        return f"does not see {folder.parent}, where the build is made", shared
    for path, size in expected["sizes"].items():
        if said["sizes"].get(path) != size:
            return f"does not see the source {path} as it is here", "move the sources to a folder that all machines see"
    return None


async def _greet(address: str, seconds: float) -> None:
    """Connect and leave again: the client would wait for ever for the greeting of something that is no scheduler."""
    from distributed import Security
    from distributed.comm import connect as comm_to

    arguments = Security().get_connection_args("client")
    comm = await asyncio.wait_for(comm_to(address, timeout=seconds, **arguments), seconds)
    await comm.close()


@contextmanager
def connect(address: str, seconds: float = CONNECT_SECONDS) -> Iterator[Cluster]:
    """Connect to the scheduler at ``address`` (``tcp://host:8786``).

    Raises UsageError without the extra, and ArmError when no scheduler answers or it has no worker.
    """
    try:
        from distributed import Client
    except ImportError as error:
        message = "building on a cluster needs the package distributed"
        raise UsageError(message, next_command='pip install "action-reward-models[scale]"') from error
    try:
        with ThreadPoolExecutor(1) as aside:  # this thread may have an event loop that runs, as in a notebook
            aside.submit(asyncio.run, _greet(address, seconds)).result()
        client = Client(address, timeout=seconds, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        message = f"no Dask scheduler answers here within {seconds:g} seconds"
        advice = "dask scheduler   # prints its address; then on each machine: dask worker ADDRESS"
        raise ArmError(message, where=address, next_command=advice) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=seconds)
        except TimeoutError as error:
            message = "the scheduler has no worker"
            raise ArmError(message, where=address, next_command=f"dask worker {shlex.quote(address)}") from error
        yield Cluster(address, client)
