"""What must hold for the project as a whole: packaging, imports, floors."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TORCH = (
    "action_reward_models.recipes.trainers."  # modules that import torch at the top; others import them where needed
)
NOT_PACKAGED = {"tests", "benchmarks", "docs", "examples", "build", "dist"}
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PACKAGES: list[str] = PYPROJECT["tool"]["setuptools"]["packages"]

# Room -> rooms it may know. A room knows itself and those below; builders and cards share a floor.
FLOORS: dict[str, set[str]] = {
    "schemas": set(),
    "prompts": {"schemas"},
    "servers": {"schemas", "prompts"},
    "builders": {"schemas", "prompts", "servers"},
    "cards": {"schemas"},
    "hub_sync": {"schemas", "cards"},
    "inference": {"schemas", "prompts", "servers"},
    "recipes": {"schemas", "prompts", "cards", "inference"},
    "registry": {"schemas", "prompts", "servers", "builders", "cards", "hub_sync", "inference", "recipes"},
    "cli": {"schemas", "prompts", "servers", "builders", "cards", "hub_sync", "inference", "recipes", "registry"},
}


def modules() -> list[tuple[str, Path]]:
    """Every module of the project as (dotted name, file)."""
    found = []
    for package in PACKAGES:
        folder = ROOT.joinpath(*package.split(".")[1:])
        for file in sorted(folder.glob("*.py")):
            if file.name == "__init__.py":
                found.append((package, file))
            elif package != "action_reward_models":
                found.append((f"{package}.{file.stem}", file))
    return found


def test_folders_are_packages() -> None:
    """A package missing from pyproject works in editable mode and is absent from the wheel."""
    environments = {path.parent for path in ROOT.glob("*/pyvenv.cfg")}
    folders = {
        ".".join(["action_reward_models", *path.parent.relative_to(ROOT).parts])
        for path in ROOT.rglob("__init__.py")
        if not any(p.startswith(".") or p in NOT_PACKAGED for p in path.relative_to(ROOT).parts)
        and not environments & set(path.parents)
    }
    assert folders == set(PACKAGES)


def test_every_module_imports() -> None:
    names = [name for name, _ in modules()]
    assert len(names) > 50
    for name in names:
        if not name.startswith(TORCH):
            importlib.import_module(name)
    assert "torch" not in sys.modules


@pytest.mark.slow
def test_every_trainer_imports() -> None:
    names = [name for name, _ in modules() if name.startswith(TORCH)]
    assert len(names) > 2
    code = "\n".join(f"import {name}" for name in names)
    environment = {key: value for key, value in os.environ.items() if key != "USE_TORCH"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_floors_know_only_floors_below() -> None:
    assert {p.split(".")[1] for p in PACKAGES if "." in p} == set(FLOORS)
    wrong = []
    for name, file in modules():
        parts = name.split(".")
        room = parts[1] if len(parts) > 1 else None
        package = parts if file.name == "__init__.py" else parts[:-1]
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                targets = [alias.name.split(".") for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = package[: len(package) - node.level + 1] if node.level else []
                start = base + (node.module.split(".") if node.module else [])
                targets = [[*start, alias.name] for alias in node.names]
            else:
                continue
            for target in targets:
                known = target[1] if target[:1] == ["action_reward_models"] and len(target) > 1 else None
                if room and known in FLOORS and known != room and known not in FLOORS[room]:
                    wrong.append(f"{name} imports {known}")
    assert not wrong


def test_the_embedded_hub_knows_nothing_of_ours() -> None:
    """Client and server must not share a bug: what `local_hub` imports is its own, or somebody else's."""
    own = ["action_reward_models", "hub_sync", "local_hub"]
    found = [(name, file) for name, file in modules() if name.split(".")[:3] == own]
    assert len(found) > 20
    for name, file in found:
        package = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                assert not any(alias.name.startswith(own[0]) for alias in node.names), name
            elif isinstance(node, ast.ImportFrom):
                base = package[: len(package) - node.level + 1] if node.level else []
                target = [*base, *(node.module.split(".") if node.module else [])]
                assert target[:1] != own[:1] or target[:3] == own, f"{name} imports {'.'.join(target)}"


def test_files_stay_small() -> None:
    lengths = {str(f.relative_to(ROOT)): len(f.read_text("utf-8").splitlines()) for _, f in modules()}
    assert not {name: n for name, n in lengths.items() if n > 400}


def test_root_package_is_light() -> None:
    heavy = {"pyarrow", "datasets", "PIL", "torch", "jsonschema_rs", "yaml"}
    code = "import action_reward_models, sys; print({m.split('.')[0] for m in sys.modules} & " + f"{heavy!r})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_tracked_files_name_no_machine() -> None:
    """No absolute path of a developer's machine in any tracked file."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    needles = [b"/" + name + b"/" for name in (b"work", b"root", b"home")]
    for name in listed.stdout.split("\0"):
        path = ROOT / name
        if name and path.is_file() and not name.startswith("tests/"):
            data = path.read_bytes()
            assert not any(needle in data for needle in needles), name


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from an sdist, so that what is missing from either is seen."""
    out = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(out), str(ROOT)], check=True, capture_output=True)
    (built,) = out.glob("*.whl")
    return built


