"""The public names: where they come from, what they take, and what they refuse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ldpbeam
from ldpbeam import __main__ as start
from ldpbeam.admission import ReportColumns
from ldpbeam.collection.collection import Collection
from ldpbeam.epoch_result import result_of_epoch
from ldpbeam.tables import estimates_schema
from ldpbeam.wire import report_pb2
from tests.conftest import REPOSITORY
from tests.narrow import present

FILES = sorted((REPOSITORY / "examples").glob("*.yaml"))


@pytest.fixture(scope="module")
def agreed() -> Collection:
    return ldpbeam.load_collection(REPOSITORY / "examples" / "first_choice.yaml")


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Simulate'"):
        _ = ldpbeam.Simulate


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_every_example_from_values_to_a_table(path: Path) -> None:
    collection = ldpbeam.load_collection(path)
    attributes = len(collection.histograms)
    values = np.random.default_rng(1).integers(0, 2, (1500, attributes) if attributes > 1 else 1500)
    table = ldpbeam.estimate(
        collection, ldpbeam.Fleet(collection, 1500, seed=2).report(ldpbeam.Index(values), epoch=3)
    )
    assert table.schema.equals(estimates_schema(collection), check_metadata=True)
    assert set(table["epoch"].to_pylist()) == {3}
    assert table.num_rows == sum(part.estimator.size for part in collection.protocol.parts)


def test_absent_devices_send_nothing(agreed: Collection) -> None:
    assert len(ldpbeam.simulate(agreed, ldpbeam.Index([0, -1, 2, -1]))) == 2
    nobody = ldpbeam.simulate(agreed, ldpbeam.Index(np.full(3, -1)))
    assert nobody.payloads.shape == (0, agreed.protocol.device.payload_size)
    assert ldpbeam.estimate(agreed, nobody)["status"].to_pylist() == ["insufficient_reports"] * 4


@pytest.mark.parametrize("values", [[0.5, 1.0], [b"red"], np.array([1], np.uint64), [1], [-1], ["a"]])
def test_values_are_labels_where_there_are_labels(agreed: Collection, values: Any) -> None:
    with pytest.raises(ldpbeam.LdpError, match=r"device 0.*None stands for an absent device.*E-DEVICE-VALUE"):
        ldpbeam.simulate(agreed, values)


@pytest.mark.parametrize("values", [[4], [-2], [2**32], [[0, 1]], np.zeros(0, int), [0.5], ["red"], [True]])
def test_indices_lie_in_the_domain(agreed: Collection, values: Any) -> None:
    with pytest.raises(ValueError, match=r"value|devices|integers|an index of this domain"):
        ldpbeam.simulate(agreed, ldpbeam.Index(values))


def test_reports_of_devices_and_of_a_simulation_are_admitted(agreed: Collection) -> None:
    other = ldpbeam.load_collection(REPOSITORY / "examples" / "minutes_in_app.yaml")
    simulated = ldpbeam.Fleet(agreed, 2).report(["red", "green"], epoch=1)
    batch = report_pb2.ReportBatch(
        digest=agreed.digest,
        epoch=1,
        count=2,
        report_ids=simulated.report_ids.tolist(),
        payloads=simulated.payloads.tobytes(),
    ).SerializeToString()
    devices = [
        present(ldpbeam.Device.ephemeral(collection).report(ldpbeam.Index(2), epoch=1))
        for collection in (agreed, other)
    ]
    both = ldpbeam.admit([agreed, other], [batch, *devices])
    assert sum(len(columns) for columns in both.admitted if columns.digest == agreed.digest) == 3
    assert sum(len(columns) for columns in both.admitted if columns.digest == other.digest) == 1
    alone = ldpbeam.admit(agreed, iter([batch, *devices]))
    assert [rejection.reason.value for rejection in alone.rejections] == ["unknown_collection"]
    assert ldpbeam.admit(agreed, []).admitted == []


def test_several_epochs_make_one_table_in_their_order(agreed: Collection) -> None:
    asked = ((5, 1), (2, 2), (5, 3))
    parts = [ldpbeam.Fleet(agreed, 600, seed).report(["green"] * 600, epoch) for epoch, seed in asked]
    table = ldpbeam.estimate(agreed, parts)
    assert table["epoch"].to_pylist() == [2] * 4 + [5] * 4
    assert table["n"].to_pylist() == [600] * 4 + [1200] * 4
    again = result_of_epoch(agreed, 5, [parts[2], parts[0]])
    assert table["support"].to_pylist()[4:] == again.attributes[0].support.tolist()
    assert ldpbeam.estimate(agreed, []).num_rows == 0


def test_repeats_count_once_unless_asked_otherwise(agreed: Collection) -> None:
    reports = ldpbeam.simulate(agreed, ["green"] * 600)
    assert ldpbeam.estimate(agreed, [reports, reports])["n"][0].as_py() == 600
    assert ldpbeam.estimate(agreed, [reports, reports], deduplicate=False)["n"][0].as_py() == 1200


def test_reports_of_another_collection_are_refused(agreed: Collection) -> None:
    foreign = ReportColumns(1, 0, np.zeros(1, np.uint64), np.zeros((1, 1), np.uint8))
    with pytest.raises(ldpbeam.LdpError, match="do not belong to collection 'first_choice'") as error:
        ldpbeam.estimate(agreed, foreign)
    assert error.value.code == "E-ESTIMATE-REPORTS"


def test_a_folder_by_its_own_name_says_under_which_name_it_is_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import transforms"],
        cwd=REPOSITORY, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr.splitlines()[-1].endswith("part of the package ldpbeam: import ldpbeam.transforms.")


def test_a_checkout_whose_links_are_plain_files_says_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(start, "__file__", str(tmp_path / "__main__.py"))
    (tmp_path / "transforms").write_text("../transforms")
    with pytest.raises(SystemExit):
        start.main()
    assert capsys.readouterr().err.endswith("or pip install ldpbeam. [E-USAGE-CHECKOUT]\n")
