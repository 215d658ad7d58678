"""What a declared redaction replaces in a record, what it leaves, and that the record stays the JSON it was."""

from __future__ import annotations

import copy
import json
import random
import time
from typing import Any

import orjson
import pytest
from action_reward_models.builders import redact, redact_json
from action_reward_models.builders.importers import tables
from action_reward_models.builders.redact import Redaction
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.ids import canonical_json
from action_reward_models.schemas.secrets import GROUPS, findings
from action_reward_models.schemas.validate import compile_schema, for_schema

from .conftest import Toy, data_url, png

HF = "hf_" + "QwErTyUiOpAsDfGhJkLzXcVbNmQwErTyUi"
HEX = "0123456789abcdef" * 2
PASSWORD = "[redacted password]"
MAIL = "[redacted e-mail address]"
TOKEN = "[redacted Hugging Face token]"


def redacted(record: Any, *groups: str) -> Any:
    return Redaction(groups or GROUPS)(copy.deepcopy(record))


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"text": f"token {HF}."}, {"text": f"token {TOKEN}."}),
        ({"text": "Write to jane.doe@gmail.com, please"}, {"text": f"Write to {MAIL}, please"}),
        (["a", {"b": ["x", f"{HF} {HF}"]}], ["a", {"b": ["x", f"{TOKEN} {TOKEN}"]}]),
        (f"{HF}", TOKEN),
        # a name and its value are two fields
        ({"password": "letmein"}, {"password": PASSWORD}),
        ({"label": "Password", "text": "hunter2"}, {"label": "Password", "text": PASSWORD}),
        ({"text": "hunter2", "clear": True, "label": "Password"}, None),
        ({"api_key": HEX}, {"api_key": "[redacted API key]"}),
        ({"password": "two words"}, {"password": "two words"}),
        # numbers become strings
        ({"password": 12345678, "n": 7}, {"password": PASSWORD, "n": 7}),
        ({"password": -12345678.5}, {"password": -12345678.5}),
        ({"password": 123456789012345678901234567890}, {"password": PASSWORD}),
        ({"password": None, "passwd": True, "pwd": ["x"]}, {"password": None, "passwd": True, "pwd": ["x"]}),
        # escapes and quotes stay whole
        ({"text": "a\bjane@gmail.com\u0001joe@gmail.com\n"}, {"text": f"a\b{MAIL}\u0001{MAIL}\n"}),
        ({"text": 'say "password: hunter2" twice'}, {"text": f'say "password: {PASSWORD}" twice'}),
        ({"text": f"\ud800{HF}"}, {"text": f"\ud800{TOKEN}"}),
        # a URL goes on after it, and stays one
        (
            {"text": f"URL: https://bob:s3cret@shop.com/a?token={HEX}&mail=jane%40gmail.com#x y"},
            {
                "text": "URL: https://bob:redacted-url-credentials@shop.com/a?token=redacted-url-parameter"
                "&mail=redacted-e-mail-address#x y"
            },
        ),
        ({"text": "https://jane:pa55@gmail.com/"}, {"text": "https://jane:redacted-url-credentials@gmail.com/"}),
        # longer than a rule looks
        ({"text": f"password={HEX * 9}xyz; then"}, {"text": f"password={PASSWORD}; then"}),
        ({"text": f"Bearer {HEX * 200}."}, {"text": "Bearer [redacted API key]"}),
        # keys, ids that are joined by, and pictures
        ({"jane@gmail.com": 1, HF: "x"}, {"jane@gmail.com": 1, HF: "x"}),
        (
            {"state_id": HF, "set_id": HF, "base_state_id": HF, "label_id": HF, "metadata": {"task_id": HF, "x": HF}},
            {
                **dict.fromkeys(("state_id", "set_id", "base_state_id", "label_id"), HF),
                "metadata": {"task_id": HF, "x": TOKEN},
            },
        ),
        ({"x": {"state_id": HF}}, {"x": {"state_id": TOKEN}}),
        ({"images": ["jane@gmail.com/1.png"]}, {"images": ["jane@gmail.com/1.png"]}),
        ({"images": ["https://u:s3cret@x.com/1.png"]}, {"images": ["https://u:redacted-url-credentials@x.com/1.png"]}),
        ({"image_url": {"url": "jane@gmail.com/1.png"}}, {"image_url": {"url": "jane@gmail.com/1.png"}}),
        ({}, {}),
        (None, None),
        (5, 5),
        ([[], {"a": {}}, ""], [[], {"a": {}}, ""]),
    ],
)
def test_records(record: Any, expected: Any) -> None:
    if expected is None and record is not None:
        expected = {name: PASSWORD if name == "text" else value for name, value in record.items()}
    assert redacted(record) == expected


