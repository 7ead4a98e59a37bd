"""A collector's files: names, batches, a journal in which anything may be damaged, and what is made of it."""

from __future__ import annotations

import secrets
import struct
import zlib
from unittest import mock

import numpy as np
import pytest

from ldpbeam.admission import ReportColumns, batch_message
from ldpbeam.records import journal
from ldpbeam.wire import codec, report_pb2

DIGEST = 0x0123456789ABCDEF


def columns(ids: range, epoch: int = 0, digest: int = DIGEST, width: int = 1) -> ReportColumns:
    """Reports whose payloads follow from their ids."""
    payloads = (np.array(ids)[:, None] * 7 + np.arange(width)).astype(np.uint8)
    return ReportColumns(digest, epoch, np.array(ids, np.uint64), payloads)


def message(some: ReportColumns, arrival: int | None = None) -> report_pb2.ReportBatch:
    made = report_pb2.ReportBatch(
        digest=some.digest,
        epoch=some.epoch,
        count=len(some),
        report_ids=some.report_ids.tolist(),
        payloads=some.payloads.tobytes(),
    )
    if arrival is not None:
        made.arrival = arrival
    return made


def batches(content: bytes) -> list[report_pb2.ReportBatch]:
    """Length-delimited messages, read by protobuf's own class."""
    found, at = [], 0
    while at < len(content):
        length, shift = 0, 0
        while True:
            byte = content[at]
            at, length, shift = at + 1, length | (byte & 127) << shift, shift + 7
            if byte < 128:
                break
        found.append(report_pb2.ReportBatch.FromString(content[at : at + length]))
        at += length
    return found


# --- names


def test_the_names_of_a_journal_and_of_what_is_made_of_it() -> None:
    """The second is in all three, and nothing else ever has the name."""
    with mock.patch.object(secrets, "token_hex", return_value="0a1b"):
        name = journal.journal_name(1_700_000_001)
    assert name == ".journal-20231114T221321Z-0a1b"
    assert journal.finished_name(name) == "reports-20231114T221321Z-0a1b.pb"
    assert journal.damaged_name(name) == ".damaged-20231114T221321Z-0a1b"
    for one in (name, journal.finished_name(name), journal.damaged_name(name)):
        assert journal.started(one) == 1_700_000_001
    assert journal.journal_name(5) != journal.journal_name(5)
    assert journal.JOURNALS == ".journal-*"


# --- batches


@pytest.mark.parametrize("arrival", [None, 5, 1_700_000_001])
@pytest.mark.parametrize("epoch", [0, 7, 1 << 19])
def test_a_batch_is_byte_for_byte_that_of_protobuf(epoch: int, arrival: int | None) -> None:
    """With ids and payloads whose lengths need one byte, and two."""
    for ids, width in ((range(3), 2), (range(250, 300), 9)):
        some = columns(ids, epoch, width=width)
        assert batch_message(some, arrival) == message(some, arrival).SerializeToString()


@pytest.mark.parametrize(("limit", "rows"), [(11 * 4, 4), (11 * 5 - 1, 4), (11, 1), (1, 1), (10**6, 10)])
def test_parts_have_so_many_bytes_or_one_report(limit: int, rows: int) -> None:
    """A report takes 8 bytes of an id and 3 of a payload here; all are there, in their order."""
    some = columns(range(10), 4, width=3)
    parts = journal.of_a_size(some, limit)
    assert [len(part) for part in parts] == [min(rows, 10 - at) for at in range(0, 10, rows)]
    assert {(part.digest, part.epoch) for part in parts} == {(DIGEST, 4)}
    assert np.concatenate([part.report_ids for part in parts]).tolist() == some.report_ids.tolist()
    assert np.concatenate([part.payloads for part in parts]).tolist() == some.payloads.tolist()


# --- the journal


def written() -> tuple[bytes, list[int]]:
    """A journal of three entries of three reports each, and where each ends."""
    parts = [journal.entry(1000, [columns(range(first, first + 3))]) for first in (0, 10, 20)]
    return b"".join(parts), np.cumsum([len(part) for part in parts]).tolist()


def test_an_entry_has_its_second_its_length_and_the_checksum_of_all() -> None:
    one, other = columns(range(3)), columns(range(3, 9), 7)
    content = journal.entry(1000, [one, other])
    second, length, check = struct.unpack_from("<QQI", content)
    assert (second, length) == (1000, len(content) - 20)
    assert check == zlib.crc32(content[:16] + content[20:])
    # An entry does not say of each batch when it arrived: it says so itself.
    assert batches(content[20:]) == [message(one), message(other)]
    assert journal.read_entries(content) == journal.Entries([(1000, content[20:])], 0)
    assert journal.read_entries(b"") == journal.Entries([], 0)


