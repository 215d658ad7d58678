"""The command line: help, examples, exit statuses, JSON, and messages that say what to do next."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import orjson
import pytest
from action_reward_models import cli
from action_reward_models.cli import VERBS, arm
from action_reward_models.tests import processes

ARM = Path(sys.executable).parent / "arm"
EXAMPLE = Path(__file__).parents[2] / "examples" / "miniwob"


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return processes.arm(words, cwd=cwd, env={**os.environ, "COLUMNS": "120"})


def command(verb: str) -> click.Command:
    found: click.Command = import_module(f"action_reward_models.cli.{verb}").command
    return found


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    """A folder with registry.yaml and data, like a publisher's; `runs` holds raw files."""
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("build"))
    shutil.copytree(EXAMPLE / "data", tmp_path / "runs")
    shutil.copy(EXAMPLE.parents[1] / "recipes" / "tiny" / "selection_arm_lora.yaml", tmp_path / "recipe.yaml")
    return tmp_path


def test_help_loads_nothing_heavy() -> None:
    """`arm --help` must answer at once: neither pyarrow nor datasets, nor anything else that takes a while."""
    code = (
        "import sys\n"
        "from action_reward_models.cli import arm\n"
        "try:\n    arm(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({m.split('.')[0] for m in sys.modules}"
        " & {'pyarrow', 'datasets', 'PIL', 'jsonschema_rs', 'orjson', 'yaml', 'jinja2', 'huggingface_hub', 'rich',"
        " 'openai', 'torch', 'transformers'}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")
    for verb in VERBS:
        assert f"\n  {verb} " in done.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_static_helps_are_the_verbs_own(verb: str) -> None:
    assert command(verb).short_help == VERBS[verb]
    assert command(verb).name == verb
    for leaf in leaves(verb):
        assert {"--json", "--help"} <= {o for p in [*leaf.params, *_help(leaf)] for o in p.opts}
        assert leaf.epilog


def leaves(verb: str) -> list[click.Command]:
    """The verb itself, or what its group holds."""
    found = command(verb)
    return list(found.commands.values()) if isinstance(found, click.Group) else [found]


def _help(leaf: click.Command) -> list[click.Parameter]:
    option = leaf.get_help_option(click.Context(arm))
    return [option] if option else []


def test_every_verb_has_a_module() -> None:
    modules = {p.stem for p in (Path(__file__).parents[2] / "cli").glob("*.py")} - {
        "__init__",
        "asking",
        "generate_options",
        "output",
        "picking",
        "picking_models",
        "picking_options",
        "progress",
        "serve_vllm",
        "source",
    }
    assert {name for name in modules if not name.endswith("_report")} == set(VERBS)  # a report is shared by verbs


def examples(verb: str) -> list[str]:
    lines = (command(verb).epilog or "").splitlines()
    return [line.strip() for line in lines if line.strip().startswith("arm ")]


NEED_A_MODEL = ("sample", "label")  # theirs run in test_sample.py and test_label.py
# theirs run in tests/recipes, test_adopt.py, test_picking.py and test_serve.py
NEED_TORCH = ("train", "evaluate", "merge", "adopt", "select", "score", "serve")
NEED_A_HUB = (
    "review",
    "plan",
    "apply",
    "push",
    "pull",
    "verify",
    "diff",
    "log",
    "lineage",
    "yank",
    "hub",
)  # their examples run in test_hub_verbs.py


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in (*NEED_A_HUB, *NEED_A_MODEL, *NEED_TORCH)])
def test_examples_of_help_run(verb: str, registry: Path) -> None:
    """Every example of every verb's help, typed as it stands there."""
    assert examples(verb)
    if verb in ("validate", "export"):
        assert run("build", cwd=registry).returncode == 0
    for line in examples(verb):
        if "--cluster" not in line:  # which runs in test_cluster.py
            done = run(*shlex.split(line)[1:], cwd=registry)
            assert done.returncode == 0, (line, done.stderr)
    for folder in registry.glob("*/hub"):  # of the demo
        assert run("hub", "stop", "--dir", str(folder), cwd=registry).returncode == 0


def test_build_prints_json_on_stdout_and_words_on_stderr(registry: Path) -> None:
    done = run("build", "--json", cwd=registry)
    (result,) = orjson.loads(done.stdout)
    assert result["built"] is True
    assert result["reasons"] == ["there is no build yet"]
    assert result["rows"]["bt_pairs"] == {"train": 167, "validation": 16}
    assert result["excluded"]["selection_sft"] == {"null_in_source": 20, "single_distinct_action": 1}
    again = run("build", cwd=registry)
    assert again.stdout == ""
    assert "is up to date" in again.stderr
    (second,) = orjson.loads(run("build", "--json", cwd=registry).stdout)
    assert second["built"] is False
    assert second["identity_sha256"] == result["identity_sha256"]


