"""What a collection is, before it is used: its promise, the errors to expect, and what changes of it mean."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import Message

from ldpbeam.collection.advice import Advice, warnings_about
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import duration, instant
from ldpbeam.collection.message import SERVER_FIELDS, taken
from ldpbeam.errors import CollectionError
from ldpbeam.planning.needs import zipf
from ldpbeam.planning.quantity import RANKED, interval, points
from ldpbeam.planning.shuffler import of_collection, shuffled_words
from ldpbeam.planning.spread import WIDE, Spread, Widths, mean_error
from ldpbeam.privacy.ledger import total_cap
from ldpbeam.promise.statements import NO_TURN, bits, epsilon, statements

_FEW = 5
"""Most labels or attributes that are named of each change."""


@dataclass(frozen=True)
class HistogramErrors:
    attribute: str
    values: int
    half_width: float
    widest: float | None = None
    even: float | None = None
    least: float | None = None


def errors(expected: HistogramErrors) -> str:
    about = f"{expected.attribute}: " if expected.attribute else ""
    if expected.widest is None or expected.even is None or expected.least is None:
        most = f"±{expected.half_width:.4g} at most (95 %)"
        return f"{about}the mean {most}, of values up to {expected.values - 1:,}"
    some = f"frequencies from {points(expected.least)} points on are"
    seen = "no frequency is" if expected.least >= 1 else some
    width = interval(RANKED, expected.widest, expected.half_width, expected.values, expected.even)
    return f"{about}{width}; {seen} told apart from zero"


def expected(collection: Collection, devices: int) -> tuple[HistogramErrors, ...]:
    """The errors of an epoch in which so many devices report, one for each histogram."""
    widths_of = []
    histograms = zip(collection.histograms, collection.estimators, strict=True)
    for (name, domain), estimator in histograms:
        if estimator.support is None:
            widths_of.append(HistogramErrors(name, domain.size, WIDE * mean_error(estimator, devices)))
        else:
            widths = Widths.of(estimator.support, devices, zipf(domain.size))
            least = Spread.of(estimator.support, devices).least_frequency
            widths_of.append(
                HistogramErrors(name, domain.size, widths.half_width, widths.widest, widths.even, least)
            )
    return tuple(widths_of)


@dataclass(frozen=True)
class CheckedCollection:
    where: str
    collection: Collection
    devices: int
    spread: int
    expected: tuple[HistogramErrors, ...]
    advice: tuple[Advice, ...]

    @classmethod
    def of(cls, where: str, collection: Collection, devices: int, spread: int = 0) -> CheckedCollection:
        advice = (*warnings_about(collection), *lateness_advice(collection, spread))
        return cls(where, collection, devices, spread, expected(collection, devices), advice)

    def lines(self) -> Iterator[str]:
        """What ``check`` prints about the collection, line by line."""
        collection, protocol = self.collection, self.collection.protocol
        sizes = [f"{name + ': ' if name else ''}{d.size:,} values" for name, d in collection.histograms]
        name = f"{collection.name} version {collection.version}"
        yield f"{self.where}: sound, {name}, digest {collection.digest_hex}"
        yield f"  {collection.protocol_label}: {_parameters(collection)}; {', '.join(sizes)}"
        yield from (f"  {one}" for one in promised(collection))
        yield f"  {shuffled_words(collection, self.devices)}"
        yield f"  {bits(protocol.device.payload_bits)} of payload per report"
        yield from (f"  with {self.devices:,} devices: {errors(one)}" for one in self.expected)
        epochs = collection.epochs
        yield (
            f"  epochs of {epochs.length:,} s, {epochs.count:,} from {instant(epochs.origin)} to "
            f"{instant(epochs.start(epochs.count))}; estimates from "
            f"{collection.min_reports:,} report{'' if collection.min_reports == 1 else 's'} on"
        )
        yield f"  {_lateness(collection, self.spread)}"
        owner = f"owner {collection.owner}" if collection.owner else "no owner is named"
        retired = collection.retired
        yield f"  {owner}; {'not retired' if retired is None else f'retired on {instant(retired)}'}"

    def as_record(self) -> dict[str, Any]:
        """What ``check --json`` prints about the collection, ready for JSON."""
        shuffled = of_collection(self.collection, self.devices)
        return {
            "file": self.where,
            **self.collection.as_record(),
            "devices": self.devices,
            "spread_seconds": self.spread,
            "expected": [
                {
                    "attribute": one.attribute,
                    "half_width": one.half_width,
                    "widest_frequency": one.widest,
                    "even_half_width": one.even,
                    "least_frequency": one.least,
                    "unit": "values" if one.widest is None else "frequency",
                }
                for one in self.expected
            ],
            "behind_shuffler": None if shuffled is None else shuffled.as_record(),
            "warnings": [
                {"code": one.code, "message": one.message, "remedy": one.remedy} for one in self.advice
            ],
        }


def _lateness(collection: Collection, spread: int) -> str:
    """Until when a report counts, and when devices send it."""
    allowed = collection.allowed_lateness
    until = f"{duration(allowed)} after the end" if allowed else "the end"
    if not spread:
        when = "at once (spread=0)"
    elif spread < collection.epochs.length:
        when = f"at a time drawn from the next {duration(spread)}, within the epoch"
    else:
        when = "at a time drawn from what is left of the epoch"
    return f"A report counts until {until} of its epoch; devices send it {when}."


def lateness_advice(collection: Collection, spread: int) -> tuple[Advice, ...]:
    """Where reports of ordinary devices come too late to count: what that costs, and what to do."""
    allowed, length = collection.allowed_lateness, collection.epochs.length
    if allowed and (allowed >= length or not spread):
        return ()
    remedy = f"Write allowed_lateness: {duration(length)}, "
    if spread:
        message = (
            f"a device that runs once in an epoch sends a report with spread={spread} when it next runs, up "
            f"to {duration(length)} after the end of its epoch: with allowed_lateness {duration(allowed)} it "
            "is late and does not count"
        )
        remedy += "or open devices that do not run all day with spread=0."
    else:
        message = (
            "allowed_lateness is 0: a report that a device makes just before the end of its epoch, or that "
            "the network holds up, is late and does not count"
        )
        remedy += "an epoch: then a report counts which a device sends when it next runs."
    return (Advice("W-COLLECTION-LATENESS", message, remedy),)


def _parameters(collection: Collection) -> str:
    levels, choices = taken(collection.kind, collection.parameters)
    values = levels | collection.protocol.resolved_parameters() | choices
    return ", ".join(f"{name} = {value}" for name, value in values.items()) or "no parameters"


def promised(collection: Collection) -> Iterator[str]:
    """What is promised to a device, in the sentences of every command; never a bare ε."""
    yield from (one.text for one in statements(collection.promise))
    if collection.participation is not None:
        yield NO_TURN


# --- against an earlier one


@dataclass(frozen=True)
class Change:
    """What is different, and whether devices must know."""

    devices: tuple[str, ...]
    server: tuple[str, ...]

    @property
    def same(self) -> bool:
        return not self.devices and not self.server


def change(old: Collection, new: Collection) -> Change:
    """What a device must know lies in the digest; what only the pipeline needs does not."""
    before, after = _fields(old.to_message()), _fields(new.to_message())
    devices: list[str] = []
    server: list[str] = []
    for key in before | after:
        was, now = before.get(key), after.get(key)
        if was != now:
            (server if key in SERVER_FIELDS else devices).append(f"{key}: {_difference(was, now)}")
    for key, about in _IN_NO_MESSAGE.items():
        was, now = (
            {name: " ".join(filter(None, (name, about(domain)))) for name, domain in one.histograms}
            for one in (old, new)
        )
        server += [
            f"{key}: {was[name]} → {now[name]}" for name in was if was[name] != now.get(name, was[name])
        ]
    return Change(tuple(devices), tuple(server))


_IN_NO_MESSAGE: dict[str, Callable[[Domain], str]] = {
    "ordered": lambda domain: str(domain.ordered).lower(),
    "atoms": lambda domain: ", ".join(map(domain.label, domain.atoms)) or "none",
}
"""What the file says about the values of an attribute, by its key, that devices are not told."""


def _fields(message: Message) -> dict[str, Any]:
    """The fields of a message that are set, by name; ``other`` of a domain as its label."""
    fields = {field.name: value for field, value in message.ListFields()}
    if "labels" in fields and "other" in fields:
        fields["other"] = fields["labels"][fields["other"]]
    return fields


def _difference(was: Any, now: Any) -> str:
    """From what to what; of parts and lists of names those that differ."""
    if isinstance(was, Message) and isinstance(now, Message):
        return _of_parts(_fields(was), _fields(now))
    if was is None or now is None or isinstance(was, Message | str | int | float):
        return f"{_written(was)} → {_written(now)}"
    before, after = ({getattr(one, "name", one): one for one in some} for some in (was, now))
    changes = {
        "added": [name for name in after if name not in before],
        "removed": [name for name in before if name not in after],
        "moved": _moved(before, after),
    }
    words = [f"{what} {_few(names)}" for what, names in changes.items() if names]
    kept = _of_parts(before, {name: after.get(name, one) for name, one in before.items()})
    return ", ".join(filter(None, [*words, kept]))


def _of_parts(before: dict[str, Any], after: dict[str, Any]) -> str:
    return ", ".join(
        f"{name}: {_difference(before.get(name), after.get(name))}"
        for name in before | after
        if before.get(name) != after.get(name)
    )


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _FEW:,} more" if len(names) > _FEW else ""
    return ", ".join(map(repr, names[:_FEW])) + more


def _moved(before: Iterable[str], after: Iterable[str]) -> list[str]:
    """The fewest names of both whose move makes one order the other."""
    places = {name: place for place, name in enumerate(after)}
    common = [name for name in before if name in places]
    least: list[int] = []  # the least place that ends an ascending run of each length
    ends: list[str] = []
    previous: dict[str, str | None] = {}
    for name in common:
        length = bisect_left(least, places[name])
        previous[name] = ends[length - 1] if length else None
        least[length : length + 1], ends[length : length + 1] = [places[name]], [name]
    stay, last = set(), ends[-1] if ends else None
    while last is not None:
        stay.add(last)
        last = previous[last]
    return [name for name in common if name not in stay]


def _written(value: Any) -> str:
    """The value of a field, for people, in a line."""
    if value is None:
        return "none"
    if isinstance(value, Message):
        return text_format.MessageToString(value, as_one_line=True, as_utf8=True)
    return str(value) if isinstance(value, str | int | float) else "; ".join(map(_written, value))


def require_new_version(old: Collection, new: Collection) -> None:
    """Refuse a change that devices must know about under the same name and version."""
    if (old.name, old.version) == (new.name, new.version) and old.digest != new.digest:
        raise CollectionError(
            "E-COLLECTION-VERSION",
            f"the digest changed from {old.digest_hex} to {new.digest_hex} and version is {new.version} as "
            "before, so that results of both would have one name",
            key="version",
            remedy=f"Write version: {old.version + 1}.",
        )


def change_lines(old: Collection, new: Collection) -> Iterator[str]:
    difference = change(old, new)
    if difference.same:
        yield "nothing changed; the digest is the same"
        return
    yield from (f"devices must know: {one}" for one in difference.devices)
    yield from (f"only the pipeline: {one}" for one in difference.server)
    if not difference.devices:
        yield f"the digest {new.digest_hex} is the same: devices go on as they are, their reports still count"
        return
    yield f"the digest was {old.digest_hex} and is {new.digest_hex}: devices need the new collection"
    yield "reports made with the old one count only while it is given to the pipeline too"
    both = total_cap([old.guarantee, new.guarantee])
    if old.name == new.name and both < inf:
        yield (
            f"a device that reports for both can lose up to ε = {epsilon(both)} about memoised inputs, since "
            "memos are not shared"
        )


# --- several of one fleet


def together(collections: Sequence[Collection]) -> dict[str, Any]:
    """What one device that reports for all of them can lose, and who looks after them until when."""
    for one, other in combinations(collections, 2):
        if (one.name, one.version) == (other.name, other.version):
            raise CollectionError(
                "E-COLLECTION-VERSION",
                f"{one.name} version {one.version} is given twice",
                key="version",
                remedy="Give each collection once, and raise version for every change.",
            )
    guarantees = [one.guarantee for one in collections]
    cap = total_cap(guarantees)
    first = sum(one.first_report for one in guarantees)
    anything = sum(one.promise.any_loss for one in collections)
    return {
        "collections": len(collections),
        "first_reports": first,
        "cap_over_inputs": None if cap == inf else cap,
        "any_changes": None if anything == inf else anything,
        "without_cap": [one.name for one in collections if one.guarantee.lifetime_cap == inf],
        "owners": sorted({one.owner for one in collections if one.owner}),
        "without_owner": [one.name for one in collections if not one.owner],
        "retired": {one.name: instant(one.retired) for one in collections if one.retired is not None},
    }


def together_lines(collections: Sequence[Collection]) -> Iterator[str]:
    """What :func:`together` gives, as the lines that ``check`` prints."""
    facts = together(collections)
    yield (
        f"one device that reports for all {facts['collections']}: first reports tell at most ε = "
        f"{epsilon(facts['first_reports'])} together"
    )
    if facts["any_changes"] is None:
        yield "nothing limits what all its reports tell about when a value changed"
    else:
        most = max(one.promise.reports for one in collections)
        yield (
            f"up to {most:,} reports to each of them tell at most ε = {epsilon(facts['any_changes'])} "
            "together, whatever changes"
        )
    if facts["cap_over_inputs"] is None:
        names = ", ".join(facts["without_cap"])
        yield f"no cap on memoised inputs: for {names} nothing is memoised, and each report adds its own ε"
    else:
        yield (
            f"all its reports tell at most ε = {epsilon(facts['cap_over_inputs'])} about which inputs it "
            "memoised, to somebody who knows when each changed and came back"
        )
    yield f"owners: {', '.join(facts['owners']) or 'none'}" + (
        f"; nobody owns {', '.join(facts['without_owner'])}" if facts["without_owner"] else ""
    )
    yield from (f"{name} is retired on {when}" for name, when in facts["retired"].items())
