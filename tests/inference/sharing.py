"""Scores of shared beginnings beside those of whole conversations, for models of all families. For a process with
torch."""

from __future__ import annotations

import copy
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from action_reward_models.inference import shared
from action_reward_models.inference.checkpoint import below
from action_reward_models.inference.processor import Encoded, Processor
from action_reward_models.inference.scalar import ScalarRewardModel
from action_reward_models.tests.inference import families, made
from action_reward_models.tests.inference.opened import layouts

TEMPLATES: tuple[dict[str, Any], ...] = ({}, {"enable_thinking": True}, {"enable_thinking": False})
WORDS = (
    "click",
    "type",
    "scroll",
    "(12, 40)",
    "the",
    "red",
    "button",
    "'abc'",
    "menu",
    "1",
    "<think>",
    "press",
    "Enter",
)
Set = list[Encoded]


def main(step: str, work: str, seen: str, blind: str, count: int) -> dict[str, Any]:
    """The name of a family: scores of ``count`` sets, and what is found out with it alone. explore: ``count`` sets for
    three families, and whatever is found out with one."""
    import torch

    torch.set_num_threads(1)
    some = ("hybrid", "qwen3_vl", "text") if step == "explore" else (step,)
    models = {family: opened(Path(work), family, Path(seen), Path(blind)) for family in some}
    told: dict[str, Any] = {"compare": {family: compare(model, count) for family, model in models.items()}}
    if step == "hybrid":
        told["bound"] = bound(models[step], 1000)
    elif step == "qwen3_vl":
        folder = Path(work) / "qwen3_vl-float32"
        told["layouts"] = layouts(folder, folder / "base" / "qwen3_vl")
    elif step == "explore":
        told["planted"] = {
            family: {name: planted(models[family], name) for name in PLANTED} for family in ("hybrid", "qwen3_vl")
        }
        told["planted"]["text"] = {name: planted(models["text"], name) for name in ("stale", "late", "swapped")}
        told["halves"] = halves(opened(Path(work), "hybrid", Path(seen), Path(blind), dtype="bfloat16"))
        told["edges"] = edges(models["hybrid"])
        told["bound"] = bound(models["hybrid"], 60)
        told["leaks"] = leaks(models["qwen3_vl"])
    return told


def opened(work: Path, family: str, seen: Path, blind: Path, **more: Any) -> ScalarRewardModel:
    """A model of ``family`` whose scores have a standard deviation of about a half."""
    import torch

    folder = work / f"{family}-{more.get('dtype', 'float32')}"
    base = families.base(folder / "base", family, seen, blind)
    made.make(folder / "scalar", base, "scalar", **more)
    model = ScalarRewardModel.open(folder / "scalar", base=base)
    spread = statistics.stdev(model.score_encoded(flat(sets(model.processor, 6, 9))))
    with torch.no_grad():
        below(model.model).score.modules_to_save["default"].weight.div_(2 * spread)
    return model


def again(model: ScalarRewardModel, **more: Any) -> ScalarRewardModel:
    """The same model, used for the first time."""
    return ScalarRewardModel(model.model, more.pop("processor", model.processor), model.contract, **more)


def text(chance: random.Random, least: int, most: int) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(chance.randint(least, most)))


def sets(processor: Processor, count: int, seed: int, pictures: Sequence[int] = (0, 1, 1, 2)) -> list[Set]:
    """Sets of 1 to 12 candidates: some twice, some that go on where another ends, some after the prompt of the set
    before; half of them of much the same length. pictures: how many a prompt shows, one of these."""
    chance = random.Random(seed)
    if processor.pictures is None:
        pictures = (0,)
    found: list[Set] = []
    prompt, images, alike = made.conversation(0), list[bytes](), False
    for number in range(count):
        if not number or chance.random() > 0.2:
            images = [
                made.png(chance.choice(("red", "blue", "white")), chance.choice((64, 160)))
                for _ in range(chance.choice(pictures))
            ]
            alike = chance.random() < 0.5
            words = " ".join(chance.sample(WORDS * 3, 3 * len(WORDS))) if alike else text(chance, 0, 60)
            prompt = made.conversation(len(images), words)
        replies: list[str] = []
        for _ in range(chance.choice((1, 2, 2, 3, 4, 5, 5, 5, 7, 12))):
            before = chance.choice(replies) if replies and chance.random() < 0.3 else ""
            replies.append(before + ("" if before and chance.random() < 0.5 else text(chance, 0, 6 if alike else 40)))
        found.append([processor.scalar(prompt, images, made.reply(reply)) for reply in replies])
    return found


