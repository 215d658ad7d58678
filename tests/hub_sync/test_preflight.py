"""What is checked before a directory is published, without a network: content, card, the Hub's limits, secrets."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest
from action_reward_models.builders import runner
from action_reward_models.cards.dataset import render
from action_reward_models.cards.figures import figures
from action_reward_models.hub_sync import limits, scan
from action_reward_models.hub_sync.preflight import Preflight, preflight
from action_reward_models.registry import check_build
from action_reward_models.schemas.errors import ArmError, Issue
from action_reward_models.schemas.ids import canonical_json, file_sha256, sha256_hex
from action_reward_models.tests.builders.conftest import Toy
from PIL import Image

TOKEN = "hf_" + "QwErTyUiOpAsDfGhJkLzXcVbNmQwErTyUi"
HEX = sha256_hex("x")[:32]
Fill = Callable[[Toy], None]


def build(folder: Path, fill: Fill = lambda toy: None) -> Path:
    """A small built directory with its card; ``fill`` adds records."""
    toy = Toy(folder)
    for number in range(3):
        toy.scene(f"e{number}", picture=number, task=f"task {number}")
    fill(toy)
    return runner.build(toy.spec(), folder / "toy", card=render, workers=1).folder


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("plain"))


@pytest.fixture
def folder(plain: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(plain, tmp_path / "toy"))


def run(folder: Path, check: Callable[[Path], list[Issue]] = check_build) -> Preflight:
    return preflight(folder, check)


def unchecked(folder: Path) -> list[Issue]:
    return []


def test_a_good_build(plain: Path) -> None:
    told: list[tuple[str, int, int]] = []
    result = preflight(plain, check_build, lambda *step: told.append(step))
    assert result == Preflight((), (), ())
    assert told[-1] == ("looking for secrets", len(list(plain.rglob("*.*"))), len(list(plain.rglob("*.*"))))


def test_no_manifest_no_publication(folder: Path) -> None:
    (folder / "manifest.json").unlink()
    with pytest.raises(ArmError, match="is no finished build"):
        run(folder)


def test_the_content_is_checked(folder: Path) -> None:
    (folder / "schemas" / "state-1.json").unlink()
    assert Issue("schemas/state-1.json", 0, "$", "is missing") in run(folder).issues


def _figure(folder: Path, name: str, data: bytes) -> list[Issue]:
    (folder / "assets").mkdir(exist_ok=True)
    (folder / name).write_bytes(data)
    path = folder / "manifest.json"
    manifest = orjson.loads(path.read_bytes())
    manifest["environment"]["files"][name] = {"sha256": sha256_hex(data), "bytes": len(data)}
    path.write_bytes(orjson.dumps(manifest))
    return [issue for issue in run(folder, unchecked).issues if issue.file == name]


def test_figures_are_small_pngs(folder: Path, plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    png = figures(orjson.loads((plain / "manifest.json").read_bytes())["identity"])["assets/slots.png"]
    gif = io.BytesIO()
    Image.new("RGB", (4, 4)).save(gif, "GIF")
    assert _figure(folder, "assets/slots.png", png) == []
    assert [i.message for i in _figure(folder, "assets/x.svg", b"<svg/>")] == ["is no PNG: figures of the card are"]
    assert [i.message for i in _figure(folder, "assets/slots.png", gif.getvalue())] == ["is no PNG, and is called one"]
    (cut,) = _figure(folder, "assets/slots.png", png[:-40])
    assert cut.message.startswith("is no picture: ")
    monkeypatch.setattr(limits, "MAX_FIGURE_BYTES", 100)
    (huge,) = _figure(folder, "assets/slots.png", png)
    assert huge.message == f"has {len(png):,} bytes, and 100 are too many for a figure"


def test_sizes_are_those_that_the_card_adds_up(folder: Path) -> None:
    path = folder / "manifest.json"
    manifest = orjson.loads(path.read_bytes())
    manifest["environment"]["files"]["schemas/state-1.json"]["bytes"] += 1
    path.write_bytes(orjson.dumps(manifest))
    assert [str(issue)[:26] for issue in run(folder).issues] == ["schemas/state-1.json $ has"]


# -- the card ----------------------------------------------------------------------------------------------------------


def card(folder: Path, change: Callable[[str], str]) -> list[str]:
    path = folder / "README.md"
    before = path.read_text("utf-8")
    path.write_text(after := change(before), "utf-8")
    assert after != before
    return [str(issue) for issue in run(folder).issues]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("num_examples: 3", "num_examples: 4", "its dataset_info is not that of the manifest"),
        ("path: data/states/train-*", "path: data/*/train-*", "its configs is not that of the manifest"),
        ("pretty_name:", "pretty_name: [", "the YAML at the head of the card cannot be kept"),
        ("<!-- action-reward-models:end -->", "", "the card's markers are broken"),
        ("\npretty_name:", "\nlanguage: no\npretty_name:", "its language holds False, where the Hub takes text only"),
        ("\npretty_name:", "\nlanguage: [en, no]\npretty_name:", "its language holds False"),
        ("\npretty_name:", "\ntask_ids: [1.10]\npretty_name:", "its task_ids holds 1.1"),
    ],
)
def test_a_card_that_the_hub_or_a_loader_would_misread(folder: Path, old: str, new: str, message: str) -> None:
    found = card(folder, lambda text: text.replace(old, new))
    assert any(text.startswith(f"README.md $ {message}") for text in found), found


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\npretty_name:", "\nlanguage: [en]\nauthors: {me: 1}\npretty_name:"),
        lambda text: text + "\n## Contact\n\nWrite to jane.doe@gmail.com.\n",
        lambda text: text.replace("\n---\n\n", "\n---\n\n# Mine\n\n" + "words " * 70_000 + "\n"),
    ],
)
def test_what_a_person_adds_to_a_card(folder: Path, change: Callable[[str], str]) -> None:
    assert card(folder, change) == []
    assert run(folder).findings == ()  # an address on a card is there to be read


def test_a_card_that_is_no_text(folder: Path) -> None:
    (folder / "README.md").write_bytes(b"---\n\xff\n---\n")
    assert any("is not UTF-8" in issue.message for issue in run(folder).issues)


# -- files -------------------------------------------------------------------------------------------------------------


def listed(folder: Path, *names: str, data: bytes = b"x") -> None:
    """Write files, and list them in the manifest as a build that made them would."""
    path = folder / "manifest.json"
    manifest = orjson.loads(path.read_bytes())
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
        manifest["environment"]["files"][name] = {"sha256": sha256_hex(data), "bytes": len(data)}
    path.write_bytes(orjson.dumps(manifest))


def about(folder: Path, name: str) -> list[Issue]:
    """The issues about a listed file called ``name``, beside those of its content."""
    listed(folder, name)
    return [issue for issue in run(folder, unchecked).issues if issue.file == name]


@pytest.mark.parametrize(
    "name",
    [
        "optimizer.pt", "optimizer-1.pt", "run/rng_state_0.pth", "training_args.bin", "x.pkl", "data/Y.PICKLE",
        "__pycache__/load.cpython-311.pyc", "id_rsa",
    ],
)  # fmt: skip
def test_what_is_never_published(folder: Path, name: str) -> None:
    (issue,) = about(folder, name)
    assert issue.message.startswith("is a file that is never published")


@pytest.mark.parametrize("name", ["notes.txt", "notes.py", "data/optimizer-notes.md"])
def test_other_files_are_no_problem_of_the_hub(folder: Path, name: str) -> None:
    assert about(folder, name) == []


def test_what_is_not_listed_is_not_published_and_not_looked_at(folder: Path, tmp_path: Path) -> None:
    (folder / "notes.txt").write_text(TOKEN)
    (folder / "out").symlink_to(tmp_path)
    assert run(folder, unchecked) == Preflight((), (), ())
    assert {issue.file for issue in run(folder).issues} == {"notes.txt", "out"}, "the check of the build names them"


def test_load_py_may_have_been_imported(folder: Path) -> None:
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "load.cpython-311.pyc").write_bytes(b"x")
    assert run(folder) == Preflight((), (), ())
    assert check_build(folder), "but a folder from elsewhere does not pass with it"


def test_links_are_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text(TOKEN)
    listed(folder, "file.txt", "dangling.txt", "out/secret.txt", "pipe.txt")
    for name in ("file.txt", "dangling.txt", "pipe.txt"):
        (folder / name).unlink()
    shutil.rmtree(folder / "out")
    (folder / "out").symlink_to(tmp_path / "outside")
    (folder / "file.txt").symlink_to(tmp_path / "outside" / "secret.txt")
    (folder / "dangling.txt").symlink_to(tmp_path / "nowhere")
    os.mkfifo(folder / "pipe.txt")
    result = run(folder, unchecked)
    assert [(issue.file, issue.message.split(";")[0]) for issue in result.issues] == [
        ("dangling.txt", "is a link"),
        ("file.txt", "is a link"),
        ("out/secret.txt", "is a link"),
        ("pipe.txt", "is no regular file"),
    ]
    assert result.findings == ()


def test_too_many_entries_in_one_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_FOLDER_ENTRIES", 8)
    assert [issue.file for issue in run(folder).issues if "entries" in issue.message] == []
    listed(folder, *(f"extra/part-{number}/a.txt" for number in range(9)))
    assert [issue.file for issue in run(folder, unchecked).issues] == ["extra"]


def test_too_many_files_for_one_commit(folder: Path) -> None:
    def files(number: int) -> Preflight:
        manifest = orjson.loads((folder / "manifest.json").read_bytes())
        more = number - len(manifest["environment"]["files"]) - 2  # the manifest and the card
        listed(folder, *(f"extra-{number}-{extra}.txt" for extra in range(more)))
        return run(folder, unchecked)

    assert files(100) == Preflight((), (), ())
    (warning,) = files(101).warnings
    assert warning.startswith("101 files in one commit")
    assert files(1000).issues == ()
    (issue,) = files(1001).issues
    assert issue.message.startswith("1,001 files are too many for one commit")


def test_a_file_that_is_too_large(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    largest = max(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    monkeypatch.setattr(limits, "MAX_FILE_BYTES", largest + 1)
    assert run(folder).issues == ()
    monkeypatch.setattr(limits, "MAX_FILE_BYTES", largest)
    assert any("too many for one file" in issue.message for issue in run(folder).issues)


# -- secrets -----------------------------------------------------------------------------------------------------------


def planted(folder: Path, fill: Fill) -> list[str]:
    result = run(build(folder, fill))
    assert result.issues == ()
    assert result.warnings == ()
    found = [str(finding) for finding in result.findings]
    assert not any(TOKEN in text for text in found)
    return found


def test_secrets_in_rows_are_named_by_file_row_and_field(tmp_path: Path) -> None:
    """In a field, in a list of structs, in JSON inside a string, in every table that repeats it."""

    def fill(toy: Toy) -> None:
        toy.scene(
            "login",
            toy.response("click(1, 1)", f"It is {TOKEN}."),
            "click(7, 7)",
            task=f"Open https://shop.com/?token={HEX}",
        )

    found = planted(tmp_path, fill)
    states = [text for text in found if text.startswith("data/states/")]
    (row,) = {text.split(" $")[0] for text in states}
    assert row.startswith("data/states/train-00000-of-00001.parquet row ")
    assert f"{row} $.task holds a URL parameter: token=…" in states
    assert f"{row} $.messages_json holds a URL parameter: token=…" in states
    sets = [text for text in found if text.startswith("data/candidate_sets/")]
    assert any(".candidates[0].response holds a Hugging Face token: hf_… (37 characters)" in text for text in sets)
    assert any("$.prompt[1].content[" in text for text in found if text.startswith("data/bt_pairs/"))


def test_rows_are_counted_over_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_BATCH", 2)

    def fill(toy: Toy) -> None:
        for number in range(9):
            toy.page(f"p{number}", task=f"mail x{number}@gmail.com")

    made = build(tmp_path, fill)
    (path,) = (made / "data" / "states").glob("*.parquet")
    rows = pq.read_table(path, columns=["state_id", "task"]).to_pylist()
    expected = {f"row {n} (state_id {row['state_id']}) $.task" for n, row in enumerate(rows) if "mail" in row["task"]}
    assert len(expected) == 9
    found = {issue.path for issue in run(made).findings if issue.file.startswith("data/states/")}
    assert {path for path in found if path.endswith("$.task")} == expected


def test_pictures_are_not_read(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    whole = pq.ParquetFile.iter_batches

    def spy(self: Any, size: int, columns: list[str], **how: Any) -> Iterator[Any]:
        asked.append(columns)
        return iter(whole(self, size, columns=columns, **how))

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", spy)
    run(plain, unchecked)
    assert len(asked) >= 5
    assert not any({"screenshot", "images"} & set(columns) for columns in asked)
    assert any("screenshot_sha256" in columns for columns in asked)


def test_referenced_pictures_are_text(tmp_path: Path) -> None:
    toy = Toy(tmp_path)
    toy.scene("a")
    images = dict.fromkeys(("states", "selection_sft", "bt_pairs"), "reference")
    made = runner.build(toy.spec(images=images), tmp_path / "toy", card=render, workers=1).folder
    assert run(made) == Preflight((), (), ())


def test_secrets_in_the_card_and_beside_the_data(folder: Path) -> None:
    """Each with its line."""
    readme = folder / "README.md"
    readme.write_text(readme.read_text("utf-8") + f"\n## Use\n\nexport HF_TOKEN={TOKEN}\n", "utf-8")
    lines = len(readme.read_text("utf-8").splitlines())
    path = folder / "manifest.json"
    manifest = orjson.loads(path.read_bytes())
    manifest["identity"]["description"] = "See https://bob:letmein@shop.com."
    manifest["identity_sha256"] = sha256_hex(canonical_json(manifest["identity"]))
    prompt = folder / "prompts" / "scalar-1.json"
    prompt.write_text(prompt.read_text("utf-8").replace("{", '{"password": "letmein",', 1))
    manifest["environment"]["files"]["prompts/scalar-1.json"] = {
        "sha256": file_sha256(prompt),
        "bytes": prompt.stat().st_size,
    }
    path.write_bytes(orjson.dumps(manifest, option=orjson.OPT_INDENT_2))
    where = path.read_text("utf-8").splitlines().index('    "description": "See https://bob:letmein@shop.com.",') + 1
    assert [str(finding) for finding in run(folder).findings] == [
        f"README.md:{lines} $ holds a Hugging Face token: hf_… (37 characters)",
        f"manifest.json:{where} $ holds URL credentials: ://…:…@",
        "prompts/scalar-1.json:1 $ holds a password: password=…",
    ]


def test_many_findings_of_one_file_are_counted(folder: Path) -> None:
    text = "".join(f"u{n}@gmail.com\n" for n in range(scan.MAX_SHOWN + 5)) + TOKEN
    listed(folder, "notes.txt", data=text.encode())
    found = run(folder, unchecked).findings
    assert len(found) == scan.MAX_SHOWN + 2
    assert [str(finding) for finding in found[:2]] == [
        "notes.txt $ holds 1 more of the kind Hugging Face token",
        "notes.txt $ holds 5 more of the kind e-mail address",
    ]


def test_a_damaged_file_is_one_issue_and_no_crash(folder: Path) -> None:
    path = next((folder / "data" / "states").iterdir())
    path.write_bytes(path.read_bytes()[:-50] + bytes(50))
    name = path.relative_to(folder).as_posix()
    assert any(issue.file == name and "sha256" in issue.message for issue in run(folder).issues)
    (issue,) = run(folder, unchecked).issues
    assert issue.file == name
    assert issue.message.startswith("cannot be searched for secrets")
