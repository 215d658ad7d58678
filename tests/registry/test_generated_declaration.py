"""Sources that models make, as registry.yaml declares them: what they become, and every mistake with its line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from action_reward_models.builders.generate.spec import AskSpec, Draws, SampleSpec
from action_reward_models.registry import Registry
from action_reward_models.schemas.errors import ArmError

GOOD = """\
registry: 1
namespace: someone
datasets:
  - name: data
    version: "1.0.0"
    license: mit
    sources:
      - {kind: episodes, format: openai_messages, path: e.jsonl, dialect: function, space: pixel}
      - kind: candidate_sets
        format: sampled
        path: generated/c.jsonl
        dialect: function
        space: pixel
        actor: policy
        sample:
          endpoint: actor
          model: served
          n: 3
          draws: [{temperature: 0.7, count: 2}, {temperature: 1}]
          first_draw: 4
          max_tokens: 64
          top_k: null
          chat_template_kwargs: {enable_thinking: false}
      - kind: teacher_labels
        format: table
        path: generated/l.jsonl
        teacher: judge
        label: {endpoint: teacher, model: m, prompt: selection/1, options: {history_window: 2}, max_tokens: 9,
          repeats: 2}
    split: {validation: 0, seed: 1}
    tables: {states: {}, candidate_sets: {}, teacher_labels: {}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "e.jsonl").write_text("{}\n", "utf-8")
    return tmp_path


def load(folder: Path, text: str = GOOD) -> Registry:
    (folder / "registry.yaml").write_text(text, "utf-8")
    return Registry.load(folder)


def problems(folder: Path, text: str) -> list[tuple[int, str, str]]:
    with pytest.raises(ArmError) as caught:
        load(folder, text)
    return [(issue.line, issue.path, issue.message) for issue in caught.value.issues]


def test_what_is_declared(folder: Path) -> None:
    registry = load(folder)
    _, sampled, labels = registry.dataset().sources
    assert sampled.generate == SampleSpec(
        "actor", "served", (Draws(0.7, 2), Draws(1, 1)), 64, n=3, first_draw=4, top_k=None,
        chat_template_kwargs={"enable_thinking": False},
    )  # fmt: skip
    assert isinstance(sampled.generate, SampleSpec)
    assert sampled.generate.temperatures == ((4, 0.7), (5, 0.7), (6, 1.0))
    assert isinstance(labels.generate, AskSpec)
    asked = labels.generate
    assert (asked.endpoint, asked.model, asked.max_tokens, asked.repeats) == ("teacher", "m", 9, 2)
    assert (asked.prompt.id, asked.prompt.options) == ("selection/1", {"history_window": 2})
    assert [(made.dataset, made.number, made.verb, made.name) for made in registry.made] == [
        ("data", 1, "sample", "generated/c.jsonl"), ("data", 2, "label", "generated/l.jsonl"),
    ]  # fmt: skip


def test_a_file_that_is_not_there_yet(folder: Path) -> None:
    """It stops what needs it, and says how it is made; a file that lies there is a file like any other."""
    registry = load(folder)
    assert not any(source.files for source in registry.dataset().sources[1:])
    refusing: tuple[Callable[[], object], ...] = (registry.build, registry.check, registry.reasons)
    for refused in refusing:
        with pytest.raises(ArmError) as caught:
            refused()
        assert caught.value.message == "generated/c.jsonl is not sampled yet"
        assert caught.value.next_command == f"arm sample {folder / 'registry.yaml'}"
    (folder / "generated").mkdir()
    (folder / "generated" / "c.jsonl").write_text("{}\n", "utf-8")
    registry = load(folder)
    assert registry.dataset().sources[1].files[0][0] == "generated/c.jsonl"
    with pytest.raises(ArmError) as caught:
        registry.build()
    assert caught.value.message == "generated/l.jsonl is not labelled yet"
    assert caught.value.next_command == f"arm label run {folder / 'registry.yaml'}"


def test_how_a_file_is_made_is_no_part_of_what_is_built(folder: Path) -> None:
    """Another seed or another server leaves the file, and so the build, as they are."""
    one, other = load(folder), load(folder, GOOD.replace("endpoint: actor", "endpoint: elsewhere"))
    assert one.dataset().parameters() == other.dataset().parameters()


