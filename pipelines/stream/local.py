"""The local engine: a stream on one machine, counted in micro-batches, with a memory that survives a crash.

Beam's own local runner acknowledges messages before it has done anything with them, forgets everything when
it stops, and takes the wall clock for the watermark. Here messages are landed on disk before they are
acknowledged, each result is made by the same Beam stages as in a run over files, and the watermark stands
still while there is a backlog. A crash, a stop and an update lose nothing and count nothing twice.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ldp.accounting import CONFLICTING, Books, Entry, Line
from ldp.collection import Collection
from ldp.errors import LdpError
from ldp.reports import ReportColumns
from ldp.schedule import Schedule
from pipelines.options import RunConfig
from pipelines.record import (
    indicators_record,
    newest_indicators,
    read_output,
    run_record,
    table_records,
    write_record,
)
from pipelines.stream.landing import EpochKey, Landing, Segment
from pipelines.stream.publish import Due, last_segment, publish_due, read_other_books, write_other_books
from transforms.accounting import Told
from transforms.revisions import read_books

__all__ = ["REPLAY", "LocalStream", "Source"]

_MICROS = 1_000_000
REPLAY = "replay"
"""Pane of a revision that a replay makes."""


class Arrived(Protocol):
    """A message, as the engine sees it."""

    @property
    def data(self) -> bytes:
        """One Report or ReportBatch."""
        ...

    @property
    def arrival_micros(self) -> int:
        """Microseconds since 1970."""
        ...

    @property
    def stamped(self) -> bool:
        """Whether that is the time that was asked for."""
        ...


class Source(Protocol):
    """Where messages come from; what is not acknowledged comes again."""

    def pull(self, limit_messages: int, limit_bytes: int, timeout_seconds: float) -> Sequence[Any]:
        """Some messages, or none after the timeout."""
        ...

    def acknowledge(self, messages: Sequence[Any]) -> None:
        """They are safe and need not come again."""
        ...


@dataclass
class _Open:
    """What the engine knows about an epoch.

    Attributes:
        line: of the books, as published, without what came since.
        news: entries since.
        segments: numbers of segments with its reports that are still there.
        fresh: whether reports came since the last result.
        revision: number of the next result.
        told: watermark at the last one.
        through: last segment that is in the books.
        closed: whether it takes no more reports.
        files: its published tables, as run.json lists them.
        indicators: of the newest result.
    """

    line: Line = field(default_factory=Line)
    news: Counter[str] = field(default_factory=Counter)
    segments: list[int] = field(default_factory=list)
    fresh: bool = False
    revision: int = 0
    told: int = 0
    through: int = 0
    closed: bool = False
    files: list[dict[str, Any]] = field(default_factory=list)
    indicators: list[dict[str, Any]] = field(default_factory=list)


class LocalStream:
    """Draw messages, land them, tell results when they are due. One :meth:`step` after the other."""

    def __init__(
        self,
        config: RunConfig,
        source: Source,
        clock: Callable[[], float] = time.time,
        wait: Callable[[], float] = time.monotonic,
        landing: Landing | None = None,
    ) -> None:
        """Take up what an earlier engine left in the output directory.

        Args:
            config: with a subscription.
            source: of messages.
            clock: seconds since 1970.
            wait: seconds of a clock that never jumps, for how long to gather.
            landing: of the output directory, where it is locked already.

        Raises:
            LdpError: a landed segment is damaged, or another engine works here.
        """
        self._config = config
        self._source = source
        self._clock, self._wait = clock, wait
        self._landing = landing or Landing(config.output)
        self._landing.lock()
        self._collections = {c.digest: c for c in config.collections}
        self._schedules = {
            c.digest_hex: Schedule(c, config.early_every, config.late_every) for c in config.collections
        }
        self._epochs: dict[EpochKey, _Open] = {}
        self._others: dict[str, _Open] = {}
        self._segments: dict[int, Segment] = {}
        # Of collections that an earlier engine on this output was given and this one is not.
        self._strange, self._strange_files = Books(), list[dict[str, Any]]()
        self._number = 0
        self.watermark = 0
        self.messages = 0
        self.unstamped = 0
        self._replaying = False
        self.record: dict[str, Any] | None = None
        self._started = wait()
        self._recorded: float | None = None
        try:
            self._recover()
        except BaseException:
            self._landing.unlock()
            raise
        # Nobody has listened so far, however long that took.
        self._quiet_since = wait()

    def _recover(self) -> None:
        """Books first, then the segments that are not in them."""
        books, files = read_output(self._config.output)
        # Also of collections not given: a number is never used again, what was refused has it too.
        self._number = last_segment(self._config.output)
        for digest, epoch in books.lines:
            if epoch is None:
                kept = _read_other(self._config.output, digest)
                self._others[digest] = _Open(line=books.lines[digest, None], through=kept)
            elif digest in self._schedules:
                self._refresh((digest, epoch))
            else:
                self._strange.lines[digest, epoch] = books.lines[digest, epoch]
        ours = {f["path"] for known in self._epochs.values() for f in known.files}
        self._strange_files = [f for f in files if f["path"] not in ours]
        for segment in self._landing.recover(self._number):
            self._take(segment)

    def _refresh(self, key: EpochKey) -> None:
        """What is published about an epoch, as its books have it."""
        schedule = self._schedules[key[0]]
        record = read_books(self._config.output, schedule.collection, key[1])
        known = self._epochs.setdefault(key, _Open())
        if record is None:
            return
        line = Line(*(record["accounting"][w] for w in ("read", "counted", "late", "duplicate")))
        line.repeated = record["accounting"].get("repeated", 0)
        line.rejected.update(record["accounting"]["rejected"])
        known.line, known.news = line, Counter()
        known.revision = max((r["revision"] for r in record["revisions"]), default=-1) + 1
        known.closed = record["closed"]
        known.files = table_records(record)
        known.indicators = newest_indicators(record)
        position = record.get("position", {})
        known.told, known.through = position.get("watermark", 0), position.get("segment", 0)
        self.watermark = max(self.watermark, known.told)

    def _take(self, segment: Segment) -> None:
        """A segment joins what is known; entries that are in the books already are not taken again."""
        self._segments[segment.number] = segment
        self._number = max(self._number, segment.number)
        self.watermark = max(self.watermark, segment.watermark)
        self.messages += segment.messages
        self.unstamped += segment.unstamped
        for ((digest, epoch), what), count in segment.entries:
            if epoch is None:
                known = self._others.setdefault(digest, _Open())
            elif digest in self._schedules:
                known = self._epochs.setdefault((digest, epoch), _Open())
            else:
                continue
            if segment.number > known.through:
                known.news[what] += count
        for key in segment.keys:
            if key in self._epochs:
                known = self._epochs[key]
                known.segments.append(segment.number)
                known.fresh |= segment.number > known.through

    # --- for replays

    @property
    def collections(self) -> dict[int, Collection]:
        """By digest."""
        return self._collections

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Those that are still there, in order."""
        return tuple(self._segments[number] for number in sorted(self._segments))

    @property
    def next_number(self) -> int:
        """Of the next segment."""
        return self._number + 1

    def revisions(self) -> dict[EpochKey, int]:
        """Newest revision of each epoch that has one."""
        return {key: known.revision - 1 for key, known in self._epochs.items() if known.revision}

    def take_up(self, segment: Segment, admitted: Sequence[ReportColumns]) -> None:
        """Land reports that were refused and no longer are; even closed epochs are told once more."""
        self._replaying = True
        self._take(self._landing.write(segment, admitted))

    # --- the loop

    def step(self) -> int:
        """Draw once, land, tell what is due.

        Returns:
            Messages drawn.
        """
        drawn, horizon = self._draw()
        if drawn:
            self._land(drawn)
        self._advance(drawn, horizon)
        self._tell()
        return len(drawn)

    @property
    def idle_seconds(self) -> float:
        """How long no message has come."""
        return self._wait() - self._quiet_since

    def stop(self) -> None:
        """Tell everything that has not been told, as far as it is known, and leave the record.

        Epochs that are still open get a provisional result; the next engine goes on with them.
        """
        self._tell(everything=True)
        self._record("stopped")
        self._landing.unlock()

    def _draw(self) -> tuple[list[Any], int | None]:
        """Messages of one interval, and up to when none is missing; None while there is a backlog.

        What matters is how old each message was when it was drawn and when the last one was: however long the
        interval is, or landing takes, nothing of that makes a message old, or covers one that still waits.
        """
        config = self._config
        drawn: list[Any] = []
        some: Sequence[Any] = ()
        begin, size, backlog = self._wait(), 0, False
        while True:
            horizon = int((self._clock() - config.settle) * _MICROS)
            backlog |= any(message.arrival_micros < horizon for message in some)
            left = config.land_every - (self._wait() - begin)
            if len(drawn) >= config.land_messages or size >= config.land_bytes:
                return drawn, None
            if left <= 0:
                return drawn, None if backlog else horizon
            some = self._source.pull(config.land_messages - len(drawn), config.land_bytes - size, left)
            drawn += some
            size += sum(len(message.data) for message in some)

    def _land(self, drawn: list[Any]) -> None:
        segment = self._landing.land(
            self._number + 1,
            [message.data for message in drawn],
            [message.arrival_micros for message in drawn],
            self._collections,
            watermark=self.watermark,
            closed=frozenset(key for key, known in self._epochs.items() if known.closed),
            unstamped=sum(not message.stamped for message in drawn),
        )
        self._take(segment)
        self._source.acknowledge(drawn)
        self._quiet_since = self._wait()

    def _advance(self, drawn: Sequence[Any], horizon: int | None) -> None:
        """Move the watermark to just before now, unless older messages may still be waiting."""
        if horizon is not None and (drawn or self.idle_seconds >= self._config.settle):
            self.watermark = max(self.watermark, horizon)

    # --- results

    def _tell(self, everything: bool = False) -> None:
        """Make the results that are due by the watermark."""
        due = [d for key, known in self._epochs.items() if (d := self._due(key, known, everything))]
        if due:
            publish_due(self._config, self._landing, due)
            for each in due:
                self._refresh(each.key)
                self._epochs[each.key].fresh = False
        if due or everything or self._overdue():
            self._tell_others()
            self._clear_away()
            self._record("running")

    def _overdue(self) -> bool:
        return self._recorded is None or self._wait() - self._recorded >= self._config.late_every

    def _due(self, key: EpochKey, known: _Open, everything: bool) -> Due | None:
        digest, epoch = key
        schedule = self._schedules[digest]
        end, close, now = schedule.end(epoch), schedule.close(epoch), self.watermark
        closes = not known.closed and now >= close
        ends = known.told < end <= now
        news = known.fresh or bool(known.news)
        if not (closes or ends or (news and (everything or now >= self._next(schedule, epoch, known)))):
            return None
        # At its end an epoch has a result even if a provisional one has said it all.
        counted = known.fresh or (ends and bool(known.segments))
        if counted:
            self._require_all(key, known)
        pane = REPLAY if self._replaying else schedule.pane(epoch, now, known.told)
        position = {"segment": self._number, "watermark": now}
        entries: list[Entry] = [((key, w), n) for w, n in _entries(known, without_counts=counted)]
        told = Told(known.revision if counted else max(known.revision - 1, 0), pane, now >= close, position)
        return Due(key, tuple(known.segments) if counted else (), tuple(entries), told)

    def _require_all(self, key: EpochKey, known: _Open) -> None:
        """Count only what is all there.

        Raises:
            LdpError: reports that were admitted are no longer among the segments.
        """
        there = sum(
            n
            for number in known.segments
            for digest, epoch, n, *_ in self._segments[number].blocks
            if (digest, epoch) == key
        )
        booked = Counter(dict(_entries(known, without_counts=True)))
        admitted = booked.pop("read", 0) - sum(booked.values())
        if there != admitted:
            raise LdpError(
                "E-LANDING-MISSING",
                f"{admitted} reports of epoch {key[1]} of {key[0]} were admitted, {there} are still on disk",
                where=self._config.output,
                remedy="An epoch can be counted again for a week after its close; what is published stays.",
            )

    def _next(self, schedule: Schedule, epoch: int, known: _Open) -> int:
        """When news of an epoch is due: never before its end, unless provisional results are asked for."""
        begin = schedule.collection.epochs.start(epoch) * _MICROS
        return schedule.due(epoch, max(known.told, begin))

    def _tell_others(self) -> None:
        """Books of what belongs to no epoch."""
        for digest, known in self._others.items():
            if known.news:
                for what, count in known.news.items():
                    known.line.add(what, count)
                known.news.clear()
                known.through = self._number
                write_other_books(self._config.output, digest, known.line, known.through)

    def _clear_away(self) -> None:
        """Segments whose epochs are all closed, and have been for as long as they are to be kept."""
        horizon = self.watermark - self._config.keep_landed * _MICROS
        for number, segment in list(self._segments.items()):
            if (
                segment.watermark <= horizon
                and all(self._done_with(key, number, horizon) for key in segment.keys)
                and all(self._booked(key, number) for (key, _), _ in segment.entries)
            ):
                self._landing.remove(number)
                del self._segments[number]
                for key in segment.keys & self._epochs.keys():
                    self._epochs[key].segments.remove(number)

    def _done_with(self, key: EpochKey, number: int, horizon: int) -> bool:
        known = self._epochs.get(key)
        if known is None:
            return False  # of a collection that is not given this time
        return known.closed and known.through >= number and self._schedules[key[0]].close(key[1]) <= horizon

    def _booked(self, key: tuple[str, int | None], number: int) -> bool:
        digest, epoch = key
        known = self._others.get(digest) if epoch is None else self._epochs.get((digest, epoch))
        return known is not None and known.through >= number and not known.news

    def _record(self, status: str) -> None:
        """The record of the run so far."""
        books = Books(dict(self._strange.lines))
        books.lines.update({(digest, None): known.line for digest, known in self._others.items()})
        books.lines.update({key: known.line for key, known in self._epochs.items()})
        files = [f for known in self._epochs.values() for f in known.files] + self._strange_files
        record = run_record(
            self._config,
            books,
            files,
            self._wait() - self._started,
            status=status,
            indicators=indicators_record((*key, known.indicators) for key, known in self._epochs.items()),
            stream={
                "subscription": self._config.subscription,
                "timestamp_attribute": self._config.timestamp_attribute,
                "watermark_micros": self.watermark,
                "segments": self._number,
                "landed_now": len(self._segments),
                "unstamped": self.unstamped,
            },
        )
        write_record(self._config.output, record)
        self.record = record
        self._recorded = self._wait()


def _entries(known: _Open, *, without_counts: bool) -> Iterable[tuple[str, int]]:
    """Everything booked so far; counts and repeats only where they are not counted afresh."""
    total: Counter[str] = Counter(known.news)
    total.update(read=known.line.read, late=known.line.late, repeated=known.line.repeated)
    for reason, count in known.line.rejected.items():
        total[f"rejected.{reason}"] += count
    if without_counts:
        del total[CONFLICTING]
    else:
        total.update(counted=known.line.counted, duplicate=known.line.duplicate)
    return [(what, count) for what, count in sorted(total.items()) if count]


def _read_other(output: str, digest: str) -> int:
    """Last segment that is in the books of what belongs to no epoch of a collection."""
    record = read_other_books(output, digest)
    return int(record.get("position", {}).get("segment", 0)) if record else 0