def flat(found: Sequence[Sequence[Any]]) -> list[Any]:
    return [one for of_set in found for one in of_set]


def apart(found: Sequence[Sequence[float]], others: Sequence[float]) -> float:
    return float(max(abs(one - other) for one, other in zip(flat(found), others, strict=True)))


def compare(model: ScalarRewardModel, count: int) -> dict[str, Any]:
    """By how much scores of ``count`` sets, asked in one call, set by set, and with little memory, differ from those of
    whole conversations."""
    body = below(model.model).model
    largest, scores = {"together": 0.0, "singly": 0.0, "narrow": 0.0}, list[float]()
    read, checked = {"shared": 0, "whole": 0}, set[tuple[bool, bool]]()
    for number, options in enumerate(TEMPLATES):
        processor = Processor(model.processor.folder, made.LIMITS, options)
        some = sets(processor, -(-count // len(TEMPLATES)), number)
        fresh = again(model, processor=processor)
        with counted(body) as runs:
            whole = fresh.score_encoded(flat(some))
        read["whole"] += sum(run.read for run in runs)
        with counted(body) as runs:
            narrow = again(model, processor=processor, tokens=1024, check=False).score_sets(some)
        read["shared"] += sum(run.read for run in runs)
        found = {"together": fresh.score_sets(some), "narrow": narrow}
        found["singly"] = [fresh.score_sets([one])[0] for one in some]
        largest = {way: max(largest[way], apart(found[way], whole)) for way in largest}
        scores += whole
        assert fresh.shared is not None
        checked |= fresh.shared._checked
    return {
        "apart": largest, "spread": statistics.stdev(scores), "scores": len(scores), "read": read,
        "checked": sorted(checked),
    }  # fmt: skip


class Run(NamedTuple):
    """Conversations and tokens that one run of a model read, and the tokens that it held."""

    conversations: int
    read: int
    held: int


@contextmanager
def counted(body: Any) -> Iterator[list[Run]]:
    runs: list[Run] = []

    def note(_: Any, __: Any, given: dict[str, Any], found: Any) -> None:
        count, length, _hidden = found.last_hidden_state.shape
        cache = given.get("past_key_values")
        runs.append(Run(count, count * length, count * (cache.get_seq_length() if cache is not None else length)))

    handle = body.register_forward_hook(note, with_kwargs=True)
    try:
        yield runs
    finally:
        handle.remove()


def planted(model: ScalarRewardModel, name: str) -> dict[str, Any]:
    """What the check says to a fault, and how far from the right ones the scores are without it."""
    some = alike(model)
    tokens = 1 if name == "stale" else 1024  # every conversation goes on alone, or all at once
    with PLANTED[name]():
        return {
            "told": made.told(lambda: again(model).score_sets(some)),
            "apart": apart(again(model, check=False, tokens=tokens).score_sets(some), model.score_encoded(flat(some))),
        }


def alike(model: ScalarRewardModel) -> list[Set]:
    """Two sets whose beginnings are read in one run, of the same number of pictures."""
    images = [made.png("red")] if model.processor.pictures is not None else []
    prompts = [made.conversation(len(images), f"Click the {colour} button. " * 3) for colour in ("red", "blue")]
    replies = ("click(1, 1)", "stop", "type('abc', 'the red button of the second menu')", "press Enter")
    return [[model.processor.scalar(prompt, images, made.reply(text)) for text in replies] for prompt in prompts]


def _positions(change: Callable[[Any, int, int], Any]) -> Any:
    """Other positions of what follows a beginning."""
    real = shared.Shared._positions

    def other(self: Any, rows: Any, start: int, end: int) -> Any:
        found = real(self, rows, start, end)
        return change(found, start, end) if start else found

    return patch.object(shared.Shared, "_positions", other)


def _plain_count(found: Any, start: int, end: int) -> Any:
    """As if each token of a picture had a position of its own."""
    import torch

    return torch.arange(start, end).expand_as(found)


def _swapped() -> Any:
    """Conversations go on from the beginning of another set."""
    real = shared.fork
    other = lambda cache, rows, device: real(cache, [1 - row for row in rows], device)  # noqa: E731
    return patch.object(shared, "fork", other)


PLANTED: dict[str, Callable[[], Any]] = {
    "stale": lambda: patch.object(copy, "deepcopy", lambda cache: cache),  # the second time goes on from a first
    "late": lambda: _positions(lambda found, *_: found + 1),
    "restart": lambda: _positions(lambda found, start, _: found - start),
    "plain_count": lambda: _positions(_plain_count),
    "swapped": _swapped,
}


def halves(model: ScalarRewardModel) -> dict[str, Any]:
    """In bfloat16."""
    some = sets(model.processor, 12, 4, (1,))
    return {
        "apart": apart(again(model).score_sets(some), model.score_encoded(flat(some))),
        "told": {name: planted(model, name)["told"] for name in PLANTED},
    }


def bound(model: ScalarRewardModel, count: int) -> dict[str, Any]:
    """One set of ``count`` candidates with room for 1,024 tokens."""
    chance = random.Random(5)
    prompt, images = made.conversation(1, text(chance, 60, 60)), [made.png("red")]
    rows = [model.processor.scalar(prompt, images, made.reply(f"{at} {text(chance, 0, 20)}")) for at in range(count)]
    narrow = again(model, tokens=1024, check=False)
    with counted(below(model.model).model) as runs:
        found = narrow.score_sets([rows])
    first, *others = runs
    return {
        "apart": apart(found, model.score_encoded(rows)), "first": first, "others": others,
        "whole": sum(len(row.input_ids) for row in rows),
    }  # fmt: skip


def edges(model: ScalarRewardModel) -> dict[str, Any]:
    import torch

    body, processor = below(model.model).model, model.processor
    one, other = alike(model)
    picture = [{"role": "assistant", "content": [{"type": "text", "text": said}, {"type": "image"}]} for said in "ab"]
    shows = [processor.scalar(made.conversation(1), [made.png("red"), made.png("blue")], [turn]) for turn in picture]
    sights = [
        processor.scalar(made.conversation(1), [made.png(colour)], made.reply(said))
        for colour in ("red", "blue") for said in ("stop", "go on")
    ]  # fmt: skip
    told: dict[str, Any] = {}
    for name, some in (("in_reply", [shows]), ("other_sight", [sights]), ("alone", [[row] for row in one])):
        with counted(body) as runs:
            found = again(model, check=False).score_sets(some)
        read = sum(run.read for run in runs)
        told[name] = {"apart": apart(found, model.score_encoded(flat(some))), "read": read}
        told[name]["whole"] = sum(len(row.input_ids) for row in flat(some))
    told["none"] = [model.score_sets([]), model.score_sets([[], one[:1], []])[::2]]
    twice = model.score_sets([[one[0], one[1], one[0]], [one[1], other[0]]])
    told["twice"] = [twice[0][0] == twice[0][2], twice[0][1] == twice[1][0], twice[0][0] == twice[0][1]]
    fresh = again(model)
    told["runs"] = []
    for opened, ask in ((fresh, fresh.score_sets), (fresh, fresh.score_sets), (again(model, check=False), None),
                        (again(model, shared=False), None)):  # fmt: skip
        with counted(body) as runs:
            (ask or opened.score_sets)([one])
        told["runs"].append([run.conversations for run in runs])
    changed = again(model, check=False).score_sets([one]), again(model).score_sets([one])
    told["check_changes_nothing"] = changed[0] == changed[1]
    long = processor.scalar(made.conversation(0, "so " * 3000), [], made.reply("stop"))
    told["long"] = made.told(lambda: model.score_sets([one, [one[0], long]]))
    weight = body.language_model.norm.weight
    kept = weight.detach().clone()
    with torch.no_grad():
        weight.fill_(float("nan"))
        told["damaged"] = made.told(lambda: again(model).score_sets([one, other]))
        weight.copy_(kept)
    return told


def leaks(model: ScalarRewardModel) -> dict[str, Any]:
    """Scores of a set before and after others, with what the model remembers of pictures from elsewhere."""
    import torch

    body = below(model.model).model
    first, small = sets(model.processor, 1, 1, (2,)), sets(model.processor, 1, 2, (1,))
    blind = sets(model.processor, 1, 3, (0,))
    fresh = again(model)
    before = [fresh.score_sets(some) for some in (first, small, blind)]
    after = [fresh.score_sets(some) for some in (blind, small, first)][::-1]
    body.rope_deltas = torch.tensor([[1000]])
    stale = [fresh.score_sets(some) for some in (first, small, blind)]
    return {"same": before == after == stale, "sets": [len(some[0]) for some in (first, small, blind)]}
