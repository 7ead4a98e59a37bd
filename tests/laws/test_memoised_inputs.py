"""What the cap of a memoising protocol is about: its memoised inputs, renamed. Exact, nothing sampled.

All sequences of values are enumerated, with all constants that a device draws once: hash function, sampled
buckets, α, drawn attribute. A server sees all of them but α in the reports. The memoised inputs are values,
hash symbols, buckets or rounding points, and with several attributes those of each attribute. A protocol
added to ``ldpbeam.protocols`` is picked up unedited.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import inf, log
from typing import Any

import numpy as np
import pytest

from ldpbeam.privacy.guarantee import MemoisedInputs
from ldpbeam.protocols import PROTOCOLS, Parameters, protocol
from ldpbeam.protocols.attributes.allocate import ALLOCATIONS, allocate
from ldpbeam.protocols.attributes.base import AttributeProtocol
from tests.reference.channels import Seeded, first_rows, memo_key, memos, second_rows
from tests.reference.settings import Setting, settings

SLACK = 1e-12
"""By which floats may lie above a loss that is rounded up."""

MANY = 20
"""Reports after which the stated loss of renamed inputs is near the cap."""

Values = Sequence[Any]
"""A value for each report; with several attributes each is a tuple."""


# --- the law of all reports of a device


@dataclass(frozen=True)
class Device:
    """A device of one attribute with given constants.

    Attributes:
        keys: the memoised input of each value.
        first: P(answer | input), by input.
        second: P(report | answer), a row per answer.
    """

    keys: tuple[int, ...]
    first: dict[int, np.ndarray]
    second: np.ndarray

    def law(self, values: Sequence[int]) -> np.ndarray:
        """P(reports | values), one axis per report: the memo's entries are independent."""
        keys, outputs = [self.keys[value] for value in values], self.second.shape[1]
        found = np.ones((outputs,) * len(keys))
        for key in set(keys):
            under = [i for i, other in enumerate(keys) if other == key]
            table = self.first[key]
            for _ in under:
                table = table[..., None] * self.second.reshape(len(self.second), *(1,) * (table.ndim - 1), -1)
            shape = [outputs if i in under else 1 for i in range(len(keys))]
            found = found * table.sum(axis=0).reshape(shape)
        return found


def devices(built: Any) -> list[list[Device]]:
    """Devices of one attribute by the constants that reports show; those of a list are equally likely."""
    k = built.domain_size

    def device(constant: int | None) -> Device:
        keys = tuple(memo_key(built, constant, value) for value in range(k))
        rows = first_rows(built, constant)
        first = {key: np.array([float(p) for p in rows[value]]) for value, key in enumerate(keys)}
        return Device(
            keys, first, np.array([[float(p) for p in row] for row in second_rows(built, constant)])
        )

    found = [device(memo.seed) for memo in memos(built)]
    sent = built.device.privatize(0, memos(built)[0], Seeded(0))[0]
    # Nothing that a report shows of α: a server knows only that the device has one.
    shown = hasattr(sent, "seed") or len(found) == 1
    return [[one] for one in found] if shown else [found]


Shown = tuple[tuple[int, tuple[Device, ...]], ...]
"""The attributes that a device reports, each with the devices it may be, for all that its reports show."""


def views(built: Any, *, alpha: bool) -> Iterator[Shown]:
    """All that reports can show of a device's constants, with or without its α."""
    each: list[list[tuple[Device, ...]]] = []
    for part in built.parts:
        groups = devices(part)
        each.append([(one,) for group in groups for one in group] if alpha else [tuple(g) for g in groups])
    if isinstance(built, AttributeProtocol) and not built.TOGETHER:
        yield from (((i, found),) for i, some in enumerate(each) for found in some)
    else:
        yield from (tuple(enumerate(found)) for found in product(*each))


def law(view: Shown, values: Values) -> np.ndarray:
    """P(reports | values, what they show); attributes are reported with independent noise."""
    laws = []
    for attribute, some in view:
        own = [value[attribute] for value in values]
        laws.append(np.mean([device.law(own) for device in some], axis=0).ravel())
    return reduce(np.multiply.outer, laws).ravel()


