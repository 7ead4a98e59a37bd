"""A fleet: many simulated devices of one collection, which live over epochs with their memos."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.admission import ReportColumns, put_together
from ldpbeam.arrays import Ints, Uints, read_only
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.string_domain import StringDomain
from ldpbeam.collection.values import Index, index_of, require_names, value_error
from ldpbeam.errors import DeviceError
from ldpbeam.protocols.device import plain_integer
from ldpbeam.slice_support import with_slices

from .participation import silenced
from .population.specs import ABSENT
from .protocol_fleet import DrawnReports, ProtocolFleet
from .random_words import RandomWords
from .slices import digests_said

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ldpbeam.privacy.ledger import FleetLedger

    from .slices import Labels

    Values = ArrayLike | Sequence[Any] | Mapping[str, Any] | Index
    """What :meth:`Fleet.report` takes."""

_ABSENCE = "None stands for an absent device."
_EPS = np.finfo(np.float64).eps
_TINY = 1e-290
"""Below it float64 loses digits."""


class Fleet:
    """Devices of a collection with a memo each, which report epoch after epoch: for experiments only.

    As real devices do, they repeat what they memoised, keep what they drew for life, and report only in
    epochs of their own where the collection has ``participation``. Equal arguments give equal reports, the
    same as ``ldpbeam simulate`` writes for these values and this seed.

        >>> collection = ldpbeam.load_collection("examples/first_choice.yaml")
        >>> fleet = ldpbeam.Fleet(collection, devices=4, seed=7)
        >>> monday = fleet.report(["red", "green", "green", "blue"])
        >>> tuesday = fleet.report(["red", "green", None, "blue"])
        >>> monday.epoch, len(monday), tuesday.epoch, len(tuesday)
        (0, 4, 1, 3)

    Args:
        collection: what the devices were given.
        devices: how many there are.
        seed: of all random words.
        rows_per_batch: the most devices that are simulated at once; it changes no report.

    Attributes:
        collection, devices: as given.
        random_words: the source of all draws.

    Raises:
        ValueError: there are no devices, too many to number, or the seed is negative.
    """

    def __init__(
        self, collection: Collection, devices: int, seed: int = 0, *, rows_per_batch: int = 65_536
    ) -> None:
        self.collection, self.devices, self.random_words = collection, devices, RandomWords(seed)
        self._fleet = ProtocolFleet(
            collection.protocol, devices, self.random_words, rows_per_batch=rows_per_batch
        )
        self._last: int | None = None

    def __repr__(self) -> str:
        last = "has not reported" if self._last is None else f"has reported epoch {self._last}"
        return f"Fleet({self.collection.name}, {self.devices:,} devices, {self.random_words}, {last})"

    def report(
        self,
        values: Values,
        epoch: int | None = None,
        *,
        slice: Labels = None,
    ) -> ReportColumns:
        """The reports of one epoch, in the order of the devices; :func:`ldpbeam.estimate` takes them.

        Args:
            values: one for each device, as ``Device.report`` takes it: a label of labels, a number of a range
                or a size, an :class:`Index`; None, or a masked cell, for a device that is absent. An
                ``Index`` of integers (devices,), −1 for an absent device, is quickest, arrays of numbers are
                quick. With several attributes an array or ``Index`` (devices, attributes), a sequence of
                what ``Device.report`` takes, or a mapping from each name to the values of all devices.
            epoch: index; None for the one after the last.
            slice: for each dimension of the collection's ``slices`` a label for all devices, or a column
                with one for each, such as ``{"arm": "a", "country": ["DE", "FR"]}``.

        Raises:
            TypeError: the epoch is no integer.
            ValueError: there is not one value, or not one label of a dimension, for each device, or an index
                lies outside the domain.
            DeviceError: a value stands for none of the domain's; a slice is none of the collection's; the
                epoch is none of the collection's, or does not come after the last one.
        """
        _, batches = self.batches(values, self._next() if epoch is None else epoch, slice)
        parts = list(batches)
        if parts:
            return parts[0] if len(parts) == 1 else put_together(parts)
        nothing = np.zeros((0, self.collection.protocol.device.payload_size), np.uint8)
        no_digests = np.zeros(0, np.uint64) if self.collection.slices else None
        return self._columns(DrawnReports(np.zeros(0, np.uint64), nothing), no_digests)

    def batches(
        self, values: Values, epoch: int, labels: Labels = None
    ) -> tuple[int, Iterator[ReportColumns]]:
        """The number of reports of one epoch, and these reports in batches; see :meth:`report`.

        The epoch counts as reported at once. Take all batches before the next epoch: the memos of the devices
        depend on them.
        """
        epoch = plain_integer(epoch, "the epoch")
        self._require_epoch(epoch)
        indices = fleet_indices(self.collection, values)
        held = silenced(self.collection.participation, self.random_words, epoch, indices)
        drawn = self._fleet.reports(epoch, held)
        reports = held.reshape(len(held), -1)[:, 0] != ABSENT
        digests = digests_said(self.collection, labels, reports)
        self._last = epoch
        return int(np.count_nonzero(reports)), self._in_slices(drawn, digests)

    def memoised_inputs(self) -> Ints:
        """Inputs that each device has memoised so far, int64 (devices,); 0 for one-round protocols."""
        return self._fleet.memoised_inputs()

    def ledgers(self) -> list[FleetLedger]:
        return self._fleet.ledgers()

    def _next(self) -> int:
        return 0 if self._last is None else self._last + 1

    def _in_slices(self, drawn: Iterator[DrawnReports], digests: Uints | None) -> Iterator[ReportColumns]:
        done = 0
        for some in drawn:
            end = done + len(some)
            yield self._columns(some, None if digests is None else digests[done:end])
            done = end

    def _columns(self, drawn: DrawnReports, digests: Uints | None) -> ReportColumns:
        assert self._last is not None  # noqa: S101 - batches() has set it
        payloads = read_only(drawn.payloads) if digests is None else with_slices(drawn.payloads, digests)
        return ReportColumns(self.collection.digest, self._last, drawn.report_ids, payloads)

    def _require_epoch(self, epoch: int) -> None:
        if not self.collection.epochs.contains(epoch):
            raise DeviceError(
                "E-DEVICE-EPOCH",
                f"epoch {epoch} is none of the epochs 0 to {self.collection.epochs.count - 1} of the "
                f"collection {self.collection.name!r}",
                remedy="Report an epoch of the collection, or raise epoch.count in its file.",
            )
        if self._last is not None and epoch <= self._last:
            raise DeviceError(
                "E-DEVICE-EPOCH",
                f"epoch {epoch} does not come after epoch {self._last}, which this fleet reported",
                remedy="Report each epoch once, in order; another Fleet begins anew, without a memo.",
            )


def fleet_indices(collection: Collection, values: Values) -> NDArray[np.int64]:
    """The indices of many devices' values, (devices,) or (devices, attributes); :data:`ABSENT` for no
    report."""
    held = values.index if isinstance(values, Index) else values
    domains = collection.histograms
    # A set has lost the order of devices, and equal values; of a mapping the keys would be read.
    wrong = (str, bytes, Set) if collection.domain is None else (str, bytes, Set, Mapping)
    if isinstance(held, wrong) or not np.iterable(held):
        raise value_error("a fleet takes a list or an array of values, one for each device", _ABSENCE)
    if isinstance(collection.domain, StringDomain):
        if isinstance(values, Index):  # of fingerprints
            return np.asarray(held, np.int64)
        return _fingerprints(held, collection.domain)
    if collection.domain is not None:
        return _column(values, domains[0][1])
    if isinstance(values, Index):
        array = np.asarray(values.index)
        if array.ndim != 2 or array.shape[1] != len(domains):
            return array.astype(np.int64)  # of a shape that the fleet refuses
        columns = [_places(column, domain) for column, (_, domain) in zip(array.T, domains, strict=True)]
    elif isinstance(values, Mapping):
        require_names(collection, values)
        columns = [_column(values[name], domain) for name, domain in domains]
    else:
        columns = _columns_of_rows(values, domains)
    if len({len(column) for column in columns}) > 1:
        raise ValueError("the attributes have values of different numbers of devices; give one for each")
    return np.stack(columns, axis=1)


def _fingerprints(texts: Any, domain: StringDomain) -> NDArray[np.int64]:
    """The fingerprints of texts, (devices, lengths); those of a text that comes again are made once."""
    known: dict[Any, tuple[int, ...]] = {None: (ABSENT,) * len(domain.strings.lengths)}
    rows = []
    for number, text in enumerate(texts):
        if text not in known:
            try:
                known[text] = domain.fingerprints_of(text)
            except ValueError as error:
                raise value_error(f"the value is {error}", _ABSENCE).at(f"device {number}") from None
        rows.append(known[text])
    return np.array(rows, np.int64).reshape(len(rows), len(domain.strings.lengths))


def _columns_of_rows(values: Any, domains: Sequence[tuple[str, Domain]]) -> list[NDArray[np.int64]]:
    """A column for each attribute, of rows that are sequences, mappings by name, or None."""
    if isinstance(values, np.ndarray) and values.ndim == 2 and values.shape[1] == len(domains):
        return [_column(values[:, at], domain) for at, (_, domain) in enumerate(domains)]
    names = [name for name, _ in domains]
    rows: list[Sequence[Any]] = []
    for number, row in enumerate(values):
        if row is None:
            rows.append((None,) * len(domains))
        elif isinstance(row, Mapping) and set(row) == set(names):
            rows.append([row[name] for name in names])
        elif isinstance(row, Index) and np.shape(row.index) == (len(domains),):
            rows.append([Index(one) for one in np.asarray(row.index)])
        elif (
            not isinstance(row, (str, bytes, Mapping))
            and hasattr(row, "__len__")
            and len(row) == len(domains)
        ):
            rows.append(row)
        else:
            why = f"needs one value for each of the {len(domains)} attributes, in their order or by name"
            raise value_error(why, _ABSENCE).at(f"device {number}")
    return [_column([row[at] for row in rows], domain) for at, (_, domain) in enumerate(domains)]


def _places(given: Any, domain: Domain) -> NDArray[np.int64]:
    """The integers of an :class:`Index` for one attribute, each in the domain or :data:`ABSENT`."""
    array = np.asarray(given)
    if array.size and array.dtype.kind not in "iu":
        raise value_error(
            "an Index of a fleet holds integers", "Give an array of them, −1 for an absent device."
        )
    beyond = np.argwhere((array >= domain.size) | (array < ABSENT))
    if beyond.size:
        why = f"an index of this domain lies in 0 to {domain.size - 1}"
        remedy = f"{ABSENT} in an Index stands for an absent device."
        raise value_error(why, remedy).at(f"device {beyond[0, 0]}")
    return array.astype(np.int64)


def _column(values: Any, domain: Domain) -> NDArray[np.int64]:
    """The indices of the devices' values of one attribute, int64 (devices,)."""
    if isinstance(values, Index):
        return _places(values.index, domain)
    if isinstance(values, np.ma.MaskedArray):
        indices = np.full(values.shape, ABSENT, np.int64)
        present = ~np.ma.getmaskarray(values)
        indices[present] = _column(values.data[present], domain)
        return indices
    if not hasattr(values, "__array__") or getattr(values, "null_count", False):  # numpy has no null
        values = list(values.to_pylist() if hasattr(values, "to_pylist") else values)
    array = values if not isinstance(values, list) else _of_one_type(values)
    array = None if array is None else np.asarray(array)
    if array is None or array.dtype.kind not in "iuf" or array.ndim != 1 or domain.labels is not None:
        return _one_by_one(values if isinstance(values, list) else np.asarray(values).tolist(), domain)
    return _numbers(array, domain)


