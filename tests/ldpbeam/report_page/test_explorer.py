"""All epochs of a page, packed for the choice of one: unpacked here as the page's script does it."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldpbeam.report_page.data import CollectionData, load
from ldpbeam.report_page.document import write_page
from ldpbeam.report_page.explorer import explorer
from tests.ldpbeam.report_page.synthetic import Fake, write_run


def unpack(packed: str) -> tuple[dict[str, Any], np.ndarray]:
    """What is said of them, and the cells by column, epoch and value; NaN where nothing is known."""
    about = json.loads(zlib.decompress(base64.b64decode(packed)))
    return about, np.array(about["cells"], float)


def data_of(root: Path, fake: Fake, truth: bool = True) -> CollectionData:
    output, true = write_run(root, [fake])
    (data,) = load(output, true if truth else None).collections
    return data


@pytest.mark.parametrize("truth", [True, False])
def test_every_epoch_is_there_to_two_digits_of_its_standard_error(tmp_path: Path, truth: bool) -> None:
    data = data_of(tmp_path, Fake(k=30, epochs=7, insufficient=(2,)), truth)
    found = explorer(data, {2: "fewer than 1,000 reports"}, 100_000)
    assert found is not None
    about, cells = unpack(found.packed)
    assert found.note == ""
    assert about["columns"] == ["estimate", "±", "consistent", *(["truth"] if truth else [])]
    assert [value for value, _ in about["values"]] == list(range(30))
    assert [epoch["epoch"] for epoch in about["epochs"]] == list(range(7))
    assert about["epochs"][2]["name"] == "Epoch 2 (2026-01-01 12:00), withheld"
    assert "fewer than 1,000 reports" in about["epochs"][2]["note"]
    assert about["chosen"] == 6
    assert np.isnan(cells[:3, 2]).all()
    for place in (0, 1, 3, 4, 5, 6):
        one, unit = data.read(place), about["epochs"][place]["unit"]
        assert 10 <= np.median(one.std_error) / unit < 100
        columns = [one.estimate, 1.96 * one.std_error, one.consistent, one.truth][: len(cells)]
        np.testing.assert_allclose(cells[:, place] * unit, columns, atol=unit * 0.51)


def test_what_is_too_much_is_left_out_and_said(tmp_path: Path) -> None:
    """The largest values stay; a limit that no value fits leaves the choice out."""
    data = data_of(tmp_path, Fake(k=300, epochs=20))
    found = explorer(data, {}, 12_000)
    assert found is not None
    assert len(found.packed) <= 12_000
    about, _ = unpack(found.packed)
    kept = [value for value, _ in about["values"]]
    assert 20 < len(kept) < 180
    assert f"Of 300 values the {len(kept)} with the largest estimates on average" in found.note
    means = np.mean([data.read(epoch).estimate for epoch in range(20)], axis=0)
    assert set(kept) == set(np.argsort(-means)[: len(kept)].tolist())
    assert explorer(data, {}, 500) is None


@pytest.mark.thorough
def test_the_page_holds_them_hidden_for_who_has_no_javascript(tmp_path: Path) -> None:
    output, truth = write_run(tmp_path, [Fake(k=3, epochs=2)])
    html = write_page(output, tmp_path / "page.html", truth).read_text("utf-8")
    assert '<div class="explorer" hidden>' in html
    assert "@media screen and (prefers-color-scheme: dark)" in html
    nothing, _ = write_run(tmp_path / "no", [Fake(k=3, epochs=2, insufficient=(0, 1))])
    assert 'class="explorer"' not in write_page(nothing, tmp_path / "no.html").read_text("utf-8")
