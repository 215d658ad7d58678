"""`arm review` as it is typed: a page of a build or of a published version, words for a person, JSON for machines."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import orjson
import pytest
from action_reward_models.cards.gallery.writing import is_gallery
from action_reward_models.cli import arm
from action_reward_models.tests import processes
from click.testing import CliRunner, Result

EXAMPLE = Path(__file__).parents[2] / "examples" / "miniwob"
NAME = "action-reward-models-data"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("review")
    shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("build"))
    done = CliRunner().invoke(arm, ["build", str(folder / "registry.yaml"), "--workers", "1"])
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def here(built: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(built)
    return built


def run(*words: str) -> Result:
    return CliRunner().invoke(arm, ["review", *words])


def test_what_a_person_reads(here: Path) -> None:
    done = run(NAME)
    assert done.exit_code == 0, done.output
    out = f"{NAME}-v1.0.0-review.html"
    shown = " ".join(done.output.split())
    for words in (
        "your-name/action-reward-models-data v1.0.0",
        "selection_sft 28 117",
        "129 items, 69 pictures, 1.5 of 50 MB",
        f"next: open {out} in a browser",
        "{kind: reviews, format: review, path: review.jsonl}",
    ):
        assert words in shown, words
    assert done.stdout.splitlines()[-1] == out
    assert is_gallery(here / out)
    first = (here / out).read_bytes()
    assert run(f"build/{NAME}").exit_code == 0
    assert (here / out).read_bytes() == first  # a name stands for its folder; the page of a build is one page


def test_what_machines_read(here: Path) -> None:
    done = run(NAME, "--json", "--table", "bt_pairs", "--split", "validation", "-o", "pairs.html", "--items", "9")
    report = orjson.loads(done.stdout)
    assert {key: report[key] for key in ("path", "source", "items", "dataset", "version", "left_out")} == {
        "path": "pairs.html", "source": f"build/{NAME}", "items": 9, "dataset": f"your-name/{NAME}",
        "version": "1.0.0", "left_out": {},
    }  # fmt: skip
    assert report["bytes"] == (here / "pairs.html").stat().st_size
    assert {(one["table"], one["split"]) for one in report["strata"]} == {("bt_pairs", "validation")}
    assert sum(one["shown"] for one in report["strata"]) == 9


def test_what_does_not_fit_is_counted(here: Path) -> None:
    done = run(NAME, "--budget", "0.3", "--out", "small.html")
    assert done.exit_code == 0, done.output
    assert "more, over the size budget; a larger --budget takes more" in done.output
    assert (here / "small.html").stat().st_size <= 300_000


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--id", "miniwob-login-user-100-oracle__t33"], 1, "(did you mean 'miniwob-login-user-100-oracle__t3'?)"),
        (
            ["--reason", "identicle"],
            1,
            "nothing to look at with reason identicle; it has tables: selection_sft, bt_pairs",
        ),
        (["--table", "bench_items"], 1, "nothing to look at with table bench_items"),
        (["--table", "states"], 1, "states, sets and labels are shown with the rows that are made of them"),
        (["--out", f"build/{NAME}/page.html"], 1, "is in the build, which holds what its manifest names"),
        (["--table", "pairs"], 2, "'pairs' is not one of"),
        (["--out", "registry.yaml"], 1, "registry.yaml: is there, and no gallery that could be replaced"),
        (["--budget", "0.1"], 2, "0.1 is not in the range x>=0.2"),
        (["--items", "0"], 2, "0 is not in the range x>=1"),
    ],
    ids=str,
)
def test_what_is_refused(here: Path, words: list[str], status: int, said: str) -> None:
    done = processes.arm(["review", NAME, *words], cwd=here, env={**os.environ, "COLUMNS": "200"})
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert (here / "registry.yaml").read_text("utf-8").startswith("# A registry")
