"""Licences as the Hub names them."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Identifiers that the Hub accepts, from its documentation ("Licenses"). One that it has added since is shown as
# `other` with its name, which the Hub accepts too.
HUB = frozenset(
    (
        "afl-3.0", "agpl-3.0", "apache-2.0", "artistic-2.0", "bigcode-openrail-m", "bigscience-bloom-rail-1.0",
        "bigscience-openrail-m", "bsd", "bsd-2-clause", "bsd-3-clause", "bsd-3-clause-clear", "bsl-1.0", "c-uda",
        "cc", "cc-by-2.0", "cc-by-2.5", "cc-by-3.0", "cc-by-4.0", "cc-by-nc-2.0", "cc-by-nc-3.0", "cc-by-nc-4.0",
        "cc-by-nc-nd-3.0", "cc-by-nc-nd-4.0", "cc-by-nc-sa-2.0", "cc-by-nc-sa-3.0", "cc-by-nc-sa-4.0",
        "cc-by-nd-4.0", "cc-by-sa-3.0", "cc-by-sa-4.0", "cc0-1.0", "cdla-permissive-1.0", "cdla-permissive-2.0",
        "cdla-sharing-1.0", "creativeml-openrail-m", "deepfloyd-if-license", "ecl-2.0", "epl-1.0", "epl-2.0",
        "etalab-2.0", "eupl-1.1", "gemma", "gfdl", "gpl", "gpl-2.0", "gpl-3.0", "isc", "lgpl", "lgpl-2.1",
        "lgpl-3.0", "lgpl-lr", "llama2", "lppl-1.3c", "mit", "mpl-2.0", "ms-pl", "ncsa", "odbl", "odc-by",
        "ofl-1.1", "openrail", "openrail++", "osl-3.0", "other", "pddl", "postgresql", "unknown", "unlicense",
        "wtfpl", "zlib",
    )
)  # fmt: skip
_SPDX = {"bsl-1.0": "bsl-1.0", "odbl-1.0": "odbl", "odc-by-1.0": "odc-by", "pddl-1.0": "pddl"}


def hub_licence(licence: str) -> str | None:
    """The Hub's identifier for a Hub or SPDX identifier; None for a licence that the Hub does not know."""
    name = licence.strip().lower()
    name = _SPDX.get(name, re.sub(r"-(only|or-later)\Z", "", name))
    return name if name in HUB else None


def hub_licences(own: str, sources: Iterable[str]) -> dict[str, str | list[str]]:
    """The keys ``license`` and, where the Hub does not know one, ``license_name``.

    The dataset's own licence comes first; a source under another one adds it, because the Hub takes a list and a
    reader who filters by licence must not miss it. What the Hub does not know is ``other``, with its name beside it.
    """
    declared = list(dict.fromkeys([own, *sorted(sources)]))
    names = list(dict.fromkeys(hub_licence(licence) or "other" for licence in declared))
    unknown = [slug for licence in declared if hub_licence(licence) is None and (slug := _slug(licence))]
    result: dict[str, str | list[str]] = {"license": names[0] if len(names) == 1 else names}
    if "other" in names:
        result["license_name"] = "-and-".join(dict.fromkeys(unknown)) or "see-card"
    return result


def _slug(licence: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", licence.lower()).strip("-.")[:60].rstrip("-.")
