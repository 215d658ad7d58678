"""The dataset card: README.md of a built dataset, rendered from its manifest and nothing else."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..schemas.errors import ArmError
from . import audits, blocks, facts, figures, origins, pairs, people, rows, text
from .front_matter import KEYS, TAGS, dump, front_matter
from .limits import limits
from .words import FACTS, NEGATIVES, PREFERENCES, PURPOSES, ROWS

if TYPE_CHECKING:
    from jinja2 import Template

TEMPLATE = "dataset.md.j2"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")
_TABLE = re.compile(r"[a-z][a-z0-9_]*")


def render(manifest: facts.Manifest) -> str:
    """Return the text of README.md. The same manifest gives the same text, whatever the order of its keys.

    Raises ArmError for a manifest of another version, or with a name that no repository or table can have.
    """
    _check(manifest)
    return blocks.compose(dump(front_matter(manifest)), _block(manifest))


def merge(existing: str, manifest: facts.Manifest) -> str:
    """Return ``existing`` with the generated part renewed.

    Text outside the two markers and YAML keys that are not ours stay as they are, and so do tags that a person added.
    Raises ArmError when the markers are broken or the YAML at the head cannot be read; see `render` for the others.
    """
    _check(manifest)
    ours = front_matter(manifest)
    tags = blocks.read_head(existing).get("tags")
    added = [tag for tag in tags if isinstance(tag, str) and tag not in TAGS] if isinstance(tags, list) else []
    ours["tags"] += dict.fromkeys(added)
    return blocks.merge(existing, dump(ours), _block(manifest), KEYS)


@lru_cache(maxsize=32)  # asked again and again of the same few cards
def words(text: str) -> tuple[str, ...]:
    """All that a person added to a card, in a form that can be compared; only empty strings when nothing was.

    Raises ArmError when the markers are broken or the YAML at the head cannot be read.
    """
    tags = blocks.read_head(text).get("tags")
    added = [str(tag) for tag in tags if tag not in TAGS] if isinstance(tags, list) else []
    return (*blocks.persons(text, KEYS), "\n".join(added))


def misleading(text: str, manifest: facts.Manifest) -> list[str]:
    """What would make stock ``datasets`` load something else than the manifest's files."""
    try:
        head = blocks.read_head(text)
    except ArmError as error:
        return [error.message]
    return _misleading(head, _head(manifest))


