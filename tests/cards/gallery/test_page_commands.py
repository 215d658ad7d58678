"""The whole way as it is typed: build the example, write its page, judge, declare review.jsonl, build again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from action_reward_models.cli import arm
from action_reward_models.schemas.built import BuiltTables
from action_reward_models.schemas.store import ID_FIELDS
from click.testing import CliRunner

if TYPE_CHECKING:
    from action_reward_models.tests.cards.gallery.browser import Context

pytestmark = [pytest.mark.browser, pytest.mark.slow]

EXAMPLE = Path(__file__).parents[3] / "examples" / "miniwob"
NAME = "action-reward-models-data"
Rows = dict[str, dict[str, Any]]


def run(*words: str) -> str:
    done = CliRunner().invoke(arm, list(words))
    assert done.exit_code == 0, done.output
    return done.stdout


def tables(folder: Path) -> dict[str, Rows]:
    """The rows of every table of a build by their ids."""
    built = BuiltTables.of(folder, lambda *_: None, "reading")
    found: dict[str, Rows] = {}
    for table in built.identity["tables"].keys() & ID_FIELDS.keys():
        name = ID_FIELDS[table]
        found[table] = {row[name]: row for row in built.rows(table)}
    return found


def test_from_keys_to_rows(tmp_path: Path, person: Callable[..., Context], monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "data-set", ignore=shutil.ignore_patterns("build"))
    monkeypatch.chdir(tmp_path / "data-set")
    run("build", "registry.yaml", "--workers", "1")
    shutil.copytree(Path("build") / NAME, tmp_path / "first")
    report = orjson.loads(run("review", NAME, "--items", "400", "--out", "page.html", "--json"))
    page = person().open_file(Path("page.html").resolve())
    assert len(page.listed) == report["items"]
    page.sign("ann")

    before = tables(tmp_path / "first")
    items = {item["id"]: item for item in page.data["items"]}
    picked: dict[str, int] = {}  # label -> candidate that was named
    kept_pairs: set[str] = set()
    dropped: set[str] = set()
    page.choose("table", "selection_sft")
    page.choose("split", "train")
    page.page.locator("#item").focus()
    for number in range(16):
        item = items[page.current]
        candidates = page.data["sets"][item["set_id"]]["candidates"]
        follows = before["teacher_labels"][item["label_id"]]["selected_index"]
        cards = page.page.locator("#candidates .candidate")
        shown = [int(card.get_attribute("data-index") or "") for card in cards.all()]
        distinct = [place for place, index in enumerate(shown) if candidates[index]["same_as"] is None]
        place = distinct[number % len(distinct)]
        page.press(str(place + 1))
        same = candidates[follows]["same_as"]
        if shown[place] != (follows if same is None else same):
            picked[item["label_id"]] = shown[place]
    assert len(picked) >= 8
    page.press("c")
    page.choose("table", "bt_pairs")
    for item_id in page.listed:
        item = items[item_id]
        if item["excluded"] is None and item["label_id"] not in picked and len(dropped) < 5:
            page.show(item_id)
            page.press("x")
            dropped.add(item_id)
        elif item["excluded"] and item["excluded"]["status"] == "quarantined" and len(kept_pairs) < 3:
            page.show(item_id)
            page.press("y")
            kept_pairs.add(item_id)
    Path("review.jsonl").write_bytes(page.export())

    registry = Path("registry.yaml").read_text("utf-8")
    source = "      - {kind: reviews, format: review, path: review.jsonl}\n    split:"
    Path("registry.yaml").write_text(registry.replace("    split:", source, 1), "utf-8")
    run("validate", "registry.yaml")
    run("build", "registry.yaml", "--workers", "1")
    after = tables(Path("build") / NAME)

    for table in ("states", "candidate_sets", "teacher_labels"):
        assert after[table] == before[table]  # the teacher's words stay the teacher's
    old, new = before["selection_sft"], after["selection_sft"]
    changed = {row["label_id"] for row_id, row in old.items() if new.get(row_id) != row}
    assert changed == {row["label_id"] for row in old.values()} & picked.keys()
    assert old.keys() == new.keys()
    for row_id, row in new.items():
        if row["label_id"] in picked:
            place = row["order"].index(picked[row["label_id"]]) + 1
            assert row["completion"][0]["content"][0]["text"].endswith(f'{{"selection": {place}}}')
            assert {key: row[key] for key in row if key != "completion" and not key.endswith("sha256")} == {
                key: old[row_id][key] for key in row if key != "completion" and not key.endswith("sha256")
            }
    old, new = before["bt_pairs"], after["bt_pairs"]
    assert not dropped & new.keys()
    apart = {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
    others = {key for key in apart if (old.get(key) or new[key])["label_id"] not in picked}
    assert others - dropped == {key for key in others if key not in old}  # kept ones, or what a drop made room for
    for key in new.keys() - old.keys():
        row = new[key]
        if row["label_id"] in picked:
            assert row["chosen_index"] == picked[row["label_id"]]
    said = {row["item_id"]: (row["verdict"], row["selected_index"]) for row in after["reviews"].values()}
    assert {item_id: index for item_id, (_, index) in said.items() if index is not None} == picked
    assert {item_id for item_id, (verdict, _) in said.items() if verdict == "drop"} == dropped
    assert kept_pairs <= said.keys()
    assert Path("page.html").stat().st_size == report["bytes"]
