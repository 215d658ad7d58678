"""The embedded hub as a process of its own, with the accounts of the client's tests.

Reads the accounts as JSON from the first line of standard input (so that no token stands in a process list), prints
its address, and ends when standard input does.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path

from action_reward_models.hub_sync.local_hub.serve import serve
from action_reward_models.hub_sync.local_hub.store import Store


def main(folder: Path) -> None:
    people: dict[str, str] = json.loads(sys.stdin.readline())
    store = Store(folder)
    for name in ("USER", "OTHER_USER", "ENTERPRISE_USER"):
        token = people[name.replace("USER", "TOKEN")]
        store.add_user(people[name], token=token, fullname=people["FULL_NAME"], email=f"{name.lower()}@example.org")
    store.add_org("valid_org_hub", [people["USER"]], fullname="Dummy Hub Org")
    store.add_org(people["ENTERPRISE_ORG"], [people["ENTERPRISE_USER"]], private_by_default=True)

    def wait() -> None:
        sys.stdin.read()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()
    serve(folder, 0, ready=lambda url: print(url, flush=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
