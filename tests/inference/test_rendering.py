"""Sets of a build shown again: message by message what the build's own rows hold."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.inference.processor import plain
from action_reward_models.inference.rendering import Renderer, Shown, prompts_in, read_prompt
from action_reward_models.prompts.view import Unrenderable
from action_reward_models.registry import Registry
from action_reward_models.schemas.built import BuiltTables
from action_reward_models.schemas.errors import ArmError

EXAMPLE = Path(__file__).parents[2] / "examples" / "miniwob"


def built(folder: Path, *changes: tuple[str, str], records: int | None = None) -> Path:
    """The bundled example with other words in its registry.yaml; ``records``: only the first candidate sets."""
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("build"))
    path = folder / "registry.yaml"
    text = path.read_text("utf-8")
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text, "utf-8")
    if records is not None:
        lines = (folder / "data" / "candidates.jsonl").read_bytes().splitlines(keepends=True)
        (folder / "data" / "candidates.jsonl").write_bytes(b"".join(lines[:records]))
        kept = {json.loads(line)["state_id"] for line in lines[:records]}
        labels = (folder / "data" / "labels.jsonl").read_bytes().splitlines(keepends=True)
        (folder / "data" / "labels.jsonl").write_bytes(
            b"".join(line for line in labels if json.loads(line)["state_id"] in kept)
        )
    out = folder / "out"
    Registry.load(path).build("action-reward-models-data", out=out, workers=1)
    return out


class Build:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tables = BuiltTables.of(folder, lambda *_: None, "reading")
        self.states = {row["state_id"]: row for row in self.tables.rows("states")}
        self.sets = {row["set_id"]: row for row in self.tables.rows("candidate_sets")}
        prompts = {prompt.kind: prompt for prompt in prompts_in(folder)}
        self.renderers = {kind: Renderer(prompt, self.tables.identity) for kind, prompt in prompts.items()}

    def checked(self) -> tuple[int, int]:
        """(Selection rows, pairs) that were compared, to the last block."""
        shown = Shown.of(self.tables.identity)
        rows, pairs = list(self.tables.rows("selection_sft")), list(self.tables.rows("bt_pairs"))
        for row in rows:
            set_row = self.sets[row["set_id"]]
            state, renderer = self.states[set_row["state_id"]], self.renderers["selection"]
            assert shown.order(set_row) == row["order"]
            rendered = renderer.selection(state, set_row, row["order"])
            assert rendered.messages == [plain(message) for message in row["prompt"]]
            assert [f"sha256:{image}" for image in rendered.images] == row["images"]
            renderer.refuse_other(rendered, row, row["row_id"])
        for row in pairs:
            set_row = self.sets[row["set_id"]]
            state, renderer = self.states[set_row["state_id"]], self.renderers["scalar"]
            replies = renderer.replies(state, set_row)
            assert renderer.scalar(state, set_row).messages == [plain(message) for message in row["prompt"]]
            for side in ("chosen", "rejected"):
                assert replies[row[f"{side}_index"]] == [plain(message) for message in row[side]]
            renderer.refuse_other(renderer.scalar(state, set_row), row, row["pair_id"])
        return len(rows), len(pairs)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Build:
    return Build(built(tmp_path_factory.mktemp("rendering") / "example"))


def test_all_rows_of_the_example(example: Build) -> None:
    assert example.checked() == (96, 183)


def test_steps_speak_as_they_were_recorded_and_candidates_as_they_were_sampled(tmp_path: Path) -> None:
    """Candidates in another dialect than the episodes, points of both moved to 0..1000; neither shuffled nor merged."""
    text = (EXAMPLE / "registry.yaml").read_text("utf-8")
    build = Build(built(tmp_path / "two", *_changes(text), records=40))
    rows, pairs = build.checked()
    assert rows > 10
    assert pairs > 10
    clicked = {
        row["state_id"] for row in build.states.values() if any("click(" in step["action"] for step in row["history"])
    }
    set_row = next(row for row in build.sets.values() if row["state_id"] in clicked)
    state = build.states[set_row["state_id"]]
    said = build.renderers["selection"].selection(state, set_row, [0, 1]).messages
    # Told as its candidates' dialect, the same steps would read otherwise: they would not be moved.
    state["source"]["file"] = "elsewhere.jsonl"
    other = Renderer(build.renderers["selection"].prompt, build.tables.identity)
    assert other.selection(state, set_row, [0, 1]).messages != said


def _changes(text: str) -> list[tuple[str, str]]:
    (line,) = [line for line in text.splitlines() if "candidate_sets, format" in line]
    (sft,) = [line for line in text.splitlines() if "selection_sft: {" in line]
    (pairs,) = [line for line in text.splitlines() if "bt_pairs: {" in line]
    moved = "options: {coordinate_space: norm1000}"
    return [
        (line, line.replace("dialect: function", "dialect: text")),
        (sft, f"      selection_sft: {{prompt: selection/1, {moved}, duplicates: keep, shuffle: false}}"),
        (pairs, f"      bt_pairs: {{prompt: scalar/1, {moved}}}"),
    ]


def test_rows_that_show_something_else_are_refused(example: Build) -> None:
    row = next(iter(example.tables.rows("selection_sft")))
    set_row, renderer = example.sets[row["set_id"]], example.renderers["selection"]
    state = example.states[set_row["state_id"]]
    for change in ({"task": "another task"}, {"url": "http://else.test/"}, {"screenshot_sha256": "0" * 64}):
        other = Renderer(renderer.prompt, example.tables.identity)
        with pytest.raises(ArmError, match="would be asked what it was not trained on"):
            other.refuse_other(other.selection({**state, **change}, set_row, row["order"]), row, "row")
    elsewhere = {**row, "prompt_sha256": "0" * 64}  # a row of another prompt says nothing of this one
    renderer.refuse_other(renderer.selection({**state, "task": "x"}, set_row, row["order"]), elsewhere, "row")


def test_a_state_that_cannot_be_shown_has_a_reason(example: Build) -> None:
    set_row = next(iter(example.sets.values()))
    state = {**example.states[set_row["state_id"]], "state_id": "bare", "screenshot_sha256": None}
    for _ in range(2):  # it is remembered
        with pytest.raises(Unrenderable) as error:
            example.renderers["scalar"].scalar(state, set_row)
        assert error.value.reason == "no_screenshot"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sha256": "0" * 64}, "says that its hash is 0{64}, and it is [0-9a-f]{64}"),
        ({"renderer": 2}, "was made for version 2 of the renderer, and this one is 1"),
        ({"template": None}, "is no prompt"),
        ({"template": {"kind": "selection"}}, "is no template"),
        ({"template": {"kind": "selection", "system": "", "user": "", "fragments": {}}}, "other fragments"),
        ({"template": {"kind": [], "system": "", "user": "", "fragments": {}}}, "another kind"),
        ({"options": True}, "its options are no object"),
        ({"options": {"history_window": -1}}, "prompt options have 1 problem"),
        ({"id": 3}, "is no prompt"),
    ],
)
def test_a_prompt_is_its_hash(example: Build, tmp_path: Path, change: dict[str, Any], said: str) -> None:
    path = tmp_path / "prompt.json"
    data = json.loads((example.folder / "prompts" / "selection-1.json").read_bytes())
    path.write_text(json.dumps(data))
    assert read_prompt(path).to_json() == data
    path.write_text(json.dumps({**data, **change}))
    with pytest.raises(ArmError, match=said):
        read_prompt(path)


def test_a_prompt_that_is_no_json(tmp_path: Path) -> None:
    (tmp_path / "prompt.json").write_bytes(b"{")
    with pytest.raises(ArmError, match="cannot be read"):
        read_prompt(tmp_path / "prompt.json")
    with pytest.raises(ArmError, match="cannot be read"):
        read_prompt(tmp_path / "nowhere.json")
