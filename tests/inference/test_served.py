"""An ARM behind a server: the words of training go there, and whatever comes back has a name."""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest
from action_reward_models.inference import SelectionARM, contract
from action_reward_models.inference.choice import NoChoiceError
from action_reward_models.inference.choosing import How
from action_reward_models.inference.request import Request, read
from action_reward_models.inference.served import Sending, ServedARM
from action_reward_models.prompts.options import PromptOptions
from action_reward_models.prompts.render import Prompt, load_prompt_file
from action_reward_models.schemas.errors import ArmError, UsageError
from action_reward_models.servers import caller
from action_reward_models.servers.endpoints import Server
from action_reward_models.tests.inference.asked import CANDIDATES, asked, png, prompt, state, url
from action_reward_models.tests.inference.fakes import Selects
from action_reward_models.tests.servers.loopback import CHAT, Head, Reply, keyed, loopback
from action_reward_models.tests.servers.stand_in import Fault, Script, StandIn

# The table of replies as a server sends them: kinds of the stand-in, and what they come to.
REPLIES = {
    "string": "ok", "think": "ok", "think_draft": "ok", "fenced": "ok", "prose": "ok", "salvaged": "ok",
    "ambiguous": "ambiguous", "out_of_range": "out_of_range", "unparsed": "unparsed", "word": "unparsed",
    "truncated": "truncated", "length": "truncated", "empty": "unparsed", "null": "unparsed", "refusal": "refused",
    "content_filter": "content_filter",
}  # fmt: skip
FAULTS = {
    "400": (Fault("400", message="no such field"), "400: no such field"),
    "401": (Fault("401", message="who are you"), "401: who are you"),
    "404": (Fault("404", message="gone"), "404: gone"),
    "429": (Fault("429", message="busy"), "429: busy; 6 tries"),
    "500": (Fault("500", message="broken"), "500: broken; 6 tries"),
    "drop": (Fault("drop"), "the connection was lost"),
    "truncate": (Fault("truncate"), "the connection was lost"),
    "cut": (Fault("cut"), "the reply is no JSON"),
    "html": (Fault("html"), "the reply is no JSON"),
    "redirect": (Fault("redirect", location="http://127.0.0.1:1/v1/chat/completions"), "307: a redirect"),
    "no_choices": (Fault("no_choices"), "it has 0 choices, not 1"),
    "wrong_n": (Fault("wrong_n"), "it has 2 choices, not 1"),
}


class Fast:
    """Time that passes while nobody waits."""

    def __init__(self) -> None:
        self.passed = 0.0

    def now(self) -> float:
        return time.monotonic() + self.passed

    async def sleep(self, seconds: float) -> None:
        self.passed += seconds


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Fast()
    monkeypatch.setattr(caller.Clock, "now", lambda _: clock.now())
    monkeypatch.setattr(caller.Clock, "sleep", lambda _, seconds: clock.sleep(seconds))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("served") / "checkpoint", prompt())


def written(folder: Path, own: Prompt | None, **template: Any) -> Path:
    """What is read of a checkpoint whose weights are elsewhere."""
    (folder / "prompts").mkdir(parents=True)
    said: dict[str, Any] = {"id": None, "sha256": None, "file": None}
    if own is not None:
        (folder / "prompts" / "own.json").write_bytes(orjson.dumps(own.to_json()))
        said = {"id": own.id, "sha256": own.sha256, "file": "prompts/own.json"}
    manifest = {
        "kind": "selection_arm", "layout": "merged", "architecture": "Some", "dtype": "bfloat16",
        "base": {"repo": "owner/base", "commit": "0" * 40, "sha256": None}, "prompt": said,
        "candidates": {"spoken": [{"dialect": "function", "space": "pixel"}], "merge": True, "shuffle": True},
        "processor": {"min_pixels": 1, "max_pixels": 2, "max_tokens": 3, "template_options": template,
                      "chat_template_sha256": "0" * 64, "tokenizer_sha256": "0" * 64},
        "head": None,
    }  # fmt: skip
    (folder / "manifest.json").write_bytes(orjson.dumps({"checkpoint": manifest}))
    return folder


@pytest.fixture
def arm(server: StandIn, checkpoint: Path) -> Iterator[ServedARM]:
    with SelectionARM.at(server.url, model="stand-in", checkpoint=checkpoint) as made:
        yield made


def requests(count: int = 1) -> list[Request]:
    return [
        read(asked(state=state(task=f"Task {number}"), dialect="function", space="pixel")) for number in range(count)
    ]


