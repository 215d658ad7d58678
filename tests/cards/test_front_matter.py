"""The YAML at the head: what the Hub and `datasets` make of it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from action_reward_models.cards.dataset import render
from action_reward_models.cards.front_matter import dump, front_matter, pretty_name, size_category
from action_reward_models.cards.licences import HUB, hub_licences
from huggingface_hub import DatasetCard


def test_the_card_parses_back(manifest: dict[str, Any]) -> None:
    card = DatasetCard(render(manifest))
    assert {k: v for k, v in vars(card.data).items() if v is not None} == front_matter(manifest)
    assert card.text.lstrip().startswith("<!-- action-reward-models:begin -->")
    assert str(card) == render(manifest)  # so that a tool that rewrites the head changes nothing


def test_every_table_is_a_configuration_and_one_is_the_default(manifest: dict[str, Any]) -> None:
    head = front_matter(manifest)
    names = [config["config_name"] for config in head["configs"]]
    assert names == ["states", "candidate_sets", "teacher_labels", "selection_sft", "bt_pairs", "exclusions"]
    assert [info["config_name"] for info in head["dataset_info"]] == names
    assert [config["config_name"] for config in head["configs"] if config.get("default")] == ["selection_sft"]
    assert head["configs"][-1]["data_files"] == [{"split": "train", "path": "data/exclusions/train-*.parquet"}]


def test_sizes_and_rows_are_those_of_the_files(manifest: dict[str, Any]) -> None:
    table = manifest["identity"]["tables"]["states"]
    files = manifest["environment"]["files"]
    info = front_matter(manifest)["dataset_info"][0]
    assert info["splits"] == [
        {"name": split, "num_bytes": facts["expanded_bytes"], "num_examples": facts["rows"]}
        for split, facts in sorted(table["splits"].items())
    ]
    assert info["download_size"] == sum(files[f["path"]]["bytes"] for s in table["splits"].values() for f in s["files"])
    assert info["dataset_size"] == sum(s["num_bytes"] for s in info["splits"])
    features = {feature["name"]: feature for feature in info["features"]}
    assert features["screenshot"]["dtype"] == "image"


def test_a_picture_by_reference_is_a_string(manifest: dict[str, Any]) -> None:
    manifest["identity"]["tables"]["states"]["images"] = "reference"
    info = front_matter(manifest)["dataset_info"][0]
    assert {"name": "screenshot", "dtype": "string"} in info["features"]


def test_without_selection_rows_the_first_table_is_the_default(manifest: dict[str, Any]) -> None:
    manifest["identity"]["tables"]["selection_sft"] |= {"rows": 0, "splits": {}}
    configs = front_matter(manifest)["configs"]
    assert [c["config_name"] for c in configs if c.get("default")] == ["states"]
    assert "selection_sft" not in [c["config_name"] for c in configs]


def test_a_dataset_without_rows_has_no_configurations(manifest: dict[str, Any]) -> None:
    for table in manifest["identity"]["tables"].values():
        table.update(rows=0, splits={})
    head = front_matter(manifest)
    assert not {"configs", "dataset_info"} & set(head)
    assert head["size_categories"] == ["n<1K"]


def test_a_dataset_without_pictures_is_a_text_task(manifest: dict[str, Any]) -> None:
    manifest["identity"]["statistics"]["screenshots"] = {"without": 3}
    assert front_matter(manifest)["task_categories"] == ["text-generation", "reinforcement-learning"]


def test_no_tags_no_aliases_and_numbers_in_strings_stay_strings() -> None:
    shared = ["no", "1.0", "0123", "a: b", "- x", "---", "\u2028", "x" * 300 + " --- y"]
    text = dump({"a": shared, "b": shared})
    assert yaml.safe_load(text) == {"a": shared, "b": shared}
    assert "!!" not in text
    assert "&" not in text
    assert "\n---" not in text


@pytest.mark.parametrize(
    ("own", "sources", "expected"),
    [
        ("mit", ["mit", "MIT"], {"license": "mit"}),
        ("mit", ["cc-by-4.0", "mit"], {"license": ["mit", "cc-by-4.0"]}),
        ("GPL-3.0-or-later", [], {"license": "gpl-3.0"}),
        ("ODbL-1.0", [], {"license": "odbl"}),
        ("My own: licence!", [], {"license": "other", "license_name": "my-own-licence"}),
        (
            "mit",
            ["research only", "b"],
            {"license": ["mit", "other"], "license_name": "b-and-research-only"},
        ),
        ("other", [], {"license": "other", "license_name": "see-card"}),
        ("许可", [], {"license": "other", "license_name": "see-card"}),
    ],
)
def test_licences_as_the_hub_takes_them(own: str, sources: list[str], expected: dict[str, Any]) -> None:
    assert hub_licences(own, sources) == expected


def test_the_licence_list_is_whole() -> None:
    assert len(HUB) == 69
    assert all(name == name.lower().strip() for name in HUB)


@pytest.mark.parametrize(
    ("rows", "bucket"),
    [(0, "n<1K"), (999, "n<1K"), (1000, "1K<n<10K"), (10**6 - 1, "100K<n<1M"), (10**6, "1M<n<10M"),
     (10**11, "100B<n<1T"), (10**12, "n>1T"), (10**15, "n>1T")],
)  # fmt: skip
def test_size_buckets(rows: int, bucket: str) -> None:
    assert size_category(rows) == bucket


def test_pretty_names() -> None:
    assert pretty_name("action-reward-models-data") == "Action Reward Models Data"
    assert pretty_name("MiniWoB_ARM") == "MiniWoB ARM"
