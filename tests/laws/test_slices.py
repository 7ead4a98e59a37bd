"""What a device tells in two epochs has one law, whether its slice stays or changes: exact, nothing sampled.

The device's own code, from ``report`` on, runs over every random word that it could draw; its pseudo-random
function is an ideal one.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from ldpbeam.channels.exact import log_above
from ldpbeam.client.derivation import DerivedRandomness, Purpose
from ldpbeam.client.device import Device, Policy
from ldpbeam.client.report_draws import DerivedDraws
from ldpbeam.client.storage import MemoryStorage
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.slices import Slices
from ldpbeam.privacy.loss import OneProtocolLosses
from ldpbeam.promise.promise import any_loss
from tests.laws.test_derived_channel import SMALL, Ideal
from tests.ldpbeam.client.devices import collection, parsed
from tests.reference.device_law import every_outcome
from tests.reference.settings import Setting

SLICES = Slices.of({"channel": ["release", "beta"]})
RELEASE, BETA = {"channel": "release"}, {"channel": "beta"}
Law = dict[Any, Fraction]


def law_of(asked: Collection, values: tuple[int, ...], said: list[Any]) -> Law:
    """Of the payloads of two epochs."""

    def life(source: Any) -> Any:
        draws, ideal = DerivedDraws(asked, bytes(32)), Ideal(source)
        draws._derivation = ideal  # type: ignore[assignment]
        once: Any = DerivedRandomness(ideal, Purpose.ONCE, 0, 0)  # type: ignore[arg-type]
        draws._memo = asked.protocol.device.new_memo(once)
        device, sent = Device(asked, MemoryStorage(), "derived", Policy(), 0), []
        device._draws = draws
        for epoch, (value, slice_) in enumerate(zip(values, said, strict=True)):
            report = parsed(device.report(value, epoch, slice=slice_))
            assert report.digest == asked.slice_digest(asked.slices.of_device(slice_))
            sent.append(report.payload)
        return tuple(sent)

    return every_outcome(life).law


def worst_loss(laws: list[Law]) -> float:
    return max(log_above(max(law[sent] for law in laws) / min(law[sent] for law in laws)) for sent in laws[0])


@pytest.mark.parametrize("setting", [s for s in SMALL if s.domain_size == 2], ids=str)
@pytest.mark.cases(8)
def test_two_epochs_have_one_law_in_all_slices_and_lose_what_the_base_states(setting: Setting) -> None:
    base = collection(setting)
    asked, losses = replace(base, slices=SLICES), base.protocol.losses
    laws = []
    for values in product(range(2), repeat=2):
        laws.append(law_of(base, values, [None, None]))
        assert sum(laws[-1].values()) == 1
        for said in ([RELEASE, RELEASE], [RELEASE, BETA]):
            assert law_of(asked, values, said) == laws[-1]
    assert worst_loss(laws) <= any_loss(base.protocol, 2)[0]
    if isinstance(losses, OneProtocolLosses):
        assert worst_loss([laws[0], laws[-1]]) <= losses.constant(2)
