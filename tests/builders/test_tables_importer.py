"""Tables of a published dataset as sources of another: nothing is lost, and nothing is believed."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders.spec import (
    BASE_TABLES,
    Origin,
    PairSpec,
    PromptSpec,
    SelectionSpec,
    SourceSpec,
)
from action_reward_models.registry import Registry
from action_reward_models.registry.sources.store import Store
from action_reward_models.schemas.errors import ArmError

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

EXAMPLE = Path(__file__).parents[2] / "examples" / "miniwob"
Record = dict[str, Any]
Change = Callable[[Record], object]


def sources(built: Build, folder: Path, dialect: str = "function", space: str = "pixel") -> tuple[SourceSpec, ...]:
    """The three tables of a build, as a dataset that rests on them declares them."""
    store, repo = Store(folder / ".sources"), f"{built.spec.namespace}/{built.spec.name}"
    identity = built.manifest["identity_sha256"]
    found = []
    for kind in BASE_TABLES:
        path = store.table(None, repo, built.spec.version, None, identity, kind, built.folder)
        spoken = {} if kind == "teacher_labels" else {"dialect": dialect, "space": space}
        origin = Origin(repo, f"v{built.spec.version}", identity_sha256=identity)
        files = ((f"{repo}@v1.0.0/{kind}", path),)
        found.append(SourceSpec(kind, "table", files, "mit", origin=origin, **spoken))  # type: ignore[arg-type]
    return tuple(found)


def changed(source: SourceSpec, folder: Path, change: Change) -> SourceSpec:
    """The source with its first record changed, in a file of its own."""
    ((name, path),) = source.files
    first, *others = path.read_bytes().splitlines(keepends=True)
    record = json.loads(first)
    change(record)
    own = folder / f"changed-{source.kind}.jsonl"
    own.write_bytes(json.dumps(record).encode() + b"\n" + b"".join(others))
    return replace(source, files=((name, own),))


@pytest.fixture
def upstream(toy: Toy) -> Build:
    """Three scenes; the second without a label that could be used."""
    for number, pick in enumerate((1, None, 0)):
        toy.scene(f"page-{number}", pick=pick, picture=number, task=f"Click number {number}.")
    return toy.build()


def test_the_example_is_the_same_when_it_is_built_from_its_own_tables(toy: Toy) -> None:
    """Every table has the digest that it has upstream: nothing that decides a row was lost."""
    spec = Registry.load(EXAMPLE).dataset()
    before = toy.build(**{f: getattr(spec, f) for f in spec.__dataclass_fields__})
    after = toy.build(
        **{f: getattr(spec, f) for f in spec.__dataclass_fields__} | {"sources": sources(before, toy.folder)}
    )
    assert after.digests == before.digests
    assert after.identity["tables"] == before.identity["tables"]
    assert after.identity["statistics"] == before.identity["statistics"]
    assert after.identity["ledger"] == before.identity["ledger"]
    assert sum(entry["rows"] for entry in after.identity["tables"].values()) == 928
    assert {row["source"]["file"] for row in after.rows("states")} == {
        "your-name/action-reward-models-data@v1.0.0/states"
    }


def test_what_was_excluded_upstream_is_not_there_to_be_excluded_again(toy: Toy) -> None:
    """Records that became no row are the difference: their exclusions are upstream's, not those of what rests on it."""
    toy.scene("page", "click(1, 1)", "click(7, 7)")
    toy.labels.append(toy.labels[0])
    toy.draw("nowhere__t0", "click(1, 1)")
    toy.page("bare", picture=5)
    before = toy.build()
    after = toy.build(sources=sources(before, toy.folder))
    tables = [table for table in before.digests if table != "exclusions"]
    assert [after.digests[table] for table in tables] == [before.digests[table] for table in tables]
    assert before.excluded("candidate_sets") == {"no_state": ["nowhere__t0#d0"]}
    assert before.excluded("teacher_labels") == {"duplicate_record": ["page__t0#d0|-|-|0"]}
    assert after.excluded("candidate_sets") == after.excluded("teacher_labels") == {}
    assert after.excluded("coverage") == before.excluded("coverage") == {"no_candidate_set": ["bare__t0"]}
    assert after.balanced()