def test_validate_reports_every_problem_and_exits_1(registry: Path) -> None:
    labels = registry / "data" / "labels.jsonl"
    lines = labels.read_bytes().splitlines(keepends=True)
    lines[4] = lines[4].replace(b'"selection"', b'"selectoin"')
    lines[9] = lines[9][:40]
    labels.write_bytes(b"".join(lines))
    done = run("validate", "--json", cwd=registry)
    assert done.returncode == 1
    report = orjson.loads(done.stdout)
    assert not report["ok"]
    where = [(i["file"], i["line"], i["path"], i["message"]) for i in report["issues"]]
    assert where == sorted(where)
    assert [(line, path) for _, line, path, _ in where] == [(5, "$"), (5, "$.selectoin"), (10, "$")]
    assert where[1][3] == "is not a known field; did you mean 'selection'?"
    failed = run("build", cwd=registry)
    assert failed.returncode == 1
    assert "data/labels.jsonl:5 $.selectoin is not a known field; did you mean 'selection'?" in failed.stderr
    assert "on_invalid: exclude" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert not (registry / "build" / "action-reward-models-data").exists()


def test_declared_exclusion_keeps_the_good_rows(registry: Path) -> None:
    labels = registry / "data" / "labels.jsonl"
    lines = labels.read_bytes().splitlines(keepends=True)
    lines[9] = lines[9][:40] + b"\n"
    labels.write_bytes(b"".join(lines))
    file = registry / "registry.yaml"
    file.write_text(
        file.read_text("utf-8").replace("teacher: scripted-solver", "teacher: s, on_invalid: exclude"), "utf-8"
    )
    done = run("build", "--json", cwd=registry)
    (result,) = orjson.loads(done.stdout)
    assert result["excluded"]["teacher_labels"] == {"invalid_record": 1}
    assert sum(result["rows"]["teacher_labels"].values()) == 116
    (note,) = result["notes"]
    assert (note["file"], note["line"]) == ("data/labels.jsonl", 10)


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ("buidl", 2, "No such command 'buidl'. Did you mean 'build'?"),
        ("build no-such.yaml", 2, "there is no such registry"),
        ("build --name nope", 2, "there is no dataset 'nope'; there are action-reward-models-data"),
        ("build --workers 0", 2, "0 is not in the range x>=1"),
        ("build --out data", 1, "is not a build"),
        ("validate data/labels.jsonl", 2, "--as one of"),
        ("validate data/labels.jsonl --as lable/1", 2, "no schema 'lable/1'"),
        ("validate registry.yaml --as episode/1", 2, "--as goes with a *.jsonl file"),
        ("validate data", 2, "there is no such registry"),
        ("validate nothing", 2, "there is no such file or folder"),
        ("init .", 1, "is there already and is not overwritten"),
        ("init new --from build-nothing", 2, "does not exist"),
        ("init new --from empty", 1, "holds no trajectories in a known form"),
    ],
)
def test_wrong_usage(words: str, status: int, said: str, registry: Path) -> None:
    (registry / "empty").mkdir()
    done = run(*shlex.split(words), cwd=registry)
    assert done.returncode == status
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert not (registry / "new").exists()


def test_init_from_a_folder_builds_unchanged(registry: Path) -> None:
    """`arm init --from` on raw files, then `arm build` of what it wrote, without a touch."""
    assert run("init", "mine", "--from", "runs", cwd=registry).returncode == 0
    text = (registry / "mine" / "registry.yaml").read_text("utf-8")
    assert "path: ../runs/episodes.jsonl, dialect: function, space: pixel" in text
    done = run("build", "mine/registry.yaml", "--json", cwd=registry)
    assert done.returncode == 0, done.stderr
    (result,) = orjson.loads(done.stdout)
    rows = {name: sum(part.values()) for name, part in result["rows"].items()}
    assert (rows["states"], rows["candidate_sets"], rows["teacher_labels"]) == (153, 117, 117)
    assert (rows["selection_sft"], rows["bt_pairs"], rows["exclusions"]) == (96, 183, 262)


def test_build_several_datasets_of_one_registry(registry: Path) -> None:
    file = registry / "registry.yaml"
    text = file.read_text("utf-8")
    second = text[text.index("  - name:") :].replace("action-reward-models-data", "second")
    file.write_text(text + second, "utf-8")
    done = run("build", "--json", cwd=registry)
    results: list[dict[str, Any]] = orjson.loads(done.stdout)
    assert [r["name"] for r in results] == ["action-reward-models-data", "second"]
    assert (registry / "build" / "second" / "manifest.json").is_file()
    assert run("build", "--out", "x", cwd=registry).returncode == 2
    assert run("build", "--name", "second", "--out", "x", cwd=registry).returncode == 0


