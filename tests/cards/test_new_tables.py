"""A dataset with every table there is: its card, and stock `datasets` reading each of them as the card says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import pytest
from action_reward_models.builders import runner
from action_reward_models.builders.spec import (
    ActorSpec,
    NegativeSpec,
    PairSpec,
    PointwiseSpec,
    PromptSpec,
    ScorePairSpec,
)
from action_reward_models.cards.dataset import problems, render
from action_reward_models.cards.figures import figures
from action_reward_models.schemas.store import TABLES, UNSPLIT
from action_reward_models.tests.builders.conftest import Toy

ROWS = [name for name in TABLES if name not in ("exclusions", "states", "candidate_sets", "teacher_labels")]
ACTIONS = ("click(1, 1)", "click(7, 7)", "stop()")


class Made:
    def __init__(self, folder: Path) -> None:
        toy = Toy(folder)
        for number in range(4):
            toy.scene(f"e{number}", *ACTIONS, picture=number, task=f"Do {number}.")
        toy.scene("alone", "go_back()", picture=9)  # which cannot be spoilt
        scores = []
        for n in (1, 2):  # states that only scores judge
            said = f"<|im_start|>user\nTask: Go {n}.<|im_end|>\n<|im_start|>assistant\n"
            state = {"state_id": f"{n}", "episode_id": f"s{n}", "turn": 0, "prompt_text": said}
            toy.states.append({**state, "images": [toy.data_url(20 + n)]})
            cands = [{"action_str": a, "score": s} for a, s in zip(ACTIONS, (0.9, 0.2, 0.1), strict=True)]
            scores.append({"state_id": n, "cands": cands})
        items = [
            {"state_idx": 1, "pair_idx": n, "expected": 1, "source_name": "web", "prompt": f"Is 1 or 2 of {n} better?"}
            for n in range(4)
        ]
        review = {"item_id": "e3__t0", "verdict": "drop", "reviewer": "ann", "time": "2026-01-01T00:00:00Z", "note": ""}
        more = (
            toy.lay("candidate_scores", "molmoweb", "scores.jsonl", scores, dialect="function", space="pixel"),
            toy.lay("bench_items", "webprmbench", "bench.jsonl", items),
            toy.lay("reviews", "review", "reviews.jsonl", [review]),
        )
        spec = toy.spec(
            sources=(*toy.sources(), *more),
            tables=tuple(name for name in TABLES if name not in UNSPLIT),
            images=dict.fromkeys(("states", *ROWS), "embed"),
            pairs=PairSpec(
                PromptSpec("scalar/1"), origins=("selection", "scores"), max_pairs_per_state=5,
                scores=ScorePairSpec(0.1, "extreme", "selection"), negatives=NegativeSpec(corrupted=1),
            ),
            pointwise=PointwiseSpec(PromptSpec("scalar/1")),
            actor_sft=ActorSpec(random_control=True),
        )  # fmt: skip
        built = runner.build(spec, folder / "built", card=render, figures=figures, workers=1)
        self.folder, self.manifest = built.folder, built.manifest
        self.card = (built.folder / "README.md").read_text("utf-8")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("every"))


def test_every_table_has_rows_and_loads(made: Made, tmp_path: Path) -> None:
    counts = {name: table["rows"] for name, table in made.manifest["identity"]["tables"].items()}
    assert all(counts.values()), counts
    assert sorted(datasets.get_dataset_config_names(str(made.folder))) == sorted(counts)
    for name in ROWS:
        loaded = datasets.load_dataset(str(made.folder), name, cache_dir=str(tmp_path))
        assert sum(split.num_rows for split in loaded.values()) == counts[name]
    assert set(datasets.load_dataset(str(made.folder), "bench_items", cache_dir=str(tmp_path))) == {"validation"}
    assert "selection" in str(
        datasets.load_dataset(str(made.folder), cache_dir=str(tmp_path))["train"][0]["completion"]
    )


def test_the_card_says_what_they_are(made: Made) -> None:
    assert problems(made.card, made.manifest) == []
    for line in (
        "`pointwise_scores` trains a model that predicts the score of one candidate.",
        "`actor_sft` trains the policy itself on responses that were chosen.",
        "`bench_items` is for evaluation only and has no split but validation.",
        "- **For training:** 3 selection rows, ",
        "- **Beside them:** 1 pick in reserve and 4 items of a bench\n",
        "- **Scored:** 2 records of scores\n",
        "| `pointwise_scores` | One scored candidate. | `score_id` | `state_id` and `set_id` |",
        "| `bench_items` | One question of a preference bench: which of the options shown is better. "
        "For evaluation only. "
        "| `item_id` | – |",
        "**Scores are estimates**",
        "**`bench_items` are for evaluation.**",
        "**Reviewed in part.** People looked at 1 item and at nothing else here.\n",
        "## What people said\n\nPeople looked at 1 item: 1 of `states`.",
        "`reviews` and `exclusions` have one split, `train`",
        "Of two scored candidates of one set the higher one is chosen where the scores differ by more than `0.1`; "
        "the best against the worst comes first; of a set, as many are kept as its picked candidate gives.",
        "At most 5 pairs per state are kept.",
        "Each usable label gets up to 1 rejected side made by spoiling the chosen action.",
        "| `corrupted` | the chosen action, spoilt |",
        "## Responses for the actor\n\n`actor_sft` has the picked candidate of each usable label",
        "`selected_by: random_control`",
        "| `selection_sft` | `review_drop` | a reviewer took it out |",
        "Items of a bench are validation, all of them.",
        "source 7 decides about rows of",
    ):
        assert line in made.card, line
    for asset in ("slots", "pair_types", "lengths", "exclusions"):
        assert made.card.count(f"](assets/{asset}.png)") == 1
        assert (made.folder / "assets" / f"{asset}.png").is_file()


@pytest.mark.parametrize(
    ("tables", "default", "other"),
    [
        (["states", "pointwise_scores"], "pointwise_scores", "pointwise_scores"),
        (["states", "actor_sft", "reserve"], "actor_sft", "actor_sft"),
        (["bench_items", "exclusions"], "bench_items", "bench_items"),
        (["states", "bt_pairs", "pointwise_scores"], "states", "bt_pairs"),
        (["states", "selection_sft", "pointwise_scores", "bench_items"], "selection_sft", "pointwise_scores"),
    ],
)
def test_the_default_is_what_is_learned_from(made: Made, tables: list[str], default: str, other: str) -> None:
    identity = {**made.manifest["identity"]}
    identity["tables"] = {name: identity["tables"][name] for name in tables}
    card = render({**made.manifest, "identity": identity})
    assert f"  # {default}\n" in card
    assert f'load_dataset("someone/toy", "{other}", split=' in card
    assert card.count("  default: true\n") == 1
    assert f"- config_name: {default}\n  data_files:" in card


def test_only_a_bench(made: Made) -> None:
    identity: dict[str, Any] = {**made.manifest["identity"]}
    identity["tables"] = {"bench_items": identity["tables"]["bench_items"]}
    identity["sources"] = [source for source in identity["sources"] if source["kind"] == "bench_items"]
    identity["ledger"], identity["statistics"] = {}, {"bench_items": {"validation": 4}}
    card = render({**made.manifest, "identity": identity})
    for absent in (
        "**Observed:**",
        "**Judged:**",
        "**No labels.**",
        "**There is no validation split.**",
        "For training",
    ):
        assert absent not in card, absent
    assert "source 1 goes into `bench_items`." in card
