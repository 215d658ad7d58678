"""The cap of a source is never passed, whoever spends and however they end; money is exact; damage is told."""

from __future__ import annotations

import math
import os
import sqlite3
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.builders.generate.costs import NANO, Estimate, Rates, Tokens, counted, most_tokens
from action_reward_models.builders.generate.spend import Purse, report
from action_reward_models.builders.generate.spend_file import NAME
from action_reward_models.schemas.errors import ArmError, UsageError
from action_reward_models.servers.endpoints import Price

from .spender import COMMAND, PRICE, billed, request

SIMPLE = Price(1.0, 2.0, image_tokens=0, added_tokens=0)  # micro-dollars per token


def usd(price: Price, **others: Any) -> float:
    """The most that ``request(0)`` costs."""
    tokens, _ = most_tokens(request(0), price)
    return Rates(price).most(tokens, **{"batch": False, **others}) / NANO


def usage(prompt: int, output: int, **others: Any) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": output, **others}


def spenders(folder: Path, cap: float, seeds: Iterable[int]) -> list[subprocess.Popen[bytes]]:
    """Processes that begin to spend at once."""
    processes = [
        subprocess.Popen(
            [*COMMAND, str(folder), str(cap), str(folder / f"bill-{seed}"), str(seed)], stdin=-1, stdout=-1
        )
        for seed in seeds
    ]
    for process in processes:
        assert process.stdout
        assert process.stdout.readline() == b"open\n"
    for process in processes:
        assert process.stdin
        process.stdin.write(b"\n")
        process.stdin.flush()
    return processes


def ended(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.communicate(timeout=60)


def test_four_processes_never_pass_a_cap(tmp_path: Path) -> None:
    cap = 8.0  # some 1,500 requests
    processes = spenders(tmp_path, cap, range(4))
    seen = 0
    while any(process.poll() is None for process in processes):
        now = report(tmp_path)
        seen += 1
        assert now is not None
        assert now.spent_usd + now.reserved_usd <= cap
        time.sleep(0.005)
    ended(processes)
    assert [process.returncode for process in processes] == [0] * 4
    assert seen > 5
    lines = [bill.read_text().count("\n") for bill in tmp_path.glob("bill-*")]
    assert len(lines) == 4
    assert sum(count > 5 for count in lines) > 1, "several of them spent"
    total = report(tmp_path)
    assert total is not None
    assert round(total.spent_usd * NANO) == billed(tmp_path) <= cap * NANO
    assert total.reserved_usd == 0
    assert total.spent_usd > cap - 0.05, "and what is left is less than a request may cost"


def test_killed_processes_never_pass_a_cap(tmp_path: Path) -> None:
    cap = 2.0
    for round_ in range(3):
        processes = spenders(tmp_path, cap, range(4 * round_, 4 * round_ + 4))
        before = billed(tmp_path)
        while billed(tmp_path) == before:
            time.sleep(0.001)
        for process in processes:
            process.kill()
        ended(processes)
        now = report(tmp_path)
        assert now is not None
        assert now.live_usd == now.batch_usd == now.elsewhere_usd == 0
        assert billed(tmp_path) <= (now.spent_usd + now.ended_usd) * NANO + 1 <= cap * NANO + 2
    processes = spenders(tmp_path, cap, range(12, 14))
    ended(processes)
    assert [process.returncode for process in processes] == [0] * 2
    total = report(tmp_path)
    assert total is not None
    assert total.spent_usd * NANO - 1 <= billed(tmp_path) <= (total.spent_usd + total.ended_usd) * NANO + 1
    assert cap - 0.05 < total.spent_usd + total.reserved_usd <= cap
    assert billed(tmp_path) <= cap * NANO
    if total.ended_usd:
        assert "by processes that ended, whose requests may have been billed" in str(total)


def test_a_process_that_ends_leaves_what_may_have_been_billed(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from action_reward_models.builders.generate.spend import Purse;"
        "from action_reward_models.tests.builders.generate.spender import *;"
        "Purse(Path(sys.argv[1]), PRICE, 1.0).reserve(request(0)); print('reserved', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdin=-1, stdout=-1) as process:
        assert process.stdout
        assert process.stdout.readline() == b"reserved\n"
        now = report(tmp_path)
        assert now is not None
        assert (now.live_usd, now.ended_usd) == (usd(PRICE), 0)
        assert str(now).endswith("by requests under way")
        process.kill()
    now = report(tmp_path)
    assert now is not None
    assert (now.live_usd, now.ended_usd) == (0, usd(PRICE))
    with Purse(tmp_path, PRICE, 1.0) as purse:
        assert purse.reserved_usd == usd(PRICE)
        purse.settle(1, usage(10, 5))  # by whoever learns what came of it
        assert purse.reserved_usd == 0


def test_a_reservation_of_another_machine_and_of_a_reused_number(tmp_path: Path) -> None:
    with Purse(tmp_path, PRICE) as purse:
        purse.reserve(request(0))
        with closing(sqlite3.connect(tmp_path / NAME, isolation_level=None)) as db:
            db.execute("UPDATE holders SET host = 'elsewhere.example'")
            assert purse.report().elsewhere_usd == usd(PRICE)
            db.execute("UPDATE holders SET host = ?, started = '1'", (os.uname().nodename,))
            assert purse.report().ended_usd == usd(PRICE)


def test_the_cap_is_exact(tmp_path: Path) -> None:
    each = usd(PRICE)
    with Purse(tmp_path / "a", PRICE, 3 * each) as purse:
        taken = [purse.reserve(request(0)) for _ in range(4)]
        assert taken == [1, 2, 3, None]
        purse.release(2)
        assert [purse.reserve(request(0)) for _ in range(2)] == [4, None]
        assert purse.spent_usd == 0
        assert purse.reserved_usd == pytest.approx(3 * each)
    with Purse(tmp_path / "b", PRICE, math.nextafter(each - 1e-9, 0)) as purse:
        assert purse.reserve(request(0)) is None
    with Purse(tmp_path / "c", PRICE, 0) as purse:
        assert purse.reserve(request(0)) is None


def test_the_cap_is_for_all_that_was_ever_spent(tmp_path: Path) -> None:
    with Purse(tmp_path, SIMPLE) as purse:  # no cap, and counted all the same
        first = purse.reserve(request(0))
        assert first
        purse.settle(first, usage(600, 50))
    with Purse(tmp_path, SIMPLE, 0.0007 + usd(SIMPLE)) as purse:
        assert purse.spent_usd == 0.0007
        assert purse.reserve(request(0)) is not None
        assert purse.reserve(request(0)) is None


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (usage(100, 10), 100 * 2.5 + 10 * 10),
        (usage(100, 10, prompt_tokens_details={"cached_tokens": 40}), 60 * 2.5 + 40 * 1.25 + 10 * 10),
        (usage(100, 10, prompt_tokens_details={"cached_tokens": 400}), 100 * 1.25 + 10 * 10),
        (usage(100, 10, prompt_tokens_details=None), 100 * 2.5 + 10 * 10),
        (usage(100, 40, completion_tokens_details={"reasoning_tokens": 30}, total_tokens=140), 100 * 2.5 + 40 * 10),
        (usage(100, 10, completion_tokens_details={"reasoning_tokens": 30}, total_tokens=140), 100 * 2.5 + 40 * 10),
        (usage(0, 0), 0),
    ],
)
def test_what_the_server_counted(tmp_path: Path, said: dict[str, Any], expected: float) -> None:
    for batch, factor in ((False, 1), (True, 0.5)):
        with Purse(tmp_path / str(batch), PRICE) as purse:
            purse.settle(purse.reserve(request(0), batch) or 0, said)
            assert purse.spent_usd == pytest.approx(expected * factor * 1e-6, abs=1e-15)
            assert purse.report().answered == 1
            assert purse.reserved_usd == 0