def _of_one_type(values: list[Any]) -> NDArray[Any] | None:
    """Numbers of one type as an array; None for others, of which numpy would make something else."""
    kinds = {type(one) for one in values}
    kind = kinds.pop() if len(kinds) == 1 else bool
    if kind is bool or not issubclass(kind, (int, float, np.integer, np.floating)):
        return None
    try:
        return np.array(values, np.int64 if issubclass(kind, int) else None)
    except OverflowError:
        return None


def _numbers(array: NDArray[Any], domain: Domain) -> NDArray[np.int64]:
    distinct, first, which = np.unique(array, return_index=True, return_inverse=True)
    indices = np.full(distinct.shape, ABSENT, np.int64)
    doubtful = np.ones(distinct.shape, bool)
    if domain.maximum is not None and not domain.whole and domain.maximum > _TINY:
        precise = np.finfo(distinct.dtype if distinct.dtype.kind == "f" else np.float64).eps
        with np.errstate(all="ignore"):
            place = distinct.astype(np.float64) / domain.maximum * domain.size
            place = np.clip(place, -1.0, domain.size + 1.0)
            doubtful = ~(np.abs(place - np.rint(place)) > 8 * domain.size * max(precise, _EPS))
        sure = ~doubtful
        indices[sure] = np.clip(np.floor(place[sure]), 0, domain.size - 1)
    for at in np.flatnonzero(doubtful):
        indices[at] = _index(distinct[at], domain, int(first[at]))
    return indices[which]


def _one_by_one(values: Sequence[Any], domain: Domain) -> NDArray[np.int64]:
    """The indices of values of any types; a text that comes again is looked up once."""
    known: dict[str, int] = {}
    indices = np.empty(len(values), np.int64)
    for number, given in enumerate(values):
        if given is None or given is np.ma.masked:
            indices[number] = ABSENT
        elif isinstance(given, str):
            if given not in known:
                known[given] = _index(given, domain, number)
            indices[number] = known[given]
        else:
            indices[number] = _index(given, domain, number)
    return indices


def _index(given: Any, domain: Domain, number: int) -> int:
    try:
        return index_of(given, domain)
    except DeviceError as error:
        remedy = " ".join(filter(None, (error.remedy, _ABSENCE)))
        raise value_error(error.message, remedy).at(f"device {number}") from None
