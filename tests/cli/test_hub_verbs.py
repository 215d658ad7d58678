"""The verbs that speak to a Hub: every example of their help, and what they say when something is wrong."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import click
import orjson
import pytest
from action_reward_models.tests import processes
from action_reward_models.tests.registry.checkpoints import RECIPE

ARM = Path(sys.executable).parent / "arm"
EXAMPLE = Path(__file__).parents[2] / "examples" / "miniwob"
REPO = "your-name/action-reward-models-data"


@dataclass(frozen=True)
class Shell:
    """A person's shell: a folder with the example, a home of its own, and what was exported."""

    folder: Path
    exported: dict[str, str]

    @property
    def env(self) -> dict[str, str]:
        home = {"HF_HOME": str(self.folder / "hf"), "XDG_DATA_HOME": str(self.folder / "share"), "COLUMNS": "160"}
        return {**os.environ, **home, **self.exported}

    def copy(self, folder: Path, old: str, new: str) -> Shell:
        """The same hub, and the example with one change of its declaration."""
        shutil.copytree(self.folder, folder, ignore=shutil.ignore_patterns("share", "hf", "pulled"))
        registry = folder / "registry.yaml"
        text = registry.read_text("utf-8")
        assert old in text
        registry.write_text(text.replace(old, new), "utf-8")
        return Shell(folder, self.exported)

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        return processes.arm(shlex.split(line)[1:], cwd=self.folder, env=self.env)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """With the example built, and a hub that HF_ENDPOINT names."""
    folder = tmp_path_factory.mktemp("shell")
    shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("build"))
    alone = Shell(folder, {})
    assert alone.run("arm build").returncode == 0
    started = alone.run("arm hub serve --background --port 0")
    assert started.returncode == 0, started.stderr
    token = (folder / "share" / "action-reward-models" / "hub" / "token").read_text("utf-8")
    yield Shell(folder, {"HF_ENDPOINT": started.stdout.strip(), "HF_TOKEN": token})
    assert alone.run("arm hub stop").returncode == 0


@pytest.fixture(scope="module")
def pushed(shell: Shell) -> Shell:
    """With the example published, which tests only read."""
    done = shell.run("arm push --yes")
    assert done.returncode == 0, done.stderr
    return shell


def examples(command: click.Command) -> list[str]:
    lines = (command.epilog or "").splitlines()
    return [line.strip() for line in lines if line.strip().startswith("arm ")]


def verb(name: str) -> click.Command:
    found: click.Command = import_module(f"action_reward_models.cli.{name}").command
    return found


def test_every_example_runs(shell: Shell) -> None:
    """In the order of a first publication; those of apply have a test of their own."""
    lines = [
        line
        for name in ("plan", "push", "pull", "review", "verify", "diff", "log", "lineage", "yank")
        for line in examples(verb(name))
    ]
    assert len(lines) >= 6
    for line in lines:
        done = shell.run(line)
        assert done.returncode == 0, (line, done.stderr)
        assert shell.exported["HF_TOKEN"] not in done.stdout + done.stderr


@pytest.mark.parametrize("number", range(3))
def test_the_examples_of_apply_run(shell: Shell, tmp_path: Path, number: int) -> None:
    """Each publishes a repository of its own: a plan is carried out once."""
    assert len(examples(verb("apply"))) == 3
    other = shell.copy(tmp_path / "copy", "namespace: your-name", f"namespace: your-name-{number}")
    assert other.run("arm plan --out plan.json").returncode == 0
    done = other.run(examples(verb("apply"))[number])
    assert done.returncode == 0, done.stderr
    again = other.run("arm apply plan.json")
    assert again.returncode == 1
    assert "is not what would be done now; nothing was published" in again.stderr


