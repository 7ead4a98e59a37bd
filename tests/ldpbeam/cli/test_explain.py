"""``ldpbeam explain``: every stage with its numbers."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from ldpbeam.collection.file import load_collection, parse_collection
from ldpbeam.planning.explanation import explained
from ldpbeam.protocols import PROTOCOLS
from tests.conftest import REPOSITORY
from tests.ldpbeam.cli.calling import told

SEVERAL = """\
name: both
attributes: [{name: x, domain: {size: 3}}, {name: y, domain: {labels: [left, right, none]}}]
allocation: sample
protocol: loloha
epsilon_longitudinal: 3.0
epsilon_first: 1.5
epoch: {length: 1d, count: 9}
"""
VALUES = {"epsilon": 1.0, "epsilon_longitudinal": 2.0, "epsilon_first": 1.0, "d": 2, "segment": 1}


def test_the_stages_have_the_integers_that_devices_draw_with() -> None:
    path = REPOSITORY / "examples" / "minutes_in_app.yaml"
    protocol: Any = load_collection(path).protocol
    out = told("explain", path)
    assert f"keep = {protocol.rounds.permanent.keep}, each = {protocol.rounds.permanent.each}" in out
    assert f"keep = {protocol.rounds.last.keep}, each = {protocol.rounds.last.each}" in out
    found = dict(re.findall(r"^  (own|other) = .* = ([0-9.]+)$", out, re.MULTILINE))
    assert float(found["own"]) == pytest.approx(float(protocol.estimator.support.own), abs=1e-9)
    assert float(found["other"]) == pytest.approx(float(protocol.estimator.support.other), abs=1e-9)
    document = json.loads(told("explain", path, "--json"))
    assert [stage["title"][0] for stage in document["stages"][:5]] == list("12345")
    assert told("explain", path, "--quiet") == ""


@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_every_protocol_is_explained(name: str) -> None:
    kind = PROTOCOLS[name]
    levels = "".join(f"{key}: {VALUES[key]}\n" for key in kind.PARAMETERS)
    text = f"name: a\ndomain: {{size: 5}}\nprotocol: {name}\nepoch: {{length: 1d}}\n{levels}"
    stages = explained(parse_collection(text))
    assert len(stages) == 7
    for title, lines in stages.items():
        assert lines
        assert all(line and "None" not in line and "nan" not in line for line in lines), title


def test_attributes_are_named() -> None:
    stages = explained(parse_collection(SEVERAL))
    assert {"x", "y"} <= {line.split(":")[0] for lines in stages.values() for line in lines}
