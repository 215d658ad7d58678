"""How vLLM serves a checkpoint: commands as data, and the requests to send. Nothing of vLLM is imported here.

What decides what a model sees is written into the command: the checkpoint's own chat template and its variables, the
area that pictures are resized to, the longest conversation, the type of the weights. A served scalar model then gets
the token ids of training, and `docs/serving.md` says how far its scores were found to be those of this package.
"""

from __future__ import annotations

import io
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from ...prompts.render import Message, Prompt
from ...schemas.errors import ArmError, UsageError
from ...servers.requests import Request as Wanted
from ...servers.requests import chat
from ..adapter import CONFIG, WEIGHTS, read_config
from ..choosing import NEW_TOKENS
from ..contract import Contract
from ..rendering import Renderer
from ..request import Request, Spoken, read, spoken_of

# vLLM 0.33.0 itself asks for this torch and for these releases of transformers.
PINS: Mapping[str, str] = {"vllm": "==0.33.0", "torch": "==2.14.0", "transformers": ">=5.16.1,<5.21"}
CUDA = 13  # of the wheels of that torch
ENVIRONMENT = "vllm-env"
TEMPLATE = "chat_template.jinja"
CLASSIFY, COMPLETIONS = "/classify", "/v1/chat/completions"
_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # that --max-lora-rank takes
# A turn that is one text is a list of one block in training, too. Found out by vLLM itself, it depends on the template;
# as it should of a model that sees nothing, whose template may show texts alone, and nothing of a list.
_BLOCKS = ("--chat-template-content-format", "openai")


@dataclass(frozen=True)
class Step:
    """One line for a shell. why: what it does."""

    why: str
    command: str


@dataclass(frozen=True)
class Place:
    """Where it is served. name: what clients call the model."""

    name: str
    host: str = "127.0.0.1"
    port: int = 8000

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


@dataclass(frozen=True)
class Plan:
    """steps: in their order; the last one serves. route: of the requests to it."""

    kind: str
    name: str
    url: str
    steps: tuple[Step, ...]
    route: str

    def to_json(self, body: Mapping[str, Any] | None) -> dict[str, Any]:
        """body: of an example; None where `arm select` writes the requests."""
        return {
            "kind": self.kind, "model": self.name, "url": self.url, "pins": dict(PINS),
            "steps": [{"why": step.why, "command": step.command} for step in self.steps],
            "request": {"method": "POST", "url": self.url + self.route, "body": body},
        }  # fmt: skip


def plan(
    folder: Path, contract: Contract, place: Place, *, base: Path | None = None, pulled: str | None = None
) -> Plan:
    """What to run to serve the checkpoint in ``folder``, which ``contract`` describes.

    base: folder of its base model, where that is one. pulled: NS/NAME@REVISION of a published one; its commands name
    the folder that `arm pull` makes.
    Raises ArmError for a checkpoint that vLLM cannot serve, and UsageError for a base that is not named.
    """
    shown = Path(pulled.partition("@")[0].rpartition("/")[2]) if pulled else folder
    steps = [
        Step("an environment of its own: vLLM pins another torch", f"python3 -m venv {ENVIRONMENT}"),
        Step(
            "the release that these commands are for",
            shlex.join([f"{ENVIRONMENT}/bin/pip", "install", *map("".join, _pins())]),
        ),
        Step("vLLM and its ninja first on PATH", f'export PATH="$PWD/{ENVIRONMENT}/bin:$PATH"'),
    ]
    if pulled:
        steps.append(Step("the checkpoint", shlex.join(["arm", "pull", pulled])))
    scalar = contract["kind"] == "scalar"
    words: list[str] = []
    if contract["layout"] == "adapter" and (scalar or not _as_lora(folder)):
        merged = shown.with_name(f"{shown.name}-merged")
        given = ["--base", str(base)] if base else []
        steps.append(
            Step("one model: vLLM takes no adapter of this kind",
                 shlex.join(["arm", "merge", str(shown), "--out", str(merged), *given]))
        )  # fmt: skip
        model, below = merged, None
    elif contract["layout"] == "adapter":
        model, below = shown, _base(contract, base, folder)
        words = _lora(folder, shown, place.name)
    elif contract["layout"] == "merged":
        model, below = shown, None
    else:
        raise ArmError(
            f"is a {contract['layout']}, and vLLM takes a whole model", where=str(folder),
            next_command="arm merge CHECKPOINT --out FOLDER   # of a checkpoint that is an adapter",
        )  # fmt: skip
    steps.append(Step("what is missing, before a job is lost", shlex.join(
        ["arm", "serve", str(model), *([] if below is None or base is None else ["--base", str(base)]),
         "--host", place.host, "--port", str(place.port), "--preflight"]
    )))  # fmt: skip
    served = place.name if below is None else f"{place.name}-base"
    command = [
        "vllm", "serve", *(below or [str(model)]), "--served-model-name", served, "--host", place.host,
        "--port", str(place.port), *words, *_seen(folder, shown if below else model, contract),
        *(["--runner", "pooling", "--convert", "classify"] if scalar else ["--generation-config", "vllm"]),
    ]  # fmt: skip
    steps.append(Step(f"serves it as {place.name}, until it is stopped", shlex.join(command)))
    return Plan(contract["kind"], place.name, place.url, tuple(steps), CLASSIFY if scalar else COMPLETIONS)


