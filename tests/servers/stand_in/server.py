"""The process of the stand-in: routes, faults, counts; it is spoken to over its standard input and output.

Each command is a line of JSON, each reply eight bytes of length and then JSON. The process ends with its input, or with
the process that started it.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
import traceback
from collections import Counter, deque
from email.utils import formatdate
from time import time
from typing import Any

import orjson
from action_reward_models.tests.servers.stand_in import chat
from action_reward_models.tests.servers.stand_in.batches import Batches
from action_reward_models.tests.servers.stand_in.chat import RefusedError
from action_reward_models.tests.servers.stand_in.routes import route_of
from action_reward_models.tests.servers.stand_in.script import Fault, Script, share
from action_reward_models.tests.servers.stand_in.wire import Answer, Asked, Connection

_KEPT_BYTES = 1 << 28  # of bodies in memory


class StandInServer:
    def __init__(self, script: Script, keep: int) -> None:
        self.script = script
        self.batches = Batches()
        self._counts: Counter[str] = Counter()
        self._attempts: Counter[bytes] = Counter()
        self._received: deque[tuple[Asked, str]] = deque(maxlen=keep)
        self._kept_bytes = 0
        self._in_flight = 0
        self._most = 0
        self.connections: set[Connection] = set()

    async def handle(self, asked: Asked) -> Answer:
        route, id_ = route_of(asked.method, asked.path)
        sha256 = hashlib.sha256(asked.body)
        self._keep(asked, sha256.hexdigest())
        self._counts[route] += 1
        of = b"%s %s %s" % (route.encode(), id_.encode(), sha256.digest())
        self._attempts[of] += 1
        attempt = self._attempts[of]
        number = self._counts[route]
        if attempt == 1:
            self._counts[f"distinct:{route}"] += 1
        self._in_flight += 1
        self._most = max(self._most, self._in_flight)
        try:
            key = f"{route} {id_} {sha256.hexdigest()}"
            answer = await self._answer(route, id_, asked, key, attempt, number)
        except Exception:
            self._counts["errors"] += 1
            traceback.print_exc()
            answer = _error(500, "the stand-in itself is broken")
        finally:
            self._in_flight -= 1
        self._counts[f"status:{answer.status}"] += 1
        return answer

    def _keep(self, asked: Asked, sha256: str) -> None:
        if len(self._received) == self._received.maxlen:
            self._kept_bytes -= len(self._received.popleft()[0].body) if self._received else 0
        if self._received.maxlen:
            self._received.append((asked, sha256))
            self._kept_bytes += len(asked.body)
        while self._kept_bytes > _KEPT_BYTES:
            self._kept_bytes -= len(self._received.popleft()[0].body)

    async def _answer(self, route: str, id_: str, asked: Asked, key: str, attempt: int, number: int) -> Answer:
        script = self.script
        if route == "chat" and (script.latency_s or script.jitter_s):
            await asyncio.sleep(script.latency_s + script.jitter_s * share("latency", key, attempt))
        fault = self._fault(route, key, asked, attempt, number)
        if fault and not fault.after:
            if fault.kind == "hang":
                await asyncio.Event().wait()
            if early := _instead(fault):
                return early
        try:
            answer = self._done(route, id_, asked)
        except RefusedError as refused:
            answer = Answer(refused.status, orjson.dumps(refused.body))
        if fault and fault.kind == "hang":
            await asyncio.Event().wait()
        return _spoilt(fault, answer) if fault else answer

    def _fault(self, route: str, key: str, asked: Asked, attempt: int, number: int) -> Fault | None:
        for index, fault in enumerate(self.script.faults):
            if fault.on == route and fault.meets(index, self.script.seed, key, asked.body, attempt, number):
                self._counts[f"fault:{fault.kind}"] += 1
                return fault
        return None

    def _done(self, route: str, id_: str, asked: Asked) -> Answer:
        script = self.script
        if route == "version" and script.version is not None:
            return Answer(body=orjson.dumps({"version": script.version}))
        if route in {"version", "unknown"}:
            raise RefusedError(404, "Not Found")
        if script.key is not None and asked.headers.get("authorization") != f"Bearer {script.key}":
            raise RefusedError(401, "Incorrect API key provided.", "invalid_api_key")
        if route == "content":
            return Answer(body=self.batches.content(id_), headers={"content-type": "application/octet-stream"})
        return Answer(body=orjson.dumps(self._said(route, id_, asked)))

    def _said(self, route: str, id_: str, asked: Asked) -> Any:
        script = self.script
        match route:
            case "models":
                models = [
                    {"id": m, "object": "model", "created": 0, "owned_by": script.owned_by} for m in script.models
                ]
                return {"object": "list", "data": models}
            case "chat":
                return chat.complete(_json(asked.body), script)
            case "files":
                return self.batches.upload(asked)
            case "files_list":
                return self.batches.files_list(asked.query)
            case "file":
                return self.batches.file(id_)
            case "delete":
                return self.batches.delete(id_)
            case "batches":
                return self.batches.create(_json(asked.body), script)
            case "batches_list":
                return self.batches.listed(asked.query)
            case "batch":
                return self.batches.look(id_, script)
            case _:
                return self.batches.cancel(id_)

    def command(self, command: dict[str, Any]) -> Any:
        match command["do"]:
            case "change":
                self.script = Script.from_json(command["script"])
                return None
            case "received":
                return [_told(asked, sha256) for asked, sha256 in self._received]
            case "counts":
                return {**self._counts, "in_flight": self._in_flight, "most_in_flight": self._most}
            case "reset":
                self._counts.clear()
                self._attempts.clear()
                self._received.clear()
                self._kept_bytes, self._most = 0, self._in_flight
                return None
            case "file":
                return self.batches.content(command["id"]).decode()
            case "batches":
                return self.batches.all()
            case "disconnect":
                for connection in list(self.connections):
                    connection.abort()
                return None
        raise ValueError(command)


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RefusedError(400, f"the body is no JSON: {error}") from error


def _told(asked: Asked, sha256: str) -> dict[str, Any]:
    try:
        body = orjson.loads(asked.body) if asked.body else None
    except orjson.JSONDecodeError:
        body = None
    return {"method": asked.method, "path": asked.path, "headers": asked.headers, "body": body, "sha256": sha256}


def _error(status: int, message: str, code: str | None = None) -> Answer:
    return Answer(status, orjson.dumps(chat.error(message, status, code)))


def _instead(fault: Fault) -> Answer | None:
    """What comes instead of an answer, for the faults that need none."""
    if fault.kind.isdecimal():
        answer = _error(int(fault.kind), fault.message, fault.code)
        if fault.retry_after is not None:
            seconds = fault.retry_after
            value = formatdate(time() + seconds, usegmt=True) if fault.retry_date else f"{seconds:g}"
            answer.headers["retry-after"] = value
        return answer
    match fault.kind:
        case "drop":
            return Answer(0)
        case "html":
            return Answer(200, b"<html><body>Sign in</body></html>", {"content-type": "text/html"})
        case "redirect":
            return Answer(307, b"", {"location": fault.location})
    return None


def _spoilt(fault: Fault, answer: Answer) -> Answer:
    if instead := _instead(fault):
        return instead
    half = answer.body[: len(answer.body) // 2]
    match fault.kind:
        case "truncate":
            return Answer(answer.status, half, answer.headers, announced=len(answer.body))
        case "cut":
            return Answer(answer.status, half, answer.headers)
        case "slow":
            answer.seconds = fault.seconds
            return answer
    if answer.status != 200:
        return answer
    body = orjson.loads(answer.body)
    match fault.kind:
        case "no_choices":
            body["choices"] = []
        case "wrong_n":
            body["choices"].append({**body["choices"][0], "index": len(body["choices"])})
        case "no_usage":
            del body["usage"]
        case "other_model":
            body["model"] = "somebody-else"
    return Answer(200, orjson.dumps(body))


async def _main() -> None:
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader(limit=1 << 26)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin.buffer)
    first = orjson.loads(await commands.readline())
    server = StandInServer(Script.from_json(first["script"]), first["keep"])
    listening = await loop.create_server(
        lambda: Connection(server.handle, server.connections), "127.0.0.1", 0, backlog=1024
    )
    _say(listening.sockets[0].getsockname()[1])
    watch = asyncio.create_task(_orphaned(first["parent"]))
    while not watch.done() and (line := await commands.readline()):
        try:
            said: Any = {"ok": server.command(orjson.loads(line))}
        except Exception as error:
            said = {"error": repr(error)}
        _say(said)
    os._exit(0)  # requests that hang are nobody's any more


async def _orphaned(parent: int) -> None:
    """Another child of the parent may hold our input open after its end."""
    while os.getppid() == parent:
        await asyncio.sleep(1)
    os._exit(0)


def _say(data: Any) -> None:
    raw = orjson.dumps(data)
    sys.stdout.buffer.write(len(raw).to_bytes(8) + raw)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    asyncio.run(_main())
