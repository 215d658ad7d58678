"""The version rule: a schema break asks for a major, other rows for a minor, all else for a patch.

Of a checkpoint: another contract (kind, layout, base, prompt, processor, where the score is read) asks for a major,
since whoever uses it has to use it otherwise; other weights under the same contract for a minor; all else for a patch.

Major is what breaks a reader's code: `load_dataset(repo, table, split=...)` no longer finds what it found, or finds
rows of another form. Pure functions over manifests; nothing here reads a file or a Hub.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import Any

from ..cards.facts import default_table
from ..schemas.store import UNSPLIT
from ..schemas.versions import parse

Manifest = Mapping[str, Any]
# What the release is called: no change of what it holds.
_NAMES = ("name", "namespace", "version")


class Level(IntEnum):
    """How far a version must move, or moves."""

    NONE = 0
    PATCH = 1
    MINOR = 2
    MAJOR = 3

    def __str__(self) -> str:
        return self.name.lower()


def needed(
    before: Manifest, after: Manifest, *, card_changed: bool, files_changed: bool | None = None
) -> tuple[Level, list[str]]:
    """The bump that a release of ``after`` needs when ``before`` was published last, and why, the weightiest first.

    ``card_changed`` says whether the person's words on the card differ; what is generated follows from the manifest.
    ``files_changed`` says whether a file beside the rows does (load.py, schemas, prompts); None compares
    those that the manifests name. Data files with equal rows in other bytes are no change, and withdrawing a version
    is none. Reasons are empty for `Level.NONE`.
    """
    found = [(Level.MAJOR, why) for why in _breaks(before, after)]
    found += [(Level.MINOR, why) for why in _rows(before, after)]
    patches = list(_described(before["identity"], after["identity"]))
    if files_changed if files_changed is not None else _files_differ(before, after):
        patches.append("files beside the rows differ")
    if card_changed:
        patches.append("the words on the card differ")
    found += [(Level.PATCH, why) for why in patches]
    return max((level for level, _ in found), default=Level.NONE), [why for _, why in found]


def needed_by_checkpoint(before: Manifest, after: Manifest, *, card_changed: bool) -> tuple[Level, list[str]]:
    """The same as `needed` for checkpoints."""
    found = [(Level.MAJOR, why) for why in _contract(before["checkpoint"], after["checkpoint"])]
    found += [(Level.MINOR, why) for why in _trained(before, after)]
    old, new = ({key: one["identity"][key] for key in ("license", "description")} for one in (before, after))
    patches = [f"the {key}: {old[key]} -> {new[key]}" if key == "license" else f"the {key} differs"
               for key in old if old[key] != new[key]]  # fmt: skip
    if before["evaluations"] != after["evaluations"]:
        patches.append("the evaluations differ")
    if _other_files(before, after, lambda path: not _weighs(path) and not path.startswith(("assets/", ".eval_"))):
        patches.append("files beside the weights differ")
    if card_changed:
        patches.append("the words on the card differ")
    found += [(Level.PATCH, why) for why in patches]
    return max((level for level, _ in found), default=Level.NONE), [why for _, why in found]


def next_version(last: str, level: Level) -> str:
    """The smallest version that is ``level`` above ``last``; ``last`` itself for `Level.NONE`."""
    major, minor, patch = parse(last)
    match level:
        case Level.MAJOR:
            return f"{major + 1}.0.0"
        case Level.MINOR:
            return f"{major}.{minor + 1}.0"
        case Level.PATCH:
            return f"{major}.{minor}.{patch + 1}"
    return last


def bump(last: str, declared: str) -> Level:
    """The part that ``declared`` raises, whatever numbers are skipped; `Level.NONE` when it is not newer."""
    old, new = parse(last), parse(declared)
    if new <= old:
        return Level.NONE
    return Level.MAJOR if new[0] > old[0] else Level.MINOR if new[1] > old[1] else Level.PATCH


def fits(last: str | None, declared: str, level: Level) -> str | None:
    """None when ``declared`` may be published after ``last`` with a change of ``level``, else the version that may.

    It may be a larger bump than is needed. The first version (``last`` is None) may be any; without a change,
    ``last`` itself fits, too.
    """
    if last is None or bump(last, declared) >= max(level, Level.PATCH):
        return None
    return None if level is Level.NONE and parse(declared) == parse(last) else next_version(last, level)


def larger_than_needed(last: str | None, declared: str, level: Level) -> bool:
    """Whether ``declared`` raises more than ``level`` asks for: allowed, and worth a note."""
    return last is not None and bump(last, declared) > level


def _contract(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """What a checkpoint is used with, part by part; which file holds the head is found by loading."""
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if key == "head":
            old, new = ({k: v for k, v in (head or {}).items() if k != "file"} for head in (old, new))
        if key == "prompt":
            old, new = (prompt and {k: v for k, v in prompt.items() if k != "file"} for prompt in (old, new))
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from (
                f"{key}.{part}: {old.get(part)} -> {new.get(part)}"
                for part in sorted(old.keys() | new.keys())
                if old.get(part) != new.get(part)
            )
        elif old != new:
            yield f"{key}: {old} -> {new}"


def _trained(before: Manifest, after: Manifest) -> Iterator[str]:
    """Other weights, and what they come from."""
    if _other_files(before, after, _weighs):
        yield "the weights differ"
    old, new = before["identity"], after["identity"]
    if old["dataset"]["identity_sha256"] != new["dataset"]["identity_sha256"]:
        was, now = (f"{one['dataset']['repo']}@{one['dataset']['revision']}" for one in (old, new))
        yield f"the dataset: {was} -> {now}" if was != now else "the dataset differs"
    if old["init_from"] != new["init_from"]:
        yield "the checkpoint that training went on from differs"
    if old["recipe"] != new["recipe"]:
        yield "the recipe differs"


def _weighs(path: str) -> bool:
    return path.endswith(".safetensors") or path == "adapter_config.json"


def _other_files(before: Manifest, after: Manifest, among: Callable[[str], bool]) -> bool:
    old, new = (
        {path: entry["sha256"] for path, entry in one["environment"]["files"].items() if among(path)}
        for one in (before, after)
    )
    return old != new


def _breaks(before: Manifest, after: Manifest) -> Iterator[str]:
    old, new = before["identity"]["tables"], after["identity"]["tables"]
    for name, table in old.items():
        if name not in new:
            yield f"the table {name} is gone"
            continue
        if table["schema"] != new[name]["schema"]:
            yield f"the schema of {name}: {table['schema']} -> {new[name]['schema']}"
        if table["images"] != new[name]["images"]:
            yield f"the pictures of {name}: {table['images'] or 'none'} -> {new[name]['images'] or 'none'}"
        if name not in UNSPLIT:  # that nothing was left out, or said, is no break
            yield from (
                f"the split {split} of {name} is gone" for split in table["splits"] if split not in new[name]["splits"]
            )
    first, now = default_table(before), default_table(after)
    if first is not None and now != first:
        yield f"the default table: {first} -> {now or 'none'}"


def _rows(before: Manifest, after: Manifest) -> Iterator[str]:
    """Digests are compared and not only counts: a label that flips changes no count."""
    old, new = before["identity"]["tables"], after["identity"]["tables"]
    for name, table in new.items():
        if name not in old:
            yield f"the table {name} is new"
            continue
        yield from (
            f"the split {split} of {name} is new" for split in table["splits"] if split not in old[name]["splits"]
        )
        if table["row_digest"] != old[name]["row_digest"]:
            was, now = old[name]["rows"], table["rows"]
            yield f"the rows of {name}" + (f": {was:,} -> {now:,}" if was != now else " (as many as before)")


def _described(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Parts of the identity that are not rows; counts and files follow from rows and layout."""
    for key in sorted({*before, *after} - {*_NAMES, "tables"}):
        old, new = before.get(key), after.get(key)
        if old != new:
            yield (
                f"the {key}: {old} -> {new}" if key == "license" else f"the {key} differ{'' if key[-1] == 's' else 's'}"
            )


def _files_differ(before: Manifest, after: Manifest) -> bool:
    """Whether a file beside the rows differs. load.py names its release, and tells something in the same one only.

    Figures are of the card's generated part: they follow from the manifest, and their bytes from whoever drew them.
    """
    same = all(before["identity"][name] == after["identity"][name] for name in _NAMES)
    old, new = (
        {
            path: entry["sha256"]
            for path, entry in manifest["environment"]["files"].items()
            if not path.startswith(("data/", "assets/")) and (same or path != "load.py")
        }
        for manifest in (before, after)
    )
    return old != new
