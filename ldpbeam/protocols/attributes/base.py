"""What the ways to report several attributes have in common."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from math import fsum, inf, nextafter, prod
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ldpbeam.arrays import Floats, Ints
from ldpbeam.privacy.guarantee import Guarantee, MemoisedInputs
from ldpbeam.privacy.loss import SeveralLosses
from ldpbeam.protocols.contract import LocalProtocol
from ldpbeam.protocols.counter import Counter
from ldpbeam.protocols.device import ProtocolDevice
from ldpbeam.protocols.estimator import EVERYONE, Estimator, Result
from ldpbeam.protocols.forgery import Forgery
from ldpbeam.protocols.history_model import PairModel
from ldpbeam.protocols.law import Law
from ldpbeam.protocols.parameters import Parameters
from ldpbeam.protocols.part_estimator import PartEstimator, part_estimators
from ldpbeam.support import Recurrence

if TYPE_CHECKING:
    from ldpbeam.estimates import Estimates

Response = TypeVar("Response")


class AttributesDevice(ProtocolDevice[Response], ABC):
    """Reports attributes by their own devices. Attributes: devices, one of each attribute."""

    devices: tuple[ProtocolDevice[Any], ...]

    @property
    def domain_size(self) -> int:  # type: ignore[override]
        return sum(part.domain_size for part in self.devices)

    @property
    def payload_bits(self) -> int:
        return sum(part.payload_bits for part in self.devices)

    def definition(self) -> dict[str, Any]:
        return {}

    def require_value(self, value: Any) -> Any:
        if not hasattr(value, "__len__"):
            raise TypeError(f"needs a sequence of one value for each of {len(self.devices)} attributes")
        if len(value) != len(self.devices):
            raise ValueError(f"needs one value for each of {len(self.devices)} attributes")
        return tuple(part.require_value(one) for part, one in zip(self.devices, value, strict=True))


class AttributesCounter(Counter, ABC):
    """The cells of the attributes' counters, one after the other.

    Attributes:
        counters: one of each attribute.
        cells_before: cells in front of the parts'.
    """

    counters: tuple[Counter, ...]
    cells_before: int = 0

    @cached_property
    def spans(self) -> tuple[slice, ...]:
        return slices((part.counts_length for part in self.counters), self.cells_before)

    @property
    def counts_length(self) -> int:
        return self.cells_before + sum(part.counts_length for part in self.counters)

    @cached_property
    def signs_length(self) -> int:
        return sum(part.signs_length for part in self.counters)

    @cached_property
    def sign_spans(self) -> tuple[slice, ...]:
        return slices(part.signs_length for part in self.counters)

    def support_counts(self, counts: Ints) -> Ints:
        import numpy as np

        pairs = zip(self.counters, self.spans, strict=True)
        return np.concatenate([part.support_counts(counts[span]) for part, span in pairs])

    def part_counts(self, counts: Ints, reports: int) -> tuple[tuple[Ints, int], ...]:
        return tuple((counts[span], reports) for span in self.spans)

    def part_signs(self, signs: Ints) -> tuple[Ints, ...]:
        """One after the other, as they are counted."""
        return tuple(signs[span] for span in self.sign_spans)

    def steps(self, reports: float) -> float:
        return sum(part.steps(reports) for part in self.counters)


@dataclass(frozen=True)
class AttributesEstimator(Estimator):
    """The attributes' estimates, one after the other; simultaneous intervals hold within an attribute."""

    support = None
    lasting = None
    recurrence = Recurrence()

    counter: AttributesCounter
    parts: tuple[PartEstimator, ...]

    @property
    def result(self) -> Result:  # type: ignore[override]
        return self.parts[0].protocol.estimator.result

    @property
    def size(self) -> int:  # type: ignore[override]
        return sum(part.protocol.estimator.size for part in self.parts)

    @cached_property
    def spans(self) -> tuple[slice, ...]:
        return slices(part.protocol.estimator.size for part in self.parts)

    def estimate(
        self, counts: Ints, reports: int, ties: Floats | None = None, share: Fraction = EVERYONE
    ) -> Estimates:
        from ldpbeam.estimates import Estimates

        counted = self.counter.part_counts(counts, reports)
        parts = []
        for part, rows, (cells, n) in zip(self.parts, self.spans, counted, strict=True):
            estimator = replace(part, share=part.share * share)
            parts.append(estimator.estimate(cells, n, None if ties is None else ties[rows]))
        return Estimates.joined(parts)

    def consistent(self, method: str, estimates: Estimates) -> Floats:
        import numpy as np

        pairs = zip(self.parts, self.spans, strict=True)
        return np.concatenate([part.consistent(method, estimates.rows(rows)) for part, rows in pairs])


