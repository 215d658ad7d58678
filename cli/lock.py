"""``arm lock``: write down what the references of a registry stand for."""

from __future__ import annotations

import click

from . import output

_ALL = "*"  # no dataset can have this name


@click.command(
    "lock",
    short_help="Write down what the references of a registry stand for.",
    epilog=output.examples("arm lock", "arm lock --update action-reward-models-data", "arm lock --check"),
)
@output.registry_argument
@click.option(
    "--update", "names", is_flag=False, flag_value=_ALL, multiple=True, metavar="[NAME]",
    help="Ask again for what is locked already, of the dataset or model NAME, or of all: a branch may have moved.",
)  # fmt: skip
@click.option("--check", "only_check", is_flag=True, help="Ask nobody and change nothing: is arm.lock right as it is?")
@output.json_option
def command(registry: str, names: tuple[str, ...], only_check: bool, as_json: bool) -> None:
    """Resolve what REGISTRY (default: registry.yaml) refers to on the Hub, and write arm.lock beside it.

    A tag or branch becomes a commit, a version its identity, a raw file its digest; digests of local sources and
    prompts stand there, too. Builds and plans read arm.lock and never ask again, so that the same declaration gives the
    same data. Keep it under version control. HF_ENDPOINT and HF_TOKEN say where and as whom.
    """
    from ..registry import Registry
    from ..schemas.errors import UsageError

    declared = Registry.load(registry, hub=None if only_check else output.hub())
    if only_check:
        if names:
            raise UsageError("--check changes nothing, and --update does")
        found = declared.lock_problems()
        if as_json:
            output.data({"ok": not found, "lock": str(declared.lock_path), "problems": found})
        else:
            for problem in found:
                output.note(f"  {problem}")
            advice = "; next: arm lock" if found else ""
            output.note(f"{declared.lock_path}: {'is out of date' if found else 'as the registry says'}{advice}")
        click.get_current_context().exit(1 if found else 0)
    named = tuple(name for name in names if name != _ALL)
    changes = declared.lock(update=bool(names), names=() if _ALL in names else named)
    if as_json:
        output.data({"lock": str(declared.lock_path), "changes": changes})
        return
    for change in changes:
        output.note(f"  {change}")
    output.note(f"{declared.lock_path}: {len(changes) or 'no'} change{'s' if len(changes) != 1 else ''}")
