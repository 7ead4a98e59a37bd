"""The contract of ``ldpbeam run``: exit codes, one-line errors, and what lies in the output directory."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from pipelines import main as command
from pipelines.options import RunConfig, resolve_runner
from simulators.fleet import ReportColumns
from tests.conftest import REPOSITORY
from tests.pipelines.running import collection, execute, fleet, write

YAML = """\
name: {name}
version: 1
owner: telemetry@example.com
domain: {{size: 11}}
protocol: loloha
epsilon_longitudinal: 2.0
epsilon_first: 1.0
epoch: {{length: 1h, count: 100}}
min_reports: {least}
"""
COLUMNS = {
    "collection": pa.string(),
    "digest": pa.string(),
    "epoch": pa.int64(),
    "epoch_start": pa.timestamp("us", "UTC"),
    "revision": pa.int32(),
    "attribute": pa.string(),
    "value": pa.int64(),
    "label": pa.string(),
    "n": pa.int64(),
    "support": pa.int64(),
    "estimate": pa.float64(),
    "std_error": pa.float64(),
    "ci_low": pa.float64(),
    "ci_high": pa.float64(),
    "ci_low_all": pa.float64(),
    "ci_high_all": pa.float64(),
    "consistent": pa.float64(),
    "method": pa.string(),
    "pane": pa.string(),
    "status": pa.string(),
}
"""Scripts and the page depend on these names and types."""

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run the command line in this process: exit code, standard output, standard error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["ldpbeam", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            command.main()
        out, err = capsys.readouterr()
        return int(end.value.code or 0), out, err

    return run


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a collection file and 300 devices' reports of two epochs, the second one scarce."""
    base = tmp_path_factory.mktemp("site")
    (base / "minutes.yaml").write_text(YAML.format(name="minutes", least=100))
    (base / "other.yaml").write_text(YAML.format(name="other", least=1))
    for name in ("minutes", "other"):
        from ldp.collection_file import load_collection

        agreed = load_collection(base / f"{name}.yaml")
        first, *_, last = fleet(agreed, 300, 2)
        scarce = ReportColumns(1, last.report_ids[:40], last.payloads[:40])
        write(base / name, agreed, [first, scarce], prefix=name)
        write(base / "both", agreed, [first, scarce], prefix=name)
    return base


@pytest.fixture
def arguments(site: Path, tmp_path: Path) -> list[object]:
    return [
        "run", "--collection", site / "minutes.yaml", "--input", site / "minutes" / "*",
        "--output", tmp_path / "out",
    ]  # fmt: skip


def one_line(err: str, code: str) -> None:
    assert err.count("\n") == 1, err
    assert err.startswith("ldpbeam: ")
    assert err.endswith(f"[{code}]\n")
    assert "Traceback" not in err


def test_a_clean_run_ends_with_0_and_says_what_it_did(
    call: Call, site: Path, arguments: list[object], tmp_path: Path
) -> None:
    """Exit code 0, the books in a line, never a bare ε; the runner that ran is on record."""
    code, out, err = call(*arguments, "--runner", "DirectRunner")
    assert (code, err) == (0, "")
    assert "read 168 = counted 168 + late 0 + duplicate 0 + rejected 0" in out
    assert "first report ε ≤ 1, per memoised input ε ≤ 2" in out
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert (record["runner"], record["status"], record["exit_code"]) == ("FnApiRunner", "ok", 0)
    assert record["collections"][0]["name"] == "minutes"
    assert {"ldpbeam", "python", "apache_beam", "numpy", "numba"} <= set(record["versions"])
    assert record["timings"]["total_seconds"] > 0
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "accounting",
        "estimates",
        "rejects",
        "run.json",
    ]


def test_the_default_runner_is_named_explicitly() -> None:
    """What people type never reaches Beam's own switch, which would download a binary."""
    assert resolve_runner(None) == resolve_runner("DirectRunner") == "FnApiRunner"
    assert resolve_runner("FlinkRunner") == "FlinkRunner"
    assert RunConfig((collection(),), (), "out").runner == "FnApiRunner"


@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        (["--colection", "x"], "E-USAGE-OPTION", "Did you mean --collection?"),
        (["--direct_num_worker=2"], "E-USAGE-OPTION", "Did you mean --direct_num_workers?"),
        (["stray"], "E-USAGE-OPTION", "no option stray"),
        (["--direct_num_workers=two"], "E-USAGE-BEAM", "invalid int value"),
        (["--direct_running_mode=fast"], "E-USAGE-BEAM", "invalid choice"),
        (["--runner", "NoRunner"], "E-USAGE-BEAM", "Unexpected pipeline runner"),
    ],
)
def test_wrong_options_end_with_2(
    call: Call, arguments: list[object], tmp_path: Path, change: list[str], code: str, text: str
) -> None:
    """An option that nobody knows is refused in one line, before anything is touched."""
    (tmp_path / "out" / "estimates").mkdir(parents=True)
    (tmp_path / "out" / "estimates" / "old.parquet").touch()
    status, _, err = call(*arguments, *change)
    assert status == 2
    one_line(err, code)
    assert text in err
    assert (tmp_path / "out" / "estimates" / "old.parquet").exists()


