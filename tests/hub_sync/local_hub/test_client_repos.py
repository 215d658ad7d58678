"""Repositories and what they tell, through the unmodified client."""

from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub import CommitOperationAdd
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError

from .conftest import Site


def test_whoami(site: Site) -> None:
    me = site.api().whoami()
    assert (me["name"], [org["name"] for org in me["orgs"]]) == ("ann", ["lab"])
    assert me["auth"]["accessToken"]["role"] == "write"
    assert site.api("reader").whoami()["auth"]["accessToken"]["role"] == "read"
    with pytest.raises(HfHubHTTPError) as refused:
        site.api("nobody").whoami()
    assert refused.value.response.status_code == 401


def test_create_list_delete(site: Site) -> None:
    api = site.api()
    url = api.create_repo("ann/first", repo_type="dataset")
    assert str(url) == f"{site.url}/datasets/ann/first"
    with pytest.raises(HfHubHTTPError) as refused:
        api.create_repo("ann/first", repo_type="dataset")
    assert refused.value.response.status_code == 409
    assert api.create_repo("ann/first", repo_type="dataset", exist_ok=True) == url
    assert [c.title for c in api.list_repo_commits("ann/first", repo_type="dataset")] == ["initial commit"]
    assert api.list_repo_files("ann/first", repo_type="dataset") == [".gitattributes"]
    assert "ann/first" in [found.id for found in api.list_datasets(author="ann", search="irs")]
    api.delete_repo("ann/first", repo_type="dataset")
    assert not api.repo_exists("ann/first", repo_type="dataset")
    with pytest.raises(RepositoryNotFoundError):
        api.delete_repo("ann/first", repo_type="dataset")


def test_types_are_apart(site: Site) -> None:
    for kind in ("model", "dataset"):
        site.api().create_repo("ann/same", repo_type=kind)
    site.api().delete_repo("ann/same", repo_type="model")
    assert site.api().repo_exists("ann/same", repo_type="dataset")


def test_names(site: Site) -> None:
    for name in ("ann/a--b", "ann/..", "ann/.x", "ann/a.git", "ann/" + "x" * 97, "api/x", "Datasets/x"):
        body = {"name": name.split("/")[1], "organization": name.split("/")[0], "type": "model"}
        assert site.call("POST", "/api/repos/create", user="ann", body=body).status in (400, 403), name
    site.api().create_repo("ann/MiXed")
    assert site.api().model_info("ANN/mixed").id == "ann/MiXed"
    with pytest.raises(HfHubHTTPError):
        site.api().create_repo("ann/mixed")


def test_private_is_invisible(site: Site) -> None:
    repo = site.new(private=True)
    for user in ("bob", None):
        api = site.api(user)
        assert repo not in [found.id for found in api.list_datasets(author="ann")]
        for path in ("", "/revision/main", "/tree/main", "/refs", "/commits/main", "/discussions", "/auth-check"):
            answer = site.call("GET", f"/api/datasets/{repo}{path}", user=user)
            assert (answer.status, answer.headers["X-Error-Code"]) == (404, "RepoNotFound"), path
        answer = site.call("GET", f"/datasets/{repo}/resolve/main/.gitattributes", user=user)
        assert (answer.status, answer.headers["X-Error-Code"]) == (404, "RepoNotFound")
    assert site.api().dataset_info(repo).private
    site.api().update_repo_settings(repo, private=False, repo_type="dataset")
    assert site.api(None).dataset_info(repo).id == repo


def test_organisation(site: Site) -> None:
    site.api().create_repo("lab/data", repo_type="dataset")
    assert site.api().dataset_info("lab/data").private, "the organisation's default"
    with pytest.raises(HfHubHTTPError) as refused:
        site.api("bob").create_repo("lab/mine")
    assert refused.value.response.status_code == 403


def test_reading_token_writes_nothing(site: Site, repo: str) -> None:
    reader = site.api("reader")
    assert reader.dataset_info(repo).id == repo
    for attempt in (
        lambda: reader.create_repo("ann/other"),
        lambda: reader.delete_repo(repo, repo_type="dataset"),
        lambda: reader.create_tag(repo, tag="t", repo_type="dataset"),
        lambda: reader.create_commit(repo, [CommitOperationAdd("a", b"a")], commit_message="m", repo_type="dataset"),
        lambda: reader.create_discussion(repo, "a title", repo_type="dataset"),
    ):
        with pytest.raises(HfHubHTTPError) as refused:
            attempt()
        assert refused.value.response.status_code == 403


