"""Ledger and budget: what a device says it spent is what it spent, over everything that it reports."""

from __future__ import annotations

import random
from fractions import Fraction
from math import nextafter
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.client import Device
from ldpbeam.client.spending import MOST_MARKS, Budget, Costs
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.string_domain import StringDomain
from ldpbeam.errors import DeviceError
from ldpbeam.protocols import Memo, Parameters
from ldpbeam.wire import device_state_pb2
from tests.ldpbeam.client.devices import (
    every_kind,
    label,
    loloha,
    parsed,
    set_state,
    state_of,
    unary,
)
from tests.ldpbeam.client.test_device import memos, value_of
from tests.reference.channels import memo_key


def memo_inputs(asked: Collection, memo: Memo, value: Any) -> set[tuple[int, int]]:
    """The oracle: (attribute, memoised input) of a value, from the protocol and what was drawn for life."""
    parts = asked.protocol.parts
    if isinstance(asked.domain, StringDomain):
        value = asked.domain.fingerprints_of(value)
    if not asked.protocol.SEVERAL:
        chosen = [(0, asked.protocol, memo, value)]
    elif len(memo.parts) == 1:
        assert memo.seed is not None
        chosen = [(memo.seed, parts[memo.seed], memo.parts[0], value[memo.seed])]
    else:
        chosen = [(i, part, memo.parts[i], value[i]) for i, part in enumerate(parts)]
    return {(i, memo_key(part, kept.seed, one)) for i, part, kept, one in chosen}


@pytest.mark.parametrize("asked", every_kind(), ids=label)
@pytest.mark.cases(20)
def test_the_ledger_is_what_brute_force_says(asked: Collection, tmp_path: Path) -> None:
    device = Device.open(asked, tmp_path, outbox=0)
    draw = random.Random(asked.digest)
    memo = device._draws._memo  # type: ignore[attr-defined]
    held: set[tuple[int, int]] = set()
    guarantee = asked.protocol.guarantee
    for epoch in range(8):
        value = value_of(asked, draw.randrange(8))
        device.report(value, epoch)
        if guarantee.memoised_ratio is None:
            exact = Fraction(guarantee.first_report) * (epoch + 1)
        else:
            held |= memo_inputs(asked, memo, value)
            levels = [asked.protocol.parts[part].guarantee.per_memoised_input for part, _ in held]
            exact = sum((Fraction(level or 0) for level in levels), Fraction(0))
        (entry,) = device.spent().collections
        assert entry.times == (epoch + 1 if guarantee.memoised_ratio is None else len(held))
        assert exact <= Fraction(entry.epsilon) <= Fraction(nextafter(float(exact), 1e9))
        assert device.spent().epsilon == entry.epsilon
        if guarantee.cap_over_inputs is not None:
            assert entry.epsilon <= guarantee.cap_over_inputs


@memos
def test_collections_and_versions_of_one_device_add_up(memo: Any, tmp_path: Path) -> None:
    for version in (1, 2, 3):
        device = Device.open(loloha(version=version), tmp_path, memo=memo)
        for epoch in range(12):
            device.report(epoch % 9, epoch)
    once = Device.open(
        Collection("o", 1, loloha().domain, "grr", Parameters(epsilon=0.5), loloha().epochs), tmp_path
    )
    for epoch in range(3):
        once.report(1, epoch)
    spent = once.spent()
    assert [(one.name, one.version, one.times) for one in spent.collections] == [
        ("x", 1, 2),
        ("x", 2, 2),
        ("x", 3, 2),
        ("o", 1, 3),
    ]
    assert spent.epsilon == pytest.approx(3 * 4 + 1.5)
    assert spent.epsilon >= 13.5 - 1e-9


# --- the budget


@memos
def test_a_device_stops_at_its_budget(memo: Any, tmp_path: Path) -> None:
    asked = unary(9)
    device = Device.open(asked, tmp_path, memo=memo, budget=6.0)
    for epoch, value in enumerate((0, 1, 0, 2, 2)):
        device.report(value, epoch)
    last = device.report(1, 5)
    assert device.spent().epsilon == pytest.approx(6)
    for value in (3, 0, 3):  # 0 would cost nothing, but a report of it would say that it is not a new one
        with pytest.raises(DeviceError, match=r"its silence.*E-DEVICE-BUDGET"):
            Device.open(asked, tmp_path, memo=memo, budget=6.0).report(value, 6)
    assert Device.open(asked, tmp_path, memo=memo, budget=6.0).report(3, 5) == last
    assert device.spent().collections[0].stopped
    assert device.spent().epsilon == pytest.approx(6)
    more = Device.open(asked, tmp_path, memo=memo, budget=8.0)
    assert not more.spent().collections[0].stopped
    more.report(3, 6)
    assert more.spent().epsilon == pytest.approx(8)


@memos
def test_a_budget_that_was_spent_raised_and_lowered_again(memo: Any, tmp_path: Path) -> None:
    asked = unary(9)
    device = Device.open(asked, tmp_path, memo=memo, budget=4.0, outbox=0)
    for epoch, value in enumerate((0, 1)):
        device.report(value, epoch)
    with pytest.raises(DeviceError, match="E-DEVICE-BUDGET"):
        device.report(2, 2)
    Device.open(asked, tmp_path, memo=memo, budget=6.0, outbox=0).report(2, 3)
    again = Device.open(asked, tmp_path, memo=memo, budget=4.0, outbox=0)
    assert not again.spent().collections[0].stopped
    for epoch, value in enumerate((0, 1, 2), 4):
        again.report(value, epoch)
    with pytest.raises(DeviceError, match="E-DEVICE-BUDGET"):
        again.report(3, 7)
    assert again.spent().collections[0].stopped


