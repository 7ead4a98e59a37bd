"""Every way to collect that a need allows: protocol, calibration, hash family, and in how many epochs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import chain
from math import ceil, expm1
from typing import Any

from ldpbeam.channels.calibration import Calibration
from ldpbeam.collection.participation import LONGEST
from ldpbeam.errors import CollectionError
from ldpbeam.planning.needs import LEAST_LEVEL, MOST_LEVEL, Needs, OrderedNeeds
from ldpbeam.promise.promise import EXACT_REPORTS, Promise
from ldpbeam.protocols import PROTOCOLS, LocalProtocol, Parameters
from ldpbeam.protocols.subset import Subset

_SYMBOLS = {"linear": (2, 3, 5, 7, 11), "affine": (2, 3, 4, 6, 8, 12), "interval": (2, 3, 4, 6, 8, 12)}
"""Symbols of a hash that are tried where a cap says what g of them may cost together."""

_SAMPLED = (1, 4, 16)
"""Buckets that a bit-flip report speaks about; those who memoise may also be asked about all."""

_SEGMENTS = (1, 2, 4)
"""Segments that the range of a mean is cut into, where its end is a multiple of them: one more point each."""

_FEW_SYMBOLS = 3
"""Symbols up to which a memoising protocol is tried with few reports: more lose more by changes."""

_HALVINGS = 12
"""Steps of a search for a level: to 1/4096 of what there is to search."""

_FLIPS = (0.0, 0.1, 0.2)
"""γ that is tried for memoised bits, besides the one with which a first report spends ε1."""

_GAMMA_STEPS = 10**6
"""γ is rounded up to a multiple of one over this, so that a person can read it."""


@dataclass(frozen=True)
class Setting:
    """A protocol with its parameters, as one of the ways to collect that a plan compares."""

    name: str
    parameters: Parameters
    protocol: LocalProtocol[Any]
    reports: int
    epochs: int

    @property
    def share(self) -> Fraction:
        return Fraction(self.reports, self.epochs)

    @property
    def participates(self) -> bool:
        """Whether a device reports in some of its epochs only, which it draws for life."""
        return self.reports < self.epochs

    @property
    def published(self) -> bool:
        """Whether the second round is the papers', which spends less than ε1 for more than two symbols."""
        return self.parameters.calibration is not Parameters.calibration

    @property
    def memoised(self) -> bool:
        return self.protocol.guarantee.memoised_ratio is not None

    @property
    def label(self) -> str:
        """The choice in short, for people; levels are columns of their own."""
        given, takes = self.parameters, (*self.protocol.PARAMETERS, *self.protocol.OPTIONAL)
        resolved = self.protocol.resolved_parameters()
        named = [key for key in ("g", "d", "w") if key in takes and key in resolved]
        parts = [self.name, *(f"{key}={resolved[key]}" for key in named)]
        if "segment" in takes and resolved["segment"] != self.protocol.domain_size - 1:
            parts.append(f"segment={resolved['segment']}")
        if given.gamma:
            parts.append(f"gamma={given.gamma:.4g}")
        if "hash_family" in takes and given.hash_family != Parameters.hash_family:
            parts.append(given.hash_family)
        if self.published:
            parts.append(given.calibration.value)
        if self.participates:
            parts.append(f"({self.reports} of {self.epochs})")
        return " ".join(parts)


def settings(needs: Needs) -> list[Setting]:
    """Every setting at the levels that the needs leave it, each once, in the order of the protocols."""
    by_law: dict[tuple[object, int], Setting] = {}
    for kind in PROTOCOLS.values():
        if kind.RESULT is not needs.RESULT:
            continue
        one_round = "epsilon" in kind.PARAMETERS
        ways = _one_round(kind, needs) if one_round else chain(_memoised(kind, needs), _few(kind, needs))
        for parameters, reports in ways:
            try:
                built = kind.from_parameters(needs.values, parameters)
            except CollectionError:
                continue  # l_oue and l_soue do not reach every level, nor does laplace_mean
            # Published and exact calibration agree for two symbols, and an optimal g may be 2.
            setting = Setting(kind.NAME, parameters, built, reports, needs.epochs)
            by_law.setdefault((built, reports), setting)
    return list(by_law.values())


