"""A Hub as this project talks to it: one endpoint with its own token, bounded retries, errors that say what to do."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ..schemas.errors import ArmError, UsageError
from ..schemas.ids import sha256_hex
from ..schemas.manifest import is_safe_path

T = TypeVar("T")

OFFICIAL = "https://huggingface.co"
WAITS_S = (0.5, 1.0, 2.0, 4.0, 8.0)  # between tries, when the server names no time
_LONGEST_WAIT_S = 300  # of a Retry-After; the Hub's window for its rates
_TRANSIENT = (408, 429, 500, 502, 503, 504)
_AGAIN = "run the same command again; nothing is sent twice"
_SHA = re.compile(r"[0-9a-f]{40}", re.ASCII)
_REPO_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)


@dataclass(frozen=True)
class RemoteFile:
    """A file of a revision. ``sha256`` is that of its bytes when it is stored beside git, else None."""

    path: str
    size: int
    blob_id: str  # git's id of the blob: of the bytes themselves unless they are stored beside git
    sha256: str | None


@dataclass(frozen=True)
class Refs:
    """Branch ``main`` and the tags of a repository, as commit shas."""

    head: str
    tags: dict[str, str]


class Hub:
    """Repositories of one type at one endpoint.

    ``endpoint`` is `HF_ENDPOINT` or the official Hub; ``token`` is `HF_TOKEN`. The token that `hf auth login` saved
    belongs to the official Hub and is sent to no other.
    """

    def __init__(
        self, endpoint: str | None = None, token: str | None = None, *, repo_type: str = "dataset",
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:  # fmt: skip
        # Before the client is imported: it reads the same variables then, and says less about what is wrong with them.
        self.endpoint = _endpoint(endpoint or os.environ.get("HF_ENDPOINT") or OFFICIAL)
        self.token = _token(token or os.environ.get("HF_TOKEN") or "")
        if self.token is None and self.endpoint == OFFICIAL:
            self.token = _saved_token()
        from huggingface_hub import HfApi

        self.repo_type = repo_type
        self.api = HfApi(endpoint=self.endpoint, token=self.token or False)
        self._say = progress

    def of(self, repo_type: str) -> Hub:
        """The same Hub with its repositories of another type: dataset or model."""
        if repo_type == self.repo_type:
            return self
        return Hub(self.endpoint, self.token, repo_type=repo_type, progress=self._say)

    def url(self, repo: str) -> str:
        """The page of a repository."""
        prefix = "" if self.repo_type == "model" else f"{self.repo_type}s/"
        return f"{self.endpoint}/{prefix}{repo}"

    def refs(self, repo: str) -> Refs | None:
        """Head and tags; None when there is no such repository, or none that this token may see."""
        from huggingface_hub.errors import RepositoryNotFoundError

        try:
            found = self.call("reading refs", lambda: self.api.list_repo_refs(repo, repo_type=self.repo_type))
        except ArmError as error:
            if isinstance(error.__cause__, RepositoryNotFoundError):
                return None
            raise
        heads = {branch.name: branch.target_commit for branch in found.branches}
        if "main" not in heads:
            raise ArmError("has no branch main", where=self.url(repo))
        return Refs(checked_sha(heads["main"]), {tag.name: checked_sha(tag.target_commit) for tag in found.tags})

    def resolve(self, repo: str, revision: str) -> str:
        """The commit sha of a tag, branch or sha. Raises ArmError naming what exists."""
        from huggingface_hub.errors import RevisionNotFoundError

        try:
            info = self.call(
                f"finding {repo}", lambda: self.api.repo_info(repo, repo_type=self.repo_type, revision=revision)
            )
        except ArmError as error:
            if not isinstance(error.__cause__, RevisionNotFoundError):
                raise
            refs = self.refs(repo)
            tags = sorted(refs.tags, reverse=True) if refs else []
            known = ", ".join(tags[:10]) + (f" and {len(tags) - 10} more" if tags[10:] else "") if tags else "none"
            raise ArmError(f"has no revision {revision!r}; its tags: {known}", where=self.url(repo)) from error
        return checked_sha(info.sha)

    def is_private(self, repo: str) -> bool:
        """Whether only those with a right to it see a repository."""
        info = self.call("asking who may see it", lambda: self.api.repo_info(repo, repo_type=self.repo_type))
        return bool(info.private)

    def commits(self, repo: str, revision: str) -> list[str]:
        """The shas of a revision's history, newest first."""
        log = self.call(
            "reading commits", lambda: self.api.list_repo_commits(repo, repo_type=self.repo_type, revision=revision)
        )
        return [checked_sha(entry.commit_id) for entry in log]

    def files(self, repo: str, commit: str) -> dict[str, RemoteFile]:
        """Every file of a commit by path. Paths are data: `fetch` refuses those that could not be written safely."""
        from huggingface_hub.hf_api import RepoFile

        def listed() -> list[Any]:
            tree = self.api.list_repo_tree(repo, repo_type=self.repo_type, revision=commit, recursive=True)
            return [entry for entry in tree if isinstance(entry, RepoFile)]

        return {
            entry.path: RemoteFile(entry.path, entry.size, entry.blob_id, entry.lfs.sha256 if entry.lfs else None)
            for entry in self.call("listing files", listed)
        }

    def fetch(self, repo: str, commit: str, path: str, folder: Path) -> Path:
        """Download one file into ``folder`` and return where it lies. Raises ArmError for an unsafe path."""
        if not is_safe_path(path):
            raise ArmError(f"{path!r} is no path that every system can hold below a folder", where=self.url(repo))
        return Path(
            self.call(
                f"downloading {path}",
                # Not from the person's cache, in which a file may have been damaged: what the Hub has is asked for.
                lambda: self.api.hf_hub_download(
                    repo,
                    path,
                    repo_type=self.repo_type,
                    revision=commit,
                    local_dir=folder,
                    cache_dir=folder / ".cache" / "none",
                ),
            )
        )

    def read(self, repo: str, file: RemoteFile, commit: str, limit: int = 64 * 2**20) -> bytes:
        """The bytes of a small file, checked against the listing. Raises ArmError above ``limit`` bytes."""
        if file.size > limit:
            raise ArmError(f"{file.path} has {file.size:,} bytes, more than {limit:,}", where=self.url(repo))
        with tempfile.TemporaryDirectory(prefix="arm-read-") as folder:
            path = self.fetch(repo, commit, file.path, Path(folder))
            data = path.read_bytes() if path.stat().st_size == file.size else b""
        right = sha256_hex(data) == file.sha256 if file.sha256 else git_blob_id(data) == file.blob_id
        if not right or len(data) != file.size:
            raise ArmError(f"{file.path} arrived with other bytes than listed", where=self.url(repo))
        return data

    def call(self, what: str, function: Callable[[], T]) -> T:
        """Run ``function``, again after a failure that may pass: at most five times, or when the server says.

        Raises ArmError, whose cause is the client's own error.
        """
        for wait in (*WAITS_S, None):
            try:
                return function()
            except Exception as raised:
                error = _behind(raised)
                pause = transient(error)
                if pause is None or wait is None:
                    raise self.explained(what, error) from error
                self.pause(what, pause or wait, error)
        raise AssertionError("the last try returns or raises")

    def pause(self, what: str, seconds: float, error: Exception) -> None:
        """Wait before another try, and say so. Raises ArmError when the server asks for longer than a window."""
        if seconds > _LONGEST_WAIT_S:
            raise ArmError(
                f"{what}: the Hub asks to wait {seconds:.0f} s", where=self.endpoint,
                next_command="run the same command again after that time; nothing is sent twice",
            ) from error  # fmt: skip
        self._say(f"{what}: {reason(error)}; trying again in {seconds:g} s")
        time.sleep(seconds)

    def explained(self, what: str, error: Exception) -> Exception:
        """``error`` as an ArmError with what to do; a defect of ours stays what it is."""
        from huggingface_hub.errors import (
            GatedRepoError,
            HfHubHTTPError,
            OfflineModeIsEnabled,
            RepositoryNotFoundError,
        )

        status = status_of(error)
        if isinstance(error, ArmError):
            return error
        if isinstance(error, OfflineModeIsEnabled):
            return ArmError(f"{what}: HF_HUB_OFFLINE is set", where=self.endpoint, next_command="unset HF_HUB_OFFLINE")
        if isinstance(error, GatedRepoError) or status in (401, 403):
            message = f"{what}: the Hub refuses ({reason(error)})"
            return ArmError(message, where=self.endpoint, next_command=self._token_advice())
        if isinstance(error, RepositoryNotFoundError):
            message = f"{what}: there is no such {self.repo_type}, or this token may not see it"
            return ArmError(message, where=self.endpoint, next_command=self._token_advice())
        if isinstance(error, HfHubHTTPError):
            return ArmError(f"{what}: {reason(error)}", where=self.endpoint, next_command=_again(status))
        if transient(error) is not None or isinstance(error, (OSError, RuntimeError, ValueError)):
            advice = _AGAIN if isinstance(error, RuntimeError) else None  # of the library that talks to Xet storage
            if transient(error) is not None or isinstance(error, (ConnectionError, TimeoutError)):
                advice = "is the Hub running? (`arm hub status`, HF_ENDPOINT)"
                if self.endpoint == OFFICIAL:
                    advice = "is there a network? or export HF_ENDPOINT=... of another Hub"
            return ArmError(f"{what}: {reason(error)}", where=self.endpoint, next_command=advice)
        return error

    def no_token(self) -> ArmError:
        return ArmError("publishing needs a token", where=self.endpoint, next_command=self._token_advice())

    def _token_advice(self) -> str:
        if self.endpoint == OFFICIAL:
            return "hf auth login   # with a token that may write there; or export HF_TOKEN=..."
        return (
            f"export HF_TOKEN=...   # of {self.endpoint}, with rights there; `arm hub status` shows an embedded hub's"
        )


