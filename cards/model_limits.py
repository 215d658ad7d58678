"""What a user of a checkpoint should know before using it, as far as its manifest shows it."""

from __future__ import annotations

from collections.abc import Iterator

from . import model_facts as facts
from .model_facts import Evaluation, Manifest, Report
from .model_rows import unusable, whole
from .model_words import BASELINES, plain
from .text import Markdown, code, listed, number, plural, share, text

FEW = 200  # states; below it an interval of a share is wider than 14 points
SMALL = 100_000_000  # parameters
SKEWED = 1.25  # picks of the most picked place / what uniform would give it


def limits(manifest: Manifest) -> list[Markdown]:
    """One sentence or two each, the weightiest first."""
    parts = (
        _toy, _folders, _alone, _unmeasured, _same_rows, _baselines, _few, _teacher, _replies, _position, _hosts,
        _prompt, _scores, _training, _vision, _parent, _licences, _unchecked,
    )  # fmt: skip
    return [Markdown(line) for part in parts for line in part(manifest)]


def _named(evaluation: Evaluation) -> Markdown:
    return code(evaluation["name"])


def _toy(manifest: Manifest) -> Iterator[str]:
    training = manifest["training"]
    if training and training["parameters"] < SMALL:
        yield (
            f"**A toy.** The whole model has {plural(training['parameters'], 'parameter')}: it shows that the way from "
            "data to checkpoint works, and is not meant for real pages."
        )


def _folders(manifest: Manifest) -> Iterator[str]:
    origins = {"base model": manifest["checkpoint"]["base"], "dataset": manifest["identity"]["dataset"]}
    if missing := [name for name, origin in origins.items() if not origin["repo"]]:
        have = "has" if len(missing) == 1 else "have"
        yield (
            f"**Nobody else can repeat this.** Its {listed(missing)} lay in a folder and {have} no name on a Hub: the "
            "checkpoint was made for trying out."
        )


def _alone(manifest: Manifest) -> Iterator[str]:
    if not facts.declared(manifest):
        yield "**Not published.** No registry declares it: it has no name and no version that others could ask for."


def _unmeasured(manifest: Manifest) -> Iterator[str]:
    if not any(facts.leading(one) for one in manifest["evaluations"]):
        yield "**Nobody measured it.** No number here says how good it is."


def _same_rows(manifest: Manifest) -> Iterator[str]:
    training, data = manifest["training"], manifest["identity"]["dataset"]["identity_sha256"]
    for one in manifest["evaluations"]:
        if training and one["split"] == training["split"] and one["dataset"]["identity_sha256"] == data:
            yield (
                f"**{_named(one)} is what it was trained on.** Its numbers say how well the model remembers, not how "
                "well it chooses on new tasks."
            )
    if training and training["split"] == "validation":
        yield "**Trained on validation rows.** Measure it on other data than the validation split of its dataset."


def _baselines(manifest: Manifest) -> Iterator[str]:
    for one in manifest["evaluations"]:
        report = facts.leading(one)
        if report is None:
            continue
        where = f"On {_named(one)}, {text(plain(report['metric']), 80)} is {number(report['value'])}"
        rules = facts.rules(report)
        worse = {name: value for name, value in rules.items() if value >= report["value"]}
        unsure = {name: value for name, value in rules.items() if name not in worse and not _clear(report, name)}
        if worse:
            yield f"**It does not beat simple rules.** {where}, and no better than {_values(worse)}."
        if unsure:
            yield (
                f"**Not clearly better than simple rules.** {where}; chance alone may explain how it differs from "
                f"{_values(unsure)}."
            )
        if not rules:
            yield f"**No baseline.** {where}; what a rule that learned nothing would reach there was not measured."


def _clear(report: Report, baseline: str) -> bool:
    """Whether the interval of the difference lies above zero; without one, that of the metric above the rule."""
    less = facts.difference(report, baseline)
    if less["low"] is not None:
        return bool(less["low"] > 0)
    low = report["interval_low"]
    return low is not None and bool(low > facts.rules(report)[baseline])


def _values(found: dict[str, float]) -> Markdown:
    ranked = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return listed([Markdown(f"{BASELINES.get(name) or text(plain(name), 80)} ({number(v)})") for name, v in ranked])


def _few(manifest: Manifest) -> Iterator[str]:
    for one in manifest["evaluations"]:
        report = facts.leading(one)
        if report is None or one["states"] >= FEW:
            continue
        items = f"{plural(one['items'], 'candidate set')} of {plural(one['states'], 'state')}"
        yield (
            f"**Few items.** {_named(one)} has {items}{_interval(report)}. Another draw of tasks can rank models "
            "otherwise."
        )


def _interval(report: Report) -> str:
    low, high = report["interval_low"], report["interval_high"]
    if low is None or high is None:
        return "; no interval was computed"
    if low == high:
        return (
            "; all of them gave the same value, so that the interval has no width: it says nothing of states not drawn"
        )
    return f"; the 95 % interval of {text(plain(report['metric']), 80)} goes from {number(low)} to {number(high)}"


