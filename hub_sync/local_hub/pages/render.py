"""From a template to a response. Under the policy of every page nothing runs, and nothing is loaded from elsewhere."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from starlette.requests import Request
from starlette.responses import Response

POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
STYLE_PATH = "/-/hub.css"  # no name of a repository begins so


def respond(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    """The page ``template`` with ``values``."""
    html = _environment().get_template(f"{template}.html").render(style=style()[0], **values)
    headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-store"}
    return Response(html.encode("utf-8", "replace"), status, headers, "text/html; charset=utf-8")


@cache
def style() -> tuple[str, bytes]:
    """(address, bytes) of the style sheet; the address changes with the bytes."""
    data = resources.files(__package__).joinpath("static", "hub.css").read_bytes()
    return f"{STYLE_PATH}?v={hashlib.sha256(data).hexdigest()[:12]}", data


@cache
def _environment() -> Environment:
    assert __package__
    found = Environment(
        loader=PackageLoader(__package__),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"size": size, "day": day, "number": number, "count": count}
    return found


def size(value: int) -> str:
    """Bytes for people: 1.3 MB."""
    if value < 1000:
        return f"{value} B"
    amount = float(value)
    for unit in ("kB", "MB", "GB", "TB"):
        amount /= 1000
        if amount < 999.95:
            return f"{amount:.1f} {unit}"
    return f"{amount:.1f} PB"


def day(value: str) -> str:
    """`2026-11-29T20:04:11.000Z` as 29 Nov 2026, 20:04 UTC."""
    months = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
    return f"{int(value[8:10])} {months[int(value[5:7]) - 1]} {value[:4]}, {value[11:16]} UTC"


def number(value: int) -> str:
    """With a thin space between thousands from 10 000 on."""
    return f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}") if value >= 10_000 else str(value)


def count(value: int, one: str, many: str | None = None) -> str:
    """`1 file`, `2 files`."""
    return f"{number(value)} {one if value == 1 else many or one + 's'}"
