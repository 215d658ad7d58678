"""Training rows of the first release, ready-made: selections and pairs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders.spec import DEFAULT_RULES, BuildSpec
from action_reward_models.registry import Registry
from action_reward_models.schemas.built import built_rows
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.store import TABLES

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

EXAMPLE = Path(__file__).parents[3] / "examples" / "miniwob"
Record = dict[str, Any]
SYSTEM = {"role": "system", "content": "You judge."}


def user(text: str = "Task: go.\n<image>\n1. click(1, 1)\n   1. nested\n2. stop()") -> Record:
    return {"role": "user", "content": text}


def picture(toy: Toy, number: int = 1) -> str:
    (toy.folder / f"{number}.png").write_bytes(toy.png(number))
    return f"{number}.png"


def selection(toy: Toy, pick: Any = 2, number: int = 1, text: str | None = None, **record: Any) -> Record:
    reply = {"role": "assistant", "content": json.dumps({"selection": pick})}
    asked = user() if text is None else user(text)
    return {"messages": [SYSTEM, asked, reply], "images": [picture(toy, number)], **record}


def say(x: int, y: int, thought: str = "") -> str:
    return f"<think>{thought}</think>\n<action>click({x}, {y})</action>"


def pair(toy: Toy, chosen: str, rejected: str, number: int = 1, **record: Any) -> Record:
    sides = {
        side: {"role": "assistant", "content": text} for side, text in (("chosen", chosen), ("rejected", rejected))
    }
    return {"messages": [SYSTEM, user("Task: go.\n<image>")], "images": [picture(toy, number)], **sides, **record}


def build(toy: Toy, kind: str, records: list[Record], name: str = "rows.json", **changes: Any) -> Build:
    spoken = {"dialect": "function", "space": "pixel"} if kind == "bt_pairs" else {}
    declared = changes.pop("declared", {})
    source = toy.lay(kind, "first_release", name, records, **spoken, **declared)
    return toy.build(sources=(source,), tables=(kind,), images={kind: "embed"}, selection=None, pairs=None, **changes)


# -- selections ------------------------------------------------------------------------------------------------------


def test_rows_are_taken_as_they_are(toy: Toy) -> None:
    built = build(toy, "selection_sft", [selection(toy), selection(toy, 1, 2)])
    assert built.balanced()
    row = next(r for r in built.rows("selection_sft") if '"selection": 2' in r["completion"][0]["content"][0]["text"])
    assert row["order"] is row["label_id"] is row["set_id"] is row["prompt_id"] is None
    assert row["prompt"][1]["content"] == [
        {"type": "text", "text": "Task: go.\n"},
        {"type": "image", "text": None},
        {"type": "text", "text": "\n1. click(1, 1)\n   1. nested\n2. stop()"},  # nobody counts the candidates
    ]
    assert row["row_id"].startswith("sft-")
    assert built.identity["ledger"]["selection_sft"]["out"] == 2


def test_ids_are_of_the_content_wherever_it_stands(toy: Toy) -> None:
    records = [selection(toy, n % 2 + 1, n) for n in range(4)]
    first = {row["row_id"]: row["split"] for row in build(toy, "selection_sft", records).rows("selection_sft")}
    (toy.folder / "elsewhere").mkdir()
    for record in records:
        (toy.folder / "elsewhere" / record["images"][0]).write_bytes((toy.folder / record["images"][0]).read_bytes())
    moved = [{**record, "images": [f"elsewhere/{record['images'][0]}"]} for record in reversed(records)]
    again = build(toy, "selection_sft", moved, "moved.jsonl")
    assert {row["row_id"]: row["split"] for row in again.rows("selection_sft")} == first
    both = build(toy, "selection_sft", [*records, records[0]])
    assert both.balanced()
    assert {k: len(v) for k, v in both.excluded("selection_sft").items()} == {"duplicate_record": 1}


def test_a_row_that_train_holds_too_is_taken_out_of_validation(toy: Toy) -> None:
    """The split is the picture's, so that equal prompts with equal pictures are on one side by themselves."""
    records = [selection(toy, n % 2 + 1, n) for n in range(30)]
    built = build(toy, "selection_sft", records, validation=0.4)
    assert built.balanced()
    splits = {row["split"] for row in built.rows("selection_sft")}
    assert splits == {"train", "validation"}
    pictures = {(row["images"][0], row["split"]) for row in built.rows("selection_sft")}
    assert len(pictures) == 30


