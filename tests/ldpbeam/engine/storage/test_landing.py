"""The engine's file: what is landed is there again, what nobody needs goes, and every damage is noticed."""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow.parquet as pq
import pytest

from ldpbeam.accounting import Account, Accounting
from ldpbeam.admission import Parts, ReportColumns
from ldpbeam.arrays import read_only
from ldpbeam.collection.collection import Collection, digest_hex
from ldpbeam.collection.epochs import Epochs
from ldpbeam.durable.store import Transaction
from ldpbeam.engine.run import run_local
from ldpbeam.engine.storage import landing as module
from ldpbeam.engine.storage.landing import Landing
from ldpbeam.engine.storage.segment import Segment, judge
from ldpbeam.engine.storage.stream_state import StreamState
from ldpbeam.errors import LdpError, Reason
from ldpbeam.job.config import RunConfig
from ldpbeam.records.run_record import ClockRecord
from ldpbeam.schedule import Schedule
from ldpbeam.wire import report_pb2
from tests.ldpbeam.engine import kept as reading
from tests.ldpbeam.engine.test_engine import Bench
from tests.pipelines.running import collection, fleet
from tests.reference.stream import batch_message

HOUR = 3600
ONE = collection("grr", 4, "one", epochs=Epochs(HOUR, 0, 100), allowed_lateness=600)
TWO = collection("loloha", 5, "two", epochs=Epochs(HOUR, 0, 100), allowed_lateness=600)
CLOCK = ClockRecord("", 0.0, 0.0, False, False)
BOTH = {c.digest: c for c in (ONE, TWO)}


def message(agreed: Collection, epoch: int, names: range, payload: bytes | None = None) -> bytes:
    payloads = fleet(agreed, 60, 1)[0].payloads[: len(names)].tobytes()
    return batch_message(agreed.digest, epoch, names, payloads if payload is None else payload * len(names))


def state(output: Path) -> StreamState:
    return StreamState(Landing(str(output)), str(output), {c.digest_hex: Schedule(c) for c in (ONE, TWO)})


@pytest.fixture
def output(tmp_path: Path) -> Path:
    (tmp_path / "landing").mkdir()
    return tmp_path


def segment(*data: bytes, watermark: int = 0, **more: Any) -> Segment:
    return judge(data, [watermark + 1] * len(data), BOTH, watermark=watermark, **more)


def found(known: StreamState) -> dict[tuple[str, int], list[list[int]]]:
    """Ids of the reports by epoch, each part by itself."""
    return {
        key: [part.report_ids.tolist() for part in parts] for key, parts in known.read(known.landed).items()
    }


def test_what_is_landed_is_there_again(output: Path) -> None:
    known = state(output)
    known.land(segment(message(ONE, 0, range(5)), message(TWO, 0, range(7)), message(ONE, 0, range(3, 9))))
    known.land(segment(message(ONE, 1, range(2)), message(ONE, 0, range(20, 21)), b"junk", unstamped=2))
    for one in (known, state(output)):
        assert (one.number, one.messages, one.unstamped, one.landed_rows) == (2, 6, 2, 4)
        assert found(one) == {
            (ONE.digest_hex, 0): [[0, 1, 2, 3, 4, 3, 4, 5, 6, 7, 8], [20]],
            (ONE.digest_hex, 1): [[0, 1]],
            (TWO.digest_hex, 0): [list(range(7))],
        }
        assert one.total == Account(read=22, rejected=Counter(malformed=1))
        assert [m.message for m in one.refused(2)] == [b"junk"]
        assert one.refused(1) == []
    assert known._landing.path.stat().st_mode & 0o777 == 0o600