def _endpoint(text: str) -> str:
    """``http(s)://host[:port][/path]``. Raises UsageError; never repeats a password."""
    parts = urlsplit(text.strip())
    try:
        named = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        named = False
    if not named or parts.username is not None or parts.query or parts.fragment:
        raise UsageError(
            "HF_ENDPOINT is no address of a Hub: http://HOST:PORT or https://HOST is expected, without a password",
            next_command=f"export HF_ENDPOINT={OFFICIAL}   # or what `arm hub status` prints",
        )
    return text.strip().rstrip("/")


def _token(text: str) -> str | None:
    """A token without the blanks and line ends of the file it came from. Raises UsageError; never repeats it."""
    token = text.strip()
    if not all("!" <= character <= "~" for character in token):
        raise UsageError("HF_TOKEN holds characters that no token has", next_command="export HF_TOKEN=...")
    return token or None


def git_blob_id(data: bytes) -> str:
    """Git's id of a blob with these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def checked_repo_id(repo: str) -> str:
    """``namespace/name``. Raises ArmError for anything else."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils._validators import validate_repo_id

    if not _REPO_ID.fullmatch(repo):
        raise ArmError(f"{repo!r} is no repository: namespace/name is expected")
    try:
        validate_repo_id(repo)
    except HFValidationError as error:
        raise ArmError(f"{repo!r} is no repository: {error}") from error
    return repo


