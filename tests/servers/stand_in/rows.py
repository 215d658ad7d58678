"""What a batch writes for each line of its input, as the OpenAI service does and as ``vllm run-batch`` does."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from action_reward_models.tests.servers.stand_in import chat
from action_reward_models.tests.servers.stand_in.chat import RefusedError
from action_reward_models.tests.servers.stand_in.script import BatchScript, Script, drawn

_GARBAGE = '{"id": "batch_req_0", "custom_id": "'


@dataclass
class Written:
    """Lines of the two files; a line that is no JSON stands as text."""

    output: list[Any] = field(default_factory=list)
    errors: list[Any] = field(default_factory=list)

    def text(self, lines: Sequence[Any], script: BatchScript) -> str:
        texts = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines]
        if script.blank_lines:
            texts = [part for text in texts for part in (text, "")]
        return "\n".join(texts) + ("\n" if script.final_newline and texts else "")


Row = Callable[[str, int, Any], dict[str, Any]]  # (custom id, status, body) -> line


def service_row(custom_id: str, status: int, body: Any) -> dict[str, Any]:
    response = {"status_code": status, "request_id": uuid.uuid4().hex, "body": body}
    return {"id": f"batch_req_{uuid.uuid4().hex}", "custom_id": custom_id, "response": response, "error": None}


def _vllm_row(custom_id: str, status: int, body: Any) -> dict[str, Any]:
    failed = status != 200
    response = {"status_code": status, "request_id": f"vllm-batch-{uuid.uuid4().hex}", "body": None if failed else body}
    error = body if failed else None  # {"error": {...}} within "error"
    return {"id": f"vllm-{uuid.uuid4().hex}", "custom_id": custom_id, "response": response, "error": error}


def unfinished(custom_id: str, code: str) -> dict[str, Any]:
    """A row of the error file that was never executed."""
    message = "This request could not be executed before the completion window expired."
    error = {"code": code, "message": message}
    return {"id": f"batch_req_{uuid.uuid4().hex}", "custom_id": custom_id, "response": None, "error": error}


def written(lines: Sequence[dict[str, Any]], script: Script, attempt: Callable[[str], int], row: Row) -> Written:
    """``attempt``: how often a custom id has been asked, this time included."""
    made = Written()
    for line in lines:
        custom_id = line["custom_id"]
        kind = drawn(script.batch.rows, "row", script.seed, custom_id, attempt(custom_id))
        for good, text in _lines(line, kind, script, row):
            (made.output if good else made.errors).append(text)
    if script.batch.shuffle:
        shuffled = random.Random(script.seed)
        shuffled.shuffle(made.output)
        shuffled.shuffle(made.errors)
    return made


def _lines(line: dict[str, Any], kind: str | None, script: Script, row: Row) -> Iterator[tuple[bool, Any]]:
    """(is it of the output file, line)."""
    custom_id = line["custom_id"]
    if kind is not None and kind.isdecimal():
        yield False, row(custom_id, int(kind), chat.error("this row failed by script", int(kind)))
        return
    if kind == "drop":
        return
    if kind == "garbage":
        yield True, _GARBAGE
        return
    if kind == "expired":
        yield False, unfinished(custom_id, "batch_expired")
        return
    try:
        body = chat.complete(line.get("body"), script)
    except RefusedError as refused:
        yield False, row(custom_id, refused.status, refused.body)
        return
    if kind == "no_choices":
        body["choices"] = []
    yield True, row(custom_id, 200, body)
    match kind:
        case "repeat":
            yield True, row(custom_id, 200, body)
        case "repeat_other":
            yield True, row(custom_id, 200, chat.complete(line["body"], script, salt="again"))
        case "both":
            yield False, row(custom_id, 500, chat.error("this row failed by script", 500))
        case "unknown":
            yield True, row(f"nobody-{custom_id}"[:64], 200, body)


def service(lines: Sequence[dict[str, Any]], script: Script, attempt: Callable[[str], int]) -> Written:
    return written(lines, script, attempt, service_row)


def run_batch(input_file: Path, output_file: Path, script: Script | None = None, *, attempt: int = 1) -> None:
    """What ``vllm run-batch -i IN -o OUT`` writes: one file with all rows, each in the shape of that engine.

    Rows come as the script of batches has them: in another order where it shuffles (vLLM itself keeps the order), with
    its faults for the ``attempt``-th run. Raises ValueError for input that vLLM does not start on.
    """
    script = script or Script()
    lines = [json.loads(line) for line in input_file.read_text("utf-8").split("\n") if line.strip()]
    for number, line in enumerate(lines, 1):
        if not {"custom_id", "method", "url", "body"} <= set(line) or line["url"] != chat.URL:
            raise ValueError(f"line {number}: no request to {chat.URL}")
    made = written(lines, script, lambda _: attempt, _vllm_row)
    both = [*made.output, *made.errors]
    if script.batch.shuffle:
        random.Random(script.seed + 1).shuffle(both)
    else:
        order = {line["custom_id"]: index for index, line in enumerate(lines)}
        both.sort(key=lambda row: order.get(row["custom_id"], len(order)) if isinstance(row, dict) else len(order))
    output_file.write_text(made.text(both, script.batch), "utf-8")