def test_each_group_alone() -> None:
    record = {"a": f"{HF} jane@gmail.com", "password": "letmein"}
    assert redacted(record, "secrets") == {"a": f"{TOKEN} jane@gmail.com", "password": PASSWORD}
    assert redacted(record, "addresses") == {"a": f"{HF} {MAIL}", "password": "letmein"}


def test_pictures_stay_and_are_not_read() -> None:
    url = Toy.data_url(png(3, 64))
    record = {"image_url": {"url": url}, "html": f"<img src='{url}'>", "bare": url, "to": "jane@gmail.com"}
    assert redacted(record) == {**record, "to": MAIL}


@pytest.mark.parametrize("levels", [1, 2, 3, 4])
def test_json_inside_strings_stays_json(levels: int) -> None:
    """At every level, in the layout it had unless names and values were far apart in it."""
    inner: Any = {"password": 4711123, "to": "jane@gmail.com", "n": 1, "quote": 'a "b" \\ c\u2028'}
    expected: Any = {**inner, "password": PASSWORD, "to": MAIL}
    record, wanted = inner, expected
    for _ in range(levels):
        record, wanted = {"arguments": json.dumps(record, indent=1)}, {"arguments": wanted}
    found = redacted(record)
    assert "\n " in found["arguments"]
    for _ in range(levels):
        found, wanted = json.loads(found["arguments"]), wanted["arguments"]
    assert found == wanted


def test_json_inside_a_string_is_read_as_what_it_holds() -> None:
    """Its names stand elsewhere than in its text: escaped, and in another order."""
    arguments = '{"p\\u0061ssword": "letmein", "x": 1}'
    assert json.loads(redacted({"arguments": arguments})["arguments"]) == {"password": PASSWORD, "x": 1}
    far = '{"value": "hunter2", "a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "label": "Password"}'
    assert json.loads(redacted({"arguments": far})["arguments"]) == {**json.loads(far), "value": PASSWORD}


def test_calls_in_a_response_can_still_be_read() -> None:
    call = {"name": "fill", "arguments": {"text": "hunter2", "clear": True, "label": "Password", "password": 12345}}
    response = f"<think>The password: hunter22</think>\n<tool_call>\n{json.dumps(call)}\n</tool_call>"
    found = redacted({"candidates": [response]})["candidates"][0]
    body = found.partition("<tool_call>\n")[2].partition("\n</tool_call>")[0]
    assert json.loads(body)["arguments"] == {**call["arguments"], "text": PASSWORD, "password": PASSWORD}  # type: ignore[dict-item]
    assert "hunter" not in found


def test_counts() -> None:
    redaction = Redaction(["secrets", "addresses"])
    redaction({"a": f"{HF} jane@gmail.com", "password": 12345678})
    redaction(["x", json.dumps({"password": "letmein"}), "joe@gmail.com"])
    assert redaction.counts == {"Hugging Face token": 1, "e-mail address": 2, "password": 2}


# -- any record --------------------------------------------------------------------------------------------------------

PIECES = [
    HF, "jane@gmail.com", "password: hunter2", f"https://u:pw1@x.com/?token={HEX}", "Password", "hunter2", "\\", '"',
    "\n", "é", "\u2028", " ", "plain words", "password", '{"password": "x1y2z3"}', "\\n", "://", "[", "=", ":", "{",
    "}", f"Bearer {HEX}", "data:image/png;base64,AAAA", "-----BEGIN PRIVATE KEY-----\n" + HEX * 2, "%40", "'", "label",
]  # fmt: skip


