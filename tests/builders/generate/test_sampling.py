"""What is asked of a policy: every candidate of every planned draw, with parameters and pictures as declared."""

from __future__ import annotations

import pickle
import struct
import zlib
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders.actor_messages import actor_prompt
from action_reward_models.builders.generate.basis import Basis, Shelf
from action_reward_models.builders.generate.log import SHARDS, shard_of
from action_reward_models.builders.generate.sampling import SampleWork, seed_of
from action_reward_models.builders.generate.spec import Draws, SampleSpec
from action_reward_models.schemas.built import BuiltTables
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.ids import sha256_hex
from action_reward_models.schemas.images import decode_data_url
from action_reward_models.tests.builders.generate.answering import skipped

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

SPEC = SampleSpec("actor", "policy", (Draws(0.7, 2), Draws(1.0)), 64, n=3)


def basis(toy: Toy) -> Build:
    return toy.build(tables=("states",))


def work(toy: Toy, spec: SampleSpec = SPEC, built: Build | None = None) -> SampleWork:
    return SampleWork((built or basis(toy)).folder, spec, toy.folder / "generated" / "candidates.jsonl")


def walk(toy: Toy, name: str = "walk", pictures: tuple[Any, ...] = (1, 2, 3)) -> None:
    """An episode of three turns, a picture before each."""
    messages = []
    for turn, picture in enumerate(pictures):
        messages.append(toy.message("user", f"Page {turn}.", picture))
        messages.append(toy.message("assistant", toy.response("click(1, 1)")))
    toy.episode(name, *messages)


def pictures_of(body: Any) -> list[bytes]:
    contents = [m["content"] for m in body["messages"] if isinstance(m["content"], list)]
    return [decode_data_url(b["image_url"]["url"]) for c in contents for b in c if b["type"] == "image_url"]


def test_every_candidate_of_every_draw_is_one_request(toy: Toy) -> None:
    toy.page("a", picture=1)
    toy.page("b/../#d7|x", picture=2)
    made = work(toy)
    requests = list(made.requests())
    assert len(requests) == made.total() == 2 * 3 * 3
    assert skipped(made) == {}
    assert len({request.key for request in requests}) == len({request.slot for request in requests}) == 18
    assert Counter(request.group for request in requests) == {"a__t0": 9, "b/../#d7|x__t0": 9}
    planned = {p.set_id: (p.draw, p.sampling["temperature"]) for p in made.plan() if p.state_id == "a__t0"}
    assert planned == {"a__t0#d0": (0, 0.7), "a__t0#d1": (1, 0.7), "a__t0#d2": (2, 1.0)}


def test_all_parameters_are_sent_and_those_that_are_none_are_not(toy: Toy) -> None:
    toy.page("a")
    first = next(iter(work(toy).requests()))
    sent = {name: value for name, value in first.body.items() if name != "messages"}
    seed = sent.pop("seed")
    assert 0 <= seed < 2**31
    assert sent == {
        "model": "policy", "max_tokens": 64, "temperature": 0.7, "top_p": 1.0, "top_k": -1, "min_p": 0.0
    }  # fmt: skip
    bare = replace(SPEC, top_p=None, top_k=None, min_p=None, seed=None, limit_parameter="max_completion_tokens")
    first = next(iter(work(toy, bare).requests()))
    assert set(first.body) == {"model", "messages", "max_completion_tokens", "temperature"}
    told = replace(SPEC, chat_template_kwargs={"enable_thinking": False}, draws=(Draws(0.0),))
    first = next(iter(work(toy, told).requests()))
    assert first.body["chat_template_kwargs"] == {"enable_thinking": False}
    assert first.body["temperature"] == 0.0
    assert "n" not in first.body


def test_one_request_may_ask_for_a_whole_set(toy: Toy) -> None:
    toy.page("a")
    made = work(toy, replace(SPEC, per_request="set"))
    requests = list(made.requests())
    assert len(requests) == made.total() == 3
    assert {request.body["n"] for request in requests} == {3}
    assert [p.sampling["seed"] for p in made.plan()] == [request.body["seed"] for request in requests]


