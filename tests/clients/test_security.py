"""A client meets a hostile hub, and a token stays where it belongs."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.hub_sync.hub import Hub
from action_reward_models.hub_sync.local_hub import serve
from action_reward_models.hub_sync.pull import pull
from action_reward_models.hub_sync.release import Remote
from action_reward_models.hub_sync.verify import verify_revision
from action_reward_models.registry import Registry
from action_reward_models.schemas.errors import ArmError, UsageError
from action_reward_models.tests import processes
from action_reward_models.tests.clients.conftest import ROOT
from action_reward_models.tests.clients.servers import SHA, Answer, MadeUp, Recorder, Redirecting, Refusing
from action_reward_models.tests.hub_sync.conftest import ARM, REGISTRY, Publisher, Running, start

SAVED = "hf_" + "SavedByALogin" * 3
MANIFEST: dict[str, Any] = json.loads((ROOT / "tests" / "cards" / "manifest.json").read_text("utf-8"))
BAD_PATHS = [
    "/etc/passwd", "../up", "data/../../up", "data/..", "a\\..\\b", "a\nb", "a\x00b", "C:up", "con", "data/NUL.parquet",
    "data/COM1", ".git/config", "data//a", "./a", "a.", "\ud800", "x" * 256,
]  # fmt: skip
READERS: dict[str, Callable[[Hub, Path], object]] = {
    "pull": lambda hub, out: pull(hub, "lab/toy", "main", out),
    "verify": lambda hub, out: verify_revision(hub, "lab/toy", "main", lambda *_: []),
    "push": lambda hub, out: Remote.read(hub, "lab/toy", SHA),
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A hub with a small dataset, lab/toy, at v1.0.0."""
    folder = tmp_path_factory.mktemp("security")
    made = start(folder / "hub")
    publisher = Publisher(folder / "registry")
    publisher.build()
    publisher.push(made.client())
    yield made
    assert serve.stop(made.folder)


@pytest.fixture(scope="module")
def built(running: Running) -> Path:
    return running.folder.parent / "registry" / "build" / "toy"


@pytest.fixture
def no_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go, to see that there are none."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def short(path: str) -> str:
    return ascii(path)[:20]


