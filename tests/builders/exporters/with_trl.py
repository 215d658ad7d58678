"""Run by a Python that has TRL: gives a dataset to one of its trainers, and says what came of it.

    python with_trl.py TRAINER FOLDER CONFIG SPLIT PROCESSOR SCRATCH [DROPPED COLUMN ...]

The trainer, ``sft`` or ``reward``, prepares the rows, and trains on two batches with a model of a few thousand
weights. PROCESSOR holds a tokenizer, a chat template and the settings of pictures. Prints JSON on its last line:
versions, and of each row its tokens as the model gets them.
"""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import datasets
import torch
from transformers import (
    BatchFeature,
    PreTrainedTokenizerFast,
    Qwen2VLImageProcessorPil,
    Qwen3_5Config,
    Qwen3_5ForConditionalGeneration,
    Qwen3_5ForSequenceClassification,
)
from transformers.processing_utils import ProcessorMixin
from trl import RewardConfig, RewardTrainer, SFTConfig, SFTTrainer

datasets.disable_progress_bars()


class Processor(ProcessorMixin):  # type: ignore[misc]  # of a library that is not here
    """Tokenizer and pictures as Qwen's, without the part for video, which would need torchvision."""

    def __init__(self, image_processor: Any = None, tokenizer: Any = None, chat_template: Any = None) -> None:
        self.image_token, self.image_token_id = "<|image_pad|>", tokenizer.convert_tokens_to_ids("<|image_pad|>")
        super().__init__(image_processor, tokenizer, chat_template=chat_template)

    def __call__(self, images: Any = None, text: Any = None, **kwargs: Any) -> Any:
        texts = [text] if isinstance(text, str) else list(text)
        made: dict[str, Any] = {}
        if images is not None:
            made = dict(self.image_processor(images=images, return_tensors="pt"))
            counts = iter((made["image_grid_thw"].prod(-1) // self.image_processor.merge_size**2).tolist())
            for number, given in enumerate(texts):
                first, *others = given.split(self.image_token)
                texts[number] = first + "".join(self.image_token * next(counts) + other for other in others)
            assert next(counts, None) is None
        known = {name: kwargs[name] for name in ("padding", "padding_side", "return_tensors") if name in kwargs}
        made |= dict(self.tokenizer(texts, add_special_tokens=False, **known))
        if images is not None and "return_tensors" in known:
            made["mm_token_type_ids"] = (made["input_ids"] == self.image_token_id).long()
        return BatchFeature(made, tensor_type=known.get("return_tensors"))


def tiny(folder: Path) -> tuple[Any, Any]:
    """A model's configuration and its processor."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    pictures = Qwen2VLImageProcessorPil.from_pretrained(folder)
    processor = Processor(pictures, tokenizer, chat_template=tokenizer.chat_template)
    text = {
        "vocab_size": 448, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 16, "layer_types": ["full_attention"],
        "pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id,
        "rope_parameters": {
            "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25, "mrope_section": [1, 1, 0],
        },
    }  # fmt: skip
    vision = {
        "depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 16,
        "patch_size": pictures.patch_size, "spatial_merge_size": pictures.merge_size, "num_position_embeddings": 64,
    }  # fmt: skip
    tokens = {
        f"{name}_token_id": tokenizer.convert_tokens_to_ids(f"<|{token}|>")
        for name, token in (("image", "image_pad"), ("vision_start", "vision_start"), ("vision_end", "vision_end"))
    }
    return Qwen3_5Config(text_config=text, vision_config=vision, **tokens), processor


def settings(scratch: Path) -> dict[str, Any]:
    """Arguments of both trainers. ``max_length`` is set by default, and rows are cut there, or left out."""
    return {
        "output_dir": str(scratch), "per_device_train_batch_size": 2, "max_length": None, "max_steps": 2,
        "report_to": "none", "use_cpu": True, "bf16": False, "gradient_checkpointing": False, "save_strategy": "no",
        "disable_tqdm": True,
    }  # fmt: skip


def sft(rows: Any, config: Any, processor: Any, scratch: Path) -> list[dict[str, Any]]:
    with_pictures = "images" in rows.column_names
    trainer = SFTTrainer(
        Qwen3_5ForConditionalGeneration(config),
        args=SFTConfig(**settings(scratch)),
        train_dataset=rows,
        processing_class=processor if with_pictures else processor.tokenizer,
    )
    trainer.train()
    return [
        {
            "tokens": batch["input_ids"][0].tolist(),
            "trained": batch["labels"][0][batch["labels"][0] != -100].tolist(),
            "patches": len(batch["pixel_values"]) if "pixel_values" in batch else 0,
        }
        for batch in torch.utils.data.DataLoader(trainer.train_dataset, 1, collate_fn=trainer.data_collator)
    ]


def reward(rows: Any, config: Any, processor: Any, scratch: Path) -> list[dict[str, Any]]:
    config.num_labels = 1
    trainer = RewardTrainer(
        Qwen3_5ForSequenceClassification(config),
        args=RewardConfig(**settings(scratch)),
        train_dataset=rows,
        processing_class=processor.tokenizer,
    )
    trainer.train()
    return [{"chosen": row["chosen_ids"], "rejected": row["rejected_ids"]} for row in trainer.train_dataset]


if __name__ == "__main__":
    which, folder, name, split, base, scratch, *dropped = sys.argv[1:]
    data = datasets.load_dataset(folder, name, split=split, cache_dir=f"{scratch}/cache").remove_columns(dropped)
    made = {"sft": sft, "reward": reward}[which](data, *tiny(Path(base)), Path(scratch))
    versions = {package: metadata.version(package) for package in ("trl", "transformers", "datasets", "torch")}
    print(json.dumps({"versions": versions, "rows": len(data), "made": made}))
