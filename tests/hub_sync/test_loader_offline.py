"""Two versions in a warm cache, no network: load.py gives the one that is asked for or refuses; the stock call does not.

Every client runs in a process of its own, with its own HF_HOME: the variables are read when they are imported.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.hub_sync.conftest import Publisher, Running

TABLE = "teacher_labels"
ROWS = {"v1.0.0": 3, "v1.1.0": 5}  # in TABLE
STOCK = """
import datasets, sys
print(datasets.load_dataset(sys.argv[1], sys.argv[2], split="train", revision=sys.argv[3]).num_rows)
"""
LOAD = """
import json, sys
from load import LoadError, join, load, verify
words = dict(word.split("=") for word in sys.argv[2:])
try:
    if sys.argv[1] == "verify":
        print(json.dumps(verify(**words)))
    else:
        rows = load(sys.argv[1], "train", **words)
        print(json.dumps([rows.num_rows, rows.info.description]))
except LoadError as error:
    sys.exit(f"refused: {error}")
"""


class Client:
    """A researcher's machine: a cache, and a folder with the load.py of the first version."""

    def __init__(self, running: Running, folder: Path, repo: str, loader: Path) -> None:
        self.folder, self.repo, self.home = folder, repo, folder / "home"
        self.running = running
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(loader, folder)

    def run(self, code: str, *words: str, offline: bool = False, **env: str) -> subprocess.CompletedProcess[str]:
        more = {"HF_HUB_OFFLINE": "1"} if offline else {"HF_TOKEN": self.running.token}
        command = [sys.executable, "-c", code, *words]
        environment = self.running.env(self.home, **{**more, **env})
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=120
        )

    def stock(self, revision: str, **options: Any) -> int:
        done = self.run(STOCK, self.repo, TABLE, revision, **options)
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    def load(self, *words: str, table: str = TABLE, **options: Any) -> Any:
        done = self.run(LOAD, table, *words, **options)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def refused(self, *words: str, table: str = TABLE, **options: Any) -> str:
        done = self.run(LOAD, table, *words, **options)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        return done.stderr[done.stderr.index("refused: ") :]

    @property
    def cache(self) -> Path:
        return self.home / "hub" / f"datasets--{self.repo.replace('/', '--')}"


