"""Batches that other threads count: the same counts, a bounded number of them waiting, and no thread left."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from ldpbeam.collection.collection import Collection
from ldpbeam.epoch_result import count_support
from ldpbeam.reports import ReportColumns
from ldpbeam.support import Support
from ldpbeam.transforms.coders import SupportCoder
from ldpbeam.transforms.stages import counting_threads
from ldpbeam.transforms.stages.counting_threads import NAME, counting_with, current, spare_cores
from ldpbeam.transforms.stages.support import CountSupport
from tests.transforms.stages.test_support import AGREED, columns
from tests.waiting import PATIENCE


@pytest.fixture(autouse=True)
def _always_worth_it(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Batches of a few reports are given to threads too; and no test leaves a thread behind."""
    monkeypatch.setattr(counting_threads, "_WORTH", 0.0)
    yield
    assert current() is None
    assert not [one for one in threading.enumerate() if one.name.startswith(NAME)]


class Watch:
    """Who counted how many batches, and how many were being counted by other threads at most."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.by, self.most, self._now, self._lock = Counter[str](), 0, 0, threading.Lock()
        self.hold = threading.Event()
        self.hold.set()
        self._count = count_support
        monkeypatch.setattr(counting_threads, "count_support", self)

    def __call__(
        self, collection: Collection, parts: tuple[ReportColumns], into: Support | None = None
    ) -> Support:
        aside = threading.current_thread().name.startswith(NAME)
        with self._lock:
            self.by["aside" if aside else "here"] += 1
            self._now += aside
            self.most = max(self.most, self._now)
        if aside:
            assert self.hold.wait(PATIENCE)
        try:
            return self._count(collection, parts, into)
        finally:
            with self._lock:
                self._now -= aside


@pytest.mark.parametrize("name", AGREED)
@pytest.mark.parametrize("threads", [1, 3])
def test_counts_are_those_of_one_thread(name: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever counts, and however accumulators are merged and sent; every report once."""
    agreed, watch = AGREED[name], Watch(monkeypatch)
    batches = [columns(agreed, n % 7 + 1, n) for n in range(60)]
    wanted = CountSupport(agreed).create_accumulator()
    for batch in batches:
        wanted = CountSupport(agreed).add_input(wanted, batch)
    count = CountSupport(agreed, aside=True)
    with counting_with(threads):
        parts = [count.create_accumulator() for _ in range(3)]
        for i, batch in enumerate(batches):
            parts[i % 3] = count.add_input(parts[i % 3], batch)
        coder = SupportCoder()
        sent = coder.decode(coder.encode(count.compact(parts[0])))
        total = count.extract_output(count.merge_accumulators([sent, *parts[1:]]))
    assert total == wanted
    assert total.reports == sum(map(len, batches))
    assert watch.by.total() == 60
    assert watch.by["aside"] > 0
    assert watch.most <= threads


def test_the_thread_that_reads_counts_when_the_others_have_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a thread that stands still nothing stands still, and two batches wait, not fifty."""
    agreed, watch = AGREED["loloha"], Watch(monkeypatch)
    count = CountSupport(agreed, aside=True)
    batches = [columns(agreed, 5, n) for n in range(50)]
    watch.hold.clear()
    with counting_with(1):
        found = count.create_accumulator()
        for batch in batches:
            found = count.add_input(found, batch)
        assert isinstance(found, counting_threads.PartlyCounted)
        assert len(found.aside) == 2
        assert found.reports == 48 * 5
        watch.hold.set()
        found = count.compact(found)
        assert isinstance(found, counting_threads.PartlyCounted)
        assert not found.aside
    wanted = CountSupport(agreed).create_accumulator()
    for batch in batches:
        wanted = CountSupport(agreed).add_input(wanted, batch)
    assert found == wanted


def test_what_no_thread_has_begun_is_counted_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that are ended lose no batch, and after that there are none to give a batch to."""
    agreed, watch = AGREED["loloha"], Watch(monkeypatch)
    count = CountSupport(agreed, aside=True)
    watch.hold.clear()
    with counting_with(1):
        threads = current()
        found = count.create_accumulator()
        for n in range(4):
            found = count.add_input(found, columns(agreed, 5, n))
        assert isinstance(found, counting_threads.PartlyCounted)
        assert len(found.aside) == 2
        threading.Timer(0.2, watch.hold.set).start()
    assert threads is not None
    threads.add(columns(agreed, 5, 9), found)
    done = count.extract_output(found)
    assert done.reports == 25
    wanted = CountSupport(agreed).create_accumulator()
    for n in (0, 1, 2, 3, 9):
        wanted = CountSupport(agreed).add_input(wanted, columns(agreed, 5, n))
    assert done == wanted


def test_a_batch_that_cannot_be_counted_is_told_to_whoever_asks() -> None:
    """An error in another thread is not a batch that nobody misses."""
    agreed = AGREED["loloha"]
    count = CountSupport(agreed, aside=True)
    broken = ReportColumns(agreed.digest, 3, np.zeros(5, np.uint64), np.zeros((5, 1, 1), np.uint8))
    with counting_with(1):
        found = count.add_input(count.create_accumulator(), columns(agreed, 5, 1))
        with pytest.raises(Exception, match=r".+"):
            found = count.add_input(found, broken)
            count.compact(found)


def test_small_batches_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting them takes less than giving them away; steps that are not asked to do not give any away."""
    watch = Watch(monkeypatch)
    agreed = AGREED["loloha"]
    plain = CountSupport(agreed)
    with counting_with(1):
        found = plain.add_input(plain.create_accumulator(), columns(agreed, 5, 1))
        assert not isinstance(found, counting_threads.PartlyCounted)
        monkeypatch.setattr(counting_threads, "_WORTH", 10.0)
        count = CountSupport(agreed, aside=True)
        for n in range(5):
            found = count.add_input(found, columns(agreed, 5, n))
    assert watch.by == {"here": 5}


def test_one_core_means_no_further_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as the process may use, less the one that reads; and no more than it could feed."""
    for cores, further in ((1, 0), (2, 1), (64, 7)):
        monkeypatch.setattr("os.sched_getaffinity", lambda _, n=cores: set(range(n)), raising=False)
        assert spare_cores() == further
    with counting_with(0):
        assert current() is None
