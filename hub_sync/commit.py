"""The one commit of a release: on branch main, or as a pull request that is merged once it was read back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..schemas.errors import ArmError
from .hub import WAITS_S, Hub, checked_sha, status_of, transient
from .plan import Plan
from .release import Remote

MAIN = "main"


def on_head(
    hub: Hub, repo: str, base: str, create: Callable[[], object], find_own: Callable[[str], str | None],
    moved: Callable[[str], ArmError],
) -> str:  # fmt: skip
    """The sha of the commit that ``create`` makes on the head ``base`` of branch main, tried again where that helps.

    The answer may be lost and the commit there: the head tells. ``find_own`` looks for it among the commits from a new
    head back to the base; ``moved`` is the error when somebody else made that one. Raises ArmError.
    """
    for wait in (*WAITS_S, None):
        try:
            return checked_sha(create())
        except Exception as error:
            head = head_of(hub, repo)
            if head != base:
                if own := find_own(head):
                    return own
                raise moved(head) from error
            again(hub, wait, error)
    raise AssertionError("the last try returns or raises")


def again(hub: Hub, wait: float | None, error: Exception) -> None:
    """Wait before another try. Raises ArmError when there is none left, or when none can help."""
    pause = transient(error)
    if pause is None and status_of(error) in (409, 412):
        pause = 0.0  # another commit is under way, or the Hub's view lags behind its own head
    if pause is None or wait is None:
        raise hub.explained("committing", error) from error
    hub.pause("committing", pause or wait, error)


def head_of(hub: Hub, repo: str) -> str:
    """The sha of branch main. Raises ArmError when the repository is gone."""
    refs = hub.refs(repo)
    if refs is None:
        raise ArmError("the repository is gone", where=hub.url(repo))
    return refs.head


class Upload:
    """The one commit of a plan."""

    def __init__(self, planned: Plan, hub: Hub, base: str, progress: Callable[[str, int, int], None]) -> None:
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        self._plan, self._hub, self._base, self._progress = planned, hub, base, progress
        self._title = f"{planned.release.name} {planned.release.version}"
        self._operations: list[CommitOperationAdd | CommitOperationDelete] = []
        for operation in planned.operations:
            if operation.action == "delete":
                self._operations.append(CommitOperationDelete(operation.path))
                continue
            content = planned.release.files[operation.path]
            assert content.source is not None
            source = content.source if isinstance(content.source, bytes) else str(content.source)
            add = CommitOperationAdd(operation.path, source)
            if add.upload_info.sha256.hex() != content.sha256:
                raise ArmError(
                    "changed since it was checked; nothing was published",
                    where=str(planned.folder / operation.path), next_command="arm build --force",
                )  # fmt: skip
            self._operations.append(add)

    def committed(self) -> str:
        """The sha of the commit on branch main."""
        self._send_files(create_pr=False)
        return on_head(
            self._hub,
            self._plan.repo,
            self._base,
            lambda: self._create(create_pr=False).oid,
            self._find_own,
            self._moved,
        )

    def staged(self, read_back: Callable[[str], object]) -> str:
        """The sha on branch main after the pull request with the release was merged.

        ``read_back`` looks at the commit of the pull request first, and raises when it does not hold what it should.
        """
        number = self._open_pull_request() or self._new_pull_request()
        commit = self._hub.resolve(self._plan.repo, f"refs/pr/{number}")
        read_back(commit)
        api, kind = self._hub.api, self._hub.repo_type
        if (head := self._head()) != self._base:
            raise self._moved(head)
        if self._hub.resolve(self._plan.repo, f"refs/pr/{number}") != commit:
            raise ArmError(
                f"pull request {number} changed while it was read back; it was not merged", where=self._plan.url,
                next_command=f"look at it, close it, then arm push --stage {self._plan.folder}",
            )  # fmt: skip
        try:
            self._hub.call(
                f"merging pull request {number}",
                lambda: api.merge_pull_request(self._plan.repo, discussion_num=number, repo_type=kind),
            )
        except Exception as error:  # merged although the answer says otherwise?
            head = self._head()
            if own := self._find_own(head):
                return own
            if head != self._base:
                raise self._moved(head) from error
            raise self._hub.explained(f"merging pull request {number}", error) from error
        own = self._find_own(self._head())
        if own is None:
            raise ArmError(
                f"the merge of pull request {number} gave other files than were checked: branch main has them now, at "
                f"{self._head()}; no tag was set",
                where=self._plan.url,
                next_command=f"look at that commit, then arm push {self._plan.folder}   # plans anew on top of it",
            )
        return own

    def _send_files(self, *, create_pr: bool) -> None:
        """Upload one file after another, so that memory holds one; small ones travel with the commit."""
        from huggingface_hub import CommitOperationAdd

        adds = [op for op in self._operations if isinstance(op, CommitOperationAdd)]
        total, done = sum(op.upload_info.size for op in adds), 0
        for op in adds:
            self._hub.call(
                f"uploading {op.path_in_repo}",
                lambda op=op: self._hub.api.preupload_lfs_files(  # type: ignore[misc]
                    self._plan.repo, [op], repo_type=self._hub.repo_type, revision=MAIN, create_pr=create_pr,
                    free_memory=False,
                ),
            )  # fmt: skip
            if getattr(op, "_should_ignore", False):
                raise ArmError(
                    f"the repository's .gitignore leaves out {op.path_in_repo}", where=self._plan.url,
                    next_command="change .gitignore there, then push again",
                )  # fmt: skip
            done += op.upload_info.size
            self._progress("uploading", done, total)

    def _create(self, *, create_pr: bool) -> Any:
        identity = self._plan.release.manifest["identity_sha256"]
        return self._hub.api.create_commit(
            self._plan.repo, self._operations, commit_message=self._title,
            commit_description=f"identity {identity}", repo_type=self._hub.repo_type, revision=MAIN,
            parent_commit=self._base, create_pr=create_pr,
        )  # fmt: skip

    def _head(self) -> str:
        return head_of(self._hub, self._plan.repo)

    def _find_own(self, head: str) -> str | None:
        """The newest commit since the base that holds this very release, if any."""
        for commit in self._hub.commits(self._plan.repo, head):
            if commit == self._base:
                return None
            if not self._plan.release.operations(Remote.read(self._hub, self._plan.repo, commit)):
                return commit
        return None

    def _moved(self, head: str) -> ArmError:
        return ArmError(
            f"someone else published meanwhile: the plan rests on {self._base}, the head is {head}; nothing of yours "
            "is in it",
            where=self._plan.url,
            next_command=f"arm push {self._plan.folder}   # plans anew on top of {head[:12]}",
        )

    def _open_pull_request(self) -> int | None:
        """A pull request of an earlier, killed run with just the commit that this plan would make."""
        repo, kind = self._plan.repo, self._hub.repo_type
        found = self._hub.call(
            "reading pull requests",
            lambda: list(
                self._hub.api.get_repo_discussions(
                    repo, repo_type=kind, discussion_type="pull_request", discussion_status="open"
                )
            ),
        )
        mine = [entry for entry in found if entry.title == self._title]
        me = self._hub.call("asking who this is", self._hub.api.whoami)["name"] if mine else None
        for entry in mine:  # another author could push to it while it is read back
            if entry.author == me and self._is_ours(f"refs/pr/{entry.num}"):
                return int(entry.num)
        return None

    def _is_ours(self, ref: str) -> bool:
        """Does ``ref`` add to the base what the plan does, and nothing else?"""
        repo = self._plan.repo
        commit = self._hub.resolve(repo, ref)
        if self._base not in self._hub.commits(repo, commit):
            return False
        held, before = Remote.read(self._hub, repo, commit), self._hub.files(repo, self._base)
        touched = {operation.path for operation in self._plan.operations} | set(self._plan.release.files)
        others = {path: file for path, file in before.items() if path not in touched}
        return not self._plan.release.operations(held) and others == {
            path: file for path, file in held.files.items() if path not in self._plan.release.files
        }

    def _new_pull_request(self) -> int:
        self._send_files(create_pr=True)
        for wait in (*WAITS_S, None):
            try:
                return int(self._create(create_pr=True).pr_num)
            except Exception as error:
                if (number := self._open_pull_request()) is not None:
                    return number
                again(self._hub, wait, error)
        raise AssertionError("the last try returns or raises")
