"""The gallery in a headless Chromium that has no network, driven the way a person drives it.

Whatever the page should never do is kept in ``problems``: a request for anything but the file itself and its own
pictures, a dialog, a message on the console (errors of scripts and of the policy are such), an exception.
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from action_reward_models.cards.gallery.page import render
from PIL import Image

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page, ViewportSize

Data = Mapping[str, Any]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDE: ViewportSize = {"width": 1280, "height": 720}
KEPT = "arm-review:"  # where the page keeps notes, before the digest of the build
_PAINTED = "async (image) => { await image.decode(); return image.naturalWidth; }"


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip(f"none of {', '.join(NAMES)} is on the PATH")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program)
        try:
            yield browser
        finally:
            browser.close()


class Context:
    """A person's browser: its pages share what is kept, and what they should not do is collected."""

    def __init__(self, browser: Browser, folder: Path, script: str | None = None, **options: Any) -> None:
        """``script`` runs before those of every page; ``options`` are those of the browser's contexts."""
        self.problems: list[str] = []
        self._folder, self._ours = folder, set[str]()
        self.context = context = browser.new_context(**{"viewport": WIDE, "offline": True, **options})
        context.set_default_timeout(10_000)
        if script is not None:
            context.add_init_script(script)
        context.on("request", lambda request: self._asked(request.url))
        context.on("weberror", lambda error: self.problems.append(f"error: {error.error}"))
        context.on("console", lambda message: self.problems.append(f"console: {message.text}"))
        context.on("dialog", self._dialog)

    def open(self, data: Data, pictures: Mapping[str, bytes] | None = None) -> Gallery:
        """Render a page and open it in a tab of its own."""
        path = self._folder / f"gallery-{uuid4().hex}.html"
        path.write_bytes(render(data, pictures or {}))
        return self.open_file(path, data)

    def open_file(self, path: Path, data: Data | None = None) -> Gallery:
        """Open a page that somebody made; its data, unless given, is what it holds."""
        self._ours.add(path.as_uri())
        page = self.context.new_page()
        page.goto(path.as_uri())
        if data is None:
            data = json.loads(page.locator("#data").text_content() or "")
        return Gallery(self, page, data)

    def _asked(self, url: str) -> None:
        if url.partition("#")[0] not in self._ours and not url.startswith("blob:"):
            self.problems.append(f"request: {url[:200]}")

    def _dialog(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()


class Gallery:
    """One page. ``data`` is what it was rendered from; items are named by their ids."""

    def __init__(self, context: Context, page: Page, data: Data) -> None:
        self.context, self.page, self.data = context, page, data

    # -- what is shown --------------------------------------------------------------------------------------------

    @property
    def listed(self) -> list[str]:
        """Ids of the items in the list, from its top."""
        places = self.page.evaluate("[...document.querySelectorAll('#list li')].map((entry) => entry.dataset.place)")
        return [self.data["items"][int(place)]["id"] for place in places]

    @property
    def current(self) -> str:
        """Id of the item that is shown, as the list marks it."""
        place = self.page.locator("#list li:has([aria-current=true])").get_attribute("data-place")
        return str(self.data["items"][int(place or "")]["id"])

    @property
    def notes(self) -> dict[str, Any]:
        """What the browser keeps, by the id that review.jsonl will name."""
        key = KEPT + self.data["identity_sha256"]
        return dict(json.loads(self.page.evaluate("(key) => localStorage.getItem(key)", key) or "{}"))

    @property
    def verdict(self) -> str | None:
        """The verdict that is marked in the bar."""
        pressed = self.page.locator("#judge .verdict[aria-pressed=true]")
        return pressed.get_attribute("data-verdict") if pressed.count() else None

    @property
    def toast(self) -> str:
        return self.page.locator("#toast").inner_text()

    def text(self, selector: str) -> str:
        """All text of the one element, hidden or not."""
        return self.page.locator(selector).text_content() or ""

    def options(self, facet: str) -> dict[str, int]:
        """The values of a filter and the numbers beside them."""
        texts = self.page.locator(f"#filter-{facet} option").all_text_contents()[1:]
        return {text.rpartition(" (")[0]: int(text.rpartition(" (")[2].rstrip(")")) for text in texts}

    def painted(self) -> None:
        """Wait until the screenshot is decoded."""
        image = self.page.locator("#window img[src]")
        image.wait_for(state="attached")
        assert image.evaluate(_PAINTED) > 0

    def pixels(self, selector: str) -> Image.Image:
        """What an element looks like, in device pixels."""
        with Image.open(io.BytesIO(self.page.locator(selector).screenshot(animations="disabled"))) as image:
            return image.convert("RGB")

    # -- what a person does ---------------------------------------------------------------------------------------

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def choose(self, facet: str, value: str | None) -> None:
        """Choose a value of a filter; None: any."""
        self.page.locator(f"#filter-{facet}").select_option("" if value is None else f"={value}")

    def search(self, text: str) -> None:
        self.page.locator("#search").fill(text)

    def show(self, item_id: str) -> None:
        """Open an item by clicking on it."""
        place = [item["id"] for item in self.data["items"]].index(item_id)
        self.page.locator(f"#list li[data-place='{place}'] button").click()

    def sign(self, alias: str) -> None:
        self.page.locator("#alias input").fill(alias)
        self.page.locator("#alias input").blur()

    def reload(self) -> None:
        """Open the page anew; twice where a Chromium under load gave the new page a storage that looked empty."""
        before = self.notes
        self.page.reload()
        if before and not self.notes:
            self.page.reload()

    def export(self) -> bytes:
        """The file that the key e saves."""
        with self.page.expect_download() as saved:
            self.press("e")
        assert saved.value.suggested_filename == "review.jsonl"
        return Path(saved.value.path()).read_bytes()

    def load(self, content: bytes) -> str:
        """Give a file to Load; returns what the page says of it."""
        self.page.evaluate("document.querySelector('#toast').textContent = ''")
        self.page.locator("#file").set_input_files(
            {"name": "review.jsonl", "mimeType": "application/jsonl", "buffer": content}
        )
        self.page.locator("#toast:not(:empty)").wait_for(state="attached")
        return self.toast
