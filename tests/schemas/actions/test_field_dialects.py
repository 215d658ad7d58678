"""What actors in the field write: the table, what holds for every response in it, and hostile texts."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from action_reward_models.schemas.actions import DIALECTS, Call, calls_from_json, convert, identity, parse
from action_reward_models.schemas.errors import ArmError

GROUPS = yaml.safe_load(Path(__file__).with_name("field.yaml").read_text(encoding="utf-8"))
CASES = [(group["dialect"], case) for group in GROUPS for case in group["cases"]]
READABLE = [(dialect, case["response"]) for dialect, case in CASES if "calls" in case]
NAMES = ("qwen_xml", "molmoweb", "molmoweb_json", "desktop")


def test_the_table_is_whole() -> None:
    assert {name: sum(dialect == name for dialect, _ in CASES) for name in NAMES} == {
        "qwen_xml": 41,
        "molmoweb": 49,
        "molmoweb_json": 38,
        "desktop": 61,
    }
    assert len(READABLE) == 93


@pytest.mark.parametrize(("dialect", "case"), CASES)
def test_case(dialect: str, case: dict[str, Any]) -> None:
    parsed = parse(dialect, case["response"])
    plain = [[call.verb, json.loads(json.dumps(call.arguments))] for call in parsed.calls]

    assert plain == case.get("calls", []), parsed.parse_error
    assert case["error"] in str(parsed.parse_error) if "error" in case else parsed.parse_error is None, parsed
    assert parsed.thought == case.get("thought", parsed.thought)
    assert parsed.action == case.get("action", parsed.action)
    if dialect != "molmoweb_json":  # which shows thousandths instead of percentages
        assert all(line in case["response"] for line in parsed.action.split("\n"))
    assert parse(dialect, case["response"] + "\n<|im_end|>\n") == parsed


@pytest.mark.parametrize(("dialect", "response"), READABLE)
def test_round_trip(dialect: str, response: str) -> None:
    parsed = parse(dialect, response)
    text = DIALECTS[dialect].render(parsed.calls)

    assert parse(dialect, text).calls == parsed.calls
    assert parse(dialect, f"<think>so</think>\n{text}<|im_end|>").calls == parsed.calls
    assert parse(dialect, f"so</think>\n\n{text}").thought == "so"
    assert calls_from_json(parsed.json) == parsed.calls
    assert identity(parsed.calls) == (parsed.json, parsed.key)
    there = convert(parsed.calls, "pixel", "norm1000", 1280, 720)
    assert convert(there, "norm1000", "pixel", 1280, 720) == parsed.calls


def test_the_text_of_each_dialect() -> None:
    calls = parse("function", 'click(1.5, 2); type("a \'b\'\\n"); wait(2); back(); stop("é")').calls
    xml = "<tool_call>\n<function={}>\n<parameter={}>\n{}\n</parameter>\n</function>\n</tool_call>"

    assert DIALECTS["qwen_xml"].render(calls[:2]) == "\n".join(
        [xml.format("click", "point_2d", "[1.5, 2]"), xml.format("write", "text", "a 'b'\n")]
    )
    assert DIALECTS["molmoweb"].render(calls) == (
        "click(1.5, 2)\ntype(\"a 'b'\\n\")\nnoop(wait_ms=2000)\ngo_back()\nsend_msg_to_user(text='é')"
    )
    assert DIALECTS["molmoweb_json"].render(calls[:1]) == ('{"action": {"name": "click", "x": 0.15, "y": 0.2}}')
    assert DIALECTS["desktop"].render(calls[:3]) == (
        "```python\npyautogui.click(1.5, 2)\npyautogui.write(\"a 'b'\\n\")\ntime.sleep(2)\n```"
    )
    assert DIALECTS["desktop"].render(parse("function", "stop()").calls) == "```DONE```"


@pytest.mark.parametrize(
    "response",
    ["click(1, 2)", "double_click(1, 2)", "hover(1, 2)", "drag(1, 2, 3, 4)", 'type("a")', 'press("Tab")', "wait(2)"],
)
def test_across_dialects(response: str) -> None:
    calls = parse("function", response).calls
    for name in NAMES:
        if (name, response) == ("molmoweb_json", "wait(2)"):
            continue  # it has no time
        there = parse(name, DIALECTS[name].render(calls)).calls
        assert [(call.verb, call.arguments) for call in there] == [(call.verb, call.arguments) for call in calls]
        assert parse("function", DIALECTS["function"].render(there)).calls == calls


@pytest.mark.parametrize(
    ("dialect", "calls"),
    [
        ("qwen_xml", [Call("write", "type", {"text": "a </parameter> b"})]),
        ("qwen_xml", [Call("write", "type", {"text": "<tool_call>"})]),
        ("qwen_xml", [Call("zoom", "other", {"a": "5"})]),  # would be read as a number
        ("qwen_xml", [Call("zoom", "other", {"a b": 5})]),
        ("qwen_xml", [Call("a b", "other", {})]),
        ("qwen_xml", [Call("scroll", "scroll", {"dx": 0, "dy": 5})]),
        ("molmoweb", [Call("scroll", "scroll", {"direction": "down"})]),
        ("molmoweb", [Call("press_keys", "press", {"keys": ["Control", "a"]})]),
        ("molmoweb", [Call("f", "other", {"a": {"b": 1}})]),
        ("molmoweb", [Call("stop", "stop", {})]),
        ("molmoweb_json", [Call("f", "other", {"a": {"b": 1}})]),
        ("molmoweb_json", [Call("go_back", "back", {}), Call("go_back", "back", {})]),
        ("molmoweb_json", []),
        ("molmoweb_json", [Call("wait", "wait", {"seconds": 2})]),
        ("desktop", [Call("scroll", "scroll", {"dx": 0, "dy": 5})]),  # pixels are no clicks of a wheel
        ("desktop", [Call("goto", "goto", {"url": "u"})]),
        ("desktop", [Call("type", "type", {"text": "a", "point": (1, 2)})]),
        ("desktop", [Call("os.system", "other", {"args": ["ls"]})]),
        ("desktop", [Call("f", "other", {"a": 1})]),
        ("desktop", [Call("hover", "hover", {"point": (1, 2)}), Call("d", "drag", {"end_point": (3, 4)})]),
    ],
    ids=repr,
)
def test_what_a_dialect_cannot_say_is_an_error(dialect: str, calls: list[Call]) -> None:
    with pytest.raises(ArmError, match=f"the dialect {dialect} has no words for"):
        DIALECTS[dialect].render(calls)


def test_points_move_and_nothing_else() -> None:
    code = "```\npyautogui.moveTo(128, 72); pyautogui.dragTo(256, 144); pyautogui.scroll(72, 128, 72)\n```"
    there = convert(parse("desktop", code).calls, "pixel", "norm1000", 1280, 720)
    assert DIALECTS["desktop"].render(there) == (
        "```python\npyautogui.moveTo(100, 100)\npyautogui.dragTo(200, 200)\npyautogui.scroll(72, 100, 100)\n```"
    )
    text = "keyboard_type(text='click(128, 72)')\nzoom(x=128, y=72)\nscroll_at(x=128, y=72, delta_x=128, delta_y=72)"
    there = convert(parse("molmoweb", text).calls, "pixel", "norm1000", 1280, 720)
    assert DIALECTS["molmoweb"].render(there) == (
        "keyboard_type(text='click(128, 72)')\nzoom(x=100, y=100)\nscroll_at(x=100, y=100, delta_x=128, delta_y=72)"
    )


MEGABYTE = 1_000_000
UNITS = [
    *("<tool_call>", "<function=a>", "<parameter=a>", "</parameter>", "</function>", "<function=a></function>", "```"),
    *(
        "<tool_call>\n<function=a>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>\n",
        "go_back()\n",
        " ",
        "\n",
    ),
    *(
        "pyautogui.click(1, 2)\n",
        "```WAIT```",
        "import time\n",
        "#",
        ";",
        "\\\n",
        "'",
        '"""',
        "'a' ",
        "[",
        "(",
        "((",
        "-",
    ),
    *(
        "1,",
        "a.",
        "a=",
        "ACTION:",
        "ACTION:\n",
        '{"action":',
        '{"a":',
        '"action": 1, ',
        "</think>",
        "WAIT\n",
        "\\",
        "e1",
    ),
]
HEADS = ["", "pyautogui.write(", "go_back(", "```", "<function=a>\n<parameter=a>\n", '{"action": {"name": ', "click('"]


