"""Tiny bases of the families that can score, with weights drawn by chance. For a process with torch."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from action_reward_models.tests.tiny_vlm import model

FAMILIES = ("hybrid", "attention", "qwen3_vl", "text")


def base(folder: Path, family: str, seen: Path, blind: Path) -> Path:
    """The base of ``family`` in ``folder``. hybrid: Qwen3.5 as it is. attention: the same without recurrent layers.
    text: Qwen3, which sees nothing. seen, blind: trained bases, the first of which lends tokenizer and pictures."""
    if family in ("hybrid", "text"):
        return seen if family == "hybrid" else blind
    import torch

    out = folder / family
    shutil.copytree(seen, out, ignore=shutil.ignore_patterns("*.safetensors", "config.json", "generation_config.json"))
    torch.manual_seed(1)
    if family == "attention":
        made = model._model(model.Size(attention_only=True), model.Processor(seen))
    else:
        made = _qwen3_vl(json.loads((seen / "config.json").read_bytes()))
    with torch.no_grad():  # weights as drawn attend to everything alike, wherever it stands
        for name, weight in made.named_parameters():
            if name.endswith(("q_proj.weight", "k_proj.weight")):
                weight.mul_(8)
    made.eval().save_pretrained(out)
    return out


def _qwen3_vl(like: dict[str, Any]) -> Any:
    """Of the size of a Qwen3.5 with the config ``like``; features of both vision layers go into the language model."""
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    text = {key: like["text_config"][key] for key in (
        "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "head_dim", "max_position_embeddings", "tie_word_embeddings", "pad_token_id",
        "eos_token_id",
    )}  # fmt: skip
    sections = {"mrope_section": [8, 4, 4], "mrope_interleaved": True}
    text["rope_parameters"] = {"rope_type": "default", "rope_theta": 10000.0, **sections}
    vision = {key: like["vision_config"][key] for key in (
        "depth", "hidden_size", "intermediate_size", "num_heads", "patch_size", "out_hidden_size",
        "num_position_embeddings",
    )}  # fmt: skip
    vision["deepstack_visual_indexes"] = [0, 1]
    ids = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
    config = Qwen3VLConfig(
        text_config=text, vision_config=vision, tie_word_embeddings=True, **{key: like[key] for key in ids}
    )
    return Qwen3VLForConditionalGeneration(config)
