"""What all answers have in common, and answers that are there for people who read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.hub_sync.local_hub.conftest import Site


@pytest.mark.parametrize("header", ["X-Request-Id", "X-Amzn-Trace-Id"])
def test_the_id_of_the_request_is_that_of_the_answer(site: Site, header: str) -> None:
    named = {header.replace("-", "_"): "an-id.of:mine"}
    assert site.call("GET", "/api/models", **named).headers["X-Request-Id"] == "an-id.of:mine"
    for bad in ("two words", "x" * 129, "<b>", ""):
        own = site.call("GET", "/api/models", **{header.replace("-", "_"): bad}).headers["X-Request-Id"]
        assert own != bad
        assert len(own) == 24


@pytest.mark.parametrize("path", ["/api/models/alone", "/api/datasets/alone", "/api/models/alone/revision/main"])
def test_an_id_of_one_part_is_no_repository(site: Site, path: str) -> None:
    answer = site.call("GET", path, user="ann")
    assert (answer.status, answer.headers["X-Error-Code"]) == (404, "RepoNotFound")


def test_a_tag_of_a_missing_revision_is_about_the_revision(site: Site) -> None:
    repo = site.new()
    answer = site.call("POST", f"/api/datasets/{repo}/tag/nowhere", user="ann", body={"tag": "not a name"})
    assert (answer.status, answer.headers["X-Error-Code"]) == (404, "RevisionNotFound")
    assert site.call("POST", f"/api/datasets/{repo}/tag/main", user="ann", body={"tag": "not a name"}).status == 400


def test_a_card_is_judged_in_plain_text_for_a_person(site: Site) -> None:
    body = {"content": "---\nlicense: mine\n---\n", "repoType": "model"}
    answer = site.call("POST", "/api/validate-yaml", body=body, Accept="text/plain")
    assert answer.status == 400
    assert answer.body.startswith(b'- Error: "license" must be one of [')
    assert site.call("POST", "/api/validate-yaml", body=body).json["errors"]
