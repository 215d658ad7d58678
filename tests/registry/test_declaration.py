"""registry.yaml: what it becomes, and every mistake with its line and the nearest right word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from action_reward_models.registry import Registry
from action_reward_models.schemas.errors import ArmError, UsageError

GOOD = """\
registry: 1
namespace: someone
datasets:
  - name: data
    version: "1.10.0"
    license: mit
    sources:
      - {kind: episodes, format: openai_messages, path: e/*.jsonl, dialect: function, space: pixel}
      - {kind: candidate_sets, format: first_release, path: c.jsonl, dialect: function, space: pixel, license: cc0-1.0}
      - {kind: teacher_labels, format: first_release, path: l.jsonl, teacher: t}
    split: {validation: 0.1, seed: 42}
    tables:
      states: {images: embed}
      selection_sft: {prompt: selection/1, options: {history_window: 3}, duplicates: keep}
      bt_pairs: {prompt: scalar/1, images: reference, max_pairs_per_set: 1, rules: {coordinate_only: quarantine}}
    gates: {leakage: warn, max_excluded: {bt_pairs: 0.5}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "e").mkdir()
    for name in ("e/b.jsonl", "e/a.jsonl", "c.jsonl", "l.jsonl"):
        (tmp_path / name).write_text("{}\n", "utf-8")
    return tmp_path


def write(folder: Path, text: str) -> Path:
    path = folder / "registry.yaml"
    path.write_text(text, "utf-8")
    return path


def test_good(folder: Path) -> None:
    spec = Registry.load(write(folder, GOOD)).dataset()
    assert (spec.name, spec.namespace, spec.version, spec.license) == ("data", "someone", "1.10.0", "mit")
    assert [name for name, _ in spec.sources[0].files] == ["e/a.jsonl", "e/b.jsonl"]
    assert [source.license for source in spec.sources] == ["mit", "cc0-1.0", "mit"]
    assert spec.sources[2].constants == {"teacher": "t"}
    assert spec.images == {"states": "embed", "selection_sft": "embed", "bt_pairs": "reference"}
    assert spec.selection is not None
    assert spec.pairs is not None
    assert (spec.selection.duplicates, spec.selection.shuffle) == ("keep", True)
    assert spec.selection.prompt.options == {"history_window": 3}
    assert spec.pairs.rules["coordinate_only"] == "quarantine"
    assert spec.pairs.rules["near_coordinates"] == "drop"
    assert spec.gates.max_excluded == {"bt_pairs": 0.5}
    assert Registry.load(folder).path == folder / "registry.yaml"


# What is replaced in GOOD, by what, and the whole list of problems as (line, path, message).
BAD: list[tuple[str, str, list[tuple[int, str, str]]]] = [
    ("registry: 1", "registry: 2", [(1, "$.registry", "is 2, must be 1")]),
    ("registry: 1", 'registry: "1"', [(1, "$.registry", 'is "1", must be 1')]),
    ("registry: 1\n", "", [(1, "$", "lacks the field 'registry'")]),
    ("namespace:", "namspace:", [
        (1, "$", "lacks the field 'namespace'"),
        (2, "$.namspace", "is not a known field; did you mean 'namespace'?"),
    ]),
    ("namespace: someone", "namespace: some one", [
        (2, "$.namespace", 'is "some one", does not match ^[A-Za-z0-9][A-Za-z0-9._-]*$'),
    ]),
    ("namespace: someone", "namespace: ../up", [
        (2, "$.namespace", 'is "../up", does not match ^[A-Za-z0-9][A-Za-z0-9._-]*$'),
    ]),
    ("namespace: someone", "namespace:", [
        (2, "$.namespace", 'is "", does not match ^[A-Za-z0-9][A-Za-z0-9._-]*$'),
    ]),
    ('"1.10.0"', "1.10", [
        (5, "$.datasets[0].version",
         'is "1.10", does not match ^(0|[1-9][0-9]*)[.](0|[1-9][0-9]*)[.](0|[1-9][0-9]*)$'),
    ]),
    ("license: mit\n    sources", "licence: mit\n    sources", [
        (4, "$.datasets[0]", "lacks the field 'license'"),
        (6, "$.datasets[0].licence", "is not a known field; did you mean 'license'?"),
    ]),
    ("    license: mit\n    sources", "    license: mit\n    license: cc0\n    sources", [
        (7, "$.datasets[0].license", "stands twice; first in line 6"),
    ]),
    ("kind: episodes", "kind: episode", [
        (8, "$.datasets[0].sources[0].kind",
         'is "episode", not one of episodes, states, candidate_sets, teacher_labels'),
    ]),
    ("format: openai_messages", "format: openai_message", [
        (8, "$.datasets[0].sources[0].format",
         "is no format of episodes: 'openai_message'; did you mean 'openai_messages'?"),
    ]),
    ("format: openai_messages", "format: parquet", [
        (8, "$.datasets[0].sources[0].format", "is no format of episodes: 'parquet'; known: openai_messages"),
    ]),
    ("dialect: function, space: pixel}", "dialect: functions, space: pixel}", [
        (8, "$.datasets[0].sources[0].dialect", "is no dialect: 'functions'; did you mean 'function'?"),
    ]),
    ("dialect: function, space: pixel}", "dialect: function}", [
        (8, "$.datasets[0].sources[0]", "lacks the field 'space'"),
    ]),
    ("space: pixel}", "space: pixels}", [
        (8, "$.datasets[0].sources[0].space", 'is "pixels", not one of pixel, norm1000'),
    ]),
    ("e/*.jsonl", "f/*.jsonl", [(8, "$.datasets[0].sources[0].path", "matches no file: f/*.jsonl")]),
    ("teacher: t}", "teacher: t, dialect: function}", [
        (10, "$.datasets[0].sources[2].dialect", "means nothing for teacher_labels; only for states"),
    ]),
    ("teacher: t}", "teecher: t}", [
        (10, "$.datasets[0].sources[2].teecher", "is not a known field; did you mean 'teacher'?"),
    ]),
    ("teacher: t}", "on_invalid: ignore}", [
        (10, "$.datasets[0].sources[2].on_invalid", 'is "ignore", not one of error, exclude'),
    ]),
    ("validation: 0.1", "validation: 10%", [
        (11, "$.datasets[0].split.validation", 'is "10%", not a number'),
    ]),
    ("validation: 0.1", "validation: 1", [
        (11, "$.datasets[0].split.validation", "is 1, above the largest allowed 0.9"),
    ]),
    ("seed: 42", "seed: 4.2", [(11, "$.datasets[0].split.seed", 'is "4.2", not an integer')]),
    ("    tables:\n", "    table:\n", [
        (4, "$.datasets[0]", "lacks the field 'tables'"),
        (12, "$.datasets[0].table", "is not a known field; did you mean 'tables'?"),
    ]),
    ("states: {images: embed}", "states: {images: link}", [
        (13, "$.datasets[0].tables.states.images", 'is "link", not one of embed, reference'),
    ]),
    ("selection_sft: {prompt: selection/1", "selection_sft: {prompt: selection/2", [
        (14, "$.datasets[0].tables.selection_sft.prompt", "there is no prompt 'selection/2'"),
    ]),
    ("prompt: selection/1", "prompt: scalar/1", [
        (14, "$.datasets[0].tables.selection_sft.prompt",
         "is a scalar prompt; this table needs a selection prompt"),
    ]),
    ("history_window: 3", "history_windows: 3", [
        (14, "$.datasets[0].tables.selection_sft.options.history_windows",
         "is not a known field; did you mean 'history_window'?"),
    ]),
    ("history_window: 3", "history_window: three", [
        (14, "$.datasets[0].tables.selection_sft.options.history_window", 'is "three", not an integer'),
    ]),
    ("history_window: 3", "candidate_reasoning: yes", [
        (14, "$.datasets[0].tables.selection_sft.options.candidate_reasoning", 'is "yes", not a boolean'),
    ]),
    ("rules: {coordinate_only: quarantine}", "rules: {coordinate_only: remove}", [
        (15, "$.datasets[0].tables.bt_pairs.rules.coordinate_only",
         'is "remove", not one of keep, drop, quarantine'),
    ]),
    ("max_pairs_per_set: 1", "max_pairs_per_set: -1", [
        (15, "$.datasets[0].tables.bt_pairs.max_pairs_per_set", "is -1, below the least allowed 0"),
    ]),
    ("max_excluded: {bt_pairs: 0.5}", "max_excluded: {pairs: 0.5}", [
        (16, "$.datasets[0].gates.max_excluded.pairs", "is not a known field; did you mean 'bt_pairs'?"),
    ]),
    ("gates: {leakage: warn", "gates: &g {leakage: warn", []),
    ("  - name: data\n", "  - !!python/object:os.system\n    name: data\n", [
        (4, "$.datasets[0]", "has the tag !!python/object:os.system; only plain values are read"),
    ]),
    ("split: {validation: 0.1, seed: 42}", "split: {validation: 0.1, seed: 42", [(12, "$", "is not YAML")]),
    ("    split:", "\tsplit:", [(11, "$", "is not YAML")]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "expected"), BAD, ids=[f"{i:02d} {new.strip()[:40]}" for i, (_, new, _) in enumerate(BAD)]
)
def test_bad(old: str, new: str, expected: list[tuple[int, str, str]], folder: Path) -> None:
    assert old in GOOD
    path = write(folder, GOOD.replace(old, new, 1))
    if not expected:
        Registry.load(path)
        return
    with pytest.raises(ArmError) as caught:
        Registry.load(path)
    found = [(issue.line, issue.path, issue.message) for issue in caught.value.issues]
    assert [f[:2] for f in found] == [e[:2] for e in expected]
    for (_, _, message), (_, _, wanted) in zip(found, expected, strict=True):
        assert message.startswith(wanted), message
    assert {issue.file for issue in caught.value.issues} == {str(path)}
    assert re.search(r"has \d+ problem", str(caught.value))


def test_there_are_enough_bad_registries() -> None:
    assert sum(bool(expected) for _, _, expected in BAD) >= 35


def test_problems_are_reported_together(folder: Path) -> None:
    text = (
        GOOD.replace("dialect: function", "dialect: fun")
        .replace("c.jsonl", "missing.jsonl")
        .replace("scalar/1", "scalar/9")
    )
    with pytest.raises(ArmError) as caught:
        Registry.load(write(folder, text))
    assert [(i.line, i.path.rpartition(".")[2]) for i in caught.value.issues] == [
        (8, "dialect"), (9, "dialect"), (9, "path"), (15, "prompt"),
    ]  # fmt: skip


def test_tables_need_their_sources(folder: Path) -> None:
    lines = GOOD.splitlines(keepends=True)
    with pytest.raises(ArmError) as caught:
        Registry.load(write(folder, "".join(line for line in lines if "kind: teacher_labels" not in line)))
    assert [(i.line, i.message) for i in caught.value.issues] == [
        (
            n,
            "needs a source of teacher_labels: kind: teacher_labels with format: first_release or table or molmoweb, "
            "or kind: episodes with format: molmoweb_result",
        )
        for n in (13, 14)
    ]
    with pytest.raises(ArmError, match="holds no states"):
        Registry.load(write(folder, "".join(line for line in lines if "kind: episodes" not in line)))


def test_names_are_unique_and_asked_for_by_name(folder: Path) -> None:
    second = GOOD[GOOD.index("  - name") :]
    with pytest.raises(ArmError, match=r"has 1 problem") as caught:
        Registry.load(write(folder, GOOD + second))
    assert caught.value.issues[0].message == "the name 'data' is taken by datasets[0]"
    registry = Registry.load(write(folder, GOOD + second.replace("name: data", "name: more")))
    assert registry.dataset("more").name == "more"
    with pytest.raises(UsageError, match="which dataset"):
        registry.dataset()


def test_published_names_say_nothing_about_the_machine(folder: Path) -> None:
    """Files outside the registry's folder are named from the fixed part of their pattern on."""
    inner = folder / "registries" / "mine"
    inner.mkdir(parents=True)
    text = GOOD.replace("e/*.jsonl", f"{folder}/e/*.jsonl").replace("path: c.jsonl", "path: ../../c.jsonl")
    spec = Registry.load(write(inner, text.replace("path: l.jsonl", "path: ../../l.jsonl"))).dataset()
    assert [name for source in spec.sources for name, _ in source.files] == ["a.jsonl", "b.jsonl", "c.jsonl", "l.jsonl"]


def problems(folder: Path, text: str) -> list[tuple[int, str, str]]:
    with pytest.raises(ArmError) as caught:
        Registry.load(write(folder, text))
    return [(issue.line, issue.path, issue.message) for issue in caught.value.issues]


def test_a_file_is_declared_once(folder: Path) -> None:
    twice = GOOD.replace("path: l.jsonl", "path: ./e/../c.jsonl")
    (found,) = problems(folder, twice)
    assert found == (10, "$.datasets[0].sources[2].path", "c.jsonl is read by sources[1]; records are read once")


def test_published_names_are_distinct(folder: Path) -> None:
    """One folder per run is the most ordinary layout: as much of the folders as tells the files apart."""
    inner = folder / "inner"
    for run in ("runs/a", "runs/b", "inner"):
        (folder / run).mkdir(parents=True, exist_ok=True)
        (folder / run / "c.jsonl").write_text("{}\n", "utf-8")
    text = GOOD.replace("e/*.jsonl", "../runs/*/c.jsonl").replace("path: l.jsonl", "path: ../l.jsonl")
    spec = Registry.load(write(inner, text)).dataset()
    assert [[name for name, _ in source.files] for source in spec.sources] == [
        ["a/c.jsonl", "b/c.jsonl"], ["c.jsonl"], ["l.jsonl"],
    ]  # fmt: skip


def test_several_teachers_need_a_word(folder: Path) -> None:
    """Which labels feed training rows is declared: nobody wants the teacher that comes first in the alphabet."""
    (folder / "m.jsonl").write_text("{}\n", "utf-8")
    more = "      - {kind: teacher_labels, format: first_release, path: m.jsonl, teacher: weak}\n"
    text = GOOD.replace("    split:", f"{more}    split:")
    (found,) = problems(folder, text)
    assert found[1:] == (
        "$.datasets[0].sources",
        "have several teachers (t, weak); write labels: {teacher: NAME} or labels: {rule: majority}",
    )
    for choice in ("teacher: weak", "rule: majority"):
        chosen = text.replace("    tables:\n", f"    labels: {{{choice}}}\n    tables:\n")
        assert len(Registry.load(write(folder, chosen)).dataset().sources) == 4


def test_a_path_with_brackets_names_its_file(folder: Path) -> None:
    odd = folder / "runs [v1]"
    odd.mkdir()
    (odd / "c*.jsonl").write_text("{}\n", "utf-8")
    text = GOOD.replace("path: c.jsonl", "path: 'runs [v1]/c*.jsonl'")
    assert [n for n, _ in Registry.load(write(folder, text)).dataset().sources[1].files] == ["runs [v1]/c*.jsonl"]


def test_declarations_that_nothing_reads_are_refused(folder: Path) -> None:
    labels = GOOD.replace("    tables:\n", "    labels: {teacher: tt}\n    tables:\n")
    assert problems(folder, labels) == [
        (12, "$.datasets[0].labels.teacher", "no source declares the teacher 'tt'; there are t")
    ]
    head, tail = labels.replace("tt}", "t}").split("      selection_sft:")
    untrained = head + "    gates:" + tail.split("    gates:")[1]
    assert [found[1:] for found in problems(folder, untrained)] == [
        ("$.datasets[0].labels", "means nothing without selection_sft, bt_pairs, pointwise_scores, actor_sft, reserve"),
        ("$.datasets[0].gates.max_excluded.bt_pairs", "is no table of this dataset"),
    ]


@pytest.mark.parametrize("states", ["      states: {images: reference}\n", ""])
def test_pictures_must_lie_in_some_table(states: str, folder: Path) -> None:
    text = GOOD.replace("      states: {images: embed}\n", states)
    (found,) = problems(folder, text)
    assert found[2] == "refers to pictures that no table holds; let states embed them"


def test_an_external_prompt_is_known_by_its_content_only(folder: Path) -> None:
    import hashlib

    words = "Task: {{task}}\n{{observation}}\n"
    (folder / "words.txt").write_text(words, "utf-8")
    sha256 = hashlib.sha256(words.encode()).hexdigest()
    text = GOOD.replace("prompt: scalar/1", f"prompt: {{file: {folder}/words.txt, sha256: {sha256}}}")
    parameters = Registry.load(write(folder, text)).dataset().parameters()
    assert parameters["bt_pairs"]["prompt"] == {"id": f"sha256:{sha256}", "options": {}}
    assert str(folder) not in str(parameters)


def test_parents_lead_from_where_the_registry_lies(folder: Path) -> None:
    """Through a linked folder, `..` is the parent of the real one, for every reader of the path."""
    for place in ("y/real", "y/data", "x/data"):
        (folder / place).mkdir(parents=True)
    for place in ("y", "x"):
        (folder / place / "data" / "c.jsonl").write_text("{}\n", "utf-8")
    (folder / "x" / "link").symlink_to(folder / "y" / "real")
    text = GOOD.replace("e/*.jsonl", "../../e/*.jsonl").replace("path: l.jsonl", "path: ../../l.jsonl")
    write(folder / "y" / "real", text.replace("path: c.jsonl", "path: ../data/c.jsonl"))
    direct, linked = (Registry.load(folder / place).dataset() for place in ("y/real", "x/link"))
    assert direct.sources[1].files == linked.sources[1].files == (("c.jsonl", folder / "y" / "data" / "c.jsonl"),)


def test_problems_of_a_prompt_file_have_its_lines(folder: Path) -> None:
    import hashlib

    words = "kind: scalar\nusr: x\n"
    (folder / "words.yaml").write_text(words, "utf-8")
    sha256 = hashlib.sha256(words.encode()).hexdigest()
    text = GOOD.replace("prompt: scalar/1", f"prompt: {{file: words.yaml, sha256: {sha256}}}")
    with pytest.raises(ArmError) as caught:
        Registry.load(write(folder, text))
    shown = [str(issue).replace(f"{folder}/", "") for issue in caught.value.issues]
    assert "words.yaml:2 $.usr is not a known field; did you mean 'user'?" in shown


def test_a_teacher_beside_one_that_is_not_named(folder: Path) -> None:
    (folder / "m.jsonl").write_text("{}\n", "utf-8")
    more = "      - {kind: teacher_labels, format: first_release, path: m.jsonl}\n"
    (found,) = problems(folder, GOOD.replace("    split:", f"{more}    split:"))
    assert found[2].startswith("have several teachers (one that is not named, t); write labels: {teacher: NAME}")
