"""``arm hub``: a Hub on this machine, so that the whole registry works offline with stock clients."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from ..schemas.errors import ArmError, UsageError
from . import output

PORT = 8765
_SPELLED = 'pip install "action-reward-models[hub]"'

folder_option = click.option(
    "--dir", "folder", type=click.Path(file_okay=False, path_type=Path), default=None,
    help="Folder of the hub's data. [default: action-reward-models/hub in your data folder, $XDG_DATA_HOME]",
)  # fmt: skip


@click.group("hub", short_help="Run a Hub on this machine: serve, status, stop.")
def command() -> None:
    """A small Hub-compatible server on this machine, for stock clients.

    `huggingface_hub`, `datasets`, `transformers` and `peft` use it when HF_ENDPOINT names it. It listens on 127.0.0.1
    only, keeps everything in one folder, and has a page for a browser at the same address.
    """


@command.command(
    "serve",
    short_help="Start the hub.",
    epilog=output.examples("arm hub serve", "arm hub serve --background --dir my-hub --port 0"),
)
@folder_option
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0: any free port.")
@click.option("--background", is_flag=True, help="Return as soon as it answers; `arm hub stop` ends it.")
@output.json_option
def serve(folder: Path | None, port: int, background: bool, as_json: bool) -> None:
    """Start the hub, and print its address and how to use it. Ends with Ctrl-C unless it is in the background."""
    server = hub_server()
    place = folder or default_folder()
    if found := server.status(place):
        output.note(f"it runs already, in {place}")
        _print(found, place, as_json)
        return
    with running_errors(place):
        if background:
            _print(server.start(place, port), place, as_json)
        else:
            server.serve(place, port, ready=lambda url: _print({"url": url, "pid": os.getpid()}, place, as_json))


@command.command("status", short_help="Is it running, where, and how is it used?", epilog=output.examples(
    "arm hub status", "arm hub status --dir my-hub --json"
))  # fmt: skip
@folder_option
@output.json_option
def status(folder: Path | None, as_json: bool) -> None:
    """Print the address of the running hub and how to use it. Exit status 1 when none is running."""
    place = folder or default_folder()
    found = hub_server().status(place)
    if found is None:
        raise ArmError("no hub is running", where=str(place), next_command=f"arm hub serve{_dir(place)}")
    _print(found, place, as_json)


@command.command("stop", short_help="Stop it.", epilog=output.examples("arm hub stop", "arm hub stop --dir my-hub"))
@folder_option
@output.json_option
def stop(folder: Path | None, as_json: bool) -> None:
    """Stop the hub that runs in the background. What it keeps stays."""
    place = folder or default_folder()
    server = hub_server()
    with running_errors(place):
        stopped = server.stop(place)
    if as_json:
        output.data({"dir": str(place), "stopped": stopped})
    output.note(f"stopped the hub of {place}" if stopped else f"no hub was running in {place}")


def default_folder() -> Path:
    """Where the hub keeps its data unless told."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "action-reward-models" / "hub"


@contextmanager
def running_errors(place: Path) -> Iterator[None]:
    """What keeps the hub from running, or from ending, as an error of ours."""
    from ..hub_sync.local_hub.serve import ServeError

    try:
        yield
    except ServeError as error:
        advice = "--port 0   # any free port" if "cannot be listened on" in str(error) else None
        raise ArmError(str(error), where=str(place), next_command=advice) from error


def hub_server() -> Any:
    """The embedded hub's module. Raises UsageError when its extra is not installed."""
    try:
        from ..hub_sync.local_hub import serve as server
    except ModuleNotFoundError as error:
        raise UsageError(f"the hub needs {error.name}, which is not installed", next_command=_SPELLED) from error
    return server


def _print(found: dict[str, Any], place: Path, as_json: bool) -> None:
    token = place / "token"
    if as_json:
        output.data({"url": found["url"], "pid": found["pid"], "dir": str(place), "token_file": str(token)})
        return
    click.echo(found["url"])
    output.note(f"""
use it from any shell (the last line keeps clients quiet and quick offline; reading public repositories needs no token):
  export HF_ENDPOINT={found["url"]}
  export HF_TOKEN=$(cat {token})
  export HF_HUB_DISABLE_TELEMETRY=1 HF_UPDATE_DOWNLOAD_COUNTS=0 HF_HUB_DISABLE_UPDATE_CHECK=1
publish to it:  arm push
look at it:     {found["url"]}/
stop it:        arm hub stop{_dir(place)}""")


def _dir(place: Path) -> str:
    return "" if place == default_folder() else f" --dir {place}"