def test_somebodys_sampled_file_needs_no_word(folder: Path) -> None:
    start, end = GOOD.index("        sample:"), GOOD.index("      - kind: teacher_labels")
    text = GOOD[:start] + GOOD[end:]
    assert problems(folder, text) == [
        (11, "$.datasets[0].sources[1].path", "matches no file: generated/c.jsonl"),
    ]
    (folder / "generated").mkdir()
    (folder / "generated" / "c.jsonl").write_text("{}\n", "utf-8")
    assert load(folder, text).dataset().sources[1].generate is None


def test_another_dataset_reads_what_one_makes(folder: Path) -> None:
    """Before the file is there, too; and it is told who makes it."""
    second = """\
  - name: second
    version: "1.0.0"
    license: mit
    sources:
      - {kind: episodes, format: openai_messages, path: e.jsonl, dialect: function, space: pixel}
      - {kind: candidate_sets, format: sampled, path: ./generated/c.jsonl, dialect: function, space: pixel}
    split: {validation: 0, seed: 1}
    tables: {states: {}, candidate_sets: {}}
"""
    registry = load(folder, GOOD + second)
    with pytest.raises(ArmError) as caught:
        registry.build("second")
    assert caught.value.next_command == f"arm sample {folder / 'registry.yaml'}"


