"""What teachers are asked: each distinct action once, in orders that no habit of a teacher can survive."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders import selection_sft, views
from action_reward_models.builders.generate.asking import AskWork, Question, shown_orders
from action_reward_models.builders.generate.log import SHARDS, shard_of
from action_reward_models.builders.generate.spec import AskSpec
from action_reward_models.builders.spec import PromptSpec, SelectionSpec
from action_reward_models.prompts.render import rendered_sha256
from action_reward_models.schemas.actions import parse
from action_reward_models.schemas.errors import ArmError
from action_reward_models.tests.builders.generate.answering import skipped

if TYPE_CHECKING:
    from tests.builders.conftest import Toy

SPEC = AskSpec("teacher", "judge", PromptSpec("selection/1"), 200)


def work(toy: Toy, spec: AskSpec = SPEC, **build: Any) -> AskWork:
    built = toy.build(tables=("states", "candidate_sets"), **build)
    return AskWork(built.folder, spec, "judge-x", toy.folder / "generated" / "labels.jsonl")


def with_options(**options: Any) -> AskSpec:
    return replace(SPEC, prompt=PromptSpec("selection/1", options=options))


def sets_of(question: Question) -> list[str]:
    return [row["set_id"] for _, row in question.labels]


def test_each_distinct_action_is_shown_once_as_its_first_candidate(toy: Toy) -> None:
    set_id = toy.draw(toy.page("a"), "click(1, 1)", "click(2, 2)", "click(1,1)", "stop()", "click(2, 2)")
    made = work(toy)
    (question,) = made.plan()
    assert sorted(question.orders[0]) == [0, 1, 3]
    assert question.labels[0][0] == question.request.slot == f"{set_id}|judge-x|selection/1|0"
    assert question.request.group == "a__t0"
    text = question.request.body["messages"][1]["content"][-1]["text"]
    assert "from 1 to 3." in text
    (shown,) = (row for _, row in question.labels)
    actions = [shown["candidates"][index]["action"] for index in question.orders[0]]
    assert [text.index(f"{place}. Action: {action}") for place, action in enumerate(actions, 1)] == sorted(
        text.index(action) - len("1. Action: ") for action in actions
    )


def test_sets_with_one_distinct_action_are_skipped_by_name(toy: Toy) -> None:
    toy.draw(toy.page("a"), "click(1, 1)", "click(1,1)")
    toy.draw(toy.page("b", picture=1), "stop()", "click(1, 1)")
    toy.draw(toy.page("c", picture=2), "stop()")
    made = work(toy)
    assert skipped(made) == {"single_distinct_action": 2}
    assert [len(question.labels) for question in made.plan()] == [made.total()] == [1]


def test_equal_sets_of_actions_of_one_state_are_asked_once(toy: Toy) -> None:
    page, other = toy.page("a"), toy.page("b", picture=1)
    toy.draw(page, "stop()", "click(1, 1)", "stop()", number=10)
    toy.draw(page, "click(1, 1)", "stop()", number=2)
    toy.draw(page, "click(1, 1)", "click(2, 2)", number=3)
    toy.draw(page, "click(1, 1)", "click(2, 2)", "stop()", number=1)
    toy.draw(other, "stop()", "click(1, 1)")
    made = work(toy)
    questions = {question.request.slot: question for question in made.plan()}
    assert sorted(map(sets_of, questions.values())) == [
        ["a__t0#d1"], ["a__t0#d2", "a__t0#d10"], ["a__t0#d3"], ["b__t0#d0"]
    ]  # fmt: skip
    assert made.total() == 4
    first, second = questions["a__t0#d2|judge-x|selection/1|0"].orders
    assert first in {(0, 1), (1, 0)}
    assert second == {0: (1, 0), 1: (0, 1)}[first[0]]  # the same actions at the same places


def test_equal_numbers_in_another_space_are_another_question(toy: Toy) -> None:
    toy.draw(toy.page("a"), "stop()", "click(1, 1)")
    scaled = [{"state_id": "a__t0#d5", "base_state_id": "a__t0", "candidates": [toy.response("stop()"),
               toy.response("click(1, 1)")]}]  # fmt: skip
    more = toy.lay("candidate_sets", "first_release", "more.jsonl", scaled, dialect="function", space="norm1000")
    made = work(toy, sources=(*toy.sources(), more))
    assert sorted(map(sets_of, made.plan())) == [["a__t0#d0"], ["a__t0#d5"]]


def test_repeats_come_in_other_orders(toy: Toy) -> None:
    toy.draw(toy.page("a"), "stop()", "click(1, 1)", "click(2, 2)")
    made = work(toy, replace(SPEC, repeats=13))
    questions = list(made.plan())
    assert [question.repeat for question in questions] == list(range(13))
    orders = [question.orders[0] for question in questions]
    assert len(set(orders[:6])) == len(set(orders[6:12])) == 6
    assert made.total() == 13
    fewer = [q.request.key for q in work(toy, replace(SPEC, repeats=3)).plan()]
    assert fewer == [q.request.key for q in questions[:3]]
    other = [q.orders[0] for q in work(toy, replace(SPEC, repeats=13, seed=1)).plan()]
    assert other != orders


def test_orders_are_even_and_know_nothing_of_those_of_training_rows() -> None:
    """Of three actions, each order comes as often as any other, whatever order the training row has."""
    actions = [f"<action>{action}</action>" for action in ("click(1, 1)", "click(2, 2)", "stop()")]
    parsed = [parse("function", action) for action in actions]
    keys = [p.key for p in parsed]
    spec, seen = SelectionSpec(PromptSpec("selection/1")), Counter[tuple[Any, ...]]()
    for number in range(3600):
        set_id = f"s{number}__t0#d0"
        trained = tuple(selection_sft.shown_order(set_id, parsed, spec))
        (asked,) = shown_orders(keys, set_id, SPEC)
        seen[trained, tuple(map(keys.index, asked))] += 1
    assert len(seen) == 36
    assert 60 < min(seen.values()) <= max(seen.values()) < 145  # 100 expected; five standard deviations are 50


def test_orders_do_not_depend_on_the_sampled_order(toy: Toy) -> None:
    keys = ["a", "b", "c", "d"]
    spec = replace(SPEC, repeats=4)
    assert list(shown_orders(keys, "s", spec)) == list(shown_orders(keys[::-1], "s", spec))


def test_parameters_are_sent_as_declared(toy: Toy) -> None:
    toy.draw(toy.page("a"), "stop()", "click(1, 1)")
    (request,) = work(toy).requests()
    sent = {name: value for name, value in request.body.items() if name != "messages"}
    assert sent == {"model": "judge", "max_tokens": 200, "temperature": 0.0, "top_p": 1.0}
    spec = replace(
        SPEC, temperature=None, top_p=None, sampler_seed=3, reasoning_effort="low", response_format="json_schema",
        limit_parameter="max_completion_tokens", chat_template_kwargs={"a": 1},
    )  # fmt: skip
    (request,) = work(toy, spec).requests()
    sent = {name: value for name, value in request.body.items() if name != "messages"}
    form = sent.pop("response_format")
    assert sent == {
        "model": "judge", "max_completion_tokens": 200, "seed": 3, "reasoning_effort": "low",
        "chat_template_kwargs": {"a": 1},
    }  # fmt: skip
    assert form["type"] == "json_schema"
    assert form["json_schema"]["strict"] is True
    assert form["json_schema"]["schema"] == {
        "type": "object", "properties": {"selection": {"type": "integer", "enum": [1, 2]}},
        "required": ["selection"], "additionalProperties": False,
    }  # fmt: skip
    (request,) = work(toy, replace(SPEC, response_format="json_object")).requests()
    assert request.body["response_format"] == {"type": "json_object"}


def test_reasoning_comes_before_the_verdict_in_the_declared_form(toy: Toy) -> None:
    toy.draw(toy.page("a"), "stop()", "click(1, 1)")
    (request,) = work(toy, replace(with_options(reasoning="before"), response_format="json_schema")).requests()
    schema = json.loads(json.dumps(request.wire()))["response_format"]["json_schema"]["schema"]
    assert list(schema["properties"]) == schema["required"] == ["reasoning", "selection"]


def test_a_state_that_the_prompt_cannot_show_is_skipped_by_name(toy: Toy) -> None:
    toy.draw(toy.page("a"), "stop()", "click(1, 1)")
    toy.draw(toy.page("b", picture=None), "stop()", "click(1, 1)")
    toy.draw("b__t0", "stop()", "click(2, 2)", number=1)
    toy.draw("b__t0", "stop()", "stop()", number=2)
    made = work(toy)
    assert skipped(made) == {"no_screenshot": 2, "single_distinct_action": 1}
    assert [sets_of(question) for question in made.plan()] == [["a__t0#d0"]]
    text = work(toy, with_options(observation="text"))
    assert skipped(text) == {"no_observation_text": 1, "single_distinct_action": 1}
    (asked, _) = text.requests()
    assert "image_url" not in str(asked.body)
    assert asked.wire() == asked.body


def test_earlier_steps_are_read_in_the_space_of_their_own_source(toy: Toy) -> None:
    turns = [
        toy.message("user", "Task: x", 1), toy.message("assistant", toy.response("click(500, 250)")),
        toy.message("user", "Now.", 2), toy.message("assistant", toy.response("stop()")),
    ]  # fmt: skip
    toy.episode("walk", *turns)
    toy.space = "norm1000"
    episodes = toy.sources()
    drawn = [{"state_id": "walk__t1#d0", "base_state_id": "walk__t1", "candidates": [toy.response("click(4, 2)"),
              toy.response("stop()")]}]  # fmt: skip
    sets = toy.lay("candidate_sets", "first_release", "more.jsonl", drawn, dialect="function", space="pixel")
    made = work(toy, with_options(coordinate_space="pixel"), sources=(*episodes, sets))
    (question,) = made.plan()
    text = question.request.body["messages"][1]["content"][0]["text"]
    assert "Step 1: click(4, 2)" in text  # half and a quarter of eight pixels
    with pytest.raises(ArmError, match="earlier steps are in norm1000 and candidates in pixel"):
        list(work(toy, SPEC, sources=(*episodes, sets)).plan())


def test_the_recorded_hash_is_that_of_the_prompt_as_it_is_rendered_again(toy: Toy) -> None:
    toy.draw(toy.page("a"), "stop()", "click(1, 1)")
    built = toy.build(tables=("states", "candidate_sets"))
    made = AskWork(built.folder, SPEC, "judge-x", toy.folder / "labels.jsonl")
    (question,) = made.plan()
    prompt = views.load(SPEC.prompt)
    (row,) = built.rows("candidate_sets")
    view = prompt.state(built.row("states"), row["dialect"], row["space"])
    rendered = prompt.selection(view, row["candidates"], question.orders[0])
    assert question.rendered_sha256 == rendered_sha256(*rendered)


def test_shards_are_all_and_work_travels(toy: Toy) -> None:
    for number in range(20):
        toy.scene(f"p{number}", picture=number)
    made = work(toy, replace(SPEC, repeats=2))
    whole = list(made.requests())
    by_shard = [list(made.requests(shard)) for shard in range(SHARDS)]
    assert sorted(r.key for requests in by_shard for r in requests) == sorted(r.key for r in whole)
    assert all(shard_of(r.group) == shard for shard, requests in enumerate(by_shard) for r in requests)
    assert len({r.key for r in whole}) == len(whole) == made.total() == 40
    again = pickle.loads(pickle.dumps(made))
    assert [r.key for r in again.requests()] == [r.key for r in whole]
    assert all(r.wire() for r in again.requests())


def test_a_prompt_that_asks_for_no_selection_is_refused(toy: Toy) -> None:
    toy.scene("a")
    with pytest.raises(ArmError, match="scalar/1 is a scalar prompt"):
        next(iter(work(toy, replace(SPEC, prompt=PromptSpec("scalar/1"))).requests()))
