"""Tokens of texts and pictures: shortcuts never differ from cutting all of it, and nothing of a folder is trusted."""

from __future__ import annotations

import json
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.builders import processor
from action_reward_models.builders.chat_template import ChatTemplate
from action_reward_models.builders.processor import Pictures, Processor, Tokenizer
from action_reward_models.builders.spec import TokenSpec
from action_reward_models.schemas.errors import ArmError, UsageError
from action_reward_models.tests.builders import tiny_processor
from hypothesis import given, settings
from hypothesis import strategies as st

SAYING = [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_processor.make(tmp_path_factory.mktemp("processor") / "tiny")


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer(folder / "tokenizer.json")


# -- texts ----------------------------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [*tiny_processor.SPECIAL, *tiny_processor.SAID, "é", "e\u0301", "\u1e9b\u0323", "한", " ", "\n"]
)
TEXTS = st.lists(PIECES | st.text(max_size=9), max_size=8).map("".join)


@given(TEXTS, st.integers(-5, 120))
@settings(max_examples=400, deadline=None)
def test_a_length_is_exact_as_soon_as_it_matters(tokenizer: Tokenizer, text: str, limit: int) -> None:
    exact, found = len(tokenizer.ids(text)), tokenizer.length(text, limit)
    assert found >= exact
    assert (found > limit) == (exact > limit)
    if exact > limit:
        assert found == exact


@given(TEXTS, TEXTS, st.sampled_from(["NFC", "NFD", None]))
@settings(max_examples=400, deadline=None)
def test_texts_are_equal_when_their_tokens_are(tokenizer: Tokenizer, one: str, other: str, form: Any) -> None:
    if form:
        other = unicodedata.normalize(form, one)
    assert tokenizer.equal(one, other) == (tokenizer.ids(one) == tokenizer.ids(other))


def test_a_short_text_is_not_cut(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(_: str) -> list[int]:
        raise AssertionError("was cut")

    monkeypatch.setattr(tokenizer, "ids", cut)
    assert tokenizer.length("<|im_start|>é<|im_end|>", 100) == 4  # two special tokens and two bytes
    assert not tokenizer.equal("click(1, 1)", "click(1, 2)")
    with pytest.raises(AssertionError, match="was cut"):
        tokenizer.length("u\u0308ber Wasser", 100)  # becomes something else first


def test_a_tokenizer_of_another_kind_cuts_everything(folder: Path, tmp_path: Path) -> None:
    """What could be dropped, or stand for unknown characters, is known from the tokens only."""
    described = json.loads((folder / "tokenizer.json").read_text())
    for change in ({"normalizer": {"type": "Lowercase"}}, {"pre_tokenizer": {"type": "WhitespaceSplit"}}):
        path = tmp_path / "tokenizer.json"
        path.write_text(json.dumps(described | change))
        changed = Tokenizer(path)
        text = "Click <|im_end|>  NOW"
        assert changed.length(text, 1000) == len(changed.ids(text))
        same = "click <|im_end|>  now" if "normalizer" in change else "Click <|im_end|> NOW"
        assert changed.equal(text, same)


# -- pictures -------------------------------------------------------------------------------------------------------


def test_picture_tokens() -> None:
    real = Pictures(32, 65536, 16777216)  # of Qwen3.5: patches of 16 px, merged by two
    assert {size: real.tokens(*size) for size in [(1280, 960), (256, 256), (224, 224), (640, 400), (10000, 50)]} == {
        (1280, 960): 1200, (256, 256): 64, (224, 224): 64, (640, 400): 240, (10000, 50): 624,
    }  # fmt: skip
    small = Pictures(28, 3136, 1003520)  # of Qwen2-VL, by default
    assert [small.tokens(1, 1), small.tokens(10, 1000), small.tokens(4000, 3000)] == [4, 20, 1230]


SETTINGS: list[dict[str, Any]] = [
    {},
    {"patch_size": 16, "merge_size": 2, "size": {"shortest_edge": 65536, "longest_edge": 16777216}},
    {"patch_size": 14, "merge_size": 2, "min_pixels": 50000, "max_pixels": 200000},
    {"patch_size": 4, "merge_size": 1, "size": {"shortest_edge": 256, "longest_edge": 4096}},
]


@pytest.mark.slow
@pytest.mark.parametrize("config", SETTINGS)
@pytest.mark.parametrize("name", ["preprocessor_config.json", "processor_config.json"])
def test_pictures_become_as_many_tokens_as_transformers_makes(
    tmp_path: Path, config: dict[str, Any], name: str
) -> None:
    pytest.importorskip("transformers")
    module = "transformers.models.qwen2_vl.image_processing_pil_qwen2_vl"
    theirs = pytest.importorskip(
        module, reason="transformers has no such processor without torch"
    ).Qwen2VLImageProcessorPil
    import numpy as np
    from PIL import Image

    settings = {"image_processor_type": "Qwen2VLImageProcessor", **config}
    written = {"image_processor": settings} if name == "processor_config.json" else settings
    (tmp_path / name).write_text(json.dumps(written))
    ours, made = Pictures.of(tmp_path), theirs(**config)
    numbers = np.random.default_rng(5)
    sizes = [(w, h) for w, h in numbers.integers(1, 900, (60, 2)).tolist() if max(w, h) <= 200 * min(w, h)]
    for width, height in sizes:
        grid = made(images=[Image.new("RGB", (width, height))], return_tensors="np")["image_grid_thw"][0]
        assert ours.tokens(width, height) == grid.prod() // made.merge_size**2, (width, height)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (None, "has no picture settings, and rows show pictures"),
        ({"image_processor_type": "CLIPImageProcessor"}, "resizes pictures by CLIPImageProcessor, whose tokens"),
        ({"patch_size": 14}, "resizes pictures by None"),
        ({**tiny_processor.PICTURES, "do_resize": False}, "does not resize pictures"),
        ({**tiny_processor.PICTURES, "size": {"longest_edge": 9}}, "has no whole numbers"),
        ({**tiny_processor.PICTURES, "patch_size": 0}, "has no whole numbers"),
    ],
)
def test_settings_that_are_not_known_are_refused(tmp_path: Path, config: dict[str, Any] | None, message: str) -> None:
    if config is not None:
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(config))
    with pytest.raises(ArmError, match=message):
        Pictures.of(tmp_path)


