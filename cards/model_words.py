"""What the names in a checkpoint's manifest mean, in a reader's words. A name that is not here has no explanation."""

from __future__ import annotations

from collections.abc import Mapping

from .audits import BASELINES as _BASELINES
from .words import REASONS as _REASONS

KINDS: Mapping[str, str] = {
    "selection_arm": "sees the state of a web task and several candidate actions, and replies with the number of the "
    "one to execute",
    "scalar": "sees the state of a web task and one candidate action, and gives it a score; the candidate with the "
    "highest score is the one to execute",
}

LOSSES: Mapping[str, str] = {
    "bt": "Bradley-Terry: -log sigmoid(score of the chosen action - score of the rejected one)",
    "soft_bt": "soft Bradley-Terry: cross-entropy whose target is sigmoid(k times the margin of the pair)",
    "listwise": "-log softmax of the chosen action among the rejected ones of its set",
    "pointwise": "Huber loss of sigmoid(score) against the recorded score",
}

METRICS: Mapping[str, str] = {
    "exact_agreement": "picks the action that the reference picked",
    "equivalent_agreement": "picks that action, or nearly that place of the page",
    "consistency": "picks one action, whatever the order; of the sets that were shown in several orders",
    "ties": "several actions have the highest score",
    "pair_accuracy": "the preferred side of a pair of the table has the higher score; a tie counts half",
    "margin": "score of the preferred side of a pair less that of the other, mean",
    "set_pair_accuracy": "the reference has a higher score than another action of its set; a tie counts half",
    "set_margin": "score of the reference less that of another action of its set, mean",
    "calibration_error": "how far the probability of a pair is from how often it is right, mean over all",
}

OK: Mapping[str, str] = {
    "selection_arm": "names one candidate",
    "scalar": "gives every candidate a score, and one action the highest",
}

OUTCOMES: Mapping[str, str] = {
    "none_fit": "says that no candidate fits",
    "abstain": "declines to choose",
    "ambiguous": "names several candidates",
    "out_of_range": "names a candidate that was not shown",
    "unparsed": "cannot be read as a pick",
    "refused": "refuses to answer",
    "truncated": "was cut off before the pick",
    "error": "could not be had",
    "tie": "gives several actions the highest score",
    "too_long": "was not given: the model does not take so many tokens",
}

UNUSABLE: Mapping[str, str] = {
    **_REASONS,
    "too_long": "longer than the longest conversation, in tokens; nothing is cut",
    "equal_when_processed": "the two sides are the same tokens and pictures to the model",
    "task_in_train": "its task is one that was trained on",
    "other_prompt": "made with another prompt",
    "over_max_items": "more than were asked for; a hash chose",
}

BASELINES: Mapping[str, str] = {
    **_BASELINES,
    "uniform": "at random",
    "one_sample": "one sampled candidate at random, as the policy alone",
    "first": "first sampled",
    "teacher_self_agreement": "the teacher, asked again",
}
# Not a rule that learned nothing: how often the reference agrees with itself.
CEILING = "teacher_self_agreement"

GROUPS: Mapping[str, str] = {"verb": "Action of the reference", "host": "Host", "turn": "Turn"}

# Pattern of a path -> what the file is.
FILES: Mapping[str, str] = {
    "adapter_model.safetensors": "LoRA weights, and the head of a scalar model",
    "adapter_config.json": "how PEFT puts them into the base model",
    "value_head.safetensors": "the head alone, in the layout that other tools read: `v_head.summary.weight` "
    "(1, hidden), `v_head.summary.bias` (1,)",
    "merged_from.json": "manifest of the checkpoint that was merged",
    "model.safetensors.index.json": "which file holds which weight",
    "model*.safetensors": "weights of the whole model",
    "config.json": "architecture, and what a server needs to know",
    "generation_config.json": "settings of generation",
    "tokenizer.json": "tokenizer",
    "tokenizer_config.json": "tokenizer settings",
    "chat_template.*": "chat template",
    "preprocessor_config.json": "how pictures are resized",
    "processor_config.json": "how pictures are resized",
    "prompts/*.json": "the prompt it was trained with: template, options and hash",
    "training/log.jsonl": "every entry of the training log",
    "evaluation/*/predictions.jsonl": "what the model answered on every item",
    "evaluation/*/report.json": "the metrics made of them",
    "assets/*.png": "figure of this card",
    ".eval_results/*.yaml": "the metrics in the Hub's form",
}


def plain(name: str) -> str:
    """``best_of_n_agreement`` -> ``best of n agreement``."""
    return name.replace("_", " ")
