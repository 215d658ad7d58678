"""The YAML of a model card and the files of results, read back with the Hub's own classes; a person's words survive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from action_reward_models.cards.model import eval_results, merge, metadata_problems, problems, render, words
from action_reward_models.cards.model_figures import figures
from action_reward_models.hub_sync.local_hub.cards import check_card
from action_reward_models.tests.cards.model import read
from huggingface_hub import ModelCard, parse_eval_result_entries

MINE = """---
# of mine
license: mit
language: en
tags: [my-tag, lora]
model-index:
- name: other
  results:
  - task: {type: text-generation, name: Mine}
    dataset: {type: lab/bench, name: Bench}
    metrics: [{type: accuracy, value: 0.5}]
---
Words of mine.
"""


def _data(text: str) -> Any:
    """The head of a card, as the Hub's own class has it."""
    return ModelCard(text).data


def _reports(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    return [report for one in manifest["evaluations"] for report in one["reports"]]


def test_the_head_is_what_the_hub_knows(manifest: dict[str, Any]) -> None:
    text = render(manifest)
    head = _data(text).to_dict()
    scalar = manifest["checkpoint"]["kind"] == "scalar"
    assert head["license"] == "apache-2.0"
    assert head["base_model"] == ("Qwen/Qwen3.5-4B" if scalar else "your-name/miniwob-selection-arm")
    assert head["base_model_relation"] == ("adapter" if scalar else "finetune")
    assert head["datasets"] == ["your-name/action-reward-models-data"]
    assert head["library_name"] == "peft"
    assert head["pipeline_tag"] == ("text-classification" if scalar else "image-text-to-text")
    assert ("bradley-terry" in head["tags"]) == scalar
    assert check_card(text, "model") == ([], [])
    assert metadata_problems(text) == []


def test_model_index_reads_back(manifest: dict[str, Any]) -> None:
    found = _data(render(manifest)).eval_results
    (one,) = manifest["evaluations"]
    reports = {report["metric"]: report for report in one["reports"]}
    assert {r.metric_type: r.metric_value for r in found} == {name: r["value"] for name, r in reports.items()}
    assert len(found) == len(reports)
    for result in found:
        report = reports[result.metric_type]
        assert result.dataset_type == one["dataset"]["repo"]
        assert result.dataset_revision == one["dataset"]["commit"]
        pairs = report["metric"] in ("pair_accuracy", "margin", "calibration_error")
        assert (result.dataset_config, result.dataset_split) == (
            "bt_pairs" if pairs else "candidate_sets",
            "validation",
        )
        wanted = {key: report[key] for key in ("n", "n_valid", "interval_low", "interval_high")}
        assert result.metric_args == {key: value for key, value in wanted.items() if value is not None}


def test_eval_results_read_back(manifest: dict[str, Any]) -> None:
    ((path, text),) = eval_results(manifest).items()
    assert path == ".eval_results/validation.yaml"
    assert "!!" not in text
    entries = parse_eval_result_entries(yaml.safe_load(text))
    assert [entry.value for entry in entries] == [report["value"] for report in _reports(manifest)]
    assert len({entry.task_id for entry in entries}) == len(entries)
    for entry, report in zip(entries, _reports(manifest), strict=True):
        assert entry.dataset_id == "your-name/action-reward-models-data"
        assert entry.dataset_revision == manifest["evaluations"][0]["dataset"]["commit"]
        assert entry.task_id == f"validation-{report['metric']}"
        assert entry.notes is not None
        assert f"{report['n_valid']} valid of {report['n']} items" in entry.notes
        assert entry.date is None


def test_data_that_was_not_published_yet_is_named_by_its_version(scalar: dict[str, Any]) -> None:
    scalar["evaluations"][0]["dataset"]["commit"] = None
    assert {r.dataset_revision for r in _data(render(scalar)).eval_results or []} == {"v1.0.0"}
    assert "revision: v1.0.0" in eval_results(scalar)[".eval_results/validation.yaml"]
    assert 'revision="v1.0.0",' in render(scalar)


def test_what_was_not_measured_is_no_result(scalar: dict[str, Any]) -> None:
    for report in _reports(scalar):
        report["value"] = None
    assert eval_results(scalar) == {}
    assert "model-index" not in _data(render(scalar)).to_dict()
    scalar["evaluations"] = []
    assert eval_results(scalar) == {}


@pytest.mark.parametrize(
    ("head", "why"),
    [
        ("license: my-own", "license 'my-own' is none"),
        ("license: mit\nbase_model_relation: child", "base_model_relation is 'child'"),
        ("license: mit\nbase_model: 3", "base_model holds 3"),
        ("license: mit\ntags: [no]", "tags holds False"),
        ("license: mit\nmodel-index: [{name: x, results: [{task: {}}]}]", "is not accepted"),
        ("license: mit\nmodel-index: 3", "is not accepted"),
        ("a: &x 1\nb: *x", "alias"),
        ("- a", "keys with values"),
    ],
)
def test_metadata_that_the_hub_would_not_take_is_found(head: str, why: str) -> None:
    assert any(why in problem for problem in metadata_problems(f"---\n{head}\n---\n# x\n"))


def test_words_and_keys_of_a_person_survive(manifest: dict[str, Any]) -> None:
    once = merge(MINE, manifest)
    again = merge(once, manifest)
    assert once == again
    assert words(MINE) == words(once)
    assert problems(once, manifest) == []
    assert "Words of mine.\n" in once
    assert "# of mine\n" in once
    head = _data(once).to_dict()
    assert head["language"] == "en"
    assert head["license"] == "apache-2.0"
    assert head["tags"][-1] == "my-tag"
    results = head["model-index"][0]["results"]
    assert [result["task"]["name"] for result in results][-1] == "Mine"
    assert [result["task"]["name"] for result in results].count("Mine") == 1
    assert words(render(manifest)) == ("", "", "", "", "")


def test_results_of_an_older_version_go(scalar: dict[str, Any]) -> None:
    """Ours are known by their task, whatever version wrote them."""
    old = render(scalar)
    scalar["evaluations"][0]["dataset"] |= {"revision": "v2.0.0", "commit": "d" * 40}
    assert problems(old, scalar)
    new = merge(old, scalar)
    assert {r.dataset_revision for r in _data(new).eval_results or []} == {"d" * 40}
    assert words(new) == ("", "", "", "", "")


def test_figures_are_drawn_and_shown(manifest: dict[str, Any], tmp_path: Path) -> None:
    first, second = figures(manifest, tmp_path / "a"), figures(manifest, tmp_path / "b")
    names = [path.relative_to(tmp_path / "a").as_posix() for path in first]
    kind = "calibration" if manifest["checkpoint"]["kind"] == "scalar" else "slots"
    assert names == ["assets/loss.png", f"assets/validation-{kind}.png"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert all(path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" for path in first)
    _, links, _ = read.markup(read.body(render(manifest)))
    assert {name for name in names if any(f"'{name}'" in link for link in links)} == set(names)
    for name in names:
        del manifest["environment"]["files"][name]
    assert "![" not in render(manifest)


def test_nothing_to_draw_draws_nothing(scalar: dict[str, Any], tmp_path: Path) -> None:
    scalar |= {"training": None, "evaluations": []}
    assert figures(scalar, tmp_path) == []
