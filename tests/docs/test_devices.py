"""docs/devices.md does what it says."""

from __future__ import annotations

import re
from fractions import Fraction
from math import comb
from typing import Any

import pytest

from ldpbeam.protocols import PROTOCOLS, Parameters, protocol
from ldpbeam.protocols.attributes.allocate import ALLOCATIONS
from tests.conftest import REPOSITORY
from tests.docs.blocks import executed
from tests.narrow import frequencies

PAGE = REPOSITORY / "docs" / "devices.md"
TRUTH = {"light": 0.3, "dark": 0.6, "none of these": 0.1}


@pytest.mark.thorough
def test_the_page_prints_what_it_says() -> None:
    names: dict[str, Any] = {}
    for _, shown, printed in executed(PAGE, names):
        assert printed == shown
    estimates = names["result"].attributes[0].estimates
    # Six standard errors: the devices use the operating system's random numbers.
    for label, found, error in zip(TRUTH, estimates.frequency, estimates.std_error, strict=True):
        assert abs(found - TRUTH[label]) < 6 * error, label


def test_what_a_new_draw_costs() -> None:
    """P(majority of n first reports is right), from the protocol's own integers."""
    built = protocol("l_grr", 2, Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0))
    own = frequencies(built).estimator.support.own
    section = PAGE.read_text("utf-8").partition("<!-- checked: lives -->")[2]
    lives, chances = re.findall(r"^\| (?:lives n|chance) \|(.*)\|$", section, re.MULTILINE)
    for n, chance in zip(map(int, lives.split("|")), chances.split("|"), strict=True):
        right = sum(comb(n, i) * own**i * (1 - own) ** (n - i) for i in range((n + 1) // 2, n + 1))
        assert isinstance(right, Fraction)
        assert f"{float(right):.3f}" == chance.strip()


def test_every_protocol_has_its_row_in_the_threat_model() -> None:
    """What is protected, what is not, what a thief learns, what an operator sees."""
    text = (REPOSITORY / "docs" / "privacy.md").read_text("utf-8")
    section = text.partition("## Protocol by protocol")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if "|" in line]
    named = {name for row in rows[2:] for name in re.findall(r"`(\w+)`", row[0])}
    assert named == {*PROTOCOLS, *ALLOCATIONS}
    assert all(len(row) == 5 and all(row) for row in rows)
