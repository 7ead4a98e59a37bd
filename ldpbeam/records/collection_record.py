"""What run.json says of a collection: typed, so that readers ask it instead of guessing from names.

The entry is the collection's own record (:meth:`Collection.as_record`), what its consistency method promises,
and its definition, from which the collection can be made again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.record import definition
from ldpbeam.durable.record import number, read_fields, whole
from ldpbeam.protocols.estimator import Result
from ldpbeam.support import SupportProbabilities

Curve: TypeAlias = tuple[tuple[int, float], ...]
"""Pairs (t, loss), t from 1 on."""


@dataclass(frozen=True)
class Promises:
    """What holds for every consistent result of a collection (up to rounding)."""

    non_negative: bool
    sums_to_one: bool


@dataclass(frozen=True)
class StatementRecord:
    """One promise to a device, as :class:`ldpbeam.promise.statements.Statement` words it."""

    key: str
    title: str
    value: str
    text: str


@dataclass(frozen=True)
class GuaranteeRecord:
    """Levels of privacy (ε) and the losses over several reports; None or empty where nothing is stated."""

    first_report: float | None = None
    per_report: bool = False
    per_memoised_input: float | None = None
    inputs: str = ""
    cap_over_inputs: float | None = None
    statements: tuple[StatementRecord, ...] = ()
    not_capped: str = ""
    not_hidden: tuple[str, ...] = ()
    assumption: str = ""
    first_report_without_assumption: float | None = None
    loss_same_changes: Curve = ()
    loss_any_changes: Curve = ()
    lifetime_reports: int | None = None
    lifetime: float | None = None


@dataclass(frozen=True)
class HistogramRecord:
    """What is estimated of one attribute, or of a collection that has only one."""

    attribute: str
    protocol: str
    result: Result
    size: int
    support: SupportProbabilities | None = None
    up: float | None = None
    down: float | None = None
    ten: float | None = None

    KEYS: ClassVar[Mapping[str, str]] = {"up": "one_value", "down": "one_value_down", "ten": "ten_values"}

    @property
    def is_mean(self) -> bool:
        """Whether the result is one mean, and not one frequency for each value."""
        return self.result is Result.MEAN

    @classmethod
    def from_record(
        cls, own: Mapping[str, Any], attribute: str, allocation: str, leverage: Mapping[str, Any]
    ) -> HistogramRecord:
        return read_fields(
            cls,
            leverage,
            attribute=attribute,
            protocol=" · ".join(filter(None, (allocation, own["protocol"]))),
            result=Result(own["result"]),
            size=whole(own["domain_size"] or 0),
            support=_probabilities(own["support"]),
        )


def _probabilities(raw: Mapping[str, Any] | None) -> SupportProbabilities | None:
    if raw is None:
        return None
    own, other, sampled = (Fraction(number(raw[name])) for name in ("own", "other", "sampled"))
    return SupportProbabilities(own, other, sampled)


@dataclass(frozen=True)
class CollectionRecord:
    name: str
    version: int
    digest: str
    promises: Promises
    guarantee: GuaranteeRecord
    definition: Mapping[str, Any]
    protocol: str = ""
    allocation: str = ""
    histograms: tuple[HistogramRecord, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    payload_bits: int | None = None
    epoch_seconds: int | None = None
    allowed_lateness_seconds: int | None = None
    consistency: str = ""
    min_reports: int = 0
    written: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> CollectionRecord:
        leverage = {one["attribute"]: one for one in record["leverage"]}
        allocation = record.get("allocation", "")
        # A collection with one domain is its only attribute.
        parts = [(own["name"], own) for own in record.get("attributes", ())] or [("", record)]
        histograms = [
            HistogramRecord.from_record(own, name, allocation if name else "", leverage.get(name, {}))
            for name, own in parts
        ]
        length = whole(record["epoch"]["length_seconds"])
        return read_fields(cls, record, histograms=tuple(histograms), epoch_seconds=length, written=record)

    def as_record(self) -> dict[str, Any]:
        return dict(self.written)


def collection_entry(collection: Collection) -> dict[str, Any]:
    """What run.json says of a collection."""
    from ldpbeam.consistency import METHODS

    method, mean = METHODS[collection.consistency], collection.protocol.estimator.result is Result.MEAN
    # A mean is brought into its range by every method but none, and there is no sum to keep.
    promises = {
        "non_negative": collection.consistency != "none" if mean else method.non_negative,
        "sums_to_one": not mean and method.sums_to_one,
    }
    return {**collection.as_record(), "promises": promises, "definition": definition(collection)}