def asked(request: Request, prompt: Prompt, contract: Contract, model: str) -> list[dict[str, Any]]:
    """Bodies for `CLASSIFY`, one for each candidate; ``data[0].probs[0]`` of the answer is its score.

    The candidate is the assistant's turn and nothing follows it, so that the last token is the one that was scored in
    training. Pictures are data URLs. Raises Unrenderable.
    """
    shows = Renderer(prompt)
    rendered = shows.scalar(request.state, request.set_row)
    images = request.images(rendered.images)
    replies = shows.replies(request.state, request.set_row)
    return [classify([*rendered.messages, *reply], images, contract, model) for reply in replies]


def classify(messages: Sequence[Message], images: Sequence[bytes], contract: Contract, model: str) -> dict[str, Any]:
    """The body for `CLASSIFY` of one whole conversation; ``images``: of its places for pictures, in order."""
    names = [str(place) for place in range(len(images))]
    wanted = Wanted("", "", {"messages": chat(messages, names)}, dict(zip(names, images, strict=True)))
    return {
        "model": model,
        "messages": wanted.wire()["messages"],
        "add_generation_prompt": False,
        "chat_template_kwargs": dict(contract["processor"]["template_options"]),
        "use_activation": False,  # the score itself, not its sigmoid
    }


def example(prompt: Prompt, contract: Contract, model: str) -> dict[str, Any]:
    """The body for a candidate of a state that shows what a request is like. Raises Unrenderable."""
    spoken = (spoken_of(contract) or [Spoken("function", "pixel")])[0]
    state = {"task": "Click the red button.", "screenshot": _picture(), "observation_text": "<button>Red</button>"}
    action = {"action": "click(20, 20)", "thought": "It is red."}
    said = {"state": state, "candidates": [action], "dialect": spoken.dialect, "space": spoken.space}
    return asked(read(said, [spoken]), prompt, contract, model)[0]


def _picture() -> bytes:
    """A page of 64 x 64 pixels with a red button."""
    from PIL import Image

    made = Image.new("RGB", (64, 64), "white")
    made.paste((255, 0, 0), (8, 8, 40, 32))
    kept = io.BytesIO()
    made.save(kept, "PNG")
    return kept.getvalue()


def score_of(answer: Mapping[str, Any]) -> float:
    """The score in an answer of `CLASSIFY`. Raises ArmError for an answer that holds none."""
    try:
        (value,) = answer["data"][0]["probs"]
        return float(value)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ArmError(f"{CLASSIFY} was answered without one score: {answer!r:.200}") from error


def _pins() -> list[tuple[str, str]]:
    """What is installed by name; vLLM brings its torch."""
    return [(name, pin) for name, pin in PINS.items() if name != "torch"]


def _seen(folder: Path, model: Path, contract: Contract) -> list[str]:
    """Everything that decides what the model sees."""
    said = contract["processor"]
    longest = said["max_tokens"] + (0 if contract["kind"] == "scalar" else NEW_TOKENS)
    words = ["--dtype", contract["dtype"], "--max-model-len", str(longest)]
    if (folder / TEMPLATE).is_file():
        words += ["--chat-template", str(model / TEMPLATE)]
    if said["template_options"] and contract["kind"] != "scalar":  # `CLASSIFY` takes them of each request alone
        words += ["--default-chat-template-kwargs", _json(said["template_options"])]
    if said["max_pixels"] is not None:
        words += [*_BLOCKS, "--limit-mm-per-prompt", _json({"image": 1, "video": 0})]
        words += ["--mm-processor-kwargs", _json({key: said[key] for key in ("min_pixels", "max_pixels")})]
    return words


def _as_lora(folder: Path) -> bool:
    """Whether vLLM takes the adapter as it is: plain LoRA of a rank that it knows, of the language model alone, and the
    chat template lies beside it."""
    from safetensors import safe_open

    config = read_config(folder)
    with safe_open(folder / WEIGHTS, "numpy") as file:
        if any(".visual." in name for name in file.keys()):  # noqa: SIM118 - it is no mapping
            return False
    more = ("use_dora", "modules_to_save", "lora_bias", "trainable_token_indices", "layer_replication")
    plain = not any(config.get(name) for name in more) and config.get("bias", "none") == "none"
    return plain and _rank(config) <= _RANKS[-1] and (folder / TEMPLATE).is_file()


def _rank(config: Mapping[str, Any]) -> int:
    """The largest one of any layer."""
    return max([int(config["r"]), *map(int, (config.get("rank_pattern") or {}).values())])


def _lora(folder: Path, shown: Path, name: str) -> list[str]:
    rank = _rank(read_config(folder))
    enough = next(known for known in _RANKS if known >= rank)
    return ["--enable-lora", "--max-lora-rank", str(enough), "--lora-modules", f"{name}={shown}"]


def _base(contract: Contract, base: Path | None, folder: Path) -> list[str]:
    """The base model as `vllm serve` is told it."""
    said = contract["base"]
    if base is not None:
        return [str(base)]
    if said["repo"] is None:
        raise UsageError(
            f"its base model was a folder; which one is it now? {folder / CONFIG} belongs to it", where=str(folder),
            next_command=f"arm serve {folder} --base FOLDER --print-vllm",
        )  # fmt: skip
    return [said["repo"], "--revision", said["commit"], "--tokenizer-revision", said["commit"]]


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
