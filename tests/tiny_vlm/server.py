"""A server with OpenAI's API around a tiny model: ``python -m action_reward_models.tests.tiny_vlm.server --port 8000``.

Real tokens come out of it: sampled ones, or, under a JSON schema that leaves nothing open but one number, those of the
object that the model finds likely. Whatever else could be asked for is refused as real servers refuse it. It says on
its first line where it listens.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import hashlib
import io
import json
import re
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import uvicorn
from action_reward_models.tests.tiny_vlm import cached, generation
from PIL import Image
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

NUMBERS: dict[str, tuple[float, float]] = {  # allowed range of what samples
    "temperature": (0, 2), "top_p": (1e-9, 1), "min_p": (0, 1),
}  # fmt: skip
COUNTS = {"n": (1, 64), "max_tokens": (1, 1 << 20), "max_completion_tokens": (1, 1 << 20), "top_k": (-1, 1 << 20)}
OTHER = {"model", "messages", "seed", "stop", "response_format", "chat_template_kwargs"}


class RefusedError(Exception):
    """A request that gets a 4xx."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Service:
    """received: the newest requests as they were understood, for who tests: tokens of prompt and replies, pictures."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.generator = generation.Generator(folder)
        self.received: list[dict[str, Any]] = []

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/version", self._version),
                Route("/v1/models", self._models),
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/received", self._received),
            ]
        )

    async def _version(self, _: Request) -> JSONResponse:
        return JSONResponse({"version": metadata.version("transformers")})

    async def _models(self, _: Request) -> JSONResponse:
        one = {"id": self.name, "object": "model", "created": 0, "owned_by": "tiny-vlm"}
        return JSONResponse({"object": "list", "data": [one | {"max_model_len": self.generator.context}]})

    async def _received(self, _: Request) -> JSONResponse:
        return JSONResponse(self.received)

    async def _chat(self, request: Request) -> JSONResponse:
        try:
            try:
                body = json.loads(await request.body())
            except ValueError:
                raise RefusedError("the body is not JSON") from None
            return JSONResponse(await run_in_threadpool(self._completion, body))
        except RefusedError as error:
            kind = "NotFoundError" if error.status == 404 else "BadRequestError"
            told = {"message": str(error), "type": kind, "param": None, "code": error.status}
            return JSONResponse({"error": told}, error.status)

    def _completion(self, body: Any) -> dict[str, Any]:
        if not isinstance(body, dict) or not isinstance(body.get("messages"), list) or not body["messages"]:
            raise RefusedError("messages: Field required")
        if body.get("model") != self.name:
            raise RefusedError(f"The model `{body.get('model')}` does not exist.", 404)
        sampler = _sampler(body)
        messages, pictures = _conversation(body["messages"])
        given = self.generator.processor(
            messages,
            [_opened(picture) for picture in pictures],
            options=body.get("chat_template_kwargs") or {},
        )
        asked = given["input_ids"].shape[1]
        if asked + sampler.max_tokens > self.generator.context:
            parts = f"{asked} in the messages, {sampler.max_tokens} in the completion"
            raise RefusedError(
                f"This model's maximum context length is {self.generator.context} tokens. "
                f"However, you requested {asked + sampler.max_tokens} tokens ({parts})."
            )
        allowed = _allowed(body.get("response_format"))
        replies = self.generator.choose(given, allowed, sampler) if allowed else self.generator.sample(given, sampler)
        self.received.append(
            {
                "messages": len(messages),
                "seed": sampler.seed,
                "prompt_ids": given["input_ids"][0].tolist(),
                "pictures": [hashlib.sha256(picture).hexdigest() for picture in pictures],
                "replies": [reply.ids for reply in replies],
            }
        )
        written = sum(len(reply.ids) for reply in replies)
        return {
            "id": f"chatcmpl-{len(self.received)}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": self.name,
            "choices": [
                {
                    "index": index,
                    "message": {"role": "assistant", "content": reply.text, "refusal": None},
                    "finish_reason": reply.finish_reason,
                    "logprobs": None,
                }
                for index, reply in enumerate(replies)
            ],
            "usage": {"prompt_tokens": asked, "completion_tokens": written, "total_tokens": asked + written},
        }


def _sampler(body: dict[str, Any]) -> generation.Sampler:
    if unknown := sorted(set(body) - OTHER - set(NUMBERS) - set(COUNTS)):
        raise RefusedError(f"{unknown[0]}: Extra inputs are not permitted")
    found: dict[str, Any] = {}
    for name, (least, most) in (NUMBERS | COUNTS).items():
        value = body.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int if name in COUNTS else int | float):
            raise RefusedError(f"{name}: Input should be a valid {'integer' if name in COUNTS else 'number'}")
        if not least <= value <= most:
            raise RefusedError(f"{name} must be in [{least}, {most}], got {value}.")
        found["max_tokens" if name == "max_completion_tokens" else name] = value
    if (seed := body.get("seed")) is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise RefusedError("seed: Input should be a valid integer")
    if body.get("stop") not in (None, [], "<|im_end|>", ["<|im_end|>"]):
        raise RefusedError("stop: only <|im_end|> ends a reply of this server")
    sampler = generation.Sampler(**found, seed=seed)
    if sampler.temperature == 0 and sampler.n > 1:
        raise RefusedError(f"n must be 1 when using greedy sampling, got {sampler.n}.")
    return sampler


def _conversation(messages: list[Any]) -> tuple[list[dict[str, Any]], list[bytes]]:
    """Messages as chat templates take them, and their pictures in order."""
    pictures: list[bytes] = []
    shown = []
    for message in messages:
        if not isinstance(message, dict) or message.get("role") not in ("system", "user", "assistant"):
            raise RefusedError("messages: a message has a role, system, user or assistant, and content")
        content = message.get("content")
        if not isinstance(content, str | list):
            raise RefusedError("messages: content is a text or a list of parts")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        shown.append({"role": message["role"], "content": [_block(block, pictures) for block in blocks]})
    return shown, pictures


def _block(block: Any, pictures: list[bytes]) -> dict[str, Any]:
    match block:
        case {"type": "text", "text": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            data = re.fullmatch(r"data:image/[a-z+.-]+;base64,(.*)", url, re.DOTALL)
            if not data:
                raise RefusedError("image_url: only data URLs of pictures in base64 are taken")
            try:
                pictures.append(base64.b64decode(data[1], validate=True))
            except binascii.Error:
                raise RefusedError("image_url: the data URL is not base64") from None
            return {"type": "image"}
    raise RefusedError("messages: a part of content is a text or an image_url")


def _opened(picture: bytes) -> Image.Image:
    try:
        return Image.open(io.BytesIO(picture)).convert("RGB")
    except (OSError, Image.DecompressionBombError) as error:
        raise RefusedError(f"image_url: the picture cannot be read: {error}") from None


def _allowed(form: Any) -> list[str] | None:
    """The replies that a response_format allows; None without one."""
    match form:
        case None | {"type": "text"}:
            return None
        case {
            "type": "json_schema",
            "json_schema": {
                "schema": {
                    "type": "object",
                    "properties": {"selection": {"type": "integer", "enum": [*numbers]}, **more},
                    "required": ["selection"],
                    "additionalProperties": False,
                }
            },
        } if numbers and not more and all(type(number) is int for number in numbers):
            return [json.dumps({"selection": number}) for number in numbers]
    raise RefusedError("response_format: this server holds replies to no such form")


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve a tiny model on 127.0.0.1, by OpenAI's API.")
    parser.add_argument("--folder", type=Path, help="of the model; made when absent, in some ten seconds")
    parser.add_argument("--name", default="tiny-vlm", help="under which it is served")
    parser.add_argument("--port", type=int, default=0, help="0: any that is free")
    given = parser.parse_args()
    service = Service(given.folder or cached.made(), given.name)
    server = uvicorn.Server(uvicorn.Config(service.app(), host="127.0.0.1", port=given.port, log_level="warning"))
    socket = server.config.bind_socket()
    print(f"http://127.0.0.1:{socket.getsockname()[1]}/v1", flush=True)
    server.run([socket])


if __name__ == "__main__":
    main()
