"""Pictures of numbers that no axis has room for: NULL in all rows, infinity, NaN, the largest, the least."""

from __future__ import annotations

import itertools
import math
import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from dpsql.release import Release
from dpsql.render.drawing import release_svg
from dpsql.render.grid import Style
from dpsql.render.html import release_html
from dpsql.render.picture_choice import picture_of
from dpsql.render.table import as_table
from dpsql.render.text_pictures import text_picture
from tests.narrow import present
from tests.unit.render.test_pictures import MONTHS, released

FINITE = re.compile(r' (?:x|y|x1|x2|y1|y2|width|height|d|points)="[^"]*(?:nan|inf)', re.IGNORECASE)
NUMBERS: dict[str, list[float | None]] = {
    "NULL": [None],
    "infinity": [math.inf, 3.0, -math.inf],
    "NaN": [math.nan, 3.0],
    "the largest": [1e308, -1e308, 3.0],
    "the least": [5e-324, 0.0],
    "all infinite": [math.inf],
}
KEYS: dict[str, tuple[list[Any], list[Any]]] = {
    "none": ([], []),
    "one": (list("abcdef"), []),
    "two": (list("abc"), list("xy")),
    "dates": (MONTHS, []),
}


def release_of(numbers: str, keys: str, half: float | None, mechanism: str) -> Release:
    first, second = KEYS[keys]
    pairs = list(itertools.product(first or [0], second or [0]))
    columns = {"a": [a for a, _ in pairs]} if first else {}
    columns |= {"b": [b for _, b in pairs]} if second else {}
    repeated = list(itertools.islice(itertools.cycle(NUMBERS[numbers]), len(pairs)))
    return released(columns, {"n": repeated}, half=half, mechanism=mechanism)


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.sampled(2, rest="longer")
def test_every_place_in_a_picture_is_finite(numbers: str, keys: str) -> None:
    for half in (None, 5.0, math.inf, 1e308):
        for mechanism in ("Laplace on every group", "exponential mechanism over 9 cells"):
            release = release_of(numbers, keys, half, mechanism)
            drawn = release_svg(release)
            ET.fromstring(drawn)
            assert FINITE.search(drawn) is None, (half, mechanism)
            text_picture(present(picture_of(release)), Style())
            release_html(release)
            assert as_table(release.table, release, Style(columns=80))


def test_what_is_not_drawn_is_said() -> None:
    picture = present(picture_of(release_of("infinity", "one", 5.0, "Laplace on every group")))
    assert picture.labels == ("b", "e")
    assert picture.folded == "4 infinite or very large numbers: in the table alone"
