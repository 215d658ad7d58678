"""What a picker that learned nothing gets right: the figures that a model has to beat.

Every baseline but `uniform` picks one candidate; of several that tie, the one that was sampled first. `uniform` is what
picking by lot is expected to get right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache

from ...schemas.actions import Parsed
from .counts import Counts, Json, part, rounded, share

PICKERS = ("first", "most_common", "word_overlap", "longest", "shortest")
HEADROOM_NO, HEADROOM_GO = Fraction(1, 10), Fraction(1, 4)
# Every ASCII character that is no letter or digit parts words; all beyond ASCII counts as letters.
_PARTS = bytes(b if b >= 128 or chr(b).isalnum() else 32 for b in range(256))
Outcome = tuple[tuple[str, str], ...]  # per baseline: (exact, equivalent) as "right/of"


def outcomes(
    task: str | None, parsed: Sequence[Parsed], kinds: Sequence[str], shown: Sequence[int], *, thoughts: bool
) -> Outcome:
    """What `uniform` and then each of PICKERS gets right of one label.

    ``kinds`` are the `equivalents` of its pick, ``shown`` the candidates among which to pick, in sampled order;
    ``thoughts`` says whether their thoughts can be read, too.
    """
    texts = {i: f"{parsed[i].thought} {parsed[i].action}" if thoughts else parsed[i].action for i in shown}
    asked = words(task or "")
    read: dict[str, float] = {}
    for text in texts.values():
        if text not in read:
            read[text] = _overlap(words(text), asked)
    often = Counter(p.key for p in parsed)
    scores: Sequence[Callable[[int], float]] = (
        lambda i: -i,
        lambda i: often[parsed[i].key],
        lambda i: read[texts[i]],
        lambda i: len(texts[i]),
        lambda i: -len(texts[i]),
    )
    same, alike = sum(kinds[i] == "same" for i in shown), sum(kinds[i] != "other" for i in shown)
    found = [(f"{same}/{len(shown)}", f"{alike}/{len(shown)}")]
    for score in scores:
        picked = kinds[max(shown, key=score)]  # the first of those that tie
        found.append((f"{int(picked == 'same')}/1", f"{int(picked != 'other')}/1"))
    return tuple(found)


def add(counts: Counts, where: tuple[str, ...], outcome: Outcome) -> None:
    """Count one label, or one row, under ``where``."""
    counts["baselines", *where, "n"] += 1
    for name, (exact, equivalent) in zip(("uniform", *PICKERS), outcome, strict=True):
        counts["baselines", *where, name, "exact", exact] += 1
        counts["baselines", *where, name, "equivalent", equivalent] += 1


def report(counts: Counts) -> Json:
    labels = part(counts, "baselines", "labels")
    splits = sorted({path[0] for path in part(counts, "baselines", "selection_sft")})
    rows = {split: _shares(part(counts, "baselines", "selection_sft", split)) for split in splits}
    return {"labels": _shares(labels), "selection_sft": rows}


def headroom(counts: Counts) -> Json:
    """The share of usable sets whose pick is not the action that most candidates have: what is left to be learned."""
    labels = part(counts, "baselines", "labels")
    n = labels["n",]
    differs = n - int(_right(part(labels, "most_common", "exact")))
    least = Fraction(differs, n) if n else Fraction(0)
    verdict = "no" if least < HEADROOM_NO else "go" if least > HEADROOM_GO else "unsure"
    return {"sets": n, "differs": differs, "share": share(differs, n), "verdict": verdict if n else None}


@lru_cache(64)  # a task is asked for again by each of its sets, and so are the candidates of a label by its row
def words(text: str) -> frozenset[bytes]:
    """Distinct words, without case."""
    return frozenset(text.casefold().encode("utf-8", "surrogatepass").translate(_PARTS).split())


def _overlap(found: frozenset[bytes], asked: frozenset[bytes]) -> float:
    """Jaccard similarity of two sets of words: a long text has no advantage."""
    both = len(found & asked)
    return both / (len(found) + len(asked) - both) if both else 0.0


def _right(found: Mapping[tuple[str, ...], int]) -> Fraction:
    """The sum of "right/of", exactly, in any order."""
    return sum((Fraction(fraction) * n for (fraction,), n in found.items()), Fraction(0))


def _shares(found: Counts) -> Json:
    n = found["n",]
    made: Json = {"n": n}
    for name in ("uniform", *PICKERS):
        exact, equivalent = (_right(part(found, name, how)) for how in ("exact", "equivalent"))
        made[name] = {"exact": rounded(exact / n), "equivalent": rounded(equivalent / n)} if n else None
    return made
