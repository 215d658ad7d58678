"""Merging: one model that gives the adapter's scores, differs from its base where LoRA is, and that others can load."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from action_reward_models.tests import processes
from action_reward_models.tests.inference import process
from action_reward_models.tests.tiny_vlm import cached


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `merging.py` prints: all in one process with torch."""
    folder = tmp_path_factory.mktemp("merging")
    words = (folder, cached.made(), process.base(sees=False))
    done = processes.torch("action_reward_models.tests.recipes.merging", *words)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("kind", ["scalar", "selection_arm"])
def test_the_merged_model_gives_the_scores_of_the_adapter(told: dict[str, Any], kind: str) -> None:
    found = told[kind]
    assert found["recomputed"] == found["apart"] < 1e-4
    assert found["spread"] > 1e-2, "conversations that all get one score compare nothing"
    assert found["done"]["conversations"] == 4  # two texts, with and without a picture


@pytest.mark.parametrize("kind", ["scalar", "selection_arm"])
def test_it_differs_from_its_base_where_lora_is(told: dict[str, Any], kind: str) -> None:
    assert told[kind]["done"]["changed"] == 31  # linear layers of the language model
    assert told[kind]["done"]["same"] > 31
    assert told[kind]["unchanged"] == []


@pytest.mark.parametrize("kind", ["scalar", "selection_arm"])
def test_stock_transformers_loads_it_whole(told: dict[str, Any], kind: str) -> None:
    assert told[kind]["missing"] == []
    assert told[kind]["unexpected"] == []
    assert told["scalar"]["stock"] < 1e-5


def test_a_scalar_model_says_what_vllm_reads(told: dict[str, Any]) -> None:
    config = told["scalar"]["config"]
    assert config["architectures"] == ["Qwen3_5ForConditionalGeneration"]
    assert config["problem_type"] == "regression"
    for said in (config, config["text_config"]):
        assert said["id2label"] == {"0": "score"}
        assert said["label2id"] == {"score": 0}
        assert said["problem_type"] == "regression"
    kinds = Counter(".".join(name.split(".")[:2]) for name in told["scalar"]["weights"])
    assert set(kinds) == {"model.visual", "model.language_model", "score.weight"}
    assert kinds["score.weight"] == 1
    assert min(kinds["model.visual"], kinds["model.language_model"]) > 20
    assert not [name for name in told["scalar"]["weights"] if "lm_head" in name or "lora" in name]
    assert told["scalar"]["problems"] == []
    assert told["scalar"]["done"]["architecture"] == "Qwen3_5ForSequenceClassification"


def test_a_scalar_model_that_only_reads_keeps_the_name_that_vllm_knows(told: dict[str, Any]) -> None:
    assert told["blind"] == {"architectures": ["Qwen3ForSequenceClassification"], "problems": []}


def test_the_manifest_says_what_was_merged(told: dict[str, Any]) -> None:
    for kind in ("scalar", "selection_arm"):
        manifest = told[kind]["manifest"]
        assert manifest["checkpoint"]["layout"] == "merged"
        assert manifest["training"] is None
        assert manifest["identity"]["description"].startswith("A toy. Merged from lab/arm 1.0.0 (identity ")
        assert set(manifest["environment"]["files"]) == set(told[kind]["files"]) - {"manifest.json"}
    assert told["scalar"]["manifest"]["checkpoint"]["head"]["file"] is None


@pytest.mark.parametrize("kind", ["scalar", "selection_arm"])
def test_nothing_but_the_model_is_written(told: dict[str, Any], kind: str) -> None:
    generation = ["generation_config.json"] if kind == "selection_arm" else []
    assert set(told[kind]["files"]) == {
        "config.json", *generation, "manifest.json", "merged_from.json", "model.safetensors", "prompts/own.json",
        "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("idle", "the merged model equals its base: the adapter changes nothing"),
        ("again", "is merged; only adapters are merged"),
        (
            "elsewhere",
            "merging changes model.language_model.norm.weight (of 1 tensors), which the adapter does not name",
        ),
        ("apart", "the merged model gives other scores than the adapter: they differ by up to "),
    ],
)
def test_what_is_refused_leaves_nothing(told: dict[str, Any], name: str, words: str) -> None:
    assert str(told[name]).startswith(words)
    assert told[f"{name} left"] == []


def test_the_verb_says_the_same(told: dict[str, Any]) -> None:
    said = told["example"]
    assert said["folder"] == "build/my-arm-merged"
    assert {key: said[key] for key in told["selection_arm"]["done"]} == told["selection_arm"]["done"]
