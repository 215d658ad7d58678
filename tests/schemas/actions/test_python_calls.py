"""The reader of Python calls reads what ``ast`` reads, and the field's dialects read back what they write."""

import ast
import json
import warnings
from typing import Any

import pytest
from action_reward_models.schemas.actions import DIALECTS, Call, identity, parse
from action_reward_models.schemas.actions.model import UnreadableError
from action_reward_models.schemas.actions.python_calls import call_at
from action_reward_models.schemas.errors import ArmError
from hypothesis import given, settings
from hypothesis import strategies as st

TEXTS = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(
    ["</think>", "```", "<tool_call>", "</parameter>", "\n", "\\", "'\"", "'''", "5", "null", "[1]", "{", " a ", "\r\n"]
)
NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-1e6, 1e6)
LITERALS = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS, lambda inner: st.lists(inner, max_size=3), max_leaves=6
)


def by_ast(source: str) -> Any:
    """``[positional, keywords]``, tuples as lists."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of "\d"
        call = ast.parse(source, mode="eval").body
        assert isinstance(call, ast.Call)
        positional = [ast.literal_eval(item) for item in call.args]
        keywords = {str(item.arg): ast.literal_eval(item.value) for item in call.keywords}
    return json.loads(json.dumps([positional, keywords]))


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(st.lists(LITERALS, max_size=3), st.dictionaries(st.sampled_from(["x", "y", "_pause"]), LITERALS))
def test_what_repr_writes_is_read(positional: list[Any], keywords: dict[str, Any]) -> None:
    source = f"a.b({', '.join([*map(repr, positional), *(f'{k}={v!r}' for k, v in keywords.items())])})"
    found = call_at(source, 0)
    assert (found.name, found.end) == ("a.b", len(source))
    assert [found.positional, found.keywords] == by_ast(source)


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(
    st.text(st.sampled_from("ab\\'\"nxuU01{}N\n\r#rRfb, ()[]=.-e"), max_size=14),
    st.sampled_from(["{}", "'{}'", '"""{}"""', "r'{}'"]),
)
def test_it_reads_nothing_that_ast_reads_otherwise(text: str, form: str) -> None:
    source = f"f({form.format(text)})"
    try:
        found = call_at(source, 0)
    except UnreadableError:
        return
    if found.end < len(source):
        return
    assert [found.positional, found.keywords] == by_ast(source)


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "1, 2,",
        "(1), (2,), ()",
        "[1, (2, [3])], x=-1.5e1",
        "'a' \"b\" '''c\nd'''",
        "r'\\d', u'e', R\"\\'\"",
        r"'\x41\u00e9\U0001F600\101\0\q\
z'",
        "\n  1,  # one\n  'two'  # '\n",
        "True, False, None",
        "00, 0, .5, 5., 1e3, +1",
    ],
)
def test_spellings(arguments: str) -> None:
    found = call_at(f"f({arguments})", 0)
    assert [found.positional, found.keywords] == by_ast(f"f({arguments})")


POINTS = st.tuples(NUMBERS, NUMBERS).map(lambda p: tuple(int(v) if v == int(v) else v for v in p))
AMOUNTS = st.integers(-9999, 9999) | st.floats(0.25, 99.75, width=16).map(lambda v: int(v) if v == int(v) else v)
KEYS = TEXTS.filter(bool)
CALLS: dict[str, st.SearchStrategy[Call]] = {
    "qwen_xml": st.one_of(
        st.builds(lambda p: Call("click", "click", {"point": p}), POINTS),
        st.builds(lambda t, p: Call("write", "type", {"text": t, "point": p}), TEXTS, POINTS),
        st.builds(lambda k: Call("press_keys", "press", {"keys": k}), st.lists(TEXTS, min_size=1, max_size=3)),
        st.builds(lambda d, a: Call("scroll", "scroll", {"direction": d, "amount": a}), TEXTS, AMOUNTS),
        st.builds(lambda t: Call("done", "stop", {"answer": t}), TEXTS),
        st.builds(
            lambda v: Call("zoom", "other", {"a": v}), st.lists(TEXTS) | AMOUNTS | st.booleans() | st.none() | TEXTS
        ),
    ),
    "molmoweb": st.one_of(
        st.builds(lambda p, b: Call("mouse_click", "click", {"point": p, "button": b}), POINTS, st.just("right")),
        st.builds(lambda p: Call("click", "click", {"point": p}), POINTS),
        st.builds(lambda p, q: Call("mouse_drag_and_drop", "drag", {"start_point": p, "end_point": q}), POINTS, POINTS),
        st.builds(lambda t: Call("keyboard_type", "type", {"text": t}), TEXTS),
        st.builds(lambda k: Call("keyboard_press", "press", {"keys": [k]}), TEXTS),
        st.builds(lambda x, y: Call("scroll", "scroll", {"dx": x, "dy": y}), AMOUNTS, AMOUNTS),
        st.builds(lambda s: Call("noop", "wait", {"seconds": s}), AMOUNTS),
        st.builds(lambda t: Call("send_msg_to_user", "stop", {"answer": t}), TEXTS),
        st.builds(lambda v: Call("fill", "other", {"args": v}), st.lists(TEXTS | AMOUNTS, min_size=1, max_size=3)),
    ),
    "desktop": st.one_of(
        st.builds(lambda p: Call("pyautogui.click", "click", {"point": p}), POINTS),
        st.builds(lambda p: Call("pyautogui.click", "click", {"point": p, "button": "right", "clicks": 3}), POINTS),
        st.builds(lambda p, q: Call("pyautogui.dragTo", "drag", {"start_point": p, "end_point": q}), POINTS, POINTS),
        st.builds(lambda t: Call("pyautogui.write", "type", {"text": t}), TEXTS),
        st.builds(lambda k: Call("pyautogui.press", "press", {"keys": [k]}), TEXTS),
        st.builds(lambda k: Call("pyautogui.press", "press", {"sequence": k}), st.lists(TEXTS, min_size=2, max_size=3)),
        st.builds(lambda k: Call("pyautogui.hotkey", "press", {"keys": k}), st.lists(TEXTS, min_size=2, max_size=3)),
        st.builds(lambda n, p: Call("pyautogui.scroll", "scroll", {"clicks": n, "point": p}), AMOUNTS, POINTS),
        st.builds(lambda s: Call("time.sleep", "wait", {"seconds": s}), AMOUNTS),
        st.just(Call("time.sleep", "wait", {})),
        st.just(Call("FAIL", "stop", {"status": "failure"})),
        st.builds(lambda t: Call("DONE", "stop", {"answer": t}), TEXTS),
        st.builds(lambda v: Call("pyautogui.alert", "other", {"args": v}), st.lists(TEXTS, min_size=1, max_size=2)),
    ),
}
CALLS["molmoweb_json"] = st.one_of(
    st.builds(lambda p: Call("click", "click", {"point": p}), POINTS),
    st.builds(lambda p, t: Call("gemini_type_text_at", "type", {"point": p, "text": t}), POINTS, TEXTS),
    st.builds(lambda t: Call("type", "type", {"text": t}), TEXTS),
    st.builds(lambda x, y: Call("scroll", "scroll", {"delta_x": x, "delta_y": y}), AMOUNTS, AMOUNTS),
    st.builds(lambda n: Call("tab_focus", "switch_tab", {"index": n}), st.integers(0, 9)),
    st.builds(lambda v: Call("zoom", "other", {"a": v}), st.lists(TEXTS | AMOUNTS)),
)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.data(), st.sampled_from(sorted(CALLS)))
def test_what_is_written_is_read_back_or_refused(data: st.DataObject, dialect: str) -> None:
    calls = tuple(data.draw(st.lists(CALLS[dialect], min_size=1, max_size=1 if dialect == "molmoweb_json" else 3)))
    try:
        text = DIALECTS[dialect].render(calls)
    except ArmError:
        assert dialect == "qwen_xml"  # tags in texts, texts that look like numbers
        return
    assert identity(parse(dialect, text).calls) == identity(calls)
    assert identity(parse(dialect, f"<think>so</think>\n{text}<|im_end|>").calls) == identity(calls)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(
    st.sampled_from(sorted(CALLS)),
    st.lists(
        st.sampled_from(
            [
                "<tool_call>",
                "</tool_call>",
                "<function=click>",
                "</function>",
                "<parameter=text>",
                "</parameter>",
                "\n",
                "[1, 2]",
                "```",
                "python",
                "pyautogui.",
                "click(",
                "1",
                ", ",
                ")",
                "'",
                '"',
                "x=",
                "{",
                "}",
                '"action"',
                ":",
                "</think>",
                "<think>",
                "go_back()",
                "DONE",
                "ACTION: ",
                "#",
                ";",
                "\\",
                "é",
                "\ud83d",
                "\x00",
                "import time",
                "write('a')",
            ]
        ),
        max_size=14,
    ),
)
def test_any_text_is_read_or_unreadable(dialect: str, pieces: list[str]) -> None:
    parsed = parse(dialect, "".join(pieces))
    assert (parsed.parse_error is None) == bool(parsed.calls)
    if parsed.calls:
        assert identity(parsed.calls) == (parsed.json, parsed.key)
        try:
            text = DIALECTS[dialect].render(parsed.calls)
        except ArmError:
            assert dialect == "qwen_xml"
        else:
            assert parse(dialect, text).key == parsed.key
