"""Mermaid flowcharts from data. Mermaid reads Markdown, HTML and entities in its labels, so that what a label may hold
is listed, and all else is replaced: letters and digits of any script, spaces, and ``._-@/:,()``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

LINE_LIMIT = 60  # characters of one line of a label
_MARKS = frozenset(" ._-@/:,()")
_OTHER = "·"
_EMPHASIS = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
_LIST = re.compile(r"[0-9]+[.)]")


def flowchart(nodes: Mapping[str, Sequence[str]], edges: Iterable[tuple[str, str]], direction: str = "LR") -> str:
    """The text of a flowchart. ``nodes``: id of ours -> lines of its label; ``edges``: (from, to) by id.

    Lines may hold anything. Every id is a letter and digits, which no word of Mermaid's language is.
    """
    edges = list(dict.fromkeys(edges))
    assert all(re.fullmatch(r"[a-z][0-9]+", node) for node in nodes)
    assert {node for edge in edges for node in edge} <= set(nodes)
    shown = [f'  {node}["{"<br/>".join(line(part) for part in lines)}"]' for node, lines in nodes.items()]
    return "\n".join([f"flowchart {direction}", *shown, *(f"  {start} --> {end}" for start, end in edges)])


def line(value: str, limit: int = LINE_LIMIT) -> str:
    """``value`` as one line of a label, never empty."""
    kept = "".join(c if c.isalnum() or c in _MARKS else " " if c.isspace() else _OTHER for c in value)
    kept = _EMPHASIS.sub(_OTHER, re.sub(f"{_OTHER}+", _OTHER, " ".join(kept.split())))
    if len(kept) > limit:
        kept = kept[: limit - 1].rstrip() + "…"
    # Otherwise Mermaid sees a list, a heading's underline or a rule.
    return kept if kept[:1].isalnum() and not _LIST.match(kept) else _OTHER + kept
