"""How far a file is that a model makes, what the rest would cost, and what one run did, in lines for a person."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ..schemas.errors import plain

if TYPE_CHECKING:
    from ..builders.generate.run import Ran
    from ..registry.standing import Standing


def say(found: Standing) -> None:
    """How far a file is, in a few lines for a person."""
    for line in lines(found):
        click.echo(plain(line))


def lines(found: Standing) -> Iterator[str]:
    if found.waits:
        yield f"{found.made.name}: {found.waits}"
        return
    parts = [f"{found.complete:,} complete"]
    parts += [f"{n:,} {outcome}" for outcome, n in found.failed.items()]
    parts += [f"{found.in_batch:,} in a batch"] * bool(found.in_batch)
    parts += [f"{found.not_asked:,} not asked for yet"] * bool(found.not_asked)
    yield f"{found.made.name}: {found.planned:,} {found.unit} planned, {', '.join(parts)}"
    if found.skipped:
        reasons = ", ".join(f"{reason} {n:,}" for reason, n in found.skipped.items())
        yield f"  not asked for, as they are: {reasons}"
    if found.unwritten or found.surplus:
        yield f"  {found.lacks}"
    if found.to_ask:
        if found.warning:
            yield f"  warning: {found.warning}"
        yield f"  to send: {found.to_ask:,} of {found.requests:,} requests{cost(found)}"
    if found.spent_usd is not None:
        yield f"  spent until now: ${found.spent_usd:,.4f}"


def cost(found: Standing) -> str:
    """``; at most $3.20, about $0.80``, as far as it is known."""
    known = [("at most", found.at_most_usd), ("about", found.about_usd)]
    shown = ", ".join(f"{word} ${usd:,.4f}" for word, usd in known if usd is not None)
    return f"; {shown}" if shown else ""


def done(ran: Ran) -> str:
    """What one run did: its outcomes, and how often something was sent, where that is more."""
    words = [f"{ran.answered:,} requests answered"]
    words += [f"{n:,} {word}" for word, n in (("rejected", ran.rejected), ("failed", ran.failed)) if n]
    more = ran.sent - ran.answered - ran.rejected - ran.failed
    again = f"; {ran.sent:,} sent, some again or without a reply yet" if more > 0 else ""
    return f"this run: {', '.join(words)}{again}"