def test_a_budget_that_fits_exactly_is_spent_whole(tmp_path: Path) -> None:
    asked = loloha()
    level = asked.protocol.guarantee.per_memoised_input
    assert level
    device = Device.open(asked, tmp_path / "a", budget=float(2 * Fraction(level)))
    short = Device.open(asked, tmp_path / "b", budget=nextafter(float(2 * Fraction(level)), 0))
    for epoch in range(30):
        device.report(epoch % 9, epoch)
    with pytest.raises(DeviceError, match="E-DEVICE-BUDGET"):
        for epoch in range(30):
            short.report(epoch % 9, epoch)
    assert short.spent().collections[0].times == 1


@pytest.mark.parametrize("at_cap", ["stop", "noise"])
def test_a_server_that_raises_the_version_spends_no_more_than_the_budget(tmp_path: Path, at_cap: Any) -> None:
    silent = 0
    for version in range(1, 41):
        device = Device.open(unary(24), tmp_path, budget=10.0, at_cap=at_cap, outbox=0)
        device = Device.open(loloha(version=version), tmp_path, budget=10.0, at_cap=at_cap, outbox=0)
        for epoch in range(5):
            try:
                device.report(epoch, epoch)
            except DeviceError as error:
                assert error.code == "E-DEVICE-BUDGET"
                silent += 1
    assert device.spent().epsilon <= 10.0
    assert (silent > 100) == (at_cap == "stop")


NOISY = [asked for asked in every_kind() if asked.protocol.guarantee.memoised_ratio is not None]


@pytest.mark.cases(26)
@memos
@pytest.mark.parametrize("asked", NOISY, ids=label)
def test_noise_at_the_cap_depends_on_no_value(asked: Collection, memo: Any, tmp_path: Path) -> None:
    level = asked.protocol.guarantee.per_memoised_input
    assert level
    device = Device.open(asked, tmp_path, memo=memo, budget=level / 4, at_cap="noise", outbox=0)
    fresh = state_of(device)
    reports = set()
    for number in (0, 5, 8):
        set_state(device, fresh)
        reports.add(device.report(value_of(asked, number), 3))
        after = state_of(device).collections[0]
        assert not after.inputs
        assert not after.levels
        assert after.memo == fresh.collections[0].memo
        assert device.report(value_of(asked, number + 1), 3) in reports
    assert len(reports) == (1 if memo == "derived" else 3)
    assert device.spent().collections[0].stopped
    assert all(
        asked.protocol.device.encode(asked.protocol.device.decode(parsed(r).payload)) == parsed(r).payload
        for r in reports
    )


def test_noise_uses_no_answer_that_was_memoised(tmp_path: Path) -> None:
    levels = Parameters(epsilon_longitudinal=1.0, d=48)
    asked = Collection("x", 1, Domain(48), "dbitflip_pm", levels, loloha().epochs)
    device = Device.open(asked, tmp_path, memo="stored", budget=48.0, outbox=0)
    held = {parsed(device.report(value, value)).payload for value in range(48)}
    assert len(held) == 48
    capped = Device.open(asked, tmp_path, memo="stored", budget=1.0, at_cap="noise", outbox=0)
    state = state_of(capped)
    state.collections[0].spent_budget = 1.0
    set_state(capped, state)
    assert not held & {parsed(capped.report(3, epoch)).payload for epoch in range(48, 80)}


# --- many inputs


def test_beyond_the_marks_every_input_counts_until_all_have() -> None:
    asked = unary(300)
    costs = Costs(asked, b"s" * 32, Budget())
    entry = device_state_pb2.CollectionState()
    entry.levels.add(epsilon=asked.protocol.guarantee.per_memoised_input or 0)
    counted = []
    for step in range(900):
        added, entry.inputs = costs.price(entry, [(0, step % 300)])
        entry.levels[0].times += sum(added.values())
        counted.append(entry.levels[0].times)
    assert counted[:300] == list(range(1, 301))
    assert counted[-1] == 300  # all that exist
    assert len(entry.inputs) == 8 * MOST_MARKS
    few = unary(200)
    costs, entry = Costs(few, b"s" * 32, Budget()), device_state_pb2.CollectionState()
    entry.levels.add(epsilon=few.protocol.guarantee.per_memoised_input or 0)
    for step in [*range(150), *range(140, 150)]:
        added, entry.inputs = costs.price(entry, [(0, step)])
        entry.levels[0].times += sum(added.values())
    assert entry.levels[0].times == 160


def test_no_two_inputs_share_a_mark() -> None:
    ours, theirs = (Costs(unary(), secret * 32, Budget()) for secret in (b"a", b"b"))
    pairs = [(part, key) for part in (0, 1, 2, 65535) for key in range(3000)]
    marks = {ours._mark(*pair) for pair in pairs}
    assert len(marks) == len(pairs)
    assert not marks & {theirs._mark(*pair) for pair in pairs}
    # All 16-bit halves of the low words differ too: nothing of the input shows through.
    assert sum(mark[:4] == (0).to_bytes(4, "little") for mark in marks) == 0
