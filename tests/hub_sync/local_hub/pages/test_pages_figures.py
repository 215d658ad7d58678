"""Figures of a card: the pictures beside it, of the revision that is shown and from the hub itself."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from action_reward_models.cards.dataset import render

if TYPE_CHECKING:
    from tests.hub_sync.local_hub.pages.conftest import InProcessHub, Make

CARD = b"# Toy\n\n![Share of the picks: first 48.5 %](assets/slots.png)\n"


def test_figures_are_those_of_the_revision_that_is_shown(hub: InProcessHub, make: type[Make]) -> None:
    first, second = make.png((8, 6)), make.png((9, 6))
    hub.create("toy")
    commit = hub.commit("toy", {"README.md": CARD, "assets/slots.png": first})
    hub.api("POST", "/api/datasets/lab/toy/tag/main", {"tag": "v1.0.0"})
    hub.commit("toy", {"assets/slots.png": second})
    for page, rev, picture in (
        ("/datasets/lab/toy", "main", second),
        ("/datasets/lab/toy/tree/v1.0.0", "v1.0.0", first),
        (f"/datasets/lab/toy/tree/{commit}", commit, first),
        ("/datasets/lab/toy/blob/v1.0.0/README.md", "v1.0.0", first),
    ):
        shown = hub.get(page)
        tags = re.findall(r"<img[^>]*>", shown.text)
        assert len(tags) == 1, page
        assert f'src="/datasets/lab/toy/resolve/{rev}/assets/slots.png"' in tags[0]
        assert 'alt="Share of the picks: first 48.5 %"' in tags[0]
        assert "img-src 'self'" in shown.headers["content-security-policy"]
        answer = hub.get(f"/datasets/lab/toy/resolve/{rev}/assets/slots.png")
        assert (answer.status, answer.body) == (200, picture)


def test_a_rendered_card_shows_its_figures(hub: InProcessHub, make: type[Make]) -> None:
    manifest = json.loads((Path(__file__).parents[3] / "cards" / "manifest.json").read_text("utf-8"))
    names = [f"assets/{name}.png" for name in ("slots", "pair_types", "exclusions")]
    manifest["environment"]["files"] |= {name: {"sha256": "0" * 64, "bytes": 9} for name in names}
    hub.create("toy")
    hub.commit("toy", {"README.md": render(manifest).encode(), **{name: make.png() for name in names}})
    sources = hub.get("/datasets/lab/toy").seen.values("img", "src")
    assert sorted(sources) == sorted(f"/datasets/lab/toy/resolve/main/{name}" for name in names)
