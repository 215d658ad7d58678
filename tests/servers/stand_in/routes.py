"""What can be asked for, by the names that counts and faults use."""

from __future__ import annotations

_V1 = {  # (method, path below /v1; "*" stands for an id) -> name
    ("GET", "models"): "models",
    ("POST", "chat/completions"): "chat",
    ("POST", "files"): "files",
    ("GET", "files"): "files_list",
    ("GET", "files/*"): "file",
    ("DELETE", "files/*"): "delete",
    ("GET", "files/*/content"): "content",
    ("POST", "batches"): "batches",
    ("GET", "batches"): "batches_list",
    ("GET", "batches/*"): "batch",
    ("POST", "batches/*/cancel"): "cancel",
}
_UNKNOWN = "unknown"
ROUTES = frozenset((*_V1.values(), "version", _UNKNOWN))


def route_of(method: str, path: str) -> tuple[str, str]:
    """(name, id or nothing)."""
    if (method, path) == ("GET", "/version"):
        return "version", ""
    if not path.startswith("/v1/"):
        return _UNKNOWN, ""
    parts = path.removeprefix("/v1/").split("/")
    if found := _V1.get((method, "/".join(parts))):
        return found, ""
    if len(parts) < 2:
        return _UNKNOWN, ""
    return _V1.get((method, "/".join([parts[0], "*", *parts[2:]])), _UNKNOWN), parts[1]
