"""What the stand-in serves, how it answers, and what goes wrong: plain data, which goes to its process as JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from action_reward_models.tests.servers.stand_in.routes import ROUTES

KINDS = {
    "429": "any three digits: that status with an error in the API's shape",
    "hang": "no answer, ever",
    "drop": "the connection ends without an answer",
    "truncate": "the whole body is announced, half of it comes, the connection ends",
    "cut": "a body that ends cleanly, and lacks its second half",
    "slow": "the body comes in ten pieces over `seconds`",
    "html": "200 with a page instead of JSON",
    "redirect": "307 to `location`",
    "no_choices": "a completion with an empty list of choices",
    "wrong_n": "a completion with one choice more than asked for",
    "no_usage": "a completion that counts no tokens",
    "other_model": "a completion by a model nobody asked for",
}
# chat: the model's own answers, by rate (see replies.py).
REPLIES = (
    "string", "think", "think_draft", "fenced", "prose", "salvaged",  # a selection that is there
    "ambiguous", "out_of_range", "unparsed", "word", "truncated",  # and those that are not
    "length", "empty", "null", "refusal", "content_filter",  # also for actions
)  # fmt: skip
# ends of a batch: no_output has all rows in the error file; no_files is completed and has neither file.
ENDS = ("completed", "expired", "cancelled", "failed", "no_output", "no_files")
# rows of a batch; three digits: that status, in the error file.
ROWS = ("drop", "repeat", "repeat_other", "both", "unknown", "expired", "garbage", "no_choices")


def share(*parts: object) -> float:
    """A number in 0..1 that only depends on ``parts``."""
    digest = hashlib.blake2b("\0".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64


def drawn(rates: Mapping[str, float], *parts: object) -> str | None:
    """One of the names in ``rates``, each as often as its rate says; None for the rest."""
    left = share(*parts) if rates else 1.0
    for name, rate in rates.items():
        if left < rate:
            return name
        left -= rate
    return None


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong with a request.

    kind: a key of KINDS, or three digits. on: a route of routes.py, as chat, content, batches (create one), batch (look
    at one).
    Which requests it meets, all of them to be met: ``rate`` of all pairs of body and attempt, by hash; ``attempts``:
    the first so many with one body; ``numbers``: the n-th requests of the route, from 1; ``contains``: a text in the
    body. after: the server does what it is asked, and only its answer is replaced.
    """

    kind: str
    on: str = "chat"
    rate: float = 1.0
    attempts: int | None = None
    numbers: tuple[int, ...] = ()
    contains: str = ""
    after: bool = False
    message: str = "this went wrong by script"
    code: str | None = None
    retry_after: float | None = None  # seconds
    retry_date: bool = False  # Retry-After as an HTTP date
    seconds: float = 1.0  # of slow
    location: str = ""  # of redirect

    def __post_init__(self) -> None:
        if self.kind not in KINDS and not self.kind.isdecimal():
            raise ValueError(f"{self.kind!r} is no fault; there are {', '.join(KINDS)}")
        if self.on not in ROUTES:
            raise ValueError(f"{self.on!r} is no route; there are {', '.join(sorted(ROUTES))}")

    def meets(self, index: int, seed: int, key: str, body: bytes, attempt: int, number: int) -> bool:
        return (
            (not self.numbers or number in self.numbers)
            and (self.attempts is None or attempt <= self.attempts)
            and (not self.contains or self.contains.encode() in body)
            and (self.rate >= 1 or share(seed, index, self.kind, key, attempt) < self.rate)
        )


@dataclass(frozen=True)
class BatchScript:
    """How batches go.

    polls: how many looks at a batch see it validating, in_progress, finalizing; the next sees its end.
    ends: of the first, second, ... batch made, the last for all further ones. done: the share of rows that an expired
    or cancelled batch has finished. rows: kind -> rate, by hash of custom id and how often it has been asked.
    """

    polls: tuple[int, int, int] = (0, 1, 0)
    ends: tuple[str, ...] = ("completed",)
    done: float = 0.5
    rows: Mapping[str, float] = field(default_factory=dict)
    shuffle: bool = True
    blank_lines: bool = False
    final_newline: bool = True
    max_requests: int = 50_000
    max_bytes: int = 200_000_000
    enqueued_tokens: int | None = None  # of batches that are under way; more is refused with 429

    def __post_init__(self) -> None:
        if wrong := [k for k in self.rows if k not in ROWS and not k.isdecimal()] + [
            e for e in self.ends if e not in ENDS
        ]:
            raise ValueError(f"unknown: {wrong}; there are {', '.join((*ROWS, *ENDS))}")


@dataclass(frozen=True)
class Script:
    """Everything the stand-in does; changeable while it runs.

    reply: action, selection or auto (a selection where the messages speak of one). replies: kind -> rate of unusual
    replies, by hash of the body and the number of the choice, so that equal bodies have equal replies.
    owned_by: vllm ignores fields it does not know and refuses n > 1 at temperature 0; openai refuses unknown fields.
    refuses: fields of the body that the model does not take. reasoning: the field in which thoughts come apart.
    """

    latency_s: float = 0.0
    jitter_s: float = 0.0  # up to so much more, by hash
    seed: int = 0
    models: tuple[str, ...] = ("stand-in",)
    owned_by: str = "vllm"
    version: str | None = "0.32.0"  # None: there is no /version
    key: str | None = None  # the only one that is taken
    reply: str = "auto"
    replies: Mapping[str, float] = field(default_factory=dict)
    reasoning: str | None = None
    refuses: tuple[str, ...] = ()
    image_tokens: int = 500
    context: int | None = None  # tokens of prompt and reply
    faults: tuple[Fault, ...] = ()
    batch: BatchScript = BatchScript()

    def __post_init__(self) -> None:
        if unknown := set(self.replies) - set(REPLIES):
            raise ValueError(f"no replies: {', '.join(unknown)}; there are {', '.join(REPLIES)}")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        faults = tuple(Fault(**{**fault, "numbers": tuple(fault["numbers"])}) for fault in data["faults"])
        batch = data["batch"]
        batch = BatchScript(**{**batch, "polls": tuple(batch["polls"]), "ends": tuple(batch["ends"])})
        lists = {name: tuple(data[name]) for name in ("models", "refuses")}
        return cls(**{**data, **lists, "faults": faults, "batch": batch})
