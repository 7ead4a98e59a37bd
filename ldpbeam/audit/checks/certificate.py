"""The certificate: what the integers of a collection really spend, against the levels that it states.

Ratios are recomputed here from the weights alone, without the protocols' own ``guarantee``. A weight that was
rounded up by one is found here; no number of reports would show it.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from ldpbeam.audit.checks.outcome import Check, Rule
from ldpbeam.channels.channel import BitChannel, SymbolChannel
from ldpbeam.channels.exact import exp_below
from ldpbeam.channels.noise import LaplaceNoise
from ldpbeam.collection.collection import Collection
from ldpbeam.protocols.attributes.bounded_counters import BoundedCounters
from ldpbeam.protocols.attributes.sample import Sample
from ldpbeam.protocols.contract import LocalProtocol
from ldpbeam.protocols.one_bit_mean import LinearBit
from ldpbeam.protocols.parameters import Parameters
from ldpbeam.randomness import FULL

_OUTPUTS = 2000
"""Noisy values whose likelihoods are compared; all of them where there are no more."""


def certificate_rules(collection: Collection) -> list[Rule]:
    """Every stated level, and whether the integers keep it."""
    protocol, parameters = collection.protocol, collection.parameters
    # Reports that tell of all attributes share the level.
    together = 1 if isinstance(protocol, (Sample, BoundedCounters)) else len(protocol.parts)
    rules = []
    for part in dict.fromkeys(protocol.parts):
        for what, ratio, level in _ratios(part, parameters):
            broken = ratio**together > exp_below(level)
            rules.append(Rule(Check.CERTIFICATE, f"{part.NAME}: {what} at most {level:g}", int(broken), 1))
        known = part.guarantee.first_ratio
        broken = not _single(part) <= known
        text = f"{part.NAME}: the integers spend no more than the guarantee says"
        rules.append(Rule(Check.CERTIFICATE, text, int(broken), 1))
    return rules


def _ratios(part: LocalProtocol[Any], parameters: Parameters) -> Iterator[tuple[str, Fraction, float]]:
    """(what, worst likelihood ratio, stated level)."""
    if parameters.epsilon is not None and "epsilon" in part.PARAMETERS:
        yield "level of a report", _single(part), parameters.epsilon
    if parameters.epsilon_longitudinal is not None and "epsilon_longitudinal" in part.PARAMETERS:
        permanent = getattr(part, "permanent", None)
        yield "level of the permanent round", _ratio(permanent, part), parameters.epsilon_longitudinal
    if parameters.epsilon_first is not None and "epsilon_first" in part.PARAMETERS:
        yield "level of a first report", _single(part), parameters.epsilon_first


def _ratio(channel: Any, part: LocalProtocol[Any]) -> Fraction:
    """Worst likelihood ratio of one round over two values."""
    if isinstance(channel, SymbolChannel):
        return Fraction(channel.keep, channel.each)
    if isinstance(channel, LinearBit):
        return max(Fraction(channel.one, channel.zero), Fraction(FULL - channel.zero, FULL - channel.one))
    if isinstance(channel, BitChannel):
        return _of_bits(Fraction(channel.one, FULL), Fraction(channel.zero, FULL), part)
    if isinstance(channel, LaplaceNoise):
        return _of_noise(channel, part)
    raise NotImplementedError(f"no certificate for a round of type {type(channel).__name__}")


def _of_bits(one: Fraction, zero: Fraction, part: LocalProtocol[Any]) -> Fraction:
    """Two values differ in two bits, or in one where a report has only one."""
    up, down = one / zero, (1 - zero) / (1 - one)
    single = getattr(part, "d", 2) == 1 or part.payload_bits in (1, 129)
    return max(up, down) if single else up * down


def _of_noise(noise: LaplaceNoise, part: Any) -> Fraction:
    """Over clamped outputs, of the two ends of the domain."""
    low, high = -part.margin, part.maximum + part.margin
    step = -(-(high - low + 1) // _OUTPUTS)
    outputs = {*range(low, high + 1, step), low, 0, part.maximum, high}
    ratios = (part.likelihood(y, part.maximum) / part.likelihood(y, 0) for y in outputs)
    worst: Fraction = max(max(ratio, 1 / ratio) for ratio in ratios)
    return worst


def _single(part: LocalProtocol[Any]) -> Fraction:
    """Worst likelihood ratio of one report: of its one round, or of both composed."""
    permanent, instant = (getattr(part, name, None) for name in ("permanent", "instant"))
    if permanent is None or instant is None:
        return _ratio(permanent or instant, part)
    if isinstance(permanent, SymbolChannel):
        m, whole = permanent.size, permanent.total * instant.total
        own = permanent.keep * instant.keep + (m - 1) * permanent.each * instant.each
        return Fraction(own * (m - 1), whole - own)
    one, zero = (
        Fraction(weight * instant.one + (FULL - weight) * instant.zero, FULL**2)
        for weight in (permanent.one, permanent.zero)
    )
    return _of_bits(one, zero, part)
