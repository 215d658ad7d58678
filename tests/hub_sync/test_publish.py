"""Publishing: one commit, read back, a tag that never moves; and again without doing anything twice."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pyarrow.parquet as pq
import pytest
from action_reward_models.hub_sync.hub import Hub
from action_reward_models.hub_sync.publish import publish
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.ids import file_sha256
from action_reward_models.tests.hub_sync.steps import commits, repo, tags, write
from PIL import Image

if TYPE_CHECKING:
    from tests.hub_sync.conftest import Publisher


def test_a_push_is_one_commit_and_a_tag(publisher: Publisher, hub: Hub) -> None:
    built = publisher.build()
    planned = publisher.plan(hub)
    assert planned.base is None
    assert hub.refs(repo(publisher)) is None, "planning changes nothing"
    done = publish(planned, hub)
    assert done.committed
    assert done.tagged
    assert commits(hub, repo(publisher))[0] == done.commit
    assert len(commits(hub, repo(publisher))) == 2, "the Hub's own first commit, and ours"
    assert tags(hub, repo(publisher)) == {"v1.0.0": done.commit}
    here = {p.relative_to(built).as_posix() for p in built.rglob("*") if p.is_file()}
    assert set(hub.files(repo(publisher), done.commit)) == {*here, ".gitattributes"}
    assert done.loaded["states"] == {"train": 3}


def test_a_second_push_does_nothing(publisher: Publisher, hub: Hub) -> None:
    publisher.build()
    first = publisher.push(hub)
    before = commits(hub, repo(publisher))
    second = publisher.push(hub)
    assert (second.commit, second.committed, second.tagged) == (first.commit, False, False)
    assert commits(hub, repo(publisher)) == before


def test_a_rebuild_of_the_same_rows_does_nothing(publisher: Publisher, hub: Hub) -> None:
    built = publisher.build()
    first = publisher.push(hub)
    manifest = orjson.loads((built / "manifest.json").read_bytes())
    # As a build on another machine with another writer would be: other bytes of the same rows, other times.
    (path,) = built.glob("data/states/*.parquet")
    pq.write_table(pq.read_table(path), path, compression="snappy")
    name = path.relative_to(built).as_posix()
    manifest["environment"]["files"][name] = {"sha256": file_sha256(path), "bytes": path.stat().st_size}
    manifest["environment"]["created"] = "2030-01-01T00:00:00Z"
    (built / "manifest.json").write_bytes(orjson.dumps(manifest))
    renewed = publisher.build()
    from action_reward_models.cards.dataset import render

    (renewed / "README.md").write_text(render(manifest))
    again = publisher.push(hub)
    assert (again.commit, again.committed) == (first.commit, False)


def test_figures_that_another_library_drew_are_no_new_version(publisher: Publisher, hub: Hub) -> None:
    built = publisher.build()
    assert (built / "assets" / "slots.png").is_file()
    first = publisher.push(hub)
    _draw_otherwise(built)
    planned = publisher.plan(hub)
    assert (planned.tagged, planned.operations) == (first.commit, ())
    assert planned.warnings == (
        "the card, its figures or load.py would be written otherwise now; the next release will",
    )  # fmt: skip
    publisher.version = "1.0.1"
    _draw_otherwise(publisher.build())
    sent = {operation.path for operation in publisher.plan(hub).operations}
    assert sent == {"README.md", "assets/slots.png", "load.py", "manifest.json"}


def test_a_changed_figure_is_no_excuse_for_other_rows_or_words(publisher: Publisher, hub: Hub) -> None:
    built = publisher.build()
    publisher.push(hub)
    _draw_otherwise(built)
    card = built / "README.md"
    card.write_text(card.read_text() + "\nWords of a person.\n")
    with pytest.raises(ArmError, match=r"v1\.0\.0 is published"):
        publisher.plan(hub)


def _draw_otherwise(built: Path) -> None:
    """As matplotlib of another version would."""
    path = built / "assets" / "slots.png"
    image = Image.open(path)
    image.putpixel((0, 0), (1, 2, 3, 4))
    image.save(path)
    manifest = orjson.loads((built / "manifest.json").read_bytes())
    manifest["environment"]["files"]["assets/slots.png"] = {"sha256": file_sha256(path), "bytes": path.stat().st_size}
    (built / "manifest.json").write_bytes(orjson.dumps(manifest))


def test_only_what_changed_is_sent(publisher: Publisher, hub: Hub) -> None:
    publisher.build()
    publisher.push(hub)
    publisher.picks[0] = 1
    publisher.version = "1.1.0"
    publisher.build()
    planned = publisher.plan(hub)
    sent = {operation.path for operation in planned.operations}
    assert {path.split("/")[1] for path in sent if path.startswith("data/")} == {"teacher_labels", "selection_sft"}
    done = publish(planned, hub)
    assert tags(hub, repo(publisher))["v1.1.0"] == done.commit
    assert len(tags(hub, repo(publisher))) == 2
    assert len(commits(hub, repo(publisher))) == 3


def test_a_published_version_never_changes(publisher: Publisher, hub: Hub) -> None:
    publisher.build()
    first = publisher.push(hub)
    later = write(hub, repo(publisher), notes_dot_txt=b"by hand")
    publisher.picks[0] = 1
    publisher.build()
    with pytest.raises(ArmError) as error:
        publisher.plan(hub)
    assert first.commit in error.value.message
    assert later in error.value.message
    assert "raise the version" in str(error.value.next_command)


def test_a_tag_that_stands_elsewhere_is_not_moved(publisher: Publisher, hub: Hub) -> None:
    publisher.build()
    planned = publisher.plan(hub)
    hub.api.create_repo(repo(publisher), repo_type="dataset")
    refs = hub.refs(repo(publisher))
    assert refs
    hub.api.create_tag(repo(publisher), tag="v1.0.0", revision=refs.head, repo_type="dataset")
    with pytest.raises(ArmError) as error:
        publish(planned, hub)
    written = hub.refs(repo(publisher))
    assert written
    assert refs.head in error.value.message
    assert written.head in error.value.message
    assert written.tags == {"v1.0.0": refs.head}


def test_an_older_version_is_refused(publisher: Publisher, hub: Hub) -> None:
    publisher.version = "1.10.0"
    publisher.build()
    publisher.push(hub)
    publisher.version = "1.9.0"
    publisher.build()
    with pytest.raises(ArmError, match=r"1\.9\.0 is older than 1\.10\.0"):
        publisher.plan(hub)


def test_the_loser_of_a_race_is_told(publisher: Publisher, hub: Hub, tmp_path: Path) -> None:
    other = replace(publisher, folder=tmp_path / "other", picks=[1, 1])
    publisher.build()
    publisher.push(hub)
    publisher.version = other.version = "1.1.0"
    publisher.picks = [1, 0]
    publisher.build()
    other.build()
    ours, theirs = publisher.plan(hub), other.plan(hub)
    won = publish(ours, hub)
    with pytest.raises(ArmError) as error:
        publish(theirs, hub)
    assert str(theirs.base) in error.value.message
    assert won.commit in error.value.message
    assert "arm push" in str(error.value.next_command)
    assert tags(hub, repo(publisher))["v1.1.0"] == won.commit


def test_two_publishers_of_the_same_build_both_succeed(publisher: Publisher, hub: Hub) -> None:
    publisher.build()
    publisher.push(hub)
    publisher.version = "1.1.0"
    publisher.picks = [1, 0]
    publisher.build()
    ours, theirs = publisher.plan(hub), publisher.plan(hub)
    assert publish(ours, hub).commit == publish(theirs, hub).commit
    assert len(commits(hub, repo(publisher))) == 3


def test_what_the_next_version_does_not_have_is_deleted_and_other_files_stay(publisher: Publisher, hub: Hub) -> None:
    built = publisher.build()
    publisher.push(hub)
    write(hub, repo(publisher), LICENSE=b"MIT", notebooks__look_dot_ipynb=b"{}")
    publisher.version = "1.1.0"
    text = (publisher.folder / "registry.yaml").read_text()
    publisher.build()
    registry = (publisher.folder / "registry.yaml").read_text()
    assert registry != text
    cut = registry.replace("      selection_sft: {prompt: selection/1, images: reference}\n", "")
    (publisher.folder / "registry.yaml").write_text(cut)
    from action_reward_models.registry import Registry

    Registry.load(publisher.folder).build(workers=1)
    done = publisher.push(hub)
    files = set(hub.files(repo(publisher), done.commit))
    assert not any("selection_sft" in path for path in files)
    assert {"LICENSE", "notebooks/look.ipynb", ".gitattributes"} <= files
    assert built == publisher.built


def test_a_stranger_among_the_data_files_is_refused(publisher: Publisher, hub: Hub) -> None:
    publisher.build()
    publisher.push(hub)
    write(hub, repo(publisher), data__states__train_dot_parquet=b"x")
    publisher.version = "1.1.0"
    publisher.build()
    assert publisher.plan(hub).operations, "no glob reads it"
    write(hub, repo(publisher), **{"data__states__train-9_dot_parquet": b"x"})
    with pytest.raises(ArmError, match="that no build made") as error:
        publisher.plan(hub)
    assert "data/states/train-9.parquet" in error.value.message


def test_a_private_repository(publisher: Publisher, hub: Hub) -> None:
    publisher.build()
    done = publisher.push(hub, private=True)
    assert hub.api.repo_info(repo(publisher), repo_type="dataset").private
    assert done.loaded["states"] == {"train": 3}, "read back with the token"
    assert Hub(hub.endpoint).refs(repo(publisher)) is None, "a stranger sees nothing"


def test_a_staged_push_goes_through_a_pull_request(publisher: Publisher, hub: Hub) -> None:
    publisher.build()
    done = publisher.push(hub, stage=True)
    (request,) = hub.api.get_repo_discussions(repo(publisher), repo_type="dataset")
    assert (request.status, request.is_pull_request) == ("merged", True)
    assert tags(hub, repo(publisher)) == {"v1.0.0": done.commit}
    assert publisher.push(hub, stage=True).committed is False


def test_a_full_read_back_reads_every_shard(publisher: Publisher, hub: Hub) -> None:
    publisher.build()
    done = publisher.push(hub, full=True)
    assert done.loaded == {
        table: {"train": entry["splits"]["train"]["rows"]}
        for table, entry in json.loads((publisher.built / "manifest.json").read_text())["identity"]["tables"].items()
        if entry["splits"]
    }


def test_a_gitignore_on_the_hub_cannot_leave_files_out(publisher: Publisher, hub: Hub) -> None:
    publisher.build()
    hub.api.create_repo(repo(publisher), repo_type="dataset")
    before = write(hub, repo(publisher), _dot_gitignore=b"*.parquet\n")
    with pytest.raises(ArmError, match=r"\.gitignore leaves out"):
        publisher.push(hub)
    refs = hub.refs(repo(publisher))
    assert refs
    assert (refs.head, refs.tags) == (before, {})


def test_a_file_that_changes_between_check_and_upload_is_not_published(publisher: Publisher, hub: Hub) -> None:
    built = publisher.build()
    planned = publisher.plan(hub)
    (path,) = built.glob("data/states/*.parquet")
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(ArmError, match="changed since it was checked"):
        publish(planned, hub)
    assert not tags(hub, repo(publisher))


def test_a_build_with_issues_never_meets_the_network(publisher: Publisher) -> None:
    built = publisher.build()
    (path,) = built.glob("data/states/*.parquet")
    path.write_bytes(path.read_bytes()[:-100])
    nowhere = Hub("http://127.0.0.1:1", "hf_x")
    with pytest.raises(ArmError) as error:
        publisher.plan(nowhere)
    assert any(issue.file.endswith("train-00000-of-00001.parquet") for issue in error.value.issues)


def test_no_token_and_wrong_tokens_are_told(publisher: Publisher, hub: Hub) -> None:
    publisher.build()
    planned = publisher.plan(Hub(hub.endpoint))
    with pytest.raises(ArmError, match="needs a token"):
        publish(planned, Hub(hub.endpoint))
    wrong = Hub(hub.endpoint, "hf_nobody_has_this_token")
    with pytest.raises(ArmError, match="the Hub refuses") as error:
        publish(planned, wrong)
    assert "hf_nobody" not in str(error.value)
    assert "HF_TOKEN" in str(error.value.next_command)