def test_seeds_depend_on_what_they_are_for_and_on_nothing_else(toy: Toy) -> None:
    toy.page("a")
    toy.page("b", picture=2)
    before = {r.slot: (r.key, r.body["seed"]) for r in work(toy).requests()}
    assert len({seed for _, seed in before.values()}) == 18
    assert before["a__t0#d1|2"][1] == seed_of(SPEC, "a__t0", 1, 2) == int(sha256_hex("0\na__t0\n1\n2")[:8], 16) // 2
    toy.page("c", picture=3)
    toy.episodes.reverse()
    more = work(toy, replace(SPEC, draws=(*SPEC.draws, Draws(1.2, 3)), n=4))
    after = {r.slot: (r.key, r.body["seed"]) for r in more.requests()}
    assert before.items() <= after.items()  # draws, candidates and states that are added leave the others as they are
    later = work(toy, replace(SPEC, first_draw=3))
    assert {p.draw for p in later.plan()} == {3, 4, 5}


def test_equal_requests_of_two_slots_have_two_keys(toy: Toy) -> None:
    toy.page("a")
    requests = list(work(toy, replace(SPEC, seed=None)).requests())
    assert len({str(r.body) for r in requests}) == 2  # temperatures
    assert len({r.key for r in requests}) == 9


def test_shards_are_all_and_each_in_its_order(toy: Toy) -> None:
    for number in range(30):
        toy.page(f"p{number}", picture=number)
    made = work(toy)
    whole = list(made.requests())
    by_shard = [list(made.requests(shard)) for shard in range(SHARDS)]
    assert [r.key for requests in by_shard for r in requests] != [r.key for r in whole]
    assert sorted(r.key for requests in by_shard for r in requests) == sorted(r.key for r in whole)
    for shard, requests in enumerate(by_shard):
        assert {shard_of(r.group) for r in requests} <= {shard}
        assert [r.key for r in requests] == [r.key for r in whole if shard_of(r.group) == shard]
        assert all(r.wire() for r in requests)
    again = pickle.loads(pickle.dumps(made))
    assert [r.key for r in again.requests()] == [r.key for r in whole]


