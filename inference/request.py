"""What a model is asked to pick from, as people and programs write it, made into the rows that prompts are made of.

    request = read({"state": {"task": "Buy milk", "screenshot": png}, "candidates": ["click(3, 4)", ...]}, spoken)

A request says what `pick_request/1` says. In Python its screenshot may also be bytes, a path, a picture of PIL or an
array (H, W, 3) of uint8.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ..schemas.actions import DIALECTS, View, element_index, parse
from ..schemas.errors import ArmError, Issue, UsageError
from ..schemas.ids import canonical_json, sha256_hex
from ..schemas.images import CheckedImage, ImageChecker, ImageError, data_url, decode_data_url
from ..schemas.validate import for_schema, nearest

SCHEMA = "pick_request/1"
_PICTURE = "a text is a data URL, and in Python a Path names a file"
Row = Mapping[str, Any]


class Spoken(NamedTuple):
    """One way to write actions: a dialect, and the space of the points (None: not declared)."""

    dialect: str
    space: str | None


@dataclass(frozen=True)
class Request:
    """A state and its candidates as rows of `states` and `candidate_sets`, as far as prompts read them.

    id: the request's own, or a hash of its content. pictures: bytes by the references that the state names.
    """

    id: str
    state: Row
    set_row: Row
    pictures: Mapping[str, bytes] = field(repr=False)

    @property
    def n(self) -> int:
        """Number of candidates."""
        return len(self.set_row["candidates"])

    def images(self, references: Sequence[str]) -> list[bytes]:
        """Bytes of the pictures that a rendered prompt names by their sha256. Raises ArmError for one that is not
        there."""
        if missing := [reference for reference in references if reference not in self.pictures]:
            raise ArmError(f"the picture {missing[0]} is not among those that came with it", where=self.id)
        return [self.pictures[reference] for reference in references]


def read(data: Any, spoken: Sequence[Spoken] | None = None, where: str = "the request", line: int = 0) -> Request:
    """The request that ``data`` is. Nothing of it is ever used as a path or an address: a screenshot that is a text is
    a data URL.

    spoken: how the data of the checkpoint was written, where that is known; None takes any way that is named.
    where, line: of the request, for messages.
    Raises ArmError with every problem, for pictures that no build would hold, and for actions written in another way
    than the checkpoint's data.
    """
    if isinstance(data, Mapping) and isinstance(data.get("state"), Mapping):
        data = {**data, "state": _with_data_url(data["state"], where)}
    if problems := _problems(data):
        issues = [Issue(where, line, path, message) for path, message in problems]
        raise ArmError("is no state with candidates", where=where, issues=issues,
                       next_command="docs/inference.md says what a request holds")  # fmt: skip
    dialect, space = _spoken(data, spoken, where)
    state, picture = _state(data["state"], dialect, where, line)
    view = View(space or "pixel", state["width"], state["height"], state["elements"])
    candidates = [_candidate(index, one, dialect, view) for index, one in enumerate(data["candidates"])]
    seen = _sha256({name: value for name, value in state.items() if name != "source"}, where)
    told = [[one["response"], one["thought"]] for one in candidates]
    content = _sha256([seen, dialect, space, told], where)  # of one with an id, too: no text may hold half a character
    made = data.get("id") or content
    set_row = {
        "set_id": made, "state_id": seen, "candidates": candidates, "dialect": dialect, "space": space,
        "distinct_actions": len({one["action_key"] for one in candidates}),
    }  # fmt: skip
    return Request(made, {**state, "state_id": seen}, set_row, picture)


def way(dialect: str, space: str | None) -> str:
    """How actions are written, in words."""
    return f"{dialect} in {space or 'no declared space'}"


def spoken_of(contract: Mapping[str, Any]) -> list[Spoken] | None:
    """How the data of a checkpoint was written; None where its contract does not say."""
    shown = contract.get("candidates")
    return [Spoken(one["dialect"], one["space"]) for one in shown["spoken"]] or None if shown else None


def _problems(data: Any) -> list[tuple[str, str]]:
    try:
        found = [*for_schema(SCHEMA).problems(data), *_of_candidates(data)]
    except ValueError:
        found = list(_no_json(data, "$"))
        if not found:
            raise
    return [(path, f"{told}: {_PICTURE}" if path == "$.state.screenshot" and "match" in told else told)
            for path, told in found]  # fmt: skip


def _no_json(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """What only a program could hand over, such as an array where no picture is expected."""
    if isinstance(value, Mapping):
        for name, one in value.items():
            yield from _no_json(one, f"{path}.{name}")
    elif isinstance(value, list | tuple):
        for index, one in enumerate(value):
            yield from _no_json(one, f"{path}[{index}]")
    elif not isinstance(value, str | int | float | None):
        yield path, f"is of the type {type(value).__name__}, and JSON has none such"


def _of_candidates(data: Any) -> list[tuple[str, str]]:
    """What a schema would say less plainly."""
    candidates = data.get("candidates") if isinstance(data, Mapping) else None
    return [
        (f"$.candidates[{index}]", "holds either `response`, or `action` and maybe `thought`")
        for index, one in enumerate(candidates if isinstance(candidates, list) else [])
        if isinstance(one, Mapping)
        and (("response" in one) == ("action" in one) or ("response" in one and "thought" in one))
    ]


def _spoken(data: Row, known: Sequence[Spoken] | None, where: str) -> Spoken:
    said = data.get("dialect"), data.get("space")
    if said[0] is not None and said[0] not in DIALECTS:
        close = nearest(said[0], DIALECTS)
        told = f"unknown dialect {said[0]!r}; " + (f"did you mean {close!r}?" if close else f"known: {_list(DIALECTS)}")
        raise UsageError(told, where=f"{where} $.dialect")
    if known is None:
        if said[0] is None:
            raise UsageError(
                "the checkpoint does not say what its actions are written in, and neither does the request",
                where=f"{where} $.dialect", next_command='"dialect": "function", "space": "pixel"   # or what they are',
            )  # fmt: skip
        return Spoken(said[0], said[1])
    fits = [one for one in known if all(mine in (None, its) for mine, its in zip(said, one, strict=True))]
    if len(fits) == 1:
        return fits[0]
    ways = _list(way(*one) for one in known)
    if not fits:
        asked = " in ".join(part for part in said if part)
        raise ArmError(
            f"the checkpoint was trained on actions in {ways}, and the request has {asked}; its answers would mean "
            "nothing", where=where, next_command="write the actions as the checkpoint's data does",
        )  # fmt: skip
    raise UsageError(
        f"the checkpoint was trained on actions in {ways}; say which these are", where=f"{where} $.dialect"
    )


def _state(said: Row, dialect: str, where: str, line: int) -> tuple[dict[str, Any], dict[str, bytes]]:
    """A row of `states`, as far as prompts read it, and its picture by reference."""
    checked: CheckedImage | None = None
    if said.get("screenshot") is not None:
        try:
            checked = ImageChecker().check(decode_data_url(said["screenshot"]))
        except ImageError as error:
            raise ArmError(error.message, where=f"{where} $.state.screenshot") from error
    history = said.get("history") or []
    turn = int(said.get("turn", len(history)))  # 2.0 is an integer in JSON
    if turn < len(history):
        raise ArmError(
            f"turn {turn} (0-based) has at most {turn} earlier turns, and {len(history)} are given",
            where=f"{where} $.state.turn",
        )
    if issues := [
        Issue(where, line, f"$.state.history[{at}].action", "is a whole response: prompts show the action alone")
        for at, one in enumerate(history)
        if _is_response(one["action"], dialect)
    ]:
        told = '{"action": parsed.action, "thought": parsed.thought}   # of schemas.actions.parse(dialect, response)'
        raise ArmError("holds earlier turns otherwise than training showed them", where=where, issues=issues,
                       next_command=told)  # fmt: skip
    reference = f"sha256:{checked.sha256}" if checked else None
    state = {
        "task": said["task"],
        "url": said.get("url"),
        "turn": turn,
        "history": [
            {"turn": turn - len(history) + at, "thought": one.get("thought", ""), "action": one["action"],
             "observation": one.get("observation", "")}
            for at, one in enumerate(history)
        ],
        "screenshot": reference,
        "screenshot_sha256": checked.sha256 if checked else None,
        "width": checked.width if checked else None,
        "height": checked.height if checked else None,
        "observation_text": said.get("observation_text"),
        "elements": said.get("elements") or [],
        "source": {"file": ""},
    }  # fmt: skip
    return state, {checked.sha256: checked.data} if checked else {}


def _candidate(index: int, said: str | Row, dialect: str, view: View) -> dict[str, Any]:
    """A candidate of a `candidate_sets` row; what a person took apart is not taken apart again."""
    if isinstance(said, str) or "response" in said:
        response = said if isinstance(said, str) else said["response"]
        parsed = parse(dialect, response)
        thought, action = parsed.thought, parsed.action
    else:
        texts = DIALECTS[dialect].texts or DIALECTS[dialect]
        response = f"{texts.opener}{said['action']}{texts.closer}"
        parsed = texts.parse(response)
        thought, action = said.get("thought", ""), said["action"] if parsed.parse_error else parsed.action
    return {
        "index": index,
        "response": response,
        "thought": thought,
        "action": action,
        "action_json": parsed.json,
        "action_key": parsed.key,
        "element_index": element_index(parsed.calls, view) if view.elements else None,
        "parse_error": parsed.parse_error,
    }


def _is_response(action: str, dialect: str) -> bool:
    """Whether an action still has its thought or its tags. A text that cannot be read at all is shown as it is."""
    opener = (DIALECTS[dialect].texts or DIALECTS[dialect]).opener
    parsed = parse(dialect, action)
    return parsed.parse_error is None and bool(parsed.thought or (opener and action.lstrip().startswith(opener)))


def _with_data_url(state: Row, where: str) -> Row:
    picture = state.get("screenshot")
    if picture is None or isinstance(picture, str):
        return state
    return {**state, "screenshot": data_url(_bytes(picture, f"{where} $.state.screenshot"))}


def _bytes(picture: Any, where: str) -> bytes:
    """What Python has for a picture. Only a program can hand over a Path; JSON cannot."""
    if isinstance(picture, bytes | bytearray | memoryview):
        return bytes(picture)
    if isinstance(picture, Path):
        try:
            return picture.read_bytes()
        except OSError as error:
            raise ArmError(f"{picture} cannot be read: {error.strerror}", where=where) from error
    from PIL import Image

    if not isinstance(picture, Image.Image):
        import numpy as np

        array = np.asarray(picture)
        if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] not in (3, 4):
            what = f"an array {array.shape} of {array.dtype}" if isinstance(picture, np.ndarray) else type(picture)
            told = f"bytes, a path, a picture of PIL or an array (H, W, 3) of uint8 is expected, not {what}"
            raise UsageError(told, where=where)
        picture = Image.fromarray(array)
    made = io.BytesIO()
    picture.convert("RGB").save(made, "PNG")  # what a model sees; and no PNG holds CMYK
    return made.getvalue()


def _sha256(content: Any, where: str) -> str:
    """Raises ArmError for text that no file can hold."""
    try:
        return sha256_hex(canonical_json(content))
    except UnicodeEncodeError as error:
        raise ArmError(f"holds half a surrogate pair, U+{ord(error.object[error.start]):04X}", where=where) from error


def _list(names: Any) -> str:
    return ", ".join(names)
