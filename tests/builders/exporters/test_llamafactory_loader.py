"""LLaMA-Factory's own loader reads what we exported: rows in = rows out, as tokens, and nothing in its log.

Arguments, template, converters, row processors and picture plugin are LLaMA-Factory's (`llamafactory_reader.py`). Its
venv is made once under build/, without what only training, serving and video need. LLAMAFACTORY_PYTHON names another
Python to read with, such as one with a newer version.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders import processor
from action_reward_models.builders.exporters import export
from action_reward_models.builders.spec import SplitSpec
from action_reward_models.registry import Registry
from action_reward_models.schemas.built import BuiltTables
from action_reward_models.schemas.ids import sha256_hex
from action_reward_models.tests.builders import tiny_processor
from action_reward_models.tests.builders.exporters import hostile
from action_reward_models.tests.builders.exporters.hostile import TEXT, message, pair, selection
from action_reward_models.tests.builders.exporters.test_llamafactory import records
from action_reward_models.tests.clients.sealed import Sealed, unshare

if TYPE_CHECKING:
    from tests.builders.conftest import Toy

Row = dict[str, Any]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # the first run installs PyTorch

ROOT = Path(__file__).parents[3]
READER = Path(__file__).with_name("llamafactory_reader.py")
PINS = (
    *("transformers==5.6.0", "datasets==4.0.0", "torch==2.13.0", "accelerate==1.11.0", "peft==0.18.1", "trl==0.24.0"),
    *("omegaconf", "pillow", "jieba", "nltk", "rouge-chinese"),
)  # what the arguments and the loader import; PyTorch is the CPU build where the machine has one
NEVER_CALLED = ("av", "torchaudio")  # imported at the top for video and sound, which no row has
PICTURES = {
    "image_processor_type": "Qwen2VLImageProcessor", "processor_class": "Qwen3VLProcessor",
    "patch_size": 16, "merge_size": 2, "temporal_patch_size": 2,
    "size": {"shortest_edge": 32**2, "longest_edge": 512**2},
}  # fmt: skip
VIDEOS = PICTURES | {"video_processor_type": "Qwen3VLVideoProcessor"}
EMPTY = "<think>\n\n</think>\n\n"  # a thought
# A line that warns, also of a row that is dropped or a picture that is not there; rows that it prints may look alike.
LOGGED = re.compile(r"\[(?:WARNING|ERROR|CRITICAL)\||\S*Warning:|\S+:\d+: \w*Warning")
# Warnings that are not about rows: of our `warmup_ratio`, of its own call of a processor, of every thinking template.
KNOWN = re.compile(
    r"warmup_ratio is deprecated|`use_fast` parameter|requires torchvision|You are using reasoning template"
)


@pytest.fixture(scope="session")
def python() -> Path:
    """A Python with LLaMA-Factory."""
    if given := os.environ.get("LLAMAFACTORY_PYTHON"):
        return Path(given)
    folder = ROOT / "build" / "llamafactory" / "venv"  # ignored by git
    stamp, found, wanted = folder / "complete", folder / "bin" / "python", "\n".join(PINS)
    if not stamp.exists() or stamp.read_text("utf-8") != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(found), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        for words in (["--no-deps", "llamafactory==0.9.5"], PINS):
            done = subprocess.run([*pip, *words], capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"LLaMA-Factory cannot be installed: {done.stderr.strip().splitlines()[-1]}")
        (site,) = (folder / "lib").glob("python3*/site-packages")
        for name in NEVER_CALLED:
            (site / f"{name}.py").write_text('"""Imported and never called."""\n', "utf-8")
        stamp.write_text(wanted, "utf-8")
    return found


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer and the picture settings of the family that the recipes name."""
    folder = tiny_processor.make(tmp_path_factory.mktemp("base"), pictures=PICTURES)
    described = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    described["decoder"] = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    (folder / "tokenizer.json").write_text(json.dumps(described), "utf-8")
    (folder / "video_preprocessor_config.json").write_text(json.dumps(VIDEOS), "utf-8")
    return folder


