"""A published scalar model, made in one process and loaded in another, in every way that people load one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from action_reward_models.inference.scalar import ScalarRewardModel
from action_reward_models.tests.inference import made

REPLIES = ("click(1, 1)", "stop", "type('abc')")


def main(step: str, *given: Any) -> Any:
    import torch

    torch.set_num_threads(1)
    return {"make": make, "load": load}[step](*given)


def make(work: str, base: str, repo: str, commit: str) -> list[float]:
    """Write the checkpoint to ``work``/adapter, and merged with its base to ``work``/merged; returns its scores."""
    folder, below = Path(work), Path(base)
    made.make(folder / "adapter", below, "scalar", repo=repo, commit=commit)
    model = ScalarRewardModel.open(folder / "adapter", base=below)
    scores = score(model)
    merged = model.model.merge_and_unload()
    merged.save_pretrained(folder / "merged")
    model.processor.save(folder / "merged")
    return scores


def load(repo: str, merged: str, base: str, commit: str) -> Any:
    """repo: of the adapter, at v1.0.0. merged: a folder. base, commit: where its base model is published."""
    from huggingface_hub.constants import HF_HUB_CACHE
    from peft import PeftModel
    from transformers import AutoModelForSequenceClassification as Auto

    ours = ScalarRewardModel.from_pretrained(repo, revision="v1.0.0")
    found: dict[str, Any] = {"ours": score(ours)}
    found["fetched"] = sorted(path.name for path in Path(HF_HUB_CACHE).rglob("*") if path.is_symlink())
    rows = [ours.processor.scalar(made.conversation(1), [made.png("red")], made.reply(text)) for text in REPLIES]
    batch = ours.processor.batch(rows)

    def stock(load: Callable[[], Any]) -> list[float]:
        import torch

        model = load().eval()
        with torch.inference_mode():
            scores: list[float] = model(**batch).logits[:, 0].tolist()
        return scores

    below = {"revision": commit, "num_labels": 1}
    found["peft"] = stock(
        lambda: PeftModel.from_pretrained(Auto.from_pretrained(base, **below), repo, revision="v1.0.0")
    )
    # `revision` is that of the base model then.
    found["auto"] = stock(lambda: Auto.from_pretrained(repo, adapter_kwargs={"revision": "v1.0.0"}, **below))
    found["merged"] = stock(lambda: Auto.from_pretrained(merged))
    found["other_base"] = made.told(lambda: ScalarRewardModel.from_pretrained(f"{repo}-other", revision="main"))
    found["no_base"] = made.told(lambda: ScalarRewardModel.from_pretrained(f"{repo}-folder", revision="main"))
    found["no_revision"] = made.told(lambda: ScalarRewardModel.from_pretrained(repo, revision="v2.0.0"))
    found["no_repo"] = made.told(lambda: ScalarRewardModel.from_pretrained(f"{repo}-none", revision="v1.0.0"))
    return found


def score(model: ScalarRewardModel) -> list[float]:
    return model.score(made.conversation(1), [made.png("red")], [made.reply(text) for text in REPLIES])
