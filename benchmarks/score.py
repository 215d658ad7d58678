"""CPU of scoring the candidates of one state with their common prefix run once, beside one full forward for each.

    python benchmarks/score.py [--n 5] [--rounds 3] [--json]
    python benchmarks/score.py --figure docs/assets/score_cost.png    # over n = 1..16; some five minutes

Two models of roughly 70 million parameters with weights drawn by chance, float32: Qwen3.5 (linear and full attention,
three to one) and Qwen3-VL (full attention). Every conversation has a screenshot of 1280 x 960 pixels, which is 1,200
tokens, 400 tokens of text before the candidates, and a candidate of about 110 tokens. One thread, each model in a
process of its own; the two ways are measured in turn and the median of their CPU seconds counts. Preparing pictures and
texts is outside both, and so is the comparison at first use. The ideal is the ratio of the tokens that go through the
model.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from action_reward_models.benchmarks.processes import run

MIN_GAIN = 3.5  # CPU of full forwards / CPU of shared scoring, of five candidates
MAX_DIFFERENCE = 1e-5  # of a score, between the two ways
PIXELS = (1280, 960)  # width, height: 80 x 60 patches of 16, four to a token
PICTURE_TOKENS, TEXT_TOKENS, REPLY_TOKENS = 1200, 400, 110
FAMILIES = {"qwen3_5": "Qwen3.5, hybrid", "qwen3_vl": "Qwen3-VL"}
COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16)  # candidates, of the figure
QUIET = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "TQDM_DISABLE": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
}
VOCABULARY = 8192
HIDDEN, LAYERS, HEADS, HEAD_WIDTH = 640, 12, 10, 64


def child(family: str, counts: Sequence[int], rounds: int) -> dict[str, Any]:
    """CPU seconds of both ways for each number of candidates, medians; the largest difference of their scores."""
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        model = scorer(Path(folder), family)
        rows = conversations(model.processor, max(counts))
        shares = shared_prefix(rows)
        model.score_sets([rows[:1]])  # whatever is set up once
        full: list[list[float]] = []  # of each round, for each candidate
        shared: dict[int, list[float]] = {count: [] for count in counts}
        most = 0.0
        for _ in range(rounds):
            alone = [timed(lambda row: model.score_encoded([row]), row) for row in rows]
            full.append([seconds for seconds, _ in alone])
            wanted = [score for _, (score,) in alone]
            for count in counts:
                seconds, (found,) = timed(lambda given: model.score_sets([given]), rows[:count])
                shared[count].append(seconds)
                most = max(most, *(abs(one - other) for one, other in zip(wanted, found, strict=False)))
        lines = [
            {
                "n": count,
                "full": statistics.median(sum(seconds[:count]) for seconds in full),
                "shared": statistics.median(shared[count]),
            }
            for count in counts
        ]
        return {
            "parameters": sum(weight.numel() for weight in model.model.parameters()),
            "prefix": shares,
            "suffixes": [len(row.input_ids) - shares for row in rows],
            "spread": statistics.pstdev(wanted),
            "difference": most,
            "lines": lines,
        }


def timed(work: Callable[[Any], Any], given: Any) -> tuple[float, Any]:
    """(CPU seconds of this process, what ``work`` returns)."""
    started = time.process_time()
    found = work(given)
    return time.process_time() - started, found


def scorer(folder: Path, family: str) -> Any:
    """A scalar reward model with weights drawn by chance, saved to ``folder`` and opened as any other."""
    import torch
    from action_reward_models.inference.checkpoint import load_base
    from action_reward_models.inference.processor import Limits, Processor
    from action_reward_models.inference.scalar import ScalarRewardModel
    from action_reward_models.tests.builders import tiny_processor
    from action_reward_models.tests.tiny_vlm.model import PICTURES, SPECIAL

    tiny_processor.make(folder, pictures=PICTURES, special=SPECIAL, vocabulary=400)
    area = PIXELS[0] * PIXELS[1]
    processor = Processor(folder, Limits(4096, 32 * 32, area))
    torch.manual_seed(0)
    made = base(family, processor)
    made.save_pretrained(folder)
    model = load_base(folder, kind="scalar", dtype="float32")
    torch.nn.init.normal_(model.score.weight, std=0.05)
    last = processor.scalar([], [], [said("assistant", "x")]).input_ids[-1]
    head = {"scored_token_id": last, "scored_token": processor.tokenizer.decode([last])}
    return ScalarRewardModel(model, processor, {"kind": "scalar", "dtype": "float32", "head": head}, check=False)


def base(family: str, processor: Any) -> Any:
    """A base model of about 70 million parameters."""
    import transformers

    tokens = processor.tokenizer.convert_tokens_to_ids
    text: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": 3 * HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": 2,
        "head_dim": HEAD_WIDTH,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
        "pad_token_id": processor.pad_token_id,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_interleaved": True},
    }
    vision: dict[str, Any] = {
        "depth": 4,
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_heads": 4,
        "patch_size": 16,
        "out_hidden_size": HIDDEN,
        "num_position_embeddings": 256,
    }
    if family == "qwen3_5":
        width = HEAD_WIDTH // 4  # of the half of a head that turns with the position
        text["rope_parameters"] |= {"partial_rotary_factor": 0.5, "mrope_section": [width - 10, 5, 5]}
        text |= {f"linear_{kind}_head_dim": HEAD_WIDTH for kind in ("key", "value")}
        text |= {f"linear_num_{kind}_heads": HEADS for kind in ("key", "value")}
        config: Any = transformers.Qwen3_5Config
        made: Any = transformers.Qwen3_5ForConditionalGeneration
    else:
        width = HEAD_WIDTH // 2
        text["rope_parameters"] |= {"mrope_section": [width - 20, 10, 10]}
        vision["deepstack_visual_indexes"] = [1, 2]
        config, made = transformers.Qwen3VLConfig, transformers.Qwen3VLForConditionalGeneration
    return made(
        config(
            text_config=text,
            vision_config=vision,
            tie_word_embeddings=True,
            image_token_id=processor.image_token_id,
            video_token_id=tokens("<|video_pad|>"),
            vision_start_token_id=tokens("<|vision_start|>"),
            vision_end_token_id=tokens("<|vision_end|>"),
        )
    )


def conversations(processor: Any, count: int) -> list[Any]:
    """``count`` candidates of one state, as the model takes them: the same words and picture, then replies of about
    ``REPLY_TOKENS`` tokens that differ from their first word on."""
    chance = random.Random(0)
    prompt = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": words(processor, chance)}]}]
    image = picture(chance)
    made = []
    for number in range(count):
        length = REPLY_TOKENS + chance.randint(-10, 10)
        reply = chr(ord("A") + number) + words(processor, chance, length - 1)
        made.append(processor.scalar(prompt, [image], [said("assistant", reply)]))
    return made


def words(processor: Any, chance: random.Random, length: int = TEXT_TOKENS) -> str:
    """Text of exactly ``length`` tokens: digits, each of which is one."""
    text = "".join(chance.choice("0123456789") for _ in range(length))
    assert len(processor.tokenizer(text)["input_ids"]) == length
    return text


def picture(chance: random.Random) -> bytes:
    from PIL import Image

    small = Image.frombytes("RGB", (40, 30), chance.randbytes(40 * 30 * 3))
    made = io.BytesIO()
    small.resize(PIXELS).save(made, "PNG")
    return made.getvalue()


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}]}


def shared_prefix(rows: Sequence[Any]) -> int:
    """Tokens that all conversations begin with."""
    columns = zip(*(row.input_ids for row in rows), strict=False)
    return next(at for at, column in enumerate(columns) if len(set(column)) > 1) if len(rows) > 1 else 0


def measured(family: str, counts: Sequence[int], rounds: int) -> dict[str, Any]:
    """What `child` found, in a process with one thread."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", **QUIET}
    done = run(__file__, "--child", family, ",".join(map(str, counts)), str(rounds), env=env)
    return {**done.said, "peak_mb": done.peak_mb}


