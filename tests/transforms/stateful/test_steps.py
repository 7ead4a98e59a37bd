"""Counting without an end: what is told in the end depends on the reports alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.pipeline_context import PipelineContext
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from ldpbeam.admission import ReportColumns
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.epochs import Epochs
from ldpbeam.errors import LdpError
from ldpbeam.job.config import RunConfig
from ldpbeam.pipelines.unbounded import collect_stream
from ldpbeam.support import Support
from ldpbeam.transforms.coders import ReportColumnsCoder, SupportCoder
from ldpbeam.transforms.stateful import count_shard
from ldpbeam.transforms.stateful.count_shard import FORGET_AFTER, CountShard, ShardState
from ldpbeam.transforms.stateful.state import ShardCount, read_state, write_state
from ldpbeam.transforms.stateful.sum_shards import SummedEpoch, SumShards
from tests.conftest import REPOSITORY
from tests.narrow import present
from tests.pipelines.running import collection, fleet, with_duplicates
from tests.reference.stream import batch_message
from tests.transcripts.machine import FOREVER, Cells, FakeBag, FakeCell, Machine, Sent, call, expected_of
from tests.transcripts.state import generate as golden
from tests.transforms.graphs import labels

GOLDEN = REPOSITORY / "tests" / "pipelines" / "stream_labels.txt"
STATE = Path(golden.__file__).parent
MINUTE = 60_000_000
END, CLOSE = 60 * MINUTE, 90 * MINUTE

DIRECT = collection("grr", name="direct", epochs=Epochs(3600, 0, 100), allowed_lateness=1800)
HASHED = collection("loloha", name="hashed", epochs=Epochs(3600, 0, 100), allowed_lateness=1800)
BOTH = (DIRECT, HASHED)
DIGEST = DIRECT.digest_hex


def pieces(batch: ReportColumns, size: int) -> Iterator[ReportColumns]:
    for at in range(0, len(batch.report_ids), size):
        some = slice(at, at + size)
        yield ReportColumns(batch.digest, batch.epoch, batch.report_ids[some], batch.payloads[some])


def all_of(agreed: Collection) -> list[ReportColumns]:
    return [part for batch in with_duplicates(fleet(agreed, 60, 2)) for part in pieces(batch, 9)]


SENT: list[tuple[int, ReportColumns]] = [(c.digest, batch) for c in BOTH for batch in all_of(c)]


def agree(found: Machine, sent: Iterable[Sent], deduplicate: bool = True) -> None:
    wanted = expected_of(found.collections.values(), sent, deduplicate)
    last = {
        key: (support.reports, counts_of(found, key[0], support), books)
        for key, (support, books) in found.final().items()
    }
    assert last == wanted
    assert {(d, r.epoch) for d, r in found.told if r.closed} == set(wanted)
    for line in (r.account for _, r in found.told):
        assert line.pending >= 0
    assert all(r.account.pending == 0 for r in {(d, r.epoch): r for d, r in found.told}.values())


def counts_of(found: Machine, digest: str, support: Any) -> list[int]:
    (agreed,) = (c for c in found.collections.values() if c.digest_hex == digest)
    return agreed.protocol.counter.support_counts(support.counts).tolist()


# --- whatever the order


@pytest.mark.parametrize(("worth", "copies", "left"), [(25, 0, 4), (26, 0, 1), (25, 1, 1)])
def test_a_bag_is_rewritten_where_it_gains_from_it(
    worth: int, copies: int, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts of 25 reports without a copy stay as they are where that is enough for one; the count is one."""
    monkeypatch.setattr(count_shard, "_WORTH", worth)
    step, cells = CountShard(Machine([DIRECT]).count._schedules), Cells()
    step.setup()
    (batch,) = fleet(DIRECT, 100, 1)
    cut = list(pieces(batch, 25))
    for part in [*cut, *cut[:copies]]:
        shard_part(step, cells, part)
    ((_, packed),) = fire(step, cells)
    count = ShardCount.unpack(packed)
    assert SupportCoder().decode(count.support).reports == held(cells) == 100
    assert len(cells.bag.items) == left
    assert count.repeats == 25 * copies


