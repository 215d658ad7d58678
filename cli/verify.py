"""``arm verify``: is a published revision, or a folder, what it says?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from . import output
from .source import located, place

if TYPE_CHECKING:
    from ..hub_sync.hub import Hub
    from ..hub_sync.verify import Reload, Verified
    from ..schemas.errors import Issue

    Check = Callable[[Path, Callable[..., None]], list[Issue]]


@click.command(
    "verify",
    short_help="Check a published revision, or a built directory, to the last row or weight.",
    epilog=output.examples(
        "arm verify your-name/action-reward-models-data@v1.0.0",
        "arm verify build/action-reward-models-data --json",
        "arm verify action-reward-models-data --rebuild",
    ),
)
@click.argument("source", metavar="NS/NAME[@REVISION]|DIR|NAME")
@click.option("--rebuild", is_flag=True, help="Also build it again from its sources and compare every digest.")
@click.option(
    "--sources",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where the publisher's own files are, under their published names. [default: the working directory]",
)
@output.workers_option
@output.json_option
def command(source: str, rebuild: bool, sources: Path | None, workers: int | None, as_json: bool) -> None:
    """Check NS/NAME at REVISION (a tag, branch or commit; default: main), a built directory, or a dataset or checkpoint
    NAME of ./registry.yaml: the version that arm.lock says was published last, at the very commit and with the
    identity there.

    Checks that every file has the bytes of the manifest, every row fits its schema, the digests of rows, tables and
    build are right, the card agrees (every word, if this version of arm wrote it), and stock `datasets` loads every
    config and split with the rows that the manifest says. Exit status 1 when anything is wrong; all that is wrong is
    listed. That a version was withdrawn is a warning.

    Of a checkpoint (models/NS/NAME where a dataset has the name, too): that every file has the bytes of the manifest
    and holds nothing but what a checkpoint may, that prompt, tokenizer and adapter are those that the manifest names,
    and that it loads and scores; its base model is fetched for that, unless it is here.

    --rebuild makes the dataset again from the manifest alone: source files are compared with its digests before
    anything is built, files of the Hub are fetched by commit, and every digest of rows, files, tables and build must
    come out the same, with another number of processes.
    """
    from ..hub_sync import forms
    from ..hub_sync.verify import verify_folder, verify_revision
    from ..registry import check_build
    from ..registry.builds import check_checkpoint, form_of
    from ..registry.sources.pinned import Pinned
    from ..schemas.errors import UsageError

    if not rebuild and (sources or workers):
        raise UsageError("--sources and --workers mean something with --rebuild only", next_command="--rebuild")
    hub, where, pinned = output.hub(), place(source), None
    if where is None:
        pinned = Pinned.last(Path(), source)
        hub, where = hub.of(pinned.repo_type), (pinned.repo, pinned.commit)
    elif not isinstance(where, Path):
        hub, *named = located(source, hub)
        where = named[0], named[1]
    check: Check
    form, reload = form_of(where) if isinstance(where, Path) else forms.of(hub), None
    if form is forms.CHECKPOINT:
        if rebuild:
            raise UsageError("a checkpoint is trained, and not built again", next_command=f"arm lineage {source}")
        check, reload = check_checkpoint, _reloading(pinned.name if pinned else None)
    elif rebuild:
        check = _rebuilding(hub, sources or Path(), workers, pinned.name if pinned else None)
    else:
        check = check_build
    with output.progress() as show:
        if isinstance(where, Path):
            found = verify_folder(where, check, show, form, reload)
        else:
            found = verify_revision(hub, *where, check, show, reload)
    if pinned:
        found = replace(found, issues=tuple(sorted([*found.issues, *pinned.issues(hub, found)])))
    if as_json:
        issues = [issue.to_json() for issue in found.issues]
        output.data({"ok": not issues, **vars(found), "issues": issues, "rebuilt": rebuild})
    else:
        _show(found, rebuild)
    click.get_current_context().exit(1 if found.issues else 0)


def _show(found: Verified, rebuilt: bool) -> None:
    for warning in found.warnings:
        output.note(output.one_line(f"warning: {warning}"))
    count = len(found.issues)
    output.issues(found.issues, f"{found.where}: {count} problem{'s' if count != 1 else ''}:")
    if count:
        return
    if found.scored is not None:
        output.note(f"loaded in a process of its own: {found.scored['conversations']} conversations were scored")
        return
    rows = sum(number for splits in found.loaded.values() for number in splits.values())
    output.note(f"{found.where}: as its manifest says (identity {found.identity_sha256[:12]})")
    output.note(f"stock datasets loaded {rows:,} rows of {len(found.loaded)} tables")
    if rebuilt:
        output.note("built again from its sources: every digest is the same")


def _reloading(name: str | None) -> Reload:
    """What loads a checkpoint; ``name`` is that of one of ./registry.yaml, which knows where its base model lies."""
    from ..registry import Registry
    from ..registry.reloading import reloading

    return reloading(Registry.load(hub=output.hub()) if name and Path("registry.yaml").is_file() else None, None)


def _rebuilding(hub: Hub, sources: Path, workers: int | None, name: str | None) -> Check:
    """The check that also builds again; ``name`` is that of a dataset of the registry in ``sources``."""
    from ..registry.provenance.rebuild import check_rebuilt
    from ..registry.provenance.respec import Inputs
    from ..registry.sources.store import Store

    inputs = Inputs(sources, Store(sources / "build" / ".sources"), hub, _declared(sources, name) if name else {})
    return lambda folder, show: check_rebuilt(folder, inputs, workers=workers, progress=show)


def _declared(folder: Path, name: str) -> dict[str, Path]:
    """Published name -> file, of the files that the registry in ``folder`` declares for ``name``, if it still does."""
    from ..registry import Registry
    from ..schemas.errors import ArmError

    try:
        sources = Registry.load(folder).dataset(name).sources
    except ArmError:  # what a declaration of today would say is not what is proven here
        return {}
    return {published: path for source in sources for published, path in source.files if source.origin is None}