# -- templates ------------------------------------------------------------------------------------------------------


def told(folder: Path, template: str) -> str:
    (folder / "chat_template.jinja").write_text(template, "utf-8")
    return Processor(folder).template.text(SAYING)


def test_templates_have_what_they_are_written_for(folder: Path, tmp_path: Path) -> None:
    made = tiny_processor.make(tmp_path)
    assert told(made, "{% for m in messages %}\n  {{ m | tojson }}{{ eos_token }}\n{% endfor %}") == (
        '  {"role": "user", "content": [{"type": "text", "text": "Hi"}]}<|im_end|>\n'
    )
    loop = "{% for n in range(9) %}{% if n == 2 %}{% break %}{% endif %}{{ n }}{% endfor %}"
    assert told(made, loop) == "01"
    assert told(made, "{% generation %}{% set x = 1 %}<b>{{ x }}{% endgeneration %}{{ x is defined }}") == "<b>1False"
    assert told(made, "{{ tools }}{{ add_generation_prompt }}") == "NoneFalse"
    (made / "chat_template.jinja").unlink()
    config = json.loads((made / "tokenizer_config.json").read_text())
    several = [{"name": "other", "template": "no"}, {"name": "default", "template": "yes"}]
    (made / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": several}))
    assert Processor(made).template.text(SAYING) == "yes"
    (made / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(ArmError, match="has no chat template"):
        Processor(made)


EACH, DONE = "{% for m in messages %}", "{% endfor %}"
WRITTEN = [
    tiny_processor.TEMPLATE,
    EACH + "\n  {{ m | tojson }}\n{{ m | tojson(indent=2) }}\n    {% if loop.last %}\n!{% endif %}\n" + DONE + "\n",
    EACH + "{% if m.role == 'system' %}{% continue %}{% endif %}{{ m.role | upper }}" + DONE,
    EACH + "{% generation %}{% set last = m.role %}<{{ last }}>{% endgeneration %}{{ last }}" + DONE,
    "{% set ns = namespace(n=0) %}" + EACH + "{% set ns.n = ns.n + 1 %}" + DONE + "{{ ns.n }}{{ none_such }}\n",
    "{%- macro told(c) %}{% for p in c %}{{ p.text | trim }}{% endfor %}{% endmacro %}"
    "{% for m in messages[::-1] %}{{ told(m.content) }}{% endfor %}{{ eos_token }}{{ tools is none }}",
    "{{ messages[0].content[0].text.split('<')[-1].rstrip('\\n') }}{{ messages | length }}{{ '&<é>' | tojson }}",
]


@pytest.mark.slow
@pytest.mark.parametrize("template", WRITTEN)
def test_transformers_renders_the_same(tmp_path: Path, template: str) -> None:
    utils = pytest.importorskip("transformers.utils.chat_template_utils")
    messages = [
        {"role": "system", "content": [{"type": "text", "text": "  Be <b>brief</b>.\n"}]},
        {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "“Hi” & 語\n"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "</think> ok "}]},
    ]
    (tmp_path / "chat_template.jinja").write_text(template, "utf-8")
    ours = ChatTemplate([tmp_path / "chat_template.jinja"], {"eos_token": "<|im_end|>"}).text(messages)
    (theirs,), _ = utils.render_jinja_template([messages], chat_template=template, eos_token="<|im_end|>")
    assert ours == theirs


