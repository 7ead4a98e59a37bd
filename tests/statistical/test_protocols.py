"""Every frequency protocol in the table: no bias and the stated variance, by simulation.

4,000 groups of 100 devices each; in every group exactly a share f holds value 0. Each group gives one
estimate, standardised by the variance of docs/maths.md section 1 at the true f (and the group's own number of
reports). Two statistics are compared with their expectations under the stated protocol:

* the mean of the standardised estimates, which is N(0, 1/G);
* their mean square, which has expectation 1 and variance (2 + excess kurtosis)/G; the sample's own
  kurtosis is used, and it is close to 0.

Each of them may stray by 6.2 standard deviations: a false alarm once in 1.8·10⁹, and with about 200 such
comparisons less than 1.2·10⁻⁷ for this file.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from numpy.typing import NDArray

from ldpbeam.estimates import variance
from ldpbeam.protocols.contract import FrequencyProtocol
from ldpbeam.simulators.protocol_fleet import ProtocolFleet
from ldpbeam.simulators.random_words import RandomWords
from ldpbeam.support import SupportProbabilities
from tests.reference.settings import Setting, settings

GROUPS, DEVICES, DOMAIN = 4000, 100, 6
LIMIT = 6.2
FREQUENCIES = (0.0, 0.2, 0.5)
SETTINGS = [s for s in settings((DOMAIN,)) if isinstance(s.build(), FrequencyProtocol)]


@lru_cache(maxsize=4)
def counted(setting: Setting, frequency: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Support of value 0 and reports behind it, per group."""
    protocol = setting.build()
    assert isinstance(protocol, FrequencyProtocol)
    holders = round(frequency * DEVICES)
    others = 1 + np.arange(DEVICES - holders) % (DOMAIN - 1)
    group = np.concatenate([np.zeros(holders, np.int32), others.astype(np.int32)])
    fleet = ProtocolFleet(protocol, GROUPS * DEVICES, RandomWords(1 + round(10 * frequency)))
    batches = [columns.payloads for columns in fleet.reports(0, np.tile(group, GROUPS))]
    payloads = np.concatenate(batches).reshape(GROUPS, DEVICES, -1)
    support, reports = np.zeros(GROUPS, np.int64), np.zeros(GROUPS, np.int64)
    for i in range(GROUPS):
        counts = np.zeros(protocol.counter.counts_length, np.int64)
        protocol.counter.add(payloads[i], counts)
        support[i] = protocol.counter.support_counts(counts)[0]
        behind = protocol.counter.report_counts(counts, DEVICES)
        reports[i] = behind if isinstance(behind, int) else behind[0]
    return support, reports


def strays(
    setting: Setting, frequency: float, probabilities: SupportProbabilities, spread: float = 1.0
) -> tuple[float, float]:
    """How many standard deviations mean and mean square lie from what ``probabilities`` promise."""
    support, reports = counted(setting, frequency)
    told = reports > 0
    support, reports = support[told], reports[told]
    estimates = (support / reports - float(probabilities.other)) / float(probabilities.gap)
    stated = variance(np.full(support.size, frequency), reports, probabilities)
    z = (estimates - frequency) / (spread * np.sqrt(stated))
    fourth = float(np.mean((z - z.mean()) ** 4) / z.var() ** 2)
    return (
        float(abs(z.mean()) * np.sqrt(z.size)),
        float(abs(np.mean(z * z) - 1) * np.sqrt(z.size / (fourth - 1))),
    )


def promised(setting: Setting) -> SupportProbabilities:
    protocol = setting.build()
    assert isinstance(protocol, FrequencyProtocol)
    return protocol.estimator.support


@pytest.mark.cases(20)
@pytest.mark.parametrize("frequency", FREQUENCIES)
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_no_bias_and_the_stated_variance(setting: Setting, frequency: float) -> None:
    """Estimates are centred on the truth and spread as stated, also where the papers' variance is wrong."""
    centre, width = strays(setting, frequency, promised(setting))
    assert centre < LIMIT
    assert width < LIMIT


@pytest.mark.parametrize("frequency", FREQUENCIES)
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.thorough
def test_a_parameter_ten_percent_off_is_rejected(setting: Setting, frequency: float) -> None:
    """The same comparison refuses probabilities 10 % too low, and a standard error 10 % too small."""
    true = promised(setting)
    wrong = replace(true, own=true.own * 9 / 10, other=true.other * 9 / 10)
    assert max(strays(setting, frequency, wrong)) > LIMIT
    assert strays(setting, frequency, true, spread=0.9)[1] > LIMIT
