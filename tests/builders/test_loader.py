"""`load.py` of a built directory: what it loads, what it joins, and that it gives nothing but what was asked for."""

from __future__ import annotations

import ast
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import datasets
import orjson
import pytest
from action_reward_models.builders import loader
from action_reward_models.builders.loader import LoadError, join, load, verify
from action_reward_models.builders.published import write_loader
from action_reward_models.schemas.ids import canonical_json, sha256_hex

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

REVISION = "v1.0.0"
REFERENCE = {"states": "embed", "selection_sft": "reference", "bt_pairs": "reference"}


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture
def build(toy: Toy) -> Build:
    for number in range(8):
        toy.scene(f"e{number}", picture=number, task=f"task {number}")
    return toy.build(validation=0.5, images=REFERENCE)


def change(folder: Path, edit: Callable[[dict[str, Any]], Any], seal: bool = True) -> None:
    path = folder / "manifest.json"
    manifest = orjson.loads(path.read_bytes())
    edit(manifest)
    if seal:
        manifest["identity_sha256"] = sha256_hex(canonical_json(manifest["identity"]))
    path.write_bytes(orjson.dumps(manifest))


def get(build: Build, table: str, split: str | None = None, **options: Any) -> Any:
    return load(table, split, **{"repo": str(build.folder), "revision": REVISION, **options})


# -- the file ----------------------------------------------------------------------------------------------------------


def test_the_build_writes_it_with_its_own_name_and_version(build: Build) -> None:
    text = (build.folder / "load.py").read_text("utf-8")
    source = Path(loader.__file__).read_text("utf-8")
    assert text == source.replace('"namespace/name"', '"someone/toy"').replace('"v0.0.0"', '"v1.0.0"')
    assert build.manifest["environment"]["files"]["load.py"]["sha256"] == sha256_hex(text)


def test_it_stands_alone_and_stays_short() -> None:
    text = Path(loader.__file__).read_text("utf-8")
    names = {
        alias.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    others = {str(name).partition(".")[0] for name in names} - set(sys.stdlib_module_names)
    assert others == {"datasets", "huggingface_hub", "pyarrow"}
    assert len(text.splitlines()) < 260


@pytest.mark.parametrize("name", ['a"; import os', "a\nb", "", "a b"])
def test_a_name_is_no_code(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is no name"):
        write_loader(tmp_path, name, "1.0.0")


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "PYTHON"))}
    env = {**kept, "HF_HOME": str(cwd.parent / "hf"), "HF_HUB_OFFLINE": "1"}
    return subprocess.run([sys.executable, *words], cwd=cwd, env=env, capture_output=True, text=True, check=False)


def test_it_runs_in_the_folder_and_from_elsewhere(build: Build, tmp_path: Path, toy: Toy) -> None:
    done = run("load.py", cwd=build.folder)
    assert done.returncode == 0, done.stderr
    assert "selection_sft    train " in done.stdout
    assert done.stdout.endswith("at v1.0.0 is as its manifest says\n")
    (tmp_path / "else").mkdir()
    shutil.copy(build.folder / "load.py", tmp_path / "else")
    code = "from load import load; print(load('bt_pairs', 'train', repo='../built-1').info.description)"
    done = run("-c", code, cwd=tmp_path / "else")
    assert done.stdout == f"bt_pairs of ../built-1 at v1.0.0, identity {build.manifest['identity_sha256']}\n"
    done = run("load.py", "--offline", cwd=tmp_path / "else")  # now of the Hub, which nobody asked before
    assert done.returncode == 1
    assert done.stderr.startswith("error: v1.0.0 of someone/toy cannot be had.\n")
    assert "in the cache: no revision of it\n" in done.stderr
    assert "next, with a network: hf download someone/toy --repo-type dataset --revision v1.0.0\n" in done.stderr