@pytest.fixture(scope="module")
def published(
    running: Running, new_publisher: type[Publisher], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """Two versions on the hub: their commits by tag, and the load.py of the first."""
    folder = tmp_path_factory.mktemp("publisher")
    publisher = new_publisher(folder / "registry", "loader-offline")
    hub = running.client()
    publisher.build()
    shutil.copy(publisher.built / "load.py", folder)
    commits = {"v1.0.0": publisher.push(hub).commit}
    publisher.version, publisher.picks = "1.1.0", [0, 1, 0, 1, 0]
    publisher.build()
    commits["v1.1.0"] = publisher.push(hub).commit
    assert commits["v1.0.0"] != commits["v1.1.0"]
    return {"repo": "lab/loader-offline", "commits": commits, "loader": folder / "load.py"}


@pytest.fixture
def client(running: Running, published: dict[str, Any], tmp_path: Path) -> Client:
    return Client(running, tmp_path / "client", published["repo"], published["loader"])


@pytest.fixture(scope="module")
def warm(running: Running, published: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Client:
    """A cache in which both versions were loaded, in both ways, the second version last."""
    made = Client(running, tmp_path_factory.mktemp("warm") / "client", published["repo"], published["loader"])
    for tag, rows in ROWS.items():
        assert made.stock(tag) == rows
        assert made.load(f"revision={tag}")[0] == rows
    return made


@pytest.mark.parametrize("revision", [*ROWS, "the commit of v1.0.0", "its own"])
def test_the_asked_revision_and_the_one_that_the_stock_call_gives(
    warm: Client, published: dict[str, Any], revision: str
) -> None:
    tag = revision if revision in ROWS else "v1.0.0"
    name = published["commits"]["v1.0.0"] if revision.startswith("the commit") else tag
    words = () if revision == "its own" else (f"revision={name}",)  # load.py came with v1.0.0
    rows, said = warm.load(*words, offline=True)
    assert rows == ROWS[tag]
    assert f"commit {published['commits'][tag]}, identity " in said
    assert warm.stock(name, offline=True) == ROWS["v1.1.0"]  # whatever was asked for


@pytest.mark.parametrize("revision", ["v9.9.9", "v1.0", "0" * 40, "../main", "refs/pr/1"])
def test_a_revision_that_is_not_there_is_refused_and_the_stock_call_answers(warm: Client, revision: str) -> None:
    said = warm.refused(f"revision={revision}", offline=True)
    assert said.startswith(f"refused: {revision} of {warm.repo} cannot be had.\n")
    assert "  in the cache: v1.0.0, v1.1.0\n" in said
    assert said.endswith(f"next, with a network: hf download {warm.repo} --repo-type dataset --revision {revision}\n")
    if revision == "v9.9.9":
        assert warm.stock(revision, offline=True) == ROWS["v1.1.0"]
    assert warm.refused(f"revision={revision}").startswith(f"refused: {revision} of {warm.repo} cannot be had.\n")


def test_no_answer_is_like_offline(warm: Client, published: dict[str, Any]) -> None:
    """The hub is gone, and nobody set HF_HUB_OFFLINE."""
    gone = {"HF_ENDPOINT": "http://127.0.0.1:9"}
    assert warm.load("revision=v1.0.0", **gone)[0] == ROWS["v1.0.0"]
    assert "cannot be had" in warm.refused("revision=v9.9.9", **gone)
    assert warm.load("revision=v1.0.0", "offline=yes", **gone)[0] == ROWS["v1.0.0"]


def test_a_table_that_was_never_downloaded(client: Client) -> None:
    client.load()
    said = client.refused(table="states", offline=True)
    assert "data/states/train-00000-of-00001.parquet is not there" in said
    assert f"hf download {client.repo} --repo-type dataset --revision v1.0.0" in said
    assert client.load(table="states")[0] == 3
    assert client.load(table="states", offline=True)[0] == 3


def test_what_the_stock_call_left_is_no_other_version(client: Client) -> None:
    """Only v1.1.0 was ever loaded, and load.py was not used before: v1.0.0 is refused."""
    assert client.stock("v1.1.0") == ROWS["v1.1.0"]
    assert "v1.0.0 of " in client.refused(offline=True)
    assert client.stock("v1.0.0", offline=True) == ROWS["v1.1.0"]


def test_a_cache_whose_tag_points_elsewhere(client: Client, published: dict[str, Any]) -> None:
    for tag in ROWS:
        client.load(f"revision={tag}")
    (client.cache / "refs" / "v1.0.0").write_text(published["commits"]["v1.1.0"])
    assert "v1.0.0 of " in (said := client.refused(offline=True))
    assert "holds v1.1.0" in said
    assert client.load()[0] == ROWS["v1.0.0"]  # the Hub knows better
    assert client.load(offline=True)[0] == ROWS["v1.0.0"]


def test_a_flipped_bit_in_the_cache(client: Client) -> None:
    client.load("revision=v1.0.0")
    (path,) = client.cache.glob(f"snapshots/*/data/{TABLE}/*.parquet")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    blob = path.resolve()
    blob.chmod(0o644)
    blob.write_bytes(data)
    for offline in (True, False):
        assert f"is damaged: delete {blob} and load again" in client.refused(offline=offline)
        assert f"is damaged: delete {blob} and load again" in client.refused(table="verify", offline=offline)
    blob.unlink()
    assert client.load()[0] == ROWS["v1.0.0"]


def test_all_of_a_revision(client: Client) -> None:
    counted = client.load(table="verify")
    assert counted["states"] == {"train": 3}
    assert counted == client.load(table="verify", offline=True)
    done = client.run("import runpy; runpy.run_path('load.py', run_name='__main__')", offline=True)
    assert done.stdout.endswith(f"verified: every file of {client.repo} at v1.0.0 is as its manifest says\n"), (
        done.stderr
    )


def test_pictures_of_referenced_rows(client: Client) -> None:
    code = """
from load import join, load
rows = join(load("selection_sft", "train"), load("states", "train"), on="images")
print([picture.size for row in rows for picture in row["images"]])
"""
    client.run(code)
    done = client.run(code, offline=True)
    assert done.stdout == "[(8, 8), (8, 8), (8, 8)]\n", done.stderr
