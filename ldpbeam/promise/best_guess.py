"""How well a server can guess a device's value from the reports that the device sends about it.

All k values are equally likely, and the device holds one of them throughout. The best guess is the value v of
largest P(y | v), where y are all reports, with the hash function or the buckets that they name. It is right
with probability (1/k)·Σ over y of max over v of P(y | v). :func:`best_guess` computes that from the integers
of the protocol, with floats, and exactly but for

- local hashing by the ``affine`` family, of one report or of memoised symbols: an upper bound, at most a
  fifth above the truth, since how many symbols a function reaches is only known on average, and only from
  above (:func:`_reached`);
- ``blh`` and ``olh``, and ``dbitflip`` of some of the buckets, from two reports on: an approximation that
  takes the support of different values as independent. Of few values and two to four reports it is 0.94 to
  1.18 times the truth for hashing, 0.95 to 1.02 times for buckets;
- ``piecewise_mean``, from two reports on: the mean over 16 to 2,048 simulated devices, always the same ones;
- ``binflip_plus``: an approximation that takes the bits of a public string as independent. Two bits are, so
  that k = 2 is exact; one report is within a fortieth.

Those figures are enumerated in tests/ldpbeam/promise/test_best_guess.py.
"""

from __future__ import annotations

from typing import Any

from ldpbeam.privacy.loss import require_reports
from ldpbeam.protocols.contract import LocalProtocol


def best_guess(protocol: LocalProtocol[Any], reports: int) -> float:
    """The probability that the best guess of a device's value is right."""
    require_reports(reports)
    # Sums of thousands of floats can end a little above 1.
    return min(1.0, protocol.law.best_guess(reports))
