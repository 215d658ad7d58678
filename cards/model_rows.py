"""The rows of a model card's tables, in one order whatever the order of the manifest's keys."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from . import model_facts as facts
from .facts import Row, ranked
from .model_facts import Evaluation, Manifest
from .model_words import BASELINES, FILES, GROUPS, METRICS, OK, OUTCOMES, UNUSABLE, plain
from .text import Figure, Markdown, code, number, share, size, text

MAX_GROUPS = 12  # of one breakdown; report.json has them all
_DASH = Markdown("–")


def contract(manifest: Manifest) -> list[Row]:
    """What has to be the same wherever the checkpoint is used: what, and its value."""
    checkpoint = manifest["checkpoint"]
    prompt, processor, base, head = (checkpoint[key] for key in ("prompt", "processor", "base", "head"))
    rows: list[Row] = [
        ["Base model", _base(base)],
        ["Class in transformers", code(checkpoint["architecture"])],
        ["Weights of the base", code(checkpoint["dtype"])],
        ["Prompt", code(prompt["id"]) if prompt["id"] else "as the rows of the dataset have it; no template is known"],
        ["Prompt, sha256", _or_dash(prompt["sha256"])],
        ["Prompt, file", _or_dash(prompt["file"])],
        ["Chat template, sha256", code(processor["chat_template_sha256"])],
        ["Chat template, variables", _options(processor["template_options"])],
        ["Tokenizer, sha256", code(processor["tokenizer_sha256"])],
    ]
    if shown := checkpoint.get("candidates"):
        rows += [["Actions", _spoken(shown["spoken"])], ["Candidates", Markdown(_shown(shown))]]
    if facts.sees(manifest):
        rows += [
            ["Picture, least area", _of(processor["min_pixels"], "pixels")],
            ["Picture, largest area", _of(processor["max_pixels"], "pixels")],
        ]
    rows.append(["Conversation, at most", _of(processor["max_tokens"], "tokens, pictures included")])
    if head:
        token = code(json.dumps(head["scored_token"], ensure_ascii=False))
        rows.append(["Score is read at", Markdown(f"the last token, {token} (id {head['scored_token_id']})")])
    return rows


def _base(base: Mapping[str, Any]) -> Markdown:
    if not base["repo"]:
        return Markdown(f"a folder; sha256 of its files {_or_dash(base['sha256'])}")
    at = Markdown(f" at {code(base['commit'])}") if base["commit"] else ""
    return Markdown(f"{code(base['repo'])}{at}")


def _spoken(ways: Sequence[Mapping[str, Any]]) -> Markdown:
    """How its data wrote actions: dialect, and space of the points."""
    said = []
    for way in ways:
        points = f"points in {code(way['space'])}" if way["space"] else "space not declared"
        said.append(f"{code(way['dialect'])}, {points}")
    return Markdown("; ".join(said)) if said else _DASH


def _shown(shown: Mapping[str, Any]) -> str:
    each = "each action once" if shown["merge"] else "all, also equal ones"
    return f"{each}, {'in an order by hash' if shown['shuffle'] else 'as sampled'}"


def _of(value: int | None, unit: str) -> Markdown:
    return _DASH if value is None else Markdown(f"{value:,} {unit}")


def _or_dash(value: str | None) -> Markdown:
    return code(value) if value else _DASH


def _options(options: Mapping[str, Any]) -> Markdown:
    said = [code(f"{key}={json.dumps(value, ensure_ascii=False)}") for key, value in sorted(options.items())]
    return Markdown(", ".join(said)) if said else Markdown("none")


# -- evaluation ---------------------------------------------------------------------------------------------------


def metrics(evaluation: Evaluation) -> list[Row]:
    """Metric, what it is, value, 95 % interval from and to, items asked, items valid."""
    return [
        [
            text(plain(report["metric"]), 80), METRICS.get(report["metric"], _DASH), number(report["value"]),
            number(report["interval_low"]), number(report["interval_high"]), report["n"], report["n_valid"],
        ]
        for report in evaluation["reports"]
    ]  # fmt: skip


def baselines(evaluation: Evaluation) -> list[Row]:
    """Metric, baseline, its value, items that both have one of, the model's value less that, interval from and to."""
    rows: list[Row] = []
    for report in evaluation["reports"]:
        for one in report["baselines"]:
            less = facts.difference(report, one["name"])
            numbers = [number(less[key]) for key in ("n", "value", "low", "high")]
            rows.append([text(plain(report["metric"]), 80), rule(one["name"]), number(one["value"]), *numbers])
    return rows