RECORDED: dict[str, tuple[Record, Record]] = {
    # kind -> (what the record says, what the row then has)
    "candidate_sets": (
        {
            "actor": "policy-9b",
            "actor_revision": "abc",
            "sampling": {
                "temperature": 0.7, "top_p": 0.9, "top_k": 20, "min_p": 0.0, "max_tokens": 512, "seed": -3,
                "engine": "vllm", "engine_version": "0.9",
            },
            "source_record_json": '{"n":3}',
        },
        {},
    ),
    "teacher_labels": (
        {
            "label_id": "anything at all",
            "teacher": "judge",
            "teacher_params_json": '{"temperature":0}',
            "repeat": 2,
            "prompt_id": "selection/1",
            "prompt_sha256": "f" * 64,
            "order": [2, 0, 1],
            "selected_index": 2,
            "reasoning": "The other two miss.",
            "reply": '{"selection": 1}',
            "usage_json": '{"prompt_tokens":12}',
            "batch_id": "b-1",
            "custom_id": "c-1",
            "source_record_json": '{"extra":true}',
        },
        {"status": "ok", "tie_indices": []},
    ),
    "states": (
        {
            "screenshot_ops": ["to_rgb"],
            "url": "https://Example.org/a",
            "host": "example.org",
            "task_group": "a" * 64,  # of the words before they were redacted
            "elements": [{"index": 0, "tag": "button", "text": "One", "box": [0, 0.5, 4, 4]}],
            "episode_outcome": 1,
            "messages_json": '[{"role":"user"}]',
            "tools_json": "[]",
            "demo_response": "click(1, 1)",
            "source_record_json": '{"rest":1}',
        },
        {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", BASE_TABLES)
def test_what_upstream_recorded_stays_through_two_datasets(toy: Toy, upstream: Build, kind: str) -> None:
    said, made = RECORDED[kind]
    declared = [
        changed(s, toy.folder, lambda r: r.update(said)) if s.kind == kind else s for s in sources(upstream, toy.folder)
    ]
    first = toy.build(sources=tuple(declared))
    second = toy.build(sources=sources(first, toy.folder))
    for built in (first, second):
        row = next(row for row in built.rows(kind) if all(row[name] == value for name, value in said.items()))
        assert {name: row[name] for name in made} == made
    assert second.digests == first.digests != upstream.digests


def test_what_was_recorded_of_each_candidate_stays(toy: Toy, upstream: Build) -> None:
    facts: list[Record] = [
        {"finish_reason": "stop", "tokens": 12, "logprob": -1.5},
        {"finish_reason": "length", "tokens": None, "logprob": -0.0},
        {"finish_reason": None, "tokens": 3, "logprob": None},
    ]

    def change(record: Record) -> None:
        for candidate, fact in zip(record["candidates"], facts, strict=True):
            candidate.update(fact)

    states, sets, labels = sources(upstream, toy.folder)
    first = toy.build(sources=(states, changed(sets, toy.folder, change), labels))
    second = toy.build(sources=sources(first, toy.folder))
    for built in (first, second):
        row = built.row("candidate_sets", set_id="page-0__t0#d0")
        assert [{name: c[name] for name in facts[0]} for c in row["candidates"]] == facts
        assert [c["action_key"] for c in row["candidates"]] == [
            c["action_key"] for c in upstream.row("candidate_sets", set_id="page-0__t0#d0")["candidates"]
        ]


@pytest.mark.parametrize("status", ["none_fit", "abstain", "truncated", "missing", "out_of_range"])
def test_the_outcome_of_a_label_without_a_pick_stays(toy: Toy, upstream: Build, status: str) -> None:
    states, sets, labels = sources(upstream, toy.folder)
    lost = changed(labels, toy.folder, lambda r: r.update(status=status, selected_index=None))
    built = toy.build(sources=(states, sets, lost))
    row = built.row("teacher_labels", set_id="page-0__t0#d0")
    assert (row["status"], row["selected_index"], row["tie_indices"]) == (status, None, [])
    assert built.excluded("selection_sft")[status] == ["page-0__t0#d0|-|-|0"]


def test_a_pick_that_no_candidate_has_is_an_outcome(toy: Toy, upstream: Build) -> None:
    states, sets, labels = sources(upstream, toy.folder)
    built = toy.build(sources=(states, sets, changed(labels, toy.folder, lambda r: r.update(selected_index=7))))
    row = built.row("teacher_labels", set_id="page-0__t0#d0")
    assert (row["status"], row["selected_index"]) == ("out_of_range", None)
    assert row["source_record_json"] == '{"selection":7}'


def test_what_is_declared_fills_only_what_is_not_said(toy: Toy, upstream: Build) -> None:
    states, sets, labels = sources(upstream, toy.folder)
    sets = changed(sets, toy.folder, lambda r: r.update(actor="said", sampling={**r["sampling"], "top_k": 5}))
    labels = changed(labels, toy.folder, lambda r: r.update(teacher="said"))
    sets = replace(sets, constants={"actor": "declared", "sampling": {"top_k": 9, "temperature": 0.5}})
    built = toy.build(sources=(states, sets, replace(labels, constants={"teacher": "declared"})))
    rows = [built.row("candidate_sets", set_id=f"page-{n}__t0#d0") for n in (0, 1)]
    assert [(r["actor"], r["sampling"]["top_k"], r["sampling"]["temperature"]) for r in rows] == [
        ("said", 5, 0.5),
        ("declared", 9, 0.5),
    ]
    assert [row["teacher"] for row in built.rows("teacher_labels")] == ["said", "declared", "declared"]
    assert [row["label_id"] for row in built.rows("teacher_labels")] == [f"page-{n}__t0#d0|-|-|0" for n in range(3)]


def test_a_picture_that_was_changed_upstream_says_so_downstream(toy: Toy) -> None:
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGBA", (8, 8), (200, 10, 10, 90)).save(buffer, "PNG")
    toy.scene("page", picture=buffer.getvalue())
    before = toy.build()
    after = toy.build(sources=sources(before, toy.folder))
    (row,) = before.rows("states")
    assert row["screenshot_ops"]
    assert after.digests == before.digests
    assert after.rows("states")[0]["screenshot_ops"] == row["screenshot_ops"]


def test_text_only_agents_have_no_picture(toy: Toy) -> None:
    toy.scene("page", picture=None, text="A page with a button.")
    options: Record = {"selection": SelectionSpec(_text("selection/1")), "pairs": PairSpec(_text("scalar/1"))}
    before = toy.build(**options)
    after = toy.build(sources=sources(before, toy.folder), **options)
    assert after.digests == before.digests
    assert after.identity["tables"]["selection_sft"]["rows"] == 1


def _text(prompt: str) -> PromptSpec:
    return PromptSpec(prompt, options={"observation": "text"})


def test_raw_records_and_their_own_table_are_one_state(toy: Toy, upstream: Build) -> None:
    """A dataset may add records to a published one; a state that comes both ways is a repeat, not a conflict."""
    states, sets, labels = sources(upstream, toy.folder)
    episodes = next(s for s in toy.sources() if s.kind == "episodes")
    built = toy.build(sources=(episodes, states, sets, labels))
    assert built.excluded("states") == {"duplicate_record": [f"page-{n}__t0" for n in range(3)]}
    assert {t: d for t, d in built.digests.items() if t != "exclusions"} == {
        t: d for t, d in upstream.digests.items() if t != "exclusions"
    }


# -- what is wrong is named ------------------------------------------------------------------------------------------

DATA = "data:image/png;base64,"
ELEMENT = {"index": 1, "tag": "", "text": "", "box": [0, 0, 1, 1]}
# kind, field, what it is changed to, the issue
WRONG: list[tuple[str, str, Any, str]] = [
    ("candidate_sets", "dialect", "openwebrl", "$.dialect is 'openwebrl', and the source declares 'function'"),
    ("candidate_sets", "space", "norm1000", "$.space is 'norm1000', and the source declares 'pixel'"),
    ("candidate_sets", "split", "train", "$.split is not a known field"),
    ("candidate_sets", "source_record_json", "{", "$.source_record_json not JSON"),
    ("teacher_labels", "usage_json", "{'a': 1}", "$.usage_json not JSON"),
    ("teacher_labels", "status", "abstain", "$.selected_index is 1, not null"),
    ("states", "messages_json", '{"a":1,"a":2}', "$.messages_json the key 'a' stands twice"),
    ("states", "screenshot", f"{DATA}AAA", "$.screenshot base64 of the data URL"),
    ("states", "screenshot", f"{DATA}AAAA", "$.screenshot screenshot of page-0__t0"),
    ("states", "screenshot", "../../etc/hosts", '$.screenshot is "../../etc/hosts", does not match'),
    ("states", "elements", [ELEMENT], "$.elements[0].index is 1, and the element stands at 0"),
]


@pytest.mark.parametrize(("kind", "field", "value", "message"), WRONG)
def test_a_record_that_cannot_be_used_is_named_and_can_be_excluded(
    toy: Toy, upstream: Build, kind: str, field: str, value: Any, message: str
) -> None:
    declared: dict[str, SourceSpec] = {s.kind: s for s in sources(upstream, toy.folder)}
    declared |= {kind: changed(declared[kind], toy.folder, lambda r: r.update({field: value}))}
    with pytest.raises(ArmError) as caught:
        toy.build(sources=tuple(declared.values()))
    named = [str(issue) for issue in caught.value.issues]
    assert any(f"someone/toy@v1.0.0/{kind}:1 {message}" in issue for issue in named), named
    declared |= {kind: replace(declared[kind], on_invalid="exclude")}
    built = toy.build(sources=tuple(declared.values()))
    assert sum(len(ids) for ids in built.excluded(kind).values()) == 1
    assert built.balanced()


@pytest.mark.slow
def test_memory_does_not_grow_with_the_table(toy: Toy) -> None:
    """A table of 120 MB is written by a process that grows by less than half of it."""
    for number in range(1000):
        toy.page(f"e{number}", picture=None, task=f"Click number {number}. " + "It stands at the top. " * 2800)
    built = toy.build(tables=("states",), images={"states": "embed"})
    code = (
        "import resource, sys; from pathlib import Path; from action_reward_models.registry.sources.store import Store;"
        "import pyarrow.parquet; from action_reward_models.builders import runner;"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "store, what = Store(Path(sys.argv[1])), ('someone/toy', '1.0.0', None, sys.argv[2], 'states');"
        "path = store.table(None, *what, Path(sys.argv[3]));"
        "print(path.stat().st_size, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)"
    )
    arguments = [str(toy.folder / "store"), built.manifest["identity_sha256"], str(built.folder)]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=os.environ, capture_output=True, text=True, check=True
    )
    size, grown = map(int, done.stdout.split())
    assert size > 120_000_000
    assert grown < size / 2, f"{grown:,} bytes more for a table of {size:,}"