def total_budget(needs: Needs) -> float:
    """What the reports of a device may tell together where nothing is memoised."""
    limits = [one for one in (needs.lifetime, needs.inputs_cap, needs.longitudinal) if one is not None]
    return min(limits) if limits else 2 * (needs.first or LEAST_LEVEL)


def _one_round(kind: type[LocalProtocol[Any]], needs: Needs) -> Iterator[tuple[Parameters, int]]:
    """The budget shared out over one, two, … or all epochs; and, to compare with, ε1 in every epoch."""
    budget, most = total_budget(needs), needs.first or MOST_LEVEL
    enough = min(ceil(budget / most), needs.epochs)
    ways = [(min(budget / reports, most), reports) for reports in {1, min(2, needs.epochs), enough}]
    ways += [(min(budget / needs.epochs, most), needs.epochs)]
    again = needs.first or (needs.longitudinal or 0.0) / 2
    for level, reports in sorted({*ways, (min(again, MOST_LEVEL), needs.epochs)}):
        if level >= LEAST_LEVEL and (reports == needs.epochs or needs.epochs <= LONGEST):
            for options in _options(kind, needs):
                yield replace(options, epsilon=level, w=_size(kind, needs, level)), reports


def _size(kind: type[LocalProtocol[Any]], needs: Needs, level: float) -> int | None:
    """The size of a subset that is best at the frequency that plans rank by."""
    if not issubclass(kind, Subset):
        return None
    return kind.best_for(needs.values, level, Fraction(1, needs.values)).w


def _memoised(kind: type[LocalProtocol[Any]], needs: Needs) -> Iterator[tuple[Parameters, int]]:
    """The largest levels that no limit forbids; ε1 is half of ε∞ unless a smaller one is asked for."""
    for options in _options(kind, needs):
        together = [one for one in (needs.inputs_cap, needs.lifetime) if one is not None]
        inputs = _memoised_inputs(kind, options, needs.values)
        limits = [limit / inputs for limit in together if inputs]
        limits += [needs.longitudinal] if needs.longitudinal else []
        level = min([*limits, MOST_LEVEL]) if limits else 2 * (needs.first or LEAST_LEVEL)
        first = level / 2 if needs.first is None or needs.first >= level else needs.first
        if first < LEAST_LEVEL:
            continue
        if "gamma" in kind.OPTIONAL:
            yield from ((one, needs.epochs) for one in _flipped(options, level, first, needs))
        elif "epsilon_first" in kind.PARAMETERS:
            yield replace(options, epsilon_longitudinal=level, epsilon_first=first), needs.epochs
        elif "d" in kind.PARAMETERS:  # what is memoised is sent as it is, so it must not pass ε1 either
            yield replace(options, epsilon_longitudinal=first), needs.epochs
        else:
            yield replace(options, epsilon_longitudinal=level), needs.epochs


def _few(kind: type[LocalProtocol[Any]], needs: Needs) -> Iterator[tuple[Parameters, int]]:
    """Some of the epochs, with a memo: of so few reports the loss of any change pattern is enumerated.

    With a lifetime ε at the largest levels that keep it; with a cap alone at its levels, as long as the cap
    then holds for any change pattern. Two reports that lose too much end the search: at the lower levels of
    more reports a memo shows more of its changes, in proportion to what a report may spend.
    """
    limit = needs.lifetime if needs.lifetime is not None else needs.inputs_cap
    if limit is None or needs.epochs > LONGEST:
        return
    free = replace(needs, lifetime=None, longitudinal=min(needs.longitudinal or limit, limit, MOST_LEVEL))
    for most, _ in _memoised(kind, free):
        if most.calibration is not Parameters.calibration or (most.g or 0) > _FEW_SYMBOLS:
            continue
        for reports in range(2, min(EXACT_REPORTS, needs.epochs - 1) + 1):
            keeps = partial(_keeps, kind, needs.values, limit, reports=reports)
            if keeps(most):
                yield most, reports
                continue
            # A protocol of one round with the same encoding spends so much in each of as many reports.
            share = limit / reports / (most.epsilon_first or most.epsilon_longitudinal or limit)
            if share >= 1:
                continue
            if needs.lifetime is None or not keeps(_scaled(most, share)):
                break
            low, high = share, 1.0
            for _ in range(_HALVINGS):
                middle = (low + high) / 2
                low, high = (middle, high) if keeps(_scaled(most, middle)) else (low, middle)
            yield _scaled(most, low), reports


