"""``arm review``: a page on which a person judges rows before anybody trains on them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..cards.gallery.choice import BUDGET, ITEMS, TABLES, Choice
from . import output
from .source import built, place

if TYPE_CHECKING:
    from ..schemas.built import BuiltTables
    from .progress import Show

MEGABYTE = 1_000_000


@click.command(
    "review",
    short_help="Write one offline HTML page to look at rows and judge them.",
    epilog=output.examples(
        "arm review action-reward-models-data",
        "arm review build/action-reward-models-data --table bt_pairs --split validation --out pairs.html",
        "arm review your-name/action-reward-models-data@v1.0.0 --reason identical --items 40 --out identical.html",
    ),
)
@click.argument("source", metavar="NS/NAME[@REVISION]|DIR|NAME")
@click.option(
    "-o", "--out", type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write; an earlier gallery is replaced, nothing else is. [default: NAME-vVERSION-review.html]",
)  # fmt: skip
@click.option("--items", type=click.IntRange(min=1), default=ITEMS, show_default=True, help="At most so many items.")
@click.option(
    "--budget", type=click.FloatRange(min=0.2), default=BUDGET / MEGABYTE, show_default=True, metavar="MB",
    help="Largest size of the file, in megabytes; what does not fit is left out and counted.",
)  # fmt: skip
@click.option(
    "--table", "tables", multiple=True, type=click.Choice(TABLES), metavar="TABLE",
    help="Only rows of this table and what was excluded from it; may be given several times.",
)  # fmt: skip
@click.option("--split", type=click.Choice(["train", "validation"]), help="Only items of this split.")
@click.option("--reason", "reasons", multiple=True, help="Only what was excluded for this reason; likewise.")
@click.option(
    "--id", "ids", multiple=True, metavar="ID",
    help="Only this item, or all that was made of this label, set or state; likewise.",
)  # fmt: skip
@output.json_option
def command(
    source: str, out: Path | None, items: int, budget: float, tables: tuple[str, ...], split: str | None,
    reasons: tuple[str, ...], ids: tuple[str, ...], as_json: bool,
) -> None:  # fmt: skip
    """Write a page with rows of a build to look at: training rows, labels that fed none, and what was excluded.

    The build is a directory, NS/NAME at REVISION (a tag, branch or commit; default: main), or what was built last of a
    dataset NAME of ./registry.yaml. The items are a sample, some of each table, split and kind, by a hash: the same
    build gives the same page, and more --items only add to it. TABLE is one of the tables of rows, or coverage for
    states and sets that nothing was made of.

    The page is one file that needs no network. It holds the screenshots, candidates, reasoning and prompts of its
    items: share it like the data. Verdicts stay in the browser until they are exported as review.jsonl, which the next
    build applies when the registry declares it as a source of kind reviews.
    """
    from ..cards.gallery.data import gallery
    from ..cards.gallery.writing import refuse, write

    choice = Choice(tables, split, reasons, ids, items, int(budget * MEGABYTE))
    with output.progress() as show, _opened(source, show) as (build, shown_as):
        identity = build.identity
        out = out or Path(f"{identity['name']}-v{identity['version']}-review.html")
        refuse(out, build.folder)  # before the work
        page, data = gallery(build, choice, shown_as)
    write(page, out)
    if as_json:
        names = ("dataset", "version", "strata", "left_out")
        counts = {"items": len(data["items"]), "pictures": len(data["pictures"]), "bytes": len(page)}
        output.data({"path": str(out), "source": shown_as, **counts, **{name: data[name] for name in names}})
        return
    _show(data, out, len(page), choice.budget)


@contextmanager
def _opened(source: str, show: Show) -> Iterator[tuple[BuiltTables, str]]:
    """The tables of a build and what it is called; of a revision, files are downloaded when they are read."""
    from ..registry.diff import Side
    from ..schemas.built import BuiltTables

    where, doing = place(source) or built(source), "looking for items"
    if isinstance(where, Path):
        yield BuiltTables.of(where, show, doing), str(where)
        return
    from ..hub_sync.yank import warning

    hub, (repo, revision) = output.hub(), where
    with Side.revision(hub, repo, hub.resolve(repo, revision), show) as side:
        if said := warning(hub, repo, side.manifest["identity"]["version"]):
            output.note(output.one_line(f"warning: {said}"))
        yield BuiltTables(Path(side.name), side.manifest["identity"], show, doing, side.path, side.verify), side.name


def _show(data: dict[str, Any], out: Path, size: int, budget: int) -> None:
    from ..cards.gallery.data import OVER

    counts: dict[str, list[int]] = {}
    for stratum in data["strata"]:
        shown, of = counts.setdefault(stratum["table"], [0, 0])
        counts[stratum["table"]] = [shown + stratum["shown"], of + stratum["of"]]
    rows = [[table, f"{shown:,}", f"{of:,}"] for table, (shown, of) in counts.items()]
    output.table(data["title"], ["rows and exclusions of", "shown", "of"], rows)
    for why, n in data["left_out"].items():
        more = "; a larger --budget takes more" if why == OVER else ""
        output.note(f"left out: {n:,} more, {why}{more}")
    pictures = len(data["pictures"])
    output.note(
        f"{len(data['items']):,} items, {pictures:,} pictures, {size / MEGABYTE:.1f} of {budget / MEGABYTE:g} MB"
    )
    click.echo(str(out))
    output.note(
        f"next: open {shlex.quote(str(out))} in a browser, export review.jsonl there, and declare it as a source "
        "of the dataset: {kind: reviews, format: review, path: review.jsonl}"
    )
