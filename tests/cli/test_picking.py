"""`arm select` and `arm score`: every outcome by its name, for one request and for many, here and behind a server.

Their examples run in test_picking_models.py, with weights.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from action_reward_models.cli import picking_models, picking_report, select
from action_reward_models.inference.bulk import row_of
from action_reward_models.inference.choice import Choice
from action_reward_models.inference.choosing import Chooser, How
from action_reward_models.inference.inputs import Question
from action_reward_models.inference.request import Spoken, read
from action_reward_models.prompts.render import Prompt
from action_reward_models.schemas.ids import file_sha256
from action_reward_models.tests.builders.conftest import Toy
from action_reward_models.tests.cli.made import Done, typed
from action_reward_models.tests.inference.asked import CANDIDATES, asked, prompt, state
from action_reward_models.tests.inference.fakes import Scores, Selects
from action_reward_models.tests.inference.test_choosing import TABLE
from action_reward_models.tests.inference.test_served import FAULTS, OWN, REPLIES, fast, written
from action_reward_models.tests.servers.conftest import server, stand_in
from action_reward_models.tests.servers.stand_in import Fault, Script, StandIn

__all__ = ["fast", "server", "stand_in"]  # fixtures
SERVED = "--server local --served stand-in"


class Shell:
    """A folder with a request in one.json and a checkpoint without weights, `arm` as it is typed there."""

    def __init__(self, folder: Path, server: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.server, self.capsys = folder, server, capsys

    def run(self, line: str) -> Done:
        return typed(line, self.capsys)

    def write(self, name: str, *requests: Any) -> None:
        (self.folder / name).write_text("".join(json.dumps(one) + "\n" for one in requests), "utf-8")


@pytest.fixture
def here(tmp_path: Path, server: StandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    written(tmp_path / "arm", prompt())
    (tmp_path / "endpoints.yaml").write_text(f"endpoints: 1\nservers: {{local: {{urls: ['{server.url}']}}}}\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("ARM_ENDPOINTS", raising=False)
    made = Shell(tmp_path, server, capsys)
    made.write("one.json", asked(id="mine"))
    return made


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> dict[str, Chooser]:
    """Models by what they are called on the command line, in the place of checkpoints with weights."""
    known: dict[str, Chooser] = {}

    def local(named: str, base: object, device: object, given: Prompt | None = None, *, plain: bool = False) -> Any:
        model = known[named]
        return picking_models.Model(named, model.contract, lambda: {"sha256": named, "plain": plain}, lambda: model,
                             lambda: given or model.prompt, 3)  # fmt: skip

    monkeypatch.setattr(picking_models, "local", local)
    return known


def test_what_is_not_said_is_what_it_is_in_python() -> None:
    """The command line is parsed without the modules that know the defaults."""
    said: dict[str, Any] = {one.name: one.default for one in select.command.params}
    assert How(**{name: said[name] for name in ("orders", "agree", "otherwise", "max_new_tokens")}) == How()


# -- one request ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", TABLE)
def test_every_row_of_the_table_of_replies(here: Shell, models: dict[str, Chooser], row: str) -> None:
    said, status, selected = TABLE[row]
    models["fake"] = Selects(said)
    done = here.run("arm select fake one.json --json")
    assert (done.json["status"], done.status) == (status, 0 if selected else 1)
    (vote,) = done.json["votes"]
    index = None if selected is None else vote["order"][selected - 1]
    assert (done.json["selected_index"], vote["status"], vote["reply"] is None) == (index, status, False)
    assert done.json["chosen_by"] == ("model" if selected else None)
    shown = here.run("arm select fake one.json")
    assert f"mine: {status}" in shown.out
    assert ("<--" in shown.out, shown.status) == (selected is not None, done.status)


@pytest.mark.parametrize("kind", REPLIES)
def test_every_reply_of_a_server(here: Shell, kind: str) -> None:
    here.server.change(Script(replies={kind: 1.0}))
    done = here.run(f"arm select arm one.json {SERVED} --json")
    assert (done.json["status"], done.status) == (REPLIES[kind], int(REPLIES[kind] != "ok"))
    assert (done.json["selected_index"] is None) is (REPLIES[kind] != "ok")
    assert "torch" not in sys.modules, "which nobody needs who asks a server"


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_of_a_server(here: Shell, fault: str) -> None:
    script, told = FAULTS[fault]
    here.server.change(Script(faults=(script,)))
    done = here.run(f"arm select arm one.json {SERVED} --json")
    assert (done.json["status"], done.json["selected_index"], done.status) == ("error", None, 1)
    assert told in done.json["detail"]


def test_outcomes_of_a_scalar_model(here: Shell, models: dict[str, Chooser]) -> None:
    models["scores"] = Scores(lambda text: len(text) / 100)
    done = here.run("arm score scores one.json")
    assert done.status == 0
    assert "mine: ok" in done.out
    assert [line.split()[0] for line in done.out.splitlines() if "<--" in line] == ["2"]
    assert '2 type(1, 2, "a")' in done.words
    scores = here.run("arm score scores one.json --json").json["scores"]
    assert [f"{score:.4f}" in done.out for score in scores] == [True] * 4

    models["same"] = Scores(lambda text: 0.5)
    tie = here.run("arm score same one.json --json")
    assert (tie.json["status"], tie.json["scores"], tie.status) == ("tie", [0.5] * 4, 0), (
        "scores are what was asked for"
    )
    tie = here.run("arm select same one.json")
    assert ("mine: tie" in tie.out, "<--" in tie.out, tie.status) == (True, False, 1)

    models["short"] = Scores(lambda text: 0.5, most=20)
    long = here.run("arm score short one.json --json")
    assert (long.json["status"], long.json["scores"], long.status) == ("too_long", None, 1)
    here.write("blind.json", asked(state={"task": "Click"}))
    assert here.run("arm score scores blind.json --json").json["status"] == "no_screenshot"


def test_orders_and_votes(here: Shell, models: dict[str, Chooser]) -> None:
    models["first"] = Selects('{"selection": 1}')
    done = here.run("arm select first one.json --orders 3 --agree all")
    assert (done.status, "mine: disagreed" in done.out, "votes" in done.out) == (1, True, True)
    models["mixed"] = Selects(lambda text: '{"selection": 1}' if text.index("30, 40") < text.index("3, 4") else "well")
    done = here.run("arm select mixed one.json --orders 6")
    assert "order " in done.err
    assert ": unparsed (no JSON object with a selection): well" in done.err


def test_what_is_done_without_a_pick(here: Shell, models: dict[str, Chooser]) -> None:
    models["mumbles"], models["scores"] = Selects("well"), Scores(lambda text: len(text) / 100)
    done = here.run("arm select mumbles one.json --otherwise first --json")
    assert [done.json[key] for key in ("status", "selected_index", "chosen_by")] == ["unparsed", 0, "first"]
    assert done.status == 0, "what was wanted was done"
    shown = here.run("arm select mumbles one.json --otherwise first")
    assert "mine: unparsed (no JSON object with a selection), so the first candidate" in shown.out
    done = here.run("arm select mumbles one.json --otherwise scalar --scalar scores --json")
    assert [done.json[key] for key in ("status", "selected_index", "chosen_by")] == ["unparsed", 2, "scalar"]


def test_a_request_that_is_none(here: Shell, models: dict[str, Chooser]) -> None:
    models["fake"] = Selects("never asked")
    (here.folder / "broken.json").write_text("{'id': 1}")
    here.write("list.json", [asked()])
    here.write("wrong.json", asked(candidates=[]))
    for name, told in {
        "broken.json": "arm: broken.json: not JSON:", "list.json": "arm: list.json: is a list",
        "wrong.json": "wrong.json $.candidates is an empty list", "gone.json": "arm: gone.json: there is no such file",
    }.items():  # fmt: skip
        done = here.run(f"arm select fake {name}")
        assert (done.status in (1, 2), done.out) == (True, "")
        assert told in done.err
    done = here.run("arm select fake wrong.json --json")
    assert done.json["issues"][0] | {"message": ""} == {
        "file": "wrong.json", "line": 0, "path": "$.candidates", "message": ""
    }  # fmt: skip


def test_a_prompt_of_the_users_own(here: Shell) -> None:
    """As for a checkpoint of the first release, of which there are only weights behind a server."""
    path = here.folder / "own.txt"
    path.write_text(OWN, "utf-8")
    given = f"--prompt own.txt --prompt-sha256 {file_sha256(path)} --prompt-option observation=text"
    here.write(
        "own.json", asked(dialect="function", space="pixel", state={"task": "Click", "observation_text": "page"})
    )
    done = here.run(f"arm select own.json {SERVED} {given} --json")
    assert (done.status, done.json["status"]) == (0, "ok"), done.err
    (sent,) = here.server.received("/chat/completions")
    assert "Task Click" in json.dumps(sent.body)
    other = here.run(f"arm select own.json {SERVED} --prompt own.txt --prompt-sha256 {'0' * 64}")
    assert other.status == 1
    assert f"sha256 {file_sha256(path)}, and {'0' * 64} was asked for" in other.err
    other = here.run(f"arm select arm own.json {SERVED} {given}")
    assert other.status == 1
    assert prompt().sha256 in other.err, "the checkpoint has a prompt of its own"
    unsaid = here.run(f"arm select one.json {SERVED} {given}")
    assert (unsaid.status, "$.dialect" in unsaid.err) == (2, True)


# -- many -------------------------------------------------------------------------------------------------------------


def rows(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return found


@pytest.mark.usefixtures("fast")
def test_lines_to_a_server_and_again(here: Shell) -> None:
    here.write("many.jsonl", *(asked(id=f"r{n}", state=state(task=f"task {n}")) for n in range(6)), {"id": "x"})
    here.server.change(Script(faults=(Fault("500", contains="task 3"),)))
    done = here.run(f"arm select arm many.jsonl {SERVED}")
    assert done.status == 1
    out = here.folder / "picks" / "stand-in-many.parquet"
    assert done.out == "picks/stand-in-many.parquet\n"
    assert "7 rows: 5 ok, 1 error, 1 unreadable" in done.err
    assert "line 4 (r3): error (" in done.err
    assert "line 7 (x): unreadable ($ lacks the field 'candidates'" in done.err
    assert "without a pick: 2 of 7" in done.err
    assert [row["status"] for row in rows(out)] == ["ok", "ok", "ok", "error", "ok", "ok", "unreadable"]

    here.server.change(Script())
    here.server.reset()
    again = here.run(f"arm select arm many.jsonl {SERVED} --json")
    assert here.server.counts()["chat"] == 1
    assert (again.json["asked"], again.json["statuses"]) == (1, {"ok": 6, "unreadable": 1})
    last = here.run(f"arm select arm many.jsonl {SERVED} --json")
    assert (last.json["asked"], here.server.counts()["chat"], last.status) == (0, 1, 1)
    other = here.run(f"arm select arm many.jsonl {SERVED} --orders 3")
    assert "arm: picks/stand-in-many.parquet: holds picks of something else: how.orders differs" in other.err
    assert "next: --out NEW, or delete picks/stand-in-many.parquet" in other.err
    other = here.run(f"arm select arm many.jsonl {SERVED} --out picks.csv")
    assert (other.status, "next: --out picks.parquet" in other.err) == (2, True)
    other = here.run(f"arm select arm many.jsonl {SERVED} --response-format json_object")
    assert "holds picks of something else: model differs" in other.err


def test_a_split_of_a_build(here: Shell, tmp_path_factory: pytest.TempPathFactory) -> None:
    toy = Toy(tmp_path_factory.mktemp("toy"))
    for number in range(8):
        toy.scene(f"e{number}", picture=number, task=f"task {number}")
    folder = toy.build(validation=0.5).folder
    done = here.run(f"arm select arm {folder} {SERVED} --json")
    assert done.status == 0, done.err
    assert done.json["out"] == f"picks/stand-in-{Path(folder).name}-validation.parquet"
    train = here.run(f"arm select arm {folder} {SERVED} --split train --out train.parquet --json")
    found = [*rows(here.folder / done.json["out"]), *rows(here.folder / "train.parquet")]
    assert sorted(row["id"] for row in found) == [f"e{n}__t0#d0" for n in range(8)]
    assert {row["status"] for row in found} == {"ok"}
    assert (train.json["rows"], done.json["rows"]) == (
        here.server.counts()["chat"] - done.json["rows"],
        len(found) - train.json["rows"],
    )
    inside = here.run(f"arm select arm {folder} {SERVED} --out {folder}/picks.parquet")
    assert "lies in the built directory" in inside.err


def test_standard_input(here: Shell, models: dict[str, Chooser], monkeypatch: pytest.MonkeyPatch) -> None:
    models["fake"] = Selects('{"selection": 1}')

    def given(data: str) -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data.encode()), "utf-8"))
        return here.run("arm select fake - --json")

    assert given(json.dumps(asked(id="a"))).json["id"] == "a"
    assert given(json.dumps(asked(id="b"), indent=1)).json["id"] == "b"
    spread = json.dumps(asked(id="spread", candidates=["CANDIDATE"])).replace(
        '"CANDIDATE"', '\n{"response": "stop()"}\n'
    )
    assert given(spread).json["id"] == "spread"
    many = given("\n".join(json.dumps(asked(id=name)) for name in "cd"))
    assert (many.json["rows"], many.json["out"]) == (2, "picks/fake-stdin.parquet")
    broken = given('{"id": \n')
    assert (broken.status, broken.json["where"]) == (1, "standard input")
    (here.folder / "picks" / "fake-stdin.parquet").unlink()
    assert given('{"id": "torn", \n' + json.dumps(asked())).json["statuses"] == {"unreadable": 1, "ok": 1}


def test_an_interrupt_says_what_is_kept(here: Shell, models: dict[str, Chooser]) -> None:
    def says(text: str) -> str:
        if "task 4" in text:
            raise KeyboardInterrupt
        return '{"selection": 1}'

    here.write("many.jsonl", *(asked(id=f"r{n}", state=state(task=f"task {n}")) for n in range(6)))
    models["fake"] = Selects(says)
    done = here.run("arm select fake many.jsonl --out picks.parquet --json")
    assert (done.status, done.out) == (130, "")
    assert "what was answered is kept in picks.parquet.making; the same command goes on from there" in done.err
    models["fake"] = Selects('{"selection": 1}')
    again = here.run("arm select fake many.jsonl --out picks.parquet --json")
    assert (again.json["rows"], again.json["asked"]) == (6, 3)


def test_many_with_another_policy(here: Shell, models: dict[str, Chooser]) -> None:
    models["mumbles"], models["scores"] = Selects("well"), Scores(lambda text: len(text) / 100)
    here.write("two.jsonl", asked(id="a"), asked(id="b", candidates=["click(1, 2)"]))
    done = here.run("arm select mumbles two.jsonl --otherwise scalar --scalar scores")
    assert done.status == 0
    assert "2 rows: 1 unparsed, 1 ok" in done.err
    assert "hold one action only: 1\n" in done.err
    assert "the scalar model chose: 1\n" in done.err
    found = rows(here.folder / "picks" / "mumbles-two.parquet")
    assert [(row["chosen_by"], row["action"]) for row in found] == [
        ("scalar", 'type(1, 2, "a")'),
        ("only", "click(1, 2)"),
    ]
    changed = here.run("arm select mumbles two.jsonl --otherwise first")
    assert "how.otherwise, scalar differ" in changed.err


# -- what means nothing -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("select arm", "a MODEL and an INPUT are needed"),
        ("select arm one.json two.json", "one MODEL and one INPUT"),
        ("select arm one.json --server local", "--server needs --served"),
        ("select arm one.json --served arm", "--served needs --server"),
        ("select arm one.json --prompt one.json", "--prompt needs --prompt-sha256"),
        ("select arm one.json --otherwise scalar", "--otherwise scalar needs --scalar MODEL"),
        ("select arm one.json --scalar arm", "--scalar is the model for --otherwise scalar"),
        ("select arm one.json --response-format json_object", "--response-format says nothing"),
        (f"select arm one.json {SERVED} --base .", "--base says nothing: the server loads the model"),
        (f"select arm one.json {SERVED} --device cpu", "--device says nothing"),
        (f"select arm one.json {SERVED} --agree all", "--agree says nothing without --orders"),
        (f"select arm one.json {SERVED} --split train", "requests in a file have none"),
        (f"select arm one.json {SERVED} --out x.parquet", "the answer to one request is printed"),
        (f"select arm endpoints.yaml {SERVED}", "is neither .json (one request) nor .jsonl"),
        (f"select arm nothing {SERVED}", "there is no registry.yaml here that could name it"),
        ("select arm one.json --server other --served x", "no server is called 'other'"),
        ("select arm one.json --server local --served other", "stand-in"),
        ("score data one.json", "is a dataset, and MODEL is a checkpoint"),
        ("score arm one.json", "is a selection_arm, which picks and gives no scores"),
    ],
)  # fmt: skip
def test_usage(here: Shell, line: str, told: str) -> None:
    if " data " in line:
        toy = Toy(here.folder)
        toy.scene("e")
        Path(toy.build().folder).rename("data")
    done = here.run(f"arm {line}")
    assert (done.status, done.out) == (2, "")
    assert told in done.err
    assert not (here.folder / "picks").exists()


def test_a_scalar_model_has_no_order(here: Shell, models: dict[str, Chooser]) -> None:
    models["scores"] = Scores(lambda text: 1.0)
    done = here.run("arm select scores one.json --orders 2")
    assert (done.status, "it has no order" in done.err) == (2, True)
    models["fake"] = Selects("x")
    done = here.run("arm select scores one.json --otherwise scalar --scalar fake")
    assert (done.status, "and a scalar model is meant" in done.err) == (2, True)


def test_what_a_request_quotes_cannot_steer_the_terminal(here: Shell, models: dict[str, Chooser]) -> None:
    models["fake"] = Selects("\x1b[2Jnext: rm -rf /")
    here.write("hostile.json", asked(id="\x1b[31m|x", candidates=[*CANDIDATES, "click(1, 2)\x1b]0;x\x07"]))
    done = here.run("arm select fake hostile.json")
    assert "\x1b" not in done.out + done.err
    request = read(asked(id="mine"), [Spoken("function", "pixel")])
    choice = Choice(request.id, "refused", None, None, detail="no\nnext: rm -rf /")
    picking_report.one(request, row_of(Question(0, None, request.id, request), choice))
    assert "\nnext:" not in here.capsys.readouterr().out
