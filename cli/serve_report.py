"""What `arm serve` prints about serving with vLLM: its commands, and what this machine lacks for them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..schemas.errors import plain
from . import output
from .source import built, place

if TYPE_CHECKING:
    from ..inference.serve.vllm import Plan

_SHORT = 9  # words of a command that stays on one line


def print_vllm(named: str, base: Path | None, name: str | None, host: str, port: int, *, as_json: bool) -> None:
    """Print the commands that serve the checkpoint ``named`` with vLLM, and a request. Nothing is run."""
    from ..inference import contract as contracts
    from ..inference.serve.vllm import Place, example, plan

    folder, called, pulled = _found(named)
    contract = contracts.read(folder, weights=False)
    made = plan(folder, contract, Place(name or called, host, port), base=base, pulled=pulled)
    body = None
    if contract["kind"] == "scalar" and contract["prompt"]["file"] is not None:
        body = example(contracts.own_prompt(folder, contract), contract, made.name)
    if as_json:
        output.data(made.to_json(body))
    else:
        click.echo(_text(made, named, body))


def preflight(named: str, base: Path | None, host: str, port: int, *, as_json: bool) -> None:
    """Print what this machine has and lacks to serve ``named`` with vLLM. Ends with 1 where something is not right."""
    from ..inference.serve.preflight import preflight as look

    found = look(_found(named)[0], host, port, base=base)
    bad = [one for one in found if one.status != "ok"]
    if as_json:
        output.data({"ready": not bad, "checks": [one.to_json() for one in found]})
    else:
        for one in found:
            click.echo(plain(f"{one.status:<8}{one.name:<16} {one.found}"))
            if one.do:
                click.echo(plain(f"{'':<25}do: {one.do}"))
        output.note(f"{len(bad)} of {len(found)} are not right; repair from the top" if bad else "all is there")
    if bad:
        raise click.exceptions.Exit(1)


def _found(named: str) -> tuple[Path, str, str | None]:
    """(Folder of a checkpoint, what to call it, NS/NAME@REVISION of one on the Hub, which is fetched)."""
    from ..registry.evaluating import Checkpoint

    found = place(named) or built(named)
    if isinstance(found, Path):
        checkpoint = Checkpoint.here(found)
        return checkpoint.folder, checkpoint.name, None
    with output.progress() as show:
        show("fetching the checkpoint", 0, 1)
        checkpoint = Checkpoint.published(output.hub(), *found)
    return checkpoint.folder, checkpoint.name, "@".join(found)


def _text(made: Plan, named: str, body: Mapping[str, Any] | None) -> str:
    """Lines for a shell, with comments."""
    lines = []
    for step in made.steps:
        lines += [f"# {step.why}", _broken(step.command), ""]
    if made.kind != "scalar":
        lines += [
            "# in another shell; endpoints.yaml says where it is:",
            "#   endpoints: 1", "#   servers:", f"#     arm: {{urls: [{made.url}/v1]}}",
            shlex.join(["arm", "select", named, "INPUT", "--server", "arm", "--served", made.name]),
        ]  # fmt: skip
    elif body is None:
        lines.append(
            f"# the checkpoint brings no prompt: POST {made.url}{made.route} with messages as it was trained on"
        )
    else:
        ask = shlex.join(["curl", f"{made.url}{made.route}", "--json", "@request.json"])
        lines += [
            "# in another shell: a request for each candidate; data[0].probs[0] of the answer is its score",
            f"{shlex.join(['arm', 'serve', named, '--print-vllm', '--json'])} | jq .request.body > request.json", ask,
        ]  # fmt: skip
    return "\n".join(lines)


def _broken(command: str) -> str:
    """A long command over several lines, one option each."""
    words = shlex.split(command)
    if len(words) < _SHORT:
        return command
    lines: list[list[str]] = [[]]
    for word in words:
        if word.startswith("--"):
            lines.append([])
        lines[-1].append(word)
    return " \\\n    ".join(map(shlex.join, lines))