def test_completion_is_available(registry: Path) -> None:
    env = {**os.environ, "_ARM_COMPLETE": "bash_source"}
    done = subprocess.run([str(ARM)], env=env, cwd=registry, capture_output=True, text=True, check=False)
    assert "_arm_completion" in done.stdout


def test_validate_prints_json_whatever_it_finds(registry: Path) -> None:
    """Also for problems of the registry itself, for thousands of broken records, and for a broken manifest."""
    text = (registry / "registry.yaml").read_text("utf-8")
    (registry / "typo.yaml").write_text(text.replace("namespace:", "namspace:"), "utf-8")
    (registry / "data" / "labels.jsonl").write_bytes(b"{}\n" * 3000)
    broken = registry / "broken"
    broken.mkdir()
    (broken / "manifest.json").write_text("{}", "utf-8")
    for path, least in (("typo.yaml", 2), ("registry.yaml", 1000), ("broken", 1)):
        done = run("validate", path, "--json", cwd=registry)
        report = orjson.loads(done.stdout)
        assert done.returncode == 1
        assert not report["ok"]
        assert len(report["issues"]) >= least
    words = run("validate", "registry.yaml", cwd=registry).stderr.splitlines()
    assert len(words) < 60
    assert "more; `arm validate --json` lists them" in words[-2]


def test_validate_says_what_the_gates_will_say(registry: Path) -> None:
    """A first build only warns, with the line that would allow it."""
    file = registry / "registry.yaml"
    file.write_text(file.read_text("utf-8").replace("{selection_sft: 0.25}", "{selection_sft: 0.01}"), "utf-8")
    checked = run("validate", cwd=registry)
    assert checked.returncode == 1
    assert "$.gates.max_excluded.selection_sft selection_sft: 17.9% of 117 labels are excluded" in checked.stderr
    built = run("build", cwd=registry)
    assert built.returncode == 0
    assert "warning: selection_sft: 17.9% of 117 labels are excluded, more than 1.0%" in built.stderr
    assert "publishing will refuse it without gates: {max_excluded: {selection_sft: 0.18}}" in built.stderr


def test_validate_tells_of_secrets_before_anything_is_built(registry: Path) -> None:
    """With file, line and field, and never the secret; what `redact` replaces is not told."""
    path = registry / "data" / "labels.jsonl"
    lines = path.read_text("utf-8").splitlines()
    label = orjson.loads(lines[4])
    lines[4] = orjson.dumps({**label, "reasoning": "Ask jane@gmail.com; the password: hunter2."}).decode()
    path.write_text("\n".join(lines) + "\n", "utf-8")
    done = run("validate", "--json", cwd=registry)
    report = orjson.loads(done.stdout)
    assert (done.returncode, report["ok"], report["issues"]) == (0, True, [])
    assert [(f["file"], f["line"], f["path"], f["message"]) for f in report["findings"]] == [
        ("data/labels.jsonl", 5, "$.reasoning", "holds a password: password=…"),
        ("data/labels.jsonl", 5, "$.reasoning", "holds an e-mail address: …@…"),
    ]
    words = run("validate", cwd=registry).stderr
    assert "2 secrets or addresses in the sources; publishing stops for them unless the dataset says `redact:" in words
    assert "hunter2" not in words + done.stdout
    assert "jane" not in words + done.stdout
    file = registry / "registry.yaml"
    file.write_text(file.read_text("utf-8").replace("    sources:", "    redact: [addresses]\n    sources:"), "utf-8")
    report = orjson.loads(run("validate", "--json", cwd=registry).stdout)
    assert [f["message"] for f in report["findings"]] == ["holds a password: password=…"]


def test_nothing_that_is_quoted_steers_the_terminal(registry: Path) -> None:
    odd = "a\x1b]0;owned\x07\x9b2J.jsonl"
    (registry / "runs" / odd).write_text("{}\n", "utf-8")
    done = run("init", "mine", "--from", "runs", cwd=registry)
    assert done.returncode == 0
    assert "a\\u001b]0;owned\\u0007\\u009b2J.jsonl" in done.stderr
    assert run("build", cwd=registry).returncode == 0
    built = registry / "build" / "action-reward-models-data"
    (built / "data" / "states" / odd).write_text("", "utf-8")
    checked = run("validate", str(built), cwd=registry)
    assert checked.returncode == 1
    assert not set("\x1b\x07\x9b") & set(done.stderr + done.stdout + checked.stderr)


