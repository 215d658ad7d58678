"""Texts of records come through as they are, whatever they are made to look like; nothing of them opens a tag."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from action_reward_models.cards.gallery.choice import Choice
from action_reward_models.cards.gallery.data import gallery
from action_reward_models.schemas.built import BuiltTables

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

HOSTILE = (
    "</script><script>alert(1)</script><!-- <img src=x onerror=alert(2)> ]]> &lt; \u2028\u2029 \x00\x1b[31m \u202e"
    "\"'`${7*7} {{x}} [[title]] /* style */ <!-- data --> %3Cscript%3E \U0001f600 "
    "constructor __proto__ <image> <|im_end|>"
)
MARKUP = "</script><b>&lt;"  # a part of ids, which hold no control characters


def _page(build: Build) -> tuple[bytes, dict[str, Any]]:
    return gallery(BuiltTables.of(build.folder, lambda *_: None, "looking"), Choice(), HOSTILE)


def _data(page: bytes) -> Any:
    """What the page's script reads: the data block."""
    (block,) = re.findall(rb'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert b"<" not in block
    return json.loads(block)


def test_texts_of_every_field_come_through_unchanged(toy: Toy) -> None:
    line = HOSTILE.replace("\x00", "")
    elements = [[{"tag": line, "text": line, "box": [0, 0, 4, 4]}]]
    toy.episode(
        "__proto__",
        toy.message("user", f"Task: {line}", 1),
        toy.message("assistant", toy.response("click(1, 1)", line)),
        toy.message("user", line, 2),
        toy.message("assistant", toy.response("stop()")),
        metadata={"elements": elements * 2, "intent": line, "url": f"https://constructor/{line}"},
    )
    quoted = json.dumps(line)
    set_id = toy.draw("__proto____t1", toy.response(f"stop({quoted})", line),
                      toy.response(f"type(1, 2, {quoted})", line), line)  # fmt: skip
    toy.label(set_id, 1, reasoning=line)
    constants = {"candidate_sets": {"actor": line}, "teacher_labels": {"teacher": MARKUP}}
    build = toy.build(sources=[replace(s, constants=constants.get(s.kind, {})) for s in toy.sources()])
    page, data = _page(build)
    assert _data(page) == json.loads(json.dumps(data))
    assert data["subtitle"] == HOSTILE
    (state,) = (one for one in data["states"].values() if one["turn"] == 1)
    row = build.row("states", turn=1)
    assert (state["task"], state["history"], state["elements"]) == (row["task"], row["history"], row["elements"])
    assert line in (state["task"] or "")
    assert state["history"][0]["thought"] == line
    (shown,) = data["sets"].values()
    candidates = build.row("candidate_sets")["candidates"]
    for name in ("response", "thought", "action", "parse_error"):
        assert [one[name] for one in shown["candidates"]] == [one[name] for one in candidates]
    assert shown["candidates"][0]["thought"] == line
    (label,) = data["labels"].values()
    assert (label["reasoning"], label["teacher"], shown["actor"]) == (line, MARKUP, line)
    selection = build.row("selection_sft")
    (item,) = (one for one in data["items"] if one["id"] == selection["row_id"])
    assert item["prompt"] == selection["prompt"]
    assert page.count(b"<script") == 2 + len(data["pictures"])  # data and our own script
    assert page.count(b"alert(1)</script>") == 0


def test_ids_that_look_like_other_ids(toy: Toy) -> None:
    """Bars, hashes and names of objects in ids: an excluded comparison still finds its own label."""
    for name in ("a|b", "a", "constructor"):
        toy.scene(name, "click(1, 1)", "click(1, 1)", "stop()", picture=len(name), task=f"{name}.")
    _, data = _page(toy.build())
    same = {item["id"]: item for item in data["items"] if (item["excluded"] or {}).get("reason") == "identical"}
    assert {item["state_id"] for item in same.values()} == {"a|b__t0", "a__t0", "constructor__t0"}
    for unit, item in same.items():
        assert unit == f"{item['label_id']}|1"
        assert item["label_id"] == f"{item['state_id']}#d0|-|-|0"
