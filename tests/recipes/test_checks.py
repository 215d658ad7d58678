"""Every way in which a recipe cannot work is refused before a weight is loaded, at its line and with the reason."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from action_reward_models.recipes import manifest as manifests
from action_reward_models.recipes.checks import Given, check, checking
from action_reward_models.schemas.ids import file_sha256, sha256_hex
from action_reward_models.schemas.manifest import manifest_of
from action_reward_models.tests import processes
from action_reward_models.tests.recipes import tiny
from action_reward_models.tests.tiny_vlm import cached

RECIPES = Path(__file__).parents[2] / "recipes"
Rows = dict[str, list[dict[str, Any]]]  # by split


def first_group(rows: Rows) -> None:
    rows["validation"][0]["task_group"] = rows["train"][0]["task_group"]


def first_prompt(rows: Rows) -> None:
    rows["validation"][0]["rendered_sha256"] = rows["train"][0]["rendered_sha256"]


def other_prompt(rows: Rows) -> None:
    rows["train"][0]["prompt_sha256"] = "0" * 64


def equal_pairs(rows: Rows) -> None:
    """As if rounding or cutting had made them equal: the model cannot tell them apart."""
    for row in rows["train"]:
        row["rejected"] = row["chosen"]


def all_other_prompts(rows: Rows) -> None:
    for row in rows["train"]:
        row["prompt_sha256"] = "0" * 64


def margins(rows: Rows) -> None:
    for row in rows["train"]:
        row["margin"] = 0.5


# Builds with something wrong in one table: name -> (table, change).
DOCTORED: dict[str, tuple[str, Callable[[Rows], None]]] = {
    "groups": ("states", first_group),
    "prompts": ("selection_sft", first_prompt),
    "several": ("selection_sft", other_prompt),
    "equal": ("bt_pairs", equal_pairs),
    "margins": ("bt_pairs", margins),
    "other": ("bt_pairs", all_other_prompts),
}
# Changes of config files of the base: name -> (file, change).
BASES: dict[str, tuple[str, dict[str, Any]]] = {
    "padded": ("tokenizer_config.json", {"pad_token": "<|im_end|>"}),
    "family": ("config.json", {"model_type": "qwen2_5_vl", "architectures": ["Qwen2_5_VLForConditionalGeneration"]}),
    "strange": ("preprocessor_config.json", {"image_processor_type": "OwnImageProcessor"}),
}
S, B, F = "selection_arm_lora", "scalar_bt_lora", "scalar_bt_further"
# name: (recipe, [(text, its replacement)], build, base, [(place, words of the message)])
CASES: dict[str, tuple[str, list[tuple[str, str]], str, str, list[tuple[str, str]]]] = {
    "good selection": (S, [], "real", "", []),
    "good scalar": (B, [], "real", "", []),
    "good soft_bt": (B, [("loss: bt", "loss: soft_bt")], "margins", "", []),
    "good attention": (S, [("all-linear", "[q_proj, o_proj]")], "", "", []),
    "good vision": (S, [("vision: frozen", "vision: trained")], "", "", []),
    "same split": (
        S, [("split: validation", "split: train")], "", "",
        [("$.evaluation.split", "is train, which is trained on; evaluate another split, or say evaluation: none")],
    ),
    "same group": (
        S, [], "groups", "", [("$.evaluation.split", "1 task groups stand both in train and in validation")],
    ),
    "same page": (
        S, [], "prompts", "",
        [("$.evaluation.split", "1 equal prompts with equal pictures stand both in train and in validation")],
    ),
    "several prompts": (S, [], "several", "", [("$.dataset", "rows of selection_sft have several prompts")]),
    "misspelt lora": (
        S, [("lora_alpha:", "lora_alhpa:")], "", "",
        [("$.lora.lora_alhpa", "is no argument of peft.LoraConfig \\S+; did you mean 'lora_alpha'")],
    ),
    "misspelt trainer": (
        B, [("learning_rate:", "learnign_rate:")], "", "",
        [("$.trainer.learnign_rate", "is no argument of trl.RewardConfig \\S+; did you mean 'learning_rate'")],
    ),
    "of the other trainer": (
        S, [("max_steps:", "center_rewards_coefficient: 0.1\n  max_steps:")], "", "",
        [("$.trainer.center_rewards_coefficient", "is no argument of trl.SFTConfig")],
    ),
    "of an older version": (
        S, [("warmup_steps:", "warmup_ratio:")], "", "",
        [("$.trainer.warmup_ratio", "write warmup_steps, of which a number below 1 is a share of all steps")],
    ),
    "another type": (
        S, [("1.0e-3", "fast"), ("r: 32", "r: 1.5")], "", "",
        [
            ("$.lora.r", r"is a number \(1.5\), not a whole number"),
            ("$.trainer.learning_rate", r"is text \(fast\), not a number"),
        ],
    ),
    "no such schedule": (
        S, [("cosine", "cosinus")], "", "",
        [("$.trainer.lr_scheduler_type", "is refused by trl.SFTConfig .*cosinus is not a valid SchedulerType")],
    ),
    "nothing a batch": (
        S, [("batch_size: 2", "batch_size: 0")], "", "",
        [("$.trainer.per_device_train_batch_size", "is 0, and must be above 0")],
    ),
    "a loss that needs pairs": (
        B, [("loss: bt", "loss: listwise"), ("max_steps:", "center_rewards_coefficient: 0.1\n  max_steps:")], "", "",
        [("$.trainer", "center_rewards_coefficient is for the losses bt and soft_bt")],
    ),
    "cut": (
        S, [("max_steps:", "max_length: 1024\n  max_steps:")], "", "",
        [("$.trainer.max_length", "cannot be given: nothing is cut: a row beyond limits.max_tokens is left out")],
    ),
    "evaluated by the trainer": (
        S, [("max_steps:", "eval_strategy: steps\n  max_steps:")], "", "",
        [("$.trainer.eval_strategy", "cannot be given: the recipe's own evaluation")],
    ),
    "own exclusions": (
        S, [("lora_dropout:", "exclude_modules: visual\n  lora_dropout:")], "", "",
        [("$.lora.exclude_modules", "cannot be given: vision decides it")],
    ),
    "changes the base": (
        S, [("lora_dropout:", "init_lora_weights: pissa\n  lora_dropout:")], "", "",
        [("$.lora.init_lora_weights", "'pissa' changes the weights of the base")],
    ),
    "no such layer": (
        S, [("all-linear", "[q_proj, qq_proj]")], "", "",
        [("$.lora.target_modules[1]", "'qq_proj' is no linear layer of the base; it has down_proj, .*q_proj")],
    ),
    "no layer at all": (S, [("all-linear", "nothing")], "", "", [("$.lora", "cannot be put into the base: ")]),
    "only what is frozen": (
        S, [("all-linear", "[linear_fc1]")], "", "", [("$.lora", "cannot be put into the base: ")],
    ),
    "too much dropout": (S, [("0.05 # share\n  t", "1.5 # share\n  t")], "", "", [("$.lora", "dropout probability")]),
    "vision that LoRA misses": (
        S, [("vision: frozen", "vision: trained"), ("all-linear", "[q_proj]")], "", "",
        [("$.vision", "is trained, and target_modules names nothing of the vision tower")],
    ),
    "good further": (F, [], "real", "", []),
    "further with other pictures": (
        F, [("max_pixels: 16384", "max_pixels: 8192")], "", "",
        [("$.limits.max_pixels", "max_pixels is 8192 here, and init_from was trained with 16384")],
    ),
    "further with another prompt": (
        F, [], "other", "", [("$.dataset", "its rows have the prompt 0000.*, and init_from was trained with ")],
    ),
    "further of another kind": (
        F, [("kind: scalar", "kind: selection_arm"), ("objective: {loss: bt}", "")], "", "",
        [("$.init_from", "is a scalar, and the recipe is a selection_arm")],
    ),
    "equal pairs": (B, [], "equal", "", [("$.dataset", r"20 of 20 rows .* cannot be used \(20 equal_when_processed;")]),
    "too long": (
        B, [("max_tokens: 2048", "max_tokens: 400")], "real", "",
        [("$.limits.max_tokens", r"rows of bt_pairs cannot be used \(\d+ too_long; the longest has \d+ tokens\)")],
    ),
    "pictures cut": (
        S, [("max_tokens: 2048", "max_tokens: 16"), ("max_pixels: 16384", "max_pixels: 32768")], "real", "",
        [
            ("$.limits.max_tokens", "20 of 20 rows of selection_sft cannot be used"),
            ("$.limits.max_tokens", "is 16, and the pictures of a row alone are 24 tokens, which would be cut"),
        ],
    ),
    "allowed to be too long": (
        B, [("max_tokens: 2048", "max_tokens: 500"), ("vision: frozen", "max_unusable: 0.9\nvision: frozen")],
        "real", "", [],
    ),
    "limits that exclude": (
        S, [("max_pixels: 16384", "max_pixels: 16384\n  min_pixels: 99999")], "", "",
        [("$.base", "its processor cannot be used: "), ("$.limits.min_pixels", "is 99,999, above max_pixels 16,384")],
    ),
    "no margins": (
        B, [("loss: bt", "loss: soft_bt")], "real", "",
        [("$.objective.loss", "soft_bt learns from margins, and 167 of 167 rows have none")],
    ),
    "no scores": (
        B, [("loss: bt", "loss: pointwise")], "real", "",
        [("$.objective.loss", "learns from pointwise_scores, and the dataset has bt_pairs, ")],
    ),
    "k of another loss": (
        B, [("loss: bt", "loss: bt, k: 6")], "", "", [("$.objective.k", "is of soft_bt, and the loss is bt")],
    ),
    "orders of a scalar": (
        B, [("split: validation", "split: validation, orders: 2")], "", "",
        [("$.evaluation.orders", "a scalar model sees one candidate at a time")],
    ),
    "no such template option": (
        S, [("limits:", "template_options: {messagess: true}\nlimits:")], "", "",
        [("$.template_options.messagess", "chat template reads; did you mean 'messages'")],
    ),
    "pads with the end": (
        S, [], "", "padded",
        [("$.base", r"its tokenizer pads with '<\|im_end\|>', too: the end of a turn cannot be told from padding")],
    ),
    "family without scores": (
        B, [], "", "family", [("$.base", "no class for sequence classification with qwen2_5_vl")],
    ),
    "strange pictures": (S, [], "", "strange", [("$.base", "processor cannot be used: prepares pictures with Own")]),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each case came to, and each shipped recipe with nothing at hand."""
    folder = tmp_path_factory.mktemp("checks")
    built, base = tiny.dataset(folder / "data"), cached.made()
    builds = {"": None, "real": built, **{name: doctored(built, folder / name, *how) for name, how in DOCTORED.items()}}
    bases = {"": base, **{name: rebased(base, folder / name, *how) for name, how in BASES.items()}}
    cases = []
    for number, (twin, edits, build, of_base, _) in enumerate(CASES.values()):
        path = folder / f"{number}.yaml"
        path.write_text(edited((RECIPES / "tiny" / f"{twin}.yaml").read_text(), edits))
        dataset = builds[build] and str(builds[build])
        cases.append({"recipe": str(path), "dataset": dataset, "base": str(bases[of_base]), "sample": 20})
        if twin == F:
            cases[-1]["start"] = str(folder / "start")
    cases += [{"recipe": str(path)} for path in shipped()]
    published(folder / "start", built, base)
    done = processes.torch("action_reward_models.tests.recipes.checking", given=json.dumps(cases))
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    return dict(zip([*CASES, *map(str, shipped())], found, strict=True))