def test_parts_of_any_layout_in_memory_are_kept(output: Path) -> None:
    draw = np.random.default_rng(1)
    width = TWO.protocol.device.payload_size + 1
    parts = []
    for n in (1, 200_000, 3):
        ids, rows = draw.integers(0, 1 << 64, 2 * n, np.uint64), draw.integers(0, 5, (n, width), np.uint8)
        parts.append(ReportColumns(TWO.digest, 7, ids[::2], read_only(rows[:, :-1])))
    state(output).land(Segment(0, admitted=(Parts(parts),)))
    key = (TWO.digest_hex, 7)
    again = state(output)
    assert (again.landed[key].reports, again.landed[key].rows) == (200_004, 1)
    (back,) = again.read([key])[key]
    assert np.array_equal(back.report_ids, np.concatenate([p.report_ids for p in parts]))
    assert np.array_equal(back.payloads, np.concatenate([p.payloads for p in parts]))


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_leaves_a_segment_whole_or_not_at_all(output: Path, when: str) -> None:
    known = state(output)
    known.land(segment(message(ONE, 0, range(5)), b"junk", taken=(("a.pb", 9),)))
    commit = Transaction.commit

    def die(rows: Transaction) -> None:
        if when == "after":
            commit(rows)
        raise KeyboardInterrupt

    with mock.patch.object(Transaction, "commit", die), pytest.raises(KeyboardInterrupt):
        known.land(segment(message(ONE, 0, range(5, 8)), b"more junk", taken=(("a.pb", 20), ("b.pb", 1))))
    for name in ("landing/x.0a1b2c3d.tmp", "rejects/y.0a1b2c3d.tmp", "run.json.0a1b2c3d.tmp"):
        (output / name).write_bytes(b"half")
    again, late = state(output), when == "after"
    assert again.number == 1 + late
    assert again.taken == ({"a.pb": 20, "b.pb": 1} if late else {"a.pb": 9})
    assert again.total.read == (10 if late else 6)
    assert len(found(again)[ONE.digest_hex, 0]) == 1 + late
    names = [f"rejects-segment-{number:010d}.parquet" for number in range(1, 2 + late)]
    assert sorted(path.name for path in (output / "rejects").iterdir()) == names
    assert not list(output.rglob("*.tmp"))


REFUSED = [
    (b"junk", "malformed"),
    (report_pb2.ReportBatch(digest=ONE.digest, payloads=b"\1").SerializeToString(), "malformed"),
    (message(ONE, 0, range(3)) + b"\x28\x09", "malformed"),
    (b"", "malformed"),
    (message(ONE, 0, range(3), b"\0\0"), "wrong_length"),
    (message(ONE, 0, range(3), b"\xff"), "value_out_of_range"),
    (message(ONE, 100, range(3)), "foreign_epoch"),
    (message(ONE, 5, range(3)), "future_epoch"),
    (message(collection("grr", 4, "stranger"), 0, range(3)), "unknown_collection"),
]


def test_refused_messages_are_kept_as_they_came(output: Path) -> None:
    """Beside a sound one, before and after it, and empty ones, which all have a place of their own."""
    sent = [b"", message(ONE, 0, range(3)), *(refused for refused, _ in REFUSED), b""]
    one = segment(*sent)
    state(output).land(one)
    books = Accounting.from_entries(one.entries).total
    kept = state(output).refused(1)
    assert [each.message for each in kept] == [message for message in sent if message != sent[1]]
    reasons = ["malformed", *(reason for _, reason in REFUSED), "malformed"]
    assert [each.reason for each in kept] == list(map(Reason, reasons))
    rows = pq.read_table(output / "rejects" / "rejects-segment-0000000001.parquet").to_pylist()
    assert {row["place"] for row in rows} == {each.place for each in kept}
    assert {row["source"] for row in rows} == {"landing/engine.sqlite#1"}
    assert sum(row["count"] for row in rows) == sum(books.rejected.values()) == books.read - 3


def test_what_is_taken_up_again_is_no_longer_refused(output: Path) -> None:
    known = state(output)
    known.land(segment(b"one", b"two", b"three"))
    known.land(segment(b"four"))
    places = [one.place for one in known.refused(1)]
    known.land(Segment(0, replayed=frozenset([(1, places[1]), (2, known.refused(2)[0].place)])))
    for again in (known, state(output)):
        assert [(one.place, one.message) for one in again.refused(1)] == [
            (places[0], b"one"),
            (places[2], b"three"),
        ]
        assert again.refused(2) == []


def test_an_epoch_of_which_nothing_was_read_is_not_booked() -> None:
    """A single report from the future belongs to no epoch; its epoch must not haunt the books."""
    one = report_pb2.Report(digest=ONE.digest, epoch=5, report_id=1, payload=b"\0").SerializeToString()
    assert {key for (key, _), _ in segment(one).entries} == {(ONE.digest_hex, None)}


def test_a_closed_epoch_stays_closed() -> None:
    """Whatever its lateness is now: its reports may be gone."""
    closed = frozenset([(ONE.digest_hex, 0)])
    one = segment(message(ONE, 0, range(3)), message(TWO, 0, range(4)), closed=closed)
    assert [digest_hex(some[0].digest) for some in one.admitted] == [TWO.digest_hex]
    assert Accounting.from_entries(one.entries).accounts[ONE.digest_hex, 0].late == 3


