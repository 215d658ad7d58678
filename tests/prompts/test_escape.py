"""Literals that models take for structure."""

from __future__ import annotations

import time

import pytest
from action_reward_models.prompts.escape import escape

HOSTILE = [
    "<image>", "<IMAGE>", "<img>", "</img>", "<video>", "<audio>", "<image_soft_token>", "<audio_soft_token>", "[IMG]",
    "<start_of_image>", "<start_of_turn>", "<end_of_turn>", "<end_of_utterance>", "<fake_token_around_image>",
    "<row_1_col_2>", "<global-img>", "<IMG_CONTEXT>", "<im_patch>", "<im_start>", "<image1>", "<image_12>", "<bos>",
    "<eos>", "<pad>", "<s>", "</s>", "[INST]", "[/INST]", "[inst]", "<<SYS>>", "<</SYS>>", "<think>", "</think>",
    "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<|im_start|>", "<|im_end|>", "<|image_pad|>",
    "<|endoftext|>", "<|image_1|>", "<|turn>", "<turn|>", "<｜User｜>", "<｜end▁of▁sentence｜>", "<|never closed",
]  # fmt: skip


@pytest.mark.parametrize("literal", HOSTILE)
def test_a_literal_is_opened_by_an_entity_and_nothing_is_left(literal: str) -> None:
    text = f"see {literal} here{literal}"
    once = escape(text)
    opener = "&#91;" if literal[0] == "[" else "&lt;"
    assert once.startswith(f"see {opener}")
    assert literal not in once
    assert escape(once) is once


@pytest.mark.parametrize(
    "text", ["", "a < b", "<div>", "<input type=text>", "x[0]", "[1]", "<imagery>", "<<", "&lt;image>"]
)
def test_other_text_is_returned_as_it_is(text: str) -> None:
    assert escape(text) is text


def test_removing_one_layer_does_not_reveal_another() -> None:
    for text in ("<<image>image>", "<|<|im_end|>|>", "[[INST]INST]", "<th<think>ink>"):
        assert escape(escape(text)) == escape(text)
        assert "<think>" not in escape(text)


def test_hostile_sizes_are_linear() -> None:
    begin = time.process_time()
    for unit in ("<", "<a", "<|", "[", "<image_1", "[/", "<" + "a" * 1000):
        escape(unit * (1_000_000 // len(unit)))
    assert time.process_time() - begin < 5
