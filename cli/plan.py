"""``arm plan``: what would change on the Hub."""

from __future__ import annotations

from pathlib import Path

import click

from . import output


@click.command(
    "plan",
    short_help="Show what would change on the Hub, row by row.",
    epilog=output.examples("arm plan", "arm plan --out plan.json", "arm plan registry.yaml --json"),
)
@output.registry_argument
@click.option("--name", "names", multiple=True, help="Plan only this dataset or model; may be given several times.")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="Save the plan for arm apply, which checks it."
)
@click.option("--private", is_flag=True, help="Create repositories private; existing ones stay as they are.")
@click.option("--card", "keep", type=click.Choice(["hub", "local"]), help="Whose words to keep when both changed.")
@click.option(
    "--endpoints", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Where the prices of what models are still to make stand, as for arm sample; nothing there is called.",
)  # fmt: skip
@output.workers_option
@output.json_option
def command(
    registry: str, names: tuple[str, ...], out: Path | None, private: bool, keep: str | None, endpoints: Path | None,
    workers: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Build what is stale, check everything, and compare it with what is published. Nothing is sent.

    For each dataset of REGISTRY (default: registry.yaml): why it was rebuilt, rows added, removed and changed, label
    flips and the training rows that follow from them, changes of schema, prompts and card, the version bump that fits,
    and the files that would be sent. For each checkpoint: what it rests on, how it does, its bump and files; one that
    is not trained as declared is refused, since a plan trains nothing. Files that models make are told with what is
    missing, which refuses, and what it would cost. Exit status 1 when something is refused; each refusal says what to
    write or run.
    """
    from ..registry import Registry
    from ..registry.plan import Options
    from . import plan_report

    if out:
        plan_report.refuse_overwriting(out)
    declared = Registry.load(registry, hub=output.hub())
    with output.progress() as show:
        planned = declared.plan(
            names=names, workers=workers, progress=show,
            options=Options(private=private, keep=keep, endpoints=endpoints),  # type: ignore[arg-type]
        )  # fmt: skip
    if as_json:
        output.data(planned.to_json())
    else:
        plan_report.show(planned)
    can_be_applied = bool(planned.to_publish) and not planned.refusals
    if out and can_be_applied:
        plan_report.save(planned, out)
    elif out:
        output.note(f"no plan was saved: {'something is refused' if planned.refusals else 'nothing is to publish'}")
    if can_be_applied and not as_json:
        output.note(f"next: {plan_report.apply_command(out, registry, names, private, keep)}")
    click.get_current_context().exit(1 if planned.refusals else 0)
