"""What one batch file takes."""

from __future__ import annotations

from pathlib import Path

from action_reward_models.builders.generate.batches.split import Part, prompt_tokens, too_large
from action_reward_models.servers.endpoints import BatchLimits
from action_reward_models.tests.builders.generate.batches.scenes import Questions


def test_each_limit_is_told_and_reached_exactly() -> None:
    part = Part(BatchLimits(requests=3, bytes=100), tokens_left=50)
    assert part.full(100, 50) is None
    part.add(60, 20)
    assert part.full(40, 30) is None
    assert part.full(41, 30) == "bytes"
    assert part.full(40, 31) == part.full(41, 31) == "tokens"  # another file would not help
    part.add(10, 10)
    part.add(10, 10)
    assert part.full(1, 1) == "requests"
    assert (part.requests, part.bytes, part.tokens) == (3, 80, 40)


def test_a_request_that_no_file_takes() -> None:
    limits = BatchLimits(bytes=1_000, tokens=500)
    assert too_large(limits, 1_000, 500) is None
    assert too_large(limits, 1_001, 1) == "it has 1,001 bytes, and a batch file takes 1,000"
    assert too_large(limits, 1, 501) == "it has about 501 prompt tokens, and 500 may be enqueued"
    assert too_large(BatchLimits(), 1, 10**9) is None


def test_defaults_are_those_of_the_service() -> None:
    part = Part(BatchLimits())
    assert part.full(200_000_000, 10**9) is None
    assert part.full(200_000_001, 0) == "bytes"


def test_tokens_of_a_prompt(tmp_path: Path) -> None:
    words = next(Questions(tmp_path, 1).requests())
    shown = next(Questions(tmp_path, 1, pictures=True).requests())
    long = next(Questions(tmp_path, 0, texts=("é" * 300,)).requests())
    assert 64 < prompt_tokens(words, None) < 90
    assert prompt_tokens(shown, 700) == prompt_tokens(words, None) + 700
    assert prompt_tokens(shown, 0) == prompt_tokens(words, None)  # bytes of a picture are no text
    assert prompt_tokens(shown, None) == prompt_tokens(words, None) + 1_500
    assert prompt_tokens(long, None) == 200 + 64
