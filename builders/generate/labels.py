"""What teachers answered, as the source's file: one row of teacher_labels a line, every question with its outcome."""

from __future__ import annotations

import re
from functools import partial

from ...prompts.objects import verdicts
from ...prompts.replies import Reply, parse_selection
from ...schemas import jsonl
from ...schemas.ids import canonical_json
from ...servers.answers import Answer, Outcome
from . import written
from .asking import AskWork, Question
from .log import AnswerLog
from .written import Line, Written, choices_of, joined

_MARKUP = re.compile(r"</?think(?:ing)?>|```[a-z]*\s*\Z")
# What a request without a reply comes to.
_STATUS = {"rejected": "error", "failed": "error", "expired": "expired", "missing": "missing"}


def write(work: AskWork) -> Written:
    """Write the labels of every question that has an outcome. Raises ArmError as `written.write`."""
    return written.write(work.path, AnswerLog(work.folder), work.plan, partial(_labels, work))


def _labels(work: AskWork, question: Question, answers: list[Answer]) -> tuple[Outcome, list[Line]]:
    """(what became of the question; the labels that its answer gives: its set's, and those of the other sets with the
    same actions)."""
    (answer,), lines = answers, list[Line]()
    outcome, detail = choices_of(answer, 1)
    choice = answer.choices[0] if outcome == "answered" else None
    said: Reply | None = None
    if choice is not None:
        said = parse_selection(choice.text, len(question.orders[0]), choice.finish_reason, choice.refusal)
    asked_as = question.labels[0][1]["set_id"]
    recorded = {
        "served_model": joined([answer.model]),
        "engine": joined([answer.engine]),
        "engine_version": joined([answer.engine_version]),
        "rendered_sha256": question.rendered_sha256,
        "outcome": outcome if said is None else None,
        "detail": detail or None,
        "finish_reason": choice and choice.finish_reason,
        "refusal": choice and choice.refusal,
        "salvaged": (said is not None and said.salvaged) or None,
    }
    parameters = {name: value for name, value in question.request.body.items() if name != "messages"}
    for (label_id, row), order in zip(question.labels, question.orders, strict=True):
        shared = row["set_id"] != asked_as
        kept = {**recorded, "asked_as": asked_as if shared else None}
        label = {
            "label_id": label_id,
            "set_id": row["set_id"],
            "teacher": work.teacher,
            "teacher_params_json": canonical_json(parameters),
            "repeat": question.repeat,
            "prompt_id": work.prompt.id,
            "prompt_sha256": work.prompt.sha256,
            "order": list(order),
            "selected_index": order[said.selected - 1] if said and said.selected is not None else None,
            "status": said.status if said else _STATUS[outcome],
            "reasoning": reasoning_of(choice.text, choice.reasoning) if choice else "",
            "reply": choice.text if choice else None,
            "usage_json": None if shared or answer.usage is None else canonical_json(answer.usage),
            "batch_id": answer.batch_id,
            "custom_id": question.request.key,
            "source_record_json": canonical_json({k: v for k, v in kept.items() if v is not None}),
        }
        lines.append(([row["state_id"], row["draw"], row["set_id"], question.repeat], label))
    return outcome, lines


def reasoning_of(text: str, apart: str | None) -> str:
    """Why the teacher picked what it picked: what the server gives ``apart`` from the reply, then what stands before
    the verdict or within its object; "" where there is neither."""
    said = told(text)
    return f"{apart}\n\n{said}" if apart and said else apart or said


def told(text: str) -> str:
    """The reasoning in a reply: what stands before its last verdict, and in its key ``reasoning``."""
    found = [verdict for verdict in verdicts(text)[0] if verdict.valued]
    if not found:
        return ""
    last = found[-1]
    before = "\n\n".join(filter(None, map(str.strip, _MARKUP.split(text[: last.start].rstrip()))))
    try:
        within = jsonl.loads(text[last.start : last.end].encode()).get("reasoning")
    except (jsonl.JsonError, UnicodeEncodeError):
        within = None
    return "\n\n".join(part for part in (before, within) if isinstance(part, str) and part)