def published(folder: Path, built: Path, base: Path) -> None:
    """What of a published scalar model says how it is used; no check reads more of it."""
    folder.mkdir()
    (prompt,) = [one for one in manifest_of(built)["identity"]["prompts"] if one["id"] == "scalar/1"]
    template = json.loads((base / "tokenizer_config.json").read_bytes()).get("chat_template")
    template = template or (base / "chat_template.jinja").read_text("utf-8")
    checkpoint = {
        "kind": "scalar", "layout": "adapter", "architecture": "Qwen3_5ForSequenceClassification", "dtype": "float32",
        "base": {"repo": "your-name/tiny-base", "commit": "0" * 40, "sha256": None},
        "prompt": {"id": "scalar/1", "sha256": prompt["sha256"], "file": "prompts/scalar-1.json"},
        "processor": {
            "min_pixels": 1024, "max_pixels": 16384, "max_tokens": 2048, "template_options": {},
            "chat_template_sha256": sha256_hex(template.encode()),
            "tokenizer_sha256": file_sha256(base / "tokenizer.json"),
        },
        "head": {"file": "value_head.safetensors", "scored_token_id": 1, "scored_token": "x"},
    }  # fmt: skip
    (folder / "file").write_text("")
    made = tiny.inputs(built, "scalar").identity
    manifests.write(folder, manifests.describe(folder, made, checkpoint=checkpoint, training=None))


