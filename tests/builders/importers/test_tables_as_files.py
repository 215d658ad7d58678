"""Our own tables as files of a source: Parquet as a build wrote it, and JSON Lines of the same rows."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from action_reward_models.builders import redact
from action_reward_models.builders.importers.containers import records
from action_reward_models.builders.spec import DEFAULT_RULES, SourceSpec
from action_reward_models.registry import Registry
from action_reward_models.registry.sources.store import Store
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.ids import file_sha256
from action_reward_models.schemas.store import TABLES, load

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

EXAMPLE = Path(__file__).parents[3] / "examples" / "miniwob"
Record = dict[str, Any]
BASE = ("states", "candidate_sets", "teacher_labels")
SPOKEN = {"dialect": "function", "space": "pixel"}


def as_files(built: Build, kind: str) -> tuple[tuple[str, Path], ...]:
    """The Parquet files of a table, under the names that a registry would publish."""
    return tuple((f"{kind}/{path.name}", path) for path in built.files(kind))


def as_lines(built: Build, kind: str, folder: Path) -> tuple[tuple[str, Path], ...]:
    """The same rows as JSON Lines, in one file."""
    path = folder / f"{kind}.jsonl"
    path.write_bytes(b"".join(line.raw + b"\n" for file in built.files(kind) for line in records(file)))
    return ((path.name, path),)


def table(kind: str, files: tuple[tuple[str, Path], ...], **fields: Any) -> SourceSpec:
    spoken = {} if kind in ("teacher_labels", "selection_sft", "pointwise_scores") else SPOKEN
    return SourceSpec(kind, "table", files, "mit", **spoken, **fields)  # type: ignore[arg-type]


@pytest.fixture
def example(toy: Toy) -> Build:
    spec = Registry.load(EXAMPLE).dataset()
    return toy.build(**{name: getattr(spec, name) for name in spec.__dataclass_fields__})


def test_the_example_is_the_same_when_it_is_built_from_its_own_files(toy: Toy, example: Build) -> None:
    fields = {name: getattr(example.spec, name) for name in example.spec.__dataclass_fields__}
    parquet = tuple(table(kind, as_files(example, kind)) for kind in BASE)
    after = toy.build(**fields | {"sources": parquet})
    assert after.digests == example.digests
    assert after.identity["tables"] == example.identity["tables"]
    assert after.identity["ledger"] == example.identity["ledger"]
    (file, *_) = example.files("states")
    said = {entry["path"]: entry for source in after.identity["sources"] for entry in source["files"]}
    assert said[f"states/{file.name}"]["sha256"] == file_sha256(file)  # of the Parquet file, not of what it was read as
    assert said[f"states/{file.name}"]["bytes"] == file.stat().st_size
    lines = tuple(table(kind, as_lines(example, kind, toy.folder)) for kind in BASE)
    assert toy.build(**fields | {"sources": lines}).digests == example.digests
    two = replace(example.spec, shards=2)
    digests = toy.build(**{n: getattr(two, n) for n in fields} | {"sources": parquet}).digests
    assert digests == example.digests  # and however many buckets there are


READY = ("selection_sft", "bt_pairs")


def test_training_rows_of_the_example_are_taken_as_they_are(toy: Toy, example: Build) -> None:
    """Their split is decided again, by the picture: nothing else in them changes, as Parquet or as JSON Lines."""
    images = dict.fromkeys(READY, "embed")
    changes: Record = {"tables": READY, "images": images, "selection": None, "pairs": None}
    built = toy.build(sources=tuple(table(kind, as_files(example, kind)) for kind in READY), **changes)
    assert built.balanced()
    for kind, key in zip(READY, ("row_id", "pair_id"), strict=True):
        before = {row[key]: {**row, "split": None} for row in example.rows(kind)}
        after = {row[key]: {**row, "split": None} for row in built.rows(kind)}
        assert len(before) > 80
        assert after == before
    lines = tuple(table(kind, as_lines(example, kind, toy.folder)) for kind in READY)
    assert toy.build(sources=lines, **changes).digests == built.digests


def test_the_recorded_relation_is_held_against_the_rules(toy: Toy, example: Build) -> None:
    """It was found with the elements of the page, which the pair alone does not have."""
    source = table("bt_pairs", as_files(example, "bt_pairs"))
    rules = {**DEFAULT_RULES, "coordinate_only": "quarantine"}
    built = toy.build(
        sources=(source,), tables=("bt_pairs",), images={"bt_pairs": "embed"}, selection=None, pairs=None,
        ready_rules=rules,
    )  # fmt: skip
    assert built.balanced()
    apart = [row["pair_id"] for row in example.rows("bt_pairs", relation="coordinate_only")]
    assert built.excluded("bt_pairs") == {"coordinate_only": sorted(apart)}
    assert len(apart) > 20
    assert len(built.rows("bt_pairs")) == len(example.rows("bt_pairs")) - len(apart)


def test_training_rows_of_a_version_are_the_same_lines(toy: Toy, example: Build) -> None:
    identity, repo = example.manifest["identity_sha256"], f"{example.spec.namespace}/{example.spec.name}"
    for kind, key in zip(READY, ("row_id", "pair_id"), strict=True):
        path = Store(toy.folder / ".sources").table(None, repo, "1.0.0", None, identity, kind, example.folder)
        ((_, lines),) = as_lines(example, kind, toy.folder)
        expected = sorted(lines.read_bytes().splitlines(), key=lambda line: json.loads(line)[key])
        assert path.read_bytes().splitlines() == expected


def test_scores_with_pictures_come_as_lines_and_as_parquet(toy: Toy) -> None:
    row = {
        **dict.fromkeys(("state_id", "set_id", "candidate_index", "prompt_id", "prompt_sha256")),
        "score_id": "s1", "unit": "step", "score": 0.25, "score_source": "prm", "images": [toy.data_url(1)],
        "prompt": [{"role": "user", "content": [{"type": "text", "text": "See"}, {"type": "image", "text": None}]}],
        "completion": [{"role": "assistant", "content": [{"type": "text", "text": "click(1, 1)"}]}],
    }  # fmt: skip
    changes: Record = {
        "tables": ("pointwise_scores",), "images": {"pointwise_scores": "embed"}, "selection": None, "pairs": None,
    }  # fmt: skip
    first = toy.build(sources=(toy.lay("pointwise_scores", "table", "scores.jsonl", [row]),), **changes)
    second = toy.build(sources=(table("pointwise_scores", as_files(first, "pointwise_scores")),), **changes)
    assert first.row("pointwise_scores")["score"] == 0.25
    assert second.digests == first.digests


# -- faults ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def small(toy: Toy) -> Build:
    for number in range(3):
        toy.scene(f"page-{number}", picture=number, task=f"Click number {number}.")
    return toy.build(images={"states": "embed", "selection_sft": "reference", "bt_pairs": "embed"})


def rewritten(built: Build, kind: str, folder: Path, change: Any) -> tuple[tuple[str, Path], ...]:
    """The first file of a table after ``change`` of its Arrow table."""
    made = change(pq.read_table(built.files(kind)[0]))
    path = folder / f"changed-{kind}.parquet"
    pq.write_table(made, path)
    return ((path.name, path),)


def without(name: str) -> Any:
    return lambda rows: rows.drop_columns([name])


def renamed(before: str, after: str) -> Any:
    return lambda rows: rows.rename_columns([after if n == before else n for n in rows.column_names])


def problem_of(toy: Toy, source: SourceSpec) -> str:
    with pytest.raises(ArmError) as caught:
        toy.build(sources=(source,), tables=(source.kind,), images={source.kind: "embed"}, selection=None, pairs=None)
    (issue,) = caught.value.issues
    assert (issue.line, issue.path) == (0, "$")
    return issue.message


def test_other_columns_are_named(toy: Toy, small: Build) -> None:
    states = table("states", rewritten(small, "states", toy.folder, without("history")))
    assert problem_of(toy, states) == "has not the columns of states (state/1): it lacks history"
    more = table("states", rewritten(small, "states", toy.folder, renamed("url", "address")))
    assert problem_of(toy, more) == "has not the columns of states (state/1): it lacks url; has address, too"
    labels = table("states", as_files(small, "teacher_labels"))
    assert problem_of(toy, labels) == "has the columns of teacher_labels, and is declared as states"


def test_a_table_without_its_pictures_is_refused(toy: Toy, small: Build) -> None:
    message = problem_of(toy, table("selection_sft", as_files(small, "selection_sft")))
    assert message == "has only the hashes of its pictures in images (images: reference); they are not in it"


def test_a_file_that_is_cut_or_no_parquet_is_refused(toy: Toy, small: Build) -> None:
    for name, data in (("cut", small.files("states")[0].read_bytes()[:-100]), ("text", b"{}\n"), ("empty", b"")):
        path = toy.folder / f"{name}.parquet"
        path.write_bytes(data)
        assert problem_of(toy, table("states", ((path.name, path),))).startswith("cannot be read as Parquet: ")


def test_a_damaged_page_is_refused(toy: Toy, small: Build) -> None:
    data = bytearray(small.files("states")[0].read_bytes())
    data[200:400] = b"\xff" * 200
    path = toy.folder / "damaged.parquet"
    path.write_bytes(data)
    assert "cannot be read as Parquet: " in problem_of(toy, table("states", ((path.name, path),)))


def test_a_file_that_expands_beyond_measure_is_refused(toy: Toy) -> None:
    path = toy.folder / "bomb.parquet"
    columns = {name: pa.nulls(200_000, pa.string()) for name in load(TABLES["teacher_labels"])["properties"]}
    pq.write_table(pa.table(columns), path)
    message = problem_of(toy, table("teacher_labels", ((path.name, path),)))
    assert message.startswith("cannot be read as Parquet: it has 200,000 rows in ")


def test_parquet_of_another_format_is_refused(toy: Toy, small: Build) -> None:
    source = SourceSpec("states", "first_release", as_files(small, "states")[:1], "mit", **SPOKEN)  # type: ignore[arg-type]
    assert problem_of(toy, source) == "is Parquet, of which our own tables are read, with format: table"


def nullified(rows: pa.Table) -> pa.Table:
    """The table with a second row whose state has no id."""
    ids = rows.column("state_id").to_pylist()
    return rows.set_column(0, "state_id", pa.array([ids[0], None, *ids[2:]]))


def test_a_row_that_breaks_the_schema_is_named_by_its_number(toy: Toy, small: Build) -> None:
    files = rewritten(small, "states", toy.folder, nullified)
    with pytest.raises(ArmError) as caught:
        toy.build(sources=(table("states", files),), tables=("states",))
    (issue,) = caught.value.issues
    assert (issue.file, issue.line, issue.path) == ("changed-states.parquet", 2, "$.state_id")
    assert issue.message == "is null, not a string"
    built = toy.build(sources=(table("states", files, on_invalid="exclude"),), tables=("states",))
    assert built.balanced()
    assert len(built.rows("states")) == 2
    assert len(built.excluded("states")["invalid_record"]) == 1


def test_sets_and_labels_of_parquet_join_and_conflict_like_any(toy: Toy, small: Build) -> None:
    files = rewritten(small, "teacher_labels", toy.folder, lambda rows: pa.concat_tables([rows, rows.slice(0, 1)]))
    sources = [table(kind, as_files(small, kind)) for kind in BASE[:2]]
    built = toy.build(sources=(*sources, table("teacher_labels", files)))
    assert built.balanced()
    assert {reason: len(ids) for reason, ids in built.excluded("teacher_labels").items()} == {"duplicate_record": 1}
    assert built.digests["teacher_labels"] == small.digests["teacher_labels"]


@pytest.mark.parametrize(
    ("change", "place", "message"),
    [
        ({"images": ["sha256:" + "a" * 64]}, "$.images[0]", "does not match ^data:image/"),
        ({"images": []}, "$.images", "has 0 pictures, and the prompt has <image> 1 times"),
        ({"order": [0]}, "$.completion", "is out_of_range, and 1 candidates are shown"),
        (
            {"completion": [{"role": "assistant", "content": [{"type": "text", "text": "2"}]}]},
            "$.completion",
            "unparsed",
        ),
        ({"split": "train"}, "$.split", "is not a known field"),
        ({"row_id": None}, "$.row_id", "is null, not a string"),
    ],
    ids=["hash", "no_picture", "order", "reply", "split", "id"],
)
def test_planted_faults_of_lines_are_named(toy: Toy, change: Record, place: str, message: str) -> None:
    row = {
        **dict.fromkeys(("label_id", "set_id", "state_id", "prompt_id", "prompt_sha256")),
        "row_id": "r1", "order": [1, 0], "images": [toy.data_url(1)],
        "prompt": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Pick."}]}],
        "completion": [{"role": "assistant", "content": [{"type": "text", "text": '{"selection": 2}'}]}],
    }  # fmt: skip
    source = toy.lay("selection_sft", "table", "rows.jsonl", [row, {**row, "row_id": "r2", **change}])
    with pytest.raises(ArmError) as caught:
        toy.build(sources=(source,), tables=("selection_sft",), images={"selection_sft": "embed"}, selection=None)
    (issue,) = caught.value.issues
    assert (issue.file, issue.line, issue.path) == ("rows.jsonl", 2, place)
    assert message in issue.message


REGISTRY = """\
registry: 1
namespace: lab
datasets:
  - name: again
    version: 1.0.0
    license: mit
    sources:
      - {kind: states, format: table, path: built-1/data/states/*.parquet, dialect: function, space: pixel}
      - {kind: candidate_sets, format: table, path: candidate_sets.jsonl, dialect: function, space: pixel}
      - {kind: teacher_labels, format: table, path: built-1/data/teacher_labels/*.parquet}
    split: {validation: 0, seed: 1}
    tables: {states: {}, candidate_sets: {}, teacher_labels: {}}
"""


def test_a_registry_names_tables_by_path(toy: Toy, small: Build) -> None:
    as_lines(small, "candidate_sets", toy.folder)
    (toy.folder / "registry.yaml").write_text(REGISTRY, "utf-8")
    made, _ = Registry.load(toy.folder).build(workers=1)
    assert made is not None
    found = {name: entry["row_digest"] for name, entry in made.manifest["identity"]["tables"].items() if name in BASE}
    assert found == {name: small.digests[name] for name in BASE}
    again, reasons = Registry.load(toy.folder).build(workers=1)
    assert (again, reasons) == (None, [])  # nothing changed


def test_secrets_are_sought_and_replaced_in_the_rows(toy: Toy) -> None:
    key = "AKIA" + "Q3EGVH5TPLK2MNB7"
    toy.scene("page", task=f"Use {key} now.")
    built = toy.build(tables=("states",))
    source = table("states", as_files(built, "states"))
    again = toy.build(sources=(source,), tables=("states",), redact=("secrets",))
    assert key not in json.dumps(again.rows("states"))
    found = list(redact.sought(toy.spec(sources=(source,), tables=("states",))))
    assert {(issue.file, issue.line) for issue in found} == {(source.files[0][0], 1)}
    assert base64.b64encode(toy.png(0)).decode() not in str(found)