def test_every_row_of_the_table_of_replies(arm: ServedARM, server: StandIn) -> None:
    for kind, status in REPLIES.items():
        server.change(Script(replies={kind: 1.0}))
        (choice,) = arm.choose_many(requests())
        (vote,) = choice.votes
        assert (kind, choice.status, vote.status) == (kind, status, status)
        assert (choice.selected_index is not None) is (status == "ok")
        assert vote.salvaged is (kind == "salvaged")
        assert choice.chosen_by == ("model" if status == "ok" else None)
        if status == "ok":
            (mine,) = Selects(vote.reply or "").choose_many(requests())
            assert mine.selected_index == choice.selected_index  # one parser, wherever the model runs
        else:
            with pytest.raises(NoChoiceError, match=f"no candidate was picked: {status}"):
                arm.choose(state(task="Task 0"), CANDIDATES)
    assert "torch" not in sys.modules


def test_every_fault_of_a_server_is_an_error_with_its_words(arm: ServedARM, server: StandIn, fast: None) -> None:
    for kind, (fault, told) in FAULTS.items():
        server.change(Script(faults=(fault,)))
        (choice,) = arm.choose_many(requests(), How(otherwise="first"))
        assert (kind, choice.status, choice.selected_index, choice.chosen_by) == (kind, "error", 0, "first")
        assert told in choice.detail, kind
        assert choice.votes[0].reply is None
    server.change(Script(faults=(Fault("429", attempts=3, retry_after=7),)))
    assert arm.choose_many(requests())[0].status == "ok"  # it is asked again


def test_what_others_say_is_not_lost_with_one_that_fails(arm: ServedARM, server: StandIn) -> None:
    server.change(Script(faults=(Fault("400", contains="Task 3"),)))
    assert [one.status for one in arm.choose_many(requests(5))] == ["ok", "ok", "ok", "error", "ok"]


def test_nobody_listens_any_more(checkpoint: Path, fast: None) -> None:
    with StandIn() as gone, SelectionARM.at(gone.url, model="stand-in", checkpoint=checkpoint) as arm:
        assert arm.choose(state(), CANDIDATES).status == "ok"
        gone.close()
        choices = arm.choose_many(requests(2))
        assert [one.status for one in choices] == ["error"] * 2
        assert f"no URL of the server '{gone.origin.removeprefix('http://')}' answers" in choices[0].detail


def test_a_server_that_takes_too_long(server: StandIn, checkpoint: Path) -> None:
    server.change(Script(faults=(Fault("hang"),)))
    with SelectionARM.at(server.url, model="stand-in", checkpoint=checkpoint, patience_s=0.05) as arm:
        (choice,) = arm.choose_many(requests())
    assert (choice.status, choice.detail) == ("error", "no reply within 0.05 s, over all tries")


def test_what_is_wrong_from_the_start_is_said_before_anything_is_asked(server: StandIn, checkpoint: Path) -> None:
    with (
        SelectionARM.at(server.url, model="stand-on", checkpoint=checkpoint) as other,
        pytest.raises(UsageError, match="has no model 'stand-on'; it has stand-in; did you mean 'stand-in'"),
    ):
        other.choose_many(requests())
    with (
        SelectionARM.at("http://127.0.0.1:1/v1", model="m", checkpoint=checkpoint) as nobody,
        pytest.raises(ArmError, match=r"no URL of the server .* answers"),
    ):
        nobody.choose_many(requests(), How(otherwise="first"))
    assert server.counts()["chat"] == 0
    for wrong in ("127.0.0.1", "http://a:b@c/v1", "ftp://a"):
        with pytest.raises(UsageError, match="the URL of the server"):
            SelectionARM.at(wrong, model="m", checkpoint=checkpoint)
    with pytest.raises(UsageError, match="neither checkpoint nor prompt is given"):
        SelectionARM.at(server.url, model="m")


def test_all_orders_of_all_requests_are_asked_at_once(server: StandIn, checkpoint: Path) -> None:
    server.change(Script(latency_s=0.1))
    busy = Server("busy", (server.url,), in_flight=8)
    with SelectionARM.at(busy, model="stand-in", checkpoint=checkpoint) as arm:
        begun = time.perf_counter()
        choices = arm.choose_many(requests(8), How(orders=5))
        took = time.perf_counter() - begun
    assert [len(one.votes) for one in choices] == [5] * 8
    counts = server.counts()
    assert (counts["chat"], counts["distinct:chat"]) == (40, 40)
    assert 4 < counts["most_in_flight"] <= 8  # as many as the server takes
    assert took < 40 * 0.1 / 2
    mine = Selects('{"selection": 1}').choose_many(requests(8), How(orders=5))
    assert [[vote.order for vote in one.votes] for one in choices] == [
        [vote.order for vote in one.votes] for one in mine
    ]


def test_several_threads_share_one(arm: ServedARM, server: StandIn) -> None:
    asked_about = requests(12)
    alone = [arm.choose_many([one])[0] for one in asked_about]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda one: arm.choose_many([one])[0], asked_about))
    assert together == alone
    assert server.counts()["models"] == 1  # it is looked at once


