"""The gallery as one HTML file that needs no network: skeleton, style, script, data and pictures, under a strict CSP.

The file's own style and script are allowed by their hashes and nothing else is: no other script, no connection, no
picture but those inside. What comes from records stands in data blocks that browsers do not run, and the script puts it
into the page as text nodes only.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import orjson

# In the order in which they stand in the page: later ones use what earlier ones define.
SCRIPTS = ("dom", "data", "notes", "filters", "viewer", "candidates", "panel", "judge", "main")
GENERATOR = "action-reward-models review gallery"  # how a file is recognised as one that may be replaced


def render(data: Mapping[str, Any], pictures: Mapping[str, bytes]) -> bytes:
    """Return the page. ``pictures`` are PNG, JPEG, WebP or GIF bytes by the hex sha256 that ``data`` names them by."""
    style, script = _static("gallery.css"), _script()
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    head, _, rest = _static("gallery.html").partition("<!-- data -->")
    texts = {"policy": policy, "title": str(data["title"]), "generator": GENERATOR}
    filled = {f"[[{name}]]": html.escape(text, quote=True) for name, text in texts.items()} | {"/* style */": style}
    head = re.sub("|".join(map(re.escape, filled)), lambda hole: filled[hole[0]], head)  # once: a title may name a hole
    parts = [head.encode(), _block("data", "application/json", _inert(orjson.dumps(data)))]
    parts.append(b"<script>" + script.encode() + b"</script>\n")  # before the pictures: they are looked up when shown
    parts += [_block(f"p-{sha256}", "text/plain", base64.b64encode(blob)) for sha256, blob in sorted(pictures.items())]
    return b"".join([*parts, rest.encode()])


def _block(name: str, kind: str, content: bytes) -> bytes:
    """A data block: browsers keep its text and do not run it."""
    return f'<script type="{kind}" id="{name}">'.encode() + content + b"</script>\n"


def _inert(json: bytes) -> bytes:
    """JSON in which no tag can open or close: ``</script>`` and ``<!--`` inside texts end nothing."""
    return json.replace(b"<", b"\\u003c")


@cache
def _script() -> str:
    body = "\n".join(_static(f"{name}.js") for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{body}}})();\n'


@cache
def _static(name: str) -> str:
    return (resources.files(__package__) / "static" / name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
