"""Texts, keys and addresses changed so that they surely differ; what to change is drawn."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from string import ascii_lowercase, digits
from urllib.parse import urlsplit

from ..schemas.ids import task_words

Below = Callable[[int], int]  # limit -> an integer in 0..limit-1

_OPPOSITES = {"yes": "no", "no": "yes", "true": "false", "false": "true", "on": "off", "off": "on"}
_LETTER = re.compile(r"[a-zA-Z]")
_DIGIT = re.compile(r"[0-9]")
_WORD = re.compile(r"\S+")
_PLAIN = re.compile(r"(?<!%)(?<!%[0-9A-Fa-f])[A-Za-z0-9]")  # no part of an escape such as %2F
_NAMED = ("Enter", "Escape", "Tab", "Backspace", "Delete", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown")
_SHORT = ("enter", "esc", "tab", "backspace", "delete", "up", "down", "home", "end", "pageup", "pagedown")
_SAME_KEY = {"return": "enter", "escape": "esc", "del": "delete", "pgup": "pageup", "pgdn": "pagedown"}


def other_text(text: str, below: Below) -> str | None:
    """``text`` with another digit, without its longest word, or with another letter; a plain yes or no is turned round.

    None where nothing can be changed so that other words come out.
    """
    bare = text.strip()
    if opposite := _OPPOSITES.get(bare.lower()):
        return text.replace(bare, _cased(opposite, bare))
    ways = [way for way in (_other_digit, _without_a_word, _other_letter, _without_a_character) if way(text, below)]
    for way in (ways[(first := below(len(ways))) :] + ways[:first]) if ways else ():
        changed = way(text, below)
        if changed and task_words(changed) not in ("", task_words(text)):
            return changed
    return None


def _other_digit(text: str, below: Below) -> str | None:
    return _replaced(text, _DIGIT, digits, below)


def _other_letter(text: str, below: Below) -> str | None:
    return _replaced(text, _LETTER, ascii_lowercase, below)


def _replaced(text: str, what: re.Pattern[str], alphabet: str, below: Below) -> str | None:
    """One drawn match, a character of ``alphabet`` in any case, becomes another of it in its own case."""
    found = list(what.finditer(text))
    if not found:
        return None
    match = found[below(len(found))]
    others = alphabet.replace(match[0].lower(), "")
    return f"{text[: match.start()]}{_cased(others[below(len(others))], match[0])}{text[match.end() :]}"


def _without_a_word(text: str, below: Below) -> str | None:
    words = list(_WORD.finditer(text))
    if len(words) < 2:
        return None
    longest = max(words, key=lambda word: len(word[0]))
    return f"{text[: longest.start()]}{text[longest.end() :]}".replace("  ", " ").strip()


def _without_a_character(text: str, below: Below) -> str | None:
    """For scripts without digits and Latin letters."""
    if len(text) < 2 or _LETTER.search(text) or _DIGIT.search(text):
        return None
    at = below(len(text))
    return text[:at] + text[at + 1 :]


def other_key(key: str, below: Below) -> str | None:
    """Another key, written as this one is; of a chord (``Control+a``) its last key is another."""
    held, plus, last = key.rpartition("+")
    if plus and last:
        changed = other_key(last, below)
        return changed and f"{held}+{changed}"
    if len(key) == 1 and (key.lower() in ascii_lowercase or key in digits):
        alphabet = digits if key in digits else ascii_lowercase
        return _replaced(key, re.compile(re.escape(key)), alphabet, below)
    if not key.strip():
        return None
    names = _SHORT if key.islower() or key.isupper() else _NAMED
    others = [name for name in names if _key(name) != _key(key)]
    return _cased(others[below(len(others))], key) if key.isupper() else others[below(len(others))]


def _key(name: str) -> str:
    plain = name.lower().removeprefix("arrow")
    return _SAME_KEY.get(plain, plain)


def other_url(url: str, below: Below) -> str | None:
    """Another page of the same host: one character of path or query is another. None for a host alone."""
    try:
        split = urlsplit(url)
    except ValueError:
        return None
    begin = url.find(split.netloc) + len(split.netloc) if split.netloc else len(split.scheme) + 1 if split.scheme else 0
    found = list(_PLAIN.finditer(url, begin))
    if not found:
        return None
    match = found[below(len(found))]
    others = (digits if match[0] in digits else ascii_lowercase).replace(match[0].lower(), "")
    return f"{url[: match.start()]}{_cased(others[below(len(others))], match[0])}{url[match.end() :]}"


def _cased(word: str, like: str) -> str:
    """``word`` in capitals, with one, or without, as ``like`` is written."""
    return word.upper() if like.isupper() else word.capitalize() if like.istitle() else word


SPOILT: Mapping[str, Callable[[str, Below], str | None]] = {"text": other_text, "key": other_key, "url": other_url}