def sequences(built: Any, reports: int) -> list[Values]:
    """All sequences of values that a device accepts, as tuples of one value per attribute."""
    values = list(product(*(range(part.domain_size) for part in built.parts)))
    if built.device.sum_limit is not None:
        values = [value for value in values if sum(value) <= built.device.sum_limit]
    return list(product(values, repeat=reports))


def pattern(inputs: Sequence[Hashable]) -> tuple[int, ...]:
    """Equal for two sequences where, and only where, one is the other with its inputs renamed."""
    return tuple(map(list(dict.fromkeys(inputs)).index, inputs))


def loss(laws: Sequence[np.ndarray]) -> float:
    """The largest ln of a ratio of two of them."""
    low, high = np.min(laws, axis=0), np.max(laws, axis=0)
    possible = high > 0
    if not low[possible].all():
        return inf
    return log(float((high[possible] / low[possible]).max()))


def worst(
    built: Any, reports: int, alike: Callable[[Shown, Values], Hashable], *, alpha: bool = False
) -> float:
    """The largest loss between two sequences of values that are alike, whatever the reports show."""
    found = 0.0
    for view in views(built, alpha=alpha):
        groups: dict[Hashable, list[np.ndarray]] = defaultdict(list)
        for values in sequences(built, reports):
            groups[alike(view, values)].append(law(view, values))
        found = max(found, *map(loss, groups.values()))
    return found


def by_inputs(view: Shown, values: Values) -> Hashable:
    """Where the memoised inputs of each attribute change, and to which earlier one they return."""
    return tuple(
        pattern([device.keys[value[attribute]] for value in values]) for attribute, (device,) in view
    )


def by_values(view: Shown, values: Values) -> Hashable:
    """Where the values change, and to which earlier one they return."""
    return pattern(values)


def by_nothing(view: Shown, values: Values) -> Hashable:
    """All sequences are alike."""
    return None


# --- what is stated


def same_changes(built: Any, reports: int) -> float:
    """The stated loss for renamed inputs, which is never above the cap; the cap where only that is stated."""
    cap = built.guarantee.cap_over_inputs
    assert cap is not None
    stated: float = built.losses.same_changes(reports)
    # Floats that are added up, and ε∞ times a number of inputs, may be off in their last digits.
    assert stated <= cap + SLACK
    return stated


def any_changes(built: Any, reports: int) -> float | None:
    """The stated loss for any two sequences, None where it is not known."""
    stated: float | None = built.losses.any_changes(reports)
    return stated


def memoises(setting: Setting) -> bool:
    return setting.build().guarantee.memoised_ratio is not None


# Three reports can have three values, and no more.
SMALL = [setting for setting in settings((2, 3)) if memoises(setting)]
TIMES = (2, 3)
"""Reports of a device."""


@pytest.mark.parametrize("setting", SMALL, ids=str)
@pytest.mark.cases(12)
def test_renamed_inputs_lose_no_more_than_is_stated(setting: Setting) -> None:
    built = setting.build()
    for t in TIMES:
        assert worst(built, t, by_inputs, alpha=True) <= same_changes(built, t) + SLACK
    assert same_changes(built, MANY) >= same_changes(built, 3)


@pytest.mark.parametrize(
    "setting", [s for s in SMALL if s.build().guarantee.inputs is MemoisedInputs.VALUES], ids=str
)
def test_renamed_values_lose_just_what_is_stated_where_values_are_memoised(setting: Setting) -> None:
    built = setting.build()
    for t in TIMES:
        assert worst(built, t, by_values) == pytest.approx(same_changes(built, t), rel=1e-11)


@pytest.mark.parametrize("setting", SMALL, ids=str)
@pytest.mark.cases(12)
def test_any_values_lose_no_more_than_is_stated_for_any_changes(setting: Setting) -> None:
    built = setting.build()
    for t in TIMES:
        stated = any_changes(built, t)
        if stated is not None:
            found = worst(built, t, by_nothing)
            assert found <= stated + SLACK
            if built.guarantee.inputs is MemoisedInputs.VALUES or stated == inf:
                assert found == pytest.approx(stated, rel=1e-11)


# --- several attributes

BOTH = Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0)
ATTRIBUTES = [
    (allocation, name, sizes)
    for allocation, names, sizes in (
        ("sample", ("l_grr", "l_osue", "loloha", "dbitflip_pm", "one_bit_rrpm"), (2, 3)),
        ("split", ("l_grr", "l_osue", "loloha", "dbitflip_pm", "one_bit_rrpm"), (2, 3)),
        ("allomfree", (None,), (2, 3)),
        ("together", ("one_bit_rrpm",), (3, 3)),
    )
    for name in names
]


