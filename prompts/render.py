"""The one renderer: data building, evaluation and serving show a model the same messages because they call this.

Messages are ``[{"role": ..., "content": [block, ...]}, ...]``; a block is ``{"type": "text", "text": ...}`` or
``{"type": "image"}`` and holds no other key (chat templates test ``'image' in item``). Text is one block before the
picture and one after it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from ..schemas.errors import ArmError, UsageError
from . import trajectory, view
from .escape import escape
from .options import PromptOptions
from .replies import parse_selection
from .substitution import Text, nested
from .template import Kind, Template, builtin, of_json, parse_text, parse_yaml
from .view import StateView, Unrenderable

RENDERER_VERSION: Final = 1  # raise it with every change to what any prompt renders to
_MAX_BYTES: Final = 1 << 20  # of a template file, which a person writes

Message = dict[str, Any]

__all__ = [
    "RENDERER_VERSION",
    "Message",
    "Prompt",
    "Rendered",
    "StateView",
    "Unrenderable",
    "load_prompt",
    "load_prompt_file",
    "prompt_file",
    "prompt_of_json",
    "rendered_sha256",
]


class Rendered(NamedTuple):
    """messages: the prompt. images: sha256 of its pictures, one for each image block, in order."""

    messages: list[Message]
    images: tuple[str, ...]


@dataclass(frozen=True)
class Prompt:
    """A template with its options.

    id: ``selection/1``, or ``file:`` and the head of the file's sha256.
    sha256: hash over template, options and renderer version; what data, checkpoint and server must agree on.
    """

    id: str
    kind: Kind
    options: PromptOptions
    template: Template = field(repr=False)
    sha256: str
    _user: Text = field(repr=False, compare=False)
    _plain: Text = field(repr=False, compare=False)
    _with_thought: Text = field(repr=False, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return everything the prompt is, with its hash, as plain JSON data."""
        return {"id": self.id, "sha256": self.sha256, **_identity(self.template, self.options)}

    def state(
        self,
        row: Mapping[str, Any],
        dialect: str,
        space: str | None,
        recorded: tuple[str, str | None] | None = None,
    ) -> StateView:
        """Return the view of a ``states`` row, to be used for all its candidate sets of one source.

        ``dialect`` and ``space`` are those of the candidates' actions, ``recorded`` those of the state's own earlier
        steps where they differ; a space is None if it is not declared. Raises Unrenderable if the state lacks what the
        options show; ArmError when steps and candidates would be shown in different spaces.
        """
        return view.build(
            self.template, self.options, self._user, self.sha256, row,
            dialect=dialect, space=space, recorded=recorded or (dialect, space),
        )  # fmt: skip

    def selection(self, state: StateView, candidates: Sequence[Mapping[str, Any]], order: Sequence[int]) -> Rendered:
        """Return the prompt over the candidates with the indices ``order`` (0-based), shown in that order.

        ``candidates`` are those of the set, each at the place of its ``index``. Raises ArmError for an order that
        is empty, repeats an index or names none.
        """
        self._check("selection", state)
        if not order or len(set(order)) != len(order):
            raise ArmError(f"the order {list(order)} is empty or shows a candidate twice")
        shown = []
        for number, index in enumerate(order, 1):
            candidate = candidates[index] if 0 <= index < len(candidates) else None
            if candidate is None or candidate["index"] != index:
                raise ArmError(f"the order {list(order)} names candidate {index}, which does not stand at its place")
            shown.append(self._candidate(state, candidate, str(number)))
        return self._prompt(state, escape("\n".join(shown)), str(len(order)))

    def completion(self, order: Sequence[int], selected_index: int, reasoning: str | None = None) -> list[Message]:
        """Return the assistant turn that picks candidate ``selected_index`` (0-based) out of those shown.

        ``reasoning`` is only used with the option ``reasoning: before``. Raises Unrenderable if it is missing then,
        or if the reply as a whole would not be read as this pick; ArmError if the candidate was not shown.
        """
        if self.kind != "selection":
            raise UsageError(f"{self.id} is a {self.kind} prompt; it has no completion")
        if selected_index not in order:
            raise ArmError(f"candidate {selected_index} was not shown (order {list(order)})")
        number = order.index(selected_index) + 1
        text = f'{{"selection": {number}}}'
        if self.options.reasoning == "before":
            if not reasoning or not reasoning.strip():
                raise Unrenderable("no_reasoning", "the prompt asks for reasoning, and the label has none")
            text = f"{escape(reasoning.strip())}\n\n{text}"
            if parse_selection(text, len(order)).selected != number:
                raise Unrenderable("reasoning_conflicts", "the reasoning holds a selection of its own")
        return [_turn("assistant", text)]

    def scalar(self, state: StateView) -> Rendered:
        """Return the prompt that all candidates of the state share."""
        self._check("scalar", state)
        return self._prompt(state, "", "")

    def scalar_reply(self, state: StateView, candidate: Mapping[str, Any]) -> list[Message]:
        """Return the candidate as the assistant turn to be scored."""
        self._check("scalar", state)
        return [_turn("assistant", escape(self._candidate(state, candidate, "")))]

    def trajectory(self, task: str | None) -> Rendered:
        """Return the prompt that all episodes of a task share."""
        self._check_kind("trajectory")
        messages = [_turn("user", trajectory.asked(self.template, self._user, task))]
        if self.template.system:
            messages.insert(0, _turn("system", self.template.system))
        return Rendered(messages, ())

    def trajectory_reply(self, steps: Sequence[Mapping[str, Any]]) -> list[Message]:
        """Return the episode as the assistant turn to be scored: ``steps`` with turn (0-based), thought, action and
        observation."""
        self._check_kind("trajectory")
        return [_turn("assistant", trajectory.told(self.template, self.options, steps))]

    def _candidate(self, state: StateView, candidate: Mapping[str, Any], number: str) -> str:
        indent = self.template.fragments["indent"]
        values = {
            "number": number,
            "action": nested(state.space.shown_candidate(candidate), indent) or self.template.fragments["no_action"],
            "element": self._label(state, candidate) if self.options.element_labels else "",
        }
        if self.options.candidate_reasoning and (thought := candidate["thought"]):
            values["thought"] = nested(thought, indent)
            return self._with_thought.fill(values)
        return self._plain.fill(values)

    def _label(self, state: StateView, candidate: Mapping[str, Any]) -> str:
        index = candidate["element_index"]
        if index is None:
            return ""
        if index not in state.labels:
            raise ArmError(f"candidate {candidate['index']} hits element {index}, which the state does not have")
        return state.labels[index]

    def _prompt(self, state: StateView, candidates: str, count: str) -> Rendered:
        content: list[dict[str, str]] = []
        text = ""
        for run, hole in state.segments:
            text += run
            if hole == "candidates":
                text += candidates
            elif hole == "count":
                text += count
            elif hole == "image":
                if text:
                    content.append({"type": "text", "text": text})
                    text = ""
                content.append({"type": "image"})
        if text:
            content.append({"type": "text", "text": text})
        messages: list[Message] = [{"role": "user", "content": content}]
        if self.template.system:
            messages.insert(0, _turn("system", self.template.system))
        return Rendered(messages, state.images)

    def _check_kind(self, kind: Kind) -> None:
        if self.kind != kind:
            raise UsageError(f"{self.id} is a {self.kind} prompt, not a {kind} prompt")

    def _check(self, kind: Kind, state: StateView) -> None:
        self._check_kind(kind)
        if state.prompt_sha256 != self.sha256:
            raise ArmError(f"the state was prepared for prompt {state.prompt_sha256[:12]}, not for {self.sha256[:12]}")


