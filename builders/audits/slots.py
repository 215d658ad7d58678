"""Where picks stand among the candidates: a habit of the teacher, or of the shuffle, shows as uneven slots."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from .counts import Counts, Json, part, rounded

_LEAST = 5.0  # expected picks of a cell, below which chi-square says nothing


def report(counts: Counts) -> Json:
    """``sampled``: the order of the candidate set, before shuffling. ``shown``: the order of the prompt."""
    return {name: _test(part(counts, "slots", name)) for name in ("sampled", "shown")}


def _test(picked: Counts) -> Json | None:
    """Picks by (number of candidates, slot): against picks that fall on each candidate of a set alike."""
    if not picked:
        return None
    size = max(int(n) for n, _ in picked)
    observed = [0] * size
    of_size: Counter[int] = Counter()
    for (n, slot), count in picked.items():
        observed[int(slot)] += count
        of_size[int(n)] += count
    expected = [sum(count / n for n, count in sorted(of_size.items()) if slot < n) for slot in range(size)]
    statistic, df = chi_square(observed, expected)
    return {
        "n": sum(observed),
        "observed": observed,  # picks of slot 0, 1, ...
        "expected": [rounded(value) for value in expected],
        "statistic": rounded(statistic),
        "df": df,
        "p": rounded(survival(statistic, df)) if df else None,
    }


def chi_square(observed: Sequence[int], expected: Sequence[float]) -> tuple[float, int]:
    """Pearson's statistic and its degrees of freedom. Neighbouring cells that expect less than 5 count together."""
    cells: list[tuple[float, float]] = []
    seen = hoped = 0.0
    for o, e in zip(observed, expected, strict=True):
        seen, hoped = seen + o, hoped + e
        if hoped >= _LEAST:
            cells.append((seen, hoped))
            seen = hoped = 0.0
    if hoped and cells:
        last = cells.pop()
        cells.append((last[0] + seen, last[1] + hoped))
    return sum((o - e) ** 2 / e for o, e in cells), max(0, len(cells) - 1)


def survival(statistic: float, df: int) -> float:
    """P(X >= statistic) of the chi-square distribution with a whole number of degrees of freedom, in closed form.

    For even ``df`` a sum of Poisson terms, for odd ones the same in halves behind the normal tail.
    """
    half = statistic / 2
    if half <= 0:
        return 1.0
    power = 0.0 if df % 2 == 0 else 0.5
    total = 0.0 if df % 2 == 0 else math.erfc(math.sqrt(half))
    while power < df / 2:  # half**power * exp(-half) / Gamma(power + 1), in logarithms: half may be thousands
        total += math.exp(power * math.log(half) - half - math.lgamma(power + 1))
        power += 1
    return min(1.0, total)