def several(allocation: str, name: str | None, sizes: Sequence[int], **more: Any) -> AttributeProtocol[Any]:
    takes = ("epsilon_longitudinal", "epsilon_first") if name is None else PROTOCOLS[name].PARAMETERS
    levels = {"epsilon_longitudinal": 2.0, "epsilon_first": 1.0, "d": 1}
    return allocate(allocation, name, sizes, Parameters(**{n: levels[n] for n in takes}, **more))  # type: ignore[arg-type]


@pytest.mark.parametrize(("allocation", "name", "sizes"), ATTRIBUTES)
def test_renamed_inputs_of_each_attribute_lose_no_more_than_is_stated(
    allocation: str, name: str | None, sizes: tuple[int, ...]
) -> None:
    more: dict[str, Any] = {"gamma": 0.2} if name == "one_bit_rrpm" else {}
    built = several(allocation, name, sizes, **more)
    assert worst(built, 2, by_inputs, alpha=True) <= same_changes(built, 2) + SLACK
    assert same_changes(built, MANY) >= same_changes(built, 2)
    stated = any_changes(built, 2)
    assert stated is None or worst(built, 2, by_nothing) <= stated + SLACK


# --- sequences of values that change, and return, at the same epochs, and lose more


def one(name: str, size: int, **more: Any) -> Any:
    return protocol(name, size, Parameters(**{"epsilon_longitudinal": 2.0, **more}))


EXHIBITS: list[tuple[Any, Values, Values, float, float]] = [
    # The function is in the report: under one of three, 0 and 1 collide, and 0 and 2 do not.
    (one("loloha", 4, g=2, epsilon_first=1.0), [(0,), (1,)] * 4, [(0,), (2,)] * 4, 5.38, 3.95),
    (one("loloha", 4, g=2, epsilon_first=1.9), [(0,), (1,)], [(0,), (2,)], 3.98, 3.80),
    # Bucket 0 is sampled: a device that holds 1, then 2, sends the same bit twice.
    (one("dbitflip_pm", 3, d=1), [(0,), (1,)], [(1,), (2,)], inf, 2.0),
    # For three of four α the value 3 is rounded as 4 is.
    (one("one_bit_rrpm", 5, epsilon_longitudinal=1.0), [(0,), (4,)], [(4,), (3,)], 3.39, 2.0),
    # A device that drew one of the attributes sees its own value change or not.
    (several("sample", "l_grr", (2, 3)), [(0, 0), (0, 1)], [(0, 2), (1, 2)], 2.14, 2.0),
    (several("allomfree", None, (2, 3)), [(0, 0), (0, 1)], [(0, 2), (1, 2)], 2.14, 2.0),
    (several("split", "l_oue", (2, 3)), [(0, 0), (0, 1)], [(0, 0), (1, 0)], 2.45, 2.0),
    (several("together", "one_bit_rrpm", (3, 3)), [(0, 0), (0, 2)], [(0, 0), (2, 0)], inf, 8.0),
]
"""Two sequences of values, what they lose, and what is stated for renamed inputs: their loss or the cap."""


def test_every_protocol_with_other_inputs_than_values_has_an_exhibit() -> None:
    other = {
        setting.name for setting in SMALL if setting.build().guarantee.inputs is not MemoisedInputs.VALUES
    }
    assert {built.NAME for built, *_ in EXHIBITS} == other | set(ALLOCATIONS)


@pytest.mark.parametrize(
    ("built", "mine", "yours", "figure", "stated"), EXHIBITS, ids=[str(case[0].NAME) for case in EXHIBITS]
)
def test_where_other_inputs_are_memoised_renamed_values_can_lose_more(
    built: Any, mine: Values, yours: Values, figure: float, stated: float
) -> None:
    assert pattern(mine) == pattern(yours), "they change, and return, at the same epochs"
    found = max(loss([law(view, mine), law(view, yours)]) for view in views(built, alpha=False))
    assert f"{found:.2f}" == f"{figure:.2f}"
    assert f"{same_changes(built, len(mine)):.2f}" == f"{stated:.2f}"
    assert found > stated + 0.1
