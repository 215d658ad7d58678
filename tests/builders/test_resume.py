"""A build that did not come to its end goes on where it was, and only when nothing changed that decides its rows."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from action_reward_models.builders import manifest, runner
from action_reward_models.builders import workspace as workspaces
from action_reward_models.builders.bucket import BucketResult, Job, build_bucket
from action_reward_models.builders.executors import LostWorkersError
from action_reward_models.builders.spec import BuildSpec
from action_reward_models.schemas.errors import ArmError
from click.testing import CliRunner

if TYPE_CHECKING:
    from tests.builders.conftest import Toy

EXAMPLE = Path(__file__).parents[2] / "examples" / "miniwob"
SHARDS = 8
KEPT = 5  # buckets that the interrupted build finishes


@pytest.fixture
def some(toy: Toy) -> Toy:
    for number in range(24):
        toy.scene(f"e{number}", picture=number, task=f"task {number}")
    return toy


def build(spec: BuildSpec, out: Path, **more: Any) -> runner.Built:
    return runner.build(spec, out, **{"card": lambda manifest: "", "workers": 1, **more})


def interrupted(
    spec: BuildSpec, out: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException | None = None
) -> Path:
    """Begin a build that ends by ``error`` in a bucket; return its workspace."""

    def failing(job: Job) -> BucketResult:
        if job.bucket == KEPT:
            raise error or KeyboardInterrupt
        return build_bucket(job)

    with monkeypatch.context() as patched:
        patched.setattr(runner, "build_bucket", failing)
        with pytest.raises(type(error) if error else KeyboardInterrupt):
            build(spec, out)
    return workspaces.folder_of(out)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The buckets that are built from here on."""
    numbers: list[int] = []

    def noting(job: Job) -> BucketResult:
        numbers.append(job.bucket)
        return build_bucket(job)

    monkeypatch.setattr(runner, "build_bucket", noting)
    return numbers


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.suffix != ".jsonl"}


def files(folder: Path) -> dict[str, bytes]:
    """Everything but the manifest, whose environment has a clock."""
    found = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "manifest.json")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def test_finished_buckets_are_not_built_again(some: Toy, monkeypatch: pytest.MonkeyPatch, built: list[int]) -> None:
    spec, out = some.spec(shards=SHARDS, validation=0.3), some.folder / "out"
    whole = build(spec, some.folder / "whole")
    work = interrupted(spec, out, monkeypatch)
    assert work.stat().st_mode & 0o777 == 0o700
    assert {path.name.partition("-")[0] for path in work.iterdir()} == {"lock", "kept"}  # no copies of the sources
    built.clear()
    said: list[tuple[str, int, int]] = []
    made = build(spec, out, progress=lambda what, done, total, *_: said.append((what, done, total)))
    assert built == [*range(KEPT, SHARDS)]
    assert (made.resumed, made.buckets) == (KEPT, SHARDS)
    assert (whole.resumed, whole.buckets) == (0, SHARDS)
    assert made.manifest["identity"] == whole.manifest["identity"]
    assert files(out) == files(whole.folder)
    assert names(some.folder) == {"out", "whole"}
    progress = [(done, total) for what, done, total in said if what == "building"]
    assert 0 < progress[0][0] < progress[-1][0] == progress[-1][1] == 72  # states, sets and labels; begun where it was


def test_workers_that_went_away_cost_what_they_had_in_hand(
    some: Toy, monkeypatch: pytest.MonkeyPatch, built: list[int]
) -> None:
    spec, out = some.spec(shards=SHARDS), some.folder / "out"
    interrupted(spec, out, monkeypatch, LostWorkersError("gone"))
    built.clear()
    build(spec, out)
    assert built == [*range(KEPT, SHARDS)]


