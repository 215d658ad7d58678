"""``arm select``: which candidate a checkpoint picks, and what is done where it picks none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from . import output, picking

if TYPE_CHECKING:
    from ..prompts.render import Prompt


class _Said(NamedTuple):
    """What was said on the command line of the model, and of what is done with its answers."""

    base: Path | None
    device: str | None
    orders: int
    agree: Any
    max_new_tokens: int
    otherwise: Any
    scalar: str | None
    scalar_base: Path | None
    server: str | None
    served: str | None
    endpoints: Path | None
    response_format: str | None
    limit_parameter: str | None
    prompt: Path | None
    prompt_sha256: str | None
    prompt_option: tuple[str, ...]


@click.command(
    "select",
    short_help="Pick an action: what a checkpoint chooses for a state, a file of states, or a split.",
    epilog=output.examples(
        "arm select build/my-arm request.json",
        "arm select build/my-arm requests.jsonl --orders 3 --otherwise first --out picks.parquet",
        "arm select build/my-arm build/action-reward-models-data --split train --json",
        "arm select build/my-arm request.json --server local --served my-arm",
    ),
)
@click.argument("words", nargs=-1, required=True, metavar="MODEL INPUT")
@picking.split_option
@picking.out_option
@picking.base_option
@picking.device_option
@click.option(
    "--orders", type=click.IntRange(min=1, max=120), default=1, show_default=True,
    help="Orders in which a selection ARM sees the candidates, the one of training first.",
)  # fmt: skip
@click.option(
    "--agree", type=click.Choice(["majority", "all"]), default="majority", show_default=True,
    help="Orders that have to pick the same action.",
)  # fmt: skip
@click.option(
    "--max-new-tokens",
    type=click.IntRange(min=1),
    default=256,
    show_default=True,
    help="Of a reply of a selection ARM.",
)
@click.option(
    "--otherwise", type=click.Choice(["none", "first", "scalar"]), default="none", show_default=True,
    help="What is chosen where the model picks none: nothing, the first candidate, or what --scalar picks.",
)  # fmt: skip
@click.option("--scalar", metavar="MODEL", help="The scalar model for --otherwise scalar.")
@click.option(
    "--scalar-base", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder of its base model."
)
@click.option("--server", metavar="NAME", help="Ask the ARM that this server of endpoints.yaml serves.")
@click.option("--served", metavar="NAME", help="What the server calls it.")
@click.option(
    "--endpoints", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="The file that declares servers and names of keys. [default: $ARM_ENDPOINTS; without it "
    "~/.config/action-reward-models/endpoints.yaml and, for servers of this machine, ./endpoints.yaml]",
)  # fmt: skip
@click.option(
    "--response-format", type=click.Choice(["none", "json_object", "json_schema"]),
    help="The form that the server holds replies to. [default: none]",
)  # fmt: skip
@click.option(
    "--limit-parameter", type=click.Choice(["max_tokens", "max_completion_tokens"]),
    help="How the server calls the longest reply. [default: max_tokens]",
)  # fmt: skip
@click.option(
    "--prompt", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
    help="Template for a model that brings no prompt; with --server, MODEL may then be left out.",
)  # fmt: skip
@click.option("--prompt-sha256", metavar="HEX", help="Of the bytes of that file: another one is refused.")
@click.option("--prompt-option", multiple=True, metavar="NAME=VALUE", help="Of that prompt, as registries write them.")
@output.json_option
def command(words: tuple[str, ...], split: str | None, out: Path | None, as_json: bool, **given: Any) -> None:
    """Pick one of the candidates of INPUT with MODEL, a selection ARM or a scalar reward model.

    MODEL is a folder that `arm train` or `arm pull` made, NS/NAME[@REVISION] on the Hub, or a checkpoint of
    ./registry.yaml by name. INPUT is a .json file with one request, a .jsonl file with one on each line, `-` for either
    on standard input, a built directory, or NS/NAME[@REVISION] of a dataset; docs/inference.md says what a request
    holds. The answer to one request is printed; those to many are written to a Parquet file, as pick/1 describes them.

    Whatever the model does has a name, and without --otherwise nothing is chosen in its place: no reply becomes the
    first candidate. A run that was interrupted goes on where it stopped, and asks a server again for what it gave no
    answer to. Exit status 1 when nothing was chosen for a request.
    """
    said = _Said(**given)
    _refuse_useless(said)
    prompt = _prompt(said)
    named, where = _model_and_input(words, said)
    model = _model(named, said, prompt)
    scalar = picking.local(said.scalar, said.scalar_base, said.device) if said.scalar is not None else None
    if scalar is not None and scalar.contract["kind"] != "scalar":
        raise _usage(f"--scalar {said.scalar} is a {scalar.contract['kind']}, and a scalar model is meant")
    if model.contract["kind"] == "scalar" and said.orders > 1:
        raise _usage(f"{model.name} is a scalar model, which sees one candidate at a time: it has no order")

    def how() -> Any:
        from ..inference.choosing import How

        other = scalar.opened() if scalar is not None else None
        return How(said.orders, said.agree, said.otherwise, other, said.max_new_tokens)

    def about() -> Mapping[str, Any]:
        told = {name: getattr(said, name) for name in ("orders", "agree", "otherwise", "max_new_tokens")}
        return picking.policy(told, scalar)

    picking.Asked(model, where, split, out, as_json, how, about, "selected_index").run()


def _model_and_input(words: tuple[str, ...], said: _Said) -> tuple[str | None, str]:
    if len(words) == 2:
        return words[0], words[1]
    if len(words) > 2:
        raise _usage(f"one MODEL and one INPUT are asked about, and these are {len(words)}")
    if said.server is not None and said.prompt is not None:
        return None, words[0]
    raise _usage("a MODEL and an INPUT are needed; MODEL may be left out only with --server and --prompt")


def _model(named: str | None, said: _Said, prompt: Prompt | None) -> picking.Model:
    if said.server is None or said.served is None:
        assert named is not None
        return picking.local(named, said.base, said.device, prompt)
    from ..registry.endpoints import Known

    server = Known.of(Path(), said.endpoints).server(said.server)
    told = {"response_format": said.response_format, "limit_parameter": said.limit_parameter}
    sending = {name: value for name, value in told.items() if value is not None}
    return picking.served(named, server, said.served, prompt, sending)


def _prompt(said: _Said) -> Prompt | None:
    if said.prompt is None:
        return None
    from ..prompts.options import PromptOptions
    from ..prompts.render import load_prompt_file
    from .adopt import pairs

    assert said.prompt_sha256 is not None
    options = PromptOptions.from_mapping(pairs(said.prompt_option, "--prompt-option"))
    return load_prompt_file(said.prompt, said.prompt_sha256, options)


def _refuse_useless(said: _Said) -> None:
    """Raise UsageError for options that say nothing without another one, or that lack it."""
    together = {
        ("--server", "--served"): (said.server, said.served),
        ("--prompt", "--prompt-sha256"): (said.prompt, said.prompt_sha256),
    }
    for names, values in together.items():
        if (values[0] is None) is not (values[1] is None):
            lacks, has = names if values[0] is None else names[::-1]
            raise _usage(f"{has} needs {lacks}")
    if (said.otherwise == "scalar") is not (said.scalar is not None):
        raise _usage("--otherwise scalar needs --scalar MODEL" if said.scalar is None else
                     "--scalar is the model for --otherwise scalar")  # fmt: skip
    served = {"--endpoints": said.endpoints, "--response-format": said.response_format,
              "--limit-parameter": said.limit_parameter}  # fmt: skip
    here = {"--base": said.base}
    for name, value in (here if said.server is not None else served).items():
        if value is not None:
            told = "the server loads the model itself" if said.server is not None else "no --server is asked"
            raise _usage(f"{name} says nothing: {told}")
    alone = {
        "--scalar-base": said.scalar_base is not None and said.scalar is None,
        "--prompt-option": bool(said.prompt_option) and said.prompt is None,
        "--device": said.device is not None and said.server is not None and said.scalar is None,
        "--agree": said.agree != "majority" and said.orders == 1,
    }
    for name, useless in alone.items():
        if useless:
            raise _usage(f"{name} says nothing without what it is for")


def _usage(message: str) -> Exception:
    from ..schemas.errors import UsageError

    return UsageError(message, next_command="arm select --help")
