"""Markers stand where candidates act: measured against what Chromium paints, at every zoom, after every move.

The truth is in the pixels: pictures have a square of one colour whose middle is the recorded point. With markers off,
its middle is looked for in a photograph of the page; with markers on, that is where the marker's middle has to be.
"""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from action_reward_models.tests.cards.gallery.made import Made, candidate
from PIL import Image, ImageDraw

if TYPE_CHECKING:
    from action_reward_models.tests.builders.conftest import Toy
    from action_reward_models.tests.cards.gallery.browser import Context, Gallery
    from action_reward_models.tests.cards.gallery.conftest import Page

Person = Callable[..., "Context"]
Point = tuple[float, float]
pytestmark = pytest.mark.browser

NEAR = 2.0  # px of the window
# Each lacks one channel of white: so much of it as a pixel lacks belongs to the square, however it is scaled.
COLOURS = ((255, 0, 255), (0, 255, 255), (255, 255, 0))
LACKS = (1, 0, 2)


def drawn(size: tuple[int, int], *points: Point, half: int = 4) -> Image.Image:
    """White, with a square around each point, of the colours in turn."""
    image = Image.new("RGB", size, "white")
    for (x, y), colour in zip(points, COLOURS, strict=False):
        ImageDraw.Draw(image).rectangle((x - half, y - half, x + half - 1, y + half - 1), fill=colour)
    return image


Spot = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]  # xs, ys in px of the page; amounts


def photograph(page: Gallery, ratio: float) -> list[Spot | None]:
    """For each colour the pixels that have some of it; None where the square is cut off or not there."""
    page.press("m")
    x, y, width, height = boxes(page, "#window")[0]
    left, top = math.ceil(x), math.ceil(y)
    clip = {"x": left, "y": top, "width": int(x + width) - left, "height": int(y + height) - top}
    shot = page.page.screenshot(animations="disabled", clip=clip)  # type: ignore[arg-type]  # a dict it is
    page.press("m")
    with Image.open(io.BytesIO(shot)) as image:
        channels = [np.asarray(channel, dtype=np.int16) for channel in image.convert("RGB").split()]
    found: list[Spot | None] = []
    for lacking in LACKS:
        one, other = (channels[n] for n in range(3) if n != lacking)
        amount = np.minimum(one, other) - channels[lacking] - 40
        ys, xs = np.nonzero(amount > 0)
        last = amount.shape[0] - 1, amount.shape[1] - 1
        whole = len(xs) and xs.min() > 0 and ys.min() > 0 and ys.max() < last[0] and xs.max() < last[1]
        found.append((xs / ratio + left, ys / ratio + top, amount[ys, xs]) if whole else None)
    return found


def middles(page: Gallery, ratio: float = 1.0) -> list[Point | None]:
    """Where the middles of the squares are painted, in px of the page."""
    return [
        spot
        and (
            float(np.average(spot[0], weights=spot[2])) + 0.5 / ratio,
            float(np.average(spot[1], weights=spot[2])) + 0.5 / ratio,
        )
        for spot in photograph(page, ratio)
    ]


def boxes(page: Gallery, selector: str) -> list[tuple[float, float, float, float]]:
    """(x, y, width, height) of elements, in px of the page, to fractions of them."""
    found: list[tuple[float, float, float, float]] = page.page.locator(selector).evaluate_all(
        "(nodes) => nodes.map((node) => { const box = node.getBoundingClientRect();"
        " return [box.x, box.y, box.width, box.height]; })"
    )
    return found


def middle(page: Gallery, selector: str) -> Point:
    """The middle of the one element, in px of the page, to fractions of them."""
    x, y, width, height = boxes(page, selector)[0]
    return x + width / 2, y + height / 2


def apart(a: Point, b: Point) -> float:
    return math.hypot(a[0] - b[0], a[1] - b[1])


def marked(size: tuple[int, int], *points: Point) -> Made:
    """One item, a candidate for each point."""
    made = Made()
    candidates = [candidate(n, f"click({x}, {y})", (x, y)) for n, (x, y) in enumerate(points)]
    made.scene("a", *candidates, picture=made.picture(drawn(size, *points)))
    return made


