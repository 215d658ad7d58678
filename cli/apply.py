"""``arm apply``: publish what a plan says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from . import output


@click.command(
    "apply",
    short_help="Publish what the plan shows, or a saved plan.",
    epilog=output.examples("arm apply --yes", "arm apply plan.json", "arm apply plan.json --stage --json"),
)
@click.argument("saved", required=False, metavar="[PLAN]", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--registry", default="registry.yaml", show_default=True, type=click.Path(path_type=str), metavar="REGISTRY",
    help="The registry that the plan is of.",
)  # fmt: skip
@click.option(
    "--name", "names", multiple=True, help="Without PLAN: only this dataset or checkpoint; may be given several times."
)
@click.option("--private", is_flag=True, help="Create repositories private; a PLAN that says otherwise is refused.")
@click.option("--card", "keep", type=click.Choice(["hub", "local"]), help="Whose words to keep when both changed.")
@click.option("--stage", is_flag=True, help="Commit to a pull request, read it back, then merge and tag.")
@click.option("--full", is_flag=True, help="Read back every shard, not one per table and split.")
@click.option("--allow-findings", is_flag=True, help="Publish although secrets or e-mail addresses were found.")
@output.workers_option
@click.option("--yes", is_flag=True, help="Do not ask. A saved plan is not asked about: it was looked at.")
@output.json_option
def command(
    saved: Path | None, registry: str, names: tuple[str, ...], private: bool, keep: Any, stage: bool, full: bool,
    allow_findings: bool, workers: int | None, yes: bool, as_json: bool,
) -> None:  # fmt: skip
    """Plan, ask, and publish all datasets and checkpoints that changed, each as one tagged revision, in their order.

    A checkpoint is downloaded again before it is tagged, into an empty folder, and loaded there by another process: its
    scores have to be those of the one that was sent.

    With PLAN, a file of `arm plan --out`: the plan is made anew, and refused unless it is, to the last digest, what was
    saved. A saved plan is never trusted: it says what somebody agreed to, not what to do.
    """
    from ..registry import Registry
    from ..registry.apply import SavedPlan, apply
    from ..registry.plan import Options
    from ..schemas.errors import UsageError
    from . import plan_report

    agreed = SavedPlan.read(saved) if saved else None
    if agreed and names:
        raise UsageError("a saved plan says what is published", next_command=f"arm apply {saved}")
    declared = Registry.load(registry, hub=output.hub())
    # A plan that somebody edited makes nothing public that is asked to be private here.
    options = Options(private=private or bool(agreed and agreed.private), keep=keep)
    if agreed:  # a name that is not declared is the plan's fault, and said with it
        known = {*(spec.name for spec in declared.datasets), *(spec.name for spec in declared.models)}
        names = tuple(known & set(agreed.names))
    with output.progress() as show:
        planned = declared.plan(names=names, options=options, workers=workers, progress=show)
    if agreed:
        agreed.check(planned)
    elif not as_json:
        plan_report.show(planned)
        if planned.refusals:  # said with it
            output.note("nothing was published")
            click.get_current_context().exit(1)
    if planned.to_publish and not planned.refusals and not (agreed or yes):
        output.confirm("publish?", as_json, "after arm plan")
    with output.progress() as show:
        done = apply(
            planned, declared.hub, registry=declared, stage=stage, full=full, allow_findings=allow_findings,
            tell=lambda published: None if as_json else plan_report.tell(published), progress=show,
        )  # fmt: skip
    if as_json:
        output.data(
            {
                "plan": planned.to_json(),
                "published": [published.to_json() for published in done if published.committed or published.tagged],
            }
        )
