"""What a user of the data should know before using it, as far as the manifest shows it."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

from ..schemas.store import UNSPLIT
from .facts import (
    LEARNED,
    Manifest,
    declared,
    distinct,
    other_licences,
    picked_first,
    pictured,
    published,
    ready_made,
    stage,
    statistic,
)
from .people import looked_at, replaced
from .rows import counted
from .text import Markdown, code, listed, plural, share

_CHOSEN = ("selection_sft", "bt_pairs")  # what a model learns there is right or wrong
SKEWED = 1.25  # picks of the most picked position / what uniform would give it


def limits(manifest: Manifest) -> list[Markdown]:
    """One sentence or two each, the weightiest first."""
    parts = (
        _labels,
        _scores,
        _ready,
        _position,
        _validation,
        _places,
        _leaks,
        _gaps,
        _pictures,
        _secrets,
        _licences,
        _unchecked,
    )
    return [Markdown(line) for part in parts for line in part(manifest)]


def _labels(manifest: Manifest) -> Iterator[str]:
    counts = statistic(manifest, "label_status")
    total = sum(counts.values())
    if not total:
        if not stage(manifest, "candidate_scores")["in"] and not ready_made(manifest):
            yield "**No labels.** Nothing here says which candidate is better."
        return
    teachers, unnamed = declared(manifest, "teacher_labels", "teacher")
    if teachers and not unnamed:
        who = listed([code(teacher) for teacher in teachers])
        whose = "that teacher" if len(teachers) == 1 else "these teachers"
        yield (
            f"**Labels are opinions.** They are the choices of {who}, not outcomes of actions: "
            f"a model trained on them learns what {whose} preferred, mistakes included."
        )
    else:
        also = f" besides {listed([code(teacher) for teacher in teachers])}" if teachers else ""
        yield (
            f"**The teacher is not declared**{also}: the labels are choices of whoever `teacher_labels.teacher` names "
            "(null where the source records nobody), not outcomes of actions."
        )
    unusable = {name: n for name, n in counts.items() if name != "ok"}
    if lost := sum(unusable.values()):
        names = counted(unusable, "label")
        yield (
            f"**{share(lost, total)} of the labels pick nothing**: {names}. "
            "If those are the hard cases, the rows that remain are easier than the task."
        )


def _scores(manifest: Manifest) -> Iterator[str]:
    if not stage(manifest, "candidate_scores")["in"]:
        return
    scorers, unnamed = declared(manifest, "candidate_scores", "score_source")
    who = f" of {listed([code(scorer) for scorer in scorers])}" if scorers and not unnamed else ""
    yield (
        f"**Scores are estimates**{who}, not what happened: a model trained on them learns their mistakes, and scores "
        "of two sources are not on one scale."
    )


def _ready(manifest: Manifest) -> Iterator[str]:
    ready, tables = ready_made(manifest), published(manifest)
    if brought := [name for name in ready if name in tables and name != "bench_items"]:
        yield (
            f"**Ready-made rows** in {listed([code(name) for name in brought])}. Which states, candidates and judges "
            "are behind them is known to their source only."
        )
    if "bench_items" in tables:
        yield "**`bench_items` are for evaluation.** Whoever trains on them can no longer measure with them."


def _position(manifest: Manifest) -> Iterator[str]:
    top, n, total, expected = picked_first(manifest)
    if not n or n <= SKEWED * expected:
        return
    sampled = (
        f"**Position.** In the sampled order the teacher picks candidate number {top} in {share(n, total)} of the "
        f"usable labels, where uniform picking would give {share(expected, total)}."
    )
    selection = manifest["identity"]["parameters"].get("selection_sft")
    if not selection or "selection_sft" not in published(manifest):
        yield sampled
    elif selection.get("shuffle"):
        yield f"{sampled} `selection_sft` shows the candidates reordered, so that this habit cannot be learned from it."
    else:
        yield f"{sampled} `selection_sft` shows the sampled order: a model can learn the position instead."


def _validation(manifest: Manifest) -> Iterator[str]:
    tables = published(manifest)
    if not any("validation" in table["splits"] for name, table in tables.items() if name != "bench_items"):
        if set(tables) - set(UNSPLIT) != {"bench_items"}:
            yield "**There is no validation split.** Whoever tunes on this data has to hold out task groups first."
        return
    training = [name for name in LEARNED if name in tables]
    rows = {name: tables[name]["splits"].get("validation", {}).get("rows", 0) for name in training}
    if empty := [code(name) for name, n in rows.items() if not n]:
        yield f"**No validation rows** in {listed(empty)}, though other tables have some."
    if sizes := {name: n for name, n in rows.items() if n}:
        held = listed([Markdown(f"{plural(n, 'row')} of {code(name)}") for name, n in sizes.items()])
        groups = _groups(manifest)
        said = f"**Validation** holds {held}{', from ' + plural(groups, 'task group') if groups else ''}."
        if halves := [Markdown(f"± {196 * sqrt(0.25 / n):.1f}") for name, n in sizes.items() if name in _CHOSEN]:
            said += (
                f" An accuracy near 50 % measured on it has a 95 % interval of {listed(halves)} points if rows were "
                "independent; rows of one task are not, which widens it."
            )
        yield said


def _groups(manifest: Manifest) -> int:
    """Task groups that rows of validation are from."""
    if found := distinct(manifest, "task_group")["validation"]:
        return found
    measured = statistic(manifest, "audits").get("overlap", {})
    return max((facts["task"]["validation"] for facts in measured.values() if "task" in facts), default=0)


def _places(manifest: Manifest) -> Iterator[str]:
    hosts = distinct(manifest, "host")
    if hosts["all"] == 1:
        yield "**One host.** All states come from one site; nothing here shows how a model does elsewhere."
    elif hosts["validation"] and hosts["both"] == hosts["validation"]:
        yield "**New tasks, not new sites.** Every host of the validation split also occurs in train."
    pictures = distinct(manifest, "screenshot_sha256")
    if pictures["both"]:
        yield (
            f"**Shared screenshots.** Train also has {pictures['both']:,} of the {pictures['validation']:,} distinct "
            "screenshots in validation, under other tasks."
        )


def _leaks(manifest: Manifest) -> Iterator[str]:
    leaking = {name: n for name, n in statistic(manifest, "leakage").items() if n}
    measured: dict[str, dict[str, dict[str, int]]] = statistic(manifest, "audits").get("overlap", {})
    known = []
    for table, facts in sorted(measured.items()):
        shared = [(f, facts[f]) for f in ("state", "episode", "task") if f in facts and facts[f]["both"]]
        if shared and table != "states":
            counts = [f"{n['both']:,} of {plural(n['validation'], fact)}" for fact, n in shared]
            known.append(f"{listed(counts)} of {code(table)}")
    if leaking or known:
        prompts = f" Prompts that stand in both splits with the same pictures: {counted(leaking, 'prompt')}."
        also = f" Of validation, train also has {'; '.join(known)}." if known else ""
        yield f"**The splits leak.**{prompts if leaking else ''}{also} Validation figures are too good."


def _gaps(manifest: Manifest) -> Iterator[str]:
    temperatures = statistic(manifest, "temperature")
    missing = [] if declared(manifest, "candidate_sets", "actor")[0] else ["the policy that was sampled"]
    silent = temperatures.get("not recorded", 0)
    if all_silent := silent == sum(temperatures.values()):
        missing.append("the sampling temperature")
    if missing and temperatures:
        yield (
            f"**Not declared:** {listed([Markdown(m) for m in missing])}. How good and how varied the candidates of "
            "another policy would be cannot be told from here."
        )
    if silent and not all_silent:
        yield f"**Sampling temperature** is not recorded for {plural(silent, 'candidate set')}."
    unparsed = sum(statistic(manifest, "unparsed_candidates").values())
    if unparsed:
        yield f"**{plural(unparsed, 'candidate')}** cannot be read as an action; `candidates.parse_error` says why."
    quarantined = {
        name: n
        for name in manifest["identity"]["ledger"]
        if (n := stage(manifest, name)["status"].get("quarantined", 0))
    }
    if quarantined:
        units = counted(quarantined, "unit")
        yield f"**Quarantined** until a person has looked at them, and not in the tables: {units}."


def _pictures(manifest: Manifest) -> Iterator[str]:
    counts = statistic(manifest, "screenshots")
    seen, unseen = counts.get("with", 0), counts.get("without", 0)
    if unseen and not seen:
        yield "**Text only.** No state has a screenshot; `observation_text` stands for the page."
    elif unseen:
        yield f"**{plural(unseen, 'state')}** of {seen + unseen:,} have no screenshot."
    if referenced := pictured(manifest)["reference"]:
        names = listed([code(name) for name in referenced])
        yield f"**Screenshots by reference.** Rows of {names} hold the sha256 of each screenshot, not its bytes."


def _secrets(manifest: Manifest) -> Iterator[str]:
    parameters = manifest["identity"]["parameters"]
    groups = listed([code(group) for group in sorted(parameters.get("redact") or [])])
    replaced = statistic(manifest, "redacted")
    if replaced:
        yield (
            f"**Redacted.** {plural(sum(replaced.values()), 'place')} in the records of the sources became "
            f"`[redacted <kind>]`, in URLs `redacted-<kind>`, before anything was built from them ({groups}): "
            f"{counted(replaced, 'place')}. What no form gives away, and what a screenshot shows, stayed."
        )
    elif groups:
        yield f"**Nothing was redacted.** {groups} were declared, and none were found in the records of the sources."
    if (parameters.get("gates") or {}).get("secrets") == "warn":
        yield "**Secrets and e-mail addresses are let through.** Its publisher declared that they only warn."


def _licences(manifest: Manifest) -> Iterator[str]:
    if others := other_licences(manifest):
        own = code(manifest["identity"]["license"])
        yield (
            f"**Licences differ.** The dataset is under {own}, and records of some sources are under "
            f"{listed([code(licence) for licence in others])}; those terms apply to them."
        )


def _unchecked(manifest: Manifest) -> Iterator[str]:
    reviewed, picks = looked_at(manifest), replaced(manifest)
    if reviewed:
        theirs = (
            f" Where rows follow a label, {plural(picks, 'pick')} {'is' if picks == 1 else 'are'} theirs and not the "
            "teacher's: `reviews` says which."
        )
        said = f"**Reviewed in part.** People looked at {plural(reviewed, 'item')} and at nothing else here."
        yield said + (theirs if picks else "")
    missing = [] if reviewed else ["a person's review of labels, prompts and screenshots"]
    searched = "secrets" in manifest["identity"]["parameters"].get("gates", {})
    missing.append(f"a search for personal data or secrets in {'' if searched else 'texts and '}screenshots")
    yield f"**Not part of this build:** {'; '.join(missing)}."
