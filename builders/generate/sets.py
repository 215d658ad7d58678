"""The candidates that were sampled, as the source's file: one `sampled_set` a line."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ...servers.answers import Answer, Choice, Outcome
from ...servers.requests import Request
from . import written
from .log import AnswerLog
from .sampling import PlannedSet, SampleWork
from .written import Line, Written, choices_of, joined

_LONGEST_DETAIL = 2000  # characters


def write(work: SampleWork) -> Written:
    """Write every set whose candidates all have an outcome. Raises ArmError as `written.write`."""
    return written.write(work.path, AnswerLog(work.folder), work.plan, _record)


def _record(planned: PlannedSet, answers: list[Answer]) -> tuple[Outcome, list[Line]]:
    """(what became of the set: answered, or the first other outcome; its one line)."""
    candidates: list[dict[str, Any]] = []
    failures: list[dict[str, Any]] = []
    replied = []
    at_once = planned.n // len(answers)  # candidates of a request
    for place, (request, answer) in enumerate(zip(planned.requests, answers, strict=True)):
        outcome, detail = choices_of(answer, at_once)
        if outcome != "answered":
            failed = {"index": place, "outcome": outcome, "detail": detail[:_LONGEST_DETAIL], "request": request.key}
            failures.append(failed)
            continue
        replied.append(answer)
        tokens = _tokens(answer.usage) if at_once == 1 else None  # that of several at once is counted as one
        for choice in answer.choices:
            candidates.append(_candidate(len(candidates) if at_once > 1 else place, choice, tokens, request))
    record = {
        "set_id": planned.set_id,
        "state_id": planned.state_id,
        "draw": planned.draw,
        "sampling": {
            **planned.sampling,
            "engine": joined(answer.engine for answer in replied),
            "engine_version": joined(answer.engine_version for answer in replied),
        },
        "served_model": joined(answer.model for answer in replied),
        "n": planned.n,
        "candidates": candidates,
        "failures": failures,
    }
    return failures[0]["outcome"] if failures else "answered", [([planned.state_id, planned.draw], record)]


def _candidate(index: int, choice: Choice, tokens: int | None, request: Request) -> dict[str, Any]:
    logprob = choice.logprob
    return {
        "index": index,
        "response": choice.text,
        "finish_reason": choice.finish_reason,
        "tokens": tokens,
        "logprob": float(logprob) if logprob is not None and math.isfinite(logprob) else None,
        "seed": request.body.get("seed"),
        "reasoning": choice.reasoning,
        "refusal": choice.refusal,
        "request": request.key,
    }


def _tokens(usage: Mapping[str, Any] | None) -> int | None:
    counted = (usage or {}).get("completion_tokens")
    return counted if isinstance(counted, int) and not isinstance(counted, bool) and 0 <= counted < 2**53 else None
