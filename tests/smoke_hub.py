"""One publication to the Hub of HF_ENDPOINT (default: the official one), in a private repository that is deleted.

HF_TOKEN=... .venv/bin/python tests/smoke_hub.py

What the embedded hub cannot show: that the real one accepts the cards, the YAML and the commits. Needs a token that may
write; everything happens in <you>/arm-smoke-<random>, which is private and gone afterwards.
"""

from __future__ import annotations

import secrets
import shutil
import sys
import tempfile
from pathlib import Path

from action_reward_models.hub_sync.hub import Hub
from action_reward_models.hub_sync.plan import plan
from action_reward_models.hub_sync.publish import publish
from action_reward_models.hub_sync.pull import pull
from action_reward_models.hub_sync.verify import verify_revision
from action_reward_models.registry import Registry, check_build
from action_reward_models.schemas.errors import ArmError

EXAMPLE = Path(__file__).parent.parent / "examples" / "miniwob"


def main() -> None:
    hub = Hub(progress=say)
    if not hub.token:
        raise hub.no_token()
    user = hub.call("asking who this is", hub.api.whoami)["name"]
    repo = f"{user}/arm-smoke-{secrets.token_hex(4)}"
    say(f"{hub.url(repo)}: private, deleted at the end")
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "miniwob"
        shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("build"))
        registry = Registry.load(folder)
        registry.build()
        built = registry.folder(registry.dataset())
        try:
            planned = plan(built, hub, check=check_build, repo=repo, private=True)
            done = publish(planned, hub, full=True)
            say(f"published {done.tag} at {done.commit}: {sum(map(len, done.loaded.values()))} splits loaded back")
            assert plan(built, hub, check=check_build, repo=repo).tagged == done.commit
            say("a second push has nothing to do")
            found = verify_revision(hub, repo, done.tag, check_build)
            assert not found.issues, found.issues
            assert found.commit == done.commit
            say("verified: files, rows, digests, card, every config")
            assert pull(hub, repo, done.tag, Path(work) / "pulled") == done.commit
            assert not check_build(Path(work) / "pulled")
            say("pulled: a built directory again")
        finally:
            hub.api.delete_repo(repo, repo_type="dataset", missing_ok=True)
            say("deleted the repository")
    say("all of it worked")


def say(message: str) -> None:
    print(message, flush=True)


if __name__ == "__main__":
    try:
        main()
    except ArmError as error:
        sys.exit(str(error))