# What is replaced in GOOD, by what, and the whole list of problems as (line, path, message).
SOURCE = "$.datasets[0].sources"
BAD: list[tuple[str, str, list[tuple[int, str, str]]]] = [
    ("generated/c.jsonl", "generated/*.jsonl", [
        (11, f"{SOURCE}[1].path", "names one file that is written, so that it holds none of * ? ["),
    ]),
    ("generated/c.jsonl", "generated/c.json", [
        (11, f"{SOURCE}[1].path", "is written as JSON lines: let it end in .jsonl"),
    ]),
    ("generated/c.jsonl", "generated/.jsonl", [
        (11, f"{SOURCE}[1].path", "is written as JSON lines: let it end in .jsonl"),
    ]),
    ("generated/c.jsonl", "/etc/c.jsonl", [
        (11, f"{SOURCE}[1].path", "is written, and only inside the registry's folder"),
    ]),
    ("generated/c.jsonl", "a/../../c.jsonl", [
        (11, f"{SOURCE}[1].path", "is written, and only inside the registry's folder"),
    ]),
    ("generated/c.jsonl", "./Build/data/c.jsonl", [
        (11, f"{SOURCE}[1].path", "lies in build/, where builds are made anew, and it would be gone with one"),
    ]),
    ("generated/l.jsonl", "generated/c.requests/shard-001.jsonl", [
        (26, f"{SOURCE}[2].path", "lies in a folder of answers (.requests), whose files are kept as they are"),
    ]),
    ("generated/c.jsonl", "link/c.jsonl", [
        (11, f"{SOURCE}[1].path", "leads out of the registry's folder through a link, and is written"),
    ]),
    ("generated/l.jsonl", "generated/./C.jsonl", [
        (26, f"{SOURCE}[2].path",
         "generated/./C.jsonl is made by sources[1] of data; a file is made once, and read by who declares it"),
    ]),
    ("path: e.jsonl", "path: generated/c.jsonl", [
        (8, f"{SOURCE}[0].path", "generated/c.jsonl is read by sources[1]; records are read once"),
    ]),
    ("draws: [{temperature: 0.7, count: 2}, {temperature: 1}]", "draws: []", [
        (19, f"{SOURCE}[1].sample.draws", "is an empty list"),
    ]),
    ("top_k: null", "top_p: 0", [
        (22, f"{SOURCE}[1].sample.top_p", "is 0, which keeps no token; 1 keeps all, and null sends none"),
    ]),
    ("max_tokens: 9,", "max_tokens: 9, top_p: 0,", [
        (28, f"{SOURCE}[2].label.top_p", "is 0, which keeps no token; 1 keeps all, and null sends none"),
    ]),
    ("        actor: policy", "        sampling: {temperature: 1}", [
        (14, f"{SOURCE}[1].sampling", "means nothing beside sample, which says it, and its records do"),
    ]),
    ("        teacher: judge\n", "", [
        (24, f"{SOURCE}[2]", "lacks the field 'teacher': the name under which its labels are known"),
    ]),
    ("prompt: selection/1", "prompt: scalar/1", [
        (28, f"{SOURCE}[2].label.prompt", "is a scalar prompt; a teacher is asked with a selection prompt"),
    ]),
    ("prompt: selection/1", "prompt: {file: gone.txt, sha256: " + "0" * 64 + "}", [
        (28, f"{SOURCE}[2].label.prompt", "the prompt file cannot be read: "),
    ]),
    ("format: sampled", "format: first_release", [
        (15, f"{SOURCE}[1].sample", "means nothing for candidate_sets with format: first_release; "
         "only for candidate_sets with format: sampled"),
    ]),
    ("format: table", "format: molmoweb", [
        (28, f"{SOURCE}[2].label", "means nothing for teacher_labels with format: molmoweb; "
         "only for teacher_labels with format: table"),
    ]),
    ("format: table", 'format: "a\\nb"', [  # what is quoted stays one line
        (25, f"{SOURCE}[2].format", "is no format of teacher_labels: "),
        (28, f"{SOURCE}[2].label", r"means nothing for teacher_labels with format: a\nb; only for "),
    ]),
    ("path: generated/c.jsonl", "dataset: other/thing@1.0.0", [
        (10, f"{SOURCE}[1].format", "is not how a dataset is read; write format: table"),
        (15, f"{SOURCE}[1].sample", "says how a file is made, and nothing says which: add path"),
    ]),
    ("        label: {", "        sample: {endpoint: a, model: m, draws: [{temperature: 0}], max_tokens: 1}\n"
     "        label: {", [
        (24, f"{SOURCE}[2]", "says sample and label; a file is made by one of them"),
    ]),
    ("endpoint: actor", "endpoint: http://host/v1", [
        (16, f"{SOURCE}[1].sample.endpoint", 'is "http://host/v1", does not match ^[a-z][a-z0-9_-]*$'),
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "expected"), BAD, ids=[f"{i}-{bad[1][:20]}" for i, bad in enumerate(BAD)])
def test_every_problem_has_its_line(old: str, new: str, expected: list[tuple[int, str, str]], folder: Path) -> None:
    assert old in GOOD
    (folder / "link").symlink_to(folder.parent)
    found = problems(folder, GOOD.replace(old, new, 1))
    assert [(line, path) for line, path, _ in found] == [(line, path) for line, path, _ in expected]
    for (_, _, message), (_, _, start) in zip(found, expected, strict=True):
        assert message.startswith(start)


def test_what_is_shown_to_a_model_is_declared(folder: Path) -> None:
    """A label needs sets, and both need states, whatever the tables are."""
    start, end = GOOD.index("      - kind: candidate_sets"), GOOD.index("      - kind: teacher_labels")
    text = (GOOD[:start] + GOOD[end:]).replace("candidate_sets: {}, teacher_labels: {}", "")
    assert problems(folder, text) == [
        (13, f"{SOURCE}[1].label", "needs a source of candidate_sets in this dataset, which are shown to a teacher"),
    ]


def test_a_log_that_leads_elsewhere(folder: Path) -> None:
    (folder / "generated").mkdir()
    (folder / "generated" / "c.requests").symlink_to(folder.parent)
    assert problems(folder, GOOD) == [
        (11, f"{SOURCE}[1].path", "leads out of the registry's folder through a link, and is written"),
    ]


def test_generated_labels_say_who_judged(folder: Path) -> None:
    """So that several teachers are told apart before a label is there."""
    more = """\
      - {kind: teacher_labels, format: table, path: m.jsonl, teacher: other,
         label: {endpoint: b, model: m, prompt: selection/1, max_tokens: 9}}
"""
    text = GOOD.replace("    split:", more + "    split:").replace(
        "tables: {", "tables: {selection_sft: {prompt: selection/1}, "
    )
    assert problems(folder, text) == [
        (7, SOURCE, "have several teachers (judge, other); write labels: {teacher: NAME} or labels: {rule: majority}"),
    ]
    load(folder, text.replace("    tables:", "    labels: {teacher: other}\n    tables:"))
