"""A look at a server before anything is sent: is the model there, and is what serves it the same at every URL?"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import orjson

from ..schemas.errors import ArmError, UsageError, plain
from ..schemas.validate import nearest
from .caller import Caller, Place, unreachable
from .words import words

if TYPE_CHECKING:
    from httpx2 import Response

_PROBE_S = 30.0
_SHOWN = 10  # model ids in a message
_LONGEST = 100  # characters of an engine's name, which stands in the log with every answer
Engine = tuple[str | None, str | None]


async def probe(caller: Caller) -> None:
    """Set the caller's engine and version.

    Raises UsageError where the server has other models only, and ArmError for a key that is refused, URLs that serve
    other things, or none that answers. A URL that does not answer is left alone for a while.
    """
    found: dict[str, Engine] = {}
    for place in caller.places:
        engine = await _look(caller, place)
        if engine is not None:
            found[place.url] = engine
    if not found:
        raise unreachable(caller.server, caller.places)
    if len(set(found.values())) > 1:
        said = "; ".join(
            f"{url}: {engine or 'unknown'} {version or ''}".strip() for url, (engine, version) in found.items()
        )
        raise ArmError(
            f"the URLs of {caller.server.name!r} serve different things: {said}", where=caller.server.where,
            next_command="name servers of one engine and version; what they say would differ otherwise",
        )  # fmt: skip
    caller.engine, caller.engine_version = next(iter(found.values()))


async def _look(caller: Caller, place: Place) -> Engine | None:
    import openai

    server = caller.server
    try:
        models = await _get(place, "/models")
    except openai.APIStatusError as error:
        if error.status_code in (401, 403):
            advice = f"put a valid key into {server.key}" if server.key else f"write `key: NAME` below {server.name!r}"
            message = f"{place.url} refuses the key: {error.status_code}: {words(error.response.content)}"
            raise ArmError(message, where=server.where, next_command=f"{advice} in endpoints.yaml") from None
        if error.status_code == 404 and urlsplit(place.url).path in ("", "/"):
            message = f"{place.url} has no /models: {error.status_code}: {words(error.response.content)}"
            advice = f"write the whole address of the API, mostly {place.url.rstrip('/')}/v1"
            raise UsageError(message, where=server.where, next_command=advice) from None
        models = None  # it has no list, or not now: the first request will tell
    except (TimeoutError, openai.OpenAIError) as error:
        place.why = f"no connection ({type(error.__cause__ or error).__name__})"
        place.rests_until, place.refused = caller.clock.now() + _PROBE_S, 1
        return None
    engine = server.engine
    if models is not None:
        owners = _models(models)
        if owners and caller.model not in owners:
            raise _not_there(caller, place, list(owners))
        engine = engine or owners.get(caller.model)
    return engine, server.engine_version or await _version(place)


def _models(response: Response) -> dict[str, str | None]:
    """Model id -> who owns it, which for a server of one's own is the name of its engine."""
    try:
        data = orjson.loads(response.content)
        return {
            str(model["id"]): plain(model["owned_by"])[:_LONGEST] if isinstance(model.get("owned_by"), str) else None
            for model in data["data"]
        }
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}


async def _version(place: Place) -> str | None:
    """What /version of the server says, which vLLM and SGLang have beside /v1."""
    import openai

    parts = urlsplit(place.url)
    try:
        data = orjson.loads((await _get(place, f"{parts.scheme}://{parts.netloc}/version")).content)
    except (ValueError, TimeoutError, openai.OpenAIError):
        return None
    version = data.get("version") if isinstance(data, dict) else None
    return plain(version)[:_LONGEST] if isinstance(version, str) else None


async def _get(place: Place, path: str) -> Response:
    import httpx2

    async with asyncio.timeout(_PROBE_S):
        return await place.client.get(path, cast_to=httpx2.Response)


def _not_there(caller: Caller, place: Place, there: list[str]) -> UsageError:
    close = nearest(caller.model, there)
    shown = ", ".join(map(plain, there[:_SHOWN])) + (f" and {len(there) - _SHOWN} more" if len(there) > _SHOWN else "")
    hint = f"; did you mean {plain(close)!r}?" if close else ""
    return UsageError(
        f"{place.url} has no model {caller.model!r}; it has {shown}{hint}", where=caller.server.where,
        next_command="write `model:`, or --served, as the server calls it",
    )  # fmt: skip
