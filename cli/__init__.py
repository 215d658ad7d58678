"""Floor 6: the ``arm`` command, one file per verb; parsing and printing only.

Nothing here imports the verbs: ``arm --help`` shows static short helps, and a verb's module is loaded when it is used.
"""

from __future__ import annotations

import signal
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from .. import __version__

if TYPE_CHECKING:
    from ..schemas.errors import ArmError

# Verb -> short help. The verb's command is `<verb>.command` in the module of the same name in this room.
VERBS: dict[str, str] = {
    "init": "Write a registry.yaml, from scratch or from a folder of trajectories.",
    "import": "Look into somebody's files and write the registry that builds them.",
    "export": "Write a build in the files of another format.",
    "validate": "Check a registry and its sources, a recipe, a built directory, or a file of records.",
    "lock": "Write down what the references of a registry stand for.",
    "sample": "Sample the declared candidates from a model.",
    "label": "Ask a teacher for the declared labels: run, submit, status, collect, cancel, files.",
    "build": "Build the declared datasets.",
    "train": "Train a checkpoint as its recipe says.",
    "evaluate": "Measure a checkpoint on held-out candidate sets, alone or against another one.",
    "adopt": "Take over an adapter or a value head of another tool as a checkpoint.",
    "merge": "Merge a trained adapter into its base: one model that serves alone.",
    "select": "Pick an action: what a checkpoint chooses for a state, a file of states, or a split.",
    "score": "Score candidate actions with a scalar model: for a state, a file of states, or a split.",
    "serve": "Serve a checkpoint over HTTP, to agents in any language.",
    "review": "Write one offline HTML page to look at rows and judge them.",
    "plan": "Show what would change on the Hub, row by row.",
    "apply": "Publish what the plan shows, or a saved plan.",
    "push": "Plan and publish one dataset or checkpoint, or a built directory, as a tagged revision.",
    "pull": "Download a published revision as a built directory, checked.",
    "verify": "Check a published revision, or a built directory, to the last row or weight.",
    "diff": "Show what differs between two versions of a dataset, row by row.",
    "log": "List the published versions of a dataset or checkpoint, and what each changed.",
    "lineage": "Show where a dataset or checkpoint comes from, down to files.",
    "yank": "Withdraw a published version: the card says so, loaders warn, the tag stays.",
    "hub": "Run a Hub on this machine: serve, status, stop.",
    "demo": "Build the bundled example, publish it to a hub on this machine, and load it.",
}


class _Verbs(click.Group):
    """Loads a verb's module only when the verb is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command: click.Command = import_module(f".{name}", __package__).command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            from ..schemas.validate import nearest

            close = nearest(args[0], VERBS)
            hint = f" Did you mean {close!r}?" if close else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.group(
    cls=_Verbs,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Every command has --help with an example, and --json for machines. "
    "Exit status: 0 done, 1 problems found, 2 wrong usage, 130 interrupted.",
)
@click.version_option(__version__, prog_name="arm")
def arm() -> None:
    """Declare, build and publish the data of action reward models for web agents."""


def main() -> None:
    """Entry point of the ``arm`` command: our errors become a message and an exit status, never a traceback.

    With ``--json``, standard output holds one JSON document unless the command is interrupted; an error that ends the
    command is ``{"error": ..., "where": ..., "next": ..., "issues": [...]}``.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that temporary folders are cleared
    status = _run(sys.argv[1:])
    sys.exit(status)


def _run(words: list[str]) -> int:
    from ..schemas.errors import ArmError, UsageError
    from . import output

    try:
        status = arm.main(words, prog_name="arm", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except click.exceptions.Abort:
        output.note("interrupted")
        return 130
    except click.ClickException as error:
        error.show()
        problem, status = ArmError(error.format_message()), error.exit_code
    except ModuleNotFoundError as error:
        if (missing := _missing(error, words)) is None:
            raise
        output.error(problem := missing)
        status = 1
    except (ArmError, OSError, UnicodeError) as error:
        problem = output.as_error(error)
        output.error(problem)
        status = 2 if isinstance(problem, UsageError) else 1
    if "--json" in words:
        output.data(problem.to_json())
    return int(status)


def _missing(error: ModuleNotFoundError, words: list[str]) -> ArmError | None:
    """What brings the package that is missing; None for one that no command may be without."""
    from ..schemas.errors import ArmError

    package = (error.name or "").partition(".")[0]
    if package not in ("accelerate", "peft", "torch", "transformers", "trl"):
        return None
    extra = "train" if package in ("accelerate", "trl") or words[:1] == ["train"] else "inference"
    return ArmError(f"{package} is not installed", next_command=f'pip install "action-reward-models[{extra}]"')