def test_missing_things_end_with_2(call: Call, site: Path, arguments: list[object], tmp_path: Path) -> None:
    """No --collection, a collection given twice, no input, no --input at all."""
    code, _, err = call(*arguments[:1], *arguments[3:])
    assert code == 2
    one_line(err, "E-USAGE-COLLECTION")
    code, _, err = call(*arguments, "--collection", site / "minutes.yaml")
    assert code == 2
    one_line(err, "E-USAGE-COLLECTION")
    code, _, err = call(*arguments[:3], "--input", tmp_path / "*.pb", "--output", tmp_path / "out")
    assert code == 2
    one_line(err, "E-USAGE-INPUT")
    code, _, err = call("run", "--output", tmp_path)
    assert code == 2
    assert "--input" in err
    assert call("run", "--help")[0] == 0


@pytest.mark.parametrize("what", ["thesis.txt", "estimates/thesis.txt", "rejects/data/x"])
def test_a_foreign_output_is_left_alone(
    call: Call, arguments: list[object], tmp_path: Path, what: str
) -> None:
    """Nothing that a run has not written is ever deleted; exit code 2."""
    path = tmp_path / "out" / what
    path.parent.mkdir(parents=True)
    path.write_text("precious")
    code, _, err = call(*arguments)
    assert code == 2
    one_line(err, "E-USAGE-OUTPUT")
    assert path.read_text() == "precious"


def test_an_output_that_is_a_file_ends_with_2(call: Call, arguments: list[object], tmp_path: Path) -> None:
    """A file where the directory should be: one line, not a traceback."""
    (tmp_path / "out").write_text("x")
    code, _, err = call(*arguments)
    assert code == 2
    one_line(err, "E-USAGE-OUTPUT")


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("min_reports:", "min_report:", "bad.yaml:9"),
        ("epsilon_first: 1.0", "epsilon_first: 3.0", "epsilon_first"),
        ("protocol: loloha", "protocol: lolohaa", "protocol"),
        ("size: 11", "size: 1", "size must lie in 2 .."),
    ],
)
def test_a_bad_collection_ends_with_3(
    call: Call, site: Path, arguments: list[object], tmp_path: Path, old: str, new: str, text: str
) -> None:
    """The line names file, key, rule and remedy."""
    bad = tmp_path / "bad.yaml"
    bad.write_text((site / "minutes.yaml").read_text().replace(old, new))
    code, _, err = call("run", "--collection", bad, *arguments[3:])
    assert code == 3
    assert err.count("\n") == 1
    assert "bad.yaml" in err
    assert "[E-COLLECTION-" in err
    assert text in err
    assert not (tmp_path / "out").exists()


