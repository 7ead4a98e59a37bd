"""Sentences of an audit, with the numbers in them; a broken client is never broken in 3 of 1 cases."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ldpbeam.audit.checks.outcome import Bound, Check, Coins, EventSum, Evidence, Match, Rule, judge


def test_each_kind_of_evidence_has_its_sentence() -> None:
    half = Fraction(1, 2)
    evidence = Evidence(
        bounds=[Bound(Check.BOUND, "an event", 900, 1000, 10, 1000, (half, half), 1.0)],
        matches=[Match(Check.MATCH, "a symbol", 990, 1000, half)],
        sums=[EventSum(Check.REPLAY, "copies", 1990, 100, 20, ((1.0, 0.5),))],
        coins=[Coins(Check.IDS, "ids is 1", lambda coin: f"bit {coin}", np.array([500, 999, 1000]), 1000)],
        rules=[
            Rule(Check.BYTES, "it is well formed", 3, 1000),
            Rule(Check.CERTIFICATE, "a level", 1, 1),
            Rule(Check.ORDER, "what holds", 0, 7),
        ],
    )
    checks, (level,) = judge(evidence, 1e-6)
    assert {check.check: check.violations for check in checks} == {
        Check.CERTIFICATE: ["a level: it does not hold"],
        Check.BYTES: ["it is well formed: not in 3 of 1,000 cases"],
        Check.BOUND: [f"an event: the level is at least {level.bound:.4f}, and at most 1.0000 is promised"],
        Check.MATCH: ["a symbol: seen 990 of 1,000 times, expected 500.0 (p = 5.0e-278)"],
        Check.REPLAY: ["copies: seen 1,990 of 2,000 times, expected 1,000.0 (p = 0.0e+00)"],
        Check.IDS: ["bit 2 of ids is 1 in 1,000 of 1,000 cases, expected 500.0 (p = 1.9e-301), and 1 other"],
        Check.ORDER: [],
    }


def test_where_there_are_ids_they_take_a_quarter_of_the_false_alarms_of_two_sided_tests() -> None:
    match = Match(Check.MATCH, "a symbol", 20, 20, Fraction(1, 2))  # p = 2^-19
    ids = [Coins(Check.IDS, "ids is 1", str, np.array([10]), 20)]
    for coins, share in (([], 1 / 2), (ids, 3 / 8)):
        for factor, refuted in ((0.99, False), (1.01, True)):
            checks, _ = judge(Evidence(matches=[match], coins=coins), factor * 2.0**-19 / share)
            assert any(check.violations for check in checks) == refuted
