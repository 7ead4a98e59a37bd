"""What hostile input cannot do to a run: fill it with epochs, withhold one for little, end it by its name."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from click.testing import CliRunner

from ldpbeam.cli.main import cli
from ldpbeam.job.inputs import match_inputs, waits_on_disk
from ldpbeam.wire.report_pb2 import Report, ReportBatch
from tests.pipelines.running import collection, execute, frame

AGREED = collection("sue", 59, "bits", count=1000)
WIDTH = AGREED.protocol.device.payload_size
_draw = random.Random(3)


def batch(epoch: int, n: int) -> bytes:
    ids = [_draw.getrandbits(64) for _ in range(n)]
    payloads = bytes(n * WIDTH)
    message = ReportBatch(digest=AGREED.digest, epoch=epoch, count=n, report_ids=ids, payloads=payloads)
    return frame(message.SerializeToString())


def single(epoch: int, payload: bytes = bytes(WIDTH)) -> bytes:
    name = _draw.getrandbits(64)
    return frame(
        Report(digest=AGREED.digest, epoch=epoch, report_id=name, payload=payload).SerializeToString()
    )


@pytest.mark.cases(1)
@pytest.mark.parametrize("dedup", [True, False])
def test_epochs_beyond_the_cap_are_left_out(tmp_path: Path, dedup: bool) -> None:
    """Those with the fewest records go, whatever file they come from; each report of theirs is rejected."""
    twice = single(700)
    flood = b"".join(single(epoch) for epoch in range(100, 160)) + twice * 2 + single(701, b"x")
    name = os.fsencode(tmp_path) + b"/flood-\xff\x1b[2J.pb"
    Path(os.fsdecode(name)).write_bytes(flood)
    (tmp_path / "sound.pb").write_bytes(batch(3, 40) + batch(9, 30) + batch(3, 20) + batch(5, 2))
    inputs = match_inputs(str(tmp_path / "*.pb")).files
    done = execute(
        AGREED, list(map(Path, inputs)), tmp_path / "out", max_epochs=3, deduplicate=dedup, not_after=10**8
    )
    counted = {line["epoch"]: line["counted"] for line in done.record["accounting"]["epochs"]}
    # Two copies, or two records in an epoch: of equals the earliest stays.
    assert counted == {3: 60, 5: 2, 9: 30}
    left_out = 62
    assert done.total["rejected"] == {"too_many_epochs": left_out, "wrong_length": 1}
    assert done.total["duplicate"] == 0  # also a second copy is a report of an epoch that is left out
    rows = done.rejects()
    assert sum(row["count"] for row in rows) == left_out + 1
    assert {row["source"] for row in rows} == {"epochs of bits", f"{tmp_path}/flood-\\xff\x1b[2J.pb"}
    assert len(list((done.output / "estimates").iterdir())) == 3
    assert len(list((done.output / "accounting").iterdir())) == 3
    shown = CliRunner().invoke(cli, ["inspect", str(done.output / "rejects"), "--limit", "500"])
    assert shown.exit_code == 0, shown.output
    assert "\x1b" not in shown.output
    assert f"{tmp_path}/flood-\\xff\ufffd[2J.pb" in shown.output


@pytest.mark.thorough
def test_little_junk_withholds_nothing(tmp_path: Path) -> None:
    """A batch of one id, or of ids without payloads, weighs what it would as reports; all of it is booked."""
    same = ReportBatch(digest=AGREED.digest, epoch=3, count=5000, report_ids=[7] * 5000)
    bare = ReportBatch(digest=AGREED.digest, epoch=4, count=100, report_ids=range(100))
    junk = frame(same.SerializeToString()) + frame(bare.SerializeToString())
    (tmp_path / "in.pb").write_bytes(batch(3, 1000) + batch(4, 1000) + batch(5, 50) + single(5, b"x") + junk)
    done = execute(AGREED, [tmp_path / "in.pb"], tmp_path / "out")
    lines = {line["epoch"]: line for line in done.record["accounting"]["epochs"]}
    assert {e: line["rejected"] for e, line in lines.items()} == {
        3: {"wrong_length": 5000},
        4: {"wrong_length": 100},
        5: {"wrong_length": 1},
    }
    assert {e: line.get("repeated", 0) for e, line in lines.items()} == {3: 4999, 4: 50, 5: 0}
    assert {line["withheld"] for line in lines.values()} == {""}
    assert done.exit_code == 4


def test_links_to_nothing_are_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "sound.pb").write_bytes(single(1))
    (tmp_path / "gone.pb").symlink_to(tmp_path / "nowhere")
    for pattern in (tmp_path, tmp_path / "*.pb"):
        matched = match_inputs(str(pattern))
        assert [Path(path).name for path in matched.files] == ["gone.pb", "sound.pb"]
        assert matched.size == (tmp_path / "sound.pb").stat().st_size


def test_only_steps_that_share_a_disk_wait_on_it() -> None:
    assert waits_on_disk("FnApiRunner", "out")
    assert not waits_on_disk("FnApiRunner", "gs://bucket/out")
    assert not waits_on_disk("FlinkRunner", "out")
