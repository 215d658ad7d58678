"""Buckets on Dask workers: the extra `[scale]`, as on a cluster whose workers see the same files."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from action_reward_models.builders import cluster, executors, runner
from action_reward_models.builders.workspace import folder_of
from action_reward_models.registry import Registry
from action_reward_models.schemas.errors import ArmError, UsageError
from click.testing import CliRunner

if TYPE_CHECKING:
    from tests.builders.conftest import Toy

EXAMPLE = Path(__file__).parents[2] / "examples" / "miniwob" / "registry.yaml"
NOISE = pytest.mark.filterwarnings("ignore")  # Dask's own, at start and shutdown
needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="needs the extra [scale]: make test-all installs it"
)


# -- without a cluster -------------------------------------------------------------------------------------------------


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match="needs the package distributed") as caught, cluster.connect("tcp://x:1"):
        pass
    assert caught.value.next_command == 'pip install "action-reward-models[scale]"'


@needs_dask
@NOISE
@pytest.mark.parametrize("who", ["nobody", "not a scheduler", "nonsense", "no scheme of Dask's"])
def test_what_is_no_scheduler_is_refused_soon(who: str) -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        address = {
            "nobody": f"tcp://127.0.0.1:{one.getsockname()[1]}",
            "not a scheduler": f"tcp://127.0.0.1:{one.getsockname()[1]}",
            "nonsense": "nonsense",
            "no scheme of Dask's": "gopher://127.0.0.1:70",
        }[who]
        if who == "not a scheduler":  # it takes the connection and never says a word
            one.listen()
        started = time.monotonic()
        with pytest.raises(ArmError, match="no Dask scheduler answers") as caught, cluster.connect(address, 0.3):
            pass
    assert caught.value.where == address
    assert "dask scheduler" in (caught.value.next_command or "")
    assert time.monotonic() - started < 10


def test_workers_and_cluster_cannot_be_combined(tmp_path: Path) -> None:
    from action_reward_models.cli import build

    shutil.copytree(EXAMPLE.parent, tmp_path / "r", ignore=shutil.ignore_patterns("build"))
    words = [str(tmp_path / "r" / "registry.yaml"), "--cluster", "tcp://127.0.0.1:1", "--workers", "2"]
    result = CliRunner().invoke(build.command, words)
    assert isinstance(result.exception, UsageError)


# -- what a worker says ------------------------------------------------------------------------------------------------


def said(folder: Path, **changes: Any) -> Any:
    """A cluster of two workers, the second of which answers otherwise."""

    def run(function: Any, *arguments: Any, on_error: str) -> dict[str, Any]:
        answer = function(*arguments)
        other = changes.get("error") or {**answer, **changes}
        return {"tcp://one:1": answer, "tcp://two:2": other}

    made = object.__new__(cluster.Cluster)
    made.address, made._client = "tcp://scheduler:8786", SimpleNamespace(run=run)
    made.inspect(folder, [EXAMPLE])
    return made


def test_workers_that_see_and_run_the_same_are_taken(tmp_path: Path) -> None:
    assert said(tmp_path)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"code": "0" * 64}, "the worker tcp://two:2 runs another version of this code"),
        ({"packages": {}}, "the worker tcp://two:2 has other packages .*pyarrow None, here "),
        ({"token": None}, "the worker tcp://two:2 does not see "),
        ({"token": "of another folder of that name"}, "the worker tcp://two:2 does not see "),
        ({"sizes": {str(EXAMPLE): 3}}, "the worker tcp://two:2 does not see the source .*registry.yaml"),
        ({"error": ModuleNotFoundError("No module named 'action_reward_models'")}, "cannot run this code"),
    ],
)
def test_a_worker_that_would_build_something_else_is_refused(
    changes: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(ArmError, match=problem) as caught:
        said(tmp_path, **changes)
    assert caught.value.where == "tcp://scheduler:8786"
    assert caught.value.next_command


def test_a_worker_that_comes_later_is_looked_at_too(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters grow while they work; each bucket says which code it is for."""
    toy.scene("a")
    digests = iter(["a" * 64, "a" * 64, "b" * 64])
    monkeypatch.setattr("action_reward_models.builders.manifest.code_sha256", lambda: next(digests))
    with pytest.raises(ArmError, match="a worker runs another version of the code"):
        toy.build()


# -- real clusters -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    distributed = pytest.importorskip("distributed", reason="needs the extra [scale]: make test-all installs it")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    with distributed.LocalCluster(**options) as local:
        yield local.scheduler_address


@pytest.mark.slow
@NOISE
def test_a_cluster_gives_the_same_build(scheduler: str, tmp_path: Path) -> None:
    registry = Registry.load(EXAMPLE)
    here, _ = registry.build(out=tmp_path / "here", workers=1)
    with cluster.connect(scheduler) as executor:
        there, _ = registry.build(out=tmp_path / "there", executor=executor)
    assert here is not None
    assert there is not None
    assert there.manifest["identity"] == here.manifest["identity"]
    assert there.manifest["environment"]["files"] == here.manifest["environment"]["files"]


@pytest.mark.slow
@NOISE
def test_the_verb_builds_on_a_cluster(scheduler: str, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE.parent, tmp_path / "r", ignore=shutil.ignore_patterns("build"))
    command = [str(Path(sys.executable).parent / "arm"), "build", "--cluster", scheduler, "--json"]
    done = subprocess.run(command, cwd=tmp_path / "r", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (result,) = orjson.loads(done.stdout)
    assert result["built"] is True


@pytest.mark.slow
@NOISE
def test_any_executor_will_do(scheduler: str, tmp_path: Path) -> None:
    """One that is handed in, as before, whose workers nobody looks at."""
    import distributed

    registry = Registry.load(EXAMPLE)
    with distributed.Client(scheduler) as client:
        built, _ = registry.build(out=tmp_path / "out", executor=client.get_executor())
    assert built is not None


@pytest.mark.slow
@NOISE
def test_a_cluster_that_goes_away_leaves_what_it_finished(toy: Toy) -> None:
    distributed = pytest.importorskip("distributed")
    for number in range(300):
        toy.scene(f"e{number}", picture=number, task=f"task {number}")
    spec, out = toy.spec(shards=64), toy.folder / "out"
    local = distributed.LocalCluster(1, threads_per_worker=1, dashboard_address=None, host="127.0.0.1")

    def progress(what: str, done: int, total: int, rows: int | None = None, /) -> None:
        if what == "building" and done > total / 4:
            with contextlib.suppress(TimeoutError):  # of a worker that is busy, on a busy machine; the next call tries
                local.close()

    with cluster.connect(local.scheduler_address) as executor, pytest.raises(executors.LostWorkersError):
        runner.build(spec, out, card=lambda manifest: "", executor=executor, progress=progress)
    assert len([*folder_of(out).glob("kept-*/results/*.json")]) > 10
    built = runner.build(spec, out, card=lambda manifest: "", workers=1)
    assert built.resumed > 10
    assert not folder_of(out).exists()