@pytest.mark.parametrize(
    "said",
    [
        None, {}, {"prompt_tokens": 3}, usage(-1, 5), {"prompt_tokens": "3", "completion_tokens": 1}, usage(3, 10**30),
        {"prompt_tokens": True, "completion_tokens": 1}, {"prompt_tokens": 1.5, "completion_tokens": 1}, [1], "all",
    ],
)  # fmt: skip
def test_without_a_count_all_that_was_reserved_is_spent(tmp_path: Path, said: Any) -> None:
    assert counted(said) is None
    with Purse(tmp_path, PRICE) as purse:
        purse.settle(purse.reserve(request(0)) or 0, said)
        now = purse.report()
    assert (now.spent_usd, now.reserved_usd, now.answered, now.unsaid) == (usd(PRICE), 0, 0, 1)
    assert now.share is None


def test_what_is_settled_or_released_stays(tmp_path: Path) -> None:
    with Purse(tmp_path, PRICE) as purse:
        one, two = purse.reserve(request(0)), purse.reserve(request(1))
        assert one
        assert two
        purse.settle(one, usage(100, 0))
        purse.release(two)
        before = purse.report()
        for reservation in (one, two, 999):
            purse.settle(reservation, usage(100, 0))
            purse.release(reservation)
        assert purse.report() == before
        assert purse.reserve(request(2)) == 3, "a number is given once"


