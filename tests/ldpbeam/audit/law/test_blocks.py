"""Blocks of reports: the probability that two agree, against enumeration over every answer and report."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
from scipy.stats import binom

from ldpbeam.audit.checks.replay import LAGS, looked_at, replays
from ldpbeam.audit.law.blocks import Blocks, decide, divergence, sized, views_of
from ldpbeam.audit.law.bound import chernoff
from ldpbeam.audit.law.pairs import model_of
from ldpbeam.collection.collection import Collection
from tests.ldpbeam.audit.collections import COLLECTIONS, of, several
from tests.ldpbeam.promise.test_best_guess import of_each_seed

MEMOISED = ["l_grr", "l_osue", "bilo", "dbitflip_pm", "one_bit_rrpm", "rrpm_flipped", "sample", "split"]


@pytest.mark.parametrize("name", MEMOISED)
@pytest.mark.parametrize("value", [0, 1])
def test_two_blocks_agree_as_often_as_enumeration_has_it(name: str, value: int) -> None:
    """Every stratum, permanent answer and pair of blocks of two reports."""
    for view in views_of(model_of(COLLECTIONS[name].protocol)):
        together = Blocks(view, value, 2, memoised=True)
        apart = Blocks(view, value, 2, memoised=False)
        kept = ones = 0.0
        for number, stratum in enumerate(view.strata):
            own = 0.0
            for answer, chance in enumerate(stratum.answers[value]):
                row = [float(answer == s) for s in range(stratum.symbols)]
                if stratum.instant is not None:
                    row = [float(p) for p in stratum.instant[answer]]
                for some in product(range(stratum.symbols), repeat=4):
                    p = float(chance) * prod(row[s] for s in some)
                    own += p * (together.bit(number, some[:2]) == together.bit(number, some[2:]))
                for some in product(range(stratum.symbols), repeat=2):
                    p = float(stratum.probability * chance) * prod(row[s] for s in some)
                    ones += p * apart.bit(number, some)
            kept += float(stratum.probability) * own
        assert together.probability == pytest.approx(kept, rel=1e-9)
        # Blocks of two devices, whose strata differ as well.
        assert apart.probability == pytest.approx(ones**2 + (1 - ones) ** 2, rel=1e-9)


def test_the_rule_tells_best_what_it_is_for() -> None:
    answers, rates = (0.6, 0.4), ((0.8, 0.2), (0.3, 0.7))
    for memoised in (True, False):
        rule = decide(answers, rates, 5, memoised=memoised)
        true, stated = (rule.apart, rule.same) if memoised else (rule.same, rule.apart)
        for least in range(1, 6):
            high = [float(binom.sf(least - 1, 5, row[1])) for row in rates]
            same = sum(p * (h * h + (1 - h) ** 2) for p, h in zip(answers, high, strict=True))
            one = sum(p * h for p, h in zip(answers, high, strict=True))
            new = one**2 + (1 - one) ** 2
            worth = divergence(new, same) if memoised else divergence(same, new)
            assert divergence(true, stated) >= worth - 1e-12


def test_blocks_are_as_short_as_they_may_be() -> None:
    (view,) = views_of(model_of(of("l_osue", epsilon_longitudinal=4.0, epsilon_first=3.5).protocol))
    (short,) = sized(view, (1,), 128, 60, memoised=True)
    (weak,) = views_of(model_of(of("l_osue", epsilon_longitudinal=4.0, epsilon_first=0.3).protocol))
    (long,) = sized(weak, (1,), 128, 60, memoised=True)
    assert short.size < 6 < long.size <= 60
    assert sized(view, (0, 1), 128, 1, memoised=True)[0].size == 1


def test_chernoff_is_no_smaller_than_the_exact_tails() -> None:
    """Of a mixture over devices, by convolution; and small where the sum is far off."""
    law, devices, trials = ((0.3, 0.2), (0.7, 0.6)), 6, 4
    one = np.zeros(trials + 1)
    for weight, p in law:
        one += weight * binom.pmf(np.arange(trials + 1), trials, p)
    whole = np.ones(1)
    for _ in range(devices):
        whole = np.convolve(whole, one)
    for count in range(devices * trials + 1):
        exact = min(whole[count:].sum(), whole[: count + 1].sum())
        found = chernoff(count, devices, trials, law)
        assert found >= min(1.0, 2 * exact) * (1 - 1e-9)
        assert found <= 1
    assert chernoff(0, devices, trials, law) < 40 * whole[0]
    # One kind whose mean is as large is refuted more easily: the law must have the kinds.
    assert chernoff(0, devices, trials, ((1.0, 0.48),)) < chernoff(0, devices, trials, law) / 5
    assert chernoff(23, 6, 4, ((1.0, 1.0),)) < 1e-80
    assert chernoff(0, 0, 4, law) == 1


EQUAL = ["grr", "oue", "blh", "dbitflip", "l_grr", "l_osue", "loloha", "dbitflip_pm", "one_bit_mean"]


@pytest.mark.parametrize("name", [*EQUAL, "rrpm_flipped"])
def test_two_reports_are_equal_as_often_as_enumeration_has_it(name: str) -> None:
    """Two first reports of one device about one value, from likelihoods and permanent answers."""
    protocol = (of(name, size=4) if name in EQUAL else COLLECTIONS[name]).protocol
    model = model_of(protocol)
    value = model.pair[1]
    (looked,) = looked_at(protocol, model, value)
    assert sum(p for p, _ in looked.kinds) == pytest.approx(1, rel=1e-9)
    expected = sum(
        share * float(answers[value] @ (second**2).sum(axis=1))
        for share, answers, second in of_each_seed(protocol)
    )
    assert sum(p * e for p, e in looked.kinds) == pytest.approx(expected, rel=1e-9)


SAMPLED = [COLLECTIONS["sample"], COLLECTIONS["allomfree"], several("sample", "one_bit_rrpm", gamma=0.2)]


@pytest.mark.parametrize("asked", SAMPLED, ids=lambda asked: asked.protocol_label)
def test_two_reports_about_a_sampled_attribute_are_equal_as_often_as_those_of_each(asked: Collection) -> None:
    protocol = asked.protocol
    alone = [(part, model_of(part), part.domain_size - 1) for part in protocol.parts]
    model = model_of(protocol)
    (looked,), *each = (list(looked_at(*one)) for one in [(protocol, model, model.pair[1]), *alone])
    assert sum(p for p, _ in looked.kinds) == pytest.approx(1, rel=1e-9)
    expected = np.mean([sum(p * e for p, e in one.kinds) for (one,) in each])
    assert sum(p * e for p, e in looked.kinds) == pytest.approx(expected, rel=1e-9)


def test_pairs_of_a_sum_have_no_report_in_common_and_copies_are_counted() -> None:
    model = model_of(of("grr").protocol)
    (looked,) = looked_at(of("grr").protocol, model, 5)
    rows = [[3] * 20, list(range(20))]
    found = replays(looked, rows)
    for lag in LAGS:
        both = [one for one in found.sums if f"the one {lag} before" in one.what]
        assert len(both) == 2
        for one in both:
            assert one.count == one.trials  # all pairs of the first device, none of the second
            assert 2 * one.trials <= 20
        assert sum(one.trials for one in both) <= 20 - lag
    assert sum(one.count for one in found.matches if "first one" in one.what) == 19
