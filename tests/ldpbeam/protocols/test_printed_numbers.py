"""Known answers of docs/maths.md section 2; tests/reproduction has the papers' printed numbers."""

from __future__ import annotations

import re
from math import exp

import pytest

from ldpbeam.channels.calibration import Calibration
from ldpbeam.channels.channel import BitChannel, SymbolChannel, unary_ratio
from ldpbeam.channels.exact import exp_below
from ldpbeam.errors import CollectionError
from ldpbeam.protocols import Parameters, protocol
from ldpbeam.protocols.direct import Direct
from ldpbeam.protocols.local_hash import LocalHash
from ldpbeam.protocols.unary import Unary
from tests.narrow import of_kind

Encoded = Direct | LocalHash | Unary
EXACT, PUBLISHED = Calibration.EXACT, Calibration.PUBLISHED


def two(name: str, size: int, longitudinal: float, first: float, **more: object) -> Encoded:
    built = protocol(
        name,
        size,
        Parameters(epsilon_longitudinal=longitudinal, epsilon_first=first, **more),  # type: ignore[arg-type]
    )
    assert isinstance(built, Encoded)
    return built


LEVEL_PAIRS = [(0.5, 0.3), (2.0, 1.9), (5.0, 0.5), (8.0, 4.0)]
levels = pytest.mark.parametrize("longitudinal,first", LEVEL_PAIRS)


# Second rounds


def keeps(built: Encoded, one: int, zero: int, first: float) -> bool:
    """Whether a report keeps ε1 with this second round, in fractions."""
    return unary_ratio(*of_kind(BitChannel, built.rounds.permanent).then(BitChannel(one, zero))) <= exp_below(
        first
    )


def assert_no_more_fits(built: Encoded, first: float, one: int, zero: int) -> None:
    """The second round keeps ε1, and the next one, with these more weights, does not."""
    held = of_kind(BitChannel, built.rounds.last)
    assert keeps(built, held.one, held.zero, first)
    assert not keeps(built, held.one + one, held.zero + zero, first)


@levels
def test_l_osue_second_round_is_its_closed_form(longitudinal: float, first: float) -> None:
    built = two("l_osue", 5, longitudinal, first)
    permanent = built.rounds.permanent
    assert permanent is not None
    a, b = exp(longitudinal), exp(first)
    assert float(permanent.own) == 0.5
    assert float(permanent.other) == pytest.approx(1 / (a + 1), rel=1e-14)
    assert float(built.rounds.last.own) == pytest.approx((a * b - 1) / (a - b + a * b - 1), rel=1e-13)
    assert built.rounds.last.own + built.rounds.last.other == 1
    assert_no_more_fits(built, first, 1, -1)


@levels
@pytest.mark.parametrize("size", [2, 3, 360])
def test_symbol_second_rounds_are_their_formulas(longitudinal: float, first: float, size: int) -> None:
    a, b = exp(longitudinal), exp(first)
    exact = (b * (a + size - 2) - size + 1) / (a - b)
    published = (a * b - 1) / (a - b)
    for calibration, expected in ((EXACT, exact), (PUBLISHED, published)):
        built = two("l_grr", size, longitudinal, first, calibration=calibration)
        assert float(of_kind(SymbolChannel, built.rounds.last).ratio) == pytest.approx(expected, rel=1e-11)
    assert (exact == pytest.approx(published)) == (size == 2)


@pytest.mark.parametrize(
    "name,longitudinal,limit",
    [
        *[("l_oue", e, f) for e, f in zip((0.5, 1.0, 2.0, 4.0), (0.719, 0.763, 0.830, 0.901), strict=True)],
        *[("l_soue", e, f) for e, f in zip((0.5, 1.0, 2.0, 4.0), (0.666, 0.664, 0.655, 0.630), strict=True)],
    ],
)
def test_the_reach_of_l_oue_and_l_soue_is_named_in_the_error(
    name: str, longitudinal: float, limit: float
) -> None:
    with pytest.raises(CollectionError) as caught:
        two(name, 5, longitudinal, 0.95 * longitudinal)
    assert caught.value.code == "E-COLLECTION-INFEASIBLE"
    assert name in caught.value.message and "l_osue" in caught.value.remedy
    named = re.search(r"at most (\d+\.\d+)", caught.value.message)
    assert named
    most = float(named.group(1))
    assert round(most / longitudinal, 3) == limit
    two(name, 5, longitudinal, most - 1e-6)
    with pytest.raises(CollectionError):
        two(name, 5, longitudinal, most + 2e-6)


@pytest.mark.parametrize("name", ["l_grr", "l_sue", "l_osue", "l_oue", "l_soue", "loloha"])
@pytest.mark.parametrize("calibration", list(Calibration))
@pytest.mark.parametrize("first", [2.0, 30.0])
def test_a_first_level_not_below_the_longitudinal_one_is_refused(
    name: str, calibration: Calibration, first: float
) -> None:
    for family in ("linear", "affine"):
        with pytest.raises(CollectionError) as caught:
            two(name, 8, 2.0, first, calibration=calibration, hash_family=family)
        assert caught.value.code == "E-COLLECTION-VALUE"
        assert "not below epsilon_longitudinal" in caught.value.message


# Correction 1


@pytest.mark.parametrize("size,spent", [(3, 0.948), (8, 0.755), (96, 0.171), (360, 0.052)])
def test_published_first_reports_spend_less_than_nominal(size: int, spent: float) -> None:
    built = two("l_grr", size, 2.0, 1.0, calibration=PUBLISHED)
    assert round(built.guarantee.first_report, 3) == spent
    hashed = two("loloha", 400, 2.0, 1.0, g=size, calibration=PUBLISHED, hash_family="affine")
    assert round(hashed.guarantee.first_report, 3) == spent
    for exact in (
        two("l_grr", size, 2.0, 1.0),
        two("loloha", 400, 2.0, 1.0, g=size, hash_family="affine"),
    ):
        assert exact.guarantee.first_report == pytest.approx(1.0, abs=1e-12)
        assert exact.guarantee.per_memoised_input == pytest.approx(2.0, abs=1e-12)
