"""Files of the MolmoWeb era: states, candidates, a teacher's selections, and scored candidates.

Documented by MolmoWeb's own agent code: the viewport of 1280 x 720, a step's ``thought``, ``action_str`` (in pixels of
that viewport), ``action_description``, and a model's raw reply, whose own points are percentages. Inferred from files
in the field: the shapes of the records; that ``step_idx`` counts from 0, ``cand_idx`` from 1 and ``selected_orig_idx``
from 0, so that the pick is the candidate with ``cand_idx`` one higher; that ``history`` ends with the newest step and
may lack the oldest; that a score of -1 stands for none.

Ids are numbers there and text here. A state has the draw 0 of its candidates file and, beside it, the draw 1 of its
scored candidates: two files that sampled on their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...schemas.actions import DIALECTS, parse
from ...schemas.errors import ArmError
from ...schemas.ids import canonical_json, task_group
from .pictures import read_picture
from .text import host_of
from .types import Context, ImportedRow, ImportedState, InvalidTurn

Record = dict[str, Any]

SAMPLED, SCORED = 0, 1  # draws: of the candidates file, of the file with scores
_CUT = 160  # characters; a longer reply of the teacher was cut there
_UNSCORED = -1


def states(record: Record, context: Context) -> Iterator[ImportedState | InvalidTurn]:
    """Yield the one state of a record."""
    state_id, turn, steps = str(record["state_id"]), record["step_idx"], record["history"]
    if len(steps) > turn:
        message = f"has {len(steps)} steps, and only {turn} came before step_idx {turn}"
        yield InvalidTurn(state_id, "invalid_record", "$.history", message)
        return
    try:
        image = read_picture(record["screenshot"], context.folder)
    except ArmError as error:
        yield InvalidTurn.of(state_id, error, "$.screenshot")
        return
    episode = str(record["sample_id"])
    placed = ("state_id", "sample_id", "task", "step_idx", "url", "history")
    row = {
        "state_id": state_id,
        "episode_id": episode,
        "turn": turn,
        "task": record["task"],
        "task_group": task_group(record["task"], episode),
        "url": record["url"],
        "host": host_of(record["url"]),
        "history": history([(s["thought"] or "", s["action_str"]) for s in steps], turn - len(steps)),
        "messages_json": None,
        "prompt_text": None,
        "tools_json": None,
        "observation_text": None,
        "elements": [],
        "demo_response": None,
        "episode_outcome": None,
        "source_record_json": _left_over(record, *placed, history=_more(steps)),
    }
    yield ImportedState(row, image, "$.screenshot")


def candidate_set(record: Record, context: Context) -> Record:
    """The candidates of a state, by ``cand_idx``. Raises ArmError when these are not 1 to n."""
    candidates = sorted(record["candidates"], key=lambda candidate: candidate["cand_idx"])
    found = [candidate["cand_idx"] for candidate in candidates]
    if found != list(range(1, len(found) + 1)):
        shown = ", ".join(map(str, found))
        raise ArmError(f"have the cand_idx {shown}; they must be 1 to {len(found)}", where="$.candidates")
    state_id = str(record["state_id"])
    responses = [response(context.dialect, c["thought"], c["action_str"], c["raw"]) for c in candidates]
    # A response that is not the raw one was put together from thought and action.
    more = [
        {
            k: v
            for k, v in candidate.items()
            if k not in (("raw",) if text == candidate["raw"] else ("thought", "action_str"))
        }
        for candidate, text in zip(candidates, responses, strict=True)
    ]
    return {
        "set_id": f"{state_id}#d{SAMPLED}",
        "state_id": state_id,
        "draw": SAMPLED,
        "sampling": {},
        "responses": responses,
        "source_record_json": _left_over(record, "state_id", candidates=more),
    }


def teacher_label(record: Record, context: Context) -> Record:
    """The teacher's pick, or None. What is not ``ok`` is no label, whatever pick stands beside it.

    Its status is then null_in_source: the record says that there is no usable pick and not why; a fallback that was
    taken instead (often the first candidate) is the client's, not the teacher's.
    """
    said = record.get("raw")
    whole = said is not None and len(said) < _CUT
    return {
        "set_id": f"{record['state_id']}#d{SAMPLED}",
        "selection": record["selected_orig_idx"] if record["ok"] else None,
        "reasoning": "",
        "reply": said if whole else None,
        "source_record_json": _left_over(record, "state_id", *(("raw",) if whole else ())),
    }


def scored(record: Record, context: Context) -> Iterator[ImportedRow | InvalidTurn]:
    """Yield the scored candidates of a record as a set of their own, and their scores."""
    state_id = str(record["state_id"])
    set_id = f"{state_id}#d{SCORED}"
    candidates = record["cands"]
    scores = []
    for position, candidate in enumerate(candidates):
        said = {candidate[name] for name in ("score", "prm_score") if candidate.get(name) is not None}
        if len(said) > 1:
            message = f"has a score and another prm_score: {' and '.join(map(str, sorted(said)))}"
            place = f"$.cands[{position}].prm_score"
            yield InvalidTurn(set_id, "invalid_record", place, message, kind="candidate_scores")
            return
        scores.append(None if not said or _UNSCORED in said else float(said.pop()))
    row = {
        "set_id": set_id,
        "state_id": state_id,
        "draw": SCORED,
        "sampling": {},
        "responses": [response(context.dialect, None, c["action_str"], None) for c in candidates],
        "source_record_json": _left_over(record, "state_id"),
    }
    yield ImportedRow("candidate_sets", row, where="$.cands")
    found = {"set_id": set_id, "scores": scores, "score_source": None, "source_record_json": None}
    yield ImportedRow("candidate_scores", found, where="$.cands")


def response(dialect: str, thought: str | None, action: str | None, raw: str | None) -> str:
    """What the model wrote, if the source's dialect reads the recorded action in it; else thought and action in the
    dialect's own words. A raw reply may have its points in another space than the action that was carried out."""
    if not action:  # nothing was carried out
        return raw or thought or ""
    known = DIALECTS[dialect]
    written = f"{known.opener}{action}{known.closer}"
    if raw is not None:
        said, done = parse(dialect, raw), parse(dialect, written)
        if said.key == done.key or (said.parse_error is None and done.parse_error is not None):
            return raw
    return f"<think>{thought}</think>\n{written}" if thought else written


def history(steps: Sequence[tuple[str, str]], first: int = 0) -> list[Record]:
    """The entries of a state's history; ``first`` is the turn of the oldest (0-based)."""
    return [
        {"turn": first + n, "thought": thought, "action": action, "observation": ""}
        for n, (thought, action) in enumerate(steps)
    ]


def _more(steps: Sequence[Record]) -> list[Record] | None:
    """What the steps say besides thought and action; None when that is nothing."""
    kept = [{k: v for k, v in step.items() if k not in ("thought", "action_str")} for step in steps]
    return kept if any(kept) else None


def _left_over(record: Record, *placed: str, **more: Any) -> str | None:
    """The fields of a record that have no column, as canonical JSON; ``more`` are parts of those that have one."""
    left = {k: v for k, v in record.items() if k not in placed} | {k: v for k, v in more.items() if v is not None}
    return canonical_json(left) if left else None
