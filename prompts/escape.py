"""Text from pages, tasks and models that a chat template or a tokenizer would take for structure, made harmless.

One-way and visible: the bracket that opens such a literal becomes ``&lt;`` or ``&#91;``. Nothing is ever unescaped,
so a page that already says ``&lt;image>`` reads the same as one that said ``<image>``; that is accepted.
"""

from __future__ import annotations

import re

# Named by what they do in the families they come from; matched without regard to case. `<|` and its full-width twin
# open special tokens of nearly every family and are escaped always, closed or not: `<|turn>` exists too.
_TAGS = (
    r"image|images|img|video|audio|image_?\d+|video_?\d+|audio_?\d+",  # LLaMA-Factory, LLaVA, InternVL
    r"(?:start|end)_of_(?:image|audio|video|turn|utterance|text)",  # Gemma, Idefics, SmolVLM
    r"(?:image|audio|video)_(?:soft_)?(?:token|pad)|fake_token_around_image|global-img|row_\d+_col_\d+|img_context",
    r"(?:low_res_)?im_(?:start|end|patch|col)|vision_(?:start|end)",  # Molmo, Qwen
    r"bos|eos|pad|unk|mask|s|sep|cls|endoftext",
)
_FORMAT = r"think|thinking|tool_calls?|tool_response|function_call"  # how an actor writes its turns
_SQUARE = (
    r"INST|IMG|IMG_BREAK|IMG_END|AUDIO|BEGIN_AUDIO|THINK|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS"
    r"|TOOL_CONTENT|ARGS|CALL_ID|PREFIX|SUFFIX|MIDDLE"  # Mistral
)


def _opener(tags: str) -> re.Pattern[str]:
    pattern = rf"<(?=[|｜]|\w++[|｜]>|/?(?:{tags})>|</?SYS>>)|\[(?=/?(?:{_SQUARE})\])"
    return re.compile(pattern, re.IGNORECASE | re.ASCII)


_OPENER = _opener("|".join((*_TAGS, _FORMAT)))
_TOKEN = _opener("|".join(_TAGS))
_HARMLESS = {"<": "&lt;", "[": "&#91;"}


def escape(text: str) -> str:
    """Return ``text`` with every such literal opened by ``&lt;`` or ``&#91;``; the same object if there is none.

    ``escape(escape(text)) == escape(text)``, and no literal is left. Linear in the length of the text.
    """
    if "<" not in text and "[" not in text:  # two scans for one byte are far cheaper than one of the pattern
        return text
    if _OPENER.search(text) is None:
        return text
    return _OPENER.sub(lambda opener: _HARMLESS[opener[0]], text)


def escape_tokens(text: str) -> str:
    """Like ``escape``, but the tags an actor writes its own turns with (``<think>``, ``<tool_call>``) stay.

    For an actor's own messages, which are full of them; what would begin a turn or a picture is still made harmless.
    """
    if "<" not in text and "[" not in text:
        return text
    return _TOKEN.sub(lambda opener: _HARMLESS[opener[0]], text)
