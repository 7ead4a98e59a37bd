"""A collection in words: what a device does, what the server computes, and what is promised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import instant
from ldpbeam.consistency import METHODS, UNBIASED
from ldpbeam.planning.collection_check import errors, expected, promised
from ldpbeam.planning.shuffler import shuffled_words
from ldpbeam.planning.spread import Spread
from ldpbeam.promise.poisoning import leverage
from ldpbeam.promise.statements import OTHER_COLLECTIONS, bits
from ldpbeam.protocols import LocalProtocol
from ldpbeam.protocols.estimator import FrequencyEstimator, Result
from ldpbeam.protocols.interval_hash import IntervalHash
from ldpbeam.protocols.part_estimator import PartEstimator, part_estimators
from ldpbeam.randomness import FULL

_CUTS = 8  # values that are listed at most
_SHOWN = 60  # characters of an integer or list that is longer


@dataclass(frozen=True)
class ExplanationPart:
    """One part of the explanation.

    Attributes:
        title: in a few words.
        lines: sentences, with the collection's own numbers in them.
    """

    title: str
    lines: tuple[str, ...]


def explained(collection: Collection, devices: int) -> tuple[ExplanationPart, ...]:
    """The five stages, and what is promised about them; errors are those of so many devices."""
    parts = list(zip(collection.histograms, collection.estimators, strict=True))
    protocols = collection.protocol.parts
    stages = [
        ExplanationPart("1 report: what a device does", tuple(_reports(collection))),
        ExplanationPart("2 epoch: which reports count together", tuple(_epochs(collection))),
    ]
    support, estimate = [], []
    for ((name, domain), estimator), protocol in zip(parts, protocols, strict=True):
        about = f"{name}: " if name else ""
        support += [about + line for line in _support(protocol, estimator, domain)]
        estimate += [about + line for line in _estimate(protocol, estimator, domain.size, devices)]
    estimate += [f"with {devices:,} devices: {errors(one)}" for one in expected(collection, devices)]
    stages += [
        ExplanationPart("3 support: what is counted", tuple(support)),
        ExplanationPart("4 estimate: what the counts say", tuple(estimate)),
        ExplanationPart("5 histogram: what is published beside it", tuple(_histogram(collection))),
        ExplanationPart(
            "what is promised to a device", (*promised(collection), shuffled_words(collection, devices))
        ),
        ExplanationPart("what is not", (*collection.protocol.not_hidden, OTHER_COLLECTIONS)),
        ExplanationPart("what a forger can do", tuple(_forged(collection))),
    ]
    return tuple(stages)


def _reports(collection: Collection) -> Iterator[str]:
    for (name, domain), part in zip(collection.histograms, collection.protocol.parts, strict=True):
        about = f"{name}: " if name else ""
        yield f"{about}{part.NAME} on {domain.size:,} values ({part.SOURCE})"
        definition = part.device.definition()
        for key, value in definition.items():
            if value is not None:
                yield f"{about}{_ROUNDS.get(key, key)}: {_integers(value)}"
        for key in ("permanent", "instant"):
            if definition.get(key) is not None:
                yield from (f"{about}{line}" for line in _probabilities(key, definition[key]))
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


def _probabilities(name: str, channel: Mapping[str, Any]) -> Iterator[str]:
    """What the integers of a round mean as probabilities."""
    which = "1" if name == "permanent" else "2"
    if {"size", "keep", "each"} <= channel.keys():
        size, keep, each = (int(channel[key]) for key in ("size", "keep", "each"))
        total = keep + (size - 1) * each
        yield (
            f"p{which} = keep/total = {keep / total:.6f}, q{which} = each/total = {each / total:.6f}, "
            f"total = keep + {size - 1}·each = {total}"
        )
    elif {"one", "zero"} <= channel.keys():
        p, q = (Fraction(int(channel[key]), FULL) for key in ("one", "zero"))
        yield f"p{which} = one/2^64 = {float(p):.6f}, q{which} = zero/2^64 = {float(q):.6f}"


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


def _stretches(protocol: IntervalHash, domain: Domain) -> Iterator[str]:
    yield "C(s, y) = number of reports of the function s that name its stretch y"
    own, other = map(float, protocol.symbol)
    yield f"own = P(a report names the stretch of the device's value) = {own:.9f}"
    yield f"other = P(it names a certain other stretch) = {other:.9f}"
    reached = protocol.family.bounds()[0, 1:-1].tolist()
    yield f"function 0 of {protocol.family.functions}: a stretch begins at {_labels(domain, reached)}"
    if domain.atoms:
        yield f"atoms, which may be far more frequent than their neighbours: {_labels(domain, domain.atoms)}"


def _labels(domain: Domain, values: Sequence[int]) -> str:
    shown = ", ".join(map(domain.label, values[:_CUTS]))
    return shown + (f" and {len(values) - _CUTS} more" if len(values) > _CUTS else "")


def _support(protocol: LocalProtocol[Any], estimator: PartEstimator, domain: Domain) -> Iterator[str]:
    support = estimator.support
    if isinstance(protocol, IntervalHash):
        yield from _stretches(protocol, domain)
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


def _estimate(
    protocol: LocalProtocol[Any], estimator: PartEstimator, values: int, devices: int
) -> Iterator[str]:
    support = estimator.support
    if protocol.estimator.result is Result.DISTRIBUTION:
        yield (
            "the share of the devices up to each value, with limits: the posterior of a density that walks "
            "at random from value to value, as far as the counts teach"
        )
        yield "single values have no estimate; mean and quantiles have their own table"
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
    lasting = estimator.lasting
    if lasting is not None:
        whole, alone = (Spread.of(one, devices).error(1 / values) ** 2 for one in (support, lasting))
        share = alone / whole
        yield (
            f"{100 * min(share, 1.0):.2g} % of the variance of a value of frequency 1/{values:,} comes from "
            "what devices memoise: no number of epochs averages that away while devices keep their values"
        )
    yield "intervals hold the frequencies that a two-sided test at 5 % does not reject"


_OF_A_MEAN = ("the mean, brought into its range", "the mean as it is, also outside its range")


def _histogram(collection: Collection) -> Iterator[str]:
    if collection.protocol.estimator.result is Result.MEAN:
        yield f"consistency {collection.consistency}: {_OF_A_MEAN[collection.consistency == 'none']}"
        return
    least = collection.min_reports
    few = "no report" if least == 1 else f"fewer than {least:,} reports"
    if collection.is_distribution:
        yield "the distribution gives shares of single values: none is negative, and they add up to 1"
        yield f"an epoch with {few} has no distribution"
        return
    method = METHODS[collection.consistency]
    yield f"consistency {method.name}: {method.summary}"
    texts = {"is never negative": method.non_negative, "adds up to 1": method.sums_to_one}
    promises = " and ".join(text for text, holds in texts.items() if holds)
    if promises:
        biased = "" if method.name in UNBIASED else ", and is biased for that"
        yield f"what it publishes {promises}{biased}; estimate and interval stay as they are"
    yield f"an epoch with {few} has no estimates"


def _forged(collection: Collection) -> Iterator[str]:
    protocol = collection.protocol
    asked = zip(collection.histograms, protocol.parts, part_estimators(protocol), strict=True)
    for (name, _), part, estimator in asked:
        worst, about = leverage(part, estimator.share), f"{name}: " if name else ""
        unit = (
            "a frequency"
            if part.estimator.result is Result.FREQUENCIES
            else "the mean (in units of the largest value)"
        )
        most = f"{worst.one_value:.4g}/n"
        yield f"{about}one forged report among n moves {unit} by up to {most}, an honest one by 1/n"