def load_prompt(prompt_id: str, options: PromptOptions) -> Prompt:
    """Return the built-in prompt ``prompt_id`` (``selection/1``, ``scalar/1``, ``trajectory/1``)."""
    return _prompt(prompt_id, builtin(prompt_id), options)


def load_prompt_file(path: Path | str, sha256: str, options: PromptOptions) -> Prompt:
    """Return the prompt of a template file that the user supplies, say for a checkpoint trained elsewhere.

    ``*.yaml`` and ``*.yml`` are templates like the built-in ones (absent fragments are taken from those); any other
    file is the text of the user turn. ``sha256`` is that of the file's bytes, hexadecimal. Raises ArmError if it
    differs, naming both.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ArmError(f"the prompt file cannot be read: {error.strerror}", where=str(path)) from error
    if len(data) > _MAX_BYTES:
        raise ArmError(f"the prompt file is larger than {_MAX_BYTES:,} bytes", where=str(path))
    found = hashlib.sha256(data).hexdigest()
    if found != sha256.lower():
        raise ArmError(
            f"the prompt file has sha256 {found}, and {sha256} was asked for",
            where=str(path),
            next_command=f"sha256: {found}   # if this is the file you mean",
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ArmError(
            f"the prompt file is not UTF-8: {error.reason} at byte {error.start}", where=str(path)
        ) from error
    read = parse_yaml if path.suffix in (".yaml", ".yml") else parse_text
    return _prompt(f"file:{found[:12]}", read(text, str(path)), options)


def prompt_of_json(data: object, where: str) -> Prompt:
    """Return the prompt that ``Prompt.to_json`` wrote: ``prompts/<id>.json`` of builds and checkpoints.

    Raises ArmError for what is no prompt, for one of another renderer version, and for one whose hash is not its own.
    """
    if not isinstance(data, dict) or not isinstance(data.get("id"), str) or not isinstance(data.get("template"), dict):
        raise ArmError("is no prompt", where=where)
    if data.get("renderer") != RENDERER_VERSION:
        raise ArmError(
            f"was made for version {data.get('renderer')} of the renderer, and this one is {RENDERER_VERSION}",
            where=where, next_command="use the version of action-reward-models that made it",
        )  # fmt: skip
    options = data.get("options")
    if not isinstance(options, dict | None):
        raise ArmError("is no prompt: its options are no object", where=where)
    made = _prompt(data["id"], of_json(data["template"], where), PromptOptions.from_mapping(options if options else {}))
    if made.sha256 != data.get("sha256"):
        raise ArmError(f"says that its hash is {data.get('sha256')}, and it is {made.sha256}", where=where)
    return made


def prompt_file(prompt_id: str, sha256: str | None = None) -> str:
    """Path of a prompt in a build or checkpoint; ``sha256`` where several have the id."""
    name = prompt_id.replace("/", "-").replace(":", "-")
    return f"prompts/{name}-{sha256[:12]}.json" if sha256 else f"prompts/{name}.json"


def rendered_sha256(messages: Sequence[Message], images_sha256: Sequence[str]) -> str:
    """Return the identity of what a model sees: sha256 of the canonical JSON of messages and picture digests.

    Raises ArmError for text that is not valid Unicode, or for another number of pictures than image blocks.
    """
    blocks = sum(block["type"] == "image" for message in messages for block in message["content"])
    if blocks != len(images_sha256):
        raise ArmError(f"the prompt has {blocks} image blocks and {len(images_sha256)} pictures")
    try:
        return hashlib.sha256(_canonical([messages, list(images_sha256)])).hexdigest()
    except TypeError as error:
        raise ArmError(f"the prompt cannot be hashed: {error}") from error


def _prompt(prompt_id: str, template: Template, options: PromptOptions) -> Prompt:
    return Prompt(
        prompt_id,
        template.kind,
        options,
        template,
        hashlib.sha256(_canonical(_identity(template, options))).hexdigest(),
        view.user_text(template, options),
        Text(template.fragments["candidate"]),
        Text(template.fragments["candidate_with_thought"]),
    )


def _identity(template: Template, options: PromptOptions) -> dict[str, Any]:
    return {"template": template.to_json(), "options": options.to_json(), "renderer": RENDERER_VERSION}


def _turn(role: str, text: str) -> Message:
    return {"role": role, "content": [{"type": "text", "text": text}]}


def _canonical(value: object) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