def _misleading(head: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    return [
        f"its {key} is not that of the manifest: `load_dataset` would read other rows; `arm build --force` renews it"
        for key in ("configs", "dataset_info")
        if head.get(key) != expected.get(key)
    ]


def _head(manifest: facts.Manifest) -> dict[str, Any]:
    """Our part of the YAML as it is read back."""
    return blocks.read_head(blocks.compose(dump(front_matter(manifest)), ""))


def problems(text: str, manifest: facts.Manifest, *, same_code: bool = True) -> list[str]:
    """What a card says that its manifest does not: what stock ``datasets`` loads by, and every generated number.

    The text is compared only when this version of the project rendered it; another one may word it otherwise. With
    ``same_code`` false it did not, although it calls itself by the same number.
    """
    try:
        head = blocks.read_head(text)
        blocks.generated(text)
    except ArmError as error:
        return [error.message]
    expected = _head(manifest)
    found = _misleading(head, expected)
    renew = "`arm build --force` renews it"
    if not same_code or manifest.get("environment", {}).get("action_reward_models") != __version__:
        return found
    for key in set(KEYS) - {"configs", "dataset_info", "tags"}:
        if head.get(key) != expected.get(key):
            found.append(f"its {key} is {head.get(key)!r}, the manifest gives {expected.get(key)!r}; {renew}")
    if stale := blocks.stale(text, _block(manifest)):
        found.append(f"{stale}; {renew}")
    return sorted(found)


@cache
def _template() -> Template:
    source = (resources.files(__package__) / TEMPLATE).read_text("utf-8")
    return text.environment({TEMPLATE: source}).get_template(TEMPLATE)


def _block(manifest: facts.Manifest) -> str:
    rendered = _template().render(_context(manifest))
    return re.sub(r"\n{3,}", "\n\n", rendered).strip("\n") + "\n"


def _context(manifest: facts.Manifest) -> dict[str, Any]:
    identity = manifest["identity"]
    files = rows.file_rows(manifest)
    return {
        "repo": text.Markdown(f"{identity['namespace']}/{identity['name']}"),  # checked: plain in code and in text
        "revision": text.Markdown(f"v{identity['version']}"),
        "description": identity.get("description", ""),
        "withdrawn": rows.withdrawn_rows(manifest),
        "withdrawn_here": facts.withdrawn(manifest).get(identity["version"]),
        "license": identity["license"],
        "other_licences": facts.other_licences(manifest),
        "tables": facts.published(manifest),
        "default": facts.default_table(manifest),
        "totals": facts.totals(manifest),
        "purposes": [(text.code(name), text.Markdown(PURPOSES[name])) for name, _ in facts.purposes(manifest)],
        "training": [text.plural(n, *ROWS[name]) for name, n in facts.purposes(manifest) if name in facts.LEARNED],
        "beside": [text.plural(n, *ROWS[name]) for name, n in facts.purposes(manifest) if name not in facts.LEARNED],
        "other": facts.other_table(manifest),
        "joins": facts.joined(manifest),
        "limits": limits(manifest),
        "audit": audits.of(manifest),
        "leaks": audits.leaks(manifest),
        "figures": figures.shown(manifest),
        "facts": {fact: facts.distinct(manifest, fact) for fact in FACTS},
        "stages": {name: facts.stage(manifest, name) for name in facts.STAGES},
        "labels": facts.statistic(manifest, "label_status"),
        "sizes": rows.size_rows(manifest),
        "contents": rows.content_rows(manifest),
        "account": rows.stage_rows(manifest),
        "reasons": rows.reason_rows(manifest),
        "split": identity["parameters"]["split"],
        "ready": facts.ready_made(manifest),
        "brought": [text.code(name) for name in facts.ready_made(manifest) if name != "bench_items"],
        "made": facts.made_here(manifest),
        "tokens": identity["parameters"].get("tokens"),
        "actor": identity["parameters"].get("actor_sft"),
        "distinct": rows.distinct_rows(manifest),
        "leakage": facts.statistic(manifest, "leakage"),
        "statuses": rows.status_rows(manifest),
        "label_rule": identity["parameters"].get("labels", {}),
        "slots": facts.slots(manifest),
        "selection": identity["parameters"].get("selection_sft"),
        "people": people.of(manifest),
        "pairs_how": pairs.how(manifest),
        "one_origin": facts.one_origin(manifest),
        "set_sizes": rows.histogram(manifest, "set_size"),
        "distinct_actions": rows.histogram(manifest, "distinct_actions"),
        "temperatures": rows.histogram(manifest, "temperature"),
        "pairs": rows.pair_rows(manifest),
        "relations": rows.relation_rows(manifest),
        "preferences": rows.origin_rows(manifest, "label_source", PREFERENCES),
        "negatives": rows.origin_rows(manifest, "negative_source", NEGATIVES),
        "margins": rows.histogram(manifest, "margins"),
        "screenshots": facts.statistic(manifest, "screenshots"),
        "conversions": rows.histogram(manifest, "screenshot_ops"),
        "pictured": facts.pictured(manifest),
        "prompts": rows.prompt_rows(manifest),
        "picture": origins.picture(manifest),
        "in_words": origins.in_words(manifest),
        "upstream": origins.upstream(manifest),
        "sources": rows.source_rows(manifest),
        "files": files[: rows.MAX_FILES],
        "files_left": len(files[rows.MAX_FILES :]),
        "digests": rows.digest_rows(manifest),
        "identity_sha256": manifest["identity_sha256"],
        "environment": manifest.get("environment", {}),
        "packages": rows.packages(manifest),
    }


def _check(manifest: facts.Manifest) -> None:
    if manifest.get("manifest") != 1:
        raise ArmError(f"a card is made from a manifest of version 1, and this is {manifest.get('manifest')!r}")
    identity = manifest["identity"]
    names = [("namespace", _NAME), ("name", _NAME), ("version", _VERSION)]
    wrong = [f"{key} {identity[key]!r}" for key, form in names if not form.fullmatch(identity[key])]
    wrong += [f"table {name!r}" for name in identity["tables"] if not _TABLE.fullmatch(name)]
    wrong += [
        f"split {split!r} of {name}"
        for name, table in identity["tables"].items()
        for split in table["splits"]
        if split not in facts.SPLITS
    ]
    if wrong:
        raise ArmError(f"the manifest has names that no dataset can have: {', '.join(wrong)}", where="manifest.json")
