"""Chat templates that a base model brings: text from messages, made by somebody else's Jinja in a sandbox."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import orjson
from jinja2 import TemplateError, TemplateSyntaxError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ..schemas.errors import ArmError

_SAID = "Is this shown?"


class ChatTemplate:
    """The template in the first of ``paths`` that has one. Raises ArmError when none has, or it cannot be read."""

    _texts = False  # whether it shows turns of one text only

    def __init__(self, paths: Sequence[Path], variables: Mapping[str, str]) -> None:
        """``variables`` are the special tokens by name, such as bos_token."""
        self._path, source = _found(paths)
        self._variables = dict(variables)
        try:
            self._template = _environment().from_string(source)
        except TemplateSyntaxError as error:
            raise ArmError(f"is no template: line {error.lineno}: {error.message}", where=str(self._path)) from error
        except RecursionError as error:
            raise ArmError("is no template: it is nested too deep", where=str(self._path)) from error
        # Templates of models that only read may know turns that are one text, and show nothing of a list of blocks.
        self._texts = not self._shows([{"type": "text", "text": _SAID}]) and self._shows(_SAID)

    def text(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """The whole conversation as text, without an opening for one more turn. Raises ArmError when the template
        refuses it."""
        try:
            return self._template.render(
                messages=list(map(_as_text, messages)) if self._texts else messages,
                tools=None,
                documents=None,
                add_generation_prompt=False,
                **self._variables,
            )
        except Exception as error:  # it is somebody else's program
            raise ArmError(f"the chat template refuses a row: {error}", where=str(self._path)) from error

    def _shows(self, content: Any) -> bool:
        try:
            return _SAID in self.text([{"role": "user", "content": content}])
        except ArmError:
            return False  # what it refuses is told when it is used


def _as_text(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """A turn of texts as one text, as `inference.processor` shows it; one with a picture as it is."""
    content = message.get("content")
    if not isinstance(content, list) or any(block["type"] != "text" for block in content):
        return message
    return {**message, "content": "".join(block["text"] for block in content)}


def _found(paths: Sequence[Path]) -> tuple[Path, str]:
    for path in paths:
        if not path.is_file():
            continue
        if source := _source(path):
            return path, source
    first = paths[0]
    raise ArmError(
        "has no chat template", where=str(first.parent), next_command=f"put the base model's {first.name} there"
    )


def _source(path: Path) -> str | None:
    """The template that a file holds, None if it holds none. Raises ArmError for what is no such file."""
    try:
        if path.suffix == ".jinja":
            return path.read_text("utf-8")
        data = orjson.loads(path.read_bytes())
    except ValueError as error:
        raise ArmError(f"cannot be read: {error}", where=str(path)) from error
    if not isinstance(data, dict):
        raise ArmError("is no JSON object", where=str(path))
    source = data.get("chat_template")
    if isinstance(source, list):  # several by name
        named = [one for one in source if isinstance(one, dict) and one.get("name") == "default"]
        source = named[-1].get("template") if named else None
    if not isinstance(source, str | None):
        raise ArmError("has a chat_template that is no text", where=str(path))
    return source


def _environment() -> ImmutableSandboxedEnvironment:
    """What templates of this kind are written for: the blocks, filters and functions that they use."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = _today
    return environment


class _Generation(Extension):
    """``{% generation %}`` marks what is trained on; it changes no text."""

    tags = {"generation"}  # noqa: RUF012 - as the base class declares it

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


def _json(value: Any, ensure_ascii: bool = False, **how: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, **how)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


def _today(_: str) -> NoReturn:
    raise TemplateError("it writes today's date, and then rows would be as long as the day says")
