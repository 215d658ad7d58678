"""A selection ARM behind a server that speaks OpenAI's API, such as vLLM: the words of training from here, the weights
there.

with SelectionARM.at("http://127.0.0.1:8000/v1", model="arm", checkpoint="owner/name", revision="v1.0.0") as model:
    choice = model.choose({"task": "Buy milk", "screenshot": png}, ["click(3, 4)", "click(90, 8)"])

Of a checkpoint only manifest and prompt are read here. That the server shows pictures in the size of training and uses
the checkpoint's own chat template cannot be seen from here: start it as `arm serve --print-vllm` says.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, get_args

from ..prompts.render import Prompt
from ..prompts.replies import parse_selection
from ..schemas.errors import ArmError, UsageError
from ..schemas.manifest import NAME as MANIFEST
from ..servers.caller import Caller, Unmetered
from ..servers.endpoints import Server
from ..servers.probe import probe
from ..servers.requests import LimitParameter, ResponseFormat, chat, selection_form
from ..servers.requests import Request as Wanted
from ..servers.urls import host_of, normal
from . import contract as contracts
from .choice import Choice, Vote, refuse_unknown
from .choosing import Chooser, How
from .contract import Contract
from .rendering import Renderer
from .request import Request
from .votes import Asked, asked, choices

T = TypeVar("T")
_AHEAD = 2  # prompts that are made ready for each one that a server has: their pictures are held in memory


@dataclass(frozen=True)
class Sending:
    """How requests are written; what is None is not sent, and stays what the server makes of it.

    response_format: the form that the server holds replies to; reasoning ones are held back by it, so it is declared.
    limit_parameter: how the server calls the longest reply. chat_template_kwargs: None, those of the contract.
    patience_s: the longest wait for one reply, over all tries.
    """

    response_format: ResponseFormat = "none"
    limit_parameter: LimitParameter = "max_tokens"
    temperature: float | None = 0.0
    chat_template_kwargs: Mapping[str, Any] | None = None
    patience_s: float = 600.0

    def __post_init__(self) -> None:
        """Raises UsageError for a form or a name that does not exist: each request would be refused by the server."""
        refuse_unknown("response_format", self.response_format, get_args(ResponseFormat))
        refuse_unknown("limit_parameter", self.limit_parameter, get_args(LimitParameter))


class ServedARM(Chooser):
    """An ARM that ``server`` calls ``model``. All orders of all requests are asked at once, as far as the server's
    ``in_flight`` allows; what goes wrong there is a choice with the status ``error`` and the server's words.

    At first use it looks whether the model is there: raises UsageError for another name, ArmError for a key that is
    refused and for a server that nobody can reach. Close it, or use it in a ``with``. May be used by several threads.
    """

    kind = "selection_arm"

    def __init__(
        self,
        server: Server,
        model: str,
        contract: Contract,
        *,
        folder: Path | None = None,
        sending: Sending = Sending(),
    ) -> None:
        self.server, self.model, self.contract, self.sending = server, model, contract, sending
        self._folder = folder
        self._lock = threading.Lock()
        self._running: _Running | None = None

    @classmethod
    def at(
        cls, server: Server | str, *, model: str, checkpoint: Path | str | None = None, revision: str | None = None,
        prompt: Prompt | None = None, sending: Sending = Sending(),
    ) -> ServedARM:  # fmt: skip
        """The ARM at ``server``: one of endpoints.yaml, or a URL that takes no key.

        checkpoint: folder of the one that is served there, or with ``revision`` its repository. prompt: for a
        checkpoint that brings none; or without a checkpoint, and then each request says how its actions are written.
        """
        if isinstance(server, str):
            try:
                server = Server(host_of(url := normal(server)), (url,))
            except ValueError as error:
                raise UsageError(f"the URL of the server {error}") from None
        folder, contract = _contract(checkpoint, revision, prompt)
        made = cls(server, model, contract, folder=folder, sending=sending)
        return made if prompt is None else made.asked_with(prompt)

    @property
    def folder(self) -> Path | None:
        return self._folder

    def connect(self) -> None:
        """Look now, and not when it is used first, whether the model is there."""
        self._started()

    def close(self) -> None:
        """End all connections. It may be used again."""
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            running.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _pick(self, requests: Sequence[Request], how: How, renderer: Renderer) -> list[Choice]:
        prompts, settled = asked(requests, how, self.contract, renderer)
        votes: list[Vote] = []
        if prompts:
            running = self._started()
            votes = running.result(self._votes(running.caller, requests, prompts, how))
        return choices(requests, prompts, votes, settled, how)

    def _started(self) -> _Running:
        with self._lock:
            if self._running is None:
                self._running = _Running(self.server, self.model)
            return self._running

    async def _votes(
        self, caller: Caller, requests: Sequence[Request], prompts: Sequence[Asked], how: How
    ) -> list[Vote]:
        room = asyncio.Semaphore(_AHEAD * caller.capacity)

        async def vote(one: Asked) -> Vote:
            async with room:
                return await self._vote(caller, self._wanted(requests[one.place], one, how), one)

        return await asyncio.gather(*map(vote, prompts))

    async def _vote(self, caller: Caller, wanted: Wanted, one: Asked) -> Vote:
        try:
            async with asyncio.timeout(self.sending.patience_s):
                answer = (await caller.ask(wanted)).answer
        except TimeoutError:
            return one.failed("error", f"no reply within {self.sending.patience_s:g} s, over all tries")
        except ArmError as error:
            return one.failed("error", error.message)
        if answer is None or answer.outcome != "answered":
            return one.failed("error", answer.detail if answer else "it was not sent")
        said = answer.choices[0]
        return one.vote(parse_selection(said.text, len(one.order), said.finish_reason, said.refusal), said.text)

    def _wanted(self, request: Request, one: Asked, how: How) -> Wanted:
        sending, shown = self.sending, len(one.order)
        options = sending.chat_template_kwargs
        if options is None:
            options = self.contract["processor"]["template_options"]
        form = selection_form(sending.response_format, shown, reasoning=self.prompt.options.reasoning == "before")
        more = {"temperature": sending.temperature, "response_format": form, "chat_template_kwargs": options or None}
        body = {
            "model": self.model,
            "messages": chat(one.rendered.messages, one.rendered.images),
            sending.limit_parameter: how.max_new_tokens,
            **{name: value for name, value in more.items() if value is not None},
        }
        pictures = dict(zip(one.rendered.images, one.images, strict=True))
        return Wanted(f"{request.id}|{one.number}", request.state["state_id"], body, pictures)


class _Running:
    """A caller on an event loop in a thread of its own, so that it serves whoever waits in whatever thread."""

    def __init__(self, server: Server, model: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._lock, self._is_closed = threading.Lock(), False
        self._asked: set[Future[Any]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="served-arm", daemon=True)
        self._thread.start()
        try:
            self.caller = self.result(_opened(server, model))
        except BaseException:
            self._stop()
            raise

    def result(self, work: Coroutine[Any, Any, T]) -> T:
        """What ``work`` returns. Whoever is interrupted while waiting ends it. Raises ArmError when it is closed."""
        with self._lock:
            if self._is_closed:
                work.close()
                raise _was_closed()
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
            self._asked.add(future)
        future.add_done_callback(self._asked.discard)
        try:
            return future.result()
        except CancelledError as error:
            raise _was_closed() from error
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Whoever waits gets an ArmError."""
        with self._lock:  # what comes after this would wait for ever
            self._is_closed = True
            for asked in tuple(self._asked):
                asked.cancel()
            future = asyncio.run_coroutine_threadsafe(_closed(self.caller), self._loop)
        try:
            future.result()
        finally:
            self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _was_closed() -> ArmError:
    return ArmError("the connection to the model was closed while it was asked")


