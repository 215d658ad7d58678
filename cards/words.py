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
}

FACTS: Mapping[str, str] = {
    "task_group": "task groups",
    "episode_id": "episodes",
    "host": "hosts",
    "screenshot_sha256": "screenshots",
}


def meaning(stage: str, reason: str) -> str:
    """What a reason of a stage means; empty for one that is not known here."""
    return (_PICTURES.get(reason) if stage == "states" else None) or REASONS.get(reason, "")
