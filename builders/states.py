"""States: what an importer read, completed by the checked screenshot and the split."""

from __future__ import annotations

import orjson

from ..schemas.ids import sha256_hex
from ..schemas.images import CheckedImage
from .ledger import Row
from .spec import SplitSpec
from .splits import split_of


def build(imported: Row, source: Row, image: CheckedImage | None, spec: SplitSpec, split: str | None = None) -> Row:
    """Return the `states` row. ``imported`` is the importer's row, ``source`` its provenance; ``split`` is given where
    its task does not decide it."""
    reference = f"sha256:{image.sha256}" if image else None
    return {
        **imported,
        "screenshot": reference,
        "screenshot_sha256": image.sha256 if image else None,
        "width": image.width if image else None,
        "height": image.height if image else None,
        "screenshot_ops": [*imported.get("screenshot_ops", ()), *(image.ops if image else ())],
        "source": source,
        "split": split or split_of(imported["task_group"], spec),
    }


def content(imported: Row, picture: str | None) -> str:
    """What stands for all that can be seen of a state: equal for two that differ in their ids only.

    ``picture`` is the digest of the screenshot as given: states with other bytes may lie in other buckets, and so may
    those of which nothing can be seen.
    """
    unseen = picture is None and imported["observation_text"] is None
    shown = [imported[name] for name in ("task", "url", "history", "observation_text")]
    return sha256_hex(orjson.dumps([*shown, picture, imported["state_id"] if unseen else ""]))[:16]
