"""Run Hugging Face's own client tests against the embedded hub. README.md says what the numbers mean.

    python tests/conformance/run.py [--client 2.4.0] [--xet on|off|both] [-k EXPRESSION] [--sdist FILE]

Exit 1: a test fails that is not in expected_failures.yaml, a listed one passes, or fewer than 95 % pass.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from action_reward_models.tests.conformance import environment

CLIENTS = ("2.4.0", "1.33.0")
FLOOR = 0.95
_TEST_SECONDS = 30
_RUN_SECONDS = 1500
_PROJECT = "ARM_CONFORMANCE"


@dataclass
class Outcome:
    """One transport of one client. Names are those of pytest, without the folder."""

    mode: str  # "on" or "off": the Xet transport
    signal: list[str] = field(default_factory=list)  # tests that fail when nobody answers
    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # with the end of the report
    declined: Counter[str] = field(default_factory=Counter)

    @property
    def rate(self) -> float:
        return len(self.passed) / len(self.signal) if self.signal else 0.0


@dataclass
class Verdict:
    unexpected: list[str]  # failed, and nobody knew
    stale: list[str]  # listed, and passed or is no signal test
    rate: float

    @property
    def good(self) -> bool:
        return not self.unexpected and not self.stale and self.rate >= FLOOR


def selection() -> dict[str, Any]:
    found = yaml.safe_load((environment.HERE / "expected_failures.yaml").read_text("utf-8"))
    assert isinstance(found, dict)
    return found


def expected(listed: dict[str, Any], client: str, mode: str) -> dict[str, str]:
    """Test -> reason, of one client and transport."""
    own = listed["expected"].get(client) or {}
    return {**(own.get("both") or {}), **(own.get(f"xet {mode}") or {})}


def declined(listed: dict[str, Any], client: str) -> dict[str, list[str]]:
    """Reason -> parts of the names of tests that this client's run leaves out."""
    return {**listed["declined"]["all"], **(listed["declined"].get(client) or {})}


def run(client: str, modes: Sequence[str], archive: Path, words: str | None = None) -> list[Outcome]:
    """Run the selected tests of one client, first where nobody answers, then the signal tests against a hub."""
    interpreter = environment.python(client)
    listed = selection()
    outcomes = []
    for mode in modes:
        with tempfile.TemporaryDirectory(prefix="conformance-") as scratch:
            folder = Path(scratch)
            environment.unpack(archive, folder)
            files = [*listed["files"]["both"], *(listed["files"]["xet on"] if mode == "on" else [])]
            files = [name for name in files if (folder / "tests" / name.partition("::")[0]).exists()]
            tests = _Tests(interpreter, folder, client, mode, files, words)
            outcome = Outcome(mode)
            plan = {"dead": True, "declined": declined(listed, client), "only": None}
            with _nobody() as endpoint:
                found = tests.run(endpoint, plan)
            for name, said in found["outcomes"].items():
                if said.startswith("declined"):
                    outcome.declined[said.partition(": ")[2]] += 1
                elif said == "failed":
                    outcome.signal.append(name)
            plan |= {"dead": False, "only": outcome.signal}
            with _hub(folder / "hub", environment.people(folder), tests.log("hub")) as endpoint:
                found = tests.run(endpoint, plan)
            for name in outcome.signal:
                said = found["outcomes"].get(name, "not run")
                if said == "passed":
                    outcome.passed.append(name)
                else:
                    outcome.failed[name] = found["reasons"].get(name, said)
        outcomes.append(outcome)
    return outcomes


@dataclass
class _Tests:
    interpreter: Path
    folder: Path
    client: str
    mode: str
    files: list[str]
    words: str | None

    def log(self, name: str) -> Path:
        return environment.CACHE / f"{self.client}-xet-{self.mode}-{name}.log"

    def run(self, endpoint: str, plan: dict[str, Any]) -> dict[str, dict[str, str]]:
        """Outcomes and reasons by test, as client_conftest.py writes them."""
        plan_file, result = self.folder / "plan.json", self.folder / "result.json"
        plan_file.write_text(json.dumps(plan), "utf-8")
        result.unlink(missing_ok=True)
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TMPDIR", "LC_ALL")}
        env = {
            **kept,
            "HOME": str(self.folder),
            "HF_HOME": str(self.folder / "home"),
            "HF_ENDPOINT": endpoint,
            "HF_TOKEN": "",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "OMP_NUM_THREADS": "1",
            f"{_PROJECT}_PLAN": str(plan_file),
            f"{_PROJECT}_RESULT": str(result),
        }
        if self.mode == "off":
            env["HF_HUB_DISABLE_XET"] = "1"
        command = [str(self.interpreter), "-m", "pytest", "-c", "pytest.ini", "--rootdir", ".", "-q", "--tb=native"]
        command += ["-p", "no:cacheprovider", "--timeout", str(_TEST_SECONDS), "--timeout-method", "signal"]
        command += ["-k", self.words] if self.words else []
        command += [f"tests/{name}" for name in self.files]
        log = self.log("dead" if plan["dead"] else "tests")
        with log.open("w") as out:
            subprocess.run(command, cwd=self.folder, env=env, stdout=out, stderr=out, timeout=_RUN_SECONDS, check=False)
        if not result.exists():
            raise RuntimeError(f"the tests of {self.client} ended without a result; see {log}")
        found = json.loads(result.read_text("utf-8"))
        assert isinstance(found, dict)
        return found


