"""Points and quantiles of a cumulative curve."""

from __future__ import annotations

import pytest

from ldpbeam.report_page.curve import drawn_places


@pytest.mark.parametrize(
    ("size", "most", "places"),
    [(5, 60, [0, 1, 2, 3, 4]), (6, 3, [1, 3, 5]), (7, 3, [2, 5, 6]), (121, 60, [*range(2, 120, 3), 120])],
)
def test_few_places_of_many_are_drawn_and_always_the_last(size: int, most: int, places: list[int]) -> None:
    """The curve ends at 1, whatever the number of values."""
    assert drawn_places(size, most) == places
    assert len(places) <= most + 1