# --- with an engine


def test_reports_go_when_nobody_needs_them_any_more(tmp_path: Path) -> None:
    """Closed for as long as asked: not earlier. A restart knows what they said; numbers go on."""
    bench = Bench(tmp_path, ONE, keep_landed=1000)
    bench.broker.publish(message(ONE, 0, range(3)))
    bench.broker.publish(b"junk")
    bench.step()
    bench.broker.publish(message(ONE, 1, range(4)))
    bench.step()

    def until(moment: float) -> tuple[int, int]:
        bench.until(moment)
        return bench.engine.status.segments, len(bench.engine.state.refused(1))

    assert until(HOUR + 700) == (2, 0)  # refused messages belong to no epoch
    bench.start(ONE)
    assert until(HOUR + 1500) == (2, 0)
    assert until(HOUR + 1700) == (1, 0)
    assert until(3 * HOUR) == (0, 0)
    assert (tmp_path / "rejects" / "rejects-segment-0000000001.parquet").is_file()
    bench.start(ONE)
    bench.broker.publish(message(ONE, 0, range(3)))
    bench.step()
    total = bench.stop()
    assert (total["read"], total["counted"], total["late"]) == (3 + 4 + 1 + 3, 7, 3)


def test_refused_messages_of_a_backlog_stay_as_long_as_others(tmp_path: Path) -> None:
    """They are landed when the engine knows of no time yet, or of that before an outage."""
    day = 86400.0
    bench = Bench(tmp_path, ONE, keep_landed=HOUR)
    bench.clock.now = 30 * day
    bench.start(ONE)
    bench.broker.publish(b"old junk", 10 * day)
    bench.step()
    assert bench.watermark == 0
    bench.broker.publish(b"new junk" * 10_000)
    bench.step(4)
    bench.until(30 * day + 0.9 * HOUR)
    assert bench.watermark > 30 * day
    refused = bench.engine.state.refused
    assert [one.message for one in refused(1) + refused(2)] == [b"old junk", b"new junk" * 10_000]
    bench.until(30 * day + 1.2 * HOUR)
    assert not refused(1) + refused(2)
    assert not reading.kept(tmp_path, reading.REFUSED)
    assert (tmp_path / "landing" / "engine.sqlite").stat().st_size < 80_000


def closed(known: StreamState) -> StreamState:
    """With all that it knows of epoch 0 of the first collection published, and the epoch closed."""
    epoch = known.epochs[ONE.digest_hex, 0]
    epoch.closed, epoch.has_new_reports = True, False
    epoch.unpublished_entries.clear()
    return known


def test_reports_and_refused_messages_go_at_their_time(output: Path) -> None:
    """Once the horizon reaches the close of the epoch, or the watermark at which a message was landed."""
    known, close = state(output), (HOUR + 600) * 1_000_000
    known.land(segment(message(ONE, 0, range(3))))
    known.land(segment(b"junk", watermark=close, now=5))
    for horizon, there in ((close - 1, True), (close, False)):
        closed(known).maintain(clock=CLOCK, horizon=horizon, in_memory=99, exists=lambda name: True)
        assert (bool(known.landed), bool(known.refused(2))) == (there, there)


def test_much_is_removed_in_parts_and_the_file_shrinks_once_little_is_left(output: Path) -> None:
    """One change removes no more than is said, and what is written anew is not more than that either."""
    with mock.patch.object(module, "AT_ONCE", 3000):
        known = state(output)
        for n in range(10):
            known.land(segment(*[message(ONE, 0, range(50 * n, 50 * n + 50))] * 2))
        closed(known)
        rows, sizes = [], [known._landing.path.stat().st_size]
        while known.landed:
            rows.append(known.landed_rows)
            known.maintain(clock=CLOCK, horizon=1 << 62, in_memory=99, exists=lambda name: True)
            sizes.append(known._landing.path.stat().st_size)
    assert rows == [10, 6, 2]
    assert sizes[0] == sizes[1] > sizes[2]
    assert state(output).landed == {}


