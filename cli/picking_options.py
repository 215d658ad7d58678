"""What `arm select` and `arm serve` are told of a model, in the same words: which one, how it is asked, and what is
done where it picks none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from . import output, picking_models
from .picking_models import Model

if TYPE_CHECKING:
    from ..inference.choosing import How
    from ..prompts.render import Prompt

C = TypeVar("C", bound=Callable[..., Any])

base_option = click.option(
    "--base", type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the base model. [default: fetched at the commit that the checkpoint names]",
)  # fmt: skip
device_option = click.option("--device", help="Such as cpu or cuda:0. [default: the first GPU, else the CPU]")
_OPTIONS = (
    base_option,
    device_option,
    click.option(
        "--orders",
        type=click.IntRange(min=1, max=120),
        default=1,
        show_default=True,
        help="Orders in which a selection ARM sees the candidates, the one of training first.",
    ),
    click.option(
        "--agree",
        type=click.Choice(["majority", "all"]),
        default="majority",
        show_default=True,
        help="Orders that have to pick the same action.",
    ),
    click.option(
        "--max-new-tokens",
        type=click.IntRange(min=1),
        default=256,
        show_default=True,
        help="Of a reply of a selection ARM.",
    ),
    click.option(
        "--otherwise",
        type=click.Choice(["none", "first", "scalar"]),
        default="none",
        show_default=True,
        help="What is chosen where the model picks none: nothing, the first candidate, or what --scalar picks.",
    ),
    click.option("--scalar", metavar="MODEL", help="The scalar model for --otherwise scalar."),
    click.option(
        "--scalar-base", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder of its base model."
    ),
    click.option("--server", metavar="NAME", help="Ask the ARM that this server of endpoints.yaml serves."),
    click.option("--served", metavar="NAME", help="What the server calls it."),
    click.option(
        "--endpoints",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="The file that declares servers and names of keys. [default: $ARM_ENDPOINTS; without it "
        "~/.config/action-reward-models/endpoints.yaml and, for servers of this machine, ./endpoints.yaml]",
    ),
    click.option(
        "--response-format",
        type=click.Choice(["none", "json_object", "json_schema"]),
        help="The form that the server holds replies to. [default: none]",
    ),
    click.option(
        "--limit-parameter",
        type=click.Choice(["max_tokens", "max_completion_tokens"]),
        help="How the server calls the longest reply. [default: max_tokens]",
    ),
    click.option(
        "--prompt",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Template for a model that brings no prompt; with --server, MODEL may then be left out.",
    ),
    click.option("--prompt-sha256", metavar="HEX", help="Of the bytes of that file: another one is refused."),
    click.option(
        "--prompt-option", multiple=True, metavar="NAME=VALUE", help="Of that prompt, as registries write them."
    ),
)


def asking_options(command: C) -> C:
    """The options that `Said` holds, in the order of their help."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


class Said(NamedTuple):
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


@dataclass(frozen=True)
class Asking:
    """A model, and the scalar model that is asked where it picks none. Nothing is loaded yet."""

    said: Said
    model: Model
    scalar: Model | None

    @classmethod
    def of(cls, named: str | None, said: Said, *, patience_s: float | None = None) -> Asking:
        """The models of the command line; ``named``: MODEL. patience_s: the longest wait for a reply of a server, where
        that is not `Sending`'s own. Raises UsageError for what does not go together."""
        _refuse_useless(said)
        if named is None and (said.server is None or said.prompt is None):
            raise output.usage("a MODEL is needed; it may be left out only with --server and --prompt")
        model = _model(named, said, _prompt(said), patience_s)
        if model.contract["kind"] == "scalar" and said.orders > 1:
            raise output.usage(f"{model.name} is a scalar model, which sees one candidate at a time: it has no order")
        if said.scalar is None:
            return cls(said, model, None)
        scalar = picking_models.local(said.scalar, said.scalar_base, said.device)
        if scalar.contract["kind"] != "scalar":
            raise output.usage(f"--scalar {said.scalar} is a {scalar.contract['kind']}, and a scalar model is meant")
        return cls(said, model, scalar)

    def how(self) -> How:
        """Loads the scalar model, if there is one."""
        from ..inference.choosing import How

        said, other = self.said, self.scalar.opened() if self.scalar is not None else None
        return How(said.orders, said.agree, said.otherwise, other, said.max_new_tokens)

    def about(self) -> Mapping[str, Any]:
        """What of a command decides the answers besides its model and its input."""
        how = {name: getattr(self.said, name) for name in ("orders", "agree", "otherwise", "max_new_tokens")}
        return {"how": how, "scalar": self.scalar and self.scalar.about()}


def _model(named: str | None, said: Said, prompt: Prompt | None, patience_s: float | None) -> Model:
    if said.server is None or said.served is None:
        assert named is not None
        return picking_models.local(named, said.base, said.device, prompt)
    from ..registry.endpoints import Known

    server = Known.of(Path(), said.endpoints).server(said.server)
    told = {"response_format": said.response_format, "limit_parameter": said.limit_parameter, "patience_s": patience_s}
    sending = {name: value for name, value in told.items() if value is not None}
    return picking_models.served(named, server, said.served, prompt, sending)


def _prompt(said: Said) -> Prompt | None:
    if said.prompt is None:
        return None
    from ..prompts.options import PromptOptions
    from ..prompts.render import load_prompt_file
    from .adopt import pairs

    assert said.prompt_sha256 is not None
    options = PromptOptions.from_mapping(pairs(said.prompt_option, "--prompt-option"))
    return load_prompt_file(said.prompt, said.prompt_sha256, options)


def _refuse_useless(said: Said) -> None:
    """Raise UsageError for options that say nothing without another one, or that lack it."""
    together = {
        ("--server", "--served"): (said.server, said.served),
        ("--prompt", "--prompt-sha256"): (said.prompt, said.prompt_sha256),
    }
    for names, values in together.items():
        if (values[0] is None) is not (values[1] is None):
            lacks, has = names if values[0] is None else names[::-1]
            raise output.usage(f"{has} needs {lacks}")
    if (said.otherwise == "scalar") is not (said.scalar is not None):
        raise output.usage("--otherwise scalar needs --scalar MODEL" if said.scalar is None else
                     "--scalar is the model for --otherwise scalar")  # fmt: skip
    served = {"--endpoints": said.endpoints, "--response-format": said.response_format,
              "--limit-parameter": said.limit_parameter}  # fmt: skip
    here = {"--base": said.base}
    for name, value in (here if said.server is not None else served).items():
        if value is not None:
            told = "the server loads the model itself" if said.server is not None else "no --server is asked"
            raise output.usage(f"{name} says nothing: {told}")
    alone = {
        "--scalar-base": ("--scalar", said.scalar_base is not None and said.scalar is None),
        "--prompt-option": ("--prompt", bool(said.prompt_option) and said.prompt is None),
        "--device": (
            "a model that runs here",
            said.device is not None and said.server is not None and said.scalar is None,
        ),
        "--agree": ("--orders", said.agree != "majority" and said.orders == 1),
    }
    for name, (lacking, useless) in alone.items():
        if useless:
            raise output.usage(f"{name} says nothing without {lacking}")
