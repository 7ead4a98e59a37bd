"""Warnings about collections that work and are unlikely to be meant: what they cost, in figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

from ldpbeam.collection.collection import Collection
from ldpbeam.privacy.poisoning import leverage
from ldpbeam.protocols import LocalProtocol
from ldpbeam.support import SupportProbabilities

LARGE_DOMAIN = 1 << 18
"""Values of a domain from which on the cost of an epoch's result is stated."""

MANY_REPORTS = 10**9
"""Reports per epoch that hardly anybody has: more than that for an error of 1/k is worth a warning."""

_DEARER = 1.5
"""How much larger than at the optimal g the standard error may be without a word."""

# Measured with runs of 1,000 reports at k = 2**16 and 2**20: the difference, per value and epoch.
_BYTES_PER_VALUE = 400
_MICROSECONDS_PER_VALUE = 1.0


@dataclass(frozen=True)
class Advice:
    """One warning.

    Attributes:
        code: stable identifier, such as ``W-COLLECTION-G``; documented in docs/errors.md.
        message: what is unlikely to be meant, and what it costs.
        remedy: what to do.
    """

    code: str
    message: str
    remedy: str

    def in_file(self, where: str) -> str:
        """One line for a person."""
        return f"{self.message} in {where}. {self.remedy} [{self.code}]"


def warnings_about(collection: Collection) -> tuple[Advice, ...]:
    """Every warning about a collection, each attribute looked at on its own; mostly none."""
    found: list[Advice] = []
    built = collection.protocol
    asked = zip(collection.histograms, built.parts, built.estimators, strict=True)
    for (name, domain), part, estimator in asked:
        about = f" of attribute {name}" if name else ""
        found += _about_hash(collection, part, about)
        found += _about_size(domain.size, estimator.support, about)
        found += _about_leverage(part, about)
    return tuple(dict.fromkeys(found))


def _about_hash(collection: Collection, kind: LocalProtocol[Any], about: str) -> Iterator[Advice]:
    g = collection.parameters.g
    if g is None or "g" not in kind.OPTIONAL:
        return
    best = type(kind).from_parameters(kind.domain_size, replace(collection.parameters, g=None))
    optimal, memoised = int(best.resolved_parameters()["g"]), kind.guarantee.memoised_ratio is not None
    assert kind.support is not None and best.support is not None  # noqa: S101 - hashes count values
    times = sqrt(float(kind.support.floor) / float(best.support.floor))
    # Below the optimum a two-round protocol trades errors for a smaller cap, which may well be meant.
    if times > _DEARER and (g > optimal or not memoised):
        side = "above" if g > optimal else "below"
        also = f", and a device's cap of {g} · ε∞ grows with it" if memoised else ""
        yield Advice(
            "W-COLLECTION-G",
            f"g: {g} is far {side} the optimal {optimal}{about}: standard errors are {times:.3g} times as "
            f"large, as with 1/{times**2:.3g} of the devices{also}",
            f"Write g: optimal, or a g near {optimal}.",
        )


def _about_leverage(kind: LocalProtocol[Any], about: str) -> Iterator[Advice]:
    if kind.added_noise is not None:
        most = leverage(kind).one_value
        yield Advice(
            "W-COLLECTION-LEVERAGE",
            f"one forged report among n moves a mean{about} of {kind.NAME} by up to {most:.0f} "
            "times the largest value over n, also out of its domain",
            "Use one_bit_mean where not all devices can be trusted.",
        )


def _about_size(size: int, support: SupportProbabilities | None, about: str) -> Iterator[Advice]:
    if support is None:
        return  # a mean has one number, however large the values
    if size >= LARGE_DOMAIN:
        memory, seconds = size * _BYTES_PER_VALUE / 2**30, size * _MICROSECONDS_PER_VALUE / 1e6
        yield Advice(
            "W-COLLECTION-SIZE",
            f"a domain of {size:,} values{about} takes about {memory:.2g} GiB of memory and {seconds:.2g} s "
            f"to estimate each epoch, whatever the number of reports, and {size:,} rows to publish it",
            "Collect coarser values, or merge rare ones.",
        )
    each = float(support.floor) / float(support.sampled)  # of one report among all
    reports = each * size**2
    if reports > MANY_REPORTS:
        yield Advice(
            "W-COLLECTION-ERROR",
            f"with fewer than {reports:.2g} reports per epoch the standard error of a value{about} is above "
            f"1/k = {1 / size:.2g}; with a million it is {sqrt(each / 1e6):.2g}, so only "
            "values far above that are seen",
            "Collect coarser values, raise ε, or count on frequent values only.",
        )
