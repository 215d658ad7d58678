"""The file that a gallery is, as bytes: what its policy allows, and that no text of the data is markup. No browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from importlib import resources
from typing import Any

from action_reward_models.cards.gallery.page import GENERATOR, SCRIPTS, render

HOSTILE = "</script><script>alert(1)</script><!-- ]]> <img src=x onerror=alert(2)> \u2028 {{x}} [[policy]] /* style */"
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
SHA256 = hashlib.sha256(PICTURE).hexdigest()


class Parsed(HTMLParser):
    """Every element with its attributes, and the texts of scripts and styles."""

    def __init__(self, page: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._within = False
        self.feed(page.decode())
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.texts.append("")
        self._within = True

    def handle_endtag(self, tag: str) -> None:
        self._within = False

    def handle_data(self, data: str) -> None:
        if self._within:
            self.texts[-1] += data

    def of(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        found = zip(self.elements, self.texts, strict=True)
        return [(attributes, text) for (name, attributes), text in found if name == tag]


def page(text: str = "plain") -> Parsed:
    data: dict[str, Any] = {"title": text, "items": [{"id": text, text: text}], "states": {text: {"task": text}}}
    return Parsed(render(data, {SHA256: PICTURE}))


def scripts() -> dict[str, str]:
    static = resources.files("action_reward_models.cards.gallery") / "static"
    return {file.name: file.read_text("utf-8") for file in static.iterdir() if file.name.endswith(".js")}


def test_the_policy_allows_this_script_and_style_and_nothing_else() -> None:
    made = page()
    (policy,) = (a["content"] for a, _ in made.of("meta") if a.get("http-equiv") == "Content-Security-Policy")
    hashes = {}
    for kind, texts in (
        ("script", [t for a, t in made.of("script") if "type" not in a]),
        ("style", [t for _, t in made.of("style")]),
    ):
        (text,) = texts
        hashes[kind] = "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"
    assert policy == (
        f"default-src 'none'; script-src {hashes['script']}; style-src {hashes['style']}; img-src blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def test_texts_of_the_data_add_no_element() -> None:
    plain, hostile = page(), page(HOSTILE)
    assert [tag for tag, _ in hostile.elements] == [tag for tag, _ in plain.elements]
    differing = [(a, b) for a, b in zip(plain.elements, hostile.elements, strict=True) if a != b]
    assert differing == []  # the policy does not hang on the data either
    (told,) = (json.loads(text) for attributes, text in hostile.of("script") if attributes.get("id") == "data")
    assert told["items"] == [{"id": HOSTILE, HOSTILE: HOSTILE}]
    (title,) = (text for _, text in hostile.of("title"))
    assert title == f"{HOSTILE} – review"
    assert [a["content"] for a, _ in hostile.of("meta") if a.get("name") == "generator"] == [GENERATOR]


def test_pictures_are_the_bytes_they_were() -> None:
    found = {
        attributes["id"]: text for attributes, text in page().of("script") if attributes.get("type") == "text/plain"
    }
    assert {name: base64.b64decode(text) for name, text in found.items()} == {f"p-{SHA256}": PICTURE}


def test_nothing_is_fetched() -> None:
    for _, attributes in page().elements:
        assert not {"src", "href", "srcset", "action", "style"} & attributes.keys()
        assert not [name for name in attributes if name.startswith("on")]


def test_scripts_make_text_and_no_markup() -> None:
    found = scripts()
    assert {name.removesuffix(".js") for name in found} == set(SCRIPTS)
    makers = r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(|DOMParser|createContextual|srcdoc"
    senders = r"fetch\(|XMLHttpRequest|WebSocket|EventSource|sendBeacon|import\(|window\.open|location\s*="
    for name, text in found.items():
        assert not re.search(f"{makers}|{senders}", text), name
        assert "</script" not in text.lower(), name


def test_names_stand_once() -> None:
    """All scripts share one scope: the later of two functions of one name would silently be both."""
    names = re.findall(r"^(?:async )?(?:function|const|let) (\w+)", "\n".join(scripts().values()), re.MULTILINE)
    assert len(names) > 80
    assert sorted(names) == sorted(set(names))
