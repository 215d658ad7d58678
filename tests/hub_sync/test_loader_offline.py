"""Two versions in a cache, no network: load.py gives the one that is asked for or refuses; the stock call does neither.

Every client runs in a process of its own, with its own HF_HOME: the variables are read when they are imported.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.tests import processes

if TYPE_CHECKING:
    from tests.hub_sync.conftest import Publisher, Running

TABLE = "teacher_labels"
ROWS = {"v1.0.0": 3, "v1.1.0": 5}  # in TABLE
# Both answer several requests, since an import takes longer than a load.
STOCK = """
import datasets, sys
for revision in sys.argv[3:]:
    print(datasets.load_dataset(sys.argv[1], sys.argv[2], split="train", revision=revision).num_rows)
"""
LOAD = """
import json, sys
from load import LoadError, load, verify
for request in sys.argv[1:]:
    table, *words = request.split()
    options = dict(word.split("=") for word in words)
    try:
        if table == "verify":
            print(json.dumps(verify(**options)))
        else:
            rows = load(table, "train", **options)
            print(json.dumps([rows.num_rows, rows.info.description]))
    except LoadError as error:
        print(json.dumps(f"refused: {error}"))
"""


class Client:
    """A researcher's machine: a cache, and a folder with the load.py of the first version."""

    def __init__(self, running: Running, folder: Path, published: dict[str, Any]) -> None:
        self.running, self.folder, self.repo = running, folder, published["repo"]
        self.cache = folder / "home" / "hub" / f"datasets--{self.repo.replace('/', '--')}"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(published["loader"], folder)

    def run(self, code: str, *words: str, offline: bool = False, **more: str) -> str:
        how = {"HF_HUB_OFFLINE": "1"} if offline else {"HF_TOKEN": self.running.token}
        env = self.running.env(self.folder / "home", **{**how, **more})
        done = processes.python(code, *words, cwd=self.folder, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def stock(self, *revisions: str, **options: Any) -> list[int]:
        """Rows of TABLE, by `load_dataset(revision=)`."""
        return [int(line) for line in self.run(STOCK, self.repo, TABLE, *revisions, **options).splitlines()]

    def ask(self, *requests: str, **options: Any) -> list[Any]:
        """What load.py answers to each ``TABLE key=value ...``: [rows, description], or the text of a refusal."""
        return [json.loads(line) for line in self.run(LOAD, *requests, **options).splitlines()]


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
    return Client(running, tmp_path / "client", published)


@pytest.fixture(scope="module")
def warm(running: Running, published: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Client:
    """A cache in which both versions were loaded, in both ways, the second version last."""
    made = Client(running, tmp_path_factory.mktemp("warm") / "client", published)
    assert made.stock(*ROWS) == list(ROWS.values())
    assert [rows for rows, _ in made.ask(*(f"{TABLE} revision={tag}" for tag in ROWS))] == list(ROWS.values())
    return made


def test_the_asked_revision_and_the_one_that_the_stock_call_gives(warm: Client, published: dict[str, Any]) -> None:
    commits = published["commits"]
    requests = [f"revision={tag}" for tag in ROWS] + [f"revision={commits['v1.0.0']}", ""]  # its own is v1.0.0
    answers = warm.ask(*(f"{TABLE} {request}" for request in requests), offline=True)
    for tag, (rows, said) in zip(["v1.0.0", "v1.1.0", "v1.0.0", "v1.0.0"], answers, strict=True):
        assert rows == ROWS[tag]
        assert f"commit {commits[tag]}, identity " in said
    asked = [*ROWS, commits["v1.0.0"], "v9.9.9"]
    assert warm.stock(*asked, offline=True) == [ROWS["v1.1.0"]] * 4  # whatever is asked for


@pytest.mark.parametrize("offline", [True, False])
def test_a_revision_that_is_not_there_is_refused(warm: Client, offline: bool) -> None:
    revisions = ["v9.9.9", "v1.0", "0" * 40, "../main", "refs/pr/1"]
    answers = warm.ask(*(f"{TABLE} revision={revision}" for revision in revisions), offline=offline)
    for revision, said in zip(revisions, answers, strict=True):
        assert said.startswith(f"refused: {revision} of {warm.repo} cannot be had.\n")
        assert "  in the cache: main, v1.0.0, v1.1.0\n" in said
        command = f"hf download {warm.repo} --repo-type dataset --revision {revision}"
        assert said.endswith(f"next, with a network: {command}")


def test_no_answer_is_like_offline(warm: Client) -> None:
    """The hub is gone, and nobody set HF_HUB_OFFLINE."""
    requests = [f"{TABLE} revision=v1.0.0", f"{TABLE} revision=v1.1.0 offline=yes"]
    answers = warm.ask(*requests, HF_ENDPOINT="http://127.0.0.1:9")
    assert [rows for rows, _ in answers] == list(ROWS.values())


def test_a_table_that_was_never_downloaded(client: Client) -> None:
    client.ask(TABLE)
    (said,) = client.ask("states", offline=True)
    assert said.startswith(f"refused: Of {client.repo} at v1.0.0, commit ")
    assert "data/states/train-00000-of-00001.parquet is not there" in said
    assert said.endswith(f"hf download {client.repo} --repo-type dataset --revision v1.0.0")
    assert client.ask("states")[0][0] == 3
    assert client.ask("states", offline=True)[0][0] == 3


def test_what_the_stock_call_left_is_no_other_version(client: Client) -> None:
    """Only v1.1.0 was ever loaded: v1.0.0 is refused, and the stock call answers."""
    assert client.stock("v1.1.0") == [ROWS["v1.1.0"]]
    (said,) = client.ask(TABLE, offline=True)
    assert said.startswith("refused: v1.0.0 of ")
    assert client.stock("v1.0.0", offline=True) == [ROWS["v1.1.0"]]


def test_a_cache_whose_tag_points_elsewhere(client: Client, published: dict[str, Any]) -> None:
    client.ask(*(f"{TABLE} revision={tag}" for tag in ROWS))
    (client.cache / "refs" / "v1.0.0").write_text(published["commits"]["v1.1.0"])
    (said,) = client.ask(TABLE, offline=True)
    assert said.startswith("refused: v1.0.0 of ")
    assert "holds v1.1.0" in said
    assert client.ask(TABLE)[0][0] == ROWS["v1.0.0"]  # the Hub knows better
    assert client.ask(TABLE, offline=True)[0][0] == ROWS["v1.0.0"]


def test_a_flipped_bit_in_the_cache(client: Client) -> None:
    client.ask(TABLE)
    (path,) = client.cache.glob(f"snapshots/*/data/{TABLE}/*.parquet")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    blob = path.resolve()
    blob.chmod(0o644)
    blob.write_bytes(data)
    for offline in (True, False):
        for said in client.ask(TABLE, "verify", offline=offline):
            assert f"is damaged: delete {blob} and load again" in said
    blob.unlink()
    assert client.ask(TABLE)[0][0] == ROWS["v1.0.0"]


def test_all_of_a_revision(client: Client) -> None:
    (counted,) = client.ask("verify")
    assert counted["states"] == {"train": 3}
    assert client.ask("verify", offline=True) == [counted]
    said = client.run("import runpy; runpy.run_path('load.py', run_name='__main__')", offline=True)
    assert said.endswith(f"verified: every file of {client.repo} at v1.0.0 is as its manifest says\n")


def test_pictures_of_referenced_rows(client: Client) -> None:
    code = """
from load import join, load
rows = join(load("selection_sft", "train"), load("states", "train"), on="images")
print([picture.size for row in rows for picture in row["images"]])
"""
    for offline in (False, True):
        assert client.run(code, offline=offline) == "[(8, 8), (8, 8), (8, 8)]\n"
