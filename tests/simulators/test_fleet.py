"""A fleet from Python: what it takes, that it remembers, and that its errors over time are as in theory."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ldpbeam
from ldpbeam.admission import Admission, ReportColumns
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.values import Index, index_of, value_of
from ldpbeam.errors import DeviceError, UsageError
from ldpbeam.protocols import PROTOCOLS
from ldpbeam.simulators.fleet import fleet_indices
from ldpbeam.simulators.protocol_fleet import ProtocolFleet
from ldpbeam.simulators.random_words import RandomWords
from ldpbeam.wire import report_pb2
from tests.narrow import present

LEVELS = {"epsilon": 3.0, "epsilon_longitudinal": 4.0, "epsilon_first": 3.6, "d": 32}
COLOURS = ldpbeam.parse_collection("""
name: colours
domain: {labels: [red, green, blue, none of these], other: none of these}
protocol: loloha
epsilon_longitudinal: 4
epsilon_first: 2
epoch: {length: 1d}
""")
TWO = ldpbeam.parse_collection("""
name: two
attributes:
  - {name: colour, domain: {labels: [red, green, none of these], other: none of these}}
  - {name: size, domain: {size: 5}}
allocation: split
protocol: grr
epsilon: 2
epoch: {length: 1d, count: 9}
""")

RANGE = ldpbeam.parse_collection("""
name: range
domain: {range: {max: 60, buckets: 12}}
protocol: grr
epsilon: 2
epoch: {length: 1d}
""")


def of(name: str, size: int = 64, more: str = "") -> Collection:
    """A collection with a protocol."""
    levels = LEVELS | ({"epsilon_first": 2.4} if name == "l_soue" else {})
    keys = "".join(f"{key}: {levels[key]}\n" for key in PROTOCOLS[name].PARAMETERS)
    epoch = "" if "epoch:" in more else "epoch: {length: 1d}\n"
    return ldpbeam.parse_collection(
        f"name: {name}\ndomain: {{size: {size}}}\nprotocol: {name}\n{keys}{epoch}{more}"
    )


def same(one: ReportColumns, other: ReportColumns) -> bool:
    return (
        (one.digest, one.epoch) == (other.digest, other.epoch)
        and np.array_equal(one.report_ids, other.report_ids)
        and np.array_equal(one.payloads, other.payloads)
    )


# --- what it takes

GIVEN = [
    Index(np.array([0, 1, 3, -1, 2], np.int8)),
    (Index(0), Index(np.int8(1)), Index(3), None, "blue"),
    np.ma.array(["red", "green", "lilac", "", "blue"], mask=[False, False, False, True, False]),
    ["red", "green", "lilac", None, "blue"],
    np.array(["red", "green", "lilac", None, "blue"], object),
    pa.array(["red", "green", "lilac", None, "blue"]),
    iter(["red", "green", "lilac", None, "blue"]),
]


@pytest.mark.parametrize("values", GIVEN, ids=lambda one: type(one).__name__)
def test_values_are_taken_as_a_device_takes_them(values: Any) -> None:
    """A label, an index, or nothing."""
    assert fleet_indices(COLOURS, values).tolist() == [0, 1, 3, -1, 2]


NUMBERS = [
    [0, 5, 5.0, "5", "05", " 5 ", 5.999, "1e1", -1, "-0.5", 600, 59.9, None],
    np.array([0, 5, 5, 5, 5, 5, 5.999, 10, -1, -0.5, 600, 59.9, None], object),
    np.ma.array([0, 5, 5, 5, 5, 5, 5.999, 10, -1, -0.5, 600, 59.9, np.nan], mask=[False] * 12 + [True]),
    pa.array([0, 5, 5, 5, 5, 5, 5.999, 10, -1, -0.5, 600, 59.9, None]),
]


@pytest.mark.parametrize("values", NUMBERS, ids=lambda one: type(one).__name__)
def test_numbers_of_a_range_are_put_into_their_buckets(values: Any) -> None:
    """Minus one is a number like any other, and clamped."""
    found = fleet_indices(RANGE, values).tolist()
    assert found == [0, 1, 1, 1, 1, 1, 1, 2, 0, 0, 11, 11, -1]


@pytest.mark.parametrize(
    "kind", [np.int8, np.uint64, np.float16, np.float32, np.float64, np.longdouble, list]
)
def test_arrays_of_numbers_say_what_single_ones_say(kind: Any) -> None:
    """Whatever their type: at edges, beside them, and anywhere."""
    draw = np.random.default_rng(2)
    for end, buckets in ((365, 365), (10, 100), (0.3, 7), (100, 101), (8.9e-323, 101), (4.35, 435)):
        domain = Domain(buckets, maximum=float(end))
        edges = np.arange(buckets + 1) * end / buckets
        given = np.concatenate([edges, np.nextafter(edges, 0), np.round(draw.uniform(0, end, 200), 3)])
        if kind is list or issubclass(kind, np.floating):
            array = given.tolist() if kind is list else given.astype(kind)
        else:
            array = np.clip(given, 0, 120).astype(kind)
        collection = replace(RANGE, domain=domain)
        assert fleet_indices(collection, array).tolist() == [index_of(one, domain) for one in array]


@pytest.mark.parametrize(
    "values", [[1, 2**63], [1, 10**30], [1, 5.5], [np.float32(0.7), 60], [10.0, np.int64(600)]], ids=str
)
def test_numbers_of_several_types_are_exact(values: list[Any]) -> None:
    assert fleet_indices(RANGE, values).tolist() == [index_of(one, present(RANGE.domain)) for one in values]


ROWS = [
    Index([[0, 4], [1, 0], [-1, -1], [2, 3]]),
    [Index((0, 4)), [Index(1), 0], None, ("blue", Index(3))],
    [("red", 4), {"size": 0, "colour": "green"}, None, ["blue", "3"]],
    np.array([["red", 4], ["green", 0], [None, None], ["blue", 3]], object),
    {"size": [4, 0, None, 3], "colour": ["red", "green", None, "blue"]},
    {"size": Index(np.array([4, 0, -1, 3])), "colour": ["red", "green", None, "lilac"]},
    {"size": np.ma.array([4, 0, 9, 3], mask=[False, False, True, False]), "colour": Index([0, 1, -1, 2])},
]


@pytest.mark.parametrize("values", ROWS, ids=range(len(ROWS)))
def test_several_attributes_come_by_device_or_by_name(values: Any) -> None:
    assert fleet_indices(TWO, values).tolist() == [[0, 4], [1, 0], [-1, -1], [2, 3]]
    assert len(ldpbeam.Fleet(TWO, 4).report(values)) == 3


ODD = ["lilac", "", 4, -2, 1.0, 1.5, True, [0], {"colour": 0}, b"red", 2**70, float("nan"), Index(4)]


@pytest.mark.parametrize("given", ODD, ids=lambda one: repr(one)[:12])
@pytest.mark.parametrize("collection", [COLOURS, of("grr", 4), TWO], ids=lambda one: one.name)
def test_what_a_device_refuses_a_fleet_refuses(collection: Collection, given: Any) -> None:
    """And what one takes the other takes, as the same value: beside a label, in the middle of a list."""
    sound = {TWO: ("red", 0), COLOURS: "red"}.get(collection, 0)
    fleet = ldpbeam.Fleet(collection, 3)
    try:
        value = value_of(collection, given)
    except DeviceError:
        with pytest.raises(
            DeviceError, match=r"device 1: .*None stands for an absent device.*E-DEVICE-VALUE"
        ) as found:
            fleet.report([None, given, sound])
        assert found.value.__cause__ is None
    else:
        assert fleet_indices(collection, [None, given, sound]).tolist() == [-1, value, 0]


@pytest.mark.parametrize(
    "values",
    [[0.0, float("nan")], np.array([1, np.inf]), np.array([True, False]), [0, True], [np.True_], [1j], ["x"]],
    ids=repr,
)
def test_what_is_no_finite_number_is_refused(values: Any) -> None:
    for collection in (RANGE, of("grr", 4)):
        with pytest.raises(DeviceError, match="None stands for an absent device"):
            fleet_indices(collection, values)


def test_the_first_device_with_a_wrong_number_is_named_and_no_large_index_is_absence() -> None:
    with pytest.raises(DeviceError, match="device 0"):
        fleet_indices(of("grr", 64), np.array([99, 3, 99]))
    for beyond in (2**64 - 1, 2**63):
        with pytest.raises(ValueError, match=r"an index of this domain lies in"):
            ldpbeam.simulate(COLOURS, Index(np.array([beyond, 1], np.uint64)))
    for held in (Index([0, 4, 1]), Index([0, -2, 1])):
        with pytest.raises(DeviceError, match=r"device 1: an index of this domain lies in 0 to 3"):
            ldpbeam.simulate(COLOURS, held)
    assert len(ldpbeam.simulate(COLOURS, Index([0, 3, -1]))) == 2
    for rows in ({"colour": Index([0, 0]), "size": Index([0, 99])}, Index([[0, 0], [0, 99]])):
        with pytest.raises(DeviceError, match=r"device 1: an index of this domain lies in 0 to"):
            ldpbeam.simulate(TWO, rows)


def test_one_value_for_each_device() -> None:
    fleet = ldpbeam.Fleet(COLOURS, 3)
    for values in (Index([0, 1]), ["red"] * 4, Index([[0, 1, 2]]), []):
        with pytest.raises(ValueError, match="the fleet has 3 devices"):
            fleet.report(values)
    with pytest.raises(ValueError, match="different numbers of devices"):
        fleet_indices(TWO, {"colour": ["red", "red"], "size": [0]})
    with pytest.raises(DeviceError, match="by name"):
        fleet_indices(TWO, {"colour": ["red", "red"]})
    with pytest.raises(ValueError, match="no device"):
        ldpbeam.simulate(COLOURS, [])


# --- its life


@pytest.mark.parametrize("name", PROTOCOLS)
def test_it_is_its_protocols_devices(name: str) -> None:
    """Four epochs with absences, in batches of five: the bytes of the devices that the protocol has."""
    collection, devices = of(name), 12
    draw = np.random.default_rng(3)
    fleet = ldpbeam.Fleet(collection, devices, 7, rows_per_batch=5)
    plain = ProtocolFleet(collection.protocol, devices, RandomWords(7))
    for epoch in (0, 2, 3, 9):
        values = draw.integers(-1, 3, devices)
        (expected,) = plain.reports(epoch, values)
        found = fleet.report(Index(values), epoch)
        assert (found.digest, found.epoch) == (collection.digest, epoch)
        assert np.array_equal(found.report_ids, expected.report_ids)
        assert np.array_equal(found.payloads, expected.payloads)
        assert not found.payloads.flags.writeable
    assert np.array_equal(fleet.memoised_inputs(), plain.memoised_inputs())
    assert fleet.ledgers() == plain.ledgers()


@pytest.mark.parametrize("life", ["", "participation: {reports: 2, of: 6}\n"])
@pytest.mark.parametrize("name", ["l_grr", "grr", "dbitflip_pm"])
def test_simulate_is_its_first_epoch_and_nothing_else(name: str, life: str) -> None:
    """Of devices without a memo it is every epoch: they are new ones each time."""
    collection = of(name, more=f"{life}epoch: {{length: 1d, count: 6}}\n")
    values = np.arange(300) % 64
    fleet = ldpbeam.Fleet(collection, 300, 5)
    for epoch in range(6):
        expected = fleet.report(values)
        assert expected.epoch == epoch
        if name == "grr" or not epoch:
            assert same(ldpbeam.simulate(collection, values, epoch=epoch, seed=5), expected)
        else:
            with pytest.raises(UsageError, match="has no memo") as error:
                ldpbeam.simulate(collection, values, epoch=epoch, seed=5)
            assert error.value.code == "E-SIMULATE-MEMO"


def test_simulate_takes_any_epoch_of_devices_that_report_once() -> None:
    once = of("l_grr", more="participation: {reports: 1, of: 3}\nepoch: {length: 1d, count: 3}\n")
    fleet, values = ldpbeam.Fleet(once, 90, 2), np.arange(90) % 64
    for epoch in range(3):
        assert same(ldpbeam.simulate(once, values, epoch=epoch, seed=2), fleet.report(values))


def test_devices_keep_their_epochs_for_life() -> None:
    """Two of six epochs each, whatever the rest of the fleet does."""
    life = of("grr", more="participation: {reports: 2, of: 6}\nepoch: {length: 1d, count: 6}\n")
    fleet = ldpbeam.Fleet(life, 50, 1)
    sent = [fleet.report(np.zeros(50, int)) for _ in range(6)]
    assert sum(map(len, sent)) == 100
    assert 0 < len(sent[0]) < 50


def test_epochs_rise() -> None:
    fleet = ldpbeam.Fleet(COLOURS, 2, 1)
    assert fleet.report(["red", "green"], epoch=3).epoch == 3
    for epoch in (3, 2, 0):
        with pytest.raises(DeviceError, match=f"epoch {epoch} does not come after epoch 3") as error:
            fleet.report(["red", "green"], epoch=epoch)
        assert error.value.code == "E-DEVICE-EPOCH"
    assert fleet.report(["red", "green"]).epoch == 4
    assert "has reported epoch 4" in repr(fleet)


@pytest.mark.parametrize("epoch", [-1, 9, 1 << 70])
def test_epochs_are_the_collections(epoch: int) -> None:
    with pytest.raises(DeviceError, match=f"epoch {epoch} is none of the epochs 0 to 8") as error:
        ldpbeam.Fleet(TWO, 1).report([("red", 0)], epoch=epoch)
    assert error.value.code == "E-DEVICE-EPOCH"
    with pytest.raises(TypeError):
        ldpbeam.Fleet(TWO, 1).report([("red", 0)], epoch=1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("values", [["red", 2, 9], ["red", "green"], Index([0, 1, 4])])
def test_what_is_refused_changes_nothing(values: list[Any]) -> None:
    one, other = ldpbeam.Fleet(COLOURS, 3, 1), ldpbeam.Fleet(COLOURS, 3, 1)
    with pytest.raises(ValueError, match=r"device|domain|values"):
        one.report(values, epoch=5)
    assert "has not reported" in repr(one)
    for epoch in range(3):
        assert same(one.report(Index([0, 1, 2]), epoch), other.report(Index([0, 1, 2]), epoch))
        assert one.memoised_inputs().tolist() == [1, 1, 1]


# --- estimate


def test_estimate_takes_what_admit_simulate_and_a_fleet_return() -> None:
    reports = ldpbeam.Fleet(COLOURS, 900, 1).report(Index(np.arange(900) % 4), epoch=2)
    messages = [present(ldpbeam.Device.ephemeral(COLOURS).report("green", epoch=2)) for _ in range(3)]
    admission = ldpbeam.admit(COLOURS, [*messages, b"junk"])
    assert ldpbeam.estimate(COLOURS, admission).equals(ldpbeam.estimate(COLOURS, admission.admitted))
    both: list[ReportColumns | Admission] = [reports, admission]
    for given, n in ((reports, 900), ([reports], 900), (admission, 3), (both, 903)):
        assert ldpbeam.estimate(COLOURS, given)["n"].to_pylist() == [n] * 4
    assert ldpbeam.estimate(COLOURS, []).num_rows == 0


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([b"\x01"], "the bytes of messages are no admitted reports. Let ldpbeam.admit(collection, messages)"),
        ("reports.pb", "an object of type str is no admitted reports. Give what ldpbeam.admit"),
        ({0: 1}, "an object of type dict is no admitted reports"),
        ([[]], "an object of type list is no admitted reports"),
    ],
)
def test_estimate_says_what_to_give_for_anything_else(given: Any, says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)) as error:
        ldpbeam.estimate(COLOURS, given)
    assert error.value.code == "E-ESTIMATE-REPORTS"


@pytest.mark.parametrize(
    ("epoch", "retired", "reason"),
    [
        (14, "", "foreign_epoch"),
        (-1, "", "foreign_epoch"),
        (3, "retired: 2026-01-04T00:00:00Z\n", "retired_collection"),
    ],
)
def test_estimate_refuses_an_epoch_that_a_run_rejects(epoch: int, retired: str, reason: str) -> None:
    more = f"epoch: {{length: 1d, origin: 2026-01-01T00:00:00Z, count: 14}}\n{retired}"
    collection = of("grr", 4, more)
    ids = np.arange(1, 4, dtype=np.uint64)
    columns = ReportColumns(collection.digest, epoch, ids, np.zeros((3, 1), np.uint8))
    with pytest.raises(UsageError, match=rf"reject reports of epoch {epoch} \({reason}\)") as error:
        ldpbeam.estimate(collection, [columns])
    assert error.value.code == "E-ESTIMATE-REPORTS"
    sound = ReportColumns(collection.digest, 2, ids, np.zeros((3, 1), np.uint8))
    assert ldpbeam.estimate(collection, sound).num_rows == 4
    message = report_pb2.Report(digest=collection.digest, epoch=epoch, report_id=1, payload=b"\0")
    (rejection,) = ldpbeam.admit(collection, [message.SerializeToString()]).rejections
    assert rejection.reason.value == reason


@pytest.mark.parametrize("most", [2, 8])
def test_strings_of_one_prefix_length_and_of_several(most: int) -> None:
    """simulate() gives what a fleet reports first; one length is drawn without a choice."""
    collection = ldpbeam.parse_collection(
        f"name: w\ndomain: {{strings: {{max_length: {most}, symbols: lower}}}}\nprotocol: olh\nepsilon: 3\n"
        "epoch: {length: 1d}\n"
    )
    texts = ["a", None, "bc", "a"] * 50
    fleet = ldpbeam.Fleet(collection, len(texts), seed=3).report(texts)
    assert len(fleet) == 150
    assert len(set(fleet.payloads[:, 0].tolist())) == (1 if most == 2 else 4)
    np.testing.assert_array_equal(ldpbeam.simulate(collection, texts, seed=3).payloads, fleet.payloads)
    with pytest.raises(DeviceError, match="device 1: the value is no text"):
        fleet_indices(collection, ["a", 7])
