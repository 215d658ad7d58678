"""Where the buckets of a build are built: in this process, in local processes, or on any executor."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from ..schemas.errors import ArmError
from .cluster import Cluster

Task = TypeVar("Task")
Result = TypeVar("Result")


class LostWorkersError(ArmError):
    """Workers went away, which says nothing about the sources: what was finished is good, and the rest can be tried
    again."""


def results(
    function: Callable[[Task], Result], tasks: Sequence[Task], workers: int, executor: Executor | None
) -> Iterator[tuple[Task, Result]]:
    """Yield (task, ``function(task)``) of all tasks, as they end. Raises LostWorkersError when the workers are gone."""
    if executor is None and workers == 1:
        yield from ((task, function(task)) for task in tasks)
        return
    # spawn: a forked child would inherit pyarrow's threads in whatever state they were
    spawn = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    pool = executor or ProcessPoolExecutor(workers, mp_context=spawn, initializer=_follow_the_parent)
    lost = executor.lost if isinstance(executor, Cluster) else BrokenProcessPool
    try:
        futures = {pool.submit(function, task): task for task in tasks}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except lost as error:
        if isinstance(executor, Cluster):
            message, advice = "the cluster lost its workers, or this process the cluster", "run the same command again"
        else:
            message, advice = "a worker process ended without a word, as when memory runs out", "arm build --workers 1"
        raise LostWorkersError(f"{message}; finished buckets are kept", next_command=advice) from error
    except BaseException:  # an interrupt: nobody waits for buckets that nobody will use
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()
        raise
    finally:
        if executor is None:
            pool.shutdown(cancel_futures=True)


def _follow_the_parent() -> None:
    """In a worker: an interrupt is the parent's business, and a worker whose parent was killed ends, too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