def read(python: Path, out: Path, base: Path, folder: Path) -> tuple[Row, str]:
    """What LLaMA-Factory made of an exported folder, and its log; without a network, where that can be had."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    env = kept | {"HF_HUB_OFFLINE": "1", "HOME": str(folder), "HF_HOME": str(folder / "hf"), "OMP_NUM_THREADS": "1"}
    result = folder / "result.json"
    command = [str(python), "-P", str(READER), str(out), str(base), str(result)]
    code: int | None
    if unshare()[1]:
        done = subprocess.run(command, cwd=out, env=env, capture_output=True, text=True, check=False)
        code, log = done.returncode, done.stdout + done.stderr
    else:
        with Sealed(watched=False) as sealed:
            ran = sealed.run(command, env, out, 600)
        code, log = ran.code, ran.out + ran.err
    assert code == 0, log[-3000:]
    said = json.loads(result.read_text("utf-8"))
    print("read with", said["versions"])
    return said, log


def rendered(turns: list[Row], ranking: bool) -> str:
    """The turns as the family writes them, a mark for each picture. LLaMA-Factory puts an empty thought before every
    turn of the assistant that has none; of a pair, before the last."""
    texts = []
    for turn in turns:
        thinks = "<think>" in turn["content"] or "</think>" in turn["content"]
        empty = turn["role"] == "assistant" and not thinks and not (ranking and turn is not turns[-1])
        said = (EMPTY if empty else "") + turn["content"]
        texts.append(f"<|im_start|>{turn['role']}\n{said}<|im_end|>\n")
    return "".join(texts).replace("<image>", "<|vision_start|><|image_pad|><|vision_end|>")


def check(out: Path, base: Path, said: Row, log: str) -> int:
    """Every record is a row, in its place, text for text and picture for picture. Returns how many there were."""
    sizes = processor.Processor(base)
    found = {name.split("_", 1)[1]: rows for name, rows in records(out).items()}
    assert {name: len(rows) for name, rows in said["datasets"].items()} == {n: len(rows) for n, rows in found.items()}
    for name, rows in said["datasets"].items():
        for record, row in zip(found[name], rows, strict=True):
            assert [Path(image).resolve() for image in row["images"]] == [out / image for image in record["images"]]
            sides = ("chosen", "rejected") if "chosen" in record else ("reply",)
            for side in sides:
                turns = [*record["messages"], record[side]] if side in record else record["messages"]
                text = re.sub(r"(?:<\|image_pad\|>)+", "<|image_pad|>", row[side]["text"])
                assert text == rendered(turns, side != "reply"), record["row"]
                reply = turns[-1]["content"] + "<|im_end|>\n"
                assert row[side]["trained"].endswith(reply)
                assert row[side]["trained"].removesuffix(reply) in ("", EMPTY)
                places = row[side]["text"].count("<|image_pad|>")
                assert places == sum(sizes.picture_tokens(*_size(out / image)) for image in record["images"])
    assert [line for line in log.splitlines() if LOGGED.match(line) and not KNOWN.search(line)] == []
    return sum(len(rows) for rows in found.values())


def _size(path: Path) -> tuple[int, int]:
    from PIL import Image

    with Image.open(path) as opened:
        return opened.size


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where LLaMA-Factory may write."""
    (tmp_path / "reader").mkdir()
    return tmp_path / "reader"


def test_the_example_is_read_whole(python: Path, base: Path, tmp_path: Path, place: Path) -> None:
    shutil.copytree(ROOT / "examples" / "miniwob", tmp_path / "registry")
    registry = Registry.load(tmp_path / "registry" / "registry.yaml")
    built, _ = registry.build()
    assert built is not None
    out = tmp_path / "out"
    exported = export("llamafactory", built.folder, out)
    assert sum(exported.files.values()) == 88 + 8 + 167 + 16
    said, log = read(python, out, base, place)
    assert check(out, base, said, log) == 88 + 8 + 167 + 16
    assert said["recipes"] == sorted(path.name for path in out.glob("*.yaml"))
    assert len(said["recipes"]) == 6
    tables = BuiltTables.of(built.folder, lambda *_: None, "reading")
    bytes_of: dict[str, bytes] = {}
    for table in ("selection_sft", "bt_pairs"):
        for _ in tables.rows(table, bytes_of.__setitem__):
            pass
    shown = {Path(image) for rows in said["datasets"].values() for row in rows for image in row["images"]}
    assert {f"sha256:{sha256_hex(path.read_bytes())}" for path in shown} == set(bytes_of)


def test_hostile_texts_of_all_kinds_stay_text(python: Path, base: Path, toy: Toy, tmp_path: Path, place: Path) -> None:
    """Rows made here, ready-made ones with raw literals, text-only rows before others, ids that look like times."""
    hostile.fill(toy)
    picture = (toy.data_url(toy.png(7, 64)),)
    others = [
        selection("2024-01-01", message("system", TEXT), message("user", TEXT, pictures=1), images=picture),
        selection("2024-01-02", message("user", f"no picture {TEXT}")),
        selection(
            "twice", message("user", TEXT, pictures=2), reply=f"<think>\n{TEXT}\n</think>\n\n1", images=picture * 2
        ),
    ]
    thought = f"<think>\n{TEXT}\n</think>\n\na"
    asked = [[message("user", f"no picture {TEXT}")]]
    asked += [[message("user", TEXT), message("assistant", thought), message("user", "b", pictures=1)]]
    chosen, rejected = message("assistant", TEXT), message("assistant", "click(1, 1)")
    pairs = [
        pair("2024-02-01", chosen, rejected, *asked[0]),
        pair("2024-02-02", chosen, rejected, *asked[1], images=picture),
        pair("2024-02-03", message("assistant", thought), rejected, *asked[1], images=picture),
    ]
    built = hostile.build(toy, ("selection_sft", others), ("bt_pairs", pairs))
    out = tmp_path / "out"
    exported = export("llamafactory", built.folder, out)
    assert not exported.reasons
    said, log = read(python, out, base, place)
    assert check(out, base, said, log) == sum(exported.files.values())
    assert len(said["datasets"]) == 8


def test_a_row_that_is_dropped_would_be_seen(
    python: Path, base: Path, toy: Toy, tmp_path: Path, place: Path
) -> None:  # fmt: skip
    """What the export refuses, written all the same: the loader goes on without the row, and says so in its log."""
    out, only = tmp_path / "out", {"tables": ("selection_sft",), "images": {"selection_sft": "embed"}}
    textual = [selection(f"{n}", message("user", f"no picture {n}")) for n in range(3)]
    built = hostile.build(toy, ("selection_sft", textual), **only, actor_sft=None, split=SplitSpec(0.0, 1))
    export("llamafactory", built.folder, out)
    said, log = read(python, out, base, place)
    assert check(out, base, said, log) == 3
    path = out / "toy_selection_train.jsonl"
    record = json.loads(path.read_bytes().splitlines()[0])
    record["messages"].insert(1, {"role": "user", "content": "a turn too many"})
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
    said, log = read(python, out, base, place)
    assert len(said["datasets"]["selection_train"]) == 3
    assert [line for line in log.splitlines() if LOGGED.match(line) and "Skipping this abnormal example" in line]
    with pytest.raises(AssertionError):
        check(out, base, said, log)