def test_it_can_be_executed_from_any_path(build: Build) -> None:
    """As one does with a file out of a cache, without a name among the modules."""
    spec = importlib.util.spec_from_file_location("load", build.folder / "load.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.load("states", "train", repo=str(build.folder)).num_rows > 0


def test_what_importing_it_leaves_is_replaced_with_the_build(toy: Toy) -> None:
    toy.scene("a")
    build = toy.build()
    assert run("-c", "import load", cwd=build.folder).returncode == 0
    assert (build.folder / "__pycache__").is_dir()
    toy.build(out=build.folder)
    assert not (build.folder / "__pycache__").exists()


# -- load --------------------------------------------------------------------------------------------------------------


def test_every_table_and_split(build: Build) -> None:
    for table, entry in build.identity["tables"].items():
        if not entry["splits"]:
            continue
        found = get(build, table)
        assert {split: rows.num_rows for split, rows in found.items()} == {
            split: part["rows"] for split, part in entry["splits"].items()
        }
        for split, rows in found.items():
            assert rows.split == split
            assert rows.column_names == get(build, table, split).column_names
    assert len(found) >= 1


def test_rows_have_the_published_types(build: Build) -> None:
    row = get(build, "states", "train")[0]
    assert row["screenshot"].size == (8, 8)
    assert get(build, "selection_sft", "train")[0]["images"][0].startswith("sha256:")
    assert isinstance(get(build, "states", "train").features["screenshot"], datasets.Image)


def test_what_a_dataset_is_stays_with_it(build: Build, tmp_path: Path) -> None:
    rows = get(build, "bt_pairs", "train")
    expected = f"bt_pairs of {build.folder} at v1.0.0, identity {build.manifest['identity_sha256']}"
    kept = rows.shuffle(seed=1).select(range(2)).map(lambda row: {"n": 1}).filter(lambda row: True)
    kept.save_to_disk(tmp_path / "saved")
    assert rows.info.description == expected == datasets.load_from_disk(tmp_path / "saved").info.description


def test_a_folder_with_signs_that_a_pattern_has(build: Build, tmp_path: Path) -> None:
    folder = build.folder.rename(tmp_path / "a[1]*?b")
    assert load("bt_pairs", repo=str(folder), revision=REVISION)["train"].num_rows > 0


@pytest.mark.parametrize(
    ("table", "split", "message"),
    [
        ("pairs", None, r"no pairs in .*There is: bt_pairs \(train, validation\); cand"),
        ("states", "test", "no states/test in "),
        ("../states", None, r"no \.\./states in "),
    ],
)
def test_a_table_or_split_that_is_not_there(build: Build, table: str, split: str | None, message: str) -> None:
    with pytest.raises(LoadError, match=message):
        get(build, table, split)


@pytest.mark.parametrize("revision", ["v1.0.1", "v1.1.0", "main", "0" * 40, "v0.0.0"])
def test_a_folder_of_another_version(build: Build, revision: str) -> None:
    with pytest.raises(LoadError, match=rf"{revision} of .* was asked for, and .* holds v1\.0\.0"):
        get(build, "states", revision=revision)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="cannot be had"):
        load("states", repo=str(tmp_path / "nowhere"), revision=REVISION, offline=True)


def test_a_folder_that_says_it_is_withdrawn(build: Build) -> None:
    """As `arm pull` of branch main gives it; nobody is asked."""
    change(build.folder, lambda m: m["environment"].update(withdrawn={"0.9.0": "old", "1.0.0": "wrong\x1b[2Jlabels"}))
    with pytest.warns(UserWarning, match="was withdrawn") as seen:
        assert get(build, "states")["train"].num_rows > 0
    (warning,) = seen
    assert str(warning.message) == (
        f"v1.0.0 of {build.folder} was withdrawn by its publisher: 'wrong\\x1b[2Jlabels'; no newer version is better."
    )
    with pytest.warns(UserWarning, match="was withdrawn"):
        verify(repo=str(build.folder), revision=REVISION)
    others: list[Any] = [{"0.9.0": "old"}, {}, [], 1, None]
    for nothing in others:
        change(build.folder, lambda m, nothing=nothing: m["environment"].update(withdrawn=nothing))  # type: ignore[misc]
        assert get(build, "states")["train"].num_rows > 0


# -- damage ------------------------------------------------------------------------------------------------------------


def refused(build: Build, message: str, table: str = "states") -> None:
    with pytest.raises(LoadError, match=message):
        get(build, table)
    with pytest.raises(LoadError, match=message):
        verify(repo=str(build.folder), revision=REVISION)


def test_verify_counts(build: Build) -> None:
    assert verify(repo=str(build.folder), revision=REVISION) == {
        table: {split: part["rows"] for split, part in entry["splits"].items()}
        for table, entry in build.identity["tables"].items()
    }


@pytest.mark.parametrize("at", [0.01, 0.5, 0.99])
def test_one_flipped_bit_is_found_also_after_a_good_load(build: Build, at: float) -> None:
    get(build, "states")
    path = build.files("states")[0]
    data = bytearray(path.read_bytes())
    data[int(len(data) * at)] ^= 1
    path.write_bytes(data)
    refused(build, f"{path.name} is damaged: delete ")


def test_a_missing_file(build: Build) -> None:
    path = build.files("states")[0]
    path.unlink()
    refused(build, f"data/states/{path.name} is not there")
    assert get(build, "bt_pairs")["train"].num_rows > 0  # another table is whole


def test_a_damaged_file_beside_the_data(build: Build) -> None:
    (build.folder / "schemas" / "state-1.json").write_text("{}")
    with pytest.raises(LoadError, match=r"schemas/state-1\.json is damaged"):
        verify(repo=str(build.folder), revision=REVISION)


