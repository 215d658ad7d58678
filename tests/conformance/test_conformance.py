"""Both supported clients' own tests against the embedded hub; and how a run is judged."""

from __future__ import annotations

from pathlib import Path

import pytest
from action_reward_models.tests.conformance import environment, run

LISTED = run.expected(run.selection(), "2.4.0", "off")


def outcome(failed: dict[str, str], passed: int = 100) -> run.Outcome:
    names = [f"test_x.py::test_{number}" for number in range(passed)]
    return run.Outcome("off", [*names, *failed], names, failed)


def test_a_run_with_the_listed_failures_is_good() -> None:
    verdict = run.judge([outcome(LISTED)], "2.4.0")
    assert verdict.good
    assert 0.95 < verdict.rate < 1


def test_an_unlisted_failure_is_told() -> None:
    verdict = run.judge([outcome({**LISTED, "test_x.py::test_new": "broken"})], "2.4.0")
    assert not verdict.good
    assert verdict.unexpected == ["xet off: test_x.py::test_new"]
    assert "FAILED, not listed: xet off: test_x.py::test_new" in run.report([outcome(LISTED)], "2.4.0", verdict)


def test_a_listed_test_that_passes_or_is_gone_is_told() -> None:
    gone, *others = LISTED
    of_the_rest = outcome({name: LISTED[name] for name in others})
    verdict = run.judge([of_the_rest], "2.4.0")
    assert not verdict.good
    assert verdict.stale == [f"xet off: {gone}"]
    assert run.judge([of_the_rest], "2.4.0", whole=False).good  # only a part was run
    of_the_rest.passed.append(gone)
    assert run.judge([of_the_rest], "2.4.0", whole=False).stale == [f"xet off: {gone}"]


def test_too_few_passes_are_not_good_however_listed() -> None:
    verdict = run.judge([outcome(LISTED, passed=10)], "2.4.0")
    assert not verdict.unexpected
    assert not verdict.good


def test_no_signal_is_not_good() -> None:
    assert not run.judge([run.Outcome("off")], "2.4.0", whole=False).good


def test_every_client_has_a_list_and_every_line_a_reason() -> None:
    listed = run.selection()
    assert set(listed["expected"]) == set(run.CLIENTS)
    for client in run.CLIENTS:
        for mode in ("on", "off"):
            reasons = run.expected(listed, client, mode).values()
            assert all(isinstance(reason, str) and len(reason) > 20 for reason in reasons)
        declined = run.declined(listed, client)
        assert all(isinstance(part, str) for parts in declined.values() for part in parts)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("client", run.CLIENTS)
def test_the_clients_own_tests(client: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        archive: Path = environment.sdist(client)
        environment.python(client)
    except environment.UnavailableError as error:
        pytest.skip(f"the client's tests cannot be had: {error}")
    outcomes = run.run(client, ("off", "on"), archive)
    verdict = run.judge(outcomes, client)
    with capsys.disabled():
        print(f"\n{run.report(outcomes, client, verdict)}")
    assert sum(len(one.signal) for one in outcomes) > 450
    assert verdict.good