FAULTS: list[tuple[Record, str, str]] = [
    ({"text": "no picture here"}, "$.images", "has 1 pictures, and the prompt has <image> 0 times"),
    ({"text": "<image> and the page says <image>"}, "$.images", "has 1 pictures, and the prompt has <image> 2 times"),
    ({"pick": "second"}, "$.messages[2].content", "is unparsed"),
    ({"pick": 0}, "$.messages[2].content", "is out_of_range"),
    ({"messages": [SYSTEM, user()]}, "$.messages[1]", "must be the assistant's reply"),
    ({"messages": [user(), SYSTEM, {"role": "assistant", "content": "x"}]}, "$.messages", "of user, system before"),
    ({"images": ["../x.png"]}, "$.images[0]", "is refused"),
    ({"images": "1.png"}, "$.images", "not a list"),
    ({"score": 1}, "$.score", "is not a known field"),
]


@pytest.mark.parametrize(("change", "place", "message"), FAULTS, ids=[f[2][:40] for f in FAULTS])
def test_planted_faults_are_named(toy: Toy, change: Record, place: str, message: str) -> None:
    records = [selection(toy, 1, 5), selection(toy, **change)]
    with pytest.raises(ArmError) as caught:
        build(toy, "selection_sft", records, "rows.jsonl")
    (issue,) = caught.value.issues
    assert (issue.file, issue.line, issue.path) == ("rows.jsonl", 2, place)
    assert message in issue.message
    built = build(toy, "selection_sft", records, "rows.jsonl", declared={"on_invalid": "exclude"})
    assert built.balanced()
    assert sum(len(ids) for ids in built.excluded("selection_sft").values()) == 1


def test_two_selections_in_one_reply_are_ambiguous(toy: Toy) -> None:
    record = selection(toy)
    record["messages"][2]["content"] = '{"selection": 1} or {"selection": 2}'
    with pytest.raises(ArmError) as caught:
        build(toy, "selection_sft", [record])
    assert "is ambiguous" in caught.value.issues[0].message


def test_a_broken_picture_is_named_and_can_be_left_out(toy: Toy) -> None:
    record = selection(toy, number=3)
    (toy.folder / "3.png").write_bytes(toy.png(3)[:40])
    with pytest.raises(ArmError) as caught:
        build(toy, "selection_sft", [selection(toy), record], "rows.jsonl")
    (issue,) = caught.value.issues
    assert (issue.file, issue.line) == ("rows.jsonl", 2)
    built = build(toy, "selection_sft", [selection(toy), record], declared={"on_invalid": "exclude"})
    assert built.balanced()
    assert len(built.rows("selection_sft")) == 1


# -- pairs -----------------------------------------------------------------------------------------------------------

PAIRS: dict[str, tuple[str, str, str | None, str | None]] = {
    # name -> chosen, rejected, reason why it falls out, relation
    "apart": (say(1, 1), say(7, 7), None, "coordinate_only"),
    "other_verb": (say(1, 1), "<action>stop()</action>", None, "different"),
    "same_text": (say(2, 2), say(2, 2), "identical", None),
    "same_action": (say(3, 3, "This."), say(3, 3, "That."), "identical", None),
    "near": (say(5, 5), "<action>click(5.01, 5)</action>", "near_coordinates", None),
    "unreadable": (say(1, 1), "click it", "unparsed", None),
    "prose": ("Click the red button", "Click the blue one", None, None),
    "bare": ("click(2, 3)", "click(6, 7)", None, "coordinate_only"),  # without the tags that a prompt does not show
    "shown": ('Thought: I type.\nAction: type(2, 3, "x")', "Action: stop()", None, "different"),
    "same_prose": ("Press it", "Press it", "equal_as_shown", None),
    "answers": ('<action>stop("a")</action>', '<action>stop("b")</action>', "done_vs_done", None),
}


