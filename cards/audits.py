"""What a card says before somebody trusts a number: the audits of a build as sentences and rows of tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .facts import SPLITS, Manifest, Row, ranked, statistic, table_names
from .text import Figure, Markdown, code, listed, plural, share, text

Audits = Mapping[str, Any]
MAX_NAMED = 5  # examples of one finding; the manifest has more
MAX_VERBS = 10
_TASK = 160  # characters of a task
_SMALL = 0.001  # of a p-value

BASELINES: Mapping[str, str] = {
    "uniform": "at random",
    "first": "first sampled",
    "most_common": "most common action",
    "word_overlap": "most words of the task",
    "longest": "longest",
    "shortest": "shortest",
}
_VERDICTS: Mapping[str, str] = {
    "no": "That is under 10 %: there is little to gain over the majority.",
    "unsure": "That is from 10 to 25 %: what there is to gain over the majority takes many rows to be seen.",
    "go": "That is over 25 %: there is room to be better than the majority.",
}
_HOW: Mapping[str, str] = {"exact": "same text", "normalised": "same words", "near": "nearly the same"}
# Facts of the overlap; of `states`, a state is all that a prompt could show of it.
_FACTS = ("state", "episode", "task", "prompt", "screenshot", "host")


def of(manifest: Manifest) -> dict[str, Any] | None:
    """What the template shows; None for what was built before there were audits, or from nothing."""
    found = statistic(manifest, "audits")
    if not found:
        return None
    return {
        "baselines": _baselines(found.get("baselines") or {}),
        "best": _best(found.get("baselines") or {}),
        "points": [
            Markdown(line) for part in (_room, _alternatives, _slots, _judges, _conflicts) for line in part(found)
        ],
        "overlap": overlap(manifest),
        "alike": _alike(found.get("screenshots") or []),
        "near_tasks": _near_tasks(found.get("near_tasks") or {}),
        "benchmarks": _benchmarks(found.get("benchmarks") or []),
        "lengths": _lengths(found.get("distributions") or {}),
        "verbs": _verbs((found.get("distributions") or {}).get("verbs") or {}),
        "hosts": _hosts((found.get("distributions") or {}).get("hosts") or {}),
    }


def leaks(manifest: Manifest) -> list[Markdown]:
    """Per table of training rows, what of validation train also has: the sentence of a split that leaks."""
    lines = []
    for name, facts in _tables(manifest):
        shared = [
            f"{facts[f]['both']:,} of the {plural(facts[f]['validation'], f)}"
            for f in _FACTS[:4]
            if f in facts and facts[f]["both"]
        ]
        if shared and name != "states":
            lines.append(
                Markdown(f"{code(name)}: {listed([Markdown(s) for s in shared])} of validation are also in train.")
            )
    return lines


def overlap(manifest: Manifest) -> dict[str, Any] | None:
    """Header and rows: table, and for each fact how many distinct values of validation train has, too."""
    tables = [
        (name, {"state": facts.get("content"), **facts} if name == "states" else dict(facts))
        for name, facts in _tables(manifest)
    ]
    used = [f for f in _FACTS if any(facts.get(f) for _, facts in tables)]
    if not used:
        return None
    header: list[str] = ["Table"]
    rows: list[Row] = [[code(name)] for name, _ in tables]
    for fact in used:
        header += [f"{fact.capitalize()}s", *(["Alike"] if fact == "screenshot" else [])]
        for row, (_, facts) in zip(rows, tables, strict=True):
            found = facts.get(fact)
            row.append(_of(found, weigh=fact != "host"))
            if fact == "screenshot":
                near = found and found.get("near")
                row.append(Figure("–" if near is None else f"{near:,}"))
    return {"header": header, "rows": rows}


def _tables(manifest: Manifest) -> list[tuple[str, Mapping[str, Any]]]:
    measured = statistic(manifest, "audits").get("overlap") or {}
    known = [name for name in table_names(manifest) if name in measured]
    return [(name, measured[name]) for name in [*known, *sorted(set(measured) - set(known))]]


def _of(found: Mapping[str, int] | None, weigh: bool) -> Figure:
    if not found:
        return Figure("–")
    cell = f"{found['both']:,} of {found['validation']:,}"
    return Figure(f"**{cell}**" if weigh and found["both"] else cell)


def percent(value: float | None) -> Figure:
    return share(value, 1) if value is not None else Figure("–")


# -- baselines ----------------------------------------------------------------------------------------------------


def _groups(found: Audits) -> list[tuple[Markdown, Audits]]:
    """(Heading, baselines) of all that was measured on anything."""
    sft = found.get("selection_sft") or {}
    named = [("labels", found.get("labels") or {}), *((f"{split} rows", sft.get(split) or {}) for split in SPLITS)]
    return [(Markdown(f"{name} ({group['n']:,})"), group) for name, group in named if group.get("n")]


def _baselines(found: Audits) -> dict[str, Any] | None:
    groups = _groups(found)
    if not groups:
        return None
    columns = [
        (name if len(kinds) == 1 else Markdown(f"{name}, {kind}"), group, kind)
        for name, group in groups
        for kinds in [_kinds(group)]
        for kind in kinds
    ]
    rows = [
        [label, *(percent((group.get(name) or {}).get(kind)) for _, group, kind in columns)]
        for name, label in BASELINES.items()
        if any(group.get(name) for _, group in groups)
    ]
    header = ["Pick", *(name for name, _, _ in columns)]
    return {"header": header, "rows": rows, "differ": len(columns) > len(groups)}


def _kinds(group: Audits) -> tuple[str, ...]:
    """One column where both ways to count come to the same."""
    found = [group[name] for name in BASELINES if group.get(name)]
    return ("exact", "equivalent") if any(f["exact"] != f["equivalent"] for f in found) else ("exact",)


def _best(found: Audits) -> Markdown | None:
    """What a model has to beat where it is measured: on validation, or else on what there is."""
    groups = _groups(found)
    if not groups:
        return None
    name, group = groups[-1]
    exact = {b: group[b]["exact"] for b in BASELINES if group.get(b) and group[b]["exact"] is not None}
    if not exact:
        return None
    best = max(exact, key=lambda b: exact[b])
    return Markdown(f"On {name}, a model has to beat {percent(exact[best])} ({BASELINES[best]}).")


# -- sentences ----------------------------------------------------------------------------------------------------


def _room(found: Audits) -> Iterator[str]:
    room = found.get("headroom") or {}
    if room.get("sets"):
        where = f"{room['differs']:,} of {plural(room['sets'], 'judged set')} ({percent(room['share'])})"
        verdict = _VERDICTS.get(room.get("verdict") or "", "")
        yield f"**Headroom.** In {where} the pick is not the action that most candidates have. {verdict}".rstrip()


def _alternatives(found: Audits) -> Iterator[str]:
    choice = found.get("no_choice") or {}
    if choice.get("sets"):
        near = choice["near_only"]
        also = f", {near:,} of them clicks on practically one place" if near else ""
        where = f"{choice['one_action'] + near:,} of {plural(choice['sets'], 'candidate set')}"
        yield f"**No real choice** in {where} ({percent(choice['share'])}{also}): all candidates do the same."
    picks = found.get("equivalent_picks") or {}
    if picks.get("labels"):
        labels = plural(picks["labels"], "usable label")
        how = [f"{picks['same']:,} the very same action"] if picks["same"] else []
        how += [f"{picks['near']:,} a nearly equal one"] if picks["near"] else []
        if how:
            yield (
                f"**Equivalent picks.** In {percent(picks['share'])} of {labels} another candidate does the same as "
                f"the picked one ({' and '.join(how)}): compare actions, not indices."
            )
        else:
            yield f"**No equivalent picks.** In none of {labels} does another candidate do the same as the picked one."


def _slots(found: Audits) -> Iterator[str]:
    slots = found.get("slots") or {}
    said = [
        f"{name} χ² {slot['statistic']:,g} with {plural(slot['df'], 'degree')} of freedom, {_p(slot['p'])}"
        for key, name in (("sampled", "as sampled"), ("shown", "as `selection_sft` shows them"))
        if (slot := slots.get(key)) and slot["n"] and slot["df"]
    ]
    if said:
        yield (
            f"**Position of the pick** against uniform: {'; '.join(said)}. "
            "A small p means that a model can learn the position instead of the action."
        )


def _judges(found: Audits) -> Iterator[str]:
    agreement = found.get("agreement") or {}
    repeats = {who: n for who, n in (agreement.get("repeats") or {}).items() if n.get("pairs")}
    for who, n in sorted(repeats.items(), key=lambda item: (-item[1]["pairs"], item[0]))[:MAX_NAMED]:
        yield (
            f"**Self-agreement.** Asked twice about one set, {code(who)} picks the same action in "
            f"{percent(n['exact_share'])} of {plural(n['pairs'], 'pair')} of replies, and one that does practically "
            f"the same in {percent(n['equivalent_share'])}. No model can be measured more exactly than that."
        )
    draws = agreement.get("draws") or {}
    if draws.get("pairs"):
        yield (
            f"**Consistency over draws.** Where two draws of one state hold both picked actions, the two picks are the "
            f"same in {percent(draws['share'])} of {plural(draws['pairs'], 'pair')} of draws."
        )
    if agreement and not repeats and not draws.get("pairs"):
        yield (
            "**The teacher's own noise is not known**: it judged no set twice, and no two draws of one state hold the "
            "same alternatives."
        )


def _conflicts(found: Audits) -> Iterator[str]:
    conflicts = found.get("conflicting_picks") or {}
    if conflicts.get("labels"):
        such = "; ".join(
            f"{code(n['label'], 80)} and {code(n['contradicts'], 80)}" for n in conflicts.get("named", [])[:MAX_NAMED]
        )
        handled = "are in quarantine" if conflicts.get("handling") == "quarantine" else "are kept"
        many = f"{plural(conflicts['labels'], 'label')} in {plural(conflicts['groups'], 'group')}"
        yield (
            f"**Contradicting picks.** {many} pick different actions for equal states and equal alternatives, and "
            f"{handled}: {such}."
        )


def _p(value: float | None) -> str:
    return "p unknown" if value is None else f"p below {_SMALL}" if value < _SMALL else f"p = {value:.3f}"


# -- findings -----------------------------------------------------------------------------------------------------


def _alike(found: Sequence[Mapping[str, Any]]) -> list[Row]:
    """State of validation, state of train, how many of 128 bits differ."""
    return [[code(n["validation"], 80), code(n["train"], 80), n["bits"]] for n in found[:MAX_NAMED]]


def _near_tasks(found: Mapping[str, Any]) -> dict[str, Any] | None:
    if not found.get("validation"):
        return None
    rows = [
        [text(n["validation"], _TASK), text(n["train"], _TASK), Figure(f"{n['similarity']:.2f}")]
        for n in found.get("named", [])[:MAX_NAMED]
    ]
    return {"near": found["near"], "validation": found["validation"], "rows": rows}


def _benchmarks(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    rows: list[Row] = [
        [text(b["name"], 80), b["tasks"], *(b[how] for how in _HOW), *(b["states"][split] for split in SPLITS)]
        for b in found
    ]
    named: list[Row] = [
        [
            text(b["name"], 80), text(n["ours"], _TASK), text(n["theirs"], _TASK), _HOW.get(n["how"], n["how"]),
            Figure(f"{n['similarity']:.2f}"), code(n["state"], 80),
        ]
        for b in found
        for n in b.get("named", [])[:MAX_NAMED]
    ]  # fmt: skip
    return {"rows": rows, "named": named[: 2 * MAX_NAMED]}


# -- what the rows look like --------------------------------------------------------------------------------------


def _lengths(found: Mapping[str, Any]) -> list[Row]:
    """What is measured, how many, mean, median, 95th percentile, in characters."""
    lengths = found.get("lengths") or {}
    return [
        [code(name), n["n"], round(n["mean"]), n["median"], n["p95"]]
        for name, n in sorted(lengths.items(), key=lambda item: (item[0] != "candidate", item[0]))
        if n.get("n")
    ]


def _verbs(found: Mapping[str, Mapping[str, int]]) -> list[Row]:
    """Verb, candidates, share, picks, share; the most frequent first, what is rare as one row."""
    candidates, picks = found.get("candidates") or {}, found.get("picks") or {}
    order = ranked({verb: candidates.get(verb, 0) for verb in {*candidates, *picks}})
    sums = sum(candidates.values()), sum(picks.values())
    counted: list[tuple[Markdown, int, int]] = [
        (code(verb), candidates.get(verb, 0), picks.get(verb, 0)) for verb, _ in order[:MAX_VERBS]
    ]
    if rest := [verb for verb, _ in order[MAX_VERBS:]]:
        n, m = (sum(counts.get(verb, 0) for verb in rest) for counts in (candidates, picks))
        counted.append((Markdown(f"{len(rest)} others"), n, m))
    return [[name, n, share(n, sums[0]), m, share(m, sums[1])] for name, n, m in counted]


def _hosts(found: Mapping[str, Any]) -> Markdown | None:
    top = found.get("top") or []
    if not top or all(n["host"] == "-" for n in top):
        return None
    shown = [
        Markdown(f"{'unknown' if n['host'] == '-' else code(n['host'], 80)} ({plural(n['states'], 'state')})")
        for n in top[:MAX_NAMED]
    ]
    left = found["distinct"] - len(shown)
    return Markdown(f"{listed(shown)}{f' and {left:,} more' if left else ''}")