def test_money_is_no_sum_of_floats(tmp_path: Path) -> None:
    price = Price(0.1, 0.3, added_tokens=0, image_tokens=0)
    assert Rates(price).nanos(Tokens(10, 0), False) == 1000
    assert Rates(price).nanos(Tokens(1, 1), True) == 400
    assert Rates(Price(0.0001, 0)).nanos(Tokens(1, 0), False) == 1, "rounded up"
    with Purse(tmp_path, price) as purse:
        for _ in range(1000):
            purse.settle(purse.reserve(request(0)) or 0, usage(1, 0))
        assert purse.spent_usd == 0.0001


def test_batches_are_told_apart_and_outlive_their_process(tmp_path: Path) -> None:
    with Purse(tmp_path, PRICE) as purse:
        reservation = purse.reserve(request(0), batch=True)
        assert reservation
    now = report(tmp_path)
    assert now is not None
    assert (now.batch_usd, now.ended_usd) == (usd(PRICE, batch=True), 0)
    assert now.batch_usd == pytest.approx(usd(PRICE) / 2)
    with Purse(tmp_path, None) as purse:  # the price is declared no longer
        purse.settle(reservation, usage(1, 1))
        assert (purse.spent_usd, purse.reserved_usd) == (usd(PRICE, batch=True), 0)


def test_without_a_price_nothing_is_counted(tmp_path: Path) -> None:
    with Purse(tmp_path, None) as purse:
        assert purse.reserve(request(0)) == 0
        purse.settle(0, usage(1, 1))
        purse.release(0)
        assert (purse.spent_usd, purse.reserved_usd) == (0, 0)
    assert list(tmp_path.iterdir()) == []
    assert report(tmp_path) is None


