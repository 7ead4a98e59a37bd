"""The local engine: a stream on one machine, counted in micro-batches, with a memory that survives a crash.

Beam's own local runner acknowledges messages before it has done anything with them, forgets everything when
it stops, and takes the wall clock for the watermark. Here messages are landed on disk before they are
acknowledged, each result is made by the same Beam stages as in a run over files, and the watermark stands
still while there is a backlog. A crash, a stop and an update lose nothing and count nothing twice.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from ldpbeam.accounting import CONFLICTING, Account, Accounting, Entry, Key
from ldpbeam.collection.collection import Collection
from ldpbeam.errors import LdpError
from ldpbeam.pipelines.config import RunConfig
from ldpbeam.pipelines.local.archive import Archive
from ldpbeam.pipelines.local.landing import EpochKey, Landing, Segment
from ldpbeam.pipelines.local.results import Due, publish_due
from ldpbeam.pipelines.local.status import Status
from ldpbeam.pipelines.local.watermark import Draw, TimeKeeper, Watermark
from ldpbeam.pipelines.published import (
    indicators_record,
    run_record,
    write_record,
)
from ldpbeam.pipelines.run_record import RunRecord, StreamRecord, last_clock
from ldpbeam.reports import ReportColumns
from ldpbeam.schedule import Schedule
from ldpbeam.transforms.sinks.accounting import (
    EpochAccounting,
    UnattributedAccounting,
    accounting_file_name,
    read_accounting,
    read_epoch_accounting,
    write_accounting,
)
from ldpbeam.transforms.sinks.file_record import FileRecord
from ldpbeam.transforms.stages.accounting import Publication

__all__ = ["REPLAY", "LocalStream", "Source"]

_MICROS = 1_000_000
_MERGED_BYTES = 64 << 20
"""Size of a merged segment, at most: what has to be held while it is made."""
_TOGETHER = 64
"""Results that one pipeline makes."""
REPLAY = "replay"
"""Pane of a revision that a replay makes."""


class Source(Protocol):
    """Where messages come from; what is not acknowledged comes again.

    It may also have ``connected() -> bool``: whether messages would come if there were any.
    """

    def pull(self, limit_messages: int, limit_bytes: int, timeout_seconds: float) -> Sequence[Any]:
        """Some messages (:class:`~ldpbeam.pipelines.local.watermark.Arrived`), or none after the timeout."""
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

    account: Account = field(default_factory=Account)
    news: Counter[str] = field(default_factory=Counter)
    segments: list[int] = field(default_factory=list)
    fresh: bool = False
    revision: int = 0
    told: int = 0
    through: int = 0
    closed: bool = False
    files: list[FileRecord] = field(default_factory=list)
    indicators: list[dict[str, Any]] = field(default_factory=list)


class _Closed:
    """The epochs that take no more reports; a set that nobody has to hold in memory."""

    def __init__(self, stream: LocalStream) -> None:
        self._stream = stream

    def __contains__(self, key: object) -> bool:
        return self._stream.is_closed(cast("EpochKey", key))


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
        self._landing = landing or Landing(config.outputs.output)
        self._landing.lock()
        self._collections = {c.digest: c for c in config.collections}
        self._schedules = {
            c.digest_hex: Schedule(c, config.counting.early_every, config.counting.late_every)
            for c in config.collections
        }
        self._epochs: dict[EpochKey, _Open] = {}
        self._others: dict[str, _Open] = {}
        self._segments: dict[int, Segment] = {}
        # Of collections that an earlier engine on this output was given and this one is not.
        self._strange: dict[EpochKey, _Open] = {}
        self._archive = Archive(config.outputs.output)
        self._number = 0
        self._keeper = TimeKeeper(
            clock, wait, config.engine.settle, config.engine.patience, last_clock(config.outputs.output)
        )
        self._mark = Watermark(self._keeper, config.engine.settle, config.engine.patience)
        self.connected = True
        self._pulled = self._landed = self._published = 0
        self.messages = 0
        self.unstamped = 0
        self._replaying = False
        self.record: RunRecord | None = None
        self._started = wait()
        self._recorded: float | None = None
        try:
            self._recover()
        except BaseException:
            self._landing.unlock()
            raise
        self.status = self._status()
        """As of the last step."""
        # Nobody has listened so far, however long that took.
        self._quiet_since = wait()

    def _recover(self) -> None:
        """Books first, then the segments that are not in them."""
        # Also of collections not given: a number is never used again, what was refused has it too.
        self._number = self._archive.segment
        for path in sorted(Path(self._config.outputs.output, "accounting").glob("*.json")):
            found = read_accounting(str(path))
            through = (found.position or {}).get("segment", 0)
            self._number = max(self._number, through)
            if isinstance(found, UnattributedAccounting):
                self._others[found.digest] = _Open(account=found.account, through=through)
                continue
            self._archive.shadow(found.key)
            given = found.digest in self._schedules
            known = (self._epochs if given else self._strange).setdefault(found.key, _Open())
            self._learn(known, found)
            if given:
                self._mark.at_least(known.told)
        for segment in self._landing.recover(self._number):
            self._take(segment)
        while self._merge():
            pass

    @staticmethod
    def _learn(known: _Open, found: EpochAccounting) -> None:
        """Take what is published about an epoch from its accounting."""
        known.account, known.news = found.account, Counter()
        known.revision = found.newest.number + 1 if found.newest else 0
        known.closed = found.closed
        known.files = list(found.tables)
        known.indicators = found.indicators
        position = found.position or {}
        known.told, known.through = position.get("watermark", 0), position.get("segment", 0)

    def _refresh(self, key: EpochKey) -> None:
        """The same, after a result was published."""
        found = read_epoch_accounting(self._config.outputs.output, self._schedules[key[0]].collection, key[1])
        assert found is not None  # noqa: S101 - it was published
        self._learn(self._epochs[key], found)
        self._epochs[key].fresh = False

    def _known(self, key: EpochKey) -> _Open:
        """An epoch of a given collection; one that has left memory comes back."""
        known = self._epochs.get(key)
        if known is None:
            known = self._epochs[key] = _Open()
            record = self._archive.find(key)
            if record is not None:
                self._archive.bring_back(key)
                self._learn(known, EpochAccounting.from_record(record))
            known.segments = [segment.number for segment in self.segments if key in segment.by_key]
        return known

    def is_closed(self, key: EpochKey) -> bool:
        """Whether an epoch was published as closed."""
        known = self._epochs.get(key)
        if known is not None:
            return known.closed
        return self._archive.find(key) is not None or bool(self._archive.forgotten(key))

    def _take(self, segment: Segment) -> None:
        """A segment joins what is known; entries that are in the books already are not taken again."""
        self._segments[segment.number] = segment
        self._number = max(self._number, segment.number)
        self._mark.at_least(segment.watermark)
        self.messages += segment.messages
        self.unstamped += segment.unstamped
        for ((digest, epoch), what), count in segment.entries:
            if epoch is None:
                known = self._others.setdefault(digest, _Open())
            elif digest in self._schedules:
                key = (digest, epoch)
                if key not in self._epochs and not self._unbooked(key, segment.number):
                    continue
                known = self._known(key)
            else:
                continue
            if segment.number > known.through:
                known.news[what] += count
        for key, block in segment.by_key.items():
            known_epoch = self._epochs.get(key)
            if known_epoch is None and self._unbooked(key, block[5]):
                known_epoch = self._known(key)
            if known_epoch is not None:
                if segment.number not in known_epoch.segments:
                    known_epoch.segments.append(segment.number)
                known_epoch.fresh |= block[5] > known_epoch.through

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
        """Newest revision of each epoch that has one, also of those that have left memory."""
        archived = (r for r in self._archive.records() if r["digest"] in self._schedules and r["revisions"])
        found = {(r["digest"], r["epoch"]): int(r["revisions"][-1]["revision"]) for r in archived}
        found.update({key: known.revision - 1 for key, known in self._epochs.items() if known.revision})
        return found

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
        draw = self._draw()
        if draw.messages:
            self.connected = True
            self._pulled += len(draw.messages)
            horizon = self._mark.judge(draw, self._wait())
            self._land(draw.messages)
            self._landed += len(draw.messages)
        else:
            horizon = self._listen()
        self._mark.advance(horizon)
        self._tell()
        self.status = self._status()
        return len(draw.messages)

    @property
    def watermark(self) -> int:
        """Microseconds since 1970; no message before it is expected."""
        return self._mark.micros

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
        self.status = self._status()
        self._landing.unlock()

    def _draw(self) -> Draw:
        """Messages of one interval.

        What matters is how old each message was when it was pulled: however long the interval is, or landing
        takes, nothing of that makes a message old, or covers one that still waits.
        """
        config, draw, begin = self._config, Draw(), self._wait()
        while True:
            left = config.engine.land_every - (self._wait() - begin)
            full = len(draw.messages) >= config.engine.land_messages or draw.size >= config.engine.land_bytes
            if full or left <= 0:
                return draw
            some = self._source.pull(
                config.engine.land_messages - len(draw.messages), config.engine.land_bytes - draw.size, left
            )
            draw.add(some, self._keeper.now())

    def _listen(self) -> int | None:
        """Nothing has come: after a while of that there is nothing, unless nobody would have told us."""
        if self.idle_seconds < self._config.engine.settle:
            return None
        if not self._connected():
            # Of what was published meanwhile nothing has come yet: the silence begins when it can.
            self._quiet_since = self._wait()
            return None
        return self._mark.silence()

    def _connected(self) -> bool:
        ask = getattr(self._source, "connected", None)
        self.connected = ask is None or bool(ask())
        return self.connected

    def _land(self, drawn: list[Any]) -> None:
        segment = self._landing.land(
            self._number + 1,
            [message.data for message in drawn],
            [message.arrival_micros for message in drawn],
            self._collections,
            watermark=self.watermark,
            closed=_Closed(self),
            unstamped=sum(not message.stamped for message in drawn),
        )
        self._take(segment)
        self._source.acknowledge(drawn)
        self._quiet_since = self._wait()

    # --- results

    def _tell(self, everything: bool = False) -> None:
        """Make the results that are due by the watermark."""
        due = [d for key, known in self._epochs.items() if (d := self._due(key, known, everything))]
        for some in self._portions(due):
            publish_due(self._config, self._landing, some)
            for each in some:
                self._refresh(each.key)
            self._published += len(some)
        if due or everything or self._overdue():
            self._tell_others()
            self._clear_away()
            self._fold()
            self._record("running")
        self._merge()

    def _portions(self, due: list[Due]) -> Iterator[list[Due]]:
        """As many results at once as need no more memory than one merged segment, or one alone."""
        some: list[Due] = []
        size = 0
        for each in due:
            more = sum(self._segments[number].by_key[each.key][4] for number in each.segments)
            if some and (len(some) >= _TOGETHER or size + more > 2 * _MERGED_BYTES):
                yield some
                some, size = [], 0
            some.append(each)
            size += more
        if some:
            yield some

    def _overdue(self) -> bool:
        return self._recorded is None or self._wait() - self._recorded >= self._config.counting.late_every

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
        revision = known.revision if counted else max(known.revision - 1, 0)
        publication = Publication(revision, pane, now >= close, position)
        return Due(key, tuple(known.segments) if counted else (), tuple(entries), publication)

    def _require_all(self, key: EpochKey, known: _Open) -> None:
        """Count only what is all there.

        Raises:
            LdpError: reports that were admitted are no longer among the segments.
        """
        there = sum(self._segments[number].by_key[key][2] for number in known.segments)
        booked = Counter(dict(_entries(known, without_counts=True)))
        del booked["repeated"]  # they are among the rejected ones
        admitted = booked.pop("read", 0) - sum(booked.values())
        if there != admitted:
            raise LdpError(
                "E-LANDING-MISSING",
                f"{admitted} reports of epoch {key[1]} of {key[0]} were admitted, {there} are still on disk",
                where=self._config.outputs.output,
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
                    known.account.add(what, count)
                known.news.clear()
                known.through = self._number
                position = {"segment": known.through}
                found = UnattributedAccounting(digest, known.account, position=position)
                write_accounting(self._config.outputs.output, found)

    def _clear_away(self) -> None:
        """Segments whose epochs are all closed, and have been for as long as they are to be kept."""
        horizon = self._horizon()
        for number, segment in list(self._segments.items()):
            if (
                segment.watermark <= horizon
                and self._all_closed(segment, horizon)
                and all(self._gone(key) for key in segment.by_key)
                and all(self._booked(key, number) for (key, _), _ in segment.entries)
            ):
                self._landing.remove(segment)
                del self._segments[number]
                for key in segment.keys & self._epochs.keys():
                    self._epochs[key].segments.remove(number)

    def _horizon(self) -> int:
        return self.watermark - self._config.engine.keep_landed * _MICROS

    def _all_closed(self, segment: Segment, horizon: int) -> bool:
        """Whether the last epoch of each collection is: asked first, since it costs nothing."""
        schedules = self._schedules
        return all(d in schedules and schedules[d].close(e) <= horizon for d, e in segment.latest.items())

    def _gone(self, key: EpochKey) -> bool:
        """Whether an epoch will not be counted again."""
        if key[0] not in self._schedules or self._schedules[key[0]].close(key[1]) > self._horizon():
            return False
        known = self._epochs.get(key)
        return known is None or (known.closed and not known.news and not known.fresh)

    def _booked(self, key: Key, number: int) -> bool:
        return self._through(key) >= number and not self._unsaid(key)

    def _unsaid(self, key: Key) -> bool:
        digest, epoch = key
        known = self._others.get(digest) if epoch is None else self._epochs.get((digest, epoch))
        return known is not None and bool(known.news)

    def _through(self, key: Key) -> int:
        """The last segment that the published books of a key contain."""
        digest, epoch = key
        if epoch is None:
            return self._others[digest].through if digest in self._others else 0
        home = self._epochs if digest in self._schedules else self._strange
        known = home.get((digest, epoch))
        if known is not None:
            return known.through
        record = self._archive.find((digest, epoch))
        if record is not None:
            return int(record.get("position", {}).get("segment", 0))
        return self._archive.forgotten((digest, epoch))

    def _unbooked(self, key: EpochKey, number: int) -> bool:
        """Whether what a segment has of an epoch that has left memory is not in its books."""
        if key[0] not in self._schedules:
            return False
        record = self._archive.find(key)
        through = (
            self._archive.forgotten(key) if record is None else record.get("position", {}).get("segment", 0)
        )
        return number > int(through)

    def _merge(self) -> bool:
        """Make one segment of many; gives whether there was something to do."""
        parts = self._mergeable()
        if not parts:
            return False
        merged = self._landing.merge(parts, self._through, self._gone)
        for part in parts:
            del self._segments[part.number]
        self._segments[merged.number] = merged
        old = {part.number for part in parts}
        for key in {key for part in parts for key in part.by_key} & self._epochs.keys():
            known = self._epochs[key]
            known.segments = [number for number in known.segments if number not in old]
            if key in merged.by_key:
                known.segments = sorted([*known.segments, merged.number])
        return True

    def _mergeable(self) -> list[Segment]:
        """The oldest of those that follow one another and were merged equally often, if they are many."""
        best: list[Segment] = []
        run: list[Segment] = []
        for segment in (*self.segments, None):
            fits = segment is not None and segment.size < _MERGED_BYTES // 2
            if segment is not None and fits and (not run or run[-1].level == segment.level):
                run.append(segment)
                continue
            if len(run) >= self._config.engine.merge_segments and (not best or run[0].level < best[0].level):
                best = run
            run = [segment] if segment is not None and fits else []
        size, chosen = 0, []
        for segment in best:
            size += segment.size
            if size > _MERGED_BYTES:
                break
            chosen.append(segment)
        return chosen

    def _fold(self) -> None:
        """Books of epochs that have long been closed move into the archive, and out of memory."""
        done = [
            key for key, known in self._epochs.items() if known.closed and not known.news and not known.fresh
        ]
        keep = self._config.engine.keep_books
        if len(done) > 2 * keep:
            done.sort(key=lambda key: (self._schedules[key[0]].close(key[1]), key))
            done = done[: len(done) - keep]
            folder = Path(self._config.outputs.output)
            collections = {digest: schedule.collection for digest, schedule in self._schedules.items()}
            self._archive.add(
                folder / accounting_file_name(collections[digest], epoch) for digest, epoch in done
            )
            for key in done:
                del self._epochs[key]
            self._archive.forget(self.watermark // _MICROS - self._config.engine.keep_accounting)

    def _record(self, status: str) -> None:
        """The record of the run so far."""
        epochs = {**self._strange, **self._epochs}
        books = Accounting({key: known.account for key, known in epochs.items()})
        books.accounts.update({(digest, None): known.account for digest, known in self._others.items()})
        files = [f for known in epochs.values() for f in known.files]
        record = run_record(
            self._config,
            books,
            files,
            self._wait() - self._started,
            archived=self._archive.sums(),
            status=status,
            indicators=indicators_record((*key, known.indicators) for key, known in self._epochs.items()),
            stream=StreamRecord(
                self._config.input.subscription,
                self._config.input.timestamp_attribute,
                self.watermark,
                self._number,
                len(self._segments),
                self.unstamped,
                self._keeper.record(),
            ),
        )
        write_record(self._config.outputs.output, record)
        self.record = record
        self._recorded = self._wait()

    def _status(self) -> Status:
        """What the engine is doing; everything it holds is looked at, which is not much."""
        total = self._archive.account
        for known in (*self._strange.values(), *self._epochs.values(), *self._others.values()):
            total.merge(known.account)
            for what, count in known.news.items():
                total.add(what, count)
        now, mark = self._keeper.now(), self.watermark / _MICROS
        return Status(
            self._pulled,
            self._landed,
            total.read,
            total.counted,
            total.late,
            total.duplicate,
            total.rejected_record(),
            total.pending,
            self._published,
            mark,
            max(now - mark, 0.0) if mark else 0.0,
            self.connected,
            self._keeper.jumped,
            sum(not known.closed for known in self._epochs.values()),
            len(self._segments),
        )


def _entries(known: _Open, *, without_counts: bool) -> Iterable[tuple[str, int]]:
    """Everything booked so far; counts and repeats only where they are not counted afresh."""
    total: Counter[str] = Counter(known.news)
    total.update(read=known.account.read, late=known.account.late, repeated=known.account.repeated)
    for reason, count in known.account.rejected.items():
        total[f"rejected.{reason}"] += count
    if without_counts:
        del total[CONFLICTING]
    else:
        total.update(counted=known.account.counted, duplicate=known.account.duplicate)
    return [(what, count) for what, count in sorted(total.items()) if count]