def test_closing_ends_who_waits_and_it_opens_again(server: StandIn, checkpoint: Path) -> None:
    server.change(Script(faults=(Fault("hang", contains="Task 0"),)))
    arm = SelectionARM.at(server.url, model="stand-in", checkpoint=checkpoint)
    told: list[str] = []

    def wait() -> None:
        try:
            arm.choose_many(requests())
        except ArmError as error:
            told.append(error.message)

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not server.counts()["in_flight"]:
        pass
    arm.close()
    waiting.join(10)
    assert told == ["the connection to the model was closed while it was asked"]
    assert arm.choose(state(), CANDIDATES).status == "ok"
    arm.close()
    arm.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "served-arm"]


def test_nobody_waits_for_ever_for_one_that_is_closed_again_and_again(arm: ServedARM) -> None:
    def many(one: Request) -> list[str]:
        said = []
        for _ in range(10):
            try:
                said.append(arm.choose_many([one])[0].status)
            except ArmError as error:
                said.append(error.message)
        return said

    with ThreadPoolExecutor(4) as pool:
        asking = [pool.submit(many, one) for one in requests(4)]
        while not all(one.done() for one in asking):
            arm.close()
        said = [word for one in asking for word in one.result(10)]
    assert len(said) == 40
    assert set(said) <= {"ok", "the connection to the model was closed while it was asked"}


def test_what_is_sent(server: StandIn, tmp_path: Path) -> None:
    """The very messages that a model in this process sees, its picture byte for byte, and what the contract says."""
    folder = written(tmp_path / "checkpoint", prompt(), enable_thinking=False)
    request = read(asked(dialect="function", space="pixel"))
    mine = Selects('{"selection": 1}')
    (local,) = mine.choose_many([request])
    with SelectionARM.at(server.url, model="stand-in", checkpoint=folder) as arm:
        (choice,) = arm.choose_many([request], How(max_new_tokens=77))
    (sent,) = [one.body for one in server.received("/chat/completions")]
    messages = sent.pop("messages")
    assert sent == {
        "model": "stand-in", "max_tokens": 77, "temperature": 0.0, "chat_template_kwargs": {"enable_thinking": False},
    }  # fmt: skip
    assert [one["role"] for one in messages] == ["system", "user"]
    blocks = messages[1]["content"]
    assert [block["type"] for block in blocks] == ["text", "image_url", "text"]
    assert blocks[1] == {"type": "image_url", "image_url": {"url": url(png())}}
    text = messages[0]["content"] + "".join(block.get("text", "#") for block in blocks)
    assert [text] == mine.asked
    assert choice.votes[0].order == local.votes[0].order


@pytest.mark.parametrize(
    ("sending", "sent"),
    [
        ({}, {"max_tokens": 256, "temperature": 0.0}),
        ({"temperature": None, "limit_parameter": "max_completion_tokens"}, {"max_completion_tokens": 256}),
        (
            {"temperature": 0.5, "chat_template_kwargs": {"a": 1}},
            {"max_tokens": 256, "temperature": 0.5, "chat_template_kwargs": {"a": 1}},
        ),
        (
            {"response_format": "json_object"},
            {"max_tokens": 256, "temperature": 0.0, "response_format": {"type": "json_object"}},
        ),
    ],
)
def test_what_is_declared_is_sent(
    server: StandIn, checkpoint: Path, sending: dict[str, Any], sent: dict[str, Any]
) -> None:
    with SelectionARM.at(server.url, model="stand-in", checkpoint=checkpoint, **sending) as arm:
        assert arm.choose(state(), CANDIDATES).status == "ok"
    (body,) = [one.body for one in server.received("/chat/completions")]
    assert {name: value for name, value in body.items() if name not in ("model", "messages")} == sent


def test_structured_output_is_of_the_candidates_that_are_shown(server: StandIn, tmp_path: Path) -> None:
    for reasoning in ("none", "before"):
        folder = written(tmp_path / reasoning, prompt(reasoning=reasoning))
        with SelectionARM.at(server.url, model="stand-in", checkpoint=folder, response_format="json_schema") as arm:
            assert arm.choose(state(), CANDIDATES).status == "ok"
    forms = [one.body["response_format"]["json_schema"] for one in server.received("/chat/completions")]
    assert [form["strict"] for form in forms] == [True, True]
    assert [form["schema"]["properties"]["selection"]["enum"] for form in forms] == [[1, 2, 3]] * 2  # one is shown once
    assert [list(form["schema"]["properties"]) for form in forms] == [["selection"], ["reasoning", "selection"]]


OWN = "Task {{task}}\n{{observation}}\n{{history}}\nWhich of {{count}}?\n{{points}}\n{{candidates}}\n{{answer}}\n"


