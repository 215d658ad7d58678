"""Whatever registry.yaml declares of training rows is read back from the manifest of what was built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from action_reward_models import prompts
from action_reward_models.builders import runner
from action_reward_models.builders.spec import BuildSpec
from action_reward_models.registry import Registry
from action_reward_models.registry.provenance.rebuild import rebuild
from action_reward_models.registry.provenance.respec import Inputs, spec_of
from action_reward_models.registry.sources.store import Store
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.ids import file_sha256
from action_reward_models.schemas.manifest import manifest_of
from action_reward_models.tests.builders import tiny_processor
from action_reward_models.tests.builders.conftest import Toy

HEAD = """\
registry: 1
namespace: someone
datasets:
  - name: data
    version: "1.0.0"
    license: mit
    shards: 2
    sources:
"""
MADE = """\
      - {kind: episodes, format: openai_messages, path: episodes.jsonl, dialect: function, space: pixel}
      - {kind: states, format: first_release, path: states.jsonl, dialect: function, space: pixel}
      - {kind: candidate_scores, format: molmoweb, path: scores.jsonl, dialect: function, space: pixel,
         score_source: prm}
      - {kind: teacher_labels, format: first_release, path: labels.jsonl, teacher: t, on_invalid: exclude}
      - {kind: reviews, format: review, path: reviews.jsonl}
    labels: {teacher: t, rule: majority, conflicting: quarantine}
    redact: [secrets]
    tokens: {processor: base/tiny, max_tokens: 5000}
    benchmarks:
      - {name: bench, path: bench.txt, near: 0.7}
      - {name: other, path: other.txt}
    gates: {leakage: warn, benchmark_tasks: warn, near_tasks: error, screenshots: error, conflicting_picks: error,
            max_excluded: {bt_pairs: 1}}
    tables:
      states: {}
      selection_sft: {prompt: selection/1, options: {history_window: 2}, duplicates: keep, shuffle: false,
                      images: reference}
      bt_pairs:
        prompt: scalar/1
        options: {candidate_reasoning: true}
        max_pairs_per_set: 3
        max_pairs_per_state: 5
        origins: [scores, selection]
        scores: {min_gap: 0.1, choose: random, budget: selection}
        negatives: {corrupted: 1, cross_task: 1}
        rules: {coordinate_only: quarantine, scroll_amount: keep}
        trajectories: {prompt: {file: mine.yaml, sha256: SHA256}, options: {history_window: 7}, min_gap: 0.25,
                       max_pairs_per_task: 2}
      pointwise_scores: {prompt: scalar/1, options: {history_window: 1}}
      actor_sft: {selected_by: scores, quality_floor: 0.5, random_control: true}
      reserve: {images: reference}
