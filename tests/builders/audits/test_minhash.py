"""MinHash against exact Jaccard, and the search that finds what is near."""

from __future__ import annotations

import numpy as np
import pytest
from action_reward_models.builders.audits.minhash import PERMUTATIONS, SHINGLE, jaccard, near, shingles, signature

from tests.builders.audits.conftest import words


def exact(left: str, right: str) -> float:
    """Jaccard of the sets of runs, as Python's own sets have it."""
    a, b = ({text[i : i + SHINGLE] for i in range(len(text) - SHINGLE + 1)} for text in (left, right))
    return len(a & b) / len(a | b)


@pytest.mark.parametrize("shared", [0, 3, 10, 20, 30])
def test_the_estimate_is_close_to_the_exact_similarity(shared: int) -> None:
    common = words(1, shared)
    left, right = f"{common} {words(2, 30 - shared)}", f"{common} {words(3, 30 - shared)}"
    a, b = shingles(left), shingles(right)
    assert jaccard(a, b) == pytest.approx(exact(left, right))
    estimate = float(np.mean(signature(a) == signature(b)))
    deviation = (exact(left, right) * (1 - exact(left, right)) / PERMUTATIONS) ** 0.5
    assert abs(estimate - exact(left, right)) <= 3 * deviation + 1e-9


def test_by_hand() -> None:
    """abcdefg has the runs abcde, bcdef, cdefg; xbcdefg has xbcde, bcdef, cdefg: two of four."""
    assert jaccard(shingles("abcdefg"), shingles("xbcdefg")) == 0.5
    assert jaccard(shingles("abcd"), shingles("abcd")) == 1.0  # shorter than a run
    assert jaccard(shingles(""), shingles("abcd")) == 0.0


def test_signatures_are_the_same_on_every_machine() -> None:
    found = signature(shingles("find the cheapest flight to Reykjavík"))
    assert found.dtype == np.uint32
    assert [int(value) for value in found[:4]] == [185851439, 162429021, 27214094, 40557890]


def test_the_nearest_of_many_is_found() -> None:
    texts = [words(number, 12) for number in range(3000)]
    changed = [7, 1234, 2999]
    queries = [f"{texts[number]} now" for number in changed] + [words(number, 12) for number in range(4000, 4050)]
    found = list(near(queries, texts, 0.65))
    assert [(query, text) for query, text, _ in found] == list(enumerate(changed))
    assert all(similarity == pytest.approx(exact(queries[q], texts[t])) for q, t, similarity in found)


def test_the_threshold_is_reached_by_what_equals_it() -> None:
    assert [found[2] for found in near(["xbcdefg"], ["abcdefg"], 0.5)] == [0.5]
    assert list(near(["xbcdefg"], ["abcdefg"], 0.51)) == []


def test_nothing_is_near_nothing() -> None:
    assert list(near([], ["a"], 0.5)) == []
    assert list(near(["a"], [], 0.5)) == []