def anything(rng: random.Random, depth: int) -> Any:
    kind = rng.randrange(8 if depth else 3)
    if kind < 3:
        text = "".join(rng.choices(PIECES, k=rng.randint(1, 5)))
        return text if kind else rng.choice([rng.randrange(10**9), 1.5, None, True, text])
    if kind == 3:
        return json.dumps(anything(rng, depth - 1), ensure_ascii=rng.random() < 0.5)
    if kind == 4:
        return [anything(rng, depth - 1) for _ in range(rng.randrange(4))]
    names = ["password", "label", "text", "value", "url", "x", "state_id", "api_key", "metadata", "images", "image_url"]
    return {name: anything(rng, depth - 1) for name in rng.sample(names, rng.randrange(1, 6))}


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value]
    return "leaf"


def left(value: Any, path: tuple[Any, ...] = ()) -> list[str]:
    """The strings of a record that hold something, but for ids and pictures."""
    if isinstance(value, dict):
        return [text for name, inner in value.items() for text in left(inner, (*path, name))]
    if isinstance(value, list):
        return [text for n, inner in enumerate(value) for text in left(inner, (*path, n))]
    kept = path[-1:] == ("state_id",) or path[:1] == ("images",) or path[-2:] == ("image_url", "url")
    return [value] if isinstance(value, str) and not kept and any(findings(value)) else []


@pytest.mark.parametrize("seed", range(40))
def test_any_record(seed: int) -> None:
    """Same structure, nothing left, a second redaction changes nothing, and both readers of a record agree."""
    rng = random.Random(seed)
    for _ in range(50):
        record = {name: anything(rng, 4) for name in ("a", "b", "state_id")}
        found = redacted(record)
        assert shape(found) == shape(record)
        assert left(found) == []
        assert redacted(found) == found
        assert redacted(dict(reversed(record.items()))) == found
        raw = json.dumps(record).encode()
        assert redacted(orjson.loads(raw)) == redacted(json.loads(raw)) == found
        canonical_json(found)


@pytest.mark.parametrize("seed", range(20))
def test_json_within_any_text(seed: int) -> None:
    """A call in a response: parsed, as a dialect does, it has the same structure and nothing is left in it."""
    rng = random.Random(seed)
    for _ in range(20):
        names = rng.sample(["password", "label", "text", "value", "arguments", "x", "api_key"], 3)
        call = {name: anything(rng, 3) for name in names}
        body = json.dumps(call, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 1]))
        (found,) = redacted({"candidates": [f"<tool_call>\n{body}\n</tool_call>"]})["candidates"]
        parsed = json.loads(found.removeprefix("<tool_call>\n").removesuffix("\n</tool_call>"))
        assert shape(parsed) == shape(call)
        assert list(findings(canonical_json(parsed))) == []