@pytest.mark.parametrize("dialect", NAMES)
def test_hostile_texts_take_linear_time(dialect: str) -> None:
    begin = time.process_time()
    slowest = 0.0
    for head in HEADS:
        for unit in UNITS:
            start = time.process_time()
            parse(dialect, head + unit * (MEGABYTE // 10 // len(unit)))
            slowest = max(slowest, time.process_time() - start)
    assert slowest < 1.5  # about 0.2 s each at most; quadratic would be a minute
    assert time.process_time() - begin < 30


@pytest.mark.parametrize("depth", [64, 65, 66, 260, 5_000, 100_000])
def test_nesting_is_limited(depth: int) -> None:
    lists, objects = "[" * depth + "]" * depth, '{"b":' * depth + "1" + "}" * depth
    ways = [
        ("qwen_xml", f"<function=f>\n<parameter=a>\n{lists}\n</parameter>\n</function>"),
        ("qwen_xml", f"<function=f>\n<parameter=a>\n{objects}\n</parameter>\n</function>"),
        ("molmoweb", f"f(a={lists})"),
        ("molmoweb_json", f'{{"action": {{"name": "f", "a": {lists}}}}}'),
        ("molmoweb_json", f'{{"action": {{"name": "f", "a": {objects}}}}}'),
        ("desktop", f"```pyautogui.f(a={lists})```"),
    ]
    for dialect, response in ways:
        parsed = parse(dialect, response)
        if depth > 64:
            assert "nested too deeply" in str(parsed.parse_error), dialect
        elif dialect == "molmoweb_json" and objects in response:
            assert "cannot be written" in str(parsed.parse_error)
        else:
            assert calls_from_json(parsed.json) == parsed.calls != (), dialect


def test_the_concepts_list_every_dialect_in_its_order() -> None:
    concepts = (Path(__file__).parents[3] / "docs" / "concepts.md").read_text("utf-8")
    table = concepts.partition("| dialect | a response |")[2].partition("\n\n")[0]
    assert [row.split("`")[1] for row in table.splitlines()[2:]] == list(DIALECTS)


def test_the_same_tools_give_the_same_keys() -> None:
    """A server that turns XML into structured calls changes no action."""
    for dialect, response in READABLE:
        if dialect == "qwen_xml":
            parsed = parse(dialect, response)
            assert parse("openwebrl", DIALECTS["openwebrl"].render(parsed.calls)).key == parsed.key