def many(reports: int) -> ReportColumns:
    ids = np.random.Generator(np.random.Philox(3)).integers(0, 2**64, reports, np.uint64)
    return ReportColumns(
        DIRECT.digest, 0, ids, np.zeros((reports, DIRECT.protocol.device.payload_size), np.uint8)
    )


def compacted_from(reports: int, worth: int, monkeypatch: pytest.MonkeyPatch) -> Cells:
    monkeypatch.setattr(count_shard, "_COMPACT_FROM", reports)
    monkeypatch.setattr(count_shard, "_WORTH", worth)
    return Cells()


def test_the_copies_of_one_device_are_left_out_in_time(
    step: CountShard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its id is hardly ever in the sample: that there are more reports than ids shows it."""
    cells = compacted_from(64, 1, monkeypatch)
    batch = many(2_000)
    one = next(pieces(batch, 1))
    copies = ReportColumns(one.digest, 0, one.report_ids.repeat(500), one.payloads.repeat(500, axis=0))
    shard_part(step, cells, batch)
    largest = 0
    for _ in range(60):
        shard_part(step, cells, copies)
        largest = max(largest, held(cells))
    assert 3_000 <= largest <= 6_000
    assert 60 // 16 <= cells.bag.reads <= 60 // 2
    known = read_state(cells.state, ShardState)
    assert known.stored == held(cells)
    assert known.stored + known.repeats == 2_000 + 60 * 500
    assert known.parts == len(cells.bag.items)


def test_small_parts_are_put_together(step: CountShard, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = compacted_from(64, 16, monkeypatch)
    for part in pieces(many(1_024), 4):
        shard_part(step, cells, part)
    assert cells.bag.reads == 5
    assert len(cells.bag.items) <= 1 + (1_024 - 512) // 4
    assert held(cells) == 1_024


# --- rules of one shard


def shard_part(
    step: CountShard, cells: Cells, batch: ReportColumns | None, when: int = 0, epoch: int = 0
) -> list[Any]:
    part = b""
    if batch is not None:
        columns = ReportColumns(DIRECT.digest, epoch, batch.report_ids, batch.payloads)
        part = ReportColumnsCoder().encode(columns)
    return call(step, "process", cells, ((DIGEST, epoch, 0), part), Timestamp(micros=when))


def held(cells: Cells) -> int:
    return sum(ReportColumnsCoder.reports(item) for item in cells.bag.items)


def fire(step: CountShard, cells: Cells) -> list[Any]:
    """The timer, as the runner fires it."""
    assert cells.due.at is not None
    at, cells.due.at = cells.due.at, None
    return call(step, "on_due", cells, (DIGEST, 0, 0), Timestamp(micros=at))


@pytest.fixture
def step() -> CountShard:
    found = Machine([DIRECT], early=600).count
    found.setup()
    return found


@pytest.fixture(scope="module")
def ten() -> ReportColumns:
    (batch,) = fleet(DIRECT, 10, 1)
    return batch


def test_a_shard_is_due_at_the_first_time_after_what_it_holds(step: CountShard, ten: ReportColumns) -> None:
    cells = Cells()
    shard_part(step, cells, ten, when=25 * MINUTE)
    assert cells.due.at == 30 * MINUTE
    shard_part(step, cells, ten, when=5 * MINUTE)
    assert cells.due.at == 10 * MINUTE
    times = []
    while present(cells.due.at) <= CLOSE:
        times.append(present(cells.due.at))
        fire(step, cells)
    assert times == [10 * MINUTE, END, CLOSE]
    assert cells.due.at == CLOSE + FORGET_AFTER


def test_a_count_of_which_nothing_has_changed_is_given_again(step: CountShard, ten: ReportColumns) -> None:
    """Not a report is read for it; one that has come since makes a new one, and at the close none is kept."""
    cells = Cells()
    shard_part(step, cells, ten)
    ((_, early),) = fire(step, cells)
    ((_, end),) = fire(step, cells)
    assert cells.bag.reads == 1
    assert ShardCount.unpack(end) == replace(ShardCount.unpack(early), due=END)
    shard_part(step, cells, ten, when=END)
    ((_, late),) = fire(step, cells)
    count = ShardCount.unpack(late)
    assert (cells.bag.reads, count.due, count.repeats) == (2, END + MINUTE, 10)
    ((_, close),) = fire(step, cells)
    assert ShardCount.unpack(close) == replace(count, due=CLOSE)
    assert (cells.bag.reads, cells.bag.items, cells.last.value) == (2, [], None)


def test_a_timer_that_fires_too_early_or_twice_changes_nothing(step: CountShard, ten: ReportColumns) -> None:
    """Whatever a runner does: a count is given once, and nothing is closed before its time."""
    cells = Cells()
    shard_part(step, cells, ten)
    first = fire(step, cells)
    again = Cells(FakeBag(list(cells.bag.items)), FakeCell(cells.state.value))
    for method in ("on_due", "on_watch"):
        for at in (0, 10 * MINUTE, END - 1000):
            assert call(step, method, again, (DIGEST, 0, 0), Timestamp(micros=at)) == []
            assert (again.due.at, again.watch.at) == (END, END + MINUTE)
    assert (again.bag.items, again.state.value) == (cells.bag.items, cells.state.value)
    assert first


def test_a_closed_shard_is_empty_and_books_what_comes_as_late(step: CountShard, ten: ReportColumns) -> None:
    cells = Cells()
    shard_part(step, cells, ten)
    for _ in range(3):
        assert fire(step, cells)
    assert cells.bag.items == []
    # What is remembered for a month is of a few fields, and of no report.
    known = read_state(cells.state, ShardState)
    assert known == ShardState(counted_at=CLOSE, due=CLOSE + FORGET_AFTER)
    assert shard_part(step, cells, ten) == [((DIGEST, 0), ("late", 10))]
    assert shard_part(step, cells, None) == []
    assert cells.bag.items == []


def test_a_shard_forgets(step: CountShard, ten: ReportColumns) -> None:
    cells = Cells()
    shard_part(step, cells, ten)
    for _ in range(3):
        fire(step, cells)
    assert fire(step, cells) == []
    assert (cells.bag.items, cells.state.value, cells.last.value, cells.due.at) == ([], None, None, None)
    assert call(step, "on_watch", cells, (DIGEST, 0, 0), Timestamp(micros=FOREVER // 4)) == []
    assert cells.state.value is None


def test_a_collection_that_was_removed_leaves_nothing(step: CountShard, ten: ReportColumns) -> None:
    """An update of the job took it out: what is under way is dropped, what is in state is cleared."""
    cells = Cells()
    shard_part(step, cells, ten)
    gone = CountShard({})
    fire(step, cells)
    assert present(cells.last.value)
    assert shard_part(gone, Cells(), ten) == []
    assert fire(gone, cells) == []
    assert (cells.bag.items, cells.state.value, cells.last.value) == ([], None, None)
    assert call(SumShards({}, 1), "process", Cells(), ((DIGEST, 0), ("read", 1)), Timestamp(0)) == []
    assert call(SumShards({}, 1), "on_due", Cells(), (DIGEST, 0), Timestamp(0)) == []


# --- rules of the sum


class Sum:
    def __init__(self, shards: int = 2) -> None:
        self.step = SumShards(Machine([DIRECT], early=600).count._schedules, shards)
        self.cells = Cells(FakeBag(in_order=True))

    def entry(self, what: str, count: int, when: int = 0) -> None:
        self._take((what, count), when)

    def shard(self, shard: int, due: int, n: int, repeats: int = 0) -> None:
        support = Support.zero_of(self.step._counters[DIGEST])
        support.counts[0] = support.reports = n
        self._take(ShardCount(shard, due, repeats, 0, SupportCoder().encode(support)).pack(), due)

    def _take(self, item: Any, when: int) -> None:
        call(self.step, "process", self.cells, ((DIGEST, 0), item), Timestamp(micros=when))

    def fire(self, method: str = "on_due") -> list[tuple[Any, ...]]:
        timer = self.cells.timers[method]
        if timer.at is None:
            return []
        at, timer.at = timer.at, None
        return self.fire_at(at, method)

    def fire_at(self, at: int, method: str = "on_due") -> list[tuple[Any, ...]]:
        found = [one for _, one in call(self.step, method, self.cells, (DIGEST, 0), Timestamp(micros=at))]
        for r in found:
            assert r.support is None or r.support.counts[0] == r.support.reports
        return [
            (
                r.revision,
                r.pane,
                r.support and r.support.reports,
                r.closed,
                r.account.counted,
                r.account.pending,
            )
            for r in found
        ]


def test_the_sum_waits_for_no_shard() -> None:
    total = Sum()
    total.entry("read", 5)
    assert total.cells.due.at == 10 * MINUTE + 1000
    total.shard(0, 10 * MINUTE, 2)
    assert total.fire() == [(0, "early", 2, False, 2, 3)]
    total.shard(1, 10 * MINUTE, 3)
    assert total.cells.due.at == 20 * MINUTE + 1000
    assert total.fire() == [(1, "early", 5, False, 5, 0)]


def test_a_count_that_says_nothing_new_makes_no_revision_but_at_the_end() -> None:
    total = Sum()
    total.entry("read", 9)
    total.shard(0, 10 * MINUTE, 6)
    total.shard(1, 10 * MINUTE, 3)
    assert total.fire() == [(0, "early", 9, False, 9, 0)]
    for due, expected in (
        (20 * MINUTE, [(0, "early", None, False, 9, 0)]),
        (END, [(1, "on_time", 9, False, 9, 0)]),
        (CLOSE, [(1, "on_time", None, True, 9, 0)]),
    ):
        total.shard(0, due, 6)
        total.shard(1, due, 3)
        assert total.fire() == expected
    assert total.cells.bag.items == []
    assert total.cells.due.at is None


def test_an_epoch_is_closed_when_its_last_shard_is() -> None:
    total = Sum()
    total.entry("read", 5, when=CLOSE - 1)
    total.shard(0, CLOSE, 2)
    assert total.fire() == [(0, "on_time", 2, False, 2, 3)]
    total.shard(1, END, 1)
    assert total.fire() == [(1, "late", 3, False, 3, 2)]
    total.shard(1, CLOSE, 3)
    assert total.fire() == [(2, "late", 5, True, 5, 0)]


def test_an_epoch_of_which_nothing_was_admitted_closes_by_itself() -> None:
    total = Sum()
    total.entry("read", 3, when=MINUTE)
    total.entry("rejected.malformed", 3, when=MINUTE)
    assert total.fire() == [(0, "on_time", None, False, 0, 0)]
    assert total.cells.due.at == CLOSE + 1000
    assert total.fire() == [(0, "on_time", None, True, 0, 0)]
    assert total.cells.due.at is None
    total.entry("read", 1, when=MINUTE)
    total.entry("rejected.malformed", 1, when=MINUTE)
    assert total.fire() == [(0, "on_time", None, True, 0, 0)]
    total.entry("read", 5, when=MINUTE)
    assert total.fire() == [(0, "on_time", None, True, 0, 5)]
    for due in (END, CLOSE):  # shards do not know of the close, and count what came since
        total.shard(0, due, 3, repeats=2)
        total.shard(1, due, 0)
    assert total.fire() == [(0, "on_time", None, True, 0, 0)]
    total.shard(1, CLOSE, 0)
    assert total.fire() == []


def test_entries_after_the_close_change_the_books_alone() -> None:
    total = Sum(1)
    total.entry("read", 2)
    total.shard(0, CLOSE, 2)
    assert total.fire() == [(0, "on_time", 2, True, 2, 0)]
    total.entry("read", 4, CLOSE - 1)
    total.entry("late", 3, CLOSE - 1)
    total.entry("rejected.malformed", 1, CLOSE + 1)
    assert total.cells.due.at == CLOSE + MINUTE + 1000
    assert total.fire() == [(0, "on_time", None, True, 2, 0)]


def test_an_old_count_of_a_shard_is_heard_once() -> None:
    total = Sum(1)
    total.entry("read", 2)
    total.shard(0, END, 2)
    total.shard(0, END, 7)
    total.shard(0, 10 * MINUTE, 7)
    assert total.fire() == [(0, "on_time", 2, False, 2, 0)]
    total.shard(0, END, 7)
    assert total.fire() == []


def test_admitted_is_what_nothing_else_has_become_of() -> None:
    """Repeated reports are among the rejected ones."""
    entries = Counter(
        {"read": 20, "late": 3, "rejected.malformed": 4, "rejected.bad_payload": 1, "repeated": 2}
    )
    assert SummedEpoch(entries=entries).admitted == 12


def test_repeats_are_those_of_the_newest_counts() -> None:
    total = Sum()
    for due, repeats in ((END, 1), (END + MINUTE, 5)):
        total.entry("read", 6)
        total.shard(0, due, 2, repeats)
        total.shard(1, due, 3, 0)
        last = call(total.step, "on_due", total.cells, (DIGEST, 0), Timestamp(micros=due + 1000))
    ((_, result),) = last
    assert (result.revision, result.account.counted, result.account.duplicate) == (1, 5, 5)


def test_a_timer_of_the_sum_that_fires_too_early_or_twice_publishes_nothing() -> None:
    total = Sum(1)
    total.entry("read", 2, when=END - 1)
    total.shard(0, END, 2)
    total.cells.due.lose()
    total.cells.watch.lose()
    assert total.fire_at(END) == []
    assert (total.cells.due.at, total.cells.watch.at) == (END + 1000, END + MINUTE + 1000)
    assert total.fire_at(END + 1000) == [(0, "on_time", 2, False, 2, 0)]
    assert total.fire_at(END + 1000) == []
    assert total.fire_at(END + MINUTE + 1000, "on_watch") == []


# --- on runners


def published(output: Path) -> dict[tuple[str, int], tuple[int, list[int], dict[str, object]]]:
    import pyarrow.parquet as pq

    found = {}
    for path in output.glob("accounting/*-epoch-*.json"):
        books = json.loads(path.read_text())
        assert books["closed"], path.name
        line = books["accounting"]
        assert line.pop("pending") == 0
        support = pq.read_table(output / books["revisions"][-1]["file"]).column("support").to_pylist()
        found[books["digest"], books["epoch"]] = (line["counted"], support, line)
    return found


def test_a_runner_publishes_what_the_rules_say(tmp_path: Path) -> None:
    """Two collections in bounded input; transcripts are played as streams."""
    config = RunConfig.parsed(BOTH, output=str(tmp_path), shard_bits=1, job="job")
    values = [
        TimestampedValue(
            batch_message(d, b.epoch, b.report_ids.tolist(), b.payloads.tobytes()),
            Timestamp(seconds=3600 * b.epoch + 60),
        )
        for d, b in SENT
    ]
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        messages = pipeline | beam.Create(values, reshuffle=False) | beam.Map(lambda value: value)
        _ = messages | "Collect" >> collect_stream(config)
    wanted = expected_of(BOTH, [(d, b, END - 1) for d, b in SENT])
    assert published(tmp_path) == wanted


# --- what a running job depends on


def stream_config(**changes: Any) -> RunConfig:
    return RunConfig.parsed((DIRECT, HASHED), output="out", **{"job": "job", **changes})


def built(config: RunConfig) -> beam.Pipeline:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    _ = pipeline | "Messages" >> beam.Create([b""], reshuffle=False) | "Collect" >> collect_stream(config)
    return pipeline


def stateful(pipeline: beam.Pipeline) -> list[str]:
    proto = pipeline.to_runner_api()
    context = PipelineContext(proto.components)
    coders = proto.components.coders

    def coder(name: str) -> str:
        spec = coders[name].spec
        short = spec.urn.removeprefix("beam:coder:").removesuffix(":v1")
        if short == "pickled_python":
            short = type(context.coders[name]).__name__
        inner = ", ".join(map(coder, coders[name].component_coder_ids))
        return f"{short}<{inner}>" if inner else short

    found = []
    for transform in sorted(proto.components.transforms.values(), key=lambda t: t.unique_name):
        if transform.spec.urn != common_urns.primitives.PAR_DO.urn:
            continue
        payload = beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload)
        if not (payload.state_specs or payload.timer_family_specs):
            continue
        name = transform.unique_name
        for source in transform.inputs.values():
            found.append(f"{name}: takes {coder(proto.components.pcollections[source].coder_id)}")
        for cell, spec in sorted(payload.state_specs.items()):
            which = spec.WhichOneof("spec")
            inner = getattr(spec, which)
            kept = getattr(inner, "element_coder_id", "") or getattr(inner, "coder_id", "")
            found.append(f"{name}: state {cell} {which.removesuffix('_spec')} {coder(kept)}")
        for timer, family in sorted(payload.timer_family_specs.items()):
            domain = beam_runner_api_pb2.TimeDomain.Enum.Name(family.time_domain).lower()
            found.append(f"{name}: timer {timer} {domain} {coder(family.timer_family_coder_id)}")
    return found


def graph() -> str:
    blocks = []
    for deduplicate in (True, False):
        pipeline = built(stream_config(deduplicate=deduplicate))
        blocks += ["\n".join(labels(pipeline)), "\n".join(stateful(pipeline))]
    return "\n\n".join(blocks) + "\n"


def test_labels_and_state_are_those_that_were_published() -> None:
    """A change here loses the state of running jobs: it must show in a diff of stream_labels.txt."""
    assert graph() == GOLDEN.read_text()


@pytest.mark.thorough
def test_other_shards_or_parts_do_not_find_the_state_of_these() -> None:
    """Ids would meet in other shards, or reports be read as counts: such a job is no update."""

    def steps(**changes: Any) -> set[str]:
        return {
            line.partition(": ")[0]
            for line in stateful(built(stream_config(**changes)))
            if "Others" not in line
        }

    shared = steps() & steps(shard_bits=2) | steps() & steps(deduplicate=False)
    assert shared == {"Collect/Unattributed/Sum/Sum"}


@pytest.mark.parametrize(("prefix", "deduplicate"), golden.NOW.items())
def test_state_of_running_jobs_is_read(prefix: str, deduplicate: bool) -> None:
    job = golden.machine(deduplicate)
    golden.read_state(STATE, prefix, job)
    assert len(job.shards) == (2 if deduplicate else 1)
    for one in golden.SENT[golden.BEFORE :]:
        job.advance(one[2])
        job.arrive(*one)
    job.advance()
    agree(job, golden.SENT, deduplicate)
    assert job.stored() == 0
    assert job.told[0][1].revision > 0


@pytest.mark.parametrize(("prefix", "deduplicate"), golden.NOW.items())
def test_state_is_written_as_it_was(prefix: str, deduplicate: bool, tmp_path: Path) -> None:
    job = golden.machine(deduplicate)
    golden.until_the_moment(job)
    golden.write_state(tmp_path, prefix, job)
    found = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert found == {p.name: p.read_bytes() for p in STATE.glob(f"{prefix}.*.bin")}


def test_state_is_read_by_name() -> None:
    cells = Cells()
    cells.state.write(b'{"version": 2, "counted_at": 5, "later": [1]}')
    assert read_state(cells.state, ShardState) == ShardState(counted_at=5)
    for kept in (ShardState(1, 2, True, 3, 4, 5), SummedEpoch(counts={3: 4}, entries=Counter(a=1))):
        write_state(cells.state, kept)
        assert read_state(cells.state, type(kept)) == kept


def test_state_of_another_format_is_refused() -> None:
    cells = Cells()
    for kept in (b'{"fired": 5, "due": 7}', b'{"version": 3, "counted_at": 5}'):
        cells.state.write(kept)
        with pytest.raises(LdpError, match=r"state format [13], this version reads 2.*E-STATE-VERSION"):
            read_state(cells.state, ShardState)
    count = ShardCount(7, -5, 9, 3, b"abc")
    assert ShardCount.unpack(count.pack()) == count
    with pytest.raises(LdpError, match="state format 1"):
        ShardCount.unpack(b"\1" + count.pack()[1:])


@pytest.mark.parametrize("deduplicate", [True, False])
def test_what_is_published_of_an_epoch_is_in_one_sequence(deduplicate: bool) -> None:
    """Also where only the account has changed, whose times may go back: the newest has the highest number."""
    job = golden.machine(deduplicate)
    golden.until_the_moment(job)
    late = [(golden.AGREED.digest, golden.SENT[0][1], when) for when in (200 * 60_000_000, 400 * 60_000_000)]
    for one in [*golden.SENT[golden.BEFORE :], *late]:
        job.advance(one[2])
        job.arrive(*one)
    job.advance()
    told = [counted for _, counted in job.told if counted.epoch == 0]
    assert [counted.sequence for counted in told] == list(range(len(told)))
    assert any(one.revision == two.revision for one, two in pairwise(told))
    assert told[-1].account.late == 2 * len(golden.SENT[0][1])
