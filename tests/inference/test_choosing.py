"""From replies and scores to a choice: every outcome has its name, and no candidate stands in for one silently."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from action_reward_models.inference.best import picked
from action_reward_models.inference.choice import STATUSES, Choice, NoChoiceError, Vote
from action_reward_models.inference.choosing import How
from action_reward_models.inference.processor import Encoded
from action_reward_models.inference.rendering import Renderer
from action_reward_models.inference.request import Request, Spoken, read
from action_reward_models.inference.selection import Written
from action_reward_models.inference.votes import counted
from action_reward_models.prompts.replies import REPLY_STATUSES
from action_reward_models.schemas.errors import ArmError, UsageError
from action_reward_models.tests.inference.asked import CANDIDATES, asked, prompt, state
from action_reward_models.tests.inference.fakes import REFUSED, Scores, Selects

ONE = '{"selection": 1}'
# The table of replies, row by row: what is said about three shown candidates, and what it comes to.
TABLE: dict[str, tuple[str | Written, str, int | None]] = {
    "one integer": ('Prose.\n```json\n{"reason": "x", "selection": 2}\n```', "ok", 2),
    "the same twice": ('{"selection": 2} and {"selection": 2}', "ok", 2),
    "two integers": ('{"selection": 2} or {"selection": 3}', "ambiguous", None),
    "a draft in thoughts": ('<think>{"selection": 1}</think>{"selection": 3}', "ok", 3),
    "out of range": ('{"selection": 4}', "out_of_range", None),
    "zero": ('{"selection": 0}', "out_of_range", None),
    "a text that is an integer": ('{"selection": "3"}', "ok", 3),
    "a word": ('{"selection": "third"}', "unparsed", None),
    "true": ('{"selection": true}', "unparsed", None),
    "a fraction": ('{"selection": 2.9}', "unparsed", None),
    "a whole fraction": ('{"selection": 2.0}', "unparsed", None),
    "null": ('{"selection": null}', "unparsed", None),
    "a list": ('{"selection": [2]}', "unparsed", None),
    "an object": ('{"selection": {"index": 2}}', "unparsed", None),
    "cut off before the value": (Written('{"selection": ', "length"), "truncated", None),
    "cut off after the value": (Written('{"selection": 3, "tho', "length"), "ok", 3),
    "digits in prose": ("Candidate 2 is best.", "unparsed", None),
    "nothing": ("", "unparsed", None),
}


def requested(*candidates: Any, **more: Any) -> Request:
    return read(asked(candidates=list(candidates or CANDIDATES), **more), [Spoken("function", "pixel")])


@pytest.mark.parametrize("row", TABLE)
def test_every_row_of_the_table_of_replies(row: str) -> None:
    said, status, selected = TABLE[row]
    arm = Selects(said)
    (choice,) = arm.choose_many([requested()])
    (vote,) = choice.votes
    assert (choice.status, vote.status) == (status, status)
    assert vote.selected_index == (None if selected is None else vote.order[selected - 1])
    assert choice.selected_index == vote.selected_index
    assert choice.chosen_by == ("model" if selected else None)
    assert vote.salvaged is (row == "cut off after the value")
    assert vote.reply == (said.text if isinstance(said, Written) else said)
    if selected is None:
        with pytest.raises(NoChoiceError, match=f"no candidate was picked: {status}") as error:
            arm.choose(state(), CANDIDATES)
        assert error.value.choice.status == status
        assert error.value.choice.detail


def test_statuses_are_told_apart() -> None:
    assert {status for _, status, _ in TABLE.values()} == set(REPLY_STATUSES) - {"refused", "content_filter"}
    assert len(set(STATUSES)) == len(STATUSES)
    assert set(REPLY_STATUSES) < set(STATUSES)


def test_an_arm_sees_each_action_once_in_the_order_of_training() -> None:
    arm = Selects(ONE)
    (choice,) = arm.choose_many([requested()])
    assert sorted(choice.votes[0].order) == [0, 1, 2]  # 3 is the action of 0 again
    shown = re.findall(r"^(\d)\. .*$", arm.asked[0], re.MULTILINE)
    assert shown == ["1", "2", "3"]
    several = arm.choose_many([requested()], How(orders=9))[0]
    assert len({vote.order for vote in several.votes}) == 6  # there are no more
    assert several.votes[0].order == choice.votes[0].order
    kept = Selects(ONE, candidates={"spoken": [{"dialect": "function", "space": "pixel"}], "merge": False,
                                    "shuffle": False})  # fmt: skip
    (choice,) = kept.choose_many([requested(*CANDIDATES[1:], CANDIDATES[0])])
    assert choice.votes[0].order == (0, 1, 2, 3)


def test_candidates_of_one_action_need_no_model() -> None:
    arm = Selects("nothing that could be read")
    choice = arm.choose(state(), [CANDIDATES[0], CANDIDATES[3]])
    assert (choice.status, choice.selected_index, choice.chosen_by, choice.votes) == ("ok", 0, "only", ())
    assert not arm.asked


def vote(index: int | None, status: str = "unparsed") -> Vote:
    return Vote((0, 1, 2), "ok" if index is not None else status, index, "", detail="why")


@pytest.mark.parametrize(
    ("votes", "agree", "status", "index"),
    [
        ([vote(1), vote(1), vote(2)], "majority", "ok", 1),
        ([vote(1), vote(1), vote(2)], "all", "disagreed", None),
        ([vote(1), vote(1), vote(1)], "all", "ok", 1),
        ([vote(1), vote(2)], "majority", "disagreed", None),
        ([vote(1), vote(1), vote(2), vote(2)], "majority", "disagreed", None),
        ([vote(3), vote(0), vote(1)], "majority", "ok", 0),  # 3 and 0 are one action, and 0 is the first of it
        ([vote(3)], "all", "ok", 0),
        ([vote(1), vote(1), vote(None)], "majority", "ok", 1),
        ([vote(1), vote(1), vote(None)], "all", "unparsed", None),
        ([vote(1), vote(None), vote(None)], "majority", "unparsed", None),
        ([vote(1), vote(None)], "majority", "unparsed", None),  # half is no majority
        ([vote(1), vote(2), vote(None)], "majority", "disagreed", None),
        ([vote(None, "error"), vote(None), vote(None, "error")], "majority", "error", None),
        ([vote(None, "truncated"), vote(None)], "majority", "truncated", None),
    ],
)
def test_votes_are_for_actions(votes: list[Vote], agree: Any, status: str, index: int | None) -> None:
    choice = counted(requested(), votes, How(agree=agree))
    assert (choice.status, choice.selected_index) == (status, index)
    assert choice.chosen_by == ("model" if index is not None else None)
    assert choice.votes == tuple(votes)
    assert choice.status in STATUSES
    assert choice.detail or status == "ok"


def test_the_details_of_votes() -> None:
    told = [
        counted(requested(), votes, How(agree="all")).detail
        for votes in (
            [vote(None)], [vote(1)], [vote(1), vote(2), vote(None, "error")], [vote(1), vote(1), vote(None)],
            [vote(None), vote(None)],
        )
    ]  # fmt: skip
    assert told == [
        "why",
        "",
        "of 3 orders: 2 actions were picked, 1 error",
        "of 3 orders: 2 for one action, 1 unparsed",
        "of 2 orders: 2 unparsed",
    ]


def rows(*texts: str) -> list[Encoded]:
    return [Encoded(tuple(map(ord, text)), 0) for text in texts]


@pytest.mark.parametrize(
    ("scores", "texts", "status", "index"),
    [
        ((0.1, 0.3, 0.2, 0.1), "abcd", "ok", 1),
        ((-3.0, -1.0, -2.0, -4.0), "abcd", "ok", 1),
        ((0.3, 0.1, 0.2, 0.3), "abcd", "ok", 0),  # one action with two thoughts
        ((0.1, 0.3, 0.3, 0.1), "abbd", "ok", 1),  # the model cannot tell them apart
        ((0.1, 0.3, 0.3, 0.1), "abcd", "tie", None),
        ((0.0, -0.0, -1.0, 0.0), "abcd", "tie", None),
        ((0.3, 0.3, 0.0, 0.3), "abcb", "tie", None),  # before it is known that 3 is like both
        ((0.3, 0.1, 0.3, 0.3), "abcc", "tie", None),
    ],
)
def test_the_best_score_is_picked(scores: tuple[float, ...], texts: str, status: str, index: int | None) -> None:
    choice = picked(requested(), rows(*texts), scores)
    assert (choice.status, choice.selected_index, choice.scores) == (status, index, scores)
    assert choice.chosen_by == ("model" if index is not None else None)
    assert bool(choice.detail) is (status == "tie")


def by_length(text: str) -> float:
    return float(len(text))


def test_a_scalar_model_scores_every_candidate() -> None:
    model = Scores(by_length)
    first, second = model.choose_many([requested(), requested("click(1, 1)", "click(100, 100)")])
    assert first.selected_index == 2
    assert first.scores is not None
    assert len(first.scores) == 4
    assert second.selected_index == 1
    assert model.calls == 1  # all requests are scored together
    assert model.choose(state(), ["click(1, 1)"]).scores is not None
    with pytest.raises(UsageError, match="a scalar model sees one candidate at a time"):
        model.choose_many([requested()], How(orders=2))


BARE = {"state": {"task": "a"}}
LONG = {"state": state(task="long " * 1_000)}
FAILING: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no_screenshot": ({}, BARE, "the state has none"),
    "no_observation_text": ({"observation": "text"}, BARE, "the page as text"),
    "no_size": ({"observation": "text", "coordinate_space": "norm1000"},
                {"state": {"task": "a", "observation_text": "page"}}, "needs the size"),
    "too_long": ({}, LONG, "[56],[0-9]{3} tokens"),
    "unrenderable": ({}, {"state": state(task=REFUSED)}, "the chat template refuses"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["selection", "scalar"])
@pytest.mark.parametrize("status", FAILING)
def test_what_cannot_be_asked_has_a_name_and_keeps_nobody_else_from_being_asked(kind: str, status: str) -> None:
    options, change, told = FAILING[status]
    own = prompt(kind, **options)
    said = {"id": own.id, "sha256": own.sha256, "file": "prompts/own.json"}
    model: Any = Scores(by_length, own=own, prompt=said)
    if kind == "selection":
        model = Selects(ONE, own=own, prompt=said)
    good = requested(state={"task": "a", "observation_text": "page", **state()})
    found = model.choose_many([good, requested(**change), good])
    assert [one.status for one in found] == ["ok", status, "ok"]
    bad = found[1]
    assert (bad.selected_index, bad.chosen_by, bad.scores) == (None, None, None)
    assert re.search(told, bad.detail)
    assert status in STATUSES


def test_rows_in_another_way_than_the_checkpoints_are_not_asked() -> None:
    other = read(asked(dialect="function", space="norm1000"), None)
    for model in (Selects(ONE), Scores(by_length)):
        good, bad = model.choose_many([requested(), other])
        assert (good.status, bad.status) == ("ok", "unrenderable")
        assert bad.detail == "its actions are in function in norm1000, and the model was trained on function in pixel"
    assert Selects(ONE, candidates=None).choose_many([other])[0].status == "ok"  # nobody knows


def test_what_is_done_without_a_pick_is_the_callers_choice() -> None:
    arm, asked_about = Selects("no"), [requested(), requested("click(1, 1)", "click(100, 100)")]
    for choice in arm.choose_many(asked_about):
        assert (choice.status, choice.selected_index, choice.chosen_by) == ("unparsed", None, None)
    for choice in arm.choose_many(asked_about, How(otherwise="first")):
        assert (choice.status, choice.selected_index, choice.chosen_by) == ("unparsed", 0, "first")
        assert len(choice.votes) == 1
    with pytest.raises(NoChoiceError) as error:
        arm.choose_many([requested(id="this one"), asked_about[1]], How(otherwise="raise"))
    assert error.value.choice.id == "this one"
    scalar = Scores(by_length)
    first, second = arm.choose_many(asked_about, How(otherwise="scalar", scalar=scalar))
    assert (first.status, first.selected_index, first.chosen_by) == ("unparsed", 2, "scalar")
    assert (second.selected_index, second.chosen_by) == (1, "scalar")
    assert scalar.calls == 1
    assert first.scores is not None
    assert len(first.scores) == 4
    # Those that the model picked are left alone, and cost nothing.
    sure = Selects(ONE)
    assert sure.choose_many(asked_about, How(otherwise="scalar", scalar=scalar))[0].chosen_by == "model"
    assert scalar.calls == 1
    some = Selects(lambda text: ONE if "100" in text else "no")
    kept = some.choose_many(asked_about, How(otherwise="first"))
    assert [one.chosen_by for one in kept] == ["first", "model"]


def test_a_scalar_model_that_picks_none_either_says_so() -> None:
    tied = Scores(lambda _: 0.5)
    (choice,) = Selects("no").choose_many([requested()], How(otherwise="scalar", scalar=tied))
    assert (choice.status, choice.selected_index, choice.chosen_by) == ("unparsed", None, None)
    assert choice.scores == (0.5,) * 4
    assert choice.detail == (
        "no JSON object with a selection; the scalar model picks none, either: tie "
        "(candidates 0 and 1 share the best score, 0.5)"
    )
    other = Scores(by_length, candidates={"spoken": [{"dialect": "text", "space": None}]})
    (choice,) = Selects("no").choose_many([requested()], How(otherwise="scalar", scalar=other))
    assert "picks none, either: unrenderable (its actions are in function in pixel" in choice.detail


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"orders": 0}, "orders=0: a whole number of at least 1"),
        ({"orders": True}, "orders=True"),
        ({"orders": 2.0}, "orders=2.0"),
        ({"max_new_tokens": 0}, "max_new_tokens=0"),
        ({"otherwise": "frist"}, "otherwise='frist' is not known; did you mean 'first'"),
        ({"agree": "some"}, "agree='some' is not known"),
        ({"otherwise": "scalar"}, "needs one"),
        ({"scalar": Scores(by_length)}, "is what a scalar model is for"),
        ({"otherwise": "scalar", "scalar": Selects(ONE)}, "scalar= is a selection_arm"),
    ],
)
def test_ways_to_pick_that_do_not_exist(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        How(**given)


def test_a_prompt_that_is_not_the_models_is_refused_with_both_hashes() -> None:
    own, other = prompt(), prompt(history_window=3)
    for act in (
        lambda: Selects(ONE).asked_with(other),
        lambda: Selects(ONE).choose_many([requested()], renderer=Renderer(other)),
        lambda: Selects(ONE, own=other).choose(state(), CANDIDATES),
    ):
        with pytest.raises(ArmError, match=f"{own.sha256}.*{other.sha256}"):
            act()
    with pytest.raises(ArmError, match="scalar/1 is a scalar prompt, and a selection_arm is asked with a selection"):
        Selects(ONE).asked_with(prompt("scalar"))
    unknown: dict[str, Any] = {"prompt": {"id": None, "sha256": None, "file": None}}
    arm = Selects(ONE, **unknown)
    arm._prompt = None
    with pytest.raises(ArmError, match="brings no prompt: say what it is to be asked with"):
        arm.choose(state(), CANDIDATES)
    assert arm.asked_with(other).choose(state(), CANDIDATES).status == "ok"
    assert arm.prompt is other


def test_candidates_that_are_one_text() -> None:
    with pytest.raises(UsageError, match="candidates are a list"):
        Selects(ONE).choose(state(), "click(1, 2)")


def test_threads_are_answered_one_after_the_other() -> None:
    busy, most = 0, 0

    def says(text: str) -> str:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        time.sleep(0.002)
        busy -= 1
        return "no"

    arm, scalar = Selects(says), Scores(by_length)
    how = How(orders=2, otherwise="scalar", scalar=scalar)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: arm.choose_many([requested()], how)[0], range(8)))
    assert most == 1
    assert {one.chosen_by for one in found} == {"scalar"}


def test_a_choice_is_plain_data() -> None:
    choice = Selects(ONE).choose(state(), CANDIDATES, id="mine")
    data = choice.to_json()
    assert data["id"] == "mine"
    assert data["votes"][0]["reply"] == ONE
    assert data == Choice(**{**data, "votes": choice.votes}).to_json()


def test_nothing_asked() -> None:
    says: list[Callable[[], Any]] = [lambda: Selects(ONE), lambda: Scores(by_length)]
    assert [make().choose_many([]) for make in says] == [[], []]
