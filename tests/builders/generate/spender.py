"""A process that spends until its purse is empty, from when a line comes in: ``COMMAND FOLDER CAP BILL SEED``.

BILL is what a server would have billed: a line per request, written after the reservation and before the settlement.
"""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path

from action_reward_models.builders.generate.costs import Rates, Tokens, most_tokens
from action_reward_models.builders.generate.spend import Purse
from action_reward_models.servers.endpoints import Price
from action_reward_models.servers.requests import Request

PRICE = Price(2.5, 10.0, cached_input=1.25, batch=0.5, image_tokens=1500)
COMMAND = [sys.executable, "-c", "from action_reward_models.tests.builders.generate.spender import main; main()"]


def request(number: int, *, words: int = 100, pictures: int = 1, max_tokens: int = 50, n: int = 1) -> Request:
    picture = {"type": "image_url", "image_url": {"url": "sha256:" + "0" * 64}}
    content = [{"type": "text", "text": "word " * words}, *[picture] * pictures]
    body = {"model": "m", "messages": [{"role": "user", "content": content}], "max_tokens": max_tokens, "n": n}
    return Request(f"slot-{number}", "group", body)


def main() -> None:
    folder, cap, bill, seed = sys.argv[1:]
    chance, rates = random.Random(seed), Rates(PRICE)
    lines = os.open(bill, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with Purse(Path(folder), PRICE, float(cap)) as purse:
        print("open", flush=True)
        sys.stdin.readline()  # until all are there
        number = 0
        while True:
            asked = request(number := number + 1, words=chance.randrange(1000))
            if (reservation := purse.reserve(asked)) is None:
                return
            most, _ = most_tokens(asked, PRICE)
            near = chance.random() < 0.7  # nearly all that was reserved
            used = Tokens(most.prompt, most.output) if near else Tokens(chance.randrange(most.prompt), 0)
            time.sleep(0.0005)  # others reserve meanwhile
            os.write(lines, b"%d\n" % rates.nanos(used, False))
            purse.settle(reservation, {"prompt_tokens": used.prompt, "completion_tokens": used.output})


def billed(folder: Path) -> int:
    """Nano-dollars on all bills below ``folder``."""
    return sum(int(line) for bill in folder.glob("bill-*") for line in bill.read_text().splitlines())


__all__ = ["COMMAND", "PRICE", "billed", "main", "request"]
