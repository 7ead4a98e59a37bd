"""A fleet is its devices: the same bytes from the same words, however they are batched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ldpbeam.protocols import PROTOCOLS, LocalProtocol, Parameters, protocol
from ldpbeam.simulators.population.specs import ABSENT
from ldpbeam.simulators.protocol_fleet import DrawnReports, ProtocolFleet
from ldpbeam.simulators.random_words import RandomWords
from tests.reference.settings import Setting, settings
from tests.simulators.devices import Devices

FALSE_ALARM = 1e-8
"""Probability that a sound fleet fails one statistical test of this file (normal approximation)."""

SETTINGS = settings((2, 3, 10), epsilon_first=0.8)
# 57 to 64 bits make 8 bytes, the size of a symbol in a memo.
WIDE = [setting for setting in settings((57, 64, 70), epsilon_first=0.8) if setting.unary]


def build(name: str, size: int, first: float = 0.8, **choices: Any) -> LocalProtocol[Any]:
    kind = PROTOCOLS[name]
    longitudinal = 2.0 if "epsilon_first" in kind.PARAMETERS else first
    levels: dict[str, Any] = {
        "epsilon": first,
        "epsilon_longitudinal": longitudinal,
        "epsilon_first": first,
        "d": 3,
    }
    chosen = {key: levels[key] for key in kind.PARAMETERS}
    return protocol(name, size, Parameters(**chosen | choices))


def history(size: int, devices: int, epochs: int, seed: int = 1) -> NDArray[np.int32]:
    """Values that change and return, with absences; shape (epochs, devices)."""
    draw = np.random.default_rng(seed)
    held = draw.integers(0, size, (2, devices))
    values = held[draw.integers(0, 2, (epochs, devices)), np.arange(devices)]
    return np.where(draw.random((epochs, devices)) < 0.2, ABSENT, values).astype(np.int32)


def joined(batches: list[DrawnReports]) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
    return (
        np.concatenate([batch.report_ids for batch in batches]),
        np.concatenate([batch.payloads for batch in batches]),
    )


@pytest.mark.parametrize("setting", SETTINGS + WIDE, ids=str)
@pytest.mark.cases(40)
def test_a_fleet_sends_what_its_devices_send(setting: Setting) -> None:
    kind, random_words, devices = setting.build(), RandomWords(7), 9
    fleet = ProtocolFleet(kind, devices, random_words, rows_per_batch=4)
    single = Devices(kind, devices, random_words)
    values = history(kind.domain_size, devices, 6)
    for epoch, row in enumerate(values, 3):
        _, payloads = joined(list(fleet.reports(epoch, row)))
        expected = [
            single.payload(epoch, device, int(value)) for device, value in enumerate(row) if value != ABSENT
        ]
        assert [payload.tobytes() for payload in payloads] == expected
    memoised = [len(memo.answers) for memo in single.memos]
    assert fleet.memoised_inputs().tolist() == memoised
    assert (sum(memoised) > 0) == (kind.simulation.word_plan.permanent is not None)


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", sorted(PROTOCOLS))
@given(rows=st.integers(1, 40), seed=st.integers(0, 3))
def test_batching_changes_no_report(name: str, rows: int, seed: int) -> None:
    kind, devices = build(name, 11), 37
    whole = ProtocolFleet(kind, devices, RandomWords(seed))
    parts = ProtocolFleet(kind, devices, RandomWords(seed), rows_per_batch=rows)
    for epoch, values in enumerate(history(11, devices, 4, seed)):
        one, many = list(whole.reports(epoch, values)), list(parts.reports(epoch, values))
        assert len(one) == 1
        assert all(0 < len(batch) <= rows for batch in many)
        (ids, payloads), (ids_of_parts, payloads_of_parts) = joined(one), joined(many)
        assert np.array_equal(ids, ids_of_parts)
        assert np.array_equal(payloads, payloads_of_parts)
        assert (ids.dtype, payloads.dtype) == (ids_of_parts.dtype, payloads_of_parts.dtype)
    assert np.array_equal(whole.memoised_inputs(), parts.memoised_inputs())


def test_a_device_does_not_depend_on_the_others() -> None:
    kind = build("loloha", 30)
    few, many = ProtocolFleet(kind, 5, RandomWords(1)), ProtocolFleet(kind, 50, RandomWords(1))
    for epoch, values in enumerate(history(30, 50, 5)):
        alone = np.where(np.arange(50) == 3, values, ABSENT).astype(np.int32)
        a = list(few.reports(epoch, alone[:5]))
        b = list(many.reports(epoch, values))
        assert (len(a) == 0) == (values[3] == ABSENT)
        if a:
            row = int((values[:3] != ABSENT).sum())
            assert a[0].payloads.tobytes() == b[0].payloads[row].tobytes()
            assert a[0].report_ids[0] == b[0].report_ids[row]


def test_what_is_no_value_is_refused_at_once() -> None:
    fleet = ProtocolFleet(build("grr", 4), 3, RandomWords(1))
    for bad in ([0, 1, 4], [0, -2, 1]):
        with pytest.raises(ValueError, match="epoch 0 holds values outside 0"):
            fleet.reports(0, np.array(bad, np.int32))
    with pytest.raises(ValueError, match="pass one value per device"):
        fleet.reports(0, np.zeros(4, np.int32))
    for devices, rows in ((0, 1), (1, 0)):
        with pytest.raises(ValueError, match="both start at 1"):
            ProtocolFleet(build("grr", 4), devices, RandomWords(1), rows_per_batch=rows)
    with pytest.raises(ValueError, match="simulate fewer"):
        ProtocolFleet(build("l_grr", 1 << 20), 1 << 43, RandomWords(1))
