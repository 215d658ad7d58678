"""A dataset with reviews as a publisher meets it: compared, rebuilt, searched for secrets, traced, and built upon."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.cards.dataset import problems
from action_reward_models.cli import arm
from action_reward_models.hub_sync.scan import scan
from action_reward_models.registry import Registry, check_build
from action_reward_models.registry.bumps import needed
from action_reward_models.registry.diff import Side, compare
from action_reward_models.registry.importing import Said, look
from action_reward_models.registry.provenance.lineage import Node
from action_reward_models.registry.provenance.rebuild import rebuild
from action_reward_models.registry.provenance.respec import Inputs
from action_reward_models.registry.provenance.walk import of_build
from action_reward_models.registry.sources.store import Store
from action_reward_models.schemas.built import built_rows
from action_reward_models.schemas.manifest import manifest_of
from action_reward_models.schemas.store import TABLES
from action_reward_models.tests.hub_sync.conftest import Publisher
from click.testing import CliRunner

LABELS = [f"e{n}__t0#d0|toy|-|0" for n in range(3)]
SOURCE = "      - {kind: reviews, format: review, path: review.jsonl}\n"


def said(item: str, verdict: str = "relabel", **more: Any) -> dict[str, Any]:
    time = "2026-01-01T00:00:00Z"
    return {"item_id": item, "verdict": verdict, "note": "", "reviewer": "ann", "time": time, **more}


class Reviewed:
    """A publisher's registry, built without (``before``) and with reviews (``after``)."""

    def __init__(self, folder: Path, *reviews: dict[str, Any]) -> None:
        self.publisher = Publisher(folder / "registry", picks=[0, 1, 0])
        self.before = shutil.copytree(self.publisher.build(), folder / "before")
        self.folder = self.publisher.folder
        (self.folder / "review.jsonl").write_text("".join(json.dumps(r) + "\n" for r in reviews), "utf-8")
        registry = self.folder / "registry.yaml"
        text = registry.read_text("utf-8").replace("    split:", f"{SOURCE}    split:").replace("1.0.0", "1.1.0")
        registry.write_text(text, "utf-8")
        Registry.load(self.folder).build(workers=1)
        self.after = self.publisher.built

    @property
    def rows(self) -> dict[str, int]:
        return {table: entry["rows"] for table, entry in manifest_of(self.after)["identity"]["tables"].items()}


@pytest.fixture
def reviewed(tmp_path: Path) -> Reviewed:
    """The first pick is replaced, the second confirmed, and the third has a note."""
    answers = [said(LABELS[0], selected_index=1), said(LABELS[1], selected_index=1)]
    return Reviewed(tmp_path, *answers, said(LABELS[2], "note", note="Why?"))


def test_the_build_is_whole_and_says_it_has_one_table_more(reviewed: Reviewed) -> None:
    assert check_build(reviewed.after) == []
    assert reviewed.rows["reviews"] == 3
    manifest = manifest_of(reviewed.after)
    assert "reviews" not in manifest["identity"]["parameters"]["tables"]  # nobody declares it
    assert problems((reviewed.after / "README.md").read_text("utf-8"), manifest) == []
    level, reasons = needed(manifest_of(reviewed.before), manifest, card_changed=False)
    assert str(level) == "minor"
    assert "the table reviews is new" in reasons
    level, reasons = needed(manifest, manifest_of(reviewed.before), card_changed=False)
    assert (str(level), reasons[0]) == ("major", "the table reviews is gone")


def test_a_comparison_names_the_picks_and_what_follows(reviewed: Reviewed) -> None:
    with Side.folder(reviewed.before) as old, Side.folder(reviewed.after) as new:
        diff = compare(old, new)
    assert diff.flips.total == 0  # labels are what the teacher said
    assert diff.to_json()["picks_replaced"]["first"] == [{"label_id": LABELS[0], "before": 0, "after": 1}]
    changed = {name: table.total.changed for name, table in diff.tables.items() if table.total.changed}
    assert changed == {"selection_sft": 1}
    assert diff.tables["reviews"].total.added == 3
    follows = diff.tables["selection_sft"].follows
    assert follows is not None
    assert follows.changed == 1
    done = CliRunner().invoke(arm, ["diff", str(reviewed.before), str(reviewed.after)])
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    place = lines.index("1 pick replaced by a review (candidates count from 0):")
    assert lines[place + 1 : place + 3] == [
        f"{LABELS[0]}: 0 -> 1", "rows of selection_sft that follow from them: 1 of 1 changed",
    ]  # fmt: skip
    back = CliRunner().invoke(arm, ["diff", str(reviewed.after), str(reviewed.before)])
    assert f"  {LABELS[0]}: 1 -> 0\n" in back.stdout
    same = CliRunner().invoke(arm, ["diff", str(reviewed.after), str(reviewed.after)])
    assert same.stdout == "nothing differs\n"