def rule(name: str) -> Markdown:
    return Markdown(BASELINES[name]) if name in BASELINES else text(plain(name), 80)


def outcomes(evaluation: Evaluation, kind: str) -> list[Row]:
    """Outcome, meaning, items, share; ``kind`` is that of the checkpoint."""
    total = sum(evaluation["outcomes"].values())
    meanings = {**OUTCOMES, "ok": OK[kind]}
    return [
        [code(name), meanings.get(name, _DASH), n, share(n, total)] for name, n in ranked(evaluation["outcomes"])
    ]  # fmt: skip


def slots(evaluation: Evaluation) -> list[Row]:
    """Position as shown, picks, share."""
    total = sum(evaluation["slots"])
    return [[place, n, share(n, total)] for place, n in enumerate(evaluation["slots"], start=1)]


def calibration(evaluation: Evaluation) -> list[Row]:
    """Predicted probability from, to, pairs, mean prediction, share that was right."""
    return [
        [number(float(one["low"])), number(float(one["high"])), one["n"], number(one["predicted"]),
         number(one["observed"])]
        for one in evaluation["calibration"]
    ]  # fmt: skip


def breakdowns(evaluation: Evaluation) -> list[dict[str, Any]]:
    """One table for each way to group: heading, metric, rows (group, items, score), how many groups are left away."""
    found = []
    for by, heading in GROUPS.items():
        groups = [group for group in evaluation["breakdown"] if group["by"] == by]
        if not groups:
            continue
        groups.sort(key=lambda group: (-group["n"], group["value"]))
        shown = groups[:MAX_GROUPS]
        if by == "turn" and all(group["value"].isdecimal() for group in shown):
            shown.sort(key=lambda group: int(group["value"]))
        rows: list[Row] = [
            [Figure(group["value"]) if _counts(group["value"]) else code(group["value"], 80), group["n"],
             number(float(group["score"]))]
            for group in shown
        ]  # fmt: skip
        metric = text(plain(groups[0]["metric"]), 80)
        found.append({"heading": heading, "metric": metric, "rows": rows, "left": len(groups) - len(shown)})
    return found


def _counts(value: str) -> bool:
    return value.isdecimal() and value.isascii()


# -- training -----------------------------------------------------------------------------------------------------


def training(manifest: Manifest) -> list[Row]:
    """What training was: what, and its value."""
    found = manifest["training"]
    machine = text(found["device"], 80)
    processes = f", {found['processes']:,} processes" if found["processes"] != 1 else ""
    return [
        ["Rows in the split", found["rows"]],
        ["Rows used", found["used"]],
        ["Steps of the optimizer", found["steps"]],
        ["Passes over the rows", number(whole(found["epochs"]))],
        ["Rows per step", found["batch"]],
        ["Seed", manifest["identity"]["recipe"]["seed"]],
        ["Parameters, whole model", found["parameters"]],
        ["Parameters, trained", found["trained_parameters"]],
        ["Loss, first in the log", number(found["loss_first"])],
        ["Loss, last in the log", number(found["loss_last"])],
        ["Seconds", Markdown(f"{number(round(found['seconds']))}{_hours(found['seconds'])}")],
        ["Device", Markdown(f"{machine}{processes}")],
    ]


def whole(value: float) -> float:
    """A number without a fraction as the whole number that it is."""
    return int(value) if value == int(value) else value


def _hours(seconds: float) -> str:
    if seconds < 120:
        return ""
    hours, minutes = divmod(round(seconds / 60), 60)
    return f" ({f'{hours:,} h ' if hours else ''}{minutes} min)"


def unusable(counts: Mapping[str, int], whole: int) -> list[Row]:
    """Reason, meaning, how many, share of ``whole``."""
    return [[code(name), UNUSABLE.get(name, _DASH), n, share(n, whole)] for name, n in ranked(counts) if n]


def packages(manifest: Manifest) -> list[Markdown]:
    return [code(f"{name} {version}") for name, version in sorted(manifest["training"]["packages"].items())]


# -- files --------------------------------------------------------------------------------------------------------


def files(manifest: Manifest) -> list[Row]:
    """Path, what it is, size, head of its sha256."""
    found = manifest["environment"]["files"]
    return [
        [code(path), Markdown(_file(path)), size(found[path]["bytes"]), code(found[path]["sha256"][:16])]
        for path in sorted(found, key=lambda path: ("/" in path, path))
    ]


def _file(path: str) -> str:
    return next((said for form, said in FILES.items() if fnmatchcase(path, form)), "–")
