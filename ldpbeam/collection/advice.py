"""Warnings about collections that work and are unlikely to be meant: what they cost, in figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.promise.poisoning import leverage
from ldpbeam.protocols import LocalProtocol
from ldpbeam.protocols.estimator import Result
from ldpbeam.protocols.hashed import HashedProtocol
from ldpbeam.protocols.laplace_mean import LaplaceMean
from ldpbeam.protocols.part_estimator import part_estimators
from ldpbeam.support import SupportProbabilities

MANY_REPORTS = 10**9
"""Reports per epoch that hardly anybody has: more than that for an error of 1/k is worth a warning."""

_DEARER = 1.5
"""How much larger than at the optimal g the standard error may be without a word."""

# Measured by benchmarks/memory.py, over four epochs of 100,000 reports.
_PROCESS_BYTES = 340 << 20
_BYTES_PER_VALUE, _BYTES_PER_CELL = 560, 8
_SECONDS_PER_VALUE, _SECONDS_PER_CELL = 1.2e-6, 1.5e-8

WORTH_SAYING = 100 << 20
"""Bytes that a domain takes beyond those of any run, from which on its cost is stated."""


@dataclass(frozen=True)
class Advice:
    code: str
    message: str
    remedy: str

    def in_file(self, where: str) -> str:
        return f"{where}: {self.message}. {self.remedy} [{self.code}]"


def run_memory(protocol: LocalProtocol[Any], slices: int = 1) -> int:
    """Bytes that a run over files has in memory at most, within a quarter, however many epochs it has."""
    return _PROCESS_BYTES + _domain_memory(protocol, slices)


def _domain_memory(protocol: LocalProtocol[Any], slices: int) -> int:
    values = sum(part.estimator.size for part in protocol.parts)
    cells = protocol.counter.counts_length + protocol.counter.signs_length
    return slices * (_BYTES_PER_VALUE * values + _BYTES_PER_CELL * cells)


def warnings_about(collection: Collection) -> tuple[Advice, ...]:
    advice: list[Advice] = []
    built = collection.protocol
    if collection.is_discovery:
        return tuple(_about_hash(collection, built.parts[0], ""))
    asked = zip(collection.histograms, built.parts, part_estimators(built), strict=True)
    for (name, domain), part, estimator in asked:
        about = f" of attribute {name}" if name else ""
        advice += _about_hash(collection, part, about)
        advice += _about_size(collection, part, domain.size, estimator.support, about)
        advice += _about_leverage(part, about)
        advice += _about_atoms(domain, part, about)
    return tuple(dict.fromkeys(advice))


def _about_hash(collection: Collection, kind: LocalProtocol[Any], about: str) -> Iterator[Advice]:
    g = collection.parameters.g
    if g is None or not isinstance(kind, HashedProtocol) or "g" not in kind.OPTIONAL:
        return
    best = type(kind).from_parameters(kind.domain_size, replace(collection.parameters, g=None))
    optimal, memoised = int(best.resolved_parameters()["g"]), kind.guarantee.memoised_ratio is not None
    assert isinstance(best, HashedProtocol)  # noqa: S101 - of the same kind
    devices = best.worth / kind.worth
    times = sqrt(devices)
    # Below the optimum a two-round protocol trades errors for a smaller cap, which may well be meant.
    if times > _DEARER and (g > optimal or not memoised):
        side = "above" if g > optimal else "below"
        also = f", and a device's cap of {g} · ε∞ grows with it" if memoised else ""
        cost = f"standard errors are {times:.3g} times as large, as with 1/{devices:.3g} of the devices"
        if kind.estimator.result is Result.DISTRIBUTION:
            # How much the estimates suffer depends on the number of reports as well.
            cost = f"a report tells 1/{devices:.3g} of what it could about a value"
        yield Advice(
            "W-COLLECTION-G",
            f"g: {g} is far {side} the optimal {optimal}{about}: {cost}{also}",
            f"Write g: optimal, or a g near {optimal}.",
        )


def _about_atoms(domain: Domain, kind: LocalProtocol[Any], about: str) -> Iterator[Advice]:
    if kind.estimator.result is Result.DISTRIBUTION and domain.labels is None and not domain.atoms:
        yield Advice(
            "W-COLLECTION-ATOMS",
            f"the domain{about} declares no atoms: if many devices hold the same round number, such as 60 "
            "minutes, limits near that number are too narrow",
            "If unsure, add atoms: {every: 60} (or another step) to the domain. Limits get about 9 % wider.",
        )


def _about_leverage(kind: LocalProtocol[Any], about: str) -> Iterator[Advice]:
    if isinstance(kind, LaplaceMean):
        most = leverage(kind).one_value
        yield Advice(
            "W-COLLECTION-LEVERAGE",
            f"one forged report among n moves a mean{about} of {kind.NAME} by up to {most:.0f} "
            "times the largest value over n, also out of its domain",
            "Use one_bit_mean or piecewise_mean where not all devices can be trusted.",
        )


def _about_size(
    collection: Collection,
    kind: LocalProtocol[Any],
    size: int,
    support: SupportProbabilities | None,
    about: str,
) -> Iterator[Advice]:
    if support is None:
        return  # a mean has one number, however large the values
    slices = len(collection.slices.published) or 1
    if _domain_memory(kind, slices) >= WORTH_SAYING:
        cells = slices * (kind.counter.counts_length + kind.counter.signs_length)
        seconds = slices * size * _SECONDS_PER_VALUE + cells * _SECONDS_PER_CELL
        memory = run_memory(collection.protocol, slices) / 2**30
        of_slices = f" in {slices:,} slices" if slices > 1 else ""
        table = f", {cells * _BYTES_PER_CELL / 2**30:.2g} GiB of that for a table of {cells:,} counts,"
        yield Advice(
            "W-COLLECTION-SIZE",
            f"with a domain of {size:,} values{about}{of_slices} a run takes about {memory:.2g} GiB of memory"
            f"{table * (cells > 2 * slices * size)} and {seconds:.2g} s to estimate each epoch, however few "
            f"the reports, and {slices * size:,} rows to publish it",
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
