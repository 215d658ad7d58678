"""What the model says: a function of the request alone, so that equal requests have equal replies."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from action_reward_models.tests.servers.stand_in.pictures import Picture
from action_reward_models.tests.servers.stand_in.script import Script, drawn, share

_COUNT = re.compile(r"from 1 to (\d+)")
_NUMBERED = re.compile(r"^\s*(\d+)\. ", re.MULTILINE)
_THOUGHTS = ("the next step is to press the button", "I will try clicking around here", "maybe “Öffnen” comes first")
_LINES = "\u2028This is still the same line of JSON.\x85And this."  # for some readers it is three
PER_TOKEN = 4  # characters


@dataclass(frozen=True)
class Said:
    """One choice. ``thought`` is None when it is part of the text."""

    text: str | None
    finish_reason: str = "stop"
    refusal: str | None = None
    thought: str | None = None


@dataclass(frozen=True)
class Prompt:
    """What of a request decides its replies."""

    model: str
    text: str  # of all messages, in order
    pictures: Sequence[Picture]
    seed: int | None
    temperature: float
    schema: Mapping[str, Any] | None  # {}: any JSON object
    max_tokens: int | None

    @property
    def digest(self) -> str:
        """Of all that the model sees."""
        seen = json.dumps([self.model, self.text, [picture.sha256 for picture in self.pictures]])
        return hashlib.sha256(seen.encode()).hexdigest()


def tokens(text: str | None) -> int:
    return -(-len(text or "") // PER_TOKEN)


def choices(prompt: Prompt, n: int, script: Script, salt: str = "") -> list[Said]:
    """``salt`` makes other replies of the same request."""
    digest = prompt.digest
    selecting = script.reply == "selection" or (script.reply == "auto" and _asks_selection(prompt))
    said = []
    for index in range(n):
        # Greedy decoding says the same whatever the seed.
        draw = (digest, prompt.seed, prompt.temperature, index, salt) if prompt.temperature else (digest, salt)
        kind = drawn(script.replies, "reply", script.seed, *draw)
        said.append(_cut(_said(prompt, kind, draw, selecting), prompt.max_tokens, script.reasoning))
    return said


def _said(prompt: Prompt, kind: str | None, draw: tuple[object, ...], selecting: bool) -> Said:
    match kind:
        case "refusal":
            return Said(None, refusal="I cannot help with that.")
        case "content_filter":
            return Said("", "content_filter")
        case "empty":
            return Said("")
        case "null":
            return Said(None)
        case "length":
            return Said('<think>so many thoughts that {"', "length")
    if selecting:
        return Said(_selection(prompt, kind, draw))
    if kind == "unparsed":
        return Said("<think>it is not clear what to do</think>\nLet me look at the page first.")
    thought, action = _action(prompt, draw)
    if kind == "prose":
        thought += _LINES
    if prompt.schema is not None:
        return Said(json.dumps(_filled(prompt.schema, {"thought": thought, "action": action})))
    return Said(f"<think>{thought}</think>\n<action>{action}</action>")


def _cut(said: Said, max_tokens: int | None, reasoning: str | None) -> Said:
    text = said.text
    finish = said.finish_reason
    if text is not None and max_tokens is not None and tokens(text) > max_tokens:
        text, finish = text[: max_tokens * PER_TOKEN], "length"
    thought = None
    if reasoning and text and text.startswith("<think>"):
        thought, _, text = text.removeprefix("<think>").partition("</think>\n")
    return Said(text or None if thought else text, finish, said.refusal, thought)


def _asks_selection(prompt: Prompt) -> bool:
    return '"selection"' in prompt.text or "selection" in (prompt.schema or {}).get("properties", {})


def shown(prompt: Prompt) -> int:
    """How many candidates the prompt shows."""
    if counts := _COUNT.findall(prompt.text):
        return int(counts[-1])  # a candidate may speak of numbers; the question comes last
    maximum = (prompt.schema or {}).get("properties", {}).get("selection", {}).get("maximum")
    return int(maximum or max(map(int, _NUMBERED.findall(prompt.text)), default=1))


def _selection(prompt: Prompt, kind: str | None, draw: tuple[object, ...]) -> str:
    count = shown(prompt)
    pick = 1 + int(share("pick", *draw) * count)
    other = pick % count + 1
    verdict = json.dumps({"selection": pick})
    match kind:
        case "string":
            return json.dumps({"selection": str(pick)})
        case "think":
            return f"<think>the page shows what was asked for</think>\n{verdict}"
        case "think_draft":
            return f'<think>at first {{"selection": {other}}}</think>\n{verdict}'
        case "fenced":
            return f"```json\n{verdict}\n```"
        case "prose":
            return f"Candidate {pick} is better than the others.{_LINES}\n{verdict}"
        case "salvaged":
            return f'{{"selection": {pick}, "tho'
        case "ambiguous":  # with one candidate there is no second number
            return f'{verdict} or rather {{"selection": {other}}}'
        case "out_of_range":
            return json.dumps({"selection": count + 1})
        case "unparsed":
            return f"The best candidate is number {pick}."
        case "word":
            return json.dumps({"selection": "third"})
        case "truncated":
            return '{"selec'
    return json.dumps(_filled(prompt.schema, {"selection": pick})) if prompt.schema else verdict


def _action(prompt: Prompt, draw: tuple[object, ...]) -> tuple[str, str]:
    """(thought, action): of a few that the page suggests, so that samples agree here and differ there."""
    pool = int(share("pool", *draw) * 5)
    width, height = prompt.pictures[-1].size if prompt.pictures else (320, 420)
    x, y = (int(share(axis, prompt.digest, pool) * size) for axis, size in (("x", width), ("y", height)))
    thought = _THOUGHTS[int(share("thought", *draw) * len(_THOUGHTS))]
    actions = (f"click({x}, {y})", f"click({x}, {y})", f'type({x}, {y}, "Ada")', "scroll(0, 100)", f"click({y}, {x})")
    return thought, actions[pool] if pool < 4 or y < width else actions[0]


def _filled(schema: Mapping[str, Any] | None, values: Mapping[str, Any]) -> dict[str, Any]:
    """An object of ``schema``: its properties with what ``values`` has, or with the least that their type allows."""
    properties = (schema or {}).get("properties")
    if not properties:
        return dict(values)
    return {name: values.get(name, _least(property_)) for name, property_ in properties.items()}


def _least(schema: Mapping[str, Any]) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    least = {"string": "", "integer": 0, "number": 0, "boolean": False, "array": [], "null": None}
    kind = schema.get("type", "string")
    if kind == "object":
        return _filled(schema, {})
    return schema.get("minimum", least[kind])
