"""Support: two integers per protocol, and a monoid of counts."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from ldpbeam.support import Support, SupportProbabilities


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


@pytest.mark.parametrize(("own", "other", "sampled"), [(1, 1, 1), (1, 2, 1), (2, 0, 1), (1, 0, 0), (1, 0, 2)])
def test_what_are_no_probabilities_is_refused(own: int, other: int, sampled: int) -> None:
    with pytest.raises(ValueError, match="needs 0 <"):
        SupportProbabilities(Fraction(own), Fraction(other), Fraction(sampled))
