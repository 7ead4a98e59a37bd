"""A collection in words: what a device does, what the server computes, and what is not promised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.epochs import instant
from ldpbeam.consistency import METHODS
from ldpbeam.planning.strings import COUNTED, ESTIMATED, what_devices_do
from ldpbeam.promise.poisoning import leverage
from ldpbeam.promise.statements import OTHER_COLLECTIONS, bits
from ldpbeam.protocols import LocalProtocol
from ldpbeam.protocols.estimator import FrequencyEstimator, Result
from ldpbeam.protocols.interval_hash import IntervalHash
from ldpbeam.protocols.part_estimator import PartEstimator, part_estimators
from ldpbeam.protocols.prefixes import Level, Prefixes

_SHOWN = 60  # characters of an integer or list that is longer


def explained(collection: Collection) -> dict[str, list[str]]:
    support, estimate = [], []
    for (name, _, protocol), estimator in zip(collection.asked, collection.estimators, strict=True):
        about = f"{name}: " if name else ""
        support += [about + line for line in _support(protocol, estimator)]
        estimate += [about + line for line in _estimate(protocol, estimator)]
    return {
        "1 report: what a device does": list(_reports(collection)),
        "2 epoch: which reports count together": list(_epochs(collection)),
        "3 support: what is counted": support,
        "4 estimate: what the counts say": estimate,
        "5 histogram: what is published beside it": list(_histogram(collection)),
        "what is not promised to a device": [*collection.protocol.not_hidden, OTHER_COLLECTIONS],
        "what a forger can do": list(_forged(collection)),
    }


def _reports(collection: Collection) -> Iterator[str]:
    if isinstance(collection.protocol, Prefixes):
        yield from what_devices_do(collection.protocol)
    for name, domain, part in collection.asked:
        about = f"{name}: " if name else ""
        yield f"{about}{part.NAME} on {domain} ({part.SOURCE})"
        for key, value in part.device.definition().items():
            if value is not None:
                yield f"{about}{_ROUNDS.get(key, key)}: {_integers(value)}"
        if part.guarantee.memoised_ratio is None:
            yield f"{about}nothing is kept: every report is drawn afresh"
    payload = bits(collection.protocol.device.payload_bits)
    yield f"a payload has {payload}; a report adds digest, epoch and report id"


_ROUNDS = {
    "permanent": "permanent round, drawn once per input and kept",
    "instant": "round drawn for every report",
}


def _integers(value: Any) -> str:
    """The integers of a definition, those that are too long to read cut."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {_integers(one)}" for key, one in value.items())
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _epochs(collection: Collection) -> Iterator[str]:
    epochs = collection.epochs
    yield (
        f"epoch e lasts {epochs.length:,} s from {instant(epochs.origin)} + e·{epochs.length:,} s on, "
        f"e = 0 … {epochs.count - 1:,}; a device writes e into its report"
    )
    participation = collection.participation
    if participation is not None:
        yield (
            f"a device reports in {participation.reports:,} of the {participation.of:,} epochs, which it "
            "draws for life before it has a value, and is silent in all others"
        )
    early = epochs.length if collection.future_tolerance is None else collection.future_tolerance
    yield (
        f"reports count that arrive from {early:,} s before an epoch begins until "
        f"{collection.allowed_lateness:,} s after it ends; one report per report id"
    )


def _support(protocol: LocalProtocol[Any], estimator: PartEstimator) -> Iterator[str]:
    support = estimator.support
    if isinstance(protocol, IntervalHash):
        own, other = map(float, protocol.symbol)
        yield "C(s, y) = number of reports of the function s that name its stretch y"
        yield f"own = P(a report names the stretch of the device's value) = {own:.9f}"
        yield f"other = P(it names a certain other stretch) = {other:.9f}"
        return
    if isinstance(protocol, Level):
        support = protocol.estimator.support
        yield COUNTED
        yield f"own = P(it names the symbol of the device's prefix) = {float(support.own):.9f}"
        yield f"other = P(it names the symbol of another one) = {float(support.other):.9f}"
        return
    if support is None:
        yield "the sum of what the reports say"
        return
    yield "C(v) = number of reports that support value v"
    formulas = protocol.estimator.formulas if isinstance(protocol.estimator, FrequencyEstimator) else ("", "")
    first, second = (f"{one} = " if one else "" for one in formulas)
    yield f"own = P(a report supports v | the device holds v) = {first}{float(support.own):.9f}"
    yield f"other = P(it does | it holds something else) = {second}{float(support.other):.9f}"
    if support.sampled != 1:
        yield f"a share of {float(support.sampled):.6g} of the devices is behind a value's reports"


def _estimate(protocol: LocalProtocol[Any], estimator: PartEstimator) -> Iterator[str]:
    support = estimator.support
    if protocol.estimator.result is Result.DISTRIBUTION:
        yield (
            "the share of the devices up to each value, with limits: the posterior of a density that walks "
            "at random from value to value, as far as the counts teach"
        )
        yield "single values have no estimate; mean and quantiles have their own table"
        return
    if protocol.estimator.result is Result.DISCOVERED:
        yield from ESTIMATED
        return
    if protocol.estimator.result is Result.MEAN or support is None:
        yield "the mean of the reports, with what the noise does to it taken out; in the units of the values"
        return
    own, other, gap = float(support.own), float(support.other), float(support.gap)
    yield f"f(v) = (C(v)/n − other)/(own − other) = (C(v)/n − {other:.6g})/{gap:.6g}, unbiased"
    drawn = "" if support.sampled == 1 else f" + (1 − {float(support.sampled):.4g})·f(1 − f)/n"
    yield (
        f"variance = [f·own(1 − own) + (1 − f)·other(1 − other)]/(n·(own − other)²){drawn} = "
        f"[f·{own * (1 - own):.6g} + (1 − f)·{other * (1 - other):.6g}]/(n·{gap * gap:.6g}){drawn}"
    )
    yield "intervals hold the frequencies that a two-sided test at 5 % does not reject"


def _histogram(collection: Collection) -> Iterator[str]:
    least = collection.min_reports
    few = "no report" if least == 1 else f"fewer than {least:,} reports"
    if collection.protocol.estimator.result is Result.MEAN:
        as_it_is = collection.consistency == "none"
        ranged = "as it is, also outside its range" if as_it_is else "brought into its range"
        yield f"consistency {collection.consistency}: the mean, {ranged}"
    elif collection.is_distribution:
        yield "the distribution gives shares of single values: none is negative, and they add up to 1"
        yield f"an epoch with {few} has no distribution"
    else:
        method = METHODS[collection.consistency]
        yield f"consistency {method.name}: {method.summary}"
        yield f"an epoch with {few} has no estimates"


def _forged(collection: Collection) -> Iterator[str]:
    protocol = collection.protocol
    asked = zip(collection.asked, part_estimators(protocol), strict=not collection.is_discovery)
    for (name, _, part), estimator in asked:
        worst, about = leverage(part, estimator.share), f"{name}: " if name else ""
        unit = (
            "a frequency"
            if part.estimator.result in (Result.FREQUENCIES, Result.DISCOVERED)
            else "the mean (in units of the largest value)"
        )
        most = f"{worst.one_value:.4g}/n"
        yield f"{about}one forged report among n moves {unit} by up to {most}, an honest one by 1/n"
