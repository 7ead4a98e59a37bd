"""A collection: everything that devices and the pipeline agree on, and the digest that names it.

The digest travels in every report, so a report is only ever decoded with its own parameters.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from ldpbeam.collection.domain import Attribute, Domain, require_printable, require_unique
from ldpbeam.collection.epochs import LAST_SECOND, Epochs, instant
from ldpbeam.collection.message import (
    add_attributes,
    digest_hex,
    full_digest_of,
    set_domain,
    set_parameters,
    taken,
)
from ldpbeam.collection.participation import Participation
from ldpbeam.collection.prices import Prices, prices_of
from ldpbeam.collection.slices import NO_SLICES, Slice, Slices, slice_digest
from ldpbeam.collection.string_domain import StringDomain
from ldpbeam.consistency import NOT_ADDED_UP, UNBIASED
from ldpbeam.errors import CollectionError, require
from ldpbeam.hashing import ListedFamily
from ldpbeam.privacy.guarantee import Guarantee
from ldpbeam.privacy.loss import loss_record
from ldpbeam.promise.poisoning import leverage_record
from ldpbeam.promise.promise import YEAR, Promise
from ldpbeam.promise.statements import promise_record
from ldpbeam.protocols import PROTOCOLS, LocalProtocol, Parameters, protocol
from ldpbeam.protocols.attributes.allocate import ALLOCATIONS, allocate
from ldpbeam.protocols.estimator import EVERYONE, Result
from ldpbeam.protocols.part_estimator import PartEstimator, part_estimators
from ldpbeam.protocols.prefixes import of_strings
from ldpbeam.shuffling.randomiser import without_devices
from ldpbeam.support import SupportCounter, SupportProbabilities
from ldpbeam.wire import collection_pb2

__all__ = ["Attribute", "Collection", "digest_hex"]


MANY_VALUES = 50
"""From so many values on, of every attribute, a collection that names no consistency method has ``bayes``."""

MANY_IN_ORDER = 64
"""From so many values on, of every attribute, all of them in an order, it has ``ordered`` instead."""


@dataclass(frozen=True)
class Collection:
    """A validated collection. Comparable, hashable by digest, cheap to pickle.

    Attributes:
        name: identifier: letters, digits, ``_``, ``-`` and ``.``.
        version: positive; a new one for every change that devices must know about.
        domain: the values; None where there are several attributes.
        protocol_name: key of :data:`ldpbeam.protocols.PROTOCOLS`; empty where the allocation chooses.
        parameters: levels and choices as given.
        epochs: collection periods.
        owner: whom to ask; not part of the digest, like all that follow.
        allowed_lateness: seconds after the end of an epoch during which reports still count.
        consistency: post-processing method of the published histogram; empty for the one that
            :data:`MANY_VALUES` and :data:`MANY_IN_ORDER` choose, whose name then stands here.
        ignored: keys that the protocol does not take. They cause a warning and have no effect.
        min_reports: below it an epoch's estimates are withheld.
        future_tolerance: seconds before the start of its epoch from which a report may arrive; None for the
            length of an epoch.
        retired: seconds since 1970; epochs that begin then or later take no reports. None: not retired.
        attributes: two or more, instead of ``domain``; part of the digest, like the next.
        allocation: key of :data:`ldpbeam.protocols.attributes.allocate.ALLOCATIONS`, with attributes only.
        participation: how often a device reports in its life; None where it reports in every epoch. Part of
            the digest.
        slices: what devices say in clear; not part of the digest, but each combination has one of its own.
    """

    name: str
    version: int
    domain: Domain | None
    protocol_name: str
    parameters: Parameters
    epochs: Epochs
    owner: str = ""
    allowed_lateness: int = 0
    consistency: str = ""
    min_reports: int = 1
    future_tolerance: int | None = None
    retired: int | None = None
    attributes: tuple[Attribute, ...] = ()
    allocation: str = ""
    participation: Participation | None = None
    slices: Slices = NO_SLICES
    ignored: tuple[str, ...] = field(default=(), compare=False)
    protocol: LocalProtocol[Any] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Builds the protocol. Raises CollectionError for anything unsound, with the key and the remedy."""
        # The name becomes part of file names.
        _require_name(self.name, "name must be", "minutes_in_app", "name")
        require_printable(self.owner, "owner", "owner")
        if not 1 <= self.version < 1 << 32:
            raise CollectionError(
                "E-COLLECTION-VERSION",
                f"version must be a positive integer, not {self.version}",
                key="version",
                remedy="Start with version: 1.",
            )
        require(
            0 <= self.allowed_lateness < 1 << 32,
            "allowed_lateness",
            "allowed_lateness must lie in 0 s .. 4294967295 s",
            "Set how long after its end an epoch still takes reports, such as 24h.",
        )
        require(
            self.future_tolerance is None or 0 <= self.future_tolerance < 1 << 32,
            "future_tolerance",
            "future_tolerance must lie in 0 s .. 4294967295 s",
            "Set by how much a device's clock may be ahead, such as 1h.",
        )
        require(
            1 <= self.min_reports < 1 << 63,
            "min_reports",
            f"min_reports must be a positive integer, not {self.min_reports}",
            "Use min_reports: 1 to publish every epoch.",
        )
        few, count = self.participation, self.epochs.count
        if few is not None:
            require(
                few.of == count,
                "participation",
                f"participation.of is {few.of} and the collection has {count} epochs: a device draws its "
                "reports from all of them, and ends with them",
                "Leave epoch.count out, or give both the same number.",
            )
        if isinstance(self.domain, StringDomain):  # whose functions are no choice
            object.__setattr__(self, "parameters", replace(self.parameters, hash_family=ListedFamily.NAME))
        object.__setattr__(self, "protocol", self._built())
        for dimension in self.slices.dimensions:
            _require_name(dimension.name, "a dimension of slices must be named by", "country", "slices")
        if self.slices:
            self.slices.require_sound(self.protocol.counter.counts_length)
        if not self.consistency:
            object.__setattr__(self, "consistency", self._default_consistency())
        elif self.is_discovery or self.is_distribution:
            only = self._default_consistency()
            require(
                self.consistency == only,
                "consistency",
                f"texts and distributions are published as they were estimated, not by {self.consistency}",
                f"Remove consistency, or write consistency: {only}.",
            )
        elif self.consistency == "ordered":
            self._require_order()

    def _built(self) -> LocalProtocol[Any]:
        if self.domain is not None:
            require(
                not self.attributes and not self.allocation,
                "attributes",
                "attributes and allocation exclude domain",
                "Give the one domain an attribute of its own, or leave attributes out.",
            )
            if isinstance(self.domain, StringDomain):
                return of_strings(self.protocol_name, self.domain.strings, self.parameters)
            built = protocol(self.protocol_name, self.domain.size, self.parameters)
            _require_numbers(built, self.domain, "domain")
            _require_order(built, self.domain)
            return built
        for attribute in self.attributes:
            _require_name(attribute.name, "attributes must be named by", "age", "attributes")
        require_unique((attribute.name for attribute in self.attributes), "attributes has", "attributes")
        sizes = [attribute.domain.size for attribute in self.attributes]
        several = allocate(self.allocation, self.protocol_name or None, sizes, self.parameters)
        for attribute, part in zip(self.attributes, several.parts, strict=True):
            _require_numbers(part, attribute.domain, "protocol")
            _require_order(part, attribute.domain, f" of attribute {attribute.name}")
        return several

    def _default_consistency(self) -> str:
        """The method with the least error (docs/consistency.md)."""
        if self.is_distribution:
            return "ordered"
        if self.is_discovery:
            return "none"
        domains = [domain for _, domain in self.histograms]
        least = min(domain.size for domain in domains)
        if self.protocol.estimator.result is not Result.FREQUENCIES or least < MANY_VALUES:
            return "norm_sub"
        in_order = least >= MANY_IN_ORDER and all(domain.has_order for domain in domains)
        return "ordered" if in_order else "bayes"

    def _require_order(self) -> None:
        """Raises CollectionError where neighbours mean nothing: of a mean, or of values in no order."""
        require(
            self.protocol.estimator.result is Result.FREQUENCIES,
            "consistency",
            "consistency ordered is for frequencies, and a mean is one number",
            "Remove consistency.",
        )
        for name, domain in self.histograms:
            of = f"of attribute {name} " if name else ""
            require(
                domain.has_order,
                "consistency",
                f"consistency ordered takes neighbours for alike, and the values {of}are in no order",
                "Write ordered: true into the domain if it has an order, or choose another method.",
            )

    def closes(self, epoch: int) -> int:
        """When an epoch takes no more reports, seconds since 1970: its end and the allowed lateness.

        Never after the year 9999, which has no text. The planned epochs are not cut for the lateness: their
        number is part of the digest, and the lateness may change under devices that know the digest.
        """
        return min(self.epochs.end(epoch) + self.allowed_lateness, LAST_SECOND)

    def opens(self, epoch: int) -> int:
        """From when on reports of an epoch may arrive, seconds since 1970 (devices' clocks run ahead)."""
        early = self.epochs.length if self.future_tolerance is None else self.future_tolerance
        return self.epochs.start(epoch) - early

    def begun(self, seconds: int) -> int:
        """The last planned epoch of which reports may arrive at a time; below 0 for none."""
        ahead = self.epochs.start(0) - self.opens(0)
        return min(self.epochs.index(seconds + ahead), self.epochs.count - 1)

    @cached_property
    def counter(self) -> SupportCounter:
        """What counts admitted reports: the protocol's counter, for each slice where there are slices."""
        if not self.slices:
            return self.protocol.counter
        from ldpbeam.slice_support import SliceCounter  # devices have no numpy

        return SliceCounter(self.protocol.counter, len(self.slices.combinations))

    @property
    def histograms(self) -> tuple[tuple[str, Domain], ...]:
        """(attribute, domain) of each histogram of an epoch; one without a name for most collections."""
        if self.domain is not None:
            return (("", self.domain),)
        return tuple((attribute.name, attribute.domain) for attribute in self.attributes)

    @property
    def asked(self) -> tuple[tuple[str, Domain, LocalProtocol[Any]], ...]:
        """(attribute, domain, protocol) of each histogram; of texts the protocol of every prefix length."""
        parts = self.protocol.parts[:1] if self.is_discovery else self.protocol.parts
        return tuple((*one, part) for one, part in zip(self.histograms, parts, strict=True))

    @property
    def is_discovery(self) -> bool:
        """Whether an epoch gives the frequencies of texts that it finds, and of no others."""
        return self.protocol.estimator.result is Result.DISCOVERED

    @property
    def is_distribution(self) -> bool:
        """Whether an epoch gives a distribution over ordered values, and no estimates of single ones."""
        return self.protocol.estimator.result is Result.DISTRIBUTION

    @property
    def has_summaries(self) -> bool:
        """Whether an epoch says more than the rows of its values, in a table of summaries."""
        return self.is_distribution or self.is_discovery

    @property
    def share(self) -> Fraction:
        """The share of the devices, drawn at random, that report in an epoch."""
        return EVERYONE if self.participation is None else self.participation.share

    @property
    def _consistency_note(self) -> str | None:
        """What to mind of consistent frequencies; None for means, and for methods without a bias."""
        frequencies = self.protocol.estimator.result is Result.FREQUENCIES
        return NOT_ADDED_UP if frequencies and self.consistency not in UNBIASED else None

    @cached_property
    def estimators(self) -> tuple[PartEstimator, ...]:
        """One per attribute, which knows that an epoch's reports are those of a part of the devices."""
        if self.is_discovery:
            return (PartEstimator(self.protocol, present=self.share),)
        parts = part_estimators(self.protocol)
        return tuple(
            replace(part, present=self.share, atoms=domain.atoms)
            for part, (_, domain) in zip(parts, self.histograms, strict=True)
        )

    @cached_property
    def guarantee(self) -> Guarantee:
        """What one device can lose, in as many reports as it makes in its life."""
        whole = self.protocol.guarantee
        return whole if self.participation is None else whole.within(self.participation.reports)

    @cached_property
    def prices(self) -> Prices:
        """What its reports spend of a device's budget."""
        return prices_of(self.protocol)

    @cached_property
    def promise(self) -> Promise:
        """What one device can lose, by the few reports of its life or by those of a year."""
        few = self.participation
        if few is not None:
            return Promise.of_protocol(self.protocol, few.reports, few.of)
        return Promise.of_protocol(self.protocol, min(self.epochs.count, YEAR))

    @property
    def protocol_label(self) -> str:
        """The protocol for people: its name, and how attributes share it."""
        return ", ".join(name for name in (self.protocol_name, self.allocation) if name)

    @property
    def kind(self) -> type[LocalProtocol[Any]]:
        """The class that says which parameters the collection takes."""
        if self.allocation and not self.protocol_name:
            return ALLOCATIONS[self.allocation]
        return PROTOCOLS[self.protocol_name]

    def to_message(self) -> collection_pb2.Collection:
        """The protobuf form; parameters that the protocol does not take are left out, g is resolved."""
        message = collection_pb2.Collection(
            name=self.name,
            version=self.version,
            protocol=self.protocol_name,
            owner=self.owner,
            allowed_lateness_seconds=self.allowed_lateness,
            consistency=self.consistency,
            min_reports=self.min_reports,
        )
        if self.future_tolerance is not None:
            message.future_tolerance_seconds = self.future_tolerance
        if self.retired is not None:
            message.retired_seconds = self.retired
        message.allocation = self.allocation
        if self.domain is not None:
            set_domain(message.domain, self.domain)
        if self.attributes:
            add_attributes(message, self.attributes, self.protocol.parts)
        if self.participation is not None:
            message.participation.reports = self.participation.reports
            message.participation.of = self.participation.of
        for dimension in self.slices.dimensions:
            message.slices.add(name=dimension.name, labels=dimension.labels)
        message.epoch.length_seconds = self.epochs.length
        message.epoch.origin_seconds = self.epochs.origin
        message.epoch.count = self.epochs.count
        set_parameters(message, self.kind, self.parameters, self.protocol.resolved_parameters())
        return message

    @cached_property
    def full_digest(self) -> bytes:
        """SHA-256 of the canonical collection, 32 bytes."""
        return full_digest_of(self.to_message())

    @cached_property
    def digest(self) -> int:
        """What every report of the collection carries: the first 8 bytes, as a little-endian integer."""
        return int.from_bytes(self.full_digest[:8], "little")

    @property
    def digest_hex(self) -> str:
        """The digest for people: 16 hexadecimal digits, the hash's first bytes in order."""
        return digest_hex(self.digest)

    def slice_digest(self, slice_: Slice) -> int:
        """What reports of a slice carry in place of :attr:`digest`."""
        return slice_digest(self.full_digest, slice_)

    @cached_property
    def slice_digests(self) -> dict[int, Slice]:
        """The combination of labels of each digest of a device that says all dimensions."""
        return {self.slice_digest(one): one for one in self.slices.combinations}

    @cached_property
    def said_digests(self) -> dict[int, Slice]:
        """The labels of each digest that a report can carry, besides the collection's own."""
        return {self.slice_digest(one): one for one in self.slices.said}

    @cached_property
    def published_slices(self) -> dict[Slice, tuple[int, ...]]:
        """The slices that a result has besides the whole, with the digests of reports that each holds."""
        held: dict[Slice, list[int]] = {one: [] for one in self.slices.published if one}
        for digest, said in self.said_digests.items():
            for one in {said, *((pair,) for pair in said)} & held.keys():
                held[one].append(digest)
        return {one: tuple(digests) for one, digests in held.items()}

    def as_record(self) -> dict[str, object]:
        """What run.json and the Parquet metadata say about the collection."""
        levels, choices = taken(self.kind, self.parameters)
        built = self.protocol
        several: dict[str, object] = {}
        if self.attributes:
            several = {"allocation": self.allocation, "attributes": self._attribute_records()}
        life = {} if self.participation is None else {"participation": self.participation.as_record()}
        support = lasting = None
        if self.domain is not None:
            support, lasting = self.estimators[0].support, self.estimators[0].lasting
        return {
            "name": self.name,
            "version": self.version,
            "digest": self.digest_hex,
            "owner": self.owner,
            "protocol": self.protocol_name or self.allocation,
            **several,
            **life,
            **({"slices": self.slices.as_record()} if self.slices else {}),
            "result": built.estimator.result.value,
            "parameters": levels | built.resolved_parameters() | choices,
            "domain_size": self.domain.values if self.domain else built.domain_size,
            **({"strings": asdict(self.domain.strings)} if isinstance(self.domain, StringDomain) else {}),
            "payload_bits": built.device.payload_bits,
            "epoch": {
                "length_seconds": self.epochs.length,
                "origin": instant(self.epochs.origin),
                "count": self.epochs.count,
            },
            "allowed_lateness_seconds": self.allowed_lateness,
            "future_tolerance_seconds": self.epochs.length
            if self.future_tolerance is None
            else self.future_tolerance,
            "retired": None if self.retired is None else instant(self.retired),
            "consistency": self.consistency,
            "consistency_note": self._consistency_note,
            "min_reports": self.min_reports,
            **_support_record(support, lasting),
            "guarantee": {
                **self.guarantee.as_record(),
                **loss_record(built.losses),
                **promise_record(self.promise),
                "not_hidden": list(built.not_hidden),
                "behind_shuffler": without_devices(built, alone=self.promise.reports == 1),
            },
            "leverage": [
                {"attribute": name, **one}
                for (name, _), one in zip(
                    self.histograms, leverage_record(built), strict=not self.is_discovery
                )
            ],
        }

    def _attribute_records(self) -> list[dict[str, object]]:
        built = self.protocol
        return [
            {
                "name": attribute.name,
                "domain_size": attribute.domain.size,
                "protocol": part.NAME,
                "result": part.estimator.result.value,
                "parameters": part.resolved_parameters(),
                **_support_record(estimator.support, estimator.lasting),
                # Of the devices that report in an epoch, however few of a fleet they are.
                "v_star_times_reports": _floor_record(reporting.support),
            }
            for attribute, part, estimator, reporting in zip(
                self.attributes, built.parts, self.estimators, part_estimators(built), strict=True
            )
        ]


