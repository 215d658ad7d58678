"""What people do with a Hub, each by the unmodified client, against the one at HF_ENDPOINT as HF_TOKEN.

Run with the client's own Python: ``flows.py FOLDER`` prints one JSON line per flow, ``{flow, seconds, error}``. Knows
nothing of this project.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import huggingface_hub
import pandas as pd  # type: ignore[import-untyped]
from datasets import ClassLabel, Dataset, DatasetDict, Features, Image, IterableDataset, Value, load_dataset
from huggingface_hub import (
    CommitOperationAdd,
    DatasetCard,
    HfApi,
    HfFileSystem,
    ModelCard,
    hf_hub_download,
    snapshot_download,
)
from huggingface_hub.errors import (
    HfHubHTTPError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from PIL import Image as Pictures

NEW = int(huggingface_hub.__version__.split(".")[0]) >= 2
API = HfApi()
NS = str(API.whoami()["name"])
FEATURES = Features({"picture": Image(), "kind": ClassLabel(names=["cat", "dog"]), "n": Value("int64")})
BIG = 12 * 2**20  # bytes: over the limits of one request and of one chunk


def rows(first: int, count: int) -> dict[str, list[Any]]:
    pictures = [Pictures.new("RGB", (8, 8), (n % 256, 0, 0)) for n in range(first, first + count)]
    numbers = list(range(first, first + count))
    return {"picture": pictures, "kind": [n % 2 for n in numbers], "n": numbers}


def table(first: int, count: int) -> Dataset:
    return Dataset.from_dict(rows(first, count), features=FEATURES)


def check(got: Dataset, first: int, count: int) -> None:
    assert got.features == FEATURES
    assert got["n"][:] == list(range(first, first + count))
    assert got[0]["picture"].getpixel((0, 0)) == (first % 256, 0, 0)
    assert got.features["kind"].int2str(got[0]["kind"]) == ("cat", "dog")[first % 2]


def push_and_load_at_a_tag(folder: Path) -> None:
    """`Dataset.push_to_hub` twice, main then differs from the tag; normal and streaming."""
    repo = f"{NS}/pictures"
    table(0, 3).push_to_hub(repo)
    API.create_tag(repo, tag="v1.0.0", repo_type="dataset")
    table(5, 20).push_to_hub(repo)
    check(load_dataset(repo, revision="v1.0.0", split="train"), 0, 3)
    check(load_dataset(repo, split="train"), 5, 20)
    for revision, first, count in (("v1.0.0", 0, 3), (None, 5, 20)):
        streamed = list(load_dataset(repo, revision=revision, split="train", streaming=True))
        assert [row["n"] for row in streamed] == list(range(first, first + count))
        assert streamed[0]["picture"].size == (8, 8)


def push_configs_and_splits(folder: Path) -> None:
    """`DatasetDict.push_to_hub`, two configs, a private repository."""
    repo = f"{NS}/configs"
    for config, first in (("one", 0), ("two", 50)):
        splits = DatasetDict({"train": table(first, 4), "test": table(first + 4, 2)})
        splits.push_to_hub(repo, config, private=True)
    assert datasets.get_dataset_config_names(repo) == ["one", "two"]
    got = load_dataset(repo, "two")
    check(got["train"], 50, 4)
    check(got["test"], 54, 2)
    assert API.dataset_info(repo).private
    try:
        API.dataset_info(repo, token=False)
    except RepositoryNotFoundError:
        pass
    else:
        raise AssertionError("a private repository was shown to a stranger")


def push_a_stream(folder: Path) -> None:
    repo = f"{NS}/stream"
    numbers = Features({"n": Value("int64")})
    stream = IterableDataset.from_generator(lambda: ({"n": n} for n in range(7)), features=numbers)
    stream.push_to_hub(repo, num_shards=1)
    assert load_dataset(repo, split="train")["n"][:] == list(range(7))


def push_over_a_card(folder: Path) -> None:
    """What a person wrote in the card stays when data is pushed."""
    repo = f"{NS}/card"
    API.create_repo(repo, repo_type="dataset")
    text = "---\nlicense: mit\n---\n# By hand\n"
    written = CommitOperationAdd("README.md", text.encode())
    API.create_commit(repo, [written], commit_message="card", repo_type="dataset")
    table(0, 2).push_to_hub(repo)
    card = DatasetCard.load(repo)
    assert card.data.license == "mit"
    assert "# By hand" in card.text
    check(load_dataset(repo, split="train"), 0, 2)


def folder_up_and_down(folder: Path) -> None:
    """`upload_folder` with small and large files and many of them, `snapshot_download` at a tag, one file, ranges."""
    repo, source = f"{NS}/folder", folder / "up"
    (source / "many").mkdir(parents=True)
    big = os.urandom(BIG)
    files = {"big.bin": big, "empty": b"", "ünïcode name.txt": "ä\n".encode()}
    files |= {f"many/{n:03}.txt": f"{n}\n".encode() for n in range(300)}
    for name, data in files.items():
        (source / name).write_bytes(data)
    API.create_repo(repo)
    API.upload_folder(repo_id=repo, folder_path=source)
    API.create_tag(repo, tag="v1")
    API.upload_file(path_or_fileobj=b"changed", path_in_repo="many/000.txt", repo_id=repo)
    API.delete_file("empty", repo)
    got = Path(snapshot_download(repo, revision="v1"))
    held = {p.relative_to(got).as_posix(): p.read_bytes() for p in got.rglob("*") if p.is_file()}
    assert {name: data for name, data in held.items() if name != ".gitattributes"} == files
    assert Path(hf_hub_download(repo, "many/000.txt")).read_bytes() == b"changed"
    with HfFileSystem().open(f"{repo}@v1/big.bin", "rb", block_size=2**16) as file:
        file.seek(5 * 2**20)
        assert file.read(100) == big[5 * 2**20 : 5 * 2**20 + 100]
    checked = API.verify_repo_checksums(repo, revision="v1", local_dir=got)
    assert not checked.mismatches
    assert checked.checked_count == len(files) + 1


def a_commit_on_its_parent(folder: Path) -> None:
    """`create_commit` on the head that was seen; on an older one it is refused, and nothing is changed."""
    repo = f"{NS}/parent"
    API.create_repo(repo)
    base = API.model_info(repo).sha
    data = os.urandom(2**20)
    first = API.create_commit(repo, [CommitOperationAdd("a.bin", data)], commit_message="a", parent_commit=base)
    try:
        API.create_commit(repo, [CommitOperationAdd("b.txt", b"b")], commit_message="b", parent_commit=base)
    except HfHubHTTPError as error:
        refused: int | None = error.response.status_code
    else:
        refused = None
    assert refused == 412
    assert API.model_info(repo).sha == first.oid
    titles = [commit.title for commit in API.list_repo_commits(repo)]
    assert titles == ["a", "initial commit"]
    API.create_branch(repo, branch="side")
    request = API.create_commit(repo, [CommitOperationAdd("c.bin", data[:-1])], commit_message="c", create_pr=True)
    assert request.pr_num is not None
    API.merge_pull_request(repo, request.pr_num)
    assert {"a.bin", "c.bin"} < set(API.list_repo_files(repo))
    assert "c.bin" not in API.list_repo_files(repo, revision="side")


def a_file_system(folder: Path) -> None:
    """`HfFileSystem`: glob, read at a tag, write, remove; pandas and `datasets` over ``hf://``."""
    repo, fs = f"{NS}/fs", HfFileSystem()
    API.create_repo(repo, repo_type="dataset")
    root = f"datasets/{repo}"
    with fs.open(f"{root}/data/a.parquet", "wb") as file:
        pd.DataFrame({"n": [1, 2]}).to_parquet(file)
    API.create_tag(repo, tag="v1.0.0", repo_type="dataset")
    pd.DataFrame({"n": [3]}).to_parquet(f"hf://{root}/data/b.parquet")
    assert [name.rpartition("/")[2] for name in fs.glob(f"{root}/data/*.parquet")] == ["a.parquet", "b.parquet"]
    assert len(fs.glob(f"{root}@v1.0.0/data/*.parquet")) == 1
    assert pd.read_parquet(f"hf://{root}@v1.0.0/data/a.parquet")["n"].tolist() == [1, 2]
    tagged = load_dataset("parquet", data_files=f"hf://{root}@v1.0.0/data/*.parquet", split="train")
    both = load_dataset("parquet", data_files=f"hf://{root}/data/*.parquet", split="train")
    assert (tagged["n"][:], both["n"][:]) == ([1, 2], [1, 2, 3])
    fs.rm(f"{root}/data/b.parquet")
    assert fs.ls(f"{root}/data", detail=False, refresh=True) == [f"{root}/data/a.parquet"]


