"""Which endpoints.yaml is read. A registry that somebody sends must not decide where requests and keys go.

What is sent holds screenshots and texts of whatever files a registry names, and the key of who runs the command. So a
file that lies in the folder of the registry, and may have come with it, counts only where it leads nowhere: to servers
of this machine, without a key. All others are named by the person (``--endpoints``, ``ARM_ENDPOINTS``), or lie in the
person's own folder of settings.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from ..schemas.errors import UsageError
from ..servers.endpoints import NAME, Endpoints, Server, read_endpoints, variable_of
from ..servers.urls import is_loopback

VARIABLE = "ARM_ENDPOINTS"


def settings() -> Path:
    """The person's own endpoints.yaml, for all registries."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "action-reward-models" / NAME


@dataclass(frozen=True)
class Known:
    """The servers that may be asked. ``named``: the file that a person named for this, which is then the only one."""

    folder: Path  # of the registry
    named: Path | None = None

    @classmethod
    def of(cls, folder: Path, named: Path | None = None) -> Known:
        """``named`` or what ARM_ENDPOINTS names. Raises UsageError when that is not there."""
        said = os.environ.get(VARIABLE)
        named = named or (Path(said) if said else None)
        if named and not named.is_file():
            raise UsageError("there is no such file", where=str(named), next_command=f"write it, or unset {VARIABLE}")
        return cls(folder, named)

    def server(self, name: str) -> Server:
        """The server ``name``. Raises UsageError for one that nobody knows, and for one of a file that does not count;
        ArmError for a file that cannot be read."""
        files = [read_endpoints(self.named)] if self.named else self._unnamed()
        for file in files:
            if name in file.servers:
                return file.server(name)
        last = files[-1]
        if not self.named and variable_of(name) not in os.environ:
            found = read_endpoints(last.path).servers.get(name)
            if found is not None:
                raise _does_not_count(last.path, found)
        return last.server(name)  # of the environment, or of nobody

    def _unnamed(self) -> list[Endpoints]:
        beside = read_endpoints(self.folder / NAME)
        harmless = {name: server for name, server in beside.servers.items() if _leads_nowhere(server)}
        return [read_endpoints(settings()), Endpoints(beside.path, harmless)]


def _leads_nowhere(server: Server) -> bool:
    return server.key is None and all(is_loopback(url) for url in server.urls)


def _does_not_count(path: Path, server: Server) -> UsageError:
    away = [url for url in server.urls if not is_loopback(url)]
    leads = f"sends requests to {away[0]}" if away else ""
    key = f"the key {server.key} along" if server.key else ""
    what = " and ".join(filter(None, (leads, key))) if away else f"sends the key {server.key}"
    return UsageError(
        f"the server {server.name!r} {what}, and this file may have come with the registry: it counts when you name it",
        where=str(path),
        next_command=f"--endpoints {shlex.quote(str(path))}   # or, for all registries: mv it to {settings()}",
    )
