"""``arm demo``: from raw trajectories to ``load_dataset`` at a tag, on the bundled example, without the network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import click

from . import output
from .hub import hub_server, running_errors

# What `arm hub serve` tells a person to set: without these, clients look for hosts that are not on this machine.
QUIET = {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_UPDATE_DOWNLOAD_COUNTS": "0"}

# Runs in a process of its own that knows nothing of this project: what a researcher would type.
_LOAD = """
import json, sys
from datasets import get_dataset_config_names, load_dataset

repo, tag, tables = sys.argv[1], sys.argv[2], {}
bare = load_dataset(repo)  # the default table, at the head
for config in get_dataset_config_names(repo, revision=tag):
    rows = load_dataset(repo, config, revision=tag)
    streamed = load_dataset(repo, config, revision=tag, streaming=True)
    tables[config] = {split: len(part) for split, part in rows.items()}
    assert tables[config] == {split: sum(1 for _ in part) for split, part in streamed.items()}, config
row = load_dataset(repo, "states", revision=tag, split="train")[0]
first = {split: len(part) for split, part in bare.items()}
print(json.dumps({"bare": first, "tables": tables, "screenshot": row["screenshot"].size, "task": row["task"]}))
"""


@click.command(
    "demo",
    short_help="Build the bundled example, publish it to a hub on this machine, and load it.",
    epilog=output.examples("arm demo", "arm demo --dir try-it"),
)
@click.option(
    "--dir", "folder", default="arm-demo", type=click.Path(file_okay=False, path_type=Path), show_default=True,
    help="Where the example is copied to and built, and the hub keeps its data.",
)  # fmt: skip
@output.json_option
def command(folder: Path, as_json: bool) -> None:
    """Copy the bundled MiniWoB++ example to a folder, build it, publish it, and load every table with stock `datasets`.

    The hub runs on this machine and goes on afterwards, to be looked at; nothing leaves the machine.
    """
    from ..registry import Registry

    server = hub_server()
    _copy_example(folder)
    with running_errors(folder / "hub"):
        running = server.status(folder / "hub") or server.start(folder / "hub", 0)
    # The client has questions of its own, which no argument turns away from the official Hub: it is told before it is
    # imported, which a build does.
    os.environ |= {"HF_ENDPOINT": running["url"], **QUIET}
    hub = output.hub(running["url"], (folder / "hub" / "token").read_text("utf-8").strip())
    registry = Registry.load(folder / "registry.yaml", hub=hub)
    spec = registry.dataset()
    output.note(f"building {spec.name} {spec.version} from {folder}/registry.yaml")
    with output.progress() as show:
        registry.build(progress=show)
    built = registry.folder(spec)
    output.note(f"built {built}; publishing it to {running['url']}, a hub on this machine")
    with output.progress() as show:
        planned = registry.plan(progress=show)
        (published,) = registry.apply(planned, progress=show)
    output.note(f"{published.repo} {published.tag} is {published.commit[:12]}; loading it in a process of its own:")
    seen = _load(folder, running["url"], published.repo, published.tag)
    if as_json:
        output.data({"folder": str(built), "hub": running["url"], **published.to_json(), **seen})
        return
    counts = ", ".join(f"{split} {rows}" for split, rows in seen["bare"].items())
    click.echo(f"  load_dataset({published.repo!r})  {counts}")
    click.echo(f"  every config at revision={published.tag!r}, normal and streaming:")
    for table, splits in seen["tables"].items():
        counts = ", ".join(f"{split} {rows}" for split, rows in splits.items())
        click.echo(f"    {table:15} {counts}")
    width, height = seen["screenshot"]
    click.echo(f"  a decoded screenshot: {width} x {height} px, task: {seen['task']}")
    arm = _arm()
    output.note(f"""
the hub goes on at {published.url}   # for a browser, and for stock clients:
  HF_ENDPOINT={running["url"]} python -c "from datasets import load_dataset; print(load_dataset('{published.repo}'))"
next:
  {arm} verify {built}   # reads every row back
  $EDITOR {folder}/registry.yaml; {arm} build {folder}/registry.yaml
  {arm} init my-registry --from DIR   # the same for trajectories of your own
  {arm} hub stop --dir {folder}/hub""")


def _copy_example(folder: Path) -> None:
    from ..schemas.errors import ArmError

    if (folder / "registry.yaml").exists():  # a second run builds what the person made of the first
        return
    if folder.exists() and any(folder.iterdir()):
        raise ArmError("is not empty, and its files might be overwritten", where=str(folder), next_command="--dir NEW")
    example = resources.files("action_reward_models") / "examples" / "miniwob"
    with resources.as_file(example) as source:
        shutil.copytree(source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("build"))


def _load(folder: Path, endpoint: str, repo: str, tag: str) -> dict[str, Any]:
    """Load what was published as a researcher would: only HF_ENDPOINT, and what keeps clients quiet."""
    from ..hub_sync.readback import stock_env

    env = stock_env(endpoint, (folder / ".cache").absolute())  # beside the example, so that nothing else is touched
    command_line = [sys.executable, "-P", "-c", _LOAD, repo, tag]
    loaded = subprocess.run(command_line, env=env, text=True, capture_output=True, check=False)  # noqa: S603 - our own code
    if loaded.returncode:
        output.note(loaded.stderr)
        raise click.ClickException("what was published could not be loaded with stock datasets")
    seen: dict[str, Any] = json.loads(loaded.stdout)
    return seen


def _arm() -> str:
    """How this person can type the command: it may not be on the path when make called it."""
    return "arm" if shutil.which("arm") else os.path.relpath(Path(sys.executable).parent / "arm")
