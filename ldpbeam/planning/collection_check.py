"""What a collection is, before it is used: its promise, the errors to expect, and what changes of it mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf
from typing import Any

from google.protobuf import json_format

from ldpbeam.collection.advice import Advice, warnings_about
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.epochs import duration, instant
from ldpbeam.collection.message import SERVER_FIELDS, taken
from ldpbeam.collection.slices import slice_text
from ldpbeam.errors import CollectionError
from ldpbeam.planning.needs import zipf
from ldpbeam.planning.quantity import RANKED, interval, interval_of_mean, points
from ldpbeam.planning.shuffler import of_collection, shuffled_words
from ldpbeam.planning.spread import WIDE, Spread, Widths, mean_error
from ldpbeam.planning.strings import SHOWN, smallest_found, strings_found
from ldpbeam.privacy.ledger import total_cap
from ldpbeam.promise.statements import NO_TURN, bits, epsilon, statements
from ldpbeam.protocols.prefixes import Prefixes
from ldpbeam.text import plural

_FEW = 5
"""Labels or attributes that are named of each change, at most."""

_ALONE = 3
"""Devices that a combination has on average: one of them is alone in 5 of 100 cases, e⁻³."""


@dataclass(frozen=True)
class HistogramErrors:
    attribute: str
    values: int
    half_width: float
    widest: float | None = None
    even: float | None = None
    least: float | None = None
    worst: float | None = None


def errors(expected: HistogramErrors) -> str:
    about = f"{expected.attribute}: " if expected.attribute else ""
    if not expected.values:
        return strings_found(expected.least, expected.half_width)
    if expected.widest is None or expected.even is None or expected.least is None:
        worst = expected.half_width if expected.worst is None else expected.worst
        width = interval_of_mean(f"{expected.half_width:.4g}", f"{worst:.4g}")
        return f"{about}the mean of 0 .. {expected.values - 1:,} {width}"
    some = f"frequencies from {points(expected.least)} points on are"
    seen = "no frequency is" if expected.least >= 1 else some
    width = interval(RANKED, expected.widest, expected.half_width, expected.values, expected.even)
    return f"{about}{width}; {seen} told apart from zero"


def expected(collection: Collection, devices: int) -> tuple[HistogramErrors, ...]:
    """The errors of an epoch in which so many devices report, one for each histogram."""
    if isinstance(collection.protocol, Prefixes):
        least, width = smallest_found(collection.protocol, devices * float(collection.share))
        return (HistogramErrors("", 0, width, least=least),)
    widths_of = []
    histograms = zip(collection.histograms, collection.estimators, strict=True)
    for (name, domain), estimator in histograms:
        if estimator.support is None:
            width, worst = (WIDE * mean_error(estimator, devices, worst=one) for one in (False, True))
            widths_of.append(HistogramErrors(name, domain.size, width, worst=worst))
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
    expected: tuple[HistogramErrors, ...]
    advice: tuple[Advice, ...]

    @classmethod
    def of(cls, where: str, collection: Collection, devices: int) -> CheckedCollection:
        advice = (*warnings_about(collection), *advice_in_use(collection, devices))
        return cls(where, collection, devices, expected(collection, devices), advice)

    @property
    def devices_of_combination(self) -> float | None:
        """Devices of each combination of slices if all are equally frequent; None without slices."""
        combinations = len(self.collection.slices.combinations)
        return self.devices / combinations if combinations else None

    def lines(self) -> Iterator[str]:
        collection, protocol = self.collection, self.collection.protocol
        sizes = [f"{name + ': ' if name else ''}{domain}" for name, domain in collection.histograms]
        name = f"{collection.name} version {collection.version}"
        yield f"{self.where}: sound, {name}, digest {collection.digest_hex}"
        yield f"  {collection.protocol_label}: {_parameters(collection)}; {', '.join(sizes)}"
        yield from (f"  {one}" for one in promised(collection))
        yield f"  {shuffled_words(collection, self.devices)}"
        yield f"  {bits(protocol.device.payload_bits)} of payload per report"
        yield from (f"  with {self.devices:,} devices: {errors(one)}" for one in self.expected)
        if collection.is_discovery:
            yield f"  {SHOWN}"
        if self.devices_of_combination is not None:
            yield (
                f"  slices: {len(collection.slices.combinations):,} combinations, with "
                f"{self.devices_of_combination:,.0f} of {self.devices:,} devices each if all are equally "
                "frequent"
            )
        epochs = collection.epochs
        yield (
            f"  epochs of {epochs.length:,} s, {epochs.count:,} from {instant(epochs.origin)} to "
            f"{instant(epochs.start(epochs.count))}; estimates from "
            f"{collection.min_reports:,} report{'' if collection.min_reports == 1 else 's'} on"
        )
        late = collection.allowed_lateness
        yield f"  a report counts until {f'{duration(late)} after ' if late else ''}the end of its epoch"
        owner = f"owner {collection.owner}" if collection.owner else "no owner is named"
        retired = collection.retired
        yield f"  {owner}; {'not retired' if retired is None else f'retired on {instant(retired)}'}"

    def as_record(self) -> dict[str, Any]:
        shuffled = of_collection(self.collection, self.devices)
        return {
            "file": self.where,
            **self.collection.as_record(),
            "devices": self.devices,
            "expected": [
                {
                    "attribute": one.attribute,
                    "half_width": one.half_width,
                    "widest_frequency": one.widest,
                    "even_half_width": one.even,
                    "worst_half_width": one.worst,
                    "least_frequency": one.least,
                    "unit": "frequency" if one.least is not None else "values",
                }
                for one in self.expected
            ],
            "devices_of_combination": self.devices_of_combination,
            "behind_shuffler": None if shuffled is None else shuffled.as_record(),
            "warnings": [
                {"code": one.code, "message": one.message, "remedy": one.remedy} for one in self.advice
            ],
        }


def advice_in_use(collection: Collection, devices: int) -> tuple[Advice, ...]:
    """What does not concern the collection alone."""
    return (*lateness_advice(collection), *slices_advice(collection, devices))


def slices_advice(collection: Collection, devices: int) -> tuple[Advice, ...]:
    """Where reports of a combination of slices are likely to be one device's."""
    combinations = len(collection.slices.combinations)
    rarest = devices * float(zipf(combinations)[-1]) if combinations else inf
    if rarest >= _ALONE:
        return ()
    message = (
        f"if the frequencies of combinations of slices fall like 1/rank, the rarest has {rarest:.2g} of "
        f"{devices:,} devices, so its reports can be told to be one device's"
    )
    return (
        Advice("W-COLLECTION-SLICES", message, "Merge rare labels into other, or leave a dimension out."),
    )


