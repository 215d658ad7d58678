"""The candidates that were sampled, as the source's file: one `sampled_set` a line."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from .answers import Answer, Choice, Outcome
from .log import SHARDS, AnswerLog
from .requests import Request
from .sampling import PlannedSet, SampleWork
from .written import Line, Written, choices_of, joined, write_lines

_LONGEST_DETAIL = 2000  # characters


def write(work: SampleWork) -> Written:
    """Write every set whose candidates all have an outcome; those that were not asked for yet wait for another time.

    Raises ArmError for a damaged log, and for a file that cannot be written.
    """
    written = Written()
    write_lines(work.path, _runs(work, written))
    return written


def _runs(work: SampleWork, written: Written) -> Iterator[list[Line]]:
    log = AnswerLog(work.folder)
    for shard in range(SHARDS):
        answers = log.shard(shard)
        lines: list[Line] = []
        used: set[str] = set()
        for planned in work.plan(shard, written.skipped):
            found = [answers.get(request.key) for request in planned.requests]
            used.update(request.key for request in planned.requests)
            known = [answer for answer in found if answer is not None]
            if len(known) < len(found):
                written.count(None)
                continue
            outcome, record = _record(planned, known)
            written.count(outcome)
            lines.append(([planned.state_id, planned.draw], record))
        written.stale += len(answers.keys() - used)
        yield lines


def _record(planned: PlannedSet, answers: list[Answer]) -> tuple[Outcome, dict[str, Any]]:
    """(what became of the set: answered, or the first other outcome; its line)."""
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
    return failures[0]["outcome"] if failures else "answered", record


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
