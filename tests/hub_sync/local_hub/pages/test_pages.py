"""The pages of a hub with content: what they show, to whom, and that nothing in them can act."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from action_reward_models.hub_sync.local_hub.pages.render import POLICY

if TYPE_CHECKING:
    from tests.hub_sync.local_hub.pages.conftest import InProcessHub, Make

HEAD = """---
license: mit
pretty_name: Toy data
version: 1.10
tags: [web-agents, toy]
configs:
- config_name: states
  data_files: [{split: train, path: data/states/train-*.parquet}, {split: test, path: data/states/test-*.parquet}]
- config_name: pairs
  default: true
  data_files: [{split: train, path: data/pairs/*.parquet}, {split: test, path: data/none/*.parquet}]
dataset_info:
- config_name: states
  splits: [{name: train, num_examples: 5}, {name: test, num_examples: 2}]
- config_name: pairs
  splits: [{name: train, num_examples: 99}]
---
"""
BODY = "# Toy\n\nSome **words** about [the data](data) and ![a picture](docs/a.png).\n"
NASTY = '"><img src=x onerror=alert(1)>'


@pytest.fixture
def toy(hub: InProcessHub, make: type[Make]) -> InProcessHub:
    """A dataset with a release and a change after it, and a model."""
    hub.create("toy")
    files = {
        "README.md": (HEAD + BODY).encode(),
        "docs/a.png": make.png(),
        "docs/notes.md": b"# Notes\n\n[up](../README.md)\n",
        "data/states/train-00000-of-00002.parquet": make.parquet({"id": ["a", "b", "c"]}),
        "data/states/train-00001-of-00002.parquet": make.parquet({"id": ["d", "e"]}),
        "data/states/test-00000-of-00001.parquet": make.parquet({"id": ["f", "g"]}),
        "data/pairs/train.parquet": make.parquet({"id": ["h"], "image": [{"bytes": make.png(), "path": None}]}),
        "config.json": b'{"a":1}',
    }
    hub.commit("toy", files, title="Release v1.0.0")
    hub.api("POST", "/api/datasets/lab/toy/tag/main", {"tag": "v1.0.0"})
    hub.commit("toy", {"config.json": b'{"a":2}', "docs/notes.md": None}, title="After the release")
    hub.create("picker", kind="model")
    return hub


def test_the_start_page_lists_what_is_public(toy: InProcessHub) -> None:
    toy.create("nobody-sees", private=True)
    page = toy.get("/")
    assert page.status == 200
    links = page.seen.values("a", "href")
    assert links.count("/datasets/lab/toy") == 1
    assert "/datasets/lab/toy/tree/v1.0.0" in links
    assert "/lab/picker" in links
    assert "nobody-sees" not in page.text
    for words in ("Toy data", "Some words about", "web-agents", "8 files", "dataset", "model", "arm push"):
        assert words in page.seen.text, words
    assert "nobody-sees" in toy.get("/", toy.token).text


def test_an_empty_hub_tells_how_to_fill_it(hub: InProcessHub) -> None:
    text = hub.get("/").seen.text
    assert "Nothing has been published here yet" in text
    assert "export HF_ENDPOINT=http://127.0.0.1:8000" in text
    assert "arm push" in text


def test_a_dataset_shows_its_card_and_what_its_files_hold(toy: InProcessHub) -> None:
    page = toy.get("/datasets/lab/toy")
    text = page.seen.text
    assert "<strong>words</strong>" in page.text
    assert 'src="/datasets/lab/toy/resolve/main/docs/a.png"' in page.text
    assert 'href="/datasets/lab/toy/blob/main/data"' in page.text
    assert "license mit version 1.10" in text
    assert "Configuration train test Size" in text
    assert "states 5 2 " in text
    assert "pairs default 1 card: 99 no file " in text
    assert "The card is wrong about 1 number." in text
    assert 'data = load_dataset( "lab/toy", )' in text  # main moved on: no tag is named
    at_tag = toy.get("/datasets/lab/toy/tree/v1.0.0").seen.text
    assert 'data = load_dataset( "lab/toy", revision="v1.0.0", )' in at_tag
    assert "states 5 2 " in at_tag


def test_a_truthful_card_is_said_to_be_so(toy: InProcessHub) -> None:
    head = HEAD.replace("num_examples: 99", "num_examples: 1").replace("  default: true\n", "")
    toy.commit("toy", {"README.md": (head + BODY).encode()})
    text = toy.get("/datasets/lab/toy").seen.text
    assert "The card claims the same." in text
    assert "card is wrong" not in text
    assert 'load_dataset( "lab/toy", "states", )' in text  # without a default, one has to be named


def test_files_that_no_card_sorts_are_listed_by_folder(hub: InProcessHub, make: type[Make]) -> None:
    hub.create("bare")
    files = {"x/train-1.parquet": make.parquet({"a": [1, 2]}), "x/y/rows.parquet": make.parquet({"a": [1]})}
    hub.commit("bare", {**files, "broken.parquet": b"no Parquet"})
    text = hub.get("/datasets/lab/bare").seen.text
    assert "Folder train files Size / – unreadable 10 B x 2 –" in text
    assert "x/y – 1 " in text
    assert "This revision has no card" in text


def test_a_model_says_how_to_download_it(toy: InProcessHub) -> None:
    toy.commit("picker", {"README.md": b"---\nbase_model: lab/base\n---\nWords.\n"}, kind="model")
    text = toy.get("/lab/picker").seen.text
    assert "base model lab/base" in text
    assert 'folder = snapshot_download( "lab/picker", )' in text
    assert "Rows" not in text


def test_a_folder_lists_its_files(toy: InProcessHub) -> None:
    page = toy.get("/datasets/lab/toy/tree/v1.0.0")
    links = page.seen.values("a", "href")
    assert "/datasets/lab/toy/tree/v1.0.0/data" in links
    assert "/datasets/lab/toy/blob/v1.0.0/config.json" in links
    assert "/datasets/lab/toy/resolve/v1.0.0/config.json" in links
    inner = toy.get("/datasets/lab/toy/tree/v1.0.0/data/states")
    assert "/datasets/lab/toy/tree/v1.0.0/data" in inner.seen.values("a", "href")
    assert inner.seen.text.count("LFS") == 3
    assert "Release v1.0.0" in inner.seen.text
    assert toy.get("/datasets/lab/toy/tree/main/config.json").headers["location"].endswith("/blob/main/config.json")
    assert toy.get("/datasets/lab/toy/blob/main/docs").headers["location"] == "/datasets/lab/toy/tree/main/docs"


def test_a_file_is_shown_as_what_it_is(toy: InProcessHub) -> None:
    def text(path: str, rev: str = "main") -> str:
        return toy.get(f"/datasets/lab/toy/blob/{rev}/{path}").text

    assert "&#34;a&#34;: 2" in text("config.json")
    assert "&#34;a&#34;: 1" in text("config.json", "v1.0.0")
    assert '<img src="/datasets/lab/toy/resolve/main/docs/a.png" alt="docs/a.png">' in text("docs/a.png")
    assert 'href="/datasets/lab/toy/blob/v1.0.0/README.md"' in text("docs/notes.md", "v1.0.0")
    rows = text("data/pairs/train.parquet")
    assert "1 row" in rows
    assert "<td><bdi>h</bdi></td>" in rows
    assert "/datasets/lab/toy/preview/main/data/pairs/train.parquet?picture=0" in rows
    toy.commit("toy", {"blob.bin": bytes(range(256)), "long.txt": ("ä" * 200_000).encode()})
    assert "There is nothing to show" in text("blob.bin")
    assert "Only the beginning is shown" in text("long.txt")


def test_a_picture_out_of_a_table(toy: InProcessHub, make: type[Make]) -> None:
    path = "/datasets/lab/toy/preview/main/data/pairs/train.parquet"
    answer = toy.get(f"{path}?picture=0")
    assert (answer.status, answer.headers["content-type"], answer.body) == (200, "image/png", make.png())
    assert answer.headers["content-security-policy"] == POLICY
    for wrong in ("?picture=1", "?picture=-1", "?picture=", "?picture=²", ""):
        assert toy.get(f"{path}{wrong}").status == 404, wrong
    assert toy.get("/datasets/lab/toy/preview/main/config.json?picture=0").status == 404


def test_commits_and_what_they_changed(toy: InProcessHub) -> None:
    page = toy.get("/datasets/lab/toy/commits/main")
    titles = ["After the release", "Release v1.0.0", "initial commit"]
    assert [page.seen.text.index(title) for title in titles] == sorted(page.seen.text.index(title) for title in titles)
    (sha,) = {link[-40:] for link in page.seen.values("a", "href") if link.startswith("/datasets/lab/toy/commit/")} & {
        toy.api("GET", "/api/datasets/lab/toy/revision/main", b"")["sha"]
    }
    commit = toy.get(f"/datasets/lab/toy/commit/{sha}").seen.text
    assert "2 changed files" in commit
    assert "config.json changed" in commit
    assert "docs/notes.md removed" in commit
    assert '-{"a":1}' in commit
    first = toy.get(f"/datasets/lab/toy/commit/{sha[:8]}").seen.text
    assert "2 changed files" in first
    assert toy.get("/datasets/lab/toy/commits/main?p=7").seen.text.count("No more commits") == 1


def test_many_commits_come_in_pages(hub: InProcessHub) -> None:
    hub.create("busy")
    for number in range(31):
        hub.commit("busy", {"n.txt": str(number).encode()}, title=f"Number {number}.")
    first, second = (hub.get(f"/datasets/lab/busy/commits/main?p={page}").seen for page in (0, 1))
    assert "Number 30." in first.text
    assert "Number 0." not in first.text
    assert "/datasets/lab/busy/commits/main?p=1" in first.values("a", "href")
    assert "Number 0." in second.text
    assert "/datasets/lab/busy/commits/main?p=0" in second.values("a", "href")


def test_pull_requests(toy: InProcessHub) -> None:
    assert "No pull requests" in toy.get("/datasets/lab/toy/discussions").seen.text
    toy.commit("toy", {"new.txt": b"x"}, title="Add a file", pull_request=True, description="It was **missing**.")
    page = toy.get("/datasets/lab/toy/discussions")
    assert "open Add a file #1 pull request lab" in page.seen.text
    one = toy.get("/datasets/lab/toy/discussions/1")
    assert "<strong>missing</strong>" in one.text
    assert "/datasets/lab/toy/tree/refs%2Fpr%2F1" in one.seen.values("a", "href")
    assert "new.txt" in toy.get("/datasets/lab/toy/tree/refs%2Fpr%2F1").seen.text
    toy.api("POST", "/api/datasets/lab/toy/discussions/1/merge", {})
    assert "merged" in toy.get("/datasets/lab/toy/discussions/1").seen.text
    assert toy.get("/datasets/lab/toy/discussions/2").status == 404
    assert toy.get("/datasets/lab/toy/discussions/99999999999999999999").status == 404


def test_what_must_not_be_seen_looks_as_if_it_did_not_exist(toy: InProcessHub) -> None:
    toy.create("hidden", private=True)
    toy.commit("hidden", {"README.md": b"# Nobody reads this\n"})
    pages = ("", "/tree/main", "/blob/main/README.md", "/commits/main", "/commit/main", "/discussions")
    for page in pages:
        hidden, missing = (toy.get(f"/datasets/lab/{name}{page}") for name in ("hidden", "missing"))
        assert (hidden.status, hidden.headers["x-error-code"]) == (404, "RepoNotFound")
        assert (hidden.status, hidden.body) == (missing.status, missing.body)
    assert "Nobody reads this" in toy.get("/datasets/lab/hidden", toy.token).text
    assert toy.get("/datasets/lab/hidden", "hf_wrong").status == 401


def test_files_of_a_gated_repository_are_not_shown(toy: InProcessHub) -> None:
    toy.api("PUT", "/api/datasets/lab/toy/settings", {"gated": "manual"})
    assert toy.get("/datasets/lab/toy").status == 401
    assert "/datasets/lab/toy" not in toy.get("/").seen.values("a", "href")
    assert toy.get("/datasets/lab/toy", toy.token).status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/datasets/lab/toy/tree/nope",
        "/datasets/lab/toy/tree/main/nope",
        "/datasets/lab/toy/blob/main/..%2f..%2fhub.sqlite",
        "/datasets/lab/toy/blob/main/../../../hub.sqlite",
        "/datasets/lab/toy/blob/main/%2fetc%2fpasswd",
        "/datasets/lab/toy/blob/main/a%00b",
        "/datasets/lab/toy/blob/..%2f..%2fhub.sqlite/x",
        "/datasets/lab/toy/tree/%22%3E%3Cscript%3E",
        "/datasets/lab/%3Cscript%3E",
        "/datasets/..%2f..%2f/toy",
        "/nobody/nothing",
    ],
)
def test_what_is_not_there_is_a_page_without_echo(toy: InProcessHub, make: type[Make], path: str) -> None:
    answer = toy.get(path)
    assert answer.status == 404
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.seen.wrong(make.page_tags) == []
    assert "<script" not in answer.text


def test_a_path_that_is_no_text_is_refused(toy: InProcessHub) -> None:
    assert toy.get("/datasets/lab/toy/blob/main/%ff").status == 400


def test_nothing_in_any_page_can_act(toy: InProcessHub, make: type[Make]) -> None:
    """Names, titles, branches and cards are hostile; each page is parsed and looked through."""
    path = f"dir {NASTY}/{NASTY}\u202etxt.md"
    title = f"</title><script>alert(1)</script>{NASTY}"
    card = f"---\nlicense: '{NASTY}'\ntags: ['{NASTY}', \"</ul><script>\"]\npretty_name: '{NASTY}'\n" + (
        f"'{NASTY}': '{NASTY}'\nconfigs: [{{config_name: '{NASTY}', data_files: [{{split: '{NASTY}', path: '**'}}]}}]\n"
        f"---\n{NASTY}\n\n<script>alert(1)</script>\n"
    )
    rows = make.parquet({NASTY: [NASTY], "</table><script>": ["</td></table><script>alert(1)</script>"]})
    sha = toy.commit("toy", {path: b"# x\n", "README.md": card.encode(), "r.parquet": rows}, title=title, rev="main")
    toy.commit("toy", {"x.txt": b"x"}, title=title, pull_request=True, description=f"{NASTY}<script>")
    branch = '"><svg/onload=alert(1)>'
    toy.api("POST", f"/api/datasets/lab/toy/branch/{quote(branch, safe='')}", {})
    root, there = "/datasets/lab/toy", quote(path)
    folder, other = quote(path.rpartition("/")[0]), quote(branch, safe="")
    suffixes = [
        "", "/tree/main", f"/tree/main/{folder}", f"/blob/main/{there}", "/blob/main/r.parquet", "/commits/main",
        f"/commit/{sha}", "/discussions", "/discussions/1", f"/tree/{other}", "/tree/nope", "/tree/refs%2Fpr%2F1",
    ]  # fmt: skip
    for page in ["/", *(root + suffix for suffix in suffixes)]:
        answer = toy.get(page)
        assert answer.status == (404 if page.endswith("nope") else 200), page
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        seen = answer.seen
        assert seen.wrong(make.page_tags) == [], page
        assert seen.values("link", "rel") == ["stylesheet"]
        assert len(seen.values("html", "lang")) == 1
        assert sum(tag == "h1" for tag, _ in seen.tags) == 1
        assert seen.values("img", "src") == [] or all(src.startswith(root) for src in seen.values("img", "src"))
        assert {given.get("id") for _, given in seen.tags} >= {"content"}


def test_every_link_of_every_page_leads_somewhere(toy: InProcessHub) -> None:
    toy.commit("toy", {"odd %41 & # ? name.txt": b"x", "README.md": b"[a](<odd %2541 & %23 %3F name.txt>)"})
    toy.commit("toy", {"new.txt": b"x"}, title="Add", pull_request=True)
    seen, waiting = set(), ["/"]
    while waiting:
        page = waiting.pop()
        if page in seen or "#" in page:
            continue
        seen.add(page)
        answer = toy.get(page)
        if answer.status == 302:  # a card's link to a folder
            waiting.append(answer.headers["location"])
            continue
        assert answer.status == 200, page
        if answer.headers["content-type"].startswith("text/html"):
            found = answer.seen
            waiting += [*found.values("a", "href"), *found.values("img", "src"), *found.values("link", "href")]
    assert len(seen) > 40
    assert any("odd%20%2541%20%26%20%23%20%3F%20name.txt" in page for page in seen)


def test_the_style_sheet_loads_nothing(hub: InProcessHub) -> None:
    (address,) = hub.get("/").seen.values("link", "href")
    sheet = hub.get(address)
    assert sheet.headers["content-type"] == "text/css; charset=utf-8"
    assert "max-age" in sheet.headers["cache-control"]
    assert "url(" not in sheet.text
    assert "@import" not in sheet.text
    assert "prefers-color-scheme: dark" in sheet.text


def test_pages_only_read(toy: InProcessHub) -> None:
    assert toy.get("/datasets/lab/toy", method="HEAD").status == 200
    for method in ("POST", "PUT", "DELETE"):
        assert toy.send(method, "/datasets/lab/toy", token=toy.token).status == 405


def test_a_former_name_leads_to_the_new_one(toy: InProcessHub) -> None:
    toy.api("POST", "/api/repos/move", {"fromRepo": "lab/toy", "toRepo": "lab/newer", "type": "dataset"})
    answer = toy.get("/datasets/lab/toy/tree/main")
    assert (answer.status, answer.headers["location"]) == (307, "/datasets/lab/newer/tree/main")