def test_a_template_that_knows_no_blocks_shows_the_text(tmp_path: Path) -> None:
    """As that of Qwen3: of a list it shows nothing, and rows would seem to be short."""
    shown = "{% if m.content is string %}{{ m.content }}{% endif %}"
    (tmp_path / "chat_template.jinja").write_text(f"{{% for m in messages %}}{shown}|{{% endfor %}}")
    template = ChatTemplate([tmp_path / "chat_template.jinja"], {})
    asked: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": "Go."}]}
    turns = [asked, {"role": "assistant", "content": "stop"}]
    assert template.text(turns) == "Go.|stop|"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ messages.__class__.__mro__ }}", "unsafe"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "unsafe"),
        ("{% set _ = messages.append(1) %}", "refuses"),
        ("{{ raise_exception('no system turn') }}", "refuses a row: no system turn"),
        ("{{ strftime_now('%d') }}", "writes today's date"),
        ("{{ messages[0].content + 1 }}", "refuses"),
        ("{% for m in messages %}", "is no template: line 1"),
        ("{% include '/etc/passwd' %}", "refuses"),
        (f"{{{{ {'(' * 3000}1{')' * 3000} }}}}", "nested too deep"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "refuses a row: maximum recursion"),
    ],
)
def test_what_a_template_may_not_do(tmp_path: Path, template: str, message: str) -> None:
    with pytest.raises(ArmError, match=message) as caught:
        told(tiny_processor.make(tmp_path), template)
    assert caught.value.where == str(tmp_path / "chat_template.jinja")


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("chat_template.jinja", b"\xff\xfe", "cannot be read"),
        ("chat_template.json", b"[1]", "is no JSON object"),
        ("chat_template.json", b"{", "cannot be read"),
        ("chat_template.json", b"[" * 100_000, "cannot be read"),
        ("chat_template.json", b'{"chat_template": 5}', "has a chat_template that is no text"),
        ("tokenizer_config.json", b'{"image_token": 5}', "has an image_token that is no text"),
        ("processor_config.json", b'{"image_processor": 5}', "has an image_processor that is no object"),
        (
            "preprocessor_config.json",
            b'{"image_processor_type": "Qwen2VLImageProcessor", "size": 5}',
            "has a size that",
        ),
        (
            "preprocessor_config.json",
            b'{"image_processor_type": "Qwen2VLImageProcessor", "patch_size": "a", "merge_size": 3}',
            "has no whole numbers",
        ),
    ],
)
def test_a_file_of_another_kind_is_named(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    made = tiny_processor.make(tmp_path)
    if name == "chat_template.json":
        (made / "chat_template.jinja").unlink()
    (made / name).write_bytes(data)
    with pytest.raises(ArmError, match=message) as caught:
        processor.Processor(made).picture_tokens(8, 8)
    assert caught.value.where == str(made / name)


@pytest.mark.parametrize("named", [[1], [{"name": "default"}], [{"name": "other", "template": "x"}]])
def test_templates_by_name_need_a_default(tmp_path: Path, named: object) -> None:
    (tmp_path / "chat_template.json").write_text(json.dumps({"chat_template": named}))
    with pytest.raises(ArmError, match="has no chat template"):
        ChatTemplate([tmp_path / "chat_template.json"], {})


# -- folders --------------------------------------------------------------------------------------------------------


def test_the_digest_is_of_the_files_that_decide_tokens(tmp_path: Path) -> None:
    made = tiny_processor.make(tmp_path)
    first = processor.digest(made)
    (made / "model.safetensors").write_bytes(b"weights")
    (made / "config.json").write_text("{}")
    assert processor.digest(made) == first
    with (made / "chat_template.jinja").open("a") as file:
        file.write(" ")
    assert processor.digest(made) != first
    assert first is not None
    with pytest.raises(ArmError, match=f"its files have changed: sha256 {first} was declared"):
        processor.load(TokenSpec("tiny", made, first, 9))
    (made / "tokenizer.json").unlink()
    assert processor.digest(made) is None


def test_a_file_that_is_no_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"model": 1}')
    with pytest.raises(ArmError, match="is no tokenizer"):
        Tokenizer(tmp_path / "tokenizer.json")


def test_without_the_extra_the_line_to_type_is_given(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(UsageError) as caught:
        Tokenizer(folder / "tokenizer.json")
    assert caught.value.next_command == 'pip install "action-reward-models[tokens]"'


def test_who_asks_for_no_limit_pays_nothing() -> None:
    code = "import sys, action_reward_models.builders.runner as r; print({'tokenizers', 'jinja2'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"
