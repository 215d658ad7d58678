"""The one error of the server: an HTTP status, the Hub's error code and a message."""

from __future__ import annotations

from collections.abc import Mapping


class HubError(Exception):
    """Becomes a response ``{"error": message}`` with `X-Error-Code` and `X-Error-Message`.

    ``code`` is one of the Hub's (`RepoNotFound`, `RevisionNotFound`, `EntryNotFound`, `GatedRepo`) or None. Over plain
    HTTP a client tells a missing repository from other failures by it alone.
    """

    def __init__(
        self, status: int, message: str, code: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        self.status = status
        self.message = message
        self.code = code
        self.headers = dict(headers or {})
        super().__init__(message)


def repo_not_found() -> HubError:
    """A private repository looks to strangers as if it did not exist."""
    return HubError(404, "Repository not found", "RepoNotFound")


def revision_not_found(revision: str) -> HubError:
    return HubError(404, f"Invalid rev id: {revision}", "RevisionNotFound")


def entry_not_found(message: str, commit: str) -> HubError:
    """``commit`` lets a client remember that this revision has no such entry."""
    return HubError(404, message, "EntryNotFound", {"X-Repo-Commit": commit})
