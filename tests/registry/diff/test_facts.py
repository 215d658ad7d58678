"""What manifests and cards tell: prompts, parameters, sources, names, withdrawn versions, words."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from action_reward_models.registry.diff.card import MAX_COMPARED, card_diff
from action_reward_models.registry.diff.facts import facts
from action_reward_models.registry.diff.model import Change

BEGIN, END = "<!-- action-reward-models:begin -->", "<!-- action-reward-models:end -->"


def source(kind: str, *files: str, **more: Any) -> dict[str, Any]:
    return {
        "kind": kind, "format": "f", "dialect": None, "space": None, "license": "mit", "constants": {},
        "on_invalid": "error", "on_conflict": "error", "origin": None,
        "files": [{"path": path, "sha256": path[0] * 64, "bytes": 1, "records": 2} for path in files], **more,
    }  # fmt: skip


PROMPT = {"id": "selection/1", "sha256": "a" * 64, "kind": "selection", "options": {"reasoning": None}, "renderer": 1}
MANIFEST: dict[str, Any] = {
    "identity": {
        "name": "n", "namespace": "ns", "version": "1.0.0", "license": "mit", "description": "",
        "parameters": {"split": {"seed": 42}, "shards": 8}, "prompts": [PROMPT],
        "sources": [source("states", "a.jsonl", "b.jsonl"), source("labels", "c.jsonl"), source("labels", "d.jsonl")],
    },
    "environment": {},
}  # fmt: skip


def _set(path: str, value: Any) -> Any:
    """A change of the manifest at a path like ``identity.sources.0.license``."""

    def change(manifest: dict[str, Any]) -> None:
        *parents, last = path.split(".")
        node: Any = manifest
        for name in parents:
            node = node[int(name)] if isinstance(node, list) else node[name]
        node[int(last) if isinstance(node, list) else last] = value

    return change


def _swap(manifest: dict[str, Any]) -> None:
    manifest["identity"]["sources"].reverse()


CASES = [
    ("identity.version", "1.1.0", "identity", [Change("version", "1.0.0", "1.1.0")]),
    ("identity.license", "cc0", "identity", [Change("license", "mit", "cc0")]),
    ("identity.parameters.split.seed", 43, "parameters", [Change("parameters.split.seed", 42, 43)]),
    ("identity.parameters.shards", 16, "parameters", [Change("parameters.shards", 8, 16)]),
    (
        "identity.prompts.0.options.reasoning",
        "before",
        "prompts",
        [Change("prompts.selection.options.reasoning", None, "before")],
    ),
    ("identity.prompts", [], "prompts", [Change("prompts.selection", PROMPT, None)]),
    ("environment.withdrawn", {"1.0.0": "wrong"}, "withdrawn", [Change("withdrawn.1.0.0", None, "wrong")]),
    (
        "identity.sources.0.license",
        "cc0",
        "sources",
        [Change("sources[states a.jsonl and 1 more].license", "mit", "cc0")],
    ),
    (
        "identity.sources.1.files.0.sha256",
        "0" * 64,
        "sources",
        [
            Change(
                "sources[labels c.jsonl].files[c.jsonl]",
                {"sha256": "c" * 64, "records": 2},
                {"sha256": "0" * 64, "records": 2},
            )
        ],
    ),
    (
        "identity.sources.0.files",
        source("states", "a.jsonl", "e.jsonl")["files"],
        "sources",
        [
            Change("sources[states a.jsonl and 1 more].files[b.jsonl]", {"sha256": "b" * 64, "records": 2}, None),
            Change("sources[states a.jsonl and 1 more].files[e.jsonl]", None, {"sha256": "e" * 64, "records": 2}),
        ],
    ),
    (  # the only one of its kind is the same source, whatever its files are called
        "identity.sources.0.files",
        source("states", "e.jsonl")["files"],
        "sources",
        [
            Change("sources[states e.jsonl].files[a.jsonl]", {"sha256": "a" * 64, "records": 2}, None),
            Change("sources[states e.jsonl].files[b.jsonl]", {"sha256": "b" * 64, "records": 2}, None),
            Change("sources[states e.jsonl].files[e.jsonl]", None, {"sha256": "e" * 64, "records": 2}),
        ],
    ),
    ("environment.withdrawn", {}, "withdrawn", []),
]


@pytest.mark.parametrize(("path", "value", "where", "expected"), CASES)
def test_facts(path: str, value: Any, where: str, expected: list[Change]) -> None:
    after = deepcopy(MANIFEST)
    _set(path, value)(after)
    found = facts(MANIFEST, after)
    assert getattr(found, where) == expected
    assert [name for name, changes in vars(found).items() if changes] == ([where] if expected else [])


def test_sources_added_removed_and_in_another_order() -> None:
    after = deepcopy(MANIFEST)
    after["identity"]["sources"].append(source("scores", "s.jsonl"))
    (added,) = facts(MANIFEST, after).sources
    assert (added.field, added.before) == ("sources[scores s.jsonl]", None)
    assert added.after["license"] == "mit"
    (removed,) = facts(after, MANIFEST).sources
    assert (removed.field, removed.after) == ("sources[scores s.jsonl]", None)
    swapped = deepcopy(MANIFEST)
    _swap(swapped)
    (order,) = facts(MANIFEST, swapped).sources
    assert order.field == "sources.order"
    assert order.before == order.after[::-1] == ["states a.jsonl and 1 more", "labels c.jsonl", "labels d.jsonl"]


def test_an_older_manifest_says_nothing_about_origins() -> None:
    older = deepcopy(MANIFEST)
    for old in older["identity"]["sources"]:
        del old["origin"]
    assert not facts(older, MANIFEST).changed


def card(above: str = "", block: str = "numbers", head: str = "") -> str:
    return f"---\nlicense: mit\n{head}---\n{above}\n{BEGIN}\n{block}\n{END}\n"


def test_words_of_a_person_and_generated_lines_are_told_apart() -> None:
    assert not card_diff(card("mine"), card("mine")).changed
    words = card_diff(card("mine\nand yours"), card("mine\nand theirs"))
    assert words.words.lines == ["-and yours", "+and theirs"]
    assert not words.generated.changed
    made = card_diff(card("mine", "1 row"), card("mine", "2 rows"))
    assert not made.words.changed
    assert made.generated.lines == ["-1 row", "+2 rows"]
    assert card_diff(card(), card(head="mine: 1\n")).words.lines == ["+mine: 1"]
    assert card_diff(None, card("mine")).words.lines == ["+mine"]
    assert not card_diff(None, None).changed


def test_cards_that_cannot_be_told_apart_are_one_text() -> None:
    broken = card_diff(card("mine"), card("mine") + BEGIN)
    assert broken.words.changed
    assert "markers" in broken.note


def test_long_cards_and_lines_are_bounded() -> None:
    long = card_diff(card("\n".join("ab" * 9000)), card())
    assert long.words.changed
    assert long.words.left_out > MAX_COMPARED
    wide = card_diff(card("x" * 10**6), card())
    assert len(wide.words.lines[0]) < 2000
