"""What the page says of a shuffler: a figure with its assumption, where one is known, and nothing else."""

from __future__ import annotations

import json

import pytest

from ldpbeam.collection.file import parse_collection
from ldpbeam.records.collection_record import CollectionRecord, collection_entry
from ldpbeam.report_page.privacy import PromiseRow, privacy
from ldpbeam.shuffling.randomiser import one_epoch
from ldpbeam.shuffling.shuffle import central_epsilon
from tests.narrow import present


def said(protocol: str, levels: str, epochs: str = "") -> list[PromiseRow]:
    agreed = parse_collection(
        f"name: x\ndomain: {{size: 9}}\nprotocol: {protocol}\n{levels}\nepoch: {{length: 1d{epochs}}}\n"
    )
    record = CollectionRecord.from_record(json.loads(json.dumps(collection_entry(agreed))))
    return [one for one in privacy(record, "x").promises if one.name.startswith("Behind a shuffler")]


def test_the_figure_stands_with_its_assumption() -> None:
    protocol, levels = "loloha", "g: 3\nepsilon_longitudinal: 2.0\nepsilon_first: 1.0"
    (line,) = said(protocol, levels)
    assert "a shuffler that the server does not control" in line.meaning
    assert "without such a shuffler the promises to a device hold as they are" in line.meaning
    assert "of which about 1 in 8 has the same hash function" in line.meaning
    agreed = parse_collection(
        f"name: x\ndomain: {{size: 9}}\nprotocol: {protocol}\n{levels}\nepoch: {{length: 1d}}\n"
    )
    found = present(one_epoch(agreed.protocol))
    assert float(line.value) == pytest.approx(central_epsilon(found, 100_000), rel=0.01)


@pytest.mark.thorough
def test_nothing_is_said_where_nothing_is_known() -> None:
    both = "epsilon_longitudinal: 2.0\nepsilon_first: 1.0"
    assert not said("loloha", f"hash_family: affine\n{both}")
    assert not said("loloha", f"hash_family: affine\n{both}", ", count: 2")
    assert said("loloha", f"hash_family: affine\n{both}", ", count: 1"), "no answer is seen twice"
    assert not said("dbitflip_pm", "epsilon_longitudinal: 1.0\nd: 2")