def test_a_cap_needs_a_price(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a cap needs the price of 'gpt-x', and none is declared") as caught:
        Purse(tmp_path, None, 5.0, model="gpt-x")
    assert "gpt-x: {input: 2.50, output: 10.00, image_tokens: 1500}" in str(caught.value)
    for cap in (-1.0, math.nan, math.inf):
        with pytest.raises(UsageError, match="a cap is a number of dollars"):
            Purse(tmp_path, PRICE, cap)
    with Purse(tmp_path, Price(0, 0), 0, model="mine") as free:
        assert free.reserve(request(0, pictures=0)) == 1


def test_a_cap_needs_a_bound(tmp_path: Path) -> None:
    with Purse(tmp_path, Price(1, 1), 5.0, model="gpt-x") as purse:
        assert purse.reserve(request(0, pictures=0)) is not None
        with pytest.raises(UsageError, match="`image_tokens`") as caught:
            purse.reserve(request(0, pictures=1))
        assert "write below prices: gpt-x: in endpoints.yaml: image_tokens: 1500" in str(caught.value)
        unlimited = request(0, pictures=0)
        del unlimited.body["max_tokens"]  # type: ignore[attr-defined]
        with pytest.raises(UsageError, match="does not limit the tokens"):
            purse.reserve(unlimited)
    with Purse(tmp_path, Price(10_000, 10_000), model="gpt-x") as purse, pytest.raises(UsageError, match="look at its"):
        purse.reserve(request(0, pictures=0, max_tokens=10**12))


def test_the_bound_of_a_request() -> None:
    price = Price(1, 1, image_tokens=1500, added_tokens=100)
    empty, none = most_tokens(request(0, words=0, pictures=0), price)
    assert none is None
    for words, pictures in ((10, 0), (0, 1), (7, 3)):
        tokens, _ = most_tokens(request(0, words=words, pictures=pictures, max_tokens=50, n=5), price)
        extra = tokens.prompt - empty.prompt - 5 * words - 1500 * pictures
        assert 0 <= extra < 120 * pictures + 1, "and the bytes that say where a picture stands"
        assert tokens.output == 250
    body = {"model": "m", "messages": [{"role": "user", "content": "木" * 100}], "max_completion_tokens": 70}
    tokens, _ = most_tokens(type(request(0))("s", "g", body), price)
    assert tokens.output == 70
    assert tokens.prompt >= 300 + 100


def test_a_server_that_counts_more_than_it_could(tmp_path: Path) -> None:
    with Purse(tmp_path, PRICE, 1.0, model="gpt-x") as purse, Purse(tmp_path, PRICE, 1.0, model="gpt-x") as other:
        purse.settle(purse.reserve(request(0)) or 0, usage(50_000, 10))
        assert purse.spent_usd == pytest.approx((50_000 * 2.5 + 10 * 10) * 1e-6), "what it counted is spent"
        for each in (purse, other):
            with pytest.raises(ArmError, match="the server counted 50,000 prompt tokens for a request of") as caught:
                each.reserve(request(1))
            assert "`image_tokens: 1,500` and `added_tokens: 256`, and one of them is too small" in str(caught.value)
            assert "mend what stands below prices: gpt-x: in endpoints.yaml" in str(caught.value)
    with Purse(tmp_path, PRICE, 1.0) as again:  # a new start, mended or not, tries once more
        one = again.reserve(request(2))
        assert one
        again.settle(one, usage(10, 51))
        with pytest.raises(ArmError, match="51 generated tokens for a request of 50 at most"):
            again.reserve(request(3))
    with Purse(tmp_path, PRICE) as uncapped:
        assert uncapped.reserve(request(4)) is not None
        assert "51 generated tokens" in (uncapped.report().over or "")


def test_an_estimate_while_requests_are_made(tmp_path: Path) -> None:
    estimate = Estimate(PRICE)
    for number in range(100):
        estimate.add(request(number % 10))
    assert estimate.requests == 100
    assert estimate.at_most_usd == pytest.approx(sum(usd(PRICE) for _ in range(100)))
    assert estimate.about_usd is None, "before any answer"
    with Purse(tmp_path, PRICE) as purse:
        for _ in range(4):
            purse.settle(purse.reserve(request(0)) or 0, usage(200, 10))
        cost = (200 * 2.5 + 10 * 10) * 1e-6
        estimate = Estimate(PRICE, share=purse.report().share)
        for number in range(10):
            estimate.add(request(number))
        assert estimate.about_usd == pytest.approx(10 * cost)
        batch = Estimate(PRICE, batch=True, share=purse.report().share)
        batch.add(request(0))
        assert batch.about_usd == pytest.approx(cost / 2)
        assert batch.at_most_usd == pytest.approx(usd(PRICE) / 2)


def test_an_estimate_without_a_bound_says_so() -> None:
    estimate = Estimate(Price(1, 1))
    known = []
    for pictures in (0, 1, 0):
        estimate.add(request(0, pictures=pictures))
        known.append(estimate.at_most_usd is not None)
    assert known == [True, False, False]
    assert "`image_tokens`" in (estimate.unknown or "")


DAMAGE: dict[str, bytes | None] = {
    "empty": b"",
    "text": b"these are my notes\n" * 400,
    "cut": None,
    "pages": None,
    "foreign": None,
    "newer": None,
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_told_and_nothing_is_begun_anew(tmp_path: Path, kind: str) -> None:
    path = tmp_path / NAME
    with Purse(tmp_path, PRICE) as purse:
        for number in range(300):
            purse.reserve(request(number), batch=True)
    (tmp_path / f"{NAME}-journal").unlink()
    whole = path.read_bytes()
    contents = DAMAGE[kind]
    match kind:
        case "cut":
            path.write_bytes(whole[: len(whole) // 2])
        case "pages":
            path.write_bytes(whole[:4096] + os.urandom(len(whole) - 4096))
        case "foreign":
            path.unlink()
            with closing(sqlite3.connect(path)) as db:
                db.execute("CREATE TABLE sums (spent)")
        case "newer":
            with closing(sqlite3.connect(path)) as db:
                db.execute("PRAGMA user_version = 2")
        case _:
            assert contents is not None
            path.write_bytes(contents)
    before = path.read_bytes()
    for use in (lambda: Purse(tmp_path, PRICE, 1.0), lambda: report(tmp_path)):
        with pytest.raises(ArmError) as caught:
            use()
        said = str(caught.value)
        assert said.startswith(f"{path}: ")
        assert "what was spent on this source is not known from it, and nothing is sent" in said
        assert "move it away, read from the server's bill what was spent" in said
    assert path.read_bytes() == before


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ArmError, match="cannot be used"):
        Purse(tmp_path / "file" / "log", PRICE)
    (tmp_path / "log" / NAME).mkdir(parents=True)
    with pytest.raises(ArmError, match="cannot be used"):
        Purse(tmp_path / "log", PRICE)


def test_many_that_open_at_once_make_one_file(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    start = threading.Barrier(8)
    failed = []

    def spend() -> None:
        try:
            start.wait()
            with Purse(folder, PRICE, 100.0) as purse:
                for number in range(5):
                    purse.settle(purse.reserve(request(number)) or 0, usage(100, 0))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    now = report(folder)
    assert now is not None
    assert now.answered == 40
    assert now.spent_usd == pytest.approx(40 * 100 * 2.5e-6)
    assert {path.name for path in folder.iterdir()} == {NAME, f"{NAME}-journal"}


def test_it_costs_half_a_millisecond_at_most(tmp_path: Path) -> None:
    asked = request(0, words=4000)  # 20 kB of text
    with Purse(tmp_path, PRICE, 1000.0) as purse:
        took: list[float] = []
        for _ in range(300):
            began = time.perf_counter()
            reservation = purse.reserve(asked)
            took.append(time.perf_counter() - began)
            assert reservation
            purse.settle(reservation, usage(100, 10))
    assert statistics.median(took) < 0.0005
