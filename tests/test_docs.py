"""The documentation says what is: generated pages are current, commands and snippets run, links lead somewhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from action_reward_models.tests.servers.stand_in import Script, StandIn

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").rglob("README.md")])
BIN = Path(sys.executable).parent


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.S | re.M)


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    """The pages as they would be written, from a process of its own: a command keeps the help it once gave."""
    code = "import json, runpy; made = runpy.run_path('docs/generate.py')['PAGES']"
    code += "; print(json.dumps({page: make() for page, make in made.items()}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    pages: dict[str, str] = json.loads(done.stdout)
    return pages


@pytest.mark.parametrize("page", ["cli.md", "tables.md", "registry-keys.md"])
def test_generated_pages_are_current(page: str, generated: dict[str, str]) -> None:
    assert (ROOT / "docs" / page).read_text("utf-8") == generated[page], "run: .venv/bin/python docs/generate.py"


def test_links_lead_somewhere() -> None:
    checked = 0
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)\)", page.read_text("utf-8")):
            if "://" not in target:
                checked += 1
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
    assert checked >= 10


def run(text: str, folder: Path) -> None:
    env = {
        **os.environ,
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "HF_ENDPOINT": "http://127.0.0.1:1",  # nobody, unless a hub is started
        "HF_HOME": str(folder / "hf"),
        "XDG_DATA_HOME": str(folder / "share"),
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"


def run_guide(page: str, folder: Path, languages: str) -> None:
    """A guide from top to bottom: its commands and its Python, in order, in one folder, with a hub that it starts."""
    shutil.copytree(ROOT / "examples" / "miniwob" / "data", folder / "runs")
    text = (ROOT / "docs" / page).read_text("utf-8")
    steps = re.findall(r"^```(sh|python)\n(.*?)^```", text, re.S | re.M)
    assert " ".join(language for language, _ in steps) == languages
    exported = "if [ -f my-hub/hub.json ]; then export HF_ENDPOINT=$(arm hub status --dir my-hub)"
    exported += " HF_TOKEN=$(cat my-hub/token); fi"
    try:
        for language, step in steps:
            run(f"{exported}\n{step}" if language == "sh" else f"{exported}\npython - <<'END'\n{step}END", folder)
    finally:
        run("arm hub stop --dir my-hub", folder)


@pytest.mark.slow  # its commands run in the README's and in every verb's examples, too
def test_the_guide_runs(tmp_path: Path) -> None:
    run_guide("registry.md", tmp_path, "sh sh sh sh python python sh sh sh sh sh sh sh python")


def test_the_review_guide_runs(tmp_path: Path) -> None:
    run_guide("review.md", tmp_path, "sh sh sh sh")


@pytest.mark.slow  # its commands run in the tests of the verbs, too
def test_the_generating_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for the servers of models that the guide's endpoints.yaml names, which does batches, too."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    with StandIn(Script(models=("policy", "teacher"))) as server:
        monkeypatch.setenv("ARM_ENDPOINT_ACTOR", server.url)
        monkeypatch.setenv("ARM_ENDPOINT_TEACHER", server.url)
        run_guide("generating.md", tmp_path, "sh sh sh sh sh sh")
        assert server.counts()["chat"] == 153 * 4 * 5 + 20  # each candidate once, and the answers asked for live
        assert server.counts()["batches"] == 1
    labels = (tmp_path / "my-registry" / "generated" / "labels.jsonl").read_bytes().splitlines()
    assert len(labels) == 612
    assert all(json.loads(label)["status"] == "ok" for label in labels)


@pytest.mark.slow  # its commands run in the README's and in every verb's examples, too
def test_the_publishing_guide_runs(tmp_path: Path) -> None:
    run_guide("publishing.md", tmp_path, "sh sh sh python python sh python")


def test_concepts_snippets_run(tmp_path: Path) -> None:
    snippets = blocks(ROOT / "docs" / "concepts.md", "python")
    snippets = [snippet for snippet in snippets if "from load import" not in snippet]  # which a built directory has
    assert len(snippets) == 1
    for snippet in snippets:
        run(f"python - <<'END'\n{snippet}END", tmp_path)


def test_readme_commands_run(tmp_path: Path) -> None:
    """The publisher's commands and the researcher's lines, on the example's raw files."""
    shutil.copytree(ROOT / "examples" / "miniwob" / "data", tmp_path / "runs")
    make, publisher = blocks(ROOT / "README.md", "sh")
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M)
    assert {line.split()[1] for line in make.splitlines()} <= set(targets)
    commands = [line.split("#")[0].strip() for line in publisher.splitlines()]
    installing = [line for line in commands if line.startswith("pip ")]
    assert installing == ["pip install .", 'pip install ".[hub]"']  # what the installation test does with the wheel
    text = "\n".join(line for line in commands if line not in installing)
    assert "arm hub serve --background --dir my-hub\n" in text
    try:
        run(text.replace("--background", "--background --port 0"), tmp_path)
    finally:
        run("arm hub stop --dir my-hub", tmp_path)
    lines, picking = blocks(ROOT / "README.md", "python")
    assert "choose(" in picking  # which runs where there is a published checkpoint: tests/recipes/test_published.py
    run(f"python - <<'END'\n{lines}END", tmp_path / "my-registry")
