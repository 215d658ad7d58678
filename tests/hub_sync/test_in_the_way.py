"""Publishing where something is in the way: other people's files, claims, repositories and pull requests; secrets."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from action_reward_models.hub_sync.commit import Upload
from action_reward_models.hub_sync.hub import Hub
from action_reward_models.hub_sync.publish import publish
from action_reward_models.hub_sync.verify import verify_revision
from action_reward_models.registry import check_build
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.ids import file_sha256
from action_reward_models.tests.hub_sync.steps import commits, repo, write
from huggingface_hub.errors import OfflineModeIsEnabled
from huggingface_hub.utils._http import get_session

if TYPE_CHECKING:
    from tests.hub_sync.conftest import Publisher


def tampered_states(hub: Hub, name: str, folder: Path) -> None:
    """Someone else's commit: another pick in a published file, and a manifest whose hash of the file fits."""

    refs = hub.refs(name)
    assert refs
    files = hub.files(name, refs.head)
    (path,) = (path for path in files if path.startswith("data/teacher_labels/"))
    local = hub.fetch(name, refs.head, path, folder)
    table = pq.read_table(local)
    column = table.schema.get_field_index("selected_index")
    picks = [1 - pick for pick in table["selected_index"].to_pylist()]
    pq.write_table(table.set_column(column, table.schema.field(column), pa.array(picks, pa.int64())), local)
    manifest = orjson.loads(hub.read(name, files["manifest.json"], refs.head))
    manifest["environment"]["files"][path] = {"sha256": file_sha256(local), "bytes": local.stat().st_size}
    key = path.replace("/", "__").replace(".", "_dot_")
    write(hub, name, **{key: local.read_bytes(), "manifest_dot_json": orjson.dumps(manifest)})


def test_a_published_file_is_kept_for_its_rows_and_not_for_what_is_said_of_it(
    publisher: Publisher, hub: Hub, tmp_path: Path
) -> None:
    publisher.build()
    publisher.push(hub)
    tampered_states(hub, repo(publisher), tmp_path / "theirs")
    publisher.version = "1.0.1"
    publisher.build()
    planned = publisher.plan(hub)
    assert any(operation.path.startswith("data/teacher_labels/") for operation in planned.operations)
    publish(planned, hub)

    assert verify_revision(hub, repo(publisher), "v1.0.1", check_build).issues == ()


def test_private_is_not_public(publisher: Publisher, hub: Hub) -> None:
    publisher.build()
    hub.api.create_repo(repo(publisher), repo_type="dataset", private=False)
    with pytest.raises(ArmError, match="exists and is public"):
        publisher.plan(hub, private=True)


def test_a_public_repository_that_appears_meanwhile_is_not_used_as_private(publisher: Publisher, hub: Hub) -> None:
    publisher.build()
    planned = publisher.plan(hub, private=True)
    hub.api.create_repo(repo(publisher), repo_type="dataset", private=False)
    with pytest.raises(ArmError, match="exists and is public"):
        publish(planned, hub)
    assert len(commits(hub, repo(publisher))) == 1


def test_files_of_a_person_in_the_way_need_a_word(publisher: Publisher, hub: Hub) -> None:
    publisher.build()
    hub.api.create_repo(repo(publisher), repo_type="dataset")
    write(hub, repo(publisher), load_dot_py=b"mine", manifest_dot_json=b'{"mine": 1}', notes_dot_md=b"mine")
    with pytest.raises(ArmError) as error:
        publisher.plan(hub)
    assert "load.py, manifest.json" in error.value.message
    assert "notes.md" not in error.value.message
    assert "--overwrite" in str(error.value.next_command)
    done = publisher.push(hub, overwrite=True)
    assert hub.read(repo(publisher), hub.files(repo(publisher), done.commit)["notes.md"], done.commit) == b"mine"


def test_a_manifest_of_someone_else_deletes_nothing(publisher: Publisher, hub: Hub) -> None:
    publisher.build()
    done = publisher.push(hub)
    files = hub.files(repo(publisher), done.commit)
    manifest = orjson.loads(hub.read(repo(publisher), files["manifest.json"], done.commit))
    manifest["environment"]["files"]["notes.md"] = {"sha256": "0" * 64, "bytes": 4}
    write(hub, repo(publisher), notes_dot_md=b"mine", manifest_dot_json=orjson.dumps(manifest))
    publisher.version = "1.1.0"
    publisher.build()
    done = publisher.push(hub)
    assert "notes.md" in hub.files(repo(publisher), done.commit)


def test_a_file_with_the_name_of_the_repository_is_found_before_anything_is_sent(
    publisher: Publisher, hub: Hub
) -> None:
    publisher.build()
    hub.api.create_repo(repo(publisher), repo_type="dataset")
    before = write(hub, repo(publisher), **{f"{publisher.name}_dot_py": b"x"})
    with pytest.raises(ArmError, match="a file of its own name"):
        publisher.push(hub)
    assert commits(hub, repo(publisher))[0] == before


