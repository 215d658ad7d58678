"""Every number of a model card is the manifest's: tables parsed back, and one changed number found."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from action_reward_models.cards.model import eval_results, problems, render
from action_reward_models.schemas.validate import for_schema
from action_reward_models.tests.cards.model import read


def test_the_examples_are_manifests(manifest: dict[str, Any]) -> None:
    assert for_schema("model_manifest/1").problems(manifest) == []


def test_metrics_and_baselines_are_the_manifests(manifest: dict[str, Any]) -> None:
    (evaluation,) = manifest["evaluations"]
    card = render(manifest)
    rows = read.table(card, "Metric", "What it is")
    assert len(rows) == len(evaluation["reports"])
    for row, report in zip(rows, evaluation["reports"], strict=True):
        assert row[0] == report["metric"].replace("_", " ")
        assert row[1] != "–", "every metric of ours is explained"
        keys = ("value", "interval_low", "interval_high", "n", "n_valid")
        assert all(read.near(cell, report[key]) for cell, key in zip(row[2:], keys, strict=True)), row
    rules = [(r, b) for r in evaluation["reports"] for b in r["baselines"]]
    rows = read.table(card, "Metric", "Rule")
    assert len(rows) == len(rules)
    for row, (report, rule) in zip(rows, rules, strict=True):
        less = next(d for d in report["differences"] if d["baseline"] == rule["name"])
        wanted = (rule["value"], less["n"], less["value"], less["low"], less["high"])
        assert all(read.near(cell, value) for cell, value in zip(row[2:], wanted, strict=True)), row


def test_counts_of_an_evaluation_are_the_manifests(manifest: dict[str, Any]) -> None:
    (evaluation,) = manifest["evaluations"]
    card = render(manifest)
    counted = {row[0]: int(row[2]) for row in read.table(card, "Outcome")}
    assert counted == evaluation["outcomes"]
    assert {row[0]: int(row[2]) for row in read.table(card, "Reason", "Meaning", "Sets")} == evaluation["left_out"]
    for by, heading in (("verb", "Action of the reference"), ("host", "Host"), ("turn", "Turn")):
        groups = {g["value"]: g for g in evaluation["breakdown"] if g["by"] == by}
        rows = read.table(card, heading, "Items")
        assert {row[0] for row in rows} == set(groups)
        for name, n, score in rows:
            assert int(n) == groups[name]["n"]
            assert read.near(score, groups[name]["score"])
    if evaluation["slots"]:
        rows = read.table(card, "Place", "Picks")
        assert [int(row[1]) for row in rows] == evaluation["slots"]
        assert [row[2] for row in rows] == [f"{100 * n / sum(evaluation['slots']):.1f} %" for n in evaluation["slots"]]
    else:
        rows = read.table(card, "Probability from")
        assert len(rows) == len(evaluation["calibration"])
        for row, one in zip(rows, evaluation["calibration"], strict=True):
            wanted = (one["low"], one["high"], one["n"], one["predicted"], one["observed"])
            assert all(read.near(cell, value) for cell, value in zip(row, wanted, strict=True))


def test_the_largest_groups_are_shown_and_turns_in_order(scalar: dict[str, Any]) -> None:
    metric = {"metric": "exact_agreement", "score": 0.5}
    groups = [{"by": "host", "value": f"h{n:02}", "n": n, **metric} for n in range(1, 16)]
    turns = [{"by": "turn", "value": str(n), "n": n % 3 + 1, **metric} for n in (10, 2, 0)]
    scalar["evaluations"][0]["breakdown"] = [*groups, *turns]
    card = render(scalar)
    assert [row[0] for row in read.table(card, "Host")] == [f"h{n:02}" for n in range(15, 3, -1)]
    assert "And 3 more groups, in `evaluation/validation/report.json`." in card
    assert [row[0] for row in read.table(card, "Turn")] == ["0", "2", "10"]


def test_training_and_contract_are_the_manifests(manifest: dict[str, Any]) -> None:
    card, training, checkpoint = render(manifest), manifest["training"], manifest["checkpoint"]
    contract, trained = (dict(rows) for head, rows in read.tables(card) if head == ["What", "Value"])
    for label, key in (
        ("Rows in the split", "rows"), ("Rows used", "used"), ("Steps of the optimizer", "steps"),
        ("Passes over the rows", "epochs"), ("Rows per step", "batch"), ("Parameters, whole model", "parameters"),
        ("Parameters, trained", "trained_parameters"), ("Loss, first in the log", "loss_first"),
        ("Loss, last in the log", "loss_last"),
    ):  # fmt: skip
        assert read.near(trained[label], training[key]), label
    assert trained["Seed"] == str(manifest["identity"]["recipe"]["seed"])
    assert trained["Seconds"].split(" ")[0] == f"{training['seconds']:,.0f}"
    wanted = {row[0]: int(row[2]) for head, rows in read.tables(card) if head[2:3] == ["Rows"] for row in rows}
    assert wanted == training["unusable"]
    assert contract["Prompt, sha256"] == checkpoint["prompt"]["sha256"]
    assert contract["Base model"] == f"{checkpoint['base']['repo']} at {checkpoint['base']['commit']}"
    for label, key in (("Picture, least area", "min_pixels"), ("Picture, largest area", "max_pixels")):
        assert contract[label] == f"{checkpoint['processor'][key]:,} pixels"
    assert contract["Conversation, at most"].startswith(f"{checkpoint['processor']['max_tokens']:,} tokens")
    if checkpoint["head"]:
        token, number = checkpoint["head"]["scored_token"], checkpoint["head"]["scored_token_id"]
        assert contract["Score is read at"] == f"the last token, {json.dumps(token)} (id {number})"


def test_the_recipe_reads_back(manifest: dict[str, Any]) -> None:
    (said,) = read.snippets(render(manifest), "yaml")
    assert yaml.safe_load(said) == manifest["identity"]["recipe"]


def test_one_changed_number_is_found(manifest: dict[str, Any]) -> None:
    card = render(manifest)
    assert problems(card, manifest) == []
    head, marker, body = card.partition("<!-- action-reward-models:begin -->")
    numbers = list(re.finditer(r"(?<![\w&#])\d[\d,.]*\d|(?<![\w&#])\d\b", body))
    assert len(numbers) > 100
    for number in numbers[:: len(numbers) // 12]:
        changed = body[: number.start()] + "777777" + body[number.end() :]
        assert problems(head + marker + changed, manifest), number.group()


def _numbers(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key in value:
            yield from _numbers(value[key], (*path, key))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _numbers(item, (*path, place))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path


def test_every_number_of_an_evaluation_and_of_training_is_shown(manifest: dict[str, Any]) -> None:
    """A manifest with another number gives another card: nothing that was measured is left away."""
    card = render(manifest)
    silent = set()
    for path in _numbers({key: manifest[key] for key in ("training", "evaluations")}):
        if "curve" in path:
            continue  # the figure has it
        owner: Any = manifest
        for key in path[:-1]:
            owner = owner[key]
        before = owner[path[-1]]
        owner[path[-1]] = before + 1
        if render(manifest) == card:
            silent.add(path)
        owner[path[-1]] = before
    assert silent == set()


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda m: m["evaluations"][0]["reports"][0].update(value=0.1), "model-index"),
        (lambda m: m["checkpoint"]["base"].update(repo="lab/other"), "base_model"),
        (lambda m: m["identity"].update(license="mit"), "license"),
        (lambda m: m["identity"]["dataset"].update(repo="lab/else"), "datasets"),
    ],
)
def test_a_head_of_another_manifest_is_found(
    scalar: dict[str, Any], change: Callable[[dict[str, Any]], None], where: str
) -> None:
    card = render(scalar)
    change(scalar)
    assert any(f"its {where} is" in problem for problem in problems(card, scalar))


def test_results_that_lie_beside_are_compared(scalar: dict[str, Any]) -> None:
    ((path, _),) = eval_results(scalar).items()
    scalar["environment"]["files"][path] = {"sha256": "0" * 64, "bytes": 1}
    assert problems(render(scalar), scalar) == [f"{path} is not what the manifest's evaluations give"]


def test_another_versions_card_is_compared_where_loading_depends_on_it(scalar: dict[str, Any]) -> None:
    scalar["environment"]["action_reward_models"] = "0.0.1"
    card = render(scalar)
    assert problems(card.replace("0.758", "0.900"), scalar) == []
    assert problems(card.replace("base_model: Qwen/Qwen3.5-4B", "base_model: lab/other"), scalar)
    assert problems("---\na: *x\n---\n", scalar) != []
