"""Means of a counter 0..m from reports that are likelier near the value: for ε from about 1.5 on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from ldpbeam.arrays import Bytes, Floats, Ints, read_only
from ldpbeam.channels.window import WindowChannel
from ldpbeam.errors import InvalidPayload, Reason
from ldpbeam.privacy.guarantee import Guarantee, MemoisedInputs
from ldpbeam.protocols.contract import MeanProtocol
from ldpbeam.protocols.counter import Counter
from ldpbeam.protocols.device import Memo, ProtocolDevice
from ldpbeam.protocols.estimator import EVERYONE, MeanEstimator
from ldpbeam.protocols.forgery import Forgery, Numbers
from ldpbeam.protocols.history_model import PairModel, model_of_numbers
from ldpbeam.protocols.law import Law
from ldpbeam.protocols.parameters import Parameters
from ldpbeam.protocols.simulation import FreshSimulation
from ldpbeam.randomness import Randomness

if TYPE_CHECKING:
    from ldpbeam.estimates import Estimates

_SQUARE_BITS = 32
"""Upper bits of a square that are added up: the sum of 2**30 of them fits an int64."""


@dataclass(frozen=True)
class PiecewiseDevice(ProtocolDevice[int]):
    """A response is a number of the channel's reports."""

    ENCODING = "piecewise_mean"

    domain_size: int
    instant: WindowChannel

    @property
    def payload_bits(self) -> int:
        return (self.instant.size - 1).bit_length()

    def definition(self) -> dict[str, Any]:
        return {"permanent": None, "instant": self.instant.definition()}

    def _privatize(self, value: int, memo: Memo, randomness: Randomness) -> tuple[int, Memo]:
        return self.instant.draw(value, randomness), memo

    def encode(self, response: int) -> bytes:
        return response.to_bytes(self.payload_size, "little")

    def decode(self, payload: bytes) -> int:
        self._require_length(payload)
        response = int.from_bytes(payload, "little")
        if response >= self.instant.size:
            raise InvalidPayload(Reason.VALUE_OUT_OF_RANGE, f"reports end at {self.instant.size - 1}")
        return response


@dataclass(frozen=True)
class PiecewiseCounter(Counter):
    """Two cells: the sum of the reports, and that of the squares of twice their distance from the middle."""

    size: int

    @property
    def counts_length(self) -> int:
        return 2

    @property
    def shift(self) -> int:
        """Lower bits of a square that are left out."""
        return max(0, 2 * self.size.bit_length() - _SQUARE_BITS)

    def check(self, payloads: Bytes) -> Bytes:
        from ldpbeam.kernels import symbols

        return symbols.check_below(read_only(payloads), self.size)

    def add(self, payloads: Bytes, counts: Ints) -> None:
        from ldpbeam.kernels import symbols

        symbols.add_moments(read_only(payloads), self.size - 1, self.shift, counts)

    def support_counts(self, counts: Ints) -> Ints:
        return counts[:1]

    def steps(self, reports: float) -> float:
        return reports


@dataclass(frozen=True)
class PiecewiseEstimator(MeanEstimator):
    """The mean of the reports, moved and stretched."""

    maximum: int
    channel: WindowChannel
    shift: int

    lasting_ends = None

    def estimate(
        self, counts: Ints, reports: int, ties: Floats | None = None, share: Fraction = EVERYONE
    ) -> Estimates:
        """Errors follow from the mean square of the reports: it tells how far values lie from m/2."""
        import numpy as np

        from ldpbeam.estimates import CONFIDENCE

        m, gain, drawn = float(self.maximum), float(self.channel.gain), 1 - float(share)
        mean = (counts[:1] / reports - float(self.channel.low)) / gain
        center = (np.clip(mean, 0.0, m) - m / 2) ** 2
        square = counts[1:] * (2.0**self.shift / 4 / reports)
        away = np.clip((square - float(self.channel.spread)) / gain, center, m * m / 4)
        middle, slope = self._noise
        error = np.sqrt((middle + slope * away + drawn * (away - center)) / reports)
        half = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2) * error
        return self.published(counts, reports, mean, error, mean - half, mean + half)

    @property
    def _noise(self) -> tuple[float, float]:
        """Variance of a report about m/2, and its rise with (x − m/2)², in units of the values."""
        gain = float(self.channel.gain)
        return float(self.channel.spread) / gain**2, 1 / gain - 1

    def even_variance(self, share: float) -> float:
        middle, slope = self._noise
        return middle + (slope + 1 - share) * self.maximum * (self.maximum + 2) / 12

    def worst_variance(self, share: float) -> float:
        """Of values half of which are 0 and half m."""
        middle, slope = self._noise
        return middle + (slope + 1 - share) * self.maximum**2 / 4


@dataclass(frozen=True)
class PiecewiseLaw(Law[int]):
    domain_size: int
    channel: WindowChannel

    def likelihood(self, response: int, value: int) -> Fraction:
        return self.channel.probability(range(response, response + 1), value)

    def responses(self) -> Iterator[int]:
        return iter(range(self.channel.size))

    def model(self, pair: tuple[int, int]) -> PairModel:
        """Reports between the ends of both windows are alike."""
        channel = self.channel
        ends = {end for value in pair for end in (value, value + channel.width)}

        def at_least(cut: int, value: int) -> Fraction:
            return channel.probability(range(cut, channel.size), value)

        return model_of_numbers(pair, sorted(ends - {0, channel.size}), at_least)

    def best_guess(self, reports: int) -> float:
        """Of several reports the mean largest posterior of a value over simulated devices."""
        from ldpbeam.privacy.guess_laws import from_windows

        channel = self.channel
        if reports == 1:
            return float(Fraction(channel.keep * channel.size, channel.total * self.domain_size))
        return from_windows(self.domain_size, channel.width, channel.ratio, channel.own, reports)

    def guess_is_exact(self, reports: int) -> bool:
        return reports == 1


@dataclass(frozen=True)
class PiecewiseMean(MeanProtocol[int]):
    """The piecewise mechanism on integers: a window of reports about the value, likelier than all others."""

    ID = 23
    NAME = "piecewise_mean"
    PARAMETERS = ("epsilon",)
    SOURCE = (
        "Wang and others (ICDE 2019), section III; width of the window as in Zhao and others (2020), PM-SUB"
    )

    domain_size: int
    instant: WindowChannel

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> PiecewiseMean:
        return cls(domain_size, WindowChannel.from_epsilon(domain_size - 1, parameters.level("epsilon")))

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.instant.ratio, MemoisedInputs.NONE)

    @cached_property
    def device(self) -> PiecewiseDevice:
        return PiecewiseDevice(self.domain_size, self.instant)

    @cached_property
    def counter(self) -> PiecewiseCounter:
        return PiecewiseCounter(self.instant.size)

    @cached_property
    def estimator(self) -> PiecewiseEstimator:
        return PiecewiseEstimator(self.domain_size - 1, self.instant, self.counter.shift)

    @property
    def simulation(self) -> FreshSimulation:
        return FreshSimulation(self.instant.draw_many, self.instant.total, self.device.payload_size)

    @property
    def forgery(self) -> Forgery:
        channel = self.instant
        rise, gain = channel.gain * channel.maximum, channel.gain
        variance = float(channel.spread + (gain - gain**2) * Fraction(channel.maximum**2, 4))
        return Forgery(numbers=Numbers(0, channel.size - 1, channel.low, channel.low + rise, variance))

    @cached_property
    def law(self) -> PiecewiseLaw:
        return PiecewiseLaw(self.domain_size, self.instant)