def _keeps(
    kind: type[LocalProtocol[Any]], values: int, lifetime: float, parameters: Parameters, reports: int
) -> bool:
    """Whether so many reports keep a lifetime ε, whatever changes."""
    try:
        built = kind.from_parameters(values, parameters)
    except CollectionError:
        return False
    return Promise.of_protocol(built, reports).any_loss <= lifetime


def _scaled(parameters: Parameters, part: float) -> Parameters:
    first, level = parameters.epsilon_first, parameters.epsilon_longitudinal
    return replace(
        parameters,
        epsilon_longitudinal=None if level is None else level * part,
        epsilon_first=None if first is None else first * part,
    )


def _memoised_inputs(kind: type[LocalProtocol[Any]], options: Parameters, values: int) -> int | None:
    """How many inputs a device can memoise; None where that is not known before g is."""
    if "d" in kind.PARAMETERS:
        return min((options.d or 1) + 1, values)
    if "segment" in kind.OPTIONAL:
        return (values - 1) // (options.segment or values - 1) + 1
    return options.g if "g" in kind.OPTIONAL else values


def _flipped(options: Parameters, level: float, first: float, needs: Needs) -> Iterator[Parameters]:
    """Memoised bits as they are, or flipped with several γ; none that spends more than the ε1 asked for."""
    if needs.epochs == 1:
        return
    for gamma in sorted({*_FLIPS, _gamma(level, first)}):
        at = level if gamma or needs.first is None else min(level, needs.first)
        if not gamma or needs.first is None or gamma >= _gamma(level, needs.first):
            yield replace(options, epsilon_longitudinal=at, gamma=gamma)


def _gamma(level: float, first: float) -> float:
    """γ with which a first report of a bit at ε∞ spends ε1 at most: (p(ε∞) − p(ε1))/(2p(ε∞) − 1)."""

    def gap(epsilon: float) -> float:
        return expm1(epsilon) / (expm1(epsilon) + 2)

    return 0.0 if first >= level else ceil(_GAMMA_STEPS * (1 - gap(first) / gap(level)) / 2) / _GAMMA_STEPS


def _options(kind: type[LocalProtocol[Any]], needs: Needs) -> Iterator[Parameters]:
    """Parameters without levels: hash families, symbols, calibrations, sampled buckets and segments."""
    if "segment" in kind.OPTIONAL:
        maximum = needs.values - 1
        yield from (Parameters(segment=maximum // parts) for parts in _SEGMENTS if maximum % parts == 0)
        return
    if "d" in kind.PARAMETERS:
        memoises = "epsilon_longitudinal" in kind.PARAMETERS
        sampled = [d for d in _SAMPLED if d < needs.values] + ([needs.values] if memoises else [])
        yield from (Parameters(d=d) for d in sampled)
        return
    families = ("linear", "affine") if "hash_family" in kind.OPTIONAL else ("linear",)
    calibrations = tuple(Calibration) if "calibration" in kind.OPTIONAL else (Calibration.EXACT,)
    if isinstance(needs, OrderedNeeds):
        # The papers have no distributions to reproduce; sums err by affine hashing as by linear hashing.
        families = ("linear", "interval") if "hash_family" in kind.OPTIONAL else ("linear",)
        calibrations = (Calibration.EXACT,)
    for family in families:
        symbols: tuple[int | None, ...] = (None,)
        if "g" in kind.OPTIONAL and "epsilon_longitudinal" in kind.PARAMETERS:
            capped = needs.inputs_cap is not None or needs.lifetime is not None
            symbols = _SYMBOLS[family] if capped else (None, 2)
        for g in symbols:
            for calibration in calibrations:
                yield Parameters(hash_family=family, g=g, calibration=calibration)