def test_files_for_readers_are_made_what_the_engines_file_says(tmp_path: Path) -> None:
    """Damaged ones, and ones that are gone; the engine believes none of them."""
    bench = Bench(tmp_path, ONE)
    bench.broker.publish(message(ONE, 0, range(5)))
    bench.broker.publish(b"junk")
    bench.step()
    bench.until(HOUR + 10.0)
    files = {path: path.read_bytes() for path in (tmp_path / "accounting").iterdir()}
    assert len(files) == 2
    one, other = sorted(files)
    one.write_bytes(files[one].replace(b'"alarm"', b'"blarm"').replace(b'"counted": 5', b'"counted": 6'))
    other.unlink()
    bench.start(ONE)
    assert {path: path.read_bytes() for path in (tmp_path / "accounting").iterdir()} == files
    assert bench.stop()["counted"] == 5


# --- damage


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """What an engine leaves that has published, archived, refused and removed something."""
    folder = tmp_path / "small"
    bench = Bench(folder, ONE, TWO, keep_accounts=0, keep_landed=HOUR)
    bench.broker.publish(message(ONE, 0, range(3)))
    bench.broker.publish(b"junk")
    bench.step()
    bench.until(HOUR + 1300.0)
    bench.broker.publish(message(ONE, 1, range(4)))
    bench.broker.publish(message(ONE, 99, range(4)))
    bench.step()
    bench.stop()
    state(folder).land(acknowledged(20))
    assert state(folder).landed_rows == 3
    return folder


def acknowledged(first: int) -> Segment:
    """What an engine lands once more: reports, something refused, and a position in a file."""
    data = message(ONE, 1, range(first, first + 3)), b"more junk"
    return segment(*data, watermark=5000 * 1_000_000, taken=((f"{first}.pb", 9),))


def said(output: Path) -> Any:
    """All that an engine reads back."""
    known = state(output)
    return (
        (known.number, known.watermark, known.messages, known.clock),
        known.total,
        known.archived,
        known.revisions(),
        found(known),
        [known.refused(number) for number in range(1, known.number + 1)],
        known.taken,
        known.unattributed,
        {key: (one.numbered, one.published, one.has_new_reports) for key, one in known.epochs.items()},
    )


CODES = {"E-LANDING-DAMAGED", "E-LANDING-OLDER", "E-LANDING-SENTINEL", "E-LANDING-VERSION"}


def outcome(folder: Path, whole: Any) -> str:
    """A code, or ``same``; anything else than what was landed is a failure."""
    try:
        return "same" if said(folder) == whole else "other"
    except LdpError as error:
        assert error.where
        assert error.remedy
        return error.code


def steps(some: int) -> pytest.MarkDecorator:
    """One of so many places is tried; in `make nightly` one of 11."""
    return pytest.mark.parametrize("step", [some, pytest.param(11, marks=pytest.mark.thorough)])


def changed(content: bytes, step: int) -> Iterator[bytes]:
    """With one bit flipped, for every so manyth bit, and cut behind some bytes."""
    for bit in range(0, 8 * len(content), step):
        yield content[: bit >> 3] + bytes([content[bit >> 3] ^ 1 << (bit & 7)]) + content[(bit >> 3) + 1 :]
    for length in [*range(0, len(content), max(step, 50)), len(content) - 1]:
        yield content[:length]


@steps(293)
@pytest.mark.parametrize("name", ["engine.sqlite", "sentinel"])
@pytest.mark.cases(1)
def test_every_flipped_bit_and_every_cut_is_noticed_or_harmless(small: Path, name: str, step: int) -> None:
    whole, folder = said(small), small / "landing"
    tally: Counter[str] = Counter()
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    for content in changed(files[name], step):
        for each in folder.iterdir():
            each.unlink()
        for other, as_it_was in files.items():
            (folder / other).write_bytes(content if other == name else as_it_was)
        tally[found := outcome(small, whole)] += 1
        cut = name == "engine.sqlite" and len(content) < len(files[name])
        assert found in ({"E-LANDING-DAMAGED"} if cut else CODES | {"same"}), len(content)
    if name == "engine.sqlite":
        assert tally["E-LANDING-DAMAGED"] > 10
    (folder / name).unlink()
    assert outcome(small, whole) == ("E-LANDING-DAMAGED" if name == "engine.sqlite" else "same")


