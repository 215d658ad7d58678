"""What the verbs share: data goes to stdout, messages and progress to stderr."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ..schemas.errors import ArmError, Issue, UsageError, plain
from . import progress as progresses

if TYPE_CHECKING:
    from ..hub_sync.hub import Hub

registry_argument = click.argument(
    "registry", default="registry.yaml", type=click.Path(path_type=str), metavar="[REGISTRY]"
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print machine-readable JSON on stdout.")
workers_option = click.option(
    "--workers", type=click.IntRange(min=1), default=None, help="Processes; by default one per CPU. Never changes rows."
)
progress = progresses.progress
MAX_SHOWN = 50  # issues on a terminal; --json has them all


def examples(*lines: str) -> str:
    """The epilog of a verb's help. A test runs each of these lines."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def note(message: str) -> None:
    """Print a message for a person, on stderr; what it quotes cannot steer the terminal."""
    click.echo(plain(message), err=True)


def one_line(message: str) -> str:
    """``message`` as one line, for what may quote others: a line of theirs could pass for one of ours (`next: ...`)."""
    return message.replace("\n", "\\n")


def error(problem: ArmError) -> None:
    """Print an error: what happened where, the first of its issues, and what to do next."""
    note(one_line(f"arm: {problem.where}: {problem.message}" if problem.where else f"arm: {problem.message}"))
    _issues(problem.issues)
    if problem.next_command:
        note(f"  next: {problem.next_command}")


def data(value: Any) -> None:
    """Print JSON on stdout."""
    import orjson

    click.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str).decode())


def issues(found: Sequence[Issue], title: str) -> None:
    """Print located issues, the first ones of many, on stderr."""
    if found:
        note(title)
        _issues(found)


def _issues(found: Sequence[Issue]) -> None:
    for issue in found[:MAX_SHOWN]:
        note(one_line(f"  {issue}"))
    if len(found) > MAX_SHOWN:
        note(f"  ... and {len(found) - MAX_SHOWN} more; `arm validate --json` lists them")


def as_error(problem: ArmError | OSError | UnicodeError) -> ArmError:
    """What the system refuses (a full disk, a name that is no text) as an error of ours."""
    if isinstance(problem, ArmError):
        return problem
    if isinstance(problem, UnicodeError):
        return ArmError(f"a name or text cannot be written: {problem}")
    return ArmError(problem.strerror or str(problem), where=str(problem.filename or "the system"))


def hub(endpoint: str | None = None, token: str | None = None) -> Hub:
    """A Hub, by default the one that HF_ENDPOINT and HF_TOKEN name, whose client draws no bars: progress is ours."""
    from ..hub_sync.hub import Hub

    made = Hub(endpoint, token, progress=note)  # before its client is imported, which reads the environment then
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    return made


def quiet_models() -> None:
    """Of transformers no bars of its own, since progress is ours; and without a GPU no advice on kernels for one."""
    import logging

    import torch
    from transformers.utils import logging as bars

    bars.disable_progress_bar()
    if not torch.cuda.is_available():
        logging.getLogger("transformers.integrations.hub_kernels").setLevel(logging.ERROR)


def confirm(question: str, as_json: bool, before: str = "") -> None:
    """Ask, and end at a no. Where nobody can be asked: UsageError with the command that does not ask.

    ``before`` says what to do before that is run.
    """
    if as_json or not sys.stdin.isatty():
        advice = f"{typed('--yes')}{f'   # {before}' if before else ''}"
        raise UsageError(f"nobody can be asked here: {question}", next_command=advice)
    if not click.confirm(question, err=True):
        note("it was not done")
        raise click.exceptions.Exit(1)


def typed(*more: str) -> str:
    """The command that runs, as it was typed, and ``more`` words."""
    context = click.get_current_context()
    words = context.command_path.split()
    for parameter in context.command.params:
        name = str(parameter.name)
        if context.get_parameter_source(name) is not click.core.ParameterSource.COMMANDLINE:
            continue
        values = context.params[name] if parameter.multiple else (context.params[name],)
        for value in values:
            flag = isinstance(parameter, click.Option) and parameter.is_flag
            words += [parameter.opts[-1]] if isinstance(parameter, click.Option) else []
            words += [] if flag else [str(value)]
    return shlex.join([*words, *more])


def usage(message: str, where: str | None = None) -> UsageError:
    """For words of the command that runs which do not go together; its help says which do."""
    return UsageError(message, where=where, next_command=f"{click.get_current_context().command_path} --help")


def table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """Print a table for a person on stdout; numbers (all columns but the first) are right-aligned.

    The title is a line of its own: in the table it would be cut to the width of that.
    """
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    click.echo(plain(title))
    shown = Table(box=SIMPLE, pad_edge=False)
    for number, column in enumerate(columns):
        shown.add_column(column, justify="right" if number else "left", overflow="fold")
    for row in rows:
        shown.add_row(*(Text(plain(cell)) for cell in row))
    Console(width=None if sys.stdout.isatty() else 160).print(shown)
