"""Datasets that TRL's trainers take as they are: a folder of Parquet files for each table, and a README with configs.

``SFTTrainer`` reads `prompt` and `completion`, ``RewardTrainer`` `prompt`, `chosen` and `rejected`; `images` are
pictures, one for each image block of the prompt. The column is left out where no row has one: a trainer takes any table
with it for one that needs a processor. Rows come file by file and row group by row group, so that memory is bounded.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...schemas import arrow
from ...schemas.built import BuiltTables
from ...schemas.columns import picture_name
from ...schemas.manifest import identity_digest
from ...schemas.store import TABLES
from ..ledger import Row
from ..writer import ROW_GROUP_BYTES, parquet_options
from . import training
from .types import Exported

if TYPE_CHECKING:
    import pyarrow as pa

# Table -> the columns of messages that its trainer reads.
COLUMNS = {
    "selection_sft": ("prompt", "completion"),
    "actor_sft": ("prompt", "completion"),
    "bt_pairs": ("prompt", "chosen", "rejected"),
}
_FILE_BYTES = 500_000_000  # expanded, after which another file begins


def export(tables: BuiltTables, out: Path, exported: Exported) -> None:
    """Write the folder into ``out``; nothing where the build has none of the tables."""
    configs: dict[str, set[str]] = {}  # config -> its splits
    shown: set[str] = set()
    for table, sides in COLUMNS.items():
        if not tables.has(table):
            continue
        columns = (*sides, *(["images"] if training.shows(tables, table) else []))
        with ExitStack() as opened:
            files: dict[tuple[str, str], _Files] = {}
            for row, pictures in training.rows(tables, table, out.parent, exported):
                config, split = config_of(table, row), row["split"]
                if (config, split) not in files:
                    made = _Files(out, f"{config}/{split}", table, columns, exported)
                    files[config, split] = opened.enter_context(made)
                    configs.setdefault(config, set()).add(split)
                files[config, split].add(row, pictures)
                training.leave_out(exported, table, row, ())
                shown.update(row["images"])
        if table == "bt_pairs" and "images" in columns:
            exported.notes.append(
                "RewardTrainer looks at no pictures: those of bt_pairs need a trainer that reads `images`"
            )
    exported.pictures = len(shown)
    training.no_place(exported, tables, tuple(COLUMNS))
    if configs:
        (out / "README.md").write_text(_readme(tables, configs, exported), "utf-8")


def config_of(table: str, row: Row) -> str:
    """The dataset a row goes to: random controls are another run's targets, and are never mixed with the others."""
    return "actor_sft_random_control" if row.get("selected_by") == "random_control" else table


class _Files:
    """The files of one config and split, the next of which begins where one is large."""

    def __init__(self, out: Path, name: str, table: str, columns: Sequence[str], exported: Exported) -> None:
        self._out, self._name, self._table, self._columns = out, name, table, columns
        self._exported = exported
        self._schema = _schema(table, columns)
        self._rows: list[dict[str, Any]] = []
        self._waiting = self._written = self._number = 0  # bytes of the row group and of the file; files
        self._writer: Any = None

    def __enter__(self) -> _Files:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def add(self, row: Row, pictures: Sequence[bytes]) -> None:
        size = sum(map(len, pictures)) + sum(
            len(block.get("text") or "")
            for side in COLUMNS[self._table]
            for message in row[side]
            for block in message["content"]
        )
        if self._rows and self._waiting + size > ROW_GROUP_BYTES:
            self._write()
        record: dict[str, Any] = {side: row[side] for side in COLUMNS[self._table]}
        if "images" in self._columns:
            named = zip(row["images"], pictures, strict=True)
            record["images"] = [{"bytes": data, "path": picture_name(image, data)} for image, data in named]
        self._rows.append(record)
        self._waiting += size

    def _write(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        name = f"{self._name}-{self._number:05d}.parquet"
        if self._writer is None:
            (self._out / name).parent.mkdir(exist_ok=True)
            self._writer = pq.ParquetWriter(
                self._out / name, self._schema, **parquet_options(self._schema, self._table)
            )
        self._writer.write_table(pa.Table.from_pylist(self._rows, schema=self._schema))
        self._exported.files[name] = self._exported.files.get(name, 0) + len(self._rows)
        self._written += self._waiting
        self._rows, self._waiting = [], 0
        if self._written > _FILE_BYTES:
            self._close()

    def _close(self) -> None:
        if self._rows:
            self._write()
        if self._writer is not None:
            self._writer.close()
            self._writer, self._written, self._number = None, 0, self._number + 1


def _schema(table: str, columns: Sequence[str]) -> pa.Schema:
    """The columns of the table's own schema, with the features that `datasets` reads from the file."""
    import pyarrow as pa

    whole, features = arrow.arrow_schema(TABLES[table]), arrow.features(TABLES[table])
    kept = {"huggingface": json.dumps({"info": {"features": {name: features[name] for name in columns}}})}
    return pa.schema([whole.field(name) for name in columns], metadata=kept)


def _readme(tables: BuiltTables, configs: dict[str, set[str]], exported: Exported) -> str:
    import yaml

    identity = tables.identity
    files = [
        {
            "config_name": config,
            "data_files": [{"split": split, "path": f"{config}/{split}-*.parquet"} for split in sorted(splits)],
            **({"default": True} if number == 0 else {}),
        }
        for number, (config, splits) in enumerate(configs.items())
    ]
    head = yaml.safe_dump({"configs": files}, sort_keys=False)
    return _README.format(
        head=head,
        name=f"{identity['namespace']}/{identity['name']}",
        version=identity["version"],
        license=identity["license"],
        identity=identity_digest(identity),
        config=next(iter(configs)),
        prompts="\n".join(f"- `{p['id']}` ({p['kind']}): `{p['sha256']}`" for p in identity["prompts"])
        or "- none: all rows came ready-made",
        lost=exported.lost(),
    )


_README = """\
---
{head}---

# {name} {version}, for TRL

Made by `arm export trl` of the build `{identity}`, licence {license}. Each folder is a dataset of its own:

```python
from datasets import load_dataset

train = load_dataset("PATH/OF/THIS/FOLDER", "{config}", split="train")
```

Rows hold what a trainer reads: `prompt` with `completion`, or with `chosen` and `rejected`, as chat messages of text
and image blocks, and `images`, where rows have pictures. Ids, orders and scores stand in the dataset itself. Prompts,
which a model has to be served with again:

{prompts}

## What was lost

{lost}
"""
