"""Results in an object store: the same objects as files in a folder, and a record of the run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ldpbeam.job.matching import match_path
from tests.dataflow.conftest import YAML, Call
from tests.pipelines.running import fleet, write


@pytest.fixture
def reports(agreed: Path, tmp_path: Path) -> Path:
    from ldpbeam.collection.file import load_collection

    assert agreed.read_text() == YAML
    return write(tmp_path / "reports", load_collection(agreed), fleet(load_collection(agreed), 120, 2))


@pytest.mark.thorough
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
def test_a_run_that_fails_in_an_object_store_leaves_no_record(
    call: Call, agreed: Path, reports: Path, objects: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old record must not vouch for objects that have been replaced."""
    from ldpbeam.transforms.stages.estimate import EstimateEpochs

    arguments = ["run", "--collection", agreed, "--input", reports, "--output", "mem://bucket/results"]
    assert call(*arguments)[0] == 0
    assert "mem://bucket/results/run.json" in objects

    def fail(self: object, element: object) -> list[object]:
        raise ZeroDivisionError

    monkeypatch.setattr(EstimateEpochs, "process", fail)
    assert call(*arguments)[0] == 6
    assert "mem://bucket/results/run.json" not in objects


def test_objects_are_found_by_path_folder_and_pattern(reports: Path, objects: dict[str, bytes]) -> None:
    """What exists is no pattern here either; of a folder its objects and partitions are taken."""
    names = ["in[1]/a.pb", "in[1]/_SUCCESS", "in[1]/epoch=3/b.pb", "in[1]/more/c.pb", "in[1]/_temporary/d.pb"]
    names += ["in1/a.pb", "in1/b.pb.tmp", "[x].pb"]
    objects.update({f"mem://bucket/{name}": b"x" for name in names})

    def found(pattern: str) -> list[str]:
        return [path.removeprefix("mem://bucket/") for path in match_path(f"mem://bucket/{pattern}").files]

    assert found("in[1]/a.pb") == ["in[1]/a.pb"]
    assert found("[x].pb") == ["[x].pb"]
    assert found("in1") == found("in1/") == ["in1/a.pb"]
    assert found("in?/*") == ["in1/a.pb"]
    assert found("in*/*.pb") == ["in1/a.pb", "in[1]/a.pb"]
    assert found("in[1]") == ["in[1]/a.pb", "in[1]/epoch=3/b.pb"]
    assert found("in?1]/**") == ["in[1]/a.pb", "in[1]/epoch=3/b.pb", "in[1]/more/c.pb"]
    assert found("in1/b.pb.tmp") == ["in1/b.pb.tmp"]
    assert found("nothing") == []
    matched = match_path("mem://bucket/in1")
    assert matched.passed_over == ("mem://bucket/in1/b.pb.tmp",)
    objects.update({f"mem://bucket/set/{name}": b"xy" for name in ("epoch=3/a.pb", "more/b.pb", ".x/c", "a")})
    matched = match_path("mem://bucket/set")
    assert matched.files == ("mem://bucket/set/a", "mem://bucket/set/epoch=3/a.pb")
    assert matched.size == 4
    assert matched.folders == ("mem://bucket/set/more/",)
    assert matched.passed_over == ("mem://bucket/set/.x/c",)