def test_an_internal_failure_ends_with_6(
    call: Call, arguments: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line with a code; where it comes from only when LDPBEAM_DEBUG=1."""
    from transforms.estimate import EstimateEpoch

    def fail(self: object, counted: object) -> list[object]:
        raise ZeroDivisionError("planted\nin two lines")

    monkeypatch.setattr(EstimateEpoch, "process", fail)
    monkeypatch.delenv("LDPBEAM_DEBUG", raising=False)
    code, _, err = call(*arguments)
    assert code == 6
    one_line(err, "E-INTERNAL")
    assert "planted" in err
    monkeypatch.setenv("LDPBEAM_DEBUG", "1")
    code, _, err = call(*arguments)
    assert code == 6
    assert "Traceback" in err
    assert err.endswith("[E-INTERNAL]\n")


def test_lost_reports_are_noticed(
    call: Call, arguments: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stage that drops reports unbalances the books: exit code 6 and no run.json."""
    from pipelines import collect

    class Loses(collect.WriteEpochs):
        def process(self, histogram: Any) -> Any:
            return list(super().process(histogram))[:1]

    monkeypatch.setattr(collect, "WriteEpochs", Loses)
    code, _, err = call(*arguments)
    assert code == 6
    one_line(err, "E-RUN-BOOKS")
    assert not (tmp_path / "out" / "run.json").exists()


def test_running_again_gives_the_same_files(call: Call, arguments: list[object], tmp_path: Path) -> None:
    """The same output directory twice: same estimates, nothing left over, the page of the old run gone."""
    out = tmp_path / "out"
    assert call(*arguments)[0] == 0
    before = {p.name: p.read_bytes() for p in (out / "estimates").iterdir()}
    (out / "index.html").write_text("old page")
    (out / "estimates" / "of-an-older-run.parquet").touch()
    assert call(*arguments)[0] == 0
    assert {p.name: p.read_bytes() for p in (out / "estimates").iterdir()} == before
    assert not (out / "index.html").exists()


def test_inputs_may_be_a_folder_and_lie_below_hidden_ones(
    call: Call, site: Path, arguments: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--input takes a folder, a relative path with dots, and a path through a hidden folder; hidden and
    unfinished files are passed over."""
    from pipelines.run import match_inputs

    folder = tmp_path / ".cache" / "in"
    folder.mkdir(parents=True)
    for path in (site / "minutes").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / ".hidden.pb").touch()
    (folder / "half.pb.tmp").touch()
    wanted = sorted(p.name for p in (site / "minutes").iterdir())
    monkeypatch.chdir(folder)
    for pattern in (str(folder), f"{folder}/", f"{folder}/*", "../in/*", "../../.cache/in", ".", "*", "*.*"):
        paths, size = match_inputs(pattern)
        assert [Path(p).name for p in paths] == wanted, pattern
        assert size == sum(Path(p).stat().st_size for p in paths)


@pytest.fixture(scope="session")
def output(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two collections in one run."""
    from ldp.collection_file import load_collection

    agreed = [load_collection(site / f"{name}.yaml") for name in ("minutes", "other")]
    return execute(agreed, site / "both", tmp_path_factory.mktemp("output")).output


def test_the_output_is_readable_with_pyarrow_alone(output: Path) -> None:
    """One data set over all files, the columns that are promised, in order."""
    held = ds.dataset(output / "estimates", format="parquet")
    table = held.to_table()
    assert {f.name: f.type for f in held.schema} == COLUMNS
    assert held.schema.names == list(COLUMNS)
    assert table.num_rows == 2 * 2 * 11
    assert set(table.column("collection").to_pylist()) == {"minutes", "other"}
    assert sorted(set(table.column("epoch").to_pylist())) == [0, 1]


def test_the_collection_and_its_levels_are_in_the_metadata(output: Path) -> None:
    """A file on its own says what it is about and what it cost."""
    for path in (output / "estimates").iterdir():
        metadata = ds.dataset(path).schema.metadata
        about = json.loads(metadata[b"ldpbeam.collection"])
        assert path.name.startswith(f"{about['name']}-{about['digest']}-epoch-")
        assert about["parameters"]["epsilon_longitudinal"] == 2.0
        assert 0.99 < float(metadata[b"ldpbeam.epsilon_first_report"]) <= 1.0
        assert 1.99 < float(metadata[b"ldpbeam.epsilon_per_memoised_input"]) <= 2.0


def test_hashes_in_the_record_are_the_files(output: Path) -> None:
    """run.json lists every file with its size and SHA-256, and no other."""
    record = json.loads((output / "run.json").read_text())
    listed = {f["path"]: f for f in record["files"]}
    found = [p for part in ("accounting", "estimates", "rejects") for p in (output / part).iterdir()]
    assert sorted(listed) == sorted(p.relative_to(output).as_posix() for p in found)
    for path in found:
        line, data = listed[path.relative_to(output).as_posix()], path.read_bytes()
        assert (line["bytes"], line["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())


def test_scarce_epochs_are_withheld(output: Path) -> None:
    """Below min_reports there are no estimates, only counts and a status; the other collection has them."""
    rows = ds.dataset(output / "estimates").to_table().to_pylist()
    numbers = ("estimate", "std_error", "ci_low", "ci_high", "ci_low_all", "ci_high_all", "consistent")
    for row in rows:
        withheld = row["collection"] == "minutes" and row["epoch"] == 1
        assert row["n"] == (128, 40)[row["epoch"]]
        assert row["status"] == ("insufficient_reports" if withheld else "ok")
        assert all((row[name] is None) == withheld for name in numbers)


def test_the_command_line_imports_nothing_heavy() -> None:
    """--help answers at once: Beam, numba, scipy and pyarrow stay out until a command needs them."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import pipelines.main;"
        "print(*sorted({m.partition('.')[0] for m in sys.modules}), *sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(REPOSITORY)], capture_output=True, text=True, check=True
    )
    heavy = {"apache_beam", "numba", "scipy", "pyarrow", "numpy", "yaml", "jinja2", "altair"}
    heavy |= {"google.protobuf", "google.cloud.pubsub_v1"}  # google itself is a namespace that pip makes
    assert heavy & set(done.stdout.split()) == set()
