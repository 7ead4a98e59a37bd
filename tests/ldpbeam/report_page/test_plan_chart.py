"""The chart of a plan, read back from its SVG: every point lies where its numbers say."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from ldpbeam.planning.chart import MOST, lines
from ldpbeam.planning.needs import FrequencyNeeds, MeanNeeds
from ldpbeam.planning.plan import Plan, make_plan
from ldpbeam.planning.quantity import quantity
from ldpbeam.planning.sentences import budget_name
from ldpbeam.report_page.plan_chart import draw

NEEDS = [
    FrequencyNeeds(20, 2_000_000, epochs=365, lifetime=2.0, target=0.01),
    MeanNeeds(12, 5_000, epochs=4, inputs_cap=6.0, bits=8),
]
_SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(NEEDS[0], id="frequencies"),
        pytest.param(NEEDS[1], id="mean", marks=pytest.mark.thorough),
    ],
)
def plan(request: pytest.FixtureRequest) -> Plan:
    return make_plan(request.param)


@pytest.fixture(scope="module")
def drawn(plan: Plan) -> str:
    """Its chart, drawn once: a browser's engine takes seconds."""
    return draw(plan)


def curves(document: ElementTree.Element) -> list[tuple[str, str, np.ndarray]]:
    """(colour, dashes, places (n, 2)) of every curve with more points than a legend's stroke."""
    found = []
    for path in document.iter(f"{_SVG}path"):
        places = np.array(re.findall(r"(-?[\d.]+),(-?[\d.]+)", path.get("d", "")), float)
        if len(places) > 2 and path.get("stroke", "").startswith("#"):
            found.append((path.attrib["stroke"], path.attrib["stroke-dasharray"], places))
    return found


def texts(document: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in document.iter(f"{_SVG}text")]


@pytest.mark.thorough
def test_every_point_lies_where_its_numbers_say(plan: Plan, drawn: str) -> None:
    """On both logarithmic axes, in the lines' order; half a pixel is for rounding to tenths."""
    document = ElementTree.fromstring(drawn)
    about, wanted = quantity(plan.needs), lines(plan)
    found = curves(document)
    assert 0 < len(found) == len(wanted) <= MOST
    assert len({colour for colour, _, _ in found}) == len(wanted)
    assert [dashes == "7,3" for _, dashes, _ in found] == [line.weaker for line in wanted]
    numbers = np.log(np.concatenate([line.points for line in wanted]))
    places = np.concatenate([one for _, _, one in found])
    slopes = []
    for axis in range(2):
        (slope, begin), *_ = np.linalg.lstsq(
            np.stack([numbers[:, axis], np.ones(len(numbers))], 1), places[:, axis], rcond=None
        )
        assert np.abs(slope * numbers[:, axis] + begin - places[:, axis]).max() < 0.5
        slopes.append((slope, begin))
    assert slopes[0][0] > 0 > slopes[1][0]  # upwards is a smaller y
    # The level that was asked for, and the errors to compare with, are on the same axes.
    rules = [
        (
            line.get("stroke-dasharray"),
            [float(x) for x in re.findall(r"-?[\d.]+", line.get("transform", "0,0"))],
        )
        for line in document.iter(f"{_SVG}line")
        if line.get("stroke-dasharray")
    ]
    (level,) = [place for dashes, place in rules if dashes == "2,3"]
    assert level[0] == pytest.approx(slopes[0][0] * np.log(budget_name(plan.needs)[1]) + slopes[0][1], abs=1)
    marked = about.levels | ({"wanted": plan.needs.target} if plan.needs.target else {})
    heights = sorted(place[1] for dashes, place in rules if dashes == "6,4")
    expected = sorted(slopes[1][0] * np.log(error) + slopes[1][1] for error in marked.values())
    assert heights == pytest.approx(expected, abs=1)


@pytest.mark.thorough
def test_the_chart_names_what_it_shows(plan: Plan, drawn: str) -> None:
    words = texts(ElementTree.fromstring(drawn))
    about = quantity(plan.needs)
    labels = [line.label for line in lines(plan)]
    assert [word for word in words if word in labels] == labels
    assert f"half-width of the 95 % interval, {about.unit}" in words
    assert budget_name(plan.needs)[0] in words
    for what, error in about.levels.items():
        assert f"{what}: {about.error(error)}" in words
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.thorough
def test_where_nothing_is_possible_the_chart_is_empty() -> None:
    """Lines are left out that miss a need other than the error; there may be none."""
    plan = make_plan(replace(NEEDS[0], values=360, bits=1))
    assert not lines(plan)
    assert not curves(ElementTree.fromstring(draw(plan)))
