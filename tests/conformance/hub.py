"""The embedded hub as a process of its own, with the accounts of the client's tests.

Reads the accounts as JSON from the first line of standard input (so that no token stands in a process list), prints
its address, and ends when standard input does.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from pathlib import Path

import uvicorn
from action_reward_models.hub_sync.local_hub.app import create_app
from action_reward_models.hub_sync.local_hub.store import Store


def main(folder: Path) -> None:
    people: dict[str, str] = json.loads(sys.stdin.readline())
    store = Store(folder)
    for name in ("USER", "OTHER_USER", "ENTERPRISE_USER"):
        token = people[name.replace("USER", "TOKEN")]
        store.add_user(people[name], token=token, fullname=people["FULL_NAME"], email=f"{name.lower()}@example.org")
    store.add_org("valid_org_hub", [people["USER"]], fullname="Dummy Hub Org")
    store.add_org(people["ENTERPRISE_ORG"], [people["ENTERPRISE_USER"]], private_by_default=True)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(store), log_level="warning", access_log=False))

    def wait() -> None:
        sys.stdin.read()
        server.should_exit = True

    threading.Thread(target=wait, daemon=True).start()
    sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    server.run([listener])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