def test_move_leaves_the_old_name(site: Site) -> None:
    api, repo, other = site.api(), site.new(), site.new()
    with pytest.raises(HfHubHTTPError, match=r"called .* already exists"):
        api.move_repo(repo, other, repo_type="dataset")
    new = f"{repo}-new"
    api.move_repo(repo, new, repo_type="dataset")
    assert api.dataset_info(repo).id == new
    answer = site.call("GET", f"/datasets/{repo}/resolve/main/a%2Fb?x=1")
    assert (answer.status, answer.headers["Location"]) == (307, f"/datasets/{new}/resolve/main/a%2Fb?x=1")
    path = api.hf_hub_download(repo, ".gitattributes", repo_type="dataset", local_dir=site.folder.parent / "moved")
    assert "*.parquet" in Path(path).read_text()
    api.create_repo(repo, repo_type="dataset")  # the old name is free again, and no longer a way to the new one
    assert api.dataset_info(repo).id == repo


def test_gated(site: Site, repo: str) -> None:
    site.api().update_repo_settings(repo, gated="manual", repo_type="dataset")
    assert site.api("bob").dataset_info(repo).gated == "manual"
    with pytest.raises(GatedRepoError, match="restricted and you are not in the authorized list"):
        site.api("bob").hf_hub_download(repo, ".gitattributes", repo_type="dataset")
    with pytest.raises(GatedRepoError):
        site.api("bob").auth_check(repo, repo_type="dataset")
    site.api().auth_check(repo, repo_type="dataset", write=True)
    assert site.batch(repo, "0" * 64, 3, user="bob", operation="download").status == 403


def test_info(site: Site, repo: str) -> None:
    card = b"---\nlicense: mit\ntags: [clicks, 2026-01-01]\nsize_categories: n<1K\n---\n# A card"
    site.api().create_commit(repo, [CommitOperationAdd("README.md", card)], commit_message="card", repo_type="dataset")
    info = site.api().dataset_info(repo, files_metadata=True)
    assert info.card_data
    assert info.tags
    assert info.siblings
    assert info.card_data["tags"] == ["clicks", "2026-01-01"]
    assert {"license:mit", "clicks", "size_categories:n<1K"} <= set(info.tags)
    assert {(s.rfilename, s.size) for s in info.siblings if s.rfilename == "README.md"} == {("README.md", len(card))}
    assert [found.id for found in site.api().list_datasets(filter=["clicks", "license:mit"], author="ann")] == [repo]
    only = site.api().dataset_info(repo, expand=["author", "usedStorage"])
    assert (only.author, only.sha, only.used_storage) == ("ann", None, 0)
    with pytest.raises(HfHubHTTPError) as refused:
        site.api().dataset_info(repo, expand=["nonsense"])  # type: ignore[list-item]
    assert refused.value.response.status_code == 400


def test_list_in_pages(site: Site) -> None:
    made = [site.new("lab", kind="model") for _ in range(5)]
    answer = site.call("GET", "/api/models?author=lab&limit=2", user="ann")
    assert len(answer.json) == 2
    found = [item["id"] for item in answer.json]
    while link := answer.headers.get("Link"):
        answer = site.call("GET", link[1 : link.index(">")].removeprefix(site.url), user="ann")
        found += [item["id"] for item in answer.json]
    assert found == made[::-1]
    assert [m.id for m in site.api().list_models(author="lab", sort="created_at", limit=3)] == made[:1:-1]


def test_validate_yaml(site: Site) -> None:
    def check(head: str, kind: str = "dataset") -> tuple[int, list[str]]:
        answer = site.call("POST", "/api/validate-yaml", body={"content": f"---\n{head}\n---\nx", "repoType": kind})
        return answer.status, [error["message"] for error in answer.json["errors"]]

    assert check("license: mit\nconfigs:\n- config_name: a\n  data_files: [{split: train, path: a/*}]") == (200, [])
    status, errors = check("license: mine")
    assert status == 400
    assert errors[0].startswith('Error: "license" must be one of')
    for head in ("a: &x [1]\nb: *x", "- a", "a: b: c", "tags: [1]", "language: no", "configs: [{data_files: x}]"):
        assert check(head)[0] == 400, head
    assert check("model-index: foo", "model")[0] == 400
    repo, card = site.new(), CommitOperationAdd("README.md", b"---\nmodel-index: foo\n---")
    with pytest.raises(ValueError, match="Invalid metadata"):
        site.api().create_commit(repo, [card], commit_message="m", repo_type="dataset")
    plain = CommitOperationAdd("README.md", b"no metadata")
    with pytest.warns(UserWarning, match="empty or missing yaml metadata"):
        site.api().create_commit(repo, [plain], commit_message="m", repo_type="dataset")


def test_ids_of_one_part(site: Site) -> None:
    for path in (
        "/api/models/x/tree/main",
        "/api/datasets/x/revision/main",
        "/x/resolve/main/f",
        "/datasets/x/resolve/main/f",
    ):
        answer = site.call("GET", path)
        assert (answer.status, answer.headers["X-Error-Code"]) == (404, "RepoNotFound"), path