"""
SPLIT = "    split: {validation: 0.3, seed: 7, isolate_screenshots: true}\n"
READY = """\
      - {kind: bt_pairs, format: first_release, path: ready.jsonl, dialect: function, space: pixel}
    split: {validation: 0.25, seed: 3}
    tables:
      bt_pairs: {rules: {done_vs_done: keep, coordinate_only: drop}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A few records of each kind, and the files that the declaration names."""
    toy = Toy(tmp_path)
    for name, reward in (("good", 1), ("bad", 0)):
        messages = [toy.message("user", "Task: Buy.", 1), toy.message("assistant", toy.response("stop()"))]
        toy.episode(name, *messages, metadata={"reward": reward})
    toy.write("episodes.jsonl", toy.episodes)
    said = "<|im_start|>user\nTask: Do {}.\n<|vision_start|><|image_pad|><|vision_end|><|im_end|>\n"
    toy.write("states.jsonl", [
        {"state_id": f"{n}", "episode_id": f"e{n}", "turn": 0, "images": [toy.data_url(n)],
         "prompt_text": said.format(n)}
        for n in range(4)
    ])  # fmt: skip
    actions = ("click(1, 1)", "click(7, 7)", "stop()", 'type("abc")')
    cands = [{"action_str": action, "score": n / 4} for n, action in enumerate(actions)]
    toy.write("scores.jsonl", [{"state_id": n, "cands": cands} for n in range(4)])
    toy.write("labels.jsonl", [{"state_id": f"{n}#d1", "selection": n % 3} for n in range(4)])
    review: dict[str, Any] = {"verdict": "drop", "note": "", "reviewer": "r", "time": "2026-01-01T00:00:00Z"}
    toy.write("reviews.jsonl", [{"item_id": "0#d1|t|-|0|1", **review}])
    template = Path(prompts.__file__).parent / "templates" / "trajectory-1.yaml"
    (tmp_path / "mine.yaml").write_text(template.read_text("utf-8") + "# as it is\n", "utf-8")
    for name in ("bench", "other"):
        (tmp_path / f"{name}.txt").write_text(f"Book a {name}.\n")
    tiny_processor.make(tmp_path / "base" / "tiny")
    return tmp_path


def declare(folder: Path, text: str) -> BuildSpec:
    text = text.replace("SHA256", file_sha256(folder / "mine.yaml"))
    (folder / "registry.yaml").write_text(HEAD + text, "utf-8")
    return Registry.load(folder).dataset()


def build(folder: Path, spec: BuildSpec) -> dict[str, Any]:
    runner.build(spec, folder / "built", card=lambda _: "", workers=1, enforce=False)
    return manifest_of(folder / "built")


def inputs(folder: Path) -> Inputs:
    return Inputs(folder, Store(folder / "store"), None)


def test_everything_that_was_declared_comes_back(folder: Path) -> None:
    spec = declare(folder, MADE + SPLIT)
    assert spec.pairs is not None
    assert spec.pairs.trajectories is not None
    assert spec.tokens is not None
    assert spec.tokens.name == "tiny", "no path is published"
    assert len(spec.benchmarks) == 2
    manifest = build(folder, spec)
    ledger = manifest["identity"]["ledger"]
    for table in ("selection_sft", "bt_pairs", "pointwise_scores", "actor_sft"):
        assert ledger[table]["out"], f"{table} has rows, so that its options decide something"
    again = spec_of(manifest, inputs(folder), lambda *_: None)
    assert again == spec
    assert again.parameters() == spec.parameters()
    assert rebuild(manifest, inputs(folder), folder / "work", published=folder / "built") == []


@pytest.mark.parametrize(
    "change",
    [
        ("{leakage: warn, benchmark_tasks: warn", "{leakage: error, secrets: warn, benchmark_tasks: warn"),
        ("selected_by: scores, quality_floor: 0.5, random_control: true", "selected_by: teacher"),
        ("quality_floor: 0.5, random_control: true", "random_control: false"),
        ("{min_gap: 0.1, choose: random, budget: selection}", "{choose: extreme}"),
        ("negatives: {corrupted: 1, cross_task: 1}", "negatives: {cross_task: 2}"),
        (SPLIT, "    split: {validation: 0.5, seed: 1, rule: legacy_draws}\n"),
        ("    tokens: {processor: base/tiny, max_tokens: 5000}\n", ""),
        ("conflicting: quarantine", "conflicting: keep"),
        ("trajectories: {prompt: {file: mine.yaml, sha256: SHA256}, ", "trajectories: {prompt: trajectory/1, "),
    ],
)
def test_so_does_every_other_way_to_say_it(folder: Path, change: tuple[str, str]) -> None:
    text = MADE + SPLIT
    assert change[0] in text
    spec = declare(folder, text.replace(*change))
    assert spec != declare(folder, text)
    spec = declare(folder, text.replace(*change))
    assert spec_of(build(folder, spec), inputs(folder), lambda *_: None) == spec


def test_rules_of_pairs_that_come_ready_made(folder: Path) -> None:
    """They are judged by rules without a prompt, and limited in tokens like our own."""
    said = ("<action>stop('a')</action>", "<action>stop('b')</action>")
    sides = {
        side: {"role": "assistant", "content": text} for side, text in zip(("chosen", "rejected"), said, strict=True)
    }
    asked = [{"role": "user", "content": f"Task: go {n * 'on '}."} for n in (1, 500)]
    Toy(folder).write("ready.jsonl", [{"messages": [user], "images": [], **sides} for user in asked])
    spec = declare(folder, READY + "    tokens: {processor: base/tiny, max_tokens: 400}\n")
    manifest = build(folder, spec)
    stage = manifest["identity"]["ledger"]["bt_pairs"]
    assert (stage["in"], stage["out"], stage["excluded"]) == (2, 1, {"too_long": 1})
    assert spec_of(manifest, inputs(folder), lambda *_: None) == spec
    kept = declare(folder, READY.replace("done_vs_done: keep, ", ""))
    manifest = build(folder, kept)
    assert manifest["identity"]["ledger"]["bt_pairs"]["excluded"] == {"done_vs_done": 2}
    assert spec_of(manifest, inputs(folder), lambda *_: None) == kept
    manifest["identity"]["parameters"]["ready_rules"]["done_vs_done"] = "perhaps"
    with pytest.raises(ArmError, match=r"says what no registry\.yaml could declare"):
        spec_of(manifest, inputs(folder), lambda *_: None)


def test_files_that_the_parameters_rest_on_are_named_when_they_are_lost(folder: Path) -> None:
    manifest = build(folder, declare(folder, MADE + SPLIT))
    for path, text in (("mine.yaml", "\n"), ("bench.txt", "Other.\n"), ("base/tiny/chat_template.jinja", "{# #}")):
        with (folder / path).open("a") as file:
            file.write(text)
    with pytest.raises(ArmError) as caught:
        spec_of(manifest, inputs(folder), lambda *_: None)
    places = [issue.path.removeprefix("$.identity.parameters.") for issue in caught.value.issues]
    assert sorted(places) == ["benchmarks[0]", "bt_pairs.trajectories.prompt", "tokens"]
    assert {issue.message.split(" of ")[0] for issue in caught.value.issues} == {
        "no prompt file", "no benchmark file", "no processor",
    }  # fmt: skip


def test_a_processor_that_is_none_is_told_with_its_line(folder: Path) -> None:
    with pytest.raises(ArmError, match=r"is no folder with a tokenizer\.json: xxx"):
        declare(folder, (MADE + SPLIT).replace("base/tiny", "x" * 300))
    (folder / "base" / "tiny" / "tokenizer.json").unlink()
    with pytest.raises(ArmError) as caught:
        declare(folder, MADE + SPLIT)
    (issue,) = caught.value.issues
    assert issue.path == "$.datasets[0].tokens.processor"
    assert issue.line == (HEAD + MADE).split("\n").index("    tokens: {processor: base/tiny, max_tokens: 5000}") + 1
    assert issue.message.startswith("is no folder with a tokenizer.json: base/tiny; save_pretrained")


def test_another_processor_makes_a_build_stale(folder: Path) -> None:
    """By what its files hold, not by where they lie or what else lies there."""
    declare(folder, MADE + SPLIT)
    _, reasons = Registry.load(folder).build(workers=1)
    (folder / "base" / "tiny" / "config.json").write_text("{}")
    _, reasons = Registry.load(folder).build(workers=1)
    assert reasons == []
    with (folder / "base" / "tiny" / "chat_template.jinja").open("a") as file:
        file.write("{# #}")
    _, reasons = Registry.load(folder).build(workers=1)
    assert len(reasons) == 1
    assert "tokens" in reasons[0]


def test_two_benchmarks_of_one_name_cannot_be_told_apart(folder: Path) -> None:
    with pytest.raises(ArmError) as caught:
        declare(folder, MADE.replace("{name: other,", "{name: bench,") + SPLIT)
    assert [(issue.path, issue.message) for issue in caught.value.issues] == [
        ("$.datasets[0].benchmarks[1].name", "'bench' is declared twice")
    ]
