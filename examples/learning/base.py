"""A toy base model: a Qwen3.5 of about a million parameters, trained here on two skills that the recipes put together.

It learns to name the colour of the lit button, and which line of a list holds a word. It never sees a question that
needs both, nor is it told which of two replies is better: that is left to the recipes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from action_reward_models.examples.learning import scenes
from action_reward_models.inference.processor import Encoded, Limits, Message, Processor

END, PAD, IMAGE = "<|im_end|>", "<|endoftext|>", "<|image_pad|>"
PATCH = 16  # px, after pages were made smaller
SPECIAL = [PAD, "<|im_start|>", END, "<|vision_start|>", "<|vision_end|>", IMAGE, "<|video_pad|>"]
# Words with the space before them, single digits, runs of other signs, spaces.
PARTS = r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+"
TEMPLATE = """\
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{% if message.content is string -%}
{{ message.content }}
{%- else -%}
{%- for block in message.content -%}
{{ '<|vision_start|><|image_pad|><|vision_end|>' if block.type == 'image' else block.text }}
{%- endfor -%}
{%- endif -%}
<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}
"""
PICTURES = {
    "image_processor_type": "Qwen2VLImageProcessor",
    "patch_size": PATCH,
    "merge_size": 1,
    "temporal_patch_size": 2,
    "image_mean": [1.0, 1.0, 1.0],  # white is 0, so that an empty patch says nothing but its position
    "image_std": [0.5, 0.5, 0.5],
    "size": {"shortest_edge": (scenes.GRID * PATCH) ** 2, "longest_edge": (scenes.GRID * PATCH) ** 2},
}


@dataclass(frozen=True)
class Size:
    """hidden: width of the language model. layers: all of which attend. steps: of 32 questions each."""

    hidden: int = 128
    layers: int = 3
    steps: int = 600


def make(folder: Path, size: Size, seed: int, unseen: Collection[str], told: Callable[[str], object]) -> None:
    """Write processor and trained model into ``folder``. ``unseen``: tasks that it is not to see."""
    import torch
    from transformers.utils import logging

    logging.disable_progress_bar()
    folder.mkdir(parents=True, exist_ok=True)
    _processor(folder)
    processor = Processor(folder, Limits(max_tokens=256))
    torch.manual_seed(seed)
    model = _model(size, processor)
    made = [scene for scene in scenes.scenes(4000, 10_000) if scene.task not in unseen]
    _train(model, processor, made, size.steps, scenes.chance_of(seed), told)
    model.eval().save_pretrained(folder)


def caption(chance: random.Random, made: list[scenes.Scene]) -> tuple[list[Message], list[bytes], str]:
    """A page, and the colour of its lit button."""
    scene = chance.choice(made)
    content = [
        {"type": "text", "text": f"{scene.task}\n"},
        {"type": "image"},
        {"type": "text", "text": "\nWhich colour?"},
    ]
    return [{"role": "user", "content": content}], [scenes.picture(scene)], f'type("{scene.lit}")'


def lookup(chance: random.Random, made: list[scenes.Scene]) -> tuple[list[Message], list[bytes], str]:
    """A list, and the number of the line that holds a word."""
    words = chance.sample(sorted(scenes.COLOURS), scenes.BUTTONS)
    right = chance.randrange(len(words))
    lines = "\n".join(f'{number}. type("{word}")' for number, word in enumerate(words, 1))
    text = f"{words[right]}\n{lines}\nWhich number?"
    return [{"role": "user", "content": [{"type": "text", "text": text}]}], [], f'{{"selection": {right + 1}}}'


def _processor(folder: Path) -> None:
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PARTS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1024, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=SPECIAL,
        show_progress=False,
    )  # fmt: skip
    tokenizer.train_from_iterator(_texts(), trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END, "pad_token": PAD}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    (folder / "chat_template.jinja").write_text(TEMPLATE, "utf-8")
    (folder / "preprocessor_config.json").write_text(json.dumps(PICTURES), "utf-8")


def _texts() -> list[str]:
    chance = scenes.chance_of(0)
    made = list(scenes.scenes(1000, 0))
    texts = ["user\nassistant\n"] * 50
    for question in (caption, lookup) * 500:
        messages, _, reply = question(chance, made)
        texts += [reply, *(block["text"] for block in messages[0]["content"] if block["type"] == "text")]
    return texts


def _model(size: Size, processor: Processor) -> Any:
    from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration

    token = processor.tokenizer.convert_tokens_to_ids
    head = size.hidden // 4
    text = {
        "vocab_size": -(-len(processor.tokenizer) // 64) * 64,
        "hidden_size": size.hidden,
        "intermediate_size": 2 * size.hidden,
        "num_hidden_layers": size.layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": head,
        "layer_types": ["full_attention"] * size.layers,
        "max_position_embeddings": 1024,
        "tie_word_embeddings": True,
        "pad_token_id": token(PAD),
        "eos_token_id": token(END),
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 100.0,
            "partial_rotary_factor": 1.0,
            "mrope_section": [head // 2 - 2 * (head // 6), head // 6, head // 6],
            "mrope_interleaved": True,
        },
    }
    vision = {
        "depth": 1,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_heads": 2,
        "patch_size": PATCH,
        "spatial_merge_size": 1,
        "out_hidden_size": size.hidden,
        "num_position_embeddings": scenes.GRID**2,
    }
    config = Qwen3_5Config(
        text_config=text, vision_config=vision, tie_word_embeddings=True, image_token_id=token(IMAGE),
        video_token_id=token("<|video_pad|>"), vision_start_token_id=token("<|vision_start|>"),
        vision_end_token_id=token("<|vision_end|>"),
    )  # fmt: skip
    model = Qwen3_5ForConditionalGeneration(config)
    _rescale(model)
    model.generation_config.update(eos_token_id=token(END), pad_token_id=token(PAD))
    return model


def _rescale(model: Any) -> None:
    """First weights with which so small a model learns to look things up within some hundred steps."""
    import torch

    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "pos_embed" in name:
                torch.nn.init.normal_(weight, std=1.0)  # or positions drown beside patches of one colour
            elif "patch_embed" in name:
                weight.mul_(0.3)
            elif "embed_tokens" in name:
                weight.mul_(10)  # or what layers add drowns the words
            elif weight.dim() == 2:
                weight.mul_(4)  # 0.02 is for widths in the thousands


def _train(
    model: Any, processor: Processor, made: list[scenes.Scene], steps: int, chance: random.Random,
    told: Callable[[str], object],
) -> None:  # fmt: skip
    """Next-token loss on replies, half of them captions."""
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.0)
    rates = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1.0, (n + 1) / 20, (steps - n) / (0.3 * steps)))
    for number in range(steps):
        losses, right = [], []
        for question in (caption, lookup):
            rows = [processor.selection(*question(chance, made)) for _ in range(16)]
            labels = _labels(rows)
            out = model(**processor.batch(rows), labels=labels)
            losses.append(out.loss)
            hit = (out.logits[:, :-1].argmax(-1) == labels[:, 1:]) | (labels[:, 1:] == -100)
            right.append(float(hit.all(-1).float().mean()))
        optimizer.zero_grad()
        (sum(losses) / len(losses)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rates.step()
        if number % 20 == 19:
            told(
                f"step {number + 1}/{steps}: captions {float(losses[0].detach()):.3f} {right[0]:.2f}, "
                f"lookups {float(losses[1].detach()):.3f} {right[1]:.2f}"
            )


def _labels(rows: list[Encoded]) -> Any:
    """(B, longest), -100 where nothing is learned."""
    import torch

    labels = torch.full((len(rows), max(len(row.input_ids) for row in rows)), -100)
    for label, row in zip(labels, rows, strict=True):
        label[row.prompt : len(row.input_ids)] = torch.tensor(row.input_ids[row.prompt :])
    return labels
