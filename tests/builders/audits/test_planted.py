"""Defects that were planted are found by name, each of them and nothing else; without one, nothing is found."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders import runner
from action_reward_models.builders.audits import benchmarks
from action_reward_models.builders.audits.tasks import Task
from action_reward_models.builders.spec import BenchmarkSpec, GateSpec, PromptSpec, SelectionSpec, SourceSpec, SplitSpec
from action_reward_models.builders.splits import split_of
from action_reward_models.schemas import gates
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.ids import sha256_hex, task_group
from PIL import Image

from tests.builders.audits.conftest import (
    ACTIONS,
    SPLIT,
    clean,
    crossing,
    encoded,
    findings,
    scene,
    screen,
    split,
    tasks_of,
    words,
)

if TYPE_CHECKING:
    from tests.builders.conftest import Toy

Changes = dict[str, Any]
LENIENT = GateSpec(*["warn"] * 6)  # type: ignore[arg-type]
SHARED = ("state", "episode", "task", "screenshot")
ROWS = ("selection_sft", "bt_pairs")


def test_a_clean_dataset_has_no_finding(toy: Toy) -> None:
    build = clean(toy, 24).build(split=SPLIT)
    audits = build.identity["statistics"]["audits"]
    assert findings(audits) == set()
    assert gates.violations(build.identity) == []
    assert gates.warnings(build.identity) == []
    assert set(audits["overlap"]) == {"states", *ROWS}  # there was something to compare
    assert all(facts["state"]["validation"] > 3 for table, facts in audits["overlap"].items() if table in ROWS)
    assert audits["near_tasks"]["validation"] > 3
    assert audits["baselines"]["labels"]["n"] == 24


# -- splits ------------------------------------------------------------------------------------------------------------


def _crosses(*facts: str) -> set[str]:
    return {f"{table}.{fact} crosses" for table in ROWS for fact in facts}


def _legacy(toy: Toy) -> Changes:
    """One state, many draws: the rule of the first release puts its labels on both sides."""
    state_id = toy.page("one", picture=encoded(screen(1)), task=words(1))
    for number in range(20):
        place = 10 * number
        toy.label(toy.draw(state_id, f"click({place}, 5)", f"click(90, {place})", "scroll(0, 9)", number=number), 1)
    return {"split": SplitSpec(0.4, 3, rule="legacy_draws")}


def _legacy_tasks(toy: Toy) -> Changes:
    """States of their own and one task, written in several ways."""
    for number in range(20):
        task = ("Book a table!", "book a  table", "BOOK A TABLE.")[number % 3]
        scene(toy, number, task=task)
    return {"split": SplitSpec(0.4, 3, rule="legacy_draws")}


def _legacy_episode(toy: Toy) -> Changes:
    """Two turns of one episode."""
    for number in range(10):
        turns = []
        for turn in range(2):
            picture = encoded(screen(10 * number + turn))
            turns.append(toy.message("user", f"Task: {words(number)}", picture))
            turns.append(toy.message("assistant", toy.response("click(1, 1)")))
        toy.episode(f"e{number}", *turns)
        for turn in range(2):
            toy.label(toy.draw(f"e{number}__t{turn}", *ACTIONS), (number + turn) % 4)
    return {"split": SplitSpec(0.4, 3, rule="legacy_draws")}


def _content(toy: Toy) -> Changes:
    """Pages without a task that look the same: each episode is a group of its own."""
    for number in range(12):
        picture = encoded(screen(1))
        scene(toy, number, task="", picture=picture, text="", pick=1)
    return {"split": SPLIT, "selection": SelectionSpec(PromptSpec("selection/1"), shuffle=False)}


def _picture(change: Callable[[Image.Image], bytes]) -> Callable[[Toy], Changes]:
    """One screenshot in train, and what ``change`` makes of it under another task in validation."""

    def plant(toy: Toy) -> Changes:
        clean(toy)
        train, validation = next(tasks_of("train")), next(tasks_of("validation"))
        url = "URL: https://shop.example/page"
        scene(toy, 100, task=train, picture=encoded(screen(100)), text=url)
        scene(toy, 101, task=validation, picture=change(screen(100)), text=url)
        return {"split": SPLIT}

    return plant


def _one_pixel(image: Image.Image) -> bytes:
    image.putpixel((80, 60), (255, 0, 0))
    return encoded(image)


def _banner(image: Image.Image) -> bytes:
    image.paste((250, 250, 250), (0, 0, 30, 8))
    return encoded(image)


def _host(toy: Toy) -> Changes:
    clean(toy)
    for number, name in ((100, "train"), (101, "validation")):
        scene(toy, number, task=next(tasks_of(name)), text="URL: https://shop.example/page")
    return {"split": SPLIT}


def _near_task(change: Callable[[str], str]) -> Callable[[Toy], Changes]:
    def plant(toy: Toy) -> Changes:
        for number, task in enumerate(crossing(change), 100):
            scene(toy, number, task=task)
        return {"split": SPLIT, **_rest(toy)}

    return plant


def _rest(toy: Toy) -> Changes:
    clean(toy)
    return {}


_SHOP = {"states.host crosses"}
_EQUAL = _crosses("screenshot") | {"states.screenshot crosses"} | _SHOP
_NEAR = {f"{table}.screenshot nearly crosses" for table in ("states", *ROWS)} | _SHOP
_TASK = {"task nearly crosses"}

# What is planted, what is found, which gates it violates.
SPLITS: dict[str, tuple[Callable[[Toy], Changes], set[str], set[str]]] = {
    "labels of one state on both sides": (
        _legacy,
        _crosses(*SHARED) | {"bt_pairs.prompt crosses"},
        {"leakage", "screenshots"},
    ),
    "one task on both sides": (_legacy_tasks, _crosses("task") | {"states.task crosses"}, {"leakage"}),
    "turns of one episode on both sides": (
        _legacy_episode,
        _crosses("episode", "task") | {"states.episode crosses", "states.task crosses"},
        {"leakage"},
    ),
    "states that look the same": (_content, {"states.content crosses", "states.screenshot crosses"}, set()),
    "the same screenshot": (_picture(encoded), _EQUAL, {"screenshots"}),
    "a screenshot scaled to half": (_picture(lambda i: encoded(i.resize((80, 60)))), _NEAR, {"screenshots"}),
    "a screenshot scaled up": (
        _picture(lambda i: encoded(i.resize((240, 180), Image.Resampling.LANCZOS))),
        _NEAR,
        {"screenshots"},
    ),
    "a screenshot as JPEG": (_picture(lambda i: encoded(i, "JPEG", quality=70)), _NEAR, {"screenshots"}),
    "a screenshot as WebP": (_picture(lambda i: encoded(i, "WEBP", quality=60)), _NEAR, {"screenshots"}),
    "a screenshot compressed anew": (_picture(lambda i: encoded(i, compress_level=1)), _NEAR, {"screenshots"}),
    "a screenshot with one other pixel": (_picture(_one_pixel), _NEAR, {"screenshots"}),
    "a screenshot with a banner": (_picture(_banner), _NEAR, {"screenshots"}),
    "a screenshot in grey": (_picture(lambda i: encoded(i.convert("L"))), _NEAR, {"screenshots"}),
    "the same host": (_host, _SHOP, set()),
    "a task with another word": (
        _near_task(lambda t: " ".join([*t.split()[:4], "lamp", *t.split()[5:]])),
        _TASK,
        {"near_tasks"},
    ),
    "a task in the plural": (_near_task(lambda t: f"{t}s"), _TASK, {"near_tasks"}),
    "a task with a typing error": (_near_task(lambda t: f"{t[:20]}x{t[21:]}"), _TASK, {"near_tasks"}),
    "a task with a word more": (_near_task(lambda t: f"please {t}"), _TASK, {"near_tasks"}),
    "a task with a word less, in capitals": (
        _near_task(lambda t: f"{t.rpartition(' ')[0].upper()}!"),
        _TASK,
        {"near_tasks"},
    ),
}


@pytest.mark.parametrize("name", SPLITS)
def test_defects_of_the_split(name: str, toy: Toy) -> None:
    plant, expected, violated = SPLITS[name]
    identity = toy.build(gates=LENIENT, **plant(toy)).identity
    audits = identity["statistics"]["audits"]
    assert {f for f in findings(audits) if "cross" in f} == expected
    if expected == _NEAR:
        (alike,) = audits["screenshots"]
        assert (alike["train"], alike["validation"]) == ("e100__t0", "e101__t0")
        assert alike["bits"] <= 5
    if expected == _TASK:
        (alike,) = audits["near_tasks"]["named"]
        assert alike["states"] == ["e101__t0", "e100__t0"]
        assert 0.65 <= alike["similarity"] < 1
    identity["parameters"]["gates"] = {**dict.fromkeys(gates.DEFAULTS, "error"), "max_excluded": {}}
    paths = {violation.path for violation in gates.violations(identity)}
    assert paths - {"$.gates.conflicting_picks"} == {f"$.gates.{gate}" for gate in violated}


def test_words_written_otherwise_are_one_group_and_never_cross(toy: Toy) -> None:
    task = words(1)
    for number, text in enumerate((task, task.upper(), f"{task}!", task.replace(" ", "  "), f"“{task}”")):
        scene(toy, number, task=text)
    audits = toy.build(split=SplitSpec(0.5, 1)).identity["statistics"]["audits"]
    assert findings(audits) == set()


# -- benchmarks --------------------------------------------------------------------------------------------------------

TASK = words(7)
LISTS = {
    "exact": ("exact", "list.txt", f"one thing\n{TASK}\nand another\n"),
    "other case and punctuation": ("normalised", "list.txt", f"  {TASK.title().replace(' ', ', ')}.\n"),
    "nearly the same": ("near", "list.txt", f"{TASK} today\n"),
    "records in an array": ("exact", "list.json", json.dumps([{"id": 1, "confirmed_task": TASK}])),
    "texts in an array": ("exact", "list.json", json.dumps(["x", TASK])),
    "records a line": ("normalised", "list.jsonl", json.dumps({"question": f"{TASK}?"}) + "\n"),
    "an intent": ("near", "list.jsonl", json.dumps({"intent": f"and {TASK}"}) + "\n\n"),
    "an instruction": ("exact", "list.jsonl", json.dumps({"instruction": TASK, "answer": "x"})),
}


def declared(folder: Path, name: str, text: str, near: float = 0.8) -> BenchmarkSpec:
    path = folder / name
    path.write_text(text, "utf-8")
    return BenchmarkSpec("bench", path, hashlib.sha256(path.read_bytes()).hexdigest(), near)


@pytest.mark.parametrize("name", LISTS)
def test_tasks_of_a_benchmark(name: str, toy: Toy) -> None:
    how, file, text = LISTS[name]
    benchmark = declared(toy.folder, file, text)
    ours = [Task(words(n), f"{n}", {split(words(n)): 1}, {split(words(n)): f"e{n}__t0"}) for n in range(20)]
    found = benchmarks.match(ours, benchmark, benchmarks.read(benchmark))
    assert {way: found[way] for way in ("exact", "normalised", "near") if found[way]} == {how: 1}
    assert found["states"] == {"train": 0, "validation": 0} | {split(TASK): 1}
    (match,) = found["named"]
    assert (match["ours"], match["how"], match["state"]) == (TASK, how, "e7__t0")


def test_a_task_of_a_benchmark_stops_a_build(toy: Toy) -> None:
    listed = declared(toy.folder, "list.txt", f"{TASK}\n")
    spec = clean(toy).spec(split=SPLIT, benchmarks=(listed,))
    with pytest.raises(ArmError) as caught:
        runner.build(spec, toy.folder / "out", card=lambda manifest: "", workers=1)
    assert caught.value.message == f"bench has tasks of ours (exact 1; 1 states), such as {TASK!r} of e7__t0"
    line = "gates: {benchmark_tasks: warn}   # publishes tasks of a benchmark; say why"
    assert caught.value.next_command == line
    built = toy.build(split=SPLIT, benchmarks=(listed,), benchmark_tasks="warn")
    assert findings(built.identity["statistics"]["audits"]) == {"bench: exact"}
    assert gates.warnings(built.identity) == [caught.value.message]


def test_other_tasks_are_no_finding(toy: Toy) -> None:
    listed = "\n".join([words(5000), f"{' '.join(TASK.split()[:5])} one two three four", TASK.replace(" ", "")])
    build = clean(toy).build(split=SPLIT, benchmarks=(declared(toy.folder, "list.txt", listed),))
    assert findings(build.identity["statistics"]["audits"]) == set()


# -- labels ------------------------------------------------------------------------------------------------------------


def _two_draws(toy: Toy) -> Changes:
    clean(toy)
    toy.label(toy.draw("e0__t0", *ACTIONS[::-1], number=1), 1)  # e0 picked the first of ACTIONS
    return {}


def _two_states(toy: Toy) -> Changes:
    clean(toy)
    scene(toy, 0, task=words(0))
    toy.episodes.pop()
    scene_again = {"task": words(0), "picture": encoded(screen(0)), "text": "URL: https://host0.example/"}
    toy.sets.pop()
    toy.labels.pop()
    toy.scene("again", *ACTIONS, pick=3, **scene_again)
    return {}


def _text_only(toy: Toy) -> Changes:
    for number in range(2):
        toy.scene(f"t{number}", *ACTIONS, pick=number, picture=None, task="Read.", text="URL: https://a.test/x")
    options = {"observation": "text"}
    return {
        "selection": SelectionSpec(PromptSpec("selection/1", options=options)),
        "tables": ("states", "selection_sft"),
    }


def _draws(toy: Toy) -> Changes:
    """The two picks meet in two sets that hold other alternatives beside them."""
    clean(toy)
    toy.label(toy.draw("e0__t0", ACTIONS[0], ACTIONS[1], "scroll(0, 300)", number=1), 1)
    return {}


def _repeats(second: int) -> Callable[[Toy], Changes]:
    """A teacher asked twice about one set; the second candidate is near the first."""

    def plant(toy: Toy) -> Changes:
        clean(toy)
        toy.space = "norm1000"
        state_id = toy.page("e", picture=encoded(screen(100)))
        set_id = toy.draw(state_id, "click(500, 500)", "click(503, 500)", "click(900, 100)")
        records = []
        for repeat, picked in enumerate((0, second)):
            record: Changes = dict.fromkeys(
                ("teacher_params_json", "prompt_id", "prompt_sha256", "order", "reply", "usage_json", "batch_id",
                 "custom_id", "source_record_json")
            )  # fmt: skip
            record |= {"label_id": f"{set_id}|t|-|{repeat}", "set_id": set_id, "teacher": "t", "repeat": repeat}
            records.append({**record, "selected_index": picked, "status": "ok", "reasoning": ""})
        path = toy.write("asked.jsonl", records)
        own = SourceSpec("teacher_labels", "table", (("asked.jsonl", path),), "mit")
        return {"sources": (*toy.sources(), own)}

    return plant


def _habit(toy: Toy) -> Changes:
    for number in range(60):
        scene(toy, number, pick=(0, 0, 1)[number % 3])
    return {}


def _shown_habit(toy: Toy) -> Changes:
    return {**_habit(toy), "selection": SelectionSpec(PromptSpec("selection/1"), shuffle=False)}


def _with(*actions: str, pick: int) -> Callable[[Toy], Changes]:
    """A clean dataset and one scene more."""

    def plant(toy: Toy) -> Changes:
        clean(toy)
        scene(toy, 100, *actions, pick=pick)
        return {}

    return plant


def _always(actions: Callable[[int, str], tuple[str, ...]], pick: int) -> Callable[[Toy], Changes]:
    """Scenes of one making, too few for a histogram of slots; the pick is moved round by the caller's actions."""

    def plant(toy: Toy) -> Changes:
        for number in range(6):
            given = actions(number, words(number))
            turn = number % len(given)
            moved = given[-turn:] + given[:-turn] if turn and pick else given
            scene(toy, number, *moved, pick=(pick + turn) % len(given) if pick else 0)
        return {}

    return plant


