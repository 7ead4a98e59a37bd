"""What the ways to report several attributes have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from math import fsum, inf, nextafter, prod
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ldpbeam.privacy.guarantee import Guarantee
from ldpbeam.privacy.loss import SeveralLosses
from ldpbeam.protocols.contract import LocalProtocol, Result, WordSpec
from ldpbeam.protocols.parameters import Parameters

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ldpbeam.estimate import Estimates

__all__ = ["Several", "attribute_guarantee", "attribute_losses", "slices"]

Response = TypeVar("Response")


@dataclass(frozen=True)
class Several(LocalProtocol[Response]):
    """What the ways to report several attributes have in common.

    Attributes:
        kinds: the protocol of each attribute, as a device runs it.
    """

    PARAMETERS: ClassVar[tuple[str, ...]] = ()

    kinds: tuple[LocalProtocol[Any], ...]

    def __post_init__(self) -> None:
        """The domain is that of all attributes together."""
        object.__setattr__(self, "domain_size", sum(kind.domain_size for kind in self.kinds))

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> LocalProtocol[Any]:
        """Not from one size: see :func:`allocate`."""
        raise NotImplementedError(f"{cls.NAME} has several domains; build it with allocate()")

    @property
    @abstractmethod
    def sampled(self) -> Fraction:
        """Share of the devices that report each attribute."""

    @property
    def payload_bits(self) -> int:
        """Information in one report, bits."""
        return sum(kind.payload_bits for kind in self.kinds)

    @property
    def not_hidden(self) -> tuple[str, ...]:
        """What any of the attributes shows."""
        return tuple(dict.fromkeys(one for kind in self.kinds for one in kind.not_hidden))

    def facts(self) -> dict[str, int | float | str]:
        """The protocol of each attribute, and what that resolved, by position."""
        found: dict[str, int | float | str] = {}
        for index, kind in enumerate(self.kinds):
            found[f"{index}.protocol"] = kind.NAME
            found.update({f"{index}.{fact}": value for fact, value in kind.facts().items()})
        return found

    def require_value(self, value: Any) -> Any:
        """One plain int per attribute.

        Raises:
            TypeError: no sequence, or one that holds something else than integers.
            ValueError: not one value per attribute, or one outside its domain.
        """
        if not hasattr(value, "__len__"):
            raise TypeError(f"needs a sequence of one value for each of {len(self.kinds)} attributes")
        if len(value) != len(self.kinds):
            raise ValueError(f"needs one value for each of {len(self.kinds)} attributes")
        return tuple(kind.require_value(one) for kind, one in zip(self.kinds, value, strict=True))

    # Server

    @property
    def result(self) -> Result:
        """That of the attributes: all count values, or all take means."""
        return self.kinds[0].result

    @cached_property
    def spans(self) -> tuple[slice, ...]:
        """Where each part's cells lie in the accumulator."""
        return slices((kind.counts_length for kind in self.kinds), self.cells_before)

    @property
    def cells_before(self) -> int:
        """Cells in front of the parts'."""
        return 0

    @property
    def counts_length(self) -> int:
        """The parts' cells, one after the other."""
        return self.cells_before + sum(kind.counts_length for kind in self.kinds)

    @property
    def signs_length(self) -> int:
        """The parts' cells, one after the other."""
        return sum(kind.signs_length for kind in self.kinds)

    @cached_property
    def sign_spans(self) -> tuple[slice, ...]:
        """Where each part's cells lie in ``signs``."""
        return slices(kind.signs_length for kind in self.kinds)

    def support_counts(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Per value, one attribute after the other."""
        import numpy as np

        found = [kind.support_counts(counts[span]) for kind, span in zip(self.kinds, self.spans, strict=True)]
        return np.concatenate(found)

    def estimate(
        self, counts: NDArray[np.int64], reports: int, ties: NDArray[np.float64] | None = None
    ) -> Estimates:
        """The parts' estimates, one after the other; simultaneous intervals hold within an attribute."""
        import numpy as np

        from ldpbeam.estimate import Estimates

        found, start = [], 0
        for part, (cells, n) in zip(self.parts, self.part_counts(counts, reports), strict=True):
            some = None if ties is None else ties[start : start + part.rows]
            start += part.rows
            if n:
                found.append(part.estimate(cells, n, some))
            else:
                nothing = np.full(part.rows, np.nan)
                zero = np.zeros(part.rows, np.int64)
                found.append(Estimates(zero, zero, *[nothing] * 6))
        names = Estimates.__dataclass_fields__
        return Estimates(*(np.concatenate([getattr(e, name) for e in found]) for name in names))

    def consistent(self, method: str, estimates: Estimates) -> NDArray[np.float64]:
        """Each attribute on its own."""
        import numpy as np

        found, start = [], 0
        for part in self.parts:
            rows = slice(start, start + part.rows)
            start += part.rows
            columns = {n: getattr(estimates, n)[rows] for n in estimates.__dataclass_fields__}
            some = replace(estimates, **columns)
            told = bool(some.n.any())
            found.append(part.consistent(method, some) if told else np.full(part.rows, np.nan))
        return np.concatenate(found)

    @property
    def parts(self) -> tuple[LocalProtocol[Any], ...]:
        """One per attribute, as the server estimates it."""
        return self.kinds

    def part_counts(
        self, counts: NDArray[np.int64], reports: int
    ) -> tuple[tuple[NDArray[np.int64], int], ...]:
        """Every report tells about every attribute."""
        return tuple((counts[span], reports) for span in self.spans)

    # Simulation

    @property
    def instant_words(self) -> WordSpec:
        """None of its own: the parts draw theirs."""
        return WordSpec(0)


def slices(sizes: Iterable[int], start: int = 0) -> tuple[slice, ...]:
    """Where each of several pieces lies when they stand one after the other."""
    return tuple(slice(a, b) for a, b in pairwise(accumulate(sizes, initial=start)))


def attribute_losses(kinds: Sequence[LocalProtocol[Any]], *, together: bool) -> SeveralLosses | None:
    """Those of the attributes together; None where one of them has none."""
    found = tuple(kind.losses for kind in kinds)
    known = tuple(losses for losses in found if losses is not None)
    return SeveralLosses(known, together) if len(known) == len(found) else None


def attribute_guarantee(parts: Sequence[Guarantee], *, together: bool) -> Guarantee:
    """Of all attributes together, or of the worst single one."""
    first = [part.first_ratio for part in parts]
    memoised = [part.memoised_ratio for part in parts if part.memoised_ratio is not None]
    once = prod(first, start=Fraction(1)) if together else max(first)
    if len(memoised) < len(parts):
        return Guarantee(once)
    inputs = [part.memoised_inputs for part in parts if part.memoised_inputs is not None]
    caps = [part.cap_over_values for part in parts if part.cap_over_values is not None]
    capped = len(caps) == len(parts)
    if together:
        cap = nextafter(fsum(caps), inf) if capped else None
        always = prod(memoised, start=Fraction(1))
        return Guarantee(once, always, sum(inputs) if capped else None, cap)
    cap = max(caps) if capped else None
    return Guarantee(once, max(memoised), max(inputs) if capped else None, cap)
