"""The code that a model card shows runs as it stands there, and every way gives the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from action_reward_models.cards.model import render
from action_reward_models.hub_sync.local_hub import serve
from action_reward_models.inference import choice
from action_reward_models.schemas.arrow import arrow_schema
from action_reward_models.schemas.ids import file_sha256
from action_reward_models.tests.cards.model import read
from action_reward_models.tests.cards.model.conftest import of
from action_reward_models.tests.inference import made, process
from action_reward_models.tests.tiny_vlm import cached
from huggingface_hub import HfApi

pytestmark = pytest.mark.slow
CARD = """---
configs:
- {config_name: selection_sft, data_files: [{split: validation, path: data/selection_sft.parquet}]}
- {config_name: bt_pairs, data_files: [{split: validation, path: data/bt_pairs.parquet}]}
---
"""


def _run(step: str, *given: Any, **more: str) -> Any:
    """What a step of `snippets` returns, in a process with torch."""
    code = "import json, sys, action_reward_models.tests.cards.model.snippets as m; "
    code += "out = m.main(*json.loads(sys.argv[1])); print(json.dumps(out))"
    env = {**cached.environment(), **more}
    env.pop("USE_TORCH", None)
    command = [sys.executable, "-c", code, json.dumps((step, *given), default=str)]
    done = subprocess.run(command, env=env, cwd=cached.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def _data(folder: Path) -> Path:
    """A dataset of one row for each kind of model."""
    (folder / "data").mkdir(parents=True)
    (folder / "README.md").write_text(CARD)
    image = {"bytes": made.png("red"), "path": None}
    shown = {"prompt": made.conversation(True), "images": [image], "split": "validation"}
    rows = {
        "selection_sft": ("selection_sft/1", {**shown, "order": [1, 0, 2], "completion": made.reply("x")}),
        "bt_pairs": ("bt_pair/1", {**shown, "chosen": made.reply("click(1, 1)"), "rejected": made.reply("stop")}),
    }
    for name, (schema, row) in rows.items():
        pq.write_table(pa.Table.from_pylist([row], schema=arrow_schema(schema)), folder / "data" / f"{name}.parquet")
    return folder


@pytest.mark.parametrize("kind", ["scalar", "selection"])
def test_the_code_of_a_card_runs(kind: str, tmp_path: Path) -> None:
    hub = tmp_path / "hub"
    hub.mkdir()
    running = serve.start(hub)
    try:
        token = (hub / "token").read_text("utf-8").strip()
        api = HfApi(running["url"], token)

        def publish(name: str, folder: Path, repo_type: str = "model") -> str:
            api.create_repo(name, private=True, repo_type=repo_type)
            return str(api.upload_folder(repo_id=name, folder_path=folder, repo_type=repo_type).oid)

        commit = publish("local/base", process.base())
        data = {"repo": "local/data", "revision": "v1.0.0", "identity_sha256": "0" * 64}
        manifest = of(kind)
        name = manifest["identity"]["name"]
        contract = _run("make", tmp_path / "made", process.base(), manifest["checkpoint"]["kind"], "local/base", commit)
        manifest |= {"checkpoint": contract}
        manifest["identity"] |= {"namespace": "local", "dataset": data, "init_from": None}
        rows = publish("local/data", _data(tmp_path / "data"), "dataset")
        manifest["evaluations"][0]["dataset"] = {**data, "commit": rows}
        own = sorted(path for path in (tmp_path / "made").iterdir() if path.is_file() and path.name != "manifest.json")
        manifest["environment"]["files"] |= {
            path.name: {"sha256": file_sha256(path), "bytes": path.stat().st_size} for path in own
        }
        card = render(manifest)
        (tmp_path / "made" / "manifest.json").write_text(json.dumps(manifest))
        publish(f"local/{name}", tmp_path / "made")
        api.create_tag(f"local/{name}", tag=f"v{manifest['identity']['version']}")
        client = {"HF_ENDPOINT": running["url"], "HF_TOKEN": token, "HF_HOME": str(tmp_path / "home")}
        found = _run("run", *read.snippets(card, "python")[:6], **client, HF_HUB_OFFLINE="0")
    finally:
        assert serve.stop(hub)
    if kind == "scalar":
        scores = {way: json.loads(lines[-1]) for way, lines in found.items() if way != "chosen"}
        assert len(set(scores["ours"])) == 2
        assert found["chosen"][0] in ("ok 0", "ok 1")
        assert scores["peft"] == pytest.approx(scores["ours"], abs=1e-5)
        assert scores["transformers"] == pytest.approx(scores["ours"], abs=1e-5)
    else:
        picked = found["chosen"][0].split()[0]  # of weights by chance: ok, or why nothing was picked
        assert picked in choice.STATUSES
        assert found["ours"][0].split()[0] in ("ok", "unparsed", "truncated", "out_of_range", "ambiguous")
        assert found["written"][0]
        assert "\n".join(found["peft"]) == "\n".join(found["transformers"]) == found["written"][0]
