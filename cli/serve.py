"""``arm serve``: a checkpoint over HTTP, or what other servers need to serve it."""

from __future__ import annotations

import os
import sys
import time
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from . import output, serve_vllm
from .picking_options import Asking, Said, asking_options

if TYPE_CHECKING:
    from ..inference.serve.app import Service

TOKEN = "ARM_SERVE_TOKEN"  # noqa: S105 - the name of a variable
PORT = 8000
_ANYWHERE = ("0.0.0.0", "::")  # noqa: S104 - every address of this machine


@click.command(
    "serve",
    short_help="Serve a checkpoint over HTTP, to agents in any language.",
    epilog=output.examples(
        "arm serve build/my-arm",
        "arm serve build/my-arm --orders 3 --agree all --port 0",
        "arm serve build/my-arm --host 0.0.0.0 --allow-host arm.example.org",
        "arm serve build/my-arm --server local --served my-arm",
        "arm serve build/my-arm --print-vllm",
        "arm serve build/my-arm --preflight --json",
    ),
)
@click.argument("model", metavar="MODEL", required=False)
@asking_options
@click.option("--name", metavar="NAME", help="What clients call the model. [default: the checkpoint's name]")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Where it listens.")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0: any free port.")
@click.option(
    "--allow-host", "hosts", multiple=True, metavar="HOST",
    help="A name, without a port, by which clients may reach it, beside ADDRESS and localhost; as often as needed.",
)  # fmt: skip
@click.option(
    "--batch", type=click.IntRange(1, 1024), default=16, show_default=True, help="Requests asked together at most."
)
@click.option(
    "--queue", type=click.IntRange(0, 100_000), default=64, show_default=True,
    help="Further requests that may wait; more are refused with 503 and when to come again.",
)  # fmt: skip
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(min=0.1), default=60.0, show_default=True, metavar="SECONDS",
    help="For one request, waiting included.",
)  # fmt: skip
@click.option("--print-vllm", is_flag=True, help="Print the commands that serve MODEL with vLLM, and end.")
@click.option("--preflight", is_flag=True, help="Print what this machine lacks to serve MODEL with vLLM, and end.")
@output.json_option
def command(
    model: str | None, name: str | None, host: str, port: int, hosts: tuple[str, ...], batch: int, queue: int,
    timeout_s: float, print_vllm: bool, preflight: bool, as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Answer requests about MODEL until SIGTERM or Ctrl-C: then finish what is under way, and end.

    MODEL is a folder that `arm train` or `arm pull` made, NS/NAME[@REVISION] on the Hub, or a checkpoint of
    ./registry.yaml by name; with --server, the ARM that another server runs. POST /select and /score take a
    `pick_request/1`; /v1/chat/completions takes it from any client of OpenAI's API. GET /health and /metrics are for
    who watches it. The log is one line of JSON for each request, on stderr, without texts, pictures and keys.

    Where the environment variable ARM_SERVE_TOKEN is set, clients have to send its value as their API key.
    """
    said = Said(**given)
    if print_vllm or preflight:
        if model is None:
            raise output.usage("of which MODEL?")
        if print_vllm:
            return serve_vllm.commands(model, said.base, name, host, port, as_json)
        return serve_vllm.preflight(model, said.base, host, port, as_json)
    token = _token()
    asking = Asking.of(model, said, patience_s=timeout_s)  # a client that waits longer has had its 504
    serving = _serving()
    with serving.bind(host, port) as bound:  # before the model is loaded, which takes long
        from ..inference.serve.app import LOOPBACK, Service
        from ..inference.serve.engine import Bounds, Engine
        from ..inference.serve.log import RequestLog
        from ..inference.served import ServedARM

        with output.progress() as show:
            show("loading the model", 0, 1)
            chooser, how = asking.model.opened(), asking.how()
            if isinstance(chooser, ServedARM):
                chooser.connect()  # a wrong name ends it here, and not each request
            show("loading the model", 1, 1)
        engine = Engine(chooser, how, Bounds(batch, queue, timeout_s))
        names = LOOPBACK | {_host(one) for one in (*hosts, *({host} - set(_ANYWHERE)))}
        log = RequestLog(sys.stderr)
        service = Service(engine, name or asking.model.name, int(time.time()), token=token, hosts=names, log=log)
        url = f"http://{_host(host)}:{bound.getsockname()[1]}"
        serving.serve(service, bound, lambda: _ready(service, url, host, as_json))
    asking.model.closed()
    output.note("all requests are answered; ended")
    return None


def _token() -> str | None:
    """The value of the variable. Raises UsageError for one that no client could send."""
    from ..schemas.errors import UsageError

    token = os.environ.get(TOKEN)
    if token is not None and not (token.isascii() and token.isprintable() and token.strip() == token != ""):
        raise UsageError(f"{TOKEN} is set, and its value can be no key: it is empty, or not printable ASCII",
                         next_command=f"unset {TOKEN}   # or: export {TOKEN}=$(openssl rand -hex 24)")  # fmt: skip
    return token


def _host(name: str) -> str:
    """As it stands in a Host header."""
    return f"[{name}]" if ":" in name and not name.startswith("[") else name.lower()


def _serving() -> ModuleType:
    """The module that runs servers. Raises UsageError when the extra is not installed."""
    from ..schemas.errors import UsageError

    try:
        from ..inference.serve import run
    except ModuleNotFoundError as error:
        raise UsageError(f"serving needs {error.name}, which is not installed",
                         next_command='pip install "action-reward-models[inference]"') from error  # fmt: skip
    return run


def _ready(service: Service, url: str, host: str, as_json: bool) -> None:
    kind = service.engine.model.kind
    if as_json:
        output.data({"url": url, "pid": os.getpid(), "model": service.name, "kind": kind})
        sys.stdout.flush()
    else:
        click.echo(url)
        route = "/score" if kind == "scalar" else "/select"
        output.note(f"{service.name} answers at {url}{route} and, to clients of OpenAI's API, at {url}/v1")
    if service.token is None and host not in ("127.0.0.1", "localhost", "::1"):
        output.note(f"warning: whoever reaches {host} may ask; set {TOKEN} to a key that clients have to send")
    if host in _ANYWHERE and len(service.hosts) == 3:
        output.note("warning: it answers to the names localhost and 127.0.0.1 only; --allow-host HOST names more")
