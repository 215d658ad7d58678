"""Pairs as registry.yaml declares them, from reading the file to the rows of a build."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders import runner
from action_reward_models.registry import Registry
from action_reward_models.schemas.errors import ArmError
from action_reward_models.tests.builders.conftest import Build, Toy

if TYPE_CHECKING:
    from collections.abc import Sequence

DECLARED = """\
registry: 1
namespace: someone
datasets:
  - name: pairs
    version: "1.0.0"
    license: mit
    sources:
      - {kind: states, format: first_release, path: states.jsonl, dialect: function, space: pixel}
      - {kind: candidate_scores, format: molmoweb, path: scores.jsonl, dialect: function, space: pixel,
         score_source: prm}
      - {kind: teacher_labels, format: first_release, path: labels.jsonl}
      - {kind: reviews, format: review, path: reviews.jsonl}
    split: {validation: 0, seed: 1}
    tables:
      states: {}
      bt_pairs:
        prompt: scalar/1
        max_pairs_per_set: 3
        max_pairs_per_state: 5
        origins: [selection, scores]
        scores: {min_gap: 0.1, choose: extreme, budget: selection}
        negatives: {corrupted: 1, cross_task: 1}
        rules: {coordinate_only: quarantine}
      reserve: {}
    gates: {max_excluded: {bt_pairs: 0.9, candidate_scores: 0}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two pages with four scored candidates each, of which one is picked, and one page with a single candidate."""
    toy = Toy(tmp_path)
    said = (
        "<|im_start|>user\nTask: Do {}.\n<|vision_start|><|image_pad|><|vision_end|><|im_end|>\n<|im_start|>assistant\n"
    )
    actions = ("click(1, 1)", "click(7, 7)", "stop()", 'type("abc")')
    states = [{"state_id": f"{n}", "episode_id": f"e{n}", "turn": 0, "images": [toy.data_url(n)]} for n in range(3)]
    toy.write("states.jsonl", [{**state, "prompt_text": said.format(n)} for n, state in enumerate(states)])
    given: list[Sequence[str]] = [actions, actions[::-1], actions[:1]]
    toy.write("scores.jsonl", [
        {"state_id": n, "cands": [{"action_str": a, "score": k / 4} for k, a in enumerate(of)]}
        for n, of in enumerate(given)
    ])  # fmt: skip
    toy.write("labels.jsonl", [{"state_id": f"{n}#d1", "selection": 0} for n in range(3)])
    review: dict[str, Any] = {"verdict": "keep", "note": "", "reviewer": "r", "time": "2026-01-01T00:00:00Z"}
    toy.write("reviews.jsonl", [{"item_id": "0#d1|-|-|0|1", **review}])
    return tmp_path


def _load(folder: Path, text: str = DECLARED) -> Registry:
    (folder / "registry.yaml").write_text(text, "utf-8")
    return Registry.load(folder)


def test_every_kind_of_pair_is_declared_and_built(folder: Path) -> None:
    spec = _load(folder).dataset()
    made = runner.build(spec, folder / "out", card=lambda manifest: "", workers=1)
    build = Build(spec, made.folder, made.manifest, made.notes)
    assert build.balanced()
    parameters = build.identity["parameters"]["bt_pairs"]
    assert parameters["scores"] == {"min_gap": 0.1, "choose": "extreme", "budget": "selection"}
    assert parameters["negatives"] == {"corrupted": 1, "cross_task": 1}
    rows = build.rows("bt_pairs")
    assert max(Counter(row["state_id"] for row in rows).values()) == 5
    kinds = Counter((row["label_source"], row["negative_source"]) for row in rows)
    assert set(kinds) == {
        ("selection", "sampled"), ("scores", "sampled"), ("selection", "corrupted"), ("selection", "cross_task"),
    }  # fmt: skip
    assert {row["reason"] for row in build.rows("exclusions", stage="bt_pairs", status="quarantined")} == {
        "coordinate_only"
    }
    assert build.identity["ledger"]["reviews"]["out"] == 1
    assert build.identity["ledger"]["bt_pairs"]["in"] == 2 * (3 + 6 + 2) + 2
    # The third page has one candidate, and an action of another task beside it.
    assert [row["negative_source"] for row in rows if row["state_id"] == "2"] == ["corrupted", "cross_task"]
    assert build.rows("reserve") == []
    alone = runner.build(
        _load(folder, DECLARED.replace("corrupted: 1, cross_task: 1", "corrupted: 0")).dataset(), folder / "out",
        card=lambda manifest: "", workers=1,
    )  # fmt: skip
    assert [row["reason"] for row in Build(spec, alone.folder, alone.manifest, ()).rows("reserve")] == [
        "no_other_candidate"
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("      reserve: {}", "      reserve: {}\n      actor_sft: {}", None),
        (
            "      - {kind: candidate_scores, format: molmoweb,",
            "      - {kind: candidate_sets, format: first_release,",
            "needs a source of candidate_scores, since origins names scores: kind: episodes with format: rest_mcts, "
            "or kind: candidate_scores with format: scores or molmoweb",
        ),
        ("origins: [selection, scores]", "origins: [scores, scores]", "names one twice"),
        ("origins: [selection, scores]", "origins: [selection]", "means nothing unless origins names scores"),
        ("origins: [selection, scores]", "origins: [scores]", "needs a prompt and the origin selection"),
        (
            "      - {kind: teacher_labels,",
            "      - {kind: candidate_scores, format: molmoweb, path: more.jsonl, dialect: function, space: pixel,\n"
            "         score_source: values}\n      - {kind: teacher_labels,",
            "scores come from prm and values, and pairs are made of one of them",
        ),
        (
            "      - {kind: teacher_labels, format: first_release, path: labels.jsonl}\n",
            "",
            "needs a source of teacher_labels",
        ),
        ("candidate_scores: 0", "pointwise_scores: 0", "is no table of this dataset"),
    ],
)
def test_what_cannot_be_made_is_refused(folder: Path, old: str, new: str, message: str | None) -> None:
    (folder / "more.jsonl").write_text("{}\n", "utf-8")
    assert old in DECLARED
    text = DECLARED.replace(old, new)
    if message is None:
        assert _load(folder, text).dataset().pairs
        return
    with pytest.raises(ArmError) as caught:
        _load(folder, text)
    assert any(message in issue.message for issue in caught.value.issues)


@pytest.mark.parametrize(
    "more", ["scores: {budget: selection}", "negatives: {corrupted: 1}", "negatives: {cross_task: 1}"]
)
def test_labels_are_needed_for_what_rests_on_them(folder: Path, more: str) -> None:
    """With scores alone there is no pick to count by or to spoil."""
    text = DECLARED[: DECLARED.index("        max_pairs_per_set")] + "        origins: [scores]\n"
    text = text.replace("      - {kind: teacher_labels, format: first_release, path: labels.jsonl}\n", "")
    assert _load(folder, text).dataset().pairs
    with pytest.raises(ArmError, match="needs a source of teacher_labels"):
        _load(folder, f"{text}        {more}\n")
