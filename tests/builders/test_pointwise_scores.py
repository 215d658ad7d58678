"""Scored candidates as rows: one number each, or the reason why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from action_reward_models.builders.spec import BASE_TABLES, DEFAULT_RULES, PairSpec, PointwiseSpec, PromptSpec
from action_reward_models.inference.rendering import read_prompt

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

TABLES = (*BASE_TABLES, "pointwise_scores")


def _page(toy: Toy, number: int, pictured: bool = True) -> None:
    said = f"<|im_start|>user\nTask: Do {number}.<|im_end|>\n<|im_start|>assistant\n"
    record = {"state_id": f"{number}", "episode_id": f"e{number}", "turn": 0, "prompt_text": said}
    toy.states.append({**record, "images": [toy.data_url(number)] if pictured else []})


def _build(toy: Toy, scores: dict[int, list[float | None]], **changes: Any) -> Build:
    records = [
        {
            "state_id": state,
            "cands": [
                {"action_str": f"click({i}, 1)"} | ({} if s is None else {"score": s}) for i, s in enumerate(row)
            ],
        }
        for state, row in scores.items()
    ]
    given = toy.lay("candidate_scores", "molmoweb", "scores.jsonl", records, dialect="function", space="pixel")
    spec = PointwiseSpec(PromptSpec("scalar/1"))
    return toy.build(
        sources=(*toy.sources(), given), tables=(*TABLES, *(["bt_pairs"] if "pairs" in changes else [])),
        pointwise=spec, images={"states": "embed", "pointwise_scores": "embed"}, **changes,
    )  # fmt: skip


def test_one_row_a_scored_candidate(toy: Toy) -> None:
    _page(toy, 1)
    build = _build(toy, {1: [0.25, None, 1, 0]})
    rows = {row["candidate_index"]: row for row in build.rows("pointwise_scores")}
    assert {index: row["score"] for index, row in rows.items()} == {0: 0.25, 2: 1.0, 3: 0.0}
    assert build.excluded("pointwise_scores") == {"unscored": ["1#d1|1|prm|scalar/1"]}
    assert build.balanced()
    row = rows[2]
    assert row["completion"][0]["content"] == [{"type": "text", "text": "Action: click(2, 1)"}]
    assert (row["unit"], row["score_source"], row["state_id"], row["set_id"]) == ("step", "prm", "1", "1#d1")
    assert row["prompt_id"] == "scalar/1"
    assert len(row["images"]) == 1
    assert build.identity["ledger"]["candidate_scores"]["out"] == 1
    assert build.identity["ledger"]["pointwise_scores"]["in"] == 4


def test_one_prompt_with_two_sets_of_options_is_two_files(toy: Toy) -> None:
    """One of them would be written over the other."""
    _page(toy, 1)
    pairs = PairSpec(PromptSpec("scalar/1", options={"candidate_reasoning": False}), rules=DEFAULT_RULES)
    build = _build(toy, {1: [0.25, 0.5]}, pairs=pairs)
    said = {prompt["sha256"]: prompt["options"] for prompt in build.identity["prompts"]}
    files = {path.name: read_prompt(path) for path in (build.folder / "prompts").iterdir()}
    assert {name: prompt.sha256 for name, prompt in files.items()} == {f"scalar-1-{s[:12]}.json": s for s in said}
    assert {prompt.sha256: prompt.options.to_json() for prompt in files.values()} == said
    assert len(said) == 2
    named = {path for path in build.manifest["environment"]["files"] if path.startswith("prompts/")}
    assert named == {f"prompts/{name}" for name in files}


def test_a_score_outside_is_named(toy: Toy) -> None:
    _page(toy, 1)
    build = _build(toy, {1: [1.5, 0.5]})
    assert build.excluded("pointwise_scores") == {"score_out_of_range": ["1#d1|0|prm|scalar/1"]}


def test_a_state_that_cannot_be_shown_takes_all_its_scores_out(toy: Toy) -> None:
    _page(toy, 1, pictured=False)
    _page(toy, 2)
    build = _build(toy, {1: [0.5, 0.75], 2: [0.5]})
    assert [len(ids) for ids in build.excluded("pointwise_scores").values()] == [2]
    assert list(build.excluded("pointwise_scores")) == ["no_screenshot"]
    assert build.balanced()


def test_neither_buckets_nor_order_decide(toy: Toy) -> None:
    for number in range(1, 7):
        _page(toy, number)
    scores: dict[int, list[float | None]] = {number: [0.1 * number, 0.5] for number in range(1, 7)}
    one = _build(toy, scores, shards=1)
    toy.states.reverse()
    many = _build(toy, dict(reversed(scores.items())), shards=4)
    assert one.digests == many.digests
