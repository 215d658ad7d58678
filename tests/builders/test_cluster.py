"""Buckets on Dask workers: the extra `[scale]`, as on a cluster whose workers see the same files."""

from __future__ import annotations

from pathlib import Path

import pytest
from action_reward_models.registry import Registry

EXAMPLE = Path(__file__).parents[2] / "examples" / "miniwob" / "registry.yaml"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Dask's own, at start and shutdown
def test_dask_executor_gives_the_same_build(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="needs the extra [scale]: make test-all installs it")
    registry = Registry.load(EXAMPLE)
    local, _ = registry.build(out=tmp_path / "local", workers=1)
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        remote, _ = registry.build(out=tmp_path / "remote", executor=client.get_executor())
    assert local is not None
    assert remote is not None
    assert remote.manifest["identity"] == local.manifest["identity"]
