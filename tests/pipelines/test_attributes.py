"""Several attributes from a collection file to published epochs and the page."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from ldpbeam.admission import ReportColumns
from ldpbeam.collection.file import load_collection
from ldpbeam.collection.values import Index
from ldpbeam.errors import Reason
from ldpbeam.protocols.part_estimator import part_estimators
from ldpbeam.simulators.deliver.simulate import simulate
from ldpbeam.simulators.fleet import Fleet
from ldpbeam.simulators.population.joint import joint_population
from ldpbeam.simulators.random_words import RandomWords
from tests.narrow import frequencies, present
from tests.pipelines.running import execute, write

DEVICES, EPOCHS = 400, 3

FILE = """\
name: people
attributes:
  - {{name: age, domain: {{size: 8}}}}
  - {{name: region, domain: {{labels: [north, south, "e<b>ast"]}}}}
  - {{name: hours, domain: {{range: {{max: 24, buckets: 5}}}}}}
allocation: {allocation}
{protocol}epsilon_longitudinal: 2.0
epsilon_first: 1.0
epoch: {{length: 1h}}
"""


@pytest.mark.parametrize(
    ("allocation", "protocol"), [("sample", "loloha"), ("split", "l_sue"), ("allomfree", "")]
)
@pytest.mark.thorough
def test_three_attributes_from_file_to_page(tmp_path: Path, allocation: str, protocol: str) -> None:
    file = tmp_path / "people.yaml"
    line = f"protocol: {protocol}\n" if protocol else ""
    file.write_text(FILE.format(allocation=allocation, protocol=line))
    agreed = load_collection(file)
    people = joint_population(
        "zipf:1.1",
        attributes=agreed.histograms,
        devices=DEVICES,
        epochs=EPOCHS,
        random_words=RandomWords(2),
    )
    simulate(agreed, people, tmp_path, seed=1, truth=True)
    width = agreed.protocol.device.payload_size
    done = execute(agreed, tmp_path / "reports", tmp_path / "out")
    assert done.exit_code == 0
    assert done.total["counted"] == DEVICES * EPOCHS

    # The slow reading: every response asked about every value, attribute by attribute.
    kind = agreed.protocol
    fleet = Fleet(agreed, DEVICES, 1)
    for epoch, values in enumerate(people.values()):
        support: Counter[tuple[int, int]] = Counter()
        behind: Counter[int] = Counter()
        for columns in fleet.batches(Index(values), epoch)[1]:
            for payload in columns.payloads:
                assert len(payload) == width
                response = kind.device.decode(payload.tobytes())
                told = enumerate(response) if allocation == "split" else [response]
                for j, one in told:
                    behind[j] += 1
                    for v in range(kind.parts[j].estimator.size):
                        support[j, v] += frequencies(kind.parts[j]).law.supports(one, v)
        rows = done.tables()[agreed.digest_hex, epoch].to_pylist()
        names = [name for name, _ in agreed.histograms]
        assert [(r["attribute"], r["value"]) for r in rows] == [
            (name, v) for name, domain in agreed.histograms for v in range(domain.size)
        ]
        assert [r["label"] for r in rows if r["attribute"] == "region"] == [
            "north",
            "south",
            "e<b>ast",
        ]
        for row in rows:
            j = names.index(row["attribute"])
            assert row["n"] == behind[j]
            assert row["support"] == support[j, row["value"]]
            s = present(part_estimators(kind)[j].support)
            expected = (row["support"] / row["n"] - float(s.other)) / float(s.gap)
            assert row["estimate"] == pytest.approx(expected, abs=1e-12)
        for name in names:
            whole = sum(r["consistent"] for r in rows if r["attribute"] == name)
            assert whole == pytest.approx(1.0)
        if allocation != "split":
            assert sum(behind.values()) == DEVICES


def test_damaged_reports_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "people.yaml"
    file.write_text(FILE.format(allocation="allomfree", protocol=""))
    agreed = load_collection(file)
    good = Fleet(agreed, 50, 1).report(Index(np.zeros((50, 3), np.int32)))
    payloads = good.payloads.copy()
    payloads[0, 0] = 3
    payloads[1, 1] = 255
    batches = [ReportColumns(good.digest, 0, good.report_ids, payloads)]
    write(tmp_path / "reports", agreed, batches)
    done = execute(agreed, tmp_path / "reports", tmp_path / "out")
    assert done.total["counted"] == 48
    assert done.total["rejected"] == {Reason.VALUE_OUT_OF_RANGE.value: 2}
