"""``arm sample``: candidates of a policy, for every state."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import generate_options, output
from .asking import Asking

if TYPE_CHECKING:
    from ..registry.generating import Generation
    from ..servers.endpoints import Server


@click.command(
    "sample",
    short_help="Sample the declared candidates from a model.",
    epilog=output.examples(
        "arm sample --dry-run", "arm sample --limit 20 --in-flight 4 --yes", "arm sample registry.yaml --cap 20 --json"
    ),
)
@output.registry_argument
@generate_options.meant
@generate_options.live
@generate_options.dry_run_option
@output.json_option
def command(
    registry: str, name: str | None, source: str | None, endpoints: Path | None, dry_run: bool, as_json: bool,
    **how: Any,
) -> None:  # fmt: skip
    """Ask a model for the candidates that sources of REGISTRY (default: registry.yaml) declare with `sample:`.

    The model is served by any OpenAI-compatible server. Each state is shown as the actor saw it. Every answer is kept
    beside the file (PATH without .jsonl, .requests) as it comes, so that the command may be killed, run again, and run
    several times at once: it asks for what has no answer, and writes the file. Exit status 1 when something failed or
    is still missing.
    """
    asking = Asking.of(registry, "sample", endpoints, as_json)

    def do(asked: Generation, server: Server) -> dict[str, Any]:
        return asking.tell(asked, server) if dry_run else asking.ask(asked, server, **how)

    asking.each(name, source, do, known=not dry_run)
