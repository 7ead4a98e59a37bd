"""The certificate: what the integers of a collection really spend, against the levels that it states.

Ratios are those of the exact law of reports, without the protocols' own ``guarantee``. A weight that was
rounded up by one is found here; no number of reports would show it.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from ldpbeam.audit.checks.outcome import Check, Rule
from ldpbeam.channels.exact import exp_below
from ldpbeam.collection.collection import Collection
from ldpbeam.protocols.contract import LocalProtocol
from ldpbeam.protocols.parameters import Parameters


def certificate_rules(collection: Collection) -> list[Rule]:
    protocol, parameters = collection.protocol, collection.parameters
    # Reports that tell of all attributes share the level.
    together = 1 if protocol.share < 1 or protocol.device.sum_limit is not None else len(protocol.parts)
    rules = []
    for part in dict.fromkeys(protocol.parts):
        for what, ratio, level in _ratios(part, parameters):
            broken = ratio**together > exp_below(level)
            rules.append(Rule(Check.CERTIFICATE, f"{part.NAME}: {what} at most {level:g}", int(broken), 1))
        known = part.guarantee.first_ratio
        broken = not part.law.spent()[1] <= known
        text = f"{part.NAME}: the integers spend no more than the guarantee says"
        rules.append(Rule(Check.CERTIFICATE, text, int(broken), 1))
    return rules


def _ratios(part: LocalProtocol[Any], parameters: Parameters) -> Iterator[tuple[str, Fraction, float]]:
    memoised, first = part.law.spent()
    for key, what, ratio in (
        ("epsilon", "level of a report", first),
        ("epsilon_longitudinal", "level of the permanent round", memoised),
        ("epsilon_first", "level of a first report", first),
    ):
        level = getattr(parameters, key)
        if level is not None and key in part.PARAMETERS:
            assert ratio is not None  # noqa: S101 - the level is that of what is memoised
            yield what, ratio, level