def test_relations_are_found_and_rules_applied(toy: Toy) -> None:
    """A quarter of one lab's pairs had the same executable action on both sides, in other words."""
    records = [pair(toy, chosen, rejected, number) for number, (chosen, rejected, *_) in enumerate(PAIRS.values())]
    built = build(toy, "bt_pairs", records)
    assert built.balanced()
    rows = {
        row["chosen"][0]["content"][0]["text"] + row["rejected"][0]["content"][0]["text"]: row
        for row in built.rows("bt_pairs")
    }
    kept = {name: p for name, p in PAIRS.items() if p[2] is None}
    assert {a + b: relation for a, b, _, relation in kept.values()} == {k: row["relation"] for k, row in rows.items()}
    assert rows["".join(PAIRS["apart"][:2])]["pair_type"] == "click"
    assert rows["".join(PAIRS["other_verb"][:2])]["pair_type"] == "termination_vs_continue"
    assert rows["".join(PAIRS["prose"][:2])]["pair_type"] == "other"
    excluded = {reason: len(ids) for reason, ids in built.excluded("bt_pairs").items()}
    assert excluded == {"done_vs_done": 1, "equal_as_shown": 1, "identical": 2, "near_coordinates": 1, "unparsed": 1}
    (held,) = built.rows("exclusions", reason="done_vs_done")
    assert held["status"] == "quarantined"


def test_rules_can_be_declared_without_a_prompt(toy: Toy) -> None:
    records = [pair(toy, *PAIRS[name][:2], number=n) for n, name in enumerate(("apart", "answers"))]
    rules = {**DEFAULT_RULES, "coordinate_only": "drop", "done_vs_done": "keep"}
    built = build(toy, "bt_pairs", records, ready_rules=rules)
    assert [row["relation"] for row in built.rows("bt_pairs")] == ["done_vs_done"]
    assert built.identity["parameters"]["ready_rules"] == rules
    assert "ready_rules" not in build(toy, "bt_pairs", records).identity["parameters"]


def test_a_loser_in_other_words_is_a_duplicate(toy: Toy) -> None:
    """In the release losers are distinct from the winner, and not from each other."""
    records = [pair(toy, say(1, 1), say(7, 7, thought)) for thought in ("This.", "That.")]
    built = build(toy, "bt_pairs", records)
    assert built.balanced()
    assert len(built.rows("bt_pairs")) == 1
    assert list(built.excluded("bt_pairs")) == ["duplicate_loser"]


BROKEN: list[tuple[Record, str, str]] = [
    ({"chosen": {"role": "user", "content": "x"}}, "$.chosen.role", "must be the assistant's"),
    ({"rejected": {"role": "assistant", "content": "<image>"}}, "$.rejected.content", "a reply has no picture"),
    ({"rejected": {"role": "assistant", "content": ""}}, "$.rejected.content", "is empty"),
    ({"messages": [user("no picture")]}, "$.images", "has 1 pictures, and the prompt has <image> 0 times"),
    ({"images": []}, "$.images", "has 0 pictures"),
    ({"chosen": "click(1, 1)"}, "$.chosen", "not an object"),
]


@pytest.mark.parametrize(("change", "place", "message"), BROKEN, ids=[b[1] + b[2][:20] for b in BROKEN])
def test_planted_faults_of_pairs_are_named(toy: Toy, change: Record, place: str, message: str) -> None:
    records = [pair(toy, say(1, 1), say(7, 7)), pair(toy, say(1, 1), say(7, 7)) | change]
    with pytest.raises(ArmError) as caught:
        build(toy, "bt_pairs", records, "rows.jsonl")
    (issue,) = caught.value.issues
    assert (issue.file, issue.line, issue.path) == ("rows.jsonl", 2, place)
    assert message in issue.message


