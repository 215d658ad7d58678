"""What a real browser does with the pages: no script runs, nothing else is asked for anything, pictures appear."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from action_reward_models.hub_sync.local_hub import serve

if TYPE_CHECKING:
    from tests.hub_sync.local_hub.pages.conftest import InProcessHub, Make

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed"),
]
RED = (230, 20, 30)

# CALL runs where a script may run; CANARY is where nothing may be asked for.
HOSTILE = """---
license: "<script>CALL</script>"
pretty_name: "<img src=CANARY/name onerror=CALL>"
tags: ["<svg onload=CALL>"]
---
# Hostile <script>CALL</script>

![ours](red.png) ![theirs](CANARY/picture.png)

<script>CALL</script>
<script src="CANARY/script.js"></script>
<img src="CANARY/img.png" onerror="CALL" srcset="CANARY/set.png 2x">
<img src="x.png" onerror="CALL">
<svg onload="CALL"><image href="CANARY/svg.png"/><script>CALL</script></svg>
<math><mtext><style><img src=x onerror="CALL"></style></mtext></math>
<style>@import "CANARY/style.css"; body { background: url(CANARY/background.png) }</style>
<link rel="stylesheet" href="CANARY/link.css"><link rel="prefetch" href="CANARY/prefetch">
<link rel="preconnect" href="CANARY"><link rel="dns-prefetch" href="CANARY">
<base href="CANARY/">
<meta http-equiv="refresh" content="0;url=CANARY/refresh">
<iframe src="CANARY/frame"></iframe><iframe srcdoc="<script>CALL</script><img src=CANARY/srcdoc>"></iframe>
<object data="CANARY/object"></object><embed src="CANARY/embed">
<video src="CANARY/video" poster="CANARY/poster" autoplay></video>
<audio src="CANARY/audio" autoplay onerror="CALL"></audio>
<form action="CANARY/form"><input autofocus onfocus="CALL"><button formaction="CANARY/button">x</button></form>
<details open ontoggle="CALL"><summary>x</summary></details>
<b style="background:url(CANARY/inline.png)" onmouseover="CALL">x</b>
<table background="CANARY/table.png"><td background="CANARY/cell.png">x</table>
<template><script>CALL</script></template><noscript><img src="CANARY/noscript"></noscript>
</article></main></body></html><script>CALL</script>

[a](javascript:CALL) <a href="CANARY/ping" ping="CANARY/ping2">b</a>
"""
CALL = "document.documentElement.dataset.ran=1"


class Canary:
    """A small web server on another port; ``asked`` are the paths that were asked for."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.asked: list[str] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(2)
                try:
                    line = connection.recv(4096).split(b"\r\n")[0].decode("latin-1")
                except OSError:
                    line = "silent"
                self.asked.append(line)
                body = f"<!DOCTYPE html><script>{CALL}</script><img src={self.address}/picture>".encode()
                head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n"
                connection.sendall(head + body)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def canary() -> Iterator[Canary]:
    found = Canary()
    yield found
    found.close()


@contextmanager
def running(hub: InProcessHub) -> Iterator[str]:
    """The hub's folder behind a real server; yields its address."""
    yield str(serve.start(hub.store.root)["url"])
    serve.stop(hub.store.root)


def chromium(profile: Path, *arguments: str) -> str:
    flags = [
        "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--hide-scrollbars", "--virtual-time-budget=4000",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", f"--user-data-dir={profile}",
    ]  # fmt: skip
    done = subprocess.run([CHROMIUM, *flags, *arguments], capture_output=True, text=True, timeout=90, check=True)
    return done.stdout


def test_the_canary_sings(canary: Canary, tmp_path: Path) -> None:
    """Without our pages' policy the same browser runs the script and asks for the picture."""
    dom = chromium(tmp_path / "profile", "--dump-dom", f"{canary.address}/control")
    assert 'data-ran="1"' in dom
    assert any("/picture" in line for line in canary.asked)


def test_nothing_of_a_hostile_repository_runs_or_asks(
    hub: InProcessHub, make: type[Make], canary: Canary, tmp_path: Path
) -> None:
    hostile = HOSTILE.replace("CALL", CALL).replace("CANARY", canary.address)
    page = f"<!DOCTYPE html><html><body><script>{CALL}</script><img src={canary.address}/page></body></html>"
    drawing = f'<svg xmlns="http://www.w3.org/2000/svg" onload="{CALL}"><image href="{canary.address}/x"/></svg>'
    hub.create("evil")
    files = {
        "README.md": hostile.encode(),
        "red.png": make.png(),
        "page.html": page.encode(),
        "d.svg": drawing.encode(),
    }
    hub.commit("evil", {**files, "docs/README.md": hostile.encode()}, title=f"<script>{CALL}</script>")
    hub.commit("evil", {"x": b"x"}, title="Pull", pull_request=True, description=hostile)
    places = [
        "/", "/datasets/lab/evil", "/datasets/lab/evil/tree/main", "/datasets/lab/evil/blob/main/docs/README.md",
        "/datasets/lab/evil/discussions/1", "/datasets/lab/evil/blob/main/page.html", "/datasets/lab/evil/commits/main",
        "/datasets/lab/evil/resolve/main/page.html", "/datasets/lab/evil/resolve/main/d.svg",
        "/datasets/lab/evil/raw/main/page.html", f"/datasets/lab/evil/tree/<script>{CALL}</script>",
    ]  # fmt: skip
    with running(hub) as address:
        for place in places:
            dom = chromium(tmp_path / "profile", "--dump-dom", f"{address}{place}")
            assert "data-ran" not in dom, place
            assert len(dom) > 50, place
    assert canary.asked == []


def test_the_page_of_a_dataset_looks_as_it_should(hub: InProcessHub, make: type[Make], tmp_path: Path) -> None:
    """The style applies, in light and dark; the card's picture and the one out of a table are drawn."""
    import io

    from PIL import Image

    out = io.BytesIO()
    Image.new("RGB", (200, 200), RED).save(out, "PNG")
    hub.create("toy")
    rows = make.parquet({"screenshot": [{"bytes": out.getvalue(), "path": None}]})
    hub.commit("toy", {"README.md": b"![red](red.png)", "red.png": out.getvalue(), "r.parquet": rows})
    grounds = {}
    with running(hub) as address:
        for name, place, flags in (
            ("card", "/datasets/lab/toy", ()),
            ("table", "/datasets/lab/toy/blob/main/r.parquet", ()),
            ("dark", "/datasets/lab/toy", ("--blink-settings=preferredColorScheme=0",)),
        ):
            shot = tmp_path / f"{name}.png"
            chromium(
                tmp_path / "profile", f"--screenshot={shot}", "--window-size=1200,900", *flags, f"{address}{place}"
            )
            with Image.open(shot) as image:
                drawn = image.convert("RGB")
            colours = drawn.getcolors(2**24) or []
            assert sum(count for count, colour in colours if colour == RED) > 10_000, name
            grounds[name] = sum(drawn.getpixel((5, 880)))  # type: ignore[arg-type]
    assert grounds["card"] > 600
    assert grounds["dark"] < 150
