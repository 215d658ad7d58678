"""Commits, history, references and trees, through the unmodified client."""

from __future__ import annotations

import io

import pytest
from huggingface_hub import CommitOperationAdd, CommitOperationCopy, CommitOperationDelete
from huggingface_hub.errors import BadRequestError, EntryNotFoundError, HfHubHTTPError, RevisionNotFoundError

from .conftest import Site, text_file


@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # the client's own
def test_add_copy_delete(site: Site, repo: str) -> None:
    api = site.api()
    first = api.create_commit(
        repo,
        [
            CommitOperationAdd("a.txt", b"one"),
            CommitOperationAdd("deep/er/b.bin", io.BytesIO(b"\0" * 600)),  # a stream goes over LFS, not over Xet
            CommitOperationAdd("deep/c.txt", b""),
        ],
        commit_message="first",
        commit_description="said more",
        repo_type="dataset",
    )
    assert first.commit_url == f"{site.url}/datasets/{repo}/commit/{first.oid}"
    second = api.create_commit(
        repo,
        [
            CommitOperationCopy("deep/er/b.bin", "copy.bin"),
            CommitOperationCopy("a.txt", "copy.txt", src_revision=first.oid),
            CommitOperationDelete("deep/"),
            CommitOperationAdd("deep", b"now a file"),
        ],
        commit_message="second",
        parent_commit=first.oid[:7],
        repo_type="dataset",
    )
    assert api.list_repo_files(repo, repo_type="dataset") == [".gitattributes", "a.txt", "copy.bin", "copy.txt", "deep"]
    assert "deep/er/b.bin" in api.list_repo_files(repo, repo_type="dataset", revision=first.oid[:9])
    log = api.list_repo_commits(repo, repo_type="dataset", formatted=True)
    assert [(c.commit_id, c.title, c.message, c.authors) for c in log[:2]] == [
        (second.oid, "second", "", ["ann"]),
        (first.oid, "first", "said more", ["ann"]),
    ]
    assert log[0].formatted_title == "second"
    again = api.create_commit(
        repo, [CommitOperationAdd("a.txt", b"one")], commit_message="nothing new", repo_type="dataset"
    )
    assert again.oid == second.oid, "the client saw that nothing changed"


def test_parent_must_be_the_head(site: Site, repo: str) -> None:
    api, start = site.api(), site.api().dataset_info(repo).sha
    api.create_commit(
        repo, [CommitOperationAdd("a", b"a")], commit_message="a", repo_type="dataset", parent_commit=start
    )
    with pytest.raises(HfHubHTTPError, match="The branch was updated since you opened this page") as refused:
        api.create_commit(
            repo, [CommitOperationAdd("b", b"b")], commit_message="b", repo_type="dataset", parent_commit=start
        )
    assert refused.value.response.status_code == 412
    assert api.list_repo_files(repo, repo_type="dataset") == [".gitattributes", "a"]


def test_refused_changes_leave_nothing(site: Site, repo: str) -> None:
    site.commit(repo, text_file("f", b"x"), text_file("d/x", b"x"))
    head = site.api().dataset_info(repo).sha
    assert head
    answer = site.commit(repo, text_file("new", b"x"), ("deletedFile", {"path": "missing"}))
    assert (answer.status, answer.headers["X-Error-Code"]) == (404, "EntryNotFound")
    assert site.commit(repo, text_file("new", b"x"), text_file("f/under", b"x")).status == 422
    assert site.commit(repo, text_file("new", b"x"), text_file("d", b"x")).status == 422
    assert site.commit(repo, ("nonsense", {"path": "x"})).status == 400
    assert site.call("POST", f"/api/datasets/{repo}/commit/main", user="ann", body=b"no json\n").status == 400
    assert site.call("POST", f"/api/datasets/{repo}/commit/main", user="ann", body=b"").status == 400
    for rev in ("none", head):
        answer = site.commit(repo, text_file("new", b"x"), rev=rev)
        assert (answer.status, answer.headers["X-Error-Code"]) == (404, "RevisionNotFound")
    assert site.api().dataset_info(repo).sha == head