def test_what_the_system_refuses_is_a_message(registry: Path) -> None:
    (registry / "d.jsonl").mkdir()
    for words in ("validate d.jsonl --as episode/1", "init data/labels.jsonl/x"):
        done = run(*shlex.split(words), cwd=registry)
        assert done.returncode in (1, 2)
        assert "Traceback" not in done.stderr
        assert done.stderr.startswith("arm: ")


@pytest.mark.parametrize(
    "words", ["build nope", "validate nope", "init .", "build --workers 0", "build --name nope", "demo --dir data"]
)
def test_a_failure_is_json_too(words: str, registry: Path) -> None:
    done = run(*shlex.split(words), "--json", cwd=registry)
    assert done.returncode in (1, 2)
    problem = orjson.loads(done.stdout)
    assert problem["error"]
    assert set(problem) == {"error", "where", "next", "issues"}
    assert done.stderr


def test_one_failing_dataset_does_not_lose_the_others(registry: Path) -> None:
    file = registry / "registry.yaml"
    text = file.read_text("utf-8")
    second = text[text.index("  - name:") :].replace("action-reward-models-data", "second").replace("0.25", "0.01")
    file.write_text(text[: text.index("  - name:")] + second + text[text.index("  - name:") :], "utf-8")
    # Gates stop a build once a version is published.
    entry = {"repo": "your-name/second", "commit": "0" * 40, "identity_sha256": "0" * 64}
    lock = {"lock": 1, "references": [], "datasets": {}, "models": {}, "packages": {}}
    (registry / "arm.lock").write_bytes(orjson.dumps({**lock, "published": {"second": {"1.0.0": entry}}}))
    done = run("build", "--json", cwd=registry)
    assert done.returncode == 1
    failed, built = orjson.loads(done.stdout)
    assert (failed["name"], failed["built"]) == ("second", False)
    assert "are excluded, more than 1.0%" in failed["error"]
    assert built["built"] is True
    assert (registry / "build" / "action-reward-models-data" / "manifest.json").is_file()


def test_demo_leaves_a_persons_folder_alone(registry: Path) -> None:
    mine = registry / "mine"
    (mine / "data").mkdir(parents=True)
    (mine / "data" / "episodes.jsonl").write_text("mine", "utf-8")
    done = run("demo", "--dir", "mine", cwd=registry)
    assert done.returncode == 1
    assert "is not empty" in done.stderr
    assert (mine / "data" / "episodes.jsonl").read_text("utf-8") == "mine"


def test_a_terminated_build_leaves_nothing_but_finished_buckets(registry: Path) -> None:
    """SIGTERM is what schedulers send."""
    import signal
    import time

    process = subprocess.Popen([str(ARM), "build", "--workers", "1"], cwd=registry, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while not list((registry / "build").glob(".action*")) and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGTERM)
    status = process.wait(30)
    left = [path.name for path in (registry / "build").iterdir()]
    kept = [".action-reward-models-data-work"]  # its one bucket was finished a moment before
    assert (status, left) in [(143, []), (143, kept), (0, ["action-reward-models-data"])]


def test_a_package_of_an_extra_that_is_not_installed_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    words = ["merge", str(tmp_path), "--out", str(tmp_path / "merged"), "--json"]
    assert cli._run(words) == 1
    told = capsys.readouterr()
    assert told.err == 'arm: transformers is not installed\n  next: pip install "action-reward-models[inference]"\n'
    assert orjson.loads(told.out)["next"] == 'pip install "action-reward-models[inference]"'


@pytest.mark.parametrize(
    ("package", "verb", "extra"),
    [
        ("torch", "train", "train"),
        ("torch", "evaluate", "inference"),
        ("peft.tuners", "adopt", "inference"),
        ("trl", "validate", "train"),
        ("pyarrow", "train", None),
    ],
)
def test_which_extra_a_package_is_of(package: str, verb: str, extra: str | None) -> None:
    found = cli._missing(ModuleNotFoundError(name=package), [verb])
    assert (found and found.next_command) == (extra and f'pip install "action-reward-models[{extra}]"')


@pytest.mark.parametrize(
    ("named", "then"),
    [
        ("mine", "arm merge build/mine --out merged"),
        ("somebody/mine@v1.0.0", "arm pull somebody/mine@v1.0.0"),
        ("build/other", None),
        ("other", None),
    ],
)
def test_what_is_merged_is_a_folder(
    named: str, then: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "build" / "mine").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert cli._run(["merge", named, "--out", "merged", "--json"]) == 2
    said = orjson.loads(capsys.readouterr().out)
    assert (said["error"], said["where"], said["next"]) == ("there is no such folder", named, then)
