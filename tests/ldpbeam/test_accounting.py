"""A line of the books, added, taken out again, written and read."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldpbeam.accounting import Account

NUMBERS = st.integers(0, 2**40)
LINES = st.builds(
    Account,
    read=NUMBERS,
    counted=NUMBERS,
    late=NUMBERS,
    duplicate=NUMBERS,
    rejected=st.dictionaries(st.sampled_from(["malformed", "invalid_value"]), NUMBERS).map(Counter),
    repeated=NUMBERS,
)


@given(LINES, LINES)
def test_what_is_merged_can_be_taken_out_again(one: Account, other: Account) -> None:
    total = Account()
    total.merge(one)
    total.merge(other)
    assert total.as_record() != one.as_record() or other.as_record() == Account().as_record()
    total.subtract(other)
    assert total.as_record() == one.as_record()


@given(LINES)
def test_a_line_is_read_as_it_was_written(line: Account) -> None:
    found = Account.from_record(line.as_record())
    assert found.as_record() == line.as_record()
    assert found.pending == line.pending


def test_what_is_no_line_is_refused() -> None:
    with pytest.raises(LookupError):
        Account.from_record({"read": 3})
