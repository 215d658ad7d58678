"""What pictures look like, and which look alike."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from action_reward_models.builders.audits.screenshots import SIDE, TOLERANCE, alike, look
from action_reward_models.schemas.images import CheckedImage, ImageChecker, ImageError, grey
from PIL import Image

from tests.builders.audits.conftest import encoded, screen


def checked(data: bytes) -> CheckedImage:
    return ImageChecker().check(data)


def differ(left: str | None, right: str | None) -> int:
    assert left is not None
    assert right is not None
    return (int(left, 16) ^ int(right, 16)).bit_count()


def test_by_hand() -> None:
    """Brightness that rises to the right and nowhere downwards: the first 64 bits are set, the others are not."""
    ramp = Image.new("L", (90, 60))
    ramp.putdata([x * 255 // 89 for _ in range(60) for x in range(90)])
    assert look(checked(encoded(ramp))) == "f" * 16 + "0" * 16
    assert look(checked(encoded(ramp.transpose(Image.Transpose.TRANSPOSE)))) == "0" * 16 + "f" * 16
    assert look(checked(encoded(ramp.transpose(Image.Transpose.FLIP_LEFT_RIGHT)))) is None  # it only falls


@pytest.mark.parametrize("number", range(10))
@pytest.mark.parametrize(
    ("form", "options"),
    [("PNG", {"compress_level": 0}), ("JPEG", {"quality": 40}), ("WEBP", {"quality": 40}), ("GIF", {})],
)
def test_compression_changes_little(number: int, form: str, options: dict[str, Any]) -> None:
    page = screen(number)
    assert differ(look(checked(encoded(page))), look(checked(encoded(page, form, **options)))) <= TOLERANCE


@pytest.mark.parametrize("mode", ["L", "P", "1", "RGBA"])
def test_every_kind_of_pixel_is_read(mode: str) -> None:
    data = encoded(screen(1).convert(mode))
    image = checked(data)
    assert len(grey(image.data, image.media_type, SIDE)) == SIDE * SIDE
    if mode != "1":
        assert differ(look(image), look(checked(encoded(screen(1))))) <= TOLERANCE


def test_other_pages_look_otherwise() -> None:
    looks = [look(checked(encoded(screen(number)))) for number in range(40)]
    assert min(differ(a, b) for n, a in enumerate(looks) for b in looks[:n]) > 4 * TOLERANCE


def test_a_blank_page_has_no_look() -> None:
    assert look(checked(encoded(Image.new("RGB", (300, 200), "white")))) is None


def test_what_pillow_refuses_has_no_look() -> None:
    """The walk is stricter than Pillow, but should the two ever differ, no build ends for it."""
    broken = replace(checked(encoded(screen(1))), data=encoded(screen(1))[:100])
    with pytest.raises(ImageError):
        grey(broken.data, broken.media_type, SIDE)
    assert look(broken) is None


def test_the_search_finds_what_comparing_all_finds() -> None:
    draw = random.Random(5)
    looks = [f"{draw.getrandbits(128):032x}" for _ in range(700)]
    queries = []
    for bits in (0, 1, TOLERANCE, TOLERANCE + 1, 64):
        for _ in range(60):
            flipped = sum(1 << place for place in draw.sample(range(128), bits))
            queries.append(f"{int(draw.choice(looks), 16) ^ flipped:032x}")
    expected = []
    for number, query in enumerate(queries):
        nearest = min(range(len(looks)), key=lambda other, q=query: differ(q, looks[other]))  # type: ignore[misc]
        if (bits := differ(query, looks[nearest])) <= TOLERANCE:
            expected.append((number, nearest, bits))
    assert list(alike(queries, looks)) == expected
    assert len(expected) == 180


def test_nothing_looks_like_nothing() -> None:
    assert list(alike([], ["0" * 32])) == []
    assert list(alike(["0" * 32], [])) == []
