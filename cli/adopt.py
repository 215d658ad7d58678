"""``arm adopt``: an adapter or a head of another tool as a checkpoint."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from . import output

if TYPE_CHECKING:
    from ..inference.adopt import Adopted, Origin
    from ..prompts.render import Prompt

_WORDS = ("true", "false", "null", "none", "yes", "no")  # a template would take each for true


class _Said(NamedTuple):
    """What was said of the checkpoint on the command line."""

    kind: Any
    base: str
    max_tokens: int
    max_pixels: int | None
    min_pixels: int | None
    dtype: Any
    template_option: tuple[str, ...]
    prompt: str | None
    prompt_option: tuple[str, ...]
    prompt_sha256: str | None
    drop_bias: bool


@click.command(
    "adopt",
    short_help="Take over an adapter or a value head of another tool as a checkpoint.",
    epilog=output.examples(
        "arm adopt theirs --kind scalar --base base-model --out adopted --max-tokens 8192 --max-pixels 262144",
        "arm adopt value_head.bin --kind scalar --base base-model --out head --max-tokens 8192 --drop-bias",
        "arm adopt their-name/adapter@v1.0 --kind selection_arm --base their-name/base@main --out arm --max-tokens 8192"
        " --template-option enable_thinking=false --prompt selection/1 --prompt-option candidate_reasoning=false",
    ),
)
@click.argument("source")
@click.option("--kind", type=click.Choice(["scalar", "selection_arm"]), required=True, help="What it is.")
@click.option("--base", required=True, metavar="FOLDER|NS/NAME@REVISION", help="The model that it was trained on.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="New folder.")
@click.option(
    "--max-tokens", type=click.IntRange(min=1), required=True, help="Of a whole conversation, pictures included."
)
@click.option("--max-pixels", type=click.IntRange(min=1), help="Largest area of a picture. [default: the base's]")
@click.option("--min-pixels", type=click.IntRange(min=1), help="Least area of a picture. [default: the base's]")
@click.option(
    "--dtype", type=click.Choice(["float32", "bfloat16"]), default="float32", show_default=True,
    help="Of the base's weights; adapter and head are float32.",
)  # fmt: skip
@click.option("--template-option", multiple=True, metavar="NAME=VALUE", help="For the chat template; VALUE is JSON.")
@click.option(
    "--prompt",
    metavar="ID|FILE",
    help="The prompt that it was trained with, if known; a FILE is a template, or prompts/*.json of a build.",
)
@click.option("--prompt-option", multiple=True, metavar="NAME=VALUE", help="Of that prompt, as registries write them.")
@click.option("--prompt-sha256", metavar="HASH", help="Refuse a prompt with another hash than prompt_sha256 of rows.")
@click.option("--drop-bias", is_flag=True, help="Leave out a head's bias: every score is lower by that.")
@output.json_option
def command(source: str, out: Path, as_json: bool, **given: Any) -> None:
    """Write SOURCE, which PEFT, TRL or LLaMA-Factory made, to a new folder that `arm evaluate` and the classes that
    load checkpoints take.

    SOURCE is a folder with an adapter (adapter_config.json beside adapter_model.safetensors or .bin), a value head
    (value_head or v_head: .safetensors, .bin, .pt), or both; one file with a head; or NS/NAME@REVISION on the Hub. In a
    file, a head is v_head.summary.weight or weight, with or without a bias. Files of torch are read as numbers: one
    that would run code is refused.

    What such files do not say has to be said here: what it stands on, how long its conversations may be, and how
    pictures and template were set. A score is read at the last token of a conversation, as the base's chat template
    renders it. Without its prompt, a selection ARM cannot be evaluated, and a scalar model only on pairs that came
    ready-made. The result can be opened and evaluated; it cannot be published, for nobody knows what it learned from.
    """
    from ..schemas.errors import UsageError

    said = _Said(**given)
    if said.prompt is None and (said.prompt_option or said.prompt_sha256):
        raise UsageError("options and hash are those of a prompt", next_command=output.typed("--prompt", "selection/1"))
    if out.exists():
        raise UsageError("is there already", where=str(out), next_command="another --out")
    options, prompt = pairs(said.template_option, "--template-option"), _prompt(said)
    made, base = _adopted(source, out, said, options, prompt)
    if as_json:
        output.data({"folder": str(out), "checkpoint": made.contract, "changes": list(made.told)})
        return
    _show(out, made, base)


def _adopted(
    source: str, out: Path, said: _Said, options: Mapping[str, Any], prompt: Prompt | None
) -> tuple[Adopted, Origin]:
    from ..inference import adopt, fetch
    from ..inference.processor import Limits

    here, below = _place(source, "SOURCE"), _place(said.base, "--base")
    if isinstance(below, Path) and not below.is_dir():
        raise output.usage("is a file, and a base model is a folder", said.base)
    if isinstance(here, tuple) or isinstance(below, tuple):
        output.hub()  # whose client draws no bars
    with output.progress() as show:
        found = None
        if isinstance(here, tuple):
            show("fetching the checkpoint", 0, 1)
            repo = here[0]
            here, commit = adopt.fetched(*here)
            found = repo, commit
            show("fetching the checkpoint", 1, 1)
        if isinstance(below, Path):
            base = adopt.Origin(below)
        else:
            show("fetching the base model", 0, 1)
            folder = fetch.snapshot(*below)
            base = adopt.Origin(folder, below[0], folder.name)
            show("fetching the base model", 1, 1)
        show("adopting", 0, 1)
        made = adopt.adopt(
            here, out, kind=said.kind, base=base, limits=Limits(said.max_tokens, said.min_pixels, said.max_pixels),
            dtype=said.dtype, options=options, prompt=prompt, bias="drop" if said.drop_bias else "refuse", found=found,
        )  # fmt: skip
        show("adopting", 1, 1)
    return made, base


def _place(named: str, what: str) -> Path | tuple[str, str]:
    """A file or folder that is there, or (repository, revision)."""
    from .source import split

    if Path(named).exists():
        return Path(named)
    if "/" in named and "@" in named:
        return split(named)
    raise output.usage(f"is no folder here, and no NS/NAME@REVISION on the Hub; {what} is one of them", named)


def pairs(words: Sequence[str], option: str) -> dict[str, Any]:
    """``name=value`` each, of any verb: a value is JSON, and a word that is none is text."""
    import orjson

    found: dict[str, Any] = {}
    for word in words:
        name, separator, text = word.partition("=")
        if not (name and separator):
            raise output.usage("is not NAME=VALUE", f"{option} {word}")
        if name in found:
            raise output.usage("is said twice", f"{option} {name}")
        try:
            found[name] = orjson.loads(text)
        except orjson.JSONDecodeError:
            if text.lower() in _WORDS:
                raise output.usage(
                    f"would be the text {text!r}; write true, false or null", f"{option} {word}"
                ) from None
            found[name] = text
    return found


def _prompt(said: _Said) -> Prompt | None:
    """The prompt that is named: of this project by its id, a template of the user's, or ``prompts/*.json`` of a build.

    Raises ArmError, naming both, when its hash is not the one that was said.
    """
    if said.prompt is None:
        return None
    from ..inference.rendering import read_prompt
    from ..prompts.options import PromptOptions
    from ..prompts.render import load_prompt, load_prompt_file
    from ..schemas.errors import ArmError
    from ..schemas.ids import file_sha256

    path, options = Path(said.prompt), pairs(said.prompt_option, "--prompt-option")
    if path.suffix == ".json":
        if options:
            raise output.usage("holds its options; there are no others", said.prompt)
        made = read_prompt(path)
    elif path.is_file():
        made = load_prompt_file(path, file_sha256(path), PromptOptions.from_mapping(options))
    else:
        made = load_prompt(said.prompt, PromptOptions.from_mapping(options))
    if said.prompt_sha256 is not None and said.prompt_sha256.lower() != made.sha256:
        raise ArmError(
            f"has the hash {made.sha256}, and {said.prompt_sha256} was asked for: template, options or renderer differ",
            where=said.prompt, next_command="--prompt-option NAME=VALUE   # as the rows were made",
        )  # fmt: skip
    return made


def _show(out: Path, made: Adopted, base: Origin) -> None:
    contract = made.contract
    for change in made.told:
        output.note(output.one_line(f"changed: {change}"))
    where = f"{base.repo} at {base.commit}" if base.repo else f"the model in {base.folder}"
    output.note(output.one_line(f"{contract['kind']}, {contract['layout']} of {contract['architecture']} on {where}"))
    processor, prompt = contract["processor"], contract["prompt"]
    seen = "no pictures"
    if processor["max_pixels"] is not None:
        seen = f"pictures of {processor['min_pixels']:,} to {processor['max_pixels']:,} pixels"
    output.note(f"conversations of up to {processor['max_tokens']:,} tokens; {seen}")
    if contract["head"] is not None:
        output.note(f"scores are read at {contract['head']['scored_token']!r}, the last token of a conversation")
    unknown = "not known"
    if contract["kind"] == "scalar":
        unknown += "; it can be asked only about pairs that came ready-made"
    output.note(f"prompt: {prompt['id']}, {prompt['sha256']}" if prompt["id"] else f"prompt: {unknown}")
    click.echo(str(out))
    if prompt["id"] is None and contract["kind"] == "selection_arm":
        output.note("next: adopt it with --prompt, once it is known; without one it cannot be evaluated")
        return
    words = ["arm", "evaluate", str(out), "--dataset", "BUILD"]
    words += [] if base.repo else ["--base", str(base.folder)]
    output.note(f"next: {shlex.join(words)}")
