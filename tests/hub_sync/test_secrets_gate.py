"""Secrets and addresses of many kinds in many places: each is named before publishing, and none is left by `redact`."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest
from action_reward_models.builders import runner
from action_reward_models.cards.dataset import render
from action_reward_models.hub_sync.hub import Hub
from action_reward_models.hub_sync.plan import plan
from action_reward_models.hub_sync.preflight import MAX_TOLD, preflight
from action_reward_models.registry import Registry, check_build
from action_reward_models.schemas.errors import ArmError
from action_reward_models.tests.builders.conftest import Toy
from action_reward_models.tests.hub_sync import conftest
from action_reward_models.tests.hub_sync.conftest import Publisher

MINIWOB = Path(__file__).parents[2] / "examples" / "miniwob"
HEX = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
KEY = "QwErTyUiOp1234AsDfGhJkLz5678XcVbNmQwErTyUi90"
PEM = f"-----BEGIN EC PRIVATE KEY-----\n{KEY}{KEY}\n-----END EC PRIVATE KEY-----"

# (kind, the secret, table and field where it must be named)
PLANTED: dict[str, tuple[str, str, str, str]] = {
    "task": ("e-mail address", "jane.doe@gmail.com", "states", "$.task"),
    "url": ("URL credentials", "s3cretpw", "states", "$.url"),
    "url parameter": ("URL parameter", HEX, "states", "$.url"),
    "system": ("API key", f"k{HEX}", "states", "$.messages_json"),
    "arguments text": ("password", "corr3ct-horse", "states", "$.demo_response"),
    "arguments object": ("password", "87654321", "states", "$.demo_response"),
    "filled field": ("password", "battery-5taple", "states", "$.demo_response"),
    "tools": ("Slack token", f"xoxb-123456789012-{KEY[:24]}", "states", "$.tools_json"),
    "tool result": ("JSON web token", f"eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.{KEY[:43]}", "states", "$.messages_json"),
    "history thought": ("GitHub token", f"ghp_{KEY[:36]}", "states", "$.history[0].thought"),
    "history action": ("Google key", f"AIza{KEY[:35]}", "states", "$.history[0].action"),
    "history observation": ("npm token", f"npm_{KEY[4:40]}", "states", "$.history[0].observation"),
    "element": ("e-mail address", "sales%40shop.io", "states", "$.elements[0].text"),
    "metadata": ("password", "letmein-99", "states", "$.source_record_json"),
    "nested": ("GitLab token", f"glpat-{KEY[:20]}", "states", "$.source_record_json"),
    "other key": ("private key", PEM, "states", "$.source_record_json"),
    "text only": ("AWS key id", "AKIAQWERTYUIOPASDFGH", "states", "$.observation_text"),
    "response": ("Hugging Face token", f"hf_{KEY[8:]}", "candidate_sets", "$.candidates[0].response"),
    "parsed action": ("password", "tr0ub4dor", "candidate_sets", "$.candidates[1].action_json"),
    "thought": ("AI provider key", f"sk-ant-{KEY[:30]}", "candidate_sets", "$.candidates[2].thought"),
    "reasoning": ("Stripe key", f"sk_live_{KEY[:24]}", "teacher_labels", "$.reasoning"),
    "after the last turn": ("PyPI token", f"pypi-AgE{KEY}{KEY}", "states", "$.source_record_json"),
}


def plant(toy: Toy) -> None:
    """One secret of each place, in a toy without any other."""
    secret = {place: value for place, (_, value, _, _) in PLANTED.items()}
    call = {"name": "fill", "arguments": json.dumps({"user": "bob", "password": secret["arguments text"]})}
    second = {"name": "fill", "arguments": {"password": int(secret["arguments object"]), "x": 1}}
    third = {"name": "fill", "arguments": json.dumps({"text": secret["filled field"], "a": 1, "label": "Password"})}
    url = f"https://bob:{secret['url']}@shop.com/a?token={secret['url parameter']}&b=1"
    toy.episode(
        "e1",
        toy.message("system", f"Use api_key={secret['system']} for the shop."),
        toy.message("user", f"Task: Write to {secret['task']}.", 1),
        toy.message(
            "assistant",
            toy.response(f'type("{secret["history action"]}")', f"I hold {secret['history thought']} now"),
        ),
        toy.message("user", f"Page says {secret['history observation']}\nURL: {url}", 2),
        toy.message("assistant", None, tool_calls=[{"function": f} for f in (call, second, third)]),
        toy.message("tool", f'{{"session": "{secret["tool result"]}"}}'),
        toy.message("assistant", toy.response("click(1, 1)")),
        toy.message("user", f"Saved {secret['after the last turn']}"),
        tools=[{"type": "function", "function": {"name": "fill", "description": f"uses {secret['tools']}"}}],
        metadata={
            "elements": [[{"tag": "a", "text": f"mail {secret['element']}", "box": [0, 0, 1, 1]}], [], []],
            "login": {"user": "bob", "password": secret["metadata"]},
            "steps": [{"deep": [{"er": json.dumps({"header": f"x {secret['nested']}"})}]}],
        },
        notes=[secret["other key"]],
    )
    toy.episode(
        "e2",
        toy.message("user", f"Task: Read.\naws {secret['text only']}"),
        toy.message("assistant", toy.response("click(1, 1)")),
    )
    responses = [
        toy.response(f'type("use {secret["response"]}")'),
        toy.response(f'fill(field="Password", clear=true, text="{secret["parsed action"]}")'),
        toy.response("click(7, 7)", f"the key {secret['thought']}"),
    ]
    toy.label(toy.draw("e1__t0", *responses), 0, reasoning=f"It has {secret['reasoning']} in it.")


def build(toy: Toy, out: str, **changes: Any) -> runner.Built:
    return runner.build(toy.spec(**changes), toy.folder / out, card=render, workers=1)


def strings(folder: Path) -> str:
    """Everything that a build would publish as text, with the strings of all rows as they are and in JSON."""
    texts = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if path.suffix == ".parquet":
            columns = [f.name for f in pq.read_schema(path) if f.name not in ("screenshot", "images")]
            rows = pq.read_table(path, columns=columns).to_pylist()
            texts += [json.dumps(rows, ensure_ascii=False), str(rows)]
        else:
            texts.append(path.read_text("utf-8"))
    return "\n".join(texts)


# -- found -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    toy = Toy(tmp_path_factory.mktemp("planted"))
    plant(toy)
    folder = build(toy, "toy").folder
    return folder, [str(finding) for finding in preflight(folder, check_build).findings]


def test_there_are_enough() -> None:
    assert len(PLANTED) >= 20
    assert len({kind for kind, *_ in PLANTED.values()}) >= 15
    assert len({value for _, value, _, _ in PLANTED.values()}) == len(PLANTED)


@pytest.mark.parametrize("place", PLANTED)
def test_each_is_named_with_its_row_and_field(place: str, planted: tuple[Path, list[str]]) -> None:
    folder, found = planted
    kind, secret, table, field = PLANTED[place]
    ids = {"states": "state_id e", "candidate_sets": "set_id e1__t0#d0", "teacher_labels": "label_id e1__t0#d0|"}
    row_id = re.escape(ids.get(table, "row_id "))
    form = rf"data/{table}/\S+\.parquet row (\d+) \({row_id}\S*\) {re.escape(field)} holds (?:an? )?{kind}: .+"
    named = [re.fullmatch(form, line) for line in found]
    rows = {int(match[1]) for match in named if match}
    assert rows, found
    (path,) = (folder / "data" / table).glob("*.parquet")
    shown = pq.read_table(path, columns=[re.sub(r"[\[.].*", "", field[2:])]).to_pylist()
    assert any(secret.replace("\n", "\\n") in str(shown[row]).replace("\\\\", "\\") for row in rows)


def test_a_report_shows_no_secret(planted: tuple[Path, list[str]]) -> None:
    _, found = planted
    assert any(line.startswith("data/selection_sft/") and "$.prompt[" in line for line in found), "rows repeat them"
    assert any(line.startswith("data/bt_pairs/") and "$.chosen[" in line for line in found)
    for _, secret, _, _ in PLANTED.values():
        assert not any(secret in line for line in found)


def test_an_id_that_holds_one_is_not_shown(tmp_path: Path) -> None:
    toy = Toy(tmp_path)
    toy.page("jane@gmail.com")
    found = [str(f) for f in preflight(build(toy, "toy", tables=("states",)).folder, check_build).findings]
    assert found
    assert not any("jane" in line for line in found)
    assert any(" row 0 $.state_id holds an e-mail address" in line for line in found)


def test_the_example_is_clean(tmp_path: Path) -> None:
    Registry.load(MINIWOB).build(out=tmp_path / "out", workers=1)
    checked = preflight(tmp_path / "out", check_build)
    assert (checked.issues, checked.findings, checked.violations) == ((), (), ())


# -- redacted ----------------------------------------------------------------------------------------------------------


def test_none_is_left(tmp_path: Path, planted: tuple[Path, list[str]]) -> None:
    toy = Toy(tmp_path)
    plant(toy)
    made = build(toy, "toy", redact=("secrets", "addresses"))
    checked = preflight(made.folder, check_build)
    assert (checked.issues, checked.findings) == ((), ())
    text = strings(made.folder)
    assert {place for place, (_, value, _, _) in PLANTED.items() if value in text} == set()
    before = strings(planted[0])
    assert {place for place, (_, value, _, _) in PLANTED.items() if value not in before} <= {"other key"}  # escaped
    counts = made.manifest["identity"]["statistics"]["redacted"]
    assert set(counts) == {kind for kind, *_ in PLANTED.values()}
    assert counts["password"] == sum(kind == "password" for kind, *_ in PLANTED.values())
    rows = pq.read_table(made.folder / "data" / "states").to_pylist()
    row = next(row for row in rows if row["state_id"] == "e1__t1")
    assert row["url"] == "https://bob:redacted-url-credentials@shop.com/a?token=redacted-url-parameter&b=1"
    assert row["host"] == "shop.com"
    for row in rows:  # what was JSON is
        assert all(json.loads(row[name]) for name in ("messages_json", "source_record_json") if row[name])


def test_one_group_leaves_the_other_to_the_gate(tmp_path: Path) -> None:
    toy = Toy(tmp_path)
    plant(toy)
    for group, kind in (("secrets", "e-mail address"), ("addresses", "password")):
        found = preflight(build(toy, group, redact=(group,)).folder, check_build).findings
        assert any(kind in finding.message for finding in found)
        assert all(("e-mail" in finding.message) is (group == "secrets") for finding in found)


SCRIPT = """
import sys, json
from pathlib import Path
from action_reward_models.registry import Registry
if __name__ == "__main__":
    built, _ = Registry.load(sys.argv[1]).build(out=Path(sys.argv[2]), workers=int(sys.argv[3]))
    print(built.manifest["identity_sha256"])