@pytest.mark.parametrize("first", [0, 2])
def test_rows_that_are_gone_or_back_are_noticed(output: Path, first: int) -> None:
    """As pages of another moment hide rows or bring them back: of reports (0) and refused messages (2)."""
    known = state(output)
    for n in range(2):
        known.land(segment(message(ONE, 0, range(n, n + 3))))
    known.land(segment(b"one", b"two"))
    known.land(Segment(0, replayed=frozenset([(3, known.refused(3)[0].place)])))
    key = sorted(reading.kept(output, reading.CONTENT))[first] + (reading.CONTENT << 56)
    for change in ("DELETE FROM rows WHERE key = ?", "UPDATE rows SET key = key + 99 WHERE key = ?"):
        folder = output / change.split()[0]
        shutil.copytree(output / "landing", folder / "landing")
        with sqlite3.connect(folder / "landing" / "engine.sqlite") as base:
            assert base.execute(change, (key,)).rowcount == 1
        base.close()
        again = state(folder)
        with pytest.raises(LdpError, match="E-LANDING-DAMAGED"):
            again.refused(3) if first else again.read(again.landed)
    assert [one.message for one in state(output).refused(3)] == [b"two"]


def test_an_older_copy_is_refused(small: Path) -> None:
    copy = (small / "landing" / "engine.sqlite").read_bytes()
    state(small).land(segment(b"junk"))
    (small / "landing" / "engine.sqlite").write_bytes(copy)
    with pytest.raises(LdpError, match="E-LANDING-OLDER"):
        state(small)


def test_a_change_by_another_program_is_noticed(small: Path) -> None:
    known, other = state(small), Landing(str(small))
    other.open()
    with other.change():
        pass
    with pytest.raises(LdpError, match=r"another program has changed it .*E-LANDING-DAMAGED"):
        known.land(segment(b"junk"))


@pytest.fixture
def killed(small: Path) -> dict[str, bytes]:
    """The folder of an engine that was killed with all pages written and nothing committed."""
    folder = small / "landing"
    state(small)
    base = sqlite3.connect(folder / "engine.sqlite", isolation_level=None)
    base.execute("PRAGMA synchronous = OFF")
    base.execute("PRAGMA cache_size = 1")  # so that pages are written while the change is under way
    base.execute("BEGIN IMMEDIATE")
    base.execute("PRAGMA user_version = 1")  # so that the first page is in the journal too
    base.execute("UPDATE rows SET content = zeroblob(length(content)), digest = zeroblob(32)")
    left = {path.name: path.read_bytes() for path in folder.iterdir()}
    base.execute("ROLLBACK")
    base.close()
    assert left["engine.sqlite"] != (folder / "engine.sqlite").read_bytes()
    return left


@pytest.mark.parametrize("hot", [False, pytest.param(True, marks=pytest.mark.thorough)])
@steps(499)
def test_damage_of_a_journal_takes_no_acknowledged_change_with_it(
    small: Path, killed: dict[str, bytes], hot: bool, step: int
) -> None:
    """Of one that is to be played back (hot), or that a disk brings back which has the change already."""
    folder, journal = small / "landing", killed["engine.sqlite-journal"]
    if not hot:
        state(small).land(acknowledged(30))
    whole = said(small)
    files = killed if hot else {path.name: path.read_bytes() for path in folder.iterdir()}
    tally: Counter[str] = Counter()
    for content in (journal, *changed(journal, step)):
        for name, as_it_was in {**files, "engine.sqlite-journal": content}.items():
            (folder / name).write_bytes(as_it_was)
        tally[found := outcome(small, whole)] += 1
        assert content != journal or found == ("same" if hot else "E-LANDING-OLDER")
    assert tally.keys() <= CODES | {"same"}, tally


def test_a_streams_own_file_that_is_gone_is_missed(small: Path) -> None:
    config = RunConfig.parsed((ONE, TWO), output=str(small), watch=str(small))
    shutil.rmtree(small / "landing")
    for _ in range(2):
        with pytest.raises(LdpError, match=r"run\.json knows of it.*Restore the folder.*E-LANDING-DAMAGED"):
            run_local(config)


def test_the_end_of_a_failed_start_lets_others_in(small: Path) -> None:
    path = small / "landing" / "engine.sqlite"
    path.write_bytes(path.read_bytes()[:-1])
    (small / "landing").chmod(0o755)
    config = RunConfig.parsed((ONE, TWO), output=str(small), watch=str(small))
    with pytest.raises(LdpError, match="E-LANDING-DAMAGED"):
        run_local(config)
    with Landing(str(small)).locked():
        assert (small / "landing").stat().st_mode & 0o777 == 0o700
