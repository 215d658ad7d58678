"""The arbiter: a model that picks, spoken to as OpenAI's API is, with any client of it.

    question = {"state": {"task": "Buy milk"}, "candidates": ["click(3, 4)", "scroll(down)"]}
    client.chat.completions.create(model="arm", messages=[{"role": "user", "content": json.dumps(question)}])

The last user message holds what `pick_request/1` says, as JSON in its text, and the screenshot there or as an
``image_url`` part with a data URL. The candidates stay a list: nothing in their text can split one. The answer is
``{"selection": 2}``, 1-based, in the order in which they were sent; where there is no pick it is
``{"selection": null, "status": "tie", "detail": "..."}``, without a digit that somebody could take for a pick. The
whole `Choice` lies beside it as ``pick``. There is no ``usage``: tokens are not counted, and 0 would be a lie.

What would change the answer if the server did it, and it does not, is refused by name; what would not is taken.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from ...schemas.validate import nearest
from ..choice import Choice
from . import bodies
from .errors import HttpError, answer

# Sampling and bookkeeping: a pick is the best candidate, whatever these say, and its reply is always a few tokens.
TAKEN = frozenset(
    ("model", "messages", "stream", "stream_options", "response_format", "temperature", "top_p", "top_k", "min_p",
     "presence_penalty", "frequency_penalty", "repetition_penalty", "seed", "stop", "max_tokens",
     "max_completion_tokens", "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
     "prompt_cache_retention", "reasoning_effort", "verbosity", "parallel_tool_calls")
)  # fmt: skip
# What asks for something that a pick has not, and the values that ask for nothing.
REFUSED: Mapping[str, tuple[Any, ...]] = {
    "n": (1,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "web_search_options": (),
    "chat_template_kwargs": ({},),
}
# Why there is no pick, for people; no digit in any.
WORDS: Mapping[str, str] = {
    "ok": "",
    "ambiguous": "the model named more than one candidate",
    "out_of_range": "the model named a candidate that does not exist",
    "unparsed": "the model's reply names no candidate",
    "truncated": "the model's reply ended before its pick",
    "refused": "the model refused",
    "content_filter": "the reply was filtered",
    "disagreed": "the model picked otherwise in other orders",
    "tie": "two different candidates share the best score",
    "too_long": "the request is longer than the model takes",
    "no_screenshot": "the model reads a screenshot, and the state has none",
    "no_observation_text": "the model reads the page as text, and the state has none",
    "no_size": "the size of the screenshot is not known",
    "unrenderable": "the request cannot be shown to the model",
    "error": "the model gave no reply",
}
_FINISH = {"truncated": "length", "content_filter": "content_filter"}  # as any reader of completions knows them
_SHAPE = 'a question is {"state": {"task": ...}, "candidates": [...]}, as JSON; docs/inference.md has an example'


def question(body: Any, served: str | None = None) -> dict[str, Any]:
    """What is asked, as data of `pick_request/1`; not yet whether it holds what that says.

    served: the one name that ``model`` may have; None takes any. Raises HttpError 400, and 404 for another model.
    """
    if not isinstance(body, dict):
        raise HttpError(400, "a JSON object is expected", param="$")
    _refuse_parameters(body)
    model = body.get("model")
    if not isinstance(model, str):
        raise HttpError(400, "model is to be the name of a model", param="$.model")
    if served is not None and model != served:
        raise no_model(model, served)
    path, content = _last(body.get("messages"))
    text, picture = (path, content), None
    if not isinstance(content, str):
        text, picture = _parts(content, path)
    data = bodies.loads(text[1].encode("utf-8", "surrogatepass"), f"the text in {text[0]}", text[0])
    if not isinstance(data, dict) or not isinstance(state := data.get("state"), dict):
        raise HttpError(400, f"the text is no question; {_SHAPE}", param=text[0])
    if picture is None:
        return data
    if state.get("screenshot") is not None:
        raise HttpError(400, "a second picture: the state has a screenshot already", param=picture[0])
    return {**data, "state": {**state, "screenshot": picture[1]}}


def completion(choice: Choice, model: str, created: int) -> dict[str, Any]:
    """``choice`` as a chat completion. created: seconds since 1970."""
    content: dict[str, Any] = {"selection": None if choice.selected_index is None else choice.selected_index + 1}
    if choice.selected_index is None:
        content |= {"status": choice.status, "detail": WORDS[choice.status]}
    elif choice.chosen_by in ("first", "scalar"):  # because whoever runs the server wants that: it is said
        content |= {"status": choice.status, "chosen_by": choice.chosen_by}
    picked = choice.selected_index is not None
    refusal = WORDS["refused"] if choice.status == "refused" and not picked else None
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": json.dumps(content), "refusal": refusal},
                "logprobs": None,
                "finish_reason": "stop" if picked else _FINISH.get(choice.status, "stop"),
            }
        ],
        "pick": choice.to_json(),
    }


def response(body: Mapping[str, Any], made: Mapping[str, Any]) -> Response:
    """The completion ``made`` as ``body`` asked for it: at once or, with ``stream``, as events."""
    return Response(events(made), media_type="text/event-stream") if body.get("stream") else answer(made)


def events(made: Mapping[str, Any]) -> bytes:
    """Server-sent events: the whole message, its end, and [DONE]."""
    [choice] = made["choices"]
    head = {**{name: made[name] for name in ("id", "created", "model")}, "object": "chat.completion.chunk"}

    def chunk(delta: Mapping[str, Any], finish: str | None, **more: Any) -> dict[str, Any]:
        part = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**head, "choices": [part], **more}

    chunks = [chunk(choice["message"], None), chunk({}, choice["finish_reason"], pick=made["pick"])]
    return "".join(f"data: {said}\n\n" for said in (*map(json.dumps, chunks), "[DONE]")).encode()


def model(name: str, created: int) -> dict[str, Any]:
    """One entry of `/v1/models`. created: seconds since 1970."""
    return {"id": name, "object": "model", "created": created, "owned_by": "action-reward-models"}


def models(name: str, created: int) -> dict[str, Any]:
    """`/v1/models`: the one model that is served."""
    return {"object": "list", "data": [model(name, created)]}


def no_model(asked: str, served: str) -> HttpError:
    """For a model that is not the one served."""
    told = f"no model {asked[:200]!r} here; {served!r} is served"
    return HttpError(404, told, code="model_not_found", param="$.model")


def _refuse_parameters(body: Mapping[str, Any]) -> None:
    for name, value in body.items():
        if name in TAKEN or value is None:
            continue
        if name not in REFUSED:
            close = nearest(name, (*TAKEN, *REFUSED))
            told = f"unknown parameter {name[:80]!r}" + (f"; did you mean {close!r}?" if close else "")
            raise HttpError(400, told, code="unknown_parameter", param=f"$.{name[:80]}")
        if not any(value == nothing and type(value) is type(nothing) for nothing in REFUSED[name]):
            told = f"{name} is not supported: the answer is one pick out of the candidates"
            raise HttpError(400, told, code="unsupported_parameter", param=f"$.{name}")
    if not isinstance(body.get("stream"), bool | None):
        raise HttpError(400, "stream is to be true or false", param="$.stream")
    if not isinstance(body.get("stream_options"), dict | None):
        raise HttpError(400, "stream_options is to be an object", param="$.stream_options")
    _refuse_format(body.get("response_format"))


def _refuse_format(said: Any) -> None:
    """The answer is an object with ``selection``; a schema that asks for more could not be kept to."""
    match said:
        case None | {"type": "text" | "json_object"}:
            return
        case {"type": "json_schema", "json_schema": {"schema": {"properties": {"selection": _}, **rest}}}:
            if rest.get("required") in (None, [], ["selection"]):
                return
    told = 'the answer is {"selection": N}, and no other form of it is made'
    raise HttpError(400, told, code="unsupported_parameter", param="$.response_format")


def _last(messages: Any) -> tuple[str, Any]:
    """Path and content of the last message, which is the user's. Earlier turns of user and assistant are a client's
    memory and no part of the question; a system message would be there to change the answer."""
    if not isinstance(messages, list) or not messages:
        raise HttpError(400, "messages is to be a list with at least one message", param="$.messages")
    for index, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ("user", "assistant"):
            told = f"a message of {str(role)[:80]!r} is not read: the prompt is the one that the model was trained with"
            raise HttpError(400, told, code="unsupported_role", param=f"$.messages[{index}]")
    path = f"$.messages[{len(messages) - 1}]"
    if messages[-1]["role"] != "user":
        raise HttpError(400, f"the last message is to be the user's; {_SHAPE}", param=path)
    return f"{path}.content", messages[-1].get("content")


def _parts(content: Any, path: str) -> tuple[tuple[str, str], tuple[str, str] | None]:
    """(path, text) of the one text part, and (path, data URL) of the one picture, if there is one."""
    texts: list[tuple[str, str]] = []
    pictures: list[tuple[str, str]] = []
    for index, part in enumerate(content if isinstance(content, list) else ()):
        match part:
            case {"type": "text", "text": str(text)}:
                texts.append((f"{path}[{index}].text", text))
            case {"type": "image_url", "image_url": {"url": str(url)}}:
                pictures.append((f"{path}[{index}].image_url.url", url))
            case _:
                told = "a part is a text, or an image_url with a data URL"
                raise HttpError(400, told, code="unsupported_part", param=f"{path}[{index}]")
    if len(texts) != 1:
        raise HttpError(400, f"{len(texts)} texts, where one is to be the question; {_SHAPE}", param=path)
    if len(pictures) > 1:
        raise HttpError(400, f"{len(pictures)} pictures, and a state has one", param=pictures[1][0])
    if pictures and not pictures[0][1][:11].lower().startswith("data:image/"):
        told = "the picture is to be a base64 data URL of an image; nothing is fetched from anywhere"
        raise HttpError(400, told, code="no_data_url", param=pictures[0][0])
    return texts[0], pictures[0] if pictures else None
