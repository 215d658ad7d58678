"""What a model card says, for whole, sparse and hostile manifests."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from action_reward_models.cards.model import render
from action_reward_models.cards.model_facts import ALONE
from action_reward_models.cards.model_metadata import front_matter
from action_reward_models.cards.model_recipe import recipe
from action_reward_models.registry import alone
from action_reward_models.schemas.errors import ArmError
from action_reward_models.tests.cards.model import read

HOSTILE = (
    "---\r\nlicense: gpl\n---\n| a | b |\n<script>alert(1)</script><!-- action-reward-models:end --> `x` ``` "
    "\n```\n[l](javascript:alert(1)) ![i](http://e.vil/i.png) {{ 7*7 }} {% raw %} \u2028 \u202e www.e.vil <img src=x> "
    + "y" * 500
)  # fmt: skip


def test_a_reader_finds_what_is_needed(manifest: dict[str, Any]) -> None:
    card = render(manifest)
    assert read.sections(card) == [
        "Use it", "What it has to be used with", "Know before you use it", "Evaluation", "Training",
        "Where it comes from", "Files", "Check",
    ]  # fmt: skip
    assert all(len({len(row) for row in [head, *rows]}) == 1 for head, rows in read.tables(card))
    assert "More Information Needed" not in card
    body = read.body(card)
    assert not re.search(
        r"\bNone\b(?!: it)|\bnan\b|Undefined|\bTrue\b", re.sub(r"```.*?```", "", body, flags=re.DOTALL)
    )
    assert manifest["environment"]["created"] not in card
    for commit in (manifest["checkpoint"]["base"]["commit"], manifest["evaluations"][0]["dataset"]["commit"]):
        assert commit in body
    for digest in (manifest["identity_sha256"], manifest["identity"]["dataset"]["identity_sha256"]):
        assert digest in body


def test_the_parent_is_named(selection: dict[str, Any]) -> None:
    card = render(selection)
    commit = selection["identity"]["init_from"]["commit"]
    assert f"**Trained further from** `your-name/miniwob-selection-arm` `v1.0.0`, commit `{commit}`" in card
    assert "n4 --> n3" in card
    assert "arm lineage your-name/miniwob-selection-arm@v1.1.0" in card


def test_code_compiles_and_pins_every_revision(manifest: dict[str, Any]) -> None:
    card = render(manifest)
    snippets = read.snippets(card, "python")
    assert len(snippets) == 7
    base, data = manifest["checkpoint"]["base"], manifest["evaluations"][0]["dataset"]
    version = f"v{manifest['identity']['version']}"
    own = f"{manifest['identity']['namespace']}/{manifest['identity']['name']}"
    wanted = {own: version, base["repo"]: base["commit"], data["repo"]: data["commit"]}
    seen = []
    for tree in map(ast.parse, snippets):
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            names = [a.value for a in call.args if isinstance(a, ast.Constant) and a.value in wanted]
            if names:
                given = {k.arg: ast.unparse(k.value) for k in call.keywords}
                pinned = given.get("revision") or given["adapter_kwargs"]
                assert wanted[names[0]] in pinned
                seen.append(names[0])
    assert seen.count(own) == 5  # ours twice, PEFT, transformers, and its processor
    assert set(seen) == set(wanted)


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        ("scalar", ['score(row["prompt"], images, [row["chosen"], row["rejected"]])',
                    "AutoModelForSequenceClassification",
                    "vllm serve miniwob-scalar-bt-merged --runner pooling --convert classify"]),
        ("selection", ['ask(row["prompt"], images, n)', "AutoModelForImageTextToText",
                       "vllm serve miniwob-selection-arm-merged\n",
                       '`"chat_template_kwargs": {"enable_thinking": false}`']),
    ],
)  # fmt: skip
def test_ways_to_use_it(kind: str, lines: list[str], request: pytest.FixtureRequest) -> None:
    card = render(request.getfixturevalue(kind)).replace("<code>", "`").replace("</code>", "`")
    card = card.replace("&#34;", '"').replace("&#58;", ":").replace("&#123;", "{").replace("&#125;", "}")
    for line in lines:
        assert line in card, line


def test_a_merged_model_is_loaded_alone(scalar: dict[str, Any]) -> None:
    scalar["checkpoint"] |= {"layout": "merged", "head": {**scalar["checkpoint"]["head"], "file": None}}
    scalar |= {"training": None, "evaluations": []}
    card = render(scalar)
    assert "PeftModel" not in card
    assert "load_adapter" not in card
    assert "vllm serve your-name/miniwob-scalar-bt --revision v1.0.0 --runner pooling --convert classify" in card
    assert "**Not measured.**" in card
    assert "**Nobody measured it.**" in card
    head = yaml.safe_load(card.split("\n---\n")[0])
    assert (head["base_model_relation"], head["library_name"]) == ("finetune", "transformers")
    assert "model-index" not in head
    assert "lora" not in head["tags"]


def test_who_is_declared_nowhere_is_called_so_by_the_registry() -> None:
    assert (alone.NAMESPACE, alone.VERSION) == ALONE


def test_a_trial_on_folders_is_called_one(selection: dict[str, Any]) -> None:
    nowhere = {"repo": None, "revision": None}
    namespace, version = ALONE
    selection["identity"] |= {"namespace": namespace, "version": version, "license": None}
    selection["identity"] |= {"init_from": {**nowhere, "commit": None}}
    selection["identity"]["dataset"] |= nowhere
    selection["checkpoint"]["base"] |= {"repo": None, "commit": None, "sha256": "a" * 64}
    selection["checkpoint"]["prompt"] = {"id": None, "sha256": None, "file": None}
    selection["evaluations"][0]["dataset"] |= {**nowhere, "commit": None}
    card = render(selection)
    head = yaml.safe_load(card.split("\n---\n")[0])
    assert set(head) == {"library_name", "pipeline_tag", "tags"}
    for said in (
        "# miniwob-selection-arm\n",
        "**Not published.** No registry declares it",
        'SelectionARM.open(Path("CHECKPOINT_FOLDER"), base=Path("BASE_FOLDER"))',
        "**Nobody else can repeat this.** Its base model and dataset lay in a folder and have no name",
        "No licence is declared for the weights",
        "**The prompt came with the rows.**",
        f"a folder; sha256 of its files `{'a' * 64}`",
        "**Trained further from** a folder",
    ):
        assert said in card, said
    assert "from_pretrained" not in card
    assert "arm lineage" not in card


LIMITS: list[tuple[str, Callable[[dict[str, Any]], None], str]] = [
    ("scalar", lambda m: m["training"].update(parameters=1_043_200), "**A toy.** The whole model has 1,043,200 param"),
    ("scalar", lambda m: None, "**Not clearly better than simple rules.** On `validation`, exact agreement is 0.561; "
     "chance alone may explain how it differs from most common action (0.481)."),
    ("scalar", lambda m: m["evaluations"][0]["reports"][0].update(value=0.33), "**It does not beat simple rules.** On "
     "`validation`, exact agreement is 0.330, and no better than most common action (0.481), one sampled"),
    ("scalar", lambda m: m["evaluations"][0]["reports"][0].update(baselines=[], differences=[]), "**No baseline.**"),
    ("scalar", lambda m: None, "**Agreement with `gpt-5.2` is not success.**"),
    ("selection", lambda m: None, "**The teacher is not known.**"),
    ("selection", lambda m: None, "**The teacher's own noise is not known.**"),
    ("selection", lambda m: None, "**5.0 % of the answers on `validation` name no candidate**"),
    ("selection", lambda m: None, "**Position.** On `validation` it picks place 1 in 40.8 % of its picks"),
    ("selection", lambda m: m["evaluations"][0].update(orders=1), "**One order.**"),
    ("scalar", lambda m: None, "**Few items.** `validation` has 212 candidate sets of 190 states; the 95 % interval of "
     "exact agreement goes from 0.491 to 0.632."),
    ("scalar", lambda m: m["evaluations"][0]["reports"][0].update(interval_low=1.0, interval_high=1.0), "**Few items.**"
     " `validation` has 212 candidate sets of 190 states; all of them gave the same value, so that the interval has"),
    ("scalar", lambda m: None, "**Not asked on `validation`:** 11 of 223 candidate sets"),
    ("scalar", lambda m: None, "**One host.** All items are from `miniwob`"),
    ("scalar", lambda m: m["evaluations"][0].update(split="train"), "**`validation` is what it was trained on.**"),
    ("scalar", lambda m: m["training"].update(split="validation"), "**Trained on validation rows.**"),
    ("scalar", lambda m: None, "**Another prompt is another model.** It was trained with `scalar/1`"),
    ("scalar", lambda m: None, "**Scores have no unit and no zero.**"),
    ("scalar", lambda m: None, "**Rows left out.** 18 of 4,120 rows of training"),
    ("scalar", lambda m: m["training"].update(epochs=0.02), "**Stopped early.** Training made 0.020 of 1 passes"),
    ("scalar", lambda m: m["training"].update(loss_last=0.7), "**The loss did not fall**: 0.693 at first, 0.700"),
    ("scalar", lambda m: None, "**The vision tower is the base model's.**"),
    ("scalar", lambda m: m["checkpoint"]["processor"].update(min_pixels=None, max_pixels=None), "**Text only.**"),
    ("selection", lambda m: None, "**Trained further.** What `your-name/miniwob-selection-arm` `v1.0.0` learned"),
    ("scalar", lambda m: None, "**Licences.** The weights are under `apache-2.0`."),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "change", "said"), LIMITS, ids=[said[:30] for _, _, said in LIMITS])
def test_limits_follow_from_facts(
    kind: str, change: Callable[[dict[str, Any]], None], said: str, request: pytest.FixtureRequest
) -> None:
    manifest = request.getfixturevalue(kind)
    change(manifest)
    known = render(manifest).partition("## Know before you use it")[2].partition("## Evaluation")[0]
    assert said in known, known


def test_what_is_not_so_is_not_said(manifest: dict[str, Any]) -> None:
    """A good evaluation has none of the limits of a bad one."""
    (one,) = manifest["evaluations"]
    report = one["reports"][0]
    report |= {"value": 0.9, "interval_low": 0.88, "interval_high": 0.92}
    for less in report["differences"]:
        less |= {"low": 0.1}
    one |= {"states": 900, "outcomes": {"ok": one["items"]}, "left_out": {}, "orders": 2, "slots": [40, 41, 39]}
    one["breakdown"] = [{**g, "value": f"{g['value']}{n}"} for n in range(12) for g in one["breakdown"]]
    manifest["training"]["unusable"] = {}
    known = render(manifest).partition("## Know before you use it")[2].partition("## Evaluation")[0]
    for word in ("simple rules", "Few items", "name no candidate", "Not asked", "Position", "One order", "host",
                 "Rows left out", "toy", "Stopped early", "did not fall"):  # fmt: skip
        assert word not in known, word


def test_a_withdrawn_version_says_so(scalar: dict[str, Any]) -> None:
    scalar["environment"]["withdrawn"] = {"1.0.0": "head <b>lost</b>", "0.9.0": "wrong data", "0.10.0": "older"}
    card = render(scalar)
    assert "> **This version is withdrawn: do not use it.** head &#60;b&#62;lost" in card
    assert [line[:9] for line in card.splitlines() if line.startswith("- `v")] == [
        "- `v1.0.0",
        "- `v0.10.",
        "- `v0.9.0",
    ]


def test_a_class_of_ours_is_not_shown_with_stock_libraries(scalar: dict[str, Any]) -> None:
    """transformers knows no scalar model of this family, so that neither it nor PEFT could load one."""
    shown = render(scalar)
    scalar["checkpoint"]["architecture"] = "Qwen3VLForSequenceClassification"
    card = render(scalar)
    for stock in ("PeftModel", "AutoModelForSequenceClassification", "load_adapter"):
        assert stock in shown
        assert stock not in card
    assert "ScalarRewardModel.from_pretrained" in card
    assert "--runner pooling --convert classify" in card


def test_the_order_of_the_keys_does_not_matter(manifest: dict[str, Any]) -> None:
    def turned(value: Any) -> Any:
        if isinstance(value, list):
            return [turned(item) for item in value]
        return {k: turned(value[k]) for k in reversed(list(value))} if isinstance(value, dict) else value

    once = render(manifest)
    assert render(turned(manifest)) == once
    assert render(json.loads(json.dumps(manifest, sort_keys=True))) == once


# Names that stand in code, and so are refused when they are no names; and what is a number in words.
_NAMES = {"name", "namespace", "version", "repo", "revision", "commit", "architecture", "file", "kind", "layout",
          "split", "by", "loss", "dtype", "metric", "table"}  # fmt: skip


def test_hostile_text_stays_text(manifest: dict[str, Any]) -> None:
    plain = render(manifest)

    def poison(value: Any, key: str) -> Any:
        if isinstance(value, dict):
            kept = key in ("files", "recipe") or not all(isinstance(v, int) and v is not True for v in value.values())
            return {(k if kept else f"{k} {HOSTILE}"): poison(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [poison(item, key) for item in value]
        return HOSTILE if isinstance(value, str) and key not in _NAMES else value

    kept = {part: manifest["checkpoint"][part] for part in ("base", "kind", "layout", "architecture")}
    poisoned = poison({k: v for k, v in manifest.items() if k != "model_manifest"}, "")
    poisoned["checkpoint"] |= kept
    poisoned["model_manifest"] = 1
    for report in (r for one in poisoned["evaluations"] for r in one["reports"]):
        for rule, less in zip(report["baselines"], report["differences"], strict=True):
            rule["name"] = less["baseline"] = f"{HOSTILE} {rule['name']}"
    poisoned["identity"]["recipe"]["trainer"] = {HOSTILE: [HOSTILE], "a": {HOSTILE: 1}}
    poisoned["checkpoint"]["processor"] |= {
        **manifest["checkpoint"]["processor"],
        "template_options": {HOSTILE: HOSTILE},
    }
    card = render(poisoned)
    assert all(len({len(row) for row in [head, *rows]}) == 1 for head, rows in read.tables(card))
    assert len(list(read.tables(card))) == len(list(read.tables(plain)))
    assert read.markup(read.body(card)) == read.markup(read.body(plain))
    assert card.count("<!--") == 2
    assert "\u2028" not in card
    assert "\u202e" not in card
    assert len(read.snippets(card, "python")) == 7
    for snippet in read.snippets(card, "python"):
        ast.parse(snippet)
    (said,) = read.snippets(card, "yaml")
    assert yaml.safe_load(said) == poisoned["identity"]["recipe"]
    head = yaml.safe_load(card.split("\n---\n")[0])
    assert head["license"] == "other"
    assert set(head) == set(front_matter(manifest)) | {"license_name"}


@pytest.mark.parametrize(
    "value", ["", " a", "no", "1.0", "~", "a: b", "#x", "- x", "```\nx", "<!-- x", "\u2028é", "'\"\\", "x\n\n```\n"]
)
def test_a_recipe_of_any_text_reads_back(value: str) -> None:
    data = {"recipe": 1, "trainer": {value or "key": value, "list": [value, {"deep": value}]}}
    written = recipe(data)
    assert yaml.safe_load(written) == data
    assert "<!--" not in written
    assert not re.search(r"^\s*```", written, re.MULTILINE)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("identity", "name"), "a b"), (("identity", "namespace"), "a\n"), (("identity", "version"), "1.0"),
        (("checkpoint", "base", "repo"), "a/b/c"), (("checkpoint", "base", "commit"), 'x")'),
        (("checkpoint", "prompt", "file"), "../x"), (("checkpoint", "architecture"), "A;B"),
        (("identity", "dataset", "revision"), "v1 0"), (("evaluations", 0, "name"), "a/b"),
        (("evaluations", 0, "dataset", "repo"), "`"), (("model_manifest",), 2),
        (("evaluations", 0, "reports", 0, "metric"), "<!--"), (("training", "table"), "a\n"),
    ],
)  # fmt: skip
def test_names_that_no_checkpoint_can_have_are_refused(
    scalar: dict[str, Any], place: tuple[Any, ...], value: Any
) -> None:
    owner: Any = scalar
    for key in place[:-1]:
        owner = owner[key]
    owner[place[-1]] = value
    with pytest.raises(ArmError, match=r"no checkpoint can have|of version 1"):
        render(scalar)
