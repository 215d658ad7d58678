"""What `arm serve` says of vLLM: the commands that serve a checkpoint there, and what this machine lacks for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..schemas.errors import plain
from . import output
from .picking_models import fetched

if TYPE_CHECKING:
    from ..inference.serve.preflight import Check
    from ..inference.serve.vllm import Plan


def commands(model: str, base: Path | None, name: str | None, host: str, port: int, as_json: bool) -> None:
    """Print what to run, as lines for a shell, and a request to send then."""
    from ..inference import contract as contracts
    from ..inference.serve import vllm

    folder, called, pulled = fetched(model)
    contract = contracts.read(folder, weights=False)
    plan = vllm.plan(folder, contract, vllm.Place(name or called, host, port), base=base, pulled=pulled)
    body = None
    if contract["kind"] == "scalar" and contract["prompt"]["file"] is not None:
        body = vllm.example(contracts.own_prompt(folder, contract), contract, plan.name)
    if as_json:
        output.data(plan.to_json(body))
        return
    for step in plan.steps:
        click.echo(f"# {step.why}\n{step.command}\n")
    _request(model, plan, body)


def preflight(model: str, base: Path | None, host: str, port: int, as_json: bool) -> None:
    """Print what is there and what is not; exit status 1 when something is not."""
    from ..inference.serve.preflight import preflight as look

    folder, _, _ = fetched(model)
    with output.progress() as show:
        show("looking", 0, 1)
        checks = look(folder, host, port, base=base)
        show("looking", 1, 1)
    lacking = [check for check in checks if check.status != "ok"]
    if as_json:
        output.data({"ok": not lacking, "checks": [check.to_json() for check in checks]})
    else:
        _table(checks)
    if lacking:
        raise click.exceptions.Exit(1)


def _request(model: str, plan: Plan, body: object) -> None:
    import shlex

    import orjson

    if body is None and plan.kind == "scalar":
        click.echo(f"# then POST {plan.url}{plan.route}; the checkpoint brings no prompt that an example could show")
        return
    if body is None:
        asks = ["arm", "select", model, "request.json", "--server", "local", "--served", plan.name]
        click.echo(f"# then, with {plan.url}/v1 as the url of the server `local` in endpoints.yaml")
        click.echo(shlex.join(asks))
        return
    click.echo(f"# then, for each candidate, POST {plan.url}{plan.route}; its score is data[0].probs[0]")
    sent = orjson.dumps(body).decode()
    click.echo(f"curl {plan.url}{plan.route} -H 'Content-Type: application/json' -d {shlex.quote(sent)}")


def _table(checks: list[Check]) -> None:
    for check in checks:
        click.echo(plain(f"{check.status:<9}{check.name:<17}{check.found}"))
    for check in checks:
        if check.status != "ok":
            output.note(output.one_line(f"{check.name}: {check.do}"))