"""


def test_the_same_on_every_machine(tmp_path: Path) -> None:
    """Other worker counts, hash seeds and orders of the input: one identity."""
    toy = Toy(tmp_path)
    plant(toy)
    for number in range(12):
        toy.scene(f"s{number}", f'type("u{number}@gmail.com")', "click(1, 1)", picture=number, task=f"Do {number}.")
    registry = """registry: 1
namespace: lab
datasets:
  - name: toy
    version: "1.0.0"
    license: mit
    shards: 4
    redact: [secrets, addresses]
    sources:
      - {kind: episodes, format: openai_messages, path: episodes.jsonl, dialect: function, space: pixel}
      - {kind: candidate_sets, format: first_release, path: candidates.jsonl, dialect: function, space: pixel}
      - {kind: teacher_labels, format: first_release, path: labels.jsonl, teacher: toy}
    split: {validation: 0.3, seed: 1}
    tables: {states: {}, candidate_sets: {}, teacher_labels: {}, selection_sft: {prompt: selection/1}}
"""
    found = set()
    for run, (workers, seed) in enumerate(((1, "0"), (2, "1"), (3, "4711"))):
        toy.folder = tmp_path / f"run{run}"
        toy.folder.mkdir()
        for records in (toy.episodes, toy.sets, toy.labels):
            random.Random(run).shuffle(records)
        toy.sources()
        (toy.folder / "registry.yaml").write_text(registry, "utf-8")
        (toy.folder / "go.py").write_text(SCRIPT, "utf-8")
        command = [sys.executable, "go.py", "registry.yaml", "out", str(workers)]
        env = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(command, env=env, cwd=toy.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        # the digest of a file is that of its bytes, and their order is another
        identity = orjson.loads((toy.folder / "out" / "manifest.json").read_bytes())["identity"]
        assert identity["statistics"]["redacted"]["e-mail address"] == 14
        found.add(re.sub(r'"sha256":"\w+"', "", orjson.dumps(identity, option=orjson.OPT_SORT_KEYS).decode()))
    assert len(found) == 1


def test_equal_files_give_an_equal_identity_whatever_the_workers(tmp_path: Path) -> None:
    toy = Toy(tmp_path)
    plant(toy)
    spec = toy.spec(redact=("secrets", "addresses"), shards=4)
    one, two = (runner.build(spec, tmp_path / f"out{n}", card=render, workers=n) for n in (1, 2))
    assert one.manifest["identity_sha256"] == two.manifest["identity_sha256"]


# -- publishing --------------------------------------------------------------------------------------------------------


def test_the_refusal_prints_the_lines_that_mend_or_allow(publisher: Publisher, hub: Hub) -> None:
    publisher.text = "Ask jane@gmail.com."
    publisher.build()
    with pytest.raises(ArmError, match="secrets or addresses were found; nothing was published") as caught:
        publisher.push(hub)
    said = caught.value.next_command or ""
    assert "redact: [addresses]" in said
    assert "gates: {secrets: warn}" in said
    assert "--allow-findings" in said
    assert any("row 0 (state_id e" in str(issue) for issue in caught.value.issues)
    assert hub.refs(f"lab/{publisher.name}") is None


def declare(publisher: Publisher, monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """Let the publisher's dataset also say ``lines``."""
    names = type(publisher).build.__globals__
    monkeypatch.setitem(names, "REGISTRY", conftest.REGISTRY + "".join(f"    {line}\n" for line in lines))


