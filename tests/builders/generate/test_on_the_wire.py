"""From states to labels over HTTP: what the server received is what the rows say it was shown."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from action_reward_models.builders.generate import labels, sets
from action_reward_models.builders.generate.asking import AskWork
from action_reward_models.builders.generate.sampling import SampleWork
from action_reward_models.builders.generate.spec import AskSpec, Draws, SampleSpec
from action_reward_models.builders.spec import BASE_TABLES, ActorSpec, PromptSpec
from action_reward_models.prompts.render import rendered_sha256
from action_reward_models.schemas.ids import sha256_hex
from action_reward_models.schemas.images import decode_data_url
from action_reward_models.tests.builders.generate.answering import log, over_http
from action_reward_models.tests.servers.stand_in import StandIn

if TYPE_CHECKING:
    from tests.builders.conftest import Toy

SAMPLE = SampleSpec("actor", "stand-in", (Draws(0.7), Draws(1.0)), 512, n=4)
ASK = AskSpec("teacher", "stand-in", PromptSpec("selection/1"), 512)


def seen(body: Any) -> tuple[list[dict[str, Any]], list[bytes]]:
    """(messages as prompts are rendered, pictures in order) of a body as it came."""
    messages: list[dict[str, Any]] = []
    pictures: list[bytes] = []
    for message in body["messages"]:
        content: Any = message["content"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        blocks: list[dict[str, str]] = []
        for block in content:
            if block["type"] == "image_url":
                pictures.append(decode_data_url(block["image_url"]["url"]))
                blocks.append({"type": "image"})
            else:
                blocks.append(block)
        messages.append({"role": message["role"], "content": blocks})
    return messages, pictures


def hash_of(body: Any) -> str:
    messages, pictures = seen(body)
    return rendered_sha256(messages, [sha256_hex(picture) for picture in pictures])


def test_what_the_server_saw_is_what_the_rows_say(toy: Toy) -> None:
    for number in range(4):
        page = f"Task: Click “{number}”.\nThe page says\u2028<|im_end|> & {{{{image}}}}"
        first = toy.message("user", page, number)
        second = toy.message("user", "Now.", 10 + number)
        toy.episode(f"p{number}", first, toy.message("assistant", toy.response("click(1, 1)")), second,
                    toy.message("assistant", toy.response("stop()")))  # fmt: skip
    folder = toy.folder / "generated"
    with StandIn() as server:
        sample = SampleWork(toy.build(tables=("states",)).folder, SAMPLE, folder / "candidates.jsonl")
        log(sample, over_http(server.url))
        received = [one.body for one in server.received("/chat/completions")]
        server.reset()
        assert sets.write(sample).complete == 16
        drawn = replace(
            toy.lay("candidate_sets", "sampled", "x.jsonl", [], dialect="function", space="pixel"),
            files=(("candidates.jsonl", sample.path),), constants={"actor": "policy"},
        )  # fmt: skip
        sources = (*toy.sources(), drawn)
        judged = toy.build(tables=("states", "candidate_sets"), sources=sources)
        ask = AskWork(judged.folder, ASK, "judge-x", folder / "labels.jsonl")
        log(ask, over_http(server.url))
        questions = [one.body for one in server.received("/chat/completions")]
    assert len(received) == sample.total() == 64
    shown = dict.fromkeys(
        (request.group, hash_of(body)) for request, body in zip(sample.requests(), received, strict=True)
    )
    assert len(shown) == 8
    for request, body in zip(sample.requests(), received, strict=True):
        number, turn = int(request.group[1]), int(request.group[-1])
        messages, pictures = seen(body)
        assert pictures == [toy.png(10 * turn + number)]  # the very bytes, of the page as it is
        assert [block["type"] for block in messages[-1]["content"]] == ["text", "image"]
        assert body["seed"] == request.body["seed"]

    assert labels.write(ask).not_asked == 0
    given = replace(toy.lay("teacher_labels", "table", "y.jsonl", []), files=(("labels.jsonl", ask.path),))
    built = toy.build(
        sources=(*sources, given), tables=(*BASE_TABLES, "selection_sft", "actor_sft"), actor_sft=ActorSpec(),
        images={"states": "embed", "selection_sft": "embed", "actor_sft": "embed"},
    )  # fmt: skip
    hashes = dict(shown.keys())
    chosen = built.rows("actor_sft")
    assert len(chosen) > 3
    assert all(row["rendered_sha256"] == hashes[row["state_id"]] for row in chosen)

    prompt, states = ask.prompt, {row["state_id"]: row for row in built.rows("states")}
    rows = {row["label_id"]: row for row in built.rows("teacher_labels")}
    drawn_sets = {row["set_id"]: row for row in built.rows("candidate_sets")}
    assert len(rows) == sum(row["distinct_actions"] > 1 for row in drawn_sets.values()) > 3
    for question, body in zip(ask.plan(), questions, strict=True):
        assert hash_of(body) == question.rendered_sha256
        state = states[question.request.group]
        messages, pictures = seen(body)
        assert [sha256_hex(picture) for picture in pictures] == [state["screenshot_sha256"]]
        before, picture, after = messages[1]["content"]
        assert before["text"].endswith("The page as it is now:\n")
        assert picture == {"type": "image"}
        assert after["text"].lstrip().startswith("Candidates.")
        row = drawn_sets[question.labels[0][1]["set_id"]]
        label = rows[question.labels[0][0]]
        view = prompt.state(state, row["dialect"], row["space"])
        rendered = prompt.selection(view, row["candidates"], label["order"])
        assert rendered_sha256(*rendered) == question.rendered_sha256
        assert f'"rendered_sha256":"{question.rendered_sha256}"' in label["source_record_json"]
        assert label["custom_id"] == question.request.key
