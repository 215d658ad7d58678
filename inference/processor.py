"""Messages and pictures to a model's arrays: the one way there, for training, evaluation and serving.

A folder's own tokenizer, chat template and picture settings are used, without the processor classes of transformers:
those of the Qwen families need torchvision, for videos. Nothing is imported from the folder.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from ..schemas.errors import ArmError
from ..schemas.ids import file_sha256, sha256_hex
from ..schemas.images import QWEN, QWEN_PICTURE, ImageChecker

if TYPE_CHECKING:
    import torch

Message = Mapping[str, Any]
# What decides which tokens and which pictures a model sees.
FILES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "merges.txt", "chat_template.jinja", "chat_template.json", "preprocessor_config.json", "processor_config.json",
)  # fmt: skip
_NO_TOKEN = -1  # of a tokenizer that has none for pictures; the id of unknown words would be one in many texts
_KEPT = 8  # pictures in the model's form: the candidates of a state show the same one


@dataclass(frozen=True)
class Limits:
    """``min_pixels``, ``max_pixels``: area that a picture is resized to; None leaves what the folder says.
    ``max_tokens``: of a whole conversation, pictures included."""

    max_tokens: int
    min_pixels: int | None = None
    max_pixels: int | None = None


@dataclass(frozen=True)
class Encoded:
    """One conversation as a model takes it. ``input_ids[prompt:]`` is the reply (selection), or nothing (scalar)."""

    input_ids: tuple[int, ...]
    prompt: int
    pictures: tuple[Mapping[str, torch.Tensor], ...] = field(repr=False, compare=False, default=())
    pictures_sha256: tuple[str, ...] = ()

    @property
    def same(self) -> tuple[Any, ...]:
        """Equal for two conversations that a model cannot tell apart."""
        return self.input_ids, self.pictures_sha256


class Processor:
    """The processor of the model in ``folder``. Raises ArmError for one whose pictures are made in an unknown way, and
    for files that cannot be read.

    ``options`` are given to the chat template, such as ``{"enable_thinking": False}``.
    """

    def __init__(self, folder: Path, limits: Limits, options: Mapping[str, Any] | None = None) -> None:
        self.folder, self.limits, self.options = folder, limits, dict(options or {})
        self.tokenizer: Any = _tokenizer(folder)
        if not self.tokenizer.chat_template:
            raise ArmError("has no chat template", where=str(folder))
        self._blocks = takes_blocks(self.tokenizer, self.options)
        self.pictures: Any = _pictures(folder, limits)
        self.image_token = getattr(self.tokenizer, "image_token", None) or QWEN_PICTURE
        self.image_token_id: int = self.tokenizer.get_vocab().get(self.image_token, _NO_TOKEN)
        self.pad_token_id: int = self.tokenizer.pad_token_id
        self._seen = lru_cache(maxsize=_KEPT)(self._looked_at)

    def selection(self, prompt: Sequence[Message], images: Sequence[bytes], reply: str | None = None) -> Encoded:
        """A prompt up to where the reply begins, or with ``reply`` and the end of its turn.

        Raises ArmError for another number of pictures than the prompt has places for, and for a picture that no build
        would hold.
        """
        ids, seen = self._ids(self.text(prompt, reply_follows=True), images)
        added: list[int] = []
        if reply is not None:
            added = [*self._tokens(reply), self.tokenizer.eos_token_id]
        return Encoded((*ids, *added), len(ids), *seen)

    def scalar(self, prompt: Sequence[Message], images: Sequence[bytes], reply: Sequence[Message]) -> Encoded:
        """A whole conversation, as the chat template renders it: its last token is the one that is scored. Raises
        ArmError like `selection`."""
        ids, seen = self._ids(self.text([*prompt, *reply], reply_follows=False), images)
        return Encoded(tuple(ids), len(ids), *seen)

    def text(self, messages: Sequence[Message], *, reply_follows: bool) -> str:
        """``messages`` in the template's words, one image token for each picture."""
        try:
            shown: str = self.tokenizer.apply_chat_template(
                [plain(message) if self._blocks else _as_text(plain(message)) for message in messages],
                tokenize=False, add_generation_prompt=reply_follows, **self.options,
            )  # fmt: skip
        except Exception as error:  # a template is a program, which may fail in any way
            raise ArmError(f"the chat template refuses the conversation: {error}", where=str(self.folder)) from error
        return shown

    def batch(self, rows: Sequence[Encoded], *, left: bool = False) -> dict[str, torch.Tensor]:
        """Arrays of several conversations: ids, mask and types (B, longest), padded right, or left to go on writing;
        pictures one after the other: pixel_values (patches, values), image_grid_thw (pictures, 3)."""
        import torch

        longest = max(len(row.input_ids) for row in rows)
        ids = torch.full((len(rows), longest), self.pad_token_id)
        mask = torch.zeros_like(ids)
        for at, row in enumerate(rows):
            place = slice(longest - len(row.input_ids), None) if left else slice(len(row.input_ids))
            ids[at, place] = torch.tensor(row.input_ids)
            mask[at, place] = 1
        made = {"input_ids": ids, "attention_mask": mask}
        if self.pictures is not None:
            made["mm_token_type_ids"] = ((ids == self.image_token_id) & mask.bool()).int()
        if seen := [picture for row in rows for picture in row.pictures]:
            made |= {key: torch.cat([picture[key] for picture in seen]) for key in ("pixel_values", "image_grid_thw")}
        return made

    def contract(self) -> dict[str, Any]:
        """What must be the same wherever the checkpoint is used, as its manifest has it."""
        size = dict(self.pictures.size) if self.pictures is not None else {}
        return {
            "min_pixels": size.get("shortest_edge"),
            "max_pixels": size.get("longest_edge"),
            "max_tokens": self.limits.max_tokens,
            "template_options": self.options,
            "chat_template_sha256": sha256_hex(self.tokenizer.chat_template.encode()),
            "tokenizer_sha256": file_sha256(self.folder / "tokenizer.json"),
        }

    def save(self, folder: Path) -> None:
        """Copy the files of the processor, byte for byte, with the limits of pictures written into them."""
        for name in FILES:
            if (self.folder / name).is_file():
                data = (self.folder / name).read_bytes()
                if name in ("preprocessor_config.json", "processor_config.json") and self.pictures is not None:
                    data = _limited(data, dict(self.pictures.size))
                (folder / name).write_bytes(data)
        if not any((folder / name).is_file() for name in ("chat_template.jinja", "chat_template.json")):
            (folder / "chat_template.jinja").write_text(self.tokenizer.chat_template, "utf-8")

    def _tokens(self, text: str) -> list[int]:
        found: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return found

    def _ids(self, text: str, images: Sequence[bytes]) -> tuple[list[int], tuple[Any, ...]]:
        """(ids, with as many image tokens as each picture needs; (pictures, their hashes))."""
        ids = self._tokens(text)
        places = [at for at, token in enumerate(ids) if token == self.image_token_id]
        if len(places) != len(images):
            raise ArmError(f"the conversation has {len(places)} places for pictures, and {len(images)} pictures")
        if not images:
            return ids, ((), ())
        if self.pictures is None:
            raise ArmError("the conversation shows pictures, and the model takes none", where=str(self.folder))
        seen = [self._seen(image) for image in images]
        for at, picture in reversed(list(zip(places, seen, strict=True))):
            count = int(picture["image_grid_thw"].prod()) // self.pictures.merge_size**2
            ids[at : at + 1] = [self.image_token_id] * count
        return ids, (tuple(seen), tuple(sha256_hex(image) for image in images))

    def _looked_at(self, image: bytes) -> Mapping[str, torch.Tensor]:
        from PIL import Image

        checked = ImageChecker().check(image)  # one that is kept would remember every picture that a server ever sees
        with Image.open(io.BytesIO(checked.data)) as opened:
            made = self.pictures([opened.convert("RGB")], return_tensors="pt")
        return {key: made[key] for key in ("pixel_values", "image_grid_thw")}