def flat(messages: list[Record]) -> str:
    """A message as the release writes it: text, and a marker for each picture."""
    (message,) = messages
    return "".join("<image>" if block["type"] == "image" else block["text"] for block in message["content"])


def test_rows_of_the_example_survive_the_way_through_the_releases_form(toy: Toy) -> None:
    """Real rows, written as the release would have written them, give the same prompts, replies and relations."""
    spec = Registry.load(EXAMPLE).dataset()
    example = toy.build(**{name: getattr(spec, name) for name in spec.__dataclass_fields__})
    for reference, data in pictures(example).items():
        (toy.folder / f"{reference.removeprefix('sha256:')}.png").write_bytes(data)
    selections, pairs = example.rows("selection_sft"), example.rows("bt_pairs")

    def release(row: Record, *sides: str) -> Record:
        turns = [{"role": m["role"], "content": flat([m])} for m in row["prompt"]]
        paths = [f"{image.removeprefix('sha256:')}.png" for image in row["images"]]
        made = {side: {"role": "assistant", "content": flat(row[side])} for side in sides}
        return {"messages": turns, "images": paths, **made}

    records = [release(row, "completion") for row in selections]
    records = [{"messages": [*r["messages"], r["completion"]], "images": r["images"]} for r in records]
    again = build(toy, "selection_sft", records)
    assert again.balanced()

    def seen(rows: list[Record], *names: str) -> list[str]:
        return sorted(json.dumps([row[name] for name in names]) for row in rows)

    assert seen(again.rows("selection_sft"), "prompt", "completion", "images") == seen(
        selections, "prompt", "completion", "images"
    )
    ready = build(toy, "bt_pairs", [release(row, "chosen", "rejected") for row in pairs], "pairs.json")
    assert ready.balanced()
    told = ("prompt", "chosen", "rejected", "images", "relation", "pair_type", "rendered_sha256")
    assert seen(ready.rows("bt_pairs"), *told) == seen(pairs, *told)
    assert len(pairs) > 80


def pictures(built: Build) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for path in built.files("states"):
        for _ in built_rows(path, TABLES["states"], found.__setitem__):
            pass
    return found


REGISTRY = """\
registry: 1
namespace: lab
datasets:
  - name: ready
    version: 1.0.0
    license: mit
    sources:
      - {kind: selection_sft, format: first_release, path: selection.json}
      - {kind: bt_pairs, format: first_release, path: pairs.json, dialect: function, space: pixel}
    split: {validation: 0.2, seed: 1}
    tables:
      selection_sft: {}
      bt_pairs: {rules: {coordinate_only: drop}}
"""


def declared(folder: Path, text: str) -> BuildSpec:
    (folder / "registry.yaml").write_text(text, "utf-8")
    return Registry.load(folder).dataset()


def test_a_registry_declares_ready_rows_and_their_rules(toy: Toy) -> None:
    toy.lay("selection_sft", "first_release", "selection.json", [selection(toy)])
    toy.lay("bt_pairs", "first_release", "pairs.json", [pair(toy, *PAIRS[n][:2]) for n in ("apart", "other_verb")])
    spec = declared(toy.folder, REGISTRY)
    assert spec.pairs is None
    assert spec.pair_rules == {**DEFAULT_RULES, "coordinate_only": "drop"}
    made, _ = Registry.load(toy.folder).build(workers=1)
    assert made is not None
    tables = made.manifest["identity"]["tables"]
    assert {name: table["rows"] for name, table in tables.items()} == {
        "selection_sft": 1,
        "bt_pairs": 1,
        "exclusions": 1,
    }
    with pytest.raises(ArmError) as caught:
        declared(toy.folder, REGISTRY.replace("rules: {coordinate_only: drop}", "max_pairs_per_set: 1"))
    (issue,) = caught.value.issues
    assert issue.path == "$.datasets[0].tables.bt_pairs.max_pairs_per_set"
