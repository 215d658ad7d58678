"""Files that models make: the build that requests come from, how far each file is, what the rest would cost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from action_reward_models.builders import runner
from action_reward_models.builders.generate.batches.ledger import Asked, Ledger
from action_reward_models.builders.generate.log import shard_of
from action_reward_models.builders.generate.seeding import seed_log
from action_reward_models.builders.workspace import BusyError
from action_reward_models.registry import generating
from action_reward_models.registry.generating import chosen, rests_on
from action_reward_models.registry.standing import standing, words_of_failures
from action_reward_models.schemas.built import BuiltTables
from action_reward_models.schemas.errors import ArmError, UsageError
from action_reward_models.schemas.manifest import manifest_of
from action_reward_models.servers.endpoints import Price
from action_reward_models.servers.requests import Request

from .generated_world import LABELLED, SAMPLED, Generated, action, refused, said


@pytest.fixture
def world(tmp_path: Path) -> Generated:
    return Generated.make(tmp_path / "registry")


def test_the_whole_way_without_a_server(world: Generated) -> None:
    """3 states x 2 draws x 2 candidates; the sets of a state are equal, so that a teacher is asked once for both."""
    assert world.answer(SAMPLED) == 12
    assert world.answer(LABELLED) == 3
    found = world.standings()
    assert [(f.planned, f.complete, f.requests, f.to_ask, f.whole) for f in found.values()] == [
        (6, 6, 12, 0, True), (6, 6, 3, 0, True),
    ]  # fmt: skip
    built, _ = world.registry().build(workers=1)
    assert built
    tables = BuiltTables.of(built.folder, lambda *_: None, "reading")
    sets = list(tables.rows("candidate_sets"))
    assert {row["set_id"] for row in sets} == {f"e{page}__t0#d{draw}" for page in range(3) for draw in range(2)}
    labels = list(tables.rows("teacher_labels"))
    assert {(row["set_id"], row["teacher"], row["status"]) for row in labels} == {
        (row["set_id"], "judge", "ok") for row in sets
    }
    assert built.manifest["identity"]["tables"]["selection_sft"]["rows"] == 6


def test_the_basis_is_made_once_and_again_when_it_must(world: Generated, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    build = runner.build

    def counted(*words: object, **options: object) -> object:
        made.append(words[1])
        return build(*words, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(generating, "build", counted)
    basis = world.asked(SAMPLED).work.basis
    assert basis == world.folder / "build" / ".generate" / "made" / "1"
    assert sorted(manifest_of(basis)["identity"]["tables"]) == ["exclusions", "states"]
    # What is declared of the dataset and of the sampling has nothing to do with what is shown.
    world.edit('version: "1.0.0"', 'version: "2.0.0"')
    world.edit("validation: 0", "validation: 0.5")
    world.edit("count: 2", "count: 3")
    world.asked(SAMPLED)
    assert len(made) == 1
    episodes = world.folder / "episodes.jsonl"
    episodes.write_text(episodes.read_text().replace("Click number 1", "Click number one"))
    world.asked(SAMPLED)
    world.edit("    split:", "    redact: [secrets]\n    split:")
    world.asked(SAMPLED)
    assert len(made) == 3


def test_a_basis_that_another_process_makes_is_waited_for(world: Generated, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    build = runner.build

    def busy(*words: object, **options: object) -> object:
        if not waited:
            raise BusyError("is being built")
        return build(*words, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(generating, "build", busy)
    monkeypatch.setattr("time.sleep", waited.append)
    assert (world.asked(SAMPLED).work.basis / "manifest.json").is_file()
    assert len(waited) == 1


def test_what_is_redacted_is_not_shown_to_a_model(world: Generated) -> None:
    episodes = world.folder / "episodes.jsonl"
    episodes.write_text(episodes.read_text().replace("Click number 1.", "Ask jane.doe@gmail.com for one."))
    bodies = [str(request.body) for request in world.asked(SAMPLED).work.requests()]
    assert sum("jane.doe" in body for body in bodies) == 4
    world.edit("    split:", "    redact: [addresses]\n    split:")
    assert not any("jane.doe" in str(request.body) for request in world.asked(SAMPLED).work.requests())


def test_labels_wait_for_what_they_rest_on(world: Generated) -> None:
    with pytest.raises(ArmError) as caught:
        world.asked(LABELLED)
    assert caught.value.message == f"{SAMPLED} is not sampled yet"
    assert caught.value.next_command == f"arm sample {world.folder / 'registry.yaml'}"
    found = world.standings()[LABELLED]
    assert (found.lacks, found.whole) == (f"{SAMPLED} is not sampled yet, and it rests on that", False)
    world.answer(SAMPLED)
    registry = world.registry()
    sampled, labelled = registry.made
    assert (rests_on(registry, labelled), rests_on(registry, sampled)) == ([sampled], [])


def test_how_far_a_file_is(world: Generated) -> None:
    """Answered, refused and open requests of different sets; a set is as far as its last candidate."""

    def some(request: Request) -> object:
        state, _, place = request.slot.partition("#")
        if state == "e0__t0" or place == "d0|0":
            return action(request)
        return refused(request) if state == "e1__t0" else None

    world.answer(SAMPLED, some)  # type: ignore[arg-type]
    found = world.standings()[SAMPLED]
    assert (found.planned, found.complete, found.failed, found.not_asked) == (6, 2, {"rejected": 2}, 2)
    assert (found.requests, found.to_ask, found.unwritten, found.whole) == (12, 6, 0, False)
    assert found.lacks == "2 of 6 sets are not asked for yet"
    assert words_of_failures(world.asked(SAMPLED)) == [("rejected", "400: no pictures here", 3)]
    # What was refused may be answered another time, and then the file has to be written.
    world.answer(SAMPLED, action, written=False)
    found = world.standings()[SAMPLED]
    assert (found.complete, found.failed, found.to_ask, found.unwritten) == (6, {}, 0, 4)
    assert found.lacks == "4 sets are in the log and not in the file"
    world.answer(SAMPLED, lambda request: None)
    assert world.standings()[SAMPLED].whole


def test_what_is_in_a_batch_is_not_asked_twice(world: Generated) -> None:
    world.answer(SAMPLED)
    asked = world.asked(LABELLED)
    first, *_ = asked.work.requests()
    batch = [Asked(first.key, first.slot, shard_of(first.group), 1, None, 1)]
    Ledger(asked.work.folder).plan("service", "teacher", "stand-in", "0" * 64, 1, 1, batch)
    found = world.standings()[LABELLED]
    assert (found.planned, found.in_batch, found.not_asked, found.to_ask) == (6, 2, 4, 2)
    assert found.lacks == "4 of 6 labels are not asked for yet, 2 labels are in a batch that is not collected yet"


def test_the_file_alone_says_what_was_asked(world: Generated) -> None:
    """Somebody cloned the registry, and the log stayed where it was."""

    def most(request: Request) -> object:
        return refused(request) if request.slot == "e0__t0#d1|1" else action(request)

    world.answer(SAMPLED, most)  # type: ignore[arg-type]
    world.answer(LABELLED)
    before = world.standings()
    for name in (SAMPLED, LABELLED):
        shutil.rmtree((world.folder / name).with_suffix(".requests"))
    assert world.standings() == before
    assert not list(world.folder.glob("generated/*.requests")), "looking writes nothing"
    assert seed_log(world.asked(SAMPLED).work) == 12
    assert world.standings() == before


def test_a_declaration_that_shrank_leaves_answers_that_nobody_wants(world: Generated) -> None:
    world.answer(SAMPLED)
    world.edit("count: 2", "count: 1")
    found = world.standings()[SAMPLED]
    assert (found.planned, found.complete, found.surplus) == (3, 3, 6)
    assert found.lacks == "the file holds answers to 6 requests that are declared no more"
    world.answer(SAMPLED, lambda request: None)
    assert world.standings()[SAMPLED].whole
    assert len(world.records(SAMPLED)) == 3


def test_a_file_of_something_else_is_not_overwritten(world: Generated) -> None:
    (world.folder / "generated").mkdir()
    (world.folder / SAMPLED).write_text('{"mine": 1}\n')
    with pytest.raises(ArmError) as caught:
        world.standings()
    assert caught.value.where == f"{world.folder / SAMPLED}:1"
    assert "holds records of something else, which would be lost" in caught.value.message
    with pytest.raises(ArmError):
        seed_log(world.asked(SAMPLED).work)


def test_what_the_rest_would_cost(world: Generated) -> None:
    """At most by the bytes of what is to be sent; nothing where no price is known; half of it as a batch."""
    asked = world.asked(SAMPLED)
    assert standing(asked).at_most_usd is None
    price = Price(1.0, 10.0, batch=0.5, image_tokens=100, added_tokens=0)
    found = standing(asked, price)
    # each of 12 requests: some hundred bytes of text, one picture of 100 tokens, 64 tokens of reply
    assert found.at_most_usd is not None
    assert 12 * (100 + 640) / 1e6 < found.at_most_usd < 12 * (2000 + 640) / 1e6
    assert found.about_usd is None, "nothing was answered yet"
    half = standing(asked, price, batch=True).at_most_usd
    assert half == pytest.approx(found.at_most_usd / 2, rel=1e-3)
    world.answer(SAMPLED, lambda request: action(request) if "#d0" in request.slot else None)
    assert standing(asked, price).at_most_usd == pytest.approx(found.at_most_usd / 2, rel=0.01)


def test_prices_come_from_the_servers_of_this_machine(world: Generated) -> None:
    world.endpoints(
        "  actor: {urls: ['http://127.0.0.1:1/v1'], prices: {stand-in: {input: 1, output: 1, image_tokens: 1}}}\n"
    )
    assert world.standings()[SAMPLED].at_most_usd is not None


def test_which_files_are_meant(world: Generated) -> None:
    registry = world.registry()
    assert [made.name for made in chosen(registry, "sample")] == [SAMPLED]
    assert [made.name for made in chosen(registry, "label", "made", LABELLED)] == [LABELLED]
    with pytest.raises(UsageError, match=f"there are {SAMPLED} of made"):
        chosen(registry, "sample", source=LABELLED)
    with pytest.raises(UsageError, match="there is no dataset 'other'"):
        chosen(registry, "sample", "other")


def test_a_label_of_any_status_has_been_asked_for(world: Generated) -> None:
    world.answer(SAMPLED)
    world.answer(LABELLED, lambda request: said(request, "I cannot tell."))
    assert world.standings()[LABELLED].whole
    assert {label["status"] for label in world.records(LABELLED)} == {"unparsed"}