def test_it_is_rebuilt_from_its_manifest(reviewed: Reviewed, tmp_path: Path) -> None:
    inputs = Inputs(reviewed.folder, Store(tmp_path / "store"))
    assert rebuild(manifest_of(reviewed.after), inputs, tmp_path / "work", published=reviewed.after) == []
    (reviewed.folder / "review.jsonl").write_text(json.dumps(said(LABELS[0], "drop")) + "\n", "utf-8")
    (issue,) = rebuild(manifest_of(reviewed.after), inputs, tmp_path / "work", published=reviewed.after)
    assert str(issue).startswith("review.jsonl $.identity.sources[3] has sha256 ")


def test_lineage_shows_the_reviews(reviewed: Reviewed) -> None:
    root = of_build(reviewed.after, None).root
    assert isinstance(root, Node)
    assert root.rows["reviews"] == 3
    (source,) = [node for node in root.inputs if node.holds == "reviews as review"]
    assert [file["path"] for file in source.files] == ["review.jsonl"]


def test_secrets_in_notes_and_aliases_are_found(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    made = Reviewed(tmp_path, said(LABELS[0], "note", note=f"see {secret}", reviewer="ann@corp-mail.com"))
    (file,) = (made.after / "data" / "reviews").glob("*.parquet")
    found, broken = scan(made.after, [file.relative_to(made.after).as_posix()], lambda *_: None)
    assert broken == []
    places = {str(issue.path).rpartition(" ")[2] for issue in found}
    assert places == {"$.note", "$.reviewer"}
    assert all(issue.path.startswith("row 0 (review_id ") for issue in found)
    registry = made.folder / "registry.yaml"
    redacted = registry.read_text("utf-8").replace("    split:", "    redact: [secrets, addresses]\n    split:")
    registry.write_text(redacted, "utf-8")
    Registry.load(made.folder).build(workers=1)
    (file,) = (made.after / "data" / "reviews").glob("*.parquet")
    assert scan(made.after, [file.relative_to(made.after).as_posix()], lambda *_: None)[0] == []
    (row,) = built_rows(file, TABLES["reviews"])
    assert "[redacted" in row["note"]


def test_what_rests_on_the_tables_has_the_same_rows(reviewed: Reviewed, tmp_path: Path) -> None:
    """The label comes verbatim, and so do the reviews; the pick is replaced again."""
    folder = tmp_path / "rests"
    folder.mkdir()
    for table in ("states", "candidate_sets", "teacher_labels", "reviews"):
        (file,) = (reviewed.after / "data" / table).glob("*.parquet")
        shutil.copy(file, folder / f"{table}.parquet")
    text = (reviewed.folder / "registry.yaml").read_text("utf-8")
    head, _, rest = text.partition("    sources:\n")
    spoken = "dialect: function, space: pixel"
    sources = [
        f"{{kind: states, format: table, path: states.parquet, {spoken}}}",
        f"{{kind: candidate_sets, format: table, path: candidate_sets.parquet, {spoken}}}",
        "{kind: teacher_labels, format: table, path: teacher_labels.parquet}",
        "{kind: reviews, format: table, path: reviews.parquet}",
    ]
    listed = "".join(f"      - {source}\n" for source in sources)
    (folder / "registry.yaml").write_text(f"{head}    sources:\n{listed}    split:{rest.partition('    split:')[2]}")
    built, _ = Registry.load(folder).build(workers=1)
    assert built is not None
    before, after = manifest_of(reviewed.after)["identity"]["tables"], built.manifest["identity"]["tables"]
    assert {t: after[t]["row_digest"] for t in after} == {t: before[t]["row_digest"] for t in before}


def test_the_snippet_of_the_documentation_runs(reviewed: Reviewed, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "concepts.md").read_text("utf-8")
    (snippet,) = [s for s in re.findall(r"^```python\n(.*?)^```", page, re.S | re.M) if "from load import" in s]
    env = {**os.environ, "HF_HOME": str(tmp_path / "hf"), "HF_ENDPOINT": "http://127.0.0.1:1"}
    command = [sys.executable, "-c", snippet]
    done = subprocess.run(command, cwd=reviewed.after, env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "2 rows follow a person's pick\n", done.stderr


def test_an_import_knows_the_table(reviewed: Reviewed, tmp_path: Path) -> None:
    report, _ = look(reviewed.after, None, Said(), tmp_path / "import", workers=1)
    assert {(file.kind, file.format) for file in report.files} >= {("reviews", "table")}
    assert report.counts["reviews"] == 3
