"""A real model of the Qwen3.5 architecture with about a million parameters, made and trained on the spot."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from action_reward_models.tests.builders import tiny_processor
from action_reward_models.tests.tiny_vlm import examples

END, PAD, IMAGE = "<|im_end|>", "<|endoftext|>", "<|image_pad|>"
PATCH = 16  # px; four patches become one token
PICTURES = {
    "image_processor_type": "Qwen2VLImageProcessor",
    "patch_size": PATCH,
    "merge_size": 2,
    "temporal_patch_size": 2,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "size": {"shortest_edge": 32 * 32, "longest_edge": 160 * 224},
}
SPECIAL = [*tiny_processor.SPECIAL, "<|video_pad|>"]


@dataclass(frozen=True)
class Size:
    """hidden: width of the language model. layers: of which every fourth attends, as in the real one, or all.
    sees: without it, a model of the Qwen3 architecture, which every engine can serve, with the same tokens."""

    hidden: int = 128
    layers: int = 4
    attention_only: bool = False
    vocabulary: int = 1024
    sees: bool = True


class Processor:
    """Messages and pictures to the model's arrays, with the tokenizer and the picture processor of a folder.

    The processor class of transformers needs torchvision, for videos.
    """

    def __init__(self, folder: Path) -> None:
        from transformers import AutoTokenizer
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.sees = (folder / "preprocessor_config.json").exists()
        self.pictures: Any = Qwen2VLImageProcessorPil.from_pretrained(folder) if self.sees else None
        self.end, self.pad, self.image = self.tokenizer.convert_tokens_to_ids([END, PAD, IMAGE])

    def __call__(
        self,
        messages: list[dict[str, Any]],
        pictures: list[Any],
        reply: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Arrays of one conversation, (1, tokens) for ids; it ends where a reply begins, or with ``reply`` and its end.

        ``options`` are the chat template's.
        """
        import torch

        options = {**(options or {}), "tokenize": False, "add_generation_prompt": True}
        text = self.tokenizer.apply_chat_template(messages, **options)
        text += f"{reply}{END}" if reply is not None else ""
        seen: dict[str, Any] = {}
        if pictures:
            seen = dict(self.pictures(pictures, return_tensors="pt"))
            first, *parts = text.split(IMAGE)
            grids = seen["image_grid_thw"].prod(-1) // self.pictures.merge_size**2
            text = first + "".join(IMAGE * int(n) + part for n, part in zip(grids, parts, strict=True))
        ids = self.tokenizer(text, return_tensors="pt", add_special_tokens=False)["input_ids"]
        if self.sees:
            seen["mm_token_type_ids"] = (ids == self.image).int()
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **seen}


def build(folder: Path, size: Size | None = None, *, steps: int = 60, seed: int = 0) -> None:
    """Write processor and trained model into ``folder``: the same weights on one machine, whenever it is called.

    steps: of 16 replies without what they reply to, then half as many of 4 whole turns with their screenshots.
    """
    import torch

    torch.set_num_threads(1)
    size = size or Size()
    pictures = PICTURES if size.sees else None
    tiny_processor.make(folder, pictures=pictures, texts=examples.texts(), special=SPECIAL, vocabulary=size.vocabulary)
    processor = Processor(folder)
    torch.manual_seed(seed)
    model = _model(size, processor)
    _train(model, processor, steps, random.Random(seed))
    model.eval().save_pretrained(folder)


def load(folder: Path) -> tuple[Any, Processor]:
    """Return the model, ready for inference, and its processor."""
    import torch
    import transformers

    torch.set_num_threads(1)
    processor = Processor(folder)
    kind = transformers.Qwen3_5ForConditionalGeneration if processor.sees else transformers.Qwen3ForCausalLM
    return kind.from_pretrained(folder).eval(), processor


