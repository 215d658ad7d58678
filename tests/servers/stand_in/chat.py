"""Chat completions: what is refused, and the shape of what is answered."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any

from action_reward_models.tests.servers.stand_in import pictures, replies
from action_reward_models.tests.servers.stand_in.replies import Prompt, Said
from action_reward_models.tests.servers.stand_in.script import Script, share

URL = "/v1/chat/completions"
_OWN = {"top_k", "min_p", "chat_template_kwargs", "repetition_penalty", "structured_outputs"}  # of vLLM, not of OpenAI
_ROLES = {"system", "developer", "user", "assistant", "tool"}


class RefusedError(Exception):
    """A 4xx. ``body`` is what the server says."""

    def __init__(self, status: int, message: str, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = error(message, status, code, param)


def error(message: str, status: int, code: str | None = None, param: str | None = None) -> dict[str, Any]:
    kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def complete(body: Any, script: Script, salt: str = "") -> dict[str, Any]:
    """The completion, or RefusedError. Only its id and its time differ between two answers to one body."""
    if not isinstance(body, dict):
        raise RefusedError(400, "the body is no JSON object")
    prompt = _prompt(body, script)
    n = body.get("n") or 1
    if not isinstance(n, int) or n < 1:
        raise RefusedError(400, "n must be at least 1", param="n")
    if script.owned_by == "vllm" and n > 1 and not prompt.temperature:
        raise RefusedError(400, f"n must be 1 when using greedy sampling, got {n}.", param="n")
    said = replies.choices(prompt, n, script, salt)
    usage = _usage(prompt, said, script)
    if script.context and usage["prompt_tokens"] + (prompt.max_tokens or 1) > script.context:
        raise RefusedError(400, f"This model's maximum context length is {script.context} tokens.", param="max_tokens")
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": prompt.model,
        "system_fingerprint": f"fp_{script.owned_by}",
        "choices": [_choice(index, one, body, script) for index, one in enumerate(said)],
        "usage": usage,
    }


def _prompt(body: Mapping[str, Any], script: Script) -> Prompt:
    for name in body:
        if name in script.refuses:
            said = f"Unsupported parameter: '{name}' is not supported with this model."
            raise RefusedError(400, said, "unsupported_parameter", name)
        if script.owned_by == "openai" and name in _OWN:
            raise RefusedError(400, f"Unrecognized request argument supplied: {name}", param=name)
    model = body.get("model")
    if model not in script.models:
        raise RefusedError(404, f"The model `{model}` does not exist.", "model_not_found", "model")
    if body.get("stream"):
        raise RefusedError(400, "the stand-in does not stream", param="stream")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise RefusedError(400, "messages: at least one is needed", param="messages")
    texts: list[str] = []
    shown: list[pictures.Picture] = []
    for index, message in enumerate(messages):
        try:
            _read(message, texts, shown)
        except (ValueError, KeyError, TypeError, AttributeError) as wrong:
            raise RefusedError(400, f"messages[{index}]: {wrong}", param="messages") from wrong
    temperature = body.get("temperature")
    limit = body.get("max_completion_tokens", body.get("max_tokens"))
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        raise RefusedError(400, "max_tokens must be at least 1", param="max_tokens")
    schema = _schema(body)
    temperature = 1.0 if temperature is None else float(temperature)
    return Prompt(model, "\n".join(texts), shown, body.get("seed"), temperature, schema, limit)


def _read(message: Any, texts: list[str], shown: list[pictures.Picture]) -> None:
    if message["role"] not in _ROLES:
        raise ValueError(f"no role: {message['role']!r}")
    texts.append(f"[{message['role']}]")
    content = message["content"]
    if isinstance(content, str):
        texts.append(content)
        return
    for block in content:
        if block["type"] == "text":
            texts.append(block["text"])
        elif block["type"] == "image_url":
            shown.append(pictures.read(block["image_url"]["url"]))
            texts.append(f"[{len(shown)}]")
        else:
            raise ValueError(f"no content: {block['type']!r}")


def _schema(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    asked = body.get("response_format") or {"type": "text"}
    match asked:
        case {"type": "text"}:
            schema = body.get("structured_outputs", {}).get("json")
            return schema if isinstance(schema, dict) else None
        case {"type": "json_object"}:
            return {}
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            return schema
    raise RefusedError(400, f"no response_format: {asked}", param="response_format")


def _usage(prompt: Prompt, said: list[Said], script: Script) -> dict[str, Any]:
    seen = replies.tokens(prompt.text) + script.image_tokens * len(prompt.pictures)
    made = sum(replies.tokens(one.text) + replies.tokens(one.thought) for one in said)
    return {"prompt_tokens": seen, "completion_tokens": made, "total_tokens": seen + made}


def _choice(index: int, said: Said, body: Mapping[str, Any], script: Script) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": said.text, "refusal": said.refusal, "tool_calls": None}
    if script.reasoning:
        message[script.reasoning] = said.thought
    return {
        "index": index,
        "message": message,
        "logprobs": {"content": _logprobs(said.text or "")} if body.get("logprobs") else None,
        "finish_reason": said.finish_reason,
    }


def _logprobs(text: str) -> list[dict[str, Any]]:
    pieces = [text[at : at + replies.PER_TOKEN] for at in range(0, len(text), replies.PER_TOKEN)]
    return [
        {"token": piece, "logprob": -share("logprob", piece), "bytes": list(piece.encode()), "top_logprobs": []}
        for piece in pieces
    ]