def near(page: Gallery, ratio: float) -> int:
    """Hold every square that is painted whole against its marker; returns how many there were."""
    seen = 0
    for index, truth in enumerate(middles(page, ratio)):
        if truth is not None:
            assert apart(truth, middle(page, f".marker[data-index='{index}']")) <= NEAR
            seen += 1
    return seen


def percent(page: Gallery) -> float:
    return float(page.text("#zoom").split()[0])


def wheel(page: Gallery, factor: float, ratio: float) -> None:
    """Turn the wheel until the picture is so much larger; the driver takes its way in pixels of the device."""
    before = page.text("#zoom")
    page.page.mouse.wheel(0, -math.log(factor) / 0.002 * ratio)
    page.page.wait_for_function("(before) => document.querySelector('#zoom').textContent !== before", arg=before)


SIZES = [
    pytest.param((1280, 720), 1, id="page"),
    pytest.param((2560, 1440), 1, id="picture-twice-as-large", marks=pytest.mark.slow),
    pytest.param((2560, 1440), 2, id="both-twice"),
    pytest.param((1280, 720), 2, id="screen-twice-as-dense", marks=pytest.mark.slow),
    pytest.param((391, 2711), 1.5, id="long-page", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("size", "ratio"), SIZES)
def test_markers_stand_on_the_point_at_every_zoom_and_place(
    person: Person, size: tuple[int, int], ratio: float
) -> None:
    width, height = size
    points = [(width // 2, height // 2), (width - 16, 20), (24, height - 12)]
    made = marked(size, *points)
    page = person(device_scale_factor=ratio).open(made.data, made.pictures)
    page.painted()
    assert near(page, ratio) == 3  # fitted: everything is in sight
    now = percent(page) / 100
    for index in range(3):
        page.press("0")
        at = middle(page, f".marker[data-index='{index}']")
        start = (round(at[0]), round(at[1]))  # a pointer stands on whole pixels
        page.page.mouse.move(*start)
        wheel(page, 1 / now, ratio)
        assert near(page, ratio) >= 1
        page.press("o")  # the same around the middle of the window
        assert percent(page) == 100
        near(page, ratio)
        page.press("0")
        wheel(page, 3 / now, ratio)
        assert percent(page) == pytest.approx(300, rel=0.005 / now + 0.005)  # `now` is a rounded percentage
        around = middles(page, ratio)[index]
        assert around is not None
        assert apart(around, start) <= NEAR + apart(start, at) * 3 / now  # the point stays below the pointer
        assert near(page, ratio) >= 1
        page.page.mouse.down()
        page.page.mouse.move(start[0] + 37, start[1] - 23, steps=3)
        page.page.mouse.up()
        moved = middles(page, ratio)[index]
        if moved is not None:
            assert apart(moved, (around[0] + 37, around[1] - 23)) <= NEAR  # the picture follows the pointer
        page.press("Shift+ArrowLeft", "Shift+ArrowUp")
        near(page, ratio)
        page.press("-", "-")
        assert near(page, ratio) >= 1


def test_a_small_window_and_a_turned_one(person: Person) -> None:
    """The picture fits again when the window changes, and a place that was zoomed to is kept."""
    made = marked((1280, 720), (640, 360), (1250, 30), (30, 690))
    page = person().open(made.data, made.pictures)
    page.painted()
    for width, height in ((1920, 1080), (1000, 600), (1280, 720)):
        page.page.set_viewport_size({"width": width, "height": height})
        page.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert near(page, 1) == 3
    page.press("o")
    page.page.set_viewport_size({"width": 1400, "height": 800})
    page.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert percent(page) == 100
    assert near(page, 1) >= 1


def test_both_ends_of_a_drag_and_the_way_between(person: Person) -> None:
    made = Made()
    start, end = (1000, 120), (300, 610)
    picture = made.picture(drawn((1280, 720), start, end))
    made.scene("a", candidate(0, "drag(...)", start, end), candidate(1, "stop()"), picture=picture)
    page = person().open(made.data, made.pictures)
    page.painted()
    for keys in ([], ["o"], ["0"]):
        page.press(*keys)
        first, last, _ = middles(page)
        if "o" not in keys:
            assert first is not None
            assert last is not None
            for truth, name in ((first, "start_point"), (last, "end_point")):
                assert apart(truth, middle(page, f".marker[data-name={name}]")) <= NEAR
            box = page.page.locator(".drag").bounding_box()
            assert box is not None
            assert box["x"] == pytest.approx(last[0], abs=2 * NEAR)
            assert box["y"] == pytest.approx(first[1], abs=2 * NEAR)
            assert box["x"] + box["width"] == pytest.approx(first[0], abs=2 * NEAR)
            assert box["y"] + box["height"] == pytest.approx(last[1], abs=2 * NEAR)
    assert page.page.locator(".marker").count() == 2
    assert page.page.locator(".drag").count() == 1


def test_points_outside_of_the_screenshot(person: Person) -> None:
    """They are marked where they would be, and the candidate says so."""
    made = Made()
    inside = [(300, 300), (900, 500)]
    beyond = [(-12.0, 300.0), (1290.5, 360.0), (640.0, 729.0)]
    candidates = [candidate(n, "click()", point) for n, point in enumerate([*beyond, *inside])]
    made.scene("a", *candidates, picture=made.picture(drawn((1280, 720), *inside)))
    page = person().open(made.data, made.pictures)
    page.painted()
    a, b, _ = middles(page)
    assert a is not None
    assert b is not None
    scale = (b[0] - a[0]) / 600
    for index, (x, y) in enumerate(beyond):
        where = (a[0] + (x - 300) * scale, a[1] + (y - 300) * scale)
        assert apart(where, middle(page, f".marker[data-index='{index}']")) <= NEAR
    said = [page.text(f".candidate[data-index='{index}'] footer") for index in range(5)]
    assert ["outside" in one for one in said] == [True, True, True, False, False]


def test_thousandths_of_a_picture_that_is_twice_as_large(toy: Toy, shown: Callable[..., Page], person: Person) -> None:
    """From the record to the pixel: the points of a model that says thousandths, by way of a build."""
    toy.dialect, toy.space = "openwebrl", "norm1000"
    calls = [
        f'<tool_call>{{"name": "click", "arguments": {{"point_2d": [{x}, {y}]}}}}</tool_call>'
        for x, y in ((250, 500), (900, 125), (10, 990))
    ]
    points = [(640, 720), (2304, 180), (26, 1426)]  # the last one rounded: 25.6, 1425.6
    buffer = io.BytesIO()
    drawn((2560, 1440), *points, half=6).save(buffer, "PNG")
    toy.scene("a", *calls, picture=buffer.getvalue())
    data, pictures = shown(toy.build())
    page = person(device_scale_factor=2).open(data, pictures)
    page.painted()
    assert near(page, 2) == 3
    truth = middles(page, 2)[1]
    assert truth is not None
    page.page.mouse.move(*truth)
    wheel(page, 4, 2)
    assert near(page, 2) >= 1


def test_element_boxes_have_their_edges_where_the_element_has_them(person: Person) -> None:
    boxes = [(100, 60, 240, 90), (700.5, 300.25, 33.5, 20), (40, 600, 1200, 100)]
    made = Made()
    image = Image.new("RGB", (1280, 720), "white")
    for (x, y, w, h), colour in zip(boxes, COLOURS, strict=True):
        ImageDraw.Draw(image).rectangle((round(x), round(y), round(x + w) - 1, round(y + h) - 1), fill=colour)
    elements = [{"index": 7 + n, "tag": "a", "text": f"link {n}", "box": list(box)} for n, box in enumerate(boxes)]
    state = made.state("a", made.picture(image), elements=elements)
    made.item("a", "states", state, None, None)
    page = person().open(made.data, made.pictures)
    page.painted()
    assert [one.is_visible() for one in page.page.locator(".element").all()] == [False] * 3
    checked = 0
    for keys in (["0"], ["o"], ["+", "+"], ["0", "Shift+ArrowRight"]):
        page.press(*keys)
        spots = photograph(page, 1)
        page.press("b")
        assert page.page.locator("#boxes").get_attribute("aria-pressed") == "true"
        for n, spot in enumerate(spots):
            if spot is None:
                continue
            xs, ys = spot[0][spot[2] > 60], spot[1][spot[2] > 60]
            box = page.page.locator(f".element[data-index='{7 + n}']").bounding_box()
            assert box is not None
            painted = (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1)
            edges = (box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"])
            assert [abs(a - b) <= NEAR for a, b in zip(painted, edges, strict=True)] == [True] * 4
            checked += 1
        page.press("b")
        assert page.page.locator("#boxes").get_attribute("aria-pressed") == "false"
    assert checked >= 7
    assert [one.is_visible() for one in page.page.locator(".element").all()] == [False] * 3


def test_markers_and_boxes_stay_as_they_were_switched(person: Person) -> None:
    made = Made()
    for name in ("a", "b"):
        made.scene(
            name,
            candidate(0, "click()", (5, 5)),
            candidate(1, "drag()", (1, 1), (7, 7)),
            picture=made.picture(drawn((8, 8))),
        )
        made.data["states"][name]["elements"] = [{"index": 0, "tag": "a", "text": "", "box": [0, 0, 8, 8]}]
    page = person().open(made.data, made.pictures)

    def count(kind: str) -> int:
        return sum(one.is_visible() for one in page.page.locator(kind).all())

    assert (count(".marker"), count(".drag"), count(".element")) == (3, 1, 0)
    page.press("m", "b", "j")
    assert (count(".marker"), count(".drag"), count(".element")) == (0, 0, 1)
    assert page.page.locator("#marks").get_attribute("aria-pressed") == "false"
    page.page.locator("#marks").click()
    page.page.locator("#boxes").click()
    assert (count(".marker"), count(".drag"), count(".element")) == (3, 1, 0)


def test_one_marker_a_point_in_a_colour_of_its_own(person: Person) -> None:
    made = Made()
    candidates = [candidate(n, "click()", (100 + 60 * n, 80 + 40 * n)) for n in range(8)]
    several = candidate(8, "a(); b(); c()", (10, 10), (20, 20), (30, 30))
    nothing = candidate(9, "stop()")
    made.scene("a", *candidates, several, nothing, picture=made.picture(drawn((640, 480))))
    page = person().open(made.data, made.pictures)
    indices = page.page.locator(".marker").evaluate_all("(nodes) => nodes.map((node) => Number(node.dataset.index))")
    assert sorted(indices) == [*range(8), 8, 8, 8]
    colours = page.page.locator(".marker span").evaluate_all(
        "(nodes) => nodes.map((node) => getComputedStyle(node).backgroundColor)"
    )
    assert len(set(colours[:8])) == 8
    beside = page.page.locator(".candidate .number").evaluate_all(
        "(nodes) => nodes.map((node) => getComputedStyle(node).backgroundColor)"
    )
    assert beside[:8] == colours[:8]  # candidate and marker belong together
    numbers = page.page.locator(".marker span").all_inner_texts()
    assert numbers == [*map(str, range(1, 9)), "9", "9", "9"]


@pytest.mark.parametrize(
    "place", [(320.0, 240.0), (0.0, 0.0), (639.0, 479.0)], ids=["middle", "corner", "other-corner"]
)
def test_numbers_of_markers_on_one_place_can_all_be_read(person: Person, place: Point) -> None:
    made = Made()
    made.scene("a", *(candidate(n, "click()", place) for n in range(9)), picture=made.picture(drawn((640, 480))))
    page = person().open(made.data, made.pictures)
    page.painted()
    tags = boxes(page, ".marker span")
    assert len(tags) == 9
    for (x, y, w, h), (u, v, s, t) in itertools.combinations(tags, 2):
        assert x + w <= u or u + s <= x or y + h <= v or v + t <= y
    window = page.page.locator("#window").bounding_box()
    assert window is not None
    for n, (x, y, w, h) in enumerate(tags[:8]):
        assert window["x"] <= x <= x + w <= window["x"] + window["width"]
        assert window["y"] <= y <= y + h <= window["y"] + window["height"]
        top = page.page.evaluate("([x, y]) => document.elementFromPoint(x, y).textContent", [x + w / 2, y + h / 2])
        assert top == str(n + 1)  # nothing lies over it


def test_candidate_and_marker_light_up_together(person: Person) -> None:
    made = marked((640, 480), (100, 100), (500, 300))
    page = person().open(made.data, made.pictures)
    page.page.locator(".candidate[data-index='1']").hover()
    lit = page.page.locator(".lit").evaluate_all(
        "(nodes) => nodes.map((node) => [node.dataset.index, node.classList[0]])"
    )
    assert sorted(lit) == [["1", "candidate"], ["1", "marker"]]