def test_tags(site: Site, repo: str) -> None:
    api, start = site.api(), site.api().dataset_info(repo).sha
    api.create_tag(repo, tag="v1", tag_message="first", repo_type="dataset")
    oid = api.create_commit(repo, [CommitOperationAdd("a", b"a")], commit_message="a", repo_type="dataset").oid
    api.create_tag(repo, tag="v2", revision=oid[:8], repo_type="dataset")
    assert api.dataset_info(repo, revision="v1").sha == start
    assert api.dataset_info(repo, revision="refs/tags/v2").sha == oid
    with pytest.raises(HfHubHTTPError) as refused:
        api.create_tag(repo, tag="v1", repo_type="dataset")
    assert refused.value.response.status_code == 409
    api.create_tag(repo, tag="v1", repo_type="dataset", exist_ok=True)
    assert api.dataset_info(repo, revision="v1").sha == start, "a tag does not move"
    with pytest.raises(RevisionNotFoundError):
        api.create_tag(repo, tag="v3", revision="foobar", repo_type="dataset")
    for bad in ("a b", "a..b", "-a", "a.lock", "a~1", "", "refs/tags/a"):
        with pytest.raises(HfHubHTTPError):
            api.create_tag(repo, tag=bad, repo_type="dataset")
    api.delete_tag(repo, tag="v1", repo_type="dataset")
    with pytest.raises(RevisionNotFoundError):
        api.dataset_info(repo, revision="v1")
    with pytest.raises(RevisionNotFoundError):
        api.delete_tag(repo, tag="v1", repo_type="dataset")


def test_branches(site: Site, repo: str) -> None:
    api = site.api()
    api.create_branch(repo, branch="a/b", repo_type="dataset")
    api.create_commit(
        repo, [CommitOperationAdd("x/y.txt", b"on the branch")], commit_message="m", repo_type="dataset", revision="a/b"
    )
    assert api.list_repo_files(repo, repo_type="dataset") == [".gitattributes"]
    for quoted in ("a%2Fb", "a/b", "refs%2Fheads%2Fa%2Fb", "refs/heads/a/b"):
        for path in ("x/y.txt", "x%2Fy.txt"):
            assert site.call("GET", f"/datasets/{repo}/resolve/{quoted}/{path}").body == b"on the branch", quoted
        assert site.call("GET", f"/api/datasets/{repo}/tree/{quoted}/x").json[0]["path"] == "x/y.txt"
        assert site.call("GET", f"/api/datasets/{repo}/revision/{quoted}").status == 200
    refs = api.list_repo_refs(repo, repo_type="dataset")
    assert [ref.name for ref in refs.branches] == ["main", "a/b"]
    with pytest.raises(HfHubHTTPError, match="Reference refs/heads/main already exists"):
        api.create_branch(repo, branch="main", repo_type="dataset")
    for bad in ("refs/pr/5", "refs/other/x", "a b"):
        with pytest.raises(BadRequestError, match="Invalid reference for a branch"):
            api.create_branch(repo, branch=bad, repo_type="dataset")
    with pytest.raises(HfHubHTTPError, match="Cannot delete refs/heads/main"):
        api.delete_branch(repo, branch="main", repo_type="dataset")
    with pytest.raises(HfHubHTTPError, match="Invalid rev id"):
        api.delete_branch(repo, branch="none", repo_type="dataset")
    api.delete_branch(repo, branch="a/b", repo_type="dataset")
    api.create_branch(repo, branch="refs/convert/parquet", repo_type="dataset")
    refs = api.list_repo_refs(repo, repo_type="dataset")
    assert ([r.name for r in refs.branches], [r.name for r in refs.converts]) == (["main"], ["parquet"])


def test_squash(site: Site, repo: str) -> None:
    api = site.api()
    old = api.create_commit(repo, [CommitOperationAdd("a", b"a")], commit_message="a", repo_type="dataset").oid
    api.super_squash_history(repo, repo_type="dataset")
    assert [c.title for c in api.list_repo_commits(repo, repo_type="dataset")] == [
        "Super-squash branch 'main' using huggingface_hub"
    ]
    assert api.list_repo_files(repo, repo_type="dataset") == [".gitattributes", "a"]
    assert api.dataset_info(repo, revision=old).sha == old


