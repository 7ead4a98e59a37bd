"""Sentences of an audit, with the numbers in them; a broken client is never broken in 3 of 1 cases."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldpbeam.audit.audit import audit
from ldpbeam.audit.checks.outcome import Bound, Check, Coins, EventSum, Evidence, Match, Rule, judge
from ldpbeam.audit.client.clients import Maker, PythonClient
from ldpbeam.audit.client.draws import DrawPlan
from ldpbeam.client import Device
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.participation import Participation
from ldpbeam.collection.values import Index
from tests.ldpbeam.audit.collections import COLLECTIONS, of


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


class _Forgetful:
    """Every report is one of a new device, in whatever epoch."""

    def __init__(self, collection: Collection) -> None:
        self.collection = collection

    def report(self, value: Any, epoch: int, *, slice: Any = None) -> bytes | None:
        return Device.ephemeral(self.collection).report(Index(value), epoch, slice=slice)


class _Maker(Maker):
    name = "forgetful"

    def fresh(self, collection: Collection, folder: Path) -> _Forgetful:
        return _Forgetful(collection)

    lasting = fresh


@pytest.mark.parametrize("name", ["loloha", "participation"])
def test_a_broken_client_is_broken_in_no_more_cases_than_were_tried(name: str, tmp_path: Path) -> None:
    """Of a device that forgets all, every rule that it can break is said with numbers that can be.

    In 5 of 6 epochs each of 8 new devices reports again: none does with probability 6e-7.
    """
    few = replace(of("grr"), epochs=replace(of("grr").epochs, count=6), participation=Participation(5, 6))
    asked = COLLECTIONS.get(name, few)
    plan = DrawPlan(300, lasting=10, swept=(10, 40), forked=8, pairs=8, changing=8, held=8, remembering=4)
    outcome = audit(PythonClient(asked, _Maker(), tmp_path), asked, plan)
    counts = [re.search(r" in ([\d,]+) of ([\d,]+) cases", text) for _, text in outcome.violations]
    numbers = [[int(n.replace(",", "")) for n in found.groups()] for found in counts if found]
    assert len(numbers) >= 5
    assert all(0 < broken <= cases for broken, cases in numbers), outcome.violations
    assert {Check.REPEAT, Check.REOPEN, Check.ORDER} <= outcome.failed
