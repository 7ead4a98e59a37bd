"""Forged reports through a whole run: books, indicators and page say what was planted."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ldpbeam.admission import ReportColumns
from ldpbeam.indicators import FALSE_ALARM
from tests.pipelines.running import Done, collection, execute, fleet, write

AGREED = collection("olh", 100)
SENT = fleet(AGREED, 20_000, 2)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Done:
    assert AGREED.protocol.device.payload_size == 2
    base = tmp_path_factory.mktemp("planted")
    first = SENT[0]
    crude = ReportColumns(
        AGREED.digest, 0, np.arange(1, 401, dtype=np.uint64), np.tile(np.array([[9, 0]], np.uint8), (400, 1))
    )
    again = ReportColumns(first.digest, 0, first.report_ids[:30], first.payloads[:30])
    others = first.payloads[50:55] ^ np.array([[1, 0]], np.uint8)
    conflict = ReportColumns(first.digest, 0, first.report_ids[50:55], others)
    write(base / "in", AGREED, [*SENT, crude, again, conflict, conflict])
    return execute(AGREED, base / "in", base / "out", shard_bits=2)


def test_run_json_names_the_epoch_and_nothing_else(planted: Done) -> None:
    found = planted.record["indicators"]
    assert found["false_alarm_rate"] == FALSE_ALARM
    assert found["results"] == 2
    assert {(one["epoch"], one["indicator"]) for one in found["alarms"]} == {(0, "seeds"), (0, "conflicts")}
    assert all(one["digest"] == AGREED.digest_hex and one["meaning"] for one in found["alarms"])
    for path in (planted.output / "accounting").iterdir():
        books = json.loads(path.read_text())
        (revision,) = books["revisions"]
        raised = {one["indicator"] for one in revision["indicators"] if one["alarm"]}
        assert raised == ({"seeds", "conflicts"} if books["epoch"] == 0 else set())
        assert {one["indicator"] for one in revision["indicators"]} == {
            "seeds",
            "support_sum",
            "range",
            "conflicts",
        }
    (leverage,) = planted.record["collections"][0]["leverage"]
    assert leverage["attribute"] == ""
    assert 2 < leverage["one_value"] < 4
