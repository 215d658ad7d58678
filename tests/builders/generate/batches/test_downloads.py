"""A file of a batch is there when all of it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from action_reward_models.builders.generate.batches.downloads import download
from action_reward_models.builders.generate.batches.service import Service, UnreachableError
from action_reward_models.servers.endpoints import Server
from action_reward_models.tests.builders.generate.batches.scenes import Waits
from action_reward_models.tests.servers.loopback import Reply, loopback


def rows(*ids: str) -> bytes:
    made = [{"id": "1", "custom_id": i, "response": {"status_code": 200, "body": {}}, "error": None} for i in ids]
    return b"".join(json.dumps(row).encode() + b"\n" for row in made)


ALL = rows("a", "b", "c")


@pytest.mark.parametrize(
    ("bodies", "at_least", "accept_cut", "taken"),
    [
        ([ALL], 3, False, ALL),
        ([ALL[:-1]], 3, False, ALL[:-1]),  # the last line is whole, without its end
        ([ALL], None, False, ALL),
        ([ALL], 2, False, ALL),  # more than counted: repeated lines
        ([b""], 0, False, b""),
        ([b"", ALL], 3, False, ALL),
        ([rows("a", "b"), ALL], 3, False, ALL),  # cut between two lines
        ([rows("a", "b"), rows("a", "b")], 3, False, rows("a", "b")),  # the count is wrong
        ([rows("a"), rows("a", "b"), rows("a")], 3, False, rows("a")),
        ([ALL[:-9], ALL], 3, False, ALL),
        ([ALL[:-9], ALL[:-9], ALL[:-9], ALL], None, True, ALL),
        ([ALL[:-9]] * 4, 3, True, ALL[:-9]),
        ([ALL[:-9]] * 4, 3, False, None),
        ([ALL[:-9], ALL[:-9], ALL[:-9], ALL[:-8]], 3, True, None),  # not the same each time
        ([b"<html>\nSign in\n"] * 4, None, True, None),
    ],
)
def test_what_is_taken(
    bodies: list[bytes], at_least: int | None, accept_cut: bool, taken: bytes | None, tmp_path: Path
) -> None:
    left = list(bodies)
    path, waits = tmp_path / "00001.output.jsonl", Waits()
    with (
        loopback(lambda head: Reply(200, left.pop(0), {"Content-Type": "application/octet-stream"})) as there,
        Service(Server("s", (there.url,), timeout_s=10.0), waits) as service,
    ):
        if taken is None:
            with pytest.raises(UnreachableError, match=r"00001\.output\.jsonl did not come whole in 4 tries"):
                download(service, "file-1", path, at_least, accept_cut)
        else:
            download(service, "file-1", path, at_least, accept_cut)
    assert not left
    assert len(waits) == len(bodies) - 1
    assert (path.read_bytes() if path.exists() else None) == taken
    assert not list(tmp_path.glob("*.part"))


def test_an_id_of_a_server_is_no_path(tmp_path: Path) -> None:
    with (
        loopback(lambda head: Reply(200, ALL, {})) as there,
        Service(Server("s", (there.url,), timeout_s=10.0), Waits()) as service,
    ):
        download(service, "../../../etc/passwd", tmp_path / "x", 3, False)
        assert [head.path for head in there.received] == ["/v1/files/..%2F..%2F..%2Fetc%2Fpasswd/content"]
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
