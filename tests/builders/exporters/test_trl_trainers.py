"""TRL's own trainers take the exported datasets, and published tables: rows in = rows out, as tokens.

Preparation, collator and two steps of training are TRL's (`with_trl.py`), in a venv that is made once under build/.
TRL_PYTHON names another Python to train with, such as one with a newer version.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders.chat_template import ChatTemplate
from action_reward_models.builders.exporters import export
from action_reward_models.builders.processor import Processor, Tokenizer
from action_reward_models.builders.spec import SplitSpec
from action_reward_models.registry import Registry
from action_reward_models.schemas.built import BuiltTables
from action_reward_models.tests.builders import tiny_processor
from action_reward_models.tests.builders.exporters import hostile

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

Row = dict[str, Any]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # the first run installs PyTorch

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "miniwob"
SCRIPT = Path(__file__).with_name("with_trl.py")
PINS = ("trl==1.16.0", "torch==2.13.0", "accelerate==1.15.0")  # beside what constraints.txt says
SIDE = 72  # pixels of the page that `hostile.fill` shows


@pytest.fixture(scope="session")
def python() -> Path:
    """A Python with TRL."""
    if given := os.environ.get("TRL_PYTHON"):
        return Path(given)
    folder = ROOT / "build" / "trl" / "venv"  # ignored by git
    constraints = ROOT / "constraints.txt"
    stamp, found = folder / "complete", folder / "bin" / "python"
    wanted = "\n".join([*PINS, constraints.read_text("utf-8")])
    if not stamp.exists() or stamp.read_text("utf-8") != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(found), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", str(constraints)]
        done = subprocess.run([*pip, *PINS, "transformers", "pillow"], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"TRL cannot be installed: {done.stderr.strip().splitlines()[-1]}")
        stamp.write_text(wanted, "utf-8")
    return found


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_processor.make(tmp_path_factory.mktemp("base"))


@pytest.fixture
def made(toy: Toy) -> Build:
    hostile.fill(toy)
    return hostile.build(toy)


@pytest.fixture
def trained(python: Path, base: Path, tmp_path: Path) -> Callable[..., Row]:
    """``trained(trainer, folder, config, split, *dropped columns)``: what TRL made of the rows."""

    def run(trainer: str, folder: Path, config: str, split: str = "train", *dropped: str) -> Row:
        given = (trainer, folder, config, split, base, tmp_path / "scratch", *dropped)
        words = [str(python), "-P", str(SCRIPT), *map(str, given)]
        env = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "HF_HOME": str(tmp_path / "hf")}
        env.pop("PYTHONPATH", None)
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=env)
        assert done.returncode == 0, done.stderr[-3000:]
        said: Row = json.loads(done.stdout.splitlines()[-1])
        assert said["versions"]["trl"] == "1.16.0" or "TRL_PYTHON" in os.environ
        return said

    return run


def tokens(base: Path, row: Row, side: str, size: int | None) -> list[int]:
    """What a row is to a model, by our own rendering; a picture of ``size`` pixels is as many tokens as it has."""
    template, tokenizer = ChatTemplate([base / "chat_template.jinja"], {}), Tokenizer(base / "tokenizer.json")
    found = list(tokenizer.ids(template.text([*row["prompt"], *row[side]])))
    (pad,) = tokenizer.ids("<|image_pad|>")
    each = Processor(base).picture_tokens(size, size) if size else 1
    return [token for one in found for token in ([pad] * each if one == pad else [one])]


def rows(build: Build, table: str, split: str, **where: Any) -> list[Row]:
    """In the order of the files."""
    tables = BuiltTables.of(build.folder, lambda *_: None, "")
    return [row for row in tables.rows(table) if row["split"] == split and all(row[k] == v for k, v in where.items())]


@pytest.mark.parametrize(
    ("config", "where"),
    [
        ("selection_sft", {}),
        ("actor_sft", {"selected_by": "teacher"}),
        ("actor_sft_random_control", {"selected_by": "random_control"}),
    ],
)
@pytest.mark.parametrize("split", ["train", "validation"])
def test_sft_trains_on_the_reply_of_every_row(
    config: str, where: Row, split: str, made: Build, base: Path, trained: Callable[..., Row], tmp_path: Path
) -> None:
    export("trl", made.folder, tmp_path / "out")
    said = trained("sft", tmp_path / "out", config, split)
    given = rows(made, config.removesuffix("_random_control"), split, **where)
    assert len(given) == said["rows"] == len(said["made"]) > 2
    for row, shown in zip(given, said["made"], strict=True):
        assert shown["tokens"] == tokens(base, row, "completion", SIDE)
        reply = tokens(base, {**row, "prompt": []}, "completion", None)
        opening = shown["tokens"][: -len(shown["trained"])]
        assert shown["trained"] == reply[len(reply) - len(shown["trained"]) :]  # without the opening of the turn
        assert [*opening, *shown["trained"]] == shown["tokens"]
        assert shown["patches"] == 4 * Processor(base).picture_tokens(SIDE, SIDE)


def test_reward_takes_every_pair(made: Build, base: Path, trained: Callable[..., Row], tmp_path: Path) -> None:
    """Both sides as tokens. It looks at no pictures: each stays the one placeholder of the template."""
    export("trl", made.folder, tmp_path / "out")
    for split in ("train", "validation"):
        said = trained("reward", tmp_path / "out", "bt_pairs", split)
        given = rows(made, "bt_pairs", split)
        assert len(given) == said["rows"] == len(said["made"]) > 2
        for row, shown in zip(given, said["made"], strict=True):
            assert shown == {side: tokens(base, row, side, None) for side in ("chosen", "rejected")}


def test_published_tables_are_taken_as_the_guide_says(trained: Callable[..., Row], tmp_path: Path) -> None:
    """Selection rows as they are; of pairs, the column of margins has to go, which are null for a selection."""
    shutil.copytree(EXAMPLE, tmp_path / "example", ignore=shutil.ignore_patterns("build"))
    built, _ = Registry.load(tmp_path / "example").build(workers=1)
    assert built is not None
    tables = built.manifest["identity"]["tables"]
    for trainer, table, dropped in (("sft", "selection_sft", ()), ("reward", "bt_pairs", ("margin",))):
        said = trained(trainer, built.folder, table, "train", *dropped)
        assert said["rows"] == len(said["made"]) == tables[table]["splits"]["train"]["rows"]
    with pytest.raises(AssertionError, match="must be real number, not NoneType"):
        trained("reward", built.folder, "bt_pairs")


def test_rows_without_pictures_need_no_processor(
    toy: Toy, base: Path, trained: Callable[..., Row], tmp_path: Path
) -> None:
    replies = [hostile.message("assistant", word) for word in ("Left", "Right")]
    ready = [
        ("selection_sft", [hostile.selection(f"row {n}", hostile.message("user", f"Go {n}.")) for n in range(4)]),
        ("bt_pairs", [hostile.pair(f"pair {n}", *replies, hostile.message("user", f"Go {n}.")) for n in range(4)]),
    ]
    kinds = dict.fromkeys((kind for kind, _ in ready), "embed")
    build = hostile.build(
        toy, *ready, selection=None, pairs=None, actor_sft=None, tables=tuple(kinds), images=kinds,
        split=SplitSpec(0.0, 1),
    )  # fmt: skip
    export("trl", build.folder, tmp_path / "out")
    for trainer, config in (("sft", "selection_sft"), ("reward", "bt_pairs")):
        done = trained(trainer, tmp_path / "out", config)
        assert done["rows"] == len(done["made"]) == 4
        assert not any(row.get("patches") for row in done["made"])