def lateness_advice(collection: Collection) -> tuple[Advice, ...]:
    """Where reports of ordinary devices come too late to count."""
    if collection.allowed_lateness:
        return ()
    message = (
        "allowed_lateness is 0: a report that a device makes just before the end of its epoch, or that the "
        "network holds up, is late and does not count"
    )
    epoch = duration(collection.epochs.length)
    remedy = f"Write allowed_lateness: {epoch}: then a report counts which a device sends when it next runs."
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
    devices: tuple[str, ...]
    server: tuple[str, ...]

    @property
    def same(self) -> bool:
        return not self.devices and not self.server


def change(old: Collection, new: Collection) -> Change:
    """What a device must know lies in the digest; what only the pipeline needs does not."""
    before, after = _facts(old), _facts(new)
    devices: list[str] = []
    server: list[str] = []
    for key in before | after:
        was, now = before.get(key), after.get(key)
        if was != now:
            only_server = key.partition(" ")[0] in _SERVER
            (server if only_server else devices).append(f"{key}: {_difference(was, now)}")
    return Change(tuple(devices), tuple(server))


_SERVER = (*SERVER_FIELDS, "ordered", "atoms")
"""Keys that devices are not told."""


def _facts(collection: Collection) -> dict[str, Any]:
    """What a collection says, by its keys; ``other`` of a domain as its label."""
    message = json_format.MessageToDict(collection.to_message(), preserving_proto_field_name=True)
    message.pop("slices", None)
    facts = dict(_flat(message))
    facts |= {f"slices.{name}": labels for name, labels in collection.slices.as_record().items()}
    for name, domain in collection.histograms:
        about = f" of {name}" if name else ""
        facts[f"ordered{about}"] = str(domain.ordered).lower()
        facts[f"atoms{about}"] = list(map(domain.label, domain.atoms))
        if domain.labels is not None and domain.other is not None:
            facts[f"domain.other{about}"] = domain.labels[domain.other]
    return facts


def _flat(value: Any, key: str = "", about: str = "") -> Iterator[tuple[str, Any]]:
    """The parts of a message that have no parts, each with its key."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _flat(part, f"{key}.{name}" if key else name, about)
    elif isinstance(value, list) and isinstance(value[0], dict):
        yield key, [one["name"] for one in value]
        for one in value:
            yield from _flat({name: one[name] for name in one if name != "name"}, "", f" of {one['name']}")
    else:
        yield key + about, value


def _difference(was: Any, now: Any) -> str:
    """From what to what; of lists what is new in them, and what is gone."""
    if not isinstance(was, list) or not isinstance(now, list):
        return f"{'none' if was is None else was} → {'none' if now is None else now}"
    gone, new = set(was) - set(now), set(now) - set(was)
    changes = {"added": [one for one in now if one in new], "removed": [one for one in was if one in gone]}
    words = [f"{what} {_few(names)}" for what, names in changes.items() if names]
    if [one for one in was if one not in gone] != [one for one in now if one not in new]:
        words.append("in another order")
    return ", ".join(words)


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _FEW:,} more" if len(names) > _FEW else ""
    return ", ".join(map(repr, names[:_FEW])) + more


def require_new_version(old: Collection, new: Collection) -> None:
    """Refuse a change that devices must know about under the same name and version."""
    if (old.name, old.version) == (new.name, new.version) and old.digest != new.digest:
        raise CollectionError(
            "E-COLLECTION-VERSION",
            f"the collection changed (its digest was {old.digest_hex} and is {new.digest_hex}), and its "
            f"version is still {new.version}: results of both would have one name",
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
    if old.digest == new.digest:  # slices changed
        yield f"the digest {new.digest_hex} is the same: devices keep their memos"
        lost = [slice_ for digest, slice_ in old.said_digests.items() if digest not in new.said_digests]
        if lost:
            yield (
                f"reports of {plural(len(lost), 'slice')} become unknown_collection, the first of "
                f"{slice_text(lost[0])}: keep a label as long as devices say it"
            )
        else:
            yield "reports of devices with the old file still count, where they say a label and in the whole"
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
