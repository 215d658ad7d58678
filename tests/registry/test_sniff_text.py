"""What is proposed for agents without screenshots: plain text is a dialect only where nothing else reads anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from action_reward_models.registry.sniff import Folder, sniff


def look(folder: Path, name: str, *records: dict[str, Any]) -> Folder:
    (folder / name).write_text(json.dumps(records), "utf-8")
    return sniff(folder)


def test_a_chat_whose_first_turn_only_agrees(tmp_path: Path) -> None:
    turns = [
        {"from": "human", "value": "Reply with Thought: and Action: lines."}, {"from": "gpt", "value": "OK"},
        {"from": "human", "value": "Your task is to: find a mug."}, {"from": "gpt", "value": "Action: go to desk 1"},
    ]  # fmt: skip
    found = look(tmp_path, "chats.json", {"id": "a", "conversations": turns})
    (source,) = found.sources
    assert (source.kind, source.format, source.records, source.valid) == ("episodes", "agent_chat", 1, 1)
    spoken = found.spoken["agent_chat"]
    assert (spoken.dialect, spoken.responses, spoken.read) == ("react", 2, 1)
    assert found.text_only
    assert found.tasks == 1


def test_steps_of_reasoning(tmp_path: Path) -> None:
    children = {step: {"pcd": step, "V": 0.5} for step in ("Step 1: 1 + 1 = 2.", "Step 1: So it is (2).")}
    found = look(tmp_path, "trees.json", {"content": "1 + 1?", "root": {"pcd": "", "children": children}})
    (source,) = found.sources
    assert (source.format, source.yields) == ("rest_mcts", ("states", "candidate_sets", "candidate_scores"))
    assert found.spoken["rest_mcts"].dialect == "text"


def test_cut_off_calls_are_no_plain_text(tmp_path: Path) -> None:
    texts = ["<action>click(1, 2)</action>", *["<action>click(1"] * 9]
    turns = [
        turn for text in texts for turn in ({"role": "user", "content": "x"}, {"role": "assistant", "content": text})
    ]
    spoken = look(tmp_path, "a.json", {"id": "a", "messages": turns}).spoken["agent_chat"]
    assert (spoken.dialect, spoken.read) == ("function", 1)
