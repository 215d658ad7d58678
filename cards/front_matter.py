"""The YAML at the head of a dataset card: what the Hub shows and filters by, and what `load_dataset` loads by."""

from __future__ import annotations

import re
from typing import Any

from ..schemas.arrow import Images, features
from .facts import Manifest, default_table, published, stored_bytes, table_names
from .licences import hub_licences

# Keys that this module writes; every other key of a card belongs to a person.
KEYS = (
    "license", "license_name", "pretty_name", "task_categories", "tags", "size_categories", "configs", "dataset_info",
)  # fmt: skip
TAGS = ("action-reward-models", "reward-model", "preference", "web-agents", "gui-agents", "best-of-n")
_BUCKETS = ((10**3, "1K"), (10**4, "10K"), (10**5, "100K"), (10**6, "1M"), (10**7, "10M"), (10**8, "100M"),
            (10**9, "1B"), (10**10, "10B"), (10**11, "100B"), (10**12, "1T"))  # fmt: skip


def front_matter(manifest: Manifest) -> dict[str, Any]:
    """The card's metadata as plain data, in the order in which it is written."""
    identity = manifest["identity"]
    tables = published(manifest)
    result: dict[str, Any] = {
        **hub_licences(identity["license"], [source["license"] for source in identity["sources"]]),
        "pretty_name": pretty_name(identity["name"]),
        "task_categories": _tasks(manifest),
        "tags": _tags(manifest),
        "size_categories": [size_category(sum(table["rows"] for table in tables.values()))],
    }
    if tables:  # a table without rows has no file, and a config without files cannot be loaded
        first = default_table(manifest)
        result["configs"] = [_config(name, table, name == first) for name, table in tables.items()]
        result["dataset_info"] = [_dataset_info(manifest, name, table) for name, table in tables.items()]
    return result


def dump(data: Any) -> str:
    """``data`` as YAML: no tags, no aliases, keys in their order, one line per value."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    text: str = yaml.dump(data, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=2**30)
    return text


def pretty_name(name: str) -> str:
    """``action-reward-models-data`` -> ``Action Reward Models Data``; letters that are capital stay so."""
    return " ".join(word[:1].upper() + word[1:] for word in re.split(r"[-_]+", name) if word)


def size_category(rows: int) -> str:
    """The Hub's bucket for a number of rows."""
    below = "n<1K"
    for (limit, label), following in zip(_BUCKETS, [*_BUCKETS[1:], None], strict=True):
        if rows < limit:
            return below
        below = f"{label}<n<{following[1]}" if following else f"n>{label}"
    return below


def _tasks(manifest: Manifest) -> list[str]:
    """Of the Hub's own list. A reward model's place there is reinforcement learning."""
    pictures = manifest["identity"]["statistics"].get("screenshots", {}).get("with", 0)
    return ["image-text-to-text" if pictures else "text-generation", "reinforcement-learning"]


def _tags(manifest: Manifest) -> list[str]:
    names = table_names(manifest)
    return [tag for tag in TAGS if tag != "preference" or "bt_pairs" in names]


def _config(name: str, table: dict[str, Any], default: bool) -> dict[str, Any]:
    files = [{"split": split, "path": f"data/{name}/{split}-*.parquet"} for split in sorted(table["splits"])]
    return {"config_name": name, "data_files": files, **({"default": True} if default else {})}


def _dataset_info(manifest: Manifest, name: str, table: dict[str, Any]) -> dict[str, Any]:
    """What `datasets` itself would write, from the schema of the table and the written files."""
    from datasets import DatasetInfo, Features
    from datasets.info import DatasetInfosDict
    from datasets.splits import SplitDict
    from huggingface_hub import DatasetCardData

    images: Images = "reference" if table.get("images") == "reference" else "embed"
    splits = [
        {"name": split, "num_bytes": facts["expanded_bytes"], "num_examples": facts["rows"]}
        for split, facts in sorted(table["splits"].items())
    ]
    info = DatasetInfo(
        features=Features.from_dict(features(table["schema"], images)),
        splits=SplitDict.from_split_dict(splits),
        download_size=sum(stored_bytes(manifest, facts) for facts in table["splits"].values()),
        dataset_size=sum(facts["expanded_bytes"] for facts in table["splits"].values()),
    )
    card = DatasetCardData()
    DatasetInfosDict({name: info}).to_dataset_card_data(card)
    written: dict[str, Any] = card["dataset_info"]
    return written
