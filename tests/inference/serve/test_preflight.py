"""What a machine lacks is named with what to do; a machine that has everything is told so."""

from __future__ import annotations

import json
import shutil
import socket
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from action_reward_models.inference.serve import preflight as looked
from action_reward_models.inference.serve.preflight import Check, Machine, preflight
from action_reward_models.inference.serve.vllm import PINS
from action_reward_models.schemas.manifest import NAME
from action_reward_models.tests.inference.serve import test_vllm as plans
from safetensors.numpy import save_file

NVCC = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release {}, V{}.48\n"
GPU = "590.44.01, NVIDIA H200, {}\n"
PLACED = ("model.visual.blocks.0.norm1.weight", "model.language_model.norm.weight", "score.weight")
SAID = {"id2label": {"0": "score"}, "label2id": {"score": 0}, "problem_type": "regression"}
CONFIG = {
    "architectures": ["Qwen3_5ForConditionalGeneration"], "vision_config": {}, "text_config": dict(SAID), **SAID,
}  # fmt: skip


class World:
    """A machine that has everything, and a whole scalar model on it; tests take something away."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.cuda, self.bin = folder / "model", folder / "cuda", folder / "env" / "bin"
        for one in ("vllm", "ninja", "python"):
            self.program(self.bin / one)
        self.program(self.cuda / "bin" / "nvcc")
        self.environment = {"PATH": f"{self.bin}:{folder / 'usr'}", "CUDA_HOME": str(self.cuda)}
        self.versions: dict[str, Any] = {
            "vllm": ["0.33.0", True], "torch": ["2.14.0+cu130", True], "transformers": ["5.20.2", True],
        }  # fmt: skip
        self.said = {"nvcc": NVCC.format("13.0", "13.0"), "nvidia-smi": GPU.format(140_000), "ninja": "1.13.0\n"}
        self.folder.mkdir()
        for name in ("tokenizer.json", "tokenizer_config.json", "preprocessor_config.json"):
            (self.folder / name).write_text("{}")
        self.model()

    def model(self, config: Any = CONFIG, names: Sequence[str] = PLACED, layout: str = "merged") -> None:
        (self.folder / "config.json").write_text(json.dumps(config))
        save_file({name: np.zeros(1, np.float32) for name in names}, self.folder / "model.safetensors")
        (self.folder / NAME).write_text(json.dumps({"checkpoint": {
            **plans.contract("scalar", layout), "architecture": "Qwen3_5ForSequenceClassification",
            "prompt": {"id": None, "sha256": None, "file": None},
            "processor": {"min_pixels": 1, "max_pixels": 2, "max_tokens": 9, "template_options": {},
                          "chat_template_sha256": "0" * 64, "tokenizer_sha256": "0" * 64},
            "head": {"file": None, "scored_token_id": 1, "scored_token": "\n"},
        }}))  # fmt: skip

    def program(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return path

    def run(self, words: Sequence[str]) -> str:
        name = Path(words[0]).name
        if name == "python":
            assert json.loads(words[3]) == dict(PINS)
            return json.dumps(self.versions)
        if name not in self.said:
            raise FileNotFoundError(2, "No such file or directory", words[0])
        return self.said[name]

    def look(self, port: int = 0, base: Path | None = None) -> dict[str, Check]:
        found = preflight(self.folder, "127.0.0.1", port, base=base, machine=Machine(self.environment, self.run))
        return {one.name: one for one in found}

    def bad(self, **given: Any) -> dict[str, tuple[str, str]]:
        """Status and what was found of each check that is not right. Each of them says what to do."""
        wrong = {name: one for name, one in self.look(**given).items() if one.status != "ok"}
        assert all(one.do for one in wrong.values())
        return {name: (one.status, one.found) for name, one in wrong.items()}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_where_everything_is_there(world: World) -> None:
    found = world.look()
    assert list(found) == ["vllm", "torch", "transformers", "ninja", "CUDA_HOME", "nvcc", "LD_LIBRARY_PATH", "driver",
                           "GPU", "checkpoint", "export", "port 0"]  # fmt: skip
    assert {one.status for one in found.values()} == {"ok"}
    assert not any(one.do for one in found.values())


def test_no_vllm(world: World) -> None:
    (world.bin / "vllm").unlink()
    assert world.bad() == {"vllm": ("missing", "no vllm on PATH")}
    assert 'pip install "vllm==0.33.0"' in world.look()["vllm"].do


def test_other_versions(world: World) -> None:
    world.versions |= {"torch": ["2.13.0", False], "transformers": None}
    assert world.bad() == {
        "torch": ("wrong", "2.13.0, and torch==2.14.0 is meant"),
        "transformers": ("missing", f"not in {world.bin.parent}"),
    }
    assert world.look()["torch"].do == f'{world.bin}/python -m pip install "torch==2.14.0"'


def test_a_python_that_says_nothing(world: World) -> None:
    world.versions = json.loads("{}")
    world.run = lambda words: "" if Path(words[0]).name == "python" else World.run(world, words)  # type: ignore[method-assign]
    assert world.bad()["vllm"][1].startswith(f"{world.bin}/python does not say its versions: ")


def test_another_ninja_comes_first(world: World) -> None:
    other = world.program(world.folder.parent / "elsewhere" / "ninja")
    world.environment["PATH"] = f"{other.parent}:{world.environment['PATH']}"
    assert world.bad() == {"ninja": ("wrong", f"{other} comes first on PATH, not the one beside vllm")}
    (world.bin / "ninja").unlink()
    other.unlink()
    assert world.bad() == {"ninja": ("missing", "no ninja on PATH")}


def test_the_compiler(world: World) -> None:
    del world.environment["CUDA_HOME"]
    assert world.bad() == {
        "CUDA_HOME": ("missing", "not set"), "nvcc": ("missing", "not in CUDA_HOME, not on PATH"),
    }  # fmt: skip
    world.program(world.folder.parent / "usr" / "nvcc")
    world.environment["CUDA_HOME"] = "/nowhere"
    assert world.bad() == {"CUDA_HOME": ("wrong", "/nowhere has no bin/nvcc")}
    world.said["nvcc"] = NVCC.format("12.8", "12.8")
    told = f"{world.folder.parent}/usr/nvcc is 12.8, and torch ==2.14.0 is built for CUDA 13"
    assert world.bad()["nvcc"] == ("wrong", told)
    del world.said["nvcc"]
    assert "does not run: " in world.bad()["nvcc"][1]


def test_libraries_that_would_be_taken_instead_of_torchs(world: World) -> None:
    foreign = world.folder.parent / "foreign"
    own = world.cuda / "lib64"
    for folder in (foreign, own):
        folder.mkdir()
        (folder / "libcudart.so.12").touch()
    world.environment["LD_LIBRARY_PATH"] = f"{own}:"
    assert world.bad() == {}
    world.environment["LD_LIBRARY_PATH"] = f"{own}:{foreign}"
    told = f"{foreign} has libcudart.so.12, which would be taken instead of torch's"
    assert world.bad() == {"LD_LIBRARY_PATH": ("wrong", told)}
    world.environment["LD_LIBRARY_PATH"] = "/nowhere"
    assert world.bad() == {"LD_LIBRARY_PATH": ("wrong", "names /nowhere, which is no folder")}


def test_driver_and_room(world: World) -> None:
    world.said["nvidia-smi"] = GPU.format(0).replace("590", "570")
    bad = world.bad()
    assert bad["driver"] == ("wrong", "570.44.01, and 580 or newer is meant")
    assert bad["GPU"][1].startswith("NVIDIA H200: 0.0 GiB free, and the weights are ")
    world.said["nvidia-smi"] = GPU.format(0) + GPU.format(9_000)  # one of two GPUs is free
    assert world.bad() == {}
    for said in ("", "No devices were found\n"):
        world.said["nvidia-smi"] = said
        assert list(world.bad()) == ["driver"]
    del world.said["nvidia-smi"]
    assert world.bad()["driver"][0] == "missing"


def test_a_port_that_is_taken(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert world.bad(port=port) == {f"port {port}": ("wrong", f"127.0.0.1:{port}: Address already in use")}


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["tokenizer.json"], "tokenizer.json"),
        (["preprocessor_config.json"], "preprocessor_config.json"),
        (["model.safetensors", "config.json"], "config.json, *.safetensors"),
    ],
)
def test_a_model_that_lacks_a_file(world: World, names: list[str], told: str) -> None:
    for name in names:
        (world.folder / name).unlink()
    assert world.bad() == {"checkpoint": ("missing", f"{world.folder} has no {told}")}


def test_shards_that_the_index_names(world: World) -> None:
    index = {"weight_map": {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (world.folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert world.bad() == {"checkpoint": ("missing", f"{world.folder} has no model-00002-of-00002.safetensors")}
    (world.folder / "model.safetensors.index.json").write_text("[]")
    assert world.bad()["checkpoint"][0] == "wrong"


def test_an_arm_on_a_base_that_nobody_names(world: World, tmp_path: Path) -> None:
    world.model(layout="adapter")
    said = json.loads((world.folder / NAME).read_bytes())
    said["checkpoint"] |= {"kind": "selection_arm", "head": None}
    (world.folder / NAME).write_text(json.dumps(said))
    assert world.bad() == {}
    said["checkpoint"]["base"] = {"repo": None, "commit": None, "sha256": "0" * 64}
    (world.folder / NAME).write_text(json.dumps(said))
    assert world.bad() == {"base model": ("missing", "it was a folder")}
    assert world.bad(base=tmp_path)["base model"][1].startswith(f"{tmp_path} has no ")


def test_no_checkpoint_and_one_on_a_base(world: World, tmp_path: Path) -> None:
    world.model(layout="adapter")
    assert world.bad() == {"checkpoint": ("wrong", "adapter on a base model")}
    assert world.look()["checkpoint"].do == f"arm merge {world.folder} --out {world.folder}-merged"
    assert world.bad(base=tmp_path / "none")["base model"][0] == "missing"
    shutil.rmtree(world.folder)
    assert world.bad()["checkpoint"][0] == "missing"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"architectures": ["Qwen3_5ForSequenceClassification"]}, "one that ends in ForConditionalGeneration is meant"),
        ({"id2label": {"0": "a", "1": "b"}}, "config.json: id2label names 2 scores, and one is meant"),
        ({"problem_type": None}, "config.json: problem_type is None: a sigmoid would be given, not the score"),
        ({"text_config": {**SAID, "id2label": {}}}, "config.json: text_config.id2label names 0 scores"),
        ({"vision_config": ...}, "one that ends in ForSequenceClassification is meant"),
    ],
)
def test_a_config_that_vllm_reads_otherwise(world: World, change: dict[str, Any], told: str) -> None:
    config = {key: value for key, value in {**CONFIG, **change}.items() if value is not ...}
    world.model(config)
    (found,) = world.bad().values()
    assert told in found[1]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (PLACED[:2], "the weights have no score.weight"),
        (PLACED[1:], "the weights have none that begins with model.visual."),
        ((*PLACED, "lm_head.weight"), "the weights have lm_head.weight (of 1), for which vLLM has no place"),
    ],
)
def test_weights_that_vllm_does_not_place(world: World, names: tuple[str, ...], told: str) -> None:
    world.model(names=names)
    assert world.bad() == {"export": ("wrong", told)}


def test_versions_are_asked_of_a_real_python() -> None:
    pins = {"packaging": ">=1", "pytest": "==0.1", "no-such-package-here": "==1"}
    said = json.loads(Machine.here().run([sys.executable, "-c", looked._ASKED, json.dumps(pins)]))
    assert said == {
        "packaging": [metadata.version("packaging"), True], "pytest": [metadata.version("pytest"), False],
        "no-such-package-here": None,
    }  # fmt: skip


def test_programs_that_fail_or_are_not_there() -> None:
    here = Machine.here()
    with pytest.raises(OSError, match="No such file"):
        here.run(["/no/such/program"])
    with pytest.raises(OSError, match="my words"):
        here.run([sys.executable, "-c", "import sys; sys.exit('my words')"])
