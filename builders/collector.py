"""Python's cyclic garbage collector, paused where many objects live for long."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """Collect nothing inside: a stage holds tens of thousands of records and makes no reference cycles of them, so
    that each collection would walk all of them (a tenth of a build) and free nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
