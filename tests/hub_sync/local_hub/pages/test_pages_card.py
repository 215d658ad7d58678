"""The YAML at the head of a card is read as strings, and never builds more than it says."""

from __future__ import annotations

import time

import pytest
from action_reward_models.hub_sync.local_hub.card_yaml import LIMIT, card_data, parse_card_yaml
from action_reward_models.hub_sync.local_hub.pages.card import (
    claims,
    configs,
    facts,
    matches,
    split_card,
)

LAUGHS = "a0: &a0 [ha]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))


def test_head_and_body_are_told_apart() -> None:
    card = split_card("---\r\nlicense: mit\r\n---\r\n\r\n# Title\r\n")
    assert (card.head, card.body, card.problem) == ({"license": "mit"}, "\r\n# Title\r\n", None)
    assert split_card("# Title\n---\na: b\n---\n").head == {}
    assert split_card("---\na: b\n").body == "---\na: b\n"


def test_values_stay_as_they_are_written() -> None:
    head = split_card("---\nversion: 1.10\nlanguage: [no, en]\nsha: 0123456\ndate: 2026-13-45\nn: 1e99999\n---\n").head
    assert facts(head) == [
        ("version", ["1.10"]),
        ("language", ["no", "en"]),
        ("sha", ["0123456"]),
        ("date", ["2026-13-45"]),
        ("n", ["1e99999"]),
    ]


@pytest.mark.parametrize(
    ("yaml", "problem"),
    [
        (LAUGHS, "it uses aliases"),
        ("a: &a [*a]\n", "it uses aliases"),
        ("a: !!python/object/apply:os.system [ls]\n", "it uses tags"),
        ("a: !numpy x\n", "it uses tags"),
        ("- a\n- b\n", "it is no mapping"),
        ("a: 'open\n", "it is no valid YAML"),
        ("? [a]\n: b\n", "it is no valid YAML"),
        ("a: \x07\n", "it is no valid YAML"),
        ("a: " + "[" * 100_000 + "\n", "it is n"),
        ("a: " + "{a: " * 50_000 + "\n", "it is nested too deeply"),
        ("- " * 5_000 + "\n", "it is nested too deeply"),
        (f"a: {'x' * LIMIT}\n", "it is longer than"),
    ],
)
def test_hostile_yaml_is_named_and_not_read(yaml: str, problem: str) -> None:
    begin = time.thread_time()
    card = split_card(f"---\n{yaml}---\nWords.\n")
    assert card.problem is not None
    assert card.problem.startswith(problem)
    assert card.head == {}
    assert card.body == "Words.\n"
    assert card_data(f"---\n{yaml}---\nWords.\n".encode()) is None
    assert time.thread_time() - begin < 3


def test_the_api_and_the_pages_read_one_head() -> None:
    """Where they find it, and what they refuse, is the same; only the values are strings on a page."""
    for text in ("\ufeff---\r\na: 1\r\n---\r\nx", "  \n---\na: 1\n---", "---  \na: 1\n--- \nx"):
        assert parse_card_yaml(text) == {"a": 1}, text
        assert split_card(text).head == {"a": "1"}, text
    for text in ("a: 1", "---\na: 1\n", "---\n---\nx", "---\n# only words\n---\n", "x\n---\na: 1\n---\n"):
        assert parse_card_yaml(text) is None, text
        assert split_card(text).head == {}, text


def test_every_form_of_data_files_is_read() -> None:
    head = split_card(
        "---\nconfigs:\n"
        "- {config_name: a, default: true,\n"
        "   data_files: [{split: train, path: a/*.parquet}, {split: test, path: [x, y]}]}\n"
        "- {config_name: b, data_files: b/*.parquet}\n"
        "- {config_name: c, data_files: {train: c1, validation: [c2, c3]}}\n"
        "- {config_name: d, data_files: [d1, d2]}\n"
        "- words\n- {data_files: [[x], {path: {a: b}}]}\n---\n"
    ).head
    found = {config.name: (config.default, config.splits) for config in configs(head)}
    assert found == {
        "a": (True, {"train": ["a/*.parquet"], "test": ["x", "y"]}),
        "b": (False, {"train": ["b/*.parquet"]}),
        "c": (False, {"train": ["c1"], "validation": ["c2", "c3"]}),
        "d": (False, {"train": ["d1", "d2"]}),
        "default": (False, {"train": []}),
    }


def test_claims_that_are_no_numbers_are_none() -> None:
    head = split_card(
        "---\ndataset_info:\n  config_name: a\n  splits:\n  - {name: train, num_examples: 12}\n"
        "  - {name: test, num_examples: -1}\n  - {name: x, num_examples: 1e3}\n  - {name: y, num_examples: ²}\n---\n"
    ).head
    assert claims(head) == {("a", "train"): 12}


@pytest.mark.parametrize(
    ("path", "pattern", "fits"),
    [
        ("data/a/train-0.parquet", "data/a/train-*.parquet", True),
        ("data/a/b/train-0.parquet", "data/a/train-*.parquet", False),
        ("data/a/b/train-0.parquet", "data/**/train-*.parquet", True),
        ("data/train-0.parquet", "data/**/train-*.parquet", True),
        ("data/a/b.parquet", "**", True),
        ("b.parquet", "./b.parquet", True),
        ("data/x", "data", False),
        ("/".join("a" * 300), "/".join(["**"] * 50), False),
        ("a" * 200 + "b", "*a" * 100, False),
    ],
)
def test_patterns_match_as_in_folders(path: str, pattern: str, fits: bool) -> None:
    begin = time.thread_time()
    assert matches(path, pattern) is fits
    assert time.thread_time() - begin < 0.5
