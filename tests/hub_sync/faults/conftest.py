"""A build of two tables, and processes that publish it and can be killed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from action_reward_models.hub_sync.local_hub import serve
from action_reward_models.registry import Registry
from action_reward_models.tests.hub_sync.faults.forks import Pool
from action_reward_models.tests.hub_sync.faults.hold import Held, read

if TYPE_CHECKING:
    from tests.hub_sync.conftest import Publisher, Running

_LARGE = ("candidate_sets: {}", "selection_sft: {prompt: selection/1, images: reference}")


def build_two_tables(publisher: Publisher) -> Path:
    """Build less than usual: every table is six requests and a part of a second to read back."""
    publisher.build()
    path = publisher.folder / "registry.yaml"
    text = path.read_text("utf-8")
    for line in _LARGE:
        assert line in text
        text = text.replace(f"      {line}\n", "")
    path.write_text(text, "utf-8")
    Registry.load(publisher.folder).build(workers=1)
    return publisher.built


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory, new_publisher: type[Publisher]) -> Path:
    """Version 1.0.0 of a dataset, to be published as one repository after another."""
    return build_two_tables(new_publisher(tmp_path_factory.mktemp("registry")))


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory, new_publisher: type[Publisher]) -> Path:
    """The same version with other rows."""
    return build_two_tables(new_publisher(tmp_path_factory.mktemp("other"), picks=[1, 1]))


@pytest.fixture(scope="session")
def pools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[bool], Pool]]:
    """By Xet mode; started when first asked for."""
    made: dict[bool, Pool] = {}

    def pool(xet: bool) -> Pool:
        if xet not in made:
            made[xet] = Pool(tmp_path_factory.mktemp("forks"), xet=xet, size=min(4, os.cpu_count() or 1))
        return made[xet]

    yield pool
    for pool_ in made.values():
        pool_.close()


@pytest.fixture
def new_hub(tmp_path: Path, running: Running) -> Iterator[Callable[[], Running]]:
    """Starts a hub that knows nothing yet: storage that has seen the bytes before is not asked to store them."""
    folders: list[Path] = []

    def start() -> Running:
        folders.append(tmp_path / f"hub-{len(folders)}")
        found = serve.start(folders[-1], 0)
        token = (folders[-1] / "token").read_text("utf-8").strip()
        return replace(running, folder=folders[-1], url=found["url"], token=token, pid=found["pid"])

    yield start
    for folder in folders:
        assert serve.stop(folder)


@pytest.fixture(scope="session")
def held(running: Running) -> Callable[[str], Held]:
    """Reads everything that a repository holds, and that it is what it says."""

    return lambda repo: read(running.url, running.token, repo)
