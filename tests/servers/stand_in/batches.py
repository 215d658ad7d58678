"""Files and batches, as the OpenAI service keeps them; a batch goes on when it is looked at, not with time."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from action_reward_models.tests.servers.stand_in import chat, rows
from action_reward_models.tests.servers.stand_in.chat import RefusedError
from action_reward_models.tests.servers.stand_in.script import Script
from action_reward_models.tests.servers.stand_in.wire import Asked

_UNDER_WAY = ("validating", "in_progress", "finalizing")
_ENDED = {"failed", "completed", "expired", "cancelled"}
_MAX_ID = 64


@dataclass
class File:
    about: dict[str, Any]
    content: bytes


@dataclass
class Batch:
    about: dict[str, Any]  # as the service tells it
    lines: list[dict[str, Any]]
    end: str
    tokens: int
    polls: int = 0
    attempts: Mapping[str, int] = field(default_factory=dict)  # custom id -> how often it has been asked

    @property
    def status(self) -> str:
        return str(self.about["status"])

    def become(self, status: str) -> None:
        if status != self.status:
            self.about |= {"status": status, f"{status}_at": int(time.time())}


class Batches:
    """All files and batches of one server."""

    def __init__(self) -> None:
        self._files: dict[str, File] = {}
        self._batches: dict[str, Batch] = {}
        self._asked: Counter[str] = Counter()

    # Files

    def upload(self, asked: Asked) -> dict[str, Any]:
        fields = _form(asked)
        if "file" not in fields or "purpose" not in fields:
            raise RefusedError(400, "file and purpose are needed")
        name, content = fields["file"]
        return self._new_file(name or "file", fields["purpose"][1].decode(), content)

    def _new_file(self, name: str, purpose: str, content: bytes) -> dict[str, Any]:
        about: dict[str, Any] = {
            "id": f"file-{uuid.uuid4().hex[:24]}", "object": "file", "bytes": len(content), "filename": name,
            "created_at": int(time.time()), "expires_at": None, "purpose": purpose, "status": "processed",
        }  # fmt: skip
        self._files[about["id"]] = File(about, content)
        return about

    def file(self, id_: str) -> dict[str, Any]:
        return self._file(id_).about

    def content(self, id_: str) -> bytes:
        return self._file(id_).content

    def delete(self, id_: str) -> dict[str, Any]:
        self._file(id_)
        del self._files[id_]
        return {"id": id_, "object": "file", "deleted": True}

    def files_list(self, query: Mapping[str, str]) -> dict[str, Any]:
        purpose = query.get("purpose")
        return _page([f.about for f in self._files.values() if purpose in {None, f.about["purpose"]}], query, 10_000)

    def _file(self, id_: str) -> File:
        if id_ not in self._files:
            raise RefusedError(404, f"No such File object: {id_}", param="id")
        return self._files[id_]

    # Batches

    def create(self, body: Any, script: Script) -> dict[str, Any]:
        match body:
            case {"input_file_id": str(input_id), "endpoint": str(endpoint), "completion_window": "24h"}:
                pass
            case _:
                raise RefusedError(400, "input_file_id, endpoint and completion_window 24h are needed")
        if endpoint != chat.URL:
            raise RefusedError(400, f"Invalid value for endpoint: {endpoint}", param="endpoint")
        file = self._file(input_id)
        if file.about["purpose"] != "batch":
            raise RefusedError(400, "the purpose of the input file is not batch", param="input_file_id")
        lines, errors = _checked(file.content, endpoint, script)
        tokens = len(file.content) // 4
        waiting = sum(batch.tokens for batch in self._batches.values() if batch.status not in _ENDED)
        limit = script.batch.enqueued_tokens
        if limit is not None and waiting + tokens > limit:
            said = f"Enqueued token limit reached: {limit}, {waiting} of them in use, {tokens} asked for."
            raise RefusedError(429, said, "token_limit_exceeded")
        ends = script.batch.ends
        end = ends[min(len(self._batches), len(ends) - 1)]
        if end == "failed" and not errors:
            errors = [_issue("invalid_request", "this batch failed by script", None)]
        about: dict[str, Any] = {
            "id": f"batch_{uuid.uuid4().hex[:24]}", "object": "batch", "endpoint": endpoint, "errors": None,
            "input_file_id": input_id, "completion_window": "24h", "status": "validating", "output_file_id": None,
            "error_file_id": None, "created_at": int(time.time()), "expires_at": int(time.time()) + 86_400,
            "request_counts": {"total": 0, "completed": 0, "failed": 0}, "metadata": body.get("metadata"),
        }  # fmt: skip
        about |= {f"{status}_at": None for status in (*_UNDER_WAY[1:], *sorted(_ENDED), "cancelling")}
        batch = Batch(about, [] if errors else lines, "failed" if errors else end, tokens)
        if errors:
            batch.about["errors"] = {"object": "list", "data": errors}
        else:
            self._asked.update(line["custom_id"] for line in lines)
            batch.attempts = {line["custom_id"]: self._asked[line["custom_id"]] for line in lines}
        self._batches[about["id"]] = batch
        return _told(batch)

    def look(self, id_: str, script: Script) -> dict[str, Any]:
        batch = self._batch(id_)
        if batch.status == "cancelling":
            self._finish(batch, "cancelled", script)
        elif batch.status not in _ENDED:
            self._go_on(batch, script)
        return _told(batch)

    def _go_on(self, batch: Batch, script: Script) -> None:
        batch.polls += 1
        left = batch.polls
        for status, polls in zip(_UNDER_WAY, script.batch.polls, strict=True):
            if batch.end == "failed" and status != "validating":
                break
            left -= polls
            if left <= 0:
                batch.become(status)
                if status != "validating":
                    batch.about["request_counts"]["total"] = len(batch.lines)
                return
        self._finish(batch, batch.end, script)

    def _finish(self, batch: Batch, end: str, script: Script) -> None:
        batch.become(end if end in _ENDED else "completed")
        if end in {"failed", "no_files"}:
            return
        lines, left = batch.lines, []
        if end in {"expired", "cancelled"}:
            count = int(len(lines) * script.batch.done)
            lines, left = lines[:count], lines[count:]
        if end == "no_output":
            said = chat.error("this row failed by script", 500)
            made = rows.Written(errors=[rows.service_row(line["custom_id"], 500, said) for line in lines])
        else:
            made = rows.service(lines, script, batch.attempts.__getitem__)
        made.errors += [rows.unfinished(line["custom_id"], f"batch_{end}") for line in left]
        for name, of in (("output", made.output), ("error", made.errors)):
            if of:
                content = made.text(of, script.batch).encode()
                about = self._new_file(f"{batch.about['id']}_{name}.jsonl", "batch_output", content)
                batch.about[f"{name}_file_id"] = about["id"]
        counts = {"total": len(batch.lines), "completed": len(made.output), "failed": len(made.errors)}
        batch.about["request_counts"] = counts

    def cancel(self, id_: str) -> dict[str, Any]:
        batch = self._batch(id_)
        if batch.status in _ENDED:
            raise RefusedError(409, f"Cannot cancel a batch with status '{batch.status}'.")
        batch.become("cancelling")
        return _told(batch)

    def listed(self, query: Mapping[str, str]) -> dict[str, Any]:
        return _page([_told(batch) for batch in self._batches.values()][::-1], query, 20)

    def all(self) -> list[dict[str, Any]]:
        return [_told(batch) for batch in self._batches.values()]

    def _batch(self, id_: str) -> Batch:
        if id_ not in self._batches:
            raise RefusedError(404, f"No batch found with id '{id_}'.")
        return self._batches[id_]


def _told(batch: Batch) -> dict[str, Any]:
    """While a batch is validated, nothing is known of its lines."""
    shown = batch.about["errors"] if batch.status == "failed" else None
    return {**batch.about, "errors": shown}


def _page(items: list[dict[str, Any]], query: Mapping[str, str], most: int) -> dict[str, Any]:
    if after := query.get("after"):
        at = next((index for index, item in enumerate(items) if item["id"] == after), len(items))
        items = items[at + 1 :]
    limit = int(query.get("limit", most))
    data = items[:limit]
    ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"]} if data else {"first_id": None, "last_id": None}
    return {"object": "list", "data": data, "has_more": len(items) > limit, **ends}


def _form(asked: Asked) -> dict[str, tuple[str | None, bytes]]:
    """name -> (name of the file, content) of multipart/form-data."""
    kind, _, boundary = asked.headers.get("content-type", "").partition("boundary=")
    if not kind.startswith("multipart/form-data") or not boundary:
        raise RefusedError(400, "the body is no multipart/form-data")
    edge = b"\r\n--" + boundary.strip('"').encode()
    fields: dict[str, tuple[str | None, bytes]] = {}
    for part in (b"\r\n" + asked.body).split(edge)[1:-1]:
        head, _, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        words = {}
        for line in head.decode().split("\r\n"):
            if line.lower().startswith("content-disposition:"):
                words = dict(word.strip().partition("=")[::2] for word in line.split(";")[1:])
        name = words.get("filename")
        fields[words["name"].strip('"')] = (name and name.strip('"'), content)
    return fields


def _issue(code: str, message: str, line: int | None, param: str | None = None) -> dict[str, Any]:
    return {"code": code, "message": message, "line": line, "param": param}


def _checked(content: bytes, endpoint: str, script: Script) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(lines, what is wrong with them, with line numbers from 1)."""
    texts = content.splitlines()
    if len(content) > script.batch.max_bytes:
        return [], [_issue("invalid_file_size", f"The file is larger than {script.batch.max_bytes} bytes.", None)]
    if len(texts) > script.batch.max_requests:
        return [], [_issue("too_many_tasks", f"The file has more than {script.batch.max_requests} requests.", None)]
    if not texts:
        return [], [_issue("empty_file", "The input file is empty.", None)]
    lines: list[dict[str, Any]] = []
    errors: list[dict[str, Any]] = []
    ids: set[str] = set()
    model: str | None = None
    for number, text in enumerate(texts, 1):
        try:
            line = json.loads(text)
        except ValueError:
            errors.append(_issue("invalid_json_line", "This line is not parseable as valid JSON.", number))
            continue
        match line:
            case {"custom_id": str(id_), "method": "POST", "url": str(url), "body": {"model": str(named), **_rest}}:
                pass
            case _:
                said = "custom_id, method POST, url and body with a model are needed."
                errors.append(_issue("missing_required_parameter", said, number))
                continue
        model = model or named
        if not 0 < len(id_) <= _MAX_ID:
            said = f"custom_id is longer than {_MAX_ID} characters."
            errors.append(_issue("invalid_custom_id", said, number, "custom_id"))
        elif id_ in ids:
            errors.append(_issue("duplicate_custom_id", f"The custom_id {id_} is not unique.", number, "custom_id"))
        elif url != endpoint:
            errors.append(_issue("mismatched_url", f"{url} is not the batch's endpoint.", number, "url"))
        elif named != model:
            errors.append(_issue("mismatched_model", "All requests must name one model.", number, "body.model"))
        elif named not in script.models:
            errors.append(_issue("model_not_found", f"The model {named} does not exist.", number, "body.model"))
        ids.add(id_)
        lines.append(line)
    return lines, errors