@pytest.mark.parametrize(
    "piece", ["{", "[", '{"', '{"a":', "[[", '[{"', "[1]", '{"a":1}', '{"password":1234}', "\\", '"']
)
def test_no_text_takes_long(piece: str) -> None:
    started = time.process_time()
    redacted({"text": piece * (200_000 // len(piece))})
    assert time.process_time() - started < 10


def test_deep_records_are_no_problem() -> None:
    record: Any = "jane@gmail.com"
    for _ in range(190):
        record = {"a": record}
    inner = "[" * 60 + '"jane@gmail.com"' + "]" * 60
    found = redacted({"deep": record, "in": json.dumps(record), "list": inner})
    assert "jane" not in canonical_json(found)
    assert json.loads(found["list"])


# -- builds ------------------------------------------------------------------------------------------------------------


def declared_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A format whose records hold a number where a password could stand."""
    schema = {"properties": {"metadata": {"properties": {"password": {"type": "integer"}}}}}
    monkeypatch.setattr(redact, "for_schema", lambda name: compile_schema(schema))


def test_what_a_redaction_breaks_is_named(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    declared_number(monkeypatch)
    toy.scene("e1")
    toy.episodes[0]["metadata"] = {"password": 12345678}  # type: ignore[index]
    with pytest.raises(ArmError) as caught:
        toy.build(redact=("secrets",))
    assert [str(issue) for issue in caught.value.issues] == [
        f'episodes.jsonl:1 $.metadata.password is "{PASSWORD}", not an integer; so it is after redaction'
    ]


def test_what_a_redaction_breaks_can_be_excluded(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    declared_number(monkeypatch)
    toy.scene("e1")
    toy.scene("e2")
    toy.episodes[0]["metadata"] = {"password": 12345678}  # type: ignore[index]
    toy.source = {"on_invalid": "exclude"}
    made = toy.build(redact=("secrets",))
    assert made.balanced()
    assert [row["state_id"] for row in made.rows("states")] == ["e2__t0"]
    assert "12345678" not in str(made.rows("exclusions"))


def test_what_is_invalid_anyway_is_quoted_without_its_secret(toy: Toy) -> None:
    toy.scene("e1")
    toy.labels[0]["reasoning"] = ["password: hunter2"]  # type: ignore[index]
    with pytest.raises(ArmError) as caught:
        toy.build(redact=("secrets",))
    assert [str(issue) for issue in caught.value.issues] == [
        f'labels.jsonl:1 $.reasoning is ["password: {PASSWORD}"], not a string or null'
    ]


def test_without_a_declaration_nothing_is_read_twice(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redact_json, "findings", lambda text: pytest.fail("nobody asked"))
    toy.scene("e1")
    made = toy.build()
    assert "redacted" not in made.identity["statistics"]


def test_what_was_replaced_is_counted_once(toy: Toy) -> None:
    """Per record, not per row that shows it."""
    for name in ("e1", "e2"):
        toy.scene(name, "click(1, 1)", 'type("password: hunter2")', task=f"Ask jane@gmail.com about {name}.")
        toy.draw(f"{name}__t0", "click(1, 1)", "click(3, 3)", number=1)
    made = toy.build(redact=("addresses", "secrets"))
    assert made.identity["statistics"]["redacted"] == {"e-mail address": 2, "password": 2}
    assert made.identity["parameters"]["redact"] == ["addresses", "secrets"]
    assert toy.build(redact=("secrets", "addresses")).identity == made.identity


def test_files_are_named_by_the_bytes_that_were_read(toy: Toy) -> None:
    toy.scene("e1", task="Ask jane@gmail.com.")
    plain, without = toy.build(), toy.build(redact=("addresses",))
    assert without.identity["sources"] == plain.identity["sources"]
    assert without.row("states")["source"] == plain.row("states")["source"]
    assert without.row("states")["task"] == f"Ask {MAIL}."


def test_an_id_that_is_made_of_the_content_stays(toy: Toy) -> None:
    """Candidate sets name it, and they were sampled before anybody redacted."""
    toy.page("e1", task="Ask jane@gmail.com.")
    del toy.episodes[0]["episode_id"]  # type: ignore[union-attr]
    (state_id,) = [row["state_id"] for row in toy.build(tables=("states",)).rows("states")]
    toy.label(toy.draw(state_id, "click(1, 1)", "click(2, 2)"), 0)
    made = toy.build(redact=("addresses",))
    assert made.row("candidate_sets")["state_id"] == made.row("states")["state_id"] == state_id
    assert "jane" not in str(made.rows("states"))


def test_pictures_named_by_a_path_are_found(toy: Toy) -> None:
    folder = toy.folder / "jane@gmail.com"
    folder.mkdir()
    (folder / "1.png").write_bytes(png(4))
    toy.scene("e1", picture="jane@gmail.com/1.png", task="Ask jane@gmail.com.")
    row = toy.build(redact=("addresses",)).row("states")
    assert row["screenshot_sha256"]
    assert row["task"] == f"Ask {MAIL}."


def test_a_picture_that_is_a_url_is_refused_without_its_password(toy: Toy) -> None:
    toy.scene("e1", picture="https://jane:s3cret@shop.com/1.png")
    toy.source = {"on_invalid": "exclude"}
    made = toy.build(redact=("secrets",))
    assert made.excluded("states") == {"path_refused": ["e1__t0"]}
    assert "s3cret" not in str(made.rows("exclusions"))


def test_candidates_that_differed_only_in_a_secret_are_one_action(toy: Toy) -> None:
    """In both readings of the record: equal actions are merged, compared as identical, and accounted for."""
    actions = [f'type("token {HF[:-1]}{end}")' for end in "ab"]
    set_id = toy.scene("e1", *actions, "click(7, 7)", pick=1)
    before, after = toy.build(), toy.build(redact=("secrets",))
    assert before.row("candidate_sets")["distinct_actions"] == 3
    row = after.row("candidate_sets", set_id=set_id)
    assert row["distinct_actions"] == 2
    assert [c["action_key"] for c in row["candidates"][:2]] == [row["candidates"][0]["action_key"]] * 2
    assert after.row("teacher_labels")["tie_indices"] == [0]
    assert before.excluded("bt_pairs") == {}
    assert after.excluded("bt_pairs") == {"identical": [f"{set_id}|-|-|0|0"]}
    assert len(after.row("selection_sft")["order"]) == 2
    assert after.balanced()


def test_records_that_differed_only_in_a_secret_are_repeats(toy: Toy) -> None:
    toy.scene("e1", 'type("a@gmail.com")', "click(1, 1)")
    toy.draw("e1__t0", 'type("b@gmail.com")', "click(1, 1)")
    with pytest.raises(ArmError, match="problem"):
        toy.build()
    made = toy.build(redact=("addresses",))
    assert made.excluded("candidate_sets") == {"duplicate_record": ["e1__t0#d0"]}
    assert made.balanced()


def test_a_published_table_is_redacted_like_raw_records(toy: Toy) -> None:
    """Its rows hold JSON as text, which stays JSON, and the records stay what their schema says."""
    toy.scene("e1", f'type("{HF}")', "click(1, 1)", task="Ask jane@gmail.com.", text="URL: https://u:pw1234@shop.com/a")
    toy.episodes[0]["metadata"] = {"login": {"password": "letmein"}, "images": ["x"]}  # type: ignore[index]
    toy.labels[0]["reasoning"] = "password: hunter2"  # type: ignore[index]
    made = toy.build()
    for table, schema in (("states", "state"), ("candidate_sets", "candidates"), ("teacher_labels", "label")):
        (row,) = made.rows(table)
        before = tables.RECORDS[table](row, lambda _: png(0))
        assert any(findings(text) for text in left(before))
        after = redacted(before)
        assert left(after) == []
        assert for_schema(f"table_{schema}/1").problems(after) == []
        for name in (name for name in after if name.endswith("_json") and after[name]):
            assert shape(json.loads(after[name])) == shape(json.loads(before[name]))
        assert {name: after[name] for name in after if name.endswith("_id")} == {
            name: before[name] for name in before if name.endswith("_id")
        }


# -- told before a build -----------------------------------------------------------------------------------------------


def told(toy: Toy, **changes: Any) -> list[str]:
    return [str(issue) for issue in redact.sought(toy.spec(**changes))]


def test_the_places_of_what_the_sources_hold(toy: Toy) -> None:
    url = data_url(5)
    toy.episode("jane@gmail.com", toy.message("user", f"Task: {HF}", 5), toy.message("assistant", "x"))
    toy.episodes.append(b'{"broken": "joe@gmail.com"')
    toy.episode("e2", toy.message("user", "plain", 1), toy.message("assistant", "x"), metadata={"joe@gmail.com": url})
    toy.labels.append({"state_id": "s#d0", "selection": 0, "reasoning": "x", "login": {"password": 123456}})
    assert told(toy) == [
        "episodes.jsonl:1 $.episode_id holds an e-mail address: …@…",
        "episodes.jsonl:1 $.messages[0].content[0].text holds a Hugging Face token: hf_… (37 characters)",
        "episodes.jsonl:3 $ holds an e-mail address: …@…",
        "labels.jsonl:1 $.login.password holds a password: password=…",
    ]
    assert told(toy, redact=("secrets", "addresses")) == [
        "episodes.jsonl:1 $.episode_id holds an e-mail address: …@…",
        "episodes.jsonl:3 $ holds an e-mail address: …@…",
    ]


def test_progress_of_looking_counts_bytes(toy: Toy) -> None:
    for number in range(300):
        toy.label(f"s#d{number}", 0)
    told: list[tuple[str, int, int]] = []
    assert list(redact.sought(toy.spec(tables=("states",)), lambda *step: told.append(step))) == []
    size = (toy.folder / "labels.jsonl").stat().st_size
    assert [step[1:] for step in told] == [(told[0][1], size), (size, size)]
    assert 0 < told[0][1] < size
