"""Training rows of the first public release, ready-made: ShareGPT messages for selection, pairs for the scalar model.

Documented by LLaMA-Factory, which reads such files: ``messages`` with ``role`` and ``content``, ``chosen`` and
``rejected`` as one message each, ``images`` by path, and ``<image>`` in the text for each of them. Documented by the
release: the reply is ``{"selection": N}``, 1-based. Candidates are not taken out of the rendered prompt again: one
whose own text holds a numbered list would become two, so that ``order`` is null. The records name no task, state or
set; ids are hashes of what a row shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...prompts.replies import parse_selection
from ...schemas.errors import ArmError
from . import chat, record_ids
from .types import Context, ImportedRow, InvalidTurn

Record = dict[str, Any]
_ANY = 1000  # candidates a set can have; how many were shown only the prompt's own words say
_UNKNOWN = ("label_id", "set_id", "state_id", "prompt_id", "prompt_sha256")


def selection(record: Record, context: Context) -> Iterator[ImportedRow | InvalidTurn]:
    """Yield the `selection_sft` row of a record."""
    row_id = record_ids.shown("sft", record)
    try:
        *turns, reply = record["messages"]
        if reply["role"] != "assistant":
            raise ArmError("must be the assistant's reply", where=f"$.messages[{len(turns)}]")
        prompt = _prompt(turns)
        where = f"$.messages[{len(turns)}].content"
        said = parse_selection(reply["content"], _ANY)
        if said.status != "ok":
            raise ArmError(f'is {said.status}: it must pick one candidate, as {{"selection": 2}}', where=where)
        completion = [_text("assistant", reply["content"], where)]
        pictures = chat.pictures(prompt, record["images"], context.folder)
    except ArmError as error:
        yield InvalidTurn.of(row_id, error, kind="selection_sft")
        return
    row = {
        **dict.fromkeys((*_UNKNOWN, "order")),
        "row_id": record_ids.shown("sft", record, pictures),
        "prompt": prompt,
        "completion": completion,
    }
    yield ImportedRow("selection_sft", row, pictures)


def pair(record: Record, context: Context) -> Iterator[ImportedRow | InvalidTurn]:
    """Yield the `bt_pairs` row of a record; how its two actions relate is found out when it is built."""
    pair_id = record_ids.shown("pair", record)
    try:
        prompt = _prompt(record["messages"])
        sides = {}
        for side in ("chosen", "rejected"):
            if record[side]["role"] != "assistant":
                raise ArmError("must be the assistant's", where=f"$.{side}.role")
            sides[side] = [_text("assistant", record[side]["content"], f"$.{side}.content")]
        pictures = chat.pictures(prompt, record["images"], context.folder)
    except ArmError as error:
        yield InvalidTurn.of(pair_id, error, kind="bt_pairs")
        return
    row = {
        **dict.fromkeys((*_UNKNOWN, "chosen_index", "rejected_index", "margin", "relation")),
        "pair_id": record_ids.shown("pair", record, pictures),
        "unit": "step",
        "label_source": "selection",
        "prompt": prompt,
        **sides,
        "pair_type": "other",
        "negative_source": "sampled",
    }
    yield ImportedRow("bt_pairs", row, pictures)


def _prompt(turns: Sequence[Record]) -> list[chat.Message]:
    """The messages before the reply: at most one of the system, then the user's."""
    roles = [turn["role"] for turn in turns]
    if roles not in (["user"], ["system", "user"]):
        found = ", ".join(roles) or "nothing"
        raise ArmError(f"are of {found} before the reply; they must be of system and user", where="$.messages")
    return [chat.message(t["role"], t["content"], f"$.messages[{n}].content") for n, t in enumerate(turns)]


def _text(role: str, text: str, where: str) -> chat.Message:
    """A message that shows no picture."""
    made = chat.message(role, text, where)
    if chat.count_pictures([made]):
        raise ArmError(f"holds {chat.MARKER}, and a reply has no picture", where=where)
    return made