def test_an_entry_of_many_reports_has_batches_below_the_longest_record() -> None:
    with mock.patch.object(codec, "MAX_RECORD", 4 * 9 * 4):
        content = journal.entry(1, [columns(range(10))])
    assert [batch.count for batch in batches(content[20:])] == [4, 4, 2]


def test_wherever_a_journal_is_torn_whole_commits_survive_and_nothing_is_invented() -> None:
    """An end that was being written is no damage: nobody was answered."""
    content, ends = written()
    whole = journal.read_entries(content).whole
    assert [second for second, _ in whole] == [1000] * 3
    for cut in range(len(content) + 1):
        found = journal.read_entries(content[:cut])
        assert found == journal.Entries(whole[: sum(end <= cut for end in ends)], 0), cut


def test_of_a_damaged_journal_the_entries_before_are_read_and_the_damage_is_seen() -> None:
    """Every bit of it, turned: the entry that has it and those behind it are lost, and counted."""
    content, ends = written()
    whole, begins = journal.read_entries(content).whole, [0, *ends[:2]]
    for bit in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        hit = sum(end <= bit // 8 for end in ends)
        found = journal.read_entries(bytes(damaged), len(content))
        assert found == journal.Entries(whole[:hit], len(content) - begins[hit]), bit


def test_damage_is_seen_without_the_size_of_the_last_commit() -> None:
    content, ends = written()
    assert journal.read_entries(content[:-1] + b"\0").damaged == ends[2] - ends[1]


def test_a_journal_that_is_shorter_than_its_size_after_a_commit_was_cut() -> None:
    """The bytes that are gone count, and those of an entry that lost its end."""
    content, ends = written()
    for committed in (0, *ends):
        for cut in range(len(content) + 1):
            read = max((end for end in ends if end <= cut), default=0)
            found = journal.read_entries(content[:cut], committed)
            assert found.damaged == max(0, committed - read), (committed, cut)


def test_the_size_of_a_journal_is_believed_with_its_checksum_only() -> None:
    content = journal.committed_content(1 << 40)
    assert journal.committed_size(content) == 1 << 40
    for bit in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        assert journal.committed_size(bytes(damaged)) == 0
    for other in (content + b"0", *(content[:length] for length in range(len(content)))):
        assert journal.committed_size(other) == 0
    name = journal.journal_name(1_700_000_001)
    assert journal.journal_of(journal.committed_name(name)) == name


# --- the finished file


def contents(*given: tuple[int, list[ReportColumns]]) -> list[tuple[int, bytes]]:
    return journal.read_entries(b"".join(journal.entry(second, some) for second, some in given)).whole


def test_a_file_has_one_batch_for_each_second_collection_epoch_and_width() -> None:
    """Each with its second of arrival, in this order, and reports in that of their ids."""
    given = contents(
        (1002, [columns(range(5, 8), 7), columns(range(3))]),
        (1000, [columns(range(3), digest=1), columns(range(4, 6), 7)]),
        (1002, [columns(range(5), 7), columns(range(2), 7, width=2)]),
    )
    assert batches(journal.file_content(given)) == [
        message(columns(range(3), digest=1), 1000),
        message(columns(range(4, 6), 7), 1000),
        message(columns(range(3)), 1002),
        message(columns(range(8), 7), 1002),
        message(columns(range(2), 7, width=2), 1002),
    ]


def test_nothing_in_a_file_says_which_report_came_first_or_with_which() -> None:
    parts = [columns(range(4)), columns(range(4, 9))]
    together = journal.file_content(contents((5, [columns(range(9))])))
    assert journal.file_content(contents((5, parts))) == together
    assert journal.file_content(contents((5, parts[::-1]))) == together
    assert journal.file_content(contents((5, parts[1:]), (5, parts[:1]))) == together


def test_a_file_without_an_entry_is_empty_and_a_large_one_has_records_of_a_size() -> None:
    assert journal.file_content([]) == b""
    given = contents((5, [columns(range(10))]))
    with mock.patch.object(codec, "MAX_RECORD", 4 * 9 * 4):
        found = batches(journal.file_content(given))
    assert [(batch.count, batch.arrival) for batch in found] == [(4, 5), (4, 5), (2, 5)]
