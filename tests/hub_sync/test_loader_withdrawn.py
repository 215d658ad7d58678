"""load.py of a version that was withdrawn after it was published: it loads, and it says so while it can know."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from action_reward_models.hub_sync.hub import Hub
from action_reward_models.hub_sync.yank import plan, withdraw
from action_reward_models.tests.hub_sync.steps import repo, write
from action_reward_models.tests.hub_sync.test_loader_offline import Client

if TYPE_CHECKING:
    from tests.hub_sync.conftest import Publisher, Running

LOAD = """
import json, sys, warnings
from load import load, verify
for revision in sys.argv[1:]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        rows = load("teacher_labels", "train", revision=revision).num_rows
    ours = [str(w.message) for w in seen if "withdrawn" in str(w.message)]
    here = [w.filename for w in seen if "withdrawn" in str(w.message)]
    assert here == ["<string>"] * len(ours), here
    print(json.dumps([rows, ours]))
"""
SAID = "v1.0.0 of {} was withdrawn by its publisher: 'labels of another run'; "


def ask(client: Client, *revisions: str, **options: Any) -> list[Any]:
    return [json.loads(line) for line in client.run(LOAD, *revisions, **options).splitlines()]


def test_it_warns_online_and_from_the_cache(publisher: Publisher, hub: Hub, running: Running, tmp_path: Path) -> None:
    publisher.build()
    client = Client(running, tmp_path / "client", {"repo": repo(publisher), "loader": publisher.built / "load.py"})
    first = publisher.push(hub).commit
    assert ask(client, "v1.0.0") == [[3, []]]
    publisher.version, publisher.picks = "1.1.0", [0, 1, 0, 1, 0]
    publisher.build()
    publisher.push(hub)
    withdraw(plan(hub, repo(publisher), "v1.0.0", "labels of another run"), hub)
    assert ask(client, "v1.0.0", offline=True) == [[3, []]], "nobody told this cache"
    said = SAID.format(repo(publisher)) + "name 'v1.1.0' as revision instead."
    assert ask(client, "v1.0.0", "v1.1.0", first) == [[3, [said]], [5, []], [3, [said]]]
    assert ask(client, "v1.0.0", offline=True) == [[3, [said]]]
    assert ask(client, "v1.0.0", HF_ENDPOINT="http://127.0.0.1:9") == [[3, [said]]]
    withdraw(plan(hub, repo(publisher), "v1.1.0", "and these \u00e9"), hub)
    later = SAID.format(repo(publisher)) + "no newer version is better."
    assert ask(client, "v1.0.0", "v1.1.0") == [
        [3, [later]],
        [5, [later.replace("v1.0.0", "v1.1.0").replace("labels of another run", "and these \u00e9")]],
    ]
    withdraw(plan(hub, repo(publisher), "v1.0.0", None), hub)
    assert ask(client, "v1.0.0")[0] == [3, []]


def test_whatever_is_wrong_with_main_it_loads(publisher: Publisher, hub: Hub, running: Running, tmp_path: Path) -> None:
    publisher.build()
    client = Client(running, tmp_path / "client", {"repo": repo(publisher), "loader": publisher.built / "load.py"})
    publisher.push(hub)
    wrong: list[bytes | None] = [b"[" * 100_000, b"[]", b'{"environment": []}', b'{"environment": {"withdrawn": [1]}}']
    wrong += [b'{"environment": {"withdrawn": {"1.0.0": "x"}}}', b"\xff", None]
    for data in wrong:
        write(hub, repo(publisher), manifest_dot_json=data)
        assert ask(client, "v1.0.0") == [[3, []]], data
    shutil.rmtree(client.cache)
    assert ask(client, "v1.0.0") == [[3, []]]
    assert ask(client, "v1.0.0", offline=True) == [[3, []]]
