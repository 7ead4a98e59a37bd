"""A fleet: many simulated devices of one collection, which live over epochs with their memos."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.admission import ReportColumns
from ldpbeam.arrays import Ints, read_only
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.values import require_names, value_of
from ldpbeam.errors import DeviceError
from ldpbeam.protocols.contract import plain_integer
from ldpbeam.simulators.participation import silenced
from ldpbeam.simulators.population.specs import ABSENT
from ldpbeam.simulators.protocol_fleet import DrawnReports, ProtocolFleet
from ldpbeam.simulators.words import RandomWords

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ldpbeam.privacy.ledger import FleetLedger

    Values = ArrayLike | Sequence[Any] | Mapping[str, Any]
    """What :meth:`Fleet.report` takes."""


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

    def report(self, values: Values, epoch: int | None = None) -> ReportColumns:
        """The reports of one epoch, in the order of the devices; :func:`ldpbeam.estimate` takes them.

        Args:
            values: one for each device, as ``Device.report`` takes it: an index, or a label where the
                collection lists labels; None or -1 for a device that is absent. Integers (devices,) are
                quickest; with several attributes integers (devices, attributes), a sequence of what
                ``Device.report`` takes, or a mapping from each name to the values of all devices.
            epoch: index; None for the one after the last.

        Raises:
            TypeError: a value is of no type that can be reported.
            ValueError: a value lies outside the domain, or there is not one for each device.
            DeviceError: a value is no label; the epoch is none of the collection's, or does not come after
                the last one.
        """
        _, batches = self.batches(values, self._next() if epoch is None else epoch)
        parts = list(batches)
        if len(parts) == 1:
            return parts[0]
        ids = np.concatenate([np.zeros(0, np.uint64), *(part.report_ids for part in parts)])
        empty = np.zeros((0, self.collection.protocol.payload_size), np.uint8)
        payloads = np.concatenate([empty, *(part.payloads for part in parts)])
        return self._columns(DrawnReports(ids, payloads))

    def batches(self, values: Values, epoch: int) -> tuple[int, Iterator[ReportColumns]]:
        """The number of reports of one epoch, and these reports in batches; see :meth:`report`.

        The epoch counts as reported at once. Take all batches before the next epoch: the memos of the devices
        depend on them.
        """
        epoch = plain_integer(epoch, "the epoch")
        self._require_epoch(epoch)
        indices = fleet_indices(self.collection, values)
        held = silenced(self.collection.participation, self.random_words, epoch, indices)
        drawn = self._fleet.reports(epoch, held)
        self._last = epoch
        present = int(np.count_nonzero(held.reshape(len(held), -1)[:, 0] != ABSENT))
        return present, map(self._columns, drawn)

    def memoised_inputs(self) -> Ints:
        """Inputs that each device has memoised so far, int64 (devices,); 0 for one-round protocols."""
        return self._fleet.memoised_inputs()

    def ledgers(self) -> list[FleetLedger]:
        """What the devices have spent, for each attribute."""
        return self._fleet.ledgers()

    def _next(self) -> int:
        return 0 if self._last is None else self._last + 1

    def _columns(self, drawn: DrawnReports) -> ReportColumns:
        assert self._last is not None  # noqa: S101 - batches() has set it
        return ReportColumns(self.collection.digest, self._last, drawn.report_ids, read_only(drawn.payloads))

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


def fleet_indices(collection: Collection, values: Values) -> NDArray[np.integer[Any]]:
    """Values of many devices as integers (devices,), or (devices, attributes); :data:`ABSENT` for no report.

    Args:
        collection: of the devices.
        values: as for :meth:`Fleet.report`.

    Raises:
        TypeError, ValueError, DeviceError: as for :meth:`Fleet.report`; integers are not compared with the
            domain here.
    """
    if isinstance(values, Mapping):
        require_names(collection, values)
        columns = [_given(values[name]) for name, _ in collection.histograms]
        if len({len(column) for column in columns}) > 1:
            raise ValueError("the attributes have values of different numbers of devices; give one for each")
        if all(isinstance(column, np.ndarray) for column in columns):
            return np.stack([np.asarray(column) for column in columns], axis=1)
        values = list(zip(*columns, strict=True))
    given = _given(values)
    if isinstance(given, np.ndarray):
        return given
    attributes = len(collection.histograms)
    absent = ABSENT if collection.domain is not None else (ABSENT,) * attributes
    known: dict[Any, Any] = {}
    rows = [_value(collection, one, number, absent, known) for number, one in enumerate(given)]
    return np.array(rows, np.int64).reshape((-1,) if collection.domain is not None else (-1, attributes))


def _given(values: Any) -> NDArray[np.integer[Any]] | list[Any]:
    """Integers as an array, anything else as a list: numpy would make text of integers among labels."""
    if not hasattr(values, "__array__"):
        values = list(values)
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        return list(values)
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind in "iu":
        return array.astype(np.int64, casting="safe")
    return list(array.tolist()) if hasattr(values, "__array__") else list(values)


def _is_absent(value: Any) -> bool:
    return value is None or (isinstance(value, (int, np.integer)) and value == ABSENT)


def _value(collection: Collection, given: Any, number: int, absent: Any, known: dict[Any, Any]) -> Any:
    """The value of one device, looked up once where it is a label."""
    if isinstance(given, str) and given in known:
        return known[given]
    several = isinstance(absent, tuple) and isinstance(given, Sequence) and len(given) == len(absent)
    if _is_absent(given) or (several and all(map(_is_absent, given))):
        return absent
    place = f"device {number}"
    try:
        value = value_of(collection, given)
    except DeviceError as error:
        raise error.at(place) from None
    except (TypeError, ValueError) as error:
        raise type(error)(f"{place}: {error}; None or -1 stands for an absent device") from None
    if isinstance(given, str):
        known[given] = value
    return value
