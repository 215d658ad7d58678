"""The same rows, digests and split whatever the machine, the order of the input and the number of workers."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from action_reward_models.registry import Registry
from action_reward_models.schemas.built import built_rows

EXAMPLE = Path(__file__).parents[2] / "examples" / "miniwob"
ARM = Path(sys.executable).parent / "arm"
SHARDS = 4  # several buckets, although the sample would fit in one


def copy_example(folder: Path, shuffle: int | None = None) -> Path:
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("build"))
    registry = folder / "registry.yaml"
    registry.write_text(
        registry.read_text("utf-8").replace("    tables:\n", f"    shards: {SHARDS}\n    tables:\n"), "utf-8"
    )
    if shuffle is not None:
        for path in (folder / "data").glob("*.jsonl"):
            lines = path.read_bytes().splitlines(keepends=True)
            random.Random(shuffle).shuffle(lines)
            path.write_bytes(b"".join(lines))
    return registry


def build(registry: Path, out: Path, *, workers: int = 1, cwd: Path | None = None, **env: str) -> dict[str, Any]:
    """Build in a process of its own and return the manifest's identity."""
    command = [str(ARM), "build", str(registry), "--out", str(out), "--workers", str(workers), "--json"]
    done = subprocess.run(command, env={**os.environ, **env}, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    identity: dict[str, Any] = orjson.loads((out / "manifest.json").read_bytes())["identity"]
    return identity


def digests(identity: dict[str, Any]) -> dict[str, Any]:
    """Row digests of all tables and all their files."""
    return {
        name: (table["rows"], table["row_digest"], [f for part in table["splits"].values() for f in part["files"]])
        for name, table in identity["tables"].items()
    }


def splits(out: Path) -> dict[str, str]:
    files = sorted((out / "data" / "states").glob("*.parquet"))
    return {row["state_id"]: row["split"] for path in files for row in built_rows(path, "state/1")}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("reference")
    out = folder / "out"
    Registry.load(copy_example(folder / "registry")).build(out=out, workers=1)
    return orjson.loads((out / "manifest.json").read_bytes())["identity"], out


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("environment", {"PYTHONHASHSEED": "12345", "TZ": "Asia/Kathmandu", "LC_ALL": "C", "PYTHONUTF8": "0"}),
        ("workers", {"workers": 3}),
    ],
)
def test_rows_do_not_depend_on_the_machine(
    name: str, options: dict[str, Any], reference: tuple[dict[str, Any], Path], tmp_path: Path
) -> None:
    expected, out = reference
    identity = build(copy_example(tmp_path / "registry"), tmp_path / "out", cwd=tmp_path, **options)
    assert digests(identity) == digests(expected)
    assert identity == expected
    assert splits(tmp_path / "out") == splits(out)


def test_rows_do_not_depend_on_the_order_of_the_input(reference: tuple[dict[str, Any], Path], tmp_path: Path) -> None:
    expected, out = reference
    for seed, workers in ((1, 1), (2, 3)):
        made = tmp_path / f"out{seed}"
        identity = build(copy_example(tmp_path / f"registry{seed}", shuffle=seed), made, workers=workers)
        assert digests(identity) == digests(expected)
        assert identity["ledger"] == expected["ledger"]
        assert identity["statistics"] == expected["statistics"]
        assert splits(made) == splits(out)


def test_same_input_twice_gives_the_same_bytes(reference: tuple[dict[str, Any], Path], tmp_path: Path) -> None:
    """Parquet, schemas, prompts and card; of the manifest everything but the environment."""
    _, out = reference
    build(copy_example(tmp_path / "registry"), tmp_path / "out", workers=2)

    def hashed(folder: Path) -> dict[str, str]:
        files = [p for p in sorted(folder.rglob("*")) if p.is_file() and p.name != "manifest.json"]
        return {p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}

    assert hashed(tmp_path / "out") == hashed(out)
    assert len([name for name in hashed(out) if name.endswith(".parquet")]) > 20
