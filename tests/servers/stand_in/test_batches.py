"""Files and batches of the stand-in, through the client of OpenAI; and the file that ``vllm run-batch`` writes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import openai
import pytest
from action_reward_models.tests.servers.stand_in import BatchScript, Fault, Script, StandIn, run_batch
from action_reward_models.tests.servers.stand_in.script import ROWS

URL: Literal["/v1/chat/completions"] = "/v1/chat/completions"


@pytest.fixture(scope="module")
def server() -> Iterator[StandIn]:
    with StandIn() as made:
        yield made


@pytest.fixture
def client(server: StandIn) -> Iterator[openai.OpenAI]:
    server.change(Script())
    with openai.OpenAI(base_url=server.url, api_key="none", max_retries=0, timeout=30) as made:
        yield made


def line(id_: str, **body: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": f"What next, after {id_}?"}]
    return {"custom_id": id_, "method": "POST", "url": URL, "body": {"model": "stand-in", "messages": messages, **body}}


LINES = [line(f"r{number}") for number in range(200)]


def submit(client: openai.OpenAI, lines: Sequence[Any]) -> Any:
    text = "".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in lines)
    file = client.files.create(file=("in.jsonl", text.encode()), purpose="batch")
    return client.batches.create(input_file_id=file.id, endpoint=URL, completion_window="24h")


def end(client: openai.OpenAI, batch: Any) -> Any:
    for _ in range(9):
        batch = client.batches.retrieve(batch.id)
        if batch.status in {"completed", "failed", "expired", "cancelled"}:
            return batch
    raise AssertionError(batch)


def results(client: openai.OpenAI, file: str | None) -> list[Any]:
    return [json.loads(text) for text in client.files.content(file).text.split("\n") if text] if file else []


def ids(rows: Sequence[Any]) -> list[str]:
    return [row["custom_id"] for row in rows]


def test_a_batch_goes_its_way_when_it_is_looked_at(client: openai.OpenAI, server: StandIn) -> None:
    server.change(Script(batch=BatchScript(polls=(1, 2, 1), blank_lines=True, final_newline=False)))
    batch = submit(client, [*LINES, line("cold", n=2, temperature=0)])
    seen = [batch.status, *(client.batches.retrieve(batch.id).status for _ in range(5))]
    assert seen == ["validating", "validating", "in_progress", "in_progress", "finalizing", "completed"]
    batch = end(client, batch)
    assert (batch.request_counts.completed, batch.request_counts.failed, batch.request_counts.total) == (200, 1, 201)
    output = results(client, batch.output_file_id)
    assert sorted(ids(output)) == sorted(ids(LINES))
    assert ids(output) != ids(LINES)
    alone = client.chat.completions.create(**LINES[ids(LINES).index(ids(output)[0])]["body"])
    said = output[0]["response"]["body"]["choices"][0]["message"]["content"]
    assert said == alone.choices[0].message.content
    (failed,) = results(client, batch.error_file_id)
    assert failed["response"]["status_code"] == 400
    assert "greedy" in failed["response"]["body"]["error"]["message"]
    text = server.file(batch.output_file_id)
    assert "\n\n" in text
    assert client.batches.list(limit=1).data[0].id == batch.id
    client.files.delete(batch.output_file_id)
    with pytest.raises(openai.NotFoundError):
        client.files.content(batch.output_file_id)


def test_invalid_files_are_told_by_line(client: openai.OpenAI, server: StandIn) -> None:
    wrong = [
        line("a"), "{no", line("a"), line("x" * 65), {**line("b"), "url": "/v1/embeddings"}, line("c", model="other"),
        {"custom_id": "d"},
    ]  # fmt: skip
    batch = end(client, submit(client, wrong))
    assert (batch.status, batch.output_file_id) == ("failed", None)
    assert [(issue.line, issue.code) for issue in batch.errors.data] == [
        (2, "invalid_json_line"), (3, "duplicate_custom_id"), (4, "invalid_custom_id"), (5, "mismatched_url"),
        (6, "mismatched_model"), (7, "missing_required_parameter"),
    ]  # fmt: skip
    server.change(Script(batch=BatchScript(max_requests=2)))
    assert end(client, submit(client, LINES[:3])).errors.data[0].code == "too_many_tasks"
    server.change(Script(batch=BatchScript(max_bytes=100)))
    assert end(client, submit(client, LINES[:3])).errors.data[0].code == "invalid_file_size"
    assert end(client, submit(client, [])).errors.data[0].code == "empty_file"


def test_the_ends_of_batches(client: openai.OpenAI, server: StandIn) -> None:
    made = len(server.batches())
    ends = ("expired", "cancelled", "failed", "no_output", "no_files", "completed")
    server.change(Script(batch=BatchScript(ends=("completed",) * made + ends, done=0.25)))
    found = {}
    for name in ends:
        batch = end(client, submit(client, LINES[:20]))
        rows = [len(results(client, file)) for file in (batch.output_file_id, batch.error_file_id)]
        found[name] = (batch.status, *rows)
        if name == "expired":
            codes = Counter(row["error"]["code"] for row in results(client, batch.error_file_id))
            assert codes == {"batch_expired": 15}
    assert found == {
        "expired": ("expired", 5, 15), "cancelled": ("cancelled", 5, 15), "failed": ("failed", 0, 0),
        "no_output": ("completed", 0, 20), "no_files": ("completed", 0, 0), "completed": ("completed", 20, 0),
    }  # fmt: skip
    batch = submit(client, LINES[:20])
    assert client.batches.cancel(batch.id).status == "cancelling"
    assert end(client, batch).status == "cancelled"
    with pytest.raises(openai.ConflictError):
        client.batches.cancel(batch.id)


def test_rows_that_go_wrong(client: openai.OpenAI, server: StandIn) -> None:
    kinds = (*ROWS, "429", "500")
    server.change(Script(batch=BatchScript(rows=dict.fromkeys(kinds, 0.08))))
    first, again = (end(client, submit(client, LINES)) for _ in range(2))
    text = server.file(first.output_file_id).split("\n")
    rows = [json.loads(one) for one in text if one.endswith("}")]
    failed = results(client, first.error_file_id)
    assert len(text) - len(rows) > 5  # garbage
    times = Counter(ids(rows))
    twice = [id_ for id_, count in times.items() if count == 2]
    said = {id_: {str(r["response"]["body"]["choices"]) for r in rows if r["custom_id"] == id_} for id_ in twice}
    assert {len(one) for one in said.values()} == {1, 2}  # the same again, and something else
    assert [id_ for id_ in times if id_.startswith("nobody-")]
    assert set(times) & set(ids(failed))
    assert set(ids(LINES)) - set(times) - set(ids(failed))
    assert {row["response"] and row["response"]["status_code"] for row in failed} == {None, 429, 500}
    assert any(not row["response"]["body"]["choices"] for row in rows)
    assert set(ids(results(client, again.error_file_id))) != set(ids(failed))  # asked again, another fate


def test_service_that_goes_wrong(client: openai.OpenAI, server: StandIn) -> None:
    made = len(server.batches())
    server.change(Script(faults=(Fault("500", on="batches", after=True, attempts=1),)))
    with pytest.raises(openai.InternalServerError):
        submit(client, LINES[:2])
    assert len(server.batches()) == made + 1  # it made it all the same
    server.change(Script(batch=BatchScript(enqueued_tokens=1)))
    with pytest.raises(openai.RateLimitError) as failed:
        submit(client, LINES[:2])
    assert failed.value.code == "token_limit_exceeded"
    server.change(Script())
    batch = end(client, submit(client, LINES))
    whole = client.files.content(batch.output_file_id).text
    server.change(Script(faults=(Fault("truncate", on="content"),)))
    with pytest.raises(openai.APIConnectionError):
        client.files.content(batch.output_file_id)
    server.change(Script(faults=(Fault("cut", on="content"),)))
    cut = client.files.content(batch.output_file_id).text
    assert whole.startswith(cut)
    assert 0 < len(cut) < len(whole)


def test_run_batch_writes_one_file(tmp_path: Path) -> None:
    asked, made = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    asked.write_text("\n".join(json.dumps(one) for one in [line("a"), line("b", n=2, temperature=0), line("c", n=2)]))
    run_batch(asked, made, Script(batch=BatchScript(shuffle=False)))
    a, b, c = (json.loads(text) for text in made.read_text("utf-8").splitlines())
    assert ids([a, b, c]) == ["a", "b", "c"]
    assert len(c["response"]["body"]["choices"]) == 2
    assert all(row["id"].startswith("vllm-") for row in (a, b, c))
    assert (a["error"], b["response"]["status_code"], b["response"]["body"]) == (None, 400, None)
    assert "greedy" in b["error"]["error"]["message"]
    run_batch(asked, made, Script(batch=BatchScript(rows={"drop": 1.0})))
    assert [json.loads(text)["custom_id"] for text in made.read_text("utf-8").splitlines()] == []
    asked.write_text(json.dumps({**line("a"), "url": "/v1/embeddings"}))
    with pytest.raises(ValueError, match="line 1"):
        run_batch(asked, made)
