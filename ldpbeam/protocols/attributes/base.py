"""What the ways to report several attributes have in common."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from math import fsum, inf, nextafter, prod
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ldpbeam.arrays import Floats, Ints
from ldpbeam.privacy.guarantee import Guarantee, Inputs
from ldpbeam.privacy.loss import SeveralLosses
from ldpbeam.protocols.contract import EVERYONE, LocalProtocol, PartEstimator, Result, WordPlan, WordSpec
from ldpbeam.protocols.parameters import Parameters

if TYPE_CHECKING:
    from ldpbeam.estimates import Estimates

Response = TypeVar("Response")


@dataclass(frozen=True)
class AttributeProtocol(LocalProtocol[Response]):
    """What the ways to report several attributes have in common.

    Class constants:
        TOGETHER: whether a device reports all attributes, with independent noise; else it reports one that it
            drew for life, and which one tells nothing.

    Attributes:
        protocols: of the attributes, as a device runs them.
    """

    PARAMETERS: ClassVar[tuple[str, ...]] = ()
    TOGETHER: ClassVar[bool]

    protocols: tuple[LocalProtocol[Any], ...]

    def __post_init__(self) -> None:
        """The domain is that of all attributes together."""
        object.__setattr__(self, "domain_size", sum(part.domain_size for part in self.parts))

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> LocalProtocol[Any]:
        """Not from one size: see :func:`allocate`."""
        raise NotImplementedError(f"{cls.NAME} has several domains; build it with allocate()")

    @property
    def sampled(self) -> Fraction:
        """Share of the devices that report each attribute."""
        return EVERYONE if self.TOGETHER else Fraction(1, len(self.parts))

    @property
    def guarantee(self) -> Guarantee:
        """Of all attributes, whose ratios multiply, or of the worst one."""
        parts = [part.guarantee for part in self.parts]
        first = [part.first_ratio for part in parts]
        memoised = [part.memoised_ratio for part in parts if part.memoised_ratio is not None]
        once = prod(first, start=Fraction(1)) if self.TOGETHER else max(first)
        if len(memoised) < len(parts):
            return Guarantee(once, Inputs.NONE)
        inputs = [part.memoised_inputs for part in parts if part.memoised_inputs is not None]
        caps = [part.cap_over_inputs for part in parts if part.cap_over_inputs is not None]
        kinds = {part.inputs for part in parts}
        kind = kinds.pop() if len(kinds) == 1 else Inputs.MIXED
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
    def payload_bits(self) -> int:
        """Information in one report, bits."""
        return sum(part.payload_bits for part in self.parts)

    @property
    def not_hidden(self) -> tuple[str, ...]:
        """What any of the attributes shows."""
        return tuple(dict.fromkeys(one for part in self.parts for one in part.not_hidden))

    def device_definition(self) -> dict[str, Any]:
        """Nothing of its own: the parts have theirs."""
        return {}

    def require_value(self, value: Any) -> Any:
        """One plain int per attribute.

        Raises:
            TypeError: no sequence, or one that holds something else than integers.
            ValueError: not one value per attribute, or one outside its domain.
        """
        if not hasattr(value, "__len__"):
            raise TypeError(f"needs a sequence of one value for each of {len(self.parts)} attributes")
        if len(value) != len(self.parts):
            raise ValueError(f"needs one value for each of {len(self.parts)} attributes")
        return tuple(part.require_value(one) for part, one in zip(self.parts, value, strict=True))

    # Server

    @property
    def result(self) -> Result:
        """That of the attributes: all count values, or all take means."""
        return self.parts[0].result

    @cached_property
    def spans(self) -> tuple[slice, ...]:
        """Where each part's cells lie in the accumulator."""
        return slices((part.counts_length for part in self.parts), self.cells_before)

    @property
    def cells_before(self) -> int:
        """Cells in front of the parts'."""
        return 0

    @property
    def counts_length(self) -> int:
        """The parts' cells, one after the other."""
        return self.cells_before + sum(part.counts_length for part in self.parts)

    @property
    def signs_length(self) -> int:
        """The parts' cells, one after the other."""
        return sum(part.signs_length for part in self.parts)

    @cached_property
    def sign_spans(self) -> tuple[slice, ...]:
        """Where each part's cells lie in ``signs``."""
        return slices(part.signs_length for part in self.parts)

    def support_counts(self, counts: Ints) -> Ints:
        """Per value, one attribute after the other."""
        import numpy as np

        found = [part.support_counts(counts[span]) for part, span in zip(self.parts, self.spans, strict=True)]
        return np.concatenate(found)

    def estimate(
        self, counts: Ints, reports: int, ties: Floats | None = None, share: Fraction = EVERYONE
    ) -> Estimates:
        """The attributes' estimates, one after the other; simultaneous intervals hold within an attribute."""
        from ldpbeam.estimates import Estimates

        counted = self.part_counts(counts, reports)
        found = []
        for part, rows, (cells, n) in zip(self.estimators, self.result_spans, counted, strict=True):
            estimator = replace(part, share=part.share * share)
            found.append(estimator.estimate(cells, n, None if ties is None else ties[rows]))
        return Estimates.joined(found)

    def consistent(self, method: str, estimates: Estimates) -> Floats:
        """Each attribute on its own."""
        import numpy as np

        pairs = zip(self.estimators, self.result_spans, strict=True)
        return np.concatenate([part.consistent(method, estimates.rows(rows)) for part, rows in pairs])

    @property
    def parts(self) -> tuple[LocalProtocol[Any], ...]:
        """One per attribute."""
        return self.protocols

    @property
    def estimators(self) -> tuple[PartEstimator, ...]:
        """One per attribute; the estimates know which share of the devices reports it."""
        return tuple(PartEstimator(part, self.sampled) for part in self.parts)

    @cached_property
    def result_spans(self) -> tuple[slice, ...]:
        """Where each attribute's numbers lie in a result."""
        return slices(part.results for part in self.parts)

    def part_counts(self, counts: Ints, reports: int) -> tuple[tuple[Ints, int], ...]:
        """Every report tells about every attribute."""
        return tuple((counts[span], reports) for span in self.spans)

    def part_signs(self, signs: Ints) -> tuple[Ints, ...]:
        """One after the other, as they are counted."""
        return tuple(signs[span] if signs.size else signs for span in self.sign_spans)

    # Simulation

    @property
    def word_plan(self) -> WordPlan:
        """No words of its own: the parts draw theirs."""
        return WordPlan(WordSpec(0))


def slices(sizes: Iterable[int], start: int = 0) -> tuple[slice, ...]:
    """Where each of several pieces lies when they stand one after the other."""
    return tuple(slice(a, b) for a, b in pairwise(accumulate(sizes, initial=start)))