@contextmanager
def _nobody() -> Iterator[str]:
    """An endpoint that refuses connections: bound, so that nobody else takes it, and not listening."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@contextmanager
def _hub(folder: Path, people: dict[str, str], log: Path) -> Iterator[str]:
    command = [sys.executable, str(environment.HERE / "hub.py"), str(folder)]
    with (
        log.open("w") as out,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=out, text=True) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(people) + "\n")
        process.stdin.flush()
        url = process.stdout.readline().strip()
        if not url:
            raise RuntimeError(f"the hub did not start; see {log}")
        try:
            yield url
        finally:
            process.stdin.close()
            process.wait(60)


def judge(outcomes: Sequence[Outcome], client: str, whole: bool = True) -> Verdict:
    """Compare with the list. A part of the tests (not ``whole``) cannot show that a listed one is gone."""
    listed = selection()
    unexpected, stale = [], []
    for outcome in outcomes:
        known = expected(listed, client, outcome.mode)
        unexpected += [f"xet {outcome.mode}: {name}" for name in outcome.failed if name not in known]
        gone = set(known) - set(outcome.failed) if whole else set(known) & set(outcome.passed)
        stale += [f"xet {outcome.mode}: {name}" for name in sorted(gone)]
    signal = sum(len(outcome.signal) for outcome in outcomes)
    passed = sum(len(outcome.passed) for outcome in outcomes)
    return Verdict(unexpected, stale, passed / signal if signal else 0.0)


def report(outcomes: Sequence[Outcome], client: str, verdict: Verdict) -> str:
    lines = []
    for outcome in outcomes:
        said = f"huggingface_hub {client}, Xet {outcome.mode}: {len(outcome.signal)} signal tests, "
        lines.append(f"{said}{len(outcome.passed)} passed ({outcome.rate:.1%}); declined {outcome.declined.total()}")
        lines += [f"  declined: {count:3} {reason}" for reason, count in outcome.declined.most_common()]
        known = expected(selection(), client, outcome.mode)
        lines += [f"  expected to fail: {name}: {known[name]}" for name in outcome.failed if name in known]
    distinct = {name for outcome in outcomes for name in outcome.signal}
    lines.append(f"together: {len(distinct)} different tests, {verdict.rate:.1%} passed (at least {FLOOR:.0%} wanted)")
    lines += [f"  FAILED, not listed: {name}" for name in verdict.unexpected]
    lines += [f"  LISTED, but does not fail: {name}" for name in verdict.stale]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--client", choices=CLIENTS, default=CLIENTS[0])
    parser.add_argument("--xet", choices=("on", "off", "both"), default="both")
    parser.add_argument("-k", dest="words", help="only these tests, as pytest's -k")
    parser.add_argument("--sdist", type=Path, help="the client's source release, instead of downloading it")
    args = parser.parse_args(argv)
    modes = ("off", "on") if args.xet == "both" else (args.xet,)
    try:
        outcomes = run(args.client, modes, args.sdist or environment.sdist(args.client), args.words)
    except environment.UnavailableError as error:
        print(f"cannot be had: {error}", file=sys.stderr)
        return 2
    verdict = judge(outcomes, args.client, whole=not args.words)
    print(report(outcomes, args.client, verdict))
    details = {f"xet {o.mode}": {"signal": o.signal, "failed": o.failed, "declined": o.declined} for o in outcomes}
    (environment.CACHE / f"{args.client}.json").write_text(json.dumps(details, indent=1), "utf-8")
    return 0 if verdict.good else 1


if __name__ == "__main__":
    sys.exit(main())
