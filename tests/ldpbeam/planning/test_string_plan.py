"""What ``plan --strings`` says, against strings that are planted among others."""

from __future__ import annotations

import numpy as np
import pytest

from ldpbeam.epoch_result import count_support
from ldpbeam.histogram import estimate_epoch
from ldpbeam.planning.string_plan import StringNeeds, StringPlan
from ldpbeam.simulators.fleet import Fleet
from tests.narrow import present

DEVICES, PLANTED, RUNS = 20_000, 5, 16


def found(plan: StringPlan, share: float) -> float:
    """How many of the strings with a share were found, the others being different from each other."""
    rng = np.random.default_rng(7)
    count = 0
    for run in range(RUNS):
        words = ["".join(word) for word in rng.choice(list("0123456789"), (DEVICES, 6))]
        planted = [first + words[i][1:] for i, first in enumerate("02468")]
        each = round(share * DEVICES)
        values = planted * each + words[PLANTED * each :]
        columns = Fleet(plan.collection, DEVICES, run).report(values, 0)
        result = estimate_epoch(plan.collection, 0, count_support(plan.collection, [columns]))
        count += len(set(planted) & set(present(result.attributes[0].estimates).labels or ()))
    return count / RUNS / PLANTED


@pytest.mark.thorough
def test_the_smallest_share_is_found_within_a_tenth() -> None:
    plan = StringPlan.of(StringNeeds(6, "digits", DEVICES, 1, 2.0), "strings", 86400, 0)
    assert found(plan, 0.9 * plan.found[0]) < 0.95 < found(plan, 1.1 * plan.found[0])