def test_large_tree_in_pages(site: Site, repo: str) -> None:
    lines = [text_file(f"d{number % 7}/f{number:04}.txt", b"%d" % number) for number in range(1230)]
    assert site.commit(repo, *lines).status == 200
    api = site.api()
    found = list(api.list_repo_tree(repo, recursive=True, repo_type="dataset"))
    assert len(found) == 1230 + 7 + 1
    assert len(api.list_repo_files(repo, repo_type="dataset")) == 1231
    assert site.commit(repo, text_file("d3/f0003.txt", b"later")).status == 200
    expanded = list(api.list_repo_tree(repo, "d3", expand=True, repo_type="dataset"))
    assert len(expanded) == 176  # four pages
    head = api.dataset_info(repo).sha
    later = [e for e in expanded if e.last_commit and e.last_commit.oid == head]
    assert [e.path for e in later] == ["d3/f0003.txt"]
    with pytest.raises(EntryNotFoundError):
        list(api.list_repo_tree(repo, "nowhere", repo_type="dataset"))


def test_history_in_pages(site: Site, repo: str) -> None:
    for number in range(60):
        assert site.commit(repo, text_file("n", b"%d" % number)).status == 200
    assert len(site.api().list_repo_commits(repo, repo_type="dataset")) == 61


def test_paths_info(site: Site, repo: str) -> None:
    site.commit(repo, text_file("a&b=c/ü +.txt", b"x"))
    found = site.api().get_paths_info(repo, ["a&b=c/ü +.txt", "missing", "a&b=c"], repo_type="dataset", expand=True)
    assert [entry.path for entry in found] == ["a&b=c/ü +.txt", "a&b=c"]
    assert all(entry.last_commit and entry.last_commit.title == "change" for entry in found)
    path = f"/api/datasets/{repo}/paths-info/main"
    assert site.call("POST", path, body={"paths": ["a&b=c"], "expand": False}).json[0]["type"] == "directory"
    assert site.call("POST", path, body=b"paths=%ff", Content_Type="application/x-www-form-urlencoded").status == 400


def test_stored_files_are_listed_and_forgotten(site: Site, repo: str) -> None:
    oid = site.store(repo, b"secret bytes")
    site.commit(repo, ("lfsFile", {"path": "s.bin", "algo": "sha256", "oid": oid, "size": 12}), text_file("t", b"x"))
    site.commit(repo, text_file("t", b"y"))
    api = site.api()
    (found,) = api.list_lfs_files(repo, repo_type="dataset")
    assert (found.filename, found.file_oid, found.ref) == ("s.bin", oid, "refs/heads/main")
    api.permanently_delete_lfs_files(repo, [found], repo_type="dataset")
    assert api.list_repo_files(repo, repo_type="dataset") == [".gitattributes", "t"]
    assert [c.title for c in api.list_repo_commits(repo, repo_type="dataset")] == ["change", "change", "initial commit"]
    assert not list(site.folder.glob(f"objects/*/*/{oid}"))


def test_ignored_and_large_files(site: Site, repo: str) -> None:
    site.commit(repo, text_file(".gitignore", b"build/\n*.tmp\n!keep.tmp\n"))
    files = [
        {"path": "a.tmp", "size": 1, "sample": "eA=="},
        {"path": "keep.tmp", "size": 1, "sample": "eA=="},
        {"path": "build/x", "size": 1, "sample": "eA=="},
        {"path": "t.parquet", "size": 1, "sample": "eA=="},
        {"path": "binary", "size": 3, "sample": "AAEC"},
        {"path": "long.txt", "size": 11 * 2**20, "sample": "eA=="},
    ]
    path = f"/api/datasets/{repo}/preupload/main"
    answer = site.call("POST", path, user="ann", body={"files": files}).json["files"]
    assert [f["shouldIgnore"] for f in answer] == [True, False, True, False, False, False]
    assert [f["uploadMode"] for f in answer] == ["regular", "regular", "regular", "lfs", "lfs", "lfs"]
    given = site.call("POST", path, user="ann", body={"files": files, "gitIgnore": "*.txt"}).json["files"]
    assert [f["shouldIgnore"] for f in given] == [False] * 5 + [True]
