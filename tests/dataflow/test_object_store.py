"""Results in an object store: the same objects as files in a folder, and a record of the run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dataflow.conftest import YAML, Call
from tests.dataflow.service import serving
from tests.dataflow.store import ObjectStore
from tests.pipelines.running import fleet, write


@pytest.fixture
def objects() -> Iterator[dict[str, bytes]]:
    ObjectStore.objects.clear()
    yield ObjectStore.objects
    ObjectStore.objects.clear()


@pytest.fixture
def reports(agreed: Path, tmp_path: Path) -> Path:
    from ldp.collection_file import load_collection

    assert agreed.read_text() == YAML
    return write(tmp_path / "reports", load_collection(agreed), fleet(load_collection(agreed), 120, 2))


@pytest.mark.parametrize("streaming", [[], ["--streaming", "--job", "a"]], ids=["batch", "stream"])
def test_a_run_writes_the_same_into_an_object_store(
    call: Call, agreed: Path, reports: Path, objects: dict[str, bytes], tmp_path: Path, streaming: list[str]
) -> None:
    arguments = ["run", "--collection", agreed, "--input", reports, *streaming, "--output"]
    assert call(*arguments, tmp_path / "out")[0] == 0
    code, out, err = call(*arguments, "mem://bucket/results/")
    assert (code, err) == (0, "")
    assert "estimates in mem://bucket/results/estimates after" in out
    local = {p.relative_to(tmp_path / "out").as_posix(): p for p in (tmp_path / "out").rglob("*.*")}
    stored = {name.removeprefix("mem://bucket/results/"): content for name, content in objects.items()}
    assert set(stored) == set(local)
    for name, content in stored.items():
        if name.endswith(".parquet"):
            assert content == local[name].read_bytes(), name
    record = json.loads(stored["run.json"])
    assert record["accounting"]["total"]["counted"] == 240
    beside = json.loads(local["run.json"].read_bytes())
    assert [entry["path"] for entry in record["files"]] == [entry["path"] for entry in beside["files"]]


def test_a_drained_job_leaves_its_record_in_the_object_store(
    call: Call, stream: list[object], objects: dict[str, bytes], tmp_path: Path
) -> None:
    """What the job itself would have written is put there by hand."""
    line = {"read": 5, "counted": 5, "late": 0, "duplicate": 0, "rejected": {}, "pending": 0}
    books = {"digest": "0" * 16, "epoch": 3, "accounting": line, "revisions": []}
    objects["mem://bucket/results/accounting/minutes-epoch-000003.json"] = json.dumps(books).encode()
    with serving("JOB_STATE_DONE") as service:
        options = service.options(tmp_path / "staged")
        code, out, err = call(*stream, "--output", "mem://bucket/results", *options)
    assert (code, err) == (0, "")
    assert "read 5 = counted 5" in out
    assert json.loads(objects["mem://bucket/results/run.json"])["accounting"]["total"]["read"] == 5
