"""Base URLs of servers, in one spelling, so that two of one host are told to be of one host.

What is wrong with a URL is said without quoting it: it may hold a password.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*\Z")
_PATH = re.compile(r"(/[A-Za-z0-9._~!$&'()*+,;=:%-]+)*\Z")
_LONGEST = 2048


def normal(url: str) -> str:
    """``HTTPS://Api.Example.com.:443/v1/`` -> ``https://api.example.com/v1``. The path is kept, but for a last slash.

    A host in other letters than ASCII becomes its ``xn--`` form, which is what is then asked and compared. Raises
    ValueError whose text says what is wrong and does not quote the URL.
    """
    if len(url) > _LONGEST:
        raise ValueError(f"is longer than {_LONGEST:,} characters")
    if "@" in url:
        raise ValueError("holds an @: no user name or password stands in a URL; write `key: NAME` below the server")
    if "?" in url or "#" in url:
        raise ValueError("goes on after the path, with ? or #; write the part before that")
    if not url.isprintable() or " " in url or "\\" in url:
        raise ValueError("holds a space, a backslash or a control character")
    scheme, separator, _ = url.partition("://")
    if not separator or scheme.lower() not in _PORTS:
        raise ValueError("does not begin with http:// or https://")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("has no host and port that can be read") from None
    if port == 0:
        raise ValueError("has the port 0")
    if not _PATH.match(path := parts.path.rstrip("/")) or {".", ".."} & set(path.split("/")):
        raise ValueError("has a path with characters that no path of a server needs, or with . or .. in it")
    written = _written(host)
    scheme = scheme.lower()
    return f"{scheme}://{written}{f':{port}' if port not in (None, _PORTS[scheme]) else ''}{path}"


def host_of(url: str) -> str:
    """``api.example.com:443`` of a URL that ``normal`` returned: a key is for one host and port."""
    parts = urlsplit(url)
    return f"{_written(parts.hostname or '')}:{parts.port or _PORTS[parts.scheme]}"


def is_loopback(url: str) -> bool:
    """Whether what is sent there stays on this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _written(host: str) -> str:
    if ":" in host:
        try:
            if "%" in host:  # which of the links of one machine: no name for others
                raise ValueError(host)
            return f"[{ipaddress.IPv6Address(host).compressed}]"
        except ValueError:
            raise ValueError("has no host and port that can be read") from None
    try:
        name = host.removesuffix(".").encode("idna").decode("ascii").lower()
    except UnicodeError:
        name = ""
    if not _HOST.match(name):
        raise ValueError("has no host that can be read")
    return name