def what_is_not_there(folder: Path) -> None:
    """A missing file, revision and repository are told apart."""
    repo = f"{NS}/absent"
    API.create_repo(repo)
    for name, file, revision, error in (
        (repo, "no.txt", "main", RemoteEntryNotFoundError),
        (repo, ".gitattributes", "v9", RevisionNotFoundError),
        (f"{NS}/nowhere", "no.txt", "main", RepositoryNotFoundError),
    ):
        try:
            hf_hub_download(name, file, revision=revision)
        except error:
            continue
        raise AssertionError(f"{file} of {name} at {revision} is there")


def the_command(folder: Path) -> None:
    """`hf upload` and `hf download`."""
    source, repo = folder / "cli", f"{NS}/cli"
    source.mkdir()
    data = os.urandom(2**20)
    (source / "model.safetensors").write_bytes(data)
    (source / "config.json").write_text("{}")
    hf = str(Path(sys.executable).parent / "hf")
    for words in (["upload", repo, str(source), "."], ["download", repo, "--local-dir", str(folder / "down")]):
        done = subprocess.run([hf, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert (folder / "down" / "model.safetensors").read_bytes() == data
    assert (folder / "down" / "config.json").read_text() == "{}"


def cards(folder: Path) -> None:
    """`card.push_to_hub` asks the endpoint whether its YAML is good."""
    repo, text = f"{NS}/pushed-card", "---\nlicense: mit\n---\n# m\n"
    for kind, card in (("model", ModelCard(text)), ("dataset", DatasetCard(text))):
        API.create_repo(repo, repo_type=kind)
        card.push_to_hub(repo, repo_type=kind)
        assert type(card).load(repo).data.license == "mit"


def cards_of_the_older_line(folder: Path) -> None:
    """`card.push_to_hub` asks the official Hub whatever the endpoint is; a commit with a card does not."""
    repo = f"{NS}/pushed-card"
    API.create_repo(repo)
    text = "---\nlicense: mit\n---\n# m\n"
    API.create_commit(repo, [CommitOperationAdd("README.md", text.encode())], commit_message="card")
    assert ModelCard.load(repo).data.license == "mit"


FLOWS: list[Callable[[Path], None]] = [
    push_and_load_at_a_tag,
    push_configs_and_splits,
    push_a_stream,
    push_over_a_card,
    folder_up_and_down,
    a_commit_on_its_parent,
    a_file_system,
    what_is_not_there,
    the_command,
    cards if NEW else cards_of_the_older_line,
]


def main(folder: Path) -> None:
    for flow in FLOWS:
        begun, error = time.monotonic(), None
        place = folder / flow.__name__
        place.mkdir()
        try:
            flow(place)
        except Exception:
            error = traceback.format_exc()
        told = {"flow": flow.__name__, "seconds": round(time.monotonic() - begun, 2), "error": error}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