def checked_sha(value: object) -> str:
    """A full commit sha. Raises ArmError for anything else, since it names folders and revisions."""
    if not isinstance(value, str) or not _SHA.fullmatch(value):
        raise ArmError(f"the Hub gave {value!r}, where a commit's 40 hex digits are expected")
    return value


def status_of(error: Exception) -> int | None:
    """The HTTP status behind an error of the client, None when no answer came."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def transient(error: Exception) -> float | None:
    """None for what another try cannot mend, else the seconds that the server asks to wait (0: it names none).

    Python's own ConnectionError comes from the library that talks to Xet storage, after minutes of tries of its own.
    """
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]  # httpx before 2.0, httpx2 from there on

    status = status_of(error)
    if status in _TRANSIENT:
        headers = getattr(error, "response").headers  # noqa: B009 - status_of saw it
        asked = re.search(r"\bt=([0-9]+)", headers.get("ratelimit", "")) if status == 429 else None
        after = headers.get("retry-after", "")
        return float(after if re.fullmatch("[0-9]+", after) else asked[1] if asked else 0)
    if status is None and isinstance(error, httpx.TransportError):
        return 0.0
    return None


def reason(error: Exception) -> str:
    """What went wrong in one line: no URL, since addresses of storage hold keys, and no token that the Hub repeats."""
    status = status_of(error)
    if status is not None:
        said = getattr(error, "server_message", None) or ""
        sent = getattr(error, "response").request.headers.get("authorization", "")  # noqa: B009 - status_of saw it
        if token := sent.removeprefix("Bearer "):
            said = said.replace(token, "***")
        return f"HTTP {status}{f': {said}' if said else ''}"
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {without_urls(text)}" if text else type(error).__name__


def without_urls(text: str) -> str:
    return re.sub(r"https?://[^\s'\"]*", "<url>", text)


def _behind(error: Exception) -> Exception:
    """What a transfer failed of: the client says only that it failed, or that its cache has no such file either."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    cause = error.__cause__
    if isinstance(cause, Exception) and isinstance(error, (RuntimeError, LocalEntryNotFoundError)):
        return cause if status_of(cause) or transient(cause) is not None else error
    return error


def _again(status: int | None) -> str | None:
    if status == 507:
        return "make room on the disk of the hub, then run the same command again"
    return _AGAIN if status in (*_TRANSIENT, 409, 412) else None


def _saved_token() -> str | None:
    from huggingface_hub import get_token

    return get_token()
