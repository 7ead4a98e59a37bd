"""Results in an object store: the same objects as files in a folder, and a record of the run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ldpbeam.accounting import Account
from ldpbeam.transforms.sinks.accounting import EpochAccounting
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
    from ldpbeam.collection.file import load_collection

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


@pytest.mark.thorough
def test_earlier_objects_of_a_run_go_and_others_stay(
    call: Call, agreed: Path, reports: Path, objects: dict[str, bytes]
) -> None:
    """What an earlier run of the collection left and this one has not written goes; another's is refused."""
    arguments = ["run", "--collection", agreed, "--input", reports, "--output", "mem://bucket/results"]
    assert call(*arguments)[0] == 0
    wanted = dict(objects)
    for name in list(objects):
        if "epoch-000001" in name:
            objects[name.replace("epoch-000001", "epoch-000007")] = b"old"
    objects["mem://bucket/results/estimates/mine.parquet"] = b"precious"
    assert call(*arguments)[0] == 0
    assert objects.pop("mem://bucket/results/estimates/mine.parquet") == b"precious"
    assert set(objects) == set(wanted)
    other = f"mem://bucket/results/estimates/other-{'0' * 16}-epoch-000000-r000.parquet"
    objects[other] = b"theirs"
    before = dict(objects)
    code, _, err = call(*arguments)
    assert code == 2
    assert f"results of other ({'0' * 16})" in err
    assert "[E-USAGE-OVERWRITE]" in err
    assert objects == before
    assert call(*arguments, "--overwrite")[0] == 0
    assert other not in objects


def test_a_run_that_fails_in_an_object_store_leaves_no_record(
    call: Call, agreed: Path, reports: Path, objects: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old record must not vouch for objects that have been replaced."""
    from ldpbeam.transforms.stages.publish import MakeConsistent

    arguments = ["run", "--collection", agreed, "--input", reports, "--output", "mem://bucket/results"]
    assert call(*arguments)[0] == 0
    assert "mem://bucket/results/run.json" in objects

    def fail(self: object, element: object) -> list[object]:
        raise ZeroDivisionError

    monkeypatch.setattr(MakeConsistent, "process", fail)
    assert call(*arguments)[0] == 6
    assert "mem://bucket/results/run.json" not in objects


def test_a_drained_job_leaves_its_record_in_the_object_store(
    call: Call, stream: list[object], objects: dict[str, bytes], tmp_path: Path
) -> None:
    """What the job itself would have written is put there by hand."""
    instants = ("2026-01-01T03:00:00Z", "2026-01-01T04:00:00Z", "2026-01-01T04:00:00Z")
    written = EpochAccounting("minutes", 1, "0" * 16, 3, *instants, True, Account(read=5, counted=5), ())
    objects[f"mem://bucket/results/{written.file_name}"] = json.dumps(written.as_record()).encode()
    with serving("JOB_STATE_DONE") as service:
        options = service.options(tmp_path / "staged")
        code, out, err = call(*stream, "--output", "mem://bucket/results", *options)
    assert (code, err) == (0, "")
    assert "read 5 = counted 5" in out
    assert json.loads(objects["mem://bucket/results/run.json"])["accounting"]["total"]["read"] == 5
