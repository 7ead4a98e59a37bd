"""Tables of docs/consistency.md that benchmarks/consistency.py prints, drawn again with its seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import consistency as benchmark

LINES = (Path(__file__).resolve().parents[2] / "docs" / "consistency.md").read_text("utf-8").splitlines()


def rows(lines: list[str], names: int) -> dict[str, list[float]]:
    """The numbers in each row, by its first cells."""
    split = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {" ".join(cells[:names]): [float(cell) for cell in cells[names:]] for cells in split}


def printed(head: str, names: int) -> dict[str, list[float]]:
    """The table of the page with this head."""
    first = LINES.index(head) + 2
    last = next(i for i in range(first, len(LINES)) if not LINES[i].startswith("|"))
    return rows(LINES[first:last], names)


@pytest.mark.thorough
def test_sums_are_as_printed() -> None:
    """Of histograms over few values that need no data. Only libm may differ: the last digit."""
    made = benchmark.ordered(Path("no data"))
    found = benchmark.sums({label: truth for label, truth in made.items() if truth.size <= 100}, 1, 40)
    page = printed(found[0], 3)
    drawn = {name: numbers for name, numbers in rows(found[2:], 3).items() if name in page}
    assert len(drawn) == 4
    for name, numbers in drawn.items():
        assert numbers == pytest.approx(page[name], abs=0.11), name


@pytest.mark.thorough
def test_biases_are_as_printed() -> None:
    found = benchmark.biases(1, 200)
    assert rows(found[2:], 1) == {
        name: pytest.approx(numbers, abs=0.011) for name, numbers in printed(found[0], 1).items()
    }
