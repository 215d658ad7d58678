"""registry.yaml mutated 300 times (slow tier: 2,300): read, or refused with line, path and reason; nothing else."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from action_reward_models.registry import Registry
from action_reward_models.schemas.errors import ArmError, UsageError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

EXAMPLE = Path(__file__).parents[2] / "examples" / "miniwob" / "registry.yaml"
# Every key that registry.yaml knows stands in one of these.
RICH = """\
registry: 1
namespace: lab
datasets:
  - name: all-of-it
    version: "1.10.0"
    license: mit
    description: >-
      Two lines
      of words.
    sources:
      - {kind: episodes, format: openai_messages, path: e/*.jsonl, dialect: function, space: pixel, license: cc0-1.0}
      - kind: candidate_sets
        format: first_release
        path: c.jsonl
        dialect: function
        space: norm1000
        actor: org/actor
        actor_revision: 0123456789012345678901234567890123456789
        sampling:
          temperature: 0.7
          top_p: 0.9
          top_k: -1
          min_p: 0
          max_tokens: 2048
          seed: 42
          engine: some-engine
          engine_version: "0.1"
        on_invalid: exclude
        on_conflict: quarantine
      - {kind: teacher_labels, format: first_release, path: l.jsonl, teacher: "t é"}
      - {kind: candidate_scores, format: molmoweb, path: s.jsonl, dialect: function, space: pixel, score_source: prm}
      - {kind: bench_items, format: webprmbench, path: b.jsonl}
      - {kind: reviews, format: review, path: r.jsonl}
      - kind: candidate_sets
        format: sampled
        path: generated/c.jsonl
        dialect: function
        space: norm1000
        actor: other
        sample: {endpoint: actor, model: served-id, n: 5, draws: [{temperature: 0.7, count: 12}, {temperature: 1}],
          first_draw: 4, max_tokens: 512, top_p: 0.9, top_k: null, min_p: 0, seed: 1, per_request: set, screenshots: 2,
          limit_parameter: max_completion_tokens, chat_template_kwargs: {enable_thinking: false}}
      - kind: teacher_labels
        format: table
        path: generated/l.jsonl
        teacher: "t é"
        label: {endpoint: teacher, model: m, prompt: selection/1, options: {history_window: 2}, max_tokens: 99,
          repeats: 2, seed: 1, temperature: null, top_p: null, sampler_seed: 1, reasoning_effort: low,
          response_format: json_schema, limit_parameter: max_tokens, chat_template_kwargs: {}}
    redact: [secrets, addresses]
    split: {validation: 0.1, seed: 42, isolate_screenshots: true, rule: task_group}
    labels: {teacher: "t é", rule: first, conflicting: quarantine}
    tokens: {processor: processor, max_tokens: 4096}
    benchmarks:
      - {name: A bench, path: bench.txt, near: 0.7}
    shards: 8
    tables:
      states: {images: embed}
      candidate_sets: {}
      teacher_labels: {}
      selection_sft:
        prompt: selection/1
        options: {history_window: 3, candidate_reasoning: true, element_labels: false, observation: screenshot}
        duplicates: keep
        shuffle: false
        images: reference
      bt_pairs:
        prompt: {file: words.txt, sha256: 25451b106424eda10ce85aac00e69a1832b2cc1b681666f5e2771a6e6037d0ed}
        options: {coordinate_space: source, reasoning: none}
        max_pairs_per_set: 1
        images: reference
        rules: {near_coordinates: drop, coordinate_only: keep, scroll_amount: quarantine, wait_duration: drop,
          done_vs_done: quarantine, unparsed: drop}
        origins: [selection, scores]
        max_pairs_per_state: 4
        scores: {min_gap: 0.05, choose: extreme, budget: selection}
        negatives: {corrupted: 1, cross_task: 1}
        trajectories:
          prompt: trajectory/1
          options: {history_window: 20, observation: text}
          min_gap: 0.5
          max_pairs_per_task: 4
      pointwise_scores: {prompt: scalar/1, options: {history_window: 0}, images: reference}
      actor_sft: {selected_by: teacher, quality_floor: 0.5, random_control: true, images: reference}
      reserve: {images: reference}
      bench_items: {images: embed}
    gates:
      leakage: warn
      secrets: error
      benchmark_tasks: error
      near_tasks: warn
      screenshots: warn
      conflicting_picks: warn
      max_excluded: {states: 1, candidate_sets: 0.5, teacher_labels: 0.5, selection_sft: 0.25, bt_pairs: 0,
        candidate_scores: 0.5, pointwise_scores: 1, actor_sft: 0.5, bench_items: 0}
models:
  - {name: arm, version: "1.0.0", recipe: recipes/arm.yaml}
"""
ON_THE_HUB = """\
registry: 1
namespace: lab
datasets:
  - name: first
    version: "1.0.0"
    license: mit
    sources:
      - {kind: episodes, format: openai_messages, repo: org/raw, revision: main, file: "runs/*.jsonl",
         dialect: function, space: pixel}
      - {kind: candidate_sets, format: first_release, path: c.jsonl, dialect: function, space: pixel}
      - {kind: teacher_labels, format: first_release, path: l.jsonl}
    split: {validation: 0, seed: 1}
    tables: {states: {}, candidate_sets: {}, teacher_labels: {}}
  - name: second
    version: 2.0.0
    license: mit
    sources:
      - {kind: states, format: table, dataset: first@1.0.0, dialect: function, space: pixel}
      - {kind: candidate_sets, format: table, dataset: lab/first@1.0.0, dialect: function, space: pixel}
      - {kind: teacher_labels, format: table, dataset: other/thing@3.1.4}
    split: {validation: 0.5, seed: 0}
    tables:
      states: {}
      selection_sft: {prompt: selection/1}
models:
  - {name: a, version: "1.0.0", recipe: a.yaml}
  - {name: b, version: "1.0.0", recipe: b.yaml}
"""
RECIPES = {  # the files that the bases name, so that some of what is mutated is read
    "recipes/arm.yaml": "dataset: all-of-it@1.10.0\nbase: {model: org/base, revision: main}",
    "a.yaml": "dataset: second@2.0.0\nbase: {model: org/base, revision: main}",
    "b.yaml": "dataset: other/thing@3.1.4\ninit_from: a@1.0.0",
}
BASES = (EXAMPLE.read_text("utf-8"), RICH, ON_THE_HUB)
TREES = {base: yaml.safe_load(base) for base in BASES}
# What a hand, an editor or an enemy puts between the characters of a file.
PIECES = (
    "\x00", "\x07", "\x1b[31m", "\x7f", "\x85", "\u2028", "\u2029", "\ufeff", "\u202e", "\u200b", "\ufffe", "\t",
    "\r", "\r\n", "\n", "😀", "é", "٣", "Ⅷ", "\\ud83d", '"\\ud83d"', '"\\U00110000"', "&a ", "*a", "&a [*a, *a]",
    "<<: *a", "!!binary ", "!!python/object/apply:os.system [id]", "!!int ", "!x ", "? ", ": ", "- ", "-", "---\n",
    "...\n", "%YAML 1.9\n", f"%YAML 1.{'9' * 5000}\n", "%TAG ! x:\n", "[", "]", "{", "}", "[" * 70, "{a: " * 70,
    "- " * 70, "? " * 70, "'", '"', "|\n", ">-\n", "#", " #", ",", "@", "`", "~", "9" * 5000, "1e999", ".nan", ".inf",
    "-0", "0x10", "0o7", "1_000", "1:30", "2001-01-01", "x" * 2000,
)  # fmt: skip
# Values that stand where others are expected: wrong kinds, sizes, names, and paths that lead elsewhere.
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**53, -(2**70), 10**99, 0.5, 1e308, "", " ", "no", "~", "1", "01.0.0", "1.0.0",
    "1.0.0-rc1", "x" * 5000, "a b", "-", ".", "..", "/", "../..", "a/../b", "../../../../etc/passwd", "/etc/passwd",
    "/dev/zero", "/dev/stdin", "/proc/self/mem", "~/.ssh/id_rsa", "file:///etc/passwd", "https://example.com/x.jsonl",
    "hf://datasets/a/b", "C:\\x", "\\\\host\\share", "a\\b", "CON", "con.jsonl", "c.jsonl ", "./c.jsonl",
    "e/../c.jsonl", "e", "e/", "*", "[", "[a", "[!]", "e/[ab].jsonl", "{a,b}", "*.jsonl", "x/" * 3000 + "y",
    "n" * 300, "a\nb", "a\0b", "a\x1b[2Jb", "é", "e\u0301", "\u202egnp", "😀", "\ud83d", "$(id)", "`id`", "{{ 7*7 }}",
    "%s%n", "first@1.0.0", "first@main", "second@2.0.0", "lab/first@1.0.0", "a/b/c@1.0.0", "@1.0.0", "first@",
    "all-of-it@1.10.0", "v1.0.0", "org/raw", "org/../raw", "-org/-raw", "org/raw.git", "datasets/org/raw", "main",
    "refs/pr/1", "0" * 40, "f" * 64, "selection/1", "scalar/1", "selection/2", "../selection/1", "words.txt",
    "gone.txt", "table", "episodes", "states", "function", [], {}, [[]], [{}], [None], ["secrets", "secrets"],
    {"file": "words.txt", "sha256": "f" * 64}, {"file": "/dev/zero", "sha256": "0" * 64},
    {"file": "..", "sha256": "0" * 64}, {"": ""}, {"a": {"b": {"c": []}}}, ["x"] * 200,
    {str(n): n for n in range(200)},
)  # fmt: skip
KEYS = (
    "", "~", "name", "names", "licence", "sources", "path", "repo", "revision", "file", "dataset", "registry",
    "x" * 300, "a b", "a.b", "a[0]", "$", "'", '"', "é", "\u2028", "\x1b[31m", "😀", "0", "true", "null", "<<",
    "__class__", "models", "\ud83d",
)  # fmt: skip
POINTERS = ("path", "file", "repo", "revision", "dataset", "recipe", "name", "version", "prompt", "format", "teacher",
            "endpoint", "model", "draws")  # fmt: skip


def lines_changed(draw: st.DrawFn, text: str) -> str:
    lines = text.splitlines(keepends=True) or [""]
    at, other = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    match draw(st.sampled_from(("delete", "double", "swap", "indent", "outdent", "cut", "other", "piece"))):
        case "delete":
            del lines[at]
        case "double":
            lines.insert(other, lines[at])
        case "swap":
            lines[at], lines[other] = lines[other], lines[at]
        case "indent":
            lines[at] = " " * draw(st.integers(1, 9)) + lines[at]
        case "outdent":
            lines[at] = lines[at][draw(st.integers(1, 9)) :]
        case "cut":
            lines = lines[:at]
        case "other":
            source = draw(st.sampled_from(BASES)).splitlines(keepends=True)
            lines[at] = draw(st.sampled_from(source))
        case "piece":
            lines[at] = draw(st.sampled_from(PIECES)) + "\n"
    return "".join(lines)


def characters_changed(draw: st.DrawFn, text: str) -> str:
    at = draw(st.integers(0, len(text)))
    end = min(len(text), at + draw(st.integers(0, 12)))
    new = draw(
        st.one_of(st.just(""), st.sampled_from(PIECES), st.text(st.characters(exclude_categories=["Cs"]), max_size=4))
    )
    return text[:at] + new + text[end:]


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        yield from places(value, (*path, key))


def tree_changed(draw: st.DrawFn, tree: Any) -> Any:
    """One value of another kind, one key more or less, or one value that stands at another place too."""
    found = list(places(tree))
    named = [path for path in found if path and path[-1] in POINTERS]
    among = named if draw(st.booleans()) and named else found
    path = draw(st.sampled_from(among))
    value = copy.deepcopy(draw(st.sampled_from(VALUES)))
    if not path:
        return value if draw(st.booleans()) and draw(st.booleans()) else tree
    *above, last = path
    holder = tree
    for step in above:
        holder = holder[step]
    match draw(st.sampled_from(("replace", "replace", "replace", "delete", "rename", "add", "repeat", "move"))):
        case "delete":
            del holder[last]
        case "rename" if isinstance(holder, dict):
            holder[draw(st.sampled_from(KEYS))] = holder.pop(last)
        case "add" if isinstance(holder, dict):
            holder[draw(st.sampled_from(KEYS))] = value
        case "repeat" if isinstance(holder, list):
            holder[last:last] = [holder[last]] * draw(st.integers(1, 3))
        case "move":
            source = tree
            for step in draw(st.sampled_from(found)):
                source = source[step]
            holder[last] = copy.deepcopy(source)
        case _:
            holder[last] = value
    return tree


class _Dumper(yaml.SafeDumper):
    """Without anchors: a list that occurs twice is written twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """A file that once was a registry."""
    text = draw(st.sampled_from(BASES))
    if draw(st.booleans()):
        tree = copy.deepcopy(TREES[text])
        for _ in range(draw(st.sampled_from((1, 1, 1, 2, 4)))):
            tree = tree_changed(draw, tree)
        if draw(st.booleans()):
            text = json.dumps(tree, indent=draw(st.sampled_from((None, 1))), ensure_ascii=draw(st.booleans()))
        else:
            flow = draw(st.sampled_from((False, None, True)))
            text = yaml.dump(tree, Dumper=_Dumper, default_flow_style=flow, allow_unicode=draw(st.booleans()))
        changes = draw(st.sampled_from((0, 0, 0, 1)))
    else:
        changes = draw(st.sampled_from((1, 1, 1, 2, 4)))
    for _ in range(changes):
        text = draw(st.sampled_from((lines_changed, characters_changed)))(draw, text)
    data = text.encode("utf-8", "surrogatepass")
    match draw(st.integers(0, 29)):
        case 0:
            return text.encode("utf-16", "surrogatepass")
        case 1:
            at = draw(st.integers(0, len(data)))
            return data[:at] + draw(st.binary(min_size=1, max_size=3)) + data[at + 1 :]
        case 2:
            return data + b"#" * (1 << 20)
        case 3:
            return data.replace(b"\n", draw(st.sampled_from((b"\r\n", b"\r", b"\n\n"))))
    return data


class Watch:
    """What Python opens for writing, changes or connects to while it looks; a hook of the interpreter's own."""

    def __init__(self) -> None:
        self.on = False
        self.seen: list[str] = []
        sys.addaudithook(self._see)

    def _see(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        writes = (
            event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        )
        if writes or event.startswith(
            ("socket.", "subprocess.", "os.system", "os.exec", "os.remove", "os.rename", "os.mkdir", "shutil.")
        ):
            self.seen.append(f"{event} {arguments}")

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        self.seen.clear()
        self.on = True
        try:
            yield
        finally:
            self.on = False


WATCH = Watch()
OUTCOMES: Counter[str] = Counter()


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Where the registry lies, with the files that the bases name."""
    with tempfile.TemporaryDirectory(prefix="arm-fuzz-") as name:
        folder = Path(name) / "a" / "b"
        for file in (
            "e/a.jsonl",
            "e/b.jsonl",
            "c.jsonl",
            "l.jsonl",
            "s.jsonl",
            "b.jsonl",
            "r.jsonl",
            "bench.txt",
            "processor/tokenizer.json",
            "data/episodes.jsonl",
            "data/candidates.jsonl",
            "data/labels.jsonl",
        ):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text("{}\n", "utf-8")
        (folder / "words.txt").write_text("Task: {{task}}\n{{observation}}\n", "utf-8")
        (folder / "recipes").mkdir()
        for file, words in RECIPES.items():
            (folder / file).write_text(f"recipe: 1\nkind: scalar\n{words}\n", "utf-8")
        yield folder


def outcome(path: Path, data: bytes) -> str:
    """Load ``data`` as a registry; how that ended, in a word. Fails when it ended otherwise than promised."""
    path.write_bytes(data)
    before = sorted(path.parent.rglob("*"))
    started = time.process_time()
    try:
        with WATCH.looking():
            registry = Registry.load(path)
    except ArmError as error:
        _check(error, path)
        result = "refused"
    else:
        assert isinstance(registry, Registry)
        assert registry.datasets
        result = "read"
    assert time.process_time() - started < 5
    assert WATCH.seen == []
    assert sorted(path.parent.rglob("*")) == before
    return result


def _check(error: ArmError, path: Path) -> None:
    str(error).encode("utf-8")  # it can be printed
    assert not isinstance(error, UsageError)
    assert error.issues, error
    for issue in error.issues:
        assert issue.file == str(path) or Path(issue.file).is_file(), issue
        lines = len(re.split(rb"\r\n|\r|\n", Path(issue.file).read_bytes()))
        assert 1 <= issue.line <= lines, issue
        assert re.match(r"\$($|[.\[])", issue.path), issue
        assert issue.message.strip(), issue
        assert len(issue.message) < 2000, issue
        assert issue.message.isprintable(), issue
        assert issue.path.isprintable(), issue


_ALIKE = settings(deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))


@settings(_ALIKE, max_examples=300)
@given(data=files())
def test_a_mutated_registry_is_read_or_refused(folder: Path, data: bytes) -> None:
    OUTCOMES[outcome(folder / "registry.yaml", data)] += 1


@pytest.mark.slow
@settings(_ALIKE, max_examples=2000)
@given(data=files())
def test_many_mutated_registries_are_read_or_refused(folder: Path, data: bytes) -> None:
    OUTCOMES[outcome(folder / "registry.yaml", data)] += 1


@pytest.mark.parametrize("key", ["path", "format", "recipe", "teacher", "prompt", "license", "name", "file", "dataset"])
@pytest.mark.parametrize("value", ["x" * 5000, "n" * 300, "x/" * 3000, "\u202egnp", "a" * 255 + "/b"])
def test_a_long_or_unprintable_value_is_not_repeated(key: str, value: str, folder: Path) -> None:
    """At every place of this key: no name is longer than a file system takes, and no message is as long as a page."""
    for tree in TREES.values():
        for place in places(tree):
            if place and place[-1] == key:
                changed = copy.deepcopy(tree)
                holder = changed
                for step in place[:-1]:
                    holder = holder[step]
                holder[key] = value
                outcome(folder / "registry.yaml", json.dumps(changed).encode())


def test_the_mutations_reach_both_ends() -> None:
    """A fuzz of files that are all refused at the first character would show nothing."""
    if not OUTCOMES:
        pytest.skip("runs after the fuzz, in the same process")
    ran = sum(OUTCOMES.values())
    assert ran >= 300
    assert OUTCOMES["read"] > ran / 40
    assert OUTCOMES["refused"] > ran / 2


def test_the_bases_use_every_key() -> None:
    """A key that registry.yaml learns must be fuzzed, too."""
    from action_reward_models.schemas.store import load

    def known(schema: dict[str, Any]) -> Iterator[str]:
        for name, node in schema.get("properties", {}).items():
            yield name
            yield from known(node)
        if "items" in schema:
            yield from known(schema["items"])

    used = {step for tree in TREES.values() for place in places(tree) for step in place}
    assert set(known(load("registry/1"))) - used == set()
