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
    """hidden: width of the language model. layers: of which every fourth attends, as in the real one, or all."""

    hidden: int = 128
    layers: int = 4
    attention_only: bool = False
    vocabulary: int = 1024


class Processor:
    """Messages and pictures to the model's arrays, with the tokenizer and the picture processor of a folder.

    The processor class of transformers needs torchvision, for videos.
    """

    def __init__(self, folder: Path) -> None:
        from transformers import AutoTokenizer
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.pictures: Any = Qwen2VLImageProcessorPil.from_pretrained(folder)
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
        return {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "mm_token_type_ids": (ids == self.image).int(),
            **seen,
        }


def build(folder: Path, size: Size | None = None, *, steps: int = 60, seed: int = 0) -> None:
    """Write processor and trained model into ``folder``: the same weights on one machine, whenever it is called.

    steps: of 16 replies without what they reply to, then a quarter as many of 4 whole turns with their screenshots.
    """
    import torch

    torch.set_num_threads(1)
    size = size or Size()
    tiny_processor.make(folder, pictures=PICTURES, texts=examples.texts(), special=SPECIAL, vocabulary=size.vocabulary)
    processor = Processor(folder)
    torch.manual_seed(seed)
    model = _model(size, processor)
    _train(model, processor, steps, random.Random(seed))
    model.eval().save_pretrained(folder)


def load(folder: Path) -> tuple[Any, Processor]:
    """Return the model, ready for inference, and its processor."""
    import torch
    from transformers import Qwen3_5ForConditionalGeneration

    torch.set_num_threads(1)
    return Qwen3_5ForConditionalGeneration.from_pretrained(folder).eval(), Processor(folder)


def _model(size: Size, processor: Processor) -> Any:
    from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration

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
        "linear_key_head_dim": head // 2,
        "linear_value_head_dim": head // 2,
        "linear_num_key_heads": 4,
        "linear_num_value_heads": 4,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": True,
        "pad_token_id": processor.pad,
        "eos_token_id": processor.end,
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
    model = Qwen3_5ForConditionalGeneration(config)
    model.generation_config.update(eos_token_id=processor.end, pad_token_id=processor.pad)
    return model


def _train(model: Any, processor: Processor, steps: int, chance: random.Random) -> None:
    """Next-token loss on replies, first alone, then after the turn they reply to."""
    import torch

    turns = examples.turns()
    opening = processor.tokenizer("<|im_start|>assistant\n", add_special_tokens=False)["input_ids"]
    replies = [
        processor.tokenizer(f"{r}{END}", add_special_tokens=False)["input_ids"] for t in turns for r in t.replies
    ]
    whole = steps // 4
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps + whole, pct_start=0.1)

    def step(losses: list[Any]) -> None:
        loss = torch.stack(losses).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rates.step()

    for _ in range(steps):
        rows = [opening + reply for reply in chance.choices(replies, k=16)]
        longest = max(map(len, rows))
        ids = torch.tensor([row + [processor.pad] * (longest - len(row)) for row in rows])
        labels = ids.masked_fill(ids == processor.pad, -100)
        labels[:, : len(opening)] = -100
        attention = (ids != processor.pad).int()
        step([model(input_ids=ids, attention_mask=attention, labels=labels).loss])
    for _ in range(whole):
        losses = []
        for turn in chance.choices(turns, k=4):
            reply = chance.choice(turn.replies)
            given = processor(turn.messages, [turn.screenshot], reply)
            replied = len(processor.tokenizer(f"{reply}{END}", add_special_tokens=False)["input_ids"])
            labels = given["input_ids"].clone()
            labels[:, :-replied] = -100
            losses.append(model(**given, labels=labels).loss)
        step(losses)
