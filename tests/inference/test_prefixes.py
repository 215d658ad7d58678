"""Conversations that begin alike are found, and their beginnings are cut only where all of them may be."""

from __future__ import annotations

import random

import pytest
from action_reward_models.inference.prefixes import Family, families, pieces, together
from action_reward_models.inference.processor import Encoded

PICTURE = 0


def row(*parts: int | tuple[int, int], sight: str = "") -> Encoded:
    """A conversation: a number is a token, (token, times) several of the same."""
    ids: list[int] = []
    for part in parts:
        ids += [part] if isinstance(part, int) else [part[0]] * part[1]
    return Encoded(tuple(ids), len(ids), (), (sight,) if sight else ())


def test_a_beginning_ends_before_the_first_difference_and_before_the_end_of_the_shortest() -> None:
    (family,), alone = families([row((1, 50), 2, 9), row((1, 50), 3, 9), row((1, 50), 4, 5, 9)], [[0, 1, 2]], PICTURE)
    assert family == Family((0, 1, 2), 50, 1, (52, 52, 53))
    assert family.cost() == 50 + 2 + 2 + 3
    assert alone == []
    (family,), _ = families([row((1, 50)), row((1, 60))], [[0, 1]], PICTURE)  # one goes on where the other ends
    assert family.common == 49


def test_a_beginning_holds_all_of_the_pictures_or_there_is_none() -> None:
    shown = [row(1, (PICTURE, 9), (1, 40), at, 9, sight="a") for at in (2, 3)]
    (family,), _ = families(shown, [[0, 1]], PICTURE)
    assert (family.common, family.least) == (50, 10)
    later = [row((1, 40), at, (PICTURE, 9), 9, sight="a") for at in (2, 3)]
    assert families(later, [[0, 1]], PICTURE) == ([], [0, 1])


def test_conversations_with_other_pictures_are_other_families() -> None:
    rows = [row((PICTURE, 9), (1, 40), at, sight=sight) for sight in "ab" for at in (2, 3)]
    found, alone = families(rows, [[0, 1, 2, 3]], PICTURE)
    assert [family.rows for family in found] == [(0, 1), (2, 3)]
    assert alone == []


def test_sets_that_begin_alike_are_one_family_and_what_saves_little_is_read_alone() -> None:
    rows = [row((1, 50), at, 9) for at in (2, 3, 4)] + [row((1, 3), (at, 50), 9) for at in (5, 6)]
    found, alone = families(rows, [[0, 1], [2], [3, 4]], PICTURE)
    assert [family.rows for family in found] == [(0, 1, 2)]
    assert alone == [3, 4]


def made(chance: random.Random, count: int) -> tuple[list[Encoded], list[list[int]]]:
    rows: list[Encoded] = []
    sets = []
    for number in range(count):
        size = chance.randint(1, 6)
        sight = chance.choice(("", "a"))
        words: list[int | tuple[int, int]] = [(1, chance.choice((20, 21, 22, 60))), number % 3 + 2]
        picture: list[int | tuple[int, int]] = [(PICTURE, 4)] if sight else []
        beginning = [*picture, *words] if chance.random() < 0.5 else [*words, *picture]
        rows += [row(*beginning, at + 2, (8, chance.randint(1, 9)), sight=sight) for at in range(size)]
        sets.append(list(range(len(rows) - size, len(rows))))
    return rows, sets


@pytest.mark.parametrize("seed", range(5))
def test_every_conversation_is_read_once_from_a_beginning_that_is_its_own(seed: int) -> None:
    chance = random.Random(seed)
    rows, sets = made(chance, 30)
    tokens = chance.choice((50, 300, 2000))
    found, alone = families(rows, sets, PICTURE)
    runs = list(together(found, tokens))
    assert sorted([*alone, *(place for batch, _ in runs for family in batch for place in family.rows)]) == list(
        range(len(rows))
    )
    assert len(runs) < len(found) or tokens < 2000
    for batch, common in runs:
        assert common == min(family.common for family in batch)
        for family in batch:
            assert family.least <= common
            beginnings = {(rows[at].input_ids[:common], rows[at].pictures_sha256) for at in family.rows}
            assert len(beginnings) == 1
            assert all(len(rows[at].input_ids) > common for at in family.rows)
            assert all(PICTURE not in rows[at].input_ids[common:] for at in family.rows)
        places = [place for family in batch for place in family.rows]
        cut = list(pieces(rows, places, len(batch) * common, tokens))
        assert sorted(place for piece in cut for place in piece) == sorted(places)
        assert len(batch) == 1 or len(cut) == 1  # several families only where all of them fit
        for piece in cut:
            longest = max(len(rows[place].input_ids) for place in piece)
            assert len(piece) == 1 or 2 * len(batch) * common + longest * len(piece) <= tokens
