"""Which bump a change needs, and which versions fit it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.registry.bumps import Level, bump, fits, larger_than_needed, needed, next_version

Manifest = dict[str, Any]
Change = Callable[[Manifest], object]
MANIFEST: Manifest = json.loads((Path(__file__).parents[1] / "cards" / "manifest.json").read_text("utf-8"))
OTHER = "0" * 64


def table(manifest: Manifest, name: str) -> dict[str, Any]:
    entry: dict[str, Any] = manifest["identity"]["tables"][name]
    return entry


def flip(manifest: Manifest) -> None:
    table(manifest, "teacher_labels")["row_digest"] = OTHER


def add_row(manifest: Manifest) -> None:
    table(manifest, "states").update(row_digest=OTHER, rows=154)


def without_selection(manifest: Manifest) -> None:
    """Its rows are gone, the table is still declared: then it has no configuration, and another one is the default."""
    table(manifest, "selection_sft").update(rows=0, row_digest=OTHER, splits={})


def new_table(manifest: Manifest) -> None:
    manifest["identity"]["tables"]["zeta"] = copy.deepcopy(table(manifest, "states"))


def rename(manifest: Manifest) -> None:
    manifest["identity"].update(name="another", namespace="you", version="3.0.0")
    manifest["environment"]["files"]["load.py"]["sha256"] = OTHER


def other_bytes(manifest: Manifest) -> None:
    manifest["environment"]["files"]["data/states/train-00000-of-00001.parquet"]["sha256"] = OTHER


def figure(manifest: Manifest) -> None:
    """Drawn anew from the same figures, by another library."""
    manifest["environment"]["files"]["assets/slots.png"] = {"sha256": OTHER, "bytes": 9}


def identity(**values: Any) -> Change:
    return lambda manifest: manifest["identity"].update(values)


def file(path: str) -> Change:
    return lambda manifest: manifest["environment"]["files"][path].update(sha256=OTHER)


CASES: list[tuple[str, Change, Level, list[str]]] = [
    ("nothing", lambda _: None, Level.NONE, []),
    ("another machine", lambda m: m["environment"].update(platform="x", seconds=9.0, workers=3), Level.NONE, []),
    ("a withdrawn version", lambda m: m["environment"].update(withdrawn={"1.0.0": "bad"}), Level.NONE, []),
    ("equal rows in other bytes", other_bytes, Level.NONE, []),
    ("only its name and version", rename, Level.NONE, []),
    ("description", identity(description="More words."), Level.PATCH, ["the description differs"]),
    ("licence", identity(license="apache-2.0"), Level.PATCH, ["the license: mit -> apache-2.0"]),
    ("sources that give the same rows", identity(sources=[]), Level.PATCH, ["the sources differ"]),
    ("a prompt that no row uses", identity(prompts=[]), Level.PATCH, ["the prompts differ"]),
    ("parameters", identity(parameters={}), Level.PATCH, ["the parameters differ"]),
    ("a template", file("prompts/scalar-1.json"), Level.PATCH, ["files beside the rows differ"]),
    ("a figure", figure, Level.NONE, []),
    ("load.py of the same version", file("load.py"), Level.PATCH, ["files beside the rows differ"]),
    ("a label", flip, Level.MINOR, ["the rows of teacher_labels (as many as before)"]),
    ("a row more", add_row, Level.MINOR, ["the rows of states: 153 -> 154"]),
    ("a table more", new_table, Level.MINOR, ["the table zeta is new"]),
    (
        "a split more", lambda m: table(m, "exclusions")["splits"].update(validation={}), Level.MINOR,
        ["the split validation of exclusions is new"],
    ),
    (
        "nothing is excluded any more", lambda m: table(m, "exclusions").update(splits={}, rows=0, row_digest=OTHER),
        Level.MINOR, [f"the rows of exclusions: {table(MANIFEST, 'exclusions')['rows']:,} -> 0"],
    ),
    ("a table less", lambda m: m["identity"]["tables"].pop("bt_pairs"), Level.MAJOR, ["the table bt_pairs is gone"]),
    (
        "a split less", lambda m: table(m, "states")["splits"].pop("validation"), Level.MAJOR,
        ["the split validation of states is gone"],
    ),
    (
        "a schema", lambda m: table(m, "states").update(schema="state/2"), Level.MAJOR,
        ["the schema of states: state/1 -> state/2"],
    ),
    (
        "pictures", lambda m: table(m, "bt_pairs").update(images="reference"), Level.MAJOR,
        ["the pictures of bt_pairs: embed -> reference"],
    ),
    (
        "the default", without_selection, Level.MAJOR,
        [
            "the split train of selection_sft is gone", "the split validation of selection_sft is gone",
            "the default table: selection_sft -> states", "the rows of selection_sft: 96 -> 0",
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("change", "level", "reasons"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_needed(change: Change, level: Level, reasons: list[str]) -> None:
    after = copy.deepcopy(MANIFEST)
    change(after)
    assert needed(MANIFEST, after, card_changed=False) == (level, reasons)


def test_card_and_files() -> None:
    assert needed(MANIFEST, MANIFEST, card_changed=True) == (Level.PATCH, ["the words on the card differ"])
    assert needed(MANIFEST, MANIFEST, card_changed=False, files_changed=True)[0] is Level.PATCH
    after = copy.deepcopy(MANIFEST)
    file("load.py")(after)
    assert needed(MANIFEST, after, card_changed=False, files_changed=False) == (Level.NONE, [])
    flip(after)
    level, reasons = needed(MANIFEST, after, card_changed=True)
    assert level is Level.MINOR
    assert reasons == [
        "the rows of teacher_labels (as many as before)",
        "files beside the rows differ",
        "the words on the card differ",
    ]


@pytest.mark.parametrize(
    ("last", "declared", "level", "right", "larger"),
    [
        (None, "0.7.3", Level.MAJOR, None, False),
        ("1.2.3", "1.2.3", Level.NONE, None, False),
        ("1.2.3", "1.2.4", Level.NONE, None, True),
        ("1.2.3", "1.2.2", Level.NONE, "1.2.3", False),
        ("1.2.3", "1.2.3", Level.PATCH, "1.2.4", False),
        ("1.2.3", "1.2.4", Level.PATCH, None, False),
        ("1.2.3", "1.2.9", Level.PATCH, None, False),
        ("1.2.3", "1.3.0", Level.PATCH, None, True),
        ("1.2.3", "1.2.4", Level.MINOR, "1.3.0", False),
        ("1.2.3", "1.3.0", Level.MINOR, None, False),
        ("1.2.3", "1.5.7", Level.MINOR, None, False),
        ("1.2.3", "2.0.0", Level.MINOR, None, True),
        ("1.2.3", "1.1.9", Level.MINOR, "1.3.0", False),
        ("1.2.3", "1.9.9", Level.MAJOR, "2.0.0", False),
        ("1.2.3", "2.0.0", Level.MAJOR, None, False),
        ("1.2.3", "4.1.0", Level.MAJOR, None, False),
        ("1.2.3", "0.9.0", Level.MAJOR, "2.0.0", False),
        ("1.9.10", "1.10.0", Level.MINOR, None, False),
        ("0.3.0", "0.4.0", Level.MAJOR, "1.0.0", False),
    ],
)
def test_fits(last: str | None, declared: str, level: Level, right: str | None, larger: bool) -> None:
    assert fits(last, declared, level) == right
    assert larger_than_needed(last, declared, level) is larger
    if right and last and level:
        assert fits(last, right, level) is None


def test_next_version_is_the_bump_asked_for() -> None:
    for level in Level:
        assert bump("1.2.3", next_version("1.2.3", level)) is level
    assert [str(level) for level in Level] == ["none", "patch", "minor", "major"]
