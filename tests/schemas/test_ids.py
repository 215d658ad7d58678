"""Identities: which tasks are one, canonical text, and an order that never moves."""

from __future__ import annotations

import math
import unicodedata

import pytest
from action_reward_models.schemas.ids import canonical_json, hash_order, heads, sha256_hex, task_group

SAME = [
    ("case", "Click Button ONE", "click button one"),
    ("no-break space", "click\u00a0button", "click button"),
    ("other spaces", "click\u2003button\u3000one", "click button one"),
    ("line ends", "click\r\nbutton\u2028one", "click button one"),
    ("extra spaces", "  click   button ", "click button"),
    ("full width", "\uff23\uff2c\uff29\uff23\uff2b button \uff11", "click button 1"),
    ("half width", "\uff76\uff9e", "\u30ac"),
    ("punctuation", "Click: “button”, (one)!", "click button one"),
    ("hyphen or space", "check-in", "check in"),
    ("typographic apostrophe", "don’t", "don't"),
    ("composed", "cafe\u0301 cr\u00e8me", "caf\u00e9 cre\u0300me"),
    ("marks in another order", "q\u0323\u0307", "q\u0307\u0323"),
    ("sharp s", "Stra\u00dfe", "STRASSE"),
    ("capital sharp s", "STRA\u1e9eE", "strasse"),
    ("final sigma", "\u039f\u0394\u039f\u03a3", "\u03bf\u03b4\u03bf\u03c2"),
    ("ligature", "\ufb01nd", "find"),
    ("superscript", "m\u00b2", "m2"),
    ("soft hyphen", "in\u00adter\u00adnational", "international"),
    ("zero-width space and joiner", "but\u200bton\u200d", "button"),
    ("byte order mark", "\ufeffclick", "click"),
    ("direction marks", "\u202aclick\u202c", "click"),
    ("emoji and its variation selector", "like \u2764\ufe0f it", "like \u2764 it"),
    ("emoji", "like it 😀", "like it"),
]

DIFFERENT = [
    ("other words", "click button one", "click button two"),
    ("word order", "from a to b", "from b to a"),
    ("numbers", "buy 10", "buy 1 0"),
    ("word borders", "now here", "nowhere"),
    ("accents", "resume", "r\u00e9sum\u00e9"),
    ("dotless i", "\u0131", "i"),
    ("vowel signs", "\u0915\u093f\u0924\u093e\u092c", "\u0915\u0924\u092c"),
    ("vowel signs of another word", "\u0926\u093f\u0928", "\u0926\u0940\u0928"),
    ("tone marks", "\u0e02\u0e48\u0e32\u0e27", "\u0e02\u0e49\u0e32\u0e27"),
    ("symbols only", "+ +", "- -"),
    ("emoji only", "😀", "😁"),
    ("symbols and none", "???", ""),
    ("underscore", "a_b", "a b"),
    ("empty and a word", "", "task"),
]


@pytest.mark.parametrize(("a", "b"), [case[1:] for case in SAME], ids=[case[0] for case in SAME])
def test_one_task(a: str, b: str) -> None:
    assert a != b
    assert task_group(a, "e1") == task_group(b, "e2")


@pytest.mark.parametrize(("a", "b"), [case[1:] for case in DIFFERENT], ids=[case[0] for case in DIFFERENT])
def test_two_tasks(a: str, b: str) -> None:
    assert task_group(a, "e") != task_group(b, "e")


def test_symbols_alone_count_without_their_spaces() -> None:
    assert task_group("+ +\n", "e1") == task_group("++", "e2")


@pytest.mark.parametrize("task", [None, "", " \n\t", "\u00a0\u3000"])
def test_no_task_text_makes_each_episode_its_own_group(task: str | None) -> None:
    assert task_group(task, "e1") == task_group(None, "e1") == sha256_hex("episode\ne1")
    assert task_group(task, "e1") != task_group(task, "e2")


def test_an_episode_cannot_pose_as_a_task() -> None:
    assert task_group(None, "click") not in {task_group("click", "x"), task_group("episode click", "x")}


def test_the_group_is_a_fixed_hash() -> None:
    assert task_group("Click Button ONE!", "e") == "b0109309b3bc25ad2006ab91eae7ff0ce66e91a67277c84470c1a2bdeeef1044"
    assert task_group("Click Button ONE!", "e") == sha256_hex("task\nclick button one")


def test_the_group_of_a_group_text_is_stable() -> None:
    for _, a, b in SAME:
        for text in (a, b):
            for form in ("NFC", "NFD", "NFKC", "NFKD"):
                assert task_group(unicodedata.normalize(form, text), "e") == task_group(text, "e")
            assert task_group(text.upper().lower(), "e") == task_group(text.lower(), "e")


def test_canonical_json() -> None:
    value = {"b": [1, 1.0, -0.0, 2**70, None, True], "a": {"é": '\u2028\x00"\\/', "A": ""}, "": 1e-7}
    assert canonical_json(value) == (
        '{"":1e-07,"a":{"A":"","é":"\u2028\\u0000\\"\\\\/"},"b":[1,1.0,-0.0,1180591620717411303424,null,true]}'
    )
    assert canonical_json({"a": 1, "b": 2}) == canonical_json({"b": 2, "a": 1})
    for number in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match="Out of range float values are not JSON compliant"):
            canonical_json([number])


def test_sha256_hex() -> None:
    assert sha256_hex("") == sha256_hex(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert sha256_hex("é") == sha256_hex("é".encode())


def test_hash_order_is_one_fixed_order() -> None:
    assert hash_order("seed", 42, None).hex() == "edb337876036b246852a8aecb9079d13a9ee6659d81dddd50932ce9ebe03acf7"
    assert hash_order(1, "a") == hash_order("1", "a")
    ids = [f"e{i}__t0" for i in range(50)]
    ordered = sorted(ids, key=lambda i: hash_order(0, i))
    assert ordered == sorted(set(ids), key=lambda i: hash_order(0, i))
    assert ordered not in (ids, sorted(ids, key=lambda i: hash_order(1, i)))
    assert [i for i in ordered if i != "e7__t0"] == sorted(set(ids) - {"e7__t0"}, key=lambda i: hash_order(0, i))


@pytest.mark.parametrize(("row_id", "expected"), [
    ("s#d0|opus|-|0", ["s#d0|opus|-|0", "s#d0|opus|-", "s#d0|opus", "s#d0"]),
    ("s", ["s"]),
    ("a||b|", ["a||b|", "a||b", "a|", "a"]),
    ("", [""]),
])  # fmt: skip
def test_heads_end_before_bars(row_id: str, expected: list[str]) -> None:
    assert list(heads(row_id)) == expected