def lines_of(family: str, found: dict[str, Any]) -> list[dict[str, Any]]:
    """Lines for the table of all benchmarks."""
    (one,) = found["lines"]
    count, prefix, suffixes = one["n"], found["prefix"], found["suffixes"]
    ideal = (count * prefix + sum(suffixes)) / (prefix + sum(suffixes))
    note = f"{one['full']:.1f} s -> {one['shared']:.1f} s of CPU, n = {count}; by tokens {ideal:.1f}x"
    note += f"; {found['parameters'] / 1e6:.0f} M parameters, prefix {prefix}, peak {found['peak_mb']:,.0f} MB"
    differs = f"of scores, standard deviation {found['spread']:.2g}"
    gain = {"value": one["full"] / one["shared"], "at_least": MIN_GAIN, "note": note}
    differ = {"value": found["difference"], "at_most": MAX_DIFFERENCE, "note": differs}
    name = f"score, {FAMILIES[family]}"
    return [{"name": f"{name}: full / shared, CPU", **gain}, {"name": f"{name}: largest difference", **differ}]


def draw(found: dict[str, dict[str, Any]], path: Path) -> None:
    """Cost over the number of candidates, in forwards of one candidate, for each family."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 3.6), layout="constrained")
    for colour, (family, one) in zip(("tab:blue", "tab:orange"), found.items(), strict=True):
        unit = one["lines"][0]["full"]  # of one candidate
        counts = [line["n"] for line in one["lines"]]
        for way, style in (("full", "--o"), ("shared", "-o")):
            label = f"{FAMILIES[family]}: {'each from scratch' if way == 'full' else 'prefix shared'}"
            costs = [line[way] / unit for line in one["lines"]]
            axes.plot(counts, costs, style, color=colour, markersize=3, linewidth=1.2, label=label)
    axes.set_xlabel("candidates")
    axes.set_ylabel("CPU, in forwards of one candidate")
    axes.set_xlim(1, COUNTS[-1])
    axes.set_ylim(0)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100, metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=5, help="candidates")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--figure", type=Path, help="measure n = 1..16 once each, and draw it here")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.figure:
        found = {family: measured(family, COUNTS, 1) for family in FAMILIES}
        draw(found, given.figure)
        print(json.dumps({family: one["lines"] for family, one in found.items()}))
        return
    lines = [
        line for family in FAMILIES for line in lines_of(family, measured(family, [given.n], given.rounds))
    ]  # fmt: skip
    if given.json:
        print(json.dumps(lines))
        return
    for line in lines:
        print(f"{line['name']:50} {line['value']:10.3g}  {line['note']}".rstrip())


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        told = child(sys.argv[2], [int(count) for count in sys.argv[3].split(",")], int(sys.argv[4]))
        print(json.dumps(told))
    else:
        main()