def test_a_changed_manifest(build: Build) -> None:
    change(build.folder, lambda m: m["identity"].update(version="1.0.1"), seal=False)
    refused(build, "is damaged, or not for this load.py")


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"manifest": 1}', b'{"identity": {}, "identity_sha256": 1}'])
def test_no_manifest(build: Build, data: bytes) -> None:
    (build.folder / "manifest.json").write_bytes(data)
    refused(build, "is damaged, or not for this load.py")


def test_a_manifest_of_the_future(build: Build) -> None:
    change(build.folder, lambda m: m.update(manifest=2))
    refused(build, "not for this load.py")


@pytest.mark.parametrize("name", ["../outside.parquet", "/etc/hostname", "a\\b", "data//x", "a\n"])
def test_a_manifest_that_names_files_elsewhere(build: Build, name: str) -> None:
    (build.folder.parent / "outside.parquet").write_bytes(b"x")

    def edit(manifest: dict[str, Any]) -> None:
        manifest["identity"]["tables"]["states"]["splits"]["train"]["files"][0]["path"] = name
        manifest["environment"]["files"][name] = {"sha256": sha256_hex("x"), "bytes": 1}

    change(build.folder, edit)
    refused(build, "is no path that a manifest may name")


def test_a_wrong_count(build: Build) -> None:
    change(build.folder, lambda m: m["identity"]["tables"]["states"]["splits"]["train"].update(rows=99))
    refused(build, r"rows, not 99\.")


def test_a_data_file_without_a_hash(build: Build) -> None:
    name = build.files("states")[0].relative_to(build.folder).as_posix()
    change(build.folder, lambda m: m["environment"]["files"].pop(name))
    refused(build, f"{name} is damaged")


# -- join --------------------------------------------------------------------------------------------------------------


def test_pairs_with_their_states(build: Build) -> None:
    pairs, states = get(build, "bt_pairs", "train"), get(build, "states", "train")
    joined = join(pairs, states, on="state_id")
    assert joined["pair_id"] == pairs["pair_id"]
    assert set(joined.column_names) == {*pairs.column_names, *states.column_names}
    tasks = dict(zip(states["state_id"], states["task"], strict=True))
    assert joined["task"][:] == [tasks[name] for name in pairs["state_id"]]
    assert [f"sha256:{row['screenshot_sha256']}" for row in joined] == [row["images"][0] for row in pairs]
    assert joined[0]["screenshot"].size == (8, 8)
    assert joined.info.description == pairs.info.description


def test_all_splits_at_once(build: Build) -> None:
    joined = join(get(build, "selection_sft"), get(build, "candidate_sets"), on="set_id")
    assert {name: rows.num_rows for name, rows in joined.items()} == {
        name: rows.num_rows for name, rows in get(build, "selection_sft").items()
    }
    assert "candidates" in joined["train"].column_names


def test_pictures_in_place_of_their_hashes(build: Build) -> None:
    """As if the table had been built with its pictures."""
    rows = get(build, "selection_sft", "train")
    joined = join(rows, get(build, "states", "train"), on="images")
    assert joined.column_names == rows.column_names
    assert joined.features["images"] == datasets.List(datasets.Image())
    stored = joined.cast_column("images", datasets.List(datasets.Image(decode=False)))
    for before, after in zip(rows, stored, strict=True):
        assert [f"sha256:{sha256_hex(picture['bytes'])}" for picture in after["images"]] == before["images"]
    assert joined[0]["images"][0].size == (8, 8)
    assert joined.info.description == rows.info.description
    with pytest.raises(LoadError, match="hold their pictures already"):
        join(joined, get(build, "states", "train"), on="images")


def test_rows_without_a_partner(build: Build) -> None:
    with pytest.raises(LoadError, match=r"have no partner: state_id 'e\d__t0'. Is it another split\?"):
        join(get(build, "bt_pairs", "train"), get(build, "states", "validation"), on="state_id")
    with pytest.raises(LoadError, match="have no partner: screenshot 'sha256:"):
        join(get(build, "bt_pairs", "train"), get(build, "states", "validation"), on="images")


def test_one_id_with_several_rows_is_no_partner(toy: Toy) -> None:
    toy.scene("a", "click(1, 1)", "click(7, 7)", "stop()")
    build = toy.build()
    with pytest.raises(LoadError, match="names several rows"):
        join(get(build, "states", "train"), get(build, "bt_pairs", "train"), on="state_id")


def test_rows_of_two_builds(build: Build, toy: Toy) -> None:
    toy.scene("more")
    other = toy.build(validation=0.5)
    with pytest.raises(LoadError, match="come from two builds"):
        join(get(build, "bt_pairs", "train"), get(other, "states", "train"), on="state_id")


def test_a_join_on_what_is_no_common_column(build: Build) -> None:
    rows = get(build, "states", "train")
    with pytest.raises(LoadError, match="Both tables need the column nope"):
        join(rows, rows, on="nope")
