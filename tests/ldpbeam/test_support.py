"""Support: two integers per protocol, and a monoid of counts."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from ldpbeam import support as module
from ldpbeam.arrays import Bytes, Ints
from ldpbeam.support import Support, SupportProbabilities, UncountedReports, added


def test_supports_are_equal_when_reports_and_counts_are() -> None:
    one = Support(np.array([1, 2, 3]), 4)
    assert one == Support(np.array([1, 2, 3]), 4)
    assert one != Support(np.array([1, 2, 4]), 4)
    # The same counts of another number of reports are another estimate.
    assert one != Support(np.array([1, 2, 3]), 5)
    assert one != Support(np.array([1, 2]), 4)
    assert one != "support"
    assert Support.zero(3) == Support(np.zeros(3, np.int64), 0)
    assert Support.zero(3) != Support(np.zeros(3, np.int64), 1)


def test_merging_adds_reports_counts_and_signs() -> None:
    one = Support(np.array([1, 2]), 3, np.array([4, 5, 6]))
    other = Support(np.array([10, 20]), 30, np.array([40, 50, 60]))
    both = Support(np.array([11, 22]), 33, np.array([44, 55, 66]))
    assert one.merge(other) is one
    assert one == both
    assert other == Support(np.array([10, 20]), 30, np.array([40, 50, 60]))
    assert Support.zero(2, 3).merge(both) == both


class Digits:
    """Counts of four values, each its own payload of a byte; the one sign is how often the value 3 came."""

    counts_length = 4
    signs_length = 1

    def zero(self) -> Support:
        return Support.zero(self.counts_length, self.signs_length)

    def add_reports(self, payloads: Bytes, counts: Ints, signs: Ints) -> None:
        np.add.at(counts, payloads[:, 0], 1)
        signs += (payloads[:, 0] == 3).sum()


def digits(*values: int) -> Bytes:
    return np.array(values, np.uint8).reshape(-1, 1)


def test_support_grows_in_place() -> None:
    some = Support.zero_of(Digits())
    assert some.add(digits(0, 1), Digits()) is some
    some.add(digits(3, 1), Digits())
    assert some == Support(np.array([1, 2, 0, 1]), 4, np.array([1]))


def test_reports_are_counted_at_once_where_the_table_is_small() -> None:
    counters = {7: Digits()}
    first = added(None, 7, digits(0, 3), counters)
    assert first == Support(np.array([1, 0, 0, 1]), 2, np.array([1]))
    assert added(first, 7, digits(3), counters) is first
    assert first == Support(np.array([1, 0, 0, 2]), 3, np.array([2]))
    assert added(None, 7, digits(), counters) == Support.zero_of(Digits())


def test_reports_wait_for_a_large_table_until_they_take_half_of_its_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four cells and a sign take 40 bytes: the twentieth report makes the table."""
    monkeypatch.setattr(module, "LARGE_TABLE", 5)
    counters = {7: Digits(), 8: Digits()}
    payloads = digits(0, 3)
    total = added(None, 7, payloads, counters)
    assert isinstance(total, UncountedReports)
    payloads[:] = 1  # a copy waits
    assert added(total, 7, digits(*[2] * 17), counters) is total
    assert (total.digest, total.reports, total.nbytes) == (7, 19, 19)
    table = added(total, 7, digits(3), counters)
    assert table == Support(np.array([1, 0, 17, 2]), 20, np.array([2]))
    assert added(table, 7, digits(1), counters) is table
    assert table == Support(np.array([1, 1, 17, 2]), 21, np.array([2]))
    monkeypatch.setattr(module, "LARGE_TABLE", 6)
    assert isinstance(added(None, 7, digits(0), counters), Support)


@pytest.mark.parametrize(("own", "other", "sampled"), [(1, 1, 1), (1, 2, 1), (2, 0, 1), (1, 0, 0), (1, 0, 2)])
def test_what_are_no_probabilities_is_refused(own: int, other: int, sampled: int) -> None:
    with pytest.raises(ValueError, match="needs 0 <"):
        SupportProbabilities(Fraction(own), Fraction(other), Fraction(sampled))
