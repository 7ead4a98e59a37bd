"""What a collection is, before it is used: its promise, the errors to expect, and what changes of it mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import Message

from ldpbeam.collection.advice import Advice, warnings_about
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.epochs import instant
from ldpbeam.collection.message import SERVER_FIELDS, taken
from ldpbeam.errors import CollectionError
from ldpbeam.planning.quantity import points
from ldpbeam.planning.shuffled import of_collection, shuffled_words
from ldpbeam.planning.spread import WIDE, Spread, mean_error
from ldpbeam.privacy.ledger import Ledger, total_cap
from ldpbeam.privacy.lifetime import lifetime_loss


@dataclass(frozen=True)
class Expected:
    """Errors of one histogram of an epoch.

    Attributes:
        attribute: its name; empty where there is only one.
        values: how many there are.
        half_width: of the 95 % interval of the mean value, a frequency; of a mean, in its units.
        least: smallest frequency told apart from zero; None for a mean.
        mean: whether it is a mean.
    """

    attribute: str
    values: int
    half_width: float
    least: float | None
    mean: bool

    def __str__(self) -> str:
        about = f"{self.attribute}: " if self.attribute else ""
        if self.mean:
            return (
                f"{about}the mean ±{self.half_width:.4g} at most (95 %), of values up to {self.values - 1:,}"
            )
        assert self.least is not None  # noqa: S101 - only a mean has none
        relative = self.half_width / WIDE * self.values
        seen = (
            "no frequency is" if self.least >= 1 else f"frequencies from {points(self.least)} points on are"
        )
        text = f"{about}±{points(self.half_width)} points (95 %), {seen} told apart from zero"
        return f"{text}; the standard error is {relative:.2g} of the mean frequency 1/{self.values:,}"


def expected(collection: Collection, devices: int) -> tuple[Expected, ...]:
    """The errors of an epoch in which so many devices report, one for each histogram."""
    found = []
    histograms = zip(collection.histograms, collection.estimators, strict=True)
    for (name, domain), estimator in histograms:
        if estimator.support is None:
            found.append(Expected(name, domain.size, WIDE * mean_error(estimator, devices), None, True))
        else:
            spread = Spread.of(estimator.support, devices)
            width = WIDE * spread.error(1 / domain.size)
            found.append(Expected(name, domain.size, width, spread.least_frequency, False))
    return tuple(found)


@dataclass(frozen=True)
class Checked:
    """One sound collection.

    Attributes:
        where: its file.
        collection: itself.
        devices: how many are expected to report.
        expected: the errors of an epoch.
        advice: warnings.
    """

    where: str
    collection: Collection
    devices: int
    expected: tuple[Expected, ...]
    advice: tuple[Advice, ...]

    @classmethod
    def of(cls, where: str, collection: Collection, devices: int) -> Checked:
        """Look at everything."""
        return cls(where, collection, devices, expected(collection, devices), warnings_about(collection))

    def lines(self) -> Iterator[str]:
        """For people."""
        collection, protocol = self.collection, self.collection.protocol
        sizes = [f"{name + ': ' if name else ''}{d.size:,} values" for name, d in collection.histograms]
        name = f"{collection.name} version {collection.version}"
        yield f"{self.where}: sound, {name}, digest {collection.digest_hex}"
        yield f"  {collection.protocol_label}: {_parameters(collection)}; {', '.join(sizes)}"
        yield from (f"  {line}" for line in promise(collection))
        yield f"  {shuffled_words(collection, self.devices)}"
        yield f"  {protocol.payload_bits} bits of payload per report"
        yield from (f"  with {self.devices:,} devices: {one}" for one in self.expected)
        epochs = collection.epochs
        yield (
            f"  epochs of {epochs.length:,} s, {epochs.count:,} from {instant(epochs.origin)} to "
            f"{instant(epochs.start(epochs.count))}; estimates from {collection.min_reports:,} reports on"
        )
        yield f"  {_owner(collection)}; {_expiry(collection)}"

    def as_record(self) -> dict[str, Any]:
        """For programs."""
        shuffled = of_collection(self.collection, self.devices)
        return {
            "file": self.where,
            **self.collection.as_record(),
            "devices": self.devices,
            "expected": [
                {
                    "attribute": one.attribute,
                    "half_width": one.half_width,
                    "least_frequency": one.least,
                    "unit": "values" if one.mean else "frequency",
                }
                for one in self.expected
            ],
            "behind_shuffler": None if shuffled is None else shuffled.as_record(),
            "warnings": [
                {"code": one.code, "message": one.message, "remedy": one.remedy} for one in self.advice
            ],
        }


def _parameters(collection: Collection) -> str:
    levels, choices = taken(collection.kind, collection.parameters)
    said = levels | collection.protocol.resolved_parameters() | choices
    return ", ".join(f"{name} = {value}" for name, value in said.items()) or "no parameters"


def _owner(collection: Collection) -> str:
    return f"owner {collection.owner}" if collection.owner else "no owner is named"


def _expiry(collection: Collection) -> str:
    return "not retired" if collection.retired is None else f"retired on {instant(collection.retired)}"


def promise(collection: Collection) -> Iterator[str]:
    """The guarantee in sentences; never a bare ε."""
    guarantee, losses = collection.guarantee, collection.protocol.losses
    text = f"a first report tells at most ε = {guarantee.first_report:.4g}"
    two = None if losses is None else losses.any_changes(2)
    if two is not None:
        text += ", two reports have no bound" if two == inf else f", two reports at most {two:.4g}"
    yield text
    if collection.participation is not None:
        yield from _life(collection)
    per_input, cap = guarantee.per_memoised_input, guarantee.cap_over_values
    if per_input is None and collection.participation is not None:
        return
    if per_input is None:
        yield "nothing is memoised: T reports tell at most T times that, whatever changes"
        return
    yield f"all reports about one memoised input tell at most ε = {per_input:.4g}"
    if cap is not None:
        yield (
            f"all reports of a device tell at most ε = {cap:.4g} about which values it held; when they "
            "changed is not covered"
        )


def _life(collection: Collection) -> Iterator[str]:
    """What all reports of a device's life tell, however its values change."""
    participation = collection.participation
    assert participation is not None  # noqa: S101 - the caller's condition
    loss = lifetime_loss(collection.guarantee, collection.protocol.losses)
    found = (
        "is not known" if loss is None else "has no bound" if loss == inf else f"is at most ε = {loss:.4g}"
    )
    yield (
        f"a device reports in {participation.reports:,} of its {participation.of:,} epochs, drawn for life: "
        f"what all its reports tell, whatever changes, {found}"
    )


