"""What becomes of an epoch that a run leaves out, step by step, and of the rejections that are kept."""

from __future__ import annotations

import random
from collections import Counter
from itertools import groupby
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.util import assert_that, equal_to

from ldpbeam.accounting import CONFLICTING, Account, CountedEpoch
from ldpbeam.admission import LISTED, Parts, Rejection, ReportColumns, capped
from ldpbeam.arrays import read_only
from ldpbeam.errors import Reason
from ldpbeam.support import Support
from ldpbeam.transforms.rows import rejection_of
from ldpbeam.transforms.sinks.rejects import _CappedByReason
from ldpbeam.transforms.stages.epoch_limit import EpochLimit, LimitEpochs, largest_epochs
from ldpbeam.transforms.stages.reports import ACCOUNTING, REJECTED
from tests.pipelines.running import collection

AGREED = collection("grr", 4, "one")
OTHER = collection("grr", 4, "other")
DIGEST = AGREED.digest_hex
KEPT = {DIGEST: frozenset({1, 2})}


def account() -> Account:
    rejected = Counter({"wrong_length": 32, CONFLICTING.removeprefix("rejected."): 64})
    return Account(read=1000, counted=4, late=8, duplicate=16, rejected=rejected, repeated=2)


def counted(epoch: int, support: Support | None = None) -> tuple[str, CountedEpoch]:
    return DIGEST, CountedEpoch(epoch, support, account())


def given(found: Any, kept: Any) -> tuple[list[Any], list[Any], list[Any]]:
    main, entries, rejections = [], [], []
    for output in LimitEpochs([AGREED]).process(found, (None, kept)):
        if not isinstance(output, beam.pvalue.TaggedOutput):
            main.append(output)
        elif output.tag == ACCOUNTING:
            entries.append(output.value)
        else:
            assert output.tag == REJECTED
            rejections.append(output.value)
    return main, entries, rejections


def test_the_account_of_an_epoch_that_is_left_out_becomes_its_collections() -> None:
    """Copies of reports that nobody counts are such reports too; what is withheld for is no more asked."""
    main, entries, rejections = given(counted(3), KEPT)
    assert main == []
    assert dict(entries) == {
        ((DIGEST, None), "read"): 1000,
        ((DIGEST, None), "late"): 8,
        ((DIGEST, None), "rejected.wrong_length"): 32,
        ((DIGEST, None), "rejected.too_many_epochs"): 4 + 16 + 64,
    }
    assert len(entries) == 4
    rejection = Rejection(Reason.TOO_MANY_EPOCHS, "epochs of one", -1, count=84, digest=DIGEST, epoch=3)
    assert list(map(rejection_of, rejections)) == [rejection]


def test_columns_of_an_epoch_that_is_left_out_are_booked() -> None:
    parts = Parts(
        ReportColumns(AGREED.digest, 3, np.arange(n, dtype=np.uint64), read_only(np.zeros((n, 1), np.uint8)))
        for n in (4, 3)
    )
    main, entries, rejections = given(((DIGEST, 3), parts), KEPT)
    assert main == []
    assert entries == [(((DIGEST, None), "rejected.too_many_epochs"), 7)]
    assert [(row.source, row.count, row.epoch) for row in rejections] == [("epochs of one", 7, 3)]


def test_a_run_without_records_keeps_what_comes() -> None:
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        read = pipeline | "Entries" >> beam.Create([(((DIGEST, None), "read"), 3)], reshuffle=False)
        left_out = EpochLimit([AGREED], largest_epochs(read, 1))
        numbers = pipeline | "Epochs" >> beam.Create([counted(5)], reshuffle=False)
        passed = left_out.without(numbers, tuple[str, CountedEpoch], "Epochs")
        assert_that(passed | beam.Map(lambda pair: pair[1].epoch), equal_to([5]))


@pytest.mark.parametrize("seed", range(2))
def test_rejections_are_capped_however_they_come(seed: int) -> None:
    """Of each reason the first ones and one for the rest, in whatever parts, orders and accumulators."""
    draw = random.Random(seed)
    reasons = [Reason.MALFORMED, Reason.WRONG_LENGTH, Reason.OVERSIZE]
    few, many = draw.randrange(1, LISTED), 6 * LISTED + draw.randrange(99)
    held = [Rejection(reasons[0], "file", place) for place in range(few)]
    held += [Rejection(reasons[1], "file", place, count=2) for place in range(many)]
    held += [Rejection(reasons[2], "file", place) for place in range(LISTED + 1)]
    draw.shuffle(held)
    combine = _CappedByReason()
    parts = []
    for _, group in groupby(held, key=lambda _: draw.random() < 0.001):
        part = combine.create_accumulator()
        for one in group:
            part = combine.add_input(part, one)
            assert max(map(len, part.values())) < 4 * LISTED
        parts.append(combine.compact(part) if draw.random() < 0.5 else part)
    draw.shuffle(parts)
    while len(parts) > 1:
        some = [parts.pop() for _ in range(min(3, len(parts)))]
        parts.append(combine.merge_accumulators(some))
    found = combine.extract_output(parts[0])
    assert found == {
        reason.value: capped([one for one in held if one.reason == reason]) for reason in reasons
    }
    assert {reason: len(rows) for reason, rows in found.items()} == {
        "malformed": few,
        "wrong_length": LISTED + 1,
        "oversize": LISTED + 1,
    }
    assert sum(one.count for rows in found.values() for one in rows) == few + 2 * many + LISTED + 1
