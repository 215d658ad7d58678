"""The data of a gallery page: a sample of a build, and the pictures that it shows."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ...schemas.built import BuiltTables
from ...schemas.manifest import identity_digest
from .choice import Choice
from .fitting import Fitting
from .found import find, read_again
from .items import item
from .page import render
from .pictures import Pictures
from .sample import Sample, Stratum, listed
from .units import Units
from .unknown import nothing_fits, nothing_matches, unknown_ids

OVER, ABSENT = "over the size budget", "not in the build"
Data = dict[str, Any]


def gallery(tables: BuiltTables, choice: Choice, shown_as: str) -> tuple[bytes, Data]:
    """Return the page, at most ``choice.budget`` bytes, and its data. ``shown_as`` says what the build is.

    Raises ArmError for a build that cannot be read, an id that it does not have, and where nothing can be shown.
    """
    room = choice.budget
    while True:
        data, pictures = gallery_data(tables, choice, shown_as, room)
        page = render(data, pictures)
        if len(page) <= choice.budget:
            return page, data
        room -= len(page) - choice.budget  # what was counted was too little


def gallery_data(
    tables: BuiltTables, choice: Choice, shown_as: str = "", room: int | None = None
) -> tuple[Data, dict[str, bytes]]:
    """Return (data, pictures) as `render` takes them; pictures are bytes by the hex sha256 of them.

    ``data["left_out"]`` has how many of the sample are not on the page, by reason. ``room``: bytes of the page.
    """
    units = Units(tables, choice)
    tried = 2 * choice.items + 16  # as many again may not fit, or not be in the build
    sample = Sample(units, tried)
    if missing := [one for one in choice.ids if one not in units.met]:
        raise unknown_ids(tables, missing)
    if not sample.counts:
        raise nothing_matches(tables, choice)
    sequence = sample.sequence()[:tried]
    most = room or choice.budget
    found = find(tables, sequence, Pictures(most * 3 // 4))
    data = _head(tables, shown_as, sample.counts)
    fitting = Fitting(found, most - len(render(data, {})) - 8 * len(data["strata"]))
    left_out: Counter[str] = Counter()
    taken: list[tuple[Stratum, Data]] = []
    for unit in sequence:
        if len(taken) == choice.items:
            break
        made = item(unit, found)
        if made is None:
            left_out[ABSENT] += 1
        elif fitting.take(made):
            taken.append((unit.stratum, made))
        else:
            left_out[OVER] += 1
    if not taken:
        raise nothing_fits(tables, left_out, choice)
    taken.sort(key=lambda one: listed(one[0]))
    if missing_pictures := found.pictures.only(fitting.pictures):
        read_again(tables, found, missing_pictures)
    counted = Counter(stratum for stratum, _ in taken)
    for entry, stratum in zip(data["strata"], sorted(sample.counts, key=listed), strict=True):
        entry["shown"] = counted[stratum]
    data |= {
        "items": [made for _, made in taken],
        "states": fitting.states,
        "sets": fitting.sets,
        "labels": fitting.labels,
        "pictures": {sha256: found.pictures.facts[sha256] for sha256 in sorted(fitting.pictures)},
        "left_out": dict(sorted(left_out.items())),
    }
    return data, found.pictures.held


def _head(tables: BuiltTables, shown_as: str, counts: Counter[Stratum]) -> Data:
    """The page without items."""
    identity = tables.identity
    dataset = "/".join(identity[name] for name in ("namespace", "name"))
    strata = [
        {"table": stratum[0], "split": stratum[3], "kind": stratum[2], "shown": 0, "of": counts[stratum]}
        for stratum in sorted(counts, key=listed)
    ]
    return {
        "gallery": 1,
        "title": f"{dataset} v{identity['version']}",
        "subtitle": shown_as,
        "dataset": dataset,
        "version": identity["version"],
        "identity_sha256": identity_digest(identity),
        "strata": strata,
        **{name: {} for name in ("states", "sets", "labels", "pictures", "left_out")},
        "items": [],
    }
