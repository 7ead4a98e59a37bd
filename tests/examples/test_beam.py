"""The pipelines of examples/beam/ run, and give what their collection's devices sent."""

from __future__ import annotations

import base64
import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow.parquet as pq
import pytest
from apache_beam.yaml.yaml_provider import PypiExpansionService

import ldpbeam
from ldpbeam.admission import ReportColumns, batch_message
from ldpbeam.simulators.deliver.files import report_file, write_reports
from tests.conftest import REPOSITORY
from tests.narrow import present
from tests.repository.package import environment, sources

COLLECTION = REPOSITORY / "examples" / "first_choice.yaml"
LOCKED = ("--require-hashes", "-r", REPOSITORY / "requirements" / "user.txt")


@pytest.fixture(scope="module")
def sent() -> ReportColumns:
    agreed = ldpbeam.load_collection(COLLECTION)
    values = np.random.default_rng(7).choice(present(present(agreed.domain).labels), size=5_000)
    return ldpbeam.simulate(agreed, list(values), seed=7)


def example(
    *arguments: object, folder: Path = REPOSITORY, interpreter: str | Path = sys.executable, **settings: str
) -> str:
    command = [str(interpreter), *map(str, arguments)]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | settings, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def program(capsys: pytest.CaptureFixture[str], name: str, *arguments: object) -> str:
    """What an example prints, run as a program in this process, which has imported Beam."""
    path = REPOSITORY / "examples" / "beam" / name
    capsys.readouterr()
    with mock.patch.object(sys, "argv", [str(path), *map(str, arguments)]):
        runpy.run_path(str(path), run_name="__main__")
    return capsys.readouterr().out


@pytest.mark.thorough
def test_files(sent: ReportColumns, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = report_file(tmp_path, 0, "batch", "none")
    write_reports("batch", path, [sent])
    (tmp_path / "junk.pb").write_bytes(b"junk")
    options = ("--collection", COLLECTION, "--input", f"{tmp_path}/*.pb", "--output", tmp_path / "out")
    printed = program(capsys, "files.py", *options)
    assert "reports_admitted 5000" in printed.splitlines()
    (table,) = tmp_path.glob("out-frequencies*")
    found = pq.read_table(table)
    wanted = ldpbeam.estimate(ldpbeam.load_collection(COLLECTION), sent)
    assert found.select(wanted.column_names).sort_by("value").to_pylist() == wanted.to_pylist()
    others = found.drop_columns(wanted.column_names)
    assert {number for column in others.to_pydict().values() for number in column} <= {None}
    lines = "".join(one.read_text() for one in tmp_path.glob("out-rejected*")).splitlines()
    assert [json.loads(line)["source"] for line in lines] == [f"{tmp_path}/junk.pb"]


@pytest.mark.thorough
def test_stream(capsys: pytest.CaptureFixture[str]) -> None:
    lines = program(capsys, "stream.py", "--collection", COLLECTION).splitlines()
    found = Counter(tuple(line.split()[:2]) for line in lines)
    # Both parts that came early are in one provisional result: it is due half an hour after the start.
    assert found == {("0", "early"): 4, ("1", "on_time"): 4, ("2", "late"): 4}
    reports = {line.split()[-2] for line in lines if line.split()[1] == "late"}
    assert reports == {"900"}


def yaml_gives(
    sent: ReportColumns, pipeline: Path, work: Path, *, folder: Path = REPOSITORY, **settings: str
) -> None:
    """Run the pipeline by Beam's own program, and compare its outputs."""
    lines = [batch_message(sent), b"junk"]
    (work / "in.txt").write_bytes(b"\n".join(map(base64.b64encode, lines)))
    names = {"collection": str(COLLECTION), "input": f"{work}/in.txt", "output": f"{work}/out"}
    example(
        "-m",
        "apache_beam.yaml.main",
        f"--yaml_pipeline_file={pipeline}",
        f"--jinja_variables={json.dumps(names)}",
        "--runner=FnApiRunner",
        folder=folder,
        **settings,
    )
    rows = [json.loads(line) for path in work.glob("out-freq*") for line in path.read_text().splitlines()]
    wanted = ldpbeam.estimate(ldpbeam.load_collection(COLLECTION), sent).to_pylist()
    assert len(rows) == len(wanted)
    for row, one in zip(sorted(rows, key=lambda row: -row["n"]), wanted, strict=True):
        (same,) = [other for other in rows if other["label"] == one["label"]]
        assert same["n"] == one["n"] == row["n"]
        for name in ("estimate", "ci_low", "ci_high"):
            assert same[name] == pytest.approx(one[name], abs=1e-9)  # what is written has ten digits
    rejected = [line for path in work.glob("out-rej*") for line in path.read_text().splitlines()]
    assert [json.loads(line)["reason"] for line in rejected] == ["malformed"]


def with_beam(base_python: str, packages: list[str]) -> str:
    """An environment with Beam, where Beam would make one of 160 packages by pip, which takes minutes."""
    path = Path(PypiExpansionService._path(base_python, packages))
    path.parent.mkdir(parents=True)
    programs = environment(path, LOCKED)
    example("-m", "ensurepip", "--default-pip", interpreter=programs / "python")
    return str(path)


@pytest.mark.thorough
def test_yaml_with_the_wheel(sent: ReportColumns, tmp_path: Path) -> None:
    """With the transform in an environment that Beam makes, by pip, from the wheel."""
    sources(tmp_path / "source")
    wheel = ("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path)
    example("-m", "pip", *wheel, tmp_path / "source")
    (built,) = tmp_path.glob("*.whl")
    text = (REPOSITORY / "examples" / "beam" / "frequencies.yaml").read_text()
    before, found, after = text.partition("type: python\n    config: {}\n")
    assert found
    packages = json.dumps([f"{built}[pipeline]"])
    pipeline = tmp_path / "package.yaml"
    pipeline.write_text(f"{before}type: pythonPackage\n    config: {{packages: {packages}}}\n{after}")
    cache = example("-m", "pip", "cache", "dir").strip()
    # A short home: behind a long one Beam installs into the wrong one of its environments. And outside the
    # checkout, whose package would come before the one of the wheel.
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="beam") as home:
        environments = Path(home) / ".apache_beam" / "cache" / "venvs"
        with (
            mock.patch.object(PypiExpansionService, "VENV_CACHE", str(environments)),
            mock.patch.object(PypiExpansionService, "_create_venv_from_scratch", with_beam),
        ):
            first = PypiExpansionService._create_venv_to_clone(sys.executable)
        yaml_gives(sent, pipeline, tmp_path, folder=Path(home), HOME=home, PIP_CACHE_DIR=cache)
        installed = environments.glob("*/lib/python*/site-packages/ldpbeam")
        assert len(list(installed)) == 1
        # Had Beam not found the first, it would have made one more.
        assert len([path for path in environments.iterdir() if path.is_dir()]) == 2
        assert not list(Path(first).glob("lib/python*/site-packages/ldpbeam"))
