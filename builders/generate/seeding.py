"""A log from the source's own file: whoever has the file without the log does not ask again for what it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from ...schemas import jsonl
from ...schemas.errors import ArmError, Issue
from ...schemas.validate import for_schema
from ...servers.answers import Answer, Choice, Outcome
from .asking import AskWork
from .basis import Basis
from .labels import told
from .log import SHARDS, AnswerLog, check, shard_of
from .sampling import SampleWork

Record = dict[str, Any]


def seed_log(work: SampleWork | AskWork) -> int:
    """Write into the log what the source's file says and the log does not know; returns how many requests that are.

    Raises ArmError for a file with lines that are not of its format.
    """
    if not work.path.is_file():
        return 0
    schema, answers = ("sampled_set/1", _sampled) if isinstance(work, SampleWork) else ("table_label/1", _labelled)
    states = None if isinstance(work, SampleWork) else _states(work.basis)
    places: list[list[tuple[int, int, int]]] = [[] for _ in range(SHARDS)]  # (number, offset, length) of lines
    for line, record in _records(work.path, schema):
        group = record["state_id"] if states is None else states.get(record["set_id"])
        if group is not None:  # a set of the basis, or its labels are about something else
            places[shard_of(group)].append((line.number, line.offset, len(line.raw)))
    log, seeded = AnswerLog(work.folder), 0
    with work.path.open("rb") as file:
        for shard, lines in enumerate(places):
            known = log.outcomes(shard) if lines else {}
            new: dict[str, Answer] = {}
            for number, offset, length in lines:
                file.seek(offset)
                for answer in _sound(answers, file.read(length), f"{work.path}:{number}"):
                    new |= {answer.key: answer} if _is_new(answer, known) else {}
            if new:
                seeded += _append(log, shard, new)
    return seeded


def _sound(answers: Callable[[Record], Iterator[Answer]], raw: bytes, place: str) -> list[Answer]:
    """Those of a record, all of which the log can hold: the file may be anybody's."""
    try:
        found = list(answers(orjson.loads(raw)))
        for answer in found:
            check(answer)
    except (ValueError, TypeError, AttributeError) as error:
        raise ArmError(f"is not a line that was written from a log of answers ({error})", where=place) from error
    return found


def _is_new(answer: Answer, known: Mapping[str, Outcome]) -> bool:
    before = known.get(answer.key)
    return before is None or (before != "answered" and answer.outcome == "answered")


def _append(log: AnswerLog, shard: int, answers: Mapping[str, Answer]) -> int:
    """Whoever holds the shard seeded it before, and may go on for hours: they are not waited for."""
    with log.claim(shard) as claim:
        new = [answer for answer in answers.values() if claim is not None and _is_new(answer, claim.answers)]
        for answer in new:
            assert claim is not None
            claim.append(answer)
        return len(new)


def _states(basis: Path) -> dict[str, str]:
    """Set id -> state id."""
    rows = Basis(basis).tables.columns("candidate_sets", ("set_id", "state_id"))
    return {row["set_id"]: row["state_id"] for row in rows}


def _records(path: Path, schema: str) -> Iterator[tuple[jsonl.Line, Record]]:
    validator = for_schema(schema)
    for line in jsonl.read_lines(path):
        try:
            record = jsonl.loads_line(line)
            problems = validator.problems(record)
        except jsonl.JsonError as error:
            problems = [("$", str(error))]
        if problems:
            issues = [Issue(str(path), line.number, *problem) for problem in problems]
            raise ArmError("is not a file that was written from a log of answers", where=str(path), issues=issues)
        yield line, record


def _sampled(record: Record) -> Iterator[Answer]:
    """The answers of a set. Several candidates of one request are its replies, in order."""
    sampling, by_request = record["sampling"], dict[str, list[Record]]()
    for candidate in record["candidates"]:
        by_request.setdefault(candidate["request"], []).append(candidate)
    served = {"engine": sampling["engine"], "engine_version": sampling["engine_version"]}
    for key, candidates in by_request.items():
        tokens, slot = candidates[0]["tokens"], f"{record['set_id']}|{candidates[0]['index']}"
        usage = None if tokens is None else {"completion_tokens": tokens}
        choices = tuple(
            Choice(c["response"], c["finish_reason"], c["refusal"], c["reasoning"], c["logprob"]) for c in candidates
        )
        yield Answer(key, slot, "answered", choices, model=record["served_model"], usage=usage, **served)
    for failure in record["failures"]:
        slot = f"{record['set_id']}|{failure['index']}"
        yield Answer(failure["request"], slot, failure["outcome"], detail=failure["detail"])


def _labelled(label: Record) -> Iterator[Answer]:
    """The answer behind a label; that of one which another set's question answered stands with that one."""
    recorded = orjson.loads(label["source_record_json"] or "{}")
    if label["custom_id"] is None or "asked_as" in recorded or "rendered_sha256" not in recorded:
        return
    reply, usage = label["reply"], label["usage_json"]
    choices: tuple[Choice, ...] = ()
    if reply is not None:
        refusal, apart = recorded.get("refusal"), _apart(label["reasoning"], told(reply))
        choices = (Choice(reply, recorded.get("finish_reason"), refusal, apart),)
    yield Answer(
        key=label["custom_id"],
        slot=label["label_id"],
        outcome="answered" if choices else recorded.get("outcome", "failed"),
        choices=choices,
        detail="" if choices else recorded.get("detail", ""),
        model=recorded.get("served_model"),
        engine=recorded.get("engine"),
        engine_version=recorded.get("engine_version"),
        usage=None if usage is None else orjson.loads(usage),
        batch_id=label["batch_id"],
    )


def _apart(reasoning: str, said: str) -> str | None:
    """The part of a label's reasoning that its server gave apart from the reply, in which ``said`` stands."""
    if reasoning == said:
        return None
    return reasoning.removesuffix(f"\n\n{said}") if said else reasoning
