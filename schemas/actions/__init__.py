"""Actions: dialects, coordinate spaces, and when two actions are the same.

A dialect splits a response into thought and calls; nothing is ever executed or evaluated.
"""

from __future__ import annotations

from ..errors import UsageError
from .canonical import calls_from_json, identity
from .desktop import DESKTOP
from .dialect import Dialect
from .elements import View, element_index
from .function import FUNCTION
from .model import VERBS, Call, Parsed
from .molmoweb import MOLMOWEB
from .molmoweb_json import MOLMOWEB_JSON
from .openwebrl import OPENWEBRL
from .pair_types import PAIR_TYPES, pair_type
from .qwen_xml import QWEN_XML
from .react import REACT, TEXT
from .relations import RELATIONS, relation
from .spaces import SPACES, convert

# Where several read a response, the first that knows its calls is the likely one: see registry/sniff.py.
DIALECTS: dict[str, Dialect] = {
    "function": FUNCTION,
    "openwebrl": OPENWEBRL,
    "qwen_xml": QWEN_XML,
    "molmoweb": MOLMOWEB,
    "molmoweb_json": MOLMOWEB_JSON,
    "desktop": DESKTOP,
    "react": REACT,
    "text": TEXT,  # reads anything
}


def parse(dialect: str, response: str) -> Parsed:
    """Splits ``response``, written in the named dialect. Raises UsageError for a dialect that does not exist."""
    known = DIALECTS.get(dialect)
    if known is None:
        raise UsageError(f"unknown dialect {dialect!r}; known: {', '.join(DIALECTS)}")
    return known.parse(response)


__all__ = [
    "DIALECTS",
    "PAIR_TYPES",
    "RELATIONS",
    "SPACES",
    "VERBS",
    "Call",
    "Dialect",
    "Parsed",
    "View",
    "calls_from_json",
    "convert",
    "element_index",
    "identity",
    "pair_type",
    "parse",
    "relation",
]
