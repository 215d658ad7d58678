"""``arm demo``: the whole way from raw trajectories to ``load_dataset``, on the bundled example."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path

import click

from . import output

# Runs in a process of its own that knows nothing of this project: what a researcher would type.
_LOAD = """
import json, sys
from datasets import get_dataset_config_names, load_dataset

folder, tables = sys.argv[1], {}
for config in get_dataset_config_names(folder):
    rows = load_dataset(folder, config)
    streamed = load_dataset(folder, config, streaming=True)
    tables[config] = {split: len(part) for split, part in rows.items()}
    assert tables[config] == {split: sum(1 for _ in part) for split, part in streamed.items()}, config
row = load_dataset(folder, "states", split="train")[0]
print(json.dumps({"tables": tables, "screenshot": row["screenshot"].size, "task": row["task"]}))
"""


@click.command(
    "demo",
    short_help="Build the bundled example and load it with stock datasets.",
    epilog=output.examples("arm demo", "arm demo --dir try-it"),
)
@click.option(
    "--dir", "folder", default="arm-demo", type=click.Path(file_okay=False, path_type=Path), show_default=True,
    help="Where the example is copied to and built.",
)  # fmt: skip
@output.json_option
def command(folder: Path, as_json: bool) -> None:
    """Copy the bundled MiniWoB++ example to a folder, build it, and load every table with stock `datasets`."""
    from ..registry import Registry
    from ..schemas.errors import ArmError

    example = resources.files("action_reward_models") / "examples" / "miniwob"
    if not (folder / "registry.yaml").exists():  # a second run builds what the person made of the first
        if folder.exists() and any(folder.iterdir()):
            raise ArmError(
                "is not empty, and its files might be overwritten", where=str(folder), next_command="--dir NEW"
            )
        with resources.as_file(example) as source:
            shutil.copytree(source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("build"))
    registry = Registry.load(folder / "registry.yaml")
    spec = registry.dataset()
    output.note(f"building {spec.name} {spec.version} from {folder}/registry.yaml")
    with output.progress() as show:
        registry.build(progress=show)
    built = registry.folder(spec)
    output.note(f"built {built}; loading every table in a separate process:")
    # The example is local; the library's cache goes beside it, and it is told not to ask the Hub for anything.
    env = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_CACHE": str((folder / ".cache").absolute()),
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    }
    command_line = [sys.executable, "-P", "-c", _LOAD, str(built)]
    loaded = subprocess.run(command_line, env=env, text=True, capture_output=True, check=False)  # noqa: S603 - our own code
    if loaded.returncode:
        output.note(loaded.stderr)
        raise click.ClickException("the built directory could not be loaded with stock datasets")
    seen = json.loads(loaded.stdout)
    if as_json:
        output.data({"folder": str(built), **seen})
        return
    for table, splits in seen["tables"].items():
        counts = ", ".join(f"{split} {rows}" for split, rows in splits.items())
        click.echo(f"  {table:15} {counts}  (streaming: the same)")
    width, height = seen["screenshot"]
    click.echo(f"  a decoded screenshot: {width} x {height} px, task: {seen['task']}")
    arm = _arm()
    output.note(f"""
next:
  less {built}/README.md   # the dataset card
  {arm} validate {built}   # reads every row back
  $EDITOR {folder}/registry.yaml; {arm} build {folder}/registry.yaml
  {arm} init my-registry --from DIR   # the same for trajectories of your own""")


def _arm() -> str:
    """How this person can type the command: it may not be on the path when make called it."""
    return "arm" if shutil.which("arm") else os.path.relpath(Path(sys.executable).parent / "arm")
