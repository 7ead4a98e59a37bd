"""Clients that report in a few epochs only: honest ones pass, and planted bugs are found by whole lives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.audit.audit import audit
from ldpbeam.audit.checks.outcome import AuditOutcome, Check
from ldpbeam.audit.client.clients import Maker, Memoised, PythonClient
from ldpbeam.audit.client.draws import DrawPlan
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import Epochs
from ldpbeam.collection.participation import Participation
from ldpbeam.protocols import Parameters
from tests.ldpbeam.audit.small import KindMaker, Small, Words
from tests.narrow import present

FALSE_ALARM = 1e-9


def few(name: str, reports: int, of: int, **levels: Any) -> Collection:
    parameters = Parameters(**levels)
    life = Participation(reports, of)
    return Collection("few", 1, Domain(3), name, parameters, Epochs(3600, 0, of), participation=life)


GRR = few("grr", 2, 5, epsilon=1.0)
LGRR = few("l_grr", 2, 5, epsilon_longitudinal=3.0, epsilon_first=2.5)


def audited(maker: Maker, collection: Collection, folder: Path, draws: int = 1000) -> AuditOutcome:
    return audit(PythonClient(collection, maker, folder), collection, DrawPlan(draws), FALSE_ALARM)


class Few(Small):
    """Honest: its epochs follow from its secret alone."""

    before: Any = None

    @property
    def life(self) -> Participation:
        return present(self.collection.participation)

    def own(self, value: Any) -> tuple[int, ...]:
        return self.life.chosen(Words(self, "epochs"))

    def report(self, value: Any, epoch: int, **_: Any) -> bytes:
        if epoch not in self.own(value):
            self.before = value
            raise LookupError("silent")
        return super().report(value, epoch)


class OneMore(Few):
    """One epoch more than it may."""

    def own(self, value: Any) -> tuple[int, ...]:
        return replace(self.life, reports=self.life.reports + 1).chosen(Words(self, "epochs"))


class SilentForOneValue(Few):
    """Of the last value it speaks in the first epochs only: silence tells the value."""

    def own(self, value: Any) -> tuple[int, ...]:
        return tuple(range(self.life.reports)) if value else super().own(value)


class FirstEpochs(Few):
    """Every life begins with its reports."""

    def own(self, value: Any) -> tuple[int, ...]:
        return tuple(range(self.life.reports))


class SpreadOut(Few):
    """Never in two epochs that follow each other: right for each epoch, and not for two."""

    def own(self, value: Any) -> tuple[int, ...]:
        first = Words(self, "epochs").word(self.life.of)
        return tuple(sorted({first, (first + 2) % self.life.of}))


class DrawnAgain(Few):
    """Opened again it has other epochs."""

    def __init__(self, collection: Collection, folder: Path | None) -> None:
        super().__init__(collection, folder)
        self.opened = Words(self, "opened").count
        marks = None if folder is None else folder / "opened"
        if marks is not None:
            self.opened = len(marks.read_text()) if marks.exists() else 0
            marks.write_text("x" * (self.opened + 1))

    def own(self, value: Any) -> tuple[int, ...]:
        return self.life.chosen(Words(self, f"epochs {self.opened}"))


class AsksTwice(Few):
    """Asked again in a silent epoch it gives in."""

    asked = -1

    def report(self, value: Any, epoch: int, **_: Any) -> bytes:
        if epoch == self.asked and epoch not in self.own(value):
            return Small.report(self, value, epoch)
        self.asked = epoch
        return super().report(value, epoch)


class OfTheSilence(Few):
    """Reports what it held when it was silent."""

    def response(self, value: Any, epoch: int) -> Any:
        return super().response(value if self.before is None else self.before, epoch)


class FreshMemos(Few):
    """Draws permanent answers anew in every epoch."""

    def permanent_label(self, label: str, key: int) -> str:
        return f"{super().permanent_label(label, key)} {self.epoch}"


BUGS = [
    (OneMore, GRR, {Check.PARTICIPATION}, ("a device reports in 2 of", "opened again all its life")),
    (SilentForOneValue, GRR, {Check.PARTICIPATION}, ("second value held", "second value for life")),
    (FreshMemos, LGRR, {Check.SEQUENCE_MATCH}, ()),
    (OfTheSilence, few("grr", 2, 5, epsilon=4.0), {Check.SEQUENCE_MATCH}, ()),
    (DrawnAgain, GRR, {Check.PARTICIPATION, Check.REOPEN}, ("opened again, it does the same",)),
    (AsksTwice, GRR, {Check.REPEAT}, ("or is silent again",)),
    (SpreadOut, GRR, {Check.PARTICIPATION}, ("in the first and in the last epoch",)),
    (FirstEpochs, GRR, {Check.PARTICIPATION}, ("two devices report in the same epochs",)),
]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "collection", "checks", "said"), BUGS, ids=lambda one: getattr(one, "__name__", "")
)
def test_a_planted_bug_is_found(
    kind: type[Small], collection: Collection, checks: set[Check], said: tuple[str, ...], tmp_path: Path
) -> None:
    # A thousand devices miss a memo that is not kept one time in ten.
    outcome = audited(KindMaker(kind), collection, tmp_path, draws=5000)
    assert checks <= outcome.failed, outcome.violations
    for text in said:
        assert any(text in violation for _, violation in outcome.violations), outcome.violations


@pytest.mark.cases(1)
@pytest.mark.parametrize("collection", [GRR, LGRR], ids=["grr", "l_grr"])
def test_the_small_client_passes(collection: Collection, tmp_path: Path) -> None:
    """As it stands it is honest: what the bugs fail by is their own line."""
    outcome = audited(KindMaker(Few), collection, tmp_path)
    assert outcome.violations == []
    assert Check.PARTICIPATION in {one.check for one in outcome.checks}


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    "collection",
    [
        LGRR,
        few("one_bit_rrpm", 3, 7, epsilon_longitudinal=2.0, gamma=0.1),
        few("oue", 1, 9, epsilon=2.0),
        few("grr", 3, 3, epsilon=1.0),
    ],
    ids=["l_grr", "one_bit_rrpm", "oue", "every epoch"],
)
def test_the_device_passes(collection: Collection, tmp_path: Path) -> None:
    """This project's own client."""
    outcome = audited(Memoised("stored"), collection, tmp_path, 300)
    assert outcome.violations == []
    assert all(level.holds for level in outcome.levels)
