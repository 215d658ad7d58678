"""`arm evaluate` of a checkpoint on a hub, asked about the version it was trained on: ``published.py BASE DATASET``.

A process with torch in the folder where it writes; HF_ENDPOINT names the hub.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from action_reward_models.hub_sync.hub import Hub
from action_reward_models.schemas.manifest import manifest_of
from action_reward_models.tests.recipes.evaluation import asked

VERSION = {"repo": "lab/action-reward-models-data", "revision": "v1.0.0"}


def main(base: Path, dataset: Path) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    identity = manifest_of(dataset)["identity_sha256"]
    asked.whole(Path("my-arm"), base, dataset, {**VERSION, "identity_sha256": identity})
    api = Hub().api
    for kind, repo, folder in (("dataset", VERSION["repo"], dataset), ("model", "lab/my-arm", Path("my-arm"))):
        api.create_repo(repo, repo_type=kind)
        api.upload_folder(repo_id=repo, repo_type=kind, folder_path=folder)
        api.create_tag(repo, repo_type=kind, tag="v1.0.0")
    commit = api.repo_info("lab/my-arm").sha
    lines = ["arm evaluate lab/my-arm@v1.0.0", "arm evaluate lab/my-arm@v1.0.0 --json",
             "arm evaluate lab/my-arm@v2.0.0"]  # fmt: skip
    return {"commit": commit, "typed": [asked.said(line) for line in lines]}


if __name__ == "__main__":
    found = main(*map(Path, sys.argv[1:3]))
    sys.stdout.write("\n" + json.dumps(found) + "\n")