def test_push_says_what_it_will_do_and_what_it_did(shell: Shell) -> None:
    dry = shell.run("arm push --repo your-name/said --dry-run")
    assert "creates public repository" in dry.stdout
    assert "the tag v1.0.0 is new" in dry.stdout
    assert "data/bt_pairs/train-00000-of-00001.parquet" in dry.stdout
    done = shell.run("arm push --repo your-name/said --yes --json")
    report = orjson.loads(done.stdout)
    assert report["plan"]["creates"] == {"private": False}
    assert report["published"]["committed"] is True
    assert report["published"]["loaded"]["states"] == {"train": 141, "validation": 12}
    again = shell.run("arm push --repo your-name/said --yes")
    assert again.returncode == 0
    assert f"published as your-name/said v1.0.0, at {report['published']['commit']}" in again.stdout


def test_a_page_of_a_version_is_that_of_its_build_and_nothing_else_is_kept(pushed: Shell) -> None:
    before = {path for path in pushed.folder.rglob("*") if "share" not in path.parts}
    local = pushed.run("arm review build/action-reward-models-data --table selection_sft --out local.html --json")
    remote = pushed.run(f"arm review {REPO}@v1.0.0 --table selection_sft --out remote.html --json")
    assert remote.returncode == 0, remote.stderr
    reports = [orjson.loads(done.stdout) for done in (local, remote)]
    assert reports[1]["source"].startswith(f"{REPO}@")
    assert reports[0]["items"] == reports[1]["items"] > 90
    pages = [(pushed.folder / name).read_bytes() for name in ("local.html", "remote.html")]
    sources = [f'"subtitle":"{report["source"]}"'.encode() for report in reports]
    assert pages[0].count(sources[0]) == 1
    assert pages[0].replace(sources[0], sources[1]) == pages[1]
    made = {path for path in pushed.folder.rglob("*") if "share" not in path.parts} - before
    assert {path.name for path in made if path.suffix != ".pyc"} - {"hf"} == {"local.html", "remote.html"}
    missing = pushed.run(f"arm review {REPO}@v9.9.9 --out none.html")
    assert missing.returncode == 1
    assert not (pushed.folder / "none.html").exists()


def test_push_asks_and_a_pipe_cannot_answer(shell: Shell) -> None:
    done = shell.run("arm push --repo your-name/asked")
    assert done.returncode == 2
    assert "next: arm push --repo your-name/asked --yes   # after --dry-run" in done.stderr


def test_push_builds_what_is_declared_and_asks_for_the_version_that_fits(pushed: Shell, tmp_path: Path) -> None:
    other = pushed.copy(tmp_path / "copy", "seed: 42", "seed: 43")
    done = other.run("arm push --yes")
    assert done.returncode == 1
    assert "was built because split.seed: 42 -> 43" in done.stderr
    assert "with other content: the change asks for a minor bump" in done.stderr
    assert 'next: raise the version in registry.yaml: version: "1.1.0"' in done.stderr


def test_a_plan_is_a_report_on_stdout_and_says_how_it_is_applied(shell: Shell, tmp_path: Path) -> None:
    """Wherever the registry lies, and with the options of the plan: the command that follows is run as printed."""
    other = shell.copy(tmp_path / "copy", "namespace: your-name", "namespace: followed")
    name = "action-reward-models-data"
    assert other.run("arm build").returncode == 0
    above = Shell(tmp_path, shell.exported)
    done = above.run(f"arm plan copy/registry.yaml --name {name} --private")
    assert done.returncode == 0, done.stderr
    said = [line.split() for line in done.stdout.splitlines() if line.strip()]
    assert said[0] == [name, "1.0.0,", "the", "first", "version:"]
    assert ["table", "split", "added"] in said  # and no column of nothing but zeros
    assert any(words[-1] == f"{shell.exported['HF_ENDPOINT']}/datasets/followed/{name}" for words in said)
    assert done.stderr == f"next: arm apply --registry copy/registry.yaml --name {name} --private\n"
    line = done.stderr.removeprefix("next: ").strip()
    asked = above.run(line)
    assert (asked.returncode, asked.stderr.splitlines()[-1]) == (2, f"  next: {line} --yes   # after arm plan")
    assert above.run(f"{line} --yes").returncode == 0
    assert "nothing to do" in above.run("arm plan copy").stdout


