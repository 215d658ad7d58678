"""`arm demo`, our commands and stock loads where only loopback is: they work, nothing hangs, nothing tries to leave.

One exception is the client's own: `load_dataset(repo)` without a revision asks the dataset viewer, at a name that stock
`datasets` makes of the endpoint and no variable turns off. It is asserted, so that a client that stops, or begins more
of it, is noticed.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from action_reward_models.tests.clients.conftest import NEWEST, OLDEST, QUIET, REPO, Demo, Place, demo
from action_reward_models.tests.clients.sealed import Ran, Sealed

VIEWER = "name datasets-server.127.0.0.1"  # no host has it
COUNTER = "name s3.amazonaws.com"  # counts downloads, unless HF_UPDATE_DOWNLOAD_COUNTS=0
TABLES = {"states", "candidate_sets", "teacher_labels", "selection_sft", "bt_pairs", "exclusions"}
BARE = "import sys, datasets; print(datasets.load_dataset(sys.argv[1])['train'].num_rows)"
AT_TAG = """
import json, sys
from datasets import get_dataset_config_names, load_dataset
repo, tag = sys.argv[1:]
counts = {}
for config in get_dataset_config_names(repo, revision=tag):
    rows = load_dataset(repo, config, revision=tag)
    streamed = load_dataset(repo, config, revision=tag, streaming=True)
    counts[config] = {split: len(part) for split, part in rows.items()}
    assert counts[config] == {split: sum(1 for _ in part) for split, part in streamed.items()}, config
print(json.dumps(counts))
"""
LOADER = """
import runpy, sys
from huggingface_hub import hf_hub_download
path = hf_hub_download(sys.argv[1], "load.py", repo_type="dataset", revision="v1.0.0")
sys.argv[1:] = []
runpy.run_path(path, run_name="__main__")
"""
# (client line, Xet): the quick tier has the newest line with Xet on, as it is after a plain installation.
LINES = [
    pytest.param(line, xet, marks=() if (line, xet) == (NEWEST, "on") else pytest.mark.slow, id=f"{line}-xet-{xet}")
    for line in (NEWEST, OLDEST)
    for xet in ("on", "off")
]


def ok(ran: Ran, *attempts: str) -> str:
    """The output of a command that succeeded and looked for nobody but ``attempts``."""
    assert ran.code == 0, f"after {ran.seconds} s: {ran.err}"
    assert set(ran.attempts) == set(attempts)
    return ran.out


def check_demo(place: Place, made: Demo) -> None:
    assert made.ran.seconds < 60
    assert set(made.said["tables"]) == TABLES
    xorbs = list((made.folder / "hub" / "xorbs").rglob("*"))
    assert any(path.is_file() for path in xorbs) == (place.xet == "on"), "Xet was spoken, or was not"


@pytest.mark.slow
@pytest.mark.timeout(900)  # the older line is installed first
@pytest.mark.parametrize(("line", "xet"), LINES)
def test_nothing_tries_to_leave(sealed: Sealed, tmp_path: Path, line: str, xet: str) -> None:
    place = Place(sealed, tmp_path, line, xet)
    made = demo(place)
    check_demo(place, made)
    assert made.ran.attempts == (VIEWER,), "by the bare load in it"
    stock = {"home": "researcher", "HF_ENDPOINT": made.url, **QUIET}
    assert json.loads(ok(place.code(AT_TAG, REPO, "v1.0.0", **stock))) == made.said["tables"]
    assert int(ok(place.code(BARE, REPO, **stock), VIEWER)) == made.said["bare"]["train"]

    assert "verified: every file" in ok(place.code(LOADER, REPO, **stock))
    assert "verified: every file" in ok(place.code(LOADER, REPO, **stock, HF_HUB_OFFLINE="1"))

    ours = {"home": "publisher", "HF_ENDPOINT": made.url, "HF_TOKEN": made.token}  # without the quiet ones
    built = str(made.folder / "build" / "action-reward-models-data")
    ok(place.arm("push", built, "--repo", "your-name/again", "--yes", "--full", **ours))
    ok(place.arm("pull", f"{REPO}@v1.0.0", "--out", "pulled", **ours))
    ok(place.arm("verify", f"{REPO}@v1.0.0", **ours))
    ok(place.arm("verify", "pulled", **ours))
    ok(place.arm("hub", "status", "--dir", str(made.folder / "hub"), **ours))
    ok(place.arm("hub", "stop", "--dir", str(made.folder / "hub"), **ours))


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("line", "xet"), [pytest.param(NEWEST, "on", id=f"{NEWEST}-xet-on"), *LINES[1:]])
def test_with_nothing_but_the_endpoint_where_no_route_is(closed: Sealed, tmp_path: Path, line: str, xet: str) -> None:
    """No variable keeps the client quiet: whom it looks for cannot be reached, which it takes in its stride."""
    place = Place(closed, tmp_path, line, xet)
    made = demo(place)
    check_demo(place, made)
    bare = place.code(BARE, REPO, home="researcher", seconds=60, HF_ENDPOINT=made.url)
    assert int(ok(bare)) == made.said["bare"]["train"]
    tagged = place.code(AT_TAG, REPO, "v1.0.0", home="researcher", seconds=60, HF_ENDPOINT=made.url)
    assert json.loads(ok(tagged)) == made.said["tables"]


@pytest.mark.slow  # it waits for a name server that never answers, once a table
def test_what_the_quiet_variables_are_for(sealed: Sealed, tmp_path: Path) -> None:
    place = Place(sealed, tmp_path, NEWEST, "on")
    made = demo(place)
    for name, seen in (("HF_HUB_DISABLE_TELEMETRY", {COUNTER}), ("HF_UPDATE_DOWNLOAD_COUNTS", set())):
        env = {"HF_ENDPOINT": made.url, name: QUIET[name]}
        ran = place.code(AT_TAG, REPO, "v1.0.0", home="researcher", **env)
        ok(ran, *seen)