async def _closed(caller: Caller) -> None:
    """After those who asked were cancelled: the tasks that their connections are made of end with them, each in its own
    way, which would be left out if they were cancelled here."""
    waiting = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*waiting, return_exceptions=True)
    await caller.__aexit__(None, None, None)


async def _opened(server: Server, model: str) -> Caller:
    caller = Caller(server, model, Unmetered(), server.in_flight)
    await caller.__aenter__()
    try:
        await probe(caller)
    except BaseException:
        await caller.__aexit__(None, None, None)
        raise
    return caller


def _contract(
    checkpoint: Path | str | None, revision: str | None, prompt: Prompt | None
) -> tuple[Path | None, Contract]:
    """(Folder of what is read of a checkpoint, what it is used with)."""
    if checkpoint is not None:
        if revision is None:
            folder = Path(checkpoint)
        else:
            from .fetch import snapshot

            folder = snapshot(str(checkpoint), revision, (MANIFEST, "prompts/*.json"))
        return folder, contracts.read(folder, "selection_arm", weights=False)
    if prompt is None:
        raise UsageError(
            "neither checkpoint nor prompt is given: what would the model be asked?",
            next_command="checkpoint=FOLDER, or prompt=load_prompt_file(FILE, SHA256, PromptOptions())",
        )
    said = {"id": prompt.id, "sha256": prompt.sha256, "file": None}
    return None, {"kind": "selection_arm", "prompt": said, "processor": {"template_options": {}}}