def test_the_lines_that_are_printed_work(publisher: Publisher, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """`redact` publishes without them; `gates: {secrets: warn}` tells of them and publishes."""
    publisher.text = "Ask jane@gmail.com. " + " ".join(f"u{n}@gmail.com" for n in range(30))
    declare(publisher, monkeypatch, "gates: {{secrets: warn}}")
    publisher.build()
    planned = publisher.plan(hub)
    assert planned.findings == ()
    assert len(planned.warnings) == MAX_TOLD + 1
    assert planned.warnings[0].endswith(" holds an e-mail address: …@…, and gates.secrets is warn")
    assert re.fullmatch(r"[\d,]+ more secrets or addresses were found, .*", planned.warnings[-1])
    assert publisher.push(hub).tagged
    publisher.version = "1.1.0"
    declare(publisher, monkeypatch, "redact: [addresses]")
    publisher.build()
    planned = publisher.plan(hub)
    assert (planned.findings, planned.warnings) == ((), ())
    assert publisher.push(hub).tagged


def test_what_redaction_cannot_reach_is_said(publisher: Publisher, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(publisher, monkeypatch, "redact: [secrets, addresses]", "description: Ask jane@gmail.com.")
    publisher.build()
    with pytest.raises(ArmError) as caught:
        publisher.push(hub)
    assert (caught.value.next_command or "").startswith("they stand where `redact` changes nothing")


def test_a_violated_gate_is_refused_whoever_built_it(tmp_path: Path, hub: Hub) -> None:
    """Before the first version a build only warns; publishing asks the manifest."""
    toy = Toy(tmp_path)
    for name, pick in (("a", 0), ("b", None)):
        toy.scene(name, pick=pick)
    spec = toy.spec(max_excluded={"selection_sft": 0.1}, namespace="lab", name="violated")
    made = runner.build(spec, tmp_path / "out", card=render, workers=1, enforce=False)
    assert len(made.warnings) == 1
    assert check_build(made.folder) == [], "nothing is wrong with what was built"
    with pytest.raises(ArmError, match=r"selection_sft: 50\.0% of 2 labels are excluded") as caught:
        plan(made.folder, hub, check=check_build)
    assert caught.value.next_command == "gates: {max_excluded: {selection_sft: 0.50}}   # if that is right"
    allowed = toy.spec(max_excluded={"selection_sft": 0.5}, namespace="lab", name="violated")
    folder = runner.build(allowed, tmp_path / "allowed", card=render, workers=1).folder
    assert plan(folder, hub, check=check_build).operations