def test_a_checkpoint_of_elsewhere_with_the_prompt_that_its_user_supplies(server: StandIn, tmp_path: Path) -> None:
    file = tmp_path / "first.txt"
    file.write_text(OWN)
    digest = hashlib.sha256(OWN.encode()).hexdigest()
    own = load_prompt_file(file, digest, PromptOptions())
    with SelectionARM.at(server.url, model="stand-in", prompt=own) as arm:
        assert arm.folder is None
        choice = arm.choose(state(), CANDIDATES, dialect="function", space="pixel")
        assert choice.status == "ok"
        with pytest.raises(UsageError, match="neither does the request"):
            arm.choose(state(), CANDIDATES)
    text = json.dumps(server.received("/chat/completions")[0].body)
    assert "Which of 3?" in text
    silent = written(tmp_path / "silent", None)
    with SelectionARM.at(server.url, model="stand-in", checkpoint=silent) as arm:
        with pytest.raises(ArmError, match="brings no prompt") as error:
            arm.choose(state(), CANDIDATES)
        assert "--prompt FILE" in str(error.value)
    with SelectionARM.at(server.url, model="stand-in", checkpoint=silent, prompt=own) as arm:
        assert arm.choose(state(), CANDIDATES).status == "ok"


def test_a_checkpoint_is_asked_with_its_own_prompt_only(server: StandIn, tmp_path: Path) -> None:
    folder = written(tmp_path / "checkpoint", prompt())
    other = prompt(history_window=2)
    with pytest.raises(ArmError, match=f"{prompt().sha256}.*{other.sha256}"):
        SelectionARM.at(server.url, model="stand-in", checkpoint=folder, prompt=other)
    (folder / "prompts" / "own.json").write_bytes(orjson.dumps(other.to_json()))
    with (
        SelectionARM.at(server.url, model="stand-in", checkpoint=folder) as arm,
        pytest.raises(ArmError, match=f"{prompt().sha256}.*{other.sha256}"),
    ):
        arm.choose(state(), CANDIDATES)
    with pytest.raises(ArmError, match="is no finished checkpoint"):
        SelectionARM.at(server.url, model="stand-in", checkpoint=tmp_path)
    assert server.counts()["chat"] == 0


def test_weights_of_a_served_checkpoint_are_not_read(server: StandIn, tmp_path: Path) -> None:
    folder = written(tmp_path / "checkpoint", prompt())
    manifest = orjson.loads((folder / "manifest.json").read_bytes())
    names = ("model.safetensors", "prompts/own.json")
    manifest["environment"] = {"files": {name: {"sha256": "0" * 64} for name in names}}
    (folder / "manifest.json").write_bytes(orjson.dumps(manifest))
    (folder / "model.safetensors").write_bytes(b"other")
    with pytest.raises(ArmError, match=r"own\.json: is not the file"):
        contract.read(folder, weights=False)
    del manifest["environment"]["files"]["prompts/own.json"]
    (folder / "manifest.json").write_bytes(orjson.dumps(manifest))
    with SelectionARM.at(server.url, model="stand-in", checkpoint=folder) as arm:
        assert arm.choose(state(), CANDIDATES).status == "ok"
    with pytest.raises(ArmError, match=r"model\.safetensors: is not the file"):
        contract.read(folder)


def test_a_key_is_sent_to_its_server(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reply(head: Head) -> Reply:
        said = {**CHAT, "choices": [{"index": 0, "message": {"role": "assistant", "content": '{"selection": 1}'}}]}
        return Reply(body=orjson.dumps(said if head.method == "POST" else {"data": [{"id": "m"}]}))

    with loopback(reply) as running, SelectionARM.at(keyed(running.url), model="m", checkpoint=checkpoint) as arm:
        with pytest.raises(UsageError, match="LOOPBACK_KEY is not set"):
            arm.choose(state(), CANDIDATES)
        monkeypatch.setenv("LOOPBACK_KEY", "sk-0123456789")
        assert arm.choose(state(), CANDIDATES).status == "ok"
        assert running.received[-1].headers["authorization"] == "Bearer sk-0123456789"


def test_sending_is_what_at_takes(server: StandIn, checkpoint: Path) -> None:
    make: Callable[..., ServedARM] = SelectionARM.at
    made = make(server.url, model="m", checkpoint=checkpoint, patience_s=3.0)
    assert made.sending == Sending(patience_s=3.0)
    with pytest.raises(TypeError):
        make(server.url, model="m", checkpoint=checkpoint, patience=3.0)
    for strange in ({"response_format": "json"}, {"limit_parameter": "tokens"}):
        with pytest.raises(UsageError, match="is not known; "):
            make(server.url, model="m", checkpoint=checkpoint, **strange)
