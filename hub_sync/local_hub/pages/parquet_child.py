"""Reads Parquet files that came from anyone: run as a program of its own, with limits, and never imported by the hub.

stdin: ``{"files": [{"path": str} | {"data": base64}], "preview": bool}``; stdout: a list with one item for each file,
null for one that cannot be read. An item is its number of rows or, for a preview, ``{"columns", "rows", "pictures",
"left_out"}``, where a cell is ``{"text": str}`` or ``{"picture": index}``.
"""

from __future__ import annotations

import base64
import io
import json
import sys
from typing import Any

MEMORY = 4 * 2**30  # bytes of address space
CPU_SECONDS = 20
FOOTER = 16 * 2**20  # bytes
ROW_GROUP = 512 * 2**20  # bytes after decompression
ROWS, COLUMNS, CHARACTERS = 20, 40, 160
PICTURES, PICTURE_BYTES, PIXELS = 40, 2**20, 20_000_000
_KINDS = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp", "GIF": "image/gif"}


def main() -> None:
    _limit()
    asked = json.load(sys.stdin)
    answers = []
    for file in asked["files"]:
        source = file.get("path") or io.BytesIO(base64.b64decode(file["data"]))
        try:
            answers.append(_preview(source) if asked["preview"] else _open(source).metadata.num_rows)
        except Exception:  # a hostile file fails in any way, and only it
            answers.append(None)
    json.dump(answers, sys.stdout)


def _limit() -> None:
    try:
        import resource
    except ImportError:  # not POSIX
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _open(source: Any) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetFile(source, thrift_string_size_limit=FOOTER, thrift_container_size_limit=1_000_000)


def _preview(source: Any) -> dict[str, Any] | None:
    file = _open(source)
    columns = file.schema_arrow.names
    names, left_out = columns[:COLUMNS], len(columns[COLUMNS:])
    found: dict[str, Any] = {"columns": names, "rows": [], "pictures": [], "left_out": left_out}
    if not file.metadata.num_row_groups or not names:
        return found
    if file.metadata.row_group(0).total_byte_size > ROW_GROUP:
        return None
    batch = next(file.iter_batches(ROWS, row_groups=[0], columns=names, use_threads=False), None)
    for row in batch.to_pylist() if batch else []:
        found["rows"].append([_cell(row[name], found["pictures"]) for name in names])
    return _pictures_first(found)


def _pictures_first(found: dict[str, Any]) -> dict[str, Any]:
    """Columns that hold pictures come first: a person recognises a row by them."""
    rows, columns = found["rows"], found["columns"]
    order = sorted(range(len(columns)), key=lambda at: not any("picture" in row[at] for row in rows))
    arranged = {"columns": [columns[at] for at in order], "rows": [[row[at] for at in order] for row in rows]}
    return {**found, **arranged}


def _cell(value: Any, pictures: list[dict[str, Any]]) -> dict[str, Any]:
    """A picture (the first one of a list), or text that is cut."""
    first = value[0] if isinstance(value, list) and value else value
    if isinstance(first, dict) and isinstance(first.get("bytes"), bytes) and len(pictures) < PICTURES:
        picture = _picture(first["bytes"])
        if picture:
            pictures.append(picture)
            return {"picture": len(pictures) - 1}
    text = value if isinstance(value, str) else "" if value is None else json.dumps(_plain(value), ensure_ascii=False)
    text = text.encode("utf-8", "replace").decode()
    return {"text": text if len(text) <= CHARACTERS else text[:CHARACTERS] + "…"}


def _picture(data: bytes) -> dict[str, Any] | None:
    from PIL import Image

    if len(data) > PICTURE_BYTES:
        return None
    try:
        with Image.open(io.BytesIO(data), formats=list(_KINDS)) as image:  # reads the header only
            width, height, kind = image.width, image.height, _KINDS[image.format or ""]
    except Exception:  # no picture, or a broken one
        return None
    if not 0 < width * height <= PIXELS:
        return None
    return {"kind": kind, "width": width, "height": height, "data": base64.b64encode(data).decode()}


def _plain(value: Any) -> Any:
    """``value`` as JSON can write it."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value[:50]]
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    return value if isinstance(value, str | int | float | bool | None) else str(value)


if __name__ == "__main__":
    main()
