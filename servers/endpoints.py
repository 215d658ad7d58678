"""endpoints.yaml: where models are served, under which names of keys, at what price.

The file stays on the machine it was written on. What it declares is sent to worker processes as plain data; the value
of a key is no part of it: it is read from the environment where a client is made (``clients``).

``ARM_ENDPOINT_<NAME>`` in the environment (upper case, ``-`` as ``_``; commas between URLs) says where a server is
today, as a job of a cluster finds out when it starts. It changes addresses only. A key goes to no host that the file
does not name, so that whoever can set a variable cannot have a key sent elsewhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..schemas.errors import ArmError, Issue, UsageError
from ..schemas.validate import json_path, nearest
from ..schemas.yamlfile import YamlFile, read
from .urls import host_of, is_loopback, normal

NAME = "endpoints.yaml"
_LONGEST_KEY_NAME = 128
_SERVER = r"\$\.servers(\.[a-z0-9_]+|\['[^']*'\])"
_URLS, _KEY = re.compile(_SERVER + r"\.urls\b"), re.compile(_SERVER + r"\.key\b")


@dataclass(frozen=True)
class Price:
    """What a million tokens of one model cost, in USD.

    cached_input: of prompt tokens that the server had cached; None: like input.
    batch: factor on all of it in a batch.
    image_tokens: the most prompt tokens that one picture is counted as; None: not known, so that no bound is either.
    added_tokens: the most prompt tokens that the server adds to a request.
    """

    input: float
    output: float
    cached_input: float | None = None
    batch: float = 1.0
    image_tokens: int | None = None
    added_tokens: int = 256


@dataclass(frozen=True)
class BatchLimits:
    """Of one batch file: requests, bytes, and the prompt tokens that may be enqueued at once (None: no limit)."""

    requests: int = 50_000
    bytes: int = 200_000_000
    tokens: int | None = None


@dataclass(frozen=True)
class Server:
    """One server, or several that serve the same. It holds the name of a key, never its value.

    urls: base URLs as ``urls.normal`` writes them.
    key: the environment variable that holds the key. key_hosts: ``host:port`` to which it may be sent.
    in_flight: most requests at once, for each URL and process. timeout_s: longest wait for one reply.
    where: what declares it, for messages.
    """

    name: str
    urls: tuple[str, ...]
    key: str | None = None
    key_hosts: tuple[str, ...] = ()
    plain_http: bool = False
    in_flight: int = 64
    timeout_s: float = 600.0
    engine: str | None = None
    engine_version: str | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)
    batch: BatchLimits = BatchLimits()
    where: str | None = None

    def refusal(self, url: str) -> str | None:
        """Why the key that the server declares may not be sent to ``url``, or None."""
        if self.key is None:
            return None
        if host_of(url) not in self.key_hosts:
            return f"the key {self.key} is for {_listed(self.key_hosts)}, and {url} is another host"
        if url.startswith("http://") and not is_loopback(url) and not self.plain_http:
            return f"the key {self.key} would go to {url} as plain text, for everybody on the way to read"
        return None


@dataclass(frozen=True)
class Endpoints:
    """The servers of one file (``path``, which need not exist), by name."""

    path: Path
    servers: Mapping[str, Server]

    def server(self, name: str) -> Server:
        """The server ``name``, at the addresses of the environment where it gives them.

        Raises UsageError for a name that neither the file nor the environment knows, and ArmError where the declared
        key may not be sent to an address.
        """
        variable = variable_of(name)
        given = os.environ.get(variable, "").strip()
        known = self.servers.get(name)
        if known is None and not given:
            raise self._unknown(name, variable)
        server = known or Server(name, (), where=variable)
        if given:
            server = _moved(server, given, variable)
        for url in server.urls:
            if why := server.refusal(url):
                raise _may_not(server, url, why, variable if given else None)
        return server

    def _unknown(self, name: str, variable: str) -> UsageError:
        close = nearest(name, self.servers)
        hint = f"; did you mean {close!r}?" if close else ""
        known = f"it names {_listed(sorted(self.servers))}" if self.servers else "it names none"
        known = known if self.path.exists() else "there is no such file"
        lines = f"servers:\n  {name}:\n    urls: [http://127.0.0.1:8000/v1]"
        lines = lines if self.path.exists() else f"endpoints: 1\n{lines}"
        shown = lines.replace("\n", "\n    ")
        return UsageError(
            f"no server is called {name!r}: {known}{hint}", where=str(self.path),
            next_command=f"write into {self.path.name} where it is, or set {variable}=URL:\n    {shown}",
        )  # fmt: skip


def variable_of(name: str) -> str:
    """The environment variable that gives the addresses of the server ``name``."""
    return "ARM_ENDPOINT_" + name.upper().replace("-", "_")


def read_endpoints(path: Path) -> Endpoints:
    """Read ``path``; a file that is not there declares no servers. Raises ArmError with every problem of it."""
    if not path.exists() and not path.is_symlink():
        return Endpoints(path, {})
    try:
        file = read(path, "endpoints/1")
    except ArmError as error:
        raise ArmError.of(str(path), map(_unquoted, error.issues)) if error.issues else error from None
    reader = _Reader(file)
    servers = {name: reader.server(name, data) for name, data in file.data["servers"].items()}
    if reader.issues:
        raise ArmError.of(str(path), reader.issues)
    return Endpoints(path, servers)


class _Reader:
    """Turns validated data into servers. Addresses and names of keys are checked here and not by the schema: what a
    schema refuses it quotes, and people paste keys and passwords where they do not belong."""

    def __init__(self, file: YamlFile) -> None:
        self.file = file
        self.issues: list[Issue] = []

    def server(self, name: str, data: dict[str, Any]) -> Server:
        where = json_path(["servers", name])
        urls: list[str] = []
        for i, given in enumerate(data["urls"]):
            try:
                url = normal(given)
            except ValueError as error:
                self._issue(f"{where}.urls[{i}]", str(error))
                continue
            if url in urls:
                self._issue(f"{where}.urls[{i}]", f"stands twice: {url}")
            urls.append(url)
        key = data.get("key")
        if key is not None and not _is_variable(key):
            self._issue(
                f"{where}.key",
                "is not the name of an environment variable (capital letters, digits, _), such as OPENAI_API_KEY. If it"
                " is the key itself: put it into a variable, write that variable's name here, and take it for known",
            )
        prices = {model: Price(**price) for model, price in data.get("prices", {}).items()}
        batch = BatchLimits(**data.get("batch", {}))
        others = ("plain_http", "in_flight", "timeout_s", "engine", "engine_version")
        kept = {option: data[option] for option in others if option in data}
        place = f"{self.file.path}:{self.file.line(where)} {where}"
        hosts = tuple(dict.fromkeys(host_of(url) for url in urls)) if key else ()
        return Server(name, tuple(urls), key, hosts, prices=prices, batch=batch, where=place, **kept)

    def _issue(self, where: str, message: str) -> None:
        self.issues.append(Issue(str(self.file.path), self.file.line(where), where, message))


def _unquoted(issue: Issue) -> Issue:
    """What a schema says quotes the value, and here it may be a secret."""
    if _URLS.match(issue.path) and " empty list" not in issue.message:
        return replace(issue, message="is not as it should be: write urls: [http://HOST:PORT/v1, ...]")
    if _KEY.match(issue.path):
        return replace(issue, message="is not the name of an environment variable")
    return issue


def _is_variable(name: str) -> bool:
    """Capital letters only: a pasted key is told by its small ones, and its name would be shown in messages."""
    allowed = all(c == "_" or "0" <= c <= "9" or "A" <= c <= "Z" for c in name)
    return bool(name) and allowed and not name[0].isdigit() and len(name) <= _LONGEST_KEY_NAME


def _moved(server: Server, given: str, variable: str) -> Server:
    """``server`` at the URLs of ``given``, which is the value of ``variable``."""
    try:
        urls = tuple(dict.fromkeys(normal(url.strip()) for url in given.split(",") if url.strip()))
    except ValueError as error:
        raise UsageError(f"the environment variable {variable} names a URL that {error}", where=variable) from None
    if not urls:
        raise UsageError(f"the environment variable {variable} names no URL", where=variable)
    return replace(server, urls=urls)


def _may_not(server: Server, url: str, why: str, variable: str | None) -> ArmError:
    if host_of(url) not in server.key_hosts:
        said = f"{variable} sends the requests of {server.name!r} to a host that the file does not name: {why}"
        mend = f"add {url} to the urls of {server.name!r}, or declare a server without a key"
    else:
        said = why
        mend = f"write https://, or `plain_http: true` below {server.name!r} if the way there is yours alone"
    return ArmError(said, where=server.where, next_command=mend)


def _listed(names: tuple[str, ...] | list[str]) -> str:
    shown = ", ".join(names[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown
