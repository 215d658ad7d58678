"""Pull requests and discussions, through the unmodified client."""

from __future__ import annotations

import pytest
from huggingface_hub import CommitOperationAdd
from huggingface_hub.errors import HfHubHTTPError, RevisionNotFoundError

from .conftest import Site, text_file


def test_stranger_proposes_owner_merges(site: Site, repo: str) -> None:
    bob, ann = site.api("bob"), site.api()
    site.commit(repo, text_file("a", b"1\n"))
    with pytest.raises(HfHubHTTPError) as refused:
        bob.create_commit(repo, [CommitOperationAdd("b", b"b")], commit_message="b", repo_type="dataset")
    assert refused.value.response.status_code == 403
    proposed = bob.create_commit(
        repo, [CommitOperationAdd("b", b"b")], commit_message="b", commit_description="why", repo_type="dataset",
        create_pr=True,
    )  # fmt: skip
    assert (proposed.pr_num, proposed.pr_revision) == (1, "refs/pr/1")
    bob.create_commit(
        repo, [CommitOperationAdd("c", b"c")], commit_message="c", repo_type="dataset", revision="refs/pr/1"
    )
    assert "b" not in ann.list_repo_files(repo, repo_type="dataset")
    assert {"b", "c"} <= set(ann.list_repo_files(repo, repo_type="dataset", revision="refs/pr/1"))
    site.commit(repo, text_file("d", b"meanwhile"))
    details = ann.get_discussion_details(repo, 1, repo_type="dataset")
    assert (details.status, details.author, details.conflicting_files) == ("open", "bob", [])
    assert [event.type for event in details.events] == ["comment", "commit", "commit"]
    assert "+++ b/c" in (details.diff or "")
    with pytest.raises(HfHubHTTPError):
        bob.merge_pull_request(repo, 1, repo_type="dataset")
    ann.merge_pull_request(repo, 1, comment="thanks", repo_type="dataset")
    details = ann.get_discussion_details(repo, 1, repo_type="dataset")
    assert details.status == "merged"
    assert details.merge_commit_oid == ann.dataset_info(repo).sha
    log = ann.list_repo_commits(repo, repo_type="dataset")
    assert log[0].title == "b (#1)"
    assert [line.split(" (")[0] for line in log[0].message.splitlines()] == ["- b", "- c"]
    assert {"a", "b", "c", "d"} <= set(ann.list_repo_files(repo, repo_type="dataset"))
    assert [
        r.name for r in ann.list_repo_refs(repo, repo_type="dataset", include_pull_requests=True).pull_requests or []
    ] == ["1"]


def test_conflict_is_not_merged(site: Site, repo: str) -> None:
    ann = site.api()
    site.commit(repo, text_file("a", b"1\n"))
    ann.create_commit(
        repo, [CommitOperationAdd("a", b"2\n")], commit_message="two", repo_type="dataset", create_pr=True
    )
    site.commit(repo, text_file("a", b"3\n"))
    head = ann.dataset_info(repo).sha
    assert ann.get_discussion_details(repo, 1, repo_type="dataset").conflicting_files == ["a"]
    with pytest.raises(HfHubHTTPError) as refused:
        ann.merge_pull_request(repo, 1, repo_type="dataset")
    assert refused.value.response.status_code == 409
    assert ann.dataset_info(repo).sha == head
    assert ann.get_discussion_details(repo, 1, repo_type="dataset").status == "open"


def test_pull_request_needs_a_branch(site: Site, repo: str) -> None:
    sha = site.api().dataset_info(repo).sha
    for revision in (sha, "nowhere"):
        with pytest.raises(RevisionNotFoundError):
            site.api().create_commit(
                repo, [CommitOperationAdd("a", b"a")], commit_message="a", repo_type="dataset", revision=revision,
                create_pr=True,
            )  # fmt: skip


def test_draft_must_be_opened(site: Site, repo: str) -> None:
    ann = site.api()
    draft = ann.create_pull_request(repo, " A draft ", repo_type="dataset")
    assert (draft.status, draft.title, draft.num) == ("draft", "A draft", 1)
    with pytest.raises(HfHubHTTPError):
        ann.merge_pull_request(repo, 1, repo_type="dataset")
    ann.change_discussion_status(repo, 1, "open", repo_type="dataset")
    assert ann.get_discussion_details(repo, 1, repo_type="dataset").status == "open"


def test_discussion(site: Site, repo: str) -> None:
    ann, bob = site.api(), site.api("bob")
    talk = bob.create_discussion(repo, "A question", description="<script>alert(1)</script>", repo_type="dataset")
    assert talk.url == f"{site.url}/datasets/{repo}/discussions/1"
    said = ann.comment_discussion(repo, 1, "an answer", repo_type="dataset")
    edited = ann.edit_discussion_comment(repo, 1, said.id, "a better answer", repo_type="dataset")
    details = ann.get_discussion_details(repo, 1, repo_type="dataset")
    first, second = details.events
    assert "<script>" not in first.rendered  # type: ignore[attr-defined]
    assert second == edited
    with pytest.raises(HfHubHTTPError):
        bob.edit_discussion_comment(repo, 1, said.id, "mine now", repo_type="dataset")
    renamed = bob.rename_discussion(repo, 1, "A better question", repo_type="dataset")
    assert (renamed.old_title, renamed.new_title) == ("A question", "A better question")
    bob.change_discussion_status(repo, 1, "closed", comment="done", repo_type="dataset")
    ann.create_pull_request(repo, "A change", repo_type="dataset")

    def numbers(**only: str) -> list[int]:
        return [d.num for d in ann.get_repo_discussions(repo, repo_type="dataset", **only)]  # type: ignore[arg-type]

    assert numbers() == [2, 1]
    assert numbers(discussion_status="closed") == [1]
    assert numbers(discussion_type="pull_request") == [2]
    assert numbers(author="bob") == [1]
    with pytest.warns(UserWarning, match="irreversible"):
        hidden = ann.hide_discussion_comment(repo, 1, first.id, repo_type="dataset")
    assert hidden.hidden
    assert "script" not in hidden.content
