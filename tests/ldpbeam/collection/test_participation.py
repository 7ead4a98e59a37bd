"""Collections with participation: files, digests, records, and what is published about them."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest

import ldpbeam
from ldpbeam.admission import ReportColumns
from ldpbeam.cli.shared.collections import introduction
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.file import parse_collection
from ldpbeam.collection.message import canonical
from ldpbeam.collection.record import collection_of, definition
from ldpbeam.errors import CollectionError
from ldpbeam.estimates import nearest_shares
from ldpbeam.protocols.part_estimator import part_estimators
from ldpbeam.records.collection_record import CollectionRecord, collection_entry
from ldpbeam.report_page.privacy import privacy
from ldpbeam.wire import collection_pb2
from tests.narrow import of_kind

TEXT = """\
name: daily
domain: {size: 8}
protocol: olh
epsilon: 1.0
epoch: {length: 1d, origin: 2026-01-01T00:00:00Z}
participation: {reports: 2, of: 10}
"""
ATTRIBUTES = """\
name: daily
attributes: [{name: a, domain: {size: 8}}, {name: b, domain: {size: 5}}]
allocation: ALLOCATION
protocol: l_grr
epsilon_longitudinal: 2.0
epsilon_first: 1.0
epoch: {length: 1d}
participation: {reports: 2, of: 10}
"""


def without(asked: Collection) -> Collection:
    return replace(asked, participation=None)


def test_it_is_part_of_the_digest_and_of_the_message() -> None:
    asked = parse_collection(TEXT)
    assert asked.epochs.count == 10
    assert asked.digest_hex == "6df766018f13519e"
    assert parse_collection(TEXT.replace("1d, origin", "1d, count: 10, origin")).digest == asked.digest
    others = {without(asked).digest, parse_collection(TEXT.replace("reports: 2", "reports: 3")).digest}
    assert len({asked.digest, *others}) == 3
    message = collection_pb2.Collection.FromString(canonical(asked.to_message()))
    assert (message.participation.reports, message.participation.of) == (2, 10)
    assert not without(asked).to_message().HasField("participation")


def test_a_definition_makes_it_again_and_only_it_mentions_it() -> None:
    asked = parse_collection(TEXT)
    made = collection_of(json.loads(json.dumps(definition(asked))))
    assert (made, made.digest, made.participation) == (asked, asked.digest, asked.participation)
    assert "participation" not in definition(without(asked))
    assert "participation" not in without(asked).as_record()
    guarantee = of_kind(dict, without(asked).as_record()["guarantee"])
    assert not {"lifetime", "lifetime_reports"} & set(guarantee)


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ("{reports: 3, of: 2}", "VALUE", "participation.reports must be an integer in 1 .. 2, not 3"),
        ("{reports: 1, of: 70000}", "VALUE", "participation.of must be an integer in 1 .. 65536"),
        ("{reports: 0, of: 2}", "VALUE", "reports must lie in 1 .."),
        ("{reports: 1}", "KEY", "key 'of' is missing"),
        ("{reports: 1, out_of: 3}", "KEY", "unknown key 'out_of' in participation"),
    ],
)
def test_every_unsound_one_is_refused_with_its_line(given: str, code: str, said: str) -> None:
    with pytest.raises(CollectionError) as raised:
        parse_collection(TEXT.replace("{reports: 2, of: 10}", given), "a.yaml")
    assert raised.value.code == f"E-COLLECTION-{code}"
    assert said in str(raised.value)
    assert "a.yaml:6" in str(raised.value)


@pytest.mark.parametrize("count", [9, 11])
def test_a_collection_ends_with_the_epochs_that_devices_draw_from(count: int) -> None:
    with pytest.raises(
        CollectionError, match=f"participation.of is 10 and the collection has {count} epochs"
    ):
        parse_collection(TEXT.replace("1d, origin", f"1d, count: {count}, origin"))


def test_the_guarantee_is_that_of_a_life() -> None:
    asked = parse_collection(TEXT)
    said = asked.as_record()["guarantee"]
    assert isinstance(said, dict)
    assert (said["lifetime"], said["lifetime_reports"]) == (pytest.approx(2.0, rel=1e-12), 2)
    assert said["first_report"] == pytest.approx(1.0, rel=1e-12)
    assert "another version" in said["not_capped"]
    assert introduction(asked).endswith("a report tells ε ≤ 1, 2 reports ε ≤ 2 whatever changes")
    record = CollectionRecord.from_record(json.loads(json.dumps(collection_entry(asked))))
    assert record.guarantee is not None
    assert record.guarantee.lifetime == said["lifetime"]
    life = privacy(record, "x").promises[1]
    assert (life.name, life.value) == ("All reports, whatever changes", "2")
    assert "in 2 of its 10 epochs, drawn for life" in life.meaning


def test_a_memoised_life_is_the_loss_of_any_two_sequences() -> None:
    text = ATTRIBUTES.replace("ALLOCATION", "sample")
    asked = parse_collection(text)
    losses = asked.protocol.losses
    assert losses is not None
    assert asked.as_record()["guarantee"]["lifetime"] == losses.any_changes(2)  # type: ignore[index]
    once = parse_collection(text.replace("reports: 2", "reports: 1"))
    assert once.as_record()["guarantee"]["lifetime"] == pytest.approx(1.0, rel=1e-9)  # type: ignore[index]
    # Two reports are about two inputs at most, of each attribute that a device reports.
    assert asked.protocol.guarantee.cap_over_inputs == pytest.approx(16.0)
    assert asked.guarantee.cap_over_inputs == pytest.approx(4.0)
    split = parse_collection(text.replace("sample", "split"))
    assert split.protocol.guarantee.cap_over_inputs == pytest.approx(13.0)
    assert split.guarantee.cap_over_inputs == pytest.approx(4.0)


def test_where_two_reports_prove_a_change_nothing_is_promised() -> None:
    text = TEXT.replace(
        "protocol: olh\nepsilon: 1.0", "protocol: dbitflip_pm\nepsilon_longitudinal: 1.0\nd: 2"
    )
    asked = parse_collection(text)
    said = asked.as_record()["guarantee"]
    assert isinstance(said, dict)
    assert said["lifetime"] is None
    assert said["loss_unbounded_from"] == 2
    assert introduction(asked).endswith("2 reports without a bound whatever changes")
    record = CollectionRecord.from_record(json.loads(json.dumps(collection_entry(asked))))
    life = next(one for one in privacy(record, "x").promises if one.name == "All reports, whatever changes")
    assert (life.value, "nothing limits what its reports tell" in life.meaning) == ("no bound", True)


@pytest.mark.parametrize("allocation", ["", "sample", "split"])
def test_estimates_know_that_they_come_from_a_part_of_the_fleet(allocation: str) -> None:
    text = ATTRIBUTES.replace("ALLOCATION", allocation) if allocation else TEXT
    asked = parse_collection(text)
    draw = np.random.default_rng(5)
    values = draw.integers(0, 5, (20_000, 2) if allocation else 20_000)
    values[:12_000] = 1
    reports = ldpbeam.Fleet(asked, 20_000, seed=1).report(ldpbeam.Index(values), epoch=3)
    assert 3_700 < len(reports) < 4_300
    found = ldpbeam.result_of_epoch(asked, 3, [reports]).attributes[0].estimates
    whole = without(asked)
    same = ReportColumns(whole.digest, 3, reports.report_ids, reports.payloads)
    plain = ldpbeam.result_of_epoch(whole, 3, [same]).attributes[0].estimates
    assert found is not None
    assert plain is not None
    assert np.array_equal(found.frequency, plain.frequency)  # only n and the errors know of it
    f = nearest_shares(found.frequency)[1]
    share = part_estimators(asked.protocol)[0].share
    more = float(share - share * Fraction(1, 5)) * f * (1 - f) / found.n[1]
    assert found.std_error[1] == pytest.approx(sqrt(plain.std_error[1] ** 2 + more), rel=1e-12)
    assert found.high[1] - found.low[1] > plain.high[1] - plain.low[1]
    record = CollectionRecord.from_record(json.loads(json.dumps(collection_entry(asked))))
    support = record.histograms[0].support
    assert support is not None
    assert float(support.sampled) == pytest.approx(float(share) / 5)
    if allocation:
        entries = asked.as_record()["attributes"], whole.as_record()["attributes"]
        assert entries[0][0]["v_star_times_reports"] == entries[1][0]["v_star_times_reports"]  # type: ignore[index]