def test_a_plan_that_is_refused_is_shown_and_not_saved(pushed: Shell, tmp_path: Path) -> None:
    other = pushed.copy(tmp_path / "copy", "seed: 42", "seed: 44")
    (other.folder / "plan.json").unlink(missing_ok=True)  # of another test
    for line in ("arm plan --out plan.json", "arm plan --out plan.json --json", "arm apply --yes"):
        done = other.run(line)
        assert done.returncode == 1
        assert done.stderr.count("with other content: the change asks") == ("--json" not in line)
        assert "was saved: something is refused" in done.stderr or line == "arm apply --yes"
        assert done.stderr.endswith("nothing was published\n") == (line == "arm apply --yes")
        if "--json" in line:
            assert orjson.loads(done.stdout)["steps"][0]["status"] == "refused"
        else:
            assert "moved in" in done.stdout
        assert not (other.folder / "plan.json").exists()


@pytest.mark.parametrize("name", ["registry.yaml", "arm.lock", "none/plan.json"])
def test_a_plan_is_saved_over_nothing_but_a_plan(shell: Shell, name: str) -> None:
    before = {path: path.read_bytes() for path in shell.folder.glob("*.*") if path.is_file()}
    done = shell.run(f"arm plan --out {name}")
    assert done.returncode == 2
    assert "next: arm plan --out plan.json" in done.stderr
    assert {path: path.read_bytes() for path in shell.folder.glob("*.*") if path.is_file()} == before


def test_a_checkpoint_that_is_refused_is_a_status_of_1(shell: Shell, tmp_path: Path) -> None:
    other = shell.copy(tmp_path / "copy", "registry: 1", "registry: 1")
    recipe = RECIPE.format(dataset="action-reward-models-data@1.0.0", base="your-name/none", revision="v1")
    (other.folder / "arm.yaml").write_text(recipe, "utf-8")
    with (other.folder / "registry.yaml").open("a", encoding="utf-8") as file:
        file.write('models:\n  - {name: arm, version: "1.0.0", recipe: arm.yaml, license: mit}\n')
    done = other.run("arm plan")
    assert done.returncode == 1
    assert "your-name/none@v1 is not in arm.lock" in done.stderr
    assert "arm 1.0.0: refused" in done.stdout


def test_push_stops_at_secrets_unless_told(shell: Shell, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(shell.folder, folder, ignore=shutil.ignore_patterns("share", "hf", "pulled", "build"))
    episodes = folder / "data" / "episodes.jsonl"
    secret = "hf_" + "aB3dE6gH9kLmN2pQ5sT8vW1xYz4c7F0jRu"
    text = episodes.read_text("utf-8")
    cut = text.index('"type": "text", "text": "') + len('"type": "text", "text": "')
    episodes.write_text(f"{text[:cut]}token {secret} {text[cut:]}", "utf-8")
    other = Shell(folder, shell.exported)
    assert other.run("arm build").returncode == 0
    done = other.run("arm push --repo your-name/secret --yes")
    assert done.returncode == 1
    assert "secrets or addresses were found; nothing was published" in done.stderr
    assert "data/states/train" in done.stderr
    assert secret not in done.stdout + done.stderr
    assert "--allow-findings" in done.stderr
    assert other.run("arm push --repo your-name/secret --yes --allow-findings").returncode == 0


@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        ("arm push nope --yes", 2, "there is no dataset 'nope'"),
        ("arm push data --yes", 2, "data: is neither a built directory nor a registry"),
        ("arm push --repo nobody --yes", 1, "namespace/name is expected"),
        ("arm pull nobody", 1, "namespace/name is expected"),
        ("arm pull your-name/nothing", 1, "your-name/nothing: there is no such dataset"),
        (f"arm pull {REPO}@v9.9.9", 1, "has no revision 'v9.9.9'; its tags: v1.0.0"),
        (f"arm pull {REPO} --out data", 1, "is not empty"),
        (f"arm verify {REPO}@v9.9.9", 1, "has no revision"),
        ("arm hub status --dir nothing", 1, "no hub is running"),
        ("arm hub serve --port 99999", 2, "99999 is not in the range"),
    ],
)
def test_wrong_usage(pushed: Shell, line: str, status: int, said: str) -> None:
    for ending in ("", " --json"):
        done = pushed.run(line + ending)
        assert done.returncode == status, done.stderr
        assert said in done.stderr
        assert "Traceback" not in done.stderr
        assert bool(done.stdout) == bool(ending)
        if ending:
            assert said.rpartition(": ")[2] in orjson.loads(done.stdout)["error"]


