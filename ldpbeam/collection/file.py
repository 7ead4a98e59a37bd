"""Reading a collection from the YAML or JSON that people write, strictly.

An unknown key, a value of the wrong kind or an unsound parameter is refused with file, line, key, rule and
remedy. Nothing is guessed: a misspelt key would otherwise silently fall back to a default.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ldpbeam.collection import syntax
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import MAX_DOMAIN, Attribute, Domain
from ldpbeam.collection.epochs import DEFAULT_COUNT, Epochs, parse_duration, parse_instant
from ldpbeam.collection.participation import Participation
from ldpbeam.collection.slices import NO_SLICES, Slices
from ldpbeam.collection.string_domain import MOST_LENGTH, StringDomain
from ldpbeam.errors import CollectionError
from ldpbeam.hashing import IntervalFamily
from ldpbeam.hashing.strings import ALPHABETS, Strings
from ldpbeam.protocols import PROTOCOLS, LocalProtocol, Parameters
from ldpbeam.protocols.attributes.allocate import ALLOCATIONS
from ldpbeam.protocols.attributes.sample import Allomfree
from ldpbeam.protocols.estimator import Result
from ldpbeam.protocols.parameters import PARAMETER_KEYS, ParameterKey, ParameterKind

if TYPE_CHECKING:
    import yaml

KEYS = (
    "name",
    "version",
    "owner",
    "domain",
    "attributes",
    "allocation",
    "protocol",
    *PARAMETER_KEYS,
    "epoch",
    "participation",
    "slices",
    "allowed_lateness",
    "consistency",
    "min_reports",
    "future_tolerance",
    "retired",
)
"""Keys of a collection file, in the order in which people write them."""


def _near(given: str, known: Sequence[str]) -> str:
    near = get_close_matches(given, known, 1)
    return f"Did you mean {near[0]}? " if near else ""


@dataclass(frozen=True)
class _Entry:
    key: str
    node: yaml.Node
    where: str

    def fail(self, rule: str, remedy: str) -> CollectionError:
        return CollectionError("E-COLLECTION-VALUE", f"{self.key} {rule}", where=self.where, remedy=remedy)

    def wrong(self, rule: str, example: str) -> CollectionError:
        return self.fail(
            f"{rule}, not {syntax.shown(self.node)}", f"Write for example {self.key}: {example}."
        )

    def integer(self, low: int, high: int = (1 << 63) - 1) -> int:
        number = syntax.integer_of(self.node)
        if number is None:
            raise self.wrong("must be an integer in decimal digits", str(max(low, 1)))
        if not low <= number <= high:
            raise self.fail(f"must lie in {low} .. {high}, not {number}", "Choose a value in that range.")
        return number

    def number(self) -> float:
        number = syntax.number_of(self.node)
        if number is None:
            raise self.wrong("must be a number", "1.0")
        if not math.isfinite(number):
            raise self.wrong("must be finite", "1.0")
        return number

    def flag(self) -> bool:
        flag = syntax.truth_of(self.node)
        if flag is None:
            raise self.wrong("must be true or false", "true")
        return flag

    def text(self) -> str:
        if not syntax.is_text(self.node):
            raise self.fail(
                f"must be text, not {syntax.shown(self.node)}", f"Put it in quotes: {self.key}: '...'."
            )
        return str(self.node.value)

    def label(self) -> str:
        """A text as it is written: not True for yes, not 1.0 for 1.00."""
        if not isinstance(self.node.value, str):
            raise self.fail(f"must be text, not {syntax.shown(self.node)}", "Write a single label.")
        return self.node.value

    def labels(self) -> list[str]:
        texts = [node.value for node in self.node.value] if syntax.is_list(self.node) else [None]
        if not all(isinstance(text, str) for text in texts):
            raise self.fail("must be a list of texts", "Write labels: [yes, no].")
        return [str(text) for text in texts]

    def choice(self, options: tuple[str, ...]) -> str:
        value = self.text()
        if value not in options:
            raise self.fail(
                f"has no such choice as {syntax.shown(self.node)}",
                f"{_near(value, options)}Use one of: {', '.join(options)}.",
            )
        return value

    def parsed(self, parse: Callable[[str], int]) -> int:
        if not isinstance(self.node.value, str):
            raise self.fail("must be a single value", "Correct the value.")
        try:
            return parse(self.node.value)
        except ValueError as error:
            raise self.fail(f"cannot be read: {error}", "Correct the value.") from None

    def mapping(self) -> yaml.Node:
        if not syntax.is_mapping(self.node):
            raise self.fail("must be a mapping", f"Write {self.key}: {{...}}.")
        return self.node


def load_collection(path: Path | str) -> Collection:
    """Read one collection file.

    Raises:
        CollectionError: the file is missing, is not YAML, or describes an unsound collection; the text
            names file, line and key.
    """
    path = Path(path)
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise CollectionError(
            "E-COLLECTION-FILE",
            f"the collection cannot be read: {error.strerror}",
            where=str(path),
            remedy="Check the path; ldpbeam plan --output writes a first collection.",
        ) from None
    except UnicodeDecodeError:
        raise CollectionError(
            "E-COLLECTION-FILE",
            "the collection is not UTF-8 text",
            where=str(path),
            remedy="Save the file as UTF-8.",
        ) from None
    return parse_collection(text, str(path))


def parse_collection(text: str, where: str = "<collection>") -> Collection:
    """Parse the YAML or JSON text of one collection.

    Raises:
        CollectionError: the text is not YAML, or describes an unsound collection; it names line and key.
    """
    try:
        root = syntax.compose(text)
    except syntax.NotYamlError as fault:
        place = "at that line" if fault.line else "of the file"
        raise CollectionError(
            "E-COLLECTION-FILE",
            f"the file is not YAML: {fault.why}",
            where=f"{where}:{fault.line}" if fault.line else where,
            remedy=f"Correct the indentation or quoting {place}, and write every value out.",
        ) from None
    if root is None:
        raise CollectionError(
            "E-COLLECTION-FILE",
            "the file is empty",
            where=where,
            remedy="Remove it, and write one with ldpbeam init.",
        )
    entries = _mapping(root, KEYS, where, "a collection")
    try:
        return _collection(entries, where)
    except CollectionError as error:
        blamed = entries.get(error.key)
        raise error.at(blamed.where if blamed else where) from None


def _mapping(node: yaml.Node, keys: tuple[str, ...], where: str, what: str) -> dict[str, _Entry]:
    """The entries of a mapping node, refusing unknown and repeated keys."""
    line = f"{where}:{node.start_mark.line + 1}"
    if not syntax.is_mapping(node):
        raise CollectionError(
            "E-COLLECTION-VALUE",
            f"{what} must be a mapping of keys to values",
            where=line,
            remedy=f"Write keys such as {keys[0]}: ...",
        )
    entries: dict[str, _Entry] = {}
    for key_node, value_node in node.value:
        place = f"{where}:{key_node.start_mark.line + 1}"
        key = key_node.value if isinstance(key_node.value, str) else syntax.shown(key_node)
        if key not in keys:
            raise CollectionError(
                "E-COLLECTION-KEY",
                f"unknown key {key!r} in {what}",
                where=place,
                remedy=f"{_near(key, keys)}Known keys: {', '.join(keys)}.",
            )
        if key in entries:
            raise CollectionError(
                "E-COLLECTION-KEY",
                f"key {key!r} is given twice",
                where=place,
                remedy=f"Keep one; the first stands at {entries[key].where}.",
            )
        entries[key] = _Entry(key, value_node, place)
    return entries


def _required(entries: dict[str, _Entry], key: str, where: str, example: str) -> _Entry:
    if key not in entries:
        raise CollectionError(
            "E-COLLECTION-KEY",
            f"key {key!r} is missing",
            where=where,
            remedy=f"Add it, for example {example}.",
        )
    return entries[key]


def _collection(entries: dict[str, _Entry], where: str) -> Collection:
    from ldpbeam.consistency import NAMES

    allocation = _allocation(entries, where)
    kind: type[LocalProtocol[Any]]
    if allocation == Allomfree.NAME:  # which chooses the protocols, and refuses one that is given
        protocol_name = entries["protocol"].text() if "protocol" in entries else ""
        kind, called = ALLOCATIONS[allocation], f"allocation {allocation}"
    else:
        protocol_entry = _required(entries, "protocol", where, "protocol: loloha")
        protocol_name = protocol_entry.choice(tuple(PROTOCOLS))
        kind = PROTOCOLS[protocol_name]
        called = f"protocol {protocol_name}"
    parameters, ignored = _parameters(entries, kind, called, where)

    def given(key: str, read: Callable[[_Entry], Any], default: Any) -> Any:
        return read(entries[key]) if key in entries else default

    name = _required(entries, "name", where, "name: minutes_in_app").text()
    version = given("version", lambda entry: entry.integer(1, (1 << 32) - 1), 1)
    domain, mean = None, kind.RESULT is Result.MEAN
    if not allocation:
        domain = _domain(_required(entries, "domain", where, "domain: {size: 360}"), where, mean=mean)
    attributes = _attributes(entries["attributes"], where, mean=mean) if allocation else ()
    if isinstance(domain, StringDomain) and "hash_family" in entries:
        raise entries["hash_family"].fail("is no choice where the domain has strings", "Remove hash_family.")
    domains = [domain] if domain else [attribute.domain for attribute in attributes]
    if any(one.atoms for one in domains) and not _over_stretches(kind, parameters):
        ignored += ("atoms",)
    participation = given("participation", lambda entry: _participation(entry, where), None)
    planned = DEFAULT_COUNT if participation is None else participation.of
    epochs = _epochs(_required(entries, "epoch", where, "epoch: {length: 6h}"), where, planned)
    return Collection(
        ignored=ignored,
        name=name,
        version=version,
        domain=domain,
        protocol_name=protocol_name,
        parameters=parameters,
        epochs=epochs,
        owner=given("owner", _Entry.text, ""),
        allowed_lateness=given("allowed_lateness", lambda entry: entry.parsed(parse_duration), 0),
        consistency=given("consistency", lambda entry: entry.choice(NAMES), ""),
        min_reports=given("min_reports", lambda entry: entry.integer(1), 1),
        future_tolerance=given("future_tolerance", lambda entry: entry.parsed(parse_duration), None),
        retired=given("retired", lambda entry: entry.parsed(parse_instant), None),
        attributes=attributes,
        allocation=allocation,
        participation=participation,
        slices=given("slices", lambda entry: _slices(entry, where), NO_SLICES),
    )


def _over_stretches(kind: type[LocalProtocol[Any]], parameters: Parameters) -> bool:
    """Whether the protocol estimates a distribution, which is what atoms are for."""
    return "hash_family" in kind.OPTIONAL and parameters.hash_family == IntervalFamily.NAME


def _parameters(
    entries: dict[str, _Entry], kind: type[LocalProtocol[Any]], called: str, where: str
) -> tuple[Parameters, tuple[str, ...]]:
    """What the file says about the protocol, and the keys that have no effect on it."""
    parameters: dict[str, Any] = {}
    ignored = []
    for name, key in PARAMETER_KEYS.items():
        if name not in entries:
            if name in kind.PARAMETERS:
                _required(entries, name, where, f"{name}: {key.example}")
            continue
        if name not in (*kind.PARAMETERS, *kind.OPTIONAL):
            if not key.harmless:
                takes = " and ".join(kind.PARAMETERS)
                raise entries[name].fail(f"does not apply to {called}", f"It takes {takes}; remove {name}.")
            ignored.append(name)
        parameters[name] = _parameter(entries[name], key)
    return Parameters(**parameters), tuple(ignored)


def _parameter(entry: _Entry, key: ParameterKey) -> Any:
    if key.word and syntax.is_text(entry.node):
        if entry.node.value == key.word:
            return key.default
        example = f"{key.word} or {key.name}: {key.example}"
        raise entry.wrong(f"must be {key.word!r} or an integer", example)
    if key.kind is ParameterKind.INTEGER:
        return entry.integer(key.least, key.most)
    if key.kind is ParameterKind.CHOICE:
        return key.convert(entry.choice(key.choices))
    return entry.number()


def _allocation(entries: dict[str, _Entry], where: str) -> str:
    """The allocation of a collection with attributes, empty for one with a domain."""
    if "attributes" not in entries:
        if "allocation" in entries:
            raise entries["allocation"].fail(
                "is for several attributes, and there are none",
                "Remove it, or give attributes instead of domain.",
            )
        return ""
    if "domain" in entries:
        raise entries["domain"].fail(
            "excludes attributes: a collection has one or the other",
            "Remove domain, or make it one of the attributes.",
        )
    entry = _required(entries, "allocation", where, "allocation: sample")
    return entry.choice(tuple(ALLOCATIONS))


def _attributes(entry: _Entry, where: str, *, mean: bool) -> tuple[Attribute, ...]:
    example = "attributes: [{name: age, domain: {size: 8}}, {name: sex, domain: {labels: [f, m]}}]"
    if not syntax.is_list(entry.node) or not all(map(syntax.is_mapping, entry.node.value)):
        raise entry.fail("must be a list of mappings", f"Write {example}.")
    attributes = []
    for node in entry.node.value:
        keys = _mapping(node, ("name", "domain"), where, "an attribute")
        line = f"{where}:{node.start_mark.line + 1}"
        name = _required(keys, "name", line, "name: age").text()
        domain = _required(keys, "domain", line, "domain: {size: 8}")
        try:
            attributes.append(Attribute(name, _domain(domain, where, mean=mean)))
        except CollectionError as error:
            raise error.at(domain.where) from None
    if len(attributes) < 2:
        raise entry.fail(
            f"must list at least two, not {len(attributes)}",
            f"Use domain for a single one, or write {example}.",
        )
    return tuple(attributes)


def _domain(entry: _Entry, where: str, *, mean: bool = False) -> Domain:
    keys = _mapping(
        entry.mapping(), ("size", "labels", "other", "range", "strings", "ordered", "atoms"), where, "domain"
    )
    if "strings" in keys:
        if len(keys) > 1 or mean:
            raise keys["strings"].fail(
                "stands alone in a domain, and is for local hashing",
                "Remove the other keys, and write protocol: olh or protocol: loloha.",
            )
        return _strings(keys["strings"], where)
    other, atoms = keys.pop("other", None), keys.pop("atoms", None)
    order = keys.pop("ordered", None)
    if mean and (entry_of_order := atoms or order):
        raise entry_of_order.fail("is for frequencies and distributions", "Remove it.")
    ordered = order is not None and order.flag()
    if len(keys) != 1:
        raise entry.fail(
            "must have exactly one of size, labels, range, strings",
            "Write domain: {size: 360}, {labels: [a, b]} or {range: {max: 86400, buckets: 32}}.",
        )
    if other and "labels" not in keys:
        raise other.fail("is for labels", "Remove it, or list labels.")
    if "size" in keys:
        return _with_atoms(Domain(keys["size"].integer(2, MAX_DOMAIN), ordered=ordered), atoms)
    if "labels" in keys:
        labels = keys["labels"].labels()
        if other and other.label() not in labels:
            raise other.fail("is none of the labels", "Add it to labels.")
        at = labels.index(other.label()) if other else None
        return _with_atoms(Domain(len(labels), tuple(labels), other=at, ordered=ordered), atoms)
    bounds = _mapping(keys["range"].mapping(), ("max", "buckets"), where, "domain.range")
    top = _required(bounds, "max", entry.where, "max: 86400").number()
    if mean:
        if "buckets" in bounds:
            raise bounds["buckets"].fail(
                "does not apply to a mean, which takes the numbers themselves",
                "Remove buckets.",
            )
        last = bounds["max"].integer(1, MAX_DOMAIN - 1)
        return Domain(last + 1, None, float(last))
    buckets = _required(bounds, "buckets", entry.where, "buckets: 32").integer(2, MAX_DOMAIN)
    return _with_atoms(Domain(buckets, None, top, ordered=ordered), atoms)


def _strings(entry: _Entry, where: str) -> StringDomain:
    keys = _mapping(entry.mapping(), ("max_length", "symbols", "fold", "outside"), where, "domain.strings")
    most = _required(keys, "max_length", entry.where, "max_length: 16").integer(1, MOST_LENGTH)
    symbols = _required(keys, "symbols", entry.where, "symbols: lower").text()
    fold = keys["fold"].flag() if "fold" in keys else False
    outside = keys["outside"].choice(("other", "drop")) if "outside" in keys else "other"
    alphabet = ALPHABETS.get(symbols, symbols)
    if fold and any("A" <= one <= "Z" for one in alphabet):
        raise keys["fold"].fail(
            "takes A to Z for a to z, and symbols has capital letters, which nobody could write then",
            "Remove the capital letters from symbols, or fold.",
        )
    try:
        return StringDomain(strings=Strings.of(most, alphabet, fold=fold, drop=outside == "drop"))
    except CollectionError as error:
        raise error.at(entry.where) from None


def _with_atoms(domain: Domain, entry: _Entry | None) -> Domain:
    """The domain with the values that the entry names: labels, or numbers in the units of the domain."""
    if entry is None:
        return domain
    example = "Write for example atoms: [60, 120], numbers of the range, or labels where the domain has them."
    if syntax.is_mapping(entry.node):
        return replace(domain, atoms=_multiples(domain, entry))
    if not syntax.is_list(entry.node) or not entry.node.value:
        raise entry.fail("must be a list of values", example)
    places = []
    for node in entry.node.value:
        if not isinstance(node.value, str):
            raise entry.fail("must be a list of values", example)
        try:
            places.append(domain.index_of_atom(node.value))
        except ValueError as error:
            raise entry.fail(f"has {syntax.shown(node)}, {error}", example) from None
    try:
        return replace(domain, atoms=tuple(sorted(places)))
    except CollectionError as error:
        raise error.at(entry.where) from None


def _multiples(domain: Domain, entry: _Entry) -> tuple[int, ...]:
    """The places of all multiples of ``every``, in the units of the domain; its ends need no atom."""
    keys = _mapping(entry.mapping(), ("every",), entry.where, "atoms")
    step = Fraction(str(_required(keys, "every", entry.where, "atoms: {every: 60}").number()))
    top = Fraction(domain.size - 1 if domain.maximum is None else domain.maximum)
    if domain.labels is not None or (domain.maximum is None and step.denominator != 1):
        raise entry.fail("has no such multiples among the values", "List values: atoms: [60, 120].")
    named = top // step if step > 0 else 0
    if not 2 <= 2 * named <= domain.size:
        why = "more than half of the values" if named else "no value above 0"
        raise entry.fail(f"names {why}", "Choose another step.")
    places = {domain.index_of_number(step * i) for i in range(1, named + 1)}
    return tuple(sorted(places - {domain.size - 1}))


def _epochs(entry: _Entry, where: str, planned: int) -> Epochs:
    keys = _mapping(entry.mapping(), ("length", "origin", "count"), where, "epoch")
    length = _required(keys, "length", entry.where, "length: 6h").parsed(parse_duration)
    origin = keys["origin"].parsed(parse_instant) if "origin" in keys else 0
    count = keys["count"].integer(1) if "count" in keys else planned
    return Epochs(length, origin, count)


def _participation(entry: _Entry, where: str) -> Participation:
    keys = _mapping(entry.mapping(), ("reports", "of"), where, "participation")
    example = "participation: {reports: 1, of: 30}"
    reports, of = (_required(keys, key, entry.where, example).integer(1) for key in ("reports", "of"))
    return Participation(reports, of)


def _slices(entry: _Entry, where: str) -> Slices:
    named = entry.mapping().value
    keys = tuple(node.value for node, _ in named if isinstance(node.value, str))
    entries = _mapping(entry.node, keys, where, "slices")
    slices = Slices.of({name: one.labels() for name, one in entries.items()})
    if not slices:
        raise entry.fail("has no dimension", "Write for example slices: {country: [DE, FR, other]}.")
    for dimension in slices.dimensions:
        try:
            dimension.require_sound()
        except CollectionError as error:
            raise error.at(entries[dimension.name].where) from None
    return slices
