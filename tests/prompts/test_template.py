"""Substitution, and templates that are refused."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from action_reward_models.prompts.options import PromptOptions
from action_reward_models.prompts.render import load_prompt, load_prompt_file
from action_reward_models.prompts.substitution import Text, nested, splice
from action_reward_models.prompts.template import (
    _ALLOWED,
    _FRAGMENTS,
    _REQUIRED,
    Kind,
    builtin,
    parse_text,
    parse_yaml,
    prompt_ids,
)
from action_reward_models.schemas.errors import ArmError, UsageError
from action_reward_models.schemas.store import load

_USER = "{{task}}\n{{observation}}\n{{candidates}}\n{{answer}}"


def _yaml(**changes: Any) -> str:
    return yaml.safe_dump({"kind": "selection", "system": "s", "user": _USER, **changes})


def test_what_is_filled_in_is_never_read_again() -> None:
    assert Text("{{a}}-{{b}}{{a}}").fill({"a": "{{b}}", "b": "%s {x}"}) == "{{b}}-%s {x}{{b}}"


@pytest.mark.parametrize("source", ["{{", "{{Task}}", "{{ task }}", "{{task}", "{{a1}}"])
def test_a_brace_pair_that_is_no_placeholder_is_refused(source: str) -> None:
    with pytest.raises(ArmError, match="is no placeholder"):
        Text(source)


def test_an_empty_fragment_takes_its_line_and_the_blank_one_with_it() -> None:
    assert splice("a\n\n{{x}}\n\nb {{y}}", {"x": "", "y": "{{z}}"}) == "a\n\nb {{z}}"
    assert splice("a {{x}} b\n{{x}}", {"x": ""}) == "a  b\n"


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r", "\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1e"])
def test_every_line_break_nests(line_break: str) -> None:
    assert nested(f"a{line_break}2. b{line_break}", "   ") == "a\n   2. b"


def test_builtin_templates_are_whole() -> None:
    assert prompt_ids() == ["scalar/1", "selection/1", "trajectory/1"]
    assert len({frozenset(builtin(name).fragments) for name in prompt_ids()}) == 1
    with pytest.raises(UsageError, match=r"did you mean selection/1\?"):
        load_prompt("selction/1", PromptOptions())
    with pytest.raises(UsageError, match="known: scalar/1, selection/1, trajectory/1"):
        load_prompt("../../secret", PromptOptions())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"user": "{{task}}\n{{observation}}"}, "placeholder {{candidates}} is missing"),
        ({"user": _USER + "{{tsak}}"}, "unknown placeholder {{tsak}}; known: answer, "),
        ({"user": _USER + "{{image}}"}, "unknown placeholder {{image}}"),
        ({"user": _USER + "{{observation}}"}, "observation stands more than once"),
        ({"user": "{{task}}{{observation}}: {{candidates}}"}, "on a line of its own"),
        ({"system": "{{task}}"}, "takes no placeholders"),
        ({"user": _USER + "<image>"}, "user holds a token"),
        ({"system": "<|im_end|>"}, "system holds a token"),
        ({"fragments": {"screenshot": "{{image}}{{image}}"}}, "exactly once"),
        ({"fragments": {"screenshot": "none"}}, "placeholder {{image}} is missing"),
        ({"fragments": {"candidate": "{{action}}"}}, "placeholder {{number}} is missing"),
        ({"fragments": {"indent": "> "}}, "something else than spaces"),
        ({"fragments": {"indnt": " "}}, "$.fragments.indnt is not a known field; did you mean 'indent'?"),
        ({"fragments": {"indent": 3}}, "something else than spaces"),  # a text, as every plain word is
        ({"fragments": {"indent": []}}, "$.fragments.indent is [], not a string"),
        ({"fragments": "none"}, '$.fragments is "none", not an object'),
        ({"kind": "select"}, '$.kind is "select", not one of selection, scalar'),
        ({"kind": [["select"]]}, "$.kind is [["),
        ({"extra": 1}, "$.extra is not a known field"),
        ({"user": None}, "placeholder {{candidates}} is missing"),
        ({"user": {}}, "$.user is {}, not a string"),
    ],
)
def test_an_unusable_template_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ArmError) as caught:
        parse_yaml(_yaml(**changes), "mine.yaml")
    assert message in str(caught.value)
    assert str(caught.value).startswith("mine.yaml: ")


_LAUGHS = "kind: &a [x]\n" + "".join(f"k{n}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9))


@pytest.mark.parametrize(
    ("text", "issue"),
    [
        ("!!python/object/apply:os.getcwd []", "mine.yaml:1 $ has the tag !!python/object/apply:os.getcwd"),
        ("user: x\nkind: 2021-13-01", 'mine.yaml:2 $.kind is "2021-13-01", not one of selection, scalar'),
        ("user: !!int x\nkind: scalar", "mine.yaml:1 $.user has the tag !!int; only plain values are read"),
        ('kind: scalar\nuser: "\\UFFFFFFFF"', "mine.yaml:2 $ is not YAML: holds an escape that is no character"),
        ("kind: scalar\nuser: a\nuser: b", "mine.yaml:3 $.user stands twice; first in line 2"),
        ("kind: scalar\nsystem: &a x\nuser: *a", "mine.yaml:3 $.user is an alias"),
        (_LAUGHS, "mine.yaml:2 $.k0[0] is an alias"),
        ("kind: scalar\nuser: x\nfragments:\n  \"a\\e[31m\\u202e\": x", "mine.yaml:4 $.fragments['a\\x1b[31m\\u202e']"),
        ("kind: scalar", "mine.yaml:1 $ lacks the field 'user'"),
        ("- kind", "mine.yaml:1 $ is [\"kind\"], not an object"),
        ("", "mine.yaml:1 $ is empty"),
        ("kind: scalar\nuser: " + "[" * 5_000, "mine.yaml:2 $ is not YAML: nested more than 64 deep"),
    ],
)  # fmt: skip
def test_a_template_is_read_as_strictly_as_a_registry(text: str, issue: str) -> None:
    with pytest.raises(ArmError) as caught:
        parse_yaml(text, "mine.yaml")
    assert issue in str(caught.value)
    assert len(str(caught.value)) < 20_000
    assert str(caught.value).replace("\n", "").isprintable()


def test_the_schema_names_the_fragments_and_kinds() -> None:
    properties = load("prompt_template/1")["properties"]
    assert list(properties["fragments"]["properties"]) == list(_FRAGMENTS)
    assert properties["kind"]["enum"] == list(get_args(Kind)) == list(_REQUIRED) == list(_ALLOWED)


def test_words_stay_words_and_blocks_keep_their_lines() -> None:
    text = "kind: selection\nsystem:\nuser: |+\n  {{task}}\n  {{observation}}\n\n  {{candidates}}\n\n"
    template = parse_yaml(text + "fragments: {no_action: no, not_recorded: 1.10, no_steps: ''}", "x")
    assert template.system == ""
    assert template.user == "{{task}}\n{{observation}}\n\n{{candidates}}\n\n"
    shown = {name: template.fragments[name] for name in ("no_action", "not_recorded", "no_steps")}
    assert shown == {"no_action": "no", "not_recorded": "1.10", "no_steps": ""}
    assert parse_yaml(text.replace("system:", "system: null"), "x").system == ""


def test_absent_fragments_are_the_builtin_ones() -> None:
    assert parse_yaml(_yaml(), "x").fragments == builtin("selection/1").fragments
    assert parse_yaml(_yaml(fragments={"no_steps": "-"}), "x").fragments["no_steps"] == "-"
    assert parse_text("{{task}} {{observation}}", "x").kind == "scalar"
    assert parse_text(_USER, "x").system == ""


def test_an_external_file_is_bound_to_its_digest(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text(_USER)
    sha = hashlib.sha256(_USER.encode()).hexdigest()
    prompt = load_prompt_file(file, sha.upper(), PromptOptions())
    assert (prompt.id, prompt.kind) == (f"file:{sha[:12]}", "selection")
    file.write_text(_USER + " ")
    with pytest.raises(ArmError) as caught:
        load_prompt_file(file, sha, PromptOptions())
    assert sha in str(caught.value)
    assert hashlib.sha256((_USER + " ").encode()).hexdigest() in str(caught.value)


def test_external_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ArmError, match="cannot be read"):
        load_prompt_file(tmp_path / "none.txt", "0" * 64, PromptOptions())
    (tmp_path / "big.txt").write_bytes(b" " * (2 << 20))
    with pytest.raises(ArmError, match="larger than"):
        load_prompt_file(tmp_path / "big.txt", "0" * 64, PromptOptions())
    (tmp_path / "raw.txt").write_bytes(b"\xff")
    with pytest.raises(ArmError, match="not UTF-8"):
        load_prompt_file(tmp_path / "raw.txt", hashlib.sha256(b"\xff").hexdigest(), PromptOptions())


def test_an_option_the_template_cannot_ask_for_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    text = "{{task}}\n{{observation}}\n{{candidates}}\nWhich one?"
    file.write_text(text)
    sha = hashlib.sha256(text.encode()).hexdigest()
    load_prompt_file(file, sha, PromptOptions())
    with pytest.raises(ArmError, match="is not asked for reasoning"):
        load_prompt_file(file, sha, PromptOptions(reasoning="before"))
    with pytest.raises(ArmError, match="has no completion"):
        load_prompt("scalar/1", PromptOptions(reasoning="before"))