@pytest.mark.slow  # it is asked again for a quarter of a minute
def test_a_hub_that_does_not_answer_is_named(shell: Shell) -> None:
    away = Shell(shell.folder, {**shell.exported, "HF_ENDPOINT": "http://127.0.0.1:1"})
    done = away.run("arm push --yes")
    assert done.returncode == 1
    assert "http://127.0.0.1:1" in done.stderr
    assert "is the Hub running?" in done.stderr


def test_the_examples_of_hub_run(tmp_path: Path) -> None:
    """`serve` in the foreground ends like any server, by a signal."""
    alone = Shell(tmp_path, {})
    group = verb("hub")
    assert isinstance(group, click.Group)
    lines = {name: examples(command) for name, command in group.commands.items()}
    assert {name: len(found) for name, found in lines.items()} == {"serve": 2, "status": 2, "stop": 2}
    foreground, background = lines["serve"]
    words = [str(ARM), *shlex.split(foreground)[1:], "--port", "0"]
    with subprocess.Popen(
        words, cwd=tmp_path, env=alone.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        assert alone.run("arm hub status").returncode == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0
    assert alone.run("arm hub status").returncode == 1
    assert alone.run(f"{foreground} --background --port 0").returncode == 0
    for line in (background, *lines["status"], *lines["stop"]):
        done = alone.run(line)
        assert done.returncode == 0, (line, done.stderr)


def test_a_second_hub_of_the_same_folder_is_the_first(tmp_path: Path) -> None:
    alone = Shell(tmp_path, {})
    first = orjson.loads(alone.run("arm hub serve --background --port 0 --dir h --json").stdout)
    second = orjson.loads(alone.run("arm hub serve --dir h --json").stdout)
    assert first == second
    assert orjson.loads(alone.run("arm hub stop --dir h --json").stdout)["stopped"] is True
    assert orjson.loads(alone.run("arm hub stop --dir h --json").stdout)["stopped"] is False


@pytest.mark.parametrize("token", [" {} ", "{}\r\n", "{}\nx", "{}\u00e9"])
def test_a_token_with_something_around_it_is_never_shown(pushed: Shell, token: str) -> None:
    secret = pushed.exported["HF_TOKEN"]
    odd = Shell(pushed.folder, {**pushed.exported, "HF_TOKEN": token.format(secret)})
    done = odd.run(f"arm pull {REPO} --out with-token")
    assert secret not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == (0 if token.format("").isspace() else 2)


@pytest.mark.parametrize(
    "endpoint",
    ["127.0.0.1:1", "ftp://127.0.0.1", "http://user:secret@127.0.0.1:1", "http://127.0.0.1:99999", "http://"],
)
def test_an_endpoint_that_is_none_is_refused_at_once(shell: Shell, endpoint: str) -> None:
    odd = Shell(shell.folder, {**shell.exported, "HF_ENDPOINT": endpoint})
    for line in ("arm push --dry-run", f"arm pull {REPO} --out odd", f"arm verify {REPO}"):
        done = odd.run(line)
        assert done.returncode == 2
        assert "HF_ENDPOINT is no address of a Hub" in done.stderr
        assert "secret" not in done.stderr


def test_an_endpoint_with_blanks_and_a_slash_works(pushed: Shell) -> None:
    odd = Shell(pushed.folder, {**pushed.exported, "HF_ENDPOINT": f"{pushed.exported['HF_ENDPOINT']}/"})
    assert odd.run(f"arm verify {REPO}").returncode == 0
