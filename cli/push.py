"""``arm push``: publish a built directory as a tagged revision."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import output

if TYPE_CHECKING:
    from ..hub_sync.hub import Hub
    from ..registry import Registry


@click.command(
    "push",
    short_help="Plan and publish one dataset or checkpoint, or a built directory, as a tagged revision.",
    epilog=output.examples(
        "arm push --dry-run",
        "arm push --yes",
        "arm push build/action-reward-models-data --repo your-name/mine --private --yes --json",
    ),
)
@click.argument("target", required=False, metavar="[NAME|DIR|REGISTRY]")
@click.option("--repo", metavar="NS/NAME", help="Another repository than the registry's; card and load.py name it.")
@click.option("--private", is_flag=True, help="Create the repository private; an existing one stays as it is.")
@click.option("--stage", is_flag=True, help="Commit to a pull request, read it back, then merge and tag.")
@click.option("--full", is_flag=True, help="Read back every shard, not one per table and split.")
@click.option("--card", "keep", type=click.Choice(["hub", "local"]), help="Whose words to keep when both changed.")
@click.option("--allow-findings", is_flag=True, help="Publish although secrets or e-mail addresses were found.")
@click.option("--overwrite", is_flag=True, help="Replace or delete files there that no build made.")
@click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.json_option
def command(
    target: str | None, repo: str | None, private: bool, stage: bool, full: bool, keep: Any, allow_findings: bool,
    overwrite: bool, dry_run: bool, yes: bool, as_json: bool,
) -> None:  # fmt: skip
    """Plan, ask and publish one dataset or checkpoint of registry.yaml (default: the only dataset), or a built folder.

    A dataset is built if it is stale; a checkpoint is not trained by this. Everything is checked first without the
    network: files, rows, digests, the card, secrets. The version must fit the change. The files go up one by one, and
    one commit on the head that was seen makes them a revision; it is read back with stock `datasets` (a checkpoint:
    loaded and scored) and then tagged v<version>. Files whose rows did not change are not sent. What a person wrote
    into the card on the Hub stays. A push that was killed or refused can be run again. HF_ENDPOINT and HF_TOKEN say
    where and as whom.
    """
    from ..registry.apply import apply
    from ..registry.plan import Options, plan_folder
    from . import plan_report

    hub = output.hub()
    options = Options(repo=repo, private=private, keep=keep, overwrite=overwrite)
    registry, name = _declared(target, hub)
    with output.progress() as show:
        if registry is None:
            planned = plan_folder(Path(target or "."), hub, options=options, progress=show)
        else:
            planned = registry.plan(names=(name,), options=options, progress=show)
    (step,) = planned.steps
    if not as_json:
        plan_report.show(planned)
    if step.refusals:  # said above
        problem = step.refusals[0]
        if as_json:
            raise problem
        click.get_current_context().exit(1)
    assert step.push is not None
    if dry_run:
        if as_json:
            output.data({"plan": step.push.to_json(), "published": None})
        return
    if not (yes or step.push.tagged or (step.push.findings and not allow_findings)):  # then it is refused, not asked
        output.confirm("publish?", as_json, "after --dry-run")
    with output.progress() as show:
        done = apply(
            planned, hub, registry=registry, stage=stage, full=full, allow_findings=allow_findings,
            tell=lambda published: None if as_json else plan_report.tell(published), progress=show,
        )  # fmt: skip
    if as_json:
        output.data({"plan": step.push.to_json(), "published": done[0].to_json()})


def _declared(target: str | None, hub: Hub) -> tuple[Registry | None, str]:
    """(The registry, the name of its dataset or checkpoint), or (None, "") for a built directory.

    ``target`` is a built directory, a registry or its folder, or a name in ./registry.yaml.
    """
    from ..registry import Registry
    from ..schemas.errors import UsageError

    path = Path(target or ".")
    if target and (path / "manifest.json").is_file():
        return None, ""
    if target and (path.is_file() or (path / "registry.yaml").is_file()):
        registry, name = Registry.load(path, hub=hub), None
    elif target and (path.exists() or not Path("registry.yaml").is_file()):
        raise UsageError("is neither a built directory nor a registry", where=target, next_command="arm push DIR")
    else:
        registry, name = Registry.load("registry.yaml", hub=hub), target
    if any(spec.name == name for spec in registry.models):
        return registry, str(name)
    return registry, registry.dataset(name).name
