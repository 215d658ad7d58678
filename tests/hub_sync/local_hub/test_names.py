"""Names that may mean two things: revisions, former names of repositories, paths, text in headers."""

from __future__ import annotations

from pathlib import Path

import pytest
from action_reward_models.hub_sync.local_hub.errors import HubError
from action_reward_models.hub_sync.local_hub.paths import checked_path, is_ref_name

from .conftest import Site, text_file


def content(site: Site, repo: str, rev: str) -> bytes:
    return site.call("GET", f"/datasets/{repo}/resolve/{rev}/a").body


def test_a_tag_stays_what_it_is_when_a_branch_has_its_name(site: Site, repo: str) -> None:
    site.commit(repo, text_file("a", b"tagged"))
    assert site.call("POST", f"/api/datasets/{repo}/tag/main", user="ann", body={"tag": "v1.0.0"}).status == 201
    site.commit(repo, text_file("a", b"later"))
    assert site.call("POST", f"/api/datasets/{repo}/branch/v1.0.0", user="ann", body={}).status == 201
    assert content(site, repo, "v1.0.0") == content(site, repo, "refs%2Ftags%2Fv1.0.0") == b"tagged"
    assert content(site, repo, "refs%2Fheads%2Fv1.0.0") == b"later"
    assert site.commit(repo, text_file("a", b"on the branch"), rev="v1.0.0").status == 200
    assert content(site, repo, "v1.0.0") == b"tagged"
    assert content(site, repo, "refs%2Fheads%2Fv1.0.0") == b"on the branch"


def test_no_reference_hides_a_commit_or_the_main_branch(site: Site, repo: str) -> None:
    sha = site.commit(repo, text_file("a", b"first")).json["commitOid"]
    site.commit(repo, text_file("a", b"second"))
    for name in (sha, sha.upper(), "f" * 40):
        assert site.call("POST", f"/api/datasets/{repo}/branch/{name}", user="ann", body={}).status == 400
        assert site.call("POST", f"/api/datasets/{repo}/tag/main", user="ann", body={"tag": name}).status == 400
        assert not is_ref_name(name)
    assert is_ref_name("f" * 39)
    assert content(site, repo, sha) == content(site, repo, sha[:9]) == b"first"
    assert site.call("POST", f"/api/datasets/{repo}/tag/{sha}", user="ann", body={"tag": "main"}).status == 400
    assert content(site, repo, "main") == b"second"


@pytest.mark.parametrize("name", ["api", "models", "datasets", "resolve"])
@pytest.mark.parametrize("kind", ["model", "dataset", "space"])
def test_a_former_name_leads_on_whatever_it_is(site: Site, name: str, kind: str) -> None:
    api, old, new = site.api(), f"lab/{name}", f"lab/{name}-{kind}"
    api.create_repo(old, repo_type=kind, space_sdk="static" if kind == "space" else None)
    api.move_repo(old, new, repo_type=kind)
    web = "" if kind == "model" else f"/{kind}s"
    try:
        for path in (web + "/{}", web + "/{}/resolve/main/x", f"/api/{kind}s/{{}}", f"/api/{kind}s/{{}}/tree/main?a=b"):
            answer = site.call("GET", path.format(old), user="ann")
            assert (answer.status, answer.headers["Location"]) == (307, path.format(new)), path
        path = f"{web}/{{}}.git/info/lfs/objects/batch"
        answer = site.call("POST", path.format(old), user="ann", body={"operation": "download", "objects": []})
        assert (answer.status, answer.headers["Location"]) == (307, path.format(new))
    finally:
        api.delete_repo(new, repo_type=kind)


@pytest.mark.parametrize("kind", ["model", "dataset"])
def test_a_repository_may_be_called_as_a_step_of_an_address(site: Site, kind: str, tmp_path: Path) -> None:
    api = site.api()
    for name in ("lab/resolve", "lab/tree"):
        api.create_repo(name, repo_type=kind, private=False)
        api.create_branch(name, branch="resolve", repo_type=kind)
        for rev in ("main", "resolve"):
            got = api.hf_hub_download(name, ".gitattributes", repo_type=kind, revision=rev, cache_dir=tmp_path)
            assert "lfs" in Path(got).read_text("utf-8")
        api.delete_repo(name, repo_type=kind)


@pytest.mark.parametrize("text", ["%00", "%01", "%07%1b[2J", "a%0d%0aX-Other:%20b", "%7f", "%C3%A9"])
def test_nothing_in_a_header_but_printable_ascii(site: Site, repo: str, text: str) -> None:
    for path in (f"/api/datasets/{repo}/tree/main/{text}", f"/api/datasets/{repo}/commits/{text}"):
        answer = site.call("GET", path)
        assert answer.status == 404, path
        assert all(" " <= character <= "~" for character in answer.headers["X-Error-Message"]), path
        assert answer.headers["X-Other"] is None
        assert "\\" in answer.headers["X-Error-Message"]


@pytest.mark.parametrize(
    "path",
    [".g\u200cit/config", "a/.git\ufeff/x", "\u202e.GIT", "git\u200d~1/x", "GIT~1 . /x", "git~1:x", ".git :stream/x"],
)
def test_no_file_system_makes_a_git_folder_of_a_path(path: str) -> None:
    with pytest.raises(HubError, match=r"'\.git' is git's own"):
        checked_path(path)


@pytest.mark.parametrize("path", [".gitattributes", "git~2", "agit~1", ".github/x", "aux", "a:b", "x\u200cy", ".git-x"])
def test_other_names_are_as_good_as_on_the_hub(path: str) -> None:
    assert checked_path(path) == path
