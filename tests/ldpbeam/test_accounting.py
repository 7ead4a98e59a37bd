"""A line of the books, added, taken out again, written and read."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldpbeam.accounting import Line

NUMBERS = st.integers(0, 2**40)
LINES = st.builds(
    Line,
    read=NUMBERS,
    counted=NUMBERS,
    late=NUMBERS,
    duplicate=NUMBERS,
    rejected=st.dictionaries(st.sampled_from(["malformed", "invalid_value"]), NUMBERS).map(Counter),
    repeated=NUMBERS,
)


@given(LINES, LINES)
def test_what_is_merged_can_be_taken_out_again(one: Line, other: Line) -> None:
    total = Line()
    total.merge(one)
    total.merge(other)
    assert total.as_record() != one.as_record() or other.as_record() == Line().as_record()
    total.subtract(other)
    assert total.as_record() == one.as_record()


@given(LINES)
def test_a_line_is_read_as_it_was_written(line: Line) -> None:
    found = Line.from_record(line.as_record())
    assert found.as_record() == line.as_record()
    assert found.pending == line.pending


def test_what_is_no_line_is_refused() -> None:
    with pytest.raises(LookupError):
        Line.from_record({"read": 3})
