"""What the tests of publishing do again and again, as somebody else would: with the plain client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from action_reward_models.hub_sync.hub import Hub

if TYPE_CHECKING:
    from tests.hub_sync.conftest import Publisher


def repo(publisher: Publisher) -> str:
    return f"lab/{publisher.name}"


def commits(hub: Hub, name: str) -> list[str]:
    return [entry.commit_id for entry in hub.api.list_repo_commits(name, repo_type="dataset")]


def tags(hub: Hub, name: str) -> dict[str, str]:
    refs = hub.refs(name)
    assert refs
    return refs.tags


def write(hub: Hub, name: str, **files: bytes | None) -> str:
    """Commit files as someone else would; None deletes. Names have `__` for a slash and `_dot_` for a dot."""
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    paths = {key.replace("__", "/").replace("_dot_", "."): value for key, value in files.items()}
    operations = [CommitOperationDelete(p) if v is None else CommitOperationAdd(p, v) for p, v in paths.items()]
    info = hub.api.create_commit(name, operations, commit_message="by hand", repo_type="dataset")
    return info.oid