def test_findings_stop_publishing_from_python_too(publisher: Publisher, hub: Hub) -> None:
    publisher.text = "mail jane.roe@gmail.com"
    publisher.build()
    planned = publisher.plan(hub)
    assert planned.findings
    with pytest.raises(ArmError, match="secrets or addresses were found; nothing was published"):
        publish(planned, hub)
    assert hub.refs(repo(publisher)) is None
    assert publish(planned, hub, allow_findings=True).tagged


def test_a_card_that_is_not_utf_8_is_not_touched(publisher: Publisher, hub: Hub) -> None:
    publisher.build()
    hub.api.create_repo(repo(publisher), repo_type="dataset")

    lines = [
        {"key": "header", "value": {"summary": "latin", "description": ""}},
        {
            "key": "file",
            "value": {
                "path": "README.md",
                "content": base64.b64encode("Grüße".encode("latin-1")).decode(),
                "encoding": "base64",
            },
        },
    ]
    answer = get_session().post(
        f"{hub.endpoint}/api/datasets/{repo(publisher)}/commit/main",
        content="".join(json.dumps(line) + "\n" for line in lines).encode(),
        headers={"Authorization": f"Bearer {hub.token}", "Content-Type": "application/x-ndjson"},
    )
    assert answer.status_code == 200
    with pytest.raises(ArmError, match="the card is not UTF-8"):
        publisher.plan(hub)


def test_a_repository_that_is_deleted_meanwhile_is_an_error_of_ours(publisher: Publisher, hub: Hub) -> None:
    publisher.build()
    publisher.push(hub)
    publisher.version = "1.1.0"
    publisher.build()
    planned = publisher.plan(hub)
    hub.api.delete_repo(repo(publisher), repo_type="dataset")
    with pytest.raises(ArmError):
        publish(planned, hub)


def test_offline_is_said_at_once(publisher: Publisher, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:

    def offline(*_: object, **__: object) -> None:
        raise OfflineModeIsEnabled("offline")

    publisher.build()
    monkeypatch.setattr(hub.api, "list_repo_refs", offline)
    with pytest.raises(ArmError, match="HF_HUB_OFFLINE is set") as error:
        publisher.plan(hub)
    assert error.value.next_command == "unset HF_HUB_OFFLINE"


def test_a_pull_request_of_someone_else_is_not_taken(publisher: Publisher, hub: Hub) -> None:
    """It looks like the one of a killed run, and its author could still push to it."""
    publisher.build()
    planned = publisher.plan(hub)
    hub.api.create_repo(repo(publisher), repo_type="dataset")

    refs = hub.refs(repo(publisher))
    assert refs
    Upload(planned, hub, refs.head, lambda *_: None)._new_pull_request()
    monkey = hub.api.whoami
    hub.api.whoami = lambda *_, **__: {**monkey(), "name": "somebody-else"}  # type: ignore[method-assign]
    done = publish(publisher.plan(hub), hub, stage=True)
    states = {entry.num: entry.status for entry in hub.api.get_repo_discussions(repo(publisher), repo_type="dataset")}
    assert states == {1: "open", 2: "merged"}
    assert done.tagged


def test_another_repository_is_named_by_its_own_card_and_loader(publisher: Publisher, hub: Hub) -> None:
    publisher.build()
    other = f"lab/{publisher.name}-elsewhere"
    done = publisher.push(hub, repo=other)
    files = hub.files(other, done.commit)
    for name in ("README.md", "load.py", "manifest.json"):
        text = hub.read(other, files[name], done.commit).decode()
        assert f"{publisher.name}-elsewhere" in text
        assert f'lab/{publisher.name}"' not in text

    assert verify_revision(hub, other, "v1.0.0", check_build).issues == ()
    assert publisher.push(hub, repo=other).committed is False
    assert hub.refs(repo(publisher)) is None


def test_a_stray_file_on_main_is_told_although_the_version_is_published(publisher: Publisher, hub: Hub) -> None:
    publisher.build()
    publisher.push(hub)
    assert publisher.plan(hub).warnings == ()
    write(hub, repo(publisher), **{"data__states__train-9_dot_parquet": b"x"})
    (warning,) = publisher.plan(hub).warnings
    assert "data/states/train-9.parquet" in warning


def test_a_published_file_that_cannot_be_read_is_not_kept(publisher: Publisher, hub: Hub) -> None:
    publisher.build()
    done = publisher.push(hub)
    files = hub.files(repo(publisher), done.commit)
    (path,) = (path for path in files if path.startswith("data/states/"))
    manifest = orjson.loads(hub.read(repo(publisher), files["manifest.json"], done.commit))
    data = b"PAR1" + b"x" * 2000
    manifest["environment"]["files"][path] = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    key = path.replace("/", "__").replace(".", "_dot_")
    write(hub, repo(publisher), **{key: data, "manifest_dot_json": orjson.dumps(manifest)})
    publisher.version = "1.0.1"
    publisher.build()
    publisher.push(hub)
    assert verify_revision(hub, repo(publisher), "v1.0.1", check_build).issues == ()