def shipped() -> list[Path]:
    return sorted([*RECIPES.glob("*.yaml"), *RECIPES.glob("tiny/*.yaml")])


def edited(text: str, edits: list[tuple[str, str]]) -> str:
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return text


def doctored(built: Path, folder: Path, table: str, change: Callable[[Rows], None]) -> Path:
    """A build like ``built`` whose rows of ``table`` are changed; its manifest names the new files."""
    shutil.copytree(built, folder)
    manifest = orjson.loads((folder / "manifest.json").read_bytes())
    files = {path.name.partition("-")[0]: path for path in (folder / "data" / table).glob("*.parquet")}
    tables = {split: pq.read_table(path) for split, path in files.items()}
    rows = {split: found.to_pylist() for split, found in tables.items()}
    change(rows)
    for split, path in files.items():
        pq.write_table(pa.Table.from_pylist(rows[split], tables[split].schema), path)
        manifest["environment"]["files"][path.relative_to(folder).as_posix()]["sha256"] = file_sha256(path)
    (folder / "manifest.json").write_bytes(orjson.dumps(manifest))
    return folder


def rebased(base: Path, folder: Path, file: str, change: dict[str, Any]) -> Path:
    """The base without its weights, which no check reads, with one config changed."""
    shutil.copytree(base, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    path = folder / file
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **change}))
    return folder


