"""The local engine: a stream on one machine, counted in micro-batches, with state that survives a crash.

Beam's BundleBasedDirectRunner acknowledges messages before it has done anything with them, forgets everything
when it stops, and takes the wall clock for the watermark. Here messages are landed on disk before they are
acknowledged, each result is made by the driver from everything that was landed of its epoch, and the
watermark stands still while there is a backlog. A crash, a stop and an update lose nothing and count nothing
twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Generic

from ldpbeam.collection.distinct_collections import by_wire_digest
from ldpbeam.engine.publication import DueResult, EpochMoment
from ldpbeam.engine.results import publish_due
from ldpbeam.engine.sources.source import Message, MessageSource
from ldpbeam.engine.status import Status
from ldpbeam.engine.storage.epoch_state import EpochState
from ldpbeam.engine.storage.landing import Landing
from ldpbeam.engine.storage.segment import EpochKey, Segment, judge
from ldpbeam.engine.storage.stream_state import StreamState
from ldpbeam.engine.watermark import Pull, TimeKeeper, Watermark
from ldpbeam.errors import LdpError
from ldpbeam.job.config import RunConfig
from ldpbeam.records.outcome import RunOutcome, indicators_record
from ldpbeam.records.run_output import run_record, write_record
from ldpbeam.records.run_record import RunRecord, StreamRecord
from ldpbeam.schedule import Schedule
from ldpbeam.transforms.sinks.estimates import PublishedIndicators

_MICROS = 1_000_000
_BYTES_AT_ONCE = 128 << 20
_RESULTS_AT_ONCE = 64
"""Results, and bytes of their reports, that are held at once."""


class LocalStream(Generic[Message]):
    """Pull messages, land them, publish the results that are due: one :meth:`step` after the other."""

    def __init__(
        self,
        config: RunConfig,
        source: MessageSource[Message],
        landing: Landing,
        clock: Callable[[], float] = time.time,
        wait: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take up what an earlier engine left in the output directory."""
        self._config = config
        self._source = source
        self._wait = wait
        self.collections = by_wire_digest(config.collections)
        self._schedules = {
            c.digest_hex: Schedule(c, config.counting.early_every, config.counting.late_every)
            for c in config.collections
        }
        self.connected = True
        self._landed = self._published = 0
        self._replaying = False
        self.record: RunRecord | None = None
        self._started = wait()
        self._recorded: float | None = None
        engine = config.engine
        self.state = StreamState(landing, config.outputs.output, self._schedules)
        """What is on disk."""
        self._keeper = TimeKeeper(clock, wait, engine.watermark_delay, engine.patience, self.state.clock)
        self._mark = Watermark(self._keeper, engine.watermark_delay, engine.patience)
        if self.state.number:  # there were messages, perhaps none of them with a time
            self._mark.at_least(self.state.watermark)
        source.resume(self.state.taken)
        self.status = self._status()
        """What the engine did up to the end of the last step; other threads read it."""
        # Nobody has listened so far, however long that took.
        self._quiet_since = wait()

    def take_up(self, segment: Segment) -> None:
        """Land reports that were refused and no longer are; even closed epochs get one more result."""
        self._replaying = True
        self.state.land(segment)

    def step(self) -> int:
        """Pull once, land, publish what is due; gives how many messages were pulled."""
        pulled = self._pull()
        if pulled.messages:
            self.connected = True
            horizon = self._mark.judge(pulled, self._wait())
            self._land(pulled.messages)
            self._landed += len(pulled.messages)
        else:
            horizon = self._listen()
        self._mark.advance(self._bounded(horizon))
        self._publish()
        self.status = self._status()
        return len(pulled.messages)

    @property
    def watermark(self) -> int:
        """Microseconds since 1970; no message before it is expected."""
        return self._mark.micros

    @property
    def idle_seconds(self) -> float:
        """How long no message has come."""
        return self._wait() - self._quiet_since

    def stop(self) -> None:
        """Publish everything that is not published yet, as far as it is known, and leave the record."""
        self._publish(everything=True)
        self._record("stopped")
        self.status = self._status()

    def _pull(self) -> Pull[Message]:
        """Messages of one interval."""
        config, begin = self._config, self._wait()
        pulled: Pull[Message] = Pull()
        while True:
            left = config.engine.land_every - (self._wait() - begin)
            full = (
                len(pulled.messages) >= config.engine.land_messages or pulled.size >= config.engine.land_bytes
            )
            if full or left <= 0:
                return pulled
            some = self._source.pull(
                config.engine.land_messages - len(pulled.messages),
                config.engine.land_bytes - pulled.size,
                left,
            )
            self._keeper.observe_clocks()
            pulled.add(some, self._keeper.now())

    def _listen(self) -> int | None:
        """No message has come: after a while there is none, unless the source could not have given it."""
        if self.idle_seconds < self._config.engine.watermark_delay:
            return None
        self.connected = self._source.connected()
        if not self.connected:
            # Nothing of what was published meanwhile has come yet: the silence begins when it can.
            self._quiet_since = self._wait()
            return None
        return self._mark.silence()

    def _bounded(self, horizon: int | None) -> int | None:
        """Not beyond what the source says may still be missing."""
        missing_from = self._source.missing_from()
        return horizon if horizon is None or missing_from is None else min(horizon, missing_from)

    def _land(self, messages: list[Message]) -> None:
        segment = judge(
            [message.data for message in messages],
            [message.arrival_micros for message in messages],
            self.collections,
            watermark=self.watermark,
            now=round(self._keeper.now() * _MICROS),
            closed=self.state,
            unstamped=sum(not message.stamped for message in messages),
            taken=self._source.taken(messages),
        )
        self.state.land(segment)
        self._source.acknowledge(messages)
        self._quiet_since = self._wait()

    # --- results

    def _publish(self, everything: bool = False) -> None:
        """Make the results that are due by the watermark."""
        due = [d for key, state in self.state.epochs.items() if (d := self._due(key, state, everything))]
        for some in self._portions(due):
            publish_due(self._config, self.state, some)
            self._published += len(some)
        if due or everything or self._record_is_old():
            engine = self._config.engine
            self.state.maintain(
                clock=self._keeper.record(),
                # Epochs that closed before it are no longer kept to be counted again.
                horizon=self.watermark - engine.keep_landed * _MICROS,
                in_memory=engine.keep_accounts,
                exists=self._source.exists,
            )
            self._record("running")

    def _due(self, key: EpochKey, state: EpochState, everything: bool) -> DueResult | None:
        moment = EpochMoment(self._schedules[key[0]], key, state, self.watermark)
        if not moment.is_due(everything):
            return None
        if moment.needs_count:
            self._require_all(key, state)
        return moment.due(self.state.number, self._replaying)

    def _require_all(self, key: EpochKey, state: EpochState) -> None:
        """Raise LdpError where reports that were admitted are no longer on disk."""
        there = state.landed.reports if state.landed else 0
        admitted = state.total_without_counts.pending
        if there != admitted:
            raise LdpError(
                "E-LANDING-MISSING",
                f"{admitted} reports of epoch {key[1]} of {key[0]} were admitted, {there} are still on disk",
                where=self._config.outputs.output,
                remedy="--keep-landed says how long after its close an epoch can be counted again. "
                "What is published stays.",
            )

    def _portions(self, due: list[DueResult]) -> Iterator[list[DueResult]]:
        """As many results at once as fit into memory, or one alone."""
        some: list[DueResult] = []
        size = 0
        for each in due:
            more = self.state.landed[each.key].size if each.counts else 0
            if some and (len(some) >= _RESULTS_AT_ONCE or size + more > _BYTES_AT_ONCE):
                yield some
                some, size = [], 0
            some.append(each)
            size += more
        if some:
            yield some

    # --- saying what was done

    def _record_is_old(self) -> bool:
        return self._recorded is None or self._wait() - self._recorded >= self._config.counting.late_every

    def _record(self, status: str) -> None:
        """Write the record of the run so far."""
        states = self.state
        indicators = (PublishedIndicators(*key, known.indicators) for key, known in states.epochs.items())
        record = run_record(
            self._config,
            RunOutcome(states.accounting, states.files, indicators_record(indicators)),
            self._wait() - self._started,
            archived=states.archived,
            status=status,
            stream=StreamRecord(
                self._config.input.subscription,
                self._config.input.timestamp_attribute,
                self.watermark,
                states.number,
                states.landed_rows,
                states.unstamped,
                self._keeper.record(),
                self._config.input.watch,
            ),
        )
        write_record(self._config.outputs.output, record)
        self.record = record
        self._recorded = self._wait()

    def _status(self) -> Status:
        """What the engine is doing; everything in memory is looked at, which is not much."""
        total = self.state.total
        now, mark = self._keeper.now(), self.watermark / _MICROS
        return Status(
            **{name: getattr(total, name) for name in ("read", "counted", "late", "duplicate", "pending")},
            rejected=total.rejected_record(),
            # Equal: a step lands all messages that it pulls. Metrics and --json have both names.
            pulled=self._landed,
            landed=self._landed,
            published=self._published,
            watermark=mark,
            lag=max(now - mark, 0.0) if mark else 0.0,
            connected=self.connected,
            clock_ahead=self._keeper.jumped,
            open_epochs=sum(not known.closed for known in self.state.epochs.values()),
            segments=self.state.landed_rows,
        )
