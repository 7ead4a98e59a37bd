"""All epochs of a page, for the choice of one: read here as the page's script reads them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ldpbeam.report_page.data import CollectionData, load
from ldpbeam.report_page.explorer import explorer
from tests.ldpbeam.report_page.synthetic import Fake, write_run
from tests.narrow import present


def data_of(root: Path, fake: Fake, truth: bool = True) -> CollectionData:
    output, true = write_run(root, [fake])
    (data,) = load(output, true if truth else None).collections
    return data


@pytest.mark.parametrize("truth", [True, False])
def test_every_epoch_is_there_to_two_digits_of_its_standard_error(tmp_path: Path, truth: bool) -> None:
    data = data_of(tmp_path, Fake(k=30, epochs=7, insufficient=(2,)), truth)
    found = present(explorer(data, {2: "fewer than 1,000 reports"}, 100_000))
    about = json.loads(found.epochs)
    assert found.note == ""
    assert about["columns"] == ["estimate", "±", "consistent", *(["truth"] if truth else [])]
    assert [value for value, _ in about["values"]] == list(range(30))
    assert about["epochs"][2]["name"] == "Epoch 2 (2026-01-01 12:00), withheld"
    assert "fewer than 1,000 reports" in about["epochs"][2]["note"]
    assert about["chosen"] == 6
    cells = [np.array(epoch["rows"], float) for epoch in about["epochs"]]
    assert np.isnan(cells[2][:, :3]).all()
    for place in (0, 1, 3, 4, 5, 6):
        one, unit = data.read(place), 10.0 ** -about["epochs"][place]["digits"]
        assert 10 <= np.median(one.std_error) * 100 / unit < 100
        columns = [one.estimate, 1.96 * one.std_error, one.consistent, one.truth][: len(about["columns"])]
        np.testing.assert_allclose(cells[place].T, np.multiply(columns, 100), atol=unit * 0.51)


def test_what_is_too_much_is_left_out_and_said(tmp_path: Path) -> None:
    data = data_of(tmp_path, Fake(k=300, epochs=20))
    found = present(explorer(data, {}, 60_000))
    assert len(found.epochs) <= 60_000
    kept = [value for value, _ in json.loads(found.epochs)["values"]]
    assert 20 < len(kept) < 180
    assert f"Of 300 values the {len(kept)} with the largest estimates on average" in found.note
    means = np.mean([data.read(epoch).estimate for epoch in range(20)], axis=0)
    assert set(kept) == set(np.argsort(-means)[: len(kept)].tolist())
    assert explorer(data, {}, 500) is None