def _model(size: Size, processor: Processor) -> Any:
    from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration, Qwen3Config, Qwen3ForCausalLM

    def token(name: str) -> int:
        return int(processor.tokenizer.convert_tokens_to_ids(name))

    head = size.hidden // 4
    text = {
        "vocab_size": -(-len(processor.tokenizer) // 64) * 64,
        "hidden_size": size.hidden,
        "intermediate_size": 2 * size.hidden,
        "num_hidden_layers": size.layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": head,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": True,
        "pad_token_id": processor.pad,
        "eos_token_id": processor.end,
    }
    if not size.sees:
        return _ending(Qwen3ForCausalLM(Qwen3Config(**text)), processor)
    text |= {
        "linear_key_head_dim": head // 2,
        "linear_value_head_dim": head // 2,
        "linear_num_key_heads": 4,
        "linear_num_value_heads": 4,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.5,
            "mrope_section": [head // 4 - 2 * (head // 12), head // 12, head // 12],
            "mrope_interleaved": True,
        },
    }
    if size.attention_only:
        text["layer_types"] = ["full_attention"] * size.layers
    vision = {
        "depth": 2,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_heads": 2,
        "patch_size": PATCH,
        "out_hidden_size": size.hidden,
        "num_position_embeddings": 256,
    }
    config = Qwen3_5Config(
        text_config=text,
        vision_config=vision,
        tie_word_embeddings=True,
        image_token_id=processor.image,
        video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"),
        vision_end_token_id=token("<|vision_end|>"),
    )
    return _ending(Qwen3_5ForConditionalGeneration(config), processor)


def _ending(model: Any, processor: Processor) -> Any:
    """``model``, which samples until it ends its turn."""
    model.generation_config.update(do_sample=True, eos_token_id=processor.end, pad_token_id=processor.pad)
    return model


def _train(model: Any, processor: Processor, steps: int, chance: random.Random) -> None:
    """Next-token loss on replies, first after the last words before them, then after the turn they reply to.

    One reply in four is a selection, of a number that means nothing, after the words that ask for one.
    """
    import torch

    turns, asked = examples.turns(), examples.asked()
    replies = [reply for turn in turns for reply in turn.replies]

    def ids(text: str) -> list[int]:
        found: list[int] = processor.tokenizer(text, add_special_tokens=False)["input_ids"]
        return found

    opening = "<|im_start|>assistant\n"
    alone, after_asked = ids(opening), ids(f"{asked}{END}\n{opening}")

    def selection() -> str | None:
        return f'{{"selection": {chance.randint(1, 5)}}}' if chance.random() < 1 / 4 else None

    def short() -> Any:
        """The loss on 16 replies."""
        rows, starts = [], []
        for _ in range(16):
            picked = selection()
            before = after_asked if picked else alone
            rows.append(before + ids(f"{picked or chance.choice(replies)}{END}"))
            starts.append(len(before))
        longest = max(map(len, rows))
        given = torch.tensor([row + [processor.pad] * (longest - len(row)) for row in rows])
        labels = given.masked_fill(given == processor.pad, -100)
        for label, start in zip(labels, starts, strict=True):
            label[:start] = -100
        return model(input_ids=given, attention_mask=(given != processor.pad).int(), labels=labels).loss

    def whole() -> Any:
        """The loss on a reply to a turn."""
        turn, picked = chance.choice(turns), selection()
        messages, pictures = (turn.messages, [turn.screenshot]) if processor.sees else (turn.texts, [])
        if picked:
            messages = [*messages, {"role": "user", "content": [{"type": "text", "text": asked}]}]
        reply = picked or chance.choice(turn.replies)
        given = processor(messages, pictures, reply)
        labels = given["input_ids"].clone()
        labels[:, : -len(ids(f"{reply}{END}"))] = -100
        return model(**given, labels=labels).loss

    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    wholes = steps // 2
    rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps + wholes, pct_start=0.1)
    for number in range(steps + wholes):
        loss = short() if number < steps else torch.stack([whole() for _ in range(4)]).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rates.step()
