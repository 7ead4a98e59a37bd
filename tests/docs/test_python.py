"""docs/python.md, the examples and the docstrings of the front door do what they say."""

from __future__ import annotations

import doctest
import runpy

import pytest

import ldpbeam
from tests.conftest import REPOSITORY
from tests.docs.blocks import executed

PAGE = REPOSITORY / "docs" / "python.md"


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths in examples start from the repository."""
    monkeypatch.chdir(REPOSITORY)


@pytest.mark.thorough
def test_the_page_prints_what_it_says() -> None:
    for _, shown, printed in executed(PAGE, {}):
        assert printed == shown


def test_the_docstrings_of_the_front_door_hold() -> None:
    found = doctest.testmod(ldpbeam, extraglobs={"ldpbeam": ldpbeam})
    assert found.attempted > 12
    assert not found.failed


def test_the_docstring_of_a_fleet_holds() -> None:
    (example,) = doctest.DocTestFinder(recurse=False).find(ldpbeam.Fleet, globs={"ldpbeam": ldpbeam})
    assert len(example.examples) == 5
    assert not doctest.DocTestRunner().run(example).failed


def test_one_epoch_from_values_to_a_histogram(capsys: pytest.CaptureFixture[str]) -> None:
    names = runpy.run_path(str(REPOSITORY / "examples" / "one_epoch.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "5001 reports read, 5000 counted, 1 sent twice"
    assert len(lines) == 2 + len(names["labels"])
    histogram = names["histogram"]
    assert abs(histogram.consistent.sum() - 1) < 1e-9
    # Six standard errors: the devices of the example use the operating system's random numbers.
    wrong = abs(histogram.estimates.frequency - names["truth"]) / histogram.estimates.std_error
    assert wrong.max() < 6
