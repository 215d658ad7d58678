"""What the libraries alone take for the rows of a build: how far a build in Python could be sped up at all.

    python benchmarks/floor.py RELEASE BUILD

Reads the rows back, then times only the library calls that a build makes for them, in bulk and with nothing between:
parsing the source lines (orjson), validating each row (jsonschema-rs), serialising (orjson) and hashing it (SHA-256),
making Arrow columns, writing Parquet, and inflating each distinct screenshot once (zlib). Reading responses, joining,
comparing, rendering prompts and all accounting are left out.
"""

from __future__ import annotations

import gc
import hashlib
import json
import sys
import tempfile
import time
import zlib
from pathlib import Path

import orjson
import pyarrow.parquet as pq
from action_reward_models.builders import writer
from action_reward_models.schemas import digests
from action_reward_models.schemas.built import built_rows
from action_reward_models.schemas.columns import arrow_table
from action_reward_models.schemas.store import TABLES
from action_reward_models.schemas.validate import for_schema

RELEASE_FILES = ("states_full.jsonl", "candidates_merged.jsonl", "labels_drawlevel.jsonl")


def of_file(table: str, path: Path, scratch: Path) -> float:
    """CPU seconds of the library calls for the rows of one file."""
    codec, validator = digests.for_schema(TABLES[table]), for_schema(TABLES[table])
    rows = [codec.normalise(row) for row in built_rows(path, TABLES[table])]
    started = time.process_time()
    for row in rows:
        validator.is_valid(row)
        hashlib.sha256(codec.encode(row)).digest()
    columns = arrow_table(TABLES[table], rows)
    pq.write_table(columns, scratch, **writer.parquet_options(columns.schema, table))
    return time.process_time() - started


def of_sources(release: Path) -> float:
    """CPU seconds of parsing every line and inflating every picture once."""
    lines = [line for name in RELEASE_FILES for line in (release / name).read_bytes().splitlines()]
    streams = []
    for path in (release / "state_images").glob("*.png"):
        data = path.read_bytes()
        begin = data.index(b"IDAT") + 4
        streams.append(data[begin : begin + int.from_bytes(data[begin - 8 : begin - 4], "big")])
    started = time.process_time()
    for line in lines:
        orjson.loads(line)
    for stream in streams:
        zlib.decompress(stream)
    return time.process_time() - started


def main() -> None:
    release, built = Path(sys.argv[1]), Path(sys.argv[2])
    gc.disable()  # as in a build
    seconds = of_sources(release)
    with tempfile.TemporaryDirectory() as folder:
        for table in TABLES:
            for path in sorted((built / "data" / table).glob("*.parquet")):
                seconds += of_file(table, path, Path(folder) / "x.parquet")
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
