"""Which bounds an audit draws."""

from __future__ import annotations

from collections import Counter

from ldpbeam.audit.checks.evidence import bounds_of
from ldpbeam.audit.checks.outcome import Check
from ldpbeam.audit.client.draws import HistoryCounts, patterns_of
from ldpbeam.audit.law.pairs import model_of
from tests.ldpbeam.audit.collections import of


def test_one_report_and_sequences_are_bounded_in_both_directions() -> None:
    """By events that are likelier where they are looked for: a fault may make those of one value rare."""
    protocol = of("l_grr").protocol
    model = model_of(protocol)
    patterns = patterns_of(model, 3)
    found = bounds_of(protocol, model, HistoryCounts(patterns, {one: Counter() for one in patterns}))
    assert all(one.exact > 0 for one in found)
    pairs = {check: [one.what.rpartition(", ")[2] for one in found if one.check is check] for check in Check}
    assert sorted(pairs[Check.BOUND]) == ["first value against second", "second value against first"]
    there = ["AAA against ABA", "AAA against BBB", "ABA against BAB"]
    back = [" against ".join(reversed(one.split(" against "))) for one in there]
    assert sorted(pairs[Check.SEQUENCE_BOUND]) == sorted(there + back)
