"""Compare two versions of a dataset: manifests and cards first, then the rows of files that are not equal."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ...schemas.errors import ArmError
from ...schemas.store import ID_FIELDS, TABLES
from .answers import answers
from .card import card_diff
from .exclusions import compare_bags
from .facts import facts
from .files import DataFile
from .flips import Flips
from .model import MAX_LISTED, Answer, Counts, Diff, End, Listed, TableDiff
from .rows import Step, TableRows
from .side import Progress, Side

Table = Mapping[str, Any]


def compare(
    before: Side | None, after: Side, progress: Progress = lambda *_: None, *, limit: int = MAX_LISTED,
    same: Collection[str] = (),
) -> Diff:  # fmt: skip
    """What differs. ``before`` None is a first publication: everything is added, and no row is read.

    A file that both manifests list with equal digests, of its rows and of its bytes, is neither opened nor downloaded;
    nor is one in ``same``, whose rows somebody has seen to be equal. Rows of other bytes are read, whatever a manifest
    says of them: whoever wrote the one wrote the other. Of each kind of difference
    the first ``limit`` rows are listed with what they hold; counts are complete. Rows are matched by their id, and two
    are equal when their digests are: provenance is outside, pictures count by the sha256 of their bytes. Raises
    ArmError when a file is not what its manifest says.
    """
    tables = [_tables(side.manifest) if side else {} for side in (before, after)]
    names = [*TABLES, *sorted(({*tables[0], *tables[1]}) - set(TABLES))]
    total = sum(table["rows"] for table in tables[1].values())
    done = 0

    def step(rows: int) -> None:
        nonlocal done
        done += rows
        progress("comparing rows", done, total)

    for side in (before, after):
        if side:
            side.trusted = frozenset(same)
    flips = Flips(limit)
    replaced: Listed[Answer] = Listed(limit)
    if before:
        picks = answers(
            *(_own_files("reviews", side, entries) for side, entries in zip((before, after), tables, strict=True))
        )
        replaced.add(picks, len(picks))
        flips.follow([pick.label_id for pick in picks])
    found: dict[str, TableDiff] = {}
    for name in names:
        old, new = (entries.get(name) for entries in tables)
        if old or new:
            found[name] = _table(name, (before, old), (after, new), flips, limit, step)
    if before and flips.listed.first:
        flips.name_actions(*_candidate_files(before, after))
    manifest = before.manifest if before else None
    return Diff(
        before=_end(before) if before else None,
        after=_end(after),
        tables=found,
        flips=flips.listed,
        answers=replaced,
        facts=facts(manifest, after.manifest),
        card=card_diff(before.card if before else None, after.card),
    )


def _end(side: Side) -> End:
    manifest = side.manifest
    return End(side.name, manifest["identity"]["version"], manifest["identity_sha256"], side.commit)


def _tables(manifest: Mapping[str, Any]) -> Mapping[str, Table]:
    tables: Mapping[str, Table] = manifest["identity"]["tables"]
    return tables


def _table(
    name: str, before: tuple[Side | None, Table | None], after: tuple[Side, Table | None], flips: Flips, limit: int,
    step: Step,
) -> TableDiff:  # fmt: skip
    (old_side, old), (new_side, new) = before, after
    splits = sorted({split for table in (old, new) if table for split in table["splits"]})
    out = TableDiff(
        name=name,
        schema=(old["schema"] if old else None, new["schema"] if new else None),
        images=(old["images"] if old else None, new["images"] if new else None),
        compared=old is not None and new is not None and old["schema"] == new["schema"] == TABLES.get(name),
        splits={split: Counts() for split in splits},
        files_equal=0,
        files_read=0,
        fields={},
        added=Listed(limit),
        removed=Listed(limit),
        changed=Listed(limit),
        moved=Listed(limit),
        follows=None,
    )
    for side, table in ((old_side, old), (new_side, new)):
        if side and table:
            _check_counts(side, name, table)
    if old_side and old and new and out.compared:
        _compare(name, (old_side, old), (new_side, new), out, flips, step)
        return out
    for split, counts in out.splits.items():
        counts.removed = _rows(old, split)
        counts.added = _rows(new, split)
        step(counts.added)
    out.removed.total, out.added.total = (table["rows"] if table else 0 for table in (old, new))
    return out


def _compare(
    name: str, before: tuple[Side, Table], after: tuple[Side, Table], out: TableDiff, flips: Flips, step: Step
) -> None:
    (old_side, old), (new_side, new) = before, after
    files = [_files(old_side, old), _files(new_side, new)]
    equal = {file.content for file in files[0]} & {file.content for file in files[1]}
    for file in files[0]:
        if file.content in equal:
            file.side.expect(file.path)
    for file in files[1]:
        if file.content in equal:
            file.side.expect(file.path)
            out.files_equal += 1
            out.splits[file.split].unchanged += file.rows
            step(file.rows)
    rest = [[file for file in side if file.content not in equal] for side in files]
    out.files_read = len(rest[0]) + len(rest[1])
    if not out.files_read:
        return
    if name in ID_FIELDS:
        TableRows(name, rest[0], rest[1], out, flips, step).run()
    else:
        compare_bags(rest[0], rest[1], out, step)
    _check_result(name, before, after, out)


def _check_counts(side: Side, name: str, table: Table) -> None:
    """Raise ArmError when a manifest contradicts itself about the rows of a table."""
    for split, part in table["splits"].items():
        if part["rows"] != sum(file["rows"] for file in part["files"]):
            raise side.wrong(f"the manifest counts the rows of {name} {split} in two ways")
    if table["rows"] != sum(part["rows"] for part in table["splits"].values()):
        raise side.wrong(f"the manifest counts the rows of {name} in two ways")


def _check_result(name: str, before: tuple[Side, Table], after: tuple[Side, Table], out: TableDiff) -> None:
    """Raise ArmError when what was read contradicts what the manifests claim."""
    (old_side, old), (new_side, new) = before, after
    for split, counts in out.splits.items():
        same = counts.changed + counts.unchanged
        if same + counts.removed + counts.moved_out != _rows(old, split):
            raise old_side.wrong(f"{name} {split} has other rows than the manifest says")
        if same + counts.added + counts.moved_in != _rows(new, split):
            raise new_side.wrong(f"{name} {split} has other rows than the manifest says")
    total = out.total
    differ = bool(total.added + total.removed + total.changed + total.moved_in)
    if differ != (old["row_digest"] != new["row_digest"]):
        said = "differ, and its rows do not" if not differ else "are equal, and its rows are not"
        raise ArmError(
            f"the row digests of {name} {said}", where=f"{old_side.name} and {new_side.name}",
            next_command=f"{old_side.verify}; {new_side.verify}   # one of them is not what its manifest says",
        )  # fmt: skip


def _rows(table: Table | None, split: str) -> int:
    return int(table["splits"].get(split, {}).get("rows", 0)) if table else 0


def _files(side: Side, table: Table) -> list[DataFile]:
    return [
        DataFile(side, split, file["path"], file["rows"], file["row_digest"], table["schema"], table["images"])
        for split, part in table["splits"].items()
        for file in part["files"]
    ]


def _own_files(name: str, side: Side, tables: Mapping[str, Table]) -> list[DataFile]:
    """The files of a table, none where it has rows of another schema."""
    table = tables.get(name)
    return _files(side, table) if table and table["schema"] == TABLES[name] else []


def _candidate_files(before: Side, after: Side) -> Iterator[list[DataFile]]:
    """The files of `candidate_sets` of both sides; what both have is read where it lies on this machine."""
    files = [_own_files("candidate_sets", side, _tables(side.manifest)) for side in (before, after)]
    preferred = files[::-1] if after.is_local or not before.is_local else files
    shared = {file.content: file for side in reversed(preferred) for file in side}
    yield from ([shared[file.content] for file in side] for side in files)
