"""docs/reproduction.md says what the experiments find: to the letter, where nothing is drawn."""

import pytest

from reproduction.experiments import EXPERIMENTS
from reproduction.paper import Settings
from reproduction.results import claims
from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "reproduction.md").read_text("utf-8")
CLOSED = (
    "loloha:fig1",
    "loloha:fig2",
    "allomfree:table1",
    "allomfree:table2",
    "allomfree:fig3",
    "microsoft:deployment",
    "corrections:calibration",
    "corrections:loss",
)
"""What has no randomness, and so one result."""


@pytest.mark.parametrize("name", CLOSED)
def test_the_page_has_the_results_of_closed_forms(name: str) -> None:
    one = EXPERIMENTS[name]
    found = [row for cell in one.cells(Settings()) for row in one.compute(Settings(), cell)]
    lines = claims(vars(claim) for claim in one.compare(found))
    assert lines
    assert [line for line in lines if f"{line.rsplit(' | ', 1)[0]} |\n" not in PAGE] == []