@pytest.mark.timeout(900)  # the first use of the wheel builds it
def test_wheel_holds_the_tree(wheel: Path) -> None:
    """Every module, schema, prompt, template and example is in the wheel, and nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        inside = {n for n in archive.namelist() if not n.split("/")[0].endswith(".dist-info")}
    expected = {f"{'/'.join(p.split('.'))}/{f.name}" for p in PACKAGES for f in _package_files(p)}
    expected |= {f"action_reward_models/{p.relative_to(ROOT).as_posix()}" for p in _example_files()}
    assert inside == expected
    assert sum(name.endswith(".json") for name in inside) >= 18
    assert sum(name.endswith(".jsonl") for name in inside) == 3


def _package_files(package: str) -> list[Path]:
    folder = ROOT.joinpath(*package.split(".")[1:])
    patterns = PYPROJECT["tool"]["setuptools"]["package-data"].get(package, [])
    files = [*folder.glob("*.py")]
    if package == "action_reward_models":
        return [folder / "__init__.py", folder / "py.typed"]
    for pattern in patterns:
        found = list(folder.glob(pattern))
        assert found, f"the package data pattern {package}: {pattern} matches nothing"
        files += found
    return [folder / Path(f.relative_to(folder)) for f in files if f.parent == folder]


def _example_files() -> list[Path]:
    """Package data in subfolders: the JSON schemas, the templates, the example."""
    found = []
    for package, patterns in PYPROJECT["tool"]["setuptools"]["package-data"].items():
        folder = ROOT.joinpath(*package.split(".")[1:])
        for pattern in patterns:
            if "/" in pattern:
                matched = list(folder.glob(pattern))
                assert matched, f"the package data pattern {package}: {pattern} matches nothing"
                found += matched
    return found


@pytest.mark.slow  # what the wheel lacks is seen by the tests before
@pytest.mark.timeout(900)  # it installs all dependencies
def test_wheel_builds_a_dataset_outside_the_repo(wheel: Path, tmp_path: Path) -> None:
    """An empty venv with the wheel and its dependencies builds and loads the example, far from the checkout."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    python = venv / "bin" / "python"
    constraints = ["-c", str(ROOT / "constraints.txt")]
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *constraints]
    subprocess.run([*pip, f"{wheel}[hub]"], check=True, cwd=tmp_path)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    where = "import action_reward_models as a, pathlib; print(pathlib.Path(a.__file__).parent)"
    imported = subprocess.run(
        [str(python), "-c", where], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    assert str(venv) in imported.stdout
    command = [str(venv / "bin" / "arm"), "demo", "--dir", "there"]
    demo = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    subprocess.run([*command[:1], "hub", "stop", "--dir", "there/hub"], cwd=tmp_path, env=env, check=True)
    assert demo.returncode == 0, demo.stderr
    assert "selection_sft   train 88, validation 8" in demo.stdout
    assert "320 x 420 px" in demo.stdout
    absent = "import importlib.util as u; print([m for m in ('torch', 'transformers') if u.find_spec(m)])"
    assert subprocess.run([str(python), "-c", absent], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.slow
@pytest.mark.timeout(1800)  # it installs torch
def test_the_extras_score_and_train(wheel: Path, tmp_path: Path) -> None:
    """In an empty venv: with `inference` a head of another tool is adopted and scores; with `train` a recipe trains."""
    import orjson
    import yaml
    from action_reward_models.tests.recipes import tiny
    from action_reward_models.tests.tiny_vlm import cached

    base, built = cached.made(), tiny.dataset(tmp_path / "data")
    venv, work = tmp_path / "venv", tmp_path / "work"
    work.mkdir()
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    python, arm = venv / "bin" / "python", venv / "bin" / "arm"
    environment = {k: v for k, v in cached.environment().items() if not k.startswith(("PYTHON", "VIRTUAL_ENV", "USE_"))}

    def ran(*command: object) -> str:
        words = [str(word) for word in command]
        done = subprocess.run(words, cwd=work, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    def installed(extra: str) -> str:
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        ran(*pip, "-c", ROOT / "constraints.txt", f"{wheel}[{extra}]")
        names = "('torch', 'transformers', 'peft', 'trl')"
        return ran(python, "-c", f"import importlib.util as u; print(*[m for m in {names} if u.find_spec(m)])").strip()

    assert installed("inference") == "torch transformers peft"
    width = orjson.loads((base / "config.json").read_bytes())["text_config"]["hidden_size"]
    head = f"{{'weight': torch.linspace(-1, 1, {width})[None]}}"
    ran(python, "-c", f"import torch, safetensors.torch as s; s.save_file({head}, 'value_head.safetensors')")
    adopting = ["--kind", "scalar", "--base", base, "--out", "adopted", "--max-tokens", "512"]
    ran(arm, "adopt", "value_head.safetensors", *adopting)
    asked = (
        "from pathlib import Path; from action_reward_models.inference import ScalarRewardModel as M;"
        "said = lambda who, text: {'role': who, 'content': [{'type': 'text', 'text': text}]};"
        f"model = M.open(Path('adopted'), base=Path({str(base)!r}));"
        "print(*model.score([said('user', 'Click.')], [], [[said('assistant', 'a')], [said('assistant', 'b')]]))"
    )
    first, second = map(float, ran(python, "-c", asked).split())
    assert first != second

    recipe = tiny.data("scalar", dataset={"folder": str(built)}, base={"folder": str(base)})
    (work / "recipe.yaml").write_text(yaml.safe_dump(recipe), "utf-8")
    assert installed("train") == "torch transformers peft trl"
    told = orjson.loads(ran(arm, "train", "recipe.yaml", "--smoke", "1", "--json"))
    assert told["training"]["steps"] == told["smoke"] == 1