def everything(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("path", BAD_PATHS, ids=short)
def test_a_path_that_a_hub_lists_is_never_written(no_temporary: Path, tmp_path: Path, path: str, reader: str) -> None:
    """It may stay where it is: what is fetched is what a checked manifest names."""
    with MadeUp([path, "manifest.json", "README.md"], {"manifest.json": json.dumps(MANIFEST).encode()}) as liar:
        with suppress(ArmError):  # the rest of the build is missing there
            READERS[reader](Hub(liar.url), tmp_path / "out")
        fetched = {asked.path.partition("/resolve/")[2] for asked in liar.asked if "/resolve/" in asked.path}
        assert fetched <= {f"{SHA}/manifest.json", f"{SHA}/README.md"}
        with pytest.raises(ArmError, match="is no path that every system can hold"):
            Hub(liar.url).fetch("lab/toy", SHA, path, tmp_path / "out")
    assert everything(tmp_path) == ["temporary"]


@pytest.mark.parametrize("sha", ["/../../.keys", "5" * 39, "5" * 41, "main", "", "5" * 39 + "G", None])
def test_what_a_hub_calls_a_commit_is_one(no_temporary: Path, tmp_path: Path, sha: str | None) -> None:
    """It names folders here."""
    listing = ["manifest.json", "README.md", *MANIFEST["environment"]["files"]]
    with MadeUp(listing, {"manifest.json": json.dumps(MANIFEST).encode()}) as liar:
        liar.sha = sha
        for reader in ("pull", "verify"):
            with pytest.raises(ArmError, match="40 hex digits are expected"):
                READERS[reader](Hub(liar.url), tmp_path / "out")
    assert everything(tmp_path) == ["temporary"]


@pytest.mark.parametrize("path", BAD_PATHS[:-2], ids=short)  # a long one leads nowhere; the other is no JSON
def test_a_hostile_manifest_is_refused_before_its_files_are_written(
    no_temporary: Path, tmp_path: Path, path: str
) -> None:
    """Whether it names the path as a file of the build or as rows of a table."""
    in_files, in_rows = copy.deepcopy(MANIFEST), copy.deepcopy(MANIFEST)
    in_files["environment"]["files"][path] = {"bytes": 1, "sha256": "0" * 64}
    in_rows["identity"]["tables"]["bt_pairs"]["splits"]["train"]["files"][0]["path"] = path
    for manifest in (in_files, in_rows):
        data = json.dumps(manifest).encode()
        with MadeUp(["manifest.json", "README.md", *MANIFEST["environment"]["files"]], {"manifest.json": data}) as liar:
            for reader in ("pull", "verify"):
                with pytest.raises(ArmError, match="is no manifest of version 1"):
                    READERS[reader](Hub(liar.url), tmp_path / "out")
            fetched = {asked.path.rpartition("/")[2] for asked in liar.asked if "/resolve/" in asked.path}
            assert fetched == {"manifest.json"}
    assert everything(tmp_path) == ["temporary"]


def test_what_is_listed_and_not_given_is_an_error_of_ours(tmp_path: Path) -> None:
    """And the manifest that the refusals above are made of is read."""
    listing = ["manifest.json", "README.md", *MANIFEST["environment"]["files"]]
    with (
        MadeUp(listing, {"manifest.json": json.dumps(MANIFEST).encode()}) as liar,
        pytest.raises(ArmError, match=r"downloading data/bt_pairs/train-00000-of-00001\.parquet: HTTP 404"),
    ):
        pull(Hub(liar.url), "lab/toy", "main", tmp_path / "out")


def arm(cwd: Path, url: str, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return processes.arm(words, cwd=cwd, env=Running(cwd, url, "", 0).env(cwd / "home", **env))


def log_in(folder: Path) -> dict[str, str]:
    """As `hf auth login` leaves it: in HF_HOME, and where HF_TOKEN_PATH says."""
    home = folder / "home"
    home.mkdir()
    (home / "token").write_text(SAVED)
    (home / "stored_tokens").write_text(f"[me]\nhf_token = {SAVED}\n")
    return {"HF_TOKEN_PATH": str(home / "token")}


def test_a_saved_token_goes_to_the_official_hub_only(tmp_path: Path) -> None:
    env = log_in(tmp_path)
    code = (
        "import sys; from action_reward_models.hub_sync.hub import Hub\n"
        "for endpoint in sys.argv[1:]: print(Hub(endpoint).token)"
    )
    endpoints = ["https://huggingface.co", "https://huggingface.co/", "http://huggingface.co"]
    endpoints += ["https://huggingface.co.example", "http://127.0.0.1:9"]
    for more in ({}, env):
        done = subprocess.run(
            [sys.executable, "-c", code, *endpoints], cwd=tmp_path,
            env=Running(tmp_path, "", "", 0).env(tmp_path / "home", **more), capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.split() == [SAVED, SAVED, "None", "None", "None"]


def test_our_commands_send_a_saved_token_nowhere_else(running: Running, built: Path, tmp_path: Path) -> None:
    env = log_in(tmp_path)
    with Recorder(running.url) as recorder:
        assert arm(tmp_path, recorder.url, "verify", "lab/toy@v1.0.0", **env).returncode == 0
        for number, more in enumerate(({}, env)):
            pulled = arm(tmp_path, recorder.url, "pull", "lab/toy@v1.0.0", "--out", f"pulled-{number}", **more)
            assert pulled.returncode == 0
        refused = arm(tmp_path, recorder.url, "push", str(built), "--repo", "lab/other", "--yes", **env)
        assert refused.returncode == 1
        assert "HF_TOKEN" in refused.stderr
        assert len(recorder.asked) > 50
        sent = [asked for asked in recorder.asked if "authorization" in asked.headers]
        assert not [asked for asked in sent if asked.headers["authorization"].startswith("Bearer hf_")]
        assert SAVED not in repr(recorder.asked)
        begun = len(recorder.asked)
        pushed = arm(tmp_path, recorder.url, "push", str(built), "--repo", "lab/other", "--yes", HF_TOKEN=running.token)
        assert pushed.returncode == 0, pushed.stderr
        own = [
            asked for asked in recorder.asked[begun:] if asked.headers.get("authorization") == f"Bearer {running.token}"
        ]
        assert len(own) > 10, "that of HF_TOKEN is sent"


@pytest.mark.parametrize("reader", READERS)
def test_a_redirect_drops_the_token(tmp_path: Path, reader: str) -> None:
    with Refusing(Answer(b"{}", 404)) as elsewhere, Redirecting(elsewhere.url) as hub:
        with pytest.raises(Exception, match=r"404|not found|Not Found"):
            READERS[reader](Hub(hub.url, SAVED), tmp_path / "out")
        assert hub.asked[0].headers["authorization"] == f"Bearer {SAVED}"
        assert elsewhere.asked
        assert SAVED not in repr(elsewhere.asked)


def test_no_output_holds_a_token(running: Running, built: Path, tmp_path: Path) -> None:
    """In success, with --json, when refused, and when the hub says the token aloud."""
    words = ("push", str(built), "--repo", "lab/told", "--yes", "--json")
    said = []
    for token, status in ((running.token, 0), (SAVED, 1)):
        done = arm(tmp_path, running.url, *words, HF_TOKEN=token)
        assert done.returncode == status, done.stderr
        said.append(done.stdout + done.stderr)
    for status, verb in ((401, words), (403, ("verify", "lab/toy")), (422, ("pull", "lab/toy", "--json"))):
        loud = Answer(json.dumps({"error": f"no {SAVED}"}).encode(), status, {"X-Error-Message": f"no {SAVED}"})
        with Refusing(loud) as hub:
            done = arm(tmp_path, hub.url, *verb, HF_TOKEN=SAVED)
            assert done.returncode == 1
            assert f"HTTP {status}: no ***" in done.stdout + done.stderr
            said.append(done.stdout + done.stderr)
    assert not [text for text in said if SAVED in text or running.token in text]


def test_no_process_names_a_token(running: Running, built: Path, tmp_path: Path) -> None:
    """In its arguments, where every user of the machine can read them. The process that reads back gets it too."""
    words = [str(ARM), "push", str(built), "--repo", "lab/listed", "--private", "--yes"]
    env = running.env(tmp_path / "home", HF_TOKEN=running.token)
    seen: set[bytes] = set()
    with subprocess.Popen(words, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            seen |= set(_arguments())
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.02)
        assert process.returncode == 0, process.communicate()[0]
    assert [line for line in seen if b"load_dataset" in line and b"lab/listed" in line], "the read-back was seen"
    assert [line for line in seen if b"local_hub" in line], "the hub was seen"
    assert not [line for line in seen if running.token.encode() in line]


def _arguments() -> Iterator[bytes]:
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it ended meanwhile
            yield file.read_bytes()


@pytest.mark.parametrize("where", ["top", "dataset", "source", "gates"])
@pytest.mark.parametrize("key", ["endpoint", "token", "hf_endpoint", "base_url", "api_key"])
def test_a_registry_sends_nobody_anywhere(tmp_path: Path, where: str, key: str) -> None:
    for name in ("episodes", "sets", "labels"):
        (tmp_path / f"{name}.jsonl").write_text("{}\n")
    text = REGISTRY.format(name="toy", version="1.0.0")
    assert Registry.load(_written(tmp_path, text)).dataset().name == "toy"
    entry = f"{key}: https://example.com"
    text = {
        "top": f"{entry}\n{text}",
        "dataset": text.replace("    license: mit\n", f"    license: mit\n    {entry}\n"),
        "source": text.replace("path: episodes.jsonl,", f"path: episodes.jsonl, {entry},"),
        "gates": f"{text}    gates: {{leakage: warn, {entry}}}\n",
    }[where]
    with pytest.raises((ArmError, UsageError)) as caught:
        Registry.load(_written(tmp_path, text))
    (issue,) = caught.value.issues
    assert issue.message.startswith("is not a known field")
    assert issue.path.endswith(f".{key}")
    assert issue.line > 0


def _written(folder: Path, text: str) -> Path:
    path = folder / "registry.yaml"
    path.write_text(text, "utf-8")
    return path
