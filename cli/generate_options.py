"""The options that `arm sample` and `arm label` share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

name_option = click.option("--name", metavar="DATASET", help="Only sources of this dataset.")
source_option = click.option("--source", metavar="PATH", help="Only the source with this path, as it is declared.")
endpoints_option = click.option(
    "--endpoints", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="The file that declares servers, names of keys and prices. [default: $ARM_ENDPOINTS; without it "
    "~/.config/action-reward-models/endpoints.yaml and, for servers of this machine, endpoints.yaml beside REGISTRY]",
)  # fmt: skip
in_flight_option = click.option(
    "--in-flight", type=click.IntRange(min=1), metavar="N",
    help="Requests at once, for each URL and process. [default: in_flight of the server, or 64]",
)  # fmt: skip
workers_option = click.option(
    "--workers", type=click.IntRange(min=1), metavar="N", help="Processes that ask, each with its own requests. [1]"
)
cluster_option = click.option("--cluster", metavar="ADDRESS", help="Ask from the workers of this Dask scheduler.")
cap_option = click.option(
    "--cap", "cap_usd", type=click.FloatRange(min=0), metavar="USD",
    help="Stop before more than USD was ever spent on a source, by all runs and processes together.",
)  # fmt: skip
limit_option = click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Send N requests at most.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Say what would be sent and what it costs; send nothing.")
yes_option = click.option("--yes", is_flag=True, help="Spend without being asked.")


def options(*which: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Several options, in this order."""

    def add(command: Command) -> Command:
        for option in reversed(which):
            command = option(command)
        return command

    return add


live = options(in_flight_option, workers_option, cluster_option, cap_option, limit_option, yes_option)
meant = options(name_option, source_option, endpoints_option)  # which sources, and where their servers are