def _support_record(
    support: SupportProbabilities | None, lasting: SupportProbabilities | None
) -> dict[str, object]:
    """Probabilities of support: of a report, and of what a device keeps for life; none for a mean."""

    def written(probabilities: SupportProbabilities | None) -> dict[str, float] | None:
        if probabilities is None:
            return None
        return {name: float(getattr(probabilities, name)) for name in ("own", "other", "sampled")}

    return {"support": written(support), "lasting": written(lasting)}


def _floor_record(support: SupportProbabilities | None) -> float | None:
    """V* times the reports of all devices, to compare allocations by; none for a mean."""
    return None if support is None else float(support.floor) / float(support.sampled)


def _require_numbers(built: LocalProtocol[Any], domain: Domain, key: str) -> None:
    require(
        built.estimator.result is not Result.MEAN or domain.numeric,
        key,
        f"protocol {built.NAME} takes the mean of numbers, which labels and buckets are not",
        "Write domain: {range: {max: 86400}} or {size: 360}, or choose another protocol.",
    )


def _require_order(built: LocalProtocol[Any], domain: Domain, about: str = "") -> None:
    require(
        built.estimator.result is not Result.DISTRIBUTION or domain.has_order,
        "hash_family",
        f"hash_family interval cuts values into stretches of neighbours, and those{about} have no order",
        "Write ordered: true into the domain if its order means something, or remove hash_family.",
    )


def _require_name(name: str, rule: str, example: str, key: str) -> None:
    allowed = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
    require(
        name and len(name) <= 100 and not set(name) - allowed and name[0] not in "_-.",
        key,
        f"{rule} 1 to 100 letters, digits, '_', '-' or '.', starting with a letter or digit",
        f"Choose a name such as {example}.",
    )
