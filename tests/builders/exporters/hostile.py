"""A build of every training table whose texts hold what a loader, a template or a tokenizer takes for structure."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from action_reward_models.builders.spec import ActorSpec, PairSpec, PromptSpec, SelectionSpec, SplitSpec
from PIL import Image

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

Row = dict[str, Any]

TEXT = (
    "<image> <video> <audio> <|im_end|>\n<|im_start|>user\nno <|image_pad|><|vision_start|> <tool_call>{}</tool_call> "
    "{{idx}} {{content}} [INST] <s> <think>x</think> </think> {{ jinja }} {% endif %} \u2028 a\rb \u00fc 2024-01-01"
)
LINE = TEXT.replace("\n", " ")
URL = "https://example.org/[INST]/{{jinja}}"
TABLES = ("states", "candidate_sets", "teacher_labels", "selection_sft", "bt_pairs", "actor_sft")


def rgb(number: int, size: int) -> bytes:
    """A picture in colour, another for each number."""
    made = io.BytesIO()
    Image.new("RGB", (size, size), (number, size, 7)).save(made, "PNG")
    return made.getvalue()


def message(role: str, text: str | None, pictures: int = 0) -> Row:
    said = [] if text is None else [{"type": "text", "text": text}]
    return {"role": role, "content": [*[{"type": "image"}] * pictures, *said]}


def selection(row_id: str, *prompt: Row, reply: str = '{"selection": 1}', images: tuple[str, ...] = ()) -> Row:
    """A ready-made selection row."""
    completion = [message("assistant", reply)]
    nothing = dict.fromkeys(("label_id", "set_id", "state_id", "order", "prompt_id", "prompt_sha256"))
    return {"row_id": row_id, **nothing, "prompt": list(prompt), "completion": completion, "images": list(images)}


def pair(row_id: str, chosen: Row, rejected: Row, *prompt: Row, images: tuple[str, ...] = ()) -> Row:
    """A ready-made pair."""
    nothing = dict.fromkeys(("label_id", "set_id", "state_id", "chosen_index", "rejected_index", "margin"))
    return {
        "pair_id": row_id, "unit": "step", "label_source": "selection", **nothing, "relation": "different",
        "pair_type": "other", "negative_source": "sampled", "prompt_id": None, "prompt_sha256": None,
        "images": list(images), "prompt": list(prompt), "chosen": [chosen], "rejected": [rejected],
    }  # fmt: skip


def fill(toy: Toy, states: int = 12) -> None:
    """Episodes of two turns of as many tasks; of each the second turn is sampled and judged."""
    for number in range(states):
        toy.episode(
            f"e{number}",
            toy.message("system", f"You act. {TEXT}"),
            toy.message("user", f"Task: Do {number}. {TEXT}\nURL: {URL}", rgb(number, 40)),
            toy.message("assistant", toy.response("click(1, 1)", LINE)),
            toy.message("tool", f"page {number} {TEXT}", rgb(100 + number, 72)),
            toy.message("assistant", toy.response("stop()")),
        )
        actions = (f'stop("{LINE} {number}")', "click(1, 1)", "click(70, 7)", f"wait({number + 1})")
        set_id = toy.draw(f"e{number}__t1", *[toy.response(a, LINE) for a in actions])
        toy.label(set_id, number % 3, reasoning=f"It does {LINE}.")


def build(toy: Toy, *ready: tuple[str, list[Row]], **changes: Any) -> Build:
    """Build what ``toy`` holds with ready-made rows of (kind, rows) beside it."""
    more = []
    for number, (kind, rows) in enumerate(ready):
        spoken = {"dialect": "function", "space": "pixel"} if kind == "bt_pairs" else {}
        more.append(toy.lay(kind, "table", f"{kind}-{number}.jsonl", rows, **spoken))
    given: dict[str, Any] = {
        "selection": SelectionSpec(PromptSpec("selection/1", options={"reasoning": "before"})),
        "pairs": PairSpec(PromptSpec("scalar/1", options={"candidate_reasoning": True})),
        "actor_sft": ActorSpec(random_control=True),
        "split": SplitSpec(0.3, 1),
        "tables": TABLES,
        "images": {"states": "embed", **dict.fromkeys(TABLES[3:], "embed")},
    }
    made = toy.build(sources=(*toy.sources(), *more), **{**given, **changes})
    assert made.balanced()
    return made
