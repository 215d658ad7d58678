"""``arm push``: publish a built directory as a tagged revision."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import output

if TYPE_CHECKING:
    from ..hub_sync.plan import Plan
    from ..hub_sync.publish import Published


@click.command(
    "push",
    short_help="Publish a built dataset to the Hub as one tagged revision.",
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
    """Publish a dataset of registry.yaml (default: the only one), or a built directory, and tag it v<version>.

    Everything is checked first without the network: files, rows, digests, the card, secrets. The files go up one by
    one, and one commit on the head that was seen makes them a revision; it is read back with stock `datasets` and then
    tagged. Files whose rows did not change are not sent. What a person wrote into the card on the Hub stays. A push
    that was killed or refused can be run again. HF_ENDPOINT and HF_TOKEN say where and as whom.
    """
    from ..hub_sync.hub import Hub
    from ..hub_sync.plan import plan
    from ..hub_sync.publish import publish
    from ..registry import check_build, row_digest
    from ..schemas.errors import UsageError

    hub = Hub(progress=output.note)
    output.quiet_client()
    folder = _folder(target)
    with output.progress() as show:
        planned = plan(
            folder, hub, check=lambda path: check_build(path, show), repo=repo, private=private, keep=keep,
            overwrite=overwrite, row_digest=row_digest, progress=show,
        )  # fmt: skip
    if not as_json:
        _show(planned)
    if dry_run:
        if as_json:
            output.data({"plan": planned.to_json(), "published": None})
        return
    if not (yes or planned.tagged or (planned.findings and not allow_findings)):  # then it is refused, not asked
        if as_json or not sys.stdin.isatty():
            raise UsageError("nobody can be asked here", next_command="--yes, after --dry-run")
        click.confirm("publish?", abort=True, err=True)
    with output.progress() as show:
        published = publish(planned, hub, stage=stage, full=full, allow_findings=allow_findings, progress=show)
    if as_json:
        output.data({"plan": planned.to_json(), "published": published.to_json()})
    else:
        _tell(planned, published)


def _folder(target: str | None) -> Path:
    """A built directory, or that of a dataset in a registry.yaml, which must be up to date.

    ``target`` is a built directory, a registry or its folder, or the name of a dataset in ./registry.yaml.
    """
    from ..registry import Registry
    from ..registry.staleness import reasons
    from ..schemas.errors import ArmError, UsageError

    path = Path(target or ".")
    if target and (path / "manifest.json").is_file():
        return path
    if target and (path.is_file() or (path / "registry.yaml").is_file()):
        registry, name = Registry.load(path), None
    elif target and (path.exists() or not Path("registry.yaml").is_file()):
        raise UsageError("is neither a built directory nor a registry", where=target, next_command="arm push DIR")
    else:
        registry, name = Registry.load("registry.yaml"), target
    spec = registry.dataset(name)
    folder = registry.folder(spec)
    if why := reasons(spec, folder):
        message = f"{spec.name} is not built as declared: {'; '.join(why[:5])}"
        next_command = f"arm build {registry.path} --name {spec.name}"
        raise ArmError(message, where=str(registry.path), next_command=next_command)
    return folder


def _show(planned: Plan) -> None:
    for warning in planned.warnings:
        output.note(f"warning: {warning}")
    output.issues(planned.findings, f"{len(planned.findings)} secrets or addresses were found:")
    title = f"{planned.repo} {planned.tag} at {planned.url}"
    if planned.tagged:
        output.note(f"{title}: published already, at {planned.tagged}")
        return
    if planned.base is None:
        output.note(f"creates {'private' if planned.private else 'public'} repository {planned.url}")
    rows = [[o.action, o.path, f"{o.size:,}"] for o in planned.operations[: output.MAX_SHOWN]]
    if rows:
        output.table(title, ["", "file", "bytes"], rows)
    if left := planned.operations[output.MAX_SHOWN :]:
        output.note(f"... and {len(left)} more; --json lists them")
    changed = f"{len(planned.operations)} files change ({planned.added_bytes:,} bytes)" if rows else "no file changes"
    output.note(f"{changed}, {planned.unchanged} stay as they are; the tag {planned.tag} is new")


def _tell(planned: Plan, published: Published) -> None:
    if planned.tagged:
        return
    did = "committed and tagged" if published.committed else "tagged what was there"
    output.note(f"{did}: {published.tag} is {published.commit}")
    for table, splits in published.loaded.items():
        output.note(f"  loaded back {table}: " + ", ".join(f"{split} {rows:,}" for split, rows in splits.items()))
    click.echo(published.url)
    output.note(
        f'next: python -c "from datasets import load_dataset; '
        f"print(load_dataset('{published.repo}', revision='{published.tag}'))\""
    )
