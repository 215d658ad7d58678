"""What the names in a manifest mean, in a reader's words. A name that is not here is shown without an explanation."""

from __future__ import annotations

from collections.abc import Mapping

_NO_PICK = {
    "none_fit": "the teacher found no candidate fit",
    "abstain": "the teacher declined to choose",
    "null_in_source": "the source holds no pick, and no reason",
    "ambiguous": "the reply names several candidates",
    "out_of_range": "the reply names a candidate that was not shown",
    "unparsed": "the reply cannot be read as a pick",
    "refused": "the teacher refused to answer",
    "content_filter": "a content filter stopped the reply",
    "truncated": "the reply was cut off before the pick",
    "error": "the request failed",
    "expired": "the batch ended before the request ran",
    "missing": "no reply came back",
}

STATUSES: Mapping[str, str] = {"ok": "names one candidate", **_NO_PICK}

RELATIONS: Mapping[str, str] = {
    "identical": "the same action",
    "near_coordinates": "the same action at practically the same place",
    "coordinate_only": "the same action at another place",
    "scroll_amount": "the same scroll by another amount",
    "wait_duration": "a wait of another length",
    "done_vs_done": "both only end the episode, with different answers",
    "unparsed": "an action that cannot be read",
    "different": "different actions",
}

REASONS: Mapping[str, str] = {
    **_NO_PICK,
    **RELATIONS,
    "unparsed": "a reply or an action that cannot be read",
    "invalid_record": "the record breaks its schema",
    "duplicate_record": "repeats another record word for word",
    "conflicting_id": "one id with two contents",
    "image_missing": "the screenshot file is not there",
    "path_refused": "the screenshot's path leaves the source's folder",
    "no_state": "its state is not in the data",
    "not_sampled": "a candidate of it could not be had from the model",
    "no_candidate_set": "no candidates were recorded for it",
    "no_label": "no label was recorded for it",
    "base_state_id": "the label does not say which draw it judges",
    "other_teacher": "another teacher's label is the one in use",
    "other_repeat": "another repeat of the label is the one in use",
    "no_majority": "no action has most of the labels",
    "pick_unparsed": "the picked action cannot be read",
    "no_screenshot": "the prompt needs a screenshot, and there is none",
    "no_observation_text": "the prompt needs the page's text, and there is none",
    "no_size": "points cannot be converted without the screenshot's size",
    "crosses_split": "prompt and pictures, or the screenshot, also stand in train",
    "single_distinct_action": "all candidates are one action: nothing to choose",
    "no_reasoning": "the prompt asks for the teacher's reasoning, and there is none",
    "reasoning_conflicts": "the teacher's reasoning names another pick",
    "duplicate_loser": "another kept pair of the label has the same losing action",
    "over_budget": "more losers than pairs allowed per candidate set",
    "equal_as_shown": "the two look the same as the prompt shows them",
    "equal_when_cut": "the two are the same tokens",
    "too_long": "longer than the longest row, in tokens",
    "wrong_size": "not one score for each candidate",
    "unscored": "no score was recorded for it",
    "score_out_of_range": "the score is not between 0 and 1",
    "small_gap": "the two scores are too close",
    "not_corruptible": "the chosen action has nothing that could be spoilt",
    "no_other_task": "no action of another task could be drawn",
    "no_messages": "the actor's own messages are not recorded",
    "below_quality_floor": "the response's score is below the floor",
    "conflicting_pick": "another label of an equal state and equal alternatives picks otherwise",
    "review_drop": "a reviewer took it out",
    "review_relabel": "a reviewer wants another answer",
    "superseded": "a newer review of the same item counts",
    "no_item": "nothing here has the id that was reviewed",
}

# What a person said of an item -> what was done with it.
VERDICTS: Mapping[str, str] = {
    "keep": "was found good; a comparison in quarantine became a pair, and what a rule took out stays out",
    "drop": "was left out, unless its label was kept later",
    "relabel": "has a wrong pick: another one was named, or it waits in quarantine",
    "note": "has a note, and nothing was done",
}

# A picture's reasons: one of them is also a label's.
_PICTURES: Mapping[str, str] = {
    "empty": "the screenshot is empty",
    "unknown_format": "the screenshot is no image, or of an unknown format",
    "format_not_allowed": "an image format that is not accepted",
    "bad_data_url": "the screenshot's data URL is broken",
    "too_many_bytes": "the screenshot's file is too large",
    "too_many_pixels": "the screenshot has too many pixels",
    "zero_size": "the screenshot has no width or height",
    "aspect_ratio": "the screenshot is far too long or too wide",
    "truncated": "the screenshot's file stops early",
    "trailing_bytes": "something follows the end of the screenshot",
    "png_chunk": "the PNG's structure is broken",
    "png_crc": "a checksum in the PNG is wrong",
    "png_header": "the PNG's header is broken",
    "png_zlib": "the PNG's pixels cannot be unpacked",
    "png_data_length": "the PNG holds more or fewer pixels than its header says",
    "png_filter": "a line of the PNG names an unknown filter",
    "png_unsupported": "a kind of PNG that is not read",
    "bad_exif": "the screenshot's EXIF block cannot be read",
    "decode_failed": "the screenshot cannot be decoded",
}

KINDS: Mapping[str, str] = {
    "episodes": "episodes",
    "states": "states",
    "candidate_sets": "candidate sets",
    "teacher_labels": "teacher labels",
    "candidate_scores": "scores of candidates",
    "reviews": "reviews by people",
    "selection_sft": "ready-made selection rows",
    "bt_pairs": "ready-made pairs",
    "pointwise_scores": "ready-made scores",
    "bench_items": "items of a bench",
}

# Table -> what its rows are for.
PURPOSES: Mapping[str, str] = {
    "selection_sft": "trains a generative model that sees all candidates and replies with its choice",
    "bt_pairs": "trains a Bradley-Terry model that scores one candidate at a time",
    "pointwise_scores": "trains a model that predicts the score of one candidate",
    "actor_sft": "trains the policy itself on responses that were chosen",
    "reserve": "keeps picks without a usable loser, in the form of `actor_sft`",
    "bench_items": "is for evaluation only and has no split but validation",
}

# Table -> (one row, several rows) in a sentence.
ROWS: Mapping[str, tuple[str, str]] = {
    "selection_sft": ("selection row", "selection rows"),
    "bt_pairs": ("pair", "pairs"),
    "pointwise_scores": ("scored candidate", "scored candidates"),
    "actor_sft": ("response for the actor", "responses for the actor"),
    "reserve": ("pick in reserve", "picks in reserve"),
    "bench_items": ("item of a bench", "items of a bench"),
}

NEGATIVES: Mapping[str, str] = {
    "sampled": "another candidate of the same set",
    "corrupted": "the chosen action, spoilt",
    "cross_task": "an action chosen in another task",
    "rule": "made by a rule of the source",
}

PREFERENCES: Mapping[str, str] = {
    "selection": "the teacher picked the one and not the other",
    "scores": "the one has the higher score",
    "outcome": "the one episode of the task ended better than the other",
}

FACTS: Mapping[str, str] = {
    "task_group": "task groups",
    "episode_id": "episodes",
    "host": "hosts",
    "screenshot_sha256": "screenshots",
}


def meaning(stage: str, reason: str) -> str:
    """What a reason of a stage means; empty for one that is not known here."""
    picture, other = _PICTURES.get(reason), REASONS.get(reason, "")
    if picture and stage == "selection_sft" and other:  # of labels, and of ready-made rows
        return f"{other}; of a ready-made row, {picture}"
    return picture or other
