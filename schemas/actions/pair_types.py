"""What a pair of actions is about: the type that training sets are counted and balanced by."""

from __future__ import annotations

from .model import Parsed

PAIR_TYPES = (
    "termination_vs_continue",
    "multi_action",
    "typing_or_keys",
    "navigation",
    "scroll",
    "wait",
    "click",
    "other",
)
_BY_VERBS = (
    ("typing_or_keys", {"type", "press"}),
    ("navigation", {"goto", "back", "new_tab", "switch_tab"}),
    ("scroll", {"scroll"}),
    ("wait", {"wait"}),
)
_CLICKS = {"click", "double_click", "hover", "drag"}


def pair_type(a: Parsed, b: Parsed) -> str:
    """The first of ``PAIR_TYPES`` that holds: one side alone ends the episode, either side has several calls,
    either types, navigates, scrolls, waits; ``click`` when both point at something; else ``other``. Symmetric.
    """
    left, right = {call.verb for call in a.calls}, {call.verb for call in b.calls}
    if ("stop" in left) != ("stop" in right):
        return "termination_vs_continue"
    if len(a.calls) > 1 or len(b.calls) > 1:
        return "multi_action"
    both = left | right
    for name, verbs in _BY_VERBS:
        if both & verbs:
            return name
    return "click" if left and right and both <= _CLICKS else "other"
