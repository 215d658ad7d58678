"""Figures of a dataset card, from the manifest's identity and nothing else: where picks stand, what pairs are about,
how long rows are, what was left out.

Background is transparent and all ink is of middle brightness, so that a figure reads on a light and on a dark page.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .facts import DEFAULT, Manifest, assets, ranked, slots, stage, stage_names, statistic
from .text import Markdown, share, text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#808080"  # 3.9:1 on white, 4.9:1 on GitHub's dark page
COLOURS = ("#3b82c4", "#d9822b", "#3f9b6b")  # blue, orange, green: told apart by people who do not see red and green
_MOST = 12  # bars of one figure
FOLDER = "assets"
_ALT = 400  # characters that say what a figure shows
_LENGTHS = ("candidate", f"{DEFAULT}.prompt", "bt_pairs.prompt", "pointwise_scores.prompt")


def figures(identity: Mapping[str, Any]) -> dict[str, bytes]:
    """Path in the build -> PNG. A figure without anything to show is left out."""
    manifest = {"identity": identity}
    drawn = {"slots": _slots, "pair_types": _pair_types, "lengths": _lengths, "exclusions": _exclusions}
    return {f"{FOLDER}/{name}.png": image for name, draw in drawn.items() if (image := draw(manifest)) is not None}


def shown(manifest: Manifest) -> dict[str, Markdown]:
    """Name of a figure that lies beside the data -> the picture for a card, with what it shows in words."""
    said = {"slots": _say_slots, "pair_types": _say_pairs, "lengths": _say_lengths, "exclusions": _say_exclusions}
    return {
        name: Markdown(f"![{text(said[name](manifest), _ALT)}]({FOLDER}/{name}.png)")
        for name in assets(manifest)
        if name in said
    }


def _say_slots(manifest: Manifest) -> str:
    audit = statistic(manifest, "audits").get("slots") or {}
    parts = []
    for name in ("sampled", "shown"):
        if (slot := audit.get(name)) and slot["n"]:
            parts.append(f"{name} {', '.join(share(n, slot['n']) for n in slot['observed'])}")
    return f"Share of the picks by position, first to last: {'; '.join(parts)}"


def _say_pairs(manifest: Manifest) -> str:
    kept = ", ".join(f"{name.replace('_', ' ')} {n:,}" for name, n in ranked(statistic(manifest, "pairs"))[:_MOST])
    return f"Pairs kept by type: {kept}"


def _say_lengths(manifest: Manifest) -> str:
    lengths = (statistic(manifest, "audits").get("distributions") or {}).get("lengths") or {}
    found = [f"{name.replace('.', ' ')} {lengths[name]['median']:,}" for name in _LENGTHS if name in lengths]
    return f"Lengths in characters, medians: {', '.join(found)}"


def _say_exclusions(manifest: Manifest) -> str:
    return f"Excluded most often: {', '.join(f'{name} {n:,}' for name, n in _excluded(manifest)[:3])}"


def _slots(manifest: Manifest) -> bytes | None:
    audit = (statistic(manifest, "audits").get("slots") or {}) if slots(manifest) else {}
    found = {name: audit[name] for name in ("sampled", "shown") if audit.get(name) and audit[name]["n"]}
    if not found:
        return None

    def draw(axes: Axes) -> None:
        width = 0.8 / len(found)
        for number, (name, slot) in enumerate(found.items()):
            observed, expected = slot["observed"], slot["expected"]
            places = [i + 1 + (number - (len(found) - 1) / 2) * width for i in range(len(observed))]
            shares = [100 * n / slot["n"] for n in observed]
            axes.bar(places, shares, width * 0.92, color=COLOURS[number], label=name)
            marks = [100 * n / slot["n"] for n in expected]
            axes.scatter(places, marks, marker="_", s=260, color="white", linewidths=4, zorder=3)  # seen on a bar, too
            axes.scatter(places, marks, marker="_", s=260, color=INK, zorder=4, label=None if number else "uniform")
        axes.set_xticks(range(1, max(len(slot["observed"]) for slot in found.values()) + 1))
        axes.set_xlabel("position of the picked candidate (1 is the first)")
        axes.set_ylabel("picks, %")
        axes.legend(frameon=False, labelcolor=INK, ncols=3, loc="upper right")

    return png(draw, 3.2)


def _pair_types(manifest: Manifest) -> bytes | None:
    compared, kept = statistic(manifest, "comparisons"), statistic(manifest, "pairs")
    names = [name for name, _ in ranked({n: compared.get(n, 0) for n in {*compared, *kept}})][:_MOST]
    if not kept:
        return None
    series = {"comparisons": [compared.get(n, 0) for n in names], "pairs kept": [kept.get(n, 0) for n in names]}
    return _bars(names, series, "comparisons of two actions")


def _lengths(manifest: Manifest) -> bytes | None:
    lengths = (statistic(manifest, "audits").get("distributions") or {}).get("lengths") or {}
    found = [(name, lengths[name]) for name in _LENGTHS if lengths.get(name, {}).get("n")][: len(COLOURS)]
    if not found:
        return None

    from matplotlib.ticker import LogLocator, NullFormatter

    def draw(axes: Axes) -> None:
        for (name, length), colour in zip(found, COLOURS, strict=False):
            bins = sorted((max(int(least), 1), n) for least, n in length["bins"].items())
            for least, n in bins:
                share = 100 * n / length["n"]
                axes.fill_between([least, _end(least)], share, color=colour, alpha=0.75, linewidth=0)
            axes.plot([], color=colour, label=name.replace(".", " "), linewidth=6, alpha=0.75)
            axes.axvline(max(length["median"], 1), color=colour, linewidth=0.8, linestyle=":")
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=99))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_ylim(bottom=0)
        axes.set_xlabel("characters (dotted: median)")
        axes.set_ylabel("share, %")
        axes.legend(frameon=False, labelcolor=INK, ncols=3, loc="lower left", bbox_to_anchor=(0, 1))

    return png(draw, 3.2)


def _end(least: int) -> float:
    """Where a bin of lengths ends: there are four between a power of two and the next."""
    return least + max(1.0, (1 << (least.bit_length() - 1)) / 4)


def _excluded(manifest: Manifest) -> list[tuple[str, int]]:
    counts = {
        f"{name}: {reason}": n
        for name in stage_names(manifest)
        for reason, n in stage(manifest, name)["excluded"].items()
        if n
    }
    return ranked(counts)


def _exclusions(manifest: Manifest) -> bytes | None:
    shown = _excluded(manifest)[:_MOST]
    if not shown:
        return None
    return _bars([name for name, _ in shown], {"": [n for _, n in shown]}, "units excluded")


def _bars(names: Sequence[str], series: Mapping[str, Sequence[int]], label: str) -> bytes:
    def draw(axes: Axes) -> None:
        height = 0.8 / len(series)
        most = max(max(values) for values in series.values())
        for number, (name, values) in enumerate(series.items()):
            places = [i + (number - (len(series) - 1) / 2) * height for i in range(len(names))]
            axes.barh(places, values, height * 0.92, color=COLOURS[number], label=name or None)
            for place, value in zip(places, values, strict=True):
                axes.text(value + most * 0.01, place, f"{value:,}", va="center", color=INK, fontsize=8)
        axes.set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
        axes.invert_yaxis()
        axes.set_xlim(0, most * 1.15)
        axes.set_xlabel(label)
        if len(series) > 1:
            axes.legend(frameon=False, labelcolor=INK, loc="lower right")

    return png(draw, 0.9 + 0.34 * len(names))


def png(draw: Callable[[Axes], None], height: float) -> bytes:
    """A figure 7.2 inches wide. Nothing in it depends on the day, the machine or somebody's settings."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(mpl.rcParamsDefault):
        figure = Figure(figsize=(7.2, height), dpi=110, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        draw(axes)
        axes.spines[["top", "right"]].set_visible(False)
        for spine in axes.spines.values():
            spine.set_color(INK)
        axes.tick_params(which="both", colors=INK, labelsize=9)
        for label in (axes.xaxis.label, axes.yaxis.label):
            label.set_color(INK)
        out = io.BytesIO()
        figure.savefig(out, format="png", transparent=True, metadata={"Software": None})
        return out.getvalue()
