"""A real manifest, and a small directory of Parquet files that a manifest describes."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from action_reward_models.cards.dataset import render
from action_reward_models.schemas.arrow import arrow_schema
from PIL import Image

_MANIFEST = json.loads((Path(__file__).parent / "manifest.json").read_text("utf-8"))


@pytest.fixture
def manifest() -> dict[str, Any]:
    return copy.deepcopy(_MANIFEST)


@pytest.fixture
def built(tmp_path: Path, manifest: dict[str, Any]) -> Callable[[], Path]:
    """Write the data that ``manifest`` names, two rows a file, and the card; the manifest's counts are made to fit."""

    def write() -> Path:
        folder = tmp_path / "built"
        for table in manifest["identity"]["tables"].values():
            schema = arrow_schema(table["schema"], table["images"] or "embed")
            table["rows"] = 0
            for split in table["splits"].values():
                (file,) = split["files"]
                path = folder / file["path"]
                path.parent.mkdir(parents=True, exist_ok=True)
                rows = [{f.name: _value(f.type, n) for f in schema} for n in (1, 2)]
                pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
                split["rows"] = file["rows"] = len(rows)
                table["rows"] += len(rows)
                manifest["environment"]["files"][file["path"]]["bytes"] = path.stat().st_size
        (folder / "README.md").write_text(render(manifest), "utf-8")
        return folder

    return write


def _value(kind: pa.DataType, n: int) -> Any:
    if kind == pa.struct([("bytes", pa.binary()), ("path", pa.string())]):
        data = io.BytesIO()
        Image.new("RGB", (2, n)).save(data, "PNG")
        return {"bytes": data.getvalue(), "path": f"{n}.png"}
    if pa.types.is_struct(kind):
        return {f.name: _value(f.type, n) for f in kind}
    if pa.types.is_list(kind):
        return [_value(kind.value_type, n)]
    return pa.scalar(str(n)).cast(kind).as_py() if not pa.types.is_boolean(kind) else True