def plain(message: Message) -> dict[str, Any]:
    """A message whose blocks hold only the keys they need: templates test ``'image' in block``, and Parquet fills
    what is missing with null."""
    content = message["content"]
    if not isinstance(content, str):
        content = [
            {"type": "text", "text": block["text"]} if block["type"] == "text" else {"type": block["type"]}
            for block in content
        ]
    return {"role": message["role"], "content": content}


def takes_blocks(tokenizer: Any, options: Mapping[str, Any]) -> bool:
    """Whether the chat template shows a turn that is a list of blocks. Those of models that only read may know turns
    that are one text, such as that of Qwen3, and show nothing of a list: without any error, every prompt would be
    empty."""
    said = "Is this shown?"

    def shows(content: Any) -> bool:
        try:
            return said in tokenizer.apply_chat_template(
                [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=False, **options
            )
        except Exception:  # a template is a program, which may fail in any way; what it refuses is told when it is used
            return False

    return shows([{"type": "text", "text": said}]) or not shows(said)


def _as_text(message: dict[str, Any]) -> dict[str, Any]:
    """A turn of texts as one text; one with a picture as it is."""
    content = message["content"]
    if isinstance(content, str) or any(block["type"] != "text" for block in content):
        return message
    return {**message, "content": "".join(block["text"] for block in content)}


def _tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # the tokenizers library raises nothing narrower for a file that it cannot read
        told = "it needs code that comes with it, which is never run" if "trust_remote_code" in str(error) else error
        raise ArmError(f"holds no tokenizer that can be read: {told}", where=str(folder)) from error


def _pictures(folder: Path, limits: Limits) -> Any:
    """The picture processor with its limits; None for a model that sees none."""
    path, config = _picture_settings(folder)
    if config is None:
        return None
    if (kind := config.get("image_processor_type")) not in QWEN:
        raise ArmError(
            f"prepares pictures with {kind}, which is not known here; known: {', '.join(QWEN)}", where=str(path)
        )
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    made = Qwen2VLImageProcessorPil(**{key: value for key, value in config.items() if not key.endswith("_type")})
    least, most = limits.min_pixels or made.size["shortest_edge"], limits.max_pixels or made.size["longest_edge"]
    if least > most:
        raise ArmError(f"pictures of at least {least} and at most {most} pixels cannot be made", where=str(path))
    made.size = {"shortest_edge": least, "longest_edge": most}
    return made


def _picture_settings(folder: Path) -> tuple[Path, dict[str, Any] | None]:
    for name in ("processor_config.json", "preprocessor_config.json"):
        path = folder / name
        if path.is_file():
            try:
                data = orjson.loads(path.read_bytes())
            except orjson.JSONDecodeError as error:
                raise ArmError(f"is no JSON: {error}", where=str(path)) from error
            found = data.get("image_processor") if name == "processor_config.json" else data
            if isinstance(found, dict):
                return path, found
    return folder, None


def _limited(data: bytes, size: Mapping[str, int]) -> bytes:
    """Picture settings with other limits, and without the older names that would overrule them."""
    config = orjson.loads(data)
    target = config.get("image_processor") if isinstance(config.get("image_processor"), dict) else config
    if "image_processor_type" not in target:
        return data
    for old in ("min_pixels", "max_pixels"):
        target.pop(old, None)
    target["size"] = dict(size)
    return orjson.dumps(config, option=orjson.OPT_INDENT_2) + b"\n"