def _thought(text: str, action: str) -> str:
    return f"<think>{text}</think>\n<action>{action}</action>"


LABELS: dict[str, tuple[Callable[[Toy], Changes], set[str]]] = {
    "two draws of a state": (_two_draws, {"picks conflict", "draws disagree"}),
    "two states that look the same": (_two_states, {"picks conflict"}),
    "two text-only states": (_text_only, {"picks conflict"}),
    "draws with other alternatives": (_draws, {"draws disagree"}),
    "a teacher that changes its mind": (
        _repeats(2),
        {"t disagrees (exact)", "t disagrees (equivalent)", "pick equals another: near"},
    ),
    "a teacher that changes it by a hair": (
        _repeats(1),
        {"t disagrees (exact)", "pick equals another: near"},
    ),
    "a slot habit": (_habit, {"sampled slots uneven"}),
    "a slot habit that is shown": (_shown_habit, {"sampled slots uneven", "shown slots uneven"}),
    "a pick sampled twice": (_with(*ACTIONS, ACTIONS[2], pick=2), {"pick equals another: same"}),
    "a pick with a near alternative": (
        _with("click(50, 50)", "click(50.4, 50)", "stop()", pick=0),
        {"pick equals another: near"},
    ),
    "one action, five times": (
        _with(*["click(5, 5)"] * 5, pick=3),
        {"no choice: one_action", "pick equals another: same"},
    ),
    "two actions on one place": (
        _with("click(50, 50)", "click(50.4, 50)", pick=1),
        {"no choice: near_only", "pick equals another: near"},
    ),
    "the first is always right": (
        _always(
            lambda n, task: (
                _thought("v w x y z", ACTIONS[0]), *[ACTIONS[1]] * 2, _thought(task, ACTIONS[2]),
                _thought("x y " * 40, ACTIONS[3]),
            ),
            0,
        ),
        {"shortcut: first"},
    ),
    "the most common is always right": (
        _always(lambda n, task: (ACTIONS[0], ACTIONS[1], ACTIONS[2], ACTIONS[1]), 1),
        {"shortcut: most_common", "pick equals another: same", "headroom: no"},
    ),
    "the task's words are always right": (
        _always(
            lambda n, task: (_thought("a b", ACTIONS[0]), _thought(task, ACTIONS[1]), _thought("a " * 60, ACTIONS[2])),
            1,
        ),
        {"shortcut: word_overlap"},
    ),
    "the longest is always right": (
        _always(lambda n, task: (ACTIONS[0], _thought("x y z " * 9, ACTIONS[1]), ACTIONS[2]), 1),
        {"shortcut: longest"},
    ),
    "the shortest is always right": (
        _always(lambda n, task: (_thought("x y z " * 9, ACTIONS[0]), ACTIONS[1], _thought("x y " * 9, ACTIONS[2])), 1),
        {"shortcut: shortest"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LABELS)
def test_defects_of_the_labels(name: str, toy: Toy) -> None:
    plant, expected = LABELS[name]
    changes = plant(toy)
    build = toy.build(gates=LENIENT, **changes)
    assert findings(build.identity["statistics"]["audits"]) == expected
    if name == "a slot habit":
        shown = build.identity["statistics"]["audits"]["slots"]["shown"]
        assert shown["p"] > 0.05


def test_at_least_twenty_five_defects_are_planted() -> None:
    assert len(SPLITS) + len(LISTS) + len(LABELS) >= 25
    assert len(list(islice(tasks_of("validation"), 3))) == 3


def test_the_legacy_rule_needs_a_word(toy: Toy) -> None:
    """What it leaks is measured, and stops a build unless its publisher says that it may."""
    spec = toy.spec(**_legacy(toy))
    with pytest.raises(ArmError, match="gates are violated") as caught:
        runner.build(spec, toy.folder / "out", card=lambda manifest: "", workers=1)
    assert (caught.value.next_command or "").startswith("gates: {leakage: warn}   # publishes a leaky split; say why")
    leaks = {issue.message for issue in caught.value.issues}
    assert "selection_sft: 1 of 1 states, 1 of 1 episodes, 1 of 1 tasks of validation stand in train, too" in leaks


def test_the_levels_of_a_declaration_are_those_of_a_manifest() -> None:
    assert {name: getattr(GateSpec(), name) for name in gates.DEFAULTS} == gates.DEFAULTS


# -- rows that come ready-made -----------------------------------------------------------------------------------------


def _ready(toy: Toy, *pictures: bytes) -> tuple[SourceSpec, ...]:
    """Selection rows of the first release, one a picture; nothing but the picture decides their split."""
    records = []
    for number, picture in enumerate(pictures):
        (toy.folder / f"{number}.png").write_bytes(picture)
        told = (("user", f"<image>Pick one, please ({number})"), ("assistant", '{"selection": 1}'))
        messages = [{"role": role, "content": text} for role, text in told]
        records.append({"messages": messages, "images": [f"{number}.png"]})
    path = toy.write("ready.jsonl", records)
    return (SourceSpec("selection_sft", "first_release", (("ready.jsonl", path),), "mit"),)


def test_ready_made_rows_are_audited_by_their_pictures(toy: Toy) -> None:
    def found(name: str, of: Callable[[int], bytes]) -> int:
        return next(n for n in range(200) if split_of(task_group(None, sha256_hex(of(n))), SPLIT) == name)

    number = next(
        n
        for n in range(200)
        if split_of(task_group(None, sha256_hex(encoded(screen(n)))), SPLIT) == "train"
        and split_of(task_group(None, sha256_hex(encoded(screen(n), compress_level=1))), SPLIT) == "validation"
    )
    page = screen(number)
    other = found("validation", lambda n: encoded(screen(1000 + n)))
    sources = _ready(toy, encoded(page), encoded(page, compress_level=1), encoded(screen(1000 + other)))
    build = toy.build(sources=sources, split=SPLIT, gates=LENIENT, tables=("selection_sft",), selection=None)
    overlap = build.identity["statistics"]["audits"]["overlap"]
    assert overlap == {
        "selection_sft": {
            "prompt": {"validation": 2, "both": 0},
            "screenshot": {"validation": 2, "both": 0, "near": 1},
            "task": {"validation": 2, "both": 0},
        }
    }


def test_prompts_of_every_table_are_judged(toy: Toy) -> None:
    """The count of leaks holds two tables; the audit holds all of them."""
    identity = clean(toy).build(split=SPLIT).identity
    identity["tables"]["pointwise_scores"] = {}
    identity["statistics"]["audits"]["overlap"]["pointwise_scores"] = {"prompt": {"validation": 5, "both": 2}}
    (violation,) = gates.violations(identity)
    assert violation.message == "pointwise_scores: 2 prompts with their pictures stand in both splits"
