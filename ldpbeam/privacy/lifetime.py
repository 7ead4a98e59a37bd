"""The most that all reports of a device tell together, where a collection lets it make only a few of them.

Which epochs a device reports in follows from no value, so that only the values in those epochs count. Between
any two sequences of values, whatever changed and when, the loss is that of the reports alone:

- where nothing is memoised, as many times that of one report;
- where something is memoised, that of as many reports between any two sequences of memoised inputs
  (:mod:`ldpbeam.privacy.loss`), as far as it is known.

A device that was absent in some of its epochs made fewer reports, and lost no more.
"""

from __future__ import annotations

from math import inf

from ldpbeam.channels.exact import log_above_power
from ldpbeam.privacy.guarantee import Guarantee
from ldpbeam.privacy.loss import Losses


def lifetime_loss(guarantee: Guarantee, losses: Losses | None) -> float | None:
    """The loss in a device's life between any two sequences of values, rounded up; infinite where unbounded.

    None where the guarantee does not limit the number of reports, or the loss of so many is not known.
    """
    if guarantee.reports is None:
        return None
    if guarantee.memoised_ratio is None or guarantee.reports == 1:
        return log_above_power([(guarantee.first_ratio, guarantee.reports)])
    return None if losses is None else losses.any_changes(guarantee.reports)


def lifetime_record(guarantee: Guarantee, losses: Losses | None) -> dict[str, object]:
    """What run.json says of it; nothing where the number of reports has no limit.

    ``lifetime`` is null where the loss is unbounded or not known.
    """
    if guarantee.reports is None:
        return {}
    loss = lifetime_loss(guarantee, losses)
    return {"lifetime_reports": guarantee.reports, "lifetime": None if loss == inf else loss}
