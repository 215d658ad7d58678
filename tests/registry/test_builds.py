"""A built directory as a whole: a card that would load something else is no clean build."""

from __future__ import annotations

import shutil
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from action_reward_models.hub_sync.scan import scan
from action_reward_models.hub_sync.verify import verify_folder
from action_reward_models.registry import Registry, Side, check_build, compare
from action_reward_models.registry.sources.tables import write_table
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.ids import file_sha256

EXAMPLE = Path(__file__).parents[2] / "examples" / "miniwob" / "registry.yaml"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "build"
    Registry.load(EXAMPLE).build(out=folder, workers=1)
    return folder


@pytest.fixture
def build(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "build"))


def test_a_fresh_build_is_clean(build: Path) -> None:
    assert check_build(build) == []


def test_a_card_that_loads_other_files(build: Path) -> None:
    """Stock `datasets` reads what the card's YAML names: other labels in other files would pass for these."""
    card = build / "README.md"
    shutil.copytree(build / "data" / "bt_pairs", build / "more")
    card.write_text(card.read_text("utf-8").replace("path: data/bt_pairs/", "path: more/"), "utf-8")
    found = {issue.file: issue.message for issue in check_build(build)}
    assert found["README.md"].startswith("its configs is not that of the manifest: `load_dataset` would read")
    assert found["more/train-00000-of-00001.parquet"] == "is not in the manifest"


@pytest.mark.parametrize("text", ["", "no yaml", "---\n- a\n---\n", "---\nconfigs: {\n---\n"])
def test_a_card_without_a_loader(text: str, build: Path) -> None:
    (build / "README.md").write_text(text, "utf-8")
    found = check_build(build)
    assert found
    assert {issue.file for issue in found} == {"README.md"}


def test_a_file_that_expands_beyond_measure_is_told_and_read_by_nobody(build: Path, tmp_path: Path) -> None:
    """Six kilobytes that stand for 4,000 values of 1 MB, with a manifest that agrees."""
    name = "data/teacher_labels/train-00000-of-00001.parquet"
    other = Path(shutil.copytree(build, tmp_path / "other"))
    label = pq.read_table(build / name).slice(0, 1)
    many = {column: pa.repeat(label[column][0], 4000) for column in label.column_names}
    codes = pa.repeat(pa.scalar(0, pa.int32()), 4000)
    many["reasoning"] = pa.DictionaryArray.from_arrays(codes, pa.array(["x" * 1_000_000]))
    pq.write_table(pa.table(many), build / name, compression="zstd", store_schema=False)
    manifest = orjson.loads((build / "manifest.json").read_bytes())
    manifest["environment"]["files"][name] = {
        "sha256": file_sha256(build / name),
        "bytes": (build / name).stat().st_size,
    }
    labels = manifest["identity"]["tables"]["teacher_labels"]
    more = 4000 - labels["splits"]["train"]["rows"]
    for part in (labels, labels["splits"]["train"], labels["splits"]["train"]["files"][0]):
        part["rows"] += more
    labels["row_digest"] = labels["splits"]["train"]["files"][0]["row_digest"] = "0" * 64
    (build / "manifest.json").write_bytes(orjson.dumps(manifest))
    expands = "row group 0 expands to 4,000,"
    assert [issue.file for issue in check_build(build) if expands in issue.message] == [name]
    found = verify_folder(build, check_build)
    assert (found.loaded, [issue.file for issue in found.issues if expands in issue.message]) == ({}, [name])
    assert [issue.file for issue in scan(build, [name], lambda *_: None)[1] if expands in issue.message] == [name]
    with pytest.raises(ArmError, match=expands):
        compare(Side.folder(other), Side.folder(build))
    with pytest.raises(ArmError, match=expands):
        write_table(manifest, build, "teacher_labels", tmp_path / "out", "here", lambda *_: None)


def test_a_persons_words_are_no_problem(build: Path) -> None:
    card = build / "README.md"
    card.write_text(card.read_text("utf-8") + "\nCite us.\n", "utf-8")
    assert check_build(build) == []


@pytest.mark.parametrize("number", ["0.0.9", None])
def test_other_code_may_have_worded_the_card_otherwise(number: str | None, build: Path) -> None:
    """A version stays what it is when the next arm writes cards in other words; what loads is compared all the same."""
    manifest = orjson.loads((build / "manifest.json").read_bytes())
    manifest["environment"]["code_sha256"] = "0" * 64
    if number:
        manifest["environment"]["action_reward_models"] = number
    (build / "manifest.json").write_bytes(orjson.dumps(manifest))
    card = build / "README.md"
    worded = card.read_text("utf-8").replace("## ", "## Of ")
    card.write_text(worded, "utf-8")
    assert check_build(build) == []
    card.write_text(worded.replace("path: data/bt_pairs/", "path: data/states/"), "utf-8")
    assert [issue.file for issue in check_build(build)] == ["README.md"]
