"""A device that turns its value of an epoch into the bytes of one report."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, Literal, SupportsIndex

from ldpbeam.client import reported_epochs
from ldpbeam.client.folder import DeviceFolder, FolderRecords, WaitingReport
from ldpbeam.client.last_report import LastReport
from ldpbeam.client.outbox import Outbox
from ldpbeam.client.report_draws import DerivedDraws, DrawnReport, Draws, StoredDraws
from ldpbeam.client.spending import Budget, Costs, Spending, add_up
from ldpbeam.client.state import require_no_withdrawal
from ldpbeam.client.storage import MemoryStorage, Records, Storage
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.values import value_of
from ldpbeam.errors import DeviceError
from ldpbeam.protocols.device import plain_integer
from ldpbeam.wire import device_state_pb2

_Entry = device_state_pb2.CollectionState


@dataclass(frozen=True)
class Policy:
    """What a program asks of its device."""

    budget: Budget = field(default_factory=Budget)
    spread: float = 0.0
    max_jump: float = inf  # a device in memory has no report to lose, and trusts every clock
    clock: Callable[[], float] = time.time
    slice: Mapping[str, str] | None = None


class Device:
    """One device's side of a collection; made by :meth:`open`, or by :meth:`ephemeral` for tests.

    A device that loses its state and draws again spends its privacy again. So the state is durable before a
    report that needs it is returned, and a device whose state is lost or damaged refuses to report.
    """

    def __init__(
        self,
        collection: Collection,
        storage: Storage,
        memo: Literal["derived", "stored"],
        policy: Policy,
        most: int,
    ) -> None:
        """Not for programs: :meth:`open` and :meth:`ephemeral` put the parts together."""
        self._collection = collection
        self._storage = storage
        self._policy = policy
        self._outbox = Outbox(storage, most) if isinstance(storage, DeviceFolder) and most else None
        with storage.transaction() as records:
            state = records.state
            require_no_withdrawal(state)
            self._secret = state.secret
            self._draws: Draws = (
                DerivedDraws(collection, state.secret) if memo == "derived" else StoredDraws(collection)
            )
            self._costs = Costs(collection, state.secret, policy.budget)
            self._last_report = LastReport(collection, self._draws, state.secret)
            if self._collection_state(state) is None:
                self._add_collection(state)
                records.save()

    @classmethod
    def open(  # noqa: PLR0913 - keywords, each with a sound default
        cls,
        collection: Collection,
        path: Path | str,
        *,
        budget: float | None = None,
        at_cap: Literal["stop", "noise"] = "stop",
        memo: Literal["derived", "stored"] = "derived",
        outbox: int = 256,
        spread: float = 0.0,
        sentinel: Path | str | None = None,
        max_jump: float = 400 * 86400.0,
        clock: Callable[[], float] = time.time,
        slice: Mapping[str, str] | None = None,
    ) -> Device:
        """The device whose state is in a folder, or a new one where there never was a state.

        Processes may have the same folder open at once.

        Args:
            collection: what the device was given.
            path: the device's one state folder, the same for all its collections; made where it is missing.
            budget: the most ε that this device may spend, over all collections of the folder and all their
                versions; None for no limit.
            at_cap: when a report would exceed the budget, ``stop`` refuses this one and all later ones of the
                collection; ``noise`` sends reports that no value enters. Both last until a larger budget is
                given. docs/devices.md says what each costs.
            memo: ``derived`` has permanent responses follow from the device's secret; ``stored`` draws them
                from the operating system and keeps them.
            outbox: the most reports that wait to be sent; beyond it the oldest are dropped. 0 where the
                program itself sends what :meth:`report` returns.
            spread: seconds after a report from which its sending time is drawn, at most the rest of its
                epoch; ``math.inf`` for all of the rest. With 0 the report is due at once: the collector then
                learns the second of the report. More is for a program that still runs at the sending time;
                one that runs once per epoch would send each report in the next epoch, when it may be late.
            sentinel: file that says that the device has a state, and how often it has changed; best kept
                where it is not lost together with the folder. None for one in the folder.
            max_jump: seconds by which an epoch, or the clock, may be after the last one. A larger jump is
                refused at first, and believed once the clock has shown such times for a day.
            clock: a function that gives the seconds since 1970.
            slice: labels that every report says in clear, by dimension of the collection's ``slices``, unless
                :meth:`report` is given others.

        Raises:
            DeviceError: the slice is none of the collection's; the state is lost, damaged, older than it was
                or of another version, or was kept with the other ``memo``; the person has withdrawn; another
                process holds the folder for long; this Python has no SQLite; the disk is full or refuses.
            ValueError: ``budget``, ``at_cap``, ``memo`` or ``spread`` is none of the values above.
        """
        if budget is not None and not 0 < budget < inf:
            raise ValueError("a budget is a positive number, or None")
        if at_cap not in ("stop", "noise") or memo not in ("derived", "stored"):
            raise ValueError("at_cap is 'stop' or 'noise', memo is 'derived' or 'stored'")
        if not spread >= 0:
            raise ValueError("a spread is 0 or a positive number of seconds")
        if slice is not None:
            collection.slices.of_device(slice)
        folder = DeviceFolder(Path(path), None if sentinel is None else Path(sentinel))
        policy = Policy(Budget(budget, at_cap), spread, max_jump, clock, slice)
        return cls(collection, folder, memo, policy, outbox)

    @classmethod
    def ephemeral(cls, collection: Collection, slice: Mapping[str, str] | None = None) -> Device:
        """A device that ends with the process: for tests and audits, never for people's values.

        It draws from the operating system. A new one for the same value draws new permanent responses, as
        after a loss of the state.
        """
        if slice is not None:
            collection.slices.of_device(slice)
        return cls(collection, MemoryStorage(), "stored", Policy(slice=slice), 0)

    @property
    def outbox(self) -> Outbox:
        """The reports that wait to be sent.

        Raises:
            DeviceError: the device keeps none.
        """
        if self._outbox is None:
            raise DeviceError(
                "E-DEVICE-OUTBOX",
                "this device keeps no reports that wait",
                remedy="Open it with a folder and outbox above 0, or send what report() returns.",
            )
        return self._outbox

    def spent(self) -> Spending:
        """What this device has spent, over all collections of its folder.

        Raises:
            DeviceError: the state is lost or damaged, or the person has withdrawn.
        """
        with self._storage.transaction() as records:
            require_no_withdrawal(records.state)
            return add_up(records.state, self._policy.budget.limit)

    def withdraw(self) -> None:
        """The person opts out: all collections of the folder end here, and the folder is never used again.

        It deletes the secret, so that no permanent response can be derived again, the responses that were
        kept, the last reports and values, the ledger, and every report that waits. A mark stays that the
        person has withdrawn: :meth:`report`, :meth:`spent` and :meth:`open` refuse from then on, also in
        other processes, since a new device would draw its permanent responses again. A report that is just
        being sent may still arrive. docs/privacy.md says what a server sees of it.

        Called again, it does nothing, or finishes what a full disk kept it from.

        Raises:
            DeviceError: the disk is full or refuses; call it again.
        """
        self._storage.withdraw()

    def report(
        self, value: Any, epoch: SupportsIndex | None = None, *, slice: Mapping[str, str] | None = None
    ) -> bytes | None:
        """A serialised ``Report`` about ``value`` in ``epoch``; kept in the outbox, where there is one.

        None, which is nothing to send, in an epoch that is none of the device's own: where the collection has
        ``participation``, a device reports in a few epochs only, which it drew before it knew any value. In
        all other epochs it refuses the same values, keeps the same state, and epochs go forward.

        One report per epoch. Asked again for the last one, also by another process after a crash, the device
        returns the same bytes, whatever the value is by then: a second draw would spend privacy again, and be
        counted as another report.

        Epochs go forward. Where the clock says that an epoch which was reported has not begun, the clock was
        ahead: the device goes on with the epochs before it that it has not reported, and what waits about the
        later one is due at once.

        Args:
            value: what a person would write: of a ``range`` the number, which a device puts into its bucket
                and clamps to the ends; of a ``size`` the value itself; of ``labels`` the label, and one that
                is not listed counts as the collection's ``other``. An integer, a float (0.7 is the decimal
                0.7) or a text of a number; or an :class:`ldpbeam.Index`, which is the place in the domain.
                For several attributes a sequence of these, or a mapping by name.
            epoch: index; None for the one that the clock shows.
            slice: the labels of this report, for each dimension of the collection's ``slices``; None for
                those that :meth:`open` was given. Nothing but the digest of the report depends on them.

        Raises:
            TypeError: the epoch is no integer.
            DeviceError: the value is none of the domain's; the slice is none of the collection's; the epoch
                is none of the collection's, was reported or passed over, or lies too far after the last one;
                the budget is spent; the person has withdrawn; the state is lost or damaged; the disk refuses.

        No text contains the value, or a label of the slice.
        """
        values = value_of(self._collection, value)
        digest = self._digest_of(slice)
        now = self._policy.clock()
        asked = self._asked_epoch(epoch, now)
        with self._storage.transaction() as records:
            entry = self._own_entry(records.state)
            remembered = next((one for one in entry.spans if one.last_epoch == asked), None)
            if remembered is not None and not remembered.forgotten:
                return self._last_report.restore(remembered, entry.memo)
            self._require_open_epoch(records, entry, asked, now, timed=epoch is None)
            back = reported_epochs.goes_back(entry, asked)
            drawn = self._draw(records, entry, values, asked)
            message = None if drawn is None else self._last_report.message(drawn, asked, digest)
            noise = drawn is not None and drawn.noise
            self._last_report.keep(reported_epochs.add(entry, asked), message, values, digest, noise=noise)
            if epoch is None:
                # The time of a clock that was ahead would hide its next jump.
                state = records.state
                state.clock_seconds = int(now) if back else max(int(now), state.clock_seconds)
            self._put_into_outbox(records, message, asked, now, back=back)
            records.save()
        return message

    def _digest_of(self, given: Mapping[str, str] | None) -> int:
        said = self._policy.slice if given is None else given
        return self._collection.slice_digest(self._collection.slices.of_device(said))

    def _asked_epoch(self, epoch: SupportsIndex | None, now: float) -> int:
        asked = self._collection.epochs.index(now) if epoch is None else plain_integer(epoch, "the epoch")
        if not self._collection.epochs.contains(asked):
            raise reported_epochs.epoch_error(
                f"epoch {asked} is none of the collection's", "Check the clock and the origin."
            )
        return asked

    def __repr__(self) -> str:
        """Which collection; nothing about the device."""
        return f"Device({self._collection.name} {self._collection.digest_hex})"

    # State

    def _own_entry(self, state: device_state_pb2.DeviceState) -> _Entry:
        """The collection's part of a state, unless somebody put another device's in its place meanwhile."""
        require_no_withdrawal(state)
        if state.secret != self._secret:
            raise DeviceError(
                "E-DEVICE-STATE-OTHER",
                "the state is another device's than when this one was opened; to go on would mix the "
                "permanent responses of both",
                remedy="Open the device again.",
            )
        # It is missing where the state was restored from a copy of before the collection was added.
        return self._collection_state(state) or self._add_collection(state)

    def _collection_state(self, state: device_state_pb2.DeviceState) -> _Entry | None:
        digest = self._collection.full_digest
        entry = next((entry for entry in state.collections if entry.digest == digest), None)
        if entry is not None and entry.HasField("memo") != self._draws.KEEPS_MEMO:
            memo, other = ("stored", "derived") if entry.HasField("memo") else ("derived", "stored")
            raise DeviceError(
                "E-DEVICE-MEMO",
                f"the permanent responses of {self._collection.name} are {memo} on this device; {other} ones "
                "would be drawn again, and spend up to ε∞ once more",
                remedy=f"Open the device with memo={memo!r}.",
            )
        return entry

    def _add_collection(self, state: device_state_pb2.DeviceState) -> _Entry:
        collection = self._collection
        entry = state.collections.add(
            digest=collection.full_digest, name=collection.name, version=collection.version
        )
        if (memo := self._draws.new_memo()) is not None:
            entry.memo.CopyFrom(memo)
        entry.own_epochs.extend(self._draws.new_epochs())
        return entry

    # Epochs

    def _require_open_epoch(
        self, records: Records, entry: _Entry, epoch: int, now: float, *, timed: bool
    ) -> None:
        """Refuse an epoch that is closed to the device, and a clock that is in doubt."""
        reported_epochs.require_open(self._collection.epochs, reported_epochs.ranges(entry), epoch, now)
        self._require_trusted_clock(records, entry, epoch, now if timed else None)

    def _require_trusted_clock(self, records: Records, entry: _Entry, epoch: int, now: float | None) -> None:
        """A clock that is far ahead for a moment must spend no report; one that stays there is believed."""
        epochs = self._collection.epochs
        jump = reported_epochs.jump(epochs, entry, epoch)
        if now is not None and records.state.HasField("clock_seconds"):
            jump = max(jump, now - records.state.clock_seconds)
        shown = epochs.start(epoch) if now is None else int(now)
        if jump <= self._policy.max_jump or reported_epochs.believed(entry, shown):
            entry.ClearField("doubted_seconds")
            return
        if reported_epochs.doubt(entry, shown):
            records.save()
        raise reported_epochs.clock_error(epoch, jump)

    # Draws

    def _draw(self, records: Records, entry: _Entry, values: Any, epoch: int) -> DrawnReport | None:
        """The report about the values, charged; None where the device takes no part in the epoch."""
        if not self._draws.reports_in(epoch, entry.own_epochs):
            return None
        drawn = self._draws.report(values, epoch, entry.memo)
        if not self._costs.charge(records, entry, drawn.inputs):
            return self._draws.noise(epoch, entry.memo)
        if drawn.memo is not None:
            entry.memo.CopyFrom(drawn.memo)
        return drawn

    # Sending

    def _put_into_outbox(
        self, records: Records, message: bytes | None, epoch: int, now: float, *, back: bool
    ) -> None:
        """Put the report into the outbox, if there is one; after a step back, later reports are due now."""
        if self._outbox is None or not isinstance(records, FolderRecords):
            return
        digest = self._collection.digest_hex
        if back:
            self._outbox.hasten(records, digest, epoch, max(0, int(now)))
        if message is not None:
            self._outbox.put(records, WaitingReport(self._due(epoch, now), digest, epoch), message)

    def _due(self, epoch: int, now: float) -> int:
        """A uniform time in the spread, but in what is left of the epoch; at once where nothing is."""
        left = int(min(max(0, self._collection.epochs.end(epoch) - int(now)), self._policy.spread))
        return max(0, int(now)) + (left * self._draws.share(epoch) >> 64)