# --- against an earlier one


@dataclass(frozen=True)
class Change:
    """What is different, and whether devices must know.

    Attributes:
        devices: keys that are part of the digest.
        server: keys that are not.
    """

    devices: tuple[str, ...]
    server: tuple[str, ...]

    @property
    def same(self) -> bool:
        """Whether nothing is different."""
        return not self.devices and not self.server


def change(old: Collection, new: Collection) -> Change:
    """What a device must know lies in the digest; what only the pipeline needs does not."""
    before, after = _fields(old), _fields(new)
    devices: list[str] = []
    server: list[str] = []
    for key in [*before, *(key for key in after if key not in before)]:
        was, now = before.get(key), after.get(key)
        if was != now:
            (server if key in SERVER_FIELDS else devices).append(f"{key}: {_written(was)} → {_written(now)}")
    return Change(tuple(devices), tuple(server))


def _fields(collection: Collection) -> dict[str, Any]:
    """The fields of the message that are set, by name: what the digest is made of, and what it leaves out."""
    return {field.name: value for field, value in collection.to_message().ListFields()}


def _written(value: Any) -> str:
    """The value of a field, for people, in a line."""
    if value is None:
        return "none"
    if isinstance(value, Message):
        return text_format.MessageToString(value, as_one_line=True, as_utf8=True)
    return str(value) if isinstance(value, str | int | float) else "; ".join(map(_written, value))


def require_new_version(old: Collection, new: Collection) -> None:
    """Refuse a change that devices must know about under the same name and version.

    Raises:
        CollectionError: both have one name and version, and not one digest.
    """
    if (old.name, old.version) == (new.name, new.version) and old.digest != new.digest:
        raise CollectionError(
            "E-COLLECTION-VERSION",
            f"the digest changed from {old.digest_hex} to {new.digest_hex} and version is {new.version} as "
            "before, so that results of both would have one name",
            key="version",
            remedy=f"Write version: {old.version + 1}.",
        )


def change_lines(old: Collection, new: Collection) -> Iterator[str]:
    """What a change means, for people."""
    found = change(old, new)
    if found.same:
        yield "nothing changed; the digest is the same"
        return
    yield from (f"devices must know: {one}" for one in found.devices)
    yield from (f"only the pipeline: {one}" for one in found.server)
    if not found.devices:
        yield f"the digest {new.digest_hex} is the same: devices go on as they are, their reports still count"
        return
    yield f"the digest was {old.digest_hex} and is {new.digest_hex}: devices need the new collection"
    yield "reports made with the old one count only while it is given to the pipeline too"
    both = total_cap([Ledger(old.guarantee), Ledger(new.guarantee)])
    if old.name == new.name and both < inf:
        yield f"a device that reports for both can lose up to ε = {both:.4g}, since memos are not shared"


# --- several of one fleet


def together(collections: Sequence[Collection]) -> dict[str, Any]:
    """What one device that reports for all of them can lose, and who looks after them until when.

    Raises:
        CollectionError: two have the same name and version.
    """
    for one, other in combinations(collections, 2):
        if (one.name, one.version) == (other.name, other.version):
            raise CollectionError(
                "E-COLLECTION-VERSION",
                f"{one.name} version {one.version} is given twice",
                key="version",
                remedy="Give each collection once, and raise version for every change.",
            )
    guarantees = [one.guarantee for one in collections]
    cap = total_cap([Ledger(one) for one in guarantees])
    first = sum(one.first_report for one in guarantees)
    return {
        "collections": len(collections),
        "first_reports": first,
        "cap_over_values": None if cap == inf else cap,
        "without_cap": [one.name for one in collections if Ledger(one.guarantee).cap == inf],
        "owners": sorted({one.owner for one in collections if one.owner}),
        "without_owner": [one.name for one in collections if not one.owner],
        "retired": {one.name: instant(one.retired) for one in collections if one.retired is not None},
    }


def together_lines(collections: Sequence[Collection]) -> Iterator[str]:
    """:func:`together` for people."""
    found = together(collections)
    yield (
        f"one device that reports for all {found['collections']}: first reports tell at most ε = "
        f"{found['first_reports']:.4g} together"
    )
    if found["cap_over_values"] is None:
        names = ", ".join(found["without_cap"])
        yield f"no cap over values: each report for {names} spends again"
    else:
        yield f"all reports tell at most ε = {found['cap_over_values']:.4g} about which values it held"
    yield f"owners: {', '.join(found['owners']) or 'none'}" + (
        f"; nobody owns {', '.join(found['without_owner'])}" if found["without_owner"] else ""
    )
    yield from (f"{name} is retired on {when}" for name, when in found["retired"].items())
