"""Withdrawing a version: one commit that says so, carried on by every later release, and undone without a trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from action_reward_models.hub_sync import yank
from action_reward_models.hub_sync.hub import Hub
from action_reward_models.hub_sync.pull import pull
from action_reward_models.hub_sync.release import Remote
from action_reward_models.hub_sync.verify import verify_revision
from action_reward_models.hub_sync.yank import plan, withdraw, withdrawn
from action_reward_models.registry import check_build
from action_reward_models.schemas.errors import ArmError, UsageError
from action_reward_models.schemas.manifest import manifest_of
from action_reward_models.tests.faults.proxy import FaultProxy
from action_reward_models.tests.faults.script import Fault, Rule
from action_reward_models.tests.hub_sync.steps import commits, repo, tags, write

if TYPE_CHECKING:
    from tests.hub_sync.conftest import Publisher, Running

REASON = "labels of <another> run"


def read(hub: Hub, name: str, revision: str = "main") -> Remote:
    return Remote.read(hub, name, hub.resolve(name, revision))


@pytest.fixture
def published(publisher: Publisher, hub: Hub) -> str:
    publisher.build()
    publisher.push(hub)
    return repo(publisher)


def test_it_is_one_commit_of_manifest_and_card(published: str, hub: Hub) -> None:
    before, tagged = read(hub, published), tags(hub, published)
    assert withdrawn(hub, published) == {}
    planned = plan(hub, published, "v1.0.0", f"  {REASON} ")
    assert read(hub, published).commit == before.commit, "planning changes nothing"
    commit = withdraw(planned, hub)
    after = read(hub, published)
    assert commits(hub, published)[:2] == [commit, before.commit]
    assert after.commit == commit
    assert tags(hub, published) == tagged
    assert {p for p in after.files if after.files[p] != before.files.get(p)} == {"manifest.json", "README.md"}
    assert after.manifest
    assert before.manifest
    assert after.manifest["identity"] == before.manifest["identity"]
    assert after.manifest["environment"] == {**before.manifest["environment"], "withdrawn": {"1.0.0": REASON}}
    assert after.card
    assert "> **This version is withdrawn: do not use it.** labels of &#60;another&#62; run" in after.card
    assert withdrawn(hub, published) == {"1.0.0": REASON}
    assert yank.warning(hub, published, "1.0.0") == f"v1.0.0 of {published} is withdrawn: {REASON}"
    assert yank.warning(hub, published, "1.1.0") is None
    for revision in ("main", "v1.0.0"):
        found = verify_revision(hub, published, revision, check_build)
        assert found.issues == ()
        assert found.warnings == (f"v1.0.0 of {published} is withdrawn: {REASON}",)


def test_again_does_nothing_and_another_reason_replaces_it(published: str, hub: Hub) -> None:
    first = withdraw(plan(hub, published, "v1.0.0", REASON), hub)
    again = plan(hub, published, "v1.0.0", REASON)
    assert again.files == {}
    assert withdraw(again, hub) == first
    assert len(commits(hub, published)) == 3
    planned = plan(hub, published, "v1.0.0", "worse than that")
    assert planned.before == REASON
    withdraw(planned, hub)
    assert withdrawn(hub, published) == {"1.0.0": "worse than that"}


def test_undo_leaves_the_bytes_of_before(published: str, hub: Hub) -> None:
    before = read(hub, published)
    assert plan(hub, published, "v1.0.0", None).files == {}, "it is not withdrawn"
    withdraw(plan(hub, published, "v1.0.0", REASON), hub)
    withdraw(plan(hub, published, "v1.0.0", None), hub)
    after = read(hub, published)
    assert after.commit != before.commit
    assert after.files == before.files


def test_later_releases_carry_it_on_and_the_same_push_stays_a_no_op(
    publisher: Publisher, published: str, hub: Hub
) -> None:
    withdraw(plan(hub, published, "v1.0.0", REASON), hub)
    count = len(commits(hub, published))
    assert not publisher.push(hub).committed, "the tag holds what it held"
    assert len(commits(hub, published)) == count
    publisher.version, publisher.picks = "1.1.0", [1, 1, 0]
    publisher.build()
    assert "withdrawn" not in manifest_of(publisher.built)["environment"]
    done = publisher.push(hub)
    assert done.committed
    held = read(hub, published, "v1.1.0")
    assert held.manifest
    assert held.manifest["environment"]["withdrawn"] == {"1.0.0": REASON}
    assert held.card
    assert "- `v1.0.0`: labels of &#60;another&#62; run" in held.card
    assert "This version is withdrawn" not in held.card
    assert not publisher.push(hub).committed
    found = verify_revision(hub, published, "main", check_build)
    assert (found.issues, found.warnings) == ((), ())
    withdraw(plan(hub, published, "v1.0.0", None), hub)
    assert not publisher.push(hub).committed, "the second tag holds what it held, too"
    assert withdrawn(hub, published) == {}
    publisher.version = "1.2.0"
    publisher.build()
    publisher.push(hub)
    assert withdrawn(hub, published) == {}, "what was taken back is not carried on"


def test_a_withdrawal_between_commit_and_tag_is_kept(publisher: Publisher, published: str, hub: Hub) -> None:
    """A push that was killed before its tag, then a withdrawal, then the push again: nothing of either is lost."""
    publisher.version = "1.1.0"
    publisher.build()
    publisher.push(hub)
    hub.api.delete_tag(published, tag="v1.1.0", repo_type="dataset")
    commit = withdraw(plan(hub, published, "v1.0.0", REASON), hub)
    done = publisher.push(hub)
    assert (done.committed, done.tagged, done.commit) == (False, True, commit)


def test_a_person_s_words_stay(published: str, hub: Hub) -> None:
    card = read(hub, published).card
    assert card
    write(hub, published, README_dot_md=f"{card}\n## Mine\n\nWords.\n".encode(), notes_dot_txt=b"mine")
    withdraw(plan(hub, published, "v1.0.0", REASON), hub)
    after = read(hub, published)
    assert after.card
    assert after.card.endswith("\n## Mine\n\nWords.\n")
    assert "notes.txt" in after.files


def test_a_pulled_head_can_be_pushed_elsewhere_and_stays_withdrawn(
    publisher: Publisher, published: str, hub: Hub, tmp_path: Path
) -> None:
    withdraw(plan(hub, published, "v1.0.0", REASON), hub)
    pull(hub, published, "main", tmp_path / "pulled")
    assert verify_revision(hub, published, "main", check_build).issues == ()
    from action_reward_models.hub_sync.plan import plan as plan_push
    from action_reward_models.hub_sync.publish import publish

    other = f"{published}-copy"
    publish(plan_push(tmp_path / "pulled", hub, check=check_build, repo=other), hub)
    assert withdrawn(hub, other) == {"1.0.0": REASON}


@pytest.mark.parametrize("undo", [False, True])
def test_an_answer_that_is_lost_is_found_and_a_killed_run_can_be_run_again(
    published: str, hub: Hub, running: Running, undo: bool
) -> None:
    """The commit is made and its answer never arrives: nothing is committed twice."""
    if undo:
        withdraw(plan(hub, published, "v1.0.0", REASON), hub)
    reason = None if undo else REASON
    count = len(commits(hub, published))
    with FaultProxy(running.url, [Rule(Fault("drop_after"), method="POST", path="/commit/")]) as proxy:
        behind = Hub(proxy.url, running.token)
        planned = plan(behind, published, "v1.0.0", reason)
        commit = withdraw(planned, behind)
    assert commits(hub, published)[0] == commit
    assert len(commits(hub, published)) == count + 1
    # As the next run after a kill: it knows nothing of the first one.
    again = plan(hub, published, "v1.0.0", reason)
    assert again.files == {}
    assert withdraw(again, hub) == commit
    assert withdraw(planned, hub) == commit, "nor does what was planned before commit it again"
    assert len(commits(hub, published)) == count + 1


def test_a_moved_head_is_planned_anew(published: str, hub: Hub) -> None:
    planned = plan(hub, published, "v1.0.0", REASON)
    theirs = write(hub, published, notes_dot_txt=b"meanwhile")
    commit = withdraw(planned, hub)
    assert commits(hub, published)[:2] == [commit, theirs]
    assert "notes.txt" in read(hub, published).files
    assert withdrawn(hub, published) == {"1.0.0": REASON}


def test_a_head_that_never_rests_is_told(published: str, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = plan(hub, published, "v1.0.0", REASON)
    real = hub.api.create_commit
    moves = iter(range(100))

    def create_commit(*words: Any, **options: Any) -> Any:
        hub.api.create_commit = real  # type: ignore[method-assign]
        write(hub, published, notes_dot_txt=f"{next(moves)}".encode())
        hub.api.create_commit = create_commit  # type: ignore[method-assign]
        return real(*words, **options)

    monkeypatch.setattr(hub.api, "create_commit", create_commit)
    with pytest.raises(ArmError, match=r"someone else published meanwhile: this rests on [0-9a-f]{40}, the head is"):
        withdraw(planned, hub)
    assert next(moves) == 4, "it was planned anew three times"
    assert withdrawn(hub, published) == {}


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("  ", "says nothing"),
        ("two\nlines", "is not one line"),
        ("turn\u202eed", "is not one line of printable text"),
        ("x" * 501, "has 501 characters, and 500 are allowed"),
        ("the key hf_aB3dE6gH9kLmN2pQ5sT8vW1xYz4c7F0jRu is in it", "what looks like a secret"),
    ],
)
def test_a_reason_is_a_line_for_everybody(reason: str, said: str, hub: Hub) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        plan(hub, "lab/any", "v1.0.0", reason)
    assert "hf_aB3" not in str(caught.value)


def test_what_cannot_be_withdrawn(published: str, hub: Hub) -> None:
    for tag in ("main", "1.0.0", "v01.0.0", "v1.0.0\n"):
        with pytest.raises(UsageError, match="is no tag of a version"):
            plan(hub, published, tag, REASON)
    with pytest.raises(ArmError, match=r"has no tag v9.9.9; its versions: v1.0.0"):
        plan(hub, published, "v9.9.9", REASON)
    with pytest.raises(ArmError, match="there is no such dataset"):
        plan(hub, "lab/nothing-of-that-name", "v1.0.0", REASON)
    assert withdrawn(hub, "lab/nothing-of-that-name") == {}
    write(hub, published, manifest_dot_json=b"{}")
    with pytest.raises(ArmError, match="branch main holds a manifest that this version does not read"):
        plan(hub, published, "v1.0.0", REASON)
    assert withdrawn(hub, published) == {}
    write(hub, published, manifest_dot_json=None)
    with pytest.raises(ArmError, match=r"branch main holds no manifest.json"):
        plan(hub, published, "v1.0.0", REASON)
    assert withdrawn(hub, published) == {}


def test_broken_markers_stop_it_before_anything_is_written(published: str, hub: Hub) -> None:
    card = read(hub, published).card
    assert card
    broken = write(hub, published, README_dot_md=card.replace("<!-- action-reward-models:end -->", "").encode())
    with pytest.raises(ArmError, match="markers are broken"):
        plan(hub, published, "v1.0.0", REASON)
    assert commits(hub, published)[0] == broken


def test_the_manifest_takes_no_other_entries(published: str, hub: Hub) -> None:
    """Whoever may write to the repository writes the entries: what is no version or no line is no manifest."""
    manifest = orjson.loads(read(hub, published).manifest_bytes)
    for wrong in ({"1.0": "x"}, {"1.0.0\n": "x"}, {"1.0.0": ""}, {"1.0.0": "a\nb"}, {"1.0.0": "x" * 501}, {"1.0.0": 1}):
        manifest["environment"]["withdrawn"] = wrong
        write(hub, published, manifest_dot_json=orjson.dumps(manifest))
        assert withdrawn(hub, published) == {}, wrong
    manifest["environment"]["withdrawn"] = {"1.0.0": "right"}
    write(hub, published, manifest_dot_json=orjson.dumps(manifest))
    assert withdrawn(hub, published) == {"1.0.0": "right"}


def test_the_command_and_the_warnings_of_pull(published: str, hub: Hub, running: Running, tmp_path: Path) -> None:
    target = f"{published}@v1.0.0"
    for words, said in (
        (("yank", target), "either a reason or --undo is needed"),
        (("yank", target, "--reason", "x", "--undo"), "either a reason or --undo is needed"),
        (("yank", target, "--reason", "x"), "nobody can be asked here"),
        (("yank", published, "--reason", "x", "--yes"), "'main' is no tag of a version"),
    ):
        done = running.arm(*words, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert said in done.stderr
    assert withdrawn(hub, published) == {}
    done = running.arm("yank", target, "--reason", REASON, "--yes", "--json", cwd=tmp_path)
    report = orjson.loads(done.stdout)
    assert report["committed"] is True
    assert report["commit"] == commits(hub, published)[0]
    assert report["withdrawal"]["reason"] == REASON
    again = running.arm("yank", target, "--reason", REASON, cwd=tmp_path)  # nothing to do, and so nobody is asked
    assert "v1.0.0 is withdrawn already, for this reason: nothing to do" in again.stderr
    pulled = running.arm("pull", target, "--out", "one", cwd=tmp_path)
    assert f"warning: v1.0.0 of {published} is withdrawn: {REASON}" in pulled.stderr
    pulled = running.arm("pull", target, "--out", "two", "--json", cwd=tmp_path)
    assert orjson.loads(pulled.stdout)["warnings"] == [f"v1.0.0 of {published} is withdrawn: {REASON}"]
    verified = running.arm("verify", target, cwd=tmp_path)
    assert verified.returncode == 0
    assert f"warning: v1.0.0 of {published} is withdrawn: {REASON}" in verified.stderr
    assert running.arm("yank", target, "--undo", "--yes", cwd=tmp_path).returncode == 0
    done = running.arm("yank", target, "--undo", "--yes", cwd=tmp_path)
    assert "v1.0.0 is not withdrawn: nothing to do" in done.stderr
