"""A network namespace that holds only loopback, where every packet that would have left the machine is seen.

A socket hook sees Python; clients written in Rust (Xet, the schema validator) connect beside it, so the kernel is
asked. Any address but 127.0.0.1 leads to loopback as well: nobody answers there, and a filter on the device notes who
was looked for. The name server is one that takes every question and never answers, as behind a broken uplink: whoever
asks it waits. As a library::

    with Sealed() as sealed:
        ran = sealed.run([sys.executable, "-c", "..."], env, folder)
        assert not ran.attempts

With ``watched=False`` there is no route beside loopback at all: connecting elsewhere fails at once. As a process,
within the namespace, it reads a command per line and answers each with a line. Everything that runs there ends with it.

Names that a resolver looks up over a Unix socket (nss-resolve) leave the namespace unseen; connections to them do not.
"""

from __future__ import annotations

import ctypes
import ipaddress
import json
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

_NAME_SERVER = "198.51.100.53"  # of a range that is nobody's
_SPACES = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
_SO_ATTACH_FILTER, _ETH_P_ALL, _OUTGOING = 26, 3, 4
# Keep what does not go to 127.0.0.0/8. Instructions of the kernel's packet filter: (code, if true, if not, operand).
_FILTER = [
    (0x30, 0, 0, 0),  # the first byte: version and header length
    (0x54, 0, 0, 0xF0),
    (0x15, 0, 2, 0x40),  # IPv4? else keep
    (0x30, 0, 0, 16),  # first byte of the destination
    (0x15, 1, 0, 127),
    (0x06, 0, 0, 0xFFFF),  # keep
    (0x06, 0, 0, 0),  # drop
]


@dataclass(frozen=True)
class Ran:
    """A command that ended, or was ended at its deadline (``code`` None). ``attempts``: whom anything looked for."""

    code: int | None
    out: str
    err: str
    seconds: float
    attempts: tuple[str, ...]


@cache
def unshare() -> tuple[list[str], str]:
    """The command that makes such a namespace, and why there is none: one of the two is empty."""
    if not shutil.which("unshare") or not shutil.which("ip"):
        return [], "unshare and ip (util-linux, iproute2) are not installed"
    said = ""
    for user in ([], ["--user", "--map-root-user"]):
        command = ["unshare", *user, *_SPACES]
        tried = subprocess.run([*command, "ip", "link", "set", "lo", "up"], capture_output=True, text=True, check=False)
        if tried.returncode == 0:
            return command, ""
        said = tried.stderr.strip()
    return [], f"no network namespace may be made here: {said}"


class Sealed:
    """Runs commands in one namespace, one after the other; what they leave in the background goes on until the end.

    ``patience``: seconds that whoever asks for a name waits for the answer that never comes. (The usual is 2 x 5.)
    """

    def __init__(self, *, watched: bool = True, patience: int = 1) -> None:
        command, why = unshare()
        if not command:
            raise OSError(why)
        self._process = subprocess.Popen(
            [*command, sys.executable, "-I", __file__, "watched" if watched else "bare", str(patience)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, command: Sequence[str], env: Mapping[str, str], folder: Path, seconds: float = 120) -> Ran:
        """Run ``command`` in ``folder`` with exactly this environment, for at most so many seconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {"command": list(command), "env": dict(env), "folder": str(folder), "seconds": seconds}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        told = json.loads(self._process.stdout.readline())
        return Ran(**{**told, "attempts": tuple(told["attempts"])})

    def __enter__(self) -> Sealed:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()


def _serve(watched: bool, patience: int) -> None:
    _ip("link", "set", "lo", "up")
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as resolver, _name_server(), _listener() as listener:
        resolver.write(f"nameserver {_NAME_SERVER}\noptions attempts:1 timeout:{patience}\n")
        resolver.flush()
        subprocess.run(["mount", "--bind", resolver.name, str(Path("/etc/resolv.conf").resolve())], check=True)
        if watched:
            _ip("route", "add", "local", "0.0.0.0/0", "dev", "lo")
            _ip("-6", "route", "add", "local", "::/0", "dev", "lo")
        for line in sys.stdin:
            told = _run(json.loads(line))
            print(json.dumps({**told, "attempts": _attempts(listener)}), flush=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def _run(asked: dict[str, Any]) -> dict[str, Any]:
    begun = time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as out, tempfile.TemporaryFile("w+", errors="replace") as err:
        process = subprocess.Popen(
            asked["command"], env=asked["env"], cwd=asked["folder"], stdin=subprocess.DEVNULL, stdout=out, stderr=err
        )
        code: int | None = None
        try:
            code = process.wait(asked["seconds"])
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        seconds = time.monotonic() - begun
        out.seek(0)
        err.seek(0)
        return {"code": code, "out": out.read(), "err": err.read(), "seconds": round(seconds, 2)}


def _name_server() -> socket.socket:
    """Takes questions at every address, and answers none."""
    server = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    server.bind(("::", 53))
    return server


def _listener() -> socket.socket:
    """Gets every packet that goes to another address than one of loopback."""
    listener = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
    code = b"".join(struct.pack("HBBI", *line) for line in _FILTER)
    kept = ctypes.create_string_buffer(code)
    program = struct.pack("HP", len(_FILTER), ctypes.addressof(kept))
    listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
    listener.bind(("lo", _ETH_P_ALL))
    listener.setblocking(False)
    return listener


def _attempts(listener: socket.socket) -> list[str]:
    """Who was looked for since the last time, each once."""
    found: dict[str, None] = {}
    while True:
        try:
            packet, address = listener.recvfrom(65535)
        except BlockingIOError:
            return list(found)
        if address[2] == _OUTGOING and (said := _attempt(packet)):
            found[said] = None


def _attempt(packet: bytes) -> str | None:
    """What a packet tries, None for an answer."""
    if packet[0] >> 4 == 4:
        kind, target, rest = packet[9], ipaddress.ip_address(packet[16:20]), packet[(packet[0] & 15) * 4 :]
    else:
        kind, target, rest = packet[6], ipaddress.ip_address(packet[24:40]), packet[40:]
    if target.is_loopback:
        return None
    if kind == socket.IPPROTO_TCP:
        begins = rest[13] & 0x12 == 0x02  # SYN, and no ACK
        return f"connection to {target} port {int.from_bytes(rest[2:4], 'big')}" if begins else None
    if kind == socket.IPPROTO_UDP:
        port = int.from_bytes(rest[2:4], "big")
        return f"name {_name(rest[20:])}" if port == 53 else f"datagram to {target} port {port}"
    answers = kind in (socket.IPPROTO_ICMP, socket.IPPROTO_ICMPV6) and rest[0] not in (8, 128)  # neither is a ping
    return None if answers else f"protocol {kind} to {target}"


def _name(question: bytes) -> str:
    labels = []
    while question and question[0]:
        labels.append(question[1 : 1 + question[0]].decode("ascii", "replace"))
        question = question[1 + question[0] :]
    return ".".join(labels)


if __name__ == "__main__":
    _serve(sys.argv[1] == "watched", int(sys.argv[2]))