def test_a_build_that_fails_leaves_nothing(some: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    work = interrupted(some.spec(shards=SHARDS), some.folder / "out", monkeypatch, RuntimeError("a defect"))
    assert not work.exists()


def test_a_refusal_before_anything_is_read_keeps_what_was_finished(
    some: Toy, monkeypatch: pytest.MonkeyPatch, built: list[int]
) -> None:
    spec, out = some.spec(shards=SHARDS), some.folder / "out"
    interrupted(spec, out, monkeypatch)
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    with pytest.raises(ArmError, match="is not a build"):
        build(spec, out)
    (out / "notes.txt").unlink()
    built.clear()
    build(spec, out)
    assert built == [*range(KEPT, SHARDS)]


def test_records_that_cannot_be_used_leave_nothing(some: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    out = some.folder / "out"
    work = interrupted(some.spec(shards=SHARDS), out, monkeypatch)
    some.labels.append(b"{}\n")
    with pytest.raises(ArmError, match="nothing was built"):
        build(some.spec(shards=SHARDS), out)
    assert not work.exists()


def test_an_interrupt_before_the_first_bucket_leaves_nothing(some: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(some.spec(), some.folder / "out", progress=interrupted)
    assert names(some.folder) == set()


def test_the_verb_says_what_it_kept_and_what_it_took_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from action_reward_models.cli import build as verb

    shutil.copytree(EXAMPLE, tmp_path / "registry", ignore=shutil.ignore_patterns("build"))
    file = tmp_path / "registry" / "registry.yaml"
    file.write_text(file.read_text("utf-8").replace("    tables:\n", "    shards: 4\n    tables:\n"), "utf-8")
    work = workspaces.folder_of(file.parent / "build" / "action-reward-models-data")

    def failing(job: Job) -> BucketResult:
        if job.bucket == 3:
            raise KeyboardInterrupt
        return build_bucket(job)

    words = [str(file), "--workers", "1"]
    with monkeypatch.context() as patched:
        patched.setattr(runner, "build_bucket", failing)
        stopped = CliRunner().invoke(verb.command, words)
    assert f"finished buckets are kept in {work}; the same command goes on with them" in stopped.stderr
    shutil.copytree(work, tmp_path / "kept")
    said = CliRunner().invoke(verb.command, words)
    assert "resumed: 3 of 4 buckets were finished\n" in said.stderr
    shutil.rmtree(file.parent / "build")
    shutil.copytree(tmp_path / "kept", work)
    (result,) = orjson.loads(CliRunner().invoke(verb.command, [*words, "--json"]).stdout)
    assert result["resumed"] == 3


# -- what decides whether a bucket is taken over -----------------------------------------------------------------------


def more_records(toy: Toy) -> BuildSpec:
    toy.scene("new", picture=99)
    return toy.spec(shards=SHARDS)


def other_picture(toy: Toy) -> BuildSpec:
    """In a file beside the records, which stay as they were."""
    spec = toy.spec(shards=SHARDS)
    (toy.folder / "shot.png").write_bytes(toy.png(7))
    return spec


CHANGES: dict[str, Callable[[Toy], BuildSpec]] = {
    "records": more_records,
    "seed": lambda toy: toy.spec(shards=SHARDS, seed=2, validation=0.3),
    "pairs": lambda toy: toy.spec(shards=SHARDS, max_pairs_per_set=1),
    "buckets": lambda toy: toy.spec(shards=2 * SHARDS),
    "license of a source": lambda toy: replace(
        toy.spec(shards=SHARDS), sources=tuple(replace(s, license="apache-2.0") for s in toy.sources())
    ),
    "picture": other_picture,
}


@pytest.mark.parametrize("change", CHANGES)
def test_after_a_change_every_bucket_is_built(
    change: str, some: Toy, monkeypatch: pytest.MonkeyPatch, built: list[int]
) -> None:
    out = some.folder / "out"
    (some.folder / "shot.png").write_bytes(some.png(6))
    some.page("shown", picture="shot.png")
    interrupted(some.spec(shards=SHARDS), out, monkeypatch)
    spec = CHANGES[change](some)
    built.clear()
    made = build(spec, out)
    assert made.resumed == 0
    assert len(built) == made.buckets
    fresh = build(spec, some.folder / "fresh")
    assert files(out) == files(fresh.folder)


@pytest.mark.parametrize("what", ["code", "packages"])
def test_other_code_takes_over_nothing(what: str, some: Toy, monkeypatch: pytest.MonkeyPatch, built: list[int]) -> None:
    spec, out = some.spec(shards=SHARDS), some.folder / "out"
    interrupted(spec, out, monkeypatch)
    built.clear()
    if what == "code":
        monkeypatch.setattr(manifest, "code_sha256", lambda: "0" * 64)
    else:
        monkeypatch.setattr("importlib.metadata.version", lambda name: "1")
    assert build(spec, out).resumed == 0
    assert built == [*range(SHARDS)]


def remove(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_text("{}")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGE: dict[str, tuple[str, Callable[[Path], None]]] = {
    "a result that is cut": ("results/bucket-*.result.json", cut),
    "a result that was changed": ("results/bucket-*.result.json", flip),
    "a result of something else": ("results/bucket-*.result.json", empty),
    "a result that is gone": ("results/bucket-*.result.json", remove),
    "a file that is cut": ("made/data/states/train-*-of-00008.parquet", cut),
    "a file that was changed": ("made/data/states/train-*-of-00008.parquet", flip),
    "a file that is gone": ("made/data/states/train-*-of-00008.parquet", remove),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_bucket_is_built_again(
    damage: str, some: Toy, monkeypatch: pytest.MonkeyPatch, built: list[int]
) -> None:
    spec, out = some.spec(shards=SHARDS), some.folder / "out"
    whole = build(spec, some.folder / "whole")
    work = interrupted(spec, out, monkeypatch)
    name, spoil = DAMAGE[damage]
    place = min(work.glob(f"kept-*/{name}"))
    spoil(place)
    bucket = int(place.name.split(".")[0].split("-")[1])
    built.clear()
    made = build(spec, out)
    assert built == [bucket, *range(KEPT, SHARDS)]
    assert made.manifest["identity"] == whole.manifest["identity"]
    assert files(out) == files(whole.folder)


def test_what_belongs_to_no_bucket_is_not_published(some: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a kill between the files of a bucket and its result."""
    spec, out = some.spec(shards=SHARDS), some.folder / "out"
    work = interrupted(spec, out, monkeypatch)
    (made,) = work.glob("kept-*/made")
    (made / "data" / "states" / "validation-00006-of-00008.parquet").write_bytes(b"torn")
    (made / "README.md").write_text("half")
    build(spec, out, card=lambda manifest: "whole")
    assert not (out / "data" / "states" / "validation-00006-of-00008.parquet").exists()
    assert (out / "README.md").read_text() == "whole"


# -- one process at a time -------------------------------------------------------------------------------------------


def test_a_second_build_of_the_same_folder_is_refused(some: Toy, built: list[int]) -> None:
    spec, out = some.spec(), some.folder / "out"

    def card(manifest: dict[str, Any]) -> str:
        with pytest.raises(ArmError, match=f"is being built by process {os.getpid()} on ") as caught:
            build(spec, out)
        assert caught.value.where == str(out)
        build(spec, some.folder / "elsewhere")
        return ""

    build(spec, out, card=card)
    assert names(some.folder) == {"out", "elsewhere"}
    build(spec, out)


def test_the_lock_of_a_process_that_ended_holds_nobody_up(some: Toy) -> None:
    work = workspaces.folder_of(some.folder / "out")
    work.mkdir()
    (work / "lock").write_text("process 1 on elsewhere")
    build(some.spec(), some.folder / "out")
    assert names(some.folder) == {"out"}


def test_a_folder_of_that_name_is_left_alone(some: Toy) -> None:
    work = workspaces.folder_of(some.folder / "out")
    work.mkdir()
    (work / "thesis.txt").write_text("mine")
    with pytest.raises(ArmError, match="is in the way") as caught:
        build(some.spec(), some.folder / "out")
    assert caught.value.where == str(work)
    assert (work / "thesis.txt").read_text() == "mine"


# -- real processes ----------------------------------------------------------------------------------------------------

SCRIPT = """
import pickle, sys
from pathlib import Path
from action_reward_models.builders import runner
if __name__ == "__main__":
    spec, out, workers = pickle.loads(Path(sys.argv[1]).read_bytes()), Path(sys.argv[2]), int(sys.argv[3])
    runner.build(spec, out, card=lambda manifest: "", workers=workers)
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_killed_again_and_again(workers: int, toy: Toy) -> None:
    """Wherever the kill falls, the next run keeps what is finished, and at last the build is that of a quiet day."""
    for number in range(300):
        toy.scene(f"e{number}", picture=number, task=f"task {number}")
    spec, out = toy.spec(shards=64, validation=0.2), toy.folder / "out"
    whole = build(spec, toy.folder / "whole")
    script, given = toy.folder / "script.py", toy.folder / "spec.pickle"
    script.write_text(SCRIPT)
    given.write_bytes(pickle.dumps(spec))
    results = f"{workspaces.folder_of(out).name}/kept-*/results/*.json"
    finished: dict[Path, int] = {}
    kills = 0
    while not out.exists():
        process = subprocess.Popen([sys.executable, str(script), str(given), str(out), str(workers)])
        wanted = len(finished) + 12
        while process.poll() is None and len(list(toy.folder.glob(results))) < wanted:
            time.sleep(0.002)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait()
        if not out.exists():
            now = {path: path.stat().st_ino for path in toy.folder.glob(results)}
            assert {path: now.get(path) for path in finished} == finished  # the same files: nothing was made anew
            finished = now
    assert kills >= 3
    assert files(out) == files(whole.folder)
    assert names(toy.folder) == {"out", "whole", "script.py", "spec.pickle"}
