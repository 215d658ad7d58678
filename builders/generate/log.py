"""The log of answers: 64 append-only files that any number of processes share and no crash can spoil.

A shard belongs to the process that holds the lock on its file, which the system frees when the process ends, however it
ends. Only the holder appends, one line in one write, so that a process that is killed leaves at most the beginning of
one line at the very end; the next holder cuts it off before it appends. Anything else that is no line of a log was done
by something else, and is an error.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from ...schemas.errors import ArmError
from ...schemas.ids import sha256_hex
from ...servers.answers import OUTCOMES, Answer, Outcome

SHARDS = 64
_BLOCK = 1 << 16


def shard_of(group: str) -> int:
    """The shard (0..63) of all requests of a group, by hash: an id is never part of a path."""
    return int(sha256_hex(group)[:8], 16) % SHARDS


class Claim:
    """A shard that nobody else holds. ``answers``: key -> outcome, as ``AnswerLog.outcomes`` has it."""

    def __init__(self, path: Path, handle: int) -> None:
        self._path, self._handle, self._written = path, handle, False
        try:
            _cut_torn_tail(handle)
        except OSError as error:
            raise _unwritable(path, error) from error
        self.answers: dict[str, Outcome] = _outcomes(path)

    def append(self, answer: Answer) -> None:
        """Write one line, or nothing of it. Raises ArmError when there is no room for it."""
        self._written, line = True, memoryview(_line(answer))
        size = os.fstat(self._handle).st_size
        try:
            while line:
                line = line[os.write(self._handle, line) :]
        except OSError as error:
            os.ftruncate(self._handle, size)
            raise _unwritable(self._path, error) from error
        _add(self.answers, answer.key, answer.outcome)

    def secure(self) -> None:
        """Have on the disk what was appended."""
        try:
            if self._written:
                os.fsync(self._handle)
        except OSError as error:
            raise _unwritable(self._path, error) from error


class AnswerLog:
    """The answers below ``folder``, which is made when something is written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, shard: int) -> Path:
        return self.folder / f"shard-{shard:03}.jsonl"

    @contextmanager
    def claim(self, shard: int, *, wait: bool = False) -> Iterator[Claim | None]:
        """Hold a shard; None when somebody else does, unless told to wait for them."""
        import fcntl

        path = self.path(shard)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            # Another's registry may hold a link where the log belongs: what it leads to is not written to.
            handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            raise _unwritable(path, error) from error
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield None
                return
            except OSError as error:
                message = f"this file system gives no locks ({error.strerror}), without which processes ask twice"
                raise ArmError(message, where=str(path), next_command="move the registry to another disk") from error
            claim = Claim(path, handle)
            yield claim
            claim.secure()
        finally:
            os.close(handle)

    def append(self, group: str, answer: Answer) -> None:
        """One answer of a request of ``group``, once nobody else holds its shard."""
        self.extend(shard_of(group), [answer])

    def extend(self, shard: int, answers: Iterable[Answer]) -> None:
        """Several answers of one shard, once nobody else holds it."""
        with self.claim(shard, wait=True) as claim:
            assert claim is not None
            for answer in answers:
                claim.append(answer)

    def outcomes(self, shard: int) -> dict[str, Outcome]:
        """Key -> outcome: answered, if it ever was, or else the last one. Raises ArmError for a damaged line."""
        return _outcomes(self.path(shard))

    def shard(self, shard: int) -> dict[str, Answer]:
        """Key -> its first answer that has a reply, or else the last outcome. Raises ArmError for a damaged line."""
        found: dict[str, Answer] = {}
        for answer in _answers(self.path(shard)):
            held = found.get(answer.key)
            if held is None or held.outcome != "answered":
                found[answer.key] = answer
        return found


def _add(outcomes: dict[str, Outcome], key: str, outcome: Outcome) -> None:
    if outcomes.get(key) != "answered":
        outcomes[key] = outcome


def _outcomes(path: Path) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    for answer in _answers(path):
        _add(found, answer.key, answer.outcome)
    return found


def _answers(path: Path) -> Iterator[Answer]:
    """What a shard holds, in the order in which it came. The beginning of a line at the end is being written, or was
    when a process died; whichever it is, it is not there yet."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for number, line in enumerate(file, 1):
            try:
                yield _answer(line)
            except ValueError as error:
                if not line.endswith(b"\n"):
                    return
                message = f"this line of the log is damaged ({error})"
                advice = f"delete line {number} of {path}: what it answered is asked again"
                raise ArmError(message, where=f"{path}:{number}", next_command=advice) from error


def _answer(line: bytes) -> Answer:
    """Raises ValueError, too, for JSON that says something else."""
    data = orjson.loads(line)
    try:
        answer = Answer.from_json(data)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError("it is no answer to a request") from error
    texts = (answer.key, answer.slot, answer.detail, *(choice.text for choice in answer.choices))
    served = (answer.model, answer.engine, answer.engine_version, answer.batch_id)
    said = (text for c in answer.choices for text in (c.finish_reason, c.refusal, c.reasoning))
    sound = all(isinstance(text, str) for text in texts) and all(isinstance(x, str | None) for x in (*served, *said))
    if answer.outcome not in OUTCOMES or not sound or not isinstance(answer.usage, dict | None):
        raise ValueError("it is no answer to a request")
    return answer


def check(answer: Answer) -> None:
    """Raises ValueError for one that could not be read again."""
    if (answer.outcome == "answered") != bool(answer.choices):
        raise ValueError("it is answered without a reply, or has one and is not")
    _answer(_line(answer))


def _line(answer: Answer) -> bytes:
    data = answer.to_json()
    try:
        return orjson.dumps(data, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # half a surrogate pair, which no file of ours can hold, or an integer of more than 64 bits
        text = json.dumps(_finite(data), ensure_ascii=False)
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode() + b"\n"


def _finite(value: Any) -> Any:
    """As orjson writes what JSON has no number for."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, Mapping):
        return {str(key): _finite(part) for key, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, list | tuple) else value


def _cut_torn_tail(handle: int) -> None:
    """Cut what follows the last newline, unless it is a whole answer that lacks nothing but the newline."""
    size = os.fstat(handle).st_size
    start = _after_last_newline(handle, size)
    if start == size:
        return
    try:
        _answer(os.pread(handle, size - start, start))
    except ValueError:
        os.ftruncate(handle, start)
    else:
        os.write(handle, b"\n")


def _after_last_newline(handle: int, size: int) -> int:
    end = size
    while end:
        start = max(0, end - _BLOCK)
        found = os.pread(handle, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _unwritable(path: Path, error: OSError) -> ArmError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        message, advice = "the disk is full; every answer before this one is kept", "free space, then run it again"
    elif error.errno == errno.ELOOP:
        message, advice = "is a symbolic link, and the log is not written through one", f"rm {path}"
    else:
        message, advice = f"cannot be written: {error.strerror}", None
    return ArmError(message, where=str(path), next_command=advice)
