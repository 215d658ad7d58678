"""Templates: what is in them, where they come from, and what makes one unusable."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal

from ..schemas.errors import ArmError, UsageError
from ..schemas.validate import nearest
from ..schemas.yamlfile import parse
from .escape import escape
from .substitution import Text

Kind = Literal["selection", "scalar", "trajectory"]

# Placeholders of the user text: those that must stand there, and those that may.
_REQUIRED: Final[dict[str, set[str]]] = {
    "selection": {"task", "observation", "candidates"},
    "scalar": {"task", "observation"},
    "trajectory": {"task"},
}
_ALLOWED: Final[dict[str, set[str]]] = {
    "selection": {"url", "history", "points", "answer", "count"},
    "scalar": {"url", "history", "points", "answer"},
    "trajectory": {"answer"},
}
_ONCE: Final = {"observation", "candidates", "history", "answer"}

# Fragments: (placeholders that must stand in it, placeholders that may).
_FRAGMENTS: Final[dict[str, tuple[set[str], set[str]]]] = {
    "indent": (set(), set()),
    "not_recorded": (set(), set()),
    "history": ({"steps"}, set()),
    "no_history": (set(), set()),
    "no_steps": (set(), set()),
    "earlier_steps": (set(), {"hidden"}),
    "step": ({"action"}, {"turn"}),
    "screenshot": ({"image"}, set()),
    "text": ({"observation_text"}, set()),
    "points_pixel": (set(), {"size"}),
    "points_norm1000": (set(), {"size"}),
    "points_unknown": (set(), set()),
    "unknown_size": (set(), set()),
    "candidate": ({"action"}, {"number", "element"}),
    "candidate_with_thought": ({"action", "thought"}, {"number", "element"}),
    "element": (set(), {"tag", "text"}),
    "no_action": (set(), set()),
    "answer": (set(), {"count"}),
    "answer_after_reasoning": (set(), {"count"}),
}


@dataclass(frozen=True)
class Template:
    """The words of a prompt. ``system`` may be empty; then there is no system turn."""

    kind: Kind
    system: str
    user: str
    fragments: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return the template as plain JSON data, every fragment included."""
        return {"kind": self.kind, "system": self.system, "user": self.user, "fragments": dict(self.fragments)}


def prompt_ids() -> list[str]:
    """The ids of the built-in prompts, sorted: ``scalar/1``, ``selection/1``, ..."""
    names = [f.name for f in (resources.files(__package__) / "templates").iterdir()]
    return sorted(name.removesuffix(".yaml").replace("-", "/") for name in names if name.endswith(".yaml"))


@lru_cache(maxsize=16)
def builtin(prompt_id: str) -> Template:
    """Return the template ``prompt_id`` (``selection/1``). Raises UsageError with the known ids."""
    known = prompt_ids()
    if prompt_id not in known:
        close = nearest(prompt_id, known)
        hint = f"did you mean {close}? " if close else ""
        raise UsageError(f"there is no prompt {prompt_id!r}; {hint}known: {', '.join(known)}")
    name = f"{prompt_id.replace('/', '-')}.yaml"
    return parse_yaml((resources.files(__package__) / "templates" / name).read_text("utf-8"), where=name)


def parse_yaml(text: str, where: str) -> Template:
    """Read a template; fragments it does not have are those of the first built-in template of its kind.

    Raises ArmError with every place that is not as ``prompt_template/1`` says, or the first rule a prompt breaks.
    """
    data = parse(text, Path(where), "prompt_template/1").data
    kind, own = data["kind"], data.get("fragments", {})
    fragments = own if set(own) == set(_FRAGMENTS) else {**builtin(f"{kind}/1").fragments, **own}
    return _checked(Template(kind, data.get("system") or "", data["user"], fragments), where)


def of_json(data: Mapping[str, Any], where: str) -> Template:
    """The template that ``Template.to_json`` wrote. Raises ArmError like `parse_yaml`; none may be missing."""
    try:
        kind, fragments = data["kind"], dict(data["fragments"])
        found = Template(kind, str(data["system"]), str(data["user"]), {str(k): str(v) for k, v in fragments.items()})
    except (KeyError, TypeError, ValueError) as error:
        raise ArmError(f"is no template: {error!r}", where=where) from error
    if not isinstance(kind, str) or kind not in _REQUIRED or set(fragments) != set(_FRAGMENTS):
        raise ArmError("is no template of this version: it has another kind or other fragments", where=where)
    return _checked(found, where)


def parse_text(text: str, where: str) -> Template:
    """A plain text is the user turn of a prompt with the built-in fragments and no system turn."""
    kind: Kind = "selection" if "{{candidates}}" in text else "scalar"
    return _checked(Template(kind, "", text, builtin(f"{kind}/1").fragments), where)


def _checked(template: Template, where: str) -> Template:
    try:
        if Text(template.system).rest:
            raise ArmError("system is the same for every state; it takes no placeholders")
        names = Text(template.user).names
        _check_names("user", names, _REQUIRED[template.kind], _ALLOWED[template.kind])
        if repeated := sorted(n for n in _ONCE if names.count(n) > 1):
            raise ArmError(f"user: {repeated[0]} stands more than once")
        if template.kind == "selection" and not re.search(r"(?:^|\n)\{\{candidates\}\}(?:\n|\Z)", template.user):
            raise ArmError("user: {{candidates}} stands on a line of its own")
        for name, (required, allowed) in _FRAGMENTS.items():
            needed = required | ({"number"} if template.kind == "selection" and name.startswith("candidate") else set())
            _check_names(name, Text(template.fragments[name]).names, needed, allowed)
        if Text(template.fragments["screenshot"]).names != ["image"]:
            raise ArmError("screenshot: {{image}} stands exactly once, and there is no other picture")
        if template.fragments["indent"].strip():
            raise ArmError("indent holds something else than spaces")
        for name, text in {"system": template.system, "user": template.user, **template.fragments}.items():
            if escape(text) is not text:
                raise ArmError(f"{name} holds a token that a model takes for structure; a template holds words only")
    except ArmError as error:
        raise ArmError(error.message, where=where) from error
    return template


def _check_names(place: str, names: list[str], required: set[str], allowed: set[str]) -> None:
    if missing := sorted(required - set(names)):
        raise ArmError(f"{place}: the placeholder {{{{{missing[0]}}}}} is missing")
    known = required | allowed
    if unknown := [n for n in names if n not in known]:
        raise ArmError(
            f"{place}: unknown placeholder {{{{{unknown[0]}}}}}; known: {', '.join(sorted(known)) or 'none'}"
        )
