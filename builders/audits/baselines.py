"""What a picker that learned nothing gets right: the figures that a model has to beat.

Every baseline but `uniform` picks one candidate; of several that tie, the one that was sampled first. `uniform` is what
picking by lot is expected to get right.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from ...schemas.actions import Parsed
from .counts import Counts, Json, part, share

PICKERS = ("first", "most_common", "word_overlap", "longest", "shortest")
HEADROOM_NO, HEADROOM_GO = Fraction(1, 10), Fraction(1, 4)
# Every ASCII character that is no letter or digit parts words, but NUL parts texts; all beyond ASCII counts as letters.
_PARTS = bytes(b if b >= 128 or b == 0 or chr(b).isalnum() else 32 for b in range(256))


def outcomes(
    task: str | None, parsed: Sequence[Parsed], kinds: str, shown: Sequence[int] | None, *, thoughts: bool
) -> tuple[str, str]:
    """What the baselines get right of one label: among all candidates as they were sampled, and among those ``shown``.

    ``kinds`` are the `equivalents` of its pick. ``shown`` are candidates in sampled order, None for all of them, and
    ``thoughts`` says whether their thoughts are shown, too. An outcome is "same near size kinds": how many candidates
    have the pick's action, how many are near it, out of how many, and the kind of what each of PICKERS picks.
    """
    keys = [p.key for p in parsed]
    common = [keys.count(key) for key in keys]
    overlap, size = _measured([f"{p.thought} {p.action}" for p in parsed], task or "")
    everything = range(len(parsed))
    sampled = _outcome(kinds, everything, common, overlap, size)
    if shown is None and thoughts:
        return sampled, sampled
    if not thoughts:
        overlap, size = _measured([p.action for p in parsed], task or "")
    return sampled, _outcome(kinds, everything if shown is None else shown, common, overlap, size)


def _measured(texts: Sequence[str], task: str) -> tuple[list[float], list[int]]:
    """Of each text how many of the task's words it has, of all words of both, so that none wins by being long; and its
    length."""
    asked = words(task)
    overlap = []
    parts = _plain("\0".join(texts)).split(b"\0")
    if len(parts) != len(texts):  # one of them holds a NUL
        parts = [_plain(text.replace("\0", " ")) for text in texts]
    for found in map(bytes.split, parts):
        both = len(asked.intersection(found))
        overlap.append(both / (len(found) + len(asked) - both) if both else 0.0)
    return overlap, list(map(len, texts))


def _outcome(
    kinds: str, shown: Sequence[int], common: Sequence[int], overlap: Sequence[float], size: Sequence[int]
) -> str:
    picks = (  # of several that tie, max and min give the first
        shown[0],
        max(shown, key=common.__getitem__),
        max(shown, key=overlap.__getitem__),
        max(shown, key=size.__getitem__),
        min(shown, key=size.__getitem__),
    )
    seen = kinds if len(shown) == len(kinds) else "".join([kinds[i] for i in shown])
    return f"{seen.count('s')} {seen.count('n')} {len(shown)} {''.join([kinds[i] for i in picks])}"


def report(counts: Counts) -> Json:
    splits = sorted({path[0] for path in part(counts, "baselines", "selection_sft")})
    rows = {split: _shares(part(counts, "baselines", "selection_sft", split)) for split in splits}
    return {"labels": _shares(part(counts, "baselines", "labels")), "selection_sft": rows}


def headroom(counts: Counts) -> Json:
    """The share of usable sets whose pick is not the action that most candidates have: what is left to be learned."""
    labels = part(counts, "baselines", "labels")
    n, place = labels.total(), PICKERS.index("most_common")
    differs = sum(count for (outcome,), count in labels.items() if outcome.split()[3][place] != "s")
    least = Fraction(differs, n) if n else Fraction(0)
    verdict = "no" if least < HEADROOM_NO else "go" if least > HEADROOM_GO else "unsure"
    return {"sets": n, "differs": differs, "share": share(differs, n), "verdict": verdict if n else None}


@lru_cache(64)  # a task is asked for again by each of its sets
def words(text: str) -> frozenset[bytes]:
    """Distinct words, without case."""
    return frozenset(_plain(text.replace("\0", " ")).split())


def _plain(text: str) -> bytes:
    return text.casefold().encode("utf-8", "surrogatepass").translate(_PARTS)


def _shares(found: Counts) -> Json:
    """Of outcomes, the share that each baseline gets right."""
    exact, equivalent = (dict.fromkeys(("uniform", *PICKERS), Fraction(0)) for _ in range(2))
    for (outcome,), count in found.items():
        same, near, size, kinds = outcome.split()
        exact["uniform"] += Fraction(int(same), int(size)) * count
        equivalent["uniform"] += Fraction(int(same) + int(near), int(size)) * count
        for name, kind in zip(PICKERS, kinds, strict=True):
            exact[name] += count if kind == "s" else 0
            equivalent[name] += count if kind != "o" else 0
    n = found.total()
    shares = {name: {"exact": share(exact[name], n), "equivalent": share(equivalent[name], n)} for name in exact}
    return {"n": n, **(shares if n else dict.fromkeys(shares))}
