"""The calls of the Batch API, through the ``openai`` client: what passes is tried again, bounded; what does not is told
in the server's own words."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ....schemas.errors import ArmError
from ....servers.clients import client
from ....servers.endpoints import Server
from ....servers.words import retry_after, shortened

if TYPE_CHECKING:
    import openai

ENDED = ("completed", "failed", "expired", "cancelled")
TRIES = 4
_LONGEST_WAIT_S = 60.0
_MOST_LISTED = 10_000
_LARGEST = 10**12  # number of requests, or of seconds since 1970, that a service may mean
_PASSING = (408, 425, 429)  # 409 says that a batch has ended

T = TypeVar("T")


@dataclass(frozen=True)
class Remote:
    """A batch as the service tells it. errors: of its validation, as (1-based line of the input file, words)."""

    id: str
    status: str
    created_s: float | None
    expires_s: float | None
    completed: int | None
    failed: int | None
    input_file_id: str | None
    output_file_id: str | None
    error_file_id: str | None
    metadata: Mapping[str, str]
    errors: tuple[tuple[int | None, str], ...]

    @property
    def ended(self) -> bool:
        return self.status in ENDED


class RefusedError(ArmError):
    """A 4xx. ``status`` is its number; nothing was done."""

    def __init__(self, message: str, where: str, status: int) -> None:
        advice = "is it the right key? endpoints.yaml names its variable" if status in (401, 403) else None
        super().__init__(message, where=where, next_command=advice)
        self.status = status


class UnreachableError(ArmError):
    """No answer that says anything, however often it was tried: what was asked may have been done, or not."""


class Service:
    """One server's Batch API: its first URL. ``sleep`` waits between tries."""

    def __init__(self, server: Server, sleep: Callable[[float], object] = time.sleep) -> None:
        self.url = server.urls[0]
        self._server, self._sleep = server, sleep
        self._client: openai.OpenAI | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._client is not None:
            self._client.close()

    @property
    def client(self) -> openai.OpenAI:
        """Made when something is first asked, so that a ledger without open batches needs no server."""
        if self._client is None:
            self._client = client(self._server, self.url)
        return self._client

    def upload(self, path: Path, name: str) -> str:
        """Send an input file, as a stream; its id there."""

        def send() -> str:
            with path.open("rb") as file:
                return _id(self.client.files.create(file=(name, file, "application/jsonl"), purpose="batch"))

        return self.call(send)

    def create(self, input_file_id: str, metadata: dict[str, str]) -> Remote:
        """Tried again only when the service does not have it: a batch is paid for, whoever heard of its creation. A 429
        is not: what is enqueued stays so for hours."""

        def send() -> Remote:
            made = self.client.batches.create(
                input_file_id=input_file_id, endpoint="/v1/chat/completions", completion_window="24h", metadata=metadata
            )
            return _remote(made)

        for attempt in range(TRIES):
            try:
                return self.call(send, tries=1)
            except UnreachableError as error:
                self.pause(attempt)
                try:
                    found = self.find(input_file_id, metadata)
                except ArmError:  # nobody knows whether it was made, and made twice it would be paid twice
                    raise error from None
                if found:
                    return found
                if attempt == TRIES - 1:
                    raise
        raise AssertionError("the last try returns or raises")

    def find(self, input_file_id: str | None, metadata: Mapping[str, str]) -> Remote | None:
        """The batch of this input file or with this metadata. No clock says where to stop looking: ours may be wrong by
        months, and a batch that was overlooked would be paid twice."""
        for remote in self.listed():
            ours = all(remote.metadata.get(name) == value for name, value in metadata.items())
            if ours or (input_file_id and remote.input_file_id == input_file_id):
                return remote
        return None

    def listed(self) -> Iterator[Remote]:
        """All batches of the account. Raises RefusedError for more than can be looked through."""
        after: str | None = None
        for _ in range(_MOST_LISTED // 100):
            options: dict[str, Any] = {"after": after} if after else {}
            found, more = self.call(lambda options=options: _page(self.client.batches.list(limit=100, **options)))  # type: ignore[misc]
            yield from found
            if not found or not more or found[-1].id == after:
                return
            after = found[-1].id
        raise RefusedError(f"it is none of the first {_MOST_LISTED:,} batches of the account", self.url, 0)

    def retrieve(self, batch_id: str) -> Remote:
        return self.call(lambda: _remote(self.client.batches.retrieve(batch_id)))

    def cancel(self, batch_id: str) -> Remote:
        """One that has ended stays as it is."""
        try:
            return self.call(lambda: _remote(self.client.batches.cancel(batch_id)))
        except RefusedError:
            remote = self.retrieve(batch_id)
            if not remote.ended:
                raise
            return remote

    def delete_file(self, file_id: str) -> None:
        """Of no use any more; that it stays is no harm."""
        with suppress(ArmError):
            self.call(lambda: self.client.files.delete(file_id), tries=1)

    def call(self, function: Callable[[], T], tries: int = TRIES) -> T:
        """Raises RefusedError, or UnreachableError after the last try. A server may ask to wait: up to a minute."""
        import openai
        from httpx2 import HTTPError

        no_answer = (
            *(openai.APIConnectionError, openai.APIResponseValidationError, HTTPError),
            *(ValueError, RecursionError),  # of a body that is no JSON, or JSON without a bottom
        )
        for attempt in range(tries):
            try:
                return function()
            except openai.APIStatusError as error:
                status, words = error.status_code, shortened(f"{error.status_code}: {_words(error)}")
                asked = error.response.headers.get("retry-after")
                if status < 500 and (status not in _PASSING or (status == 429 and tries == 1)):
                    raise RefusedError(words, self.url, status) from error
            except no_answer as error:
                words, asked = shortened(f"{type(error).__name__}: {error.__cause__ or error}"), None
                status = 0
            if attempt == tries - 1:
                if status == 429:
                    raise RefusedError(words, self.url, status)
                raise UnreachableError(
                    f"no answer in {tries} tries; the last: {words}", where=self.url,
                    next_command="run this again when the server answers; what came is kept",
                )  # fmt: skip
            self.pause(attempt, asked)
        raise AssertionError("the last try returns or raises")

    def pause(self, attempt: int, asked: str | None = None) -> None:
        """Before another try; ``attempt`` counts from 0."""
        wait_s = retry_after(asked)
        if wait_s is None:
            wait_s = 2.0**attempt * (0.5 + random.random())  # noqa: S311
        self._sleep(min(wait_s, _LONGEST_WAIT_S))


def _words(error: openai.APIStatusError) -> str:
    body = error.body
    told = body.get("error", body) if isinstance(body, Mapping) else body
    if isinstance(told, Mapping):
        parts = [told.get("code") or told.get("type"), told.get("message")]
        told = " ".join(str(part) for part in parts if part) or None
    return str(told) if told else error.message


def _page(page: Any) -> tuple[list[Remote], bool]:
    """(batches, whether there are more). A reply that lists nothing is not taken for an empty list."""
    data = getattr(page, "data", None)
    if not isinstance(data, list):
        raise ValueError("the server answered with something that is no list")
    return [_remote(item) for item in data], getattr(page, "has_more", None) is True


def _remote(batch: Any) -> Remote:
    """Of what the client made of a reply, in which anything may be missing: a page to sign in at becomes a text."""
    status = getattr(batch, "status", None)
    if not isinstance(status, str):
        raise ValueError("the server answered with something that is no batch")
    counts = getattr(batch, "request_counts", None)
    metadata = getattr(batch, "metadata", None)
    data = getattr(getattr(batch, "errors", None), "data", None)
    return Remote(
        id=_id(batch), status=shortened(status),
        created_s=_number(batch, "created_at"), expires_s=_number(batch, "expires_at"),
        completed=_count(counts, "completed"), failed=_count(counts, "failed"),
        input_file_id=_text(batch, "input_file_id"), output_file_id=_text(batch, "output_file_id"),
        error_file_id=_text(batch, "error_file_id"), metadata=metadata if isinstance(metadata, Mapping) else {},
        errors=tuple(map(_validation, data)) if isinstance(data, list) else (),
    )  # fmt: skip


def _validation(error: Any) -> tuple[int | None, str]:
    words = " ".join(text for name in ("code", "message", "param") if (text := _text(error, name)))
    return _count(error, "line"), shortened(words or "an error without words")


def _id(thing: Any) -> str:
    found = _text(thing, "id")
    if not found:
        raise ValueError("the server answered without an id")
    return found


def _text(thing: Any, name: str) -> str | None:
    """Without half surrogate pairs, which no ledger can hold."""
    value = getattr(thing, name, None)
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) and value else None


def _count(thing: Any, name: str) -> int | None:
    value = getattr(thing, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST else None


def _number(thing: Any, name: str) -> float | None:
    value = getattr(thing, name, None)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value <= _LARGEST else None
