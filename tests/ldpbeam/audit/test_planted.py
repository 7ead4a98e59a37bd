"""Every planted bug is found by the checks that it names, and honest clients pass all of them.

An honest client is refused with probability at most FALSE_ALARM per collection, so this file raises a false
alarm with at most 1e-7.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ldpbeam.audit.audit import audit
from ldpbeam.audit.checks.outcome import AuditOutcome, Check
from ldpbeam.audit.client.clients import Maker, Memoised, PythonClient
from ldpbeam.audit.client.draws import DrawPlan
from tests.conftest import FALSE_ALARM_SUITE
from tests.ldpbeam.audit.bugs import BUGS, Planted
from tests.ldpbeam.audit.collections import COLLECTIONS
from tests.ldpbeam.audit.small import KindMaker, Small

pytestmark = pytest.mark.thorough

FALSE_ALARM = 1e-9
assert FALSE_ALARM * 3 * len(COLLECTIONS) < FALSE_ALARM_SUITE

SMALL = DrawPlan(draws=3000, lasting=150, swept=(96, 100), forked=32, pairs=64)
FEW = DrawPlan(draws=1500, lasting=60, swept=(96, 20), forked=32, pairs=64)
# The device that derives is ten times as slow: every check is made, of fewer reports.
DERIVING = DrawPlan(draws=200, lasting=20, swept=(16, 10), forked=16, pairs=32, changing=12, held=32)


def audited(maker: Maker, name: str, folder: Path, plan: DrawPlan = SMALL) -> AuditOutcome:
    collection = COLLECTIONS[name]
    return audit(PythonClient(collection, maker, folder), collection, plan, FALSE_ALARM)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.kind.__name__)
def test_a_planted_bug_is_found_by_the_checks_that_it_names(bug: Planted, tmp_path: Path) -> None:
    outcome = audited(KindMaker(bug.kind), bug.collection, tmp_path, replace(SMALL, draws=bug.draws))
    assert set(bug.checks) <= outcome.failed, outcome.violations


@pytest.mark.parametrize("name", sorted({bug.collection for bug in BUGS}))
def test_the_small_client_passes(name: str, tmp_path: Path) -> None:
    """As it stands it is honest: what the bugs fail by is their own line."""
    outcome = audited(KindMaker(Small), name, tmp_path, FEW)
    assert outcome.violations == []
    # Protocols of one round keep no answers.
    kept = COLLECTIONS[name].protocol.guarantee.memoised_ratio is not None
    unmade = {Check.PARTICIPATION} if kept else {Check.PARTICIPATION, Check.MEMO}
    assert {one.check for one in outcome.checks} == set(Check) - unmade


@pytest.mark.parametrize("name", sorted(COLLECTIONS))
def test_the_device_passes(name: str, tmp_path: Path) -> None:
    """This project's own client."""
    outcome = audited(Memoised("stored"), name, tmp_path, FEW)
    assert outcome.violations == []
    assert all(level.holds for level in outcome.levels)


@pytest.mark.parametrize(
    "name", ["grr", "l_osue", "loloha_affine", "dbitflip_pm", "sample", "together", "sliced"]
)
def test_the_device_that_derives_passes(name: str, tmp_path: Path) -> None:
    """Permanent answers and noise from a secret in a folder."""
    assert audited(Memoised("derived"), name, tmp_path, DERIVING).violations == []