@pytest.mark.parametrize("name", CASES)
def test_a_recipe_is_checked(told: dict[str, Any], name: str) -> None:
    wanted = CASES[name][-1]
    found = told[name]["issues"]
    assert [issue["path"] for issue in found] == [place for place, _ in wanted], found
    for issue, (_, words) in zip(found, wanted, strict=True):
        assert re.search(words, issue["message"]), issue["message"]
        key = re.sub(r"\[\d+\]$", "", issue["path"]).rpartition(".")[2]
        assert f"{key}:" in Path(issue["file"]).read_text().splitlines()[issue["line"] - 1]


def test_what_a_good_recipe_is_told(told: dict[str, Any]) -> None:
    """Counts of the model that is trained, of all rows, and of the tokens of a sample."""
    for name, linear, trained in (("good selection", 31, 273152), ("good scalar", 31, 273152 + 128)):
        counts = told[name]["counts"]
        assert told[name]["skipped"] == []
        assert (counts["model"]["lora_modules"], counts["model"]["trained_parameters"]) == (linear, trained)
        assert (counts["model"]["vision_modules"], counts["model"]["lora_vision_modules"]) == (10, 0)
        assert counts["tokens"]["rows"] == 20
        assert counts["tokens"]["pictures_most"] == 12
        assert counts["groups"] == {"train": 31, "validation": 3}
    assert told["good scalar"]["counts"]["rows"] == {"table": "bt_pairs", "train": 167, "validation": 16}
    assert told["good scalar"]["counts"]["model"]["architecture"] == "Qwen3_5ForSequenceClassification"
    assert told["good attention"]["counts"]["model"]["lora_modules"] == 2  # one layer of four attends
    assert told["good vision"]["counts"]["model"]["lora_vision_modules"] == 10
    assert told["allowed to be too long"]["counts"]["tokens"]["unusable"]["too_long"] > 0


@pytest.mark.parametrize("path", shipped(), ids=lambda path: str(path.relative_to(RECIPES)))
def test_shipped_recipes_pass_with_nothing_at_hand(told: dict[str, Any], path: Path) -> None:
    found = told[str(path)]
    assert found["issues"] == []
    assert found["counts"]["arguments"]["trainer"] >= 6
    assert [one["check"] for one in found["skipped"]] == ["model", "rows", "groups", "tokens", "tokens"]
    assert all(one["why"] and one["next"] for one in found["skipped"])


def test_without_the_extra_it_says_which_checks_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "find_spec", lambda name: None if name in ("peft", "trl") else name)
    found = check(RECIPES / "scalar_bt_lora.yaml")
    assert found.issues == ()
    lacking = [one for one in found.skipped if one.why == "peft, trl are not installed"]
    assert [one.check for one in lacking] == ["arguments", "model", "tokens"]
    assert lacking[0].next == "pip install 'action-reward-models[train]'"


def test_what_a_registry_publishes_rests_on_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "find_spec", lambda name: None)  # nothing here needs the libraries
    path = tmp_path / "recipe.yaml"
    text = (RECIPES / "tiny" / f"{S}.yaml").read_text()
    text = edited(text, [("{model: your-name/tiny-base, revision: main}", "{folder: base}")])
    path.write_text(edited(text, [("your-name/action-reward-models-data@1.0.0", "{folder: data}")]))
    assert check(path, Given()).issues == ()
    found = check(path, Given(target=tmp_path / "registry.yaml")).issues
    assert [issue.path for issue in found] == ["$.dataset.folder", "$.base.folder"]
    assert all("a published checkpoint rests on what others can get" in issue.message for issue in found)