def part_model(law: Law[Any], pair: tuple[Any, Any]) -> PairModel:
    model = law.model(pair)
    assert isinstance(model, PairModel)  # noqa: S101 - attributes have no attributes of their own
    return model


@dataclass(frozen=True)
class AttributesLaw(Law[Response], ABC):
    """Of reports about several attributes. Attributes: laws, one of each attribute."""

    laws: tuple[Law[Any], ...]

    def best_guess(self, reports: int) -> float:
        return max(part.best_guess(reports) for part in dict.fromkeys(self.laws))


@dataclass(frozen=True)
class AttributeProtocol(LocalProtocol[Response], ABC):
    """What the ways to report several attributes have in common.

    Class constants:
        TOGETHER: whether a device reports all attributes, with independent noise; else it reports one that it
            drew for life, and which one tells nothing.

    Attributes:
        protocols: of the attributes, as a device runs them.
    """

    PARAMETERS: ClassVar[tuple[str, ...]] = ()
    RESULT: ClassVar[Result | None] = None
    SEVERAL = True
    TOGETHER: ClassVar[bool]

    protocols: tuple[LocalProtocol[Any], ...]

    @property
    def domain_size(self) -> int:  # type: ignore[override]
        return sum(part.domain_size for part in self.parts)

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> LocalProtocol[Any]:
        raise NotImplementedError(f"{cls.NAME} has several domains; build it with allocate()")

    @property
    def parts(self) -> tuple[LocalProtocol[Any], ...]:
        return self.protocols

    @property
    def share(self) -> Fraction:
        return EVERYONE if self.TOGETHER else Fraction(1, len(self.parts))

    @property
    def guarantee(self) -> Guarantee:
        parts = [part.guarantee for part in self.parts]
        first = [part.first_ratio for part in parts]
        memoised = [part.memoised_ratio for part in parts if part.memoised_ratio is not None]
        once = prod(first, start=Fraction(1)) if self.TOGETHER else max(first)
        if len(memoised) < len(parts):
            return Guarantee(once, MemoisedInputs.NONE)
        inputs = [part.memoised_inputs for part in parts if part.memoised_inputs is not None]
        caps = [part.cap_over_inputs for part in parts if part.cap_over_inputs is not None]
        kinds = {part.inputs for part in parts}
        kind = kinds.pop() if len(kinds) == 1 else MemoisedInputs.MIXED
        capped = len(caps) == len(parts)
        if self.TOGETHER:
            cap = nextafter(fsum(caps), inf) if capped else None
            return Guarantee(
                once, kind, prod(memoised, start=Fraction(1)), sum(inputs) if capped else None, cap
            )
        cap = max(caps) if capped else None
        return Guarantee(once, kind, max(memoised), max(inputs) if capped else None, cap)

    @property
    def losses(self) -> SeveralLosses | None:
        """Those of the attributes; None where one of them has none."""
        known = tuple(part.losses for part in self.parts if part.losses is not None)
        return SeveralLosses(known, self.TOGETHER) if len(known) == len(self.parts) else None

    @property
    def not_hidden(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one for part in self.parts for one in part.not_hidden))

    def _each(self, held: Callable[[LocalProtocol[Any]], Any]) -> tuple[Any, ...]:
        """One held object of each attribute, the same one for attributes of one protocol."""
        made = {part: held(part) for part in dict.fromkeys(self.parts)}
        return tuple(made[part] for part in self.parts)

    @cached_property
    def estimator(self) -> AttributesEstimator:
        counter = self.counter
        assert isinstance(counter, AttributesCounter)  # noqa: S101 - of every way to report attributes
        return AttributesEstimator(counter, part_estimators(self))

    @property
    def forgery(self) -> Forgery:
        return Forgery()


def slices(sizes: Iterable[int], start: int = 0) -> tuple[slice, ...]:
    return tuple(slice(a, b) for a, b in pairwise(accumulate(sizes, initial=start)))
