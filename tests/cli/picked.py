"""`arm select` and `arm score` as they are typed, with weights: ``picked.py BASE ENDPOINT``, a process with torch, told
as JSON. ``ENDPOINT``: of a stand-in that serves ``my-arm``; HF_ENDPOINT and HF_TOKEN name a hub."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import shutil
import signal
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import orjson
from action_reward_models.cli import _run, picking_models
from action_reward_models.inference.bulk import PIECE
from action_reward_models.prompts.options import PromptOptions
from action_reward_models.prompts.render import load_prompt
from action_reward_models.tests.builders.conftest import Toy
from action_reward_models.tests.inference import made
from action_reward_models.tests.inference.asked import asked, png, state, url

EXAMPLES = [
    line.strip()
    for verb in ("select", "score")
    for line in str(import_module(f"action_reward_models.cli.{verb}").command.epilog).splitlines()
    if line.strip().startswith("arm ")
]
LINES = 9


def typed(line: str) -> dict[str, Any]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = _run(shlex.split(line)[1:])
    return {"status": status, "out": out.getvalue(), "err": err.getvalue()}


def merged(folder: Path, base: Path, kind: Any) -> None:
    """A checkpoint that needs no base."""
    own = load_prompt("scalar/1" if kind == "scalar" else "selection/1", PromptOptions())
    contract = made.make(folder.with_suffix(".adapter"), base, kind, prompt=own.to_json(), spoken=("function", "pixel"))
    opened = picking_models.local(str(folder.with_suffix(".adapter")), base, "cpu").opened()
    model: Any = opened
    model.model.merge_and_unload().save_pretrained(folder)
    model.processor.save(folder)
    shutil.copytree(folder.with_suffix(".adapter") / "prompts", folder / "prompts")
    head = contract["head"] and {**contract["head"], "file": None}
    contract |= {"layout": "merged", "head": head}
    (folder / "manifest.json").write_bytes(orjson.dumps({"checkpoint": contract}))


def prepare(base: Path, endpoint: str) -> None:
    toy = Toy(Path.cwd())
    for number in range(4):
        toy.scene(f"e{number}", picture=number, task=f"task {number}")
    Path("build").mkdir()
    Path(toy.build().folder).rename("build/action-reward-models-data")
    merged(Path("build/my-scalar"), base, "scalar")
    merged(Path("build/my-arm"), base, "selection_arm")
    Path("request.json").write_text(json.dumps(asked(id="mine")))
    states = [state(task=f"task {n}", screenshot=url(png(40 + n, 40, shade=20 * n))) for n in range(LINES)]
    Path("requests.jsonl").write_text("".join(json.dumps(asked(state=one)) + "\n" for one in states))
    Path("endpoints.yaml").write_text(f"endpoints: 1\nservers: {{local: {{urls: ['{endpoint}']}}}}\n")


def killed(line: str, out: Path) -> int:
    """How many pieces of ``line`` were there when its process was killed."""
    child = os.fork()
    if child == 0:
        typed(line)
        os._exit(0)
    work = out.with_name(f"{out.name}.making")
    until = time.monotonic() + 120
    while not (found := list(work.glob("*.jsonl"))) and time.monotonic() < until:
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert not out.exists()
    return len(found)


def resumed() -> dict[str, Any]:
    picking_models.LOCAL_PIECE = 2
    line = "arm score build/my-scalar requests.jsonl --json --out "
    whole = typed(line + "whole.parquet")
    pieces = killed(line + "parts.parquet", Path("parts.parquet"))
    rest = typed(line + "parts.parquet")
    plain = typed("arm score build/my-scalar requests.jsonl --plain --json --out plain.parquet")
    picking_models.LOCAL_PIECE = PIECE
    return {
        "whole": whole, "pieces": pieces, "rest": rest, "plain": plain,
        "same": Path("whole.parquet").read_bytes() == Path("parts.parquet").read_bytes(),
        "left": sorted(path.name for path in Path.cwd().glob("parts*")),
    }  # fmt: skip


def published() -> dict[str, Any]:
    """Checkpoint and dataset by their names on a hub."""
    import huggingface_hub

    api = huggingface_hub.HfApi()
    for kind, name in (("model", "my-scalar"), ("model", "my-arm"), ("dataset", "action-reward-models-data")):
        api.create_repo(f"me/{name}", repo_type=kind)
        api.upload_folder(
            repo_id=f"me/{name}", repo_type=kind, folder_path=f"build/{name}", ignore_patterns="README.md"
        )
    split = "me/action-reward-models-data@main --split train --json"
    return {
        "one": typed("arm score me/my-scalar@main request.json --json"),
        "split": typed(f"arm score me/my-scalar {split} --out there.parquet"),
        "served": typed(f"arm select me/my-arm@main {split} --server local --served my-arm --out served.parquet"),
        "weights": sorted(path.name for path in Path(os.environ["HF_HOME"]).rglob("*my-arm*/**/*.safetensors")),
    }  # fmt: skip


def main(base: Path, endpoint: str) -> None:
    import torch

    torch.set_num_threads(1)
    prepare(base, endpoint)
    told = {"typed": [(line, typed(line)) for line in EXAMPLES], "resumed": resumed(), "published": published()}
    one = typed("arm score build/my-scalar request.json --json")
    print(json.dumps({**told, "one": one}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