def _teacher(manifest: Manifest) -> Iterator[str]:
    measured = [one for one in manifest["evaluations"] if facts.leading(one)]
    teachers = sorted({one["teacher"] for one in measured if one["teacher"]})
    if any(one["teacher"] is None for one in measured):
        yield (
            "**The teacher is not known.** The data does not say whose picks are the reference; the numbers say how "
            "often the model agrees with them, not how often a task succeeds."
        )
    if teachers:
        who = listed([code(name, 80) for name in teachers])
        whose = "that teacher" if len(teachers) == 1 else "these teachers"
        yield (
            f"**Agreement with {who} is not success.** The reference is what {whose} picked, mistakes included. "
            "Whether an agent that follows the model finishes more tasks was not measured."
        )
    if measured and not any(facts.ceiling(report) is not None for one in measured for report in one["reports"]):
        yield "**The teacher's own noise is not known.** How often it picks the same twice bounds every number here."


def _replies(manifest: Manifest) -> Iterator[str]:
    for one in manifest["evaluations"]:
        total, valid = sum(one["outcomes"].values()), one["outcomes"].get("ok", 0)
        if lost := total - valid:
            lost_share = share(lost, total)
            yield f"**{lost_share} of the answers on {_named(one)} name no candidate**; the table of outcomes says why."
        if skipped := sum(one["left_out"].values()):
            asked = one["items"] + skipped
            yield f"**Not asked on {_named(one)}:** {skipped:,} of {plural(asked, 'candidate set')}, by reason below."


def _position(manifest: Manifest) -> Iterator[str]:
    for one in manifest["evaluations"]:
        picks = one["slots"]
        if not sum(picks):
            continue
        top = max(range(len(picks)), key=lambda at: picks[at])
        if picks[top] > SKEWED * sum(picks) / len(picks):
            yield (
                f"**Position.** On {_named(one)} it picks place {top + 1} in {share(picks[top], sum(picks))} of its "
                f"picks, where {len(picks)} places picked equally often would have {share(1, len(picks))} each. Show "
                "candidates in more than one order where that matters."
            )
        if one["orders"] == 1:
            yield (
                f"**One order.** On {_named(one)} each set was shown in one order: whether the order decides was not "
                "measured."
            )


def _hosts(manifest: Manifest) -> Iterator[str]:
    hosts = {group["value"] for one in manifest["evaluations"] for group in one["breakdown"] if group["by"] == "host"}
    if len(hosts) == 1:
        host = code(next(iter(hosts)), 80)
        yield f"**One host.** All items are from {host}; nothing here shows how it does elsewhere."
    elif 1 < len(hosts) < 10:
        yield f"**Few hosts.** The items are from {len(hosts)} sites; nothing here shows how it does on others."


def _prompt(manifest: Manifest) -> Iterator[str]:
    prompt = manifest["checkpoint"]["prompt"]
    if prompt["id"] is None:
        yield (
            "**The prompt came with the rows.** No template is recorded, so that new states can be asked about only by "
            "whoever can write prompts of the same form."
        )
    else:
        yield (
            f"**Another prompt is another model.** It was trained with {code(prompt['id'])} and nothing else; with "
            "other words, another order of parts or other picture sizes no number here holds."
        )


def _scores(manifest: Manifest) -> Iterator[str]:
    if manifest["checkpoint"]["kind"] == "scalar":
        yield (
            "**Scores have no unit and no zero.** Only differences between candidates of one state mean anything: no "
            "threshold on a score says that an action is good."
        )


def _training(manifest: Manifest) -> Iterator[str]:
    training = manifest["training"]
    if training is None:
        return
    if lost := sum(row[2] for row in unusable(training["unusable"], training["rows"]) if isinstance(row[2], int)):
        rows = plural(training["rows"], "row")
        yield f"**Rows left out.** {lost:,} of {rows} of training could not be used, by reason below."
    wanted = manifest["identity"]["recipe"]["trainer"].get("num_train_epochs")
    if isinstance(wanted, int | float) and training["epochs"] < 0.99 * wanted:
        yield (
            f"**Stopped early.** Training made {number(whole(training['epochs']))} of {number(whole(wanted))} passes "
            "over the rows."
        )
    first, last = training["loss_first"], training["loss_last"]
    if first is not None and last is not None and last >= first:
        yield f"**The loss did not fall**: {number(first)} at first, {number(last)} at last."


def _vision(manifest: Manifest) -> Iterator[str]:
    if not facts.sees(manifest):
        yield "**Text only.** The model is shown no screenshots."
    elif manifest["identity"]["recipe"]["vision"] == "frozen":
        yield (
            "**The vision tower is the base model's.** Only the language model was trained: what the base does not see "
            "on a page, this does not see either."
        )


def _parent(manifest: Manifest) -> Iterator[str]:
    parent = manifest["identity"]["init_from"]
    if parent is None:
        return
    name = f"{code(parent['repo'])} {code(parent['revision'] or '')}".strip() if parent["repo"] else "that checkpoint"
    yield (
        f"**Trained further.** What {name} learned before is in these weights, too, and so are its limits; its own "
        "card has them."
    )


def _licences(manifest: Manifest) -> Iterator[str]:
    own = manifest["identity"]["license"]
    declared = f"The weights are under {code(own)}" if own else "No licence is declared for the weights"
    yield (
        f"**Licences.** {declared}. Those of the base model and of the data are on their own pages; whether they allow "
        "what you want to do was not checked here."
    )


def _unchecked(manifest: Manifest) -> Iterator[str]:
    yield (
        "**Not part of this evaluation:** tasks carried out to their end, unsafe or irreversible actions, pages that "
        "try to mislead the model, and languages other than those of the data."
    )