def test_no_picture_is_read_before_a_request_is_sent(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        toy.page(f"p{number}", picture=number)
    made, read = work(toy), Counter[str]()
    some = BuiltTables.some

    def counted(self: BuiltTables, table: str, *more: Any) -> Any:
        read[table] += 1
        return some(self, table, *more)

    monkeypatch.setattr(BuiltTables, "some", counted)
    requests = list(made.requests())
    assert read == {}
    for request in requests:
        (digest,) = request.pictures
        assert pictures_of(request.wire()) == [request.pictures[digest]]
        assert "0" * 64 not in request.pictures
    assert read == {"states": 1}  # of all states that are near each other at once


def test_only_the_current_screenshot_is_shown_unless_more_are_asked_for(toy: Toy) -> None:
    walk(toy)
    built = basis(toy)
    for screenshots, shown in (
        (0, [[], [], []]),
        (1, [[1], [2], [3]]),
        (2, [[1], [1, 2], [2, 3]]),
        (9, [[1], [1, 2], [1, 2, 3]]),
    ):
        made = work(toy, replace(SPEC, screenshots=screenshots), built)
        firsts = {r.group: r for r in made.requests() if r.slot.endswith("#d0|0")}
        found = [pictures_of(firsts[f"walk__t{turn}"].wire()) for turn in range(3)]
        assert found == [[toy.png(number) for number in numbers] for numbers in shown]
        assert skipped(made) == {}
    row = built.row("states", state_id="walk__t2")
    assert actor_prompt(row) == actor_prompt(row, 1)
    messages, images = actor_prompt(row, 2, lambda recorded: recorded)
    assert images == [sha256_hex(toy.png(2)), sha256_hex(toy.png(3))]
    shown = [[b.get("text", "IMAGE") for b in m["content"]] for m in messages if m["role"] == "user"]
    assert shown == [["Page 0."], ["Page 1.", "IMAGE"], ["Page 2.", "IMAGE"]]


def test_a_picture_that_was_changed_is_sent_as_it_is_kept(toy: Toy) -> None:
    """A 16-bit or animated screenshot is re-encoded; messages name it by what it was."""
    animated = _animated(toy)
    walk(toy, pictures=(animated, 2, 3))
    built = basis(toy)
    kept = built.row("states", state_id="walk__t0")
    assert kept["screenshot_ops"] == ["first_frame"]
    assert kept["screenshot_sha256"] != sha256_hex(animated)
    made = work(toy, replace(SPEC, screenshots=2), built)
    second = next(r for r in made.requests() if r.group == "walk__t1")
    first, own = pictures_of(second.wire())
    assert sha256_hex(first) == kept["screenshot_sha256"]
    assert own == toy.png(2)


def _animated(toy: Toy) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    still = toy.png(1)
    header, rest = still[:33], still[33:]
    control = chunk(b"acTL", struct.pack(">II", 1, 0))
    frame = chunk(b"fcTL", struct.pack(">IIIIIHHBB", 0, 8, 8, 0, 0, 1, 1, 0, 0))
    return header + control + frame + rest


def test_an_earlier_picture_that_no_state_shows_is_named(toy: Toy) -> None:
    """Two pictures before one answer: the first of them is the screenshot of no state."""
    toy.episode(
        "two",
        toy.message("user", "First.", 1),
        toy.message("user", "Second.", 2),
        toy.message("assistant", toy.response("click(1, 1)")),
    )
    toy.page("a", picture=3)
    built = basis(toy)
    assert skipped(work(toy, SPEC, built)) == {}
    made = work(toy, replace(SPEC, screenshots=2), built)
    assert skipped(made) == {"no_picture": 1}
    assert {r.group for r in made.requests()} == {"a__t0"}


def test_states_without_a_prompt_are_skipped_by_name(toy: Toy) -> None:
    toy.page("a")
    pad = "<|vision_start|><|image_pad|><|vision_end|>"
    bare: dict[str, Any] = {
        "state_id": "bare__t0", "episode_id": "bare", "turn": 0, "task": "x", "task_group": "0" * 64,
        **dict.fromkeys(("url", "host", "messages_json", "prompt_text", "tools_json", "observation_text")),
        **dict.fromkeys(("demo_response", "episode_outcome", "source_record_json", "screenshot")),
        "history": [], "elements": [], "screenshot_ops": [],
    }  # fmt: skip
    rendered = f"<|im_start|>user\nTask: {pad}\n{pad}<|im_end|>\n<|im_start|>assistant\n"
    second = {"state_id": "text__t0", "episode_id": "text", "prompt_text": rendered, "screenshot": toy.data_url(4)}
    laid = toy.lay("states", "table", "s.jsonl", [bare, {**bare, **second}], dialect="function", space="pixel")
    built = toy.build(tables=("states",), sources=(*toy.sources(), laid))
    made = work(toy, SPEC, built)
    assert skipped(made) == {"no_messages": 1}
    assert len(list(made.plan())) == 6
    text = next(r for r in made.requests() if r.group == "text__t0")
    assert pictures_of(text.wire()) == [toy.png(4)]
    assert skipped(work(toy, replace(SPEC, screenshots=2), built)) == {"no_messages": 1, "no_picture": 1}


def test_a_basis_that_lost_a_picture_is_an_error(toy: Toy) -> None:
    toy.page("a")
    built = basis(toy)
    with pytest.raises(ArmError, match="1 pictures of its states are not in it"):
        Shelf(Basis(built.folder), frozenset(["0" * 64])).picture("0" * 64)
    with pytest.raises(ArmError, match="is no finished build"):
        next(iter(SampleWork(toy.folder, SPEC, toy.folder / "c.jsonl").requests()))
